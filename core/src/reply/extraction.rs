//! Which pieces of knowledge of a reply are taken: from calls of `knowledge_save_pending` or from `{"extractions": […]}`,
//! the same events from both.

use serde::Serialize;

use super::report::{Dropped, Reading, RepairKind, Repairs, Unreadable};
use super::scan::{Found, find};
use super::unwrap::{SAVE_TOOL, Schema, Unwrapping, decode, is_tool_call};
use super::value::{Integer, Member, Value};
use crate::event::{ExtractionItem, ExtractionPending, JsonText};
use crate::limits::REPLY_EXTRACTIONS_MAX;

const SCHEMA: Schema = Schema {
    anchors: &["extractions", "types", "tool_calls", "function", "arguments", "input", "parameters"],
    list_key: "extractions",
    item_keys: &["types", "content"],
    takes_map: false,
    takes_tool_calls: true,
};

/// The types of the documents (DESIGN section 5).
const TYPES: [&str; 4] = ["experience", "tool", "strategy", "case"];
/// Calls within calls: a message with calls, each with a function.
const CALL_DEPTH_MAX: usize = 4;

/// The pieces of knowledge that were taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExtractionReply {
    /// In the reply's order, each once.
    pub extractions: Vec<ExtractionItem>,
}

impl ExtractionReply {
    /// The events that record the pieces. Their ids are made from the branch and each one's number in it, counted from
    /// `first`, so recording a branch again names the same extractions.
    #[must_use]
    pub fn events(&self, trigger: &str, branch_id: &str, first: usize) -> Vec<ExtractionPending> {
        let event = |(number, item): (usize, &ExtractionItem)| ExtractionPending {
            extraction_id: Some(format!("ext-{branch_id}-{}", first + number)),
            trigger: Some(trigger.to_owned()),
            branch_id: Some(branch_id.to_owned()),
            item: item.clone(),
            ..ExtractionPending::default()
        };
        self.extractions.iter().enumerate().map(event).collect()
    }
}

/// Reads the reply of an extraction branch: its text, and its tool calls as the JSON list that the endpoint gave
/// (DESIGN section 7, "Reply reading"). An answer with an empty list is valid.
///
/// # Errors
/// Nothing in the reply could be taken.
pub fn read_extraction(reply: &str, tool_calls: Option<&str>) -> Result<Reading<ExtractionReply>, Unreadable> {
    super::check_length(reply.len() + tool_calls.map_or(0, str::len))?;
    let mut taking = Taking::default();
    let mut failure = None;
    let mut repairs = Repairs::default();
    for text in tool_calls.into_iter().chain([reply]) {
        match find(text, &SCHEMA) {
            Ok(Found { candidates, repairs: more, mut dropped }) => {
                repairs.add(&more);
                taking.dropped.append(&mut dropped);
                taking.has_answer = true;
                for item in candidates.iter().flat_map(|candidate| &candidate.items) {
                    taking.take(item, 0, &mut repairs)?;
                }
            }
            // Beside tool calls the text is talk.
            Err(error) if !taking.has_answer => failure = Some(error),
            Err(_) => {}
        }
    }
    match failure {
        Some(error) if !taking.has_answer => Err(error),
        _ if taking.taken.is_empty() && taking.given > 0 => Err(super::nothing_accepted(taking.dropped)),
        _ => {
            let accepted = ExtractionReply { extractions: taking.taken };
            Ok(Reading { accepted, repairs: repairs.list(), dropped: taking.dropped })
        }
    }
}

#[derive(Default)]
struct Taking {
    taken: Vec<ExtractionItem>,
    dropped: Vec<Dropped>,
    has_answer: bool,
    /// Items and calls seen so far.
    given: usize,
}

impl Taking {
    /// Takes an item, or the items that a tool call hands in.
    fn take(&mut self, item: &Value, depth: usize, repairs: &mut Repairs) -> Result<(), Unreadable> {
        if !is_tool_call(item) || depth >= CALL_DEPTH_MAX {
            self.take_item(item);
            return Ok(());
        }
        let nested = [item.get("tool_calls").one(), item.get("function").one()];
        if let Some(nested) =
            nested.into_iter().flatten().find(|nested| !matches!(nested, Value::Text(_) | Value::Null))
        {
            repairs.note(RepairKind::Wrapped, 0);
            match nested {
                Value::List { items, .. } => {
                    for item in items {
                        self.take(item, depth + 1, repairs)?;
                    }
                }
                call => self.take(call, depth + 1, repairs)?,
            }
            return Ok(());
        }
        let index = self.given;
        self.given += 1;
        let name = item.get("name").one().and_then(Value::as_text).unwrap_or_default();
        if name.trim() != SAVE_TOOL {
            self.dropped.push(Dropped::UnknownTool { name: super::report::shown(name) });
            return Ok(());
        }
        if !item.is_closed() {
            self.dropped.push(Dropped::CutOff { index });
            return Ok(());
        }
        let arguments = ["arguments", "input", "parameters"].into_iter().find_map(|key| item.get(key).one());
        let decoded = match arguments {
            Some(Value::Text(text)) => {
                let mut budget = super::parse::Budget::of(&text.content);
                let mut context = Unwrapping { budget: &mut budget, repairs: Repairs::default(), dropped: Vec::new() };
                decode(&text.content, SCHEMA.anchors, &mut context)?
            }
            Some(object) => Some(object.clone()),
            None => None,
        };
        self.given -= 1;
        match decoded {
            // One call may hand in a list.
            Some(ref value @ Value::Object { .. }) => match value.get("extractions").one() {
                Some(Value::List { items, .. }) => items.iter().for_each(|item| self.take_item(item)),
                _ => self.take_item(value),
            },
            _ => {
                self.given += 1;
                self.dropped.push(Dropped::BadArguments { index });
            }
        }
        Ok(())
    }

    fn take_item(&mut self, item: &Value) {
        let index = self.given;
        self.given += 1;
        if self.taken.len() >= REPLY_EXTRACTIONS_MAX {
            let limit = Dropped::TooMany { limit: REPLY_EXTRACTIONS_MAX };
            if !self.dropped.contains(&limit) {
                self.dropped.push(limit);
            }
            return;
        }
        match self.item_of(index, item) {
            Ok(item) if self.taken.contains(&item) => self.dropped.push(Dropped::Repeated { index }),
            Ok(item) => self.taken.push(item),
            Err(reason) => self.dropped.push(reason),
        }
    }

    fn item_of(&mut self, index: usize, item: &Value) -> Result<ExtractionItem, Dropped> {
        if item.members().is_none() {
            return Err(Dropped::NotAnObject { index, found: item.type_name().to_owned() });
        }
        if !item.is_closed() {
            return Err(Dropped::CutOff { index });
        }
        let content = match item.get("content") {
            Member::Ambiguous => return Err(Dropped::DuplicateKey { key: "content".to_owned() }),
            content => content.one().and_then(Value::as_text).unwrap_or_default(),
        };
        // A text without a letter or digit is a place holder that was copied from the prompt.
        if !content.chars().any(char::is_alphanumeric) {
            return Err(Dropped::NoContent { place: format!("extraction {index}") });
        }
        let types = match (item.get("types"), item.get("type")) {
            (Member::Absent, other) => other.one(),
            (types, _) => types.one(),
        };
        Ok(ExtractionItem {
            types: self.types(index, types),
            task: self.text(index, item, "task"),
            content: content.to_owned(),
            score: self.score(index, item),
            tags: self.tags(index, item),
            scopes: self.texts(index, item, "scopes"),
            resource_ids: self.texts(index, item, "resource_ids"),
            // Whose it is and where it comes from is for the commit to say (DESIGN section 8), not for the model.
            owner: None,
            source: None,
        })
    }

    fn types(&mut self, index: usize, types: Option<&Value>) -> Vec<String> {
        let given: Vec<&Value> = match types {
            Some(Value::List { items, .. }) => items.iter().collect(),
            Some(Value::Null) | None => Vec::new(),
            Some(one) => vec![one],
        };
        let mut kept: Vec<String> = Vec::new();
        for given in given {
            let Some(word) = given.as_text().map(str::trim).filter(|word| !word.is_empty()) else {
                self.bad_field(index, "types", given);
                continue;
            };
            let folded = word.to_lowercase();
            let word = match TYPES.contains(&folded.as_str()) {
                true => folded,
                false => {
                    self.dropped.push(Dropped::UnknownType { index, found: super::report::shown(word) });
                    word.to_owned()
                }
            };
            if !kept.contains(&word) {
                kept.push(word);
            }
        }
        kept
    }

    fn text(&mut self, index: usize, item: &Value, field: &str) -> Option<String> {
        match item.get(field).one()? {
            Value::Null => None,
            Value::Text(text) => Some(text.content.clone()),
            other => {
                self.bad_field(index, field, other);
                None
            }
        }
    }

    /// A number from 1 to 5, also as a string of one digit.
    fn score(&mut self, index: usize, item: &Value) -> Option<JsonText> {
        let given = item.get("score").one()?;
        let spelling = match given {
            Value::Null => return None,
            Value::Number(number) => Some(number.clone()),
            Value::Text(_) => match given.as_integer() {
                Some(Integer::Small(number)) => Some(number.to_string()),
                _ => None,
            },
            _ => None,
        };
        let in_range = |spelling: &String| spelling.parse::<f64>().is_ok_and(|score| (1.0..=5.0).contains(&score));
        let score = spelling.filter(in_range).and_then(|spelling| JsonText::new(&spelling).ok());
        if score.is_none() {
            self.bad_field(index, "score", given);
        }
        score
    }

    fn tags(&mut self, index: usize, item: &Value) -> Option<JsonText> {
        let given = item.get("tags").one()?;
        match given {
            Value::Null => None,
            Value::Object { .. } | Value::List { .. } => JsonText::new(&given.to_json()).ok(),
            other => {
                self.bad_field(index, "tags", other);
                None
            }
        }
    }

    fn texts(&mut self, index: usize, item: &Value, field: &str) -> Option<Vec<String>> {
        let given = item.get(field).one()?;
        match given {
            Value::Null => None,
            Value::Text(text) => Some(vec![text.content.clone()]),
            Value::List { items, .. } => {
                let (texts, others): (Vec<&Value>, Vec<&Value>) =
                    items.iter().partition(|item| item.as_text().is_some());
                others.iter().for_each(|other| self.bad_field(index, field, other));
                Some(texts.into_iter().filter_map(Value::as_text).map(str::to_owned).collect())
            }
            other => {
                self.bad_field(index, field, other);
                None
            }
        }
    }

    fn bad_field(&mut self, index: usize, field: &str, found: &Value) {
        self.dropped.push(Dropped::BadField { index, field: field.to_owned(), found: found.shown() });
    }
}
