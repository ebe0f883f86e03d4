//! The `reflection_checkpoints` projection: how far each trace was reflected, and what no dream has consumed yet.
//!
//! ```text
//! 'c'                            → `reflected_at_sequence` and counts
//! 'r' position of a reflection   → its range and the dream that consumed it
//! ```

use bincode::{Decode, Encode};
use cognilog_core::event::{Body, EventKind, EventView};
use cognilog_storage::{ChangeSet, Fold, Scope, View};
use serde::Serialize;
use serde_json::Value;

use crate::projection::{Projection, to_value};
use crate::query::{EventTime as _, QueryError, stream_key};
use crate::row::{RowError, decode, encode, number_of, stored};

/// The fold.
#[derive(Debug)]
pub struct ReflectionCheckpoints;

/// How far a trace was reflected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Checkpoint {
    /// The largest end of the reflected ranges; none for a trace that was never reflected.
    pub reflected_at_sequence: Option<i64>,
    /// Reflections in the trace.
    pub reflections: u64,
    /// Reflections that no dream has consumed.
    pub undigested: u64,
}

/// One reflection.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct ReflectionRow {
    /// First and last message that were read.
    pub reflected_range: Option<(i64, i64)>,
    /// How far the trace counts as reflected by it.
    pub end: Option<i64>,
    /// Whether a dream has consumed it. One that came from a file counts as consumed, so that the first dream after a
    /// migration repeats nothing (DESIGN section 10).
    pub digested: bool,
    /// The dream.
    pub digested_by: Option<String>,
    /// When, in microseconds since 1970.
    pub time: i64,
}

impl Fold for ReflectionCheckpoints {
    fn name(&self) -> &'static str {
        "reflection_checkpoints"
    }

    fn version(&self) -> u32 {
        2
    }

    fn scope(&self) -> Scope {
        Scope::Stream
    }

    fn kinds(&self) -> &'static [EventKind] {
        &[EventKind::Reflection]
    }

    fn apply(&self, rows: &mut ChangeSet<'_>, event: &EventView<'_>) {
        let Body::Reflection(reflection) = event.body else { return };
        let position = event.amends.unwrap_or(event.envelope.position).0;
        let key = [b"r", &position.to_be_bytes()[..]].concat();
        let range = reflection.reflected_range.as_ref().and_then(|range| match range.as_slice() {
            [first, last] => Some((first.to_native(), last.to_native())),
            _ => None,
        });
        let earlier: Option<ReflectionRow> = stored(rows.get(&key));
        // An amendment is imported whatever it amends, so the event's own origin stays.
        let digested = match &earlier {
            Some(earlier) => earlier.digested,
            None => event.envelope.imported,
        };
        let row = ReflectionRow {
            reflected_range: range,
            // A reflection without a readable range ends, by the document, at its own sequence.
            end: range.map(|range| range.1).or(event.envelope.sequence),
            digested: digested || reflection.digested_by.is_some(),
            digested_by: reflection.digested_by.as_ref().map(|text| text.as_str().to_owned()),
            time: event.time_after(earlier.as_ref().map(|earlier| earlier.time)),
        };
        let mut checkpoint: Checkpoint = stored(rows.get(b"c")).unwrap_or_default();
        checkpoint.reflections += u64::from(earlier.is_none());
        checkpoint.undigested -= u64::from(earlier.is_some_and(|earlier| !earlier.digested));
        checkpoint.undigested += u64::from(!row.digested);
        checkpoint.reflected_at_sequence = checkpoint.reflected_at_sequence.max(row.end);
        rows.put(&key, &encode(&row));
        if event.amends.is_some() {
            // The range may have become shorter.
            let ends = rows.scan(b"r").into_iter().filter_map(|(_, row)| stored::<ReflectionRow>(Some(row))?.end);
            checkpoint.reflected_at_sequence = ends.max();
        }
        rows.put(b"c", &encode(&checkpoint));
    }
}

impl Projection for ReflectionCheckpoints {
    fn show_key(&self, key: &[u8]) -> String {
        match key.split_first() {
            Some((b'r', rest)) => format!("reflection@{}", number_of(rest)),
            _ => "checkpoint".to_owned(),
        }
    }

    fn show_row(&self, key: &[u8], row: &[u8]) -> Result<Value, RowError> {
        match key.first() {
            Some(b'r') => to_value(&decode::<ReflectionRow>(row)?),
            _ => to_value(&decode::<Checkpoint>(row)?),
        }
    }
}

/// How far a stream's trace was reflected.
///
/// # Errors
/// The projection is not readable or a row is damaged.
pub fn checkpoint(view: &View<'_>, stream_number: u64) -> Result<Checkpoint, QueryError> {
    let row = view.row("reflection_checkpoints", &stream_key(stream_number, b"c"))?;
    Ok(row.map(|row| decode(&row)).transpose()?.unwrap_or_default())
}
