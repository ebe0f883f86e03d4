//! What can go wrong with a store, said with the place and what to do.

use std::path::PathBuf;

use cognilog_core::event::BodyError;
use cognilog_core::id::NameError;
use cognilog_core::{EventId, Position, StreamId};

/// An operation on a store that failed or was refused.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no store where one was expected.
    #[error("no store at {path}")]
    NotFound {
        /// Where one was looked for.
        path: PathBuf,
    },
    /// Something that is not a store, or not a whole one, stands at the path.
    #[error("{path} is not a usable store: {reason}")]
    NotAStore {
        /// The path.
        path: PathBuf,
        /// What is missing or wrong.
        reason: String,
    },
    /// The store was written in a format that this build does not open.
    #[error("{path} has format {found}, this build opens format {supported}")]
    Format {
        /// The store.
        path: PathBuf,
        /// Its format.
        found: String,
        /// What this build opens.
        supported: String,
    },
    /// A backup was to be opened for writing.
    #[error("{path} is a backup: it is read, and never written to")]
    IsBackup {
        /// The backup.
        path: PathBuf,
    },
    /// A store is there already.
    #[error("a store is already at {path}")]
    AlreadyExists {
        /// The path.
        path: PathBuf,
    },
    /// Another process holds the writer.
    #[error("another process writes to the store: {holder}")]
    Locked {
        /// The holder as its LOCK file tells: process id, host, since when.
        holder: String,
        /// The holder's process id, if its LOCK file can be read.
        pid: Option<u32>,
    },
    /// The file system refused.
    #[error("{action} {path}: {message}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
    /// The database refused.
    #[error("the log database: {message}")]
    Database {
        /// What it said.
        message: String,
    },
    /// What is stored is not what was written.
    #[error("damage at {place}: {reason}")]
    Damaged {
        /// Where: a position, a block, a row.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// The log does not hold what the `head` file says it held.
    #[error("the log is behind or beside its head file: {reason}")]
    HeadMismatch {
        /// What differs.
        reason: String,
    },
    /// What was handed in belongs to another epoch: the store was restored from a backup since, and a position of then
    /// may mean another event now.
    #[error("this is of epoch {found}, the store of epoch {expected}: it was restored from a backup in between")]
    OtherEpoch {
        /// The epoch of what was handed in.
        found: u64,
        /// The store's.
        expected: u64,
    },
    /// The queue is full; nothing was recorded.
    #[error("the writer's queue is full ({waiting} commands): try again")]
    Busy {
        /// Commands that were waiting.
        waiting: usize,
    },
    /// A condition of the append did not hold; nothing was recorded.
    #[error("condition {index} does not hold: {reason}")]
    Conflict {
        /// Which condition, from 0.
        index: usize,
        /// What was found.
        reason: String,
        /// The position that stands against it.
        position: Position,
    },
    /// The event id or key was used before, with other content; nothing was recorded.
    #[error("{what} was already used at position {position} with other content")]
    IdempotencyConflict {
        /// The id or key.
        what: String,
        /// Where it was used.
        position: Position,
    },
    /// The command was refused by its own rule; nothing was recorded.
    #[error("{message}")]
    Rejected {
        /// A stable word for programs.
        code: &'static str,
        /// Why, for people.
        message: String,
    },
    /// Over a limit; nothing was recorded.
    #[error("{what} of {found} is over the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// The commit failed: the events may or may not be on disk. Ask again with the same ids or key.
    #[error("the commit failed, its outcome is unknown: {reason}; retry with the same event ids or key after `resume`")]
    OutcomeUnknown {
        /// What the disk said.
        reason: String,
    },
    /// The writer stopped after a failure; nothing was recorded.
    #[error("the writer is stopped: {reason}; `resume` reopens the store")]
    WriterStopped {
        /// Why.
        reason: String,
    },
    /// The store was opened for reading only.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The store needs a repair that only a writer can do.
    #[error("the store was not closed cleanly and needs a writer to repair it")]
    NeedsRepair,
    /// A projection is being rebuilt; its rows are of an older version.
    #[error("projection `{name}` is being rebuilt ({done} of {total} events)")]
    StaleVersion {
        /// The projection.
        name: String,
        /// Events folded so far.
        done: u64,
        /// Events to fold.
        total: u64,
    },
    /// A projection stopped at an event it could not take.
    #[error("projection `{name}` stopped at position {position}: {message}")]
    ProjectionStopped {
        /// The projection.
        name: String,
        /// The event.
        position: Position,
        /// What happened.
        message: String,
    },
    /// No fold of that name is registered.
    #[error("no projection is named `{name}`")]
    NoSuchProjection {
        /// The name.
        name: String,
    },
    /// An event's bytes cannot be read.
    #[error("the event at position {position}: {error}")]
    Body {
        /// The event.
        position: Position,
        /// What is wrong.
        error: BodyError,
    },
    /// A name that breaks its rule.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl StoreError {
    /// A stable word for programs; `docs/errors.md` lists them.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            StoreError::NotFound { .. } => "store_not_found",
            StoreError::NotAStore { .. } => "not_a_store",
            StoreError::Format { .. } => "format_unsupported",
            StoreError::IsBackup { .. } => "is_backup",
            StoreError::AlreadyExists { .. } => "store_exists",
            StoreError::Locked { .. } => "store_locked",
            StoreError::Io { .. } => "io_error",
            StoreError::Database { .. } => "database_error",
            StoreError::Damaged { .. } => "data_damaged",
            StoreError::HeadMismatch { .. } => "head_mismatch",
            StoreError::OtherEpoch { .. } => "other_epoch",
            StoreError::Busy { .. } => "busy",
            StoreError::Conflict { .. } => "conflict",
            StoreError::IdempotencyConflict { .. } => "idempotency_conflict",
            StoreError::Rejected { code, .. } => code,
            StoreError::TooLarge { .. } => "too_large",
            StoreError::OutcomeUnknown { .. } => "outcome_unknown",
            StoreError::WriterStopped { .. } => "writer_stopped",
            StoreError::ReadOnly => "read_only",
            StoreError::NeedsRepair => "needs_repair",
            StoreError::StaleVersion { .. } => "stale_version",
            StoreError::ProjectionStopped { .. } => "projection_stopped",
            StoreError::NoSuchProjection { .. } => "no_such_projection",
            StoreError::Body { .. } => "event_unreadable",
            StoreError::Name(_) => "bad_name",
        }
    }

    pub(crate) fn damaged(place: impl Into<String>, reason: impl Into<String>) -> StoreError {
        StoreError::Damaged { place: place.into(), reason: reason.into() }
    }

    pub(crate) fn io(action: &'static str, path: &std::path::Path, error: &std::io::Error) -> StoreError {
        StoreError::Io { action, path: path.to_owned(), message: error.to_string() }
    }
}

macro_rules! from_redb {
    ($($error:ty),*) => { $(
        impl From<$error> for StoreError {
            fn from(error: $error) -> StoreError {
                let error = redb::Error::from(error);
                match error {
                    redb::Error::Corrupted(reason) => StoreError::damaged("the log database", reason),
                    redb::Error::RepairAborted => StoreError::NeedsRepair,
                    error => StoreError::Database { message: error.to_string() },
                }
            }
        }
    )* };
}

from_redb!(
    redb::StorageError,
    redb::TableError,
    redb::TransactionError,
    redb::CommitError,
    redb::DatabaseError,
    redb::SetDurabilityError
);

/// Runs what reads or writes the database. redb panics on some damaged files: whoever asked gets an error instead.
pub(crate) fn contained<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = crate::fold::panic_message(panic.as_ref());
        Err(StoreError::damaged("the log database", format!("reading or writing it panicked: {message}")))
    })
}

/// What an id was used for, in words for an error.
pub(crate) fn used_id(id: EventId, stream: &StreamId) -> String {
    format!("event id {id} ({stream})")
}
