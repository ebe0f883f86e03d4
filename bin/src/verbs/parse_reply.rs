//! `parse-reply`: what would be taken of a model's reply, and why the rest would not.

use std::path::Path;

use cognilog::reply::{
    DreamContext, EvaluationContext, Reading, Unreadable, read_dream, read_evaluation, read_extraction, text_of,
};
use serde::Serialize;
use serde_json::Value;

use crate::arguments::{ParseReplyArguments, ReplyKindChoice};
use crate::failure::Failure;
use crate::output::{Output, note, printable};

pub(crate) fn run(arguments: &ParseReplyArguments, output: &mut Output) -> Result<u8, Failure> {
    let context = arguments.context.as_deref().map(read_context).transpose()?;
    let context = context.as_ref();
    let bytes = std::fs::read(&arguments.file).map_err(|error| Failure::io("read", &arguments.file, &error))?;
    let text = text_of(&bytes).map_err(failure)?;
    match arguments.kind {
        ReplyKindChoice::Eval => show(read_evaluation(&text, &evaluation_context(context)?), output),
        ReplyKindChoice::Extract => show(read_extraction(&text, None), output),
        ReplyKindChoice::Dream => show(read_dream(&text, &dream_context(context)?), output),
    }
}

fn show<T: Serialize>(reading: Result<Reading<T>, Unreadable>, output: &mut Output) -> Result<u8, Failure> {
    let reading = reading.map_err(failure)?;
    output.object(&reading.accepted)?;
    if output.json {
        note(&serde_json::json!({ "repairs": reading.repairs, "dropped": reading.dropped }).to_string());
        return Ok(0);
    }
    for repair in &reading.repairs {
        note(&format!("repaired: {repair}"));
    }
    for dropped in &reading.dropped {
        note(&format!("dropped: {}", printable(&dropped.to_string(), 500)));
    }
    Ok(0)
}

fn failure(error: Unreadable) -> Failure {
    Failure::new(1, "reply_unreadable", error.to_string()).with_hint("ask the model again, with this message")
}

/// Reads `FILE#KEY`: the object under the key of a JSON file, or the whole file without a key.
fn read_context(place: &str) -> Result<Value, Failure> {
    let (file, key) = match place.rsplit_once('#') {
        Some((file, key)) => (file, Some(key)),
        None => (place, None),
    };
    let path = Path::new(file);
    let text = std::fs::read(path).map_err(|error| Failure::io("read", path, &error))?;
    let mut value: Value =
        serde_json::from_slice(&text).map_err(|error| bad_context(&format!("{}: {error}", path.display())))?;
    match key {
        None => Ok(value),
        Some(key) => match value.get_mut(key) {
            Some(context) => Ok(context.take()),
            None => Err(bad_context(&format!("{} has no key {key:?}", path.display()))),
        },
    }
}

fn bad_context(what: &str) -> Failure {
    Failure::new(2, "bad_context", format!("the context cannot be used: {what}"))
        .with_hint("eval: {\"pending\": {\"42\": [\"source-id\"]}}; dream: {\"files\": [\"notes/*.md\"]}")
}

fn evaluation_context(context: Option<&Value>) -> Result<EvaluationContext, Failure> {
    let pending = context.and_then(|context| context.get("pending")?.as_object());
    let pending = pending.ok_or_else(|| bad_context("--kind eval needs an object `pending`"))?;
    let mut found = EvaluationContext::default();
    for (sequence, sources) in pending {
        let sequence = sequence.parse().map_err(|_| bad_context(&format!("`pending`: {sequence:?} is no sequence")))?;
        found.pending.insert(sequence, texts(sources, "pending")?);
    }
    Ok(found)
}

fn dream_context(context: Option<&Value>) -> Result<DreamContext, Failure> {
    match context.and_then(|context| context.get("files")) {
        Some(files) => Ok(DreamContext { files: texts(files, "files")? }),
        None => Err(bad_context("--kind dream needs a list `files`")),
    }
}

fn texts(list: &Value, name: &str) -> Result<Vec<String>, Failure> {
    let text = |item: &Value| item.as_str().map(str::to_owned);
    let texts = list.as_array().and_then(|items| items.iter().map(text).collect());
    texts.ok_or_else(|| bad_context(&format!("`{name}`: expected a list of strings")))
}
