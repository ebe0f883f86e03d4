//! `import` of trees: broken files, zones, messages, identities and forks; and `compare`.

use serde_json::Value;

use crate::common::{Place, Ran, lines};

fn log(trace: &str, queries: &[&str]) -> String {
    let events: Vec<Value> = queries
        .iter()
        .zip(1..)
        .map(|(query, sequence)| {
            serde_json::json!({
                "type": "query", "sequence": sequence, "query": query, "source_ids": [], "sources": [],
                "timestamp": "2026-04-01T10:00:00",
            })
        })
        .collect();
    serde_json::to_string_pretty(&serde_json::json!({ "trace_id": trace, "events": events })).unwrap()
}

/// A run with the lines of both streams sorted: files are worked through in the order of their paths.
fn whole(ran: &Ran) -> (i32, &str, &str) {
    (ran.code, ran.out.as_str(), ran.err.as_str())
}

#[test]
fn a_broken_file_is_named_and_the_others_are_imported() {
    let place = Place::new();
    place.write("trace/a/cognition_log.json", &log("a", &["one", "two"]));
    place.write("trace/b/cognition_log.json", "{\"events\": [}");
    place.write("trace/c/cognition_log.json", &log("c", &["three"]));
    place.write("trace/c/other.json", "not looked at");
    let half = log("d", &["four"]);
    place.write("trace/d/cognition_log.json", &half[..half.len() / 2]);
    place.write("trace/e\u{1b}[31m/cognition_log.json", &log("e", &["five"]));
    let ran = place.run(&["import", "trace"]);
    let out = "imported   trace/a/cognition_log.json as a: 2 added, 0 amended, 0 known\n\
               imported   trace/c/cognition_log.json as c: 1 added, 0 amended, 0 known\n\
               imported   trace/e\\u{1b}[31m/cognition_log.json as e: 1 added, 0 amended, 0 known\n\
               5 files: 4 events added, 0 amended, 0 known already, 2 files not imported\n";
    assert_eq!((ran.code, ran.out.as_str()), (1, out), "{}", ran.err);
    let failed: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("failed ")).collect();
    assert_eq!(failed.len(), 2, "{}", ran.err);
    assert_eq!(
        failed[0],
        "failed     trace/b/cognition_log.json: it is no JSON: line 1, column 13: expected a value or ']'"
    );
    assert!(failed[1].starts_with("failed     trace/d/cognition_log.json: it ends in the middle: "), "{}", failed[1]);
    let traces = place.json(&["traces"]);
    let names: Vec<&str> = traces.as_array().unwrap().iter().map(|trace| trace["trace_id"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "c", "e"]);

    // The next time only what was mended is new.
    place.write("trace/b/cognition_log.json", &log("b", &["six"]));
    place.write("trace/d/cognition_log.json", &half);
    let ran = place.run(&["import", "trace"]);
    let out = "unchanged  trace/a/cognition_log.json as a: 2 known\n\
               imported   trace/b/cognition_log.json as b: 1 added, 0 amended, 0 known\n\
               unchanged  trace/c/cognition_log.json as c: 1 known\n\
               imported   trace/d/cognition_log.json as d: 1 added, 0 amended, 0 known\n\
               unchanged  trace/e\\u{1b}[31m/cognition_log.json as e: 1 known\n\
               5 files: 2 events added, 0 amended, 4 known already\n";
    assert_eq!(whole(&ran), (0, out, ""));
    let ran = place.run(&["--json", "import", "trace"]);
    let reports: Value = serde_json::from_str(&ran.out).unwrap();
    assert!(reports.as_array().unwrap().iter().all(|report| report["outcome"] == "unchanged"), "{reports}");
}

#[test]
fn what_is_read_with_a_default_is_noted_with_its_file() {
    let place = Place::with_store();
    place.write("trace/a/cognition_log.json", "{\"events\": [{\"type\": \"mood\"}]}");
    let ran = place.run(&["import", "trace"]);
    let expect = "noted      trace/a/cognition_log.json: event 0 is of a kind that this build does not know and is kept \
                  as text: {\"type\":\"mood\"}\n";
    assert_eq!((ran.code, ran.err.as_str()), (0, expect));
}

#[test]
fn files_compare_with_their_exports() {
    let place = Place::new();
    place.write("trace/a/cognition_log.json", &log("a", &["one"]));
    place.write("trace/b/cognition_log.json", &log("b", &["one"]));
    place.ok(&["import", "trace"]);
    assert_eq!(whole(&place.run(&["compare", "trace"])), (0, "2 files compared, 0 differ\n", ""));
    let compact: Value = serde_json::from_str(&log("a", &["one"])).unwrap();
    place.write("trace/a/cognition_log.json", &compact.to_string());
    place.write("trace/b/cognition_log.json", &log("b", &["one", "two"]));
    place.write("trace/c/cognition_log.json", &log("c", &["one"]));
    place.write("trace/d/cognition_log.json", "{");
    let ran = place.run(&["compare", "trace"]);
    let found: Vec<(&str, &str)> =
        ran.out.lines().filter_map(|line| line.split_once("/cognition_log.json: ")).collect();
    assert_eq!((ran.code, ran.err.as_str(), found.len()), (1, "", 4), "{}", ran.out);
    assert_eq!(found[0], ("trace/a", "equal JSON in another spelling"));
    assert!(found[1].1.starts_with("differs from its export from byte "), "{}", found[1].1);
    assert_eq!(found[2], ("trace/c", "the log has no such trace"));
    assert!(found[3].1.starts_with("cannot be read: "), "{}", found[3].1);
    assert!(ran.out.ends_with("\n4 files compared, 4 differ\n"), "{}", ran.out);
    let ran = place.run(&["--json", "compare", "trace/a/cognition_log.json"]);
    let compared: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &compared[0]["result"]), (1, &Value::from("equal_json")));
}

#[test]
fn times_without_a_zone_are_in_the_zone_that_is_told() {
    let check = |flags: &[&str], expect: &str| {
        let place = Place::new();
        place.write("trace/a/cognition_log.json", &log("a", &["one"]));
        let mut all = vec!["import", "trace"];
        all.extend(flags);
        place.ok(&all);
        let event = &lines(&place.ok(&["log", "--ndjson", "--type", "query"]))[0];
        assert_eq!(event["occurred_at"], expect, "{flags:?}");
        assert_eq!(event["event"]["timestamp"], "2026-04-01T10:00:00", "the text stays as it came");
    };
    check(&[], "2026-04-01T10:00:00+00:00");
    check(&["--tz", "+08:00"], "2026-04-01T02:00:00+00:00");
    check(&["--tz", "Asia/Shanghai"], "2026-04-01T02:00:00+00:00");
    let place = Place::new();
    place.write("trace/a/cognition_log.json", &log("a", &["one"]));
    let ran = place.run(&["import", "trace", "--tz", "Mars/Olympus"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("Mars/Olympus"), "{}", ran.err);
    assert!(!place.path(".cognilog").exists(), "a typing error leaves no store behind");
}

#[test]
fn messages_and_who_the_agent_was() {
    let place = Place::new();
    place.write("trace/a/cognition_log.json", &log("a", &["one"]));
    let line = |sequence: u64| {
        format!(
            "{{\"type\":\"message\",\"sequence\":{sequence},\"role\":\"user\",\"content\":\"m{sequence}\u{2028}\"}}\n"
        )
    };
    let messages = place.write("messages.jsonl", &(line(1) + &line(2)));
    let import = |place: &Place| {
        place.run(&[
            "import",
            "trace",
            "--messages",
            "messages.jsonl",
            "--identity",
            "researcher",
            "--agent-type",
            "research",
            "--owner",
            "team-a",
        ])
    };
    let ran = import(&place);
    assert_eq!((ran.code, ran.err.lines().count()), (0, 1), "{}", ran.err);
    let shown = place.json(&["show", "a"]);
    assert_eq!(
        (&shown["identity"], &shown["agent_type"], &shown["owner"]),
        (&Value::from("researcher"), &Value::from("research"), &Value::from("team-a"))
    );
    assert_eq!(shown["by_type"]["message"], 2);
    // Again adds nothing, and a longer file only what is new.
    let head = place.ok(&["head"]);
    assert_eq!(import(&place).code, 0);
    assert_eq!(place.ok(&["head"]), head);
    std::fs::write(&messages, line(1) + &line(2) + &line(3)).unwrap();
    assert_eq!(import(&place).code, 0);
    assert_eq!(place.json(&["show", "a"])["by_type"]["message"], 3);
    std::fs::write(&messages, line(1) + "nonsense\n").unwrap();
    let ran = import(&place);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("failed     messages.jsonl: line 2: "), "{}", ran.err);
}

#[test]
fn a_fork_is_refused_or_taken_as_told() {
    let forked = |flags: &[&str]| {
        let place = Place::new();
        place.write("trace/a/cognition_log.json", &log("a", &["one", "two"]));
        place.ok(&["import", "trace"]);
        let file = place.write("trace/a/cognition_log.json", &log("a", &["one", "other", "more"]));
        let mut all = vec!["import", "trace"];
        all.extend(flags);
        let ran = place.run(&all);
        assert_eq!(std::fs::read_to_string(file).unwrap(), log("a", &["one", "other", "more"]), "never written to");
        (place, ran)
    };
    let queries = |place: &Place, trace: &str| -> Vec<String> {
        let export: Value = serde_json::from_str(&place.ok(&["export", trace])).unwrap();
        export["events"].as_array().unwrap().iter().map(|event| event["query"].as_str().unwrap().to_owned()).collect()
    };
    let (place, ran) = forked(&[]);
    assert_eq!(ran.code, 1);
    assert_eq!(ran.out, "1 files: 0 events added, 0 amended, 1 known already, 1 files not imported\n");
    let said: Vec<&str> = ran.err.lines().collect();
    assert_eq!(said[0], "forked     trace/a/cognition_log.json as a: event 1 differs");
    assert!(said[1].starts_with("           log:  {") && said[1].contains("\"two\""), "{}", said[1]);
    assert!(said[2].starts_with("           file: {") && said[2].contains("\"other\""), "{}", said[2]);
    assert!(said[3].starts_with("hint: --on-fork append "), "{}", said[3]);
    assert_eq!(queries(&place, "a"), ["one", "two"]);

    let (place, ran) = forked(&["--on-fork", "append"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(queries(&place, "a"), ["one", "two", "other", "more"]);

    let (place, ran) = forked(&["--on-fork", "new-trace"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(queries(&place, "a"), ["one", "two"]);
    assert_eq!(queries(&place, "a~fork-1"), ["one", "other", "more"]);
}
