//! Importing the portable archive that `cognilog log --ndjson` prints: every event with its identity, stream by stream.
//!
//! It is how events move to another store or to a build with another format. What is there already, by event id, adds
//! nothing, so an interrupted import is repeated. The time at which the log took an event is the new store's.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use cognilog_core::event::{Event, EventKind};
use cognilog_core::json::Node;
use cognilog_core::time::{Zone, parse};
use cognilog_core::{EventId, StreamId};
use cognilog_storage::{Command, Decision, NewEvent, StoreError, View};

use crate::engine::Engine;
use crate::error::Error;

/// Events and bytes that one append of the import takes.
const CHUNK_EVENTS: usize = 2_000;
const CHUNK_BYTES: usize = 4 << 20;

/// What an archive brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ArchiveReport {
    /// Events that were added.
    pub added: usize,
    /// Events that were there already.
    pub known: usize,
}

struct Line {
    stream: StreamId,
    position: i64,
    content: Content,
}

enum Content {
    Ready(NewEvent),
    /// An amendment names a position, which is another one here.
    Amendment {
        event: Box<Event>,
        event_id: EventId,
        imported: bool,
    },
}

impl Engine {
    /// Imports an archive.
    ///
    /// # Errors
    /// The file cannot be read, a line is not one of an archive (the message has its number; the lines before it are
    /// imported), or the store refuses.
    pub fn import_archive(&self, path: &Path) -> Result<ArchiveReport, Error> {
        let file = std::fs::File::open(path).map_err(|error| Error::io("open", path, &error))?;
        let mut report = ArchiveReport::default();
        let mut positions: HashMap<i64, i64> = HashMap::new();
        let mut chunk: Vec<Line> = Vec::new();
        let mut bytes = 0;
        for (index, line) in BufReader::new(file).split(b'\n').enumerate() {
            let line = line.map_err(|error| Error::io("read", path, &error))?;
            let invalid = |reason: String| Error::Io {
                action: "import",
                path: path.to_owned(),
                message: format!("line {}: {reason}", index + 1),
            };
            let text = std::str::from_utf8(&line).map_err(|error| invalid(error.to_string()))?;
            if text.trim().is_empty() {
                continue;
            }
            let read = read_line(text).map_err(invalid)?;
            bytes += text.len();
            // An amendment waits for the place of its target, so everything before it is recorded first.
            let waits = matches!(read.content, Content::Amendment { .. });
            if waits || chunk.len() >= CHUNK_EVENTS || bytes >= CHUNK_BYTES {
                self.record(&mut chunk, &mut positions, &mut report)?;
                bytes = 0;
            }
            chunk.push(read);
        }
        self.record(&mut chunk, &mut positions, &mut report)?;
        Ok(report)
    }

    fn record(
        &self,
        chunk: &mut Vec<Line>,
        positions: &mut HashMap<i64, i64>,
        report: &mut ArchiveReport,
    ) -> Result<(), Error> {
        let mut lines = chunk.drain(..).peekable();
        while let Some(first) = lines.next() {
            let known = self.snapshot()?;
            let is_known = |line: &Line| known.view().find_event(line.event_id()).map(|found| found.is_some());
            // One append holds neighbours of one stream that are all new or all known.
            let repeated = is_known(&first)?;
            let stream = first.stream.clone();
            let mut run = vec![first];
            while let Some(next) = lines.peek() {
                if next.stream != stream || is_known(next)? != repeated {
                    break;
                }
                run.extend(lines.next());
            }
            let old: Vec<i64> = run.iter().map(|line| line.position).collect();
            let events = run.into_iter().map(|line| line.into_event(positions)).collect::<Result<Vec<_>, Error>>()?;
            let bytes = events.iter().map(NewEvent::payload_bytes).sum();
            let (receipt, ()) = self.store.submit(ArchiveCommand { stream, events }, bytes)?;
            for (old, recorded) in old.into_iter().zip(&receipt.events) {
                positions.insert(old, i64::try_from(recorded.position.0).unwrap_or(i64::MAX));
            }
            let count = if receipt.repeated { &mut report.known } else { &mut report.added };
            *count += receipt.events.len();
        }
        Ok(())
    }
}

impl Line {
    fn event_id(&self) -> EventId {
        match &self.content {
            Content::Ready(event) => event.event_id(),
            Content::Amendment { event_id, .. } => *event_id,
        }
    }

    fn into_event(self, positions: &HashMap<i64, i64>) -> Result<NewEvent, Error> {
        match self.content {
            Content::Ready(event) => Ok(event),
            Content::Amendment { mut event, event_id, imported } => {
                if let Event::EventAmended(amended) = event.as_mut() {
                    amended.position = positions.get(&amended.position).copied().unwrap_or(amended.position);
                }
                let event = NewEvent::typed(&event, event_id, None)?;
                Ok(if imported { event.imported() } else { event })
            }
        }
    }
}

struct ArchiveCommand {
    stream: StreamId,
    events: Vec<NewEvent>,
}

impl Command for ArchiveCommand {
    type Output = ();

    fn decide(&mut self, _: &View<'_>) -> Result<(Decision, ()), StoreError> {
        let appends = vec![(self.stream.clone(), std::mem::take(&mut self.events))];
        Ok((Decision { appends, ..Decision::default() }, ()))
    }
}

fn read_line(text: &str) -> Result<Line, String> {
    let node = Node::parse(text).map_err(|error| error.to_string())?;
    let text_of = |key: &str| node.get(key).and_then(Node::as_text);
    let need = |key: &str| text_of(key).ok_or_else(|| format!("it has no text under `{key}`: it is no archive's line"));
    let flag = |key: &str| node.get(key).and_then(Node::as_bool).unwrap_or(false);
    let stream: StreamId = need("stream")?.parse().map_err(|error| format!("{error}"))?;
    let event_id: EventId = need("event_id")?.parse().map_err(|error| format!("{error}"))?;
    let kind = EventKind::from_word(need("type")?);
    let position = node.get("position").and_then(Node::as_integer).ok_or("it has no `position`")?;
    let payload = match (node.get("event"), text_of("event_text")) {
        (Some(event), _) => event.raw(text),
        (None, Some(event)) => event,
        (None, None) => return Err("it has neither `event` nor `event_text`".to_owned()),
    };
    let payload = cognilog_core::json::compact(payload).map_err(|error| error.to_string())?;
    let occurred_at = text_of("occurred_at").and_then(|time| parse(time, &Zone::utc()));
    let sequence = node.get("sequence").and_then(Node::as_integer);
    let imported = flag("imported");
    let mark = |event: NewEvent| if imported { event.imported() } else { event };
    let parsed = Node::parse(&payload).map_err(|error| error.to_string())?;
    let read = Event::from_node_as(kind, &parsed, &payload);
    let content = match read.event.filter(|_| flag("typed")) {
        Some(event @ Event::EventAmended(_)) => Content::Amendment { event: Box::new(event), event_id, imported },
        Some(event) => {
            Content::Ready(mark(NewEvent::typed(&event, event_id, occurred_at).map_err(|error| error.to_string())?))
        }
        None => Content::Ready(mark(
            NewEvent::json(&payload, kind, sequence, event_id, occurred_at).map_err(|error| error.to_string())?,
        )),
    };
    Ok(Line { stream, position, content })
}
