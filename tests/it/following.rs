//! The follower of the JSON files beside a writer that rewrites them whole, as the Python system does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cognilog::{FileAction, FileOutcome, FollowedFile, JsonFile, OnFork};

use crate::common::{Bench, events_of, file, id, on_fork, options};

const TIME: &str = r#""timestamp":"2026-03-20T10:00:00+00:00""#;

fn query(text: &str) -> String {
    format!("{{\"type\":\"query\",\"sequence\":4,\"query\":\"{text}\",\"source_ids\":[\"a\"],\"sources\":[],{TIME}}}")
}

/// A message is no cognition event: it makes the follower look at the file without changing its events.
fn message(number: usize) -> String {
    format!("{{\"type\":\"message\",\"sequence\":{number},\"role\":\"user\",\"content\":\"x\",{TIME}}}")
}

fn file_of(bench: &Bench, trace: &str) -> PathBuf {
    bench.path("out").join(id(trace).folder_name()).join("cognition_log.json")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Reads a file, adds an event, and writes the whole file again, in place as Python's `open(path, "w")` does.
fn add_as_python(path: &Path, event: &str) {
    let JsonFile { frame, mut events, .. } = JsonFile::read(&read(path)).unwrap();
    events.push(event.to_owned());
    std::fs::write(path, frame.print(&events).unwrap()).unwrap();
}

fn actions(reports: &[FollowedFile]) -> Vec<(&str, FileAction)> {
    reports.iter().map(|report| (report.trace_id.as_str(), report.action.clone())).collect()
}

#[test]
fn events_of_another_writer_are_imported_first() {
    let bench = Bench::new();
    let mut files = bench.engine.json_files(&bench.path("out")).unwrap();
    bench.append("t", &query("ours"));
    assert_eq!(actions(&files.flush().unwrap()), [("t", FileAction::Written)]);
    let path = file_of(&bench, "t");
    assert_eq!(read(&path), bench.export("t"));
    add_as_python(&path, &query("theirs"));
    bench.append("t", &message(5));
    assert_eq!(actions(&files.flush().unwrap()), [("t", FileAction::ImportedAndWritten { added: 1 })]);
    assert_eq!(bench.exported_events("t"), [query("ours"), query("theirs")]);
    assert_eq!(read(&path), bench.export("t"));
    // What was imported makes the file no other: there is nothing to write.
    assert_eq!(files.flush().unwrap(), []);
    bench.append("t", &query("ours again"));
    assert_eq!(actions(&files.flush().unwrap()), [("t", FileAction::Written)]);
    assert_eq!(events_of(&read(&path)), [query("ours"), query("theirs"), query("ours again")]);
}

#[test]
fn a_file_that_went_another_way_is_left_alone() {
    let bench = Bench::new();
    let mut files = bench.engine.json_files(&bench.path("out")).unwrap();
    bench.append("t", &query("first"));
    bench.append("other", &query("first"));
    files.flush().unwrap();
    let path = file_of(&bench, "t");
    add_as_python(&path, &query("theirs"));
    let theirs = read(&path);
    bench.append("t", &query("ours"));
    bench.append("other", &query("second"));
    let head = bench.head();
    let reports = files.flush().unwrap();
    assert_eq!(actions(&reports), [("other", FileAction::Written), ("t", FileAction::Forked { index: 1 })]);
    assert!(reports[1].to_string().contains("left") && reports[1].to_string().contains("event 1"));
    assert_eq!((read(&path), bench.head()), (theirs, head), "neither the file nor the log lost anything");
    assert_eq!(bench.exported_events("t"), [query("first"), query("ours")]);
    // A person decides; then the follower goes on with everything of both.
    let report = bench.engine.import_file(&path, &on_fork(OnFork::Append)).unwrap();
    assert_eq!(report.added, 1);
    let all = [query("first"), query("ours"), query("theirs")];
    assert_eq!(bench.exported_events("t"), all);
    assert_eq!(actions(&files.flush().unwrap()), [("t", FileAction::Written)]);
    assert_eq!(events_of(&read(&path)), all);
    // A writer that holds the old order in memory forks again; once its events are in the log the file is put right.
    let order = [query("first"), query("theirs"), query("last of theirs")];
    std::fs::write(&path, file("t", &order.each_ref().map(String::as_str))).unwrap();
    bench.append("t", &message(5));
    assert_eq!(actions(&files.flush().unwrap()), [("t", FileAction::Forked { index: 1 })]);
    assert_eq!(bench.engine.import_file(&path, &on_fork(OnFork::Append)).unwrap().added, 1);
    assert_eq!(actions(&files.flush().unwrap()), [("t", FileAction::Written)]);
    assert_eq!(events_of(&read(&path)), [&all[..], &order[2..]].concat());
}

/// A writer that holds its events in memory and rewrites its file in place, and the follower, both at full speed.
#[test]
fn two_writers_at_once_lose_nothing() {
    let bench = Bench::new();
    let mut files = bench.engine.json_files(&bench.path("out")).unwrap();
    bench.append("t", &query("0"));
    files.flush().unwrap();
    let path = file_of(&bench, "t");
    let JsonFile { frame, mut events, .. } = JsonFile::read(&read(&path)).unwrap();
    let done = AtomicBool::new(false);
    let mut number = 10;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for count in 1..=60 {
                events.push(query(&count.to_string()));
                std::fs::write(&path, frame.print(&events).unwrap()).unwrap();
                std::thread::sleep(Duration::from_millis(3));
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            number += 1;
            bench.append("t", &message(number));
            for report in files.flush().unwrap() {
                assert!(!matches!(report.action, FileAction::Forked { .. }), "{report:?}");
            }
        }
    });
    // What fell into the moment between the follower's look and its rename is in the writer's next file.
    std::fs::write(&path, frame.print(&events).unwrap()).unwrap();
    bench.append("t", &message(number + 1));
    files.flush().unwrap();
    assert_eq!(bench.exported_events("t"), events);
    assert_eq!(events_of(&read(&path)), events);
}

#[test]
fn files_that_cannot_be_read_are_named_one_by_one() {
    let bench = Bench::new();
    let mut files = bench.engine.json_files(&bench.path("out")).unwrap();
    let traces = ["deleted", "empty", "half", "latin", "spaces", "whole"];
    for trace in traces {
        bench.append(trace, &query("1"));
    }
    files.flush().unwrap();
    let path = |trace| file_of(&bench, trace);
    std::fs::remove_file(path("deleted")).unwrap();
    std::fs::write(path("empty"), "").unwrap();
    std::fs::write(path("half"), &read(&path("half"))[..30]).unwrap();
    std::fs::write(path("latin"), b"{\"events\":[\"\xe9\"]}").unwrap();
    std::fs::write(path("spaces"), " \n\t\n").unwrap();
    for trace in traces {
        bench.append(trace, &query("2"));
    }
    let reports = files.flush().unwrap();
    let named: BTreeMap<&str, String> =
        reports.iter().map(|report| (report.trace_id.as_str(), report.to_string())).collect();
    assert_eq!(named.keys().copied().collect::<Vec<_>>(), traces);
    for (trace, expect) in [
        ("deleted", "wrote"),
        ("empty", "it is empty"),
        ("half", "ends in the middle"),
        ("latin", "not UTF-8"),
        ("spaces", "it is empty"),
        ("whole", "wrote"),
    ] {
        assert!(named[trace].contains(expect), "{}", named[trace]);
    }
    for trace in ["deleted", "whole"] {
        assert_eq!(events_of(&read(&path(trace))), [query("1"), query("2")]);
    }
    assert_eq!(std::fs::read(path("empty")).unwrap(), b"", "a file that is not understood is left as it is");
    // Every trace is there for every question, whatever became of its file.
    assert_eq!(bench.engine.traces().unwrap().len(), 6);
    assert_eq!(bench.engine.pending_evaluations(None).unwrap().len(), 12);
    // Another follower sees them again, since what is behind is not remembered as done.
    drop(files);
    for trace in ["empty", "half", "latin", "spaces"] {
        std::fs::remove_file(path(trace)).unwrap();
    }
    let mut files = bench.engine.json_files(&bench.path("out")).unwrap();
    let again: Vec<String> = files.flush().unwrap().into_iter().map(|report| report.trace_id).collect();
    assert_eq!(again, ["empty", "half", "latin", "spaces"]);
    for trace in traces {
        assert_eq!(events_of(&read(&path(trace))), [query("1"), query("2")]);
    }
}

#[test]
fn the_state_file_says_how_far_the_files_are() {
    let bench = Bench::new();
    let folder = bench.path("out");
    let state = folder.join(".cognilog-files.json");
    let follow = || bench.engine.json_files(&folder).unwrap().flush().unwrap();
    assert_eq!(follow(), []);
    bench.append("t", &query("1"));
    bench.append("u", &query("1"));
    assert_eq!(follow().len(), 2);
    let written: serde_json::Value = serde_json::from_str(&read(&state)).unwrap();
    assert_eq!(written["position"], bench.head());
    // Going on from it, only what is new is looked at; without it or with another one, everything, and nothing written.
    std::fs::remove_file(file_of(&bench, "u")).unwrap();
    assert_eq!(follow(), []);
    for other in ["", "{", "{\"epoch\":77,\"position\":2}", "{\"epoch\":0,\"position\":99999999}"] {
        std::fs::write(&state, other).unwrap();
        bench.append("t", &query("more"));
        let reports = follow();
        assert!(reports.iter().any(|report| report.trace_id == "t"), "{other}: {reports:?}");
        assert_eq!(read(&file_of(&bench, "t")), bench.export("t"), "{other}");
    }
    std::fs::remove_file(&state).unwrap();
    follow();
    assert_eq!(read(&file_of(&bench, "u")), bench.export("u"));
    assert_eq!(follow(), []);
}

#[test]
fn a_file_is_not_rewritten_for_every_event() {
    let bench = Bench::new();
    let mut files = bench.engine.json_files(&bench.path("out")).unwrap();
    bench.append("t", &query("1"));
    assert_eq!(files.step(Duration::from_secs(5)).unwrap().len(), 1);
    for number in 2..20 {
        bench.append("t", &query(&number.to_string()));
        assert_eq!(files.step(Duration::ZERO).unwrap(), [], "within a second of the last write");
    }
    assert_eq!(files.flush().unwrap().len(), 1);
    assert_eq!(read(&file_of(&bench, "t")), bench.export("t"));
    // A step waits for a file that becomes due, and not longer.
    bench.append("t", &query("20"));
    let began = std::time::Instant::now();
    let mut reports = Vec::new();
    while reports.is_empty() {
        reports = files.step(Duration::from_secs(30)).unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// What the files spell otherwise for the old readers comes back as it was, when such a file is imported again.
#[test]
fn the_python_spelling_is_taken_back() {
    let bench = Bench::new();
    let mut files = bench.engine.json_files(&bench.path("out")).unwrap();
    let events = [
        format!(
            "{{\"type\":\"extraction_pending\",\"sequence\":1,\"extraction_id\":\"e1\",\"branch_id\":\"b\",\"item\":{{\"types\":[\"tool\"],\"content\":\"c\",\"score\":4.50}},{TIME}}}"
        ),
        format!(
            "{{\"type\":\"extraction_reviewed\",\"sequence\":1,\"extraction_id\":\"e1\",\"version\":1,\"decision\":\"approve\",\"reviewer\":\"me\",{TIME}}}"
        ),
        format!(
            "{{\"type\":\"extraction_reviewed\",\"sequence\":1,\"extraction_id\":\"e1\",\"version\":2,\"decision\":\"withdraw\",\"reason\":\"too early\",{TIME}}}"
        ),
        format!("{{\"type\":\"reflection\",\"sequence\":1,\"summary\":\"s\",\"digested_by\":\"dream-1\",{TIME}}}"),
    ];
    for event in &events {
        bench.append("t", event);
    }
    let served = |bench: &Bench| {
        let mut rows = bench.engine.served_state(&id("t")).unwrap();
        rows.remove("traces/counts");
        rows
    };
    let (rows, native) = (served(&bench), bench.export("t"));
    files.flush().unwrap();
    let path = file_of(&bench, "t");
    let spelled = events_of(&read(&path));
    assert!(
        spelled[2].contains("\"decision\":\"discard\"") && spelled[2].contains("\"reason\":\"withdrawn\""),
        "{spelled:?}"
    );
    assert!(spelled[3].contains("\"cognilog\":{\"digested_by\":\"dream-1\"}"), "{spelled:?}");
    // Imported by itself, by a new follower, and with an event of the other writer behind it.
    let head = bench.head();
    let report = bench.engine.import_file(&path, &options()).unwrap();
    assert_eq!((report.outcome, report.known), (FileOutcome::Unchanged, 4));
    assert_eq!(bench.head(), head);
    add_as_python(&path, &query("theirs"));
    bench.append("t", &message(5));
    let mut files = bench.engine.json_files(&bench.path("out")).unwrap();
    assert_eq!(actions(&files.flush().unwrap()), [("t", FileAction::ImportedAndWritten { added: 1 })]);
    assert_eq!(bench.exported_events("t")[..4], events_of(&native));
    let mut now = served(&bench);
    now.retain(|key, _| !key.starts_with("evaluation_status/"));
    assert_eq!(now, rows);
    // A key that the other writer adds to such an event stays, and the event keeps its meaning.
    let changed = read(&path).replace("\"reason\": \"withdrawn\"", "\"reason\": \"withdrawn\",\n      \"seen\": true");
    assert_ne!(changed, read(&path));
    std::fs::write(&path, changed).unwrap();
    bench.append("t", &message(6));
    files.flush().unwrap();
    let extraction = bench.engine.extractions(Some(&id("t"))).unwrap()[0].extraction.clone();
    assert_eq!((extraction.state.as_str(), extraction.version), ("pending", 2));
    assert_eq!(extraction.decisions[1].reason.as_deref(), Some("too early"));
    assert!(bench.exported_events("t")[2].contains("\"decision\":\"withdraw\""));
    assert!(events_of(&read(&path))[2].contains("\"seen\":true"), "{}", read(&path));
    assert!(events_of(&read(&path))[2].contains("\"decision\":\"discard\""));
}

/// Files are known by their folder: one that names no trace is not taken for a new one, one that names another is left.
#[test]
fn a_file_is_only_ever_its_own_trace() {
    let bench = Bench::new();
    let text = format!("{{\"events\":[{}]}}", query("1"));
    let path = bench.write("My Trace/cognition_log.json", &text);
    assert_eq!(bench.engine.import_file(&path, &options()).unwrap().trace_id.as_deref(), Some("My Trace"));
    let follow = || bench.engine.json_files(&bench.path("out")).unwrap().flush().unwrap();
    assert_eq!(follow().len(), 1);
    let path = file_of(&bench, "My Trace");
    assert_eq!(read(&path), text);
    std::fs::remove_file(bench.path("out/.cognilog-files.json")).unwrap();
    assert_eq!(follow(), []);
    assert_eq!(bench.engine.traces().unwrap().len(), 1);

    bench.append("t", &query("1"));
    let foreign = file("u", &[&query("of u")]);
    bench.write("out/t/cognition_log.json", &foreign);
    let reports = follow();
    assert!(
        matches!(&reports[0].action, FileAction::Failed { reason } if reason.contains("another trace")),
        "{reports:?}"
    );
    assert_eq!(read(&file_of(&bench, "t")), foreign);
    assert_eq!(bench.engine.traces().unwrap().len(), 2, "nothing of it was imported");
}
