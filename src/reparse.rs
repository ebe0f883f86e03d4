//! Stored replies that could not be read are tried again: what a later build of the extractor accepts is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use cognilog_core::event::{Event, EventKind, ReplyUnparsed, SideBranchStarted, Trigger};
use cognilog_core::reply::{Dropped, EvaluationContext, ReplyKind, Unreadable, read_evaluation, read_extraction};
use cognilog_core::side_branch::{QuerySourceKey, is_injected};
use cognilog_core::{EventId, Instant, Position, StreamId, TraceId};
use cognilog_projections::{evaluation_status, traces};
use cognilog_storage::{Command, Condition, Decision, NewEvent, Snapshot, StoreError, View, new_event_id, system_now};
use serde::Serialize;

use crate::deciding::latest_sequence;
use crate::engine::Engine;
use crate::error::Error;

/// How often a reply is looked at again because its trace went on meanwhile.
const ATTEMPTS_MAX: usize = 8;

/// What came of a stored reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReparseOutcome {
    /// Something was accepted and recorded.
    Recorded,
    /// Still nothing can be taken from it.
    Unreadable,
    /// What it says is known already, from a later reply or a person.
    Known,
    /// Its side branch is under way: a reply to it is awaited.
    UnderWay,
    /// No rule reads replies of its kind.
    OtherKind,
}

impl ReparseOutcome {
    /// The word for people and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ReparseOutcome::Recorded => "recorded",
            ReparseOutcome::Unreadable => "unreadable",
            ReparseOutcome::Known => "known",
            ReparseOutcome::UnderWay => "under_way",
            ReparseOutcome::OtherKind => "other_kind",
        }
    }
}

/// A stored reply and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReparsedReply {
    /// The trace.
    pub trace_id: String,
    /// The position of its `reply_unparsed` event.
    pub position: u64,
    /// eval, extract, …
    pub reply_kind: String,
    /// The model that replied.
    pub model: Option<String>,
    /// What came of it.
    pub outcome: ReparseOutcome,
    /// Events that were recorded, or would be.
    pub recorded: usize,
    /// Why nothing can be taken.
    pub reason: Option<String>,
    /// What of it was not taken.
    pub dropped: Vec<String>,
}

impl Engine {
    /// Tries every stored reply again from which nothing could be taken, of one trace or all, and records what is
    /// accepted now. An evaluation fills in sources that are still missing and changes no assessment that came later; an
    /// extraction counts only if no later reply of its branch did. With `dry_run` nothing is recorded. Doing it again
    /// records nothing more.
    ///
    /// # Errors
    /// There is no such trace; a stored event is damaged; a trace does not rest; or as [`Engine::append`].
    pub fn reparse(&self, trace: Option<&TraceId>, dry_run: bool) -> Result<Vec<ReparsedReply>, Error> {
        let mut found = Vec::new();
        for trace in self.traces_with_unparsed(trace)? {
            let mut after = Position::START;
            // A reply that is recorded changes what the next one may add, so each is looked at on the state it meets.
            while let Some((position, reparsed)) = self.reparse_next(&trace, after, dry_run)? {
                after = position;
                found.push(reparsed);
            }
        }
        Ok(found)
    }

    fn traces_with_unparsed(&self, only: Option<&TraceId>) -> Result<Vec<TraceId>, Error> {
        let snapshot = self.snapshot()?;
        let view = snapshot.view();
        let mut found = Vec::new();
        let mut look = |trace: TraceId, number: u64| -> Result<(), Error> {
            let counts = traces::counts(&view, number)?.unwrap_or_default();
            if counts.by_type.contains_key(EventKind::ReplyUnparsed.as_str()) {
                found.push(trace);
            }
            Ok(())
        };
        if let Some(trace) = only {
            let standing = view.stream(&StreamId::Trace(trace.clone()))?;
            let missing = || Error::NoSuchTrace { trace: trace.to_string() };
            look(trace.clone(), standing.ok_or_else(missing)?.number)?;
            return Ok(found);
        }
        for number in 0..view.stream_count()? {
            if let Some(StreamId::Trace(trace)) = view.stream_name(number)? {
                look(trace, number)?;
            }
        }
        Ok(found)
    }

    /// Tries the first stored reply behind a position.
    fn reparse_next(
        &self,
        trace: &TraceId,
        after: Position,
        dry_run: bool,
    ) -> Result<Option<(Position, ReparsedReply)>, Error> {
        let mut attempt = 1;
        loop {
            let snapshot = self.snapshot()?;
            let Some(stored) = StoredReply::find(&snapshot, trace, after)? else { return Ok(None) };
            let (reparsed, events) = stored.read(&snapshot, trace)?;
            if events.is_empty() || dry_run {
                return Ok(Some((stored.position, reparsed)));
            }
            let bytes = 1_024 + stored.reply.text.len() * 2;
            let now = system_now();
            let events = events.into_iter().map(|event| Ok((event, new_event_id(now)?)));
            let events = events.collect::<Result<Vec<_>, StoreError>>()?;
            let command = Record { trace: trace.clone(), now, last: stored.last, events };
            match self.store.submit(command, bytes) {
                Ok(_) => return Ok(Some((stored.position, reparsed))),
                Err(StoreError::Conflict { .. }) if attempt < ATTEMPTS_MAX => attempt += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Records events at the trace's latest sequence, if nothing came to the trace since it was looked at.
struct Record {
    trace: TraceId,
    now: Instant,
    last: Position,
    events: Vec<(Event, EventId)>,
}

impl Command for Record {
    type Output = ();

    fn decide(&mut self, view: &View<'_>) -> Result<(Decision, ()), StoreError> {
        let stream = StreamId::Trace(self.trace.clone());
        let sequence = match view.stream(&stream)? {
            Some(standing) => latest_sequence(view, standing.number)?,
            None => 0,
        };
        let mut events = Vec::with_capacity(self.events.len());
        for (mut event, event_id) in self.events.drain(..) {
            event.set_sequence(sequence);
            event.set_timestamp(self.now.to_text());
            events.push(NewEvent::typed(&event, event_id, Some(self.now))?);
        }
        let conditions = vec![Condition::StreamAt { stream: stream.clone(), position: self.last }];
        Ok((Decision { appends: vec![(stream, events)], conditions, key: None }, ()))
    }
}

/// A stored reply with what its trace says of it.
struct StoredReply {
    position: Position,
    reply: ReplyUnparsed,
    /// How its branch was begun last before it.
    started: Option<SideBranchStarted>,
    /// Whether its branch has given something since.
    is_answered: bool,
    /// What was injected before it.
    injected: Vec<String>,
    /// The position of the trace's last event.
    last: Position,
}

impl StoredReply {
    fn find(snapshot: &Snapshot, trace: &TraceId, after: Position) -> Result<Option<StoredReply>, Error> {
        let mut found: Option<StoredReply> = None;
        let mut started: BTreeMap<String, SideBranchStarted> = BTreeMap::new();
        let mut injected = Vec::new();
        let mut last = Position::START;
        snapshot.visit_stream(&StreamId::Trace(trace.clone()), Position::START, |event| {
            let envelope = event.envelope();
            last = envelope.position;
            let matters = matches!(
                envelope.kind,
                EventKind::Query
                    | EventKind::SideBranchStarted
                    | EventKind::SideBranchFinished
                    | EventKind::ReplyUnparsed
                    | EventKind::ExtractionPending
            );
            if !matters {
                return Ok(ControlFlow::Continue(()));
            }
            let of = found.as_ref().map(StoredReply::branch_id);
            let is_of = |branch: Option<&str>| of.is_some() && of.as_deref() == branch;
            let is_answer = match event.to_stored().event()? {
                Some(Event::ReplyUnparsed(reply)) if found.is_none() && envelope.position > after => {
                    let started = reply.branch_id.as_ref().and_then(|branch| started.remove(branch));
                    let injected = std::mem::take(&mut injected);
                    let position = envelope.position;
                    found = Some(StoredReply { position, reply, started, is_answered: false, injected, last });
                    false
                }
                Some(Event::Query(query)) if found.is_none() => {
                    injected.extend(query.sources.into_iter().filter_map(|source| source.content));
                    false
                }
                Some(Event::SideBranchStarted(branch)) if found.is_none() => {
                    started.insert(branch.branch_id.clone(), branch);
                    false
                }
                Some(Event::SideBranchFinished(finished)) => {
                    is_of(Some(&finished.branch_id)) && finished.outcome == "done"
                }
                Some(Event::ExtractionPending(pending)) => is_of(pending.branch_id.as_deref()),
                _ => false,
            };
            if let Some(found) = found.as_mut().filter(|_| is_answer) {
                found.is_answered = true;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(found.map(|found| StoredReply { last, ..found }))
    }

    /// What is accepted of it, as events.
    fn read(&self, snapshot: &Snapshot, trace: &TraceId) -> Result<(ReparsedReply, Vec<Event>), Error> {
        let mut told = ReparsedReply {
            trace_id: trace.to_string(),
            position: self.position.0,
            reply_kind: self.reply.reply_kind.clone(),
            model: self.reply.model.clone(),
            outcome: ReparseOutcome::Known,
            recorded: 0,
            reason: None,
            dropped: Vec::new(),
        };
        let view = snapshot.view();
        let number = view.stream(&StreamId::Trace(trace.clone()))?.map_or(0, |standing| standing.number);
        let open = traces::side_branches_of(&view, number)?.open;
        let events = if open.is_some_and(|open| Some(&open.branch_id) == self.reply.branch_id.as_ref()) {
            told.outcome = ReparseOutcome::UnderWay;
            Ok(Vec::new())
        } else {
            match ReplyKind::from_word(&self.reply.reply_kind) {
                Some(ReplyKind::Evaluation) => self.evaluations(snapshot, number, &mut told)?,
                Some(ReplyKind::Extraction) => self.extractions(&mut told),
                _ => {
                    told.outcome = ReparseOutcome::OtherKind;
                    Ok(Vec::new())
                }
            }
        };
        match events {
            Ok(events) => {
                if !events.is_empty() {
                    (told.outcome, told.recorded) = (ReparseOutcome::Recorded, events.len());
                }
                Ok((told, events))
            }
            Err(error) => {
                told.outcome = ReparseOutcome::Unreadable;
                told.dropped = error.dropped.iter().map(ToString::to_string).collect();
                told.reason = Some(error.to_string());
                Ok((told, Vec::new()))
            }
        }
    }

    /// Its branch; a reply without one names its own, the same again for the same reply.
    fn branch_id(&self) -> String {
        self.reply.branch_id.clone().unwrap_or_else(|| format!("reply-{}", self.position.0))
    }

    fn trigger(&self) -> Trigger {
        self.started.as_ref().and_then(|started| started.trigger).unwrap_or(Trigger::MANUAL)
    }

    /// Judgements of sources that are still missing, and that the reply was asked about. Where the log does not say what
    /// was asked, those of queries that came before the reply.
    fn evaluations(
        &self,
        snapshot: &Snapshot,
        number: u64,
        told: &mut ReparsedReply,
    ) -> Result<Result<Vec<Event>, Unreadable>, Error> {
        let asked: Option<BTreeSet<QuerySourceKey>> =
            self.started.as_ref().and_then(|started| started.asked.as_ref()).map(|asked| {
                let sources = |asked: &cognilog_core::event::AskedSources| {
                    let query = asked.query_sequence;
                    asked.source_ids.iter().map(move |id| (query, id.clone())).collect::<Vec<_>>()
                };
                asked.iter().flat_map(sources).collect()
            });
        let mut context = EvaluationContext::default();
        let mut missing: BTreeSet<QuerySourceKey> = BTreeSet::new();
        for (position, query, known) in evaluation_status::statuses(&snapshot.view(), number)? {
            let Some(sequence) = query.sequence.filter(|_| position < self.position.0) else { continue };
            for id in query.source_ids {
                let key = (sequence, id);
                let was_asked = asked.as_ref().is_none_or(|asked| asked.contains(&key));
                if was_asked && !known.sources.contains_key(&key.1) {
                    missing.insert(key.clone());
                }
                context.pending.entry(sequence).or_default().push(key.1);
            }
        }
        let mut reading = match read_evaluation(&self.reply.text, &context) {
            Ok(reading) => reading,
            Err(error) => return Ok(Err(error)),
        };
        reading.accepted.retain(|query, id| missing.contains(&(query, id.to_owned())));
        let is_told = |dropped: &&Dropped| !matches!(dropped, Dropped::NotAssessed { .. });
        told.dropped = reading.dropped.iter().filter(is_told).map(ToString::to_string).collect();
        let events = reading.accepted.events(self.trigger().as_str());
        Ok(Ok(events.into_iter().map(Event::from).collect()))
    }

    /// Pieces of knowledge, if the branch gave none since. They wait for a person, whatever the run's configuration says.
    fn extractions(&self, told: &mut ReparsedReply) -> Result<Vec<Event>, Unreadable> {
        let mut reading = read_extraction(&self.reply.text, None)?;
        if self.is_answered {
            return Ok(Vec::new());
        }
        reading.accepted.extractions.retain(|item| {
            let is_known = is_injected(&item.content, self.injected.iter().map(String::as_str));
            if is_known {
                let what: String = item.content.chars().take(60).collect();
                told.dropped.push(format!("injected knowledge, not extracted again as new: {what:?}"));
            }
            !is_known
        });
        told.dropped.extend(reading.dropped.iter().map(ToString::to_string));
        let events = reading.accepted.events(self.trigger().as_str(), &self.branch_id(), 0);
        Ok(events.into_iter().map(Event::from).collect())
    }
}
