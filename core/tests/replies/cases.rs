//! Replies of public bug reports, as files: each with its right value in `cases/index.jsonl`.

use cognilog_core::reply::{DreamContext, EvaluationContext, read_dream, read_evaluation, text_of};
use serde_json::Value;

fn folder(file: &str) -> String {
    format!("{}/tests/replies/cases/{file}", env!("CARGO_MANIFEST_DIR"))
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().expect("a string").to_owned()).collect()
}

/// The accepted value, null for none.
fn accepted(kind: &str, context: &Value, reply: &[u8]) -> Value {
    let Ok(text) = text_of(reply) else { return Value::Null };
    let json = |value: serde_json::Result<Value>| value.expect("JSON");
    if kind == "eval" {
        let pending = context["pending"].as_object().expect("an object");
        let pending =
            pending.iter().map(|(sequence, ids)| (sequence.parse().expect("a sequence"), texts(ids))).collect();
        let reading = read_evaluation(&text, &EvaluationContext { pending });
        reading.map_or(Value::Null, |reading| json(serde_json::to_value(reading.accepted)))
    } else {
        let reading = read_dream(&text, &DreamContext { files: texts(&context["files"]) });
        reading.map_or(Value::Null, |reading| json(serde_json::to_value(reading.accepted)))
    }
}

#[test]
fn each_case_has_its_value() {
    let contexts: Value =
        serde_json::from_str(&std::fs::read_to_string(folder("contexts.json")).expect("contexts")).expect("JSON");
    let index = std::fs::read_to_string(folder("index.jsonl")).expect("the index");
    for line in index.lines() {
        let case: Value = serde_json::from_str(line).expect("JSON");
        let file = case["file"].as_str().expect("a file");
        let reply = std::fs::read(folder(file)).expect("the reply");
        let got = accepted(
            case["kind"].as_str().expect("a kind"),
            &contexts[case["context"].as_str().expect("a key")],
            &reply,
        );
        let others = case.get("also_values").and_then(Value::as_array);
        let is_right = got == case["value"] || others.is_some_and(|others| others.contains(&got));
        assert!(is_right, "{file} gave {got}");
    }
}
