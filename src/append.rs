//! Appending events to a trace: filling in what the caller left open, checking what was given, once and for ever.

use cognilog_core::event::{Event, EventKind, Severity};
use cognilog_core::json::{JsonStyle, Node, compact};
use cognilog_core::time::{Zone, parse};
use cognilog_core::{EventId, Instant, Position, StreamId, TraceId, cut};
use cognilog_projections::json_file::classify;
use cognilog_storage::{Command, Condition, Decision, NewEvent, StoreError, View, new_event_id};

use crate::error::Error;

/// An append to one trace: all of its events are recorded, or none.
#[derive(Clone, Debug)]
pub struct Append {
    pub(crate) trace: TraceId,
    pub(crate) events: Vec<AppendEvent>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) key: Option<Vec<u8>>,
}

/// One event to be appended, with its identity.
#[derive(Clone, Debug)]
pub struct AppendEvent {
    event_id: EventId,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    /// A typed event that leaves nothing open: its bytes are made on the caller's thread, not on the writer's.
    Ready(Box<NewEvent>),
    Typed(Box<Event>),
    /// `sequence` and `timestamp` are `None` where the text leaves them open; what is there is not always readable.
    Json {
        text: String,
        kind: EventKind,
        sequence: Option<Option<i64>>,
        timestamp: Option<Option<String>>,
    },
}

impl Append {
    /// An empty append to a trace.
    #[must_use]
    pub fn new(trace: TraceId) -> Append {
        Append { trace, events: Vec::new(), conditions: Vec::new(), key: None }
    }

    /// Adds an event.
    #[must_use]
    pub fn event(mut self, event: AppendEvent) -> Append {
        self.events.push(event);
        self
    }

    /// Adds a condition; one that does not hold refuses the whole append.
    #[must_use]
    pub fn condition(mut self, condition: Condition) -> Append {
        self.conditions.push(condition);
        self
    }

    /// Sets an idempotency key: a retry with the same key and content answers with the first receipt.
    #[must_use]
    pub fn key(mut self, key: impl Into<Vec<u8>>) -> Append {
        self.key = Some(key.into());
        self
    }

    pub(crate) fn bytes(&self) -> usize {
        self.events.iter().map(|event| event.bytes()).sum()
    }
}

impl AppendEvent {
    /// An event with a new identity.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn new(event: impl Into<Event>) -> Result<AppendEvent, Error> {
        let event_id = new_event_id(cognilog_storage::system_now())?;
        AppendEvent::typed(event.into(), event_id)
    }

    /// An event from JSON text, such as a line of `cognilog append`. A known kind must fit its kind; other kinds and
    /// fields are kept as they are.
    ///
    /// # Errors
    /// The text is no JSON object, holds what is not Unicode text or not a JSON number (a lone surrogate, NaN), or an
    /// event of a known kind does not fit it; the message names the field.
    pub fn from_json(text: &str) -> Result<AppendEvent, Error> {
        let invalid = |reason: String| Error::InvalidEvent { index: 0, reason };
        let text = compact(text).map_err(|error| invalid(error.to_string()))?;
        let node = Node::parse(&text).map_err(|error| invalid(error.to_string()))?;
        if node.as_object().is_none() {
            return Err(invalid(format!("expected an object, found {}", node.type_name())));
        }
        if node.has_lone_surrogate(&text) {
            return Err(invalid(
                "it holds a lone surrogate escape (\\ud800 to \\udfff), which is no character".to_owned(),
            ));
        }
        if node.has_non_finite() {
            return Err(invalid("it holds NaN or Infinity, which are no JSON numbers".to_owned()));
        }
        let event_id = match node.get("event_id") {
            Some(id) => Some(id.as_text().unwrap_or_else(|| id.raw(&text)).parse::<EventId>()?),
            None => None,
        };
        let is_null = |key: &str| node.get(key).is_some_and(Node::is_null);
        let drop_keys = ["event_id", "sequence", "timestamp"].map(|key| (key, key == "event_id" || is_null(key)));
        drop(node);
        let mut text = text;
        // An explicit null leaves a field open as its absence does.
        for (key, _) in drop_keys.into_iter().filter(|(_, drop)| *drop) {
            text = without_key(&text, key).map_err(|error| invalid(error.to_string()))?;
        }
        let node = Node::parse(&text).map_err(|error| invalid(error.to_string()))?;
        let (has_sequence, has_timestamp) = (node.get("sequence").is_some(), node.get("timestamp").is_some());
        drop(node);
        let style = JsonStyle { ensure_ascii: Some(false), ..JsonStyle::python(cognilog_core::json::Indent::None) };
        let read = classify(&text, &style).map_err(|error| invalid(error.to_string()))?;
        if matches!(read.kind, EventKind::EventAmended | EventKind::JsonFileStyle) {
            return Err(invalid(format!("`{}` is written by an import only", read.kind.as_str())));
        }
        if let Some(problem) = read.problems.iter().find(|problem| problem.severity != Severity::Absent) {
            return Err(invalid(format!("{} event, {problem}", read.kind.as_str())));
        }
        let event_id = match event_id {
            Some(id) => id,
            None => new_event_id(cognilog_storage::system_now())?,
        };
        match read.event {
            Some(event) if read.canonical => AppendEvent::typed(event, event_id),
            _ => {
                let sequence = has_sequence.then_some(read.sequence);
                let timestamp = (has_timestamp || read.timestamp.is_some()).then_some(read.timestamp);
                let content = Content::Json { text, kind: read.kind, sequence, timestamp };
                Ok(AppendEvent { event_id, content })
            }
        }
    }

    fn typed(mut event: Event, event_id: EventId) -> Result<AppendEvent, Error> {
        event.cut_contents();
        let content = match (event.sequence(), event.timestamp()) {
            (Some(_), Some(timestamp)) => {
                let occurred_at = parse(timestamp, &Zone::utc());
                Content::Ready(Box::new(NewEvent::typed(&event, event_id, occurred_at)?))
            }
            _ => Content::Typed(Box::new(event)),
        };
        Ok(AppendEvent { event_id, content })
    }

    /// Gives the event an identity of the caller's.
    #[must_use]
    pub fn with_id(self, event_id: EventId) -> AppendEvent {
        let content = match self.content {
            Content::Ready(event) => Content::Ready(Box::new(event.with_id(event_id))),
            content => content,
        };
        AppendEvent { event_id, content }
    }

    /// The event's identity.
    #[must_use]
    pub fn event_id(&self) -> EventId {
        self.event_id
    }

    fn bytes(&self) -> usize {
        match &self.content {
            Content::Ready(event) => event.payload_bytes() + 256,
            // What is left open is small; the queue's limit guards memory and counts the order of magnitude.
            Content::Typed(event) => event.to_archived().map_or(512, |bytes| bytes.len() + 256),
            Content::Json { text, .. } => text.len() + 256,
        }
    }

    fn kind(&self) -> EventKind {
        match &self.content {
            Content::Ready(event) => event.kind(),
            Content::Typed(event) => event.kind(),
            Content::Json { kind, .. } => *kind,
        }
    }

    fn sequence(&self) -> Option<i64> {
        match &self.content {
            Content::Ready(event) => event.sequence(),
            Content::Typed(event) => event.sequence(),
            Content::Json { sequence, .. } => sequence.flatten(),
        }
    }

    /// The event for the log, with sequence and time filled in where the caller left them open.
    fn complete(self, sequence: i64, timestamp: &str, zone: &Zone) -> Result<NewEvent, StoreError> {
        match self.content {
            Content::Ready(event) => Ok(*event),
            Content::Typed(mut event) => {
                if event.sequence().is_none() {
                    event.set_sequence(sequence);
                }
                if event.timestamp().is_none() {
                    event.set_timestamp(timestamp.to_owned());
                }
                let occurred_at = event.timestamp().and_then(|text| parse(text, zone));
                NewEvent::typed(&event, self.event_id, occurred_at)
            }
            Content::Json { text, kind, sequence: given, timestamp: given_time } => {
                let mut text = cut_contents(&text, kind);
                if given.is_none() {
                    add_key(&mut text, "sequence", &sequence.to_string());
                }
                if given_time.is_none() {
                    add_key(&mut text, "timestamp", &serde_json::Value::from(timestamp).to_string());
                }
                let time = given_time.unwrap_or_else(|| Some(timestamp.to_owned()));
                let occurred_at = time.as_deref().and_then(|text| parse(text, zone));
                NewEvent::json(&text, kind, given.unwrap_or(Some(sequence)), self.event_id, occurred_at)
            }
        }
    }
}

/// The command that the writer decides.
pub(crate) struct AppendCommand {
    pub(crate) append: Append,
    pub(crate) now: Instant,
}

impl Command for AppendCommand {
    type Output = ();

    fn decide(&mut self, view: &View<'_>) -> Result<(Decision, ()), StoreError> {
        let stream = StreamId::Trace(self.append.trace.clone());
        let by_key = match &self.append.key {
            Some(key) => view.find_key(key)?,
            None => None,
        };
        let is_open = self.append.events.iter().any(|event| !matches!(event.content, Content::Ready(_)));
        let mut latest = match view.stream(&stream)?.filter(|_| is_open) {
            Some(standing) => latest_sequence(view, standing.number)?,
            None => None,
        };
        let given = std::mem::take(&mut self.append.events);
        let mut events = Vec::with_capacity(given.len());
        for (index, event) in given.into_iter().enumerate() {
            // A retry is filled in as the first time, so that it is the same event.
            let earlier = match by_key {
                Some((first, count)) => (index < count as usize).then_some(Position(first.0 + index as u64)),
                None => view.find_event(event.event_id)?,
            };
            let stored = match earlier {
                Some(position) => view.event(position)?,
                None => None,
            };
            let (sequence, timestamp) = match &stored {
                Some(stored) => (stored.envelope.sequence.unwrap_or_default(), timestamp_of(stored)?),
                None if matches!(event.content, Content::Ready(_)) => (0, String::new()),
                None => (next_sequence(event.kind(), latest), self.now.to_text()),
            };
            latest = latest.max(Some(event.sequence().unwrap_or(sequence)));
            events.push(event.complete(sequence, &timestamp, &Zone::utc())?);
        }
        let decision = Decision {
            appends: vec![(stream, events)],
            conditions: std::mem::take(&mut self.append.conditions),
            key: self.append.key.clone(),
        };
        Ok((decision, ()))
    }
}

/// The text under an event's `timestamp`, of whatever kind it is.
fn timestamp_of(stored: &cognilog_storage::StoredEvent) -> Result<String, StoreError> {
    let json = stored.json()?;
    let node = Node::parse(&json).ok();
    Ok(node.as_ref().and_then(|node| node.get("timestamp")?.as_text()).unwrap_or_default().to_owned())
}

fn latest_sequence(view: &View<'_>, stream_number: u64) -> Result<Option<i64>, StoreError> {
    match cognilog_projections::traces::counts(view, stream_number) {
        Ok(counts) => Ok(counts.and_then(|counts| counts.latest_sequence)),
        Err(cognilog_projections::QueryError::Store(error)) => Err(error),
        Err(error) => Err(StoreError::Database { message: error.to_string() }),
    }
}

/// The sequence of an event without one: messages and queries are new places of the trace, everything else belongs to
/// the latest place (DESIGN section 5: "the trace's latest message sequence at that moment").
fn next_sequence(kind: EventKind, latest: Option<i64>) -> i64 {
    match kind {
        EventKind::Message | EventKind::Query | EventKind::Unknown => {
            latest.map_or(1, |latest| latest.saturating_add(1))
        }
        _ => latest.unwrap_or(0),
    }
}

fn add_key(text: &mut String, key: &str, value: &str) {
    text.pop();
    if !text.ends_with('{') {
        text.push(',');
    }
    text.push_str(&format!("\"{key}\":{value}}}"));
}

/// The text of a compact object without a top-level key.
fn without_key(text: &str, key: &str) -> Result<String, cognilog_core::json::JsonError> {
    let node = Node::parse(text)?;
    let mut kept = Vec::new();
    let mut start = 1;
    for (name, value) in node.as_object().unwrap_or_default() {
        // A compact object has its entries between single commas.
        if name != key {
            kept.push(&text[start..value.span.end]);
        }
        start = value.span.end + 1;
    }
    Ok(format!("{{{}}}", kept.join(",")))
}

/// Cuts what the documents cut, in the text of an event that is stored as it came.
fn cut_contents(text: &str, kind: EventKind) -> String {
    let list = match kind {
        EventKind::Query => "sources",
        EventKind::Extraction => "items",
        _ => return text.to_owned(),
    };
    let Ok(node) = Node::parse(text) else { return text.to_owned() };
    let mut result = String::with_capacity(text.len());
    let mut copied = 0;
    for item in node.get(list).and_then(Node::as_list).unwrap_or_default() {
        let Some(content) = item.get("content") else { continue };
        let Some(long) = content.as_text().filter(|text| cut::cut(text).len() < text.len()) else { continue };
        if content.span.start >= copied {
            result.push_str(&text[copied..content.span.start]);
            result.push_str(&serde_json::Value::from(cut::cut(long)).to_string());
            copied = content.span.end;
        }
    }
    result.push_str(&text[copied..]);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_completed_and_cut() {
        let long = "知".repeat(501);
        let check = |text: String, expect: String| assert_eq!(cut_contents(&text, EventKind::Query), expect);
        check(r#"{"type":"query","x":1}"#.to_owned(), r#"{"type":"query","x":1}"#.to_owned());
        check(
            format!(r#"{{"sources":[{{"content":"a"}},{{"content":"{long}","z":1e400}}],"response":"{long}"}}"#),
            format!(
                r#"{{"sources":[{{"content":"a"}},{{"content":"{}","z":1e400}}],"response":"{long}"}}"#,
                "知".repeat(500)
            ),
        );
        let retry =
            r#"{"type":"custom","sequence":null,"timestamp":null,"event_id":"0198f3a100007abc8def0123456789ab"}"#;
        let Ok(AppendEvent { content: Content::Json { text, sequence: None, timestamp: None, .. }, .. }) =
            AppendEvent::from_json(retry)
        else {
            panic!("nulls leave the fields open");
        };
        assert_eq!(text, r#"{"type":"custom"}"#);
        let mut text = "{}".to_owned();
        add_key(&mut text, "a", "1");
        add_key(&mut text, "b", "2");
        assert_eq!(text, r#"{"a":1,"b":2}"#);
        assert_eq!(
            without_key(r#"{"event_id":"x","a":[1,2],"b":2}"#, "event_id").as_deref(),
            Ok(r#"{"a":[1,2],"b":2}"#)
        );
        assert_eq!(without_key(r#"{"a":1,"event_id":"x"}"#, "event_id").as_deref(), Ok(r#"{"a":1}"#));
        assert_eq!(without_key(r#"{"event_id":"x"}"#, "event_id").as_deref(), Ok("{}"));
    }
}
