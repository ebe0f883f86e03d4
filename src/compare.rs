//! Comparing a folder's files with what the log would export for them.

use std::fmt;
use std::path::{Path, PathBuf};

use cognilog_core::TraceId;
use cognilog_core::json::{Node, equal};
use serde::Serialize;

use crate::engine::Engine;
use crate::error::Error;
use crate::import::{find_files, read_file, trace_of};

/// How a file stands to its export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result")]
#[non_exhaustive]
pub enum Comparison {
    /// The same bytes.
    Same,
    /// Equal JSON in other white space or spelling.
    EqualJson,
    /// Other content.
    Differs {
        /// The first byte that differs, from 0.
        at_byte: usize,
    },
    /// The log has no such trace.
    NotImported,
    /// The file cannot be read.
    Unreadable {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Comparison {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Comparison::Same => formatter.write_str("the same bytes"),
            Comparison::EqualJson => formatter.write_str("equal JSON in another spelling"),
            Comparison::Differs { at_byte } => write!(formatter, "differs from its export from byte {at_byte} on"),
            Comparison::NotImported => formatter.write_str("the log has no such trace"),
            Comparison::Unreadable { reason } => write!(formatter, "cannot be read: {reason}"),
        }
    }
}

/// A file and how it stands to its export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ComparedFile {
    /// The file.
    pub path: PathBuf,
    /// Its trace.
    pub trace_id: Option<String>,
    /// How it stands.
    #[serde(flatten)]
    pub result: Comparison,
}

impl Engine {
    /// Compares every log file beneath a folder, or one file, with its trace's export.
    ///
    /// # Errors
    /// The folder cannot be read, or the store fails.
    pub fn compare(&self, folder: &Path) -> Result<Vec<ComparedFile>, Error> {
        let mut compared = Vec::new();
        for path in find_files(folder)? {
            let (trace_id, result) = self.compare_file(&path)?;
            compared.push(ComparedFile { path, trace_id, result });
        }
        Ok(compared)
    }

    fn compare_file(&self, path: &Path) -> Result<(Option<String>, Comparison), Error> {
        let (text, file) = match read_file(path) {
            Ok(read) => read,
            Err(reason) => return Ok((None, Comparison::Unreadable { reason })),
        };
        let Some(name) = trace_of(path, &file) else {
            return Ok((None, Comparison::Unreadable { reason: "it names no trace".to_owned() }));
        };
        let trace = match TraceId::new(name.clone()) {
            Ok(trace) => trace,
            Err(error) => return Ok((None, Comparison::Unreadable { reason: error.to_string() })),
        };
        let ours = match self.export(&trace) {
            Ok(ours) => ours,
            Err(Error::NoSuchTrace { .. }) => return Ok((Some(name), Comparison::NotImported)),
            Err(error) => return Err(error),
        };
        if ours == text {
            return Ok((Some(name), Comparison::Same));
        }
        let (left, right) = (Node::parse(&ours), Node::parse(&text));
        let is_equal = matches!((&left, &right), (Ok(left), Ok(right)) if equal(left, right));
        let at_byte = ours.bytes().zip(text.bytes()).take_while(|(left, right)| left == right).count();
        Ok((Some(name), if is_equal { Comparison::EqualJson } else { Comparison::Differs { at_byte } }))
    }
}
