//! Imports a `cognition_log.json` and exports it again, now and as it was: the bytes are the same.
#![allow(clippy::print_stdout, reason = "an example shows what it finds")]

use cognilog::{At, Engine, ImportOptions, Profile, TraceId};

const FILE: &str = r#"{"trace_id": "trace-1", "events": [{"type": "query", "sequence": 4, "query": "\u77e5\u8bc6", "source_ids": ["k-1"], "sources": [], "score": 1e16}, {"type": "reflection", "sequence": 9, "reflected_range": [1, 9], "summary": "short"}]}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("cognition_log.json");
    std::fs::write(&file, FILE)?;
    let engine = Engine::create(&folder.path().join("store"))?;
    for report in engine.import(&file, &ImportOptions::default())? {
        println!("{}: {} events added", report.path.display(), report.added);
    }
    let trace = TraceId::new("trace-1")?;
    assert_eq!(engine.export(&trace)?, FILE);
    println!("as of sequence 4: {}", engine.export_at(&trace, At::Sequence(4), Profile::Native)?);
    println!("for the old readers: {}", engine.export_at(&trace, At::Head, Profile::Python)?);
    engine.close()?;
    Ok(())
}
