//! `evaluate` and `extract`: a model is asked about a trace now, whatever is queued.

use std::time::Duration;

use cognilog::TraceId;
use cognilog::model::ChatModel;
use cognilog::session::{AskOptions, AskedBranch, SideBranch};

use super::Place;
use crate::arguments::AskArguments;
use crate::failure::Failure;
use crate::output::{Output, note, printable};

/// Characters of a line about what was not taken.
const LINE_CHARACTERS: usize = 200;

pub(crate) fn run(
    place: &Place,
    branch: SideBranch,
    arguments: &AskArguments,
    output: &mut Output,
) -> Result<u8, Failure> {
    let trace = TraceId::new(&arguments.trace).map_err(cognilog::Error::from)?;
    let model = model(arguments.model.as_deref())?;
    let mut options = AskOptions::default();
    options.blind = arguments.blind;
    options.deadline = arguments.deadline.map(Duration::from_secs);
    let engine = place.write()?;
    let asked = engine.resume_trace(&trace)?.ask_for(branch, &*model, &options)?;
    let missing = engine.pending_evaluations(Some(&trace))?;
    engine.close()?;
    let Some(asked) = asked else {
        note(&format!("{}: no source waits for an evaluation", printable(trace.as_str(), 80)));
        return Ok(0);
    };
    let missing: usize = missing.iter().map(|query| query.missing_source_ids.len()).sum();
    report(&asked, branch, missing, output)
}

fn report(asked: &AskedBranch, branch: SideBranch, missing: usize, output: &mut Output) -> Result<u8, Failure> {
    let AskedBranch { task, outcome } = asked;
    if output.json {
        output.object(&serde_json::json!({
            "branch_id": task.branch_id,
            "branch_type": task.branch.as_str(),
            "attempts": task.attempt,
            "accepted": outcome.accepted,
            "extraction_ids": outcome.extraction_ids,
            "repairs": outcome.repairs,
            "dropped": outcome.dropped,
            "failure": outcome.failure,
        }))?;
    } else if branch == SideBranch::Evaluation {
        output.line(&format!("{} judgements recorded, {missing} sources still wait", outcome.accepted))?;
    } else {
        output.line(&format!("{} pieces of knowledge wait for review", outcome.accepted))?;
        outcome.extraction_ids.iter().try_for_each(|id| output.line(&format!("  {id}")))?;
    }
    for line in outcome.repairs.iter().map(|line| format!("mended: {line}")) {
        note(&printable(&line, LINE_CHARACTERS));
    }
    for line in outcome.dropped.iter().map(|line| format!("not taken: {line}")) {
        note(&printable(&line, LINE_CHARACTERS));
    }
    match &outcome.failure {
        None => Ok(0),
        Some(failure) => Err(Failure::new(1, "reply_unparsed", format!("nothing was taken of the reply: {failure}"))
            .with_hint("the reply is kept: `cognilog reparse` reads it again, `cognilog log` shows it")),
    }
}

/// The model of the environment, or the one that is named at its endpoint.
#[cfg(feature = "model")]
fn model(name: Option<&str>) -> Result<Box<dyn ChatModel>, Failure> {
    let endpoint = cognilog::model::openai::OpenAi::from_environment().map_err(cognilog::Error::from)?;
    let chat = match name {
        Some(name) => endpoint.chat_model(name),
        None => endpoint.chat().map_err(cognilog::Error::from)?,
    };
    Ok(Box::new(chat))
}

#[cfg(not(feature = "model"))]
fn model(_: Option<&str>) -> Result<Box<dyn ChatModel>, Failure> {
    Err(Failure::new(
        1,
        "model_not_configured",
        "this build cannot ask a model: it was made without the feature `model`",
    ))
}
