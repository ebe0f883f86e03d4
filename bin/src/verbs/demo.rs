//! `demo`: what works, step by step, on a fresh store, without a network unless a model endpoint is named.

use std::ops::ControlFlow;
use std::path::Path;

use cognilog::event::{Assessment, Evaluation, EvaluationStatus};
use cognilog::{At, Engine, ImportOptions, TraceId};

use crate::failure::Failure;
use crate::output::{Output, note, printable, shown};

/// A log as a Python agent leaves it, with one query half evaluated and two extractions, one of them reviewed.
const LOG: &str = include_str!("demo_cognition_log.json");

pub(crate) fn run(folder: Option<&Path>, output: &mut Output) -> Result<u8, Failure> {
    let named = folder;
    let temporary;
    let folder = match named {
        Some(folder) => folder,
        None => {
            temporary = tempfile::tempdir().map_err(|error| Failure::io("create", &std::env::temp_dir(), &error))?;
            temporary.path()
        }
    };
    let store = folder.join("store");
    // Looked at before anything is written, so that a second run changes nothing of the first.
    if store.exists() {
        return Err(Failure::new(1, "store_exists", format!("{} is there already", store.display()))
            .with_hint("name a new folder, or none for a temporary one"));
    }
    let source = folder.join("trace").join("demo-trace").join("cognition_log.json");
    let parent = source.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent).map_err(|error| Failure::io("create", parent, &error))?;
    std::fs::write(&source, LOG).map_err(|error| Failure::io("write", &source, &error))?;
    let engine = Engine::create(&store)?;
    let trace = TraceId::new("demo-trace").map_err(cognilog::Error::from)?;
    step(output, 1, "import", "a Python agent's cognition_log.json becomes events of an append-only log")?;
    let reports = engine.import(parent, &ImportOptions::default())?;
    for report in &reports {
        let name = report.path.file_name().unwrap_or_default().to_string_lossy();
        output.line(&format!("   {name}: {} events added", report.added))?;
    }

    step(output, 2, "pending", "sources that nobody judged yet; a half-evaluated query still counts")?;
    let pending = engine.pending_evaluations(None)?;
    for item in &pending {
        let missing = item.missing_source_ids.join(", ");
        output.line(&format!("   query {}: {} - missing {missing}", item.query_sequence.unwrap_or(0), item.query))?;
    }
    check(pending.len() == 1, "one query is pending")?;

    step(output, 3, "append", "the missing judgement; the call returns once it is on disk")?;
    let evaluation = Evaluation {
        query_sequence: pending[0].query_sequence.unwrap_or(0),
        trigger: Some("task_completion".to_owned()),
        assessments: vec![Assessment {
            source_id: pending[0].missing_source_ids[0].clone(),
            status: EvaluationStatus::HARMFUL,
            reason: Some("the advice was out of date".to_owned()),
        }],
        ..Evaluation::default()
    };
    let receipt = engine.append(&trace, [evaluation])?;
    output.line(&format!("   recorded at position {}", receipt.events[0].position))?;
    check(engine.pending_evaluations(None)?.is_empty(), "nothing is pending any more")?;

    super::demo_run::run(&engine, folder, output)?;

    step(output, 9, "replay", "each event with what it changed, for debugging")?;
    let mut lines = Vec::new();
    let run = TraceId::new(super::demo_run::TRACE).map_err(cognilog::Error::from)?;
    engine.replay(&run, At::Head, |step| {
        let changed: Vec<String> =
            step.changes.iter().map(|change| format!("{}/{}", change.projection, change.key)).collect();
        lines.push(format!("   {:>2} {:<20} changed {}", step.position, step.kind.as_str(), changed.join(", ")));
        ControlFlow::Continue(())
    })?;
    lines.iter().try_for_each(|line| output.line(line))?;

    step(output, 10, "as of", "the same trace as it was before the new judgement")?;
    let before = engine.export_at(
        &trace,
        At::Position(cognilog::Position(receipt.events[0].position.0 - 1)),
        Default::default(),
    )?;
    check(before == LOG, "the export as of then is the file that was imported, byte for byte")?;
    output.line("   identical bytes to the file that was imported")?;

    step(output, 11, "export", "the old readers get the very same file, with the new event in it")?;
    let exported = engine.export(&trace)?;
    let tail: Vec<&str> = exported.lines().rev().take(14).collect();
    tail.iter().rev().try_for_each(|line| output.line(&format!("   {}", printable(line, 100))))?;

    step(output, 12, "verify", "positions, hash chain, checksums, digests, rows")?;
    engine.store().flush()?;
    let found = engine.verify()?;
    check(found.findings.is_empty(), "the store verifies")?;
    output.line(&format!("   {} events, {} rows: all as it was recorded", found.events, found.rows))?;
    engine.close()?;
    if named.is_some() {
        note(&format!("the store is at {0}: try `cognilog --store {0} status`", shown(&store)));
    }
    Ok(0)
}

pub(super) fn check(holds: bool, what: &str) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure::new(1, "demo_failed", format!("the demo expected that {what}"))) }
}

pub(super) fn step(output: &mut Output, number: usize, name: &str, what: &str) -> Result<(), Failure> {
    output.line(&format!("{number}. {name}: {what}"))
}
