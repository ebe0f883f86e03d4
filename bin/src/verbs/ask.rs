//! `evaluate` and `extract`: a model is asked about a trace now, whatever is queued.

use std::path::PathBuf;
use std::time::Duration;

use cognilog::TraceId;
use cognilog::model::ChatModel;
use cognilog::prompts::PromptLanguage;
use cognilog::session::{AskOptions, BranchOutcome, PromptTemplates, SideBranch, SideBranchTask};

use super::Place;
use super::config::WorkflowSettings;
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
    let mut options = AskOptions::default();
    options.blind = arguments.blind;
    options.deadline = arguments.deadline.map(Duration::from_secs);
    options.conversation_bytes_max = arguments.conversation_bytes;
    options.tokens_max = arguments.tokens_max;
    ask(place, &trace, branch, &*model(arguments.model.as_deref())?, &options, output)
}

/// Asks the model of the environment what was learned; the menu's item 2.
pub(super) fn extract(place: &Place, trace: &TraceId, output: &mut Output) -> Result<u8, Failure> {
    ask(place, trace, SideBranch::Extraction, &*model(None)?, &AskOptions::default(), output)
}

/// The store is closed while the model thinks: others write meanwhile.
fn ask(
    place: &Place,
    trace: &TraceId,
    branch: SideBranch,
    model: &dyn ChatModel,
    options: &AskOptions,
    output: &mut Output,
) -> Result<u8, Failure> {
    let templates = templates(&place.settings.workflow)?;
    // Tries are bounded by the configuration of the trace; a failed one leaves the branch open for the next.
    loop {
        let engine = place.write()?;
        let session = engine.resume_trace(trace)?.with_templates(templates.clone());
        if !options.blind && session.conversation(options.conversation_bytes_max)?.is_empty() {
            return Err(cognilog::Error::NoMessages { trace: trace.to_string() }.into());
        }
        let Some(task) = session.begin_side_branch(branch)? else {
            note(&format!("{}: no source waits for an evaluation", printable(trace.as_str(), 80)));
            return Ok(0);
        };
        let request = session.chat_request(&task, options)?;
        engine.close()?;
        let answered = model.complete(&request);
        let engine = place.write()?;
        let session = engine.resume_trace(trace)?;
        let outcome = match answered {
            Ok(reply) => session.take_reply(&task, &reply.into())?,
            Err(error) => {
                session.give_up(&task, &format!("{}: {error}", error.code()))?;
                return Err(cognilog::Error::from(error).into());
            }
        };
        if !outcome.again {
            let missing = engine.pending_evaluations(Some(trace))?;
            engine.close()?;
            let missing = missing.iter().map(|query| query.missing_source_ids.len()).sum();
            return report(&task, &outcome, missing, output);
        }
        engine.close()?;
    }
}

/// The prompts of the settings; a file that cannot be read is an error before anything is asked.
fn templates(settings: &WorkflowSettings) -> Result<PromptTemplates, Failure> {
    let read = |path: &Option<PathBuf>| match path {
        Some(path) => std::fs::read_to_string(path).map(Some).map_err(|error| Failure::io("read", path, &error)),
        None => Ok(None),
    };
    Ok(PromptTemplates {
        language: settings.language.as_deref().and_then(PromptLanguage::from_word),
        evaluation: read(&settings.evaluation_prompt)?,
        completion_extraction: read(&settings.extraction_prompt)?,
        ..PromptTemplates::default()
    })
}

fn report(task: &SideBranchTask, outcome: &BranchOutcome, missing: usize, output: &mut Output) -> Result<u8, Failure> {
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
    } else if task.branch == SideBranch::Evaluation {
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
