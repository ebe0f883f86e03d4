//! How a verb fails: exit code, stable error code, message and hint.

use std::io;
use std::path::Path;

use crate::output::{note, printable};

/// A failure of a verb.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: u8,
    code: String,
    message: String,
    hint: Option<String>,
    broken_pipe: bool,
}

impl Failure {
    pub(crate) fn new(exit: u8, code: &str, message: impl Into<String>) -> Failure {
        Failure { exit, code: code.to_owned(), message: message.into(), hint: None, broken_pipe: false }
    }

    /// Wrong use of the command line.
    pub(crate) fn usage(message: impl Into<String>) -> Failure {
        Failure::new(2, "usage", message)
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn io(action: &str, path: &Path, error: &io::Error) -> Failure {
        Failure::new(1, "io_error", format!("cannot {action} {}: {error}", path.display()))
    }

    /// Puts the place in front of the message.
    pub(crate) fn at(mut self, place: &str) -> Failure {
        self.message = format!("{place}: {}", self.message);
        self
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.broken_pipe
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn exit_code(&self) -> u8 {
        self.exit
    }

    /// Says on stderr what failed and what to do.
    pub(crate) fn report(&self, json: bool) {
        if json {
            let error = serde_json::json!({ "code": self.code, "message": self.message, "hint": self.hint });
            note(&serde_json::json!({ "error": error }).to_string());
            return;
        }
        note(&format!("error: {}", printable(&self.message, 4_000)));
        if let Some(hint) = &self.hint {
            note(&format!("hint: {}", printable(hint, 4_000)));
        }
    }
}

impl From<cognilog::Error> for Failure {
    fn from(error: cognilog::Error) -> Failure {
        let code = error.code();
        let exit = match code {
            "data_damaged" | "head_mismatch" | "event_unreadable" => 3,
            "busy"
            | "store_locked"
            | "conflict"
            | "idempotency_conflict"
            | "review_conflict"
            | "commit_in_progress"
            | "side_branch_open"
            | "side_branch_gone" => 4,
            "no_reviewer" | "bad_sink" => 2,
            _ => 1,
        };
        let mut failure = Failure::new(exit, code, error.to_string());
        failure.hint = error.hint().map(str::to_owned);
        if code == "io_error" {
            // The library names the action, the path and what the system said; here it becomes a sentence.
            failure.message.insert_str(0, "cannot ");
        }
        if code == "store_exists" {
            failure.hint = Some("use it as it is, or name another folder".to_owned());
        }
        failure
    }
}

impl From<cognilog::StoreError> for Failure {
    fn from(error: cognilog::StoreError) -> Failure {
        cognilog::Error::from(error).into()
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        let mut failure = Failure::new(1, "io_error", format!("writing the output: {error}"));
        failure.broken_pipe = error.kind() == io::ErrorKind::BrokenPipe;
        failure
    }
}
