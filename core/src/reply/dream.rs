//! Which memory files of a reply are accepted: with a path that is configured, and a whole text.

use serde::Serialize;

use super::path::{covers, normalize};
use super::report::{Dropped, Reading, RepairKind, Unreadable};
use super::scan::{Found, find};
use super::unwrap::Schema;
use super::value::{Member, Text, Value};
use crate::limits::REPLY_ITEMS_MAX;

const SCHEMA: Schema = Schema {
    anchors: &["updates", "path", "content"],
    list_key: "updates",
    item_keys: &["path", "content"],
    takes_map: true,
    takes_tool_calls: false,
};

/// What a reply may write: the configured names and patterns beneath the memory folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DreamContext {
    /// Relative paths or patterns (memory document, `MemoryConfig.files`).
    pub files: Vec<String>,
}

/// The accepted memory files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DreamReply {
    /// One entry a file, in the reply's order.
    pub updates: Vec<FileUpdate>,
}

/// The new text of one memory file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileUpdate {
    /// The path beneath the memory folder.
    pub path: String,
    /// The whole new text.
    pub content: String,
}

/// Reads the reply of a dream's integration (DESIGN section 7, "Reply reading"; section 10).
///
/// Of several answers the later one counts for the files that it speaks of. An answer with an empty list is valid.
///
/// # Errors
/// Nothing in the reply could be accepted.
pub fn read_dream(reply: &str, context: &DreamContext) -> Result<Reading<DreamReply>, Unreadable> {
    super::check_length(reply.len())?;
    let Found { candidates, mut repairs, mut dropped } = find(reply, &SCHEMA)?;
    let mut updates: Vec<FileUpdate> = Vec::new();
    let mut has_items = false;
    for (number, candidate) in candidates.iter().enumerate() {
        has_items |= !candidate.items.is_empty();
        for update in updates_of(&candidate.items, context, &mut dropped) {
            match updates.iter_mut().find(|earlier| earlier.path == update.path) {
                Some(earlier) => {
                    repairs.note(RepairKind::Superseded, 0);
                    *earlier = update;
                }
                None => updates.push(update),
            }
        }
        if number > 0 {
            repairs.note(RepairKind::Merged, 0);
        }
    }
    if updates.is_empty() && has_items {
        return Err(super::nothing_accepted(dropped));
    }
    Ok(Reading { accepted: DreamReply { updates }, repairs: repairs.list(), dropped })
}

fn updates_of(items: &[Value], context: &DreamContext, dropped: &mut Vec<Dropped>) -> Vec<FileUpdate> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    if items.len() > REPLY_ITEMS_MAX {
        dropped.push(Dropped::TooMany { limit: REPLY_ITEMS_MAX });
    }
    for (index, item) in items.iter().enumerate().take(REPLY_ITEMS_MAX) {
        match update_of(index, item, context) {
            Ok((path, content)) => match found.iter_mut().find(|(other, _)| *other == path) {
                Some((_, contents)) => contents.push(content),
                None => found.push((path, vec![content])),
            },
            Err(reason) => dropped.push(reason),
        }
    }
    let mut updates = Vec::new();
    for (path, mut contents) in found {
        let content = contents.swap_remove(0);
        match contents.iter().all(|other| *other == content) {
            true => updates.push(FileUpdate { path, content }),
            false => dropped.push(Dropped::DifferentContents { path }),
        }
    }
    updates
}

fn update_of(index: usize, item: &Value, context: &DreamContext) -> Result<(String, String), Dropped> {
    if item.members().is_none() {
        return Err(Dropped::NotAnObject { index, found: item.type_name().to_owned() });
    }
    if !item.is_closed() {
        return Err(Dropped::CutOff { index });
    }
    let given = match item.get("path") {
        Member::Ambiguous => return Err(Dropped::DuplicateKey { key: "path".to_owned() }),
        path => path.one(),
    };
    let path = given.and_then(Value::as_text).and_then(normalize);
    let path = path.ok_or_else(|| Dropped::BadPath { found: given.map_or("nothing".to_owned(), Value::shown) })?;
    if !context.files.iter().any(|pattern| covers(pattern, &path)) {
        return Err(Dropped::UnconfiguredPath { path });
    }
    let content = match item.get("content") {
        Member::Ambiguous => return Err(Dropped::DuplicateKey { key: "content".to_owned() }),
        content => content.one(),
    };
    match content.map(text_of) {
        Some(Ok(content)) if !content.trim().is_empty() => Ok((path, content)),
        Some(Err(Uncertain)) => Err(Dropped::UncertainContent { place: path }),
        _ => Err(Dropped::NoContent { place: path }),
    }
}

struct Uncertain;

/// A text, or a list of lines, as one text; empty for anything else.
fn text_of(content: &Value) -> Result<String, Uncertain> {
    let certain = |text: &Text| match text.is_guessed || text.is_bare {
        true => Err(Uncertain),
        false => Ok(text.content.clone()),
    };
    match content {
        Value::Text(text) => certain(text),
        Value::List { items, .. } => {
            let mut lines = Vec::new();
            for item in items {
                match item {
                    Value::Text(text) => lines.push(certain(text)?),
                    _ => return Ok(String::new()),
                }
            }
            Ok(lines.join("\n"))
        }
        _ => Ok(String::new()),
    }
}
