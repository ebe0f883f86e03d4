//! `interactive`: the numbered menu of the documents over one trace, line by line, in a terminal or from a script.

use std::io::BufRead;
use std::path::Path;

use cognilog::event::ExtractionEdit;
use cognilog::{CommitSelection, ReviewEntry, ReviewRequest, TraceId, Verdict};

use super::{Place, commit, review};
use crate::arguments::ReviewerArguments;
use crate::failure::Failure;
use crate::output::{Output, note, printable};
use crate::review::{now, reviewer, said, types};

/// Columns of the lines around a text, as the document draws them.
const RULE: usize = 21;
/// Characters of a text that are shown.
const TEXT_CHARACTERS: usize = 10_000;

pub(crate) fn run(
    place: &Place,
    trace: &str,
    arguments: &ReviewerArguments,
    directory: Option<&Path>,
    output: &mut Output,
) -> Result<u8, Failure> {
    if output.json {
        return Err(Failure::usage(
            "`interactive` talks with people: for programs there are approve, discard and commit",
        ));
    }
    let trace = TraceId::new(trace).map_err(cognilog::Error::from)?;
    let reviewer = reviewer(arguments.reviewer.as_deref())?;
    let mut input = std::io::stdin().lock();
    loop {
        let pending = queue(place, &trace)?;
        let mut selection = CommitSelection::default();
        selection.trace = Some(trace.clone());
        let plan = place.read()?.commit_plan(&selection)?;
        output.line(&format!("trace {}", printable(trace.as_str(), 100)))?;
        output.line("  2. ask a model what was learned (reflect)")?;
        output.line(&format!("  8. review what waits ({})", pending.len()))?;
        output.line(&format!("  9. commit what is approved to the hub ({})", plan.items.len()))?;
        output.line("  q. quit")?;
        let Some(choice) = ask("> ", &mut input, output)? else { return Ok(0) };
        match choice.as_str() {
            "8" => review_loop(place, &trace, &reviewer, pending, &mut input, output)?,
            "9" => {
                commit::show(&plan, output)?;
                output.flush()?;
                if plan.items.is_empty() {
                    note("nothing is approved that could be committed");
                    continue;
                }
                match commit::sink(&place.settings.hub, directory) {
                    Ok(sink) if commit::is_confirmed(&plan, sink.as_ref(), &mut input) => {
                        commit::send(place, &plan, sink.as_ref(), output)?;
                    }
                    Ok(_) => note("nothing was sent"),
                    Err(failure) => failure.report(false),
                }
            }
            "q" | "Q" => return Ok(0),
            // What cannot be asked is told, and the menu comes again.
            "2" => {
                if let Err(failure) = super::ask::extract(place, &trace, output) {
                    failure.report(false);
                }
            }
            other => note(&format!("{:?} is none of 2, 8, 9, q", printable(other, 40))),
        }
    }
}

fn queue(place: &Place, trace: &TraceId) -> Result<Vec<ReviewEntry>, Failure> {
    Ok(place.read()?.review_queue(Some(trace), now(), place.settings.pending_days)?)
}

/// Prints a prompt and reads a line; nothing at the end of the input.
fn ask(prompt: &str, input: &mut impl BufRead, output: &mut Output) -> Result<Option<String>, Failure> {
    output.raw(prompt)?;
    output.flush()?;
    let mut line = String::new();
    let read = input.read_line(&mut line);
    let bytes = read.map_err(|error| Failure::new(1, "io_error", format!("cannot read the answer: {error}")))?;
    if bytes == 0 {
        output.line("")?;
        return Ok(None);
    }
    Ok(Some(line.trim().to_owned()))
}

/// One extraction after the other, as the document has it.
fn review_loop(
    place: &Place,
    trace: &TraceId,
    reviewer: &str,
    entries: Vec<ReviewEntry>,
    input: &mut impl BufRead,
    output: &mut Output,
) -> Result<(), Failure> {
    let count = entries.len();
    if count == 0 {
        note("nothing waits");
    }
    for (index, entry) in entries.into_iter().enumerate() {
        let extraction = &entry.pending.extraction;
        let task = printable(extraction.current.task.as_deref().unwrap_or_default(), 60);
        let mut heading = format!("[{}/{count}] {} {task}", index + 1, types(extraction)).trim_end().to_owned();
        if entry.is_overdue {
            heading.push_str(&format!(" (waits for {} days)", entry.age_days));
        }
        if entry.group_size > 1 {
            heading.push_str(&format!(" (one of {} that say nearly the same)", entry.group_size));
        }
        output.line(&heading)?;
        output.line(&"─".repeat(RULE))?;
        let mut shown = 0;
        for line in extraction.current.content.lines() {
            if shown >= TEXT_CHARACTERS {
                output.line("…")?;
                break;
            }
            output.line(&printable(line, TEXT_CHARACTERS - shown))?;
            shown += line.chars().count() + 1;
        }
        output.line(&"─".repeat(RULE))?;
        loop {
            let prompt = "[a]pprove / [e]dit / [d]iscard / [s]kip / [q]uit: ";
            let Some(answer) = ask(prompt, input, output)? else { return Ok(()) };
            let verdict = match answer.as_str() {
                "a" | "approve" => Verdict::Approve,
                "d" | "discard" => Verdict::Discard,
                "s" | "skip" => break,
                "q" | "quit" => return Ok(()),
                "e" | "edit" => match review::in_editor(&entry.pending) {
                    Ok(edit) if edit == ExtractionEdit::default() => {
                        note("nothing was changed: nothing is decided");
                        continue;
                    }
                    Ok(edit) => Verdict::Edit(Box::new(edit)),
                    Err(failure) => {
                        failure.report(false);
                        continue;
                    }
                },
                _ => {
                    note("a, e, d, s or q");
                    continue;
                }
            };
            let request = ReviewRequest {
                trace: trace.clone(),
                extraction_id: extraction.extraction_id.clone(),
                verdict,
                reviewer: reviewer.to_owned(),
                seen: Some(extraction.version),
                reason: None,
            };
            // The writer is held for a moment only: the agents go on recording while a person reads.
            let engine = place.write()?;
            let reviewed = engine.review(request);
            engine.close()?;
            match reviewed {
                Ok(reviewed) => output.line(&said(&reviewed))?,
                Err(error @ cognilog::Error::Review(_)) => Failure::from(error).report(false),
                Err(error) => return Err(error.into()),
            }
            break;
        }
    }
    Ok(())
}
