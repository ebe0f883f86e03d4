//! Replaying a trace: each event with what it changed in the projections, over nothing, never touching the store.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use cognilog_core::event::EventKind;
use cognilog_core::{EventId, Instant, Position, StreamId, TraceId};
use cognilog_projections::Projection;
use cognilog_storage::{Fold, RowMap, Snapshot, StoreError, fold_stream};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::engine::Engine;
use crate::error::Error;
use crate::queries::{At, resolve, stream_number};

/// One row that an event changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The projection.
    pub projection: &'static str,
    /// The row's key in words.
    pub key: String,
    /// The row before; none for a new one.
    pub before: Option<Value>,
    /// The row after; none for a deleted one.
    pub after: Option<Value>,
}

/// One event of a replay.
#[derive(Clone, Debug)]
pub struct ReplayStep {
    /// Its place in the log.
    pub position: Position,
    /// Its kind.
    pub kind: EventKind,
    /// The agent's message number.
    pub sequence: Option<i64>,
    /// When it happened as far as is known.
    pub time: Instant,
    /// Its identity.
    pub event_id: EventId,
    /// Its JSON, without white space between tokens.
    pub json: String,
    /// What it changed.
    pub changes: Vec<Change>,
}

impl Serialize for ReplayStep {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("position", &self.position.0)?;
        map.serialize_entry("type", self.kind.as_str())?;
        map.serialize_entry("sequence", &self.sequence)?;
        map.serialize_entry("time", &self.time.to_text())?;
        map.serialize_entry("event_id", &self.event_id.to_string())?;
        // Text that Python writes and JSON does not have, such as NaN, is shown as a string.
        match serde_json::from_str::<&RawValue>(&self.json) {
            Ok(raw) => map.serialize_entry("event", raw)?,
            Err(_) => map.serialize_entry("event_text", &self.json)?,
        }
        map.serialize_entry("changes", &self.changes)?;
        map.end()
    }
}

impl Engine {
    /// Replays a trace up to a place, giving each event with what it changed to `visit`.
    ///
    /// Rows are folded from the trace's events alone, so applying every `after` in order gives exactly the rows that the
    /// projections serve.
    ///
    /// # Errors
    /// There is no such trace, an event is damaged, or the rows grow over the limit.
    pub fn replay(
        &self,
        trace: &TraceId,
        at: At,
        mut visit: impl FnMut(ReplayStep) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let snapshot = self.snapshot()?;
        stream_number(&snapshot.view(), trace)?;
        let to = resolve(&snapshot, trace, at)?;
        let folds: Vec<Arc<dyn Fold>> = self.folds();
        let stream = StreamId::Trace(trace.clone());
        fold_stream(&snapshot, &folds, &stream, to, self.as_of_bytes_max, |event, rows, changes| {
            let envelope = event.envelope();
            let stored = event.to_stored();
            Ok(visit(ReplayStep {
                position: envelope.position,
                kind: event.with_view(|view| view.body.kind()).map(|kind| match kind {
                    EventKind::Unknown => envelope.kind,
                    known => known,
                })?,
                sequence: envelope.sequence,
                time: envelope.time(),
                event_id: envelope.event_id,
                json: stored.json()?,
                changes: show_changes(&self.projections, rows, changes)?,
            }))
        })?;
        Ok(())
    }

    /// The rows of a trace's projections as of a place, by projection and key, in words.
    ///
    /// # Errors
    /// As [`Engine::replay`].
    pub fn state_at(&self, trace: &TraceId, at: At) -> Result<BTreeMap<String, Value>, Error> {
        let snapshot = self.snapshot()?;
        stream_number(&snapshot.view(), trace)?;
        let to = resolve(&snapshot, trace, at)?;
        let rows = fold_rows(self, &snapshot, trace, to)?;
        let mut shown = BTreeMap::new();
        for (key, row) in rows.iter().filter_map(|(key, row)| Some((key, row.as_ref()?))) {
            let projection = &self.projections[usize::from(key[0])];
            let value = show_row(projection, &key[9..], row)?;
            shown.insert(format!("{}/{}", projection.name(), projection.show_key(&key[9..])), value);
        }
        Ok(shown)
    }

    fn folds(&self) -> Vec<Arc<dyn Fold>> {
        self.projections.iter().map(|projection| Arc::clone(projection) as Arc<dyn Fold>).collect()
    }

    /// The rows that the projections serve for a trace now, shown as [`Engine::state_at`] shows them.
    ///
    /// # Errors
    /// A projection is not readable, or there is no such trace.
    pub fn served_state(&self, trace: &TraceId) -> Result<BTreeMap<String, Value>, Error> {
        let snapshot = self.snapshot()?;
        let view = snapshot.view();
        let number = stream_number(&view, trace)?;
        let mut shown = BTreeMap::new();
        for projection in &self.projections {
            for (key, row) in view.scan(projection.name(), &number.to_be_bytes())? {
                let value = show_row(projection, &key[8..], &row)?;
                shown.insert(format!("{}/{}", projection.name(), projection.show_key(&key[8..])), value);
            }
        }
        Ok(shown)
    }
}

fn fold_rows(engine: &Engine, snapshot: &Snapshot, trace: &TraceId, to: Position) -> Result<RowMap, Error> {
    let stream = StreamId::Trace(trace.clone());
    Ok(fold_stream(snapshot, &engine.folds(), &stream, to, engine.as_of_bytes_max, |_, _, _| {
        Ok(ControlFlow::Continue(()))
    })?)
}

fn show_row(projection: &Arc<dyn Projection>, key: &[u8], row: &[u8]) -> Result<Value, StoreError> {
    projection.show_row(key, row).map_err(|error| StoreError::Damaged {
        place: format!("projection {}", projection.name()),
        reason: error.to_string(),
    })
}

/// Keys are the projection's number, the stream's number in eight bytes, and the projection's own key.
fn show_changes(
    projections: &[Arc<dyn Projection>],
    rows: &RowMap,
    changes: &RowMap,
) -> Result<Vec<Change>, StoreError> {
    let mut shown = Vec::new();
    for (key, after) in changes {
        let projection = &projections[usize::from(key[0])];
        let own = &key[9..];
        let before = rows.get(key).and_then(Option::as_ref);
        if before == after.as_ref() {
            continue;
        }
        shown.push(Change {
            projection: projection.name(),
            key: projection.show_key(own),
            before: before.map(|row| show_row(projection, own, row)).transpose()?,
            after: after.as_ref().map(|row| show_row(projection, own, row)).transpose()?,
        });
    }
    Ok(shown)
}
