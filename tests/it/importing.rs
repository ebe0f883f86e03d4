//! Importing: forms, growth, changes in place, forks, half-written files, and what stands beside a log.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use cognilog::time::Zone;
use cognilog::{Engine, Error, FileOutcome, OnFork, TraceId};

use crate::common::{Bench, Random, cases, events_of, file, id, on_fork, options};

const QUERY: &str = r#"{"type":"query","sequence":4,"query":"q","source_ids":["a","b"],"sources":[],"timestamp":"2026-03-20T10:00:00"}"#;
const EVALUATION: &str = r#"{"type":"evaluation","sequence":9,"query_sequence":4,"trigger":"compression","assessments":[{"source_id":"a","status":"helpful","reason":"r"}],"timestamp":"2026-03-20T10:05:00"}"#;
const REFLECTION: &str =
    r#"{"type":"reflection","sequence":9,"reflected_range":[1,9],"summary":"s","timestamp":"2026-03-20T10:06:00"}"#;

/// Both forms of the extraction events, as one trace each.
const NESTED: [&str; 7] = [
    r#"{"type":"extraction_pending","sequence":88,"extraction_id":"e1","trigger":"compression","branch_id":"b","item":{"types":["tool"],"task":"t","content":"c1","score":3,"tags":{}},"timestamp":"2026-03-20T10:00:00"}"#,
    r#"{"type":"extraction_pending","sequence":88,"extraction_id":"e2","item":{"type":"tool","content":"c2"}}"#,
    r#"{"type":"extraction_pending","sequence":88,"extraction_id":"e3","item":{"types":["case"],"content":"c3"}}"#,
    r#"{"type":"extraction_pending","sequence":88,"extraction_id":"e4","item":{"types":["case"],"content":"c4"}}"#,
    r#"{"type":"extraction_reviewed","sequence":130,"extraction_id":"e1","decision":"approve"}"#,
    r#"{"type":"extraction_reviewed","sequence":130,"extraction_id":"e2","decision":"edit","edited":{"content":"new"}}"#,
    r#"{"type":"extraction_reviewed","sequence":130,"extraction_id":"e3","decision":"discard"}"#,
];
const FLAT: [&str; 7] = [
    r#"{"type":"extraction_pending","sequence":88,"extraction_id":"e1","trigger":"compression","branch_id":"b","types":["tool"],"task":"t","content":"c1","score":3,"tags":{},"timestamp":"2026-03-20T10:00:00"}"#,
    r#"{"type":"extraction_pending","sequence":88,"extraction_id":"e2","types":"tool","content":"c2"}"#,
    r#"{"type":"extraction_pending","sequence":88,"extraction_id":"e3","types":["case"],"content":"c3"}"#,
    r#"{"type":"extraction_pending","sequence":88,"extraction_id":"e4","types":["case"],"content":"c4"}"#,
    r#"{"type":"extraction_reviewed","sequence":130,"extraction_id":"e1","decision":"approved"}"#,
    r#"{"type":"extraction_reviewed","sequence":130,"extraction_id":"e2","decision":"edited","edited_content":"new"}"#,
    r#"{"type":"extraction_reviewed","sequence":130,"extraction_id":"e3","decision":"discarded"}"#,
];
const COMMITTED_SINGLE: [&str; 2] = [
    r#"{"type":"extraction_committed","sequence":130,"extraction_id":"e1","outcome":"saved","knowledge_id":"k1"}"#,
    r#"{"type":"extraction_committed","sequence":130,"extraction_id":"e2","outcome":"failed","error":"no"}"#,
];
const COMMITTED_LIST: &str = r#"{"type":"extraction_committed","sequence":130,"items":[{"extraction_id":"e1","knowledge_id":"k1"},{"extraction_id":"e2","outcome":"error","error":{"code":7}}]}"#;

#[test]
fn both_forms_of_an_extraction_give_the_same_state() {
    let bench = Bench::new();
    let traces: [Vec<&str>; 4] = [
        [&NESTED[..], &COMMITTED_SINGLE].concat(),
        [&FLAT[..], &[COMMITTED_LIST]].concat(),
        [&NESTED[..4], &FLAT[4..], &[COMMITTED_LIST]].concat(),
        [&FLAT[..4], &NESTED[4..], &COMMITTED_SINGLE].concat(),
    ];
    for (number, events) in traces.iter().enumerate() {
        let trace = format!("t{number}");
        let report = bench.import_events(&trace, events);
        assert_eq!(report.added, events.len(), "{report:?}");
        let expect =
            [("e1", "committed", "c1"), ("e2", "edited", "new"), ("e3", "discarded", "c3"), ("e4", "pending", "c4")];
        let found = bench.extractions(&trace);
        let found: Vec<_> =
            found.iter().map(|(id, state, text)| (id.as_str(), state.as_str(), text.as_str())).collect();
        assert_eq!(found, expect, "{trace}");
        let pending = bench.engine.pending_extractions(Some(&id(&trace))).unwrap();
        let pending: Vec<&str> = pending.iter().map(|pending| pending.extraction.extraction_id.as_str()).collect();
        assert_eq!(pending, ["e4"]);
        let all = bench.engine.extractions(Some(&id(&trace))).unwrap();
        let first = &all[0].extraction;
        assert_eq!(
            (first.original.types.join(" "), first.original.task.as_deref(), first.original.score.as_deref()),
            ("tool".to_owned(), Some("t"), Some("3"))
        );
        assert_eq!((first.trigger.as_deref(), first.branch_id.as_deref()), (Some("compression"), Some("b")));
        assert_eq!(all[1].extraction.original.types, ["tool"]);
        let outcome = all[0].extraction.outcome.as_ref().unwrap();
        assert_eq!((outcome.outcome.as_str(), outcome.knowledge_id.as_deref()), ("saved", Some("k1")));
        let outcome = all[1].extraction.outcome.as_ref().unwrap();
        assert_eq!(
            (outcome.outcome.as_str(), outcome.error.is_some()),
            ("failed", true),
            "an error never reads as a save"
        );
        assert_eq!(bench.exported_events(&trace), *events);
    }
}

/// Native events of a trace that began as a file take the form that the file has first.
#[test]
fn native_events_follow_the_form_of_the_file() {
    let check = |first: &[&str], appended: &str, expect: &str| {
        let bench = Bench::new();
        bench.import_events("t", first);
        bench.append("t", appended);
        assert_eq!(bench.exported_events("t").last().map(String::as_str), Some(expect));
        bench.append("native", appended);
        assert_eq!(bench.exported_events("native"), [appended]);
    };
    let nested = r#"{"type":"extraction_pending","sequence":90,"extraction_id":"n","item":{"types":["tool"],"content":"c","score":4.50,"tags":{"big":9007199254740993123}},"timestamp":"2026-03-20T10:00:00+00:00"}"#;
    let flat = r#"{"type":"extraction_pending","sequence":90,"extraction_id":"n","types":["tool"],"content":"c","score":4.50,"tags":{"big":9007199254740993123},"timestamp":"2026-03-20T10:00:00+00:00"}"#;
    check(&[FLAT[0], NESTED[1]], nested, flat);
    check(&[NESTED[0], FLAT[1]], nested, nested);
    let approve = r#"{"type":"extraction_reviewed","sequence":90,"extraction_id":"n","decision":"approve","timestamp":"2026-03-20T10:00:00+00:00"}"#;
    check(&[FLAT[4], NESTED[5]], approve, &approve.replace("approve", "approved"));
    check(&[NESTED[4], FLAT[5]], approve, approve);
    let saved = r#"{"type":"extraction_committed","sequence":90,"extraction_id":"n","outcome":"saved","timestamp":"2026-03-20T10:00:00+00:00"}"#;
    let listed = r#"{"type":"extraction_committed","sequence":90,"items":[{"extraction_id":"n","outcome":"saved"}],"timestamp":"2026-03-20T10:00:00+00:00"}"#;
    check(&[COMMITTED_LIST, COMMITTED_SINGLE[0]], saved, listed);
    check(&[COMMITTED_SINGLE[0], COMMITTED_LIST], saved, saved);
}

/// What does not fit is kept, exported unchanged and named; what does fit beside it counts.
#[test]
fn what_does_not_fit_is_kept_and_named() {
    let check = |event: &str, named: &str| {
        let bench = Bench::new();
        let report = bench.import_events("t", &[event, QUERY]);
        assert_eq!((report.added, report.outcome.clone()), (2, FileOutcome::Imported), "{report:?}");
        assert!(
            report.problems.iter().any(|problem| problem.contains("event 0") && problem.contains(named)),
            "{report:?}"
        );
        assert_eq!(bench.exported_events("t"), [event, QUERY]);
        assert_eq!(bench.missing("t").last().unwrap(), &["a", "b"]);
    };
    check(r#"{"type":"query","sequence":1}"#, "`query`");
    check(r#"{"type":"query","sequence":1,"query":{}}"#, "`query`");
    check(r#"{"type":"query","sequence":"one","query":"q"}"#, "`sequence`");
    check(r#"{"type":"query","sequence":1,"query":"q","source_ids":"a"}"#, "`source_ids`");
    check(r#"{"type":"evaluation","sequence":1,"assessments":[]}"#, "`query_sequence`");
    check(r#"{"type":"extraction_pending","sequence":1,"item":{"types":["tool"]}}"#, "`item.content`");
    check(r#"{"type":"extraction_pending","sequence":1,"types":["tool"]}"#, "`content`");
    check(r#"{"type":"extraction_reviewed","sequence":1,"extraction_id":"e","decision":"perhaps"}"#, "`decision`");
    check(r#"{"type":"extraction_reviewed","sequence":1,"decision":"approve"}"#, "`extraction_id`");
    check(r#"{"type":"extraction_committed","sequence":1,"outcome":"saved"}"#, "`extraction_id`");
    check(r#"{"type":"extraction_committed","sequence":1,"extraction_id":"e","outcome":"queued"}"#, "`outcome`");
    check(r#"{"type":"from_the_future"}"#, "does not know");
    check(r#"{"type":"message","role":"user","content":"x"}"#, "no cognition event");
    check("7", "object");
}

#[test]
fn one_odd_item_takes_nothing_from_the_others() {
    let bench = Bench::new();
    let events = [
        QUERY,
        r#"{"type":"evaluation","sequence":9,"query_sequence":4,"assessments":[{"source_id":"a","status":"helpful","reason":["x","y"]},{"source_id":"b","status":"wonderful"}]}"#,
        r#"{"type":"extraction_pending","extraction_id":"e1","content":"c"}"#,
        r#"{"type":"extraction_committed","items":[{"outcome":"saved"},{"extraction_id":"e1","outcome":"saved"}]}"#,
        r#"{"type":"extraction_committed","items":[]}"#,
    ];
    let report = bench.import_events("t", &events);
    assert!(report.problems.iter().any(|problem| problem.contains("assessments[1].status")), "{report:?}");
    assert_eq!(bench.missing("t"), [["b"]]);
    assert_eq!(bench.extractions("t"), [("e1".to_owned(), "committed".to_owned(), "c".to_owned())]);
    assert_eq!(bench.exported_events("t"), events);
}

#[test]
fn importing_again_adds_nothing_and_a_grown_file_the_rest() {
    let bench = Bench::new();
    let events = [QUERY, EVALUATION, REFLECTION, "7", QUERY, QUERY];
    for length in 0..=events.len() {
        let report = bench.import_events("t", &events[..length]);
        assert_eq!(
            (report.known, report.added, report.amended),
            (length.saturating_sub(1), usize::from(length > 0), 0)
        );
        assert_eq!(report.outcome, FileOutcome::Imported);
        let head = bench.head();
        let again = bench.import_events("t", &events[..length]);
        assert_eq!((again.outcome, again.known, bench.head()), (FileOutcome::Unchanged, length, head));
        assert_eq!(bench.export("t"), file("t", &events[..length]));
    }
    // An older copy of the file takes nothing away.
    let report = bench.import_events("t", &events[..2]);
    assert_eq!((report.outcome, report.known), (FileOutcome::Unchanged, 2));
    assert_eq!(bench.exported_events("t"), events);
    // As one append, and through an import that was interrupted between two of its appends.
    let many: Vec<String> = (0..4_500).map(|number| QUERY.replace("\"q\"", &format!("\"q{number}\""))).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    bench.import_events("large", &many[..2_000]);
    let report = bench.import_events("large", &many);
    assert_eq!((report.known, report.added), (2_000, 2_500));
    assert_eq!(bench.export("large"), file("large", &many));
}

#[test]
fn an_event_changed_in_place_is_amended() {
    let bench = Bench::new();
    let check = |before: &str, after: &str| {
        let trace = format!("t{}", bench.head());
        bench.import_events(&trace, &[QUERY, before, EVALUATION]);
        let (head, pending) = (bench.head(), bench.missing(&trace));
        let report = bench.import_events(&trace, &[QUERY, after, EVALUATION, REFLECTION]);
        assert_eq!((report.known, report.amended, report.added), (2, 1, 1), "{after}");
        assert_eq!(bench.exported_events(&trace), [QUERY, after, EVALUATION, REFLECTION]);
        assert_eq!(bench.missing(&trace), pending, "an amendment keeps the state: {after}");
        let mut kinds = Vec::new();
        bench
            .engine
            .visit_trace(&id(&trace), |event| {
                if event.envelope().position.0 > head {
                    kinds.push(event.envelope().kind.as_str());
                }
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        // A change of spelling is one of the file's style too.
        kinds.retain(|kind| *kind != "json_file_style");
        assert_eq!(kinds, ["event_amended", "reflection"]);
        let head = bench.head();
        let again = bench.import_events(&trace, &[QUERY, after, EVALUATION, REFLECTION]);
        assert_eq!((again.outcome, bench.head()), (FileOutcome::Unchanged, head));
        // Back again is a change as well.
        bench.import_events(&trace, &[QUERY, before, EVALUATION, REFLECTION]);
        assert_eq!(bench.exported_events(&trace), [QUERY, before, EVALUATION, REFLECTION]);
    };
    check(REFLECTION, &REFLECTION.replace("\"summary\"", "\"digested\":true,\"summary\""));
    check(REFLECTION, &REFLECTION.replace("\"s\"", "\"another summary\""));
    check(REFLECTION, &REFLECTION.replace(",\"timestamp\"", ",\"digested_by\":\"dream-1\",\"timestamp\""));
    check(r#"{"type":"x","a":1}"#, r#"{"type":"x","a":1.0,"b":NaN}"#);
    check(r#"{"type":"x","sequence":5,"a":"é"}"#, r#"{"type":"x","sequence":5,"a":"\u00e9"}"#);
    check(r#"["é"]"#, r#"["\u00e9"]"#);
}

/// After an amendment the projections say what they would say had the file always been as it is now.
#[test]
fn amended_state_is_that_of_the_amended_file() {
    let check = |versions: &[&[&str]]| {
        let bench = Bench::new();
        for events in versions {
            let report = bench.import_events("t", events);
            assert!(!report.is_failure(), "{report:?}");
        }
        let fresh = Bench::new();
        fresh.import_events("t", versions.last().unwrap());
        let visible = |bench: &Bench| {
            let detail = serde_json::to_value(bench.engine.trace(&id("t")).unwrap()).unwrap();
            without_places(detail)
        };
        assert_eq!(visible(&bench), visible(&fresh), "{versions:?}");
    };
    let later = EVALUATION.replace("\"helpful\"", "\"harmful\"").replace("\"sequence\":9", "\"sequence\":12");
    let amended = EVALUATION.replace("\"helpful\"", "\"unused\"");
    check(&[&[QUERY, EVALUATION, &later], &[QUERY, &amended, &later]]);
    let other_source = EVALUATION.replace("\"source_id\":\"a\"", "\"source_id\":\"b\"");
    check(&[&[QUERY, EVALUATION], &[QUERY, &other_source]]);
    check(&[&[QUERY], &[&QUERY.replace("\"query\":\"q\"", "\"goal_id\":\"7\",\"query\":\"q\"")]]);
    let shorter = REFLECTION.replace("[1,9]", "[1,5]");
    check(&[&[REFLECTION], &[&shorter], &[&shorter, QUERY]]);
    check(&[&[REFLECTION], &[&REFLECTION.replace("10:06", "11:06")]]);
    let all = [&FLAT[..], &[COMMITTED_LIST]].concat();
    let change = |index: usize, from: &str, to: &str| -> Vec<String> {
        all.iter()
            .enumerate()
            .map(|(at, event)| if at == index { event.replace(from, to) } else { (*event).to_owned() })
            .collect()
    };
    for (index, from, to) in [
        (4, "approved", "discarded"),
        (5, "\"new\"", "\"newer\""),
        (5, "edited\"", "approved\""),
        (6, "discarded\"", "approved\",\"reason\":\"r\""),
        (7, "\"error\":{\"code\":7}", "\"error\":null"),
        (7, "\"outcome\":\"error\"", "\"outcome\":\"skipped\""),
        (7, "{\"extraction_id\":\"e1\",\"knowledge_id\":\"k1\"},", ""),
        (0, "\"task\":\"t\"", "\"task\":\"t2\",\"owner\":\"me\""),
        (0, "10:00", "12:00"),
    ] {
        let changed = change(index, from, to);
        let changed: Vec<&str> = changed.iter().map(String::as_str).collect();
        assert_ne!(changed, all);
        check(&[&all, &changed]);
        check(&[&all, &changed, &all, &changed]);
    }
    // An extraction without an id stays the one it is.
    let nameless = r#"{"type":"extraction_pending","sequence":1,"content":"c"}"#;
    let second = nameless.replace("\"c\"", "\"d\"");
    check(&[&[nameless, &second], &[&nameless.replace("}", ",\"task\":\"t\"}"), &second]]);
}

/// Positions differ where amendments stand in the log; everything else of the detail must agree.
fn without_places(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, _)| key != "position" && key != "last_time");
            Value::Object(
                kept.filter(|(key, _)| key != "first_time" && key != "time")
                    .map(|(key, value)| (key, without_places(value)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_places).collect()),
        value => value,
    }
}

/// Times of amended events are those of their text, not of the import.
#[test]
fn an_amended_event_keeps_its_time() {
    let bench = Bench::new();
    bench.import_events("t", &[QUERY]);
    let before = bench.engine.pending_evaluations(None).unwrap()[0].time;
    bench.import_events("t", &[&QUERY.replace("\"query\":\"q\"", "\"goal_id\":\"7\",\"query\":\"q\"")]);
    assert_eq!(bench.engine.pending_evaluations(None).unwrap()[0].time, before);
    assert_eq!(before, 1_774_000_800_000_000);
}

#[test]
fn a_fork_is_refused_with_its_place_and_both_texts() {
    let bench = Bench::new();
    let other = QUERY.replace("\"q\"", "\"another\"");
    bench.import_events("t", &[QUERY, QUERY, EVALUATION]);
    let (head, export) = (bench.head(), bench.export("t"));
    let check = |events: &[&str], index: usize, ours: &str, theirs: &str| {
        let report = bench.import_events("t", events);
        let expect = FileOutcome::Forked { index, ours: ours.to_owned(), theirs: theirs.to_owned() };
        assert_eq!((report.outcome, report.added, report.amended), (expect, 0, 0));
        assert_eq!((bench.head(), bench.export("t")), (head, export.clone()));
    };
    check(&[QUERY, &other, EVALUATION], 1, QUERY, &other);
    check(&[&other], 0, QUERY, &other);
    check(&[QUERY, QUERY, REFLECTION], 2, EVALUATION, REFLECTION);
    // A changed key outside its identity in front of the fork is not recorded either.
    check(&[&QUERY.replace("}", ",\"x\":1}"), QUERY, REFLECTION], 2, EVALUATION, REFLECTION);
    check(&["7"], 0, QUERY, "7");
    // A decision about another extraction is another event, not a change of this one.
    bench.import_events("r", &[FLAT[4]]);
    let report = bench.import_events("r", &[FLAT[6]]);
    assert!(matches!(report.outcome, FileOutcome::Forked { index: 0, .. }), "{report:?}");
}

#[test]
fn a_fork_can_be_appended_again_and_again() {
    let bench = Bench::new();
    let event = |name: &str| QUERY.replace("\"q\"", &format!("\"{name}\""));
    let (a, b, x, y, z) = (event("a"), event("b"), event("x"), event("y"), event("z"));
    let import = |events: &[&str]| {
        let path = bench.write("t/cognition_log.json", file("t", events));
        bench.engine.import_file(&path, &on_fork(OnFork::Append)).unwrap()
    };
    import(&[&a, &b]);
    let report = import(&[&a, &x, &y]);
    assert_eq!((report.known, report.added), (1, 2));
    assert_eq!(bench.exported_events("t"), [&a, &b, &x, &y].map(String::as_str));
    // The same file again adds nothing, with events of others behind it too, and a grown one adds the rest.
    let head = bench.head();
    let report = import(&[&a, &x, &y]);
    assert_eq!((report.outcome, report.added, bench.head()), (FileOutcome::Unchanged, 0, head));
    bench.append("t", &event("native"));
    let head = bench.head();
    assert_eq!((import(&[&a, &x, &y]).added, bench.head()), (0, head));
    assert_eq!(import(&[&a, &x, &y, &z]).added, 1);
    assert_eq!(import(&[&a, &x, &y, &z]).added, 0);
    // An event of the appended part that gained a key is amended, not doubled.
    let gained = y.replace("\"sources\"", "\"more\":1,\"sources\"");
    let report = import(&[&a, &x, &gained, &z]);
    assert_eq!((report.added, report.amended), (0, 1));
    let exported = bench.exported_events("t");
    assert_eq!(exported.len(), 6);
    assert_eq!([&exported[2], &exported[3], &exported[5]], [&x, &gained, &z]);
}

#[test]
fn a_fork_can_become_a_trace_of_its_own_once() {
    let bench = Bench::new();
    let event = |name: &str| QUERY.replace("\"q\"", &format!("\"{name}\""));
    let (a, b, x, y) = (event("a"), event("b"), event("x"), event("y"));
    let import = |events: &[&str]| {
        let path = bench.write("t/cognition_log.json", file("t", events));
        bench.engine.import_file(&path, &on_fork(OnFork::NewTrace)).unwrap()
    };
    import(&[&a, &b]);
    let check = |events: &[&str], trace: &str, added: usize| {
        let report = import(events);
        assert_eq!((report.trace_id.as_deref(), report.added), (Some(trace), added));
        let head = bench.head();
        let again = import(events);
        assert_eq!((again.trace_id.as_deref(), again.added, bench.head()), (Some(trace), 0, head));
        // The new trace's export bears its own name, so that it is never taken for the first one.
        assert_eq!(bench.export(trace), file(trace, events));
    };
    check(&[&a, &x], "t~fork-1", 2);
    check(&[&a, &x, &y], "t~fork-1", 1);
    check(&[&a, &y], "t~fork-2", 2);
    assert_eq!(bench.exported_events("t"), [a, b]);
    assert_eq!(bench.engine.traces().unwrap().len(), 3);
}

/// Every prefix of a file is named as half written, while the others beside it go on; the whole file is taken later.
#[test]
fn a_half_written_file_is_named_and_imported_later() {
    let sample = "{\n  \"trace_id\": \"t\",\n  \"events\": [\n    {\"type\": \"é\\u0041\", \"n\": -1.5e+3, \"o\": [true, null, NaN]}\n  ]\n}";
    let bench = Bench::new();
    bench.write("0/cognition_log.json", file("before", &[QUERY]));
    bench.write("2/cognition_log.json", file("behind", &[QUERY]));
    let mut head = 0;
    for length in 0..sample.len() {
        bench.write("1/cognition_log.json", &sample.as_bytes()[..length]);
        let reports = bench.engine.import(&bench.path(""), &options()).unwrap();
        assert_eq!(reports.len(), 3);
        assert!(!reports[0].is_failure() && !reports[2].is_failure());
        let FileOutcome::Failed { reason } = &reports[1].outcome else { panic!("{length}: {:?}", reports[1]) };
        let half = ["it is empty", "it ends in the middle", "it is not UTF-8"];
        assert!(half.iter().any(|start| reason.starts_with(start)), "{length}: {reason}");
        if length > 0 {
            assert_eq!(bench.head(), head);
        }
        head = bench.head();
    }
    bench.write("1/cognition_log.json", sample);
    let reports = bench.engine.import(&bench.path(""), &options()).unwrap();
    assert_eq!(reports.iter().map(|report| report.added).collect::<Vec<_>>(), [0, 1, 0]);
    // What is no JSON at all is said at once, without waiting for more of it.
    let mut patient = options();
    patient.patience = std::time::Duration::from_secs(60);
    for text in ["{]", "<html>", "{\"events\":{}}", "[]", "7", "{\"events\":[01]}"] {
        let report = bench.import_with("bad", text, &patient);
        assert!(matches!(report.outcome, FileOutcome::Failed { .. }), "{text}");
    }
    assert!(matches!(bench.engine.trace(&id("bad")), Err(Error::NoSuchTrace { .. })));
}

#[test]
fn a_file_that_is_being_written_is_waited_for() {
    let bench = Bench::new();
    let text = file("t", &[QUERY]);
    let path = bench.write("t/cognition_log.json", &text[..text.len() / 2]);
    let mut patient = options();
    patient.patience = std::time::Duration::from_secs(30);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(150));
            std::fs::write(&path, &text).unwrap();
        });
        assert_eq!(bench.engine.import_file(&path, &patient).unwrap().added, 1);
    });
}

/// Listing, bytes and times of everything beneath a folder.
fn tree(folder: &Path) -> BTreeMap<std::path::PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        found.insert(folder.clone(), (Vec::new(), folder.metadata().unwrap().modified().unwrap()));
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let time = path.metadata().unwrap().modified().unwrap();
                found.insert(path.clone(), (std::fs::read(&path).unwrap(), time));
            }
        }
    }
    found
}

#[test]
fn the_source_tree_is_only_read() {
    let bench = Bench::new();
    bench.write("a/cognition_log.json", file("a", &[QUERY]));
    bench.write("a/meta.json", "{\"task\":\"t\"}");
    bench.write("b/deep/cognition_log.json", file("a", &[EVALUATION]));
    bench.write("c/cognition_log.json", "{");
    bench.write("d/knowledge_log.json", "{\"entries\":[1]}");
    let before = tree(&bench.path(""));
    for fork in [OnFork::Refuse, OnFork::Append, OnFork::NewTrace] {
        bench.engine.import(&bench.path(""), &on_fork(fork)).unwrap();
        bench.engine.compare(&bench.path("")).unwrap();
    }
    assert_eq!(tree(&bench.path("")), before);
    if let Some(folder) = cases("traces/cognition") {
        let before = tree(&folder);
        bench.engine.import(&folder, &options()).unwrap();
        assert_eq!(tree(&folder), before);
    }
}

/// A file that Python wrote again in another style exports in that style.
#[test]
fn a_restyled_file_exports_in_its_new_style() {
    let bench = Bench::new();
    let texts = [
        "{\"trace_id\": \"t\", \"events\": [{\"type\": \"query\", \"sequence\": 1, \"query\": \"é\", \"source_ids\": [], \"sources\": []}]}",
        "{\n \"trace_id\": \"t\",\n \"events\": [\n  {\n   \"type\": \"query\",\n   \"sequence\": 1,\n   \"query\": \"é\",\n   \"source_ids\": [],\n   \"sources\": []\n  }\n ]\n}\n",
        "{\"trace_id\": \"t\", \"events\": [{\"type\": \"query\", \"sequence\": 1, \"query\": \"\\u00e9\", \"source_ids\": [], \"sources\": []}]}",
        "{\"trace_id\": \"t\", \"note\": [1], \"events\": [{\"type\": \"query\", \"sequence\": 1, \"query\": \"\\u00e9\", \"source_ids\": [], \"sources\": []}], \"end\": 1.0}",
    ];
    for text in texts.iter().chain(&texts) {
        let report = bench.import("t", text);
        assert!(!report.is_failure(), "{report:?}");
        assert_eq!(bench.export("t"), *text);
        let head = bench.head();
        assert_eq!(bench.import("t", text).outcome, FileOutcome::Unchanged);
        assert_eq!(bench.head(), head);
    }
}

#[test]
fn odd_trace_ids_are_kept_apart() {
    let bench = Bench::new();
    let long = "x".repeat(10_000);
    let names = ["../../x", "a/b", "🧠", &long, "A", "a", "line\nbreak", "..", "ab", "con", " "];
    for (number, name) in names.iter().enumerate() {
        let event = QUERY.replace("\"q\"", &format!("\"{number}\""));
        let report = bench.import(&format!("folder-{number}"), &file(name, &[&event]));
        assert_eq!(report.trace_id.as_deref(), Some(*name));
    }
    let listed: Vec<String> = bench.engine.traces().unwrap().into_iter().map(|trace| trace.trace_id).collect();
    assert_eq!(listed, names);
    for (number, name) in names.iter().enumerate() {
        assert!(bench.export(name).contains(&format!("\"query\":\"{number}\"")), "{name}");
    }
    // A native trace with such a name as well.
    bench.append("../native", QUERY);
    assert_eq!(bench.exported_events("../native"), [QUERY]);
    // Every file stays in the folder, and none is another's.
    let folder = bench.path("out");
    std::fs::create_dir_all(&folder).unwrap();
    let before = tree(&bench.path("")).len();
    let written = bench.engine.json_files(&folder).unwrap().flush().unwrap();
    assert_eq!(written.len(), names.len() + 1);
    let mut paths: Vec<String> = written.iter().map(|file| file.path.to_string_lossy().to_lowercase()).collect();
    assert!(written.iter().all(|file| file.path.parent().unwrap().parent() == Some(&folder) && file.path.is_file()));
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), names.len() + 1);
    // A folder and a file for each trace, and the follower's own state.
    assert_eq!(tree(&bench.path("")).len(), before + 2 * (names.len() + 1) + 1);
    // Another run finds every file as it should be.
    assert_eq!(bench.engine.json_files(&folder).unwrap().flush().unwrap(), []);
    assert_eq!(bench.engine.traces().unwrap().len(), names.len() + 1);

    let over = "x".repeat(16 * 1024 + 1);
    assert!(TraceId::new(over.clone()).unwrap_err().to_string().contains("16385"));
    for name in [over.as_str(), ""] {
        let report = bench.import("over", &file(name, &[QUERY]));
        assert!(matches!(report.outcome, FileOutcome::Failed { .. }));
        let compared = bench.engine.compare(&bench.path("over")).unwrap();
        assert!(matches!(compared[0].result, cognilog::Comparison::Unreadable { .. }));
    }
}

/// Line ends that are none in JSON stay inside their message.
#[test]
fn unicode_line_ends_stay_inside() {
    let bench = Bench::new();
    let inside = "a\u{2028}b\u{2029}c\u{85}d\\u000be\\u000cf\\r\\n";
    let query = QUERY.replace("\"q\"", &format!("\"{inside}\""));
    let path = bench.write("t/cognition_log.json", file("t", &[&query, QUERY]));
    let lines: Vec<String> =
        (1..=3).map(|number| format!("{{\"sequence\":{number},\"role\":\"user\",\"content\":\"{inside}\"}}")).collect();
    let mut options = options();
    options.messages = Some(bench.write("messages.jsonl", format!("{}\r\n\n{}\n", lines[0], lines[1])));
    let reports = bench.engine.import(&path, &options).unwrap();
    assert_eq!(reports.iter().map(|report| report.added).collect::<Vec<_>>(), [2, 2], "{reports:?}");
    let messages = |bench: &Bench| {
        let mut found = Vec::new();
        bench
            .engine
            .visit_trace(&id("t"), |event| {
                if event.envelope().kind == cognilog::EventKind::Message {
                    found.push(event.to_stored().json().unwrap());
                }
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        found
    };
    assert_eq!(messages(&bench), lines[..2]);
    // Again adds nothing, a grown file adds the rest, another message is a fork.
    let head = bench.head();
    assert!(bench.engine.import(&path, &options).unwrap().iter().all(|report| report.added == 0));
    assert_eq!(bench.head(), head);
    bench.write("messages.jsonl", lines.join("\n"));
    assert_eq!(bench.engine.import(&path, &options).unwrap()[1].added, 1);
    assert_eq!(messages(&bench), lines);
    bench.write("messages.jsonl", lines[0].replace("a\u{2028}", "z\u{2028}"));
    assert!(matches!(bench.engine.import(&path, &options).unwrap()[1].outcome, FileOutcome::Forked { index: 0, .. }));
    bench.write("messages.jsonl", &lines[0][..20]);
    assert!(matches!(bench.engine.import(&path, &options).unwrap()[1].outcome, FileOutcome::Failed { .. }));
    // Appended and exported, imported into a fresh store, exported again.
    bench.append("t", &query.replace("\"sequence\":4", "\"sequence\":40"));
    let exported = bench.export("t");
    assert_eq!(events_of(&exported).len(), 3);
    let fresh = Bench::new();
    fresh.import("t", &exported);
    assert_eq!(fresh.export("t"), exported);
    assert_eq!(fresh.engine.traces().unwrap()[0].counts.latest_sequence, Some(40));
}

#[test]
fn old_logs_and_what_stands_beside_them() {
    let bench = Bench::new();
    let legacy = r#"{"type":"extraction","sequence":130,"trigger":"compression","items":[{"knowledge_id":"k","type":"tool","task":"t","content":"c"}],"timestamp":"t"}"#;
    let old = [
        r#"{"type":"query","sequence":4,"query":"no response"}"#,
        r#"{"type":"query","sequence":5,"query":"with a source","source_ids":["a"]}"#,
        r#"{"type":"evaluation","sequence":9,"query_sequence":5,"assessments":[{"source_id":"a","status":"helpful"}]}"#,
        legacy,
        r#"{"query_id":"no type","results":[]}"#,
    ];
    let text = format!("{{\"entries\":[{}]}}", old.join(","));
    let path = bench.write("trace-7/knowledge_log.json", &text);
    bench.write(
        "trace-7/meta.json",
        r#"{"task":"a task","agent_id":"me","agent_type":"writer","uid":"owner-1","other":1}"#,
    );
    let report = bench.engine.import_file(&path, &options()).unwrap();
    assert_eq!((report.trace_id.as_deref(), report.added), (Some("trace-7"), 5), "{report:?}");
    // A default that was taken and an event without a place are both named.
    assert!(
        report.problems.iter().any(|problem| problem.contains("event 0 (query) is read with a default")),
        "{report:?}"
    );
    assert!(report.problems.iter().any(|problem| problem.contains("event 4 is of a kind")), "{report:?}");
    assert_eq!(bench.export("trace-7"), text, "nothing is invented");
    assert!(bench.missing("trace-7").is_empty());
    let summary = &bench.engine.traces().unwrap()[0];
    assert_eq!(
        [&summary.info.task, &summary.info.identity, &summary.info.agent_type, &summary.info.owner]
            .map(Option::as_deref),
        [Some("a task"), Some("me"), Some("writer"), Some("owner-1")]
    );
    assert_eq!(summary.counts.by_type["extraction"], 1);
    let head = bench.head();
    assert_eq!(bench.engine.import_file(&path, &options()).unwrap().outcome, FileOutcome::Unchanged);
    assert_eq!(bench.head(), head);
    // Options win over meta.json, and a changed meta.json is taken in.
    let mut named = options();
    (named.identity, named.owner) = (Some("you".to_owned()), Some("owner-2".to_owned()));
    bench.engine.import_file(&path, &named).unwrap();
    let info = bench.engine.traces().unwrap()[0].info.clone();
    assert_eq!(
        (info.identity.as_deref(), info.owner.as_deref(), info.task.as_deref()),
        (Some("you"), Some("owner-2"), Some("a task"))
    );
    // Beside its successor the old file is left alone; a meta.json that is none is named and needed for nothing.
    bench.write("trace-8/knowledge_log.json", &text);
    bench.write("trace-8/cognition_log.json", file("trace-8", &[QUERY]));
    bench.write("trace-8/meta.json", "{not json");
    let reports = bench.engine.import(&bench.path("trace-8"), &options()).unwrap();
    assert_eq!(reports[0].added, 1);
    assert!(reports[0].problems.iter().any(|problem| problem.contains("meta.json")));
    assert!(matches!(reports[1].outcome, FileOutcome::Skipped { .. }));
}

#[test]
fn times_without_a_zone_are_read_in_the_zone_that_is_given() {
    let check = |zone: Zone, text: &str, expect: i64| {
        let bench = Bench::new();
        let mut options = options();
        options.zone = zone;
        let event = QUERY.replace("2026-03-20T10:00:00", text);
        // An event that is kept as text is read no other than a typed one.
        let raw = event.replace("\"type\"", "\"x\":1,\"type\"").replace("\"sequence\":4", "\"sequence\":5");
        let path = bench.write("t/cognition_log.json", file("t", &[&event, &raw]));
        bench.engine.import_file(&path, &options).unwrap();
        let times: Vec<i64> = bench.engine.pending_evaluations(None).unwrap().iter().map(|query| query.time).collect();
        assert_eq!(times, [expect; 2], "{text}");
        assert_eq!(bench.exported_events("t"), [event, raw], "the text stays as it came");
    };
    let ten = 1_774_000_800_000_000;
    let eight_hours = 8 * 3_600_000_000;
    check(Zone::utc(), "2026-03-20T10:00:00", ten);
    check(Zone::utc(), "2026-03-20T18:00:00+08:00", ten);
    check(Zone::named("Asia/Shanghai").unwrap(), "2026-03-20T10:00:00", ten - eight_hours);
    check(Zone::named("+08:00").unwrap(), "2026-03-20 10:00:00.000001", ten - eight_hours + 1);
    check(Zone::named("+08:00").unwrap(), "2026-03-20T10:00:00Z", ten);
}

#[test]
fn an_event_over_the_limit_leaves_the_file_out_whole() {
    let bench = Bench::new();
    let large = QUERY.replace("\"q\"", &format!("\"{}\"", "x".repeat(9 << 20)));
    let mut events = vec![QUERY; 5_000];
    events.push(&large);
    let report = bench.import_events("t", &events);
    assert!(
        matches!(&report.outcome, FileOutcome::Failed { reason } if reason.contains("limit")),
        "{:?}",
        report.outcome
    );
    assert!(matches!(bench.engine.trace(&id("t")), Err(Error::NoSuchTrace { .. })));
    assert_eq!(bench.import_events("t", &[QUERY]).added, 1);
}

/// Import of random prefixes, amendments and repetitions ends in the file that came last.
#[test]
fn any_history_of_a_growing_file_ends_in_the_file() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let bench = Bench::new();
        let mut events: Vec<String> = Vec::new();
        for _ in 0..12 {
            for _ in 0..random.below(4) {
                let base = random.pick(&[QUERY, EVALUATION, REFLECTION, FLAT[0], NESTED[4], COMMITTED_LIST, "{}"]);
                events.push(base.to_owned());
            }
            if !events.is_empty() && random.chance(2) {
                let place = random.below(events.len() as u64) as usize;
                let gained = format!(",\"gained{}\":{}}}", random.below(3), random.below(3));
                if events[place].len() > 2 {
                    let text = &mut events[place];
                    text.pop();
                    text.push_str(&gained);
                }
            }
            let list: Vec<&str> = events.iter().map(String::as_str).collect();
            let report = bench.import_events("t", &list);
            assert!(!report.is_failure(), "seed {seed}: {report:?}");
            assert_eq!(bench.export("t"), file("t", &list), "seed {seed}");
        }
    }
}

#[test]
fn a_store_that_is_closed_goes_on_where_it_was() {
    let bench = Bench::new();
    bench.import_events("t", &[QUERY, FLAT[0]]);
    let path = bench.write("t/cognition_log.json", file("t", &[QUERY, FLAT[0], EVALUATION]));
    let store = bench.store_path();
    let Bench { engine, .. } = &bench;
    let export = engine.export(&id("t")).unwrap();
    let reader = Engine::open_reader(&store).unwrap();
    assert_eq!(reader.export(&id("t")).unwrap(), export);
    // A reader cannot import, and says so without harm.
    assert!(reader.import_file(&path, &options()).is_err());
    assert_eq!(engine.import_file(&path, &options()).unwrap().added, 1);
}

/// Real conversations, where they are present: every line is a message, and stays as it is.
#[test]
fn real_messages_are_imported_line_by_line() {
    let Some(folder) = cases("traces/messages") else { return };
    let bench = Bench::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let trace = path.file_stem().unwrap().to_string_lossy().into_owned();
        let log = bench.write(&format!("{trace}/cognition_log.json"), file(&trace, &[]));
        let mut options = options();
        options.messages = Some(path.clone());
        let report = bench.engine.import(&log, &options).unwrap().pop().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.split('\n').filter(|line| !line.is_empty()).collect();
        assert_eq!((report.outcome.clone(), report.added), (FileOutcome::Imported, lines.len()), "{report:?}");
        let counts = bench.engine.trace(&id(&trace)).unwrap().summary.counts;
        assert_eq!(counts.by_type["message"], lines.len() as u64);
        let mut stored = Vec::new();
        bench
            .engine
            .visit_trace(&id(&trace), |event| {
                if event.envelope().kind == cognilog::EventKind::Message {
                    stored.push(event.to_stored().json().unwrap());
                }
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        let compact: Vec<String> = lines.iter().map(|line| cognilog::json::compact(line).unwrap()).collect();
        assert!(stored == compact, "{trace}");
        assert!(bench.engine.import(&log, &options).unwrap().iter().all(|report| report.added == 0), "{trace}");
    }
}
