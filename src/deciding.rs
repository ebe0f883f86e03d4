//! What the commands share that decide on extractions: the row, what a decision rests on, and what is being committed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use cognilog_core::event::EventKind;
use cognilog_core::{StreamId, TraceId};
use cognilog_projections::extraction_queue::{self, ExtractionRow};
use cognilog_projections::{QueryError, traces};
use cognilog_storage::{Condition, StoreError, View};

/// The extractions that a commit of this process is sending to the hub. Whoever decides on them meanwhile is refused, so
/// that what the hub gets is what the log says. Only the one writer looks at it and adds to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<Mutex<BTreeSet<(TraceId, String)>>>);

impl InFlight {
    pub(crate) fn contains(&self, trace: &TraceId, extraction_id: &str) -> bool {
        self.lock().contains(&(trace.clone(), extraction_id.to_owned()))
    }

    /// Marks an extraction; false when it is marked already.
    pub(crate) fn insert(&self, trace: &TraceId, extraction_id: &str) -> bool {
        self.lock().insert((trace.clone(), extraction_id.to_owned()))
    }

    pub(crate) fn remove(&self, trace: &TraceId, extraction_id: &str) {
        self.lock().remove(&(trace.clone(), extraction_id.to_owned()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<(TraceId, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An extraction with the number of its stream, if it was extracted.
pub(crate) fn find(
    view: &View<'_>,
    stream: &StreamId,
    extraction_id: &str,
) -> Result<Option<(u64, ExtractionRow)>, StoreError> {
    let Some(standing) = view.stream(stream)? else { return Ok(None) };
    let row = extraction_queue::extraction(view, standing.number, extraction_id).map_err(as_store_error)?;
    Ok(row.filter(|row| row.position > 0).map(|row| (standing.number, row)))
}

/// What a decision on an extraction rests on: that nothing about extractions came to its trace since.
pub(crate) fn unchanged(stream: StreamId, view: &View<'_>) -> Condition {
    let kinds = vec![
        EventKind::ExtractionPending,
        EventKind::ExtractionReviewed,
        EventKind::ExtractionCommitted,
        EventKind::EventAmended,
    ];
    Condition::NoneSince { stream, kinds, after: view.head() }
}

/// The place that a trace has come to (DESIGN section 5: "the trace's latest message sequence at that moment").
pub(crate) fn latest_sequence(view: &View<'_>, stream_number: u64) -> Result<i64, StoreError> {
    let counts = traces::counts(view, stream_number).map_err(as_store_error)?;
    Ok(counts.and_then(|counts| counts.latest_sequence).unwrap_or(0))
}

fn as_store_error(error: QueryError) -> StoreError {
    match error {
        QueryError::Store(error) => error,
        error => StoreError::Database { message: error.to_string() },
    }
}
