//! Which judgements of a reply are accepted: of queries that wait, of their sources, with one of the five statuses.

use std::collections::BTreeMap;

use serde::Serialize;

use super::report::{Dropped, Reading, RepairKind, Unreadable};
use super::scan::{Found, find};
use super::unwrap::Schema;
use super::value::{Integer, Member, Value};
use crate::event::{Assessment, Evaluation, EvaluationStatus};

const SCHEMA: Schema = Schema {
    anchors: &["evaluations", "query_sequence", "assessments"],
    list_key: "evaluations",
    item_keys: &["query_sequence", "assessments"],
    takes_map: false,
    takes_tool_calls: false,
};

/// What a reply may speak of: the queries that wait for an evaluation, by sequence, with all their sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvaluationContext {
    /// The sources of each query, those that are assessed already included: a source may be assessed again.
    pub pending: BTreeMap<i64, Vec<String>>,
}

/// The accepted judgements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EvaluationReply {
    /// One entry a query, in the reply's order.
    pub evaluations: Vec<QueryJudgement>,
}

/// The judgements of one query's sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueryJudgement {
    /// The query.
    pub query_sequence: i64,
    /// One judgement a source, in the reply's order.
    pub assessments: Vec<Judgement>,
}

/// The judgement of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The source.
    pub source_id: String,
    /// What it was worth.
    pub status: EvaluationStatus,
    /// Why; empty if the reply does not say.
    pub reason: String,
}

impl Serialize for Judgement {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut fields = serializer.serialize_struct("Judgement", 3)?;
        fields.serialize_field("source_id", &self.source_id)?;
        fields.serialize_field("status", self.status.as_str())?;
        fields.serialize_field("reason", &self.reason)?;
        fields.end()
    }
}

impl EvaluationReply {
    /// Leaves out the judgements that `is_wanted` refuses, by query and source; gives how many there were.
    pub fn retain(&mut self, is_wanted: impl Fn(i64, &str) -> bool) -> usize {
        let count =
            |reply: &EvaluationReply| reply.evaluations.iter().map(|query| query.assessments.len()).sum::<usize>();
        let before = count(self);
        for query in &mut self.evaluations {
            query.assessments.retain(|judgement| is_wanted(query.query_sequence, &judgement.source_id));
        }
        self.evaluations.retain(|query| !query.assessments.is_empty());
        before - count(self)
    }

    /// The events that record the judgements, one a query (cognition log document, section "即时写入").
    #[must_use]
    pub fn events(&self, trigger: &str) -> Vec<Evaluation> {
        let assessment = |judgement: &Judgement| Assessment {
            source_id: judgement.source_id.clone(),
            status: judgement.status,
            reason: Some(judgement.reason.clone()).filter(|reason| !reason.is_empty()),
        };
        let event = |judged: &QueryJudgement| Evaluation {
            query_sequence: judged.query_sequence,
            trigger: Some(trigger.to_owned()),
            assessments: judged.assessments.iter().map(assessment).collect(),
            ..Evaluation::default()
        };
        self.evaluations.iter().map(event).collect()
    }
}

/// Reads the reply of an evaluation branch (DESIGN section 7, "Reply reading").
///
/// Of several answers the later one counts for the queries that it speaks of. An answer with an empty list is valid.
///
/// # Errors
/// Nothing in the reply could be accepted.
pub fn read_evaluation(reply: &str, context: &EvaluationContext) -> Result<Reading<EvaluationReply>, Unreadable> {
    super::check_length(reply.len())?;
    let Found { candidates, mut repairs, mut dropped } = find(reply, &SCHEMA)?;
    let mut judged: Vec<QueryJudgement> = Vec::new();
    let mut has_items = false;
    for (number, candidate) in candidates.iter().enumerate() {
        has_items |= !candidate.items.is_empty();
        for query in judge(&candidate.items, context, &mut dropped) {
            match judged.iter_mut().find(|earlier| earlier.query_sequence == query.query_sequence) {
                Some(earlier) => {
                    repairs.note(RepairKind::Superseded, 0);
                    *earlier = query;
                }
                None => judged.push(query),
            }
        }
        if number > 0 {
            repairs.note(RepairKind::Merged, 0);
        }
    }
    if judged.is_empty() && has_items {
        return Err(super::nothing_accepted(dropped));
    }
    for query in &judged {
        let sources = context.pending.get(&query.query_sequence).map(Vec::as_slice).unwrap_or_default();
        let is_assessed = |id: &str| query.assessments.iter().any(|judgement| judgement.source_id == id);
        for source_id in crate::pending::missing_sources(sources.iter().map(String::as_str), is_assessed) {
            dropped.push(Dropped::NotAssessed { query: query.query_sequence, source_id: source_id.to_owned() });
        }
    }
    Ok(Reading { accepted: EvaluationReply { evaluations: judged }, repairs: repairs.list(), dropped })
}

/// The judgements of one answer by query and source, each source's statuses side by side.
type Judgements = Vec<(i64, Vec<(String, Vec<(EvaluationStatus, String)>)>)>;

fn judge(items: &[Value], context: &EvaluationContext, dropped: &mut Vec<Dropped>) -> Vec<QueryJudgement> {
    let mut found: Judgements = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some((query, sources, assessments)) = item_of(index, item, context, dropped) else { continue };
        for (index, assessment) in assessments.iter().enumerate() {
            let judgement = judgement_of(query, sources, index, assessment, dropped);
            let Some(Judgement { source_id, status, reason }) = judgement else { continue };
            let by_source = entry(&mut found, query);
            entry(by_source, source_id).push((status, reason));
        }
    }
    let mut judged = Vec::new();
    for (query, by_source) in found {
        let mut assessments = Vec::new();
        for (source_id, statuses) in by_source {
            let (status, reason) = statuses[0].clone();
            if statuses.iter().any(|(other, _)| *other != status) {
                dropped.push(Dropped::Contradiction { query, source_id });
                continue;
            }
            assessments.push(Judgement { source_id, status, reason });
        }
        if !assessments.is_empty() {
            judged.push(QueryJudgement { query_sequence: query, assessments });
        }
    }
    judged
}

/// The list under a key, made if it is not there; few keys, so a search will do.
fn entry<K: PartialEq, V>(list: &mut Vec<(K, Vec<V>)>, key: K) -> &mut Vec<V> {
    let at = list.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
        list.push((key, Vec::new()));
        list.len() - 1
    });
    &mut list[at].1
}

/// The query that an item judges, with its sources and the item's assessments.
fn item_of<'v, 'c>(
    index: usize,
    item: &'v Value,
    context: &'c EvaluationContext,
    dropped: &mut Vec<Dropped>,
) -> Option<(i64, &'c [String], &'v [Value])> {
    let reason = 'dropped: {
        if item.members().is_none() {
            break 'dropped Dropped::NotAnObject { index, found: item.type_name().to_owned() };
        }
        let assessments = match item.get("assessments") {
            Member::Ambiguous => break 'dropped Dropped::DuplicateKey { key: "assessments".to_owned() },
            assessments => assessments.one(),
        };
        // A cut item counts if all that it says of its query was said.
        if !item.is_closed() && !assessments.is_some_and(Value::is_closed) {
            break 'dropped Dropped::CutOff { index };
        }
        let sequence = match item.get("query_sequence") {
            Member::Ambiguous => break 'dropped Dropped::DuplicateKey { key: "query_sequence".to_owned() },
            sequence => sequence.one().unwrap_or(&Value::Null),
        };
        let query = match sequence.as_integer() {
            Some(Integer::Small(query)) => query,
            Some(Integer::Large) => break 'dropped Dropped::UnknownQuery { found: sequence.shown() },
            None => break 'dropped Dropped::BadQuerySequence { found: sequence.shown() },
        };
        let Some(sources) = context.pending.get(&query) else {
            break 'dropped Dropped::UnknownQuery { found: query.to_string() };
        };
        match assessments {
            Some(Value::List { items, .. }) if !items.is_empty() => return Some((query, sources, items)),
            _ => break 'dropped Dropped::NoAssessments { query },
        }
    };
    dropped.push(reason);
    None
}

fn judgement_of(
    query: i64,
    sources: &[String],
    index: usize,
    assessment: &Value,
    dropped: &mut Vec<Dropped>,
) -> Option<Judgement> {
    if assessment.members().is_none() {
        dropped.push(Dropped::NotAnObject { index, found: assessment.type_name().to_owned() });
        return None;
    }
    let id = assessment.get("source_id").one();
    // Models set ids in code marks or quotes; nothing else is taken off, and case counts.
    let bare_id = id.and_then(Value::as_text).map(|id| id.trim().trim_matches(['`', '\'', '"']).trim());
    let Some(source_id) = bare_id.filter(|id| sources.iter().any(|source| source == id)) else {
        let found = id.map_or("nothing".to_owned(), Value::shown);
        dropped.push(Dropped::UnknownSource { query, found });
        return None;
    };
    let status = assessment.get("status").one();
    let word = status.and_then(Value::as_text).map(|word| word.trim().to_lowercase());
    let Some(known) = word.and_then(|word| EvaluationStatus::from_word(&word)) else {
        let found = status.map_or("nothing, or two of them,".to_owned(), Value::shown);
        dropped.push(Dropped::UnknownStatus { query, source_id: source_id.to_owned(), found });
        return None;
    };
    let reason = match assessment.get("reason").one() {
        None | Some(Value::Null) => String::new(),
        Some(reason) => reason_text(reason),
    };
    Some(Judgement { source_id: source_id.to_owned(), status: known, reason })
}

/// A reason as one text: a list of texts joined, anything else as JSON.
fn reason_text(reason: &Value) -> String {
    match reason {
        Value::Text(text) => text.content.clone(),
        Value::List { items, .. } => {
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_text).collect();
            texts.map_or_else(|| reason.to_python(), |texts| texts.join("; "))
        }
        other => other.to_python(),
    }
}
