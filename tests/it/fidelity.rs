//! Import and export again: equal JSON always, and identical bytes for every style of Python's `json.dump`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use cognilog::json::{Node, equal};

use crate::common::{Bench, Random, cases, file, is_soak, options};

/// Files of the property test in its short and its long form.
const FILES: usize = 5_000;
const FILES_SOAK: usize = 50_000;

/// The bytes come back at once, and after a second import that adds nothing.
fn check_bytes(bench: &Bench, trace: &str, text: &str) {
    let report = bench.import(trace, text);
    assert!(!report.is_failure(), "{report:?}\n{text}");
    let trace = report.trace_id.clone().unwrap();
    assert_eq!(bench.export(&trace), text, "{report:?}");
    let head = bench.head();
    let path = report.path;
    let again = bench.engine.import_file(&path, &options()).unwrap();
    assert_eq!((again.added, again.amended, bench.head()), (0, 0, head), "{again:?}\n{text}");
}

/// Whole files in separators without white space, which is a style of Python's.
#[test]
fn what_a_file_says_comes_back() {
    let bench = Bench::new();
    let query = r#"{"type":"query","sequence":4,"query":"q","source_ids":["a"],"sources":[]}"#;
    let events = [
        r#"{"type":"from_the_future","sequence":1,"x":{"y":[1,2,{}]}}"#,
        r#"{"type":"query","sequence":4,"query":"q","source_ids":["a"],"sources":[],"extra":{"b":1,"a":2}}"#,
        r#"{"sequence":4,"source_ids":["a"],"sources":[],"query":"q","type":"query"}"#,
        r#"{"type":"query","sequence":1.0,"query":"q","source_ids":[],"sources":[]}"#,
        r#"{"type":"query","sequence":1,"query":"q","source_ids":[],"sources":[],"score":1e16}"#,
        r#"{"type":"query","sequence":1,"query":"q","source_ids":[],"sources":[],"score":1e-05}"#,
        r#"{"type":"query","sequence":9007199254740993,"query":"q","source_ids":[],"sources":[]}"#,
        r#"{"type":"query","sequence":18446744073709551616,"query":"q","source_ids":[],"sources":[]}"#,
        r#"{"type":"x","a":[1e400,-1e400,NaN,Infinity,-Infinity,-0,-0.0,0.1,1E5,1e+05,123456789012345678901234567890]}"#,
        r#"{"type":"query","query":"first","query":"q","sequence":4,"source_ids":[],"sources":[]}"#,
        r#"{"type":"query","sequence":7,"query":"no time","source_ids":["a","b"],"sources":[]}"#,
        r#"{"type":"query","sequence":3,"query":"unsorted","source_ids":["a","b"],"sources":[]}"#,
        r#"{"type":"query","sequence":3,"query":"same sequence","source_ids":["a","b"],"sources":[]}"#,
        r#"{"type":"query","sequence":null,"goal_id":null,"query":"q","response":null,"source_ids":[],"sources":null,"timestamp":null}"#,
        r#"{"type":"query","sequence":5,"query":"\"\\\/\b\f\n\r\t\u0000\u001f\u007f\u00e9\ud83d\ude00\ud800","source_ids":[],"sources":[]}"#,
        r#"{"type":"query","sequence":5,"query":"é😀  \u0085","source_ids":[],"sources":[]}"#,
        r#"{"type":"query"}"#,
        r#"{"type":"query","query":5,"sequence":"4","source_ids":"a"}"#,
        r#"{"type":7,"sequence":{}}"#,
        r#"{"type":null}"#,
        "{}",
        "[]",
        "null",
        "true",
        "1.0",
        "\"text\"",
        "[[[[1]]]]",
        r#"{"type":"message","sequence":9,"role":"user","content":"hi"}"#,
        r#"{"type":"trace_started","task":"t"}"#,
        r#"{"type":"trace_finished","status":"completed"}"#,
        r#"{"type":"event_amended","position":1,"text":"{}"}"#,
        r#"{"type":"event_amended","sequence":1,"position":2,"text":"{\"type\":\"query\"}","timestamp":"t"}"#,
        r#"{"type":"json_file_style","style":"x","frame_before":"{","frame_after":"}","list_key":"events"}"#,
        r#"{"type":"unknown"}"#,
        r#"{"type":"evaluation","sequence":66,"query_sequence":4,"trigger":"goal_completion","assessments":[{"source_id":"a","status":"helpful","reason":"r"}],"timestamp":"2026-03-20T10:05:00"}"#,
        r#"{"type":"extraction","sequence":130,"trigger":"compression","items":[{"knowledge_id":"k","type":"tool","task":"t","content":"c"}],"timestamp":"t"}"#,
        r#"{"type":"reflection","sequence":9,"reflected_range":[1,9],"summary":"s","timestamp":"t"}"#,
    ];
    // Each by itself, each behind another, and all in one file.
    for (index, event) in events.iter().enumerate() {
        check_bytes(&bench, &format!("one-{index}"), &file(&format!("one-{index}"), &[event]));
        check_bytes(&bench, &format!("two-{index}"), &file(&format!("two-{index}"), &[query, event, event]));
    }
    check_bytes(&bench, "all", &file("all", &events));
    let reversed: Vec<&str> = events.iter().rev().copied().collect();
    check_bytes(&bench, "reversed", &file("reversed", &reversed));
}

/// What a trace carries in one form first is kept in the other where a file has both.
#[test]
fn forms_of_a_file_are_its_own() {
    let bench = Bench::new();
    let forms = [
        r#"{"type":"extraction_pending","sequence":1,"extraction_id":"e1","types":["tool"],"task":"t","content":"flat"}"#,
        r#"{"type":"extraction_pending","sequence":1,"extraction_id":"e2","branch_id":"b","item":{"types":["tool"],"task":"t","content":"nested","score":4}}"#,
        r#"{"type":"extraction_reviewed","sequence":2,"extraction_id":"e1","decision":"approved"}"#,
        r#"{"type":"extraction_reviewed","sequence":2,"extraction_id":"e2","version":1,"decision":"approve","reviewer":"me"}"#,
        r#"{"type":"extraction_reviewed","sequence":2,"extraction_id":"e2","version":2,"decision":"withdraw"}"#,
        r#"{"type":"extraction_committed","sequence":3,"items":[{"extraction_id":"e1","knowledge_id":"k"}]}"#,
        r#"{"type":"extraction_committed","sequence":3,"extraction_id":"e2","outcome":"saved","relation":{"x":1.50}}"#,
        r#"{"type":"extraction_committed","sequence":3,"items":[]}"#,
        r#"{"type":"reflection","sequence":3,"summary":"s","digested_by":"dream-1"}"#,
    ];
    for first in 0..forms.len() {
        let mut rotated = forms;
        rotated.rotate_left(first);
        let trace = format!("t{first}");
        check_bytes(&bench, &trace, &file(&trace, &rotated));
        let python =
            bench.engine.export_at(&crate::common::id(&trace), cognilog::At::Head, cognilog::Profile::Python).unwrap();
        assert_eq!(python, file(&trace, &rotated), "an imported event is a file's own in every profile");
    }
}

#[test]
fn what_stands_around_the_events_comes_back() {
    let bench = Bench::new();
    let check = |text: &str| check_bytes(&bench, &format!("f{}", bench.head()), text);
    check(r#"{"trace_id":"empty","events":[]}"#);
    check("{\"trace_id\": \"empty-2\", \"events\": []}\n");
    check("{\n  \"events\": []\n}");
    check(r#"{"events":[{"type":"x"}],"trace_id":"last"}"#);
    check(r#"{"version":1.0,"trace_id":"keys","a":{"b":[]},"events":[{"type":"x"}],"z":1e400,"events_count":1}"#);
    check(r#"{"trace_id":7,"events":[1]}"#);
    check(r#"{"trace_id":"twice","events":[1],"events":[2]}"#);
    check(r#"{"trace_id":"both","entries":[1],"events":[2]}"#);
    check(r#"{"trace_id":"old","entries":[{"type":"query","sequence":1,"query":"q"}]}"#);
    check("{\n\t\"trace_id\": \"tab\",\n\t\"events\": [\n\t\t{\n\t\t\t\"type\": \"x\"\n\t\t}\n\t]\n}\n");
    check("\u{feff}{\"trace_id\":\"bom\",\"events\":[1]}");
    check("\n {\"trace_id\":\"around\",\"events\":[1]}\r\n\n");
    check(r#"{"trace_id":"\u77e5\u8bc6","events":[{"query":"\u77e5"}]}"#);
    check(r#"{"trace_id":"知识","events":[{"query":"知"}]}"#);
}

/// Equal JSON for files that no `json.dump` wrote.
#[test]
fn files_written_by_hand_come_back_as_equal_json() {
    let bench = Bench::new();
    let check = |text: &str| {
        let trace = format!("f{}", bench.head());
        let report = bench.import(&trace, text);
        assert!(!report.is_failure(), "{report:?}");
        let exported = bench.export(&report.trace_id.unwrap());
        assert!(equal(&Node::parse(&exported).unwrap(), &Node::parse(text).unwrap()), "{text}\n{exported}");
    };
    check("{ \"trace_id\":\"a\" ,\n\"events\" : [ {\"type\":\"query\", \"query\": \"é\\u00e9\"},\n\n 1 ] }");
    check("{\r\n  \"trace_id\": \"b\",\r\n  \"events\": [\r\n    {\"type\": \"x\", \"y\": []}\r\n  ]\r\n}\r\n");
    check("{\"trace_id\":\"c\",\"events\":[\n\n{},\t[ ]\n]}");
}

/// Files that Python 3.11 wrote, kept so that the styles are tested where there is no Python.
#[test]
fn frozen_files_of_python_come_back() {
    let bench = Bench::new();
    for (index, text) in FROZEN.iter().enumerate() {
        check_bytes(&bench, &format!("frozen-{index}"), text);
    }
}

const FROZEN: [&str; 12] = [
    include_str!("frozen/indent_none.json"),
    include_str!("frozen/indent_0.json"),
    include_str!("frozen/indent_1.json"),
    include_str!("frozen/indent_2.json"),
    include_str!("frozen/indent_3.json"),
    include_str!("frozen/indent_4.json"),
    include_str!("frozen/indent_8.json"),
    include_str!("frozen/indent_tab.json"),
    include_str!("frozen/tight.json"),
    include_str!("frozen/tight_indented.json"),
    include_str!("frozen/ascii.json"),
    include_str!("frozen/ascii_indented_newline.json"),
];

/// Real logs in the documents' shape, where they are present.
#[test]
fn real_logs_come_back() {
    let Some(folder) = cases("traces/cognition") else { return };
    let bench = Bench::new();
    let reports = bench.engine.import(&folder, &options()).unwrap();
    assert_eq!(reports.len(), 8, "the collection has eight logs");
    for report in &reports {
        assert!(!report.is_failure() && report.problems.is_empty(), "{report:?}");
        let text = std::fs::read_to_string(&report.path).unwrap();
        assert_eq!(bench.export(report.trace_id.as_deref().unwrap()), text, "{}", report.path.display());
    }
    let compared = bench.engine.compare(&folder).unwrap();
    assert!(compared.iter().all(|file| file.result == cognilog::Comparison::Same), "{compared:?}");
}

/// Random documents, each dumped by a real Python in a random style.
#[test]
fn every_style_of_python_comes_back_byte_for_byte() {
    let count = if is_soak() { FILES_SOAK } else { FILES };
    let bench = Bench::new();
    let mut random = Random(1);
    let mut lines = String::new();
    for number in 0..count {
        let document = random_document(&mut random, number);
        let escapes = document.contains("\\ud800") || random.chance(2);
        let indent = match random.below(11) {
            0 => "null".to_owned(),
            1 => "\"\\t\"".to_owned(),
            width => (width - 2).to_string(),
        };
        let separators = match random.below(4) {
            0 => "[\",\",\":\"]",
            1 => "[\",\",\": \"]",
            _ => "null",
        };
        let newline = random.chance(2);
        let text = serde_json::Value::from(document);
        writeln!(lines, "[{text},{indent},{escapes},{separators},{newline}]").unwrap();
    }
    let input = bench.write("documents.jsonl", lines);
    let output = bench.path("dumped");
    let script = "import json,os,sys\nfor n,line in enumerate(open(sys.argv[1],encoding='utf-8')):\n \
                  text,indent,escapes,separators,newline=json.loads(line)\n \
                  folder=os.path.join(sys.argv[2],'t%06d'%n)\n os.makedirs(folder)\n \
                  with open(os.path.join(folder,'cognition_log.json'),'w',encoding='utf-8',newline='') as out:\n  \
                  json.dump(json.loads(text),out,indent=indent,ensure_ascii=escapes,\
                  separators=separators and tuple(separators))\n  if newline: out.write('\\n')\n";
    match Command::new("python3").args(["-c", script]).args([&input, &output]).output() {
        Ok(ran) => assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr)),
        Err(error) => {
            eprintln!("skipped: python3 does not run ({error}); the frozen files are tested all the same");
            return;
        }
    }
    let files = cognilog::find_files(&output).unwrap();
    assert_eq!(files.len(), count);
    // Several importers at once, so that the disk is not waited for at every file.
    std::thread::scope(|scope| {
        for files in files.chunks(count.div_ceil(8)) {
            scope.spawn(|| files.iter().for_each(|path| check_file(&bench, path)));
        }
    });
    let head = bench.head();
    for path in files.iter().step_by(10) {
        let again = bench.engine.import_file(path, &options()).unwrap();
        assert_eq!((again.added, again.amended), (0, 0), "{again:?}");
    }
    assert_eq!(bench.head(), head);
}

fn check_file(bench: &Bench, path: &Path) {
    let report = bench.engine.import_file(path, &options()).unwrap();
    assert!(!report.is_failure(), "{report:?}");
    let text = std::fs::read_to_string(path).unwrap();
    assert_eq!(bench.export(report.trace_id.as_deref().unwrap()), text, "{}", path.display());
}

fn random_document(random: &mut Random, number: usize) -> String {
    let mut members = Vec::new();
    if !random.chance(8) {
        members.push(format!("\"trace_id\":\"t{number}-{}\"", random.pick(&["a", "é", "知", "\\ud83d\\ude00", "~"])));
    }
    let events: Vec<String> = (0..random.below(6)).map(|_| random_event(random)).collect();
    members.push(format!("\"{}\":[{}]", if random.chance(20) { "entries" } else { "events" }, events.join(",")));
    for extra in 0..random.below(3) {
        let place = random.below(members.len() as u64 + 1) as usize;
        members.insert(place, format!("\"extra{extra}\":{}", random_value(random, 2)));
    }
    format!("{{{}}}", members.join(","))
}

fn random_event(random: &mut Random) -> String {
    if random.chance(15) {
        return random_value(random, 3);
    }
    let kind = random.pick(&[
        "query",
        "query",
        "evaluation",
        "evaluation",
        "extraction",
        "extraction_pending",
        "extraction_reviewed",
        "extraction_committed",
        "reflection",
        "message",
        "event_amended",
        "other",
    ]);
    let text = |random: &mut Random| random_text(random);
    let mut members = vec![format!("\"type\":\"{kind}\""), format!("\"sequence\":{}", random.below(50))];
    match kind {
        "query" => members.extend([
            format!("\"query\":{}", text(random)),
            format!("\"response\":{}", text(random)),
            "\"source_ids\":[\"a\",\"b\"]".to_owned(),
            format!("\"sources\":[{{\"id\":\"a\",\"task\":{},\"content\":{}}}]", text(random), text(random)),
        ]),
        "evaluation" => members.extend([
            format!("\"query_sequence\":{}", random.below(50)),
            "\"trigger\":\"goal_completion\"".to_owned(),
            format!(
                "\"assessments\":[{{\"source_id\":\"a\",\"status\":\"{}\",\"reason\":{}}}]",
                random.pick(&["helpful", "unused", "odd"]),
                text(random)
            ),
        ]),
        "extraction_pending" if random.chance(2) => members.extend([
            "\"extraction_id\":\"e1\"".to_owned(),
            format!(
                "\"item\":{{\"types\":[\"tool\"],\"content\":{},\"score\":{}}}",
                text(random),
                random_number(random)
            ),
        ]),
        "extraction_pending" => members.push(format!("\"content\":{}", text(random))),
        "extraction_reviewed" => members.extend([
            "\"extraction_id\":\"e1\"".to_owned(),
            format!("\"decision\":\"{}\"", random.pick(&["approve", "approved", "edit", "discarded", "withdraw"])),
        ]),
        "extraction_committed" if random.chance(2) => {
            members.push("\"items\":[{\"extraction_id\":\"e1\",\"outcome\":\"saved\"}]".to_owned());
        }
        "extraction_committed" => members.push("\"extraction_id\":\"e1\"".to_owned()),
        "reflection" => {
            members.extend(["\"reflected_range\":[1,9]".to_owned(), format!("\"summary\":{}", text(random))])
        }
        _ => members.push(format!("\"content\":{}", text(random))),
    }
    if !random.chance(4) {
        members.push("\"timestamp\":\"2026-03-20T10:00:00\"".to_owned());
    }
    // Most events are as the documents have them; the rest has odd keys, orders and values.
    if random.chance(4) {
        members.push(format!("\"more\":{}", random_value(random, 3)));
    }
    if random.chance(6) {
        let place = random.below(members.len() as u64) as usize;
        let member = members.remove(place);
        if !random.chance(3) {
            members.push(member);
        }
    }
    format!("{{{}}}", members.join(","))
}

fn random_value(random: &mut Random, depth: u64) -> String {
    match random.below(if depth == 0 { 5 } else { 7 }) {
        0 => "null".to_owned(),
        1 => random.pick(&["true", "false"]).to_owned(),
        2 | 3 => random_number(random),
        4 => random_text(random),
        5 => {
            let items: Vec<String> = (0..random.below(4)).map(|_| random_value(random, depth - 1)).collect();
            format!("[{}]", items.join(","))
        }
        _ => {
            let members: Vec<String> = (0..random.below(4))
                .map(|index| {
                    format!("\"k{index}{}\":{}", random.pick(&["", "é", " "]), random_value(random, depth - 1))
                })
                .collect();
            format!("{{{}}}", members.join(","))
        }
    }
}

fn random_number(random: &mut Random) -> String {
    match random.below(6) {
        0 => random
            .pick(&[
                "1.0",
                "-0.0",
                "1e16",
                "1e-05",
                "9007199254740993",
                "18446744073709551616",
                "1e400",
                "-1e400",
                "NaN",
                "Infinity",
                "5e-324",
                "1.7976931348623157e308",
                "0.1",
                "123456789012345678901234567890",
                "1e22",
                "1e23",
            ])
            .to_owned(),
        1 => random.below(u64::MAX).to_string(),
        2 => format!("{:e}", f64::from_bits(random.next())).replace("inf", "Infinity"),
        3 => format!("{}", random.below(1_000_000) as f64 / 1000.0),
        _ => (random.below(200) as i64 - 100).to_string(),
    }
}

fn random_text(random: &mut Random) -> String {
    let mut text = String::from("\"");
    for _ in 0..random.below(8) {
        text.push_str(random.pick(&[
            "plain ",
            "\\\"",
            "\\\\",
            "\\/",
            "\\n",
            "\\t",
            "\\u0000",
            "\\u001f",
            "\\u007f",
            "\\b\\f\\r",
            "é",
            "知识",
            "😀",
            "\\u2028",
            "\\u0085",
            "\\ufeff",
            "{[:,]}",
            "<>&'",
        ]));
    }
    if random.chance(40) {
        text.push_str("\\ud800");
    }
    text.push('"');
    text
}
