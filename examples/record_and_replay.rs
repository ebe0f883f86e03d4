//! Records a query and its evaluation, then replays the trace with what each event changed.
#![allow(clippy::print_stdout, reason = "an example shows what it finds")]

use std::ops::ControlFlow;

use cognilog::event::{Assessment, Evaluation, EvaluationStatus, Query, QuerySource};
use cognilog::{At, Engine, TraceId};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let engine = Engine::create(&folder.path().join("store"))?;
    let trace = TraceId::new("trace-1")?;

    // Sequence and time are filled in where they are left open; the call returns once the event is on disk.
    let receipt = engine.append(
        &trace,
        [Query {
            query: "How is the outline kept?".into(),
            source_ids: vec!["knowledge-a1b2".into()],
            sources: vec![QuerySource {
                id: "knowledge-a1b2".into(),
                task: Some("image editing".into()),
                content: Some("Use a strength of at least 0.3.".into()),
            }],
            ..Query::default()
        }],
    )?;
    let query_sequence = receipt.events[0].sequence.unwrap_or_default();
    engine.append(
        &trace,
        [Evaluation {
            query_sequence,
            assessments: vec![Assessment {
                source_id: "knowledge-a1b2".into(),
                status: EvaluationStatus::HELPFUL,
                reason: Some("it named the cause".into()),
            }],
            ..Evaluation::default()
        }],
    )?;

    engine.replay(&trace, At::Head, |step| {
        println!("{} {} at sequence {:?}", step.position, step.kind.as_str(), step.sequence);
        for change in &step.changes {
            println!("    {}/{}: {:?} -> {:?}", change.projection, change.key, change.before, change.after);
        }
        ControlFlow::Continue(())
    })?;
    engine.close()?;
    Ok(())
}
