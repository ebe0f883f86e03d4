//! Events: one type per kind, which is at once its JSON and its bytes in the log.
//!
//! ```
//! use cognilog_core::event::{Event, EventKind};
//!
//! let text = r#"{"type":"query","sequence":4,"query":"Woman's Era","source_ids":["w:1"],"sources":[]}"#;
//! let read = Event::from_json(text)?;
//! assert_eq!(read.event.as_ref().map(Event::kind), Some(EventKind::Query));
//! assert!(read.problems.is_empty());
//! // The text is this build's canonical form, so the log keeps the typed bytes and prints the same text again.
//! assert_eq!(read.event.map(|event| event.to_json()).as_deref(), Some(text));
//! # Ok::<(), cognilog_core::json::JsonError>(())
//! ```

mod cognition;
mod field;
mod keeping;
mod trace;
mod view;

pub use cognition::*;
pub use field::{ArchivedJsonText, JsonText, Problem, Severity};
pub use keeping::*;
pub use trace::*;
pub use view::{Body, BodyError, Envelope, EventView, OwnedBody};

use field::{Reader, Shape};
use serde::ser::SerializeMap;

use crate::cut::cut;
use crate::json::{JsonError, Node};

/// Bytes of an event as the log stores them, aligned or not.
pub type ArchivedBytes = rkyv::util::AlignedVec;

macro_rules! kinds {
    ($( $kind:ident = $code:literal $word:literal, )*) => {
        /// The kinds of events that this build knows, and one for all others.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum EventKind {
            /// A kind that this build does not know; its text says which.
            Unknown = 0,
            $( #[doc = concat!("`", $word, "`.")] $kind = $code, )*
        }

        impl EventKind {
            /// Every known kind.
            pub const ALL: &'static [EventKind] = &[$( EventKind::$kind, )*];

            /// The kind of a code in the log.
            #[must_use]
            pub fn from_code(code: u16) -> EventKind {
                match code { $( $code => EventKind::$kind, )* _ => EventKind::Unknown }
            }

            /// The kind of a `type` in JSON.
            #[must_use]
            pub fn from_word(word: &str) -> EventKind {
                match word { $( $word => EventKind::$kind, )* _ => EventKind::Unknown }
            }

            /// The `type` in JSON.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $( EventKind::$kind => $word, )* EventKind::Unknown => "unknown" }
            }
        }

        /// An event of a known kind, owned.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Event {
            $( #[doc = concat!("`", $word, "`.")] $kind($kind), )*
        }

        $( impl From<$kind> for Event {
            fn from(body: $kind) -> Event { Event::$kind(body) }
        } )*

        impl Event {
            /// The event's kind.
            #[must_use]
            pub fn kind(&self) -> EventKind {
                match self { $( Event::$kind(_) => EventKind::$kind, )* }
            }

            /// The agent's message number.
            #[must_use]
            pub fn sequence(&self) -> Option<i64> {
                match self { $( Event::$kind(body) => body.sequence, )* }
            }

            /// Sets the agent's message number.
            pub fn set_sequence(&mut self, sequence: i64) {
                match self { $( Event::$kind(body) => body.sequence = Some(sequence), )* }
            }

            /// When, as the text came.
            #[must_use]
            pub fn timestamp(&self) -> Option<&str> {
                match self { $( Event::$kind(body) => body.timestamp.as_deref(), )* }
            }

            /// Sets the time's text.
            pub fn set_timestamp(&mut self, timestamp: String) {
                match self { $( Event::$kind(body) => body.timestamp = Some(timestamp), )* }
            }

            /// The event's bytes for the log.
            ///
            /// # Errors
            /// The serializer's own, which an event in memory cannot cause short of running out of it.
            pub fn to_archived(&self) -> Result<ArchivedBytes, BodyError> {
                match self { $( Event::$kind(body) => {
                    rkyv::to_bytes::<rkyv::rancor::Error>(body).map_err(|error| BodyError::Archive {
                        kind: EventKind::$kind, message: error.to_string(),
                    })
                } )* }
            }

            /// Reads an event back from the log's bytes.
            ///
            /// # Errors
            /// The bytes are not a valid archive of the kind, or the kind is not known.
            pub fn from_archived(kind: EventKind, bytes: &[u8]) -> Result<Event, BodyError> {
                match kind {
                    $( EventKind::$kind => rkyv::from_bytes::<$kind, rkyv::rancor::Error>(bytes)
                        .map(Event::$kind)
                        .map_err(|error| BodyError::Archive { kind, message: error.to_string() }), )*
                    EventKind::Unknown => Err(BodyError::UnknownKind),
                }
            }

            fn read(kind: EventKind, object: &Node<'_>, reader: &mut Reader<'_>) -> Option<Event> {
                match kind {
                    $( EventKind::$kind => Some(Event::$kind($kind::read_fields(object, reader))), )*
                    EventKind::Unknown => None,
                }
            }

            fn write_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                match self { $( Event::$kind(body) => body.write_fields(map), )* }
            }
        }

        impl<'a> Body<'a> {
            /// The kind that the body is of; for raw text the one it was read as.
            #[must_use]
            pub fn kind(&self) -> EventKind {
                match self {
                    $( Body::$kind(_) => EventKind::$kind, )*
                    Body::Unknown => EventKind::Unknown,
                }
            }

            /// Looks at an event's bytes in place, after checking that they are a valid archive of the kind.
            ///
            /// # Errors
            /// The bytes are not a valid archive of the kind.
            pub fn access(kind: EventKind, bytes: &'a [u8]) -> Result<Body<'a>, BodyError> {
                match kind {
                    $( EventKind::$kind => rkyv::access::<rkyv::Archived<$kind>, rkyv::rancor::Error>(bytes)
                        .map(Body::$kind)
                        .map_err(|error| BodyError::Archive { kind, message: error.to_string() }), )*
                    EventKind::Unknown => Ok(Body::Unknown),
                }
            }
        }

        $( const _: () = assert!(std::mem::align_of::<rkyv::Archived<$kind>>() == 1); )*
    };
}

kinds! {
    Query = 1 "query",
    Evaluation = 2 "evaluation",
    Extraction = 3 "extraction",
    ExtractionPending = 4 "extraction_pending",
    ExtractionReviewed = 5 "extraction_reviewed",
    ExtractionCommitted = 6 "extraction_committed",
    Reflection = 7 "reflection",
    TraceStarted = 20 "trace_started",
    Message = 21 "message",
    GoalChanged = 22 "goal_changed",
    TriggerFired = 23 "trigger_fired",
    SideBranchStarted = 24 "side_branch_started",
    SideBranchFinished = 25 "side_branch_finished",
    ReplyUnparsed = 26 "reply_unparsed",
    ContextCompressed = 27 "context_compressed",
    TraceFinished = 28 "trace_finished",
    EventAmended = 40 "event_amended",
    JsonFileStyle = 41 "json_file_style",
}

impl EventKind {
    /// The code in the log.
    #[must_use]
    pub fn code(self) -> u16 {
        self as u16
    }

    /// Whether events of the kind appear in `cognition_log.json`. Unknown kinds that came from there do too.
    #[must_use]
    pub fn is_cognition(self) -> bool {
        matches!(self.code(), 0..=7)
    }

    /// The schema id that this build writes for the kind.
    #[must_use]
    pub fn schema(self) -> u8 {
        1
    }
}

/// What came of reading an event's JSON.
#[derive(Clone, Debug)]
pub struct ReadEvent {
    /// The kind that `type` names.
    pub kind: EventKind,
    /// The event, from whatever the text has; `None` for an unknown kind.
    pub event: Option<Event>,
    /// Where the text is not what the kind expects.
    pub problems: Vec<Problem>,
}

impl ReadEvent {
    /// Whether the event can be taken for what its `type` says.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity != Severity::Unfit)
    }
}

impl Event {
    /// Reads an event from JSON text leniently: what does not fit is named and a default taken.
    ///
    /// # Errors
    /// The text is not JSON as Python's `json` reads it.
    pub fn from_json(text: &str) -> Result<ReadEvent, JsonError> {
        Ok(Event::from_node(&Node::parse(text)?, text))
    }

    /// As [`Event::from_json`], from text that is parsed already.
    #[must_use]
    pub fn from_node(object: &Node<'_>, source: &str) -> ReadEvent {
        let kind = object.get("type").and_then(Node::as_text).map_or(EventKind::Unknown, EventKind::from_word);
        Event::from_node_as(kind, object, source)
    }

    /// Reads an object as an event of a kind that something else than its `type` tells.
    #[must_use]
    pub fn from_node_as(kind: EventKind, object: &Node<'_>, source: &str) -> ReadEvent {
        let mut reader = Reader::new(source);
        if object.as_object().is_none() {
            reader.note(Severity::Unfit, format!("expected an object, found {}", object.type_name()));
            return ReadEvent { kind: EventKind::Unknown, event: None, problems: reader.into_problems() };
        }
        let event = Event::read(kind, object, &mut reader);
        ReadEvent { kind, event, problems: reader.into_problems() }
    }

    /// The event's canonical JSON: `type` first, then the documents' keys in their order, absent ones left out,
    /// without white space.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|error| {
            // Only JSON text inside the event can fail, and it was checked when it was taken in.
            serde_json::json!({ "type": self.kind().as_str(), "error": error.to_string() }).to_string()
        })
    }

    /// Cuts what the documents cut when an event is recorded: contents of a query's sources and of legacy
    /// extraction items (cognition log document; DESIGN section 5). Tells whether anything was cut.
    pub fn cut_contents(&mut self) -> bool {
        let contents: Vec<&mut Option<String>> = match self {
            Event::Query(query) => query.sources.iter_mut().map(|source| &mut source.content).collect(),
            Event::Extraction(extraction) => extraction.items.iter_mut().map(|item| &mut item.content).collect(),
            _ => Vec::new(),
        };
        let mut cut_any = false;
        for content in contents.into_iter().flatten() {
            let kept = cut(content).len();
            cut_any |= kept < content.len();
            content.truncate(kept);
        }
        cut_any
    }
}

impl serde::Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.kind().as_str())?;
        self.write_fields(&mut map)?;
        map.end()
    }
}
