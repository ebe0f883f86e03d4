//! Deciding a batch: each command as it comes, on top of the one before, its ids, keys and conditions checked, its events folded.

use cognilog_core::event::Envelope;
use cognilog_core::{Position, StreamId};

use super::{Answer, Batch, Decide, Submission, Writer};
use crate::error::{StoreError, contained, used_id};
use crate::fold::{Condition, Decision, NewEvent, Receipt, Recorded, panic_message};
use crate::index::{IndexedRecord, index_record};
use crate::projector::apply_all;
use crate::rows::{Layered, RowMap};
use crate::snapshot::{RecentEvent, Snapshot, View};

/// A batch whose commands are decided as they come, with the answers that wait for its commit.
pub(super) struct Decided {
    snapshot: Snapshot,
    batch: Batch,
    answers: Vec<(Answer, Result<Receipt, StoreError>)>,
}

impl Decided {
    pub(super) fn new(snapshot: Snapshot) -> Decided {
        let batch = Batch {
            rows: RowMap::new(),
            recent: Vec::new(),
            places: snapshot.folds.to_vec(),
            head: snapshot.head,
            next_stream: None,
        };
        Decided { snapshot, batch, answers: Vec::new() }
    }
}

impl Writer {
    /// Decides a command on top of those before it; its answer waits for the commit, if it rests on the batch.
    pub(super) fn decide_next(&mut self, decided: &mut Decided, mut submission: Submission) {
        let Decided { snapshot, batch, answers } = decided;
        let result = contained(|| Ok(self.decide(snapshot, batch, &mut submission.decide)));
        match result.unwrap_or_else(|error| Err(Failure::Broken(error))) {
            Ok(receipt) => answers.push((submission.answer, Ok(receipt))),
            Err(Failure::Rejected(error)) if batch.recent.is_empty() => (submission.answer)(Err(error)),
            // It may rest on an event of this batch, which is not on disk yet.
            Err(Failure::Rejected(error)) => answers.push((submission.answer, Err(error))),
            Err(Failure::Broken(error)) => {
                // What was decided rests on rows that cannot be trusted: nothing of the batch is written.
                self.stop(error.to_string());
                let stopped = StoreError::WriterStopped { reason: error.to_string() };
                (submission.answer)(Err(error));
                answers.drain(..).for_each(|(answer, _)| answer(Err(stopped.clone())));
                batch.recent.clear();
            }
        }
    }

    /// Commits a batch and answers its callers.
    pub(super) fn finish(&mut self, decided: Decided) {
        let Decided { snapshot, batch, answers } = decided;
        let head = snapshot.head;
        let committed = if batch.recent.is_empty() { Ok(()) } else { contained(|| self.commit(snapshot, batch)) };
        let Err(error) = committed else {
            return answers.into_iter().for_each(|(answer, result)| answer(result));
        };
        let reason = error.to_string();
        self.stop(reason.clone());
        for (answer, result) in answers {
            answer(match result {
                // What was there before the batch is on disk whatever became of it.
                Ok(receipt) if receipt.repeated && receipt.events.iter().all(|event| event.position <= head) => {
                    Ok(receipt)
                }
                Ok(_) => Err(StoreError::OutcomeUnknown { reason: reason.clone() }),
                Err(_) => Err(StoreError::WriterStopped { reason: reason.clone() }),
            });
        }
    }

    /// Decides one command on top of the batch so far.
    fn decide(&self, snapshot: &Snapshot, batch: &mut Batch, decide: &mut Decide) -> Result<Receipt, Failure> {
        let mut maps = vec![&batch.rows];
        maps.extend(snapshot.overlay.maps());
        let view = View {
            snapshot,
            batch: Some(&batch.places),
            layered: Layered::new(maps, Some(&*snapshot.rows)),
            recent: &batch.recent,
            head: batch.head,
        };
        let run = std::panic::AssertUnwindSafe(|| decide(&view));
        let decision = match std::panic::catch_unwind(run) {
            Ok(decision) => decision.map_err(Failure::from_decide)?,
            Err(panic) => {
                let message = format!("the command panicked: {}", panic_message(panic.as_ref()));
                return Err(Failure::Rejected(StoreError::Rejected { code: "command_panicked", message }));
            }
        };
        self.check_limits(&decision).map_err(Failure::Rejected)?;
        if let Some(receipt) = self.repeated(&view, &decision)? {
            return Ok(receipt);
        }
        check_conditions(&view, &decision.conditions)?;
        drop(view);
        self.record(snapshot, batch, decision).map_err(Failure::Broken)
    }

    fn check_limits(&self, decision: &Decision) -> Result<(), StoreError> {
        let too_large = |what, found, limit| {
            if found > limit { Err(StoreError::TooLarge { what, found, limit }) } else { Ok(()) }
        };
        let events = || decision.appends.iter().flat_map(|(_, events)| events);
        for event in events() {
            too_large("an event's payload in bytes", event.payload.len(), self.limits.event_bytes_max)?;
        }
        let bytes = events().map(|event| event.payload.len()).sum();
        too_large("an append's payload in bytes", bytes, self.limits.append_bytes_max)?;
        too_large("the number of events in an append", events().count(), self.limits.append_events_max)?;
        let key = decision.key.as_ref().map_or(0, Vec::len);
        too_large("an idempotency key in bytes", key, cognilog_core::limits::IDEMPOTENCY_KEY_BYTES_MAX)
    }

    /// The first receipt again, if the key or the event ids were used before with the same content.
    fn repeated(&self, view: &View<'_>, decision: &Decision) -> Result<Option<Receipt>, StoreError> {
        let events: Vec<(&StreamId, &NewEvent)> = decision
            .appends
            .iter()
            .flat_map(|(stream, events)| events.iter().map(move |event| (stream, event)))
            .collect();
        if let Some(key) = decision.key.as_deref().filter(|key| !key.is_empty())
            && let Some((first, count)) = view.find_key(key)?
        {
            let conflict = |_, _| StoreError::IdempotencyConflict {
                what: format!("key {:?}", String::from_utf8_lossy(key)),
                position: first,
            };
            if count != events.len() as u64 {
                return Err(conflict(0, first));
            }
            let positions = (0..count).map(|offset| Position(first.0 + offset));
            return self.same_content(view, &events, positions, conflict).map(Some);
        }
        let mut found = Vec::with_capacity(events.len());
        for (index, (_, event)) in events.iter().enumerate() {
            found.extend(view.find_event(event.event_id)?.map(|position| (index, position)));
        }
        let Some(&(first, position)) = found.first() else { return twice_in_one(&events).map(|()| None) };
        let used = |index: usize| used_id(events[index].1.event_id, events[index].0);
        if found.len() != events.len() {
            let what = format!("{} stands beside events that are new: it", used(first));
            return Err(StoreError::IdempotencyConflict { what, position });
        }
        let conflict = |index, position| StoreError::IdempotencyConflict { what: used(index), position };
        self.same_content(view, &events, found.iter().map(|(_, position)| *position), conflict).map(Some)
    }

    fn same_content(
        &self,
        view: &View<'_>,
        events: &[(&StreamId, &NewEvent)],
        positions: impl Iterator<Item = Position>,
        conflict: impl Fn(usize, Position) -> StoreError,
    ) -> Result<Receipt, StoreError> {
        let mut recorded = Vec::with_capacity(events.len());
        for (index, ((stream, event), position)) in events.iter().zip(positions).enumerate() {
            let Some(stored) = view.event(position)? else { return Err(conflict(index, position)) };
            // The content of an erased event is not known any more; its id and key still stand for it.
            let same = stored.envelope.erased || (stored.payload == event.payload && stored.codec == event.codec);
            if !same || *stored.stream != **stream || stored.envelope.kind != event.kind {
                return Err(conflict(index, position));
            }
            recorded.push(Recorded {
                position,
                event_id: stored.envelope.event_id,
                sequence: stored.envelope.sequence,
            });
        }
        Ok(Receipt { epoch: self.epoch, events: recorded, repeated: true })
    }

    /// Gives the events their places and folds them on top of the batch.
    fn record(&self, snapshot: &Snapshot, batch: &mut Batch, decision: Decision) -> Result<Receipt, StoreError> {
        let mut recorded = Vec::new();
        let mut append_events = decision.appends.iter().map(|(_, events)| events.len() as u32).sum();
        let mut key = decision.key.unwrap_or_default();
        for (stream, events) in decision.appends {
            let mut standing = self.stream_for(snapshot, batch, &stream)?;
            for event in events {
                let position = batch.head.next();
                let envelope = Envelope {
                    position,
                    stream_number: standing.number,
                    stream_index: standing.events,
                    previous_in_stream: standing.last,
                    kind: event.kind,
                    is_cognition: event.is_cognition,
                    sequence: event.sequence,
                    recorded_at: (self.clock)(),
                    occurred_at: event.occurred_at,
                    event_id: event.event_id,
                    imported: event.imported,
                    erased: false,
                };
                let recent = RecentEvent {
                    envelope,
                    stream: stream.clone(),
                    event,
                    append_events: std::mem::take(&mut append_events),
                    key: std::mem::take(&mut key),
                };
                self.fold(snapshot, batch, &recent)?;
                recorded.push(Recorded {
                    position,
                    event_id: recent.envelope.event_id,
                    sequence: recent.envelope.sequence,
                });
                standing.events += 1;
                standing.last = position;
                batch.head = position;
                batch.recent.push(recent);
            }
        }
        Ok(Receipt { epoch: self.epoch, events: recorded, repeated: false })
    }

    fn stream_for(
        &self,
        snapshot: &Snapshot,
        batch: &mut Batch,
        stream: &StreamId,
    ) -> Result<crate::index::StreamStanding, StoreError> {
        let mut maps = vec![&batch.rows];
        maps.extend(snapshot.overlay.maps());
        let layered = Layered::new(maps, Some(&*snapshot.rows));
        if let Some(standing) = crate::index::find_stream(&layered, stream)? {
            return Ok(standing);
        }
        let number = match batch.next_stream {
            Some(number) => number,
            None => crate::index::stream_count(&layered)?,
        };
        batch.next_stream = Some(number + 1);
        Ok(crate::index::StreamStanding { number, events: 0, last: Position::START })
    }

    fn fold(&self, snapshot: &Snapshot, batch: &mut Batch, recent: &RecentEvent) -> Result<(), StoreError> {
        index_record(
            &mut batch.rows,
            &IndexedRecord {
                stream: &recent.stream,
                stream_number: recent.envelope.stream_number,
                stream_index: recent.envelope.stream_index,
                position: recent.envelope.position,
                kind: recent.envelope.kind,
                event_id: recent.envelope.event_id,
                append_events: recent.append_events,
                key: &recent.key,
            },
        );
        let view = recent.event.view(&recent.envelope, &recent.stream)?;
        let older = snapshot.overlay.maps();
        apply_all(&self.folds, &mut batch.places, &mut batch.rows, &older, &snapshot.rows, &view, |_| true)
    }
}

/// Why a command was not recorded.
enum Failure {
    /// The command alone fails.
    Rejected(StoreError),
    /// What the batch rests on is damaged.
    Broken(StoreError),
}

impl Failure {
    fn from_decide(error: StoreError) -> Failure {
        match error {
            StoreError::Damaged { .. } | StoreError::Database { .. } => Failure::Broken(error),
            error => Failure::Rejected(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::from_decide(error)
    }
}

fn twice_in_one(events: &[(&StreamId, &NewEvent)]) -> Result<(), StoreError> {
    let mut seen = std::collections::HashSet::with_capacity(events.len());
    for (stream, event) in events {
        if !seen.insert(event.event_id) {
            return Err(StoreError::Rejected {
                code: "event_id_twice",
                message: format!("{} stands twice in one append", used_id(event.event_id, stream)),
            });
        }
    }
    Ok(())
}

fn check_conditions(view: &View<'_>, conditions: &[Condition]) -> Result<(), StoreError> {
    for (index, condition) in conditions.iter().enumerate() {
        match condition {
            Condition::StreamAt { stream, position } => {
                let found = view.stream(stream)?.map_or(Position::START, |standing| standing.last);
                if found != *position {
                    let reason = format!("{stream} is at position {found}, expected {position}");
                    return Err(StoreError::Conflict { index, reason, position: found });
                }
            }
            Condition::InEpoch { epoch } if *epoch == view.snapshot.epoch => {}
            Condition::InEpoch { epoch } => {
                return Err(StoreError::OtherEpoch { found: *epoch, expected: view.snapshot.epoch });
            }
            Condition::NoneSince { stream, kinds, after } => {
                let Some(standing) = view.stream(stream)? else { continue };
                let found = view
                    .stream_positions(standing.number, *after, usize::MAX)?
                    .into_iter()
                    .find(|(_, kind)| kinds.is_empty() || kinds.contains(kind));
                if let Some((position, kind)) = found {
                    let reason = format!("{stream} has a {} event behind position {after}", kind.as_str());
                    return Err(StoreError::Conflict { index, reason, position });
                }
            }
        }
    }
    Ok(())
}
