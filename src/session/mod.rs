//! Driving a trace: a host agent records what it does, is told which side branch comes next, and hands in the reply
//! (DESIGN section 7).
//!
//! The queue of side branches is state folded from the log: after a crash, [`Engine::resume_trace`] goes on with the same
//! branch, and nothing is recorded twice.

mod asking;
mod commands;
mod config;
mod conversation;
mod hub;
mod reading;

pub use asking::{AskOptions, AskedBranch};
pub use cognilog_core::side_branch::SideBranch;
pub use config::{EVALUATION_RETRIES_MAX, KnowledgeConfig, PromptTemplates, RunConfig};
pub use hub::{Answer, KnowledgeSource, Question};

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use cognilog_core::event::{
    Event, EventKind, GoalChanged, GoalStatus, JsonText, Message, Query, QuerySource, SideBranchFinished,
    TraceFinished, TraceStarted, TraceStatus, Trigger,
};
use cognilog_core::{Position, StreamId, TraceId};
use cognilog_projections::traces::{self, Goal, OpenBranch, TraceInfo};
use cognilog_storage::{Receipt, Snapshot, new_event_id, system_now};

use crate::commit::{CommitReport, CommitSelection, CommitSink};
use crate::engine::Engine;
use crate::error::Error;
use crate::prompts::{PromptData, PromptKind, PromptQuery, PromptSource, prompt};
use commands::{Fire, Next, Once, Settle, Settled, Step, TakeNext, as_store_error, ends_goal};

/// Sources of earlier queries that an extraction prompt lists, the latest ones.
const INJECTED_SHOWN_MAX: usize = 50;
/// Branches that are found to have nothing to ask before one is handed out; more than any queue holds.
const SKIPPED_MAX: usize = 1_000;

/// What a run says of itself when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceStart {
    /// What the agent is to do.
    pub task: Option<String>,
    /// The identity whose memory the run shares.
    pub identity: Option<String>,
    /// The kind of agent.
    pub agent_type: Option<String>,
    /// Whose run it is.
    pub owner: Option<String>,
    /// How it is to be observed.
    pub config: RunConfig,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceEnd {
    /// How; completed unless said otherwise.
    pub status: Option<TraceStatus>,
    /// network, timeout, rate_limit, logic_error, wrong_output, …
    pub error_type: Option<String>,
    /// Steps taken.
    pub total_steps: Option<i64>,
    /// How often each source was used, as JSON.
    pub knowledge_usage: Option<JsonText>,
}

/// What focusing a goal brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Focus {
    /// The sequence of the query that was recorded.
    pub query_sequence: i64,
    /// The sources of the answer.
    pub source_ids: Vec<String>,
    /// The text to inject into the conversation, marked as knowledge; none for an empty answer.
    pub inject: Option<String>,
}

/// A side branch that was handed out: ask the model, in the conversation as it stands, with the prompt at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideBranchTask {
    /// Names the branch when its reply is handed in.
    pub branch_id: String,
    /// What is asked.
    pub branch: SideBranch,
    /// What queued it.
    pub trigger: Trigger,
    /// The how-manieth try, from 1.
    pub attempt: u32,
    /// The text of the prompt.
    pub prompt: String,
    asked: Vec<(i64, Vec<String>)>,
}

/// A model's reply to a side branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchReply {
    /// The text.
    pub text: String,
    /// Tool calls, as the JSON list that the endpoint gave.
    pub tool_calls: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// Token use, as JSON.
    pub tokens: Option<JsonText>,
}

impl From<&str> for BranchReply {
    fn from(text: &str) -> BranchReply {
        BranchReply { text: text.to_owned(), ..BranchReply::default() }
    }
}

/// What came of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchOutcome {
    /// Judgements, pieces of knowledge, or the summary that were recorded.
    pub accepted: usize,
    /// The extractions that wait for a person now.
    pub extraction_ids: Vec<String>,
    /// What of the reply was mended, a line each.
    pub repairs: Vec<String>,
    /// What of the reply was not taken, a line each.
    pub dropped: Vec<String>,
    /// Why nothing was taken, if nothing was.
    pub failure: Option<String>,
    /// Whether the branch is asked again; else the queue goes on.
    pub again: bool,
    /// What was committed at once, by a run that is configured so.
    pub committed: Vec<CommitReport>,
}

/// One trace of a host agent. Every call returns after its events are on disk.
///
/// ```
/// use cognilog::event::{GoalStatus, Message, QuerySource};
/// use cognilog::session::{Answer, Question, TraceStart};
/// use cognilog::{Engine, TraceId};
///
/// # let folder = tempfile::tempdir()?;
/// let engine = Engine::create(&folder.path().join("store"))?;
/// let start = TraceStart { task: Some("mend the upscaling".into()), ..TraceStart::default() };
/// let session = engine.start_trace(&TraceId::new("trace-1")?, start)?;
/// let hub = |_: &Question<'_>| {
///     let source = QuerySource { id: "knowledge-a1b2".into(), task: None, content: Some("Raise the strength.".into()) };
///     Ok(Answer { response: Some("Raise the strength first.".into()), sources: vec![source] })
/// };
/// let focus = session.focus_goal("1", "sharp outlines", &hub)?;
/// session.record(Message { role: "user".into(), ..Message::default() })?;
/// session.finish_goal("1", GoalStatus::COMPLETED)?;
///
/// let task = session.next_side_branch()?.expect("an evaluation waits");
/// assert!(task.prompt.contains("knowledge-a1b2"));
/// let reply = format!(
///     r#"{{"evaluations": [{{"query_sequence": {}, "assessments":
///        [{{"source_id": "knowledge-a1b2", "status": "helpful", "reason": "it was the cause"}}]}}]}}"#,
///     focus.query_sequence
/// );
/// assert_eq!(session.take_reply(&task, &reply.as_str().into())?.accepted, 1);
/// assert!(session.next_side_branch()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TraceSession<'e> {
    engine: &'e Engine,
    trace: TraceId,
    config: RunConfig,
    memory: Option<String>,
    templates: PromptTemplates,
    sink: Option<&'e dyn CommitSink>,
}

impl std::fmt::Debug for TraceSession<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TraceSession").field("trace", &self.trace).finish_non_exhaustive()
    }
}

impl Engine {
    /// Starts a trace, or starts it again after it has ended.
    ///
    /// # Errors
    /// The trace is running: [`Engine::resume_trace`] goes on with it.
    pub fn start_trace(&self, trace: &TraceId, start: TraceStart) -> Result<TraceSession<'_>, Error> {
        if let Some((info, true)) = self.trace_start(trace)?
            && info.status.is_none()
        {
            return Err(Error::TraceRunning { trace: trace.to_string() });
        }
        let config = serde_json::to_string(&start.config).unwrap_or_default();
        let started = TraceStarted {
            task: start.task,
            identity: start.identity,
            agent_type: start.agent_type,
            owner: start.owner,
            config: JsonText::new(&config).ok(),
            ..TraceStarted::default()
        };
        self.append(trace, [started])?;
        Ok(TraceSession {
            engine: self,
            trace: trace.clone(),
            config: start.config,
            memory: None,
            templates: PromptTemplates::default(),
            sink: None,
        })
    }

    /// Goes on with a trace, with the configuration that it recorded, after a crash too. A trace that was imported and
    /// never started has the default one.
    ///
    /// # Errors
    /// There is no such trace.
    pub fn resume_trace(&self, trace: &TraceId) -> Result<TraceSession<'_>, Error> {
        let missing = || Error::NoSuchTrace { trace: trace.to_string() };
        let (info, _) = self.trace_start(trace)?.ok_or_else(missing)?;
        // What another build wrote there and this one cannot read is left to its defaults.
        let config = info.config.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        Ok(TraceSession {
            engine: self,
            trace: trace.clone(),
            config,
            memory: None,
            templates: PromptTemplates::default(),
            sink: None,
        })
    }

    fn trace_start(&self, trace: &TraceId) -> Result<Option<(TraceInfo, bool)>, Error> {
        let snapshot = self.snapshot()?;
        let view = snapshot.view();
        let Some(standing) = view.stream(&StreamId::Trace(trace.clone()))? else { return Ok(None) };
        let counts = traces::counts(&view, standing.number)?.unwrap_or_default();
        let starts = counts.by_type.get(EventKind::TraceStarted.as_str()).copied().unwrap_or(0);
        Ok(Some((traces::info(&view, standing.number)?, starts > 0)))
    }
}

impl<'e> TraceSession<'e> {
    /// The trace.
    #[must_use]
    pub fn trace(&self) -> &TraceId {
        &self.trace
    }

    /// The configuration that the trace recorded.
    #[must_use]
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// Tells the session which memory the host injected, so that the extraction prompt can show what is noted already.
    #[must_use]
    pub fn with_memory(mut self, memory: impl Into<String>) -> TraceSession<'e> {
        self.memory = Some(memory.into());
        self
    }

    /// Overrides prompts, for this session alone.
    #[must_use]
    pub fn with_templates(mut self, templates: PromptTemplates) -> TraceSession<'e> {
        self.templates = templates;
        self
    }

    /// Tells the session where extractions are committed when their branch ends, if the run was configured with
    /// `reflect_auto_commit`; without a sink they stay approved and the next commit takes them.
    #[must_use]
    pub fn with_sink(mut self, sink: &'e dyn CommitSink) -> TraceSession<'e> {
        self.sink = Some(sink);
        self
    }

    /// Records a message; without a sequence it gets the next one.
    ///
    /// # Errors
    /// As [`Engine::append`].
    pub fn record(&self, message: Message) -> Result<Receipt, Error> {
        self.engine.append(&self.trace, [message])
    }

    /// Focuses a goal: asks the hub with its description, records the query, and gives the text to inject.
    ///
    /// # Errors
    /// The hub cannot be asked: the goal is focused and no query is recorded. As [`Engine::append`] else.
    pub fn focus_goal(&self, goal_id: &str, description: &str, hub: &dyn KnowledgeSource) -> Result<Focus, Error> {
        let (_, goals) = self.look()?;
        let focused = Goal {
            description: Some(description.to_owned()),
            status: Some(GoalStatus::IN_PROGRESS.as_str().to_owned()),
            parent_id: goals.get(goal_id).and_then(|goal| goal.parent_id.clone()),
        };
        if goals.get(goal_id) != Some(&focused) {
            let changed = GoalChanged {
                goal_id: goal_id.to_owned(),
                description: Some(description.to_owned()),
                status: Some(GoalStatus::IN_PROGRESS),
                ..GoalChanged::default()
            };
            self.engine.append(&self.trace, [changed])?;
        }
        let question = Question { trace: &self.trace, goal_id, text: description };
        let answer = hub.ask(&question).map_err(|error| Error::KnowledgeSource { message: error.to_string() })?;
        self.record_query(Some(goal_id), description, &answer)
    }

    /// Records what a hub answered, and gives the text to inject; [`TraceSession::focus_goal`] does it by itself.
    ///
    /// # Errors
    /// As [`Engine::append`].
    pub fn record_query(&self, goal_id: Option<&str>, query: &str, answer: &Answer) -> Result<Focus, Error> {
        let source_ids: Vec<String> = answer.sources.iter().map(|source| source.id.clone()).collect();
        let query = Query {
            goal_id: goal_id.map(str::to_owned),
            query: query.to_owned(),
            response: answer.response.clone(),
            source_ids: source_ids.clone(),
            sources: answer.sources.clone(),
            ..Query::default()
        };
        let receipt = self.engine.append(&self.trace, [query])?;
        let query_sequence = receipt.events.first().and_then(|event| event.sequence).unwrap_or_default();
        Ok(Focus { query_sequence, source_ids, inject: hub::injection(query_sequence, answer) })
    }

    /// Records that a goal was completed or abandoned, and queues the evaluation of what is pending. Gives what was
    /// queued. A goal that has the status already is left as it is.
    ///
    /// # Errors
    /// As [`Engine::append`].
    pub fn finish_goal(&self, goal_id: &str, status: GoalStatus) -> Result<Vec<SideBranch>, Error> {
        let changed =
            GoalChanged { goal_id: goal_id.to_owned(), status: Some(status), ..GoalChanged::default() }.into();
        if !ends_goal(status) {
            self.engine.append::<Event>(&self.trace, [changed])?;
            return Ok(Vec::new());
        }
        self.fire(Trigger::GOAL_COMPLETION, Once::Goal(goal_id.to_owned(), status), vec![changed])
    }

    /// Tells how large the context is, in tokens; over the threshold, a compression and what must come before it are
    /// queued, unless they are already. Gives what was queued.
    ///
    /// # Errors
    /// As [`Engine::append`].
    pub fn report_context(&self, tokens: u64, threshold: u64) -> Result<Vec<SideBranch>, Error> {
        if tokens <= threshold {
            return Ok(Vec::new());
        }
        self.fire(Trigger::COMPRESSION, Once::Queue, Vec::new())
    }

    /// Records how the run ended, and queues what is asked at the end of a task. Gives what was queued. A run that has
    /// ended is left as it is.
    ///
    /// # Errors
    /// As [`Engine::append`].
    pub fn finish(&self, end: TraceEnd) -> Result<Vec<SideBranch>, Error> {
        let finished = TraceFinished {
            status: end.status.unwrap_or(TraceStatus::COMPLETED),
            error_type: end.error_type,
            total_steps: end.total_steps,
            knowledge_usage: end.knowledge_usage,
            ..TraceFinished::default()
        };
        self.fire(Trigger::TASK_COMPLETION, Once::End, vec![finished.into()])
    }

    fn fire(&self, trigger: Trigger, once: Once, events: Vec<Event>) -> Result<Vec<SideBranch>, Error> {
        let command =
            Fire { step: self.step(events.len() + 1)?, once, events, trigger, config: self.config.knowledge.clone() };
        Ok(self.engine.store.submit(command, STEP_BYTES)?.1)
    }

    /// The side branch that is next, with its prompt. The same one again, with the same id, until its reply was taken or
    /// it was given up.
    ///
    /// # Errors
    /// As [`Engine::append`]; a template of the configuration cannot be used.
    pub fn next_side_branch(&self) -> Result<Option<SideBranchTask>, Error> {
        for _ in 0..SKIPPED_MAX {
            match self.take_next(None)? {
                Next::Nothing => return Ok(None),
                Next::Open(open) => return self.task(open).map(Some),
                Next::Skipped => {}
            }
        }
        Ok(None)
    }

    /// Begins a branch that a person asks for, whatever is queued; none when it has nothing to ask. Before a compression
    /// the evaluation of what is pending is handed out: ask again when it is settled.
    ///
    /// # Errors
    /// Another branch is under way. As [`TraceSession::next_side_branch`] else.
    pub fn begin_side_branch(&self, branch: SideBranch) -> Result<Option<SideBranchTask>, Error> {
        match self.take_next(Some(branch))? {
            Next::Open(open) => self.task(open).map(Some),
            Next::Nothing | Next::Skipped => Ok(None),
        }
    }

    fn take_next(&self, manual: Option<SideBranch>) -> Result<Next, Error> {
        let branch_id = new_event_id(system_now())?.to_string();
        let command = TakeNext { step: self.step(2)?, branch_id, manual };
        self.engine
            .store
            .submit(command, STEP_BYTES)?
            .1
            .map_err(|open| Error::SideBranchOpen { branch_id: open.branch_id, branch_type: open.branch_type })
    }

    /// Takes a reply: what it says is recorded as far as it is certain, the rest reported. From a reply that cannot be read
    /// nothing is taken; its text is kept, and the branch is asked again or given up.
    ///
    /// # Errors
    /// The branch does not wait for this reply any more; nothing was recorded. As [`Engine::append`] else.
    pub fn take_reply(&self, task: &SideBranchTask, reply: &BranchReply) -> Result<BranchOutcome, Error> {
        let snapshot = self.engine.snapshot()?;
        let mut outcome = BranchOutcome {
            accepted: 0,
            extraction_ids: Vec::new(),
            repairs: Vec::new(),
            dropped: Vec::new(),
            failure: None,
            again: false,
            committed: Vec::new(),
        };
        let read = reading::read(self, &snapshot, task, reply, &mut outcome)?;
        let failed_try = outcome.failure.is_some();
        let finished = SideBranchFinished {
            branch_id: task.branch_id.clone(),
            outcome: if failed_try { "failed" } else { "done" }.to_owned(),
            error: outcome.failure.clone(),
            accepted: Some(outcome.accepted as i64),
            dropped: Some(outcome.dropped.clone()).filter(|dropped| !dropped.is_empty()),
            model: reply.model.clone(),
            prompt_digest: Some(reading::prompt_digest(&task.prompt)?),
            tokens: reply.tokens.clone(),
            ..SideBranchFinished::default()
        };
        let bytes = STEP_BYTES + reply.text.len() * 2 + reply.tool_calls.as_ref().map_or(0, String::len);
        outcome.again = self.settle(task, read, finished, failed_try, bytes)? == Settled::Again;
        if let Some(sink) = self.sink.filter(|_| self.config.knowledge.reflect_auto_commit)
            && !outcome.extraction_ids.is_empty()
        {
            let selection = CommitSelection {
                trace: Some(self.trace.clone()),
                extraction_ids: outcome.extraction_ids.clone(),
                ..CommitSelection::default()
            };
            outcome.committed = self.engine.commit(&self.engine.commit_plan(&selection)?, sink, |_| {})?;
        }
        Ok(outcome)
    }

    /// Gives a branch up for which there is no reply, such as when the model cannot be reached: the queue goes on, and what
    /// it asked for stays pending.
    ///
    /// # Errors
    /// As [`TraceSession::take_reply`].
    pub fn give_up(&self, task: &SideBranchTask, reason: &str) -> Result<(), Error> {
        let finished = SideBranchFinished {
            branch_id: task.branch_id.clone(),
            outcome: "failed".to_owned(),
            error: Some(reason.to_owned()),
            ..SideBranchFinished::default()
        };
        self.settle(task, Vec::new(), finished, false, STEP_BYTES + reason.len()).map(|_| ())
    }

    fn settle(
        &self,
        task: &SideBranchTask,
        events: Vec<Event>,
        finished: SideBranchFinished,
        failed_try: bool,
        bytes: usize,
    ) -> Result<Settled, Error> {
        let command = Settle {
            step: self.step(events.len() + 1)?,
            branch_id: task.branch_id.clone(),
            attempt: task.attempt,
            events,
            finished,
            failed_try,
            retries: self.config.eval_retries.min(EVALUATION_RETRIES_MAX),
        };
        match self.engine.store.submit(command, bytes)?.1 {
            Settled::Gone => Err(Error::SideBranchGone { branch_id: task.branch_id.clone(), attempt: task.attempt }),
            settled => Ok(settled),
        }
    }

    fn step(&self, events: usize) -> Result<Step, Error> {
        let now = system_now();
        let event_ids = (0..events).map(|_| new_event_id(now)).collect::<Result<Vec<_>, _>>()?;
        Ok(Step { trace: self.trace.clone(), now, event_ids })
    }

    fn look(&self) -> Result<(TraceInfo, BTreeMap<String, Goal>), Error> {
        let snapshot = self.engine.snapshot()?;
        let view = snapshot.view();
        let Some(standing) = view.stream(&StreamId::Trace(self.trace.clone()))? else { return Ok(Default::default()) };
        let info = traces::info(&view, standing.number)?;
        Ok((info, traces::goals(&view, standing.number).map_err(as_store_error)?))
    }

    fn task(&self, open: OpenBranch) -> Result<SideBranchTask, Error> {
        let branch = SideBranch::from_word(&open.branch_type).unwrap_or(SideBranch::Compression);
        let trigger = Trigger::from_word(&open.trigger).unwrap_or(Trigger::UNKNOWN);
        let (info, goals) = self.look()?;
        let current = info.current_goal.as_ref().and_then(|id| goals.get(id));
        let mut data = PromptData {
            task: info.task,
            goal: current.and_then(|goal| goal.description.clone()),
            failure: open.failure,
            ..PromptData::default()
        };
        let snapshot = self.engine.snapshot()?;
        let (knowledge, own) = (&self.config.knowledge, &self.templates);
        let (kind, template, configured) = match (branch, trigger) {
            (SideBranch::Evaluation, _) => {
                data.queries = self.asked_queries(&snapshot, &open.asked)?;
                (PromptKind::Evaluation, &own.evaluation, "")
            }
            (SideBranch::Compression, _) => (PromptKind::Compression, &own.compression, ""),
            (SideBranch::Extraction, trigger) => {
                data.injected = self.injected(&snapshot)?.into_iter().rev().take(INJECTED_SHOWN_MAX).rev().collect();
                data.memory = self.memory.clone();
                match trigger {
                    Trigger::COMPRESSION => {
                        (PromptKind::Extraction, &own.extraction, knowledge.reflect_prompt.as_str())
                    }
                    _ => (
                        PromptKind::CompletionExtraction,
                        &own.completion_extraction,
                        knowledge.completion_reflect_prompt.as_str(),
                    ),
                }
            }
        };
        let language = own.language.unwrap_or(self.config.prompt_language);
        let prompt = prompt(kind, language, Some(template.as_deref().unwrap_or(configured)), &data)?;
        let (branch_id, attempt) = (open.branch_id, open.attempt);
        Ok(SideBranchTask { branch_id, branch, trigger, attempt, prompt, asked: open.asked })
    }

    /// The queries that an evaluation asks for, with what was answered; the sources that wait alone.
    fn asked_queries(&self, snapshot: &Snapshot, asked: &[(i64, Vec<String>)]) -> Result<Vec<PromptQuery>, Error> {
        let mut queries = Vec::new();
        for query in self.queries(snapshot)? {
            let Some(sequence) = query.sequence else { continue };
            let Some((_, ids)) = asked.iter().find(|(asked, _)| *asked == sequence) else { continue };
            let content = |id: &String| query.sources.iter().find(|source| source.id == *id);
            let is_of_query = |id: &&String| query.source_ids.contains(id);
            let source = |id: &String| PromptSource {
                id: id.clone(),
                task: content(id).and_then(|source| source.task.clone()),
                content: content(id).and_then(|source| source.content.clone()),
            };
            let sources: Vec<PromptSource> = ids.iter().filter(is_of_query).map(source).collect();
            if !sources.is_empty() {
                queries.push(PromptQuery { sequence, text: query.query, response: query.response, sources });
            }
        }
        Ok(queries)
    }

    /// The sources of all answers, each once, the latest last.
    fn injected(&self, snapshot: &Snapshot) -> Result<Vec<PromptSource>, Error> {
        let mut injected: Vec<PromptSource> = Vec::new();
        for QuerySource { id, task, content } in self.queries(snapshot)?.into_iter().flat_map(|query| query.sources) {
            injected.retain(|earlier| earlier.id != id);
            injected.push(PromptSource { id, task, content });
        }
        Ok(injected)
    }

    fn queries(&self, snapshot: &Snapshot) -> Result<Vec<Query>, Error> {
        let mut queries = Vec::new();
        snapshot.visit_stream(&StreamId::Trace(self.trace.clone()), Position::START, |event| {
            if event.envelope().kind == EventKind::Query
                && let Some(Event::Query(query)) = event.to_stored().event()?
            {
                queries.push(query);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(queries)
    }
}

/// Bytes that a step without a reply is counted with in the writer's queue.
const STEP_BYTES: usize = 1_024;
