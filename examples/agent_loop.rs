//! A small agent through all three triggers: a goal ends, the context grows too large, the run ends; then a person
//! reviews what was learned and commits it. The model's replies are recorded; any `ChatModel` does.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use cognilog::event::{GoalStatus, JsonText, Message, QuerySource};
use cognilog::model::{ChatReply, RecordedModel};
use cognilog::session::{Answer, AskOptions, Question, TraceEnd, TraceSession, TraceStart};
use cognilog::{CommitSelection, DirectorySink, Engine, ReviewRequest, TraceId, Verdict};

const CONTEXT_TOKENS_MAX: u64 = 1_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let engine = Engine::create(&folder.path().join("store"))?;
    let trace = TraceId::new("agent-run-1")?;
    let start = TraceStart { task: Some("Upscale the picture".to_owned()), ..TraceStart::default() };
    let session = engine.start_trace(&trace, start)?;
    let model = recorded_replies();

    for (goal, tokens) in [("sharp outlines", 400), ("true colours", 1_200)] {
        let focus = session.focus_goal(goal, goal, &ask_hub)?;
        session.record(says("user", focus.inject.as_deref().unwrap_or("no knowledge")))?;
        session.record(says("assistant", &format!("I worked on {goal}.")))?;
        session.finish_goal(goal, GoalStatus::COMPLETED)?;
        session.report_context(tokens, CONTEXT_TOKENS_MAX)?;
        side_branches(&session, &model)?;
    }
    session.finish(TraceEnd::default())?;
    side_branches(&session, &model)?;

    for waiting in engine.pending_extractions(Some(&trace))? {
        println!("to review: {}", waiting.extraction.current.content);
        engine.review(ReviewRequest {
            trace: trace.clone(),
            extraction_id: waiting.extraction.extraction_id,
            verdict: Verdict::Approve,
            reviewer: "me@example.org".to_owned(),
            seen: Some(waiting.extraction.version),
            reason: None,
        })?;
    }
    let hub = DirectorySink::open(&folder.path().join("hub"))?;
    let plan = engine.commit_plan(&CommitSelection::default())?;
    engine.commit(&plan, &hub, |report| println!("{}: {:?}", report.outcome, report.knowledge_id))?;
    assert!(engine.pending_evaluations(None)?.is_empty() && engine.pending_extractions(None)?.is_empty());
    Ok(())
}

fn side_branches(session: &TraceSession<'_>, model: &RecordedModel) -> Result<(), cognilog::Error> {
    for asked in session.ask_all(model, &AskOptions::default())? {
        println!("{} ({}): {} taken", asked.task.branch.as_str(), asked.task.trigger, asked.outcome.accepted);
    }
    Ok(())
}

fn says(role: &str, text: &str) -> Message {
    Message { role: role.to_owned(), content: Some(JsonText::from_text(text)), ..Message::default() }
}

fn ask_hub(question: &Question<'_>) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    let id = format!("knowledge-{}", question.text.replace(' ', "-"));
    let content = Some(format!("What is known about {}.", question.text));
    Ok(Answer { response: content.clone(), sources: vec![QuerySource { id, task: None, content }] })
}

fn recorded_replies() -> RecordedModel {
    let judged = |query: i64, id: &str| {
        ChatReply::text(format!(
            r#"{{"evaluations": [{{"query_sequence": {query}, "assessments": [{{"source_id": "{id}", "status": "helpful", "reason": "it worked"}}]}}]}}"#
        ))
    };
    let extracted = |content: &str| {
        ChatReply::text(format!(
            r#"{{"extractions": [{{"types": ["tool"], "task": "upscaling", "content": "{content}"}}]}}"#
        ))
    };
    RecordedModel::new("recorded")
        .reply(judged(1, "knowledge-sharp-outlines"))
        .reply(judged(4, "knowledge-true-colours"))
        .reply(extracted("Raise the strength before upscaling."))
        .reply(ChatReply::text("Outlines and colours are done."))
        .reply(extracted("Check the outlines at full size."))
}
