//! The `extraction_queue` projection: where each extraction stands, its text after edits, and the decisions on it.
//!
//! ```text
//! 'x' extraction id                     → the extraction
//! 'p' position of the event, id         → nothing; the row is there while the extraction is pending
//! 'e' position of an event              → the ids of the extractions that it speaks of
//! 'n'                                   → how many extractions the trace has
//! ```

use bincode::{Decode, Encode};
use cognilog_core::event::{
    ArchivedCommittedItem, ArchivedExtractionEdit, ArchivedExtractionItem, ArchivedExtractionPending,
    ArchivedExtractionReviewed, Body, CommitOutcome, EventKind, EventView, ReviewDecision,
};
use cognilog_core::extraction::{ExtractionState, fold_commit, fold_review, standing_decisions};
use cognilog_storage::{ChangeSet, Fold, Scope, View};
use serde::Serialize;
use serde_json::Value;

use crate::projection::{Projection, to_value};
use crate::query::{EventTime as _, QueryError, stream_key};
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

/// The fields that a decision replaced; what is absent stayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
#[allow(missing_docs, reason = "each field is the item's of the same name")]
pub struct Edit {
    pub types: Option<Vec<String>>,
    pub task: Option<String>,
    pub content: Option<String>,
    pub score: Option<String>,
    pub tags: Option<String>,
    pub scopes: Option<Vec<String>>,
    pub resource_ids: Option<Vec<String>>,
    pub owner: Option<String>,
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
    /// Everything that it edited.
    pub edited: Option<Edit>,
    /// The version that it takes back as if it had not been made.
    pub undoes: Option<u64>,
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
    /// What each commit made of it, in order.
    pub outcomes: Vec<OutcomeRow>,
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
        3
    }

    fn scope(&self) -> Scope {
        Scope::Stream
    }

    fn kinds(&self) -> &'static [EventKind] {
        &[EventKind::ExtractionPending, EventKind::ExtractionReviewed, EventKind::ExtractionCommitted]
    }

    fn apply(&self, rows: &mut ChangeSet<'_>, event: &EventView<'_>) {
        let position = event.amends.unwrap_or(event.envelope.position).0;
        let events_key = [b"e", &position.to_be_bytes()[..]].concat();
        let mut earlier = Earlier::default();
        if event.amends.is_some() {
            // What the event said before it was amended is taken back first.
            let ids: Vec<String> = stored(rows.get(&events_key)).unwrap_or_default();
            for id in &ids {
                let mut row = load(rows, id);
                earlier.time = earlier.time.or(row.take_back(position));
                save(rows, row);
            }
            earlier.id = ids.into_iter().next();
        }
        let mut ids = Vec::new();
        match event.body {
            Body::ExtractionPending(pending) => ids.push(take_pending(rows, event, position, pending, earlier)),
            Body::ExtractionReviewed(reviewed) => {
                ids.push(take_review(rows, event.time_after(earlier.time), position, reviewed));
            }
            Body::ExtractionCommitted(committed) => {
                ids.push(take_outcome(rows, position, &committed.item));
                ids.extend(committed.more.iter().map(|item| take_outcome(rows, position, item)));
            }
            _ => {}
        }
        rows.put(&events_key, &encode(&ids));
    }
}

/// What is known of an event from before it was amended.
#[derive(Default)]
struct Earlier {
    id: Option<String>,
    time: Option<i64>,
}

fn load(rows: &ChangeSet<'_>, id: &str) -> ExtractionRow {
    stored(rows.get(&[b"x", id.as_bytes()].concat()))
        .unwrap_or_else(|| ExtractionRow { extraction_id: id.to_owned(), ..ExtractionRow::default() })
}

fn save(rows: &mut ChangeSet<'_>, mut row: ExtractionRow) {
    row.fold();
    let id = row.extraction_id.as_bytes();
    let key = [b"x", id].concat();
    // The pending row stands behind the position, which an amendment may have taken away.
    let before: Option<ExtractionRow> = stored(rows.get(&key));
    if let Some(before) = before.filter(|before| before.position > 0) {
        rows.delete(&[b"p", &before.position.to_be_bytes()[..], id].concat());
    }
    if row.position > 0 && row.state() == ExtractionState::Pending {
        rows.put(&[b"p", &row.position.to_be_bytes()[..], id].concat(), &[]);
    }
    if id.is_empty() || (row.position == 0 && row.decisions.is_empty() && row.outcomes.is_empty()) {
        rows.delete(&key);
    } else {
        rows.put(&key, &encode(&row));
    }
}

impl ExtractionRow {
    /// Removes what the event at the position said; gives its time.
    fn take_back(&mut self, position: u64) -> Option<i64> {
        let decided = self.decisions.iter().find(|decision| decision.position == position).map(|row| row.time);
        self.decisions.retain(|decision| decision.position != position);
        self.outcomes.retain(|outcome| outcome.position != position);
        let extracted = (self.position == position).then_some(self.time);
        if extracted.is_some() {
            (self.position, self.time, self.original) = (0, 0, Item::default());
            (self.sequence, self.trigger, self.branch_id) = (None, None, None);
        }
        decided.or(extracted)
    }

    /// Makes state, version, current text and outcome from the extraction, its decisions and its outcomes, each in the
    /// order of the log, so that it does not matter which of them came first or was amended.
    fn fold(&mut self) {
        for (index, decision) in self.decisions.iter_mut().enumerate() {
            decision.version = index as u64 + 1;
        }
        let mut state = ExtractionState::Pending;
        let mut current = self.original.clone();
        for decision in self.standing().into_iter().map(|index| &self.decisions[index]) {
            let word = ReviewDecision::from_word(&decision.decision).unwrap_or(ReviewDecision::UNKNOWN);
            if let (ReviewDecision::EDIT, Some(edit)) = (word, &decision.edited) {
                edit.apply(&mut current);
            }
            state = fold_review(state, word);
        }
        let state = if self.committed_at().is_some() { ExtractionState::Committed } else { state };
        self.state = state.as_str().to_owned();
        self.version = self.decisions.len() as u64;
        self.current = current;
        self.outcome = self.outcomes.last().cloned();
    }

    /// The decisions that stand, as places in [`ExtractionRow::decisions`]: those that were not undone. A committed
    /// extraction keeps what was committed, whatever an old log decided on it afterwards.
    #[must_use]
    pub fn standing(&self) -> Vec<usize> {
        let committed_at = self.committed_at();
        let before = |decision: &&DecisionRow| committed_at.is_none_or(|committed| decision.position < committed);
        standing_decisions(self.decisions.iter().take_while(before).map(|decision| decision.undoes))
    }

    /// Where in the log the extraction was committed.
    fn committed_at(&self) -> Option<u64> {
        let is_commit = |outcome: &&OutcomeRow| {
            let word = CommitOutcome::from_word(&outcome.outcome).unwrap_or(CommitOutcome::UNKNOWN);
            fold_commit(ExtractionState::Approved, word) == ExtractionState::Committed
        };
        self.outcomes.iter().find(is_commit).map(|outcome| outcome.position)
    }
}

impl Edit {
    fn apply(&self, item: &mut Item) {
        if let Some(types) = &self.types {
            item.types.clone_from(types);
        }
        if let Some(content) = &self.content {
            item.content.clone_from(content);
        }
        replace(&mut item.task, &self.task);
        replace(&mut item.score, &self.score);
        replace(&mut item.tags, &self.tags);
        replace(&mut item.scopes, &self.scopes);
        replace(&mut item.resource_ids, &self.resource_ids);
        replace(&mut item.owner, &self.owner);
        replace(&mut item.source, &self.source);
    }
}

/// Puts a row of an event at a position among those of other events, in the order of the log.
fn insert<T>(list: &mut Vec<T>, row: T, position_of: impl Fn(&T) -> u64) {
    let place = list.partition_point(|other| position_of(other) <= position_of(&row));
    list.insert(place, row);
}

fn take_pending(
    rows: &mut ChangeSet<'_>,
    event: &EventView<'_>,
    position: u64,
    pending: &ArchivedExtractionPending,
    earlier: Earlier,
) -> String {
    let mut number: u64 = stored(rows.get(b"n")).unwrap_or_default();
    if earlier.id.is_none() {
        number += 1;
        rows.put(b"n", &encode(&number));
    }
    let id = match pending.extraction_id.as_ref().filter(|id| !id.is_empty()) {
        Some(id) => id.as_str().to_owned(),
        // An id that was made stays; a new one counts extractions alone, so that it is the same in every store that
        // has the trace.
        None => earlier.id.unwrap_or_else(|| format!("ext-{}-{number}", event.stream.parts().1)),
    };
    let mut row = load(rows, &id);
    // The first event with an id is the extraction; the same id again adds nothing.
    if row.position == 0 {
        row.position = position;
        row.time = event.time_after(earlier.time);
        row.original = item_of(&pending.item);
        row.trigger = text(&pending.trigger);
        row.branch_id = text(&pending.branch_id);
        row.sequence = pending.sequence.as_ref().map(|sequence| sequence.to_native());
        save(rows, row);
    }
    id
}

fn take_review(rows: &mut ChangeSet<'_>, time: i64, position: u64, reviewed: &ArchivedExtractionReviewed) -> String {
    let mut row = load(rows, reviewed.extraction_id.as_str());
    let edited = reviewed.edited.as_ref().map(edit_of);
    let decision = DecisionRow {
        position,
        decision: ReviewDecision(reviewed.decision.0).as_str().to_owned(),
        version: 0,
        reviewer: text(&reviewed.reviewer),
        reason: text(&reviewed.reason),
        content: edited.as_ref().and_then(|edited| edited.content.clone()),
        edited,
        undoes: reviewed.undoes.as_ref().and_then(|version| u64::try_from(version.to_native()).ok()),
        time,
    };
    insert(&mut row.decisions, decision, |decision| decision.position);
    save(rows, row);
    reviewed.extraction_id.as_str().to_owned()
}

fn take_outcome(rows: &mut ChangeSet<'_>, position: u64, item: &ArchivedCommittedItem) -> String {
    let mut row = load(rows, item.extraction_id.as_str());
    let outcome = match item.outcome.as_ref() {
        Some(outcome) => CommitOutcome(outcome.0),
        None if item.error.is_some() => CommitOutcome::FAILED,
        None => CommitOutcome::SAVED,
    };
    let outcome = OutcomeRow {
        position,
        outcome: outcome.as_str().to_owned(),
        knowledge_id: text(&item.knowledge_id),
        error: text(&item.error),
    };
    insert(&mut row.outcomes, outcome, |outcome| outcome.position);
    save(rows, row);
    item.extraction_id.as_str().to_owned()
}

fn replace<T: Clone>(field: &mut Option<T>, value: &Option<T>) {
    if value.is_some() {
        field.clone_from(value);
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

fn edit_of(edit: &ArchivedExtractionEdit) -> Edit {
    let json = |field: &rkyv_option::Json| field.as_ref().map(|json| json.as_str().to_owned());
    Edit {
        types: edit.types.as_ref().map(texts),
        task: text(&edit.task),
        content: text(&edit.content),
        score: json(&edit.score),
        tags: json(&edit.tags),
        scopes: edit.scopes.as_ref().map(texts),
        resource_ids: edit.resource_ids.as_ref().map(texts),
        owner: text(&edit.owner),
        source: json(&edit.source),
    }
}

impl Projection for ExtractionQueue {
    fn show_key(&self, key: &[u8]) -> String {
        match key.split_first() {
            Some((b'x', id)) => format!("extraction:{}", String::from_utf8_lossy(id)),
            Some((b'p', rest)) => format!("pending@{}", number_of(rest)),
            Some((b'e', rest)) => format!("event@{}", number_of(rest)),
            _ => "count".to_owned(),
        }
    }

    fn show_row(&self, key: &[u8], row: &[u8]) -> Result<Value, RowError> {
        match key.first() {
            Some(b'x') => to_value(&decode::<ExtractionRow>(row)?),
            Some(b'e') => to_value(&decode::<Vec<String>>(row)?),
            Some(b'n') => to_value(&decode::<u64>(row)?),
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
