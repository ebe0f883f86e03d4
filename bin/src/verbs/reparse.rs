//! `reparse`: stored replies from which nothing could be taken are tried again.

use cognilog::{ReparseOutcome, TraceId};

use super::Place;
use crate::arguments::ReparseArguments;
use crate::failure::Failure;
use crate::output::{Output, note, printable};

pub(crate) fn run(place: &Place, arguments: &ReparseArguments, output: &mut Output) -> Result<u8, Failure> {
    let trace = arguments.trace.clone().map(TraceId::new).transpose().map_err(cognilog::Error::from)?;
    let engine = if arguments.dry_run { place.read()? } else { place.write()? };
    let replies = engine.reparse(trace.as_ref(), arguments.dry_run)?;
    if output.json {
        output.array(&replies)?;
    } else {
        for reply in &replies {
            let told = match (&reply.reason, reply.outcome) {
                (Some(reason), _) => format!(" {}", printable(reason, 200)),
                (None, ReparseOutcome::Recorded) => format!(" {} events", reply.recorded),
                (None, _) => String::new(),
            };
            output.line(&format!(
                "{:<32} {:>8} {:<8} {}{told}",
                printable(&reply.trace_id, 32),
                reply.position,
                printable(&reply.reply_kind, 8),
                reply.outcome.as_str(),
            ))?;
            for dropped in &reply.dropped {
                output.line(&format!("  {}", printable(dropped, 300)))?;
            }
        }
        let recorded = replies.iter().filter(|reply| reply.outcome == ReparseOutcome::Recorded).count();
        let would = if arguments.dry_run { "would be recorded" } else { "recorded" };
        note(&format!("{recorded} of {} stored replies {would}", replies.len()));
    }
    if !arguments.dry_run {
        engine.close()?;
    }
    Ok(0)
}
