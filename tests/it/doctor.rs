//! What is wrong with a store, each with its finding and its remedy.

use std::path::Path;

use cognilog::{Engine, EngineOptions, Weight, diagnose};

use crate::common::*;

/// Makes a store with a query and an extraction in it, closes it, spoils it, and holds the findings against what is
/// expected of them.
fn check(name: &str, spoil: impl Fn(&Path), expect: &[(&str, Weight)]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let engine = Engine::create(&path).unwrap();
    let append = |event: &str| {
        let append = cognilog::Append::new(id("t")).event(cognilog::AppendEvent::from_json(event).unwrap());
        engine.submit(append).unwrap();
    };
    append(r#"{"type":"query","query":"where are the notes","source_ids":["k-1"]}"#);
    append(r#"{"type":"message","role":"user","content":"an ordinary message"}"#);
    engine.store().flush().unwrap();
    append(r#"{"type":"message","role":"user","content":"the last message"}"#);
    engine.close().unwrap();
    spoil(&path);
    let found = diagnose(&path, &EngineOptions::default(), None).unwrap();
    let weights: Vec<(&str, Weight)> = found.findings.iter().map(|finding| (finding.code, finding.weight)).collect();
    assert_eq!(weights, expect, "{name}: {:#?}", found.findings);
    assert!(found.findings.iter().all(|finding| !finding.what.is_empty() && !finding.remedy.is_empty()));
}

fn flip(path: &Path, text: &str) {
    let log = path.join("log.redb");
    let mut bytes = std::fs::read(&log).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text.as_bytes())).collect();
    assert!(!places.is_empty(), "{text}");
    places.iter().for_each(|at| bytes[at + 3] ^= 1);
    std::fs::write(&log, bytes).unwrap();
}

#[test]
fn each_problem_has_a_finding_and_a_remedy() {
    let file =
        |name: &'static str, text: &'static str| move |path: &Path| std::fs::write(path.join(name), text).unwrap();
    check("nothing", |_| {}, &[]);
    check(
        "no manifest",
        |path| std::fs::remove_file(path.join("MANIFEST.json")).unwrap(),
        &[("not_a_store", Weight::Problem)],
    );
    check(
        "another format",
        file("MANIFEST.json", r#"{"format":9,"layout":0,"store_id":"s","epoch":1}"#),
        &[("format_unsupported", Weight::Problem)],
    );
    check("no head file", |path| std::fs::remove_file(path.join("head")).unwrap(), &[("head_behind", Weight::Note)]);
    check("left over", file("log.redb.new", "half"), &[("left_over", Weight::Warning)]);
    check("a damaged event", |path| flip(path, "an ordinary message"), &[("log_damaged", Weight::Problem)]);
    check("a damaged tail", |path| flip(path, "the last message"), &[("log_damaged", Weight::Problem)]);
    let longer = |path: &Path| {
        let head = std::fs::read_to_string(path.join("head")).unwrap();
        std::fs::write(path.join("head"), head.replace(".3.", ".4.")).unwrap();
    };
    check("a head ahead of the log", longer, &[("log_damaged", Weight::Problem)]);
    check("a log of text", file("log.redb", "text"), &[("unreadable", Weight::Problem)]);
}

#[test]
fn damaged_rows_are_made_again_by_the_remedy() {
    let place = Bench::new();
    place.append("t", r#"{"type":"query","query":"a question in the rows","source_ids":["k-1"]}"#);
    place.engine.store().flush().unwrap();
    let path = place.store_path();
    let log = path.join("log.redb");
    // The projection's row holds the question behind its length, the event in the log does not.
    let (engine, _folder) = place.into_parts();
    engine.close().unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    let text = b"a question in the rows";
    let places: Vec<usize> = (1..bytes.len() - text.len())
        .filter(|at| bytes[*at..].starts_with(text) && bytes[at - 1] == text.len() as u8)
        .collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| bytes[at + 1] ^= 1);
    std::fs::write(&log, bytes).unwrap();
    let codes = || -> Vec<&str> {
        let found = diagnose(&path, &EngineOptions::default(), None).unwrap();
        found.findings.iter().map(|finding| finding.code).collect()
    };
    assert_eq!(codes(), ["rows_damaged"]);
    let engine = Engine::open(&path).unwrap();
    engine.rebuild(&[]).unwrap();
    engine.close().unwrap();
    assert_eq!(codes(), Vec::<&str>::new());
}
