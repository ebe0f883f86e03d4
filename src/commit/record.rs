//! The record that an approved extraction becomes, with what a commit fills in (proposal document, section 六; DESIGN
//! section 8).

use std::collections::BTreeMap;

use cognilog_core::json::Node;
use cognilog_core::{Instant, StreamId, TraceId};
use cognilog_projections::extraction_queue::ExtractionRow;
use cognilog_projections::traces;
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::engine::Engine;
use crate::error::Error;

/// The fields of a record in their order; those that an extraction does not have are left out.
pub const RECORD_FIELDS: [&str; 10] =
    ["message_id", "types", "task", "content", "score", "tags", "scopes", "owner", "resource_ids", "source"];

/// An approved extraction on its way into a sink.
#[derive(Clone, Debug)]
pub struct CommitItem {
    trace: TraceId,
    extraction_id: String,
    version: u64,
    types: Vec<String>,
    content: String,
    /// The record's fields, each as JSON.
    fields: Vec<(&'static str, String)>,
    problem: Option<String>,
}

impl CommitItem {
    /// The trace that it was learned in.
    #[must_use]
    pub fn trace(&self) -> &TraceId {
        &self.trace
    }

    /// The extraction, which is the idempotency key too.
    #[must_use]
    pub fn extraction_id(&self) -> &str {
        &self.extraction_id
    }

    /// The version that was approved.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// experience, tool, strategy, case; others are kept.
    #[must_use]
    pub fn types(&self) -> &[String] {
        &self.types
    }

    /// The knowledge.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.content
    }

    /// The record's fields in the order of [`RECORD_FIELDS`], each as JSON.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.fields.iter().map(|(name, json)| (*name, json.as_str()))
    }

    /// Why the record is nothing that a sink could take.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// As JSON, an item is its trace, its id, its version, and the record's fields.
impl Serialize for CommitItem {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("trace_id", self.trace.as_str())?;
        map.serialize_entry("extraction_id", &self.extraction_id)?;
        map.serialize_entry("version", &self.version)?;
        for (name, json) in &self.fields {
            match serde_json::from_str::<&RawValue>(json) {
                Ok(raw) => map.serialize_entry(name, raw)?,
                // Such as NaN of an imported file: it is shown as text, and the item is not sent.
                Err(_) => map.serialize_entry(name, json)?,
            }
        }
        map.end()
    }
}

impl Engine {
    /// The items of extractions that are to be committed.
    pub(crate) fn commit_items(&self, chosen: Vec<(String, ExtractionRow)>) -> Result<Vec<CommitItem>, Error> {
        let snapshot = self.snapshot()?;
        let view = snapshot.view();
        let mut sequences: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
        for (trace, row) in &chosen {
            sequences.entry(trace).or_default().extend(row.sequence);
        }
        let mut traces = BTreeMap::new();
        for (name, sequences) in sequences {
            let trace = TraceId::new(name)?;
            let standing = view.stream(&StreamId::Trace(trace.clone()))?;
            let info = standing.map(|standing| traces::info(&view, standing.number)).transpose()?.unwrap_or_default();
            let messages = self.message_ids(&snapshot, &trace, &sequences)?;
            traces.insert(name, (trace, info, messages));
        }
        let items = chosen.iter().filter_map(|(name, row)| {
            let (trace, info, messages) = traces.get(name.as_str())?;
            let message_id = row.sequence.and_then(|sequence| messages.get(&sequence));
            Some(item(trace, info, row, message_id.map(String::as_str)))
        });
        Ok(items.collect())
    }
}

fn item(trace: &TraceId, info: &traces::TraceInfo, row: &ExtractionRow, message_id: Option<&str>) -> CommitItem {
    let current = &row.current;
    let quoted = |text: &str| Value::from(text).to_string();
    let list = |texts: &[String]| Value::from(texts.to_vec()).to_string();
    // Whose knowledge it is: what the item says, which a person approved, before what its trace says.
    let owner =
        current.owner.as_ref().filter(|owner| !owner.is_empty()).or(info.owner.as_ref()).or(info.identity.as_ref());
    let fields = [
        ("message_id", message_id.map(quoted)),
        ("types", Some(list(&current.types))),
        ("task", current.task.as_deref().map(quoted)),
        ("content", Some(quoted(&current.content))),
        ("score", current.score.clone()),
        ("tags", current.tags.clone()),
        ("scopes", current.scopes.as_deref().map(list)),
        ("owner", owner.map(|owner| quoted(owner))),
        ("resource_ids", current.resource_ids.as_deref().map(list)),
        ("source", Some(source(info, row, message_id))),
    ];
    let fields: Vec<(&'static str, String)> =
        fields.into_iter().filter_map(|(name, json)| Some((name, json?))).collect();
    let problem = fields.iter().find_map(|(name, json)| {
        let error = serde_json::from_str::<serde::de::IgnoredAny>(json).err()?;
        Some(format!("field `{name}` is no JSON that a hub reads ({error}): edit it"))
    });
    let problem = match current.content.trim() {
        "" => Some("its content is empty".to_owned()),
        _ => problem,
    };
    CommitItem {
        trace: trace.clone(),
        extraction_id: row.extraction_id.clone(),
        version: row.version,
        types: current.types.clone(),
        content: current.content.clone(),
        fields,
        problem,
    }
}

/// Where the knowledge comes from: what the item says, and over it what the log knows for certain.
fn source(info: &traces::TraceInfo, row: &ExtractionRow, message_id: Option<&str>) -> String {
    let mut members: Vec<(String, String)> = Vec::new();
    if let Some(text) = &row.current.source
        && let Ok(node) = Node::parse(text)
    {
        match node.as_object() {
            Some(object) => {
                members.extend(object.iter().map(|(key, value)| (key.to_string(), value.raw(text).to_owned())));
            }
            // A source that is no object is at least its name.
            None if !node.is_null() => members.push(("name".to_owned(), text.clone())),
            None => {}
        }
    }
    let standing = row.standing();
    let reviewer = standing.last().and_then(|index| row.decisions[*index].reviewer.as_deref());
    let time = Instant(row.time).to_text();
    let agent = info.identity.as_deref().or(info.agent_type.as_deref());
    let known =
        [("agent_id", agent), ("submitted_by", reviewer), ("timestamp", Some(&*time)), ("message_id", message_id)];
    for (key, value) in known {
        let Some(value) = value else { continue };
        members.retain(|(name, _)| name != key);
        members.push((key.to_owned(), Value::from(value).to_string()));
    }
    let members = members.iter().map(|(key, json)| format!("{}:{json}", Value::from(key.as_str())));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}
