//! What typed queries share: keys of a stream, and the errors they answer with.

use cognilog_storage::StoreError;

use crate::row::RowError;

/// A key of a stream-scoped projection.
#[must_use]
pub fn stream_key(stream_number: u64, key: &[u8]) -> Vec<u8> {
    [&stream_number.to_be_bytes()[..], key].concat()
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
