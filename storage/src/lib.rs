//! The log on redb.
