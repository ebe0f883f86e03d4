//! Evaluations: decoration, damage, shape and content.

use super::*;

fn check(reply: impl AsRef<str>, expect: &str) {
    let reply = reply.as_ref();
    assert_eq!(taken(reply), expect, "{reply}");
}

/// Replies that all say what [`answer`] says.
fn all_taken(replies: impl IntoIterator<Item = String>) {
    replies.into_iter().for_each(|reply| check(&reply, TAKEN));
}

#[test]
fn plain() {
    all_taken([
        answer(),
        format!("\u{feff}{}", answer()),
        format!(" \r\n\t{}\n\n", answer()),
        answer().replace(' ', "\n  "),
    ]);
    check(r#"{"evaluations": []}"#, "");
    check("", "empty");
    check(" \n\u{feff}\u{200b}", "empty");
}

#[test]
fn fences() {
    let answer = answer();
    all_taken([
        format!("```json\n{answer}\n```"),
        format!("```JSON\n{answer}\n```"),
        format!("```\n{answer}\n```"),
        format!("```json5\n{answer}\n```"),
        format!("````json\n{answer}\n````"),
        format!("~~~\n{answer}\n~~~"),
        format!("``` json\r\n{answer}\r\n```\r\n"),
        format!("  ```json\n  {answer}\n  ```"),
        format!("> ```json\n> {answer}\n> ```"),
        format!("```json {answer}```"),
        format!("`{answer}`"),
        format!("'''json\n{answer}\n'''"),
        format!("```json\n{answer}"),
        format!("{answer}\n```"),
        format!("```json\n```\n{answer}"),
        format!("```python\nd = {{'a': 1}}\nprint(f\"{{d}}\")\n```\n{answer}"),
        format!("```json\n{answer}\n```\n\nAgain:\n```json\n{answer}\n```"),
    ]);
    let with_fence = answer.replace("\"ra\"", r#""see ```json\n{\"evaluations\": []}\n``` there""#);
    check(
        format!("```json\n{with_fence}\n```"),
        &TAKEN.replace("(ra)", "(see ```json\n{\"evaluations\": []}\n``` there)"),
    );
    // A raw line break before the fence in the reason.
    let raw = answer.replace("\"ra\"", "\"see\n```\nx\n```\"");
    check(format!("```json\n{raw}\n```"), &TAKEN.replace("(ra)", "(see\n```\nx\n```)"));
}

#[test]
fn prose() {
    let answer = answer();
    all_taken([
        format!("Here it is: {answer}"),
        format!("{answer} I hope this helps!"),
        format!("评估如下（共 3 条，见【附录】）：\n{answer}\n以上。"),
        format!("As [1] and [k-a] say {{see below}}:\n{answer}\nLegend: {{h}} = helpful, [x], {{}}"),
        format!("The set {{k-a, k-b}} and the map {{a: 1, b: 2}}.\n{answer}"),
        format!("I fill {{\"evaluations\": [...]}} with {{\"query_sequence\": …}}.\n{answer}"),
        format!("{answer}\nThat is the {{\"evaluations\": [...]}} that you asked for."),
        format!("The reason is \"good\" { }.\n{answer}", "{\"not\" closed"),
        format!("# Evaluation\n\n{answer}"),
        format!("// done\n{answer}"),
        format!("Answer:\"{answer}\""),
        format!("{{\"note\": \"first object\"}}\n{answer}"),
        format!("It's the user's [draft] <b>{answer}</b>"),
        format!("evaluations = {answer};"),
        format!("- {answer}"),
        format!("1 < 2 and {answer}"),
        format!("{answer}]}}]}}}}"),
    ]);
    check("The evaluation follows from the transcript.", "no_json");
    check("<html><body>502 Bad Gateway</body></html>", "no_json");
    check("I cannot help with that {sorry}.", "no_json");
}

#[test]
fn reasoning() {
    let answer = answer();
    let draft = answer.replace("helpful", "harmful").replace("ra", "draft");
    all_taken([
        format!("<think>{draft}</think>{answer}"),
        format!("<THINK>\n{draft}\n</THINK>\n```json\n{answer}\n```"),
        format!("<thinking>{draft}</thinking>\n{answer}"),
        format!("<reasoning>{draft}</reasoning><answer>{answer}</answer>"),
        format!("<think>a</think><think>{draft}</think>{answer}"),
        format!("<think>a <think>{draft}</think> {draft} </think>{answer}"),
        // The template of the prompt held the opening mark, so only the closing one is in the reply.
        format!("Let me see. {draft}\n</think>\n\n{answer}"),
        format!("[THINK]{draft}[/THINK]{answer}"),
        format!("◁think▷{draft}◁/think▷{answer}"),
        format!("<|channel|>analysis<|message|>{draft}<|end|><|start|>assistant<|channel|>final<|message|>{answer}"),
        format!("<think>{{ [ \" ' `</think>{answer}"),
        format!("<think></think>\n\n{answer}\n</answer>\n</answer>"),
    ]);
    check(format!("<think>{draft}"), "reasoning_only");
    check(format!("{draft}<think>wait"), "reasoning_only");
    check(format!("<think>{draft}</think>"), "reasoning_only");
    // Words of the answer are not reasoning.
    let tagged = answer.replace("\"ra\"", "\"the <think> tag and </think>\"");
    check(&tagged, &TAKEN.replace("(ra)", "(the <think> tag and </think>)"));
    check(format!("```json\n{tagged}\n```"), &TAKEN.replace("(ra)", "(the <think> tag and </think>)"));
}

#[test]
fn wrappers() {
    let answer = answer();
    let inner = answer.strip_prefix("{\"evaluations\": ").expect("there").strip_suffix('}').expect("there");
    let item = inner.strip_prefix('[').expect("there").strip_suffix(']').expect("there");
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    all_taken([
        format!("[{answer}]"),
        format!("{{\"result\": {answer}}}"),
        format!("{{\"result\": {{\"data\": {answer}}}}}"),
        format!("<answer>\n{answer}\n</answer>"),
        format!("<tool_call>{answer}</tool_call>"),
        format!("<json>{answer}</json>"),
        inner.to_owned(),
        item.to_owned(),
        format!("{{\"evaluations\": {item}}}"),
        format!("{{\"results\": {inner}}}"),
        quoted(&answer),
        quoted(&quoted(&answer)),
        format!("{{\"evaluations\": {}}}", quoted(inner)),
        format!("{{\"output\": {}}}", quoted(&answer)),
        format!("```json\n{}\n```", quoted(&answer)),
        // The quotes are escaped, the string around them is not there.
        quoted(&answer).trim_matches('"').to_owned(),
        format!("Result: {}", quoted(&answer)),
        quoted(&answer.replace(' ', "\n")).trim_matches('"').to_owned(),
        answer.replace("\"evaluations\"", "\"Evaluations\""),
        answer.replace("\"evaluations\"", "\" EVALUATIONS \""),
        answer.replace("[{\"q", "[\\n  {\\n\"q"),
        answer.replace("]}]}", "], \"overall\": {\"x\": [1, null]}}], \"note\": \"n\"}"),
    ]);
    // Objects that say more than the wrapper are not opened: they may be calls of other tools, schemas, drafts.
    check(r#"{"tool": "read_file", "arguments": {"path": "taste.md"}}"#, "no_answer");
    check(format!(r#"{{"name": "simulate", "arguments": {answer}}}"#), "no_answer");
    check(r#"{"type": "object", "properties": {"evaluations": {"type": "array"}}}"#, "no_answer");
    check(format!(r#"{{"a": {{"b": {{"c": {{"d": {answer}}}}}}}}}"#), "no_answer");
    for reply in
        ["null", "[]", "{}", "42", "true", r#""x""#, "[1, 2]", r#"{"evaluations": null}"#, r#"{"evaluations": 3}"#]
    {
        check(reply, "no_answer");
    }
}

#[test]
fn several_answers() {
    let answer = answer();
    let item = |sequence: i64, list: &str| format!(r#"{{"query_sequence": {sequence}, "assessments": [{list}]}}"#);
    let whole = |sequence: i64, list: &str| format!(r#"{{"evaluations": [{}]}}"#, item(sequence, list));
    let both = "42: k-a helpful (ra); 57: k-m neutral (rm)";
    check(format!("{}\n{}", item(42, A), item(57, M)), both);
    check(format!("{},\n{}", item(42, A), item(57, M)), both);
    check(format!("{}\n\n{}", whole(42, A), whole(57, M)), both);
    check(format!("[{}, {}]", whole(42, A), whole(57, M)), both);
    check(format!("For 42:\n```json\n{}\n```\nFor 57:\n```json\n{}\n```", item(42, A), item(57, M)), both);
    // The later answer counts for the queries that it speaks of, as a whole.
    let draft = answer.replace("helpful", "neutral");
    check(format!("{draft}\nWait, corrected:\n{answer}"), TAKEN);
    check(format!("{draft}\nNo:\n{}", whole(42, B)), "42: k-b unused (rb)");
    // A later answer that cannot be read takes the earlier one back.
    check(format!("{draft}\nNo: {}", r#"{"evaluations": [{"query_sequence": 42, "assessments": "oops "#), "cut");
    check(
        format!(
            "{draft}\nNo: {}",
            r#"{"evaluations": [{"query_sequence": 42, "assessments": [{"source_id": "k-a" oops}"#
        ),
        "broken",
    );
    // A template takes nothing back, wherever it stands.
    for template in [
        r#"{"evaluations": [...]}"#,
        r#"{"evaluations": [{"query_sequence": <int>, "assessments": [{"source_id": <id>}]}]}"#,
        r#"{"evaluations": [{source_id, status, reason}]}"#,
        r#"{"evaluations": [{"query_sequence": 42, "assessments": [{"source_id": "k-a", "status": "harmful"}, …]}]}"#,
    ] {
        check(format!("Form: {template}\n{answer}"), TAKEN);
        check(format!("{answer}\nForm: {template}"), TAKEN);
    }
    // Pieces of an answer that broke are not taken for answers.
    check(format!(r#"{{"evaluations": [{{"query_sequence": 42, "assessments": ]}}, {}]}}"#, item(57, M)), "broken");
    // One answer that contradicts itself.
    check(whole(42, &format!("{A}, {B}, {}", A.replace("helpful", "harmful"))), "42: k-b unused (rb)");
    check(
        format!(r#"{{"evaluations": [{}, {}]}}"#, item(42, A), item(42, &A.replace("helpful", "unused"))),
        "nothing_accepted",
    );
    check(format!(r#"{{"evaluations": [{}, {}]}}"#, item(42, A), item(42, B)), "42: k-a helpful (ra), k-b unused (rb)");
    check(format!("{}\n{}", item(42, A), item(42, &A.replace("helpful", "unused"))), "nothing_accepted");
    check(whole(42, &format!("{A}, {A}")), "42: k-a helpful (ra)");
    // Keys that stand twice.
    check(r#"{"evaluations": [1], "evaluations": []}"#, "no_answer");
    check(whole(42, &A.replace("\"status\"", "\"status\": \"harmful\", \"status\"")), "nothing_accepted");
    check(whole(42, &A.replace("\"status\"", "\"status\": \"helpful\", \"status\"")), "42: k-a helpful (ra)");
}

#[test]
fn commas_and_comments() {
    let answer = answer();
    all_taken([
        answer.replace('}', ",}").replace(']', ",]"),
        answer.replace("}, {", "} {"),
        answer.replace("}, {", "}\n{"),
        answer.replace("\", \"", "\"\n\""),
        answer.replace("\", \"", "\" \""),
        answer.replace(", ", ",, "),
        answer.replace(", ", "， "),
        answer.replace("[{", "[, {"),
        answer.replace(", \"status\"", ", // why\n\"status\""),
        answer.replace(", \"status\"", ", # why\n\"status\""),
        answer.replace(", \"status\"", " /* {\"a\": [ */ , \"status\""),
        format!("/* {{ */ {answer} // end }}"),
        answer.replace("\"ra\"}", "\"ra\" // the first\n}"),
    ]);
    let text = r#"a, b,] {x,} // no /* comment */ # here, "#;
    check(answer.replace("ra", text).replace("}]", "},]"), &TAKEN.replace("ra", text));
}

#[test]
fn quotes() {
    let answer = answer();
    all_taken([
        answer.replace('"', "'"),
        answer.replace('"', "`"),
        answer.replace("\"", "“").replace("“:", "”:").replace("“,", "”,").replace("“}", "”}"),
        answer.replace('"', "”"),
        answer.replace('"', "＂"),
        answer
            .replace("{\"", "{「")
            .replace("\": ", "」: ")
            .replace(", \"", ", 「")
            .replace(": \"", ": 「")
            .replace("\",", "」,")
            .replace("\"}", "」}"),
        answer
            .replace("\"evaluations\"", "evaluations")
            .replace("\"source_id\"", "source_id")
            .replace("\"status\"", "status"),
        answer.replace("\"helpful\"", "helpful").replace("\"k-b\"", "k-b"),
        answer.replace("\"k-a\"", "'k-a'").replace("\"reason\"", "`reason`"),
        // One delimiter of another kind.
        answer.replace("\": ", "”: "),
        answer.replace("\": ", "“: "),
        answer.replace("\"ra\"", "“ra\""),
        answer.replace("\"ra\"", "\"ra”"),
    ]);
    let with = |reason: &str, expect: &str| {
        check(answer.replace("\"ra\"", reason), &TAKEN.replace("(ra)", &format!("({expect})")));
    };
    with(r#""say "hi" to it""#, r#"say "hi" to it"#);
    with(r#"""hi" it says""#, r#""hi" it says"#);
    with(r#""names "strength", "steps" and more""#, r#"names "strength", "steps" and more"#);
    with(r#""他说"好"，然后"走"了""#, r#"他说"好"，然后"走"了"#);
    with(r#""a “curly” one""#, "a “curly” one");
    with("'it's the agent's'", "it's the agent's");
    with(r#"'12"34" is the size'"#, r#"12"34" is the size"#);
    with(r#""it's""#, "it's");
    with("“他说“好”了”", "他说“好”了");
    // Where the string ends is not certain.
    for reason in [r#""a 5" pipe""#, r#""use {"a": "b"} now""#, r#""see "x"#, "ra"] {
        let reply = answer.replace("\"ra\"", reason);
        let got = taken(&reply);
        assert!(got == TAKEN || matches!(got.as_str(), "broken" | "cut" | "nothing_accepted"), "{reply} gave {got}");
    }
    check(answer.replace("\"rb\"}", "\"rb}"), "broken");
    check(answer.replace("\"rb\"}", "\"rb\n}"), "broken");
}

#[test]
fn full_width_and_literals() {
    let answer = answer();
    let wide = |text: &str| text.replace('{', "｛").replace('}', "｝").replace('[', "［").replace(']', "］");
    all_taken([
        wide(&answer),
        answer.replace(':', "："),
        wide(&answer).replace(':', "：").replace(", ", "，"),
        answer.replace("42", "４２"),
        answer.replace("42", "\"42\""),
        answer.replace("42", "\" 42 \""),
        answer.replace("42", "42.0"),
        answer.replace("42", "4.2e1"),
        answer.replace("]}]}", "]}], 'ok': True, 'x': None, 'y': undefined, 'z': NaN, 'w': -Infinity}"),
        answer.replace(": ", ":\u{a0}").replace(", ", ",\u{3000}\u{200b}"),
    ]);
    check(answer.replace("\"ra\"", "None"), &TAKEN.replace(" (ra)", ""));
    check(answer.replace("\"ra\"", "null"), &TAKEN.replace(" (ra)", ""));
    check(answer.replace(", \"reason\": \"ra\"", ""), &TAKEN.replace(" (ra)", ""));
    check(answer.replace("\"ra\"", "[\"x\", \"y\"]"), &TAKEN.replace("ra", "x; y"));
    check(answer.replace("\"ra\"", "{\"x\": [1.50, true]}"), &TAKEN.replace("ra", "{\"x\": [1.5, true]}"));
    check(answer.replace("\"ra\"", "5"), &TAKEN.replace("ra", "5"));
    for sequence in [
        "42.5",
        "-42",
        "043",
        "042",
        "0x2a",
        "4_2",
        "[42]",
        "true",
        "null",
        "\"seq 42\"",
        "\"#42\"",
        "\"42.0\"",
        "\"-42\"",
        "1e400",
        "184467440737095516160",
        "\"184467440737095516160\"",
        "NaN",
        "42abc",
        "4 2",
    ] {
        let got = taken(&answer.replace("42", sequence));
        assert!(matches!(got.as_str(), "nothing_accepted" | "broken"), "{sequence} gave {got}");
    }
}

#[test]
fn characters_and_escapes() {
    let with = |reason: &str, expect: &str| {
        check(answer().replace("\"ra\"", reason), &TAKEN.replace("(ra)", &format!("({expect})")));
    };
    with("\"one\ntwo\r\n\tthree\"", "one\ntwo\r\n\tthree");
    with("\"bell\u{7} nul\u{0}\"", "bell\u{7} nul\u{0}");
    with(r#""nul\u0000here""#, "nul\u{0}here");
    with(r#""\ud83c\udf78 \u6c49""#, "🍸 汉");
    with(r#""a\ud83cb""#, "a\u{fffd}b");
    with(r#""\udf78\ud83c""#, "\u{fffd}\u{fffd}");
    with(r#""\ud83c\u0041""#, "\u{fffd}A");
    with(r#""C:\data \_ \d+ \(x\)""#, r"C:\data \_ \d+ \(x\)");
    with(r#""it\'s""#, "it's");
    with(r#""\u12 \uzzzz""#, r"\u12 \uzzzz");
    with(r#""a\/b\\c\"d""#, r#"a/b\c"d"#);
    with(r#"'\x41\'\U0001F378'"#, "A'🍸");
    with("\"\u{2028}\u{85}é\u{301}\"", "\u{2028}\u{85}é\u{301}");
}

#[test]
fn truncation() {
    let two = format!(
        r#"{{"evaluations": [{{"query_sequence": 42, "assessments": [{A}]}}, {{"query_sequence": 57, "assessments": [{M}]}}]}}"#
    );
    let first = "42: k-a helpful (ra)";
    let after_first = two.find("}]}, {").expect("there") + 3;
    let last_list = two.rfind(']').expect("there") - 2;
    for end in 0..two.len() {
        let got = taken(&two[..end]);
        let expect = match end {
            0 => "empty",
            _ if end < after_first - 1 => "nothing",
            // The second list is complete, only what closes the objects is not there.
            _ if end > last_list => "42: k-a helpful (ra); 57: k-m neutral (rm)",
            _ => first,
        };
        match expect {
            "nothing" => assert!(
                matches!(got.as_str(), "no_json" | "no_answer" | "cut" | "broken"),
                "{} gave {got}",
                &two[..end]
            ),
            expect => assert_eq!(got, expect, "{}", &two[..end]),
        }
        if end > 0 {
            let fenced = format!("```json\n{}\n```", &two[..end]);
            let got = taken(&fenced);
            let is_less = got == expect || got == first || !got.contains(": ");
            assert!(is_less, "{fenced} gave {got}");
        }
    }
    check(&answer()[..answer().len() - 3], TAKEN);
    let repeated = format!(
        r#"{{"evaluations":[{{"query_sequence":42,"assessments":[{}{{"source_id":"k-"#,
        format!("{A},").repeat(400)
    );
    check(repeated, "cut");
}

#[test]
fn what_is_accepted() {
    let with = |from: &str, to: &str, expect: &str| check(answer().replace(from, to), expect);
    let without_a = "42: k-b unused (rb), k-c harmful (rc)";
    with("helpful", " HelpFul\\n", TAKEN);
    for status in [
        "\"very_helpful\"",
        "\"helpful|neutral\"",
        "\"helpful.\"",
        "\"有帮助\"",
        "\"\"",
        "5",
        "null",
        "true",
        "[\"helpful\"]",
        "{}",
        "\"not helpful\"",
        "\"ｈelpful\"",
        "\"helpful\", \"status\": \"unused\"",
    ] {
        with("\"helpful\"", status, without_a);
    }
    with("\"k-a\"", "\" `k-a` \"", TAKEN);
    with("\"k-a\"", "\"'k-a'\"", TAKEN);
    with("\"k-a\"", "\"\\\"k-a\\\"\"", TAKEN);
    for source in [
        "\"K-A\"",
        "\"k-m\"",
        "\"k-x\"",
        "\"k\"",
        "\"k-a (best)\"",
        "\"[k-a]\"",
        "\"source k-a\"",
        "null",
        "7",
        "[\"k-a\"]",
        "\"\"",
    ] {
        with("\"k-a\"", source, without_a);
    }
    with("42", "30", "nothing_accepted");
    with("42", "4242", "nothing_accepted");
    with("\"query_sequence\"", "\"querySequence\"", "nothing_accepted");
    with("\"assessments\"", "\"sources\"", "nothing_accepted");
    with("\"status\"", "\"Status\"", "nothing_accepted");
    check(r#"{"evaluations": [1, "x", null]}"#, "nothing_accepted");
    check(r#"{"evaluations": [{"query_sequence": 42, "assessments": {"k-a": "helpful"}}]}"#, "nothing_accepted");
    check(r#"{"evaluations": [{"query_sequence": 42, "assessments": []}]}"#, "nothing_accepted");
    check(r#"{"evaluations": {"42": {"k-a": "helpful"}}}"#, "no_answer");
    check(
        "evaluations:\n  - query_sequence: 42\n    assessments:\n      - source_id: k-a\n        status: helpful\n",
        "no_json",
    );
}

#[test]
fn what_is_dropped_is_reported() {
    let check = |reply: &str, expect: &[&str]| {
        let reading = read_evaluation(reply, &context()).expect(reply);
        let dropped: Vec<String> = reading.dropped.iter().map(ToString::to_string).collect();
        assert_eq!(dropped, expect, "{reply}");
    };
    check(&answer(), &[]);
    check(
        &answer().replace("k-b", "k-x").replace("harmful", "bad"),
        &[
            "query 42: \"k-x\" is none of its sources",
            "query 42, source k-c: \"bad\" is no status",
            "query 42, source k-b: not assessed, stays pending",
            "query 42, source k-c: not assessed, stays pending",
        ],
    );
    check(
        &format!(r#"{{"evaluations": [{{"query_sequence": 57, "assessments": [{M}]}}, {{"query_sequence": 42, "asse"#),
        &[
            "the reply is cut off at byte 145",
            "item 1 was cut off; it is dropped, never completed",
            "query 57, source k-n: not assessed, stays pending",
        ],
    );
    let repairs = |reply: &str| -> Vec<String> {
        let reading = read_evaluation(reply, &context()).expect(reply);
        reading.repairs.iter().map(|repair| serde_json::to_string(repair).expect("JSON")).collect()
    };
    assert_eq!(repairs(&answer()), [""; 0]);
    assert_eq!(
        repairs(&answer().replace("},", "} ").replace("\"ra\"", "None")),
        [r#"{"kind":"comma","count":2,"first_at":115}"#, r#"{"kind":"literal","count":1,"first_at":108}"#]
    );
}
