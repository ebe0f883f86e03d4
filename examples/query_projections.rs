//! Asks the projections what waits: name a store, or see it on a small one made here.
#![allow(clippy::print_stdout, reason = "an example shows what it finds")]

use cognilog::event::{ExtractionItem, ExtractionPending, Query};
use cognilog::{Engine, PendingRule, TraceId};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let engine = match std::env::args_os().nth(1) {
        // Beside a writer of another process this reads what is on disk and folds the rest itself.
        Some(path) => Engine::open_reader(path.as_ref())?,
        None => sample(folder.path())?,
    };
    for trace in engine.traces()? {
        println!(
            "{}: {} events, latest sequence {:?}",
            trace.trace_id, trace.counts.events, trace.counts.latest_sequence
        );
    }
    for pending in engine.pending_evaluations(None)? {
        println!("query {:?} of {} misses {:?}", pending.query_sequence, pending.trace_id, pending.missing_source_ids);
    }
    let by_document = engine.pending_evaluations_by(None, PendingRule::Document)?;
    println!("{} queries without any evaluation event", by_document.len());
    for pending in engine.pending_extractions(None)? {
        println!("{} waits for a person: {}", pending.extraction.extraction_id, pending.extraction.current.content);
    }
    for behind in engine.pending_reflections(None)? {
        println!(
            "{} is reflected to {:?} of {}",
            behind.trace_id, behind.reflected_at_sequence, behind.latest_sequence
        );
    }
    println!("healthy: {}", engine.health()?.is_healthy());
    Ok(())
}

fn sample(folder: &std::path::Path) -> Result<Engine, cognilog::Error> {
    let engine = Engine::create(&folder.join("store"))?;
    let trace = TraceId::new("trace-1")?;
    let query = Query { query: "Which tool?".into(), source_ids: vec!["k-1".into(), "k-2".into()], ..Query::default() };
    engine.append(&trace, [query])?;
    let item =
        ExtractionItem { types: vec!["tool".into()], content: "先试低分辨率。".into(), ..Default::default() };
    let pending = ExtractionPending { extraction_id: Some("ext-1".into()), item, ..Default::default() };
    engine.append(&trace, [pending])?;
    Ok(engine)
}
