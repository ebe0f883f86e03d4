//! The `traces` projection: task, agent, goals, latest sequences and counts of each trace.
//!
//! ```text
//! 'c'          → what changes with every event: counts and latest sequences
//! 'i'          → what `trace_started` and `trace_finished` say
//! 'g' goal id  → a goal
//! ```

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use cognilog_core::StreamId;
use cognilog_core::event::{Body, EventKind, EventView};
use cognilog_storage::{ChangeSet, Fold, Scope, View};
use serde::Serialize;
use serde_json::Value;

use crate::projection::{Projection, to_value};
use crate::query::{QueryError, stream_key};
use crate::row::{RowError, decode, encode, stored};

/// The fold.
#[derive(Debug)]
pub struct Traces;

/// What changes with every event of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct TraceCounts {
    /// Events in the trace, amendments and file styles left out.
    pub events: u64,
    /// Events by their `type`.
    pub by_type: BTreeMap<String, u64>,
    /// The highest sequence of any event.
    pub latest_sequence: Option<i64>,
    /// The highest sequence of a message.
    pub latest_message_sequence: Option<i64>,
    /// Time of the first event, in microseconds since 1970.
    pub first_time: i64,
    /// Time of the last event.
    pub last_time: i64,
}

/// What a trace says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct TraceInfo {
    /// What the agent is to do.
    pub task: Option<String>,
    /// The identity whose memory the run shares.
    pub identity: Option<String>,
    /// The kind of agent.
    pub agent_type: Option<String>,
    /// Whose run it is.
    pub owner: Option<String>,
    /// completed, failed or stopped, once it has ended.
    pub status: Option<String>,
    /// Why it failed.
    pub error_type: Option<String>,
}

/// A goal of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Goal {
    /// What it is.
    pub description: Option<String>,
    /// pending, in_progress, completed or abandoned.
    pub status: Option<String>,
    /// The goal above it.
    pub parent_id: Option<String>,
}

impl Fold for Traces {
    fn name(&self) -> &'static str {
        "traces"
    }

    fn version(&self) -> u32 {
        1
    }

    fn scope(&self) -> Scope {
        Scope::Stream
    }

    fn kinds(&self) -> &'static [EventKind] {
        use EventKind::*;
        &[
            Unknown,
            Query,
            Evaluation,
            Extraction,
            ExtractionPending,
            ExtractionReviewed,
            ExtractionCommitted,
            Reflection,
            TraceStarted,
            Message,
            GoalChanged,
            TriggerFired,
            SideBranchStarted,
            SideBranchFinished,
            ReplyUnparsed,
            ContextCompressed,
            TraceFinished,
        ]
    }

    fn apply(&self, rows: &mut ChangeSet<'_>, event: &EventView<'_>) {
        if !matches!(event.stream, StreamId::Trace(_)) {
            return;
        }
        if event.amends.is_none() {
            count(rows, event);
        }
        match event.body {
            Body::TraceStarted(started) => {
                let mut info: TraceInfo = stored(rows.get(b"i")).unwrap_or_default();
                for (field, value) in [
                    (&mut info.task, &started.task),
                    (&mut info.identity, &started.identity),
                    (&mut info.agent_type, &started.agent_type),
                    (&mut info.owner, &started.owner),
                ] {
                    if let Some(value) = value.as_ref() {
                        *field = Some(value.as_str().to_owned());
                    }
                }
                // A trace that is resumed under its name has not ended any more.
                (info.status, info.error_type) = (None, None);
                rows.put(b"i", &encode(&info));
            }
            Body::TraceFinished(finished) => {
                let mut info: TraceInfo = stored(rows.get(b"i")).unwrap_or_default();
                info.status = Some(cognilog_core::event::TraceStatus(finished.status.0).as_str().to_owned());
                info.error_type = finished.error_type.as_ref().map(|text| text.as_str().to_owned());
                rows.put(b"i", &encode(&info));
            }
            Body::GoalChanged(changed) => {
                let key = [b"g", changed.goal_id.as_bytes()].concat();
                let mut goal: Goal = stored(rows.get(&key)).unwrap_or_default();
                if let Some(description) = changed.description.as_ref() {
                    goal.description = Some(description.as_str().to_owned());
                }
                if let Some(status) = changed.status.as_ref() {
                    goal.status = Some(cognilog_core::event::GoalStatus(status.0).as_str().to_owned());
                }
                if let Some(parent) = changed.parent_id.as_ref() {
                    goal.parent_id = Some(parent.as_str().to_owned());
                }
                rows.put(&key, &encode(&goal));
            }
            _ => {}
        }
    }
}

fn count(rows: &mut ChangeSet<'_>, event: &EventView<'_>) {
    // A kind that the writing build did not know is known by its text now.
    let kind = match event.body.kind() {
        EventKind::Unknown => event.envelope.kind,
        known => known,
    };
    if matches!(kind, EventKind::EventAmended | EventKind::JsonFileStyle) {
        return;
    }
    let mut counts: TraceCounts = stored(rows.get(b"c")).unwrap_or_default();
    let time = event.envelope.time().0;
    if counts.events == 0 {
        counts.first_time = time;
    }
    counts.events += 1;
    *counts.by_type.entry(kind.as_str().to_owned()).or_default() += 1;
    counts.latest_sequence = counts.latest_sequence.max(event.envelope.sequence);
    if kind == EventKind::Message {
        counts.latest_message_sequence = counts.latest_message_sequence.max(event.envelope.sequence);
    }
    counts.last_time = time;
    rows.put(b"c", &encode(&counts));
}

impl Projection for Traces {
    fn show_key(&self, key: &[u8]) -> String {
        match key.split_first() {
            Some((b'c', _)) => "counts".to_owned(),
            Some((b'i', _)) => "info".to_owned(),
            Some((b'g', id)) => format!("goal:{}", String::from_utf8_lossy(id)),
            _ => String::new(),
        }
    }

    fn show_row(&self, key: &[u8], row: &[u8]) -> Result<Value, RowError> {
        match key.first() {
            Some(b'c') => to_value(&decode::<TraceCounts>(row)?),
            Some(b'i') => to_value(&decode::<TraceInfo>(row)?),
            _ => to_value(&decode::<Goal>(row)?),
        }
    }
}

/// Counts of a stream's trace; `None` for a stream without events.
///
/// # Errors
/// The projection is not readable or a row is damaged.
pub fn counts(view: &View<'_>, stream_number: u64) -> Result<Option<TraceCounts>, QueryError> {
    read(view, &stream_key(stream_number, b"c"))
}

/// What a stream's trace says of itself.
///
/// # Errors
/// As [`counts`].
pub fn info(view: &View<'_>, stream_number: u64) -> Result<TraceInfo, QueryError> {
    Ok(read(view, &stream_key(stream_number, b"i"))?.unwrap_or_default())
}

/// The goals of a stream's trace by id.
///
/// # Errors
/// As [`counts`].
pub fn goals(view: &View<'_>, stream_number: u64) -> Result<BTreeMap<String, Goal>, QueryError> {
    let rows = view.scan("traces", &stream_key(stream_number, b"g"))?;
    rows.iter().map(|(key, row)| Ok((String::from_utf8_lossy(&key[9..]).into_owned(), decode(row)?))).collect()
}

fn read<T: Decode<()>>(view: &View<'_>, key: &[u8]) -> Result<Option<T>, QueryError> {
    let row = view.row("traces", key)?;
    Ok(row.map(|row| decode(&row)).transpose()?)
}
