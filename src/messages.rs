//! The messages of a trace around a sequence, for a person who reviews what was learned there.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use cognilog_core::event::{Event, EventKind};
use cognilog_core::{Position, StreamId, TraceId};
use cognilog_storage::Snapshot;
use serde::Serialize;

use crate::engine::Engine;
use crate::error::Error;

/// A message of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceMessage {
    /// Its place in the log.
    pub position: u64,
    /// The agent's message number.
    pub sequence: i64,
    /// The message's own id.
    pub message_id: Option<String>,
    /// user, assistant, system, tool.
    pub role: String,
    /// The text; content in parts as its JSON, calls of tools behind it.
    pub text: String,
}

impl Engine {
    /// The messages around a sequence, in its order: up to `before` of them up to the sequence and up to `after` of them
    /// behind it. Of messages with one sequence the last counts.
    ///
    /// # Errors
    /// An event is damaged, or the disk refuses.
    pub fn messages_around(
        &self,
        trace: &TraceId,
        sequence: i64,
        before: usize,
        after: usize,
    ) -> Result<Vec<TraceMessage>, Error> {
        let snapshot = self.snapshot()?;
        let places = places(&snapshot, trace)?;
        let mut chosen: Vec<(i64, Position)> =
            places.range(..=sequence).rev().take(before).map(|(sequence, position)| (*sequence, *position)).collect();
        chosen.reverse();
        chosen.extend(
            places.iter().filter(|(other, _)| **other > sequence).take(after).map(|(other, place)| (*other, *place)),
        );
        let mut found = Vec::with_capacity(chosen.len());
        for (sequence, position) in chosen {
            found.extend(message(&snapshot, sequence, position)?);
        }
        Ok(found)
    }

    /// The ids of the messages with these sequences, of those that have one.
    pub(crate) fn message_ids(
        &self,
        snapshot: &Snapshot,
        trace: &TraceId,
        sequences: &[i64],
    ) -> Result<BTreeMap<i64, String>, Error> {
        let places = places(snapshot, trace)?;
        let mut found = BTreeMap::new();
        for sequence in sequences {
            let Some(position) = places.get(sequence) else { continue };
            let message = message(snapshot, *sequence, *position)?;
            found.extend(message.and_then(|message| message.message_id).map(|id| (*sequence, id)));
        }
        Ok(found)
    }
}

/// Where a trace's messages are, by sequence.
fn places(snapshot: &Snapshot, trace: &TraceId) -> Result<BTreeMap<i64, Position>, Error> {
    let mut places = BTreeMap::new();
    snapshot.visit_stream(&StreamId::Trace(trace.clone()), Position::START, |event| {
        let envelope = event.envelope();
        // A message in a file of cognition events is stored as text of an unknown kind, and is a message by its text.
        let kind = match envelope.kind {
            EventKind::Unknown => event.with_view(|view| view.body.kind())?,
            kind => kind,
        };
        if let (EventKind::Message, Some(sequence)) = (kind, envelope.sequence) {
            places.insert(sequence, envelope.position);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(places)
}

fn message(snapshot: &Snapshot, sequence: i64, position: Position) -> Result<Option<TraceMessage>, Error> {
    let Some(Event::Message(message)) = snapshot.event(position)?.map(|event| event.event()).transpose()?.flatten()
    else {
        return Ok(None);
    };
    let mut text = message.content.map(|content| content.to_plain()).unwrap_or_default();
    if let Some(calls) = message.tool_calls {
        text.push_str(if text.is_empty() { "" } else { "\n" });
        text.push_str(calls.as_str());
    }
    Ok(Some(TraceMessage { position: position.0, sequence, message_id: message.message_id, role: message.role, text }))
}
