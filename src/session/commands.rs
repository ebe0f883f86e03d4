//! The commands of a session: each decides in the one writer, on the side branches as they stand, and records its events
//! in one append, so that a crash leaves a step done or not begun.

use std::collections::BTreeSet;

use cognilog_core::event::{
    AskedSources, Event, GoalStatus, SideBranchFinished, SideBranchStarted, Trigger, TriggerFired,
};
use cognilog_core::side_branch::{
    AfterFailure, QuerySourceKey, SideBranch, TriggerSituation, after_failure, evaluates_first, plan,
};
use cognilog_core::{EventId, Instant, StreamId, TraceId};
use cognilog_projections::traces::{self, OpenBranch, SideBranches};
use cognilog_projections::{QueryError, evaluation_status};
use cognilog_storage::{Command, Condition, Decision, NewEvent, StoreError, View};

use super::KnowledgeConfig;

/// What every command of a session carries.
pub(super) struct Step {
    pub(super) trace: TraceId,
    pub(super) now: Instant,
    /// Identities for the events, at least as many as the step records.
    pub(super) event_ids: Vec<EventId>,
}

impl Step {
    fn stream(&self) -> StreamId {
        StreamId::Trace(self.trace.clone())
    }

    /// The decision that records these events at the trace's latest sequence (DESIGN section 5), if nothing came to the
    /// trace meanwhile.
    fn record(&self, view: &View<'_>, number: Option<u64>, events: Vec<Event>) -> Result<Decision, StoreError> {
        let counts = match number {
            Some(number) => traces::counts(view, number).map_err(as_store_error)?,
            None => None,
        };
        let sequence = counts.and_then(|counts| counts.latest_sequence).unwrap_or(0);
        let mut recorded = Vec::with_capacity(events.len());
        for (mut event, event_id) in events.into_iter().zip(&self.event_ids) {
            if event.sequence().is_none() {
                event.set_sequence(sequence);
            }
            event.set_timestamp(self.now.to_text());
            recorded.push(NewEvent::typed(&event, *event_id, Some(self.now))?);
        }
        let position = view.stream(&self.stream())?.map_or_else(Default::default, |standing| standing.last);
        let conditions = vec![Condition::StreamAt { stream: self.stream(), position }];
        Ok(Decision { appends: vec![(self.stream(), recorded)], conditions, key: None })
    }

    fn number(&self, view: &View<'_>) -> Result<Option<u64>, StoreError> {
        Ok(view.stream(&self.stream())?.map(|standing| standing.number))
    }
}

fn branches(view: &View<'_>, number: Option<u64>) -> Result<SideBranches, StoreError> {
    match number {
        Some(number) => traces::side_branches_of(view, number).map_err(as_store_error),
        None => Ok(SideBranches::default()),
    }
}

/// Sources without an assessment. A query without a sequence cannot be named in an evaluation, so nobody asks for it.
fn pending(view: &View<'_>, number: Option<u64>) -> Result<BTreeSet<QuerySourceKey>, StoreError> {
    let Some(number) = number else { return Ok(BTreeSet::new()) };
    let pending = evaluation_status::pending(view, number).map_err(as_store_error)?;
    let sources = pending.into_iter().filter_map(|query| Some((query.query.sequence?, query.missing_source_ids)));
    Ok(sources.flat_map(|(sequence, ids)| ids.into_iter().map(move |id| (sequence, id))).collect())
}

/// Messages and queries of the trace.
fn content(view: &View<'_>, number: Option<u64>) -> Result<u64, StoreError> {
    let Some(number) = number else { return Ok(0) };
    Ok(traces::counts(view, number).map_err(as_store_error)?.unwrap_or_default().content())
}

/// What a trigger queues now.
fn queued_by(
    trigger: Trigger,
    view: &View<'_>,
    number: Option<u64>,
    config: &KnowledgeConfig,
) -> Result<Vec<SideBranch>, StoreError> {
    let branches = branches(view, number)?;
    let nothing = BTreeSet::new();
    let content = content(view, number)?;
    Ok(plan(
        trigger,
        &TriggerSituation {
            pending: &pending(view, number)?,
            asked: branches.asked.get(trigger.as_str()).unwrap_or(&nothing),
            queued: &branches.types(),
            has_content: content > 0,
            has_new_content: content > branches.extracted,
            enable_extraction: config.enable_extraction,
            enable_completion_extraction: config.enable_completion_extraction,
        },
    ))
}

fn fired(trigger: Trigger, queued: &[SideBranch]) -> Event {
    let queue = queued.iter().map(|branch| branch.as_str().to_owned()).collect();
    TriggerFired { trigger, queue, ..TriggerFired::default() }.into()
}

/// What a step does once: asked again, after a crash say, it records nothing more.
pub(super) enum Once {
    /// A goal comes to a status.
    Goal(String, GoalStatus),
    /// The run ends.
    End,
    /// Whatever is queued already is not queued again.
    Queue,
}

impl Once {
    fn is_done(&self, view: &View<'_>, number: Option<u64>) -> Result<bool, StoreError> {
        let Some(number) = number else { return Ok(false) };
        Ok(match self {
            Once::Goal(id, status) => {
                let goals = traces::goals(view, number).map_err(as_store_error)?;
                goals.get(id).is_some_and(|goal| goal.status.as_deref() == Some(status.as_str()))
            }
            Once::End => traces::info(view, number).map_err(as_store_error)?.status.is_some(),
            Once::Queue => false,
        })
    }
}

/// Records events, and the trigger that they fire; answers with what it queued.
pub(super) struct Fire {
    pub(super) step: Step,
    pub(super) once: Once,
    pub(super) events: Vec<Event>,
    pub(super) trigger: Trigger,
    pub(super) config: KnowledgeConfig,
}

impl Command for Fire {
    type Output = Vec<SideBranch>;

    fn decide(&mut self, view: &View<'_>) -> Result<(Decision, Vec<SideBranch>), StoreError> {
        let number = self.step.number(view)?;
        if self.once.is_done(view, number)? {
            return Ok((Decision::default(), Vec::new()));
        }
        let queued = queued_by(self.trigger, view, number, &self.config)?;
        let mut events = std::mem::take(&mut self.events);
        if !queued.is_empty() {
            events.push(fired(self.trigger, &queued));
        }
        if events.is_empty() {
            return Ok((Decision::default(), Vec::new()));
        }
        Ok((self.step.record(view, number, events)?, queued))
    }
}

/// Whether a goal's new status fires the trigger (cognition log document, "触发点 1").
pub(super) fn ends_goal(status: GoalStatus) -> bool {
    matches!(status, GoalStatus::COMPLETED | GoalStatus::ABANDONED)
}

/// What comes next.
pub(super) enum Next {
    Nothing,
    /// Handed out now, or handed out before and not answered.
    Open(OpenBranch),
    /// Nothing to ask any more; the one behind it is next.
    Skipped,
}

/// Hands out the branch that is next.
pub(super) struct TakeNext {
    pub(super) step: Step,
    pub(super) branch_id: String,
    /// A person's own asking: this branch, whatever is queued.
    pub(super) manual: Option<SideBranch>,
}

impl Command for TakeNext {
    type Output = Result<Next, OpenBranch>;

    fn decide(&mut self, view: &View<'_>) -> Result<(Decision, Self::Output), StoreError> {
        let number = self.step.number(view)?;
        let branches = branches(view, number)?;
        if let Some(open) = branches.open {
            if self.manual.is_some_and(|branch| branch.as_str() != open.branch_type) {
                return Ok((Decision::default(), Err(open)));
            }
            if !open.failed {
                return Ok((Decision::default(), Ok(Next::Open(open))));
            }
            let again = OpenBranch { attempt: open.attempt + 1, failed: false, ..open };
            let decision = self.step.record(view, number, vec![started(&again)])?;
            return Ok((decision, Ok(Next::Open(again))));
        }
        let (mut branch_type, trigger) = match (self.manual, branches.queue.first()) {
            (Some(branch), _) => (branch.as_str().to_owned(), Trigger::MANUAL.as_str().to_owned()),
            (None, Some(queued)) => (queued.branch_type.clone(), queued.trigger.clone()),
            (None, None) => return Ok((Decision::default(), Ok(Next::Nothing))),
        };
        // A person who asks for an evaluation knows no before.
        let before = branches.asked.get(&trigger).filter(|_| self.manual != Some(SideBranch::Evaluation));
        let pending = pending(view, number)?;
        if let Some(next) = SideBranch::from_word(&branch_type)
            && evaluates_first(next, &pending, before.unwrap_or(&BTreeSet::new()))
        {
            branch_type = SideBranch::Evaluation.as_str().to_owned();
        }
        let mut open = OpenBranch {
            branch_id: self.branch_id.clone(),
            branch_type,
            trigger,
            attempt: 1,
            failure: None,
            failed: false,
            asked: Vec::new(),
        };
        let why_not = match SideBranch::from_word(&open.branch_type) {
            None => Some("this build does not know it"),
            Some(SideBranch::Evaluation) => {
                open.asked = asked(pending, before);
                open.asked.is_empty().then_some("every source was assessed meanwhile")
            }
            Some(_) => None,
        };
        let mut events = vec![started(&open)];
        if let Some(reason) = why_not {
            events.push(
                SideBranchFinished {
                    branch_id: open.branch_id.clone(),
                    outcome: "skipped".to_owned(),
                    error: Some(reason.to_owned()),
                    ..SideBranchFinished::default()
                }
                .into(),
            );
        }
        let decision = self.step.record(view, number, events)?;
        Ok((decision, Ok(if why_not.is_some() { Next::Skipped } else { Next::Open(open) })))
    }
}

fn started(open: &OpenBranch) -> Event {
    let asked = |(query_sequence, source_ids): &(i64, Vec<String>)| AskedSources {
        query_sequence: *query_sequence,
        source_ids: source_ids.clone(),
    };
    SideBranchStarted {
        branch_id: open.branch_id.clone(),
        branch_type: open.branch_type.clone(),
        trigger: Trigger::from_word(&open.trigger),
        attempt: Some(i64::from(open.attempt)),
        asked: Some(open.asked.iter().map(asked).collect()).filter(|asked: &Vec<AskedSources>| !asked.is_empty()),
        ..SideBranchStarted::default()
    }
    .into()
}

/// The sources to ask for, by query; without those that the trigger asked for before.
fn asked(pending: BTreeSet<QuerySourceKey>, before: Option<&BTreeSet<QuerySourceKey>>) -> Vec<(i64, Vec<String>)> {
    let mut asked: Vec<(i64, Vec<String>)> = Vec::new();
    for (query, source) in pending {
        if before.is_some_and(|before| before.contains(&(query, source.clone()))) {
            continue;
        }
        match asked.last_mut() {
            Some((last, sources)) if *last == query => sources.push(source),
            _ => asked.push((query, vec![source])),
        }
    }
    asked
}

/// Records what came of a try, if the branch still waits for it.
pub(super) struct Settle {
    pub(super) step: Step,
    pub(super) branch_id: String,
    pub(super) attempt: u32,
    pub(super) events: Vec<Event>,
    /// How the branch ends; none when the try failed and another may follow.
    pub(super) finished: SideBranchFinished,
    pub(super) failed_try: bool,
    pub(super) retries: u32,
}

/// What a try came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// Its branch waits for another reply or none: nothing was recorded.
    Gone,
    /// The branch is asked again.
    Again,
    /// The branch has ended.
    Ended,
}

impl Command for Settle {
    type Output = Settled;

    fn decide(&mut self, view: &View<'_>) -> Result<(Decision, Settled), StoreError> {
        let number = self.step.number(view)?;
        let waits =
            |open: &OpenBranch| open.branch_id == self.branch_id && open.attempt == self.attempt && !open.failed;
        if !branches(view, number)?.open.as_ref().is_some_and(waits) {
            return Ok((Decision::default(), Settled::Gone));
        }
        let mut events = std::mem::take(&mut self.events);
        let again = self.failed_try && after_failure(self.attempt, self.retries) != AfterFailure::GiveUp;
        if !again {
            events.push(std::mem::take(&mut self.finished).into());
        }
        let settled = if again { Settled::Again } else { Settled::Ended };
        Ok((self.step.record(view, number, events)?, settled))
    }
}

pub(super) fn as_store_error(error: QueryError) -> StoreError {
    match error {
        QueryError::Store(error) => error,
        error => StoreError::Database { message: error.to_string() },
    }
}
