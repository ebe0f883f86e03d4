//! `commit`: what was approved goes to the hub, and what became of each item is told.

use std::io::{BufRead, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use cognilog::{
    CommitPlan, CommitReport, CommitSelection, CommitSink, DirectorySink, HttpHeader, HttpOptions, HttpSink,
};

use super::Place;
use super::config::HubSettings;
use crate::arguments::CommitArguments;
use crate::failure::Failure;
use crate::output::{Output, note, printable};
use crate::review::trace_id;

pub(crate) fn run(place: &Place, arguments: &CommitArguments, output: &mut Output) -> Result<u8, Failure> {
    let mut selection = CommitSelection::default();
    selection.trace = trace_id(arguments.trace.as_ref())?;
    let names = arguments.extractions.iter().map(|name| name.strip_prefix("ext:").unwrap_or(name).to_owned());
    selection.extraction_ids = names.collect();
    selection.retry_unanswered = arguments.retry_unknown;
    // What would go can be looked at without a hub.
    let sink = match arguments.dry_run {
        true => None,
        false => Some(sink(&place.settings.hub, arguments.directory.as_deref())?),
    };
    let plan = place.read()?.commit_plan(&selection)?;
    let Some(sink) = sink else {
        if output.json {
            output.array(&plan.items)?;
            say_left_out(&plan);
            return Ok(0);
        }
        show(&plan, output)?;
        note("a dry run: nothing was sent");
        return Ok(0);
    };
    if !output.json {
        show(&plan, output)?;
        output.flush()?;
    } else {
        say_left_out(&plan);
    }
    if plan.items.is_empty() {
        if output.json {
            output.array(&[] as &[CommitReport])?;
        }
        note("nothing is approved that could be committed");
        return Ok(exit_of(&plan, &[], arguments));
    }
    if !arguments.yes {
        if !std::io::stdin().is_terminal() {
            return Err(Failure::usage("`commit` asks before it sends, and there is no terminal to ask in")
                .with_hint("look with --dry-run, then send with --yes"));
        }
        if !is_confirmed(&plan, sink.as_ref(), &mut std::io::stdin().lock()) {
            note("nothing was sent");
            return Ok(0);
        }
    }
    let reports = send(place, &plan, sink.as_ref(), output)?;
    Ok(exit_of(&plan, &reports, arguments))
}

/// What was asked for by name and did not get there fails the verb; so does what the hub refused.
fn exit_of(plan: &CommitPlan, reports: &[CommitReport], arguments: &CommitArguments) -> u8 {
    let is_missed = !arguments.extractions.is_empty() && !plan.left_out.is_empty();
    u8::from(is_missed || reports.iter().any(|report| !report.is_in_hub()))
}

/// Shows what goes and what stays.
pub(crate) fn show(plan: &CommitPlan, output: &mut Output) -> Result<(), Failure> {
    for item in &plan.items {
        output.line(&format!(
            "{:<28} {:<10} {}",
            printable(item.extraction_id(), 60),
            printable(&item.types().join(","), 20),
            printable(item.content(), 80)
        ))?;
    }
    say_left_out(plan);
    Ok(())
}

fn say_left_out(plan: &CommitPlan) {
    for left in &plan.left_out {
        let hint = if left.is_unanswered { "; --retry-unknown sends it again" } else { "" };
        note(&format!("{} stays: {}{hint}", printable(&left.extraction_id, 60), printable(&left.reason, 500)));
    }
}

/// Asks on stderr, so that stdout is data alone.
pub(crate) fn is_confirmed(plan: &CommitPlan, sink: &dyn CommitSink, input: &mut impl BufRead) -> bool {
    let items = plan.items.len();
    note(&format!("send {items} to {}? [y/N]", printable(&sink.describe(), 300)));
    let mut answer = String::new();
    let _ = input.read_line(&mut answer);
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes" | "是")
}

/// Sends a plan and tells what became of each item as soon as it is recorded.
pub(crate) fn send(
    place: &Place,
    plan: &CommitPlan,
    sink: &dyn CommitSink,
    output: &mut Output,
) -> Result<Vec<CommitReport>, Failure> {
    let engine = place.write()?;
    let mut failure = None;
    let reports = engine.commit(plan, sink, |report| {
        if !output.json {
            let told = output.line(&line(report)).and_then(|()| output.flush());
            failure = failure.take().or(told.err());
        }
    })?;
    engine.close()?;
    if output.json {
        output.array(&reports)?;
    }
    let count = |word: &str| reports.iter().filter(|report| report.outcome == word).count();
    let words = ["saved", "skipped", "failed", "unknown", "not_sent"];
    let counts: Vec<String> = words
        .into_iter()
        .filter(|word| count(word) > 0)
        .map(|word| format!("{} {}", count(word), word.replace('_', " ")))
        .collect();
    note(&counts.join(", "));
    if count("failed") > 0 {
        note("what failed stays approved: the next commit tries it again");
    }
    if count("unknown") > 0 {
        note("what is unknown may be in the hub: look there, then commit with --retry-unknown");
    }
    match failure {
        Some(failure) => Err(failure),
        None => Ok(reports),
    }
}

fn line(report: &CommitReport) -> String {
    let detail = report.knowledge_id.as_deref().or(report.error.as_deref()).unwrap_or_default();
    format!("{:<8} {:<28} {}", report.outcome, printable(&report.extraction_id, 60), printable(detail, 500))
}

/// The sink of the settings, or the folder that a flag names.
pub(crate) fn sink(hub: &HubSettings, directory: Option<&Path>) -> Result<Box<dyn CommitSink>, Failure> {
    let missing = |key: &str| {
        Failure::new(2, "bad_configuration", format!("[hub] has a sink and no `{key}`"))
            .with_hint("`cognilog config` prints the settings, `cognilog config --example` all keys")
    };
    if let Some(folder) = directory {
        return Ok(Box::new(DirectorySink::open(folder)?));
    }
    match hub.sink.as_deref() {
        None => Err(Failure::new(1, "no_hub", "there is no hub to commit to").with_hint(
            "set [hub] sink in cognilog.toml (`cognilog config --example` shows it), or commit into a folder with --directory DIR",
        )),
        Some("directory") => {
            Ok(Box::new(DirectorySink::open(hub.folder.as_deref().ok_or_else(|| missing("folder"))?)?))
        }
        Some(_) => {
            let mut options = HttpOptions::new(hub.url.clone().ok_or_else(|| missing("url"))?);
            options.header = match (&hub.header, &hub.header_variable) {
                (None, None) => None,
                (None, _) => return Err(missing("header")),
                (_, None) => return Err(missing("header_variable")),
                (Some(name), Some(variable)) => {
                    let value = std::env::var(variable).ok().filter(|value| !value.trim().is_empty());
                    let value = value.ok_or_else(|| {
                        let message = format!("[hub] header_variable: ${variable} is not set");
                        Failure::new(2, "bad_configuration", message)
                            .with_hint("it holds the header's whole value, such as `Bearer …`")
                    })?;
                    Some(HttpHeader::new(name, value))
                }
            };
            options.fields = hub.fields.clone().unwrap_or_default();
            options.deadline = hub.timeout_seconds.map_or(options.deadline, Duration::from_secs);
            Ok(Box::new(HttpSink::new(options)?))
        }
    }
}
