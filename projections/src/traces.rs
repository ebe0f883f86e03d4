//! The `traces` projection: task, agent, goals, latest sequences, counts and side branches of each trace.
//!
//! ```text
//! 'c'          → what changes with every event: counts and latest sequences
//! 'i'          → what `trace_started` and `trace_finished` say
//! 'g' goal id  → a goal
//! 'b'          → the side branches: queued, under way, asked for
//! ```

use std::collections::{BTreeMap, BTreeSet};

use bincode::{Decode, Encode};
use cognilog_core::StreamId;
use cognilog_core::event::{Body, EventKind, EventView, Trigger};
use cognilog_core::side_branch::{SideBranch, place_in_queue};
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
    /// The run's configuration, as JSON.
    pub config: Option<String>,
    /// The goal that was focused, finished or given up last.
    pub current_goal: Option<String>,
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

/// A side branch that waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct QueuedBranch {
    /// knowledge_eval, reflection or compression.
    pub branch_type: String,
    /// What queued it.
    pub trigger: String,
}

/// A side branch that is under way: its prompt was handed out and no reply has ended it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct OpenBranch {
    /// Its id.
    pub branch_id: String,
    /// knowledge_eval, reflection or compression.
    pub branch_type: String,
    /// What queued it.
    pub trigger: String,
    /// The how-manieth try is under way, from 1.
    pub attempt: u32,
    /// Why nothing was taken from the last reply.
    pub failure: Option<String>,
    /// Whether that was the reply to this try, so that another one is due.
    pub failed: bool,
    /// The sources it asks for, by the query's sequence.
    pub asked: Vec<(i64, Vec<String>)>,
}

/// The side branches of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct SideBranches {
    /// Those that wait, the next one first.
    pub queue: Vec<QueuedBranch>,
    /// The one that is under way.
    pub open: Option<OpenBranch>,
    /// Sources that each trigger has asked for in vain: it does not ask for them again.
    pub asked: BTreeMap<String, BTreeSet<(i64, String)>>,
    /// Messages and queries that there were when knowledge was last extracted.
    pub extracted: u64,
}

impl TraceCounts {
    /// Messages and queries: what a side branch has to go by.
    #[must_use]
    pub fn content(&self) -> u64 {
        let kinds = [EventKind::Message, EventKind::Query];
        kinds.iter().filter_map(|kind| self.by_type.get(kind.as_str())).sum()
    }
}

impl SideBranches {
    /// The types of the branches that are queued or under way.
    #[must_use]
    pub fn types(&self) -> Vec<SideBranch> {
        let open = self.open.iter().map(|open| open.branch_type.as_str());
        let queued = self.queue.iter().map(|queued| queued.branch_type.as_str());
        open.chain(queued).filter_map(SideBranch::from_word).collect()
    }

    fn enqueue(&mut self, branch_type: &str, trigger: &str) {
        let known = |word: &str| SideBranch::from_word(word).unwrap_or(SideBranch::Extraction);
        let queued: Vec<SideBranch> = self.queue.iter().map(|queued| known(&queued.branch_type)).collect();
        let place = place_in_queue(&queued, known(branch_type));
        self.queue.insert(place, QueuedBranch { branch_type: branch_type.to_owned(), trigger: trigger.to_owned() });
    }

    fn start(&mut self, mut branch: OpenBranch) {
        let is_queued = |queued: &QueuedBranch| queued.branch_type == branch.branch_type;
        if branch.attempt == 1
            && let Some(place) = self.queue.iter().position(is_queued)
        {
            self.queue.remove(place);
        }
        let before = self.open.take().filter(|open| open.branch_id == branch.branch_id);
        branch.failure = before.and_then(|open| open.failure);
        self.open = Some(branch);
    }

    fn finish(&mut self, branch_id: &str) {
        if let Some(open) = self.open.take_if(|open| open.branch_id == branch_id) {
            let asked = open.asked.into_iter();
            let sources = asked.flat_map(|(query, ids)| ids.into_iter().map(move |id| (query, id)));
            self.asked.entry(open.trigger).or_default().extend(sources);
        }
    }

    /// A source that has an assessment is nobody's to ask for.
    fn assessed(&mut self, query_sequence: i64, source_id: &str) {
        for (_, ids) in
            self.open.iter_mut().flat_map(|open| &mut open.asked).filter(|(query, _)| *query == query_sequence)
        {
            ids.retain(|id| id != source_id);
        }
        let key = (query_sequence, source_id.to_owned());
        for asked in self.asked.values_mut() {
            asked.remove(&key);
        }
        self.asked.retain(|_, asked| !asked.is_empty());
    }
}

impl Fold for Traces {
    fn name(&self) -> &'static str {
        "traces"
    }

    fn version(&self) -> u32 {
        3
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
                if let Some(config) = started.config.as_ref() {
                    info.config = Some(config.as_str().to_owned());
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
                let is_current = |status: &str| matches!(status, "in_progress" | "completed" | "abandoned");
                if goal.status.as_deref().is_some_and(is_current) {
                    let mut info: TraceInfo = stored(rows.get(b"i")).unwrap_or_default();
                    info.current_goal = Some(changed.goal_id.as_str().to_owned());
                    rows.put(b"i", &encode(&info));
                }
            }
            // What another program's file tells of triggers and branches was acted on there (DESIGN section 7: "An imported
            // trace re-opens no trigger by itself").
            _ if event.envelope.imported => {}
            _ => side_branches(rows, &event.body),
        }
    }
}

/// What an event does to the side branches.
fn side_branches(rows: &mut ChangeSet<'_>, body: &Body<'_>) {
    use Body::{Evaluation, ReplyUnparsed, SideBranchFinished, SideBranchStarted, TriggerFired};
    // Most events are none of these: the row is not even looked at.
    if !matches!(
        body,
        TriggerFired(_) | SideBranchStarted(_) | ReplyUnparsed(_) | SideBranchFinished(_) | Evaluation(_)
    ) {
        return;
    }
    let before: SideBranches = stored(rows.get(b"b")).unwrap_or_default();
    let mut branches = before.clone();
    match body {
        Body::TriggerFired(fired) => {
            let trigger = Trigger(fired.trigger.0).as_str();
            fired.queue.iter().for_each(|branch_type| branches.enqueue(branch_type.as_str(), trigger));
        }
        Body::SideBranchStarted(started) => branches.start(OpenBranch {
            branch_id: started.branch_id.as_str().to_owned(),
            branch_type: started.branch_type.as_str().to_owned(),
            trigger: started.trigger.as_ref().map_or(Trigger::MANUAL, |trigger| Trigger(trigger.0)).as_str().to_owned(),
            attempt: started.attempt.as_ref().map_or(1, |attempt| u32::try_from(attempt.to_native()).unwrap_or(1)),
            failure: None,
            failed: false,
            asked: started.asked.as_ref().map_or_else(Vec::new, |asked| {
                asked
                    .iter()
                    .map(|asked| {
                        let ids = asked.source_ids.iter().map(|id| id.as_str().to_owned()).collect();
                        (asked.query_sequence.to_native(), ids)
                    })
                    .collect()
            }),
        }),
        Body::ReplyUnparsed(unparsed) => {
            let of = unparsed.branch_id.as_ref().map(|id| id.as_str());
            if let Some(open) = branches.open.as_mut().filter(|open| Some(open.branch_id.as_str()) == of) {
                (open.failure, open.failed) = (Some(unparsed.reason.as_str().to_owned()), true);
            }
        }
        Body::SideBranchFinished(finished) => {
            let extraction = SideBranch::Extraction.as_str();
            if branches.open.as_ref().is_some_and(|open| open.branch_type == extraction)
                && finished.outcome.as_str() == "done"
            {
                branches.extracted = stored::<TraceCounts>(rows.get(b"c")).unwrap_or_default().content();
            }
            branches.finish(finished.branch_id.as_str());
        }
        Body::Evaluation(evaluation) if branches.open.is_some() || !branches.asked.is_empty() => {
            let query = evaluation.query_sequence.to_native();
            evaluation.assessments.iter().for_each(|judged| branches.assessed(query, judged.source_id.as_str()));
        }
        _ => return,
    }
    if branches != before {
        rows.put(b"b", &encode(&branches));
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
            Some((b'b', _)) => "side_branches".to_owned(),
            Some((b'g', id)) => format!("goal:{}", String::from_utf8_lossy(id)),
            _ => String::new(),
        }
    }

    fn show_row(&self, key: &[u8], row: &[u8]) -> Result<Value, RowError> {
        match key.first() {
            Some(b'c') => to_value(&decode::<TraceCounts>(row)?),
            Some(b'i') => to_value(&decode::<TraceInfo>(row)?),
            Some(b'b') => to_value(&decode::<SideBranches>(row)?),
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

/// The side branches of a stream's trace.
///
/// # Errors
/// As [`counts`].
pub fn side_branches_of(view: &View<'_>, stream_number: u64) -> Result<SideBranches, QueryError> {
    Ok(read(view, &stream_key(stream_number, b"b"))?.unwrap_or_default())
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
