//! Questions to the projections: traces, what is pending, exports, at the head or as of an earlier place.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use cognilog_core::event::EventKind;
use cognilog_core::side_branch::SideBranch;
use cognilog_core::{Position, StreamId, TraceId};
use cognilog_projections::evaluation_status::{self, QueryRow};
use cognilog_projections::extraction_queue::{self, ExtractionRow};
use cognilog_projections::json_file::{Profile, export};
use cognilog_projections::reflection_checkpoints::{self, Checkpoint};
use cognilog_projections::traces::{self, Goal, SideBranches, TraceCounts, TraceInfo};
use cognilog_storage::{Snapshot, StoreError, View};
use serde::Serialize;

use crate::engine::Engine;
use crate::error::Error;

/// The place in time that a question is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// Now.
    #[default]
    Head,
    /// As of a position of the log.
    Position(Position),
    /// As of the last position before the trace's first query or message whose sequence is above this one.
    Sequence(i64),
}

/// Which rule says that a query is pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PendingRule {
    /// While any of its sources has no assessment.
    #[default]
    PerSource,
    /// While no evaluation event points to it, as the documents' readers have it.
    Document,
}

/// A trace in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceSummary {
    /// The trace.
    pub trace_id: String,
    /// What it says of itself.
    #[serde(flatten)]
    pub info: TraceInfo,
    /// Events and latest sequences.
    #[serde(flatten)]
    pub counts: TraceCounts,
    /// Queries that wait for an evaluation.
    pub pending_evaluations: usize,
    /// Extractions that wait for a person.
    pub pending_extractions: usize,
    /// How far it was reflected.
    pub reflected_at_sequence: Option<i64>,
}

/// A trace with everything the projections know of it.
#[derive(Clone, Debug, Serialize)]
pub struct TraceDetail {
    /// As in the list.
    #[serde(flatten)]
    pub summary: TraceSummary,
    /// Its goals by id.
    pub goals: BTreeMap<String, Goal>,
    /// Flags as the documents name them.
    pub context: TraceContext,
    /// Its side branches.
    pub side_branches: SideBranches,
    /// Its queries with what is known of their sources.
    pub queries: Vec<QueryDetail>,
    /// Its extractions.
    pub extractions: Vec<ExtractionRow>,
    /// Its reflections.
    pub reflections: Checkpoint,
    /// Sequences that were evaluated and whose query has not been seen.
    pub orphan_evaluations: Vec<i64>,
}

/// The part of the documents' `trace.context` that is derived here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceContext {
    /// Whether an evaluation is queued or under way.
    pub pending_knowledge_eval: bool,
    /// The trigger that queued it.
    pub knowledge_eval_trigger: Option<String>,
}

/// A query with what is known of its sources.
#[derive(Clone, Debug, Serialize)]
pub struct QueryDetail {
    /// Its place in the log.
    pub position: u64,
    /// The query.
    #[serde(flatten)]
    pub query: QueryRow,
    /// Each source's latest assessment.
    pub assessments: BTreeMap<String, evaluation_status::SourceAssessment>,
    /// The sources that have none.
    pub missing_source_ids: Vec<String>,
}

/// A query that waits for an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PendingEvaluation {
    /// The trace.
    pub trace_id: String,
    /// The query's sequence.
    pub query_sequence: Option<i64>,
    /// The question.
    pub query: String,
    /// The sources without an assessment.
    pub missing_source_ids: Vec<String>,
    /// The query's place in the log.
    pub position: u64,
    /// When it was asked, in microseconds since 1970.
    pub time: i64,
}

/// An extraction that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PendingExtraction {
    /// The trace.
    pub trace_id: String,
    /// The extraction.
    #[serde(flatten)]
    pub extraction: ExtractionRow,
}

/// A trace that has more than its reflections have read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PendingReflection {
    /// The trace.
    pub trace_id: String,
    /// How far it was reflected; none if never.
    pub reflected_at_sequence: Option<i64>,
    /// How far it has come.
    pub latest_sequence: i64,
    /// The identity whose dream would read it.
    pub identity: Option<String>,
}

impl Engine {
    /// The traces, in the order they were first recorded.
    ///
    /// # Errors
    /// A projection is not readable, a row is damaged, or the disk refuses.
    pub fn traces(&self) -> Result<Vec<TraceSummary>, Error> {
        let snapshot = self.snapshot()?;
        let view = snapshot.view();
        let mut found = Vec::new();
        each_trace(&view, None, |trace, number| {
            found.push(summary(&view, trace, number)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Everything the projections know of a trace.
    ///
    /// # Errors
    /// There is no such trace, or as [`Engine::traces`].
    pub fn trace(&self, trace: &TraceId) -> Result<TraceDetail, Error> {
        let snapshot = self.snapshot()?;
        let view = snapshot.view();
        let number = stream_number(&view, trace)?;
        let mut queries = Vec::new();
        for (position, query, known) in evaluation_status::statuses(&view, number)? {
            let missing = cognilog_core::pending::missing_sources(query.source_ids.iter().map(String::as_str), |id| {
                known.sources.contains_key(id)
            });
            let missing_source_ids = missing.into_iter().map(str::to_owned).collect();
            queries.push(QueryDetail { position, missing_source_ids, assessments: known.sources, query });
        }
        let summary = summary(&view, trace.as_str(), number)?;
        let side_branches = traces::side_branches_of(&view, number)?;
        Ok(TraceDetail {
            goals: traces::goals(&view, number)?,
            context: context(&side_branches),
            side_branches,
            queries,
            extractions: extraction_queue::extractions(&view, number)?,
            reflections: reflection_checkpoints::checkpoint(&view, number)?,
            orphan_evaluations: evaluation_status::orphans(&view, number)?,
            summary,
        })
    }

    /// The queries that wait for an evaluation of some of their sources, of one trace or all.
    ///
    /// # Errors
    /// As [`Engine::traces`]; the trace that is named does not exist.
    pub fn pending_evaluations(&self, trace: Option<&TraceId>) -> Result<Vec<PendingEvaluation>, Error> {
        self.pending_evaluations_by(trace, PendingRule::PerSource)
    }

    /// As [`Engine::pending_evaluations`], by a rule.
    ///
    /// # Errors
    /// As [`Engine::pending_evaluations`].
    pub fn pending_evaluations_by(
        &self,
        trace: Option<&TraceId>,
        rule: PendingRule,
    ) -> Result<Vec<PendingEvaluation>, Error> {
        let snapshot = self.snapshot()?;
        let view = snapshot.view();
        let mut found = Vec::new();
        each_trace(&view, trace, |trace, number| {
            let pending = match rule {
                PendingRule::PerSource => evaluation_status::pending(&view, number)?,
                PendingRule::Document => evaluation_status::pending_by_document(&view, number)?,
            };
            found.extend(pending.into_iter().map(|pending| PendingEvaluation {
                trace_id: trace.to_owned(),
                query_sequence: pending.query.sequence,
                query: pending.query.query,
                missing_source_ids: pending.missing_source_ids,
                position: pending.position,
                time: pending.query.time,
            }));
            Ok(())
        })?;
        Ok(found)
    }

    /// The extractions that wait for a person, of one trace or all.
    ///
    /// # Errors
    /// As [`Engine::pending_evaluations`].
    pub fn pending_extractions(&self, trace: Option<&TraceId>) -> Result<Vec<PendingExtraction>, Error> {
        let snapshot = self.snapshot()?;
        let view = snapshot.view();
        let mut found = Vec::new();
        each_trace(&view, trace, |trace, number| {
            let pending = extraction_queue::pending(&view, number)?;
            found.extend(
                pending.into_iter().map(|extraction| PendingExtraction { trace_id: trace.to_owned(), extraction }),
            );
            Ok(())
        })?;
        Ok(found)
    }

    /// The extractions of one trace or all, whatever their state.
    ///
    /// # Errors
    /// As [`Engine::pending_evaluations`].
    pub fn extractions(&self, trace: Option<&TraceId>) -> Result<Vec<PendingExtraction>, Error> {
        let snapshot = self.snapshot()?;
        let view = snapshot.view();
        let mut found = Vec::new();
        each_trace(&view, trace, |trace, number| {
            let all = extraction_queue::extractions(&view, number)?;
            found
                .extend(all.into_iter().map(|extraction| PendingExtraction { trace_id: trace.to_owned(), extraction }));
            Ok(())
        })?;
        Ok(found)
    }

    /// The traces that have more than their reflections have read (memory document, section 四: never reflected, or
    /// `reflected_at_sequence` below the latest sequence).
    ///
    /// # Errors
    /// As [`Engine::pending_evaluations`].
    pub fn pending_reflections(&self, trace: Option<&TraceId>) -> Result<Vec<PendingReflection>, Error> {
        let snapshot = self.snapshot()?;
        let view = snapshot.view();
        let mut found = Vec::new();
        each_trace(&view, trace, |trace, number| {
            let checkpoint = reflection_checkpoints::checkpoint(&view, number)?;
            let counts = traces::counts(&view, number)?.unwrap_or_default();
            // Without messages the cognition events tell how far the trace has come (DESIGN section 10).
            let Some(latest) = counts.latest_message_sequence.or(counts.latest_sequence) else { return Ok(()) };
            if checkpoint.reflected_at_sequence.is_none_or(|reflected| reflected < latest) {
                found.push(PendingReflection {
                    trace_id: trace.to_owned(),
                    reflected_at_sequence: checkpoint.reflected_at_sequence,
                    latest_sequence: latest,
                    identity: traces::info(&view, number)?.identity,
                });
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// A trace's `cognition_log.json`.
    ///
    /// # Errors
    /// There is no such trace, an event is damaged, or the disk refuses.
    pub fn export(&self, trace: &TraceId) -> Result<String, Error> {
        self.export_at(trace, At::Head, Profile::Native)
    }

    /// A trace's `cognition_log.json` as of an earlier place, or for the old Python readers.
    ///
    /// # Errors
    /// As [`Engine::export`].
    pub fn export_at(&self, trace: &TraceId, at: At, profile: Profile) -> Result<String, Error> {
        let snapshot = self.snapshot()?;
        let to = resolve(&snapshot, trace, at)?;
        export(&snapshot, trace, to, profile)?.print().map_err(Error::Print)
    }
}

/// The position that a place in time means for a trace.
pub(crate) fn resolve(snapshot: &Snapshot, trace: &TraceId, at: At) -> Result<Position, Error> {
    let limit = match at {
        At::Head => return Ok(snapshot.head()),
        At::Position(position) => return Ok(position.min(snapshot.head())),
        At::Sequence(limit) => limit,
    };
    let mut to = snapshot.head();
    snapshot.visit_stream(&StreamId::Trace(trace.clone()), Position::START, |event| {
        let envelope = event.envelope();
        // A message in a file of cognition events is stored as text of an unknown kind, and is a message by its text.
        let kind = match envelope.kind {
            EventKind::Unknown => event.with_view(|view| view.body.kind())?,
            kind => kind,
        };
        let is_place = matches!(kind, EventKind::Query | EventKind::Message);
        if is_place && envelope.sequence.is_some_and(|sequence| sequence > limit) {
            to = Position(envelope.position.0 - 1);
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(to)
}

pub(crate) fn stream_number(view: &View<'_>, trace: &TraceId) -> Result<u64, Error> {
    match view.stream(&StreamId::Trace(trace.clone()))? {
        Some(standing) => Ok(standing.number),
        None => Err(Error::NoSuchTrace { trace: trace.as_str().chars().take(200).collect() }),
    }
}

fn each_trace(
    view: &View<'_>,
    only: Option<&TraceId>,
    mut visit: impl FnMut(&str, u64) -> Result<(), Error>,
) -> Result<(), Error> {
    if let Some(trace) = only {
        return visit(trace.as_str(), stream_number(view, trace)?);
    }
    for number in 0..view.stream_count()? {
        let stream = view.stream_name(number)?.ok_or_else(|| {
            Error::Store(StoreError::Damaged {
                place: format!("stream number {number}"),
                reason: "it has no name in the index".to_owned(),
            })
        })?;
        if let StreamId::Trace(trace) = &stream {
            visit(trace.as_str(), number)?;
        }
    }
    Ok(())
}

/// The flags of a trace whose side branches these are (cognition log document, "触发点 1"): an imported trace has none,
/// whatever waits in it, until a trigger fires.
fn context(branches: &SideBranches) -> TraceContext {
    let is_evaluation = |branch_type: &str| branch_type == SideBranch::Evaluation.as_str();
    let open = branches.open.iter().map(|open| (&open.branch_type, &open.trigger));
    let queued = branches.queue.iter().map(|queued| (&queued.branch_type, &queued.trigger));
    let trigger = open.chain(queued).find(|(branch_type, _)| is_evaluation(branch_type)).map(|(_, trigger)| trigger);
    TraceContext { pending_knowledge_eval: trigger.is_some(), knowledge_eval_trigger: trigger.cloned() }
}

fn summary(view: &View<'_>, trace: &str, number: u64) -> Result<TraceSummary, Error> {
    Ok(TraceSummary {
        trace_id: trace.to_owned(),
        info: traces::info(view, number)?,
        counts: traces::counts(view, number)?.unwrap_or_default(),
        pending_evaluations: evaluation_status::pending(view, number)?.len(),
        pending_extractions: extraction_queue::pending(view, number)?.len(),
        reflected_at_sequence: reflection_checkpoints::checkpoint(view, number)?.reflected_at_sequence,
    })
}
