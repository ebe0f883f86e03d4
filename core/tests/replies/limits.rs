//! Limits: every reply ends in time with the right word, and nothing makes the reader crash.

use std::time::{Duration, Instant};

use cognilog_core::reply::{DreamContext, read_dream, read_evaluation, read_extraction, text_of};
use proptest::prelude::*;

use super::{TAKEN, answer, context, taken, word};

/// A debug build is some twenty times slower than the second that a release build may take.
const TIME: Duration = Duration::from_secs(20);

fn check(reply: &str, expect: &str) {
    let start = Instant::now();
    let got = taken(reply);
    assert!(got == expect, "{reply:.80} gave {got:.80}");
    let _ = read_extraction(reply, None);
    let _ = read_dream(reply, &DreamContext { files: vec!["*".to_owned()] });
    assert!(start.elapsed() < TIME, "{:?} for {:.80}", start.elapsed(), reply);
}

#[test]
fn every_reply_ends_in_time_with_the_right_word() {
    // Short for a build without optimizations; with them the longest reply that is looked at takes less than a second.
    let megabyte = 1 << 16;
    check(&"{".repeat(200_000), "no_json");
    check(&"[".repeat(100_000), "too_deep");
    check(&"{\"a\":".repeat(100_000), "too_deep");
    check(&format!("{{\"evaluations\":{}", "[".repeat(100_000)), "too_deep");
    check(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)), "too_deep");
    check(&"\"".repeat(megabyte), "no_json");
    check(&"{\"".repeat(megabyte / 2), "no_json");
    check(&"[\"".repeat(megabyte / 2), "no_json");
    check(&"[{},".repeat(megabyte / 4), "too_deep");
    check(&"\\".repeat(megabyte), "no_json");
    check(&"{\\\"".repeat(megabyte / 3), "no_json");
    check(&"/*".repeat(megabyte / 2), "no_json");
    check(&"[/*".repeat(megabyte / 3), "no_json");
    check(&"<think>".repeat(megabyte / 7), "reasoning_only");
    check(&"<think></think>".repeat(megabyte / 15), "reasoning_only");
    check(&"```json\n".repeat(megabyte / 8), "no_json");
    check(&"知".repeat(megabyte / 3), "no_json");
    check(&"｛［".repeat(megabyte / 6), "no_json");
    check(&" ".repeat(2 << 20), "empty");
    check(&"x".repeat((2 << 20) + 1), "too_large");
    check(&format!("[{}1]", "1,".repeat(501_000)), "too_costly");
    // Every start of these runs far before it fails.
    let far = "{'a': 'b ".repeat(megabyte / 9);
    assert!(["no_json", "no_answer", "too_costly"].contains(&taken(&far).as_str()));
    let nested = format!("{}{}", "{\"evaluations\": ".repeat(60_000), answer());
    assert!(["too_deep", "cut", "broken"].contains(&taken(&nested).as_str()));
}

#[test]
fn long_strings_are_taken() {
    let long = "知识".repeat(170_000);
    check(&answer().replace("ra", &long), &TAKEN.replace("ra", &long));
    let quotes = "x \"y\" ".repeat(100_000);
    check(&answer().replace("ra", &quotes), &TAKEN.replace("ra", &quotes));
    let escapes = "\\u6c49\\n".repeat(130_000);
    check(&answer().replace("ra", &escapes), &TAKEN.replace("ra", &"汉\n".repeat(130_000)));
    let noise = "{[\"```\\，}] step '\" <b> ".repeat(20_000);
    check(&format!("{noise}\n{}", answer()), TAKEN);
    check(&format!("<think>{noise}</think>{}", answer()), TAKEN);
    let files: Vec<String> = (0..400).map(|number| format!(r#"{{"path": "j/{number}.md", "content": "x"}}"#)).collect();
    let reading = read_dream(
        &format!(r#"{{"updates": [{}]}}"#, files.join(",")),
        &DreamContext { files: vec!["j/*.md".to_owned()] },
    );
    assert_eq!(reading.map(|reading| reading.accepted.updates.len()), Ok(400));
}

#[test]
fn bytes_that_are_no_text() {
    let check = |bytes: &[u8], expect: Result<&str, (&str, usize)>| {
        let got = text_of(bytes);
        let got = got.as_deref().map_err(|error| (word(error), error.at.unwrap_or_default()));
        assert_eq!(got, expect.map_err(|(word, at)| (word.to_owned(), at)));
    };
    check(b"{}", Ok("{}"));
    check("\u{feff}知".as_bytes(), Ok("\u{feff}知"));
    check(b"caf\xe9", Err(("not_utf8", 3)));
    check(b"\"\xd7\xbc\xc8\xb7\xb6\xa8\"", Err(("not_utf8", 5)));
    check(b"\"\xed\xa0\x80\"", Err(("not_utf8", 1)));
    check(b"\xff\xfe{\0}\0", Ok("\u{feff}{}"));
    check(b"\xfe\xff\0{\0}", Ok("\u{feff}{}"));
    check(b"\xff\xfe{\0}", Err(("not_utf8", 0)));
    check(b"\xff\xfe\0\xd8", Err(("not_utf8", 0)));
}

/// Pieces out of which replies break.
const PIECES: [&str; 34] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    "'",
    ",",
    ":",
    "\\",
    "\n",
    " ",
    "```",
    "```json",
    "<think>",
    "</think>",
    "//",
    "/*",
    "*/",
    "#",
    "“",
    "”",
    "，",
    "｛",
    "｝",
    "\"evaluations\"",
    "\"query_sequence\": 42",
    "\"assessments\"",
    "\"source_id\": \"k-a\"",
    "\"status\": \"helpful\"",
    "42",
    "...",
    "\\\"",
    "\\ud800",
    "知",
];

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    /// Nothing panics, and what is taken is always of the context.
    #[test]
    fn any_pieces_are_survived(pieces in proptest::collection::vec(0..PIECES.len(), 0..60)) {
        let reply: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        if let Ok(reading) = read_evaluation(&reply, &context()) {
            for query in reading.accepted.evaluations {
                let sources = &context().pending[&query.query_sequence];
                prop_assert!(query.assessments.iter().all(|judgement| sources.contains(&judgement.source_id)));
            }
        }
        let _ = read_extraction(&reply, Some(&reply));
        let _ = read_dream(&reply, &DreamContext { files: vec!["*".to_owned()] });
    }

    /// One character less, more or other never turns a verdict into another one.
    #[test]
    fn small_damage_never_changes_a_verdict(at in 0..230_usize, piece in 0..PIECES.len(), kind in 0..3) {
        let whole = answer().replace("ra", "said so, and more").replace("rb", "it's \\\"fine\\\" [1] {x}");
        let at = at.min(whole.len() - 1);
        let reply = match kind {
            0 => format!("{}{}", &whole[..at], &whole[at + 1..]),
            1 => format!("{}{}{}", &whole[..at], PIECES[piece], &whole[at..]),
            _ => format!("{}{}{}", &whole[..at], PIECES[piece], &whole[at + 1..]),
        };
        if let Ok(reading) = read_evaluation(&reply, &context()) {
            for judgement in reading.accepted.evaluations.iter().flat_map(|query| &query.assessments) {
                let expect = match judgement.source_id.as_str() { "k-a" => "helpful", "k-b" => "unused", _ => "harmful" };
                prop_assert_eq!(judgement.status.as_str(), expect, "{}", reply);
            }
        }
    }

    /// However an answer is damaged, the example inside one of its files is not taken for the answer.
    #[test]
    fn an_example_in_a_damaged_answer_is_no_answer(damages in proptest::collection::vec((0..400_usize, 0..PIECES.len(), 0..4), 1..3), fenced: bool) {
        let example = r#"# S\n- say \"hi\", {x: 1}\n```json\n{\"updates\": [{\"path\": \"taste.md\", \"content\": \"example\"}]}\n```\n"#;
        let mut reply = format!(r#"{{"updates": [{{"path": "strategy.md", "content": "{example}"}}, {{"path": "taste.md", "content": "kept"}}]}}"#);
        if fenced {
            reply = format!("```json\n{reply}\n```");
        }
        for (at, piece, kind) in damages {
            let at = reply.floor_char_boundary(at);
            let after = reply.ceil_char_boundary(at + 1).min(reply.len());
            reply = match kind {
                0 => format!("{}{}", &reply[..at], &reply[after..]),
                1 => format!("{}{}{}", &reply[..at], PIECES[piece], &reply[at..]),
                2 => format!("{}{}{}", &reply[..at], PIECES[piece], &reply[after..]),
                _ => reply[..at].to_owned(),
            };
        }
        let files = vec!["taste.md".to_owned(), "strategy.md".to_owned()];
        if let Ok(reading) = read_dream(&reply, &DreamContext { files }) {
            prop_assert!(reading.accepted.updates.iter().all(|update| update.content != "example"), "{}", reply);
        }
    }
}
