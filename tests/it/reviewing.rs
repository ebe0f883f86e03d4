//! Review: who decides, on which version, in which order, and how a decision is taken back.

use cognilog::event::{ExtractionEdit, JsonText};
use cognilog::{Error, Instant, ReviewRejection, ReviewRequest, Verdict};
use serde_json::json;

use crate::common::{Bench, Random, id};

pub(crate) fn pending(extraction: &str, content: &str) -> String {
    json!({"type": "extraction_pending", "extraction_id": extraction, "trigger": "compression",
        "item": {"types": ["tool"], "task": "t", "content": content, "score": 3}})
    .to_string()
}

pub(crate) fn request(extraction: &str, verdict: Verdict) -> ReviewRequest {
    ReviewRequest {
        trace: id("t"),
        extraction_id: extraction.to_owned(),
        verdict,
        reviewer: "ada".to_owned(),
        seen: None,
        reason: None,
    }
}

pub(crate) fn edit(content: &str) -> Verdict {
    Verdict::Edit(Box::new(ExtractionEdit { content: Some(content.to_owned()), ..ExtractionEdit::default() }))
}

/// The verdict of a word; `edit:TEXT` edits the content.
fn verdict(word: &str) -> Verdict {
    match word {
        "approve" => Verdict::Approve,
        "discard" => Verdict::Discard,
        "withdraw" => Verdict::Withdraw,
        word => edit(word.strip_prefix("edit:").unwrap()),
    }
}

fn rejection(error: Error) -> ReviewRejection {
    match error {
        Error::Review(rejection) => rejection,
        error => panic!("{error}"),
    }
}

/// What a step leads to: state and content, or the code of its refusal.
type Expect = Result<(&'static str, &'static str), &'static str>;

/// The steps of one reviewer on one extraction.
fn steps(steps: &[(&str, Expect)]) {
    let bench = Bench::new();
    bench.append("t", &pending("e", "original"));
    for (step, expect) in steps {
        let done = match *step {
            "undo" => bench.engine.undo("ada").and_then(|mut undone| Ok(undone.remove(0)?)),
            word => bench.engine.review(request("e", verdict(word))),
        };
        let (_, state, content) = bench.extractions("t").remove(0);
        match (done, expect) {
            (Ok(reviewed), Ok(expect)) => {
                assert_eq!((state.as_str(), content.as_str()), *expect, "{step} of {steps:?}");
                assert_eq!(reviewed.state, state, "what the answer says is what a reader finds");
            }
            (Err(error), Err(code)) => assert_eq!(error.code(), *code, "{step} of {steps:?}: {error}"),
            (done, _) => panic!("{step} of {steps:?}: {done:?}"),
        }
    }
}

#[test]
fn decisions_and_their_undoing() {
    steps(&[("approve", Ok(("approved", "original"))), ("withdraw", Ok(("pending", "original")))]);
    // An edited text stays when its decision is withdrawn or replaced; undoing the edit brings back what was before it.
    steps(&[
        ("edit:one", Ok(("edited", "one"))),
        ("withdraw", Ok(("pending", "one"))),
        ("approve", Ok(("approved", "one"))),
        ("edit:two", Ok(("edited", "two"))),
        ("undo", Ok(("approved", "one"))),
        ("undo", Ok(("pending", "one"))),
        ("undo", Ok(("edited", "one"))),
        ("undo", Ok(("pending", "original"))),
        ("undo", Err("nothing_to_undo")),
        ("discard", Ok(("discarded", "original"))),
        ("undo", Ok(("pending", "original"))),
    ]);
    steps(&[
        ("withdraw", Err("nothing_to_withdraw")),
        ("edit:original", Err("nothing_edited")),
        ("edit:", Err("edited_to_empty")),
        ("edit: \u{3000}\n", Err("edited_to_empty")),
        ("undo", Err("nothing_to_undo")),
    ]);
}

#[test]
fn fields_of_an_edit_are_checked_and_only_changes_are_recorded() {
    let bench = Bench::new();
    bench.append("t", &pending("e", "original"));
    let json = |text: &str| Some(JsonText::new(text).unwrap());
    let with = |change: fn(&mut ExtractionEdit, Option<JsonText>), text: &str| {
        let mut edit = ExtractionEdit::default();
        change(&mut edit, json(text));
        request("e", Verdict::Edit(Box::new(edit)))
    };
    for (change, text) in [
        ((|edit, value| edit.score = value) as fn(&mut ExtractionEdit, Option<JsonText>), "\"4\""),
        (|edit, value| edit.score = value, "null"),
        (|edit, value| edit.score = value, "NaN"),
        (|edit, value| edit.tags = value, "[]"),
        (|edit, value| edit.source = value, "\"x\""),
    ] {
        let refused = bench.engine.review(with(change, text)).unwrap_err();
        assert_eq!(refused.code(), "bad_field", "{text}");
    }
    let whole = ExtractionEdit {
        types: Some(vec!["tool".to_owned()]),
        content: Some("original".to_owned()),
        score: json("4.50"),
        owner: Some("me".to_owned()),
        ..ExtractionEdit::default()
    };
    bench.engine.review(request("e", Verdict::Edit(Box::new(whole)))).unwrap();
    let event = bench.exported_events("t").pop().unwrap();
    assert!(event.contains(r#""version":1,"decision":"edit","edited":{"score":4.50,"owner":"me"}"#), "{event}");
}

#[test]
fn a_decision_carries_the_version_that_was_seen() {
    let bench = Bench::new();
    bench.append("t", &pending("e", "c"));
    let seen = |seen, reviewer: &str, verdict| ReviewRequest {
        seen: Some(seen),
        reviewer: reviewer.to_owned(),
        reason: Some("too broad".to_owned()),
        ..request("e", verdict)
    };
    bench.engine.review(seen(0, "bob", Verdict::Discard)).unwrap();
    let refused = bench.engine.review(seen(0, "ada", Verdict::Approve)).unwrap_err();
    assert_eq!(refused.code(), "review_conflict");
    let told = refused.to_string();
    assert!(told.contains("bob decided discard") && told.contains("too broad"), "{told}");
    bench.engine.review(seen(1, "ada", Verdict::Approve)).unwrap();
    assert_eq!(bench.extractions("t")[0].1, "approved");
    // Without a reviewer nobody decides, and what is not there is not decided on.
    let nobody = ReviewRequest { reviewer: " ".to_owned(), ..request("e", Verdict::Discard) };
    assert_eq!(rejection(bench.engine.review(nobody).unwrap_err()), ReviewRejection::NoReviewer);
    assert_eq!(bench.engine.review(request("x", Verdict::Approve)).unwrap_err().code(), "extraction_not_found");
    // Only decisions of it were seen: there is no text to approve.
    bench.append("t", r#"{"type":"extraction_reviewed","extraction_id":"later","decision":"discard"}"#);
    assert_eq!(bench.engine.review(request("later", Verdict::Approve)).unwrap_err().code(), "extraction_not_found");
}

/// Both look at the same version at the same time: one wins, the other is told who and what.
#[test]
fn of_two_reviewers_at_once_one_wins_and_the_other_is_told() {
    let bench = Bench::new();
    for round in 0..40 {
        let name = format!("e{round}");
        bench.append("t", &pending(&name, "c"));
        let barrier = std::sync::Barrier::new(2);
        let decide = |reviewer: &'static str, verdict: Verdict| {
            let request = ReviewRequest { seen: Some(0), reviewer: reviewer.to_owned(), ..request(&name, verdict) };
            barrier.wait();
            (reviewer, bench.engine.review(request))
        };
        let (left, right) = std::thread::scope(|scope| {
            let left = scope.spawn(|| decide("ada", Verdict::Approve));
            let right = scope.spawn(|| decide("bob", Verdict::Discard));
            (left.join().unwrap(), right.join().unwrap())
        });
        let (winner, loser) = if left.1.is_ok() { (left, right) } else { (right, left) };
        let reviewed = winner.1.unwrap();
        let refused = loser.1.expect_err("only one can win");
        assert_eq!(refused.code(), "review_conflict");
        let told = format!("{} decided {}", winner.0, reviewed.decision);
        assert!(refused.to_string().contains(&told), "{refused}");
        let detail = bench.engine.find_extraction(None, &name).unwrap().remove(0).extraction;
        assert_eq!((detail.version, detail.decisions[0].reviewer.as_deref()), (1, Some(winner.0)));
    }
}

#[test]
fn an_act_on_many_is_undone_as_one_and_refuses_alone() {
    let bench = Bench::new();
    for name in ["a", "b", "c"] {
        bench.append("t", &pending(name, "c"));
    }
    bench.append("u", &pending("d", "c"));
    let states = |bench: &Bench| -> Vec<String> {
        let all = bench.engine.extractions(None).unwrap();
        all.into_iter().map(|found| format!("{}:{}", found.extraction.extraction_id, found.extraction.state)).collect()
    };
    bench.engine.review(request("b", Verdict::Discard)).unwrap();
    let other = ReviewRequest { trace: id("u"), ..request("d", Verdict::Approve) };
    let stale = ReviewRequest { seen: Some(0), ..request("b", Verdict::Approve) };
    let twice = request("a", Verdict::Discard);
    let done = bench
        .engine
        .review_all(vec![request("a", Verdict::Approve), stale, other, twice, request("c", Verdict::Approve)])
        .unwrap();
    let shown: Vec<&str> =
        done.iter().map(|one| one.as_ref().map_or_else(|refused| refused.code(), |one| one.state.as_str())).collect();
    assert_eq!(shown, ["approved", "review_conflict", "approved", "review_conflict", "approved"]);
    let positions: Vec<u64> = done.iter().flatten().map(|one| one.position).collect();
    assert_eq!(positions, [bench.head() - 2, bench.head() - 1, bench.head()]);
    assert_eq!(states(&bench), ["a:approved", "b:discarded", "c:approved", "d:approved"]);
    assert_eq!(bench.engine.undo("ada").unwrap().len(), 3);
    assert_eq!(states(&bench), ["a:pending", "b:discarded", "c:pending", "d:pending"]);
    assert_eq!(bench.engine.undo("ada").unwrap().len(), 1);
    assert_eq!(states(&bench), ["a:pending", "b:pending", "c:pending", "d:pending"]);
    assert_eq!(bench.engine.undo("ada").unwrap_err().code(), "nothing_to_undo");
}

#[test]
fn another_reviewers_decision_is_never_undone() {
    let bench = Bench::new();
    bench.append("t", &pending("e", "c"));
    bench.engine.review(request("e", Verdict::Approve)).unwrap();
    bench.engine.review(ReviewRequest { reviewer: "bob".to_owned(), ..request("e", Verdict::Discard) }).unwrap();
    let refused = bench.engine.undo("ada").unwrap().remove(0).unwrap_err();
    assert_eq!(refused.code(), "review_conflict");
    assert!(refused.to_string().contains("bob decided discard"), "{refused}");
    bench.engine.undo("bob").unwrap().remove(0).unwrap();
    assert_eq!(bench.extractions("t")[0].1, "approved");
    bench.engine.undo("ada").unwrap().remove(0).unwrap();
    assert_eq!(bench.extractions("t")[0].1, "pending");
}

#[test]
fn the_decision_is_at_the_place_that_the_trace_has_come_to() {
    let bench = Bench::new();
    bench.append("t", r#"{"type":"message","sequence":88,"role":"user","content":"x"}"#);
    bench.append("t", &pending("e", "c"));
    bench.append("t", r#"{"type":"message","sequence":130,"role":"user","content":"y"}"#);
    bench.engine.review(request("e", Verdict::Approve)).unwrap();
    let event = bench.exported_events("t").pop().unwrap();
    assert!(event.contains(r#""type":"extraction_reviewed","sequence":130,"#), "{event}");
    assert!(event.contains(r#""reviewer":"ada","timestamp":"#), "{event}");
}

#[test]
fn the_queue_groups_what_says_the_same_and_points_out_what_waits_long() {
    let bench = Bench::new();
    let at = |name: &str, content: &str, time: &str| {
        let mut event: serde_json::Value = serde_json::from_str(&pending(name, content)).unwrap();
        event["timestamp"] = json!(time);
        event.to_string()
    };
    bench.append("t", &at("a", "低于 0.3 的 strength 会丢失原图轮廓", "2026-01-01T00:00:00Z"));
    bench.append("t", &at("b", "Upscale only after a trial at low resolution.", "2026-01-20T00:00:00Z"));
    bench.append("u", &at("c", "strength 低于 0.3 会丢失原图的轮廓", "2026-02-01T00:00:00Z"));
    let now: Instant = cognilog::time::parse("2026-02-01T00:00:00Z", &cognilog::time::Zone::utc()).unwrap();
    let shown = |days| -> Vec<(String, u64, usize, i64, bool)> {
        let queue = bench.engine.review_queue(None, now, days).unwrap();
        let show = |entry: cognilog::ReviewEntry| {
            (entry.pending.extraction.extraction_id, entry.group, entry.group_size, entry.age_days, entry.is_overdue)
        };
        queue.into_iter().map(show).collect()
    };
    assert_eq!(
        shown(None),
        [("a".to_owned(), 1, 2, 31, true), ("c".to_owned(), 1, 2, 0, false), ("b".to_owned(), 2, 1, 12, false)]
    );
    assert_eq!(shown(Some(7)).iter().map(|entry| entry.4).collect::<Vec<_>>(), [true, false, true]);
}

#[test]
fn the_messages_around_a_sequence() {
    let bench = Bench::new();
    for sequence in [4, 1, 7, 9, 3] {
        bench.append(
            "t",
            &json!({"type": "message", "sequence": sequence, "message_id": format!("m{sequence}"), "role": "user",
                "content": [{"type": "text", "text": format!("text {sequence}")}]})
            .to_string(),
        );
    }
    bench.append("t", r#"{"type":"query","sequence":5,"query":"q"}"#);
    let check = |sequence: i64, before: usize, after: usize, expect: &[i64]| {
        let found = bench.engine.messages_around(&id("t"), sequence, before, after).unwrap();
        assert_eq!(found.iter().map(|message| message.sequence).collect::<Vec<_>>(), expect);
        assert!(found.iter().all(|message| message.text.contains(&format!("text {}", message.sequence))));
    };
    check(5, 2, 2, &[3, 4, 7, 9]);
    check(4, 1, 1, &[4, 7]);
    check(0, 3, 1, &[1]);
    check(100, 2, 3, &[7, 9]);
}

/// Decisions and undos at random against a plain list of what was there before each step.
#[test]
fn undo_walks_back_through_any_history() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let bench = Bench::new();
        for name in ["a", "b"] {
            bench.append("t", &pending(name, "original"));
        }
        let mut before = Vec::new();
        for step in 0..30 {
            let now = bench.extractions("t");
            if random.chance(3) {
                match (bench.engine.undo("ada"), before.pop()) {
                    (Ok(_), Some(expect)) => assert_eq!(bench.extractions("t"), expect, "seed {seed} step {step}"),
                    (Err(error), None) => assert_eq!(error.code(), "nothing_to_undo"),
                    (undone, expect) => panic!("seed {seed} step {step}: {undone:?} {expect:?}"),
                }
                continue;
            }
            let words = ["approve", "discard", "withdraw", &format!("edit:text {step}")];
            let word = words[random.below(4) as usize];
            let name = *random.pick(&[&"a", &"b"]);
            if bench.engine.review(request(name, verdict(word))).is_ok() {
                before.push(now);
            }
        }
        let rows = bench.engine.extractions(None).unwrap();
        bench.engine.rebuild(&["extraction_queue".to_owned()]).unwrap();
        bench.engine.store().wait_rebuilt().unwrap();
        assert_eq!(bench.engine.extractions(None).unwrap(), rows);
    }
}
