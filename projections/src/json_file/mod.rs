//! The JSON files of the Python system: reading `cognition_log.json` into events and printing it again.
//!
//! A file is cut into its events and what surrounds them; each event keeps the text of its tokens, and the white space
//! is one style for the whole file (DESIGN section 5, fidelity).

mod export;
mod form;

pub use export::{ExportError, Exported, Profile, export};

use cognilog_core::event::{Event, JsonFileStyle, Problem};
use cognilog_core::json::{Indent, JsonError, JsonStyle, Node, compact, detect, escape_non_ascii, write_value};

/// The keys under which files keep their events: today's, and that of the old `knowledge_log.json`.
pub const LIST_KEYS: [&str; 2] = ["events", "entries"];

/// A file cut into its events and what surrounds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonFile {
    /// The trace that the file says it belongs to.
    pub trace_id: Option<String>,
    /// How the file is written.
    pub frame: FileFrame,
    /// The events' JSON without white space between tokens, in the file's order.
    pub events: Vec<String>,
}

/// How a file is written: white space, and what stands beside the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFrame {
    /// The white space.
    pub style: JsonStyle,
    /// The JSON up to the list of events.
    pub before: String,
    /// The JSON behind the list of events.
    pub after: String,
    /// The key of the list.
    pub list_key: String,
}

/// A file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The text is no JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The file has another shape.
    #[error("expected an object with a list under `events` (or `entries`), found {found}")]
    Shape {
        /// What was found.
        found: String,
    },
}

impl FileError {
    /// Whether the file may only be half written.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        matches!(self, FileError::Json(error) if error.is_truncated())
    }
}

impl JsonFile {
    /// Cuts a file's text.
    ///
    /// # Errors
    /// The text is no JSON as Python reads it, or has no list of events.
    pub fn read(text: &str) -> Result<JsonFile, FileError> {
        let style = detect(text)?;
        let joined = compact(text)?;
        let root = Node::parse(&joined)?;
        let Some(entries) = root.as_object() else {
            return Err(FileError::Shape { found: root.type_name().to_owned() });
        };
        let list = LIST_KEYS.into_iter().find_map(|key| {
            let node = root.get(key)?;
            Some((key, node, node.as_list()?))
        });
        let Some((list_key, node, list)) = list else {
            let keys: Vec<String> = entries.iter().take(8).map(|(key, _)| format!("`{key}`")).collect();
            return Err(FileError::Shape { found: format!("an object with the keys {}", keys.join(", ")) });
        };
        Ok(JsonFile {
            trace_id: root.get("trace_id").and_then(Node::as_text).map(str::to_owned),
            events: list.iter().map(|event| event.raw(&joined).to_owned()).collect(),
            frame: FileFrame {
                style,
                before: joined[..node.span.start].to_owned(),
                after: joined[node.span.end..].to_owned(),
                list_key: list_key.to_owned(),
            },
        })
    }
}

impl JsonFile {
    /// The file as it would be of another trace; one that does not name its trace stays as it is.
    ///
    /// # Errors
    /// The frame is no JSON, which cannot be for a file that was read.
    pub fn renamed(&self, trace_id: &str) -> Result<JsonFile, JsonError> {
        let mut file = self.clone();
        if self.trace_id.is_none() {
            return Ok(file);
        }
        let joined = format!("{}[]{}", self.frame.before, self.frame.after);
        let root = Node::parse(&joined)?;
        let Some(span) = root.get("trace_id").map(|node| node.span.clone()) else { return Ok(file) };
        let name = spell(&self.frame.style, serde_json::Value::from(trace_id).to_string());
        let after_at = self.frame.before.len() + "[]".len();
        if span.end <= self.frame.before.len() {
            file.frame.before.replace_range(span, &name);
        } else {
            file.frame.after.replace_range(span.start - after_at..span.end - after_at, &name);
        }
        file.trace_id = Some(trace_id.to_owned());
        Ok(file)
    }
}

impl FileFrame {
    /// How a file of a trace that never was one is written: as Python's `json.dump(…, ensure_ascii=False, indent=2)`.
    #[must_use]
    pub fn native(trace_id: &str) -> FileFrame {
        FileFrame {
            style: JsonStyle { ensure_ascii: Some(false), ..JsonStyle::python(Indent::Spaces(2)) },
            before: format!("{{\"trace_id\":{},\"events\":", serde_json::Value::from(trace_id)),
            after: "}".to_owned(),
            list_key: LIST_KEYS[0].to_owned(),
        }
    }

    /// The file's text with these events.
    ///
    /// # Errors
    /// A text among them is no JSON, which the log never stores.
    pub fn print(&self, events: &[String]) -> Result<String, JsonError> {
        let mut joined = String::with_capacity(events.iter().map(String::len).sum::<usize>() + 256);
        joined.push_str(&self.before);
        joined.push('[');
        for (index, event) in events.iter().enumerate() {
            if index > 0 {
                joined.push(',');
            }
            joined.push_str(event);
        }
        joined.push(']');
        joined.push_str(&self.after);
        let mut text = self.style.leading.clone();
        write_value(&mut text, &joined, &self.style, 0)?;
        text.push_str(&self.style.trailing);
        Ok(text)
    }

    /// The event that records this frame in the log.
    #[must_use]
    pub fn to_event(&self) -> JsonFileStyle {
        JsonFileStyle {
            sequence: None,
            style: serde_json::to_string(&self.style).unwrap_or_default(),
            frame_before: self.before.clone(),
            frame_after: self.after.clone(),
            list_key: self.list_key.clone(),
            timestamp: None,
        }
    }

    /// Reads what [`FileFrame::to_event`] wrote; `None` for a style this build cannot read.
    #[must_use]
    pub fn from_event(event: &JsonFileStyle) -> Option<FileFrame> {
        Some(FileFrame {
            style: serde_json::from_str(&event.style).ok()?,
            before: event.frame_before.clone(),
            after: event.frame_after.clone(),
            list_key: event.list_key.clone(),
        })
    }

    /// A typed event's JSON in this file's spelling.
    #[must_use]
    pub fn spell(&self, event: &Event) -> String {
        spell(&self.style, event.to_json())
    }
}

fn spell(style: &JsonStyle, canonical: String) -> String {
    if style.escapes_non_ascii() { escape_non_ascii(&canonical) } else { canonical }
}

/// How an event's text is to be stored.
#[derive(Clone, Debug)]
pub struct Classified {
    /// The event, if its kind is known.
    pub event: Option<Event>,
    /// The kind that its `type` names.
    pub kind: cognilog_core::EventKind,
    /// Whether the typed event prints the very same text, so that typed bytes keep everything.
    pub canonical: bool,
    /// Whether the event fits its kind.
    pub fits: bool,
    /// Where it does not.
    pub problems: Vec<Problem>,
    /// The integer under `sequence`.
    pub sequence: Option<i64>,
    /// The text under `timestamp`, or under another key that the kind has for it.
    pub timestamp: Option<String>,
}

/// Reads an event's text from a file and tells how it is to be stored.
///
/// # Errors
/// The text is no JSON.
pub fn classify(text: &str, style: &JsonStyle) -> Result<Classified, JsonError> {
    let node = Node::parse(text)?;
    let read = Event::from_node(&node, text);
    let fits = read.fits();
    let canonical = fits && read.event.as_ref().is_some_and(|event| spell(style, event.to_json()) == text);
    Ok(Classified {
        kind: read.kind,
        canonical,
        fits,
        sequence: node.get("sequence").and_then(Node::as_integer),
        timestamp: match node.get("timestamp").and_then(Node::as_text) {
            Some(text) => Some(text.to_owned()),
            // Messages of other writers have their time under another key.
            None => read.event.as_ref().and_then(Event::timestamp).map(str::to_owned),
        },
        event: read.event,
        problems: read.problems,
    })
}

/// How an event of a file stands to the event the log has in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The same text.
    Same,
    /// The same event that gained or changed keys outside its identity, or whose spelling changed.
    Amended,
    /// Another event.
    Other,
}

/// The keys that make an event the one it is (DESIGN section 5, fidelity).
///
/// The id of an extraction is one of them: a decision about another extraction is another event.
const IDENTITY: [&str; 7] = ["type", "sequence", "query_sequence", "query", "source_ids", "content", "extraction_id"];

/// Compares an event of a file with the one the log has in its place.
///
/// # Errors
/// A text is no JSON.
pub fn match_events(ours: &str, theirs: &str) -> Result<Match, JsonError> {
    if ours == theirs {
        return Ok(Match::Same);
    }
    let (left, right) = (Node::parse(ours)?, Node::parse(theirs)?);
    let same = |key: &str| match (left.get(key), right.get(key)) {
        (None, None) => true,
        (Some(left), Some(right)) => cognilog_core::json::equal(left, right),
        _ => false,
    };
    let objects = left.as_object().is_some() && right.as_object().is_some();
    let identical = objects && IDENTITY.iter().all(|key| same(key));
    Ok(if identical || cognilog_core::json::equal(&left, &right) { Match::Amended } else { Match::Other })
}

/// As [`match_events`], for an event whose Python form (`printed`) may differ from its native one: also gives the file's
/// event in the native form, if that is another text.
///
/// # Errors
/// As [`match_events`].
pub fn match_native(ours: &str, printed: &str, theirs: &str) -> Result<(Match, Option<String>), JsonError> {
    if ours == theirs || ours == printed {
        return Ok((match_events(ours, theirs)?, None));
    }
    let restored = form::restore(ours, printed, theirs)?;
    if cognilog_core::json::equal(&Node::parse(&restored)?, &Node::parse(ours)?) {
        return Ok((Match::Same, None));
    }
    Ok((match_events(ours, &restored)?, Some(restored)))
}
