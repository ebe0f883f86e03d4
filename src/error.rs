//! What can go wrong in the library, with a stable code and a hint of what to do.

use std::path::PathBuf;

use cognilog_core::id::NameError;
use cognilog_core::time::ZoneError;
use cognilog_projections::QueryError;
use cognilog_projections::json_file::ExportError;
use cognilog_storage::StoreError;

use crate::model::ModelError;

/// An operation that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed or refused.
    #[error(transparent)]
    Store(StoreError),
    /// A projection row cannot be read.
    #[error(transparent)]
    Row(#[from] cognilog_projections::RowError),
    /// A stored event cannot be printed.
    #[error("a stored event cannot be printed: {0}")]
    Print(cognilog_core::json::JsonError),
    /// There is no such trace.
    #[error("no trace is named {trace:?}")]
    NoSuchTrace {
        /// The name.
        trace: String,
    },
    /// An event that is to be appended is not valid.
    #[error("event {index}: {reason}")]
    InvalidEvent {
        /// Which of the append, from 0.
        index: usize,
        /// The field and what is wrong.
        reason: String,
    },
    /// A name that breaks its rule.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A time zone that is not known.
    #[error(transparent)]
    Zone(#[from] ZoneError),
    /// A trace that is to be started and was not finished.
    #[error("trace {trace:?} is running")]
    TraceRunning {
        /// The trace.
        trace: String,
    },
    /// A trace without messages, about which a model has nothing to go by.
    #[error("trace {trace:?} has no messages")]
    NoMessages {
        /// The trace.
        trace: String,
    },
    /// A side branch that is asked for while another one is under way.
    #[error("side branch {branch_id} ({branch_type}) is under way")]
    SideBranchOpen {
        /// The one that is under way.
        branch_id: String,
        /// knowledge_eval, reflection or compression.
        branch_type: String,
    },
    /// A reply to a side branch that does not wait for it.
    #[error("side branch {branch_id} does not wait for the reply to try {attempt}: it was answered or given up")]
    SideBranchGone {
        /// The branch.
        branch_id: String,
        /// The try.
        attempt: u32,
    },
    /// The knowledge hub could not be asked.
    #[error("the knowledge hub could not be asked: {message}")]
    KnowledgeSource {
        /// What it said.
        message: String,
    },
    /// A model was asked and gave no reply.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A prompt's template that cannot be used.
    #[error("the template of the {name} prompt{}: {reason}", line.map_or_else(String::new, |line| format!(", line {line}")))]
    Template {
        /// Which prompt.
        name: &'static str,
        /// The line of the template, from 1.
        line: Option<usize>,
        /// What is wrong with it.
        reason: String,
    },
    /// A decision on an extraction was refused.
    #[error(transparent)]
    Review(#[from] crate::review::ReviewRejection),
    /// Several traces have an extraction of the name.
    #[error("{extraction_id} is in several traces: {}", traces.join(", "))]
    AmbiguousExtraction {
        /// The name.
        extraction_id: String,
        /// The traces.
        traces: Vec<String>,
    },
    /// A sink cannot be used as it is set up.
    #[error("the hub: {reason}")]
    BadSink {
        /// What is wrong with it.
        reason: String,
    },
    /// A file or folder that cannot be read or written.
    #[error("{action} {path}: {message}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Store(error)
    }
}

impl From<QueryError> for Error {
    fn from(error: QueryError) -> Error {
        match error {
            QueryError::Store(error) => Error::Store(error),
            QueryError::Row(error) => Error::Row(error),
            error => Error::Store(StoreError::Database { message: error.to_string() }),
        }
    }
}

impl From<ExportError> for Error {
    fn from(error: ExportError) -> Error {
        match error {
            ExportError::Store(error) => Error::Store(error),
            ExportError::Json(error) => Error::Print(error),
            ExportError::NoSuchTrace { trace } => Error::NoSuchTrace { trace },
            error => Error::Store(StoreError::Database { message: error.to_string() }),
        }
    }
}

impl Error {
    /// A stable word for programs; `docs/errors.md` lists them.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Error::Store(error) => error.code(),
            Error::Row(_) => "data_damaged",
            Error::Print(_) => "data_damaged",
            Error::NoSuchTrace { .. } => "trace_not_found",
            Error::InvalidEvent { .. } => "event_invalid",
            Error::Name(_) => "bad_name",
            Error::Zone(_) => "bad_time_zone",
            Error::TraceRunning { .. } => "trace_running",
            Error::NoMessages { .. } => "no_messages",
            Error::SideBranchOpen { .. } => "side_branch_open",
            Error::SideBranchGone { .. } => "side_branch_gone",
            Error::KnowledgeSource { .. } => "knowledge_source_failed",
            Error::Model(error) => error.code(),
            Error::Template { .. } => "template_invalid",
            Error::Review(rejection) => rejection.code(),
            Error::AmbiguousExtraction { .. } => "extraction_ambiguous",
            Error::BadSink { .. } => "bad_sink",
            Error::Io { .. } => "io_error",
        }
    }

    /// What the reader can do about it, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        if let Error::Model(error) = self {
            return error.hint();
        }
        Some(match self.code() {
            "store_not_found" => "make one with `cognilog init` or `cognilog import PATH`, or name it with --store",
            "not_a_store" => "name another folder with --store, or restore this one from a backup",
            "format_unsupported" => {
                "open it with the build that wrote it: its `log --ndjson` prints an archive that `import` takes"
            }
            "store_locked" | "busy" => "try again, or wait longer with --wait",
            "conflict" => "look at the trace again and decide anew",
            "idempotency_conflict" => "use a new event id or key for new content",
            "outcome_unknown" => "send the same events again with the same event ids: a retry adds nothing",
            "writer_stopped" => "free space or repair the disk, then open the store again",
            "data_damaged" | "head_mismatch" => "run `cognilog verify` and restore what is damaged from a backup",
            "projection_stopped" | "stale_version" => "run `cognilog rebuild`",
            "is_backup" => "`cognilog restore DIR --to NEW` makes a store of it",
            "other_epoch" => "look again: a position of before the restore may mean another event now",
            "trace_running" => "resume it: its side branches and configuration are in the log",
            "no_messages" => "import them with `import --messages`, or ask all the same with --blind",
            "side_branch_open" => "answer it or give it up first",
            "side_branch_gone" => "ask for the next side branch",
            "template_invalid" => {
                "docs/workflows.md lists what a template may name; without an override the shipped one is used"
            }
            "trace_not_found" => "`cognilog traces` lists the traces of the store",
            "extraction_not_found" => "`cognilog pending extractions` lists those that wait",
            "extraction_ambiguous" => "name the trace with --trace",
            "review_conflict" => "look at it again and decide anew",
            "already_committed" => "a decision counts until the commit; change the record in the hub",
            "nothing_edited" => "approve it to take it as it is",
            "edited_to_empty" => "discard it to leave it",
            "not_approved" => "approve it first",
            "commit_in_progress" => "try again once the commit has ended",
            "no_reviewer" => "name yourself with --reviewer, $COGNILOG_REVIEWER or git's user.email",
            "needs_repair" => "let a writer open the store once: `cognilog verify` does",
            _ => return None,
        })
    }

    pub(crate) fn io(action: &'static str, path: &std::path::Path, error: &std::io::Error) -> Error {
        Error::Io { action, path: path.to_owned(), message: error.to_string() }
    }
}
