//! Stored replies that could not be read, tried again.

use cognilog::ReparseOutcome::{self, Known, OtherKind, Recorded, UnderWay, Unreadable};
use serde_json::json;

use crate::common::{Bench, id};

const TRACE: &str = "trace-1";

fn query(sequence: i64, sources: &[&str]) -> String {
    let content = |id: &&str| json!({"id": id, "content": format!("what {id} says")});
    let shown: Vec<_> = sources.iter().map(content).collect();
    json!({"type": "query", "sequence": sequence, "query": "q", "source_ids": sources, "sources": shown}).to_string()
}

fn evaluation(sequence: i64, source: &str, status: &str) -> String {
    let assessments = [json!({"source_id": source, "status": status, "reason": "r"})];
    json!({"type": "evaluation", "query_sequence": sequence, "assessments": assessments}).to_string()
}

/// A reply that judges sources of query 4, as the extractor of another build failed to read it.
fn judged(branch: &str, sources: &[&str]) -> String {
    let judgement = |id: &&str| json!({"source_id": id, "status": "helpful", "reason": "seen"});
    let judgements: Vec<_> = sources.iter().map(judgement).collect();
    let reply = json!({"evaluations": [{"query_sequence": 4, "assessments": judgements}]});
    unparsed("eval", branch, &format!("Here:\n```json\n{reply}\n```"))
}

fn extracted(branch: &str, content: &str) -> String {
    unparsed("extract", branch, &json!({"extractions": [{"types": ["tool"], "content": content}]}).to_string())
}

fn unparsed(kind: &str, branch: &str, text: &str) -> String {
    let mut event =
        json!({"type": "reply_unparsed", "reply_kind": kind, "reason": "no_json", "attempt": 1, "text": text});
    if !branch.is_empty() {
        event["branch_id"] = json!(branch);
    }
    event.to_string()
}

fn started(branch: &str, branch_type: &str, asked: &[&str]) -> String {
    let mut event = json!({"type": "side_branch_started", "branch_id": branch, "branch_type": branch_type,
        "trigger": "compression", "attempt": 1});
    if !asked.is_empty() {
        event["asked"] = json!([{"query_sequence": 4, "source_ids": asked}]);
    }
    event.to_string()
}

fn finished(branch: &str, outcome: &str) -> String {
    json!({"type": "side_branch_finished", "branch_id": branch, "outcome": outcome}).to_string()
}

/// Appends the events, tries the stored replies again, and compares: what came of each with how many events, the
/// assessments and the extractions afterwards. A dry run before tells the same, and doing it again records nothing.
#[track_caller]
fn check(events: &[String], expect: &[(ReparseOutcome, usize)], assessed: &[&str], extractions: &[(&str, &str)]) {
    let bench = Bench::new();
    events.iter().for_each(|event| drop(bench.append(TRACE, event)));
    let head = bench.head();
    let dry = bench.engine.reparse(None, true).unwrap();
    assert_eq!(bench.head(), head, "a dry run records nothing");
    let found = bench.engine.reparse(Some(&id(TRACE)), false).unwrap();
    let short: Vec<_> = found.iter().map(|reply| (reply.outcome, reply.recorded)).collect();
    assert_eq!(short, expect, "{found:?}");
    if found.len() == 1 {
        assert_eq!(dry, found);
    }
    let told = |bench: &Bench| {
        let detail = bench.engine.trace(&id(TRACE)).unwrap();
        let sources = detail.queries.iter().flat_map(|query| &query.assessments);
        let assessed: Vec<String> = sources
            .map(|(source, known)| format!("{source} {} {}", known.status, known.trigger.as_deref().unwrap_or("-")))
            .collect();
        assessed
    };
    assert_eq!(told(&bench), assessed);
    let states: Vec<(String, String, String)> = bench.extractions(TRACE);
    let states: Vec<(&str, &str)> = states.iter().map(|(id, state, _)| (id.as_str(), state.as_str())).collect();
    assert_eq!(states, extractions);
    let head = bench.head();
    bench.engine.reparse(None, false).unwrap();
    assert_eq!(bench.head(), head, "doing it again records nothing");
}

#[test]
fn evaluations_fill_in_what_is_missing() {
    let asks = started("b", "knowledge_eval", &["a", "b"]);
    let failed = finished("b", "failed");
    check(
        &[query(4, &["a", "b"]), asks.clone(), judged("b", &["a", "b"]), failed.clone()],
        &[(Recorded, 1)],
        &["a helpful compression", "b helpful compression"],
        &[],
    );
    // A later judgement stays, whoever made it.
    check(
        &[query(4, &["a", "b"]), asks.clone(), judged("b", &["a", "b"]), failed.clone(), evaluation(4, "a", "harmful")],
        &[(Recorded, 1)],
        &["a harmful -", "b helpful compression"],
        &[],
    );
    check(
        &[query(4, &["a"]), asks.clone(), judged("b", &["a"]), failed.clone(), evaluation(4, "a", "harmful")],
        &[(Known, 0)],
        &["a harmful -"],
        &[],
    );
    // Of two stored replies the first one counts, and the second one adds what is missing still.
    check(
        &[
            query(4, &["a", "b"]),
            asks.clone(),
            judged("b", &["a"]),
            asks.clone(),
            judged("b", &["a", "b"]),
            failed.clone(),
        ],
        &[(Recorded, 1), (Recorded, 1)],
        &["a helpful compression", "b helpful compression"],
        &[],
    );
    // What was not asked about, and a query that came after the reply, are not judged by it.
    check(
        &[query(4, &["a", "x"]), started("b", "knowledge_eval", &["a"]), judged("b", &["x"]), failed.clone()],
        &[(Known, 0)],
        &[],
        &[],
    );
    check(&[judged("", &["a"]), query(4, &["a"])], &[(Unreadable, 0)], &[], &[]);
    // Without a branch the log does not say what was asked: the queries before it.
    check(&[query(4, &["a"]), judged("", &["a"])], &[(Recorded, 1)], &["a helpful manual"], &[]);
}

#[test]
fn extractions_wait_for_a_person() {
    let begins = started("b", "reflection", &[]);
    let failed = finished("b", "failed");
    check(
        &[begins.clone(), extracted("b", "Raise it."), failed.clone()],
        &[(Recorded, 1)],
        &[],
        &[("ext-b-0", "pending")],
    );
    // The branch was asked again, and answered.
    let given = json!({"type": "extraction_pending", "extraction_id": "ext-b-0", "branch_id": "b",
        "item": {"types": ["tool"], "content": "Raise it first."}});
    check(
        &[begins.clone(), extracted("b", "Raise it."), given.to_string(), finished("b", "done")],
        &[(Known, 0)],
        &[],
        &[("ext-b-0", "pending")],
    );
    check(&[begins.clone(), extracted("b", "Raise it."), finished("b", "done")], &[(Known, 0)], &[], &[]);
    // Two stored replies of one branch: once is enough.
    check(
        &[
            begins.clone(),
            extracted("b", "Raise it."),
            begins.clone(),
            extracted("b", "Raise it first."),
            failed.clone(),
        ],
        &[(Recorded, 1), (Known, 0)],
        &[],
        &[("ext-b-0", "pending")],
    );
    // What was injected is not new.
    check(&[query(4, &["a"]), begins.clone(), extracted("b", "what a says"), failed.clone()], &[(Known, 0)], &[], &[]);
    check(&[extracted("", "Raise it.")], &[(Recorded, 1)], &[], &[("ext-reply-1-0", "pending")]);
}

#[test]
fn what_is_left_alone() {
    let asks = started("b", "knowledge_eval", &["a"]);
    check(&[query(4, &["a"]), asks, judged("b", &["a"])], &[(UnderWay, 0)], &[], &[]);
    check(&[unparsed("compression", "b", "")], &[(OtherKind, 0)], &[], &[]);
    check(&[unparsed("dream", "b", r#"{"updates": []}"#)], &[(OtherKind, 0)], &[], &[]);
    check(&[unparsed("eval", "b", "I think a was good.")], &[(Unreadable, 0)], &[], &[]);
    check(&[query(4, &["a"])], &[], &[], &[]);
    let bench = Bench::new();
    assert_eq!(bench.engine.reparse(None, false).unwrap(), []);
    assert_eq!(bench.engine.reparse(Some(&id("none")), false).unwrap_err().code(), "trace_not_found");
}
