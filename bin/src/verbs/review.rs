//! `review`, `approve`, `edit`, `discard`, `withdraw`, `undo`: a person's decisions on extractions.

use std::io::{IsTerminal as _, Read as _};

use cognilog::event::ExtractionEdit;
use cognilog::extraction_queue::Item;
use cognilog::{Engine, PendingExtraction, ReviewRequest, TraceId, Verdict};

use super::Place;
use crate::arguments::{DecideArguments, EditArguments, ReviewerArguments};
use crate::failure::Failure;
use crate::output::{Output, note, printable, shown};
use crate::review::{editor, form, now, report, resolve, reviewer, trace_id};

/// The verbs that do what the screen does.
const PLAIN_VERBS: &str = "the same by plain verbs: `cognilog pending extractions`, `cognilog show ext:ID`, \
    `cognilog approve|edit|discard|withdraw EXT`, `cognilog undo`, or `cognilog interactive TRACE`";

/// Characters of a form's line that a terminal shows.
const FORM_LINE_CHARACTERS: usize = 10_000;

pub(crate) fn decide(
    place: &Place,
    arguments: &DecideArguments,
    verdict: Verdict,
    output: &mut Output,
) -> Result<u8, Failure> {
    let reviewer = reviewer(arguments.reviewer.reviewer.as_deref())?;
    let trace = trace_id(arguments.trace.as_ref())?;
    if arguments.seen.is_some() && arguments.extractions.len() > 1 {
        return Err(Failure::usage("--seen is the version of one extraction: name one"));
    }
    let engine = place.write()?;
    let mut chosen = resolve(&engine, trace.as_ref(), &arguments.extractions)?;
    if arguments.group {
        chosen = with_groups(&engine, place, trace.as_ref(), chosen)?;
    }
    let requests = chosen.into_iter().map(|one| {
        Ok(ReviewRequest {
            trace: TraceId::new(one.trace_id).map_err(cognilog::Error::from)?,
            extraction_id: one.extraction.extraction_id,
            verdict: verdict.clone(),
            reviewer: reviewer.clone(),
            // What is found by its group was looked at just now.
            seen: arguments.seen.or(arguments.group.then_some(one.extraction.version)),
            reason: arguments.reason.clone(),
        })
    });
    let requests = requests.collect::<Result<Vec<_>, Failure>>()?;
    let done = engine.review_all(requests)?;
    engine.close()?;
    report(done, output)
}

/// What is named, and everything that waits in the groups of it.
fn with_groups(
    engine: &Engine,
    place: &Place,
    trace: Option<&TraceId>,
    named: Vec<PendingExtraction>,
) -> Result<Vec<PendingExtraction>, Failure> {
    let queue = engine.review_queue(trace, now(), place.settings.pending_days)?;
    let is_named = |one: &PendingExtraction| named.iter().any(|other| other == one);
    let groups: Vec<u64> = queue.iter().filter(|entry| is_named(&entry.pending)).map(|entry| entry.group).collect();
    let others = queue.into_iter().filter(|entry| groups.contains(&entry.group) && !is_named(&entry.pending));
    let others: Vec<PendingExtraction> = others.map(|entry| entry.pending).collect();
    Ok(named.into_iter().chain(others).collect())
}

pub(crate) fn undo(place: &Place, arguments: &ReviewerArguments, output: &mut Output) -> Result<u8, Failure> {
    let reviewer = reviewer(arguments.reviewer.as_deref())?;
    let engine = place.write()?;
    let done = engine.undo(&reviewer)?;
    engine.close()?;
    report(done, output)
}

pub(crate) fn edit(place: &Place, arguments: &EditArguments, output: &mut Output) -> Result<u8, Failure> {
    let trace = trace_id(arguments.trace.as_ref())?;
    let names = std::slice::from_ref(&arguments.extraction);
    // The store is not held while a person is at work.
    let found = resolve(&place.read()?, trace.as_ref(), names)?.remove(0);
    if arguments.print_form {
        let form = form::print(&found.extraction.current, &[]);
        if !output.is_terminal() {
            output.raw(&form)?;
            return Ok(0);
        }
        form.lines().try_for_each(|line| output.line(&printable(line, FORM_LINE_CHARACTERS)))?;
        note("shown for reading; write it into a file to fill it in");
        return Ok(0);
    }
    let reviewer = reviewer(arguments.reviewer.reviewer.as_deref())?;
    let edit = match &arguments.form {
        Some(path) => {
            let text = match path.as_os_str() == "-" {
                true => {
                    let mut text = String::new();
                    let read = std::io::stdin().read_to_string(&mut text);
                    read.map(|_| text)
                        .map_err(|error| Failure::new(1, "io_error", format!("cannot read stdin: {error}")))?
                }
                false => std::fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?,
            };
            read_form(&text, &found.extraction.current)?
        }
        None => match by_flags(arguments)? {
            Some(edit) => edit,
            None if std::io::stdin().is_terminal() => {
                let edit = in_editor(&found)?;
                if edit == ExtractionEdit::default() {
                    note("nothing was changed: nothing is decided");
                    return Ok(0);
                }
                edit
            }
            None => {
                return Err(Failure::usage("no terminal for an editor, and nothing to edit")
                    .with_hint("give --content TEXT or another field, or --form FILE as --print-form prints it"));
            }
        },
    };
    let request = ReviewRequest {
        trace: TraceId::new(found.trace_id).map_err(cognilog::Error::from)?,
        extraction_id: found.extraction.extraction_id,
        verdict: Verdict::Edit(Box::new(edit)),
        reviewer,
        seen: Some(arguments.seen.unwrap_or(found.extraction.version)),
        reason: arguments.reason.clone(),
    };
    let engine = place.write()?;
    let done = engine.review_all(vec![request])?;
    engine.close()?;
    report(done, output)
}

fn by_flags(arguments: &EditArguments) -> Result<Option<ExtractionEdit>, Failure> {
    let wrong = |flag: &str, reason: String| Failure::usage(format!("--{flag}: {reason}"));
    let list = |flag: &str, value: &Option<String>| {
        value.as_deref().map(form::read_list).transpose().map_err(|reason| wrong(flag, reason))
    };
    let json = |flag: &str, value: &Option<String>| {
        value.as_deref().map(form::read_json).transpose().map_err(|reason| wrong(flag, reason))
    };
    let edit = ExtractionEdit {
        types: list("types", &arguments.types)?,
        task: arguments.task.clone(),
        content: arguments.content.clone(),
        score: json("score", &arguments.score)?,
        tags: json("tags", &arguments.tags)?,
        scopes: list("scopes", &arguments.scopes)?,
        resource_ids: list("resource-ids", &arguments.resource_ids)?,
        owner: arguments.owner.clone(),
        source: json("source", &arguments.source)?,
    };
    Ok((edit != ExtractionEdit::default()).then_some(edit))
}

/// Lets the reviewer edit in the editor; a form that cannot be read is kept and named.
pub(crate) fn in_editor(found: &PendingExtraction) -> Result<ExtractionEdit, Failure> {
    let current = &found.extraction.current;
    let edited = editor::edit(&form::print(current, &notes(found)))?;
    match read_form(&edited.text, current) {
        Ok(edit) => Ok(edit),
        Err(failure) => {
            let id = &found.extraction.extraction_id;
            Err(match edited.keep() {
                Some(path) => failure.with_hint(format!(
                    "your text is kept: correct it and run `cognilog edit {id} --form {}`",
                    shown(&path)
                )),
                None => failure,
            })
        }
    }
}

/// What a form edits of an item.
pub(crate) fn read_form(text: &str, item: &Item) -> Result<ExtractionEdit, Failure> {
    form::parse(text, item).map_err(|error| Failure::new(1, "bad_form", error.to_string()))
}

/// What stands above a form in the editor.
pub(crate) fn notes(found: &PendingExtraction) -> Vec<String> {
    vec![
        format!("Extraction {} of trace {}.", found.extraction.extraction_id, found.trace_id),
        "Save and leave to approve it with what you changed. Leave it as it is, or empty the file, to decide nothing."
            .to_owned(),
        "Lines above the content that begin with # are notes.".to_owned(),
    ]
}

#[cfg(feature = "tui")]
pub(crate) fn screen(
    place: &Place,
    trace: Option<&String>,
    arguments: &ReviewerArguments,
    output: &mut Output,
) -> Result<u8, Failure> {
    if !std::io::stdin().is_terminal() || !output.is_terminal() || output.json {
        return Err(Failure::usage("`review` needs a terminal").with_hint(PLAIN_VERBS));
    }
    let reviewer = reviewer(arguments.reviewer.as_deref())?;
    crate::review::screen::run(place, trace_id(trace)?, reviewer)
}

#[cfg(not(feature = "tui"))]
pub(crate) fn screen(
    _place: &Place,
    _trace: Option<&String>,
    _arguments: &ReviewerArguments,
    _output: &mut Output,
) -> Result<u8, Failure> {
    Err(Failure::usage("this build has no `review` screen").with_hint(PLAIN_VERBS))
}
