//! Tests of the portable archive: everything moves to another store and exports the same bytes.

use cognilog::{Engine, ImportOptions, TraceId};

/// Events that typed bytes hold, that only text holds, and that JSON readers refuse.
const LOG: &str = r#"{"trace_id": "t", "extra": [1.0], "events": [{"type": "query", "sequence": 4, "query": "\u77e5", "source_ids": ["k"], "sources": [], "x": 1e16}, {"type": "reflection", "sequence": 9, "reflected_range": [1, 9], "summary": "s"}, {"type": "odd", "value": NaN}, {"type": "evaluation", "sequence": 5, "query_sequence": 4, "trigger": "manual", "assessments": []}]}"#;

#[test]
fn an_archive_moves_everything_and_repeats_add_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cognition_log.json");
    let trace = TraceId::new("t").expect("a name");
    let first = Engine::create(&folder.path().join("first")).expect("a store");
    std::fs::write(&file, LOG).expect("written");
    first.import(&file, &ImportOptions::default()).expect("imported");
    // An amendment names a position, which is another one in the second store.
    let amended = LOG.replace(r#""summary": "s""#, r#""summary": "s", "digested": true"#);
    std::fs::write(&file, &amended).expect("written");
    first.import(&file, &ImportOptions::default()).expect("amended");

    let second = Engine::create(&folder.path().join("second")).expect("a store");
    let query = cognilog::event::Query { query: "other".into(), ..Default::default() };
    second.append(&TraceId::new("other").expect("a name"), [query]).expect("appended");
    let archive = folder.path().join("log.ndjson");
    std::fs::write(&archive, archive_of(&first)).expect("written");
    let head = first.snapshot().expect("a snapshot").head().0 as usize;
    for (added, known) in [(head, 0), (0, head)] {
        let report = second.import_archive(&archive).expect("imported");
        assert_eq!((report.added, report.known), (added, known));
    }
    assert_eq!(first.export(&trace).expect("exported"), amended);
    assert_eq!(second.export(&trace).expect("exported"), amended);
    let (ours, theirs) = (first.trace(&trace).expect("shown"), second.trace(&trace).expect("shown"));
    assert_eq!(ours.summary.counts.by_type, theirs.summary.counts.by_type);
    assert_eq!(ours.reflections, theirs.reflections);
}

#[test]
fn a_line_that_is_none_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Engine::create(&folder.path().join("store")).expect("a store");
    let check = |text: &str, expect: &str| {
        let archive = folder.path().join("wrong.ndjson");
        std::fs::write(&archive, text).expect("written");
        let error = engine.import_archive(&archive).expect_err(text).to_string();
        assert!(error.contains(expect), "{text}: {error}");
    };
    check("\n{}\n", "line 2: it has no text under `stream`");
    check("{\"stream\":\"x\"", "line 1: ");
    check("[]\n", "line 1: ");
    check(
        r#"{"stream":"trace:t","event_id":"0198f3a100007abc8def0123456789ab","type":"query","position":1}"#,
        "neither",
    );
}

/// What the command line prints as the archive, made through the public interface of the library.
fn archive_of(engine: &Engine) -> String {
    let mut lines = String::new();
    let snapshot = engine.snapshot().expect("a snapshot");
    snapshot
        .visit(cognilog::Position(1), snapshot.head(), |event| {
            let event = event.to_stored();
            let text = event.json()?;
            let mut line = serde_json::json!({
                "position": event.envelope.position.0,
                "stream": event.stream.to_string(),
                "type": event.envelope.kind.as_str(),
                "sequence": event.envelope.sequence,
                "event_id": event.envelope.event_id.to_string(),
                "occurred_at": event.envelope.occurred_at.map(|time| time.to_text()),
                "imported": event.envelope.imported,
                "typed": event.codec == cognilog::Codec::Typed,
            });
            line["event_text"] = text.into();
            lines.push_str(&line.to_string());
            lines.push('\n');
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .expect("visited");
    lines
}
