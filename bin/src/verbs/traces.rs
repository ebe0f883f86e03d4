//! `traces`: the list of traces.

use super::Place;
use crate::failure::Failure;
use crate::output::{Output, note, printable, time};

pub(crate) fn run(place: &Place, output: &mut Output) -> Result<u8, Failure> {
    let traces = place.read()?.traces()?;
    if output.json {
        output.array(&traces)?;
        return Ok(0);
    }
    for trace in &traces {
        let latest = trace.counts.latest_sequence.map_or("-".to_owned(), |sequence| sequence.to_string());
        let reflected = trace.reflected_at_sequence.map_or("-".to_owned(), |sequence| sequence.to_string());
        output.line(&format!(
            "{:<32} {:>6} events  sequence {latest:>6}  reflected {reflected:>6}  pending {} evaluations, {} extractions  {}  {}",
            printable(&trace.trace_id, 32),
            trace.counts.events,
            trace.pending_evaluations,
            trace.pending_extractions,
            time(trace.counts.last_time),
            printable(trace.info.task.as_deref().unwrap_or(""), 60),
        ))?;
    }
    note(&format!("{} traces", traces.len()));
    Ok(0)
}
