//! Printing a trace's `cognition_log.json` from the log, as of any position.

use std::collections::HashMap;
use std::ops::ControlFlow;

use cognilog_core::event::{Event, EventKind};
use cognilog_core::json::JsonError;
use cognilog_core::{Position, StreamId, TraceId};
use cognilog_storage::{Codec, Snapshot, StoreError};

use super::FileFrame;
use super::form::Forms;

/// For whom a file is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// As it is in the log.
    #[default]
    Native,
    /// For the old Python readers: a withdrawal in the documents' words, keys of ours under `cognilog`.
    Python,
}

/// A trace's file, cut as it will be printed.
#[derive(Clone, Debug)]
pub struct Exported {
    /// How the file is written.
    pub frame: FileFrame,
    /// Whether the frame came from a file; otherwise it is the native one.
    pub frame_recorded: bool,
    /// Whether some of the events were recorded here, so that another profile may spell them otherwise.
    pub has_native: bool,
    /// Each event's position and JSON.
    pub events: Vec<(Position, String)>,
    /// The position of the trace's last event of any kind.
    pub last: Position,
}

impl Exported {
    /// The file's text.
    ///
    /// # Errors
    /// As [`FileFrame::print`].
    pub fn print(&self) -> Result<String, JsonError> {
        let texts: Vec<String> = self.events.iter().map(|(_, text)| text.clone()).collect();
        self.frame.print(&texts)
    }
}

/// A trace that cannot be exported.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The store cannot answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A stored text is no JSON.
    #[error("a stored event cannot be printed: {0}")]
    Json(#[from] JsonError),
    /// There is no such trace.
    #[error("no trace is named {trace:?}")]
    NoSuchTrace {
        /// The name.
        trace: String,
    },
}

enum Stored {
    Text(String),
    Typed(Box<Event>),
}

/// A cognition event on its way into the file.
struct Gathered {
    position: Position,
    kind: EventKind,
    /// Whether the event came from a file, whose form it keeps.
    imported: bool,
    content: Stored,
}

/// Gathers a trace's cognition events as of a position, each in its last amended form, in the order of the log.
///
/// # Errors
/// There is no such trace, an event is damaged, or the disk refuses.
pub fn export(snapshot: &Snapshot, trace: &TraceId, to: Position, profile: Profile) -> Result<Exported, ExportError> {
    let mut frame: Option<FileFrame> = None;
    let mut events: Vec<Gathered> = Vec::new();
    let mut places: HashMap<Position, usize> = HashMap::new();
    let mut last = Position::START;
    snapshot.visit_stream(&StreamId::Trace(trace.clone()), Position::START, |event| {
        let envelope = event.envelope();
        if envelope.position > to {
            return Ok(ControlFlow::Break(()));
        }
        last = envelope.position;
        let stored = event.to_stored();
        match envelope.kind {
            EventKind::JsonFileStyle => {
                if let Some(Event::JsonFileStyle(style)) = stored.event()? {
                    frame = FileFrame::from_event(&style).or(frame.take());
                }
            }
            EventKind::EventAmended => {
                if let Some(Event::EventAmended(amended)) = stored.event()?
                    && let Some(place) = places.get(&Position(amended.position.max(0) as u64))
                {
                    events[*place].content = Stored::Text(amended.text);
                }
            }
            _ if envelope.is_cognition => {
                let content = match (stored.codec, stored.event()?) {
                    (Codec::Typed, Some(typed)) => Stored::Typed(Box::new(typed)),
                    _ => Stored::Text(stored.json()?),
                };
                places.insert(envelope.position, events.len());
                events.push(Gathered {
                    position: envelope.position,
                    kind: envelope.kind,
                    imported: envelope.imported,
                    content,
                });
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if last == Position::START {
        return Err(ExportError::NoSuchTrace { trace: trace.as_str().chars().take(200).collect() });
    }
    let frame_recorded = frame.is_some();
    let frame = frame.unwrap_or_else(|| FileFrame::native(trace.as_str()));
    let mut forms = Forms::default();
    let has_native = events.iter().any(|event| !event.imported);
    let mut printed = Vec::with_capacity(events.len());
    for Gathered { position, kind, imported, content } in events {
        let changes = !imported && forms.changes(kind, profile);
        let text = match content {
            Stored::Text(text) if imported => text,
            Stored::Text(text) if changes => super::spell(&frame.style, forms.print(kind, &text, profile)?),
            Stored::Text(text) => super::spell(&frame.style, text),
            Stored::Typed(event) if changes => {
                super::spell(&frame.style, forms.print(kind, &event.to_json(), profile)?)
            }
            Stored::Typed(event) => frame.spell(&event),
        };
        forms.learn(kind, &text);
        printed.push((position, text));
    }
    Ok(Exported { frame, frame_recorded, has_native, events: printed, last })
}
