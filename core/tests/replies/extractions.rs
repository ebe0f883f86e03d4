//! Extractions: the same from tool calls and from JSON, each once, at most so many.

use cognilog_core::event::Event;
use cognilog_core::reply::{ExtractionReply, read_extraction};

use super::word;

const ITEM: &str = r#"{"types": ["tool", " Strategy "], "task": "t", "content": "use x", "score": 4, "tags": {"a": [1, 2.50]}, "scopes": ["s"], "resource_ids": ["r"]}"#;

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn accepted(reply: &str, calls: Option<&str>) -> ExtractionReply {
    read_extraction(reply, calls).map_or_else(|error| panic!("{reply} {calls:?}: {error}"), |reading| reading.accepted)
}

#[test]
fn tool_calls_and_json_give_the_same_events() {
    let other = ITEM.replace("use x", "use y");
    let plain = accepted(&format!(r#"{{"extractions": [{ITEM}, {other}]}}"#), None);
    let expect = [
        r#"{"type":"extraction_pending","extraction_id":"ext-b1-1","trigger":"compression","branch_id":"b1","item":{"types":["tool","strategy"],"task":"t","content":"use x","score":4,"tags":{"a":[1,2.50]},"scopes":["s"],"resource_ids":["r"]}}"#,
        r#"{"type":"extraction_pending","extraction_id":"ext-b1-2","trigger":"compression","branch_id":"b1","item":{"types":["tool","strategy"],"task":"t","content":"use y","score":4,"tags":{"a":[1,2.50]},"scopes":["s"],"resource_ids":["r"]}}"#,
    ];
    let events: Vec<String> =
        plain.events("compression", "b1", 1).into_iter().map(|event| Event::from(event).to_json()).collect();
    assert_eq!(events, expect);
    let call = |item: &str| format!(r#"{{"name": "knowledge_save_pending", "arguments": {item}}}"#);
    let openai = |item: &str| {
        let function = format!(r#"{{"name": "knowledge_save_pending", "arguments": {}}}"#, quoted(item));
        format!(r#"{{"id": "c", "type": "function", "function": {function}}}"#)
    };
    let anthropic =
        |item: &str| format!(r#"{{"type": "tool_use", "id": "c", "name": "knowledge_save_pending", "input": {item}}}"#);
    for calls in [
        format!("[{}, {}]", openai(ITEM), openai(&other)),
        format!("[{}, {}]", anthropic(ITEM), anthropic(&other)),
        format!("[{}, {}]", call(ITEM), call(&other)),
        format!("[{}]", call(&format!(r#"{{"extractions": [{ITEM}, {other}]}}"#))),
        format!("[{}, {}, {}]", openai(ITEM), openai(&other), openai(ITEM)),
    ] {
        assert_eq!(accepted("", Some(&calls)), plain, "{calls}");
        assert_eq!(accepted("Saved both.", Some(&calls)), plain, "{calls}");
        assert_eq!(
            accepted(&format!(r#"{{"role": "assistant", "content": null, "tool_calls": {calls}}}"#), None),
            plain,
            "{calls}"
        );
    }
    for reply in [
        format!("[{ITEM}, {other}]"),
        format!("{ITEM}\n{other}"),
        format!("```json\n{{\"extractions\": [{ITEM}, {other},]}}\n```"),
        format!("<tool_call>\n{}\n</tool_call>\n<tool_call>{}</tool_call>", call(ITEM), call(&other)),
        format!("<think>{ITEM}</think>{{'extractions': [{ITEM}, {other}]}}"),
    ] {
        assert_eq!(accepted(&reply, None), plain, "{reply}");
    }
}

/// What is taken, as `types content score` of each, or why nothing is, and what was dropped.
fn check(reply: &str, expect: &str, dropped: &[&str]) {
    let (got, report) = match read_extraction(reply, None) {
        Ok(reading) => {
            let item = |item: &cognilog_core::event::ExtractionItem| {
                let score = item.score.as_ref().map_or("-", |score| score.as_str());
                format!("{} {} {score}", item.types.join("+"), item.content)
            };
            let items: Vec<String> = reading.accepted.extractions.iter().map(item).collect();
            (items.join("; "), reading.dropped)
        }
        Err(error) => (word(&error), error.dropped),
    };
    let report: Vec<String> = report.iter().map(ToString::to_string).collect();
    assert_eq!(
        (got.as_str(), report.iter().map(String::as_str).collect::<Vec<_>>().as_slice()),
        (expect, dropped),
        "{reply}"
    );
}

#[test]
fn what_is_accepted() {
    let with = |fields: &str, expect: &str, dropped: &[&str]| {
        check(&format!(r#"{{"extractions": [{{"content": "c", {fields}}}]}}"#), expect, dropped);
    };
    check(r#"{"extractions": []}"#, "", &[]);
    check("nothing worth keeping", "no_json", &[]);
    check("", "empty", &[]);
    with(r#""types": "TOOL""#, "tool c -", &[]);
    with(r#""type": "case""#, "case c -", &[]);
    with(
        r#""types": ["tool", "tool", "Trick"]"#,
        "tool+Trick c -",
        &["extraction 0: \"Trick\" is none of experience, tool, strategy, case; it is kept"],
    );
    with(r#""types": [], "score": "4""#, " c 4", &[]);
    with(r#""types": [], "score": 3.5"#, " c 3.5", &[]);
    with(r#""types": [], "score": 9"#, " c -", &["extraction 0: `score` cannot be used: 9"]);
    with(r#""types": [], "score": "high""#, " c -", &["extraction 0: `score` cannot be used: \"high\""]);
    with(
        r#""types": [], "scopes": [1, "a"], "tags": 5, "task": []"#,
        " c -",
        &[
            "extraction 0: `task` cannot be used: []",
            "extraction 0: `tags` cannot be used: 5",
            "extraction 0: `scopes` cannot be used: 1",
        ],
    );
    // A person reads it before it counts, so quotes that are not escaped are no reason to lose it.
    check(r#"{"extractions": [{"types": ["tool"], "content": "say "hi" to it"}]}"#, r#"tool say "hi" to it -"#, &[]);
    check(
        r#"{"extractions": [{"types": ["tool"], "content": " "}, 5]}"#,
        "nothing_accepted",
        &["extraction 0: no text in `content`", "item 1 is a number, not an object"],
    );
    // A place holder that was copied from the prompt.
    check(
        r#"{"extractions": [{"types": ["tool"], "content": "…"}, {"types": ["tool"], "content": "..."}]}"#,
        "nothing_accepted",
        &["extraction 0: no text in `content`", "extraction 1: no text in `content`"],
    );
    check(
        r#"{"extractions": [{"types": ["tool"], "content": "a"}, {"types": ["tool"], "content": "b"#,
        "tool a -",
        &["the reply is cut off at byte 87", "item 1 was cut off; it is dropped, never completed"],
    );
    check(
        r#"{"name": "read_file", "arguments": {"path": "x"}}"#,
        "nothing_accepted",
        &["the tool \"read_file\" is not one of this branch"],
    );
    check(
        r#"{"name": "knowledge_save_pending", "arguments": "{\"content\": \"cut"}"#,
        "nothing_accepted",
        &["the arguments of tool call 0 are no object"],
    );
}

#[test]
fn each_once_and_at_most_fifty() {
    let items: Vec<String> =
        (0..60).map(|number| format!(r#"{{"types": ["tool"], "content": "c{number}"}}"#)).collect();
    let reading = read_extraction(&format!(r#"{{"extractions": [{}]}}"#, items.join(",")), None).expect("read");
    assert_eq!(reading.accepted.extractions.len(), 50);
    assert_eq!(
        reading.dropped.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["more than 50 items; the rest is dropped"]
    );
    let same = vec![items[0].as_str(); 60].join(",");
    let reading = read_extraction(&format!(r#"{{"extractions": [{same}]}}"#), None).expect("read");
    assert_eq!(reading.accepted.extractions.len(), 1);
}
