//! Trace sessions: the documents' three triggers, replies of every sort, and a crash between any two steps.

use cognilog::event::{GoalStatus, Message, QuerySource, TraceStatus};
use cognilog::model::{ChatReply, ModelError, RecordedModel};
use cognilog::session::{
    Answer, AskOptions, BranchOutcome, BranchReply, KnowledgeConfig, Question, RunConfig, SideBranch, SideBranchTask,
    TraceEnd, TraceSession, TraceStart,
};
use cognilog::{Engine, Error};
use serde_json::{Value, json};

use crate::common::{Bench, id};

const TRACE: &str = "trace-1";

/// One act of a host agent, or what it is told.
enum Act {
    Message,
    /// A goal with the sources that the hub answers with.
    Focus(&'static str, &'static [&'static str]),
    Goal(&'static str, GoalStatus),
    Context(u64),
    End(TraceStatus),
    /// The branch that must be next, as `knowledge_eval 1 goal_completion`; empty for none.
    Next(&'static str),
    Reply(Reply),
    GiveUp,
}

enum Reply {
    /// Statuses by query sequence and source.
    Judge(&'static [(i64, &'static str, &'static str)]),
    Text(&'static str),
}

/// Plays acts on a store that is closed and opened again before each act that `restarts` names.
struct Play {
    folder: tempfile::TempDir,
    engine: Option<Engine>,
    task: Option<SideBranchTask>,
    outcome: Option<BranchOutcome>,
}

fn start(config: RunConfig) -> TraceStart {
    TraceStart { task: Some("mend the upscaling".to_owned()), config, ..TraceStart::default() }
}

impl Play {
    fn new(config: RunConfig) -> Play {
        let (engine, folder) = Bench::new().into_parts();
        engine.start_trace(&id(TRACE), start(config)).unwrap();
        Play { folder, engine: Some(engine), task: None, outcome: None }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn session(&self) -> TraceSession<'_> {
        self.engine().resume_trace(&id(TRACE)).unwrap()
    }

    fn restart(&mut self) {
        self.engine.take().unwrap().close().unwrap();
        self.engine = Some(Engine::open(&self.folder.path().join("store")).unwrap());
        // A host that comes back asks what is next and is given the same branch again.
        if let Some(before) = self.task.take() {
            let again = self.session().next_side_branch().unwrap().unwrap();
            assert_eq!(again, before);
            self.task = Some(again);
        }
    }

    fn act(&mut self, act: &Act) {
        let session = self.engine.as_ref().unwrap().resume_trace(&id(TRACE)).unwrap();
        match act {
            Act::Message => {
                session.record(Message { role: "assistant".to_owned(), ..Message::default() }).unwrap();
            }
            Act::Focus(goal, sources) => {
                let hub = |question: &Question<'_>| {
                    assert_eq!(question.text, format!("goal {goal}"));
                    let source = |id: &&str| QuerySource {
                        id: (*id).to_owned(),
                        task: None,
                        content: Some(format!("what {id} says")),
                    };
                    Ok(Answer { response: Some("do it".to_owned()), sources: sources.iter().map(source).collect() })
                };
                let focus = session.focus_goal(goal, &format!("goal {goal}"), &hub).unwrap();
                assert_eq!(focus.source_ids, *sources);
                assert!(focus.inject.unwrap().contains("do it"));
            }
            Act::Goal(goal, status) => drop(session.finish_goal(goal, *status).unwrap()),
            Act::Context(tokens) => drop(session.report_context(*tokens, 1_000).unwrap()),
            Act::End(status) => {
                session.finish(TraceEnd { status: Some(*status), ..TraceEnd::default() }).unwrap();
            }
            Act::Next(expect) => {
                let task = session.next_side_branch().unwrap();
                let found = task
                    .as_ref()
                    .map(|task| format!("{} {} {}", task.branch.as_str(), task.attempt, task.trigger.as_str()));
                assert_eq!(found.unwrap_or_default(), *expect);
                self.task = task;
            }
            Act::Reply(reply) => {
                let reply: BranchReply = match reply {
                    Reply::Text(text) => (*text).into(),
                    Reply::Judge(judged) => judge(judged).as_str().into(),
                };
                let outcome = session.take_reply(self.task.as_ref().unwrap(), &reply).unwrap();
                self.outcome = Some(outcome);
                self.task = None;
            }
            Act::GiveUp => {
                session.give_up(self.task.as_ref().unwrap(), "the model is down").unwrap();
                self.task = None;
            }
        }
    }

    /// The trace's events without what differs between runs: times, ids of events and branches.
    fn events(&self) -> Vec<Value> {
        let mut branches: Vec<String> = Vec::new();
        let mut events = Vec::new();
        let mut texts = Vec::new();
        self.engine()
            .visit_trace(&id(TRACE), |event| {
                texts.push(event.to_stored().json().unwrap());
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        for text in texts {
            let mut event: Value = serde_json::from_str(&text).unwrap();
            let fields = event.as_object_mut().unwrap();
            fields.remove("timestamp");
            fields.remove("prompt_digest");
            if let Some(Value::String(branch)) = fields.get("branch_id").cloned() {
                let number = branches.iter().position(|known| *known == branch).unwrap_or_else(|| {
                    branches.push(branch.clone());
                    branches.len() - 1
                });
                fields["branch_id"] = json!(number);
                if let Some(Value::String(extraction)) = fields.get("extraction_id") {
                    let extraction = extraction.replace(&branch, &number.to_string());
                    fields["extraction_id"] = json!(extraction);
                }
            }
            events.push(event);
        }
        events
    }

    /// Types of the events, with what matters of each.
    fn story(&self) -> Vec<String> {
        let word = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string().replace('"', ""),
        };
        let tell = |event: &Value| {
            let fields: &[&str] = match event["type"].as_str().unwrap() {
                "trigger_fired" => &["trigger", "queue"],
                "side_branch_started" => &["branch_type", "attempt"],
                "side_branch_finished" => &["outcome"],
                "evaluation" => &["query_sequence"],
                "extraction_reviewed" => &["decision", "reviewer"],
                _ => &[],
            };
            let told = fields.iter().map(|field| word(&event[field]));
            std::iter::once(word(&event["type"])).chain(told).collect::<Vec<_>>().join(" ")
        };
        self.events().iter().map(tell).collect()
    }

    fn missing(&self) -> Vec<String> {
        let pending = self.engine().pending_evaluations(Some(&id(TRACE))).unwrap();
        pending.into_iter().flat_map(|pending| pending.missing_source_ids).collect()
    }
}

fn judge(judged: &[(i64, &str, &str)]) -> String {
    let mut queries: std::collections::BTreeMap<i64, Vec<Value>> = std::collections::BTreeMap::new();
    for (query, source, status) in judged {
        let judgement = json!({"source_id": source, "status": status, "reason": "seen"});
        queries.entry(*query).or_default().push(judgement);
    }
    let evaluation = |(query, assessments)| json!({"query_sequence": query, "assessments": assessments});
    json!({"evaluations": queries.into_iter().map(evaluation).collect::<Vec<_>>()}).to_string()
}

fn knowledge(extraction: bool, completion: bool) -> RunConfig {
    let knowledge = KnowledgeConfig {
        enable_extraction: extraction,
        enable_completion_extraction: completion,
        ..KnowledgeConfig::default()
    };
    RunConfig { knowledge, ..RunConfig::default() }
}

/// Plays the acts without a restart, and with one before every act in turn, and before all of them: the same is recorded.
/// `expect` is the story after what starting and talking records.
#[track_caller]
fn check(config: &RunConfig, acts: &[Act], expect: &[&str], missing: &[&str]) -> Play {
    let play = |restarts: &dyn Fn(usize) -> bool| {
        let mut play = Play::new(config.clone());
        for (index, act) in acts.iter().enumerate() {
            if restarts(index) {
                play.restart();
            }
            play.act(act);
        }
        play
    };
    let plain = play(&|_| false);
    let quiet = ["trace_started", "message", "goal_changed", "query"];
    let story: Vec<String> = plain.story().into_iter().filter(|event| !quiet.contains(&event.as_str())).collect();
    assert_eq!(story, expect);
    assert_eq!(plain.missing(), missing);
    for at in 0..acts.len() {
        assert_eq!(play(&|index| index == at).events(), plain.events(), "restarted before act {at}");
    }
    assert_eq!(play(&|_| true).events(), plain.events());
    plain
}

const EXTRACTIONS: &str =
    r#"{"extractions": [{"types": ["tool"], "task": "upscaling", "content": "Raise it first."}]}"#;

#[test]
fn a_finished_goal_has_its_sources_judged() {
    let acts = [
        Act::Message,
        Act::Focus("1", &["a", "b"]),
        Act::Next(""),
        Act::Goal("1", GoalStatus::COMPLETED),
        Act::Next("knowledge_eval 1 goal_completion"),
        Act::Reply(Reply::Judge(&[(2, "a", "helpful"), (2, "b", "unused")])),
        Act::Next(""),
        // Nothing is pending any more, so nothing fires.
        Act::Focus("2", &[]),
        Act::Goal("2", GoalStatus::ABANDONED),
        Act::Next(""),
    ];
    let expect = [
        "trigger_fired goal_completion [knowledge_eval]",
        "side_branch_started knowledge_eval 1",
        "evaluation 2",
        "side_branch_finished done",
    ];
    check(&knowledge(true, true), &acts, &expect, &[]);
}

#[test]
fn a_compression_comes_last() {
    let acts = [
        Act::Message,
        Act::Focus("1", &["a"]),
        Act::Context(1_000),
        Act::Next(""),
        Act::Context(1_001),
        // Told again before it was done: nothing is queued twice.
        Act::Context(2_000),
        Act::Next("reflection 1 compression"),
        Act::Reply(Reply::Text(EXTRACTIONS)),
        Act::Next("knowledge_eval 1 compression"),
        Act::Reply(Reply::Judge(&[(2, "a", "harmful")])),
        Act::Next("compression 1 compression"),
        Act::Reply(Reply::Text("We raised the strength.")),
        Act::Next(""),
    ];
    let expect = [
        "trigger_fired compression [reflection,knowledge_eval,compression]",
        "side_branch_started reflection 1",
        "extraction_pending",
        "side_branch_finished done",
        "side_branch_started knowledge_eval 1",
        "evaluation 2",
        "side_branch_finished done",
        "side_branch_started compression 1",
        "context_compressed",
        "side_branch_finished done",
    ];
    let play = check(&knowledge(true, true), &acts, &expect, &[]);
    let compressed = play.events().into_iter().find(|event| event["type"] == "context_compressed").unwrap();
    assert_eq!(compressed["compressed_range"], json!([1, 1]));

    let without = [
        Act::Message,
        Act::Focus("1", &["a"]),
        Act::Context(1_001),
        Act::Next("knowledge_eval 1 compression"),
        Act::Reply(Reply::Judge(&[(2, "a", "neutral")])),
        Act::Next("compression 1 compression"),
    ];
    let expect = [
        "trigger_fired compression [knowledge_eval,compression]",
        "side_branch_started knowledge_eval 1",
        "evaluation 2",
        "side_branch_finished done",
        "side_branch_started compression 1",
    ];
    check(&knowledge(false, true), &without, &expect, &[]);
}

#[test]
fn a_source_that_comes_late_is_asked_for_before_the_compression() {
    let acts = [
        Act::Message,
        Act::Context(1_001),
        Act::Focus("1", &["a"]),
        Act::Next("knowledge_eval 1 compression"),
        Act::GiveUp,
        // Attempted is enough, and once is.
        Act::Next("compression 1 compression"),
        Act::Reply(Reply::Text("summary")),
        Act::Next(""),
    ];
    let expect = [
        "trigger_fired compression [compression]",
        "side_branch_started knowledge_eval 1",
        "side_branch_finished failed",
        "side_branch_started compression 1",
        "context_compressed",
        "side_branch_finished done",
    ];
    check(&knowledge(false, false), &acts, &expect, &["a"]);
}

#[test]
fn an_imported_trace_opens_no_trigger() {
    let bench = Bench::new();
    bench.import_events(
        TRACE,
        &[
            r#"{"type":"query","sequence":4,"query":"q","source_ids":["knowledge-a"],"sources":[]}"#,
            r#"{"type":"trigger_fired","sequence":5,"trigger":"compression","queue":["knowledge_eval","compression"]}"#,
            r#"{"type":"side_branch_started","sequence":5,"branch_id":"b","branch_type":"knowledge_eval"}"#,
        ],
    );
    let detail = bench.engine.trace(&id(TRACE)).unwrap();
    assert_eq!(detail.summary.pending_evaluations, 1);
    assert_eq!((detail.context.pending_knowledge_eval, detail.context.knowledge_eval_trigger), (false, None));
    assert_eq!(detail.side_branches, Default::default());
    // A run that starts on it goes on from there: what waits is asked for when a trigger fires, and not before.
    let session = bench.engine.start_trace(&id(TRACE), start(knowledge(false, false))).unwrap();
    assert!(session.next_side_branch().unwrap().is_none());
    session.finish(TraceEnd::default()).unwrap();
    let task = session.next_side_branch().unwrap().unwrap();
    assert!(task.branch == SideBranch::Evaluation && task.prompt.contains("knowledge-a"));
}

#[test]
fn a_reply_without_end_is_kept_as_far_as_it_is_read() {
    let mut play = Play::new(knowledge(false, false));
    for act in [Act::Message, Act::Focus("1", &["a"]), Act::End(TraceStatus::COMPLETED)] {
        play.act(&act);
    }
    play.act(&Act::Next("knowledge_eval 1 task_completion"));
    let endless = "知".repeat(4 << 20);
    let outcome = play.session().take_reply(play.task.as_ref().unwrap(), &endless.as_str().into()).unwrap();
    assert!(outcome.again && outcome.failure.unwrap().contains("longer than the limit"));
    play.act(&Act::Next("knowledge_eval 2 task_completion"));
    let kept = play.events().into_iter().find(|event| event["type"] == "reply_unparsed").unwrap();
    let kept = kept["text"].as_str().unwrap();
    assert!(endless.starts_with(kept) && kept.len() > 2_000_000, "{} bytes", kept.len());
}

#[test]
fn the_end_of_a_task_asks_for_the_whole() {
    let acts = [
        Act::Message,
        Act::Focus("1", &["a"]),
        Act::End(TraceStatus::FAILED),
        // A host that crashed and ends the run again adds nothing.
        Act::End(TraceStatus::FAILED),
        Act::Next("knowledge_eval 1 task_completion"),
        Act::Reply(Reply::Judge(&[(2, "a", "irrelevant")])),
        Act::Next("reflection 1 task_completion"),
        Act::Reply(Reply::Text(r#"{"extractions": []}"#)),
        Act::Next(""),
        Act::End(TraceStatus::FAILED),
        Act::Next(""),
    ];
    let expect = [
        "trace_finished",
        "trigger_fired task_completion [knowledge_eval,reflection]",
        "side_branch_started knowledge_eval 1",
        "evaluation 2",
        "side_branch_finished done",
        "side_branch_started reflection 1",
        "side_branch_finished done",
    ];
    check(&knowledge(true, true), &acts, &expect, &[]);
    // An empty trace extracts nothing.
    check(&knowledge(true, true), &[Act::End(TraceStatus::STOPPED), Act::Next("")], &["trace_finished"], &[]);
}

#[test]
fn a_dead_model_blocks_neither_compression_nor_end() {
    let down = [
        Act::Message,
        Act::Focus("1", &["a"]),
        Act::Context(1_001),
        Act::Next("knowledge_eval 1 compression"),
        Act::GiveUp,
        Act::Next("compression 1 compression"),
        Act::Reply(Reply::Text("summary")),
        // The same trigger does not ask for the same source again; another one does.
        Act::Context(1_001),
        Act::Next("compression 1 compression"),
        Act::GiveUp,
        Act::End(TraceStatus::COMPLETED),
        Act::Next("knowledge_eval 1 task_completion"),
        Act::GiveUp,
        Act::Next(""),
    ];
    let expect = [
        "trigger_fired compression [knowledge_eval,compression]",
        "side_branch_started knowledge_eval 1",
        "side_branch_finished failed",
        "side_branch_started compression 1",
        "context_compressed",
        "side_branch_finished done",
        "trigger_fired compression [compression]",
        "side_branch_started compression 1",
        "side_branch_finished failed",
        "trace_finished",
        "trigger_fired task_completion [knowledge_eval]",
        "side_branch_started knowledge_eval 1",
        "side_branch_finished failed",
    ];
    check(&knowledge(false, false), &down, &expect, &["a"]);

    let babbling = [
        Act::Message,
        Act::Focus("1", &["a", "b"]),
        Act::Goal("1", GoalStatus::COMPLETED),
        Act::Next("knowledge_eval 1 goal_completion"),
        Act::Reply(Reply::Text("I think it was all fine.")),
        Act::Next("knowledge_eval 2 goal_completion"),
        Act::Reply(Reply::Text("")),
        Act::Next(""),
        // A source that the model never names is not asked for again by the same trigger, and stays pending.
        Act::Focus("2", &["c"]),
        Act::Goal("2", GoalStatus::COMPLETED),
        Act::Next("knowledge_eval 1 goal_completion"),
        Act::Reply(Reply::Judge(&[(3, "c", "helpful"), (2, "a", "helpful"), (3, "z", "helpful")])),
        Act::Next(""),
    ];
    let expect = [
        "trigger_fired goal_completion [knowledge_eval]",
        "side_branch_started knowledge_eval 1",
        "reply_unparsed",
        "side_branch_started knowledge_eval 2",
        "reply_unparsed",
        "side_branch_finished failed",
        "trigger_fired goal_completion [knowledge_eval]",
        "side_branch_started knowledge_eval 1",
        "evaluation 3",
        "side_branch_finished done",
    ];
    let play = check(&knowledge(true, true), &babbling, &expect, &["a", "b"]);
    let outcome = play.outcome.unwrap();
    assert_eq!(outcome.accepted, 1);
    assert_eq!(outcome.dropped.len(), 2, "{:?}", outcome.dropped);
    let trace = play.engine.as_ref().unwrap().trace(&id(TRACE)).unwrap();
    assert_eq!(trace.side_branches.asked["goal_completion"].len(), 2);
}

#[test]
fn the_same_messages_are_not_extracted_from_twice_before_a_compression() {
    let acts = [
        Act::Message,
        Act::Context(1_001),
        Act::Next("reflection 1 compression"),
        Act::Reply(Reply::Text(EXTRACTIONS)),
        Act::Next("compression 1 compression"),
        Act::GiveUp,
        Act::Context(1_001),
        Act::Next("compression 1 compression"),
        Act::GiveUp,
        // A new message is reason enough.
        Act::Message,
        Act::Context(1_001),
        Act::Next("reflection 1 compression"),
    ];
    let expect = [
        "trigger_fired compression [reflection,compression]",
        "side_branch_started reflection 1",
        "extraction_pending",
        "side_branch_finished done",
        "side_branch_started compression 1",
        "side_branch_finished failed",
        "trigger_fired compression [compression]",
        "side_branch_started compression 1",
        "side_branch_finished failed",
        "trigger_fired compression [reflection,compression]",
        "side_branch_started reflection 1",
    ];
    check(&knowledge(true, true), &acts, &expect, &[]);
}

#[test]
fn the_error_of_a_reply_is_shown_in_the_next_try() {
    let mut play = Play::new(knowledge(true, true));
    for act in [
        Act::Message,
        Act::Focus("1", &["a"]),
        Act::Goal("1", GoalStatus::COMPLETED),
        Act::Next("knowledge_eval 1 goal_completion"),
    ] {
        play.act(&act);
    }
    let first = play.task.clone().unwrap();
    assert!(!first.prompt.contains("Your last reply was not taken"));
    play.act(&Act::Reply(Reply::Text("no JSON here")));
    let outcome = play.outcome.clone().unwrap();
    assert!(outcome.again);
    let failure = outcome.failure.unwrap();
    play.act(&Act::Next("knowledge_eval 2 goal_completion"));
    let second = play.task.clone().unwrap();
    assert_eq!(second.branch_id, first.branch_id);
    assert!(
        second.prompt.contains("Your last reply was not taken") && second.prompt.contains(&failure),
        "{}",
        second.prompt
    );
    // What comes too late is refused, whoever hands it in.
    let late = play.session().take_reply(&first, &judge(&[(2, "a", "helpful")]).as_str().into()).unwrap_err();
    assert_eq!(late.code(), "side_branch_gone");
    assert_eq!(play.missing(), ["a"]);
    play.act(&Act::Reply(Reply::Judge(&[(2, "a", "helpful")])));
    assert_eq!(play.outcome.clone().unwrap().accepted, 1);
    let twice = play.session().take_reply(&second, &judge(&[(2, "a", "harmful")]).as_str().into()).unwrap_err();
    assert!(matches!(twice, Error::SideBranchGone { attempt: 2, .. }), "{twice}");
    assert!(play.missing().is_empty());
}

#[test]
fn the_context_of_a_trace_has_the_documents_names() {
    let mut play = Play::new(knowledge(true, true));
    let context = |play: &Play| {
        let context = play.engine().trace(&id(TRACE)).unwrap().context;
        (context.pending_knowledge_eval, context.knowledge_eval_trigger)
    };
    play.act(&Act::Focus("1", &["a"]));
    assert_eq!(context(&play), (false, None));
    play.act(&Act::Goal("1", GoalStatus::ABANDONED));
    assert_eq!(context(&play), (true, Some("goal_completion".to_owned())));
    play.act(&Act::Next("knowledge_eval 1 goal_completion"));
    play.act(&Act::Reply(Reply::Judge(&[(1, "a", "helpful")])));
    assert_eq!(context(&play), (false, None));
}

#[test]
fn what_was_assessed_meanwhile_is_not_asked_for() {
    let acts = [Act::Message, Act::Focus("1", &["a"]), Act::Goal("1", GoalStatus::COMPLETED)];
    let mut play = Play::new(knowledge(true, true));
    acts.iter().for_each(|act| play.act(act));
    let evaluation = r#"{"type":"evaluation","query_sequence":2,"assessments":[{"source_id":"a","status":"helpful"}]}"#;
    play.engine()
        .submit(cognilog::Append::new(id(TRACE)).event(cognilog::AppendEvent::from_json(evaluation).unwrap()))
        .unwrap();
    play.act(&Act::Next(""));
    assert_eq!(play.story().last().map(String::as_str), Some("side_branch_finished skipped"));
}

#[test]
fn extractions_wait_for_a_person_unless_it_is_switched_on() {
    let reply = json!({"extractions": [
        {"types": ["tool"], "task": "upscaling", "content": "Raise it first."},
        {"types": ["tool"], "task": "upscaling", "content": "what  a\nsays"},
        {"types": ["tool"], "task": "style", "content": "Muted colours, always."},
    ]})
    .to_string();
    for auto in [false, true] {
        let mut config = knowledge(true, true);
        config.knowledge.reflect_auto_commit = auto;
        let mut play = Play::new(config);
        for act in [
            Act::Message,
            Act::Focus("1", &["a"]),
            Act::End(TraceStatus::COMPLETED),
            Act::Next("knowledge_eval 1 task_completion"),
            Act::GiveUp,
        ] {
            play.act(&act);
        }
        play.act(&Act::Next("reflection 1 task_completion"));
        let task = play.task.take().unwrap();
        assert!(task.prompt.contains("> what a says"), "injected knowledge is listed: {}", task.prompt);
        let hub = cognilog::DirectorySink::open(&play.folder.path().join("hub")).unwrap();
        let session = play.session().with_sink(&hub).with_memory("# taste\n- Muted colours,\n  always.\n");
        let outcome = session.take_reply(&task, &reply.as_str().into()).unwrap();
        assert_eq!(outcome.extraction_ids, [format!("ext-{}-0", task.branch_id)]);
        assert_eq!(outcome.committed.iter().filter(|report| report.is_in_hub()).count(), usize::from(auto));
        assert!(outcome.dropped[0].starts_with("injected knowledge, not extracted"), "{:?}", outcome.dropped);
        assert!(outcome.dropped[1].starts_with("memory, not extracted"), "{:?}", outcome.dropped);
        let found = play.engine().extractions(Some(&id(TRACE))).unwrap();
        let states: Vec<&str> = found.iter().map(|found| found.extraction.state.as_str()).collect();
        assert_eq!(states, [if auto { "committed" } else { "pending" }]);
        let reviewed = "extraction_reviewed approve auto".to_owned();
        assert_eq!(play.story().contains(&reviewed), auto);
    }
}

#[test]
fn tool_calls_and_json_give_the_same_extractions() {
    let arguments = json!({"types": ["tool"], "task": "upscaling", "content": "Raise it first."}).to_string();
    let call = json!([{"id": "c", "type": "function", "function": {"name": "knowledge_save_pending", "arguments": arguments}}]);
    let by_calls = BranchReply { tool_calls: Some(call.to_string()), ..BranchReply::default() };
    let recorded = [by_calls, EXTRACTIONS.into()].map(|reply| {
        let mut play = Play::new(knowledge(true, true));
        for act in [Act::Message, Act::End(TraceStatus::COMPLETED), Act::Next("reflection 1 task_completion")] {
            play.act(&act);
        }
        play.session().take_reply(&play.task.clone().unwrap(), &reply).unwrap();
        play.events()
    });
    assert_eq!(recorded[0], recorded[1]);
}

#[test]
fn a_person_can_ask_out_of_turn() {
    let mut play = Play::new(knowledge(true, true));
    for act in [Act::Message, Act::Focus("1", &["a"])] {
        play.act(&act);
    }
    for _ in 0..2 {
        // Asked for in vain before or not: a person decides.
        let task = play.session().begin_side_branch(SideBranch::Evaluation).unwrap().unwrap();
        assert_eq!(task.trigger.as_str(), "manual");
        let busy = play.session().begin_side_branch(SideBranch::Extraction).unwrap_err();
        assert_eq!(busy.code(), "side_branch_open");
        play.session().give_up(&task, "no").unwrap();
    }
    let task = play.session().begin_side_branch(SideBranch::Evaluation).unwrap().unwrap();
    play.session().take_reply(&task, &judge(&[(2, "a", "neutral")]).as_str().into()).unwrap();
    assert!(play.session().begin_side_branch(SideBranch::Evaluation).unwrap().is_none());
    assert!(play.missing().is_empty());

    // Before a compression comes the evaluation, tried once.
    play.act(&Act::Focus("2", &["b"]));
    for expect in [SideBranch::Evaluation, SideBranch::Compression] {
        let task = play.session().begin_side_branch(SideBranch::Compression).unwrap().unwrap();
        assert_eq!(task.branch, expect);
        play.session().give_up(&task, "no").unwrap();
    }
}

#[test]
fn a_hub_that_is_down_records_no_query() {
    let play = Play::new(knowledge(true, true));
    let hub = |_: &Question<'_>| Err("connection refused".into());
    let error = play.session().focus_goal("1", "goal 1", &hub).unwrap_err();
    assert_eq!((error.code(), error.to_string().contains("connection refused")), ("knowledge_source_failed", true));
    assert_eq!(play.story(), ["trace_started", "goal_changed"]);
    // Focused again when the hub is back: the goal is as it was.
    let hub = |_: &Question<'_>| Ok(Answer::default());
    let focus = play.session().focus_goal("1", "goal 1", &hub).unwrap();
    assert_eq!((focus.query_sequence, focus.inject), (1, None));
    assert_eq!(play.story(), ["trace_started", "goal_changed", "query"]);
}

#[test]
fn a_trace_is_started_once_and_resumed() {
    let bench = Bench::new();
    let mut config = knowledge(false, true);
    config.eval_retries = 3;
    config.other.insert("memory".to_owned(), json!({"base_path": "m"}));
    bench.engine.start_trace(&id(TRACE), start(config.clone())).unwrap();
    let running = bench.engine.start_trace(&id(TRACE), TraceStart::default()).unwrap_err();
    assert_eq!(running.code(), "trace_running");
    assert_eq!(bench.engine.resume_trace(&id(TRACE)).unwrap().config(), &config);
    bench.engine.resume_trace(&id(TRACE)).unwrap().finish(TraceEnd::default()).unwrap();
    bench.engine.start_trace(&id(TRACE), TraceStart::default()).unwrap();

    assert_eq!(bench.engine.resume_trace(&id("other")).unwrap_err().code(), "trace_not_found");
    bench.import_events("imported", &[r#"{"type":"query","sequence":1,"query":"q","source_ids":["a"],"sources":[]}"#]);
    assert_eq!(bench.engine.resume_trace(&id("imported")).unwrap().config(), &RunConfig::default());
    // What waits in an imported trace fires nothing; a goal that ends in it does.
    let session = bench.engine.start_trace(&id("imported"), TraceStart::default()).unwrap();
    assert!(session.next_side_branch().unwrap().is_none());
    assert_eq!(session.finish_goal("1", GoalStatus::COMPLETED).unwrap(), [SideBranch::Evaluation]);
}

/// A play whose trace has one message and one query that waits.
fn with_pending_query() -> Play {
    let mut play = Play::new(knowledge(true, true));
    let content = cognilog::event::JsonText::from_text("I raised the strength and it worked.");
    let message = Message { role: "assistant".to_owned(), content: Some(content), ..Message::default() };
    play.session().record(message).unwrap();
    play.act(&Act::Focus("1", &["a"]));
    play
}

#[test]
fn a_model_is_asked_with_the_conversation_before_the_prompt() {
    let play = with_pending_query();
    let session = play.session();
    session.finish(TraceEnd::default()).unwrap();
    let model = RecordedModel::new("small")
        .reply(ChatReply::text("It was fine.").of_model("small-1"))
        .reply(ChatReply::text(judge(&[(2, "a", "helpful")])).of_model("small-1").with_token_use(300, 20))
        .reply(ChatReply::text(EXTRACTIONS));
    let asked = session.ask_all(&model, &AskOptions::default()).unwrap();
    let told: Vec<(&str, u32, usize)> =
        asked.iter().map(|asked| (asked.task.branch.as_str(), asked.task.attempt, asked.outcome.accepted)).collect();
    assert_eq!(told, [("knowledge_eval", 2, 1), ("reflection", 1, 1)]);
    assert!(play.missing().is_empty());

    let requests = model.requests();
    let roles: Vec<&str> = requests[0].messages.iter().map(|message| message.role.as_str()).collect();
    assert_eq!(roles, ["assistant", "user"]);
    assert_eq!(requests[0].messages[0].content, "I raised the strength and it worked.");
    assert!(requests[0].messages[1].content.contains("source_id: a"));
    assert!(requests[1].messages[1].content.contains("Your last reply was not taken"));
    let schemas: Vec<String> =
        requests.iter().map(|request| request.reply_schema.as_ref().unwrap().name.clone()).collect();
    assert_eq!(schemas, ["evaluations", "evaluations", "extractions"]);
    let schema = &requests[0].reply_schema.as_ref().unwrap().schema;
    let evaluation = &schema["properties"]["evaluations"]["items"]["properties"];
    assert_eq!(evaluation["query_sequence"]["enum"], json!([2]));
    assert_eq!(evaluation["assessments"]["items"]["properties"]["source_id"]["enum"], json!(["a"]));

    // What was asked of which model, and what it cost, is on the events.
    let events = play.events();
    let unparsed = events.iter().find(|event| event["type"] == "reply_unparsed").unwrap();
    assert_eq!((&unparsed["text"], &unparsed["model"]), (&json!("It was fine."), &json!("small-1")));
    let finished = events.iter().find(|event| event["type"] == "side_branch_finished").unwrap();
    assert_eq!(finished["model"], "small-1");
    assert_eq!(finished["tokens"], json!({"prompt": 300, "completion": 20}));
    let mut digest = None;
    play.engine()
        .visit_trace(&id(TRACE), |event| {
            let event: Value = serde_json::from_str(&event.to_stored().json().unwrap()).unwrap();
            digest = digest.take().or(event["prompt_digest"].as_str().map(str::to_owned));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    let digest = digest.unwrap();
    let (salt, hash) = digest.split_once('.').unwrap();
    assert_eq!((salt.len(), hash.len()), (32, 64));
}

#[test]
fn a_model_that_fails_leaves_what_it_was_asked_for_pending() {
    let play = with_pending_query();
    let session = play.session();
    session.report_context(2, 1).unwrap();
    let failure = || ModelError::TimedOut {
        endpoint: "http://127.0.0.1:1".to_owned(),
        deadline: std::time::Duration::from_secs(1),
        bytes_received: 0,
        attempts: 1,
    };
    let model = RecordedModel::new("small").fail(failure());
    let error = session.ask_all(&model, &AskOptions::default()).unwrap_err();
    assert_eq!(error.code(), failure().code());
    // The branch that could not be asked is given up; the others go on when a model is there again.
    let model = RecordedModel::new("small").fail(failure());
    assert_eq!(session.ask_all(&model, &AskOptions::default()).unwrap_err().code(), failure().code());
    let model = RecordedModel::new("small").reply(ChatReply::text("We raised the strength."));
    let asked = session.ask_all(&model, &AskOptions::default()).unwrap();
    assert_eq!(asked.iter().map(|asked| asked.task.branch.as_str()).collect::<Vec<_>>(), ["compression"]);
    assert_eq!(play.missing(), ["a"]);
    let kinds: Vec<String> = play.events().iter().map(|event| event["type"].to_string()).collect();
    assert!(!kinds.iter().any(|kind| kind.contains("evaluation") || kind.contains("extraction")), "{kinds:?}");

    // What was compressed precedes what comes after it.
    let conversation = session.conversation(10_000).unwrap();
    let texts: Vec<&str> = conversation.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(texts, ["[Summary of the messages before]\nWe raised the strength."]);
}

#[test]
fn a_trace_without_messages_is_not_asked_about_unless_blindly() {
    let bench = Bench::new();
    let query = r#"{"type":"query","sequence":1,"query":"q","source_ids":["a"],"sources":[{"id":"a","content":"c"}]}"#;
    bench.import_events("imported", &[query]);
    let session = bench.engine.resume_trace(&id("imported")).unwrap();
    let model = RecordedModel::new("small").reply(ChatReply::text(judge(&[(1, "a", "unused")])));
    let task = session.begin_side_branch(SideBranch::Evaluation).unwrap().unwrap();
    let mut options = AskOptions::default();
    let before = bench.head();
    let refused = session.ask(&task, &model, &options).unwrap_err();
    assert_eq!((refused.code(), bench.head(), model.requests().len()), ("no_messages", before, 0));
    options.blind = true;
    let outcome = session.ask(&task, &model, &options).unwrap();
    assert_eq!((outcome.accepted, task.trigger.as_str()), (1, "manual"));
    assert_eq!(session.begin_side_branch(SideBranch::Evaluation).unwrap(), None);
    assert!(bench.missing("imported").is_empty());
}
