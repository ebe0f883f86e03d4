//! The follower that keeps `{folder}/{trace}/cognition_log.json` up to date for the old readers.
//!
//! Each file is written whole or not at all, at most once in a while, and only over what the follower itself wrote last
//! or what the log holds already: a file that somebody else changed is imported first, and on a fork left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Moment};

use cognilog_core::{Position, TraceId};
use cognilog_projections::json_file::Profile;
use cognilog_storage::Followed;
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::Error;
use crate::import::{FileOutcome, ImportOptions, read_text};
use crate::queries::At;

/// A file is written at most once in this time, or in this many times as long as it last took to write.
const INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL_TIMES_WRITE: u32 = 20;
/// Files are written together for this long at the most; then the follower rests this many times as long as it wrote, so
/// that appends keep the disk and the processor to themselves nine tenths of the time.
const BURST: Duration = Duration::from_millis(10);
const REST_TIMES_BURST: u32 = 9;
/// A file that could not be read or written is tried again after this time.
const RETRY: Duration = Duration::from_secs(10);
/// Where the follower keeps how far it has come.
const STATE: &str = ".cognilog-files.json";

/// What the follower did with one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FollowedFile {
    /// The file.
    pub path: PathBuf,
    /// The trace.
    pub trace_id: String,
    /// What was done.
    pub action: FileAction,
}

/// What the follower did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FileAction {
    /// The file was written.
    Written,
    /// Somebody else had added to the file: that was imported, then the file written.
    ImportedAndWritten {
        /// Events that were added to the log.
        added: usize,
    },
    /// The file went another way than the log and is left alone.
    Forked {
        /// The first event that differs, from 0.
        index: usize,
    },
    /// The file cannot be read or written; it is left alone.
    Failed {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for FollowedFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.action {
            FileAction::Written => write!(formatter, "wrote {path}"),
            FileAction::ImportedAndWritten { added } => {
                write!(formatter, "imported {added} events of {path}, wrote it")
            }
            FileAction::Forked { index } => write!(formatter, "left {path} alone: its event {index} is not the log's"),
            FileAction::Failed { reason } => write!(formatter, "left {path} alone: {reason}"),
        }
    }
}

/// How far the follower has come: every trace event up to the position is in its file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    epoch: u64,
    position: u64,
}

struct FileState {
    /// The text that was last written or seen equal.
    written: Option<String>,
    not_before: Moment,
    /// Why it could not be kept up to date the last time; it is tried again and named once.
    failed: Option<String>,
}

/// Keeps the files of a folder up to date. It works while [`JsonFiles::step`] is called.
pub struct JsonFiles<'e> {
    engine: &'e Engine,
    folder: PathBuf,
    next: Position,
    dirty: BTreeSet<String>,
    files: BTreeMap<String, FileState>,
    /// Until when no file is written, so that appends are not held up.
    rest_until: Moment,
    /// The trace whose file had its turn last.
    last_written: String,
}

impl Engine {
    /// A follower that writes the traces' files into a folder, going on from where the last one there stopped.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn json_files(&self, folder: &Path) -> Result<JsonFiles<'_>, Error> {
        std::fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, &error))?;
        let state = std::fs::read_to_string(folder.join(STATE)).ok();
        let state: State = state.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        // Positions of another epoch mean nothing here: everything is looked at again.
        let position = if state.epoch == self.store().epoch() { state.position } else { 0 };
        Ok(JsonFiles {
            engine: self,
            folder: folder.to_owned(),
            next: Position(position.min(self.snapshot()?.head().0)),
            dirty: BTreeSet::new(),
            files: BTreeMap::new(),
            rest_until: Moment::now(),
            last_written: String::new(),
        })
    }
}

impl JsonFiles<'_> {
    /// Takes in what was appended, waiting up to `timeout` for it, and writes the files that are due.
    ///
    /// # Errors
    /// The store fails. What is wrong with a file is in its report.
    pub fn step(&mut self, timeout: Duration) -> Result<Vec<FollowedFile>, Error> {
        let now = Moment::now();
        let due = self.dirty.iter().map(|trace| match self.files.get(trace) {
            Some(file) => file.not_before.saturating_duration_since(now),
            None => Duration::ZERO,
        });
        let rest = self.rest_until.saturating_duration_since(now);
        let waiting = due.min().map_or(timeout, |due| timeout.min(due.max(rest)));
        if self.dirty.is_empty() {
            self.take_in(waiting)?;
        } else {
            // There is work to come: what is appended meanwhile is taken in at once then, not event by event.
            std::thread::sleep(waiting);
            self.take_in(Duration::ZERO)?;
        }
        self.write_due(false)
    }

    /// Writes every file that is behind, now.
    ///
    /// # Errors
    /// As [`JsonFiles::step`].
    pub fn flush(&mut self) -> Result<Vec<FollowedFile>, Error> {
        self.take_in(Duration::ZERO)?;
        self.write_due(true)
    }

    /// Marks the traces of what was appended, waiting up to `wait` for the first of it.
    fn take_in(&mut self, wait: Duration) -> Result<(), Error> {
        let mut subscription = self.engine.subscribe(self.next);
        let mut wait = wait;
        loop {
            match subscription.next(wait)? {
                Some(Followed::Event(event)) => {
                    self.next = event.envelope.position;
                    if let Some(trace) = event.stream.as_trace() {
                        self.dirty.insert(trace.to_string());
                    }
                    wait = Duration::ZERO;
                }
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }

    fn write_due(&mut self, all: bool) -> Result<Vec<FollowedFile>, Error> {
        let now = Moment::now();
        let mut reports = Vec::new();
        if !all && now < self.rest_until {
            return Ok(reports);
        }
        let is_due = |trace: &&String| all || self.files.get(*trace).is_none_or(|file| file.not_before <= now);
        // The turn goes round by name, so that under steady load every trace gets its write.
        let (before, after): (Vec<String>, Vec<String>) =
            self.dirty.iter().filter(is_due).cloned().partition(|trace| *trace <= self.last_written);
        for name in after.into_iter().chain(before) {
            if !all && now.elapsed() >= BURST {
                break;
            }
            self.last_written.clone_from(&name);
            self.dirty.remove(&name);
            let trace = TraceId::new(name.clone())?;
            let path = self.folder.join(trace.folder_name()).join("cognition_log.json");
            let began = Moment::now();
            let action = self.write(&trace, &path)?;
            let took = began.elapsed();
            let failure = match &action {
                Some(FileAction::Failed { reason }) => Some(reason.clone()),
                _ => None,
            };
            let pause = if failure.is_some() { RETRY } else { INTERVAL };
            let not_before = Moment::now() + pause.max(took * INTERVAL_TIMES_WRITE);
            let file = self.files.entry(name.clone()).or_insert(FileState { written: None, not_before, failed: None });
            file.not_before = not_before;
            let is_known = failure.is_some() && file.failed == failure;
            if failure.is_some() {
                // The file is still behind, so the position is not remembered as being in it.
                self.dirty.insert(name.clone());
            }
            file.failed = failure;
            if let Some(action) = action.filter(|_| all || !is_known) {
                reports.push(FollowedFile { path, trace_id: name, action });
            }
        }
        self.rest_until = Moment::now() + now.elapsed() * REST_TIMES_BURST;
        if self.dirty.is_empty() {
            self.remember()?;
        }
        Ok(reports)
    }

    fn write(&mut self, trace: &TraceId, path: &Path) -> Result<Option<FileAction>, Error> {
        let last = self.files.get(trace.as_str()).and_then(|file| file.written.clone());
        let mut added = 0;
        // What is replaced in the end must still be what was taken in here.
        let mut before = None;
        if path.exists() {
            let on_disk = match read_text(path) {
                Ok(text) => text,
                Err(reason) => return Ok(Some(FileAction::Failed { reason })),
            };
            let on_disk = before.insert(on_disk);
            if last.as_deref() != Some(on_disk.as_str()) {
                let mut options = ImportOptions::default();
                if self.files.get(trace.as_str()).is_some_and(|file| file.failed.is_some()) {
                    // It was waited for the first time; now the others do not wait for it.
                    options.patience = Duration::ZERO;
                }
                let report = self.engine.import_file_of(path, trace, &options)?;
                match report.outcome {
                    // A fork that was appended to the log leaves a file of which the log has everything.
                    FileOutcome::Forked { .. } if self.engine.has_events_of(path, trace)? => {}
                    FileOutcome::Forked { index, .. } => return Ok(Some(FileAction::Forked { index })),
                    FileOutcome::Failed { reason } => return Ok(Some(FileAction::Failed { reason })),
                    _ => added = report.added,
                }
            }
        }
        let text = self.engine.export_at(trace, At::Head, Profile::Python)?;
        let is_current = before.as_deref() == Some(text.as_str());
        if !is_current && let Err(reason) = replace(path, &text, before.as_deref()) {
            return Ok(Some(FileAction::Failed { reason }));
        }
        let file = FileState { written: Some(text), not_before: Moment::now(), failed: None };
        self.files.insert(trace.to_string(), file);
        Ok(match added {
            0 => (!is_current).then_some(FileAction::Written),
            added => Some(FileAction::ImportedAndWritten { added }),
        })
    }

    fn remember(&self) -> Result<(), Error> {
        let state = State { epoch: self.engine.store().epoch(), position: self.next.0 };
        let path = self.folder.join(STATE);
        let text = serde_json::to_string(&state).unwrap_or_default();
        write_beside(&path, &text)
            .and_then(|file| file.persist(&path).map_err(|error| error.error.to_string()))
            .map(|_| ())
            .map_err(|message| Error::Io { action: "write", path, message })
    }
}

/// Why a file is left alone for a moment.
const BUSY: &str = "somebody is writing it now";

/// Replaces a file by rename, if it still is what was imported: `expected`, or not there.
///
/// Python writers take no lock and write into the file that they opened. So what is replaced keeps a second name until
/// it was looked at once more: what was written into it before the rename is put back, and what is opened after the
/// rename is the new file.
fn replace(path: &Path, text: &str, expected: Option<&str>) -> Result<(), String> {
    let file = write_beside(path, text)?;
    let Some(expected) = expected else {
        return match file.persist_noclobber(path) {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Err(BUSY.to_owned()),
            Err(error) => Err(error.error.to_string()),
        };
    };
    let displaced = file.path().with_extension("displaced");
    // A file system without links keeps the short moment between the look and the rename.
    let is_kept = std::fs::hard_link(path, &displaced).is_ok();
    let replaced = match read_text(path) {
        Ok(now) if now == expected => file.persist(path).map(|_| ()).map_err(|error| error.error.to_string()),
        _ => Err(BUSY.to_owned()),
    };
    if is_kept && replaced.is_ok() && read_text(&displaced).ok().as_deref() != Some(expected) {
        std::fs::rename(&displaced, path).map_err(|error| error.to_string())?;
        return Err(BUSY.to_owned());
    }
    if is_kept {
        // A name that stays behind is no log's name and is in nobody's way.
        let _ = std::fs::remove_file(&displaced);
    }
    replaced
}

/// A synced file beside a path, to be renamed into place.
fn write_beside(path: &Path, text: &str) -> Result<tempfile::NamedTempFile, String> {
    let Some(folder) = path.parent() else { return Err("it has no folder".to_owned()) };
    let write = || -> std::io::Result<tempfile::NamedTempFile> {
        std::fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        Ok(file)
    };
    write().map_err(|error| error.to_string())
}
