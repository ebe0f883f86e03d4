//! `append`: receipts, what input may look like, keys and conditions.

use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::common::{Place, finish, lines, query};

fn positions(out: &str) -> Vec<u64> {
    lines(out).iter().map(|receipt| receipt["position"].as_u64().unwrap()).collect()
}

#[test]
fn a_receipt_comes_for_each_line_before_the_next_is_sent() {
    let place = Place::new();
    let mut writer = place.start(&["append", "t"]);
    for number in 1..=20 {
        writer.send(&query("q"));
        let line = writer.line();
        assert!(line.starts_with(&format!("position {number} sequence {number} id ")), "{line}");
        // Another process sees what has a receipt.
        if number % 5 == 0 {
            assert_eq!(place.log().len(), number);
        }
    }
    assert_eq!((writer.end(), writer.lines_so_far().len()), (0, 0));
}

#[test]
fn a_receipt_is_written_after_the_disk_was_told_to_keep_the_event() {
    let place = Place::with_store();
    let mut traced = Command::new("strace");
    traced.args(["-f", "-s", "8192", "-e", "trace=pwrite64,fdatasync,fsync,write", "-o"]);
    traced.arg(place.path("calls")).arg(env!("CARGO_BIN_EXE_cognilog")).args(["append", "t"]);
    traced.current_dir(place.path(""));
    if !Command::new("strace").args(["-f", "true"]).output().is_ok_and(|output| output.status.success()) {
        eprintln!("strace is not here or not allowed: the order of sync and receipt was not looked at");
        return;
    }
    let ran = finish(traced, query("needle-in-the-log").as_bytes());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let calls = std::fs::read_to_string(place.path("calls")).unwrap();
    let of = |what: &dyn Fn(&str) -> bool, after: usize| {
        calls.lines().enumerate().skip(after).find(|(_, line)| what(line)).map(|(index, _)| index)
    };
    let written = of(&|line| line.contains("pwrite64(") && line.contains("needle-in-the-log"), 0).unwrap();
    let synced = of(&|line| line.contains("sync") && line.ends_with("= 0"), written).unwrap();
    // Two-phase commit: the pages are synced, then the header that makes them count.
    let synced = of(&|line| line.contains("sync") && line.ends_with("= 0"), synced + 1).unwrap();
    let receipt = of(&|line| line.contains("write(1, \"position 1 "), 0).unwrap();
    assert!(synced < receipt, "written {written}, synced {synced}, receipt {receipt}:\n{calls}");
}

#[test]
fn ten_thousand_lines() {
    let place = Place::new();
    let input: String = (1..=10_000).map(|number| query(&format!("query {number}"))).collect();
    let began = Instant::now();
    let ran = place.feed(&["--json", "append", "t"], &input);
    eprintln!("10,000 lines took {:?}", began.elapsed());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(positions(&ran.out), (1..=10_000).collect::<Vec<u64>>());
    let log = place.log();
    assert!(log.iter().zip(1..).all(|(event, number)| event["event"]["query"] == format!("query {number}")));
    place.verified();
}

#[test]
fn blank_lines_and_foreign_line_ends_are_passed_over() {
    let place = Place::new();
    let input = "\n  \t\r\n{\"type\":\"query\",\"query\":\"a\"}\r\n\n \n\t{\"type\":\"query\",\"query\":\"b\"} \r\n{\"type\":\"query\",\"query\":\"c\u{2028}d\"}";
    assert_eq!(place.append("t", input).lines().count(), 3);
    let queries: Vec<String> =
        place.log().iter().map(|event| event["event"]["query"].as_str().unwrap().to_owned()).collect();
    assert_eq!(queries, ["a", "b", "c\u{2028}d"]);
}

#[test]
fn nothing_on_stdin_makes_no_store() {
    let place = Place::new();
    let ran = place.feed(&["append", "t"], "\n\n");
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert_eq!(ran.err, "no events on stdin: nothing was recorded\n");
    assert!(!place.path(".cognilog").exists());
}

#[test]
fn a_wrong_line_ends_it_with_its_number_and_those_before_are_recorded() {
    let check = |line: &str, expect: &str| {
        let place = Place::new();
        let ran = place.feed(&["append", "t"], &format!("{}\n{}{line}\n{}", query("a"), query("b"), query("c")));
        assert_eq!((ran.code, ran.out.lines().count()), (1, 2), "{line}: {}", ran.err);
        let error = ran.err.lines().last().unwrap();
        assert_eq!(error, format!("error: line 4: {expect}"), "{line}");
        assert_eq!(place.log().len(), 2, "{line}");
        // At the front it refuses before a store is made.
        let place = Place::new();
        let ran = place.feed(&["append", "t"], &format!("{line}\n"));
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{line}");
        assert_eq!(ran.err, format!("error: line 1: {expect}\n"));
        assert!(!place.path(".cognilog").exists(), "{line}");
    };
    check("{\"type\":\"query\"", "column 16: the text ends where ',' or '}' was expected");
    check("[1]", "expected an object, found a list");
    check(
        "{\"type\":\"query\",\"query\":\"q\",\"sequence\":\"x\"}",
        "query event, field `sequence`: expected an integer, found a string",
    );
    check("{\"type\":\"query\",\"query\":NaN}", "it holds NaN or Infinity, which are no JSON numbers");
}

#[test]
fn a_wrong_line_in_a_pipe_of_many_is_found_behind_what_was_recorded() {
    let place = Place::new();
    let input: String = (1..=1_500).map(|number| query(&number.to_string())).collect();
    let ran = place.feed(&["--json", "append", "t"], &format!("{input}nonsense\n{input}"));
    assert_eq!((ran.code, ran.out.lines().count()), (1, 1_500), "{}", ran.err);
    let error: Value = serde_json::from_str(ran.err.lines().last().unwrap()).unwrap();
    assert_eq!(error["error"]["code"], "event_invalid");
    assert!(error["error"]["message"].as_str().unwrap().starts_with("line 1501: column 1: "), "{error}");
    assert_eq!(place.log().len(), 1_500);
}

#[test]
fn input_that_is_not_utf8_is_named() {
    let place = Place::new();
    let mut input = query("a").into_bytes();
    input.extend(b"{\"type\":\"query\",\"query\":\"\xff\"}\n");
    let ran = finish(place.command(&["append", "t"]), &input);
    assert_eq!((ran.code, ran.out.lines().count()), (1, 1));
    assert!(ran.err.ends_with("error: line 2: not UTF-8 at byte 25\n"), "{}", ran.err);
}

#[test]
fn an_event_id_makes_a_retry_safe() {
    let place = Place::new();
    let line = |text: &str| {
        format!("{{\"event_id\":\"01890000-0000-7000-8000-000000000001\",\"type\":\"query\",\"query\":\"{text}\"}}\n")
    };
    let first = place.append("t", &line("a"));
    let again = place.append("t", &line("a"));
    assert_eq!(again, format!("{} (was there already)\n", first.trim_end()));
    let ran = place.feed(&["append", "t"], &line("b"));
    assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{}", ran.err);
    let expect = "error: line 1: event id 01890000-0000-7000-8000-000000000001 (trace:t) was already used at position 1 \
                  with other content\nhint: use a new event id or key for new content\n";
    assert_eq!(ran.err, expect);
    assert_eq!(place.log().len(), 1);
}

#[test]
fn a_key_records_all_lines_or_none_and_once() {
    let place = Place::new();
    let input = query("a") + &query("b");
    let first = place.feed(&["--json", "append", "t", "--key", "k"], &input);
    assert_eq!((first.code, positions(&first.out)), (0, vec![1, 2]), "{}", first.err);
    let again = place.feed(&["--json", "append", "t", "--key", "k"], &input);
    assert_eq!((again.code, positions(&again.out)), (0, vec![1, 2]), "{}", again.err);
    assert!(lines(&again.out).iter().all(|receipt| receipt["repeated"] == true));
    let other = place.feed(&["append", "t", "--key", "k"], &query("c"));
    assert_eq!((other.code, other.out.as_str()), (4, ""), "{}", other.err);
    assert!(other.err.contains("hint: use a new event id or key for new content"), "{}", other.err);
    let wrong = place.feed(&["append", "t", "--key", "l"], &(query("d") + "nonsense\n" + &query("e")));
    assert_eq!((wrong.code, wrong.out.as_str()), (1, ""), "{}", wrong.err);
    assert!(wrong.err.starts_with("error: line 2: "), "{}", wrong.err);
    assert_eq!(place.log().len(), 2);
}

#[test]
fn an_expected_position_is_a_condition_on_the_trace() {
    let place = Place::new();
    place.append("other", &query("x"));
    let append = |position: &str, input: &str| {
        let ran = place.feed(&["append", "t", "--expect-position", position], input);
        (ran.code, ran.out.lines().count(), ran.err)
    };
    let many: String = (0..700).map(|number| query(&number.to_string())).collect();
    assert_eq!(append("0", &many), (0, 700, String::new()));
    let (code, receipts, error) = append("0", &many);
    assert_eq!((code, receipts), (4, 0), "{error}");
    assert!(error.ends_with("\nhint: look at the trace again and decide anew\n"), "{error}");
    assert_eq!(append("701", &query("y")).0, 0);
    assert_eq!(append("701", &query("z")).0, 4);
    assert_eq!(place.log().len(), 702);
}
