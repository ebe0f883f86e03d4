//! Commit: what was approved goes through a sink, each item once, and what became of it is recorded.
//!
//! An item goes in three steps. The one writer *claims* it: it is approved, at the version that the plan saw, and nobody
//! else is sending it; until the end nobody can decide on it. The sink *prepares* it, outside the writer. One command
//! *records* the outcome. A commit that is interrupted between them is repeated with the same key, the extraction id, so
//! that a sink that has the item says so again.

mod directory;
#[cfg(feature = "http")]
mod http;
mod record;

pub use directory::DirectorySink;
#[cfg(feature = "http")]
pub use http::{HttpHeader, HttpOptions, HttpSink};
pub use record::{CommitItem, RECORD_FIELDS};

use cognilog_core::event::{CommitOutcome, CommittedItem, Event, ExtractionCommitted, JsonText};
use cognilog_core::extraction::{ExtractionRejection, ExtractionState, decide_commit};
use cognilog_core::{EventId, Instant, StreamId, TraceId};
use cognilog_projections::extraction_queue::ExtractionRow;
use cognilog_storage::{Command, Decision, NewEvent, StoreError, View, new_event_id, system_now};
use serde::Serialize;

use crate::deciding::{InFlight, find, latest_sequence, unchanged};
use crate::engine::Engine;
use crate::error::Error;
use crate::review::ReviewRejection;

/// Characters of a sink's reason that are recorded.
const ERROR_CHARACTERS_MAX: usize = 2_000;

/// Where approved extractions go. The key of an item is its extraction id: the same item again must be answered with the
/// record that it became the first time.
pub trait CommitSink {
    /// Where it leads, for people; no secrets.
    fn describe(&self) -> String;

    /// Hands the item over and tells what became of it. Runs outside the writer, may wait, and must come to an end.
    fn prepare(&self, item: &CommitItem) -> Prepared;
}

/// What became of an item in a sink; recorded as it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    outcome: CommitOutcome,
    knowledge_id: Option<String>,
    relation: Option<JsonText>,
    error: Option<String>,
}

impl Prepared {
    /// It became a record.
    #[must_use]
    pub fn saved(knowledge_id: impl Into<String>) -> Prepared {
        let knowledge_id = Some(knowledge_id.into());
        Prepared { outcome: CommitOutcome::SAVED, knowledge_id, relation: None, error: None }
    }

    /// It is equal to a record that is there.
    #[must_use]
    pub fn skipped(knowledge_id: impl Into<String>) -> Prepared {
        Prepared { outcome: CommitOutcome::SKIPPED, ..Prepared::saved(knowledge_id) }
    }

    /// It was not saved; the next commit tries again.
    #[must_use]
    pub fn failed(error: impl Into<String>) -> Prepared {
        let error = Some(error.into().chars().take(ERROR_CHARACTERS_MAX).collect());
        Prepared { outcome: CommitOutcome::FAILED, knowledge_id: None, relation: None, error }
    }

    /// Nobody knows whether it was saved; it is tried again on request.
    #[must_use]
    pub fn unanswered(error: impl Into<String>) -> Prepared {
        Prepared { outcome: CommitOutcome::UNANSWERED, ..Prepared::failed(error) }
    }

    /// How it relates to what was there, as JSON.
    #[must_use]
    pub fn with_relation(mut self, relation: JsonText) -> Prepared {
        self.relation = Some(relation);
        self
    }
}

/// What a commit is to take.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CommitSelection {
    /// One trace only.
    pub trace: Option<TraceId>,
    /// These extractions; all that are approved for an empty list.
    pub extraction_ids: Vec<String>,
    /// Send those again of which nobody knows whether the hub has them.
    pub retry_unanswered: bool,
}

/// What a commit would send, and what it would leave.
#[derive(Clone, Debug, Serialize)]
pub struct CommitPlan {
    /// What goes, in the order of the log.
    pub items: Vec<CommitItem>,
    /// What stays, each with why.
    pub left_out: Vec<LeftOut>,
}

/// An extraction that a commit leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The trace.
    pub trace_id: String,
    /// The extraction.
    pub extraction_id: String,
    /// Why.
    pub reason: String,
    /// Whether it waits for a request to send it again.
    pub is_unanswered: bool,
}

/// What became of one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommitReport {
    /// The trace.
    pub trace_id: String,
    /// The extraction.
    pub extraction_id: String,
    /// saved, skipped, failed, unknown, or not_sent when somebody decided anew since the plan was made.
    pub outcome: &'static str,
    /// The record that it became or was found equal to.
    pub knowledge_id: Option<String>,
    /// Why it was not saved.
    pub error: Option<String>,
    /// Where in the log it was recorded.
    pub position: Option<u64>,
}

impl CommitReport {
    /// Whether the hub has it.
    #[must_use]
    pub fn is_in_hub(&self) -> bool {
        matches!(self.outcome, "saved" | "skipped")
    }
}

impl Engine {
    /// What a commit of the selection would send, with everything that is filled in; nothing is recorded.
    ///
    /// # Errors
    /// An extraction is named that does not exist or is in several traces, or the store fails.
    pub fn commit_plan(&self, selection: &CommitSelection) -> Result<CommitPlan, Error> {
        let mut all = self.extractions(selection.trace.as_ref())?;
        // Of some only decisions were seen: there is no text to commit.
        all.retain(|one| one.extraction.position > 0);
        let mut chosen: Vec<(String, ExtractionRow)> = Vec::new();
        for name in &selection.extraction_ids {
            let found: Vec<_> = all.iter().filter(|one| one.extraction.extraction_id == *name).collect();
            match found.as_slice() {
                [one] if chosen.iter().any(|(trace, row)| *trace == one.trace_id && row.extraction_id == *name) => {}
                [one] => chosen.push((one.trace_id.clone(), one.extraction.clone())),
                [] => {
                    let trace_id = selection.trace.as_ref().map_or("any", |trace| trace.as_str()).to_owned();
                    return Err(ReviewRejection::NotFound { trace_id, extraction_id: name.clone() }.into());
                }
                several => {
                    let traces = several.iter().map(|one| one.trace_id.clone()).collect();
                    return Err(Error::AmbiguousExtraction { extraction_id: name.clone(), traces });
                }
            }
        }
        if selection.extraction_ids.is_empty() {
            let approved = all.into_iter().filter(|one| one.extraction.state().is_approved());
            chosen.extend(approved.map(|one| (one.trace_id, one.extraction)));
        }
        chosen.sort_by_key(|(_, row)| row.position);
        let mut left_out = Vec::new();
        chosen.retain(|(trace, row)| match why_left(row, selection.retry_unanswered) {
            Some((reason, is_unanswered)) => {
                let (trace_id, extraction_id) = (trace.clone(), row.extraction_id.clone());
                left_out.push(LeftOut { trace_id, extraction_id, reason, is_unanswered });
                false
            }
            None => true,
        });
        Ok(CommitPlan { items: self.commit_items(chosen)?, left_out })
    }

    /// Sends what a plan has through a sink, one after the other, and records what becomes of each. `told` hears of each
    /// as soon as it is recorded. One that fails does not stop the others.
    ///
    /// # Errors
    /// The store fails. What was sent and not recorded goes with the next commit, under the same key.
    pub fn commit(
        &self,
        plan: &CommitPlan,
        sink: &dyn CommitSink,
        mut told: impl FnMut(&CommitReport),
    ) -> Result<Vec<CommitReport>, Error> {
        let mut reports = Vec::with_capacity(plan.items.len());
        for item in &plan.items {
            let report = self.commit_one(item, sink)?;
            told(&report);
            reports.push(report);
        }
        Ok(reports)
    }

    fn commit_one(&self, item: &CommitItem, sink: &dyn CommitSink) -> Result<CommitReport, Error> {
        let in_flight = self.in_flight.clone();
        let (trace, extraction_id) = (item.trace().clone(), item.extraction_id().to_owned());
        let claim = Claim { trace: trace.clone(), extraction_id, version: item.version(), in_flight };
        let claimed = match self.store.submit(claim, 512)?.1 {
            Ok(claimed) => claimed,
            Err(rejection) => return Ok(report(item, "not_sent", None, Some(rejection.to_string()), None)),
        };
        let prepared = match item.problem() {
            Some(problem) => Prepared::failed(problem),
            None => sink.prepare(item),
        };
        let now = system_now();
        let (event_id, extraction_id) = (new_event_id(now)?, item.extraction_id().to_owned());
        let command = Record { trace, extraction_id, prepared: prepared.clone(), event_id, now };
        let receipt = self.store.submit(command, 4_096)?.0;
        drop(claimed);
        let position = receipt.events.first().map(|event| event.position.0);
        Ok(report(item, prepared.outcome.as_str(), prepared.knowledge_id, prepared.error, position))
    }
}

fn report(
    item: &CommitItem,
    outcome: &'static str,
    knowledge_id: Option<String>,
    error: Option<String>,
    position: Option<u64>,
) -> CommitReport {
    let (trace_id, extraction_id) = (item.trace().to_string(), item.extraction_id().to_owned());
    CommitReport { trace_id, extraction_id, outcome, knowledge_id, error, position }
}

/// Why a commit leaves an extraction, and whether it is because nobody knows what became of it.
fn why_left(row: &ExtractionRow, retry_unanswered: bool) -> Option<(String, bool)> {
    if !row.state().is_approved() {
        return Some((ExtractionRejection::NotApproved { state: row.state() }.to_string(), false));
    }
    let last = row.outcome.as_ref().filter(|outcome| outcome.outcome == CommitOutcome::UNANSWERED.as_str())?;
    let error = last.error.as_deref().unwrap_or("no answer");
    (!retry_unanswered).then(|| (format!("nobody knows whether the hub has it ({error})"), true))
}

/// The mark of an item that is being sent; gone when this is dropped.
struct Claimed {
    trace: TraceId,
    extraction_id: String,
    in_flight: InFlight,
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.in_flight.remove(&self.trace, &self.extraction_id);
    }
}

/// The first command: nobody decides on the item until it is recorded what became of it. It records nothing.
struct Claim {
    trace: TraceId,
    extraction_id: String,
    version: u64,
    in_flight: InFlight,
}

impl Command for Claim {
    type Output = Result<Claimed, ReviewRejection>;

    fn decide(&mut self, view: &View<'_>) -> Result<(Decision, Self::Output), StoreError> {
        let found = find(view, &StreamId::Trace(self.trace.clone()), &self.extraction_id)?;
        let Some((_, row)) = found else {
            let (trace_id, extraction_id) = (self.trace.to_string(), self.extraction_id.clone());
            return Ok((Decision::default(), Err(ReviewRejection::NotFound { trace_id, extraction_id })));
        };
        let rule = match row.state() {
            ExtractionState::Committed => Some(ExtractionRejection::AlreadyCommitted),
            _ if row.version != self.version => {
                Some(ExtractionRejection::StaleVersion { seen: self.version, latest: row.version })
            }
            state => decide_commit(state, CommitOutcome::SAVED).err(),
        };
        let claimed = match rule {
            Some(rule) => Err(ReviewRejection::rule(&row, rule)),
            None if self.in_flight.insert(&self.trace, &self.extraction_id) => Ok(Claimed {
                trace: self.trace.clone(),
                extraction_id: self.extraction_id.clone(),
                in_flight: self.in_flight.clone(),
            }),
            None => Err(ReviewRejection::InFlight { extraction_id: self.extraction_id.clone() }),
        };
        Ok((Decision::default(), claimed))
    }
}

/// The last command: what became of the item.
struct Record {
    trace: TraceId,
    extraction_id: String,
    prepared: Prepared,
    event_id: EventId,
    now: Instant,
}

impl Command for Record {
    type Output = ();

    fn decide(&mut self, view: &View<'_>) -> Result<(Decision, ()), StoreError> {
        let stream = StreamId::Trace(self.trace.clone());
        let Some((number, row)) = find(view, &stream, &self.extraction_id)? else { return Ok(Default::default()) };
        let Prepared { outcome, knowledge_id, relation, error } = self.prepared.clone();
        // A plain append may have decided anew while the item was out. What the hub has is recorded all the same.
        let is_in_hub = decide_commit(ExtractionState::Approved, outcome) == Ok(ExtractionState::Committed);
        let counts = match row.state() {
            ExtractionState::Committed => false,
            state => is_in_hub || decide_commit(state, outcome).is_ok(),
        };
        if !counts {
            return Ok(Default::default());
        }
        let event = ExtractionCommitted {
            sequence: Some(latest_sequence(view, number)?),
            item: CommittedItem {
                extraction_id: self.extraction_id.clone(),
                outcome: Some(outcome),
                knowledge_id,
                relation,
                error,
            },
            more: Vec::new(),
            timestamp: Some(self.now.to_text()),
        };
        let event = NewEvent::typed(&Event::from(event), self.event_id, Some(self.now))?;
        let conditions = vec![unchanged(stream.clone(), view)];
        Ok((Decision { appends: vec![(stream, vec![event])], conditions, key: None }, ()))
    }
}
