//! The frozen forms of every event: its JSON, its bytes, and that both say the same.
//!
//! `golden/shapes.txt` holds one line a kind: code, schema id, and the bytes in hexadecimal. A line may be added for a new
//! kind; a line that changes means that stored logs can no longer be read, and needs a new schema id and an upcast.
//! `UPDATE_EXPECT=1 cargo test -p cognilog-core --test shapes` writes the file.

use cognilog_core::event::{Body, Event, EventKind, OwnedBody};

/// One event of each kind with every field set, in canonical form.
const EVENTS: [&str; 18] = [
    r#"{"type":"query","sequence":42,"goal_id":"1","query":"问 q","response":"答","source_ids":["k-1","k-2"],"sources":[{"id":"k-1","task":"t","content":"内容"}],"timestamp":"2026-03-20T10:00:00"}"#,
    r#"{"type":"evaluation","sequence":66,"query_sequence":42,"trigger":"goal_completion","assessments":[{"source_id":"k-1","status":"helpful","reason":"r"},{"source_id":"k-2","status":"neutral"}],"timestamp":"t"}"#,
    r#"{"type":"extraction","sequence":88,"trigger":"compression","items":[{"knowledge_id":"k-3","type":"experience","task":"t","content":"c"}],"timestamp":"t"}"#,
    r#"{"type":"extraction_pending","sequence":88,"extraction_id":"ext-1","trigger":"compression","branch_id":"b","item":{"types":["tool"],"task":"t","content":"c","score":3.5,"tags":{"a":1},"scopes":["s"],"resource_ids":["r"],"owner":"o","source":{"name":"n"}},"timestamp":"t"}"#,
    r#"{"type":"extraction_reviewed","sequence":130,"extraction_id":"ext-1","version":2,"decision":"edit","edited":{"types":["case"],"task":"t","content":"c","score":4,"tags":{},"scopes":[],"resource_ids":[],"owner":"o","source":{}},"reviewer":"p","reason":"r","undoes":1,"timestamp":"t"}"#,
    r#"{"type":"extraction_committed","sequence":130,"extraction_id":"ext-1","outcome":"failed","knowledge_id":"k","relation":{"a":[]},"error":"e","timestamp":"t"}"#,
    r#"{"type":"reflection","sequence":120,"reflected_range":[43,120],"summary":"s","digested_by":"dream-1","timestamp":"t"}"#,
    r#"{"type":"trace_started","sequence":0,"task":"t","identity":"i","agent_type":"a","owner":"o","config":{"x":null},"timestamp":"t"}"#,
    r#"{"type":"message","sequence":1,"message_id":"m","role":"tool","content":"c","branch_type":"b","goal_id":"g","name":"n","tool_calls":[1],"tool_call_id":"i","tokens":7,"timestamp":"t"}"#,
    r#"{"type":"goal_changed","sequence":2,"goal_id":"g","description":"d","status":"abandoned","parent_id":"p","timestamp":"t"}"#,
    r#"{"type":"trigger_fired","sequence":3,"trigger":"task_completion","queue":["knowledge_eval"],"timestamp":"t"}"#,
    r#"{"type":"side_branch_started","sequence":4,"branch_id":"b","branch_type":"reflection","trigger":"manual","attempt":1,"asked":[{"query_sequence":42,"source_ids":["k-1"]}],"timestamp":"t"}"#,
    r#"{"type":"side_branch_finished","sequence":5,"branch_id":"b","outcome":"failed","error":"e","accepted":1,"dropped":["d"],"model":"m","prompt_digest":"p","tokens":{"prompt":5},"timestamp":"t"}"#,
    r#"{"type":"reply_unparsed","sequence":6,"branch_id":"b","reply_kind":"eval","model":"m","reason":"r","attempt":2,"text":"x","timestamp":"t"}"#,
    r#"{"type":"context_compressed","sequence":7,"summary":"s","compressed_range":[1,6],"timestamp":"t"}"#,
    r#"{"type":"trace_finished","sequence":8,"status":"stopped","error_type":"timeout","total_steps":9,"knowledge_usage":{"k":1},"timestamp":"t"}"#,
    r#"{"type":"event_amended","sequence":9,"position":3,"text":"{\"type\":\"reflection\",\"sequence\":1,\"summary\":\"s\"}","timestamp":"t"}"#,
    r#"{"type":"json_file_style","sequence":10,"style":"{}","frame_before":"{\"events\":","frame_after":"}","list_key":"events","timestamp":"t"}"#,
];

fn event(text: &str) -> Event {
    let read = Event::from_json(text).expect(text);
    assert_eq!(read.problems, [], "{text}");
    read.event.expect(text)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hexadecimal[at..at + 2], 16).expect("hexadecimal");
    (0..hexadecimal.len()).step_by(2).map(digit).collect()
}

#[test]
fn every_kind_has_its_frozen_bytes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/shapes.txt");
    let shapes: String = EVENTS
        .iter()
        .map(|text| {
            let event = event(text);
            let archived = hexadecimal(&event.to_archived().expect("archived"));
            format!("{} {} {archived}\n", event.kind().code(), event.kind().schema())
        })
        .collect();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, &shapes).expect("written");
    }
    let frozen = std::fs::read_to_string(path).expect("the golden file");
    assert_eq!(shapes, frozen, "a persisted shape changed: it needs a new schema id and an upcast");
}

#[test]
fn frozen_bytes_are_read_as_their_json() {
    let frozen = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/shapes.txt"));
    let frozen = frozen.expect("the golden file");
    for (line, text) in frozen.lines().zip(EVENTS) {
        let parts: Vec<&str> = line.split(' ').collect();
        let kind = EventKind::from_code(parts[0].parse().expect("a code"));
        let stored = bytes(parts[2]);
        assert_eq!(Event::from_archived(kind, &stored).expect(text).to_json(), text);
        // Log payloads stand at any address, so the bytes must be readable at every one.
        for offset in 0..8 {
            let mut shifted = vec![0; offset];
            shifted.extend_from_slice(&stored);
            assert_eq!(Body::access(kind, &shifted[offset..]).expect(text).kind(), kind, "{text} at {offset}");
        }
    }
}

#[test]
fn every_kind_is_frozen_and_known_by_word_and_code() {
    let kinds: Vec<EventKind> = EVENTS.iter().map(|text| event(text).kind()).collect();
    assert_eq!(kinds, EventKind::ALL, "each kind has its line, in the order of the codes");
    for kind in EventKind::ALL {
        assert_eq!((EventKind::from_code(kind.code()), EventKind::from_word(kind.as_str())), (*kind, *kind));
    }
    assert_eq!((EventKind::from_code(999), EventKind::from_word("custom")), (EventKind::Unknown, EventKind::Unknown));
}

#[test]
fn raw_text_and_typed_bytes_give_the_same_view() {
    for text in EVENTS {
        let event = event(text);
        if matches!(event.kind(), EventKind::EventAmended | EventKind::JsonFileStyle) {
            continue;
        }
        let raw = OwnedBody::from_json(EventKind::Unknown, text).expect(text);
        let typed = OwnedBody::from_event(&event).expect(text);
        assert_eq!(format!("{:?}", raw.body()), format!("{:?}", typed.body()), "{text}");
    }
}

#[test]
fn damaged_bytes_are_refused_or_read_but_never_panic() {
    for text in EVENTS {
        let event = event(text);
        let stored = event.to_archived().expect("archived");
        for at in 0..stored.len() {
            for value in [0x00, 0x7f, 0xff] {
                let mut damaged = stored.to_vec();
                damaged[at] = value;
                let _ = Body::access(event.kind(), &damaged);
            }
        }
        for length in 0..stored.len() {
            let _ = Body::access(event.kind(), &stored[..length]);
        }
    }
}
