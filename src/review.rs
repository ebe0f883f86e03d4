//! Review: a person's decisions on extractions, made by the one writer on the version that the person saw.

use std::collections::{BTreeMap, BTreeSet};

use cognilog_core::event::{Event, ExtractionEdit, ExtractionReviewed, JsonText, ReviewDecision};
use cognilog_core::extraction::{
    ExtractionRejection, ExtractionState, age_days, check_edited, decide_review, decide_undo, fold_review, is_overdue,
};
use cognilog_core::json::{Node, Value};
use cognilog_core::{EventId, Instant, Position, StreamId, TraceId, similarity};
use cognilog_projections::extraction_queue::{self, DecisionRow, Edit, ExtractionRow, OutcomeRow};
use cognilog_storage::{Command, Decision, NewEvent, Snapshot, StoreError, View, new_event_id, system_now};
use serde::Serialize;

use crate::deciding::{InFlight, find, latest_sequence, unchanged};
use crate::engine::Engine;
use crate::error::Error;
use crate::queries::PendingExtraction;

/// What a reviewer decides on an extraction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Take it as it stands.
    Approve,
    /// Take it with these fields in place of those that it has now.
    Edit(Box<ExtractionEdit>),
    /// Leave it.
    Discard,
    /// Take the decision back: it is pending again, with its text as it was edited last.
    Withdraw,
}

/// A decision as its reviewer asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewRequest {
    /// The trace.
    pub trace: TraceId,
    /// The extraction.
    pub extraction_id: String,
    /// What is decided.
    pub verdict: Verdict,
    /// Who decides.
    pub reviewer: String,
    /// The version that the reviewer looked at: another one at the head is a conflict. Without it the decision replaces
    /// whatever was decided before.
    pub seen: Option<u64>,
    /// Why.
    pub reason: Option<String>,
}

/// A decision that was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reviewed {
    /// The trace.
    pub trace_id: String,
    /// The extraction.
    pub extraction_id: String,
    /// approve, edit, discard or withdraw.
    pub decision: String,
    /// The version that it made.
    pub version: u64,
    /// Where the extraction stands now.
    pub state: String,
    /// The version that it took back, if it is an undo.
    pub undoes: Option<u64>,
    /// Where in the log.
    pub position: u64,
}

/// Why a decision was not taken; nothing of it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewRejection {
    /// There is no such extraction.
    #[error("no extraction of trace {trace_id:?} is named {extraction_id:?}")]
    NotFound {
        /// The trace.
        trace_id: String,
        /// The name.
        extraction_id: String,
    },
    /// A rule of the extraction's state machine stands against it.
    #[error("{extraction_id}: {rule}{}", told(.last.as_deref(), .outcome.as_deref()))]
    Rule {
        /// The extraction.
        extraction_id: String,
        /// The rule.
        rule: ExtractionRejection,
        /// The last decision: who decided what.
        last: Option<Box<DecisionRow>>,
        /// What became of it in the hub, if the rule is about that.
        outcome: Option<Box<OutcomeRow>>,
    },
    /// A commit is sending the extraction to the hub right now.
    #[error("{extraction_id}: it is being committed right now")]
    InFlight {
        /// The extraction.
        extraction_id: String,
    },
    /// A field of an edit cannot hold its value.
    #[error("{extraction_id}: field `{field}`: {reason}")]
    BadField {
        /// The extraction.
        extraction_id: String,
        /// The field.
        field: &'static str,
        /// What is expected.
        reason: &'static str,
    },
    /// The reviewer has decided nothing that stands.
    #[error("{reviewer} has no decision that could be undone")]
    NothingToUndo {
        /// The reviewer.
        reviewer: String,
    },
    /// A decision needs somebody who makes it.
    #[error("a decision needs the name of its reviewer")]
    NoReviewer,
}

/// Who decided what, for the person whose decision came too late.
fn told(last: Option<&DecisionRow>, outcome: Option<&OutcomeRow>) -> String {
    let mut told = String::new();
    if let Some(last) = last {
        let reviewer = last.reviewer.as_deref().unwrap_or("somebody");
        let time = Instant(last.time).to_text();
        told = format!("; {reviewer} decided {} at {time} (version {})", last.decision, last.version);
        if let Some(reason) = &last.reason {
            told.push_str(&format!(": {reason}"));
        }
    }
    if let Some(outcome) = outcome {
        let record = outcome.knowledge_id.as_deref().unwrap_or("a record without an id");
        told.push_str(&format!("; {} as {record}", outcome.outcome));
    }
    told
}

impl ReviewRejection {
    /// A stable word for programs; `docs/errors.md` lists them.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            ReviewRejection::NotFound { .. } => "extraction_not_found",
            ReviewRejection::Rule { rule, .. } => match rule {
                ExtractionRejection::StaleVersion { .. } | ExtractionRejection::NotUndoable { .. } => "review_conflict",
                ExtractionRejection::AlreadyCommitted => "already_committed",
                ExtractionRejection::NothingToWithdraw => "nothing_to_withdraw",
                ExtractionRejection::NothingEdited => "nothing_edited",
                ExtractionRejection::EditedToEmpty => "edited_to_empty",
                ExtractionRejection::NotApproved { .. } => "not_approved",
                _ => "event_invalid",
            },
            ReviewRejection::InFlight { .. } => "commit_in_progress",
            ReviewRejection::BadField { .. } => "bad_field",
            ReviewRejection::NothingToUndo { .. } => "nothing_to_undo",
            ReviewRejection::NoReviewer => "no_reviewer",
        }
    }

    pub(crate) fn rule(row: &ExtractionRow, rule: ExtractionRejection) -> ReviewRejection {
        let of_version = matches!(
            rule,
            ExtractionRejection::StaleVersion { .. }
                | ExtractionRejection::NotUndoable { .. }
                | ExtractionRejection::AlreadyCommitted
        );
        let outcome = (rule == ExtractionRejection::AlreadyCommitted).then(|| row.outcome.clone()).flatten();
        ReviewRejection::Rule {
            extraction_id: row.extraction_id.clone(),
            rule,
            last: of_version.then(|| row.decisions.last().cloned().map(Box::new)).flatten(),
            outcome: outcome.map(Box::new),
        }
    }
}

/// An extraction that waits for a person, with what helps to decide on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReviewEntry {
    /// The extraction.
    #[serde(flatten)]
    pub pending: PendingExtraction,
    /// The position of the first extraction of its group: those with one number say nearly the same.
    pub group: u64,
    /// How many the group has.
    pub group_size: usize,
    /// Whole days since it was extracted.
    pub age_days: i64,
    /// Whether it has waited for longer than it should.
    pub is_overdue: bool,
}

impl Engine {
    /// What waits for a person, of one trace or all: the oldest first, what says nearly the same together
    /// ([`cognilog_core::similarity`]). `pending_days` is when an extraction is overdue, 30 days without it.
    ///
    /// # Errors
    /// As [`Engine::pending_extractions`].
    pub fn review_queue(
        &self,
        trace: Option<&TraceId>,
        now: Instant,
        pending_days: Option<u32>,
    ) -> Result<Vec<ReviewEntry>, Error> {
        let mut pending = self.pending_extractions(trace)?;
        pending.sort_by_key(|pending| pending.extraction.position);
        let groups = similarity::group(pending.iter().map(|pending| pending.extraction.current.content.as_str()));
        let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
        groups.iter().for_each(|group| *sizes.entry(*group).or_default() += 1);
        let firsts: Vec<u64> = groups.iter().map(|group| pending[*group].extraction.position).collect();
        let entries = pending.into_iter().zip(groups).zip(firsts).map(|((pending, group), first)| ReviewEntry {
            group: first,
            group_size: sizes[&group],
            age_days: age_days(Instant(pending.extraction.time), now),
            is_overdue: is_overdue(Instant(pending.extraction.time), now, pending_days),
            pending,
        });
        let mut entries: Vec<ReviewEntry> = entries.collect();
        entries.sort_by_key(|entry| (entry.group, entry.pending.extraction.position));
        Ok(entries)
    }

    /// The traces that have an extraction of this name, each with it.
    ///
    /// # Errors
    /// As [`Engine::pending_extractions`].
    pub fn find_extraction(
        &self,
        trace: Option<&TraceId>,
        extraction_id: &str,
    ) -> Result<Vec<PendingExtraction>, Error> {
        let mut all = self.extractions(trace)?;
        all.retain(|found| found.extraction.extraction_id == extraction_id && found.extraction.position > 0);
        Ok(all)
    }

    /// Records one decision.
    ///
    /// # Errors
    /// The decision is refused ([`Error::Review`]) and nothing recorded, or the store fails.
    pub fn review(&self, request: ReviewRequest) -> Result<Reviewed, Error> {
        match self.review_all(vec![request])?.pop() {
            Some(decided) => Ok(decided?),
            None => Err(ReviewRejection::NoReviewer.into()),
        }
    }

    /// Records many decisions together: each is decided on its own, and those that are refused keep the others from
    /// nothing. Together they are one act, which [`Engine::undo`] takes back as one.
    ///
    /// # Errors
    /// The store fails; nothing is recorded, but for [`StoreError::OutcomeUnknown`].
    pub fn review_all(&self, requests: Vec<ReviewRequest>) -> Result<Vec<Result<Reviewed, ReviewRejection>>, Error> {
        let acts = requests.into_iter().map(|request| Act {
            trace: request.trace,
            extraction_id: request.extraction_id,
            reviewer: request.reviewer,
            seen: request.seen,
            reason: request.reason,
            what: What::Decide(request.verdict),
        });
        self.act(acts.collect())
    }

    /// Takes back the last act of a reviewer as if it had not been: the decisions that were made together with the last
    /// one are undone together, and each extraction is again where it was before, its text included. Again, the act
    /// before that one.
    ///
    /// # Errors
    /// The reviewer has decided nothing that stands ([`Error::Review`]), or the store fails. A decision that another one
    /// stands on, or whose extraction is committed, is refused in its place.
    pub fn undo(&self, reviewer: &str) -> Result<Vec<Result<Reviewed, ReviewRejection>>, Error> {
        let snapshot = self.snapshot()?;
        let decisions = self.decisions_by(&snapshot, reviewer)?;
        let Some((last, _)) = decisions.last_key_value() else {
            return Err(ReviewRejection::NothingToUndo { reviewer: reviewer.to_owned() }.into());
        };
        let together = append_of(&snapshot, Position(*last))?;
        let acts = decisions.range(together).map(|(_, (trace, extraction_id, version))| Act {
            trace: trace.clone(),
            extraction_id: extraction_id.clone(),
            reviewer: reviewer.to_owned(),
            seen: None,
            reason: None,
            what: What::Undo(*version),
        });
        self.act(acts.collect())
    }

    /// The decisions of a reviewer that stand, by position: trace, extraction, version.
    fn decisions_by(
        &self,
        snapshot: &Snapshot,
        reviewer: &str,
    ) -> Result<BTreeMap<u64, (TraceId, String, u64)>, Error> {
        let view = snapshot.view();
        let mut decisions = BTreeMap::new();
        for number in 0..view.stream_count()? {
            let rows = extraction_queue::extractions(&view, number)?;
            if rows.is_empty() {
                continue;
            }
            let Some(StreamId::Trace(trace)) = view.stream_name(number)? else { continue };
            for row in rows {
                for index in row.standing() {
                    let decision = &row.decisions[index];
                    if decision.reviewer.as_deref() == Some(reviewer) {
                        let place = (trace.clone(), row.extraction_id.clone(), decision.version);
                        decisions.insert(decision.position, place);
                    }
                }
            }
        }
        Ok(decisions)
    }

    fn act(&self, acts: Vec<Act>) -> Result<Vec<Result<Reviewed, ReviewRejection>>, Error> {
        let bytes = acts.iter().map(Act::bytes).sum();
        let now = system_now();
        let event_ids = acts.iter().map(|_| new_event_id(now)).collect::<Result<Vec<_>, _>>()?;
        let command = ReviewCommand { acts, event_ids, now, in_flight: self.in_flight.clone() };
        let (receipt, mut decided) = self.store.submit(command, bytes)?;
        let mut recorded = receipt.events.iter();
        for reviewed in decided.iter_mut().flatten() {
            reviewed.position = recorded.next().map_or(0, |event| event.position.0);
        }
        Ok(decided)
    }
}

/// The positions of the append that an event was recorded in.
fn append_of(snapshot: &Snapshot, position: Position) -> Result<std::ops::Range<u64>, Error> {
    let mut first = position;
    while first > Position(1) {
        let Some(event) = snapshot.event(first)? else { break };
        if event.append_events > 0 {
            let end = first.0 + u64::from(event.append_events);
            // An event that does not belong to the append found before it stands alone.
            return Ok(if position.0 < end { first.0..end } else { position.0..position.0 + 1 });
        }
        first = Position(first.0 - 1);
    }
    Ok(first.0..position.0 + 1)
}

enum What {
    Decide(Verdict),
    /// The version that is taken back.
    Undo(u64),
}

struct Act {
    trace: TraceId,
    extraction_id: String,
    reviewer: String,
    seen: Option<u64>,
    reason: Option<String>,
    what: What,
}

impl Act {
    fn bytes(&self) -> usize {
        let edited = match &self.what {
            What::Decide(Verdict::Edit(edit)) => edit.content.as_ref().map_or(0, String::len) + 1_024,
            _ => 0,
        };
        512 + edited + self.reason.as_ref().map_or(0, String::len)
    }
}

/// The command that the writer decides.
struct ReviewCommand {
    acts: Vec<Act>,
    event_ids: Vec<EventId>,
    now: Instant,
    in_flight: InFlight,
}

impl Command for ReviewCommand {
    type Output = Vec<Result<Reviewed, ReviewRejection>>;

    fn decide(&mut self, view: &View<'_>) -> Result<(Decision, Self::Output), StoreError> {
        let mut decision = Decision::default();
        let mut decided = Vec::with_capacity(self.acts.len());
        let mut touched = BTreeSet::new();
        for (act, event_id) in std::mem::take(&mut self.acts).into_iter().zip(&self.event_ids) {
            let stream = StreamId::Trace(act.trace.clone());
            let Some((number, row)) = find(view, &stream, &act.extraction_id)? else {
                let (trace_id, extraction_id) = (act.trace.to_string(), act.extraction_id);
                decided.push(Err(ReviewRejection::NotFound { trace_id, extraction_id }));
                continue;
            };
            let is_first = touched.insert((number, act.extraction_id.clone()));
            match self.decide_one(&act, &row, is_first) {
                Err(rejection) => decided.push(Err(rejection)),
                Ok((mut event, reviewed)) => {
                    event.sequence = Some(latest_sequence(view, number)?);
                    event.timestamp = Some(self.now.to_text());
                    let event = NewEvent::typed(&Event::from(event), *event_id, Some(self.now))?;
                    decision.appends.push((stream.clone(), vec![event]));
                    decision.conditions.push(unchanged(stream, view));
                    decided.push(Ok(reviewed));
                }
            }
        }
        Ok((decision, decided))
    }
}

impl ReviewCommand {
    fn decide_one(
        &self,
        act: &Act,
        row: &ExtractionRow,
        is_first: bool,
    ) -> Result<(ExtractionReviewed, Reviewed), ReviewRejection> {
        if act.reviewer.trim().is_empty() {
            return Err(ReviewRejection::NoReviewer);
        }
        if self.in_flight.contains(&act.trace, &act.extraction_id) {
            return Err(ReviewRejection::InFlight { extraction_id: act.extraction_id.clone() });
        }
        let refused = |rule| ReviewRejection::rule(row, rule);
        if !is_first {
            // Another decision of the same act came before it.
            return Err(refused(ExtractionRejection::StaleVersion { seen: row.version, latest: row.version + 1 }));
        }
        let (word, edited, undoes, state) = match &act.what {
            What::Decide(verdict) => {
                let word = match verdict {
                    Verdict::Approve => ReviewDecision::APPROVE,
                    Verdict::Edit(_) => ReviewDecision::EDIT,
                    Verdict::Discard => ReviewDecision::DISCARD,
                    Verdict::Withdraw => ReviewDecision::WITHDRAW,
                };
                let seen = act.seen.unwrap_or(row.version);
                let state = decide_review(row.state(), row.version, seen, word).map_err(refused)?;
                let edited = match verdict {
                    Verdict::Edit(edit) => Some(changes(edit, row)?),
                    _ => None,
                };
                (word, edited, None, state)
            }
            What::Undo(version) => {
                let before = decide_undo(row.state(), &row.standing(), *version).map_err(refused)?;
                let (word, edited) = match before.map(|index| &row.decisions[index]) {
                    // Readers that do not know `undoes` are told what counts again.
                    Some(decision) => (
                        ReviewDecision::from_word(&decision.decision).unwrap_or(ReviewDecision::WITHDRAW),
                        decision.edited.as_ref().map(event_edit),
                    ),
                    None => (ReviewDecision::WITHDRAW, None),
                };
                (word, edited, Some(*version), fold_review(ExtractionState::Pending, word))
            }
        };
        let version = row.version + 1;
        let event = ExtractionReviewed {
            sequence: None,
            extraction_id: row.extraction_id.clone(),
            version: i64::try_from(version).ok(),
            decision: word,
            edited,
            reviewer: Some(act.reviewer.trim().to_owned()),
            reason: act.reason.clone().filter(|reason| !reason.trim().is_empty()),
            undoes: undoes.and_then(|version| i64::try_from(version).ok()),
            timestamp: None,
        };
        let reviewed = Reviewed {
            trace_id: act.trace.to_string(),
            extraction_id: row.extraction_id.clone(),
            decision: word.as_str().to_owned(),
            version,
            state: state.as_str().to_owned(),
            undoes,
            position: 0,
        };
        Ok((event, reviewed))
    }
}

/// The fields of an edit that differ from what stands, checked.
fn changes(edit: &ExtractionEdit, row: &ExtractionRow) -> Result<ExtractionEdit, ReviewRejection> {
    let now = &row.current;
    let json = |field: &Option<JsonText>, now: &Option<String>| {
        field.clone().filter(|text| Some(text.as_str()) != now.as_deref())
    };
    let text = |field: &Option<String>, now: &Option<String>| field.clone().filter(|text| Some(text) != now.as_ref());
    let list = |field: &Option<Vec<String>>, now: &Option<Vec<String>>| {
        field.clone().filter(|list| Some(list) != now.as_ref())
    };
    let changes = ExtractionEdit {
        types: edit.types.clone().filter(|types| *types != now.types),
        task: text(&edit.task, &now.task),
        content: edit.content.clone().filter(|content| *content != now.content),
        score: json(&edit.score, &now.score),
        tags: json(&edit.tags, &now.tags),
        scopes: list(&edit.scopes, &now.scopes),
        resource_ids: list(&edit.resource_ids, &now.resource_ids),
        owner: text(&edit.owner, &now.owner),
        source: json(&edit.source, &now.source),
    };
    if changes == ExtractionEdit::default() {
        return Err(ReviewRejection::rule(row, ExtractionRejection::NothingEdited));
    }
    check_edited(changes.content.as_ref().unwrap_or(&now.content)).map_err(|rule| ReviewRejection::rule(row, rule))?;
    for (field, value, reason, fits) in [
        ("score", &changes.score, "a score is a number", (|value| matches!(value, Value::Number(_))) as Fits),
        ("tags", &changes.tags, "tags are an object", |value| matches!(value, Value::Object(_))),
        ("source", &changes.source, "a source is an object", |value| matches!(value, Value::Object(_))),
    ] {
        let Some(text) = value else { continue };
        // Only JSON that everybody reads becomes an edit: no NaN, no lone surrogate.
        let is_plain = serde_json::from_str::<serde::de::IgnoredAny>(text.as_str()).is_ok();
        if !is_plain || !Node::parse(text.as_str()).is_ok_and(|node| fits(&node.value)) {
            return Err(ReviewRejection::BadField { extraction_id: row.extraction_id.clone(), field, reason });
        }
    }
    Ok(changes)
}

type Fits = fn(&Value<'_>) -> bool;

/// A recorded edit as an event has it.
fn event_edit(edit: &Edit) -> ExtractionEdit {
    let json = |text: &Option<String>| text.as_deref().and_then(|text| JsonText::new(text).ok());
    ExtractionEdit {
        types: edit.types.clone(),
        task: edit.task.clone(),
        content: edit.content.clone(),
        score: json(&edit.score),
        tags: json(&edit.tags),
        scopes: edit.scopes.clone(),
        resource_ids: edit.resource_ids.clone(),
        owner: edit.owner.clone(),
        source: json(&edit.source),
    }
}
