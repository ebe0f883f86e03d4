//! The part of `demo` in which an agent runs: it asks, is evaluated, extracts, a person reviews, and what was approved is
//! committed. Replies are recorded ones, or those of the endpoint that `OPENAI_BASE_URL` names.

use std::path::Path;

use cognilog::event::{GoalStatus, JsonText, Message, QuerySource};
use cognilog::model::{ChatModel, ChatReply, RecordedModel};
use cognilog::session::{Answer, AskOptions, Focus, Question, SideBranch, TraceEnd, TraceSession, TraceStart};
use cognilog::{CommitSelection, DirectorySink, Engine, ReviewRequest, TraceId, Verdict};

use super::demo::{check, step};
use crate::failure::Failure;
use crate::output::{Output, printable};

/// The trace of the run.
pub(super) const TRACE: &str = "demo-run";
const TASK: &str = "Enlarge the poster without losing its outlines";
const REVIEWER: &str = "demo";

/// A model, and whether its replies are known beforehand.
struct Asked {
    model: Box<dyn ChatModel>,
    is_recorded: bool,
}

pub(super) fn run(engine: &Engine, folder: &Path, output: &mut Output) -> Result<(), Failure> {
    let trace = TraceId::new(TRACE).map_err(cognilog::Error::from)?;
    let session = engine.start_trace(&trace, TraceStart { task: Some(TASK.to_owned()), ..TraceStart::default() })?;

    step(output, 4, "run", "an agent focuses a goal: the hub is asked, the query recorded, the answer injected")?;
    let focus = session.focus_goal("1", "keep the outlines sharp", &hub)?;
    let says = |role: &str, text: &str| Message {
        role: role.to_owned(),
        content: Some(JsonText::from_text(text)),
        ..Message::default()
    };
    session.record(says("user", focus.inject.as_deref().unwrap_or_default()))?;
    session.record(says("assistant", "I raised the strength to 0.6 before enlarging; the outlines stayed sharp."))?;
    session.record(says("assistant", "The advice to sharpen afterwards made halos, so I left it out."))?;
    focus.inject.iter().flat_map(|text| text.lines()).try_for_each(|line| output.line(&format!("   {line}")))?;

    let asked = model(&focus)?;
    step(output, 5, "evaluate", "the goal is done, so what the hub said is judged before the context is lost")?;
    session.finish_goal("1", GoalStatus::COMPLETED)?;
    side_branches(&session, &asked, output)?;
    check(!asked.is_recorded || engine.pending_evaluations(Some(&trace))?.is_empty(), "both sources were judged")?;

    step(output, 6, "extract", "the run is over: what was learned is set aside; nothing becomes knowledge by itself")?;
    session.finish(TraceEnd::default())?;
    side_branches(&session, &asked, output)?;
    let waiting = engine.pending_extractions(None)?;
    check(!asked.is_recorded || waiting.len() == 3, "two new extractions and an imported one wait for a person")?;

    step(output, 7, "review", "a person decides on each; here: approve what this run learned")?;
    for item in waiting {
        let text = printable(&item.extraction.current.content, 70);
        let is_ours = item.trace_id == trace.as_str();
        output.line(&format!("   {} {text}", if is_ours { "approve" } else { "skip   " }))?;
        if is_ours {
            engine.review(ReviewRequest {
                trace: trace.clone(),
                extraction_id: item.extraction.extraction_id,
                verdict: Verdict::Approve,
                reviewer: REVIEWER.to_owned(),
                seen: Some(item.extraction.version),
                reason: None,
            })?;
        }
    }

    step(
        output,
        8,
        "commit",
        "what was approved goes to the hub, here a folder: each item once, however often it is repeated",
    )?;
    let sink = DirectorySink::open(&folder.join("knowledge"))?;
    let mut selection = CommitSelection::default();
    selection.trace = Some(trace);
    let reports = engine.commit(&engine.commit_plan(&selection)?, &sink, |_| {})?;
    for report in &reports {
        output.line(&format!("   {}: {}", report.outcome, report.knowledge_id.as_deref().unwrap_or("-")))?;
    }
    check(reports.iter().all(|report| report.is_in_hub()), "everything was saved")?;
    check(engine.commit_plan(&selection)?.items.is_empty(), "nothing is left to commit")
}

/// Asks for what is queued. A model that fails blocks nothing: what it was asked for stays pending.
fn side_branches(session: &TraceSession<'_>, asked: &Asked, output: &mut Output) -> Result<(), Failure> {
    while let Some(task) = session.next_side_branch()? {
        let name = asked.model.name();
        match session.ask(&task, &*asked.model, &AskOptions::default()) {
            Ok(outcome) => {
                let what = if task.branch == SideBranch::Evaluation { "judgements" } else { "pieces of knowledge" };
                output.line(&format!(
                    "   {} ({}): {} {what} of {name}",
                    task.branch.as_str(),
                    task.trigger,
                    outcome.accepted
                ))?;
                for line in outcome.failure.iter().chain(&outcome.dropped) {
                    output.line(&format!("   not taken: {}", printable(line, 100)))?;
                }
            }
            Err(error) if !asked.is_recorded => {
                output.line(&format!("   {}: {}", task.branch.as_str(), printable(&error.to_string(), 200)))?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn hub(_: &Question<'_>) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
    let source = |id: &str, content: &str| QuerySource {
        id: id.to_owned(),
        task: Some("image enlargement".to_owned()),
        content: Some(content.to_owned()),
    };
    Ok(Answer {
        response: Some("Raise the strength before enlarging; sharpen afterwards.".to_owned()),
        sources: vec![
            source("knowledge-20260320-a1b2", "Below a strength of 0.3 the outlines are lost: raise it first."),
            source("knowledge-20260320-c3d4", "Sharpen the enlarged picture once more."),
        ],
    })
}

#[cfg(feature = "model")]
fn model(focus: &Focus) -> Result<Asked, Failure> {
    if std::env::var_os("OPENAI_BASE_URL").is_none_or(|url| url.is_empty()) {
        return Ok(recorded(focus));
    }
    let endpoint = cognilog::model::openai::OpenAi::from_environment().map_err(cognilog::Error::from)?;
    let chat = endpoint.chat().map_err(cognilog::Error::from)?;
    Ok(Asked { model: Box::new(chat), is_recorded: false })
}

#[cfg(not(feature = "model"))]
fn model(focus: &Focus) -> Result<Asked, Failure> {
    Ok(recorded(focus))
}

fn recorded(focus: &Focus) -> Asked {
    let judged = format!(
        "<think>The second one made halos.</think>\n```json\n{{\"evaluations\": [{{\"query_sequence\": {}, \"assessments\": [\
         {{\"source_id\": \"knowledge-20260320-a1b2\", \"status\": \"helpful\", \"reason\": \"the outlines stayed sharp\"}},\
         {{\"source_id\": \"knowledge-20260320-c3d4\", \"status\": \"harmful\", \"reason\": \"it made halos\"}}]}}]}}\n```",
        focus.query_sequence
    );
    let extracted = r#"{"extractions": [
        {"types": ["tool"], "task": "image enlargement", "content": "A strength of 0.6 before enlarging keeps the outlines of a poster.", "score": 4},
        {"types": ["experience"], "task": "image enlargement", "content": "Sharpening after enlarging makes halos around text.", "score": 3}]}"#;
    let model = RecordedModel::new("a recorded model").reply(ChatReply::text(judged)).reply(ChatReply::text(extracted));
    Asked { model: Box::new(model), is_recorded: true }
}
