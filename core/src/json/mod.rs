//! JSON text as Python writes it.
