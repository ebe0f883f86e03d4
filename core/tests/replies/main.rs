//! Replies as models give them, with what is taken of each: tables by family, and limits.

mod cases;
mod dreams;
mod evaluations;
mod extractions;
mod limits;

use cognilog_core::reply::{EvaluationContext, Unreadable, read_evaluation};

/// What waits in these tests: query 42 with k-a, k-b and k-c, query 57 with k-m and k-n.
fn context() -> EvaluationContext {
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
    EvaluationContext { pending: [(42, ids(&["k-a", "k-b", "k-c"])), (57, ids(&["k-m", "k-n"]))].into() }
}

const A: &str = r#"{"source_id": "k-a", "status": "helpful", "reason": "ra"}"#;
const B: &str = r#"{"source_id": "k-b", "status": "unused", "reason": "rb"}"#;
const C: &str = r#"{"source_id": "k-c", "status": "harmful", "reason": "rc"}"#;
const M: &str = r#"{"source_id": "k-m", "status": "neutral", "reason": "rm"}"#;

/// A whole answer about query 42.
fn answer() -> String {
    format!(r#"{{"evaluations": [{{"query_sequence": 42, "assessments": [{A}, {B}, {C}]}}]}}"#)
}

/// What [`answer`] says, in the notation of [`taken`].
const TAKEN: &str = "42: k-a helpful (ra), k-b unused (rb), k-c harmful (rc)";

/// What is taken of a reply, in short: `42: k-a helpful (why), k-b unused; 57: …`, or the word for why nothing is.
fn taken(reply: &str) -> String {
    match read_evaluation(reply, &context()) {
        Ok(reading) => {
            let queries = reading.accepted.evaluations.iter().map(|query| {
                let sources = query.assessments.iter().map(|judgement| {
                    let reason = match judgement.reason.as_str() {
                        "" => String::new(),
                        reason => format!(" ({reason})"),
                    };
                    format!("{} {}{reason}", judgement.source_id, judgement.status)
                });
                format!("{}: {}", query.query_sequence, sources.collect::<Vec<_>>().join(", "))
            });
            queries.collect::<Vec<_>>().join("; ")
        }
        Err(error) => word(&error),
    }
}

fn word(error: &Unreadable) -> String {
    error.reason.as_str().to_owned()
}
