//! How folds see an event: its envelope and its body in place, the same from typed bytes and from raw JSON.

use super::*;
use crate::id::{EventId, Position, StreamId};
use crate::time::Instant;

/// An event's body, borrowed from the log's bytes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each variant is the kind of the same name")]
pub enum Body<'a> {
    Query(&'a ArchivedQuery),
    Evaluation(&'a ArchivedEvaluation),
    Extraction(&'a ArchivedExtraction),
    ExtractionPending(&'a ArchivedExtractionPending),
    ExtractionReviewed(&'a ArchivedExtractionReviewed),
    ExtractionCommitted(&'a ArchivedExtractionCommitted),
    Reflection(&'a ArchivedReflection),
    TraceStarted(&'a ArchivedTraceStarted),
    Message(&'a ArchivedMessage),
    GoalChanged(&'a ArchivedGoalChanged),
    TriggerFired(&'a ArchivedTriggerFired),
    SideBranchStarted(&'a ArchivedSideBranchStarted),
    SideBranchFinished(&'a ArchivedSideBranchFinished),
    ReplyUnparsed(&'a ArchivedReplyUnparsed),
    ContextCompressed(&'a ArchivedContextCompressed),
    TraceFinished(&'a ArchivedTraceFinished),
    EventAmended(&'a ArchivedEventAmended),
    JsonFileStyle(&'a ArchivedJsonFileStyle),
    Unknown,
}

/// What the log knows of an event beside its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Place in the whole log.
    pub position: Position,
    /// The stream's number in this store.
    pub stream_number: u64,
    /// How many events of the stream came before this one.
    pub stream_index: u64,
    /// Position of the stream's event before this one, 0 for none.
    pub previous_in_stream: Position,
    /// The kind; [`EventKind::Unknown`] for one that the writing build did not know.
    pub kind: EventKind,
    /// Whether the event belongs into `cognition_log.json`.
    pub is_cognition: bool,
    /// The agent's message number, if the text has an integer.
    pub sequence: Option<i64>,
    /// When the log took the event.
    pub recorded_at: Instant,
    /// When it happened, as its text says, if the text can be read.
    pub occurred_at: Option<Instant>,
    /// The event's identity.
    pub event_id: EventId,
    /// Whether the event came from a file of another program, which may have acted on it already.
    pub imported: bool,
    /// Whether the payload was erased and stands in redacted form.
    pub erased: bool,
}

impl Envelope {
    /// When the event happened as far as is known: its own time, else when the log took it.
    #[must_use]
    pub fn time(&self) -> Instant {
        self.occurred_at.unwrap_or(self.recorded_at)
    }
}

/// One event as a fold sees it.
#[derive(Clone, Copy, Debug)]
pub struct EventView<'a> {
    /// What the log knows of it.
    pub envelope: &'a Envelope,
    /// The stream it belongs to.
    pub stream: &'a StreamId,
    /// The position of the event that this one replaces the body of, for an amended event.
    pub amends: Option<Position>,
    /// The body; for an amended event the body as it stands now.
    pub body: Body<'a>,
}

/// The bytes that a [`Body`] is looked at in, when they are not the log's own: made from raw JSON.
#[derive(Debug, Clone)]
pub struct OwnedBody {
    /// The kind that the bytes are of.
    pub kind: EventKind,
    /// For an amended event, the position whose body is replaced.
    pub amends: Option<Position>,
    bytes: ArchivedBytes,
}

impl OwnedBody {
    /// Reads JSON text leniently as an event of the kind; [`EventKind::Unknown`] asks the text's own `type`.
    ///
    /// # Errors
    /// The text is no JSON, which the log never stores.
    pub fn from_json(kind: EventKind, text: &str) -> Result<OwnedBody, BodyError> {
        let node = Node::parse(text).map_err(|error| BodyError::Json { message: error.to_string() })?;
        let read = match kind {
            EventKind::Unknown => Event::from_node(&node, text),
            kind => Event::from_node_as(kind, &node, text),
        };
        // What does not fit its kind is kept as text and projected as nothing.
        match read.event.as_ref().filter(|_| read.fits()) {
            // Text of an unknown kind came from outside: it never amends or restyles, whatever it calls itself.
            Some(Event::EventAmended(_) | Event::JsonFileStyle(_)) if kind == EventKind::Unknown => {
                Ok(OwnedBody { kind: EventKind::Unknown, amends: None, bytes: ArchivedBytes::new() })
            }
            Some(event) => OwnedBody::from_event(event),
            None => Ok(OwnedBody { kind: EventKind::Unknown, amends: None, bytes: ArchivedBytes::new() }),
        }
    }

    /// The view of an event in memory. An amended event is seen as the event it makes of its target.
    ///
    /// # Errors
    /// As [`Event::to_archived`] and [`OwnedBody::from_json`].
    pub fn from_event(event: &Event) -> Result<OwnedBody, BodyError> {
        if let Event::EventAmended(amended) = event {
            let inner = OwnedBody::from_json(EventKind::Unknown, &amended.text)?;
            return Ok(OwnedBody { amends: Some(Position(amended.position.max(0) as u64)), ..inner });
        }
        Ok(OwnedBody { kind: event.kind(), amends: None, bytes: event.to_archived()? })
    }

    /// Looks at the bytes.
    ///
    /// # Errors
    /// As [`Body::access`].
    pub fn body(&self) -> Result<Body<'_>, BodyError> {
        Body::access(self.kind, &self.bytes)
    }
}

/// Bytes that are not the body they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// Typed bytes that fail their check.
    #[error("the bytes of a {} event are not a valid archive: {message}", kind.as_str())]
    Archive {
        /// The kind they should be.
        kind: EventKind,
        /// What the check says.
        message: String,
    },
    /// Typed bytes of a kind that this build does not know.
    #[error("typed bytes of a kind that this build does not know")]
    UnknownKind,
    /// Raw text that is no JSON.
    #[error("the event's text is no JSON: {message}")]
    Json {
        /// What the parser says.
        message: String,
    },
}
