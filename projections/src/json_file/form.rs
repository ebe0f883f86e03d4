//! The form in which a trace carries a kind: native events are exported in the form the trace had first.

use cognilog_core::event::{Event, EventKind};
use cognilog_core::json::Node;
use serde_json::{Map, Value};

use super::export::Profile;

/// What a trace's own texts say about the forms it uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Forms {
    /// Whether extraction items stand flat in their event; unknown until one was seen.
    flat_items: Option<bool>,
    /// Whether decisions are written in the past form (`approved`).
    past_decisions: Option<bool>,
    /// Whether outcomes stand in a list `items`.
    listed_outcomes: Option<bool>,
}

impl Forms {
    /// Learns from an event's text, in the order of the log: the first of a kind decides.
    pub(super) fn learn(&mut self, kind: EventKind, text: &str) {
        let undecided = match kind {
            EventKind::ExtractionPending => self.flat_items.is_none(),
            EventKind::ExtractionReviewed => self.past_decisions.is_none(),
            EventKind::ExtractionCommitted => self.listed_outcomes.is_none(),
            _ => false,
        };
        if !undecided {
            return;
        }
        let Ok(node) = Node::parse(text) else { return };
        match kind {
            EventKind::ExtractionPending => {
                self.flat_items = Some(node.get("item").is_none() && node.get("content").is_some());
            }
            EventKind::ExtractionReviewed => {
                let word = node.get("decision").and_then(Node::as_text);
                self.past_decisions =
                    word.map(|word| matches!(word, "approved" | "edited" | "discarded" | "withdrawn"));
            }
            _ => self.listed_outcomes = Some(node.get("items").is_some()),
        }
    }

    /// Whether a typed event of the kind is to be printed in another form than the canonical one.
    pub(super) fn changes(&self, kind: EventKind, profile: Profile) -> bool {
        match kind {
            EventKind::ExtractionPending => self.flat_items == Some(true) || profile == Profile::Python,
            EventKind::ExtractionReviewed => self.past_decisions == Some(true) || profile == Profile::Python,
            EventKind::ExtractionCommitted => self.listed_outcomes == Some(true) || profile == Profile::Python,
            EventKind::Reflection => profile == Profile::Python,
            _ => false,
        }
    }

    /// A typed event's JSON in the trace's form. Native events hold no numbers that a JSON tree would change: scores and
    /// tags are the only free JSON in them.
    pub(super) fn print(&self, event: &Event, profile: Profile) -> String {
        let canonical = event.to_json();
        let Ok(Value::Object(mut map)) = serde_json::from_str::<Value>(&canonical) else { return canonical };
        match event.kind() {
            EventKind::ExtractionPending if self.flat_items == Some(true) => flatten_item(&mut map),
            EventKind::ExtractionReviewed => self.respell_decision(&mut map, profile),
            EventKind::ExtractionCommitted if self.listed_outcomes == Some(true) => list_outcome(&mut map),
            _ => {}
        }
        if profile == Profile::Python {
            set_apart(&mut map);
        }
        Value::Object(map).to_string()
    }

    fn respell_decision(&self, map: &mut Map<String, Value>, profile: Profile) {
        let mut word = map.get("decision").and_then(Value::as_str).unwrap_or_default().to_owned();
        // The documents know no withdrawal: old readers are told that the extraction is not taken.
        if profile == Profile::Python && word == "withdraw" {
            word = "discard".to_owned();
            map.insert("reason".to_owned(), "withdrawn".into());
        }
        if self.past_decisions == Some(true) {
            word = match word.as_str() {
                "approve" => "approved",
                "edit" => "edited",
                "discard" => "discarded",
                "withdraw" => "withdrawn",
                _ => &word,
            }
            .to_owned();
        }
        map.insert("decision".to_owned(), word.into());
    }
}

fn flatten_item(map: &mut Map<String, Value>) {
    let flat = std::mem::take(map);
    for (key, value) in flat {
        match (key.as_str(), value) {
            ("item", Value::Object(item)) => map.extend(item),
            (_, value) => {
                map.insert(key, value);
            }
        }
    }
}

fn list_outcome(map: &mut Map<String, Value>) {
    const OF_ITEM: [&str; 5] = ["extraction_id", "outcome", "knowledge_id", "relation", "error"];
    let flat = std::mem::take(map);
    let mut item = Map::new();
    let mut after = Map::new();
    for (key, value) in flat {
        if OF_ITEM.contains(&key.as_str()) {
            item.insert(key, value);
        } else if item.is_empty() {
            map.insert(key, value);
        } else {
            after.insert(key, value);
        }
    }
    map.insert("items".to_owned(), Value::Array(vec![Value::Object(item)]));
    map.extend(after);
}

/// Moves keys that the documents do not have under `cognilog`.
fn set_apart(map: &mut Map<String, Value>) {
    const OURS: [&str; 5] = ["version", "reviewer", "branch_id", "relation", "digested_by"];
    let mut apart = Map::new();
    let mut kept = Map::new();
    for (key, value) in std::mem::take(map) {
        if OURS.contains(&key.as_str()) {
            apart.insert(key, value);
        } else {
            kept.insert(key, value);
        }
    }
    if !apart.is_empty() {
        kept.insert("cognilog".to_owned(), Value::Object(apart));
    }
    *map = kept;
}
