//! JSON text as Python reads and writes it, checked against frozen Python output and a live `python3`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use cognilog_core::json::{
    DEPTH_MAX, Indent, JsonErrorKind, JsonStyle, Node, TokenKind, Tokens, compact, detect, equal, escape_non_ascii,
    python_float, write_value,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

fn parse(text: &str) -> Node<'_> {
    Node::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn reprint(text: &str, style: &JsonStyle) -> String {
    let mut out = style.leading.clone();
    write_value(&mut out, &compact(text).unwrap(), style, 0).unwrap();
    out + &style.trailing
}

#[test]
fn accepts_what_python_accepts() {
    let check = |text: &str, compacted: &str| {
        assert_eq!(compact(text).as_deref(), Ok(compacted), "{text:?}");
        parse(text);
    };
    check("NaN", "NaN");
    check(" [Infinity ,\t-Infinity\r\n] ", "[Infinity,-Infinity]");
    check(r#""\ud800""#, r#""\ud800""#);
    check(r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#);
    check("[1e400, -1E+400, 18446744073709551616]", "[1e400,-1E+400,18446744073709551616]");
    check("-0", "-0");
    check("-0.0e-0", "-0.0e-0");
    check(r#""\"\\\/\b\f\n\r\t\u00Af""#, r#""\"\\\/\b\f\n\r\t\u00Af""#);
    check("\"\u{7f}\u{85}\u{2028}\"", "\"\u{7f}\u{85}\u{2028}\"");
    check("{ }", "{}");
    check("[ [ ] , { } ]", "[[],{}]");
    check("{\"\": null}", "{\"\":null}");
    check("\u{feff} true", "true");
}

#[test]
fn refuses_with_the_exact_place() {
    let check = |text: &str, message: &str| {
        let error = Node::parse(text).unwrap_err();
        assert_eq!(error.to_string(), message, "{text:?}");
        assert_eq!(compact(text), Err(error), "{text:?}");
        assert_eq!(detect(text), Err(error), "{text:?}");
        assert!(!error.is_truncated(), "{text:?}");
    };
    check("[1,\n\n  2 3]", "line 3, column 5: expected ',' or ']'");
    check("{\"é\": 1 \"b\"}", "line 1, column 9: expected ',' or '}'");
    check("[1,]", "line 1, column 4: expected a value");
    check("[,1]", "line 1, column 2: expected a value or ']'");
    check("{\"a\":1,}", "line 1, column 8: expected a string key");
    check("{a:1}", "line 1, column 2: expected a string key or '}'");
    check("{1:1}", "line 1, column 2: expected a string key or '}'");
    check("{\"a\" 1}", "line 1, column 6: expected ':'");
    check("{\"a\":}", "line 1, column 6: expected a value");
    check("[1}", "line 1, column 3: expected ',' or ']'");
    check("]", "line 1, column 1: expected a value");
    check("01", "line 1, column 2: the value has ended, but more text follows");
    check("[01]", "line 1, column 3: expected ',' or ']'");
    check("[-]", "line 1, column 3: expected a digit");
    check("[1.]", "line 1, column 4: expected a digit");
    check("[.5]", "line 1, column 2: expected a value or ']'");
    check("[1e+]", "line 1, column 5: expected a digit");
    check("[+1]", "line 1, column 2: expected a value or ']'");
    check("-NaN", "line 1, column 2: expected a digit");
    check("[-Inf]", "line 1, column 2: expected a value or ']'");
    check("True", "line 1, column 1: expected a value");
    check("nulL", "line 1, column 1: expected a value");
    check("truely", "line 1, column 5: the value has ended, but more text follows");
    check("{} {}", "line 1, column 4: the value has ended, but more text follows");
    check("'a'", "line 1, column 1: expected a value");
    check("1\u{a0}", "line 1, column 2: the value has ended, but more text follows");
    check("\u{c}1", "line 1, column 1: expected a value");
    check("\u{feff}\u{feff}1", "line 1, column 2: expected a value");
    check("[\"a\nb\"]", "line 1, column 4: control character U+000A must be escaped inside a string");
    check("\"\0\"", "line 1, column 2: control character U+0000 must be escaped inside a string");
    check("\"\\x41\"", "line 1, column 2: invalid escape inside a string");
    check("\"\\u12g4\"", "line 1, column 2: invalid escape inside a string");
    check("\"\\u+123\"", "line 1, column 2: invalid escape inside a string");
    check("\"\\U0041\"", "line 1, column 2: invalid escape inside a string");
    check("// a\n1", "line 1, column 1: expected a value");
}

#[test]
fn a_failed_stream_stays_ended() {
    let mut tokens = Tokens::new("[1 2]");
    let count = tokens.by_ref().count();
    assert_eq!(count, 3);
    assert_eq!(tokens.next(), None);
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let deepest = nested(DEPTH_MAX);
    let node = parse(&deepest);
    assert!(equal(&node, &node.clone()));
    assert!(!node.has_non_finite());
    assert_eq!(compact(&deepest).as_deref(), Ok(deepest.as_str()));

    let check = |text: &str, offset: usize| {
        let error = Node::parse(text).unwrap_err();
        assert_eq!((error.kind, error.offset), (JsonErrorKind::TooDeep, offset));
        assert!(!error.is_truncated());
    };
    check(&nested(DEPTH_MAX + 1), DEPTH_MAX);
    check(&"[".repeat(1_000_000), DEPTH_MAX);
    check(&"{\"\":".repeat(1_000_000), DEPTH_MAX * 4);
    let siblings = format!("[{}[]]", "[],".repeat(DEPTH_MAX * 2));
    assert!(Node::parse(&siblings).is_ok());
}

#[test]
fn every_prefix_of_a_document_is_truncated() {
    let document = "\n{\"a\\u00e9\\ud83d\\ude00\\n\": [1, -2.5e-3, 0, NaN, Infinity, -Infinity],\
                    \"é\": {\"t\": true, \"f\": false, \"n\": null, \"e\": [], \"o\": {}}}";
    assert!(Node::parse(document).is_ok());
    for (end, _) in document.char_indices() {
        let error = Node::parse(&document[..end]).unwrap_err();
        assert!(error.is_truncated(), "{:?}: {error}", &document[..end]);
        assert_eq!(error.offset, end);
    }
    let check = |text: &str, message: &str| {
        assert_eq!(Node::parse(text).unwrap_err().to_string(), message);
    };
    check("", "line 1, column 1: the text ends where a value was expected");
    check("[1,\n 2", "line 2, column 3: the text ends where ',' or ']' was expected");
    check("[tr", "line 1, column 4: the text ends where true was expected");
}

#[test]
fn strings_are_unescaped() {
    let check = |text: &str, content: &str, lone: bool| {
        let node = parse(text);
        assert_eq!(node.as_text(), Some(content), "{text}");
        assert_eq!(node.has_lone_surrogate(text), lone, "{text}");
    };
    check(r#""plain é""#, "plain é", false);
    check(r#""\"\\\/\b\f\n\r\t\u00Af\u0000""#, "\"\\/\u{8}\u{c}\n\r\t\u{af}\0", false);
    check(r#""\ud83d\ude00!""#, "😀!", false);
    check(r#""\ud83d""#, "\u{fffd}", true);
    check(r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}", true);
    check(r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀", true);
    check(r#""\ud83d\n\ude00""#, "\u{fffd}\n\u{fffd}", true);
    check(r#""\ud83dA""#, "\u{fffd}A", true);
    check(r#""\ud83d\u0041""#, "\u{fffd}A", true);
    // An escaped backslash before `ud800` makes it plain text.
    check(r#""\\ud800""#, "\\ud800", false);

    let text = r#"[{"\udfff": 1}, "a"]"#;
    let node = parse(text);
    assert!(node.has_lone_surrogate(text));
    assert!(!node.as_list().unwrap()[1].has_lone_surrogate(text));
}

#[test]
fn integers() {
    let check = |text: &str, integer: Option<i64>| {
        assert_eq!(parse(text).as_integer(), integer, "{text}");
    };
    check("42", Some(42));
    check("-0", Some(0));
    check("42.0", Some(42));
    check("4.2e1", Some(42));
    check("-4200E-2", Some(-42));
    check("9223372036854775807", Some(i64::MAX));
    check("-9223372036854775808", Some(i64::MIN));
    check("9223372036854775808", None);
    check("9007199254740992.0", Some(1 << 53));
    check("9007199254740994.0", None);
    check("1e400", None);
    check("42.5", None);
    check("NaN", None);
    check("-Infinity", None);
    check("true", None);
    check("\"42\"", None);
    check("null", None);
}

#[test]
fn navigation() {
    let text = " {\"a\": 1, \"b\": [true, null, \"x\"], \"\\u0061\": 2.50} ";
    let node = parse(text);
    assert_eq!(node.raw(text), text.trim());
    assert_eq!(node.get("a").map(|node| node.raw(text)), Some("2.50"));
    assert_eq!(node.as_object().unwrap().len(), 3);
    assert!(node.get("c").is_none());
    assert!(node.as_list().is_none() && node.as_bool().is_none() && node.as_text().is_none());
    let list = node.get("b").unwrap();
    assert!(list.get("a").is_none());
    assert_eq!(list.raw(text), "[true, null, \"x\"]");
    let items = list.as_list().unwrap();
    assert_eq!(items[0].as_bool(), Some(true));
    assert!(items[1].is_null());
    assert_eq!(items[2].raw(text), "\"x\"");
    assert_eq!(items[2].raw(""), "");

    let check = |text: &str, name: &str| assert_eq!(parse(text).type_name(), name);
    check("null", "null");
    check("false", "a boolean");
    check("NaN", "a number");
    check("\"\"", "a string");
    check("[]", "a list");
    check("{}", "an object");
}

#[test]
fn non_finite_numbers_are_found() {
    let check = |text: &str, found: bool| assert_eq!(parse(text).has_non_finite(), found, "{text}");
    check("NaN", true);
    check("{\"a\": [[], {\"b\": -Infinity}]}", true);
    check("[Infinity]", true);
    check("[1e400, \"NaN\", {\"Infinity\": 1}]", false);
}

#[test]
fn equality() {
    let check = |a: &str, b: &str, same: bool| {
        assert_eq!(equal(&parse(a), &parse(b)), same, "{a} {b}");
        assert_eq!(equal(&parse(b), &parse(a)), same, "{b} {a}");
    };
    check("[1, \"a\"]", "[ 1,\"\\u0061\" ]", true);
    check("1", "1.0", false);
    check("1", "true", false);
    check("NaN", "NaN", true);
    check("{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", true);
    check("{\"a\":0,\"a\":1}", "{\"a\":1}", true);
    check("{\"a\":1,\"a\":0}", "{\"a\":1}", false);
    check("{\"a\":1,\"a\":1}", "{\"a\":1,\"b\":1}", false);
    check("{\"a\":null}", "{}", false);
    check("[1,2]", "[2,1]", false);
    check("[1]", "[1,2]", false);
    check("[]", "{}", false);
}

#[test]
fn tokens_tell_keys_and_depth() {
    let text = "{\"a\":[\"b\"]}";
    let tokens: Vec<_> =
        Tokens::new(text).map(|token| token.unwrap()).map(|token| (token.kind, token.text, token.depth)).collect();
    use TokenKind::{Colon, Key, ListClose, ListOpen, ObjectClose, ObjectOpen, Text};
    assert_eq!(
        tokens,
        [
            (ObjectOpen, "{", 0),
            (Key, "\"a\"", 1),
            (Colon, ":", 1),
            (ListOpen, "[", 1),
            (Text, "\"b\"", 2),
            (ListClose, "]", 1),
            (ObjectClose, "}", 0),
        ]
    );
}

#[test]
fn non_ascii_is_escaped_as_python_does() {
    let check = |text: &str, escaped: &str| {
        assert_eq!(escape_non_ascii(text), escaped);
        assert_eq!(escape_non_ascii(escaped), escaped);
    };
    check("[\"a~é\u{7f}☃😀\"]", r#"["a~\u00e9\u007f\u2603\ud83d\ude00"]"#);
    check(r#"{"\u00E9\n":1}"#, r#"{"\u00E9\n":1}"#);
    check("\"\u{ffff}\u{10ffff}\"", r#""\uffff\udbff\udfff""#);
}

/// Printed by CPython 3.11.
#[test]
fn floats_as_python_prints_them() {
    let check = |float: f64, text: &str| assert_eq!(python_float(float), text);
    check(1.0, "1.0");
    check(0.0, "0.0");
    check(-0.0, "-0.0");
    check(100.0, "100.0");
    check(0.1, "0.1");
    check(1e15, "1000000000000000.0");
    check(9_999_999_999_999_998.0, "9999999999999998.0");
    check(1e16, "1e+16");
    check(1.5e16, "1.5e+16");
    check(123_456_789_012_345_680.0, "1.2345678901234568e+17");
    check(0.0001, "0.0001");
    check(0.000_123_45, "0.00012345");
    check(0.00001, "1e-05");
    check(1.5e-7, "1.5e-07");
    check(-1.25e-10, "-1.25e-10");
    check(1e22, "1e+22");
    check(1e23, "1e+23");
    check(1e100, "1e+100");
    // Exactly between …45.2 and …45.3: the even digit wins.
    check(1_431_376_004_213_845.0 + 0.25, "1431376004213845.2");
    check(5e-324, "5e-324");
    check(2.225_073_858_507_201_4e-308, "2.2250738585072014e-308");
    check(f64::MAX, "1.7976931348623157e+308");
    check(2f64.powi(-44), "5.684341886080802e-14");
    check(f64::NAN, "NaN");
    check(f64::INFINITY, "Infinity");
    check(f64::NEG_INFINITY, "-Infinity");
}

/// `json.dumps` of CPython 3.11 for one object, in the style named by the first three columns.
#[test]
fn frozen_python_dumps_are_detected_and_reprinted() {
    let style = |indent, item: &str, key: &str, ensure_ascii| JsonStyle {
        item_separator: item.to_owned(),
        key_separator: key.to_owned(),
        ensure_ascii,
        ..JsonStyle::python(indent)
    };
    let check = |expected: JsonStyle, dump: &str| {
        assert_eq!(detect(dump).as_ref(), Ok(&expected), "{dump}");
        assert_eq!(reprint(dump, &expected), dump);
        for (leading, trailing) in [("", "\n"), ("\u{feff}", "\r\n"), ("\n ", " \n\n")] {
            let file = format!("{leading}{dump}{trailing}");
            let found = detect(&file).unwrap();
            assert_eq!((found.leading.as_str(), found.trailing.as_str()), (leading, trailing));
            assert_eq!(reprint(&file, &found), file);
        }
    };
    let spaces = Indent::Spaces;
    check(style(Indent::None, ", ", ": ", Some(true)), r#"{"k\u00e9\u007f": [1, {}, []], "o": {"t": "\u0001\n"}}"#);
    check(style(Indent::None, ", ", ": ", Some(false)), "{\"ké\u{7f}\": [1, {}, []], \"o\": {\"t\": \"\\u0001\\n\"}}");
    check(style(Indent::None, ",", ":", Some(true)), r#"{"k\u00e9\u007f":[1,{},[]],"o":{"t":"\u0001\n"}}"#);
    check(
        style(spaces(0), ",", ": ", Some(true)),
        "{\n\"k\\u00e9\\u007f\": [\n1,\n{},\n[]\n],\n\"o\": {\n\"t\": \"\\u0001\\n\"\n}\n}",
    );
    check(
        style(spaces(1), ",", ":", Some(true)),
        "{\n \"k\\u00e9\\u007f\":[\n  1,\n  {},\n  []\n ],\n \"o\":{\n  \"t\":\"\\u0001\\n\"\n }\n}",
    );
    check(
        style(spaces(2), ",", ": ", Some(false)),
        "{\n  \"ké\u{7f}\": [\n    1,\n    {},\n    []\n  ],\n  \"o\": {\n    \"t\": \"\\u0001\\n\"\n  }\n}",
    );
    check(
        style(spaces(2), ", ", ": ", None),
        "{\n  \"k\": [\n    1, \n    {}, \n    []\n  ], \n  \"o\": {\n    \"t\": \"\\u0001\\n\"\n  }\n}",
    );
    check(
        style(Indent::Tab, ",", ": ", None),
        "{\n\t\"k\": [\n\t\t1,\n\t\t{},\n\t\t[]\n\t],\n\t\"o\": {\n\t\t\"t\": \"\\u0001\\n\"\n\t}\n}",
    );
}

#[test]
fn styles_with_little_evidence() {
    let check = |text: &str, indent, item: &str, key: &str, ensure_ascii| {
        let found = detect(text).unwrap();
        assert_eq!(found.indent, indent, "{text:?}");
        assert_eq!(found.item_separator, item, "{text:?}");
        assert_eq!(found.key_separator, key, "{text:?}");
        assert_eq!(found.ensure_ascii, ensure_ascii, "{text:?}");
        found
    };
    check("{}", Indent::None, ", ", ": ", None);
    check("[\n]", Indent::None, ", ", ": ", None);
    check("3", Indent::None, ", ", ": ", None);
    check("[1]", Indent::None, ", ", ": ", None);
    check("[1,2]", Indent::None, ",", ":", None);
    check("[{\"a\":2}]", Indent::None, ",", ":", None);
    check("[\n  1,\n  2\n]", Indent::Spaces(2), ",", ": ", None);
    check("[\n  {}\n]", Indent::Spaces(2), ",", ": ", None);
    check("[\r\n  1,\r\n  2\r\n]", Indent::Spaces(2), ",", ": ", None);
    check("{\n  \"a\": [1, 2],\n  \"b\": 3\n}", Indent::Spaces(2), ",", ": ", None);
    check("[1,\n 2]", Indent::None, ",\n ", ": ", None);
    check(r#"["\u001f\u0041\n\/"]"#, Indent::None, ", ", ": ", None);
    check(r#"["\u007f"]"#, Indent::None, ", ", ": ", Some(true));
    check("[\"\u{7f}\"]", Indent::None, ", ", ": ", Some(false));
    check(r#"["\ud800"]"#, Indent::None, ", ", ": ", Some(true));
    check(r#"["\\u00e9"]"#, Indent::None, ", ", ": ", None);
    check("{\"\\u00e9\": \"é\"}", Indent::None, ", ", ": ", Some(false));

    let escaping = detect(r#"["\u00e9"]"#).unwrap();
    assert!(escaping.escapes_non_ascii());
    assert!(!JsonStyle::python(Indent::Tab).escapes_non_ascii());
}

#[test]
fn values_are_printed_at_a_depth() {
    let check = |text: &str, indent, depth, printed: &str| {
        let mut out = "x".to_owned();
        write_value(&mut out, text, &JsonStyle::python(indent), depth).unwrap();
        assert_eq!(out, format!("x{printed}"));
    };
    check("[1,{\"é\":[ ]}]", Indent::Spaces(2), 1, "[\n    1,\n    {\n      \"é\": []\n    }\n  ]");
    check("[1]", Indent::Tab, 2, "[\n\t\t\t1\n\t\t]");
    check("[1]", Indent::Spaces(0), 2, "[\n1\n]");
    check("[1,2]", Indent::None, 5, "[1, 2]");
    check("{}", Indent::Spaces(4), 3, "{}");
    check("1.50", Indent::Spaces(4), 3, "1.50");

    let mut out = "x".to_owned();
    let style = JsonStyle::python(Indent::Spaces(2));
    assert!(write_value(&mut out, "[1, 2", &style, 0).is_err());
    assert_eq!(out, "x", "a failed print leaves nothing behind");
}

#[test]
fn styles_are_kept_as_json() {
    let style = detect("[\n  1\n]\n").unwrap();
    let text = serde_json::to_string(&style).unwrap();
    assert_eq!(
        text,
        r#"{"indent":{"spaces":2},"item_separator":",","key_separator":": ","ensure_ascii":null,"leading":"","trailing":"\n"}"#
    );
    assert_eq!(serde_json::from_str::<JsonStyle>(&text).unwrap(), style);
}

/// Runs `script` with a temporary file of `input` as its argument; `None` when there is no `python3`.
fn python(name: &str, script: &str, input: &str) -> Option<String> {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: no python3 on PATH");
        return None;
    }
    let process = std::process::id();
    let path: PathBuf = std::env::temp_dir().join(format!("cognilog-json-{name}-{process}"));
    std::fs::write(&path, input).unwrap();
    let output = Command::new("python3").args(["-c", script]).arg(&path).output();
    std::fs::remove_file(&path).unwrap();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// White space that the grammar allows between tokens, without line breaks: the input has one document a line.
fn gap() -> impl Strategy<Value = &'static str> + Clone {
    prop_oneof![4 => Just(""), 1 => Just(" "), 1 => Just("\t "), 1 => Just("\r")]
}

fn string_token() -> impl Strategy<Value = String> + Clone {
    let piece = prop_oneof![
        6 => "[ -!#-\\[\\]-~]{0,6}",
        1 => any::<char>()
            .prop_filter("must be escaped", |c| *c >= ' ' && *c != '"' && *c != '\\')
            .prop_map(String::from),
        1 => prop::sample::select(vec![
            "é", "😀", "\u{7f}", "\u{2028}", r#"\""#, r"\\", r"\/", r"\b", r"\f", r"\n", r"\r", r"\t",
            r"\u0041", r"\u00E9", r"\u001f", r"\u007F", r"\ud83d\ude00", r"\\ud800", "NaN",
        ])
        .prop_map(String::from),
        1 => any::<u16>().prop_map(|unit| format!("\\u{unit:04x}")),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn document() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        3 => string_token(),
        2 => any::<i64>().prop_map(|integer| integer.to_string()),
        2 => any::<f64>().prop_map(python_float),
        2 => prop::sample::select(vec![
            "null", "true", "false", "NaN", "Infinity", "-Infinity", "0", "-0", "-0.0", "1e400", "[]", "{}",
            "1.50", "1E5", "4.2e-7", "18446744073709551616", "123456789012345678901234567890",
        ])
        .prop_map(String::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        let item = (gap(), inner, gap());
        let list = prop::collection::vec(item.clone(), 0..6).prop_map(|items| {
            let items: Vec<_> = items.iter().map(|(a, item, b)| format!("{a}{item}{b}")).collect();
            format!("[{}]", items.join(","))
        });
        let object = prop::collection::vec((gap(), string_token(), item), 0..6).prop_map(|members| {
            let members: Vec<_> =
                members.iter().map(|(before, key, (a, item, b))| format!("{before}{key}{a}:{b}{item}")).collect();
            format!("{{{}}}", members.join(","))
        });
        prop_oneof![list, object]
    })
}

/// A damaged document: one character taken out, doubled or replaced, or the end cut off.
fn damaged(document: &str, choice: u8, place: usize) -> String {
    let mut characters: Vec<char> = document.chars().collect();
    let at = place % characters.len();
    match choice % 4 {
        0 => drop(characters.remove(at)),
        1 => characters.insert(at, characters[at]),
        2 => {
            let others = ['"', '\\', ',', ':', '[', '}', '0', '-', '.', 'e', 'u', '\u{1}', '\u{a0}', ' '];
            characters[at] = others[place / 7 % others.len()];
        }
        _ => characters.truncate(at),
    }
    characters.into_iter().collect()
}

const DUMP_SCRIPT: &str = r#"
import json, sys
def loads(text):
    try:
        json.loads(text)
        return True
    except ValueError:
        return False
out = []
for line in open(sys.argv[1], encoding="utf-8", newline="\n").read().split("\n"):
    document, wrong, indent, tight, ensure_ascii = json.loads(line)
    value = json.loads(document)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        ensure_ascii = True
    separators = (",", ":") if tight else None
    dump = json.dumps(value, indent=indent, separators=separators, ensure_ascii=ensure_ascii)
    short = json.dumps(value, separators=(",", ":"), ensure_ascii=ensure_ascii)
    ascii = json.dumps(value, separators=(",", ":"), ensure_ascii=True)
    out.append([dump, short, ascii, ensure_ascii, loads(wrong)])
json.dump(out, sys.stdout)
"#;

#[test]
fn python_dumps_are_reprinted_byte_for_byte() {
    let strategy = (document(), any::<u8>(), any::<usize>(), 0..11u8, any::<bool>(), any::<bool>());
    let mut runner = TestRunner::default();
    let mut cases = Vec::new();
    let mut input = String::new();
    for _ in 0..1_000 {
        let (text, choice, place, indent, tight, ensure_ascii) = strategy.new_tree(&mut runner).unwrap().current();
        let wrong = damaged(&text, choice, place);
        let (indent, argument) = match indent {
            10 => (Indent::None, serde_json::Value::Null),
            9 => (Indent::Tab, "\t".into()),
            width => (Indent::Spaces(width), width.into()),
        };
        let line = serde_json::json!([text, wrong, argument, tight, ensure_ascii]);
        if !input.is_empty() {
            input.push('\n');
        }
        write!(input, "{line}").unwrap();
        cases.push((text, wrong, indent, tight));
    }
    let Some(output) = python("dumps", DUMP_SCRIPT, &input) else {
        return;
    };
    let dumps: Vec<(String, String, String, bool, bool)> = serde_json::from_str(&output).unwrap();
    assert_eq!(dumps.len(), cases.len());
    for ((text, wrong, indent, tight), (dump, short, ascii, ensure_ascii, loads)) in cases.iter().zip(&dumps) {
        check_document(text, dump, short, ascii);
        let style = detect(dump).unwrap();
        if style.indent != Indent::None || dump.contains('\n') {
            assert_eq!(style.indent, *indent, "{dump}");
        }
        if *tight && has_member(short) {
            assert_eq!((style.item_separator.as_str(), style.key_separator.as_str()), (",", ":"), "{dump}");
        }
        assert!(style.ensure_ascii.is_none_or(|found| found == *ensure_ascii), "{dump}");
        assert_eq!(style.ensure_ascii.is_none(), is_plain(ascii), "{dump}");
        assert_eq!(Node::parse(wrong).is_ok(), *loads, "{wrong:?}");
    }
}

fn check_document(text: &str, dump: &str, short: &str, ascii: &str) {
    let node = parse(text);
    assert_eq!(node.raw(text), text);
    assert_eq!(node.has_lone_surrogate(text), lone(text), "{text}");
    assert!(equal(&node, &parse(&compact(text).unwrap())), "{text}");
    assert_eq!(compact(dump).as_deref(), Ok(short));
    assert_eq!(escape_non_ascii(short), ascii);
    assert_eq!(reprint(dump, &detect(dump).unwrap()), dump);
    assert!(equal(&parse(short), &parse(ascii)), "{short}");
}

fn has_member(text: &str) -> bool {
    Tokens::new(text).any(|token| token.is_ok_and(|token| token.kind == TokenKind::Colon))
}

/// Whether UTF-16 decoding of a document's strings fails, found another way than by the module's pieces.
fn lone(text: &str) -> bool {
    let doubled = text.replace(r"\\", "");
    let mut units: Vec<u16> = Vec::new();
    for (index, part) in doubled.split(r"\u").enumerate() {
        let part = if index == 0 {
            part
        } else {
            units.push(u16::from_str_radix(&part[..4], 16).unwrap());
            &part[4..]
        };
        units.extend(part.encode_utf16());
    }
    char::decode_utf16(units).any(|decoded| decoded.is_err())
}

/// Whether Python's ASCII form of a document shows no escape from U+007F on.
fn is_plain(ascii: &str) -> bool {
    let singles = ascii.replace(r"\\", "");
    singles.split(r"\u").skip(1).all(|part| &part[..4] < "007f")
}

const FLOAT_SCRIPT: &str = r#"
import json, struct, sys
for line in open(sys.argv[1]):
    value = struct.unpack("<d", struct.pack("<Q", int(line)))[0]
    print(json.dumps(value))
"#;

#[test]
fn floats_match_a_live_python() {
    let mut runner = TestRunner::default();
    let any_bits = any::<u64>();
    // Random bit patterns rarely fall where the notation changes, so a second set is moved there.
    let mut floats: Vec<f64> =
        (0..2_000).map(|_| f64::from_bits(any_bits.new_tree(&mut runner).unwrap().current())).collect();
    let mantissas: Vec<u64> = floats.iter().map(|float| float.to_bits() >> 12).collect();
    for (index, mantissa) in (0..).zip(mantissas) {
        let exponent: u64 = 1023 - 20 + index % 80;
        floats.push(f64::from_bits(exponent << 52 | mantissa));
    }
    floats.extend((-1074..1024).map(|power| 2f64.powi(power)));
    floats.extend((-323..309).map(|power| format!("1e{power}").parse::<f64>().unwrap()));
    let input: String = floats.iter().map(|float| format!("{}\n", float.to_bits())).collect();
    let Some(output) = python("floats", FLOAT_SCRIPT, &input) else {
        return;
    };
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines.len(), floats.len());
    for (float, line) in floats.iter().zip(lines) {
        assert_eq!(python_float(*float), line, "bits {:x}", float.to_bits());
    }
}
