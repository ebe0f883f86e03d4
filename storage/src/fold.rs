//! The two traits that the log owns and knows no implementation of: a fold and a command.

use std::sync::Arc;

use cognilog_core::event::{Body, Envelope, Event, EventKind, EventView, OwnedBody};
use cognilog_core::{EventId, Instant, Position, StreamId};

use crate::error::StoreError;
use crate::record::Codec;
use crate::rows::ChangeSet;
use crate::snapshot::View;

/// What a fold's rows depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The events of one stream: keys begin with the stream's number (8 bytes, big-endian).
    Stream,
    /// Events of any stream.
    Store,
}

/// A projection: rows made from events alone, without clock, setting, model or disk (DESIGN section 1, idea 5).
pub trait Fold: Send + Sync {
    /// The name that pointers and queries use.
    fn name(&self) -> &'static str;

    /// Raised when the rows of the same events change.
    fn version(&self) -> u32;

    /// What the rows depend on.
    fn scope(&self) -> Scope;

    /// The kinds the fold looks at. Part of its fingerprint, so that a build that knows more kinds rebuilds.
    fn kinds(&self) -> &'static [EventKind];

    /// Takes one event. Keys of a stream-scoped fold stand behind the stream's number already.
    fn apply(&self, rows: &mut ChangeSet<'_>, event: &EventView<'_>);
}

/// What a fold's stored rows were made with; another value means they are made again.
pub(crate) fn fingerprint(fold: &dyn Fold) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(fold.name().as_bytes());
    hasher.update(&fold.version().to_le_bytes());
    hasher.update(&[u8::from(fold.scope() == Scope::Store)]);
    for kind in fold.kinds() {
        hasher.update(&kind.code().to_le_bytes());
        hasher.update(&[kind.schema()]);
    }
    hasher.digest()
}

/// Runs a fold on one event over `base`; the rows stand behind `prefix`.
///
/// # Errors
/// `Ok(Err(message))` is a panic of the fold, whose writes are dropped; `Err` is damage met while reading.
pub fn apply_fold(
    fold: &dyn Fold,
    base: &dyn crate::rows::RowSource,
    prefix: &[u8],
    event: &EventView<'_>,
) -> Result<Result<crate::rows::RowMap, String>, StoreError> {
    if !fold.kinds().contains(&event.body.kind()) {
        return Ok(Ok(crate::rows::RowMap::new()));
    }
    let mut full = prefix.to_vec();
    if fold.scope() == Scope::Stream {
        full.extend_from_slice(&event.envelope.stream_number.to_be_bytes());
    }
    let mut changes = ChangeSet::new(base, full);
    let run = std::panic::AssertUnwindSafe(|| fold.apply(&mut changes, event));
    match std::panic::catch_unwind(run) {
        Ok(()) => changes.into_changes().map(Ok),
        Err(panic) => Ok(Err(panic_message(panic.as_ref()))),
    }
}

pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "it panicked without a message".to_owned()
    }
}

/// The folds a store is opened with.
pub type Folds = Vec<Arc<dyn Fold>>;

/// An event to be appended.
#[derive(Clone, Debug)]
pub struct NewEvent {
    pub(crate) kind: EventKind,
    pub(crate) codec: Codec,
    pub(crate) is_cognition: bool,
    pub(crate) sequence: Option<i64>,
    pub(crate) occurred_at: Option<Instant>,
    pub(crate) event_id: EventId,
    pub(crate) imported: bool,
    pub(crate) payload: Vec<u8>,
    /// The typed body of JSON text and of an amendment; a typed event is looked at in its payload.
    pub(crate) body: Option<OwnedBody>,
}

impl NewEvent {
    /// An event of a known kind, stored as typed bytes. `occurred_at` is what its timestamp says.
    ///
    /// # Errors
    /// The event cannot be archived, or is an amendment whose text is no JSON.
    pub fn typed(event: &Event, event_id: EventId, occurred_at: Option<Instant>) -> Result<NewEvent, StoreError> {
        let body_error = |error| StoreError::Body { position: Position::START, error };
        Ok(NewEvent {
            kind: event.kind(),
            codec: Codec::Typed,
            is_cognition: event.kind().is_cognition(),
            sequence: event.sequence(),
            occurred_at,
            event_id,
            imported: false,
            payload: event.to_archived().map_err(body_error)?.to_vec(),
            body: match event {
                Event::EventAmended(_) => Some(OwnedBody::from_event(event).map_err(body_error)?),
                _ => None,
            },
        })
    }

    /// An event stored as JSON text: of a kind that is not known, or in a form that is not this build's own.
    ///
    /// `kind` is [`EventKind::Unknown`] when the text's `type` is not known.
    ///
    /// # Errors
    /// The text is no JSON.
    pub fn json(
        text: &str,
        kind: EventKind,
        sequence: Option<i64>,
        event_id: EventId,
        occurred_at: Option<Instant>,
    ) -> Result<NewEvent, StoreError> {
        let body =
            OwnedBody::from_json(kind, text).map_err(|error| StoreError::Body { position: Position::START, error })?;
        Ok(NewEvent {
            kind,
            codec: Codec::Json,
            is_cognition: kind.is_cognition(),
            sequence,
            occurred_at,
            event_id,
            imported: false,
            payload: text.as_bytes().to_vec(),
            body: Some(body),
        })
    }

    /// Gives the event an identity of the caller's.
    #[must_use]
    pub fn with_id(mut self, event_id: EventId) -> NewEvent {
        self.event_id = event_id;
        self
    }

    /// Marks the event as one that came from a file of another program.
    #[must_use]
    pub fn imported(mut self) -> NewEvent {
        self.imported = true;
        self
    }

    /// The event's identity.
    #[must_use]
    pub fn event_id(&self) -> EventId {
        self.event_id
    }

    /// The agent's message number.
    #[must_use]
    pub fn sequence(&self) -> Option<i64> {
        self.sequence
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// Bytes of the payload.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    pub(crate) fn view<'a>(
        &'a self,
        envelope: &'a Envelope,
        stream: &'a StreamId,
    ) -> Result<EventView<'a>, StoreError> {
        let body_error = |error| StoreError::Body { position: envelope.position, error };
        let (body, amends) = match &self.body {
            Some(owned) => (owned.body().map_err(body_error)?, owned.amends),
            None => (Body::access(self.kind, &self.payload).map_err(body_error)?, None),
        };
        Ok(EventView { envelope, stream, amends, body })
    }
}

/// What an append rests on. A condition that does not hold refuses the whole append.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// The stream's last event is at this position; [`Position::START`] for a stream that has none.
    StreamAt {
        /// The stream.
        stream: StreamId,
        /// Its expected last position.
        position: Position,
    },
    /// The store is of this epoch: the positions that the append rests on are of it.
    InEpoch {
        /// The epoch.
        epoch: u64,
    },
    /// No event of these kinds was appended to the stream behind the position.
    NoneSince {
        /// The stream.
        stream: StreamId,
        /// The kinds that would stand against it; empty for all.
        kinds: Vec<EventKind>,
        /// The position up to which the caller has looked.
        after: Position,
    },
}

/// What a command wants recorded.
#[derive(Debug, Default)]
pub struct Decision {
    /// The stream and its new events, in order.
    pub appends: Vec<(StreamId, Vec<NewEvent>)>,
    /// What the decision rests on.
    pub conditions: Vec<Condition>,
    /// The caller's idempotency key, remembered for [`crate::Limits::key_horizon`] positions.
    pub key: Option<Vec<u8>>,
}

/// A decision made by the one writer on the state at the head.
pub trait Command: Send + 'static {
    /// What the command tells its caller beside the receipt.
    type Output: Send + 'static;

    /// Decides what to record. Runs on the writer's thread: no waiting, no model.
    ///
    /// # Errors
    /// The command's own rejection; nothing is recorded.
    fn decide(&mut self, view: &View<'_>) -> Result<(Decision, Self::Output), StoreError>;
}

/// Proof that events are on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The epoch of the store: a restored store has another, so that positions are never mixed up.
    pub epoch: u64,
    /// One entry an event, in the order of the decision.
    pub events: Vec<Recorded>,
    /// Whether the events were there already, by event id or key.
    pub repeated: bool,
}

/// Where one event was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its place.
    pub position: Position,
    /// Its identity.
    pub event_id: EventId,
    /// The agent's message number.
    pub sequence: Option<i64>,
}
