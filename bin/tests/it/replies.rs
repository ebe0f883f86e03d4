//! `parse-reply` and `reparse`: accepted values on stdout, what was repaired and dropped on stderr, exit codes.

use serde_json::{Value, json};

use crate::common::Place;

const CONTEXTS: &str = r#"{
    "eval": {"pending": {"42": ["k-a", "k-b"]}},
    "dream": {"files": ["taste.md", "journals/*.md"]},
    "bad": {"pending": {"x": []}}
}"#;

fn judged(source: &str) -> String {
    let assessments = [json!({"source_id": source, "status": " Helpful", "reason": null})];
    json!({"evaluations": [{"query_sequence": 42, "assessments": assessments}]}).to_string()
}

#[test]
fn the_accepted_value_is_on_stdout_and_the_rest_on_stderr() {
    let place = Place::new();
    place.write("contexts.json", CONTEXTS);
    let parse = |kind: &str, context: &str, reply: &str| {
        place.write("reply.txt", reply);
        place.run(&["parse-reply", "--kind", kind, "--context", &format!("contexts.json#{context}"), "reply.txt"])
    };
    let ran = parse("eval", "eval", &format!("Sure:\n```json\n{}\n```", judged("k-a")));
    let expect =
        r#"{"evaluations":[{"query_sequence":42,"assessments":[{"source_id":"k-a","status":"helpful","reason":""}]}]}"#;
    assert_eq!((ran.code, ran.out.trim_end()), (0, expect), "{}", ran.err);
    assert_eq!(
        ran.err,
        "repaired: left out text around the answer (1 times, first at byte 0)\n\
         dropped: query 42, source k-b: not assessed, stays pending\n"
    );
    let ran = parse("dream", "dream", r#"{"updates": {"taste.md": "a", "secrets.md": "b"}}"#);
    assert_eq!((ran.code, ran.out.as_str()), (0, "{\"updates\":[{\"path\":\"taste.md\",\"content\":\"a\"}]}\n"));
    assert!(ran.err.contains("dropped: path \"secrets.md\" matches no configured file"), "{}", ran.err);
    let extraction = r#"{"extractions":[{"types":["tool"],"content":"c"}]}"#;
    place.write("reply.txt", extraction);
    assert_eq!(place.ok(&["parse-reply", "--kind", "extract", "reply.txt"]).trim_end(), extraction);
    // For programs the report is one object on stderr.
    let ran = place.run(&["--json", "parse-reply", "--kind", "extract", "reply.txt"]);
    assert_eq!(serde_json::from_str::<Value>(&ran.err).unwrap(), json!({"repairs": [], "dropped": []}));
    // A file that is the context itself.
    place.write("context.json", r#"{"pending": {"42": ["k-a"]}}"#);
    place.write("reply.txt", &judged("k-a"));
    place.ok(&["parse-reply", "--kind", "eval", "--context", "context.json", "reply.txt"]);
}

#[test]
fn what_cannot_be_accepted_exits_1_with_its_word() {
    let place = Place::new();
    place.write("contexts.json", CONTEXTS);
    let check = |reply: &[u8], word: &str| {
        std::fs::write(place.path("reply.txt"), reply).unwrap();
        let ran = place.run(&["parse-reply", "--kind", "eval", "--context", "contexts.json#eval", "reply.txt"]);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{}", ran.err);
        assert!(ran.err.starts_with(&format!("error: {word}: ")), "{}", ran.err);
    };
    check(b"", "empty");
    check(b"I think k-a was good.", "no_json");
    check(judged("k-z").as_bytes(), "nothing_accepted");
    check(judged("k-a\u{1b}[31m").as_bytes(), "nothing_accepted");
    check(b"{\"evaluations\": [{\"query_sequence\": 42, \"assess", "cut");
    check(&"{".repeat(200_000).into_bytes(), "no_json");
    check(&"[".repeat(100_000).into_bytes(), "too_deep");
    check(b"{\"evaluations\": \"\xb6\xa8\xce\xbb\"}", "not_utf8");
    check(&vec![b'x'; (2 << 20) + 1], "too_large");
    let fails = |arguments: &[&str], code: i32, text: &str| {
        let ran = place.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(text), "{arguments:?}: {}", ran.err);
    };
    place.write("reply.txt", "{}");
    fails(&["parse-reply", "--kind", "eval", "reply.txt"], 2, "--kind eval needs an object `pending`");
    fails(&["parse-reply", "--kind", "eval", "--context", "contexts.json#bad", "reply.txt"], 2, "\"x\" is no sequence");
    fails(&["parse-reply", "--kind", "eval", "--context", "contexts.json#none", "reply.txt"], 2, "has no key \"none\"");
    fails(
        &["parse-reply", "--kind", "dream", "--context", "contexts.json#eval", "reply.txt"],
        2,
        "needs a list `files`",
    );
    fails(&["parse-reply", "--kind", "eval", "--context", "reply", "none.txt"], 1, "cannot read reply");
    fails(&["parse-reply", "--kind", "extract", "none.txt"], 1, "cannot read none.txt");
    fails(&["parse-reply", "--kind", "poem", "reply.txt"], 2, "eval, extract, dream");
}

#[test]
fn stored_replies_are_tried_again() {
    let place = Place::with_store();
    let unparsed = |text: &str| json!({"type": "reply_unparsed", "reply_kind": "eval", "model": "m", "reason": "no_json", "text": text});
    let query = json!({"type": "query", "sequence": 42, "query": "q", "source_ids": ["k-a"], "sources": []});
    let events = [query, unparsed(&judged("k-a")), unparsed("k-a was good")];
    place.append("t", &events.map(|event| format!("{event}\n")).concat());
    let dry: Value = serde_json::from_str(&place.ok(&["--json", "reparse", "--dry-run"])).unwrap();
    assert_eq!(dry[0]["outcome"], "recorded");
    assert_eq!((&dry[1]["outcome"], &dry[1]["model"]), (&json!("unreadable"), &json!("m")));
    assert!(place.ok(&["pending", "evaluations"]).contains("k-a"));
    let ran = place.run(&["reparse", "--trace", "t"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("recorded 1 events") && ran.out.contains("unreadable no_json: "), "{}", ran.out);
    assert_eq!(ran.err, "1 of 2 stored replies recorded\n");
    assert_eq!(place.ok(&["pending", "evaluations"]), "");
    assert_eq!(place.run(&["reparse"]).err, "0 of 2 stored replies recorded\n");
}
