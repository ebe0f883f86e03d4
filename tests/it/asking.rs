//! Questions to the projections: as of any place, rebuilt, replayed, and which queries are pending.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use cognilog::{At, Engine, Error, EventId, PendingRule, Position, Profile, ReplayStep, StreamId};
use cognilog_storage::{Codec, Command, Decision, NewEvent, StoreError, View};
use serde_json::Value;

use crate::common::{Bench, Random, file, id};

/// Appends events as they are, which no caller of the library can.
struct Put(Vec<(StreamId, Vec<NewEvent>)>);

impl Command for Put {
    type Output = ();

    fn decide(&mut self, _view: &View<'_>) -> Result<(Decision, ()), StoreError> {
        Ok((Decision { appends: std::mem::take(&mut self.0), ..Decision::default() }, ()))
    }
}

/// Records the events of one store up to a position in another one.
fn copy_next(from: &Engine, to: &Engine) {
    let next = Position(to.snapshot().unwrap().head().0 + 1);
    let stored = from.snapshot().unwrap().event(next).unwrap().unwrap();
    let envelope = &stored.envelope;
    let mut event = match stored.codec {
        Codec::Typed => {
            NewEvent::typed(&stored.event().unwrap().unwrap(), envelope.event_id, envelope.occurred_at).unwrap()
        }
        _ => {
            let json = stored.json().unwrap();
            NewEvent::json(&json, envelope.kind, envelope.sequence, envelope.event_id, envelope.occurred_at).unwrap()
        }
    };
    if envelope.imported {
        event = event.imported();
    }
    to.store().submit(Put(vec![((*stored.stream).clone(), vec![event])]), 100).unwrap();
}

const TIME: &str = r#""timestamp":"2026-03-20T10:00:00+00:00""#;

fn random_event(random: &mut Random) -> String {
    let sequence = random.below(20);
    let source = random.pick(&["a", "b", "c"]);
    let extraction = random.pick(&["e1", "e2", "e3"]);
    let rest = match random.below(11) {
        0 | 1 => format!(r#""type":"query","query":"q{sequence}","source_ids":["a","{source}"],"sources":[]"#),
        2 => {
            let status = random.pick(&["helpful", "harmful", "unused"]);
            format!(
                r#""type":"evaluation","query_sequence":{},"assessments":[{{"source_id":"{source}","status":"{status}"}}]"#,
                random.below(20)
            )
        }
        3 => {
            format!(r#""type":"extraction_pending","extraction_id":"{extraction}","item":{{"content":"c{sequence}"}}"#)
        }
        4 => format!(r#""type":"extraction_pending","content":"flat{sequence}""#),
        5 => {
            let decision = random.pick(&["approve", "edit", "discarded", "withdraw"]);
            format!(
                r#""type":"extraction_reviewed","extraction_id":"{extraction}","decision":"{decision}","edited":{{"content":"n{sequence}","task":"t"}}"#
            )
        }
        6 => format!(
            r#""type":"extraction_committed","extraction_id":"{extraction}","outcome":"{}""#,
            random.pick(&["saved", "failed"])
        ),
        7 => format!(r#""type":"reflection","reflected_range":[0,{sequence}],"summary":"s""#),
        8 => r#""type":"message","role":"user","content":"x""#.to_owned(),
        9 => format!(
            r#""type":"goal_changed","goal_id":"g{}","status":"{}""#,
            random.below(3),
            random.pick(&["in_progress", "completed"])
        ),
        _ => r#""type":"from_the_future","x":[1.0]"#.to_owned(),
    };
    format!("{{\"sequence\":{sequence},{rest},{TIME}}}")
}

const TRACES: [&str; 3] = ["t", "u", "imported"];

/// Random appends to two traces and imports of a growing, changing file between them.
fn random_history(seed: u64, steps: u64) -> Bench {
    let mut random = Random(seed);
    let bench = Bench::new();
    let mut file_events: Vec<String> = Vec::new();
    for _ in 0..steps {
        if random.chance(4) {
            for _ in 0..random.below(3) {
                let event = random_event(&mut random);
                file_events.push(event);
            }
            if !file_events.is_empty() && random.chance(2) {
                let place = random.below(file_events.len() as u64) as usize;
                let gained = format!(",\"gained\":{}}}", random.below(9));
                file_events[place].pop();
                file_events[place].push_str(&gained);
            }
            let mut text = file("imported", &file_events.iter().map(String::as_str).collect::<Vec<_>>());
            if random.chance(3) {
                text.push('\n');
            }
            assert!(!bench.import("imported", &text).is_failure());
        } else {
            let trace = random.pick(&TRACES[..2]);
            bench.append(trace, &random_event(&mut random));
        }
    }
    bench
}

/// Keys and rows of one projection.
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn all_rows(engine: &Engine) -> Vec<(String, Rows)> {
    let snapshot = engine.snapshot().unwrap();
    let rows = |name: &str| -> Rows {
        let rows = snapshot.projection_rows(name).unwrap();
        rows.into_iter().map(|(key, row)| (key.to_vec(), row.to_vec())).collect()
    };
    engine.projections().iter().map(|projection| (projection.name().to_owned(), rows(projection.name()))).collect()
}

fn served(engine: &Engine, trace: &str) -> Option<BTreeMap<String, Value>> {
    match engine.served_state(&id(trace)) {
        Ok(state) => Some(state),
        Err(Error::NoSuchTrace { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

fn exported(engine: &Engine, trace: &str, at: At, profile: Profile) -> Option<String> {
    match engine.export_at(&id(trace), at, profile) {
        Ok(text) => Some(text),
        Err(Error::NoSuchTrace { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Every position of a history looks like a store that ends there: export and rows.
#[test]
fn as_of_a_position_is_the_store_that_ends_there() {
    for seed in 0..4 {
        let bench = random_history(seed, 40);
        let prefix = Bench::new();
        for position in 1..=bench.head() {
            copy_next(&bench.engine, &prefix.engine);
            let at = At::Position(Position(position));
            for trace in TRACES {
                for profile in [Profile::Native, Profile::Python] {
                    assert_eq!(
                        exported(&bench.engine, trace, at, profile),
                        exported(&prefix.engine, trace, At::Head, profile),
                        "seed {seed}, {trace} at {position}"
                    );
                }
                if let Some(expect) = served(&prefix.engine, trace) {
                    let state = bench.engine.state_at(&id(trace), at).unwrap();
                    assert_eq!(state, expect, "seed {seed}, {trace} at {position}");
                }
            }
        }
        // A position beyond the head is the head.
        assert_eq!(
            exported(&bench.engine, "t", At::Position(Position(u64::MAX)), Profile::Native),
            exported(&bench.engine, "t", At::Head, Profile::Native)
        );
    }
}

#[test]
fn rebuilt_rows_are_the_incremental_ones() {
    for seed in 10..16 {
        let bench = random_history(seed, 60);
        let (rows, states) = (all_rows(&bench.engine), TRACES.map(|trace| served(&bench.engine, trace)));
        assert!(rows.iter().all(|(_, rows)| !rows.is_empty()), "every projection has rows");
        let check = |engine: &Engine| {
            assert_eq!(all_rows(engine), rows, "seed {seed}");
            assert_eq!(TRACES.map(|trace| served(engine, trace)), states, "seed {seed}");
        };
        bench.engine.rebuild(&[]).unwrap();
        bench.engine.store().wait_rebuilt().unwrap();
        check(&bench.engine);
        bench.engine.store().flush().unwrap();
        check(&bench.engine);
        check(&Engine::open_reader(&bench.store_path()).unwrap());
    }
}

#[test]
fn the_changes_of_a_replay_make_the_served_rows() {
    for seed in 20..26 {
        let bench = random_history(seed, 60);
        for trace in TRACES {
            let Some(expect) = served(&bench.engine, trace) else { continue };
            let mut rows: BTreeMap<String, Value> = BTreeMap::new();
            let visit = |step: ReplayStep| {
                for change in step.changes {
                    let key = format!("{}/{}", change.projection, change.key);
                    assert_eq!(rows.get(&key), change.before.as_ref(), "seed {seed}, {key}: what was there before");
                    match change.after {
                        Some(after) => rows.insert(key, after),
                        None => rows.remove(&key),
                    };
                }
                ControlFlow::Continue(())
            };
            bench.engine.replay(&id(trace), At::Head, visit).unwrap();
            assert_eq!(rows, expect, "seed {seed}, {trace}");
            assert_eq!(bench.engine.state_at(&id(trace), At::Head).unwrap(), expect);
        }
    }
}

/// The place before the trace's first query or message whose sequence is above the number.
#[test]
fn as_of_a_sequence_is_before_the_first_place_above_it() {
    let query = |sequence: i64| format!("{{\"type\":\"query\",\"sequence\":{sequence},\"query\":\"q\",{TIME}}}");
    let evaluation =
        format!("{{\"type\":\"evaluation\",\"sequence\":30,\"query_sequence\":4,\"assessments\":[],{TIME}}}");
    let message = format!("{{\"type\":\"message\",\"sequence\":25,\"role\":\"user\",\"content\":\"x\",{TIME}}}");
    // Repeated and unsorted sequences; the evaluation's sequence is no place.
    let events = [query(4), evaluation, query(12), query(8), query(12), query(20), message, query(21), query(22)];
    let native = Bench::new();
    for event in &events {
        native.append("other", event);
        native.append("t", event);
    }
    let cognition: Vec<&str> = events.iter().map(String::as_str).collect();
    let imported = Bench::new();
    imported.import_events("t", &cognition);
    let check = |sequence: i64, expect: usize| {
        let at = At::Sequence(sequence);
        // A message is a place of the log and no part of the file, unless the file itself has it.
        let without_message = expect.min(6) + expect.saturating_sub(7);
        let found = exported(&native.engine, "t", at, Profile::Native);
        let found = found.map(|text| crate::common::events_of(&text).len());
        assert_eq!(found, (expect > 0).then_some(without_message), "native at {sequence}");
        let found = exported(&imported.engine, "t", at, Profile::Native).unwrap();
        assert_eq!(crate::common::events_of(&found), events[..expect], "imported at {sequence}");
    };
    check(i64::MIN, 0);
    check(3, 0);
    check(4, 2);
    check(8, 2);
    check(11, 2);
    check(12, 5);
    check(19, 5);
    check(20, 6);
    // The message with sequence 25 is the first place above 20 to 24, whatever comes behind it.
    check(24, 6);
    check(25, 9);
    check(30, 9);
    check(i64::MAX, 9);
    let missing = native.engine.export_at(&id("none"), At::Sequence(1), Profile::Native);
    assert!(matches!(missing, Err(Error::NoSuchTrace { .. })));
}

#[test]
fn looking_back_leaves_the_log_untouched() {
    let bench = random_history(30, 40);
    let log = bench.store_path().join("log.redb");
    bench.engine.store().flush().unwrap();
    let (engine, folder) = bench.into_parts();
    engine.close().unwrap();
    let before = std::fs::read(&log).unwrap();
    let reader = Engine::open_reader(&folder.path().join("store")).unwrap();
    for trace in TRACES {
        for at in [At::Head, At::Position(Position(20)), At::Sequence(9)] {
            exported(&reader, trace, at, Profile::Native);
            let _ = reader.state_at(&id(trace), at);
            reader.replay(&id(trace), at, |_| ControlFlow::Continue(())).unwrap();
        }
    }
    reader.pending_evaluations(None).unwrap();
    assert!(std::fs::read(&log).unwrap() == before, "while the reader is open");
    reader.close().unwrap();
    assert!(std::fs::read(&log).unwrap() == before, "after it is closed");
}

/// Text that was stored under a kind which the writing build did not know counts by what it says.
#[test]
fn a_kind_that_became_known_counts_by_its_text() {
    let events = [
        format!("{{\"type\":\"query\",\"sequence\":4,\"query\":\"q\",\"source_ids\":[\"a\",\"b\"],{TIME}}}"),
        format!(
            "{{\"type\":\"evaluation\",\"sequence\":9,\"query_sequence\":4,\"assessments\":[{{\"source_id\":\"a\",\"status\":\"helpful\"}}],{TIME}}}"
        ),
        format!("{{\"type\":\"message\",\"sequence\":11,\"role\":\"user\",\"content\":\"x\",{TIME}}}"),
        format!("{{\"type\":\"extraction_pending\",\"sequence\":11,\"extraction_id\":\"e\",\"content\":\"c\",{TIME}}}"),
        format!("{{\"type\":\"reflection\",\"sequence\":11,\"reflected_range\":[1,9],\"summary\":\"s\",{TIME}}}"),
    ];
    let bench = Bench::new();
    let number = |index: usize| EventId::from_parts(1_000 + index as u64, [7; 10]);
    let stored = events.iter().enumerate().map(|(index, text)| {
        let sequence = [4, 9, 11, 11, 11][index];
        NewEvent::json(text, cognilog::EventKind::Unknown, Some(sequence), number(index), None).unwrap()
    });
    bench.engine.store().submit(Put(vec![(StreamId::Trace(id("t")), stored.collect())]), 100).unwrap();
    assert_eq!(bench.missing("t"), [["b"]]);
    assert_eq!(bench.extractions("t"), [("e".to_owned(), "pending".to_owned(), "c".to_owned())]);
    let detail = bench.engine.trace(&id("t")).unwrap();
    assert_eq!(detail.summary.counts.latest_message_sequence, Some(11));
    assert_eq!(detail.summary.reflected_at_sequence, Some(9));
    let by_type: Vec<(&str, u64)> =
        detail.summary.counts.by_type.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    assert_eq!(
        by_type,
        [("evaluation", 1), ("extraction_pending", 1), ("message", 1), ("query", 1), ("reflection", 1)]
    );
    assert_eq!(bench.exported_events("t"), events, "they came from a log, so they stay in it");
    let rows = all_rows(&bench.engine);
    bench.engine.rebuild(&[]).unwrap();
    bench.engine.store().wait_rebuilt().unwrap();
    assert_eq!(all_rows(&bench.engine), rows);
    // Text from outside amends and restyles nothing, whatever it calls itself.
    let amending =
        "{\"type\":\"event_amended\",\"position\":1,\"text\":\"{\\\"type\\\":\\\"query\\\",\\\"query\\\":\\\"x\\\"}\"}";
    bench.import_events("u", &[&events[0], amending]);
    assert_eq!(bench.exported_events("u"), [&events[0], amending]);
    assert_eq!(bench.missing("t"), [["b"]]);
}

fn query(sequence: i64, sources: &[&str]) -> String {
    let sources = serde_json::to_string(sources).unwrap();
    format!(
        "{{\"type\":\"query\",\"sequence\":{sequence},\"query\":\"q\",\"source_ids\":{sources},\"sources\":[],{TIME}}}"
    )
}

fn evaluation(query_sequence: i64, assessments: &[(&str, &str)]) -> String {
    let assessments: Vec<String> = assessments
        .iter()
        .map(|(source, status)| {
            format!("{{\"source_id\":\"{source}\",\"status\":\"{status}\",\"reason\":\"r-{status}\"}}")
        })
        .collect();
    format!(
        "{{\"type\":\"evaluation\",\"sequence\":90,\"query_sequence\":{query_sequence},\"trigger\":\"compression\",\"assessments\":[{}],{TIME}}}",
        assessments.join(",")
    )
}

/// What is pending after some events, by the rule of each source and by the documents' rule, appended and imported.
#[test]
fn queries_wait_for_each_of_their_sources() {
    let check = |events: &[String], per_source: &[&[&str]], by_document: &[&[&str]]| {
        let bench = Bench::new();
        for event in events {
            bench.append("appended", event);
        }
        bench.import_events("imported", &events.iter().map(String::as_str).collect::<Vec<_>>());
        for trace in ["appended", "imported"] {
            let missing = |rule| -> Vec<Vec<String>> {
                let pending = bench.engine.pending_evaluations_by(Some(&id(trace)), rule).unwrap();
                pending.into_iter().map(|pending| pending.missing_source_ids).collect()
            };
            assert_eq!(missing(PendingRule::PerSource), per_source, "{trace} {events:?}");
            assert_eq!(missing(PendingRule::Document), by_document, "{trace} {events:?}");
            let detail = bench.engine.trace(&id(trace)).unwrap();
            // What waits queues nothing by itself: no trigger fired.
            assert!(!detail.context.pending_knowledge_eval);
            assert_eq!(detail.summary.pending_evaluations, per_source.len());
        }
    };
    let helpful = |sources: &[&'static str]| sources.iter().map(|source| (*source, "helpful")).collect::<Vec<_>>();
    let abc = &["a", "b", "c"];
    check(&[query(4, abc)], &[abc], &[abc]);
    // Half evaluated: pending by our rule with exactly what is missing, evaluated by the documents'.
    check(&[query(4, abc), evaluation(4, &helpful(&["b"]))], &[&["a", "c"]], &[]);
    check(&[query(4, abc), evaluation(4, &helpful(&["b"])), evaluation(4, &helpful(&["a"]))], &[&["c"]], &[]);
    check(&[query(4, abc), evaluation(4, &helpful(abc))], &[], &[]);
    check(&[query(4, abc), evaluation(4, &[])], &[abc], &[]);
    // A source that the query does not have, and another query's sequence, count for nothing.
    check(&[query(4, abc), evaluation(4, &helpful(&["d"]))], &[abc], &[]);
    check(&[query(4, abc), evaluation(5, &helpful(abc))], &[abc], &[abc]);
    // Without sources there is nothing to evaluate.
    check(&[query(4, &[])], &[], &[&[]]);
    check(&[query(4, &["a", "a"])], &[&["a"]], &[&["a", "a"]]);
    // Several queries with one sequence: an assessment counts for each that has the source.
    let same = [query(4, &["a", "b"]), query(4, &["b", "c"]), query(5, &["b"])];
    check(&same, &[&["a", "b"], &["b", "c"], &["b"]], &[&["a", "b"], &["b", "c"], &["b"]]);
    check(&[&same[..], &[evaluation(4, &helpful(&["b"]))]].concat(), &[&["a"], &["c"], &["b"]], &[&["b"]]);
    check(&[&same[..1], &[evaluation(4, &helpful(&["b"]))], &same[1..2]].concat(), &[&["a"], &["c"]], &[]);
    // An evaluation before its query.
    check(&[evaluation(4, &helpful(&["a"])), query(4, abc)], &[&["b", "c"]], &[]);
}

#[test]
fn an_orphan_is_visible_until_its_query_comes() {
    let (early, late) = (Bench::new(), Bench::new());
    let orphans = |bench: &Bench| bench.engine.trace(&id("t")).unwrap().orphan_evaluations;
    early.append("t", &evaluation(42, &[("a", "helpful")]));
    early.append("t", &evaluation(-1, &[("a", "helpful")]));
    assert_eq!(orphans(&early), [-1, 42]);
    assert!(early.missing("t").is_empty());
    early.append("t", &query(42, &["a", "b"]));
    assert_eq!(orphans(&early), [-1]);
    late.append("t", &query(42, &["a", "b"]));
    late.append("t", &evaluation(42, &[("a", "helpful")]));
    late.append("t", &evaluation(-1, &[("a", "helpful")]));
    assert_eq!(state(&early), state(&late));
    assert_eq!(early.missing("t"), [["b"]]);
}

/// What a trace's detail says, without the places in the log.
fn state(bench: &Bench) -> Value {
    fn clean(value: Value) -> Value {
        match value {
            Value::Object(map) => Value::Object(
                map.into_iter().filter(|(key, _)| key != "position").map(|(key, value)| (key, clean(value))).collect(),
            ),
            Value::Array(items) => Value::Array(items.into_iter().map(clean).collect()),
            value => value,
        }
    }
    clean(serde_json::to_value(bench.engine.trace(&id("t")).unwrap()).unwrap())
}

/// Queries, evaluations, extractions and decisions may be mixed in any way that keeps the order of each.
#[test]
fn children_may_come_before_their_parents() {
    let review = |extraction: &str, decision: &str, edited: &str| {
        format!(
            "{{\"type\":\"extraction_reviewed\",\"sequence\":90,\"extraction_id\":\"{extraction}\",\"decision\":\"{decision}\"{edited},{TIME}}}"
        )
    };
    let pending = |extraction: &str| {
        format!(
            "{{\"type\":\"extraction_pending\",\"sequence\":90,\"extraction_id\":\"{extraction}\",\"item\":{{\"types\":[\"tool\"],\"content\":\"c\",\"score\":3}},{TIME}}}"
        )
    };
    let committed = |extraction: &str, outcome: &str| {
        format!(
            "{{\"type\":\"extraction_committed\",\"sequence\":90,\"extraction_id\":\"{extraction}\",\"outcome\":\"{outcome}\",{TIME}}}"
        )
    };
    let lanes: [Vec<String>; 4] = [
        vec![query(4, &["a", "b"]), query(5, &["c"]), query(4, &["b"])],
        vec![evaluation(4, &[("a", "helpful")]), evaluation(4, &[("a", "harmful"), ("b", "unused")])],
        vec![pending("e1"), pending("e2"), pending("e3")],
        vec![
            review("e1", "approve", ""),
            review("e2", "edit", ",\"edited\":{\"content\":\"new\",\"task\":\"t\",\"score\":5,\"owner\":\"me\"}"),
            committed("e1", "saved"),
            review("e1", "discard", ""),
            committed("e2", "failed"),
            review("e3", "edit", ",\"edited\":{\"tags\":{\"x\":1}}"),
            review("e3", "withdraw", ""),
        ],
    ];
    let ordered = Bench::new();
    lanes.iter().flatten().for_each(|event| drop(ordered.append("t", event)));
    let expect = state(&ordered);
    for seed in 0..30 {
        let mut random = Random(seed);
        let bench = Bench::new();
        let mut rest: Vec<std::slice::Iter<'_, String>> = lanes.iter().map(|lane| lane.iter()).collect();
        while rest.iter().any(|lane| lane.len() > 0) {
            let lane = random.below(4) as usize;
            if let Some(event) = rest[lane].next() {
                bench.append("t", event);
            }
        }
        assert_eq!(state(&bench), expect, "seed {seed}");
    }
}

#[test]
fn the_latest_assessment_of_a_source_counts() {
    let bench = Bench::new();
    bench.append("t", &query(4, &["a", "b"]));
    bench.append("t", &evaluation(4, &[("a", "helpful"), ("b", "unused")]));
    let latest = bench.append("t", &evaluation(4, &[("a", "harmful")])).events[0].position.0;
    let assessments = bench.engine.trace(&id("t")).unwrap().queries[0].assessments.clone();
    let a = &assessments["a"];
    assert_eq!(
        (a.status.as_str(), a.reason.as_deref(), a.times, a.position),
        ("harmful", Some("r-harmful"), 2, latest)
    );
    assert_eq!((assessments["b"].status.as_str(), assessments["b"].times), ("unused", 1));
    // What was said before stays in the rows.
    let rows = served(&bench.engine, "t").unwrap();
    let history = rows.iter().filter(|(key, _)| key.starts_with("evaluation_status/evaluation@"));
    let said: Vec<&str> = history.filter_map(|(_, row)| row["assessments"][0]["status"].as_str()).collect();
    assert_eq!(said, ["helpful", "harmful"]);
}

#[test]
fn an_unknown_status_does_not_count_and_is_named() {
    let bench = Bench::new();
    let odd = evaluation(4, &[("a", "helpful"), ("b", "Helpful!")]);
    let refused = bench.try_append("t", &odd).unwrap_err().to_string();
    assert!(refused.contains("assessments[1].status") && refused.contains("Helpful!"), "{refused}");
    let report = bench.import_events("t", &[&query(4, &["a", "b"]), &odd]);
    assert!(report.problems.iter().any(|problem| problem.contains("assessments[1].status")), "{report:?}");
    assert_eq!(bench.missing("t"), [["b"]]);
    assert_eq!(bench.exported_events("t")[1], odd);
}
