//! cognilog.
