//! `pending`: what waits for an evaluation, a person or a dream.

use cognilog::{PendingRule, TraceId};
use serde::Serialize;

use super::Place;
use crate::arguments::{PendingArguments, PendingChoice, RuleChoice};
use crate::failure::Failure;
use crate::output::{Output, note, printable};
use crate::review::now;

/// Items shown to people without `--all`.
const SHOWN: usize = 100;

pub(crate) fn run(place: &Place, arguments: &PendingArguments, output: &mut Output) -> Result<u8, Failure> {
    let engine = place.read()?;
    let trace = arguments.trace.clone().map(TraceId::new).transpose().map_err(cognilog::Error::from)?;
    let trace = trace.as_ref();
    match arguments.what {
        PendingChoice::Evaluations => {
            let rule = match arguments.rule {
                RuleChoice::PerSource => PendingRule::PerSource,
                RuleChoice::Document => PendingRule::Document,
            };
            list(&engine.pending_evaluations_by(trace, rule)?, arguments, output, |item| {
                let sequence = item.query_sequence.map_or("-".to_owned(), |sequence| sequence.to_string());
                format!(
                    "{:<32} query {sequence:>5}  {}  missing {}",
                    printable(&item.trace_id, 32),
                    printable(&item.query, 60),
                    printable(&item.missing_source_ids.join(", "), 120),
                )
            })
        }
        PendingChoice::Extractions => {
            let queue = engine.review_queue(trace, now(), place.settings.pending_days)?;
            let exit = list(&queue, arguments, output, |entry| {
                let extraction = &entry.pending.extraction;
                // Those that say nearly the same stand together, the later ones behind a mark.
                let mark = if extraction.position == entry.group { ' ' } else { '=' };
                let age = format!("{}d{}", entry.age_days, if entry.is_overdue { "!" } else { "" });
                format!(
                    "{:<32} {mark}{:<27} {age:>6} {:<10} {}",
                    printable(&entry.pending.trace_id, 32),
                    printable(&extraction.extraction_id, 60),
                    printable(&extraction.current.types.join(","), 20),
                    printable(&extraction.current.content, 80),
                )
            })?;
            let overdue = queue.iter().filter(|entry| entry.is_overdue).count();
            if overdue > 0 && !output.json {
                let days = place.settings.pending_days.unwrap_or(cognilog::PENDING_DAYS);
                note(&format!("{overdue} of them (!) have waited for more than {days} days"));
            }
            Ok(exit)
        }
        PendingChoice::Reflections => list(&engine.pending_reflections(trace)?, arguments, output, |item| {
            let reflected = item.reflected_at_sequence.map_or("never".to_owned(), |sequence| sequence.to_string());
            format!("{:<32} reflected {reflected:>6} of {}", printable(&item.trace_id, 32), item.latest_sequence)
        }),
    }
}

fn list<T: Serialize>(
    items: &[T],
    arguments: &PendingArguments,
    output: &mut Output,
    text: impl Fn(&T) -> String,
) -> Result<u8, Failure> {
    if output.json {
        output.array(items)?;
        return Ok(0);
    }
    let shown = if arguments.all { items.len() } else { items.len().min(SHOWN) };
    for item in &items[..shown] {
        output.line(&text(item))?;
    }
    let more = if shown < items.len() { "; --all lists the rest" } else { "" };
    note(&format!("{shown} of {} pending{more}", items.len()));
    Ok(0)
}
