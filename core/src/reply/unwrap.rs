//! The list that was asked for, taken out of what models put around it.
//!
//! Only what adds no meaning of its own is taken off: a list of one, an object with a single key, JSON inside a string. An
//! object that says more, such as a call of another tool or a schema, is not opened.

use super::parse::{Budget, Mode, Stop, attempt, skip_white};
use super::report::{Dropped, RepairKind, Repairs, Unreadable, UnreadableReason};
use super::value::{Member, Value};

/// How many wrappers are taken off.
const WRAPPERS_MAX: usize = 3;
/// The tool by which an extraction branch hands in knowledge (memory document, section 10.2).
pub(super) const SAVE_TOOL: &str = "knowledge_save_pending";

/// What an answer looks like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema {
    /// The key of the list, and the keys of an item, in lower case: by these an answer is known.
    pub(super) anchors: &'static [&'static str],
    /// The key of the list.
    pub(super) list_key: &'static str,
    /// The keys that an item without its list must have.
    pub(super) item_keys: &'static [&'static str],
    /// Whether the list may be an object of path and content.
    pub(super) takes_map: bool,
    /// Whether calls of [`SAVE_TOOL`] are items.
    pub(super) takes_tool_calls: bool,
}

/// How the items stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Under the list's key.
    Listed,
    /// Without it.
    Bare,
}

/// What unwrapping uses and tells.
pub(super) struct Unwrapping<'b> {
    pub(super) budget: &'b mut Budget,
    pub(super) repairs: Repairs,
    pub(super) dropped: Vec<Dropped>,
}

type Items = Option<(Vec<Value>, Shape)>;

impl Schema {
    /// The items of the answer that a value is, if it is one.
    pub(super) fn unwrap(&self, value: Value, context: &mut Unwrapping<'_>) -> Result<Items, Unreadable> {
        self.unwrap_within(value, 0, context)
    }

    fn unwrap_within(&self, value: Value, depth: usize, context: &mut Unwrapping<'_>) -> Result<Items, Unreadable> {
        if depth > WRAPPERS_MAX {
            return Ok(None);
        }
        match value {
            Value::Text(text) => match decode(&text.content, self.anchors, context)? {
                Some(value) => self.unwrap_within(value, depth + 1, context),
                None => Ok(None),
            },
            Value::Object { .. } => self.unwrap_object(value, depth, context),
            Value::List { items, closed } => self.unwrap_list(items, closed, depth, context),
            _ => Ok(None),
        }
    }

    fn unwrap_object(&self, value: Value, depth: usize, context: &mut Unwrapping<'_>) -> Result<Items, Unreadable> {
        match value.get_folded(self.list_key) {
            Member::Ambiguous => {
                context.dropped.push(Dropped::DuplicateKey { key: self.list_key.to_owned() });
                return Ok(None);
            }
            Member::One(list) if *list != Value::Null => return self.listed(list.clone(), context),
            _ => {}
        }
        if self.takes_tool_calls && is_tool_call(&value) {
            return Ok(Some((vec![value], Shape::Bare)));
        }
        if self.has_item_keys(&value) {
            return Ok(Some((vec![value], Shape::Bare)));
        }
        let Value::Object { members, .. } = value else { return Ok(None) };
        let [(_, inner)] = <[_; 1]>::try_from(members).unwrap_or_else(|_| [(String::new(), Value::Null)]);
        self.unwrap_within(inner, depth + 1, context)
    }

    /// The list that stands under its key.
    fn listed(&self, list: Value, context: &mut Unwrapping<'_>) -> Result<Items, Unreadable> {
        let list = match list {
            Value::Text(text) => match decode(&text.content, self.anchors, context)? {
                Some(list) => list,
                None => return Ok(None),
            },
            list => list,
        };
        let items = match list {
            Value::List { items, .. } => items,
            item @ Value::Object { .. } if self.has_item_keys(&item) => vec![item],
            Value::Object { members, .. } if self.takes_map => {
                context.repairs.note(RepairKind::Wrapped, 0);
                let item = |(path, content)| {
                    let path = Value::text(path);
                    let members = vec![("path".to_owned(), path), ("content".to_owned(), content)];
                    Value::Object { members, closed: true }
                };
                members.into_iter().map(item).collect()
            }
            _ => return Ok(None),
        };
        Ok(Some((items, Shape::Listed)))
    }

    fn unwrap_list(
        &self,
        items: Vec<Value>,
        closed: bool,
        depth: usize,
        context: &mut Unwrapping<'_>,
    ) -> Result<Items, Unreadable> {
        // An item that was cut off need not have its keys yet.
        let whole = if closed { items.len() } else { items.iter().take_while(|item| item.is_closed()).count() };
        let is_item = |item: &Value| self.has_item_keys(item) || (self.takes_tool_calls && is_tool_call(item));
        if whole > 0 && items[..whole].iter().all(is_item) {
            return Ok(Some((items, Shape::Bare)));
        }
        if items.len() > 1
            && items.iter().all(|item| {
                matches!(
                    item.get_folded(self.list_key),
                    Member::One(Value::List { .. } | Value::Text(_) | Value::Object { .. })
                )
            })
        {
            let mut all = Vec::new();
            for item in items {
                if let Some((items, _)) = self.unwrap_within(item, depth + 1, context)? {
                    all.extend(items);
                }
            }
            context.repairs.note(RepairKind::Merged, 0);
            return Ok(Some((all, Shape::Listed)));
        }
        match <[Value; 1]>::try_from(items) {
            Ok([item]) => self.unwrap_within(item, depth + 1, context),
            Err(_) => Ok(None),
        }
    }

    fn has_item_keys(&self, value: &Value) -> bool {
        matches!(value, Value::Object { .. }) && value.has_keys(self.item_keys)
    }
}

/// Whether an object is a tool call, or a message with calls, in one of the forms that model endpoints use.
pub(super) fn is_tool_call(value: &Value) -> bool {
    let has_arguments = ["arguments", "input", "parameters"].into_iter().any(|key| value.has_keys(&["name", key]));
    has_arguments || value.has_keys(&["tool_calls"]) || value.has_keys(&["function"])
}

/// The one value that a string is the JSON of.
pub(super) fn decode(text: &str, anchors: &[&str], context: &mut Unwrapping<'_>) -> Result<Option<Value>, Unreadable> {
    let start = skip_white(text, 0);
    // Other strings are no JSON of a list or object, and prose is not looked through.
    if !text[start..].starts_with(['{', '[', '"']) {
        return Ok(None);
    }
    let inner = attempt(text, start, Mode::Plain, anchors, context.budget);
    match inner.value {
        Err(Stop::TooCostly) => Err(Unreadable::new(UnreadableReason::TooCostly)),
        Ok(value) if !inner.is_cut && skip_white(text, inner.at) == text.len() => {
            context.repairs.note(RepairKind::DoubleEncoded, 0);
            context.repairs.add(&inner.repairs);
            Ok(Some(value))
        }
        _ => Ok(None),
    }
}
