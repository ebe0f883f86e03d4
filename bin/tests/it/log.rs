//! `log`: the portable archive, and what of it is asked for.

use serde_json::Value;

use crate::common::{Place, finish, lines, query};

/// Two traces, seven events, among them one that only Python writes and one of a kind that nobody knows.
fn place() -> Place {
    let place = Place::new();
    let nan = "{\"trace_id\": \"p\", \"events\": [{\"type\": \"query\", \"sequence\": 1, \"query\": \"nan\", \"score\": NaN}]}";
    place.write("trace/p/cognition_log.json", nan);
    place.ok(&["import", "trace"]);
    place
        .append("t", &(query("one\u{2028}two\u{85}three") + "{\"type\":\"mood\",\"value\":\"good\"}\n" + &query("q2")));
    place.append("p", &query("q3"));
    place.append("t", &query("q4"));
    place
}

#[test]
fn every_line_is_json_and_everything_is_in_it() {
    let place = place();
    let log = place.log();
    assert_eq!(place.ok(&["log", "--ndjson"]), place.ok(&["log", "--json"]));
    let seen: Vec<(u64, &str, &str)> = log
        .iter()
        .map(|event| {
            (event["position"].as_u64().unwrap(), event["stream"].as_str().unwrap(), event["type"].as_str().unwrap())
        })
        .collect();
    assert_eq!(
        seen,
        [
            (1, "trace:p", "json_file_style"),
            (2, "trace:p", "query"),
            (3, "trace:t", "query"),
            (4, "trace:t", "mood"),
            (5, "trace:t", "query"),
            (6, "trace:p", "query"),
            (7, "trace:t", "query"),
        ]
    );
    let text = log[1]["event_text"].as_str().unwrap();
    assert_eq!(text, "{\"type\":\"query\",\"sequence\":1,\"query\":\"nan\",\"score\":NaN}");
    assert!(log[1].get("event").is_none() && log[1]["imported"] == true);
    assert_eq!(log[2]["event"]["query"], "one\u{2028}two\u{85}three");
    assert_eq!(log[3]["event"]["value"], "good");
    assert_eq!(log[3]["typed"], false);
    for event in &log {
        for key in ["sequence", "event_id", "recorded_at", "occurred_at", "cognition"] {
            assert!(event.get(key).is_some(), "{key}: {event}");
        }
    }
}

#[test]
fn what_is_asked_for() {
    let place = place();
    let check = |arguments: &[&str], expect: &[u64]| {
        let mut all = vec!["log", "--ndjson"];
        all.extend(arguments);
        let found: Vec<u64> =
            lines(&place.ok(&all)).iter().map(|event: &Value| event["position"].as_u64().unwrap()).collect();
        assert_eq!(found, expect, "{arguments:?}");
        // Text has the same lines.
        all.remove(1);
        assert_eq!(place.ok(&all).lines().count(), expect.len(), "{arguments:?}");
    };
    check(&["--from", "5"], &[5, 6, 7]);
    check(&["--from", "0", "--limit", "2"], &[1, 2]);
    check(&["--from", "8"], &[]);
    check(&["--from", "18446744073709551615"], &[]);
    check(&["--limit", "0"], &[]);
    check(&["--last", "2"], &[6, 7]);
    check(&["--last", "100"], &[1, 2, 3, 4, 5, 6, 7]);
    check(&["--last", "0"], &[]);
    check(&["--trace", "p"], &[1, 2, 6]);
    check(&["--trace", "trace:p"], &[1, 2, 6]);
    check(&["--trace", "p", "--last", "1"], &[6]);
    check(&["--trace", "p", "--last", "2", "--limit", "1"], &[2]);
    check(&["--type", "mood"], &[4]);
    check(&["--type", "query", "--trace", "t", "--from", "4"], &[5, 7]);
    check(&["--type", "nothing"], &[]);
    check(&["--type", "nothing", "--last", "3"], &[]);
}

#[test]
fn an_unknown_trace_is_said() {
    let ran = place().run(&["log", "--trace", "nobody"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert_eq!(ran.err, "error: no trace is named \"nobody\"\nhint: `cognilog traces` lists the traces of the store\n");
}

#[test]
fn following_begins_where_it_is_asked_to() {
    let place = place();
    let check = |arguments: &[&str], expect: &[u64]| {
        let mut all = vec!["log", "--ndjson", "--follow"];
        all.extend(arguments);
        let mut follower = place.start(&all);
        let found: Vec<u64> = expect
            .iter()
            .map(|_| serde_json::from_str::<Value>(&follower.line()).unwrap()["position"].as_u64().unwrap())
            .collect();
        assert_eq!(found, expect, "{arguments:?}");
        if arguments.contains(&"--limit") {
            assert_eq!(follower.end(), 0, "{arguments:?}");
        }
    };
    check(&["--last", "2"], &[6, 7]);
    check(&["--trace", "p", "--last", "2"], &[2, 6]);
    check(&["--from", "6"], &[6, 7]);
    check(&["--limit", "3"], &[1, 2, 3]);
    // Who has read enough ends it, without waiting for another event.
    let mut shell = std::process::Command::new("bash");
    shell
        .arg("-c")
        .arg(format!("{} log --follow | head -n 2; echo ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_cognilog")));
    shell.current_dir(place.path("")).env_remove("COGNILOG_STORE");
    let ran = finish(shell, b"");
    assert!(ran.out.ends_with("\n0\n") && ran.out.lines().count() == 3, "{ran:?}");
    // A trace that is not there yet may be followed.
    let mut follower = place.start(&["log", "--follow", "--trace", "later"]);
    follower.wait_for("caught up");
    place.append("later", &query("now"));
    assert!(follower.line().contains("trace:later"));
}
