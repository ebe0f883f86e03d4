//! The folds of cognilog, their typed queries, and the JSON file formats of the Python system.

pub mod evaluation_status;
pub mod extraction_queue;
pub mod json_file;
mod projection;
pub mod query;
pub mod reflection_checkpoints;
mod row;
pub mod traces;

pub use projection::{Projection, folds, projections};
pub use query::QueryError;
pub use row::RowError;
