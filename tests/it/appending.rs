//! Appending: what is filled in, what is refused, what a retry answers, and what is cut.

use cognilog::event::{Event, Extraction, Query, QuerySource, UploadedItem};
use cognilog::{Append, AppendEvent, EventId, EventKind, Receipt, StoreError};

use crate::common::{Bench, file, id};

const EVENT_ID: &str = "0198f3a1-0000-7abc-8def-0123456789ab";

fn json_of(bench: &Bench, receipt: &Receipt) -> Vec<String> {
    let snapshot = bench.engine.snapshot().unwrap();
    receipt.events.iter().map(|recorded| snapshot.event(recorded.position).unwrap().unwrap().json().unwrap()).collect()
}

#[test]
fn sequences_that_are_left_open_go_on() {
    let bench = Bench::new();
    let check = |event: &str, expect: i64| {
        let receipt = bench.append("t", event);
        assert_eq!(receipt.events[0].sequence, Some(expect), "{event}");
        let json = &json_of(&bench, &receipt)[0];
        assert_eq!(json.matches("\"sequence\"").count(), 1, "{json}");
        assert_eq!(json.matches("\"timestamp\"").count(), 1, "{json}");
    };
    // Messages, queries and unknown kinds are new places; everything else belongs to the latest one.
    check(r#"{"type":"evaluation","query_sequence":1,"assessments":[]}"#, 0);
    check(r#"{"type":"query","query":"q"}"#, 1);
    check(r#"{"type":"message","role":"user","content":"x"}"#, 2);
    check(r#"{"type":"evaluation","query_sequence":1,"assessments":[]}"#, 2);
    check(r#"{"type":"query","sequence":50,"query":"q"}"#, 50);
    check(r#"{"type":"query","sequence":7,"query":"q"}"#, 7);
    check(r#"{"type":"extraction_pending","item":{"content":"c"}}"#, 50);
    check(r#"{"type":"query","query":"q","sequence":null,"timestamp":null}"#, 51);
    check(r#"{"type":"from_the_future","x":{}}"#, 52);
    check(r#"{"type":"from_the_future","sequence":null,"x":{}}"#, 53);
    check(r#"{"type":"query","sequence":9223372036854775807,"query":"q"}"#, i64::MAX);
    check(r#"{"type":"query","query":"the counter cannot go further"}"#, i64::MAX);
    // Within one append too, and in each trace by itself.
    let query = || AppendEvent::new(Query { query: "q".into(), ..Query::default() }).unwrap();
    let receipt = bench.engine.submit(Append::new(id("other")).event(query()).event(query())).unwrap();
    assert_eq!(receipt.events.iter().map(|event| event.sequence).collect::<Vec<_>>(), [Some(1), Some(2)]);
}

#[test]
fn times_that_are_left_open_are_now() {
    let bench = Bench::new();
    let before = cognilog::time::parse("2026-01-01T00:00:00", &cognilog::time::Zone::utc()).unwrap();
    let receipt = bench.append("t", r#"{"type":"query","query":"q"}"#);
    let json = &json_of(&bench, &receipt)[0];
    let Ok(Some(event)) = Event::from_json(json).map(|read| read.event) else { panic!("{json}") };
    let text = event.timestamp().unwrap();
    assert!(text.ends_with("+00:00"), "{text}");
    let read = cognilog::time::parse(text, &cognilog::time::Zone::utc()).unwrap();
    let recorded = bench.engine.snapshot().unwrap().event(receipt.events[0].position).unwrap().unwrap();
    assert!(read > before && read.0.abs_diff(recorded.envelope.recorded_at.0) < 60_000_000);
    // A message's time under another name is its time.
    let given = r#"{"type":"message","sequence":1,"role":"user","content":"x","ts":"2026-03-20T10:00:00Z"}"#;
    let receipt = bench.append("t", given);
    assert_eq!(json_of(&bench, &receipt), [given]);
    let recorded = bench.engine.snapshot().unwrap().event(receipt.events[0].position).unwrap().unwrap();
    assert_eq!(recorded.envelope.occurred_at.map(|time| time.0), Some(1_774_000_800_000_000));
}

#[test]
fn a_retry_answers_with_the_first_receipt() {
    let bench = Bench::new();
    let with_id =
        |number: u64, rest: &str| format!("{{\"event_id\":\"0198f3a1-0000-7abc-8def-{number:012x}\",{rest}}}");
    let events = [
        r#""type":"query","query":"q""#,
        r#""type":"query","query":"q","timestamp":"2026-03-20T10:00:00""#,
        r#""type":"query","sequence":4,"query":"q","unknown":{"a":1e400}"#,
        r#""type":"message","role":"user","content":[1,2]"#,
        r#""type":"message","role":"user","content":"x","created_at":"2026-03-20T10:00:00""#,
        r#""type":"from_the_future","x":1.0"#,
        r#""type":"from_the_future","sequence":null,"timestamp":null"#,
        r#""type":"from_the_future","sequence":"seven","timestamp":7"#,
        r#""type":"extraction_reviewed","extraction_id":"e","decision":"approved""#,
    ];
    let mut texts = Vec::new();
    for (number, event) in events.iter().enumerate() {
        let text = with_id(number as u64, event);
        let first = bench.append("t", &text);
        assert!(!first.repeated);
        texts.push((text, first));
    }
    bench.append("t", r#"{"type":"query","sequence":900,"query":"what comes meanwhile changes nothing"}"#);
    let head = bench.head();
    for (text, first) in &texts {
        let again = bench.append("t", text);
        assert!(again.repeated, "{text}");
        assert_eq!(again.events, first.events);
        // In other white space and key order of the id it is the same event.
        assert!(bench.append("t", &format!(" {} ", text.replace(",\"type\"", " ,\n\"type\""))).repeated);
    }
    // Together, whatever they were appended with the first time.
    let all = texts
        .iter()
        .fold(Append::new(id("t")), |append, (text, _)| append.event(AppendEvent::from_json(text).unwrap()));
    let again = bench.engine.submit(all).unwrap();
    let firsts: Vec<_> = texts.iter().flat_map(|(_, first)| first.events.clone()).collect();
    assert_eq!((again.repeated, again.events), (true, firsts));
    assert_eq!(bench.head(), head);
    // Other content under the same id, or the same in another trace, is a conflict.
    let check = |trace: &str, event: &str| {
        let error = bench.try_append(trace, &with_id(0, event)).unwrap_err();
        assert!(matches!(error, cognilog::Error::Store(StoreError::IdempotencyConflict { .. })), "{error:?}");
        assert_eq!(bench.head(), head);
    };
    check("t", r#""type":"query","query":"other""#);
    check("t", r#""type":"query","query":"q","sequence":77"#);
    check("t", r#""type":"query","query":"q","x":1"#);
    check("t", r#""type":"message","role":"user","content":"q""#);
    check("u", r#""type":"query","query":"q""#);
}

#[test]
fn a_key_makes_a_retry_of_a_whole_append() {
    let bench = Bench::new();
    let append = |key: &str, queries: &[&str]| {
        let append = Append::new(id("t")).key(key);
        bench.engine.submit(queries.iter().fold(append, |append, query| {
            append.event(AppendEvent::new(Query { query: (*query).into(), ..Query::default() }).unwrap())
        }))
    };
    let first = append("k", &["a", "b"]).unwrap();
    bench.append("t", r#"{"type":"query","sequence":900,"query":"x"}"#);
    let head = bench.head();
    let again = append("k", &["a", "b"]).unwrap();
    assert_eq!((again.repeated, again.events), (true, first.events), "its new event ids do not matter");
    for other in [&["a", "c"][..], &["a"], &["a", "b", "c"], &["b", "a"]] {
        let error = append("k", other).unwrap_err();
        assert!(matches!(error, cognilog::Error::Store(StoreError::IdempotencyConflict { .. })), "{error:?}");
    }
    assert_eq!(bench.head(), head);
    assert!(!append("another", &["a", "b"]).unwrap().repeated);
}

#[test]
fn what_is_no_event_is_refused_with_its_reason() {
    let bench = Bench::new();
    bench.append("t", r#"{"type":"query","query":"q"}"#);
    let head = bench.head();
    let check = |event: &str, expect: &str| {
        let error = bench.try_append("t", event).unwrap_err().to_string();
        assert!(error.contains(expect), "{event}: {error}");
        assert_eq!(bench.head(), head);
    };
    check(
        r#"{"type":"evaluation","query_sequence":1,"assessments":[{"source_id":"a","status":"helpful","reason":"x \ud83d y"}]}"#,
        "surrogate",
    );
    check(r#"{"type":"x","\udc00":1}"#, "surrogate");
    check(r#"{"type":"x","a":[{"b":NaN}]}"#, "NaN");
    check(r#"{"type":"query","query":"q","score":-Infinity}"#, "Infinity");
    check(r#"{"type":"query"}"#, "`query`");
    check(r#"{"type":"query","query":7}"#, "`query`");
    check(r#"{"type":"query","query":"q","response":{}}"#, "`response`");
    check(r#"{"type":"query","query":"q","sequence":1.5}"#, "`sequence`");
    check(r#"{"type":"query","query":"q","timestamp":7}"#, "`timestamp`");
    check(
        r#"{"type":"evaluation","query_sequence":1,"assessments":[{"source_id":"a","status":"great"}]}"#,
        "`assessments[0].status`",
    );
    check(r#"{"type":"evaluation","query_sequence":"1","assessments":[]}"#, "`query_sequence`");
    check(r#"{"type":"extraction_pending","item":{"types":["tool"]}}"#, "`item.content`");
    check(r#"{"type":"extraction_reviewed","extraction_id":"e","decision":"maybe"}"#, "`decision`");
    check(r#"{"type":"extraction_committed","extraction_id":"e","outcome":"queued"}"#, "`outcome`");
    check(r#"{"type":"event_amended","position":1,"text":"{}"}"#, "import only");
    check(r#"{"type":"json_file_style","style":"","frame_before":"","frame_after":"","list_key":""}"#, "import only");
    check(r#"{"event_id":"evt-1","type":"query","query":"q"}"#, "UUID");
    check(r#"{"event_id":7,"type":"query","query":"q"}"#, "UUID");
    check("[]", "object");
    check("7", "object");
    check("{", "ends");
    check(r#"{"type":"query","query":"q"} {}"#, "more text");
    // A pair of surrogates is one character, and a number too large for a float is a number.
    let receipt = bench.append("t", r#"{"type":"query","query":"\ud83c\udf78","score":1e400}"#);
    assert!(json_of(&bench, &receipt)[0].contains("1e400"));
    assert!("not-a-uuid".parse::<EventId>().is_err() && EVENT_ID.parse::<EventId>().is_ok());
}

/// Contents of sources and of legacy items are cut between characters, typed or as JSON, and nothing else is.
#[test]
fn only_what_the_documents_cut_is_cut_and_only_at_append() {
    let long = "知".repeat(501);
    let cut = "知".repeat(500);
    let accents = format!("a{}", "e\u{301}".repeat(300));
    let whole_accents = format!("a{}", "e\u{301}".repeat(249));
    let check = |given: &str, expect: &str| {
        let bench = Bench::new();
        let receipt = bench.append("t", given);
        assert_eq!(json_of(&bench, &receipt), [expect]);
        // A retry is cut in the same way, and so is the same event.
        let appended = AppendEvent::from_json(given).unwrap().with_id(receipt.events[0].event_id);
        assert!(bench.engine.submit(Append::new(id("t")).event(appended)).unwrap().repeated);
        // An import takes the text as it is.
        bench.import("imported", &file("imported", &[given]));
        assert_eq!(bench.exported_events("imported"), [given]);
    };
    let tail = r#""timestamp":"2026-03-20T10:00:00+00:00""#;
    for more in ["", r#""more":{"content":"1.0"},"#] {
        let query = |response: &str, content: &str| {
            format!(
                r#"{{"type":"query","sequence":1,"query":"{long}","response":"{response}","source_ids":["a"],"sources":[{{"id":"a","task":"{long}","content":"{content}"}}],{more}{tail}}}"#
            )
        };
        check(&query(&long, &long), &query(&long, &cut));
        check(&query(&long, &accents), &query(&long, &whole_accents));
        check(&query(&long, &cut), &query(&long, &cut));
        let extraction = |content: &str| {
            format!(
                r#"{{"type":"extraction","sequence":1,"trigger":"compression","items":[{{"knowledge_id":"k","type":"tool","task":"{long}","content":"{content}"}}],{more}{tail}}}"#
            )
        };
        check(&extraction(&long), &extraction(&cut));
        let uncut = [
            format!(
                r#"{{"type":"evaluation","sequence":1,"query_sequence":1,"assessments":[{{"source_id":"a","status":"unused","reason":"{long}"}}],{more}{tail}}}"#
            ),
            format!(
                r#"{{"type":"extraction_pending","sequence":1,"extraction_id":"e","item":{{"types":["tool"],"task":"{long}","content":"{long}"}},{more}{tail}}}"#
            ),
            format!(
                r#"{{"type":"extraction_reviewed","sequence":1,"extraction_id":"e","decision":"edit","edited":{{"content":"{long}"}},"reason":"{long}",{more}{tail}}}"#
            ),
            format!(r#"{{"type":"reflection","sequence":1,"summary":"{long}",{more}{tail}}}"#),
            format!(r#"{{"type":"message","sequence":1,"role":"user","content":"{long}",{more}{tail}}}"#),
            format!(r#"{{"type":"other","sequence":1,"sources":[{{"content":"{long}"}}],{more}{tail}}}"#),
        ];
        for event in uncut.iter().filter(|event| !event.contains("\"message\"")) {
            check(event, event);
        }
        let bench = Bench::new();
        let receipt = bench.append("t", &uncut[4]);
        assert_eq!(json_of(&bench, &receipt), [uncut[4].as_str()]);
    }
    // Typed events as well.
    let bench = Bench::new();
    let source = QuerySource { id: "a".into(), content: Some(long.clone()), ..QuerySource::default() };
    let item = UploadedItem { content: Some(long.clone()), task: Some(long.clone()), ..UploadedItem::default() };
    let query = Query { query: "q".into(), response: Some(long.clone()), sources: vec![source], ..Query::default() };
    bench.engine.append(&id("t"), [query]).unwrap();
    bench.engine.append(&id("t"), [Extraction { items: vec![item], ..Extraction::default() }]).unwrap();
    let exported = bench.exported_events("t").concat();
    assert_eq!(exported.matches(&long).count(), 2, "the response and the task");
    assert_eq!(exported.matches(&cut).count(), 4);
}

#[test]
fn line_ends_of_unicode_are_kept_by_appends() {
    let bench = Bench::new();
    let inside = "a\u{2028}b\u{2029}c\u{85}d\\u000be\\f";
    for kind in [EventKind::Query, EventKind::Reflection] {
        let field = if kind == EventKind::Query { "query" } else { "summary" };
        let event =
            format!("{{\"type\":\"{}\",\"sequence\":1,\"{field}\":\"{inside}\",\"timestamp\":\"t\"}}", kind.as_str());
        let receipt = bench.append("t", &event);
        let json = &json_of(&bench, &receipt)[0];
        assert!(json.contains(inside), "{json}");
    }
    assert_eq!(bench.exported_events("t").len(), 2);
    assert_eq!(bench.head(), 2);
}
