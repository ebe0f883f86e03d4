//! The `evaluation_status` projection: which sources of which queries are assessed, and what is pending.
//!
//! ```text
//! 'q' position of a query  → its text, sequence and sources
//! 's' sequence             → positions of the queries with that sequence
//! 'a' sequence             → what is known of the sources of queries with that sequence
//! 'e' sequence, position   → what the evaluation at the position said of queries with that sequence
//! 'p' position of a query  → the sources that are missing; the row is there while the query is pending
//! ```
//! Assessments are kept by sequence, whether a query was seen or not, so an evaluation may come before its query.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use cognilog_core::event::{ArchivedAssessment, ArchivedEvaluation, ArchivedQuery, Body, EventKind, EventView};
use cognilog_core::pending::missing_sources;
use cognilog_storage::{ChangeSet, Fold, Scope, View};
use serde::Serialize;
use serde_json::Value;

use crate::projection::{Projection, to_value};
use crate::query::{EventTime as _, QueryError, stream_key};
use crate::row::{RowError, decode, encode, number_of, sequence_key, sequence_of, stored};

/// The fold.
#[derive(Debug)]
pub struct EvaluationStatusFold;

/// A query as it waits for, or has, its evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct QueryRow {
    /// The agent's message number.
    pub sequence: Option<i64>,
    /// The goal that was focused.
    pub goal_id: Option<String>,
    /// The question.
    pub query: String,
    /// The sources of the answer.
    pub source_ids: Vec<String>,
    /// When, in microseconds since 1970.
    pub time: i64,
}

/// What is known of one source of a query.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct SourceAssessment {
    /// irrelevant, unused, helpful, harmful or neutral.
    pub status: String,
    /// Why.
    pub reason: Option<String>,
    /// What led to the evaluation.
    pub trigger: Option<String>,
    /// Where in the log; the latest counts.
    pub position: u64,
    /// When, in microseconds since 1970.
    pub time: i64,
    /// How often the source was assessed.
    pub times: u64,
}

/// What one evaluation said.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct EvaluationRow {
    /// What led to it.
    pub trigger: Option<String>,
    /// One judgement a source, in the event's order.
    pub assessments: Vec<AssessmentRow>,
    /// When, in microseconds since 1970.
    pub time: i64,
}

/// The judgement of one source by one evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct AssessmentRow {
    /// The source.
    pub source_id: String,
    /// irrelevant, unused, helpful, harmful or neutral.
    pub status: String,
    /// Why.
    pub reason: Option<String>,
}

/// What is known of the sources of queries with one sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct SequenceAssessments {
    /// Evaluation events with that `query_sequence`.
    pub evaluations: u64,
    /// The latest assessment of each source.
    pub sources: BTreeMap<String, SourceAssessment>,
}

impl Fold for EvaluationStatusFold {
    fn name(&self) -> &'static str {
        "evaluation_status"
    }

    fn version(&self) -> u32 {
        2
    }

    fn scope(&self) -> Scope {
        Scope::Stream
    }

    fn kinds(&self) -> &'static [EventKind] {
        &[EventKind::Query, EventKind::Evaluation]
    }

    fn apply(&self, rows: &mut ChangeSet<'_>, event: &EventView<'_>) {
        match event.body {
            Body::Query(query) => take_query(rows, event, query),
            Body::Evaluation(evaluation) => take_evaluation(rows, event, evaluation),
            _ => {}
        }
    }
}

fn take_query(rows: &mut ChangeSet<'_>, event: &EventView<'_>, query: &ArchivedQuery) {
    let position = event.amends.unwrap_or(event.envelope.position).0;
    let key = [b"q", &position.to_be_bytes()[..]].concat();
    let earlier: Option<QueryRow> = event.amends.and_then(|_| stored(rows.get(&key)));
    let row = QueryRow {
        sequence: query.sequence.as_ref().map(|sequence| sequence.to_native()),
        goal_id: query.goal_id.as_ref().map(|text| text.as_str().to_owned()),
        query: query.query.as_str().to_owned(),
        source_ids: query.source_ids.iter().map(|id| id.as_str().to_owned()).collect(),
        time: event.time_after(earlier.map(|earlier| earlier.time)),
    };
    rows.put(&key, &encode(&row));
    if let Some(sequence) = row.sequence {
        let key = [b"s", &sequence_key(sequence)[..]].concat();
        let mut positions: Vec<u64> = stored(rows.get(&key)).unwrap_or_default();
        if !positions.contains(&position) {
            positions.push(position);
            rows.put(&key, &encode(&positions));
        }
    }
    settle(rows, position, &row, event.envelope.erased);
}

fn take_evaluation(rows: &mut ChangeSet<'_>, event: &EventView<'_>, evaluation: &ArchivedEvaluation) {
    let sequence = evaluation.query_sequence.to_native();
    let position = event.amends.unwrap_or(event.envelope.position).0;
    let key = [b"e", &sequence_key(sequence)[..], &position.to_be_bytes()[..]].concat();
    let earlier: Option<EvaluationRow> = event.amends.and_then(|_| stored(rows.get(&key)));
    let row = EvaluationRow {
        trigger: evaluation.trigger.as_ref().map(|text| text.as_str().to_owned()),
        assessments: evaluation.assessments.iter().map(assessment_of).collect(),
        time: event.time_after(earlier.map(|earlier| earlier.time)),
    };
    rows.put(&key, &encode(&row));
    let key = [b"a", &sequence_key(sequence)[..]].concat();
    let known = if event.amends.is_none() {
        let mut known: SequenceAssessments = stored(rows.get(&key)).unwrap_or_default();
        known.take(position, row);
        known
    } else {
        // What an evaluation said before it was amended counts no more, so everything is taken in again.
        let mut known = SequenceAssessments::default();
        for (key, row) in rows.scan(&[b"e", &sequence_key(sequence)[..]].concat()) {
            if let Some(row) = stored(Some(row)) {
                known.take(number_of(&key[9..]), row);
            }
        }
        known
    };
    rows.put(&key, &encode(&known));
    let positions: Vec<u64> = stored(rows.get(&[b"s", &sequence_key(sequence)[..]].concat())).unwrap_or_default();
    for position in positions {
        let query: Option<QueryRow> = stored(rows.get(&[b"q", &position.to_be_bytes()[..]].concat()));
        if let Some(query) = query {
            settle(rows, position, &query, false);
        }
    }
}

fn assessment_of(assessment: &ArchivedAssessment) -> AssessmentRow {
    AssessmentRow {
        source_id: assessment.source_id.as_str().to_owned(),
        status: cognilog_core::event::EvaluationStatus(assessment.status.0).as_str().to_owned(),
        reason: assessment.reason.as_ref().map(|text| text.as_str().to_owned()),
    }
}

impl SequenceAssessments {
    /// Takes in the evaluation at a position behind all that were taken in before.
    fn take(&mut self, position: u64, row: EvaluationRow) {
        self.evaluations += 1;
        for assessment in row.assessments {
            let times = self.sources.get(&assessment.source_id).map_or(0, |earlier| earlier.times) + 1;
            let latest = SourceAssessment {
                status: assessment.status,
                reason: assessment.reason,
                trigger: row.trigger.clone(),
                position,
                time: row.time,
                times,
            };
            self.sources.insert(assessment.source_id, latest);
        }
    }
}

/// Writes or removes the pending row of a query.
fn settle(rows: &mut ChangeSet<'_>, position: u64, query: &QueryRow, erased: bool) {
    let known: SequenceAssessments = query
        .sequence
        .and_then(|sequence| stored(rows.get(&[b"a", &sequence_key(sequence)[..]].concat())))
        .unwrap_or_default();
    let missing = missing_sources(query.source_ids.iter().map(String::as_str), |id| known.sources.contains_key(id));
    let key = [b"p", &position.to_be_bytes()[..]].concat();
    // A query that was erased can no longer be judged, so it is never pending (DESIGN section 4, erase).
    if missing.is_empty() || erased {
        rows.delete(&key);
    } else {
        let missing: Vec<String> = missing.into_iter().map(str::to_owned).collect();
        rows.put(&key, &encode(&missing));
    }
}

impl Projection for EvaluationStatusFold {
    fn show_key(&self, key: &[u8]) -> String {
        match key.split_first() {
            Some((b'q', rest)) => format!("query@{}", number_of(rest)),
            Some((b'p', rest)) => format!("pending@{}", number_of(rest)),
            Some((b's', rest)) => format!("queries:{}", sequence_of(rest)),
            Some((b'a', rest)) => format!("assessments:{}", sequence_of(rest)),
            Some((b'e', rest)) => format!("evaluation@{}", number_of(rest.get(8..).unwrap_or_default())),
            _ => String::new(),
        }
    }

    fn show_row(&self, key: &[u8], row: &[u8]) -> Result<Value, RowError> {
        match key.first() {
            Some(b'q') => to_value(&decode::<QueryRow>(row)?),
            Some(b'a') => to_value(&decode::<SequenceAssessments>(row)?),
            Some(b'e') => to_value(&decode::<EvaluationRow>(row)?),
            Some(b's') => to_value(&decode::<Vec<u64>>(row)?),
            _ => to_value(&decode::<Vec<String>>(row)?),
        }
    }
}

/// A query that waits for the evaluation of some of its sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingQuery {
    /// The query's place in the log.
    pub position: u64,
    /// The query.
    pub query: QueryRow,
    /// The sources without an assessment.
    pub missing_source_ids: Vec<String>,
}

const NAME: &str = "evaluation_status";

/// The queries of a stream that wait for an evaluation, in the order they were recorded.
///
/// # Errors
/// The projection is not readable or a row is damaged.
pub fn pending(view: &View<'_>, stream_number: u64) -> Result<Vec<PendingQuery>, QueryError> {
    let mut found = Vec::new();
    for (key, row) in view.scan(NAME, &stream_key(stream_number, b"p"))? {
        let position = number_of(&key[9..]);
        let query = view.row(NAME, &stream_key(stream_number, &[b"q", &position.to_be_bytes()[..]].concat()))?;
        if let Some(query) = query {
            found.push(PendingQuery { position, query: decode(&query)?, missing_source_ids: decode(&row)? });
        }
    }
    Ok(found)
}

/// The queries of a stream without any evaluation event: the documents' rule, for comparison with old readers
/// (cognition log document, "判断待评估条件").
///
/// # Errors
/// As [`pending`].
pub fn pending_by_document(view: &View<'_>, stream_number: u64) -> Result<Vec<PendingQuery>, QueryError> {
    let mut found = Vec::new();
    for (position, query, known) in statuses(view, stream_number)? {
        if known.evaluations == 0 {
            let missing_source_ids = query.source_ids.clone();
            found.push(PendingQuery { position, query, missing_source_ids });
        }
    }
    Ok(found)
}

/// Every query of a stream with what is known of its sources: position, query, assessments.
///
/// # Errors
/// As [`pending`].
pub fn statuses(view: &View<'_>, stream_number: u64) -> Result<Vec<(u64, QueryRow, SequenceAssessments)>, QueryError> {
    let mut found = Vec::new();
    for (key, row) in view.scan(NAME, &stream_key(stream_number, b"q"))? {
        let query: QueryRow = decode(&row)?;
        let known = match query.sequence {
            Some(sequence) => {
                let key = stream_key(stream_number, &[b"a", &sequence_key(sequence)[..]].concat());
                view.row(NAME, &key)?.map(|row| decode(&row)).transpose()?.unwrap_or_default()
            }
            None => SequenceAssessments::default(),
        };
        found.push((number_of(&key[9..]), query, known));
    }
    Ok(found)
}

/// Sequences that were evaluated and whose query has not been seen.
///
/// # Errors
/// As [`pending`].
pub fn orphans(view: &View<'_>, stream_number: u64) -> Result<Vec<i64>, QueryError> {
    let mut found = Vec::new();
    for (key, _) in view.scan(NAME, &stream_key(stream_number, b"a"))? {
        let sequence = sequence_of(&key[9..]);
        let queries = stream_key(stream_number, &[b"s", &sequence_key(sequence)[..]].concat());
        if view.row(NAME, &queries)?.is_none() {
            found.push(sequence);
        }
    }
    Ok(found)
}
