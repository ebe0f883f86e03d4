//! Hostile text: whatever is stored, text output holds no character that acts on a terminal.

use crate::common::{Place, Ran};

/// Escape sequences, a bell, an 8-bit control sequence introducer, and characters that change the direction of text.
const HOSTILE: &str = "x\u{1b}[2J\u{7}\u{9b}31m\r\u{8}\u{7f}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{feff}\u{e0041}y";

fn is_harmless(text: &str) -> bool {
    text.chars().all(|character| {
        character == '\n'
            || !(character.is_control()
                || matches!(
                    character,
                    '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
                ))
    })
}

fn harmless(what: &[&str], ran: &Ran) {
    assert!(is_harmless(&ran.out), "{what:?}: {:?}", ran.out);
    assert!(is_harmless(&ran.err), "{what:?}: {:?}", ran.err);
}

fn bad(text: &str) -> String {
    format!("{text}{HOSTILE}")
}

/// A file in which every text is hostile; reading is lenient, so that no enumeration keeps it out.
fn file(trace: &str) -> String {
    let events = serde_json::json!([
        {"type": "query", "sequence": 5, "query": bad("q"), "goal_id": bad("g"),
            "source_ids": [bad("k1"), bad("k2")], "sources": [{"id": bad("k1"), "content": bad("c")}]},
        {"type": "evaluation", "sequence": 6, "query_sequence": 5, "trigger": bad("t"),
            "assessments": [{"source_id": bad("k1"), "status": bad("s"), "reason": bad("r")}]},
        {"type": "extraction_pending", "sequence": 7, "extraction_id": bad("ext-"), "trigger": bad("t"),
            "item": {"types": [bad("t")], "task": bad("t"), "content": bad("c")}},
        {"type": "extraction_pending", "sequence": 7, "extraction_id": bad("ext-2"),
            "item": {"types": ["tool"], "task": bad("t"), "content": bad("c")}},
        {"type": "extraction_reviewed", "sequence": 8, "extraction_id": bad("ext-"), "version": 1,
            "decision": bad("d"), "reviewer": bad("r"), "reason": bad("r")},
        {"type": "extraction_reviewed", "sequence": 8, "extraction_id": bad("ext-"), "version": 1,
            "decision": "approve", "reviewer": bad("r"), "reason": bad("r")},
        {"type": "extraction_committed", "sequence": 9, "extraction_id": bad("ext-"), "outcome": bad("o"),
            "knowledge_id": bad("k"), "error": bad("e")},
        {"type": bad("kind"), "x": bad("x")},
    ]);
    serde_json::json!({ "trace_id": trace, bad("key"): bad("value"), "events": events }).to_string()
}

/// What is appended by itself.
fn lines() -> String {
    [
        serde_json::json!({"type": "trace_started", "task": bad("task"), "identity": bad("i"), "agent_type": bad("a"),
            "owner": bad("o")}),
        serde_json::json!({"type": "goal_changed", "goal_id": bad("g"), "description": bad("d"), "status": "pending"}),
        serde_json::json!({"type": "message", "message_id": bad("m"), "role": "user", "content": bad("c")}),
        serde_json::json!({"type": bad("kind"), "x": bad("x")}),
        serde_json::json!({"type": "trace_finished", "status": "failed", "error_type": bad("e")}),
    ]
    .iter()
    .map(|event| format!("{event}\n"))
    .collect()
}

#[test]
fn stored_text_never_acts_on_a_terminal() {
    let place = Place::with_store();
    let trace = format!("trace{HOSTILE}");
    place.write("first/x/cognition_log.json", &file(&trace));
    let ran = place.run(&["import", "first"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    harmless(&["import"], &ran);
    let ran = place.feed(&["append", &trace], &lines());
    assert_eq!(ran.code, 0, "{}", ran.err);
    harmless(&["append"], &ran);
    // A tree's own names are hostile too.
    let folder = format!("tree/{HOSTILE}");
    place.write(
        &format!("{folder}/cognition_log.json"),
        &serde_json::json!({"events": [{"type": "query", "query": HOSTILE}, {"type": HOSTILE}, {"type": "evaluation",
            "assessments": HOSTILE}]})
        .to_string(),
    );
    place.write(&format!("{folder}/broken/cognition_log.json"), HOSTILE);
    let extraction = format!("ext:ext-{HOSTILE}");
    let missing = format!("nobody{HOSTILE}");
    let missing_extraction = format!("ext:{HOSTILE}");
    let only = format!("trace:{trace}");
    let (second, hostile_name) = (format!("ext-2{HOSTILE}"), bad("name"));
    for verb in [
        &["import", "tree"][..],
        &["compare", "tree"],
        &["traces"],
        &["show", &trace],
        &["show", &only],
        &["show", &extraction],
        &["pending", "evaluations"],
        &["pending", "evaluations", "--rule", "document"],
        &["pending", "extractions"],
        &["pending", "reflections"],
        &["log"],
        &["log", "--trace", &trace],
        &["discard", "--reviewer", &hostile_name, "--reason", &hostile_name, &second],
        &["discard", "--reviewer", "ada", "--seen", "0", &second],
        &["approve", "--reviewer", &hostile_name, "--group", &second],
        &["undo", "--reviewer", &hostile_name],
        &["approve", "--reviewer", "ada", &second],
        &["approve", "--reviewer", "ada", &missing_extraction],
        &["edit", "--reviewer", "ada", "--tags", HOSTILE, &second],
        &["commit", "--dry-run"],
        &["commit", "--yes", "--directory", "knowledge"],
        &["commit", "--yes", "--directory", &missing, &second],
        &["review"],
        &["stats"],
        &["status"],
        &["replay", &trace],
        &["export", "--all", "files"],
        &["show", &missing],
        &["show", &missing_extraction],
        &["export", &missing],
        &["export", &trace, "-o", &missing_extraction],
        &["import", &missing],
        &["compare", &missing],
        &["--store", &missing, "traces"],
        &["--store", &missing, "init"],
        &["--store", &missing, "init"],
        &["--store", &missing, "status"],
        &["verify"],
    ] {
        let ran = place.run(verb);
        harmless(verb, &ran);
        assert!(!(ran.out.is_empty() && ran.err.is_empty()), "{verb:?}");
    }
    let waiting = serde_json::json!({"type": "extraction_pending", "extraction_id": bad("ext-3"),
        "item": {"types": [bad("t")], "task": bad("t"), "content": format!("{HOSTILE}\n{HOSTILE}")}});
    place.append("menu", &format!("{waiting}\n"));
    let talk = format!("8\n{HOSTILE}\na\n9\n{HOSTILE}\nq\n");
    let ran = place.feed(&["interactive", "menu", "--reviewer", "ada"], &talk);
    assert!(ran.out.contains("approved, version 1"), "{}", ran.out);
    harmless(&["interactive"], &ran);
    let ran = place.feed(&["replay", &trace, "--step"], &"n\ns\n".repeat(20));
    assert_eq!(ran.out.matches("/20]").count(), 20, "{}", ran.out);
    harmless(&["replay", "--step"], &ran);
    harmless(&["replay", "--step"], &place.feed(&["replay", &trace, "--step"], HOSTILE));
    // A line that is wrong is quoted in its error.
    harmless(
        &["append"],
        &place.feed(&["append", "t"], &format!("{{\"type\":\"query\",\"sequence\":\"{HOSTILE}\"}}\n")),
    );
    harmless(&["append"], &place.feed(&["append", "t"], &format!("{{\"event_id\":\"{HOSTILE}\"}}\n")));
}
