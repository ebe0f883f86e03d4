//! The cognition events: these and only these appear in `cognition_log.json`.

use serde::ser::SerializeMap;

use super::field::{Field, JsonText, Reader, Severity, Shape, fields, shape_as_field, words};
use crate::json::Node;

fields! {
    /// A question to the knowledge hub with the answer and its sources (cognition log document, "query").
    pub struct Query {
        /// The agent's message number.
        sequence: Option<i64>,
        /// The goal that was focused.
        goal_id: Option<String>,
        /// The question.
        query: String,
        /// The hub's answer, never cut.
        response: Option<String>,
        /// The ids of the sources the answer rests on.
        source_ids: Vec<String>,
        /// The sources as they were shown to the agent.
        sources: Vec<QuerySource>,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}

fields! {
    /// One source of an answer.
    pub struct QuerySource {
        /// The knowledge record's id.
        id: String,
        /// The record's task.
        task: Option<String>,
        /// The record's content, cut to 500 characters when recorded here.
        content: Option<String>,
    }
}

fields! {
    /// What the sources of one query were worth (cognition log document, "evaluation").
    pub struct Evaluation {
        /// The agent's message number.
        sequence: Option<i64>,
        /// The sequence of the query that is judged.
        query_sequence: i64,
        /// What led to the judgement.
        trigger: Option<String>,
        /// One judgement a source.
        assessments: Vec<Assessment>,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}

fields! {
    /// The judgement of one source.
    pub struct Assessment {
        /// The knowledge record's id.
        source_id: String,
        /// What it was worth.
        status: EvaluationStatus,
        /// Why.
        reason: Option<String>,
    }
}

words! {
    /// What a source was worth (cognition log document, table of `status`).
    pub struct EvaluationStatus {
        /// Not related to the task.
        IRRELEVANT = 1 "irrelevant",
        /// Related and not used.
        UNUSED = 2 "unused",
        /// Of real help.
        HELPFUL = 3 "helpful",
        /// It did harm.
        HARMFUL = 4 "harmful",
        /// Related, without visible effect.
        NEUTRAL = 5 "neutral",
    }
}

fields! {
    /// Knowledge that was uploaded at once (cognition log document, "extraction"; legacy).
    pub struct Extraction {
        /// The agent's message number.
        sequence: Option<i64>,
        /// What led to the extraction.
        trigger: Option<String>,
        /// What was uploaded.
        items: Vec<UploadedItem>,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}

fields! {
    /// One uploaded piece of knowledge.
    pub struct UploadedItem {
        /// The id the hub gave.
        knowledge_id: Option<String>,
        /// experience, tool, strategy or case.
        r#type: Option<String>,
        /// The task it is for.
        task: Option<String>,
        /// The content, cut to 500 characters when recorded here.
        content: Option<String>,
    }
}

/// Knowledge that waits for a person (memory document, section 三; DESIGN section 5).
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[rkyv(derive(Debug))]
pub struct ExtractionPending {
    /// The agent's message number.
    pub sequence: Option<i64>,
    /// The id of the extraction; made from trace and index by the reader where it is absent.
    pub extraction_id: Option<String>,
    /// goal_completion, compression, task_completion or manual.
    pub trigger: Option<String>,
    /// The side branch that extracted it.
    pub branch_id: Option<String>,
    /// What was learned, never cut.
    pub item: ExtractionItem,
    /// When, as the text came.
    pub timestamp: Option<String>,
}

/// A piece of knowledge as it was extracted.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[rkyv(derive(Debug))]
pub struct ExtractionItem {
    /// experience, tool, strategy, case; others are kept.
    pub types: Vec<String>,
    /// The task it is for.
    pub task: Option<String>,
    /// The knowledge.
    pub content: String,
    /// 1 to 5 as the agent sees it, in the spelling it came in.
    pub score: Option<JsonText>,
    /// Tags as JSON.
    pub tags: Option<JsonText>,
    /// Who may read it.
    pub scopes: Option<Vec<String>>,
    /// The resources it speaks of.
    pub resource_ids: Option<Vec<String>>,
    /// Whose it is.
    pub owner: Option<String>,
    /// Where it comes from, as JSON.
    pub source: Option<JsonText>,
}

impl Shape for ExtractionItem {
    fn read_fields(object: &Node<'_>, reader: &mut Reader<'_>) -> ExtractionItem {
        ExtractionItem {
            types: read_types(object, reader).unwrap_or_default(),
            task: reader.field(object, "task"),
            content: reader.field(object, "content"),
            score: reader.field(object, "score"),
            tags: reader.field(object, "tags"),
            scopes: reader.field(object, "scopes"),
            resource_ids: reader.field(object, "resource_ids"),
            owner: reader.field(object, "owner"),
            source: reader.field(object, "source"),
        }
    }

    fn write_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("types", &self.types)?;
        write_present(map, "task", &self.task)?;
        map.serialize_entry("content", &self.content)?;
        write_present(map, "score", &self.score)?;
        write_present(map, "tags", &self.tags)?;
        write_present(map, "scopes", &self.scopes)?;
        write_present(map, "resource_ids", &self.resource_ids)?;
        write_present(map, "owner", &self.owner)?;
        write_present(map, "source", &self.source)
    }
}

shape_as_field!(ExtractionItem);

fn write_present<M: SerializeMap, T: Field>(map: &mut M, key: &'static str, value: &T) -> Result<(), M::Error> {
    if value.is_absent() { Ok(()) } else { map.serialize_entry(key, value) }
}

/// `types` as a list or one word, or `type` as one word; in a flat event `type` is the event's own and is skipped.
fn read_types(object: &Node<'_>, reader: &mut Reader<'_>) -> Option<Vec<String>> {
    let is_event = object.get("type").and_then(Node::as_text).is_some_and(|word| word.starts_with("extraction"));
    let keys: &[&str] = if is_event { &["types", "knowledge_type"] } else { &["types", "type", "knowledge_type"] };
    for key in keys {
        let Some(node) = object.get(key).filter(|node| !node.is_null()) else { continue };
        return Some(match node.as_text() {
            Some(word) => vec![word.to_owned()],
            None => reader.field(object, key),
        });
    }
    None
}

impl Shape for ExtractionPending {
    fn read_fields(object: &Node<'_>, reader: &mut Reader<'_>) -> ExtractionPending {
        let nested = object.get("item").is_some_and(|node| node.as_object().is_some());
        ExtractionPending {
            sequence: reader.field(object, "sequence"),
            extraction_id: reader.field(object, "extraction_id"),
            trigger: reader.field(object, "trigger"),
            branch_id: reader.field(object, "branch_id"),
            item: if nested { reader.field(object, "item") } else { ExtractionItem::read_fields(object, reader) },
            timestamp: reader.field(object, "timestamp"),
        }
    }

    fn write_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        write_present(map, "sequence", &self.sequence)?;
        write_present(map, "extraction_id", &self.extraction_id)?;
        write_present(map, "trigger", &self.trigger)?;
        write_present(map, "branch_id", &self.branch_id)?;
        map.serialize_entry("item", &self.item)?;
        write_present(map, "timestamp", &self.timestamp)
    }
}

/// A person's decision about an extraction (memory document, section 三, step 2).
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[rkyv(derive(Debug))]
pub struct ExtractionReviewed {
    /// The trace's latest message number at that moment.
    pub sequence: Option<i64>,
    /// The extraction that is decided.
    pub extraction_id: String,
    /// The version this decision makes; it must follow the version that was seen.
    pub version: Option<i64>,
    /// What was decided.
    pub decision: ReviewDecision,
    /// The fields that an edit replaces.
    pub edited: Option<ExtractionEdit>,
    /// Who decided.
    pub reviewer: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// The version that this decision takes back as if it had not been made.
    pub undoes: Option<i64>,
    /// When, as the text came.
    pub timestamp: Option<String>,
}

words! {
    /// A decision about an extraction; logs of other writers use the past forms.
    pub struct ReviewDecision {
        /// Take it as it is.
        APPROVE = 1 "approve" | "approved",
        /// Take it with changes.
        EDIT = 2 "edit" | "edited",
        /// Leave it.
        DISCARD = 3 "discard" | "discarded",
        /// Take the last decision back.
        WITHDRAW = 4 "withdraw" | "withdrawn",
    }
}

/// The fields that an edit replaces; what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[rkyv(derive(Debug))]
pub struct ExtractionEdit {
    /// New types.
    pub types: Option<Vec<String>>,
    /// New task.
    pub task: Option<String>,
    /// New content.
    pub content: Option<String>,
    /// New score.
    pub score: Option<JsonText>,
    /// New tags.
    pub tags: Option<JsonText>,
    /// New scopes.
    pub scopes: Option<Vec<String>>,
    /// New resources.
    pub resource_ids: Option<Vec<String>>,
    /// New owner.
    pub owner: Option<String>,
    /// New provenance.
    pub source: Option<JsonText>,
}

impl Shape for ExtractionEdit {
    fn read_fields(object: &Node<'_>, reader: &mut Reader<'_>) -> ExtractionEdit {
        ExtractionEdit {
            types: read_types(object, reader),
            task: reader.field(object, "task"),
            content: reader.field(object, "content"),
            score: reader.field(object, "score"),
            tags: reader.field(object, "tags"),
            scopes: reader.field(object, "scopes"),
            resource_ids: reader.field(object, "resource_ids"),
            owner: reader.field(object, "owner"),
            source: reader.field(object, "source"),
        }
    }

    fn write_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        write_present(map, "types", &self.types)?;
        write_present(map, "task", &self.task)?;
        write_present(map, "content", &self.content)?;
        write_present(map, "score", &self.score)?;
        write_present(map, "tags", &self.tags)?;
        write_present(map, "scopes", &self.scopes)?;
        write_present(map, "resource_ids", &self.resource_ids)?;
        write_present(map, "owner", &self.owner)?;
        write_present(map, "source", &self.source)
    }
}

shape_as_field!(ExtractionEdit);

impl Shape for ExtractionReviewed {
    fn read_fields(object: &Node<'_>, reader: &mut Reader<'_>) -> ExtractionReviewed {
        ExtractionReviewed {
            sequence: reader.field(object, "sequence"),
            extraction_id: reader.field(object, "extraction_id"),
            version: reader.field(object, "version"),
            decision: reader.field(object, "decision"),
            edited: read_edit(object, reader),
            reviewer: reader.field(object, "reviewer"),
            reason: reader.field(object, "reason"),
            undoes: reader.field(object, "undoes"),
            timestamp: reader.field(object, "timestamp"),
        }
    }

    fn write_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        write_present(map, "sequence", &self.sequence)?;
        map.serialize_entry("extraction_id", &self.extraction_id)?;
        write_present(map, "version", &self.version)?;
        map.serialize_entry("decision", &self.decision)?;
        write_present(map, "edited", &self.edited)?;
        write_present(map, "reviewer", &self.reviewer)?;
        write_present(map, "reason", &self.reason)?;
        write_present(map, "undoes", &self.undoes)?;
        write_present(map, "timestamp", &self.timestamp)
    }
}

/// `edited` as an object, or the whole new text under `edited`, `edited_content` or `edited_item`.
fn read_edit(object: &Node<'_>, reader: &mut Reader<'_>) -> Option<ExtractionEdit> {
    for key in ["edited", "edited_item", "edited_content"] {
        let Some(node) = object.get(key).filter(|node| !node.is_null()) else { continue };
        return match node.as_text() {
            Some(text) => Some(ExtractionEdit { content: Some(text.to_owned()), ..ExtractionEdit::default() }),
            None => reader.field(object, key),
        };
    }
    None
}

/// What became of an approved extraction in a commit (memory document, section 三, step 3).
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[rkyv(derive(Debug))]
pub struct ExtractionCommitted {
    /// The trace's latest message number at that moment.
    pub sequence: Option<i64>,
    /// What became of the extraction, one a commit event here.
    pub item: CommittedItem,
    /// More of them in one event, as logs of other writers have under `items`.
    pub more: Vec<CommittedItem>,
    /// When, as the text came.
    pub timestamp: Option<String>,
}

fields! {
    /// What became of one extraction.
    pub struct CommittedItem {
        /// The extraction.
        extraction_id: String,
        /// What became of it; an event without the word tells of a save.
        outcome: Option<CommitOutcome>,
        /// The record it became or was found equal to.
        knowledge_id: Option<String>,
        /// How it relates to what was there, as JSON.
        relation: Option<JsonText>,
        /// Why it failed.
        error: Option<String>,
    }
}

impl CommittedItem {
    /// The outcome; an event of another writer without the word tells of a save unless it carries an error.
    #[must_use]
    pub fn outcome(&self) -> CommitOutcome {
        self.outcome.unwrap_or(if self.error.is_some() { CommitOutcome::FAILED } else { CommitOutcome::SAVED })
    }
}

words! {
    /// What became of an extraction in the hub.
    pub struct CommitOutcome {
        /// Saved as a new record.
        SAVED = 1 "saved" | "success" | "committed",
        /// Equal to a record that is there.
        SKIPPED = 2 "skipped",
        /// Not saved; it stays approved.
        FAILED = 3 "failed" | "error",
        /// Nobody knows: the hub did not say in time whether it has it. It stays approved and is sent again on request.
        UNANSWERED = 4 "unknown",
    }
}

impl Shape for ExtractionCommitted {
    fn read_fields(object: &Node<'_>, reader: &mut Reader<'_>) -> ExtractionCommitted {
        let mut items: Vec<CommittedItem> = match object.get("items") {
            Some(_) => reader.field(object, "items"),
            None => vec![CommittedItem::read_fields(object, reader)],
        };
        if items.is_empty() {
            reader.within(".items".to_owned(), |reader| reader.note(Severity::Absent, "no items"));
            items.push(CommittedItem::default());
        }
        ExtractionCommitted {
            sequence: reader.field(object, "sequence"),
            item: items.remove(0),
            more: items,
            timestamp: reader.field(object, "timestamp"),
        }
    }

    fn write_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        write_present(map, "sequence", &self.sequence)?;
        if self.more.is_empty() {
            self.item.write_fields(map)?;
        } else {
            let items: Vec<&CommittedItem> = std::iter::once(&self.item).chain(&self.more).collect();
            map.serialize_entry("items", &items)?;
        }
        write_present(map, "timestamp", &self.timestamp)
    }
}

fields! {
    /// A memory reflection over a range of messages (cognition log document, "reflection").
    pub struct Reflection {
        /// The end of the range.
        sequence: Option<i64>,
        /// First and last message that were read.
        reflected_range: Option<Vec<i64>>,
        /// What was made of them.
        summary: String,
        /// The dream that consumed it.
        digested_by: Option<String>,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}
