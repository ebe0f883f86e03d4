//! What a projection is beside a fold: its keys and rows can be shown to people and programs.

use std::sync::Arc;

use cognilog_storage::{Fold, Folds};
use serde_json::Value;

use crate::evaluation_status::EvaluationStatusFold;
use crate::extraction_queue::ExtractionQueue;
use crate::reflection_checkpoints::ReflectionCheckpoints;
use crate::row::RowError;
use crate::traces::Traces;

/// A fold whose rows can be shown.
pub trait Projection: Fold {
    /// A row's key in words, such as `query@17`.
    fn show_key(&self, key: &[u8]) -> String;

    /// A row as JSON.
    ///
    /// # Errors
    /// The bytes are not a row of this projection.
    fn show_row(&self, key: &[u8], row: &[u8]) -> Result<Value, RowError>;
}

/// Every projection of this build.
#[must_use]
pub fn projections() -> Vec<Arc<dyn Projection>> {
    vec![Arc::new(Traces), Arc::new(EvaluationStatusFold), Arc::new(ExtractionQueue), Arc::new(ReflectionCheckpoints)]
}

/// The same as folds, for opening a store.
#[must_use]
pub fn folds() -> Folds {
    vec![Arc::new(Traces), Arc::new(EvaluationStatusFold), Arc::new(ExtractionQueue), Arc::new(ReflectionCheckpoints)]
}

pub(crate) fn to_value<T: serde::Serialize>(row: &T) -> Result<Value, RowError> {
    serde_json::to_value(row).map_err(|error| RowError { reason: error.to_string() })
}
