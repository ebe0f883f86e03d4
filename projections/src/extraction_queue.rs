//! The `extraction_queue` projection: where each extraction stands, its text after edits, and the decisions on it.
//!
//! ```text
//! 'x' extraction id                     → the extraction
//! 'p' position of the event, id         → nothing; the row is there while the extraction is pending
//! ```

use bincode::{Decode, Encode};
use cognilog_core::event::{
    ArchivedCommittedItem, ArchivedExtractionItem, ArchivedExtractionPending, ArchivedExtractionReviewed, Body,
    CommitOutcome, EventKind, EventView, ReviewDecision,
};
use cognilog_core::extraction::{ExtractionState, fold_commit, fold_review};
use cognilog_storage::{ChangeSet, Fold, Scope, View};
use serde::Serialize;
use serde_json::Value;

use crate::projection::{Projection, to_value};
use crate::query::{QueryError, stream_key};
use crate::row::{RowError, decode, encode, number_of, stored};

/// The fold.
#[derive(Debug)]
pub struct ExtractionQueue;

/// What was learned, in the spelling it came in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Item {
    /// experience, tool, strategy, case; others are kept.
    pub types: Vec<String>,
    /// The task it is for.
    pub task: Option<String>,
    /// The knowledge.
    pub content: String,
    /// The score as JSON.
    pub score: Option<String>,
    /// Tags as JSON.
    pub tags: Option<String>,
    /// Who may read it.
    pub scopes: Option<Vec<String>>,
    /// The resources it speaks of.
    pub resource_ids: Option<Vec<String>>,
    /// Whose it is.
    pub owner: Option<String>,
    /// Where it comes from, as JSON.
    pub source: Option<String>,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct DecisionRow {
    /// Where in the log.
    pub position: u64,
    /// approve, edit, discard or withdraw.
    pub decision: String,
    /// The version it made.
    pub version: u64,
    /// Who decided.
    pub reviewer: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// The text after the decision, if it edited the text.
    pub content: Option<String>,
    /// When, in microseconds since 1970.
    pub time: i64,
}

/// What became of an extraction in a commit.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct OutcomeRow {
    /// Where in the log.
    pub position: u64,
    /// saved, skipped or failed.
    pub outcome: String,
    /// The record it became or was found equal to.
    pub knowledge_id: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
}

/// An extraction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct ExtractionRow {
    /// Its id, made from its place in the trace where the log has none.
    pub extraction_id: String,
    /// Position of its pending event; 0 while only decisions on it were seen.
    pub position: u64,
    /// The agent's message number.
    pub sequence: Option<i64>,
    /// What led to it.
    pub trigger: Option<String>,
    /// The side branch that extracted it.
    pub branch_id: Option<String>,
    /// pending, approved, edited, discarded or committed.
    pub state: String,
    /// Decisions so far.
    pub version: u64,
    /// As it was extracted.
    pub original: Item,
    /// As it stands after the decision that counts.
    pub current: Item,
    /// Every decision, in order.
    pub decisions: Vec<DecisionRow>,
    /// What the last commit made of it.
    pub outcome: Option<OutcomeRow>,
    /// When it was extracted, in microseconds since 1970.
    pub time: i64,
}

impl ExtractionRow {
    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> ExtractionState {
        use ExtractionState::*;
        [Approved, Edited, Discarded, Committed]
            .into_iter()
            .find(|state| state.as_str() == self.state)
            .unwrap_or(Pending)
    }
}

impl Fold for ExtractionQueue {
    fn name(&self) -> &'static str {
        "extraction_queue"
    }

    fn version(&self) -> u32 {
        1
    }

    fn scope(&self) -> Scope {
        Scope::Stream
    }

    fn kinds(&self) -> &'static [EventKind] {
        &[EventKind::ExtractionPending, EventKind::ExtractionReviewed, EventKind::ExtractionCommitted]
    }

    fn apply(&self, rows: &mut ChangeSet<'_>, event: &EventView<'_>) {
        match event.body {
            Body::ExtractionPending(pending) => take_pending(rows, event, pending),
            Body::ExtractionReviewed(reviewed) => take_review(rows, event, reviewed),
            Body::ExtractionCommitted(committed) => {
                take_outcome(rows, event, &committed.item);
                committed.more.iter().for_each(|item| take_outcome(rows, event, item));
            }
            _ => {}
        }
    }
}

fn load(rows: &ChangeSet<'_>, id: &str) -> ExtractionRow {
    stored(rows.get(&[b"x", id.as_bytes()].concat())).unwrap_or_else(|| ExtractionRow {
        extraction_id: id.to_owned(),
        state: ExtractionState::Pending.as_str().to_owned(),
        ..ExtractionRow::default()
    })
}

fn save(rows: &mut ChangeSet<'_>, row: &ExtractionRow) {
    let id = row.extraction_id.as_bytes();
    let pending = [b"p", &row.position.to_be_bytes()[..], id].concat();
    if row.position > 0 && row.state() == ExtractionState::Pending {
        rows.put(&pending, &[]);
    } else {
        rows.delete(&pending);
    }
    rows.put(&[b"x", id].concat(), &encode(row));
}

fn take_pending(rows: &mut ChangeSet<'_>, event: &EventView<'_>, pending: &ArchivedExtractionPending) {
    let id = match pending.extraction_id.as_ref() {
        Some(id) => id.as_str().to_owned(),
        None => {
            let (_, trace) = event.stream.parts();
            let index = match event.amends {
                Some(target) => format!("@{target}"),
                None => event.envelope.stream_index.to_string(),
            };
            format!("ext-{trace}-{index}")
        }
    };
    let mut row = load(rows, &id);
    // The first event with an id is the extraction; the same id again adds nothing. An amendment replaces its text.
    if row.position > 0 && event.amends.is_none() {
        return;
    }
    row.original = item_of(&pending.item);
    row.trigger = text(&pending.trigger);
    row.branch_id = text(&pending.branch_id);
    row.sequence = pending.sequence.as_ref().map(|sequence| sequence.to_native());
    if row.position == 0 {
        row.position = event.amends.unwrap_or(event.envelope.position).0;
        row.time = event.envelope.time().0;
    }
    // Decisions that came before their extraction apply to its text now.
    let edited = row.state() == ExtractionState::Edited;
    let content = row.decisions.iter().rev().find_map(|decision| decision.content.clone()).filter(|_| edited);
    if !edited {
        row.current = row.original.clone();
    } else if let Some(content) = content {
        row.current = Item { content, ..row.original.clone() };
    }
    save(rows, &row);
}

fn take_review(rows: &mut ChangeSet<'_>, event: &EventView<'_>, reviewed: &ArchivedExtractionReviewed) {
    let mut row = load(rows, reviewed.extraction_id.as_str());
    let decision = ReviewDecision(reviewed.decision.0);
    let before = row.state();
    let state = fold_review(before, decision);
    let content = reviewed.edited.as_ref().and_then(|edited| text(&edited.content));
    // A committed extraction keeps what was committed, whatever an old log decided on it afterwards.
    if before != ExtractionState::Committed {
        row.current = row.original.clone();
        if let (ReviewDecision::EDIT, Some(edited)) = (decision, reviewed.edited.as_ref()) {
            let json = |field: &rkyv_option::Json| field.as_ref().map(|json| json.as_str().to_owned());
            if let Some(types) = edited.types.as_ref() {
                row.current.types = types.iter().map(|word| word.as_str().to_owned()).collect();
            }
            if let Some(content) = &content {
                row.current.content.clone_from(content);
            }
            replace(&mut row.current.task, text(&edited.task));
            replace(&mut row.current.score, json(&edited.score));
            replace(&mut row.current.tags, json(&edited.tags));
            replace(&mut row.current.scopes, edited.scopes.as_ref().map(texts));
            replace(&mut row.current.resource_ids, edited.resource_ids.as_ref().map(texts));
            replace(&mut row.current.owner, text(&edited.owner));
            replace(&mut row.current.source, json(&edited.source));
        }
    }
    row.version += 1;
    row.state = state.as_str().to_owned();
    row.decisions.push(DecisionRow {
        position: event.envelope.position.0,
        decision: decision.as_str().to_owned(),
        version: row.version,
        reviewer: text(&reviewed.reviewer),
        reason: text(&reviewed.reason),
        content,
        time: event.envelope.time().0,
    });
    save(rows, &row);
}

fn take_outcome(rows: &mut ChangeSet<'_>, event: &EventView<'_>, item: &ArchivedCommittedItem) {
    let mut row = load(rows, item.extraction_id.as_str());
    let outcome = match item.outcome.as_ref() {
        Some(outcome) => CommitOutcome(outcome.0),
        None if item.error.is_some() => CommitOutcome::FAILED,
        None => CommitOutcome::SAVED,
    };
    row.state = fold_commit(row.state(), outcome).as_str().to_owned();
    row.outcome = Some(OutcomeRow {
        position: event.envelope.position.0,
        outcome: outcome.as_str().to_owned(),
        knowledge_id: text(&item.knowledge_id),
        error: text(&item.error),
    });
    save(rows, &row);
}

fn replace<T>(field: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *field = value;
    }
}

mod rkyv_option {
    //! Names for the archived optional fields that the helpers below read.

    use cognilog_core::event::ArchivedJsonText;
    use rkyv::option::ArchivedOption;
    use rkyv::string::ArchivedString;

    pub(super) type Text = ArchivedOption<ArchivedString>;
    pub(super) type Json = ArchivedOption<ArchivedJsonText>;
    pub(super) type Texts = rkyv::vec::ArchivedVec<ArchivedString>;
}

fn text(field: &rkyv_option::Text) -> Option<String> {
    field.as_ref().map(|text| text.as_str().to_owned())
}

fn texts(field: &rkyv_option::Texts) -> Vec<String> {
    field.iter().map(|text| text.as_str().to_owned()).collect()
}

fn item_of(item: &ArchivedExtractionItem) -> Item {
    let json = |field: &rkyv_option::Json| field.as_ref().map(|json| json.as_str().to_owned());
    Item {
        types: texts(&item.types),
        task: text(&item.task),
        content: item.content.as_str().to_owned(),
        score: json(&item.score),
        tags: json(&item.tags),
        scopes: item.scopes.as_ref().map(texts),
        resource_ids: item.resource_ids.as_ref().map(texts),
        owner: text(&item.owner),
        source: json(&item.source),
    }
}

impl Projection for ExtractionQueue {
    fn show_key(&self, key: &[u8]) -> String {
        match key.split_first() {
            Some((b'x', id)) => format!("extraction:{}", String::from_utf8_lossy(id)),
            Some((b'p', rest)) => format!("pending@{}", number_of(rest)),
            _ => String::new(),
        }
    }

    fn show_row(&self, key: &[u8], row: &[u8]) -> Result<Value, RowError> {
        match key.first() {
            Some(b'x') => to_value(&decode::<ExtractionRow>(row)?),
            _ => Ok(Value::Bool(true)),
        }
    }
}

const NAME: &str = "extraction_queue";

/// The extractions of a stream, in the order of their ids.
///
/// # Errors
/// The projection is not readable or a row is damaged.
pub fn extractions(view: &View<'_>, stream_number: u64) -> Result<Vec<ExtractionRow>, QueryError> {
    let rows = view.scan(NAME, &stream_key(stream_number, b"x"))?;
    rows.iter().map(|(_, row)| Ok(decode(row)?)).collect()
}

/// One extraction of a stream.
///
/// # Errors
/// As [`extractions`].
pub fn extraction(view: &View<'_>, stream_number: u64, id: &str) -> Result<Option<ExtractionRow>, QueryError> {
    let row = view.row(NAME, &stream_key(stream_number, &[b"x", id.as_bytes()].concat()))?;
    Ok(row.map(|row| decode(&row)).transpose()?)
}

/// The extractions of a stream that wait for a person, in the order they were recorded.
///
/// # Errors
/// As [`extractions`].
pub fn pending(view: &View<'_>, stream_number: u64) -> Result<Vec<ExtractionRow>, QueryError> {
    let mut found = Vec::new();
    for (key, _) in view.scan(NAME, &stream_key(stream_number, b"p"))? {
        let id = String::from_utf8_lossy(&key[17..]).into_owned();
        found.extend(extraction(view, stream_number, &id)?);
    }
    Ok(found)
}
