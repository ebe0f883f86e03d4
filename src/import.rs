//! Importing a Python agent's files: each is matched with the trace's own export, and what is new is appended.
//!
//! Nothing is ever written into the source tree. A file that is caught half written is tried again for a while; a file
//! that cannot be imported is named, and the others go on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Moment};

use cognilog_core::event::{Event, EventAmended, EventKind, Severity, TraceStarted};
use cognilog_core::json::Node;
use cognilog_core::time::{Zone, parse};
use cognilog_core::{Position, StreamId, TraceId};
use cognilog_projections::json_file::{
    Classified, ExportError, Exported, FileError, FileFrame, JsonFile, Match, Profile, classify, export, match_events,
    match_native,
};
use cognilog_storage::{Command, Condition, Decision, NewEvent, Snapshot, StoreError, View, new_event_id, system_now};
use serde::Serialize;

use crate::engine::Engine;
use crate::error::Error;

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 512 << 20;
/// Events and payload bytes that one append of an import takes.
const CHUNK_EVENTS: usize = 2_000;
const CHUNK_BYTES: usize = 4 << 20;
/// Forks of one trace that a file is matched with.
const FORKS_MAX: usize = 1_000;
/// How often an append is tried again when others append to the trace meanwhile.
const ATTEMPTS: usize = 20;
/// Problems of one file that are listed; the rest is counted.
const PROBLEMS_LISTED: usize = 20;

/// What to do with a file that went another way than the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFork {
    /// Import nothing of it and say where.
    #[default]
    Refuse,
    /// Append its events from the fork on behind what the log has.
    Append,
    /// Import it as a trace of its own, named after the first with `~fork-1`, `~fork-2`, …
    NewTrace,
}

/// How files are imported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ImportOptions {
    /// What to do with a file that went another way than the log.
    pub on_fork: OnFork,
    /// The zone of times without one.
    pub zone: Zone,
    /// Identity, agent type and owner of the traces, where their files do not say.
    pub identity: Option<String>,
    /// See `identity`.
    pub agent_type: Option<String>,
    /// See `identity`.
    pub owner: Option<String>,
    /// A file of messages, one JSON object a line, for the one trace that is imported.
    pub messages: Option<PathBuf>,
    /// How long a file that is caught half written is tried again.
    pub patience: Duration,
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        ImportOptions {
            on_fork: OnFork::Refuse,
            zone: Zone::utc(),
            identity: None,
            agent_type: None,
            owner: None,
            messages: None,
            patience: Duration::from_secs(2),
        }
    }
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
#[non_exhaustive]
pub enum FileOutcome {
    /// Events were added or amended.
    Imported,
    /// The log had everything.
    Unchanged,
    /// The file went another way than the log.
    Forked {
        /// The first event that differs, from 0.
        index: usize,
        /// The event in the log.
        ours: String,
        /// The event in the file.
        theirs: String,
    },
    /// The file cannot be imported.
    Failed {
        /// Why.
        reason: String,
    },
    /// The file was left alone on purpose.
    Skipped {
        /// Why.
        reason: String,
    },
}

/// The report on one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// The trace it was imported as.
    pub trace_id: Option<String>,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: FileOutcome,
    /// Events that were added.
    pub added: usize,
    /// Events whose change in place was recorded.
    pub amended: usize,
    /// Events that the log had already.
    pub known: usize,
    /// Events that do not fit their kind and fields that were read with a default, each with its index.
    pub problems: Vec<String>,
}

impl FileReport {
    fn new(path: &Path, outcome: FileOutcome) -> FileReport {
        FileReport {
            path: path.to_owned(),
            trace_id: None,
            outcome,
            added: 0,
            amended: 0,
            known: 0,
            problems: Vec::new(),
        }
    }

    /// Whether the file could not be imported.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self.outcome, FileOutcome::Failed { .. } | FileOutcome::Forked { .. })
    }

    fn note(&mut self, problem: String) {
        match self.problems.len() {
            0..PROBLEMS_LISTED => self.problems.push(problem),
            PROBLEMS_LISTED => self.problems.push("… and more".to_owned()),
            _ => {}
        }
    }
}

impl Engine {
    /// Imports a file, or every `cognition_log.json` and `knowledge_log.json` beneath a folder.
    ///
    /// # Errors
    /// The path cannot be read at all, or the store fails. What is wrong with single files is in their reports.
    pub fn import(&self, path: &Path, options: &ImportOptions) -> Result<Vec<FileReport>, Error> {
        let files = find_files(path)?;
        let mut reports = Vec::with_capacity(files.len());
        for file in &files {
            reports.push(self.import_file(file, options)?);
        }
        if let Some(messages) = &options.messages {
            reports.push(self.import_messages(messages, &reports, options)?);
        }
        Ok(reports)
    }

    /// Imports one file.
    ///
    /// # Errors
    /// The store fails; what is wrong with the file is in the report.
    pub fn import_file(&self, path: &Path, options: &ImportOptions) -> Result<FileReport, Error> {
        if let Some(reason) = superseded(path) {
            return Ok(FileReport::new(path, FileOutcome::Skipped { reason }));
        }
        let file = match read_patiently(path, options.patience) {
            Ok(file) => file,
            Err(reason) => return Ok(FileReport::new(path, FileOutcome::Failed { reason })),
        };
        let trace = match trace_of(path, &file).map(TraceId::new) {
            Some(Ok(trace)) => trace,
            Some(Err(error)) => {
                return Ok(FileReport::new(path, FileOutcome::Failed { reason: error.to_string() }));
            }
            None => {
                let reason = "it has no `trace_id` and its folder has no name to take instead".to_owned();
                return Ok(FileReport::new(path, FileOutcome::Failed { reason }));
            }
        };
        let mut report = self.import_as(path, &file, &trace, options)?;
        if let (FileOutcome::Forked { .. }, OnFork::NewTrace) = (&report.outcome, options.on_fork) {
            report = self.import_fork(path, &file, &trace, options)?;
        }
        Ok(report)
    }

    /// Imports the file of a trace that is known by other means; one that says it is another's is left alone.
    pub(crate) fn import_file_of(
        &self,
        path: &Path,
        trace: &TraceId,
        options: &ImportOptions,
    ) -> Result<FileReport, Error> {
        let failed = |reason: String| Ok(FileReport::new(path, FileOutcome::Failed { reason }));
        match read_patiently(path, options.patience) {
            Ok(file) if file.trace_id.as_deref().is_none_or(|name| name == trace.as_str()) => {
                self.import_as(path, &file, trace, options)
            }
            Ok(_) => failed("it says that it belongs to another trace".to_owned()),
            Err(reason) => failed(reason),
        }
    }

    fn import_fork(
        &self,
        path: &Path,
        file: &JsonFile,
        trace: &TraceId,
        options: &ImportOptions,
    ) -> Result<FileReport, Error> {
        for number in 1..=FORKS_MAX {
            let forked = TraceId::new(format!("{trace}~fork-{number}"))?;
            let refuse = ImportOptions { on_fork: OnFork::Refuse, ..options.clone() };
            // The export of the new trace must not claim to be the trace that the file went away from.
            let renamed = file.renamed(forked.as_str()).map_err(Error::Print)?;
            let report = self.import_as(path, &renamed, &forked, &refuse)?;
            if !matches!(report.outcome, FileOutcome::Forked { .. }) {
                return Ok(report);
            }
        }
        let reason = format!("its trace has {FORKS_MAX} forks already, and the file goes the way of none of them");
        Ok(FileReport::new(path, FileOutcome::Failed { reason }))
    }

    /// Matches a file with a trace and appends what is new, again while others append to the trace meanwhile.
    fn import_as(
        &self,
        path: &Path,
        file: &JsonFile,
        trace: &TraceId,
        options: &ImportOptions,
    ) -> Result<FileReport, Error> {
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match self.import_once(path, file, trace, options) {
                Err(Error::Store(error @ (StoreError::Conflict { .. } | StoreError::Busy { .. }))) => {
                    last = Some(error);
                    std::thread::sleep(Duration::from_millis(10));
                }
                result => return result,
            }
        }
        let error = last.unwrap_or(StoreError::Busy { waiting: 0 });
        Ok(FileReport::new(path, FileOutcome::Failed { reason: format!("others append to its trace: {error}") }))
    }

    fn import_once(
        &self,
        path: &Path,
        file: &JsonFile,
        trace: &TraceId,
        options: &ImportOptions,
    ) -> Result<FileReport, Error> {
        let mut report = FileReport::new(path, FileOutcome::Unchanged);
        report.trace_id = Some(trace.to_string());
        let snapshot = self.snapshot()?;
        let ours = match export(&snapshot, trace, snapshot.head(), Profile::Native) {
            Ok(exported) => Some(exported),
            Err(ExportError::NoSuchTrace { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let mut events = Vec::new();
        if let Some(started) = self.started(path, trace, ours.is_none(), options, &mut report)? {
            events.push(typed(&started.into(), options)?);
        }
        let frame_known = ours.as_ref().is_some_and(|ours| is_framed_alike(&file.frame, &ours.frame));
        let is_behind = ours.as_ref().is_some_and(|ours| ours.events.len() > file.events.len());
        let tells_nothing = is_behind && file.events.is_empty();
        if !frame_known && !tells_nothing {
            events.push(typed(&file.frame.to_event().into(), options)?);
        }
        let printed = printed_of(&snapshot, trace, ours.as_ref())?;
        let both = pair(ours.as_ref(), printed.as_ref());
        let matched = match_prefix(file, &both, options, &mut report)?;
        let Some(Matched { amendments, added }) = matched else { return Ok(report) };
        events.extend(amendments);
        for index in added {
            let text = &file.events[index];
            let read = classify(text, &file.frame.style).map_err(Error::Print)?;
            note_problems(&mut report, index, text, &read);
            events.push(new_event(text, &read, options)?);
            report.added += 1;
        }
        // Nothing of a file is taken when something of it cannot be.
        let limit = self.store.limits().event_bytes_max;
        if let Some(event) = events.iter().find(|event| event.payload_bytes() > limit) {
            let (found, limit) = (event.payload_bytes(), limit);
            let sequence = event.sequence().map_or(String::new(), |sequence| format!(", sequence {sequence},"));
            let reason = format!(
                "an event ({}{sequence} {found} bytes) is over the limit of {limit} bytes",
                event.kind().as_str()
            );
            (report.added, report.amended, report.outcome) = (0, 0, FileOutcome::Failed { reason });
            return Ok(report);
        }
        let last = ours.as_ref().map_or(Position::START, |ours| ours.last);
        if !events.is_empty() {
            report.outcome = FileOutcome::Imported;
            self.append_chunks(trace, events, last)?;
        }
        Ok(report)
    }

    /// Whether the log has every event of a trace's file, though it may have others between and behind them.
    pub(crate) fn has_events_of(&self, path: &Path, trace: &TraceId) -> Result<bool, Error> {
        let Ok((_, file)) = read_file(path) else { return Ok(false) };
        let snapshot = self.snapshot()?;
        let ours = export(&snapshot, trace, snapshot.head(), Profile::Native)?;
        let printed = printed_of(&snapshot, trace, Some(&ours))?;
        let options = ImportOptions { on_fork: OnFork::Append, ..ImportOptions::default() };
        let mut report = FileReport::new(path, FileOutcome::Unchanged);
        let matched = match_prefix(&file, &pair(Some(&ours), printed.as_ref()), &options, &mut report)?;
        Ok(matched.is_some_and(|matched| matched.added.is_empty() && matched.amendments.is_empty()))
    }

    /// Appends in chunks, each resting on the one before; an interrupted import is continued by matching again.
    fn append_chunks(&self, trace: &TraceId, events: Vec<NewEvent>, last: Position) -> Result<(), Error> {
        let stream = StreamId::Trace(trace.clone());
        let mut last = last;
        let mut events = events.into_iter().peekable();
        while events.peek().is_some() {
            let mut chunk = Vec::new();
            let mut bytes = 0;
            while let Some(event) = events.next_if(|event| {
                chunk.is_empty() || (chunk.len() < CHUNK_EVENTS && bytes + event.payload_bytes() <= CHUNK_BYTES)
            }) {
                bytes += event.payload_bytes();
                chunk.push(event);
            }
            let condition = Condition::StreamAt { stream: stream.clone(), position: last };
            let command = ImportCommand { stream: stream.clone(), events: chunk, condition: Some(condition) };
            let (receipt, ()) = self.store.submit(command, bytes)?;
            last = receipt.events.last().map_or(last, |recorded| recorded.position);
        }
        Ok(())
    }

    /// What `meta.json` and the options say of a trace, if it is new to the log.
    fn started(
        &self,
        path: &Path,
        trace: &TraceId,
        is_new: bool,
        options: &ImportOptions,
        report: &mut FileReport,
    ) -> Result<Option<TraceStarted>, Error> {
        let mut started = read_meta(path, report);
        let chosen = |given: &Option<String>, found: Option<String>| given.clone().or(found);
        started.identity = chosen(&options.identity, started.identity);
        started.agent_type = chosen(&options.agent_type, started.agent_type);
        started.owner = chosen(&options.owner, started.owner);
        if started == TraceStarted::default() {
            return Ok(None);
        }
        if is_new {
            return Ok(Some(started));
        }
        let snapshot = self.snapshot()?;
        let view = snapshot.view();
        let number = crate::queries::stream_number(&view, trace)?;
        let known = cognilog_projections::traces::info(&view, number)?;
        let same = |new: &Option<String>, known: &Option<String>| new.is_none() || new == known;
        let unchanged = same(&started.task, &known.task)
            && same(&started.identity, &known.identity)
            && same(&started.agent_type, &known.agent_type)
            && same(&started.owner, &known.owner);
        Ok((!unchanged).then_some(started))
    }

    /// Imports messages, one a line, into the one trace that was imported; lines that are there already are passed over.
    fn import_messages(
        &self,
        path: &Path,
        reports: &[FileReport],
        options: &ImportOptions,
    ) -> Result<FileReport, Error> {
        let failed = |reason: String| Ok(FileReport::new(path, FileOutcome::Failed { reason }));
        let mut traces: Vec<&String> = reports.iter().filter_map(|report| report.trace_id.as_ref()).collect();
        traces.dedup();
        let [trace] = traces[..] else {
            return failed(format!("messages belong to one trace, {} were imported", traces.len()));
        };
        let trace = TraceId::new(trace.clone())?;
        let text = match read_text(path) {
            Ok(text) => text,
            Err(reason) => return failed(reason),
        };
        let snapshot = self.snapshot()?;
        let mut known = Vec::new();
        let mut last = Position::START;
        snapshot.visit_stream(&StreamId::Trace(trace.clone()), Position::START, |event| {
            last = event.envelope().position;
            if event.envelope().kind == EventKind::Message {
                known.push(event.to_stored().json()?);
            }
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        let mut report = FileReport::new(path, FileOutcome::Unchanged);
        report.trace_id = Some(trace.to_string());
        let mut events = Vec::new();
        // Lines end in a line feed and nothing else: U+2028 and the like stand inside messages.
        for (line, text) in text.split('\n').map(|line| line.trim_matches([' ', '\t', '\r'])).enumerate() {
            if text.is_empty() {
                continue;
            }
            let index = report.known + events.len();
            let message = match message_of(text, options) {
                Ok(message) => message,
                Err(reason) => return failed(format!("line {}: {reason}", line + 1)),
            };
            match known.get(index) {
                Some(ours) => match match_events(ours, &message.0).map_err(Error::Print)? {
                    Match::Same | Match::Amended if events.is_empty() => report.known += 1,
                    _ => {
                        let (ours, theirs) = (ours.clone(), message.0);
                        report.outcome = FileOutcome::Forked { index, ours, theirs };
                        return Ok(report);
                    }
                },
                None => events.push(message.1),
            }
        }
        report.added = events.len();
        if report.added > 0 {
            report.outcome = FileOutcome::Imported;
            match self.append_chunks(&trace, events, last) {
                Err(Error::Store(
                    error @ (StoreError::TooLarge { .. } | StoreError::Conflict { .. } | StoreError::Busy { .. }),
                )) => {
                    return failed(error.to_string());
                }
                result => result?,
            }
        }
        Ok(report)
    }
}

struct ImportCommand {
    stream: StreamId,
    events: Vec<NewEvent>,
    condition: Option<Condition>,
}

impl Command for ImportCommand {
    type Output = ();

    fn decide(&mut self, _: &View<'_>) -> Result<(Decision, ()), StoreError> {
        let appends = vec![(self.stream.clone(), std::mem::take(&mut self.events))];
        Ok((Decision { appends, conditions: self.condition.take().into_iter().collect(), key: None }, ()))
    }
}

/// An event of the log, in its native form and in that of the JSON files.
struct Both<'o> {
    position: Position,
    text: &'o str,
    printed: &'o str,
}

/// A trace as the follower of the JSON files spells it, where that may be another spelling than the log's.
fn printed_of(snapshot: &Snapshot, trace: &TraceId, ours: Option<&Exported>) -> Result<Option<Exported>, Error> {
    match ours {
        Some(ours) if ours.has_native => Ok(Some(export(snapshot, trace, snapshot.head(), Profile::Python)?)),
        _ => Ok(None),
    }
}

fn pair<'o>(ours: Option<&'o Exported>, printed: Option<&'o Exported>) -> Vec<Both<'o>> {
    let ours = ours.map_or(&[][..], |ours| &ours.events);
    let printed = printed.map_or(ours, |printed| &printed.events);
    let both = ours.iter().zip(printed);
    both.map(|((position, text), (_, printed))| Both { position: *position, text, printed }).collect()
}

/// What a file has that the log does not.
struct Matched {
    /// Amendments of the events that both have.
    amendments: Vec<NewEvent>,
    /// The indexes of the file's events that are new.
    added: Vec<usize>,
}

/// Matches a file with the trace's own export; `None` for a fork.
fn match_prefix(
    file: &JsonFile,
    ours: &[Both<'_>],
    options: &ImportOptions,
    report: &mut FileReport,
) -> Result<Option<Matched>, Error> {
    let mut amendments = Vec::new();
    for (index, (our, text)) in ours.iter().zip(&file.events).enumerate() {
        let (matched, native) = match_native(our.text, our.printed, text).map_err(Error::Print)?;
        match matched {
            Match::Same => report.known += 1,
            Match::Amended => {
                amendments.push(amendment(
                    index,
                    our.position,
                    native.as_ref().unwrap_or(text),
                    file,
                    options,
                    report,
                )?);
            }
            Match::Other if options.on_fork == OnFork::Append => {
                let added = match_behind(index, file, ours, options, report, &mut amendments)?;
                return Ok(Some(Matched { amendments, added }));
            }
            Match::Other => {
                report.outcome = FileOutcome::Forked { index, ours: our.text.to_owned(), theirs: text.clone() };
                (report.added, report.amended) = (0, 0);
                return Ok(None);
            }
        }
    }
    if ours.len() > file.events.len() {
        report.note(format!("the file has {} events, the log has {}", file.events.len(), ours.len()));
    }
    Ok(Some(Matched { amendments, added: (ours.len()..file.events.len()).collect() }))
}

/// Which events of a file behind its fork the log does not have: those of an earlier import that appended them are
/// found again in the order of the log, so that repeating it adds nothing and a file that grew adds the rest.
fn match_behind(
    fork: usize,
    file: &JsonFile,
    ours: &[Both<'_>],
    options: &ImportOptions,
    report: &mut FileReport,
    amendments: &mut Vec<NewEvent>,
) -> Result<Vec<usize>, Error> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, our) in ours.iter().enumerate().skip(fork) {
        places.entry(our.text).or_default().push(place);
        if our.printed != our.text {
            places.entry(our.printed).or_default().push(place);
        }
    }
    let mut next = fork;
    let mut added = Vec::new();
    for (index, text) in file.events.iter().enumerate().skip(fork) {
        let same = places.get(text.as_str()).and_then(|places| places.iter().find(|place| **place >= next));
        if let Some(place) = same {
            next = place + 1;
            report.known += 1;
            continue;
        }
        let mut gained = None;
        for (place, our) in ours.iter().enumerate().skip(next) {
            if contains(text, our.text).map_err(Error::Print)? {
                gained = Some((place, our.position));
                break;
            }
        }
        match gained {
            Some((place, position)) => {
                amendments.push(amendment(index, position, text, file, options, report)?);
                next = place + 1;
            }
            None => added.push(index),
        }
    }
    Ok(added)
}

/// Whether an event has every key of another with an equal value: the other one, which may have gained keys.
fn contains(text: &str, other: &str) -> Result<bool, cognilog_core::json::JsonError> {
    let (node, other) = (Node::parse(text)?, Node::parse(other)?);
    let Some(members) = other.as_object() else { return Ok(cognilog_core::json::equal(&node, &other)) };
    let is_there = |key: &str| match (node.get(key), other.get(key)) {
        (Some(left), Some(right)) => cognilog_core::json::equal(left, right),
        _ => false,
    };
    Ok(node.as_object().is_some() && !members.is_empty() && members.iter().all(|(key, _)| is_there(key)))
}

fn amendment(
    index: usize,
    position: Position,
    text: &str,
    file: &JsonFile,
    options: &ImportOptions,
    report: &mut FileReport,
) -> Result<NewEvent, Error> {
    let read = classify(text, &file.frame.style).map_err(Error::Print)?;
    note_problems(report, index, text, &read);
    report.amended += 1;
    let amended = EventAmended {
        sequence: read.sequence,
        position: i64::try_from(position.0).unwrap_or(i64::MAX),
        text: text.to_owned(),
        timestamp: read.timestamp,
    };
    typed(&amended.into(), options)
}

/// Whether a file's frame is the one that the export has by itself, as in the follower's own files. A file without a
/// character above ASCII does not show how it would write one.
fn is_framed_alike(file: &FileFrame, ours: &FileFrame) -> bool {
    let mut frame = file.clone();
    frame.style.ensure_ascii = frame.style.ensure_ascii.or(ours.style.ensure_ascii);
    frame == *ours
}

fn note_problems(report: &mut FileReport, index: usize, text: &str, read: &Classified) {
    let kind = read.kind.as_str();
    for problem in &read.problems {
        let how = match problem.severity {
            Severity::Unfit => "does not fit and is kept as text",
            Severity::Dropped => "is read without an item",
            Severity::Coerced => "is read though it is of another type",
            Severity::Absent => "is read with a default",
        };
        report.note(format!("event {index} ({kind}) {how}: {problem}"));
    }
    if read.kind == EventKind::Unknown {
        let shown: String = text.chars().take(80).collect();
        report.note(format!("event {index} is of a kind that this build does not know and is kept as text: {shown}"));
    } else if !read.kind.is_cognition() {
        report.note(format!("event {index} ({kind}) is no cognition event and is kept as text"));
    }
}

fn typed(event: &Event, options: &ImportOptions) -> Result<NewEvent, Error> {
    let occurred_at = event.timestamp().and_then(|text| parse(text, &options.zone));
    Ok(NewEvent::typed(event, new_event_id(system_now())?, occurred_at)?.imported())
}

fn new_event(text: &str, read: &Classified, options: &ImportOptions) -> Result<NewEvent, Error> {
    match &read.event {
        Some(event) if read.canonical && read.kind.is_cognition() => typed(event, options),
        _ => {
            let occurred_at = read.timestamp.as_deref().and_then(|text| parse(text, &options.zone));
            // What a cognition log holds belongs into its export, whatever kind it calls itself.
            let kind = if read.kind.is_cognition() { read.kind } else { EventKind::Unknown };
            let id = new_event_id(system_now())?;
            Ok(NewEvent::json(text, kind, read.sequence, id, occurred_at)?.imported())
        }
    }
}

fn message_of(text: &str, options: &ImportOptions) -> Result<(String, NewEvent), String> {
    let text = cognilog_core::json::compact(text).map_err(|error| error.to_string())?;
    let node = Node::parse(&text).map_err(|error| error.to_string())?;
    let read = Event::from_node_as(EventKind::Message, &node, &text);
    if let Some(problem) = read.problems.iter().find(|problem| problem.severity == Severity::Unfit) {
        return Err(problem.to_string());
    }
    let sequence = node.get("sequence").and_then(Node::as_integer);
    let time = read.event.as_ref().and_then(|event| event.timestamp()).and_then(|text| parse(text, &options.zone));
    let id = new_event_id(system_now()).map_err(|error| error.to_string())?;
    let event =
        NewEvent::json(&text, EventKind::Message, sequence, id, time).map_err(|error| error.to_string())?.imported();
    Ok((text, event))
}

/// The files beneath a path, sorted; the path itself if it is a file.
///
/// # Errors
/// The path or a folder beneath it cannot be read.
pub fn find_files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let metadata = std::fs::metadata(path).map_err(|error| Error::io("look at", path, &error))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|error| Error::io("list", &folder, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| Error::io("list", &folder, &error))?;
            let kind = entry.file_type().map_err(|error| Error::io("look at", &entry.path(), &error))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if is_log_name(&entry.file_name().to_string_lossy()) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_log_name(name: &str) -> bool {
    name == "cognition_log.json" || name == "knowledge_log.json" || name.ends_with(".cognition_log.json")
}

/// Why a file is left alone: the old name beside today's.
fn superseded(path: &Path) -> Option<String> {
    let old = path.file_name().is_some_and(|name| name == "knowledge_log.json");
    (old && path.with_file_name("cognition_log.json").is_file())
        .then(|| "cognition_log.json beside it is its successor; import this file by itself if it is needed".to_owned())
}

fn trace_of_path(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    if let Some(stem) = name.strip_suffix(".cognition_log.json") {
        return Some(stem.to_owned());
    }
    let absolute = std::path::absolute(path).ok()?;
    Some(absolute.parent()?.file_name()?.to_string_lossy().into_owned())
}

/// The trace a file belongs to: as it says, or after its name or folder.
pub(crate) fn trace_of(path: &Path, file: &JsonFile) -> Option<String> {
    file.trace_id.clone().or_else(|| trace_of_path(path))
}

/// A file's text and its parts, or why there are none.
pub(crate) fn read_file(path: &Path) -> Result<(String, JsonFile), String> {
    let text = read_text(path)?;
    let file = JsonFile::read(&text).map_err(|error| error.to_string())?;
    Ok((text, file))
}

/// A file's text, or why there is none.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!("it has {} bytes, the limit is {FILE_BYTES_MAX}", metadata.len()));
    }
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| format!("it is not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
}

/// Reads a file, again for a while if it is caught half written.
fn read_patiently(path: &Path, patience: Duration) -> Result<JsonFile, String> {
    let until = Moment::now() + patience;
    loop {
        let truncated = match read_text(path) {
            Ok(text) if text.trim().is_empty() => "it is empty".to_owned(),
            Ok(text) => match JsonFile::read(&text) {
                Ok(file) => return Ok(file),
                Err(error) if error.is_truncated() => format!("it ends in the middle: {error}"),
                Err(error @ FileError::Json(_)) => return Err(format!("it is no JSON: {error}")),
                Err(error) => return Err(error.to_string()),
            },
            // A cut inside a character is a half-written file as well.
            Err(reason) if reason.starts_with("it is not UTF-8") => reason,
            Err(reason) => return Err(reason),
        };
        if Moment::now() >= until {
            return Err(truncated);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What `meta.json` beside a log says of its trace. It helps and is not needed, so one that cannot be read is noted.
fn read_meta(path: &Path, report: &mut FileReport) -> TraceStarted {
    let meta = path.with_file_name("meta.json");
    if !meta.is_file() {
        return TraceStarted::default();
    }
    let text = match read_text(&meta) {
        Ok(text) => text,
        Err(reason) => {
            report.note(format!("meta.json: {reason}"));
            return TraceStarted::default();
        }
    };
    match Node::parse(&text) {
        Ok(node) => {
            let text_of =
                |keys: &[&str]| keys.iter().find_map(|key| node.get(key).and_then(Node::as_text)).map(str::to_owned);
            TraceStarted {
                task: text_of(&["task"]),
                identity: text_of(&["identity", "agent_id"]),
                agent_type: text_of(&["agent_type"]),
                owner: text_of(&["owner", "uid"]),
                ..TraceStarted::default()
            }
        }
        Err(error) => {
            report.note(format!("meta.json is no JSON: {error}"));
            TraceStarted::default()
        }
    }
}
