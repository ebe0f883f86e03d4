//! Dreams: paths, whole texts, nothing half.

use cognilog_core::reply::{DreamContext, read_dream};

use super::word;

/// What is taken, as `path = content` with line breaks shown, or why nothing is.
fn check(reply: impl AsRef<str>, expect: &str) {
    let files = ["taste.md", "strategy.md", "journals/*.md"];
    let context = DreamContext { files: files.map(str::to_owned).to_vec() };
    let reply = reply.as_ref();
    let got = match read_dream(reply, &context) {
        Ok(reading) => {
            let updates = reading.accepted.updates.iter();
            updates
                .map(|update| format!("{} = {}", update.path, update.content.replace('\n', "⏎")))
                .collect::<Vec<_>>()
                .join("; ")
        }
        Err(error) => word(&error),
    };
    assert_eq!(got, expect, "{reply}");
}

#[test]
fn shapes() {
    check(r##"{"updates": [{"path": "taste.md", "content": "# T\n- a\n"}]}"##, "taste.md = # T⏎- a⏎");
    check(r#"{"updates": []}"#, "");
    check(r#"{"updates": {"taste.md": "a", "strategy.md": "b"}}"#, "taste.md = a; strategy.md = b");
    check(r#"{"updates": {"path": "taste.md", "content": "a"}}"#, "taste.md = a");
    check(r#"{"path": "taste.md", "content": "a", "because": [1]}"#, "taste.md = a");
    check(
        r#"[{"path": "taste.md", "content": "a"}, {"path": "journals/x.md", "content": "b"}]"#,
        "taste.md = a; journals/x.md = b",
    );
    check(r#"{"updates": [{"path": "taste.md", "content": ["a", "b"]}]}"#, "taste.md = a⏎b");
    check("{\"updates\": [{\"path\": \"taste.md\", \"content\": \"a\n\"}]}", "taste.md = a⏎");
    check(r#"{"updates": [{"path": "taste.md", "content": "a\\nb"}]}"#, "taste.md = a\\nb");
    check(r#"{"files": [{"file": "taste.md", "text": "a"}]}"#, "no_answer");
    check(r#"{"name": "write_file", "arguments": {"path": "taste.md", "content": "a"}}"#, "no_answer");
    // Two answers: of one file the later counts, other files stay.
    let one = |path: &str, content: &str| format!(r#"{{"updates": [{{"path": "{path}", "content": "{content}"}}]}}"#);
    check(format!("{}\n\n{}", one("taste.md", "a"), one("strategy.md", "b")), "taste.md = a; strategy.md = b");
    check(format!("{} No: {}", one("taste.md", "a"), one("taste.md", "b")), "taste.md = b");
    check(
        r#"{"updates": [{"path": "taste.md", "content": "a"}, {"path": "./taste.md", "content": "b"}]}"#,
        "nothing_accepted",
    );
}

#[test]
fn an_example_inside_a_file_is_no_answer() {
    let inside = r##"# S\n```json\n{\"updates\": [{\"path\": \"taste.md\", \"content\": \"example\"}]}\n```\n"##;
    let shown = inside.replace("\\n", "⏎").replace("\\\"", "\"");
    let reply = format!(r#"{{"updates": [{{"path": "strategy.md", "content": "{inside}"}}]}}"#);
    check(&reply, &format!("strategy.md = {shown}"));
    check(format!("```json\n{reply}\n```"), &format!("strategy.md = {shown}"));
    // Cut at any place, the example is never taken for the answer.
    for end in (0..reply.len()).filter(|end| reply.is_char_boundary(*end)) {
        for cut in
            [reply[..end].to_owned(), format!("```json\n{}\n```", &reply[..end]), format!("x {} y", &reply[..end])]
        {
            let context = DreamContext { files: vec!["taste.md".to_owned()] };
            assert!(read_dream(&cut, &context).is_err(), "{cut}");
        }
    }
    let single = reply.replace("\\\"", "'");
    for end in (40..single.len() - 4).filter(|end| single.is_char_boundary(*end)) {
        let context = DreamContext { files: vec!["taste.md".to_owned()] };
        assert!(read_dream(&single[..end], &context).is_err(), "{}", &single[..end]);
    }
}

#[test]
fn nothing_half_is_written() {
    let two =
        r#"{"updates": [{"path": "taste.md", "content": "one\ntwo"}, {"path": "strategy.md", "content": "three"}]}"#;
    let first = two.find("}, {").expect("there") + 1;
    for end in 0..two.len() - 2 {
        let context = DreamContext { files: vec!["taste.md".to_owned(), "strategy.md".to_owned()] };
        for cut in [
            two[..end].to_owned(),
            format!("```json\n{}\n```", &two[..end]),
            format!("{}…", &two[..end]),
            format!("{}\"", &two[..end]),
        ] {
            if let Ok(reading) = read_dream(&cut, &context) {
                assert!(end >= first, "{cut}");
                for update in reading.accepted.updates {
                    assert!(["one\ntwo", "three"].contains(&update.content.as_str()), "{cut} gave {update:?}");
                }
            }
        }
    }
    // Where a text with quotes in it ends is a guess, and a file is not written by guess.
    check(r#"{"updates": [{"path": "taste.md", "content": "say "hi" to it"}]}"#, "nothing_accepted");
    check(
        r#"{"updates": [{"path": "taste.md", "content": "say "hi" to it"}, {"path": "strategy.md", "content": "b"}]}"#,
        "strategy.md = b",
    );
    check(r#"{"updates": [{"path": "taste.md", "content": unchanged}]}"#, "nothing_accepted");
    for content in ["\"\"", "\" \\n\"", "null", "5", "[]", "[1]", "{}", "\"a\", \"content\": \"b\""] {
        check(format!(r#"{{"updates": [{{"path": "taste.md", "content": {content}}}]}}"#), "nothing_accepted");
    }
    check(r#"{"updates": [{"path": "taste.md", "delete": true}]}"#, "nothing_accepted");
}

#[test]
fn paths() {
    let with = |path: &str, expect: &str| {
        check(format!(r#"{{"updates": [{{"path": {path}, "content": "a"}}]}}"#), expect);
    };
    with(r#""./taste.md""#, "taste.md = a");
    with(r#""journals//四月·复盘.md""#, "journals/四月·复盘.md = a");
    with(r#"" taste.md ""#, "taste.md = a");
    for path in [
        r#""../taste.md""#,
        r#""/taste.md""#,
        r#""~/taste.md""#,
        r#""C:/taste.md""#,
        r#""journals\\x.md""#,
        r#""%2e%2e/x.md""#,
        r#""secrets.md""#,
        r#""Taste.md""#,
        r#""journals/a/b.md""#,
        r#""agent_memory/taste.md""#,
        r#""taste.md\u0000.txt""#,
        r#""""#,
        "null",
        "5",
        r#"["taste.md"]"#,
        r#""`taste.md`""#,
        r#""taste.md", "path": "strategy.md""#,
    ] {
        with(path, "nothing_accepted");
    }
}
