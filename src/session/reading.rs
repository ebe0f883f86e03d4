//! From a model's reply to the events that record it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use cognilog_core::event::{ContextCompressed, Event, EventKind, ExtractionReviewed, ReplyUnparsed, ReviewDecision};
use cognilog_core::limits::REPLY_BYTES_MAX;
use cognilog_core::reply::{EvaluationContext, Reading, ReplyKind, Unreadable, read_evaluation, read_extraction};
use cognilog_core::side_branch::{SideBranch, is_in_memory, is_injected};
use cognilog_core::{Position, StreamId};
use cognilog_storage::{Snapshot, StoreError};

use super::{BranchOutcome, BranchReply, SideBranchTask, TraceSession};
use crate::error::Error;

/// The reviewer in whose name `reflect_auto_commit` approves (DESIGN section 8).
const AUTO_REVIEWER: &str = "auto";

/// The events that a reply becomes, and what is to be told of it. A reply that cannot be read becomes `reply_unparsed`.
pub(super) fn read(
    session: &TraceSession<'_>,
    snapshot: &Snapshot,
    task: &SideBranchTask,
    reply: &BranchReply,
    outcome: &mut BranchOutcome,
) -> Result<Vec<Event>, Error> {
    let read = match task.branch {
        SideBranch::Evaluation => {
            let read = read_evaluation(&reply.text, &context(session, snapshot, task)?);
            read.map(|reading| {
                let accepted = tell(outcome, reading);
                outcome.accepted = accepted.evaluations.iter().map(|query| query.assessments.len()).sum();
                accepted.events(task.trigger.as_str()).into_iter().map(Event::from).collect()
            })
        }
        SideBranch::Extraction => match read_extraction(&reply.text, reply.tool_calls.as_deref()) {
            Ok(reading) => {
                let mut accepted = tell(outcome, reading);
                let injected = session.injected(snapshot)?;
                let contents = || injected.iter().filter_map(|source| source.content.as_deref());
                accepted.extractions.retain(|item| {
                    let from = if is_injected(&item.content, contents()) {
                        "injected knowledge"
                    } else if session.memory.as_deref().is_some_and(|memory| is_in_memory(&item.content, memory)) {
                        "memory"
                    } else {
                        return true;
                    };
                    let what = item.content.chars().take(60).collect::<String>();
                    outcome.dropped.push(format!("{from}, not extracted again as new: {what:?}"));
                    false
                });
                outcome.accepted = accepted.extractions.len();
                let pending = accepted.events(task.trigger.as_str(), &task.branch_id, 0);
                outcome.extraction_ids = pending.iter().filter_map(|event| event.extraction_id.clone()).collect();
                let approved = outcome.extraction_ids.iter().map(|id| approve(id)).map(Event::from);
                let approved: Vec<Event> =
                    if session.config.knowledge.reflect_auto_commit { approved.collect() } else { Vec::new() };
                Ok(pending.into_iter().map(Event::from).chain(approved).collect())
            }
            Err(unreadable) => Err(unreadable),
        },
        SideBranch::Compression => {
            let summary = reply.text.trim();
            if summary.is_empty() {
                outcome.failure = Some("the reply is empty".to_owned());
                return Ok(vec![unparsed(task, reply, "the reply is empty".to_owned())]);
            }
            outcome.accepted = 1;
            let compressed = ContextCompressed {
                summary: summary.to_owned(),
                compressed_range: compressed_range(session, snapshot)?,
                ..ContextCompressed::default()
            };
            Ok(vec![compressed.into()])
        }
    };
    Ok(read.unwrap_or_else(|unreadable: Unreadable| {
        outcome.dropped = unreadable.dropped.iter().map(ToString::to_string).collect();
        outcome.failure = Some(unreadable.to_string());
        vec![unparsed(task, reply, unreadable.to_string())]
    }))
}

fn tell<T>(outcome: &mut BranchOutcome, reading: Reading<T>) -> T {
    outcome.repairs = reading.repairs.iter().map(ToString::to_string).collect();
    outcome.dropped = reading.dropped.iter().map(ToString::to_string).collect();
    reading.accepted
}

fn approve(extraction_id: &str) -> ExtractionReviewed {
    ExtractionReviewed {
        extraction_id: extraction_id.to_owned(),
        version: Some(1),
        decision: ReviewDecision::APPROVE,
        reviewer: Some(AUTO_REVIEWER.to_owned()),
        ..ExtractionReviewed::default()
    }
}

fn unparsed(task: &SideBranchTask, reply: &BranchReply, reason: String) -> Event {
    let kind = match task.branch {
        SideBranch::Evaluation => ReplyKind::Evaluation.as_str(),
        SideBranch::Extraction => ReplyKind::Extraction.as_str(),
        SideBranch::Compression => SideBranch::Compression.as_str(),
    };
    let calls = reply.tool_calls.as_deref().filter(|calls| !calls.trim().is_empty());
    let mut text = calls.map_or_else(|| reply.text.clone(), |calls| format!("{}\n{calls}", reply.text));
    // A longer text is not read anyway, and would not fit into an event: the branch would wait for ever.
    text.truncate(text.floor_char_boundary(REPLY_BYTES_MAX));
    ReplyUnparsed {
        branch_id: Some(task.branch_id.clone()),
        reply_kind: kind.to_owned(),
        model: reply.model.clone(),
        reason,
        attempt: Some(i64::from(task.attempt)),
        text,
        ..ReplyUnparsed::default()
    }
    .into()
}

/// What a reply may speak of: the queries that were asked for, with all of their sources.
fn context(session: &TraceSession<'_>, snapshot: &Snapshot, task: &SideBranchTask) -> Result<EvaluationContext, Error> {
    let mut pending: BTreeMap<i64, Vec<String>> = task.asked.iter().cloned().collect();
    for query in session.queries(snapshot)? {
        if let Some(sources) = query.sequence.and_then(|sequence| pending.get_mut(&sequence)) {
            let more: Vec<String> = query.source_ids.into_iter().filter(|id| !sources.contains(id)).collect();
            sources.extend(more);
        }
    }
    Ok(EvaluationContext { pending })
}

/// The messages that a compression takes away: from behind the last one to the latest message.
fn compressed_range(session: &TraceSession<'_>, snapshot: &Snapshot) -> Result<Option<Vec<i64>>, Error> {
    let (mut first, mut last) = (None, None);
    snapshot.visit_stream(&StreamId::Trace(session.trace.clone()), Position::START, |event| {
        let envelope = event.envelope();
        match (envelope.kind, envelope.sequence) {
            (EventKind::ContextCompressed, _) => (first, last) = (None, None),
            (EventKind::Message, Some(sequence)) => {
                first = Some(first.map_or(sequence, |first: i64| first.min(sequence)));
                last = last.max(Some(sequence));
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(first.zip(last).map(|(first, last)| vec![first, last]))
}

/// A salted digest of a prompt: it tells two prompts apart and gives nothing to guess against without its salt.
pub(super) fn prompt_digest(prompt: &str) -> Result<String, Error> {
    let mut salt = [0u8; 16];
    getrandom::fill(&mut salt).map_err(|error| StoreError::Database { message: error.to_string() })?;
    let digest = blake3::Hasher::new().update(&salt).update(prompt.as_bytes()).finalize();
    let salt: String = salt.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{salt}.{}", digest.to_hex()))
}
