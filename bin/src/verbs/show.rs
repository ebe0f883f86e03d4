//! `show`: everything known of one trace or one extraction.

use cognilog::TraceId;

use super::Place;
use crate::failure::Failure;
use crate::output::{Output, printable, time};

pub(crate) fn run(place: &Place, id: &str, output: &mut Output) -> Result<u8, Failure> {
    let engine = place.read()?;
    if let Some(extraction) = id.strip_prefix("ext:") {
        return show_extraction(&engine, extraction, output);
    }
    let name = id.strip_prefix("trace:").unwrap_or(id);
    let trace = TraceId::new(name).map_err(cognilog::Error::from)?;
    let detail = match engine.trace(&trace) {
        Err(cognilog::Error::NoSuchTrace { .. }) if id.starts_with("ext-") => {
            return show_extraction(&engine, id, output);
        }
        detail => detail?,
    };
    if output.json {
        output.object(&detail)?;
        return Ok(0);
    }
    let summary = &detail.summary;
    output.line(&format!("trace {}", printable(&summary.trace_id, 200)))?;
    for (label, value) in [
        ("task", &summary.info.task),
        ("identity", &summary.info.identity),
        ("agent type", &summary.info.agent_type),
        ("owner", &summary.info.owner),
        ("status", &summary.info.status),
        ("error type", &summary.info.error_type),
    ] {
        if let Some(value) = value {
            output.line(&format!("  {label:<11} {}", printable(value, 300)))?;
        }
    }
    let counts: Vec<String> =
        summary.counts.by_type.iter().map(|(kind, count)| format!("{count} {}", printable(kind, 40))).collect();
    output.line(&format!("  {:<11} {} ({})", "events", summary.counts.events, counts.join(", ")))?;
    output.line(&format!(
        "  {:<11} {} to {}",
        "time",
        time(summary.counts.first_time),
        time(summary.counts.last_time)
    ))?;
    for (id, goal) in &detail.goals {
        let status = goal.status.as_deref().unwrap_or("-");
        let description = printable(goal.description.as_deref().unwrap_or(""), 120);
        output.line(&format!("  goal {}: {} {description}", printable(id, 40), printable(status, 40)))?;
    }
    for query in &detail.queries {
        let sequence = query.query.sequence.map_or("-".to_owned(), |sequence| sequence.to_string());
        output.line(&format!("  query {sequence}: {}", printable(&query.query.query, 120)))?;
        for id in &query.query.source_ids {
            match query.assessments.get(id) {
                Some(known) => output.line(&format!(
                    "    {:<40} {:<10} {}",
                    printable(id, 40),
                    printable(&known.status, 20),
                    printable(known.reason.as_deref().unwrap_or(""), 120)
                ))?,
                None => output.line(&format!("    {:<40} pending", printable(id, 40)))?,
            }
        }
    }
    for extraction in &detail.extractions {
        let (id, state) = (printable(&extraction.extraction_id, 60), printable(&extraction.state, 20));
        output.line(&format!("  extraction {id}: {state} {}", printable(&extraction.current.content, 120)))?;
    }
    let reflections = &detail.reflections;
    if reflections.reflections > 0 {
        let to = reflections.reflected_at_sequence.map_or("-".to_owned(), |sequence| sequence.to_string());
        output.line(&format!("  {} reflections up to sequence {to}", reflections.reflections))?;
    }
    for sequence in &detail.orphan_evaluations {
        output.line(&format!("  an evaluation of query {sequence} is here, the query is not"))?;
    }
    Ok(0)
}

fn show_extraction(engine: &cognilog::Engine, id: &str, output: &mut Output) -> Result<u8, Failure> {
    let found: Vec<_> =
        engine.extractions(None)?.into_iter().filter(|candidate| candidate.extraction.extraction_id == id).collect();
    if found.is_empty() {
        let message = format!("no extraction is named {:?}", printable(id, 100));
        return Err(Failure::new(1, "extraction_not_found", message)
            .with_hint("`cognilog pending extractions` lists those that wait"));
    }
    for candidate in &found {
        if output.json {
            output.object(candidate)?;
            continue;
        }
        let extraction = &candidate.extraction;
        output.line(&format!("extraction {} of {}", printable(id, 100), printable(&candidate.trace_id, 100)))?;
        output.line(&format!("  state    {} (version {})", printable(&extraction.state, 20), extraction.version))?;
        output.line(&format!("  types    {}", printable(&extraction.current.types.join(", "), 100)))?;
        output.line(&format!("  content  {}", printable(&extraction.current.content, 2_000)))?;
        for decision in &extraction.decisions {
            let reviewer = printable(decision.reviewer.as_deref().unwrap_or("somebody"), 60);
            let reason = printable(decision.reason.as_deref().unwrap_or(""), 200);
            let undoes = decision.undoes.map(|version| format!(" (undoes version {version})")).unwrap_or_default();
            let (when, what) = (time(decision.time), printable(&decision.decision, 20) + &undoes);
            output.line(&format!("  {when} {what} by {reviewer} {reason}"))?;
        }
        if let Some(outcome) = &extraction.outcome {
            let knowledge = printable(outcome.knowledge_id.as_deref().unwrap_or(""), 100);
            let error = printable(outcome.error.as_deref().unwrap_or(""), 300);
            output.line(&format!("  {} {knowledge} {error}", printable(&outcome.outcome, 20)))?;
        }
    }
    Ok(0)
}
