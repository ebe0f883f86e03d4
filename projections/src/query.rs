//! What typed queries share: keys of a stream, and the errors they answer with.

use cognilog_core::event::EventView;
use cognilog_storage::StoreError;

use crate::row::RowError;

/// A key of a stream-scoped projection.
#[must_use]
pub fn stream_key(stream_number: u64, key: &[u8]) -> Vec<u8> {
    [&stream_number.to_be_bytes()[..], key].concat()
}

/// When an event that a row tells of happened.
pub(crate) trait EventTime {
    /// In microseconds since 1970; an amended event without a readable time of its own keeps the `earlier` one.
    fn time_after(&self, earlier: Option<i64>) -> i64;
}

impl EventTime for EventView<'_> {
    fn time_after(&self, earlier: Option<i64>) -> i64 {
        match (self.envelope.occurred_at, earlier) {
            (None, Some(earlier)) => earlier,
            _ => self.envelope.time().0,
        }
    }
}

/// A query that cannot be answered.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The store cannot answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A row cannot be read.
    #[error(transparent)]
    Row(#[from] RowError),
}
