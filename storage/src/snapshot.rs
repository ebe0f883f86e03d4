//! One state of the log and its rows, as readers and commands see it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use cognilog_core::event::{Body, Envelope, Event, EventKind, EventView, OwnedBody};
use cognilog_core::{EventId, Position, StreamId};
use redb::ReadOnlyTable;

use crate::block::{Block, BlockValue, StoredBlocks};
use crate::error::{StoreError, contained};
use crate::fold::{NewEvent, Scope};
use crate::index::{self, StreamStanding};
use crate::limits::{READ_AHEAD_BLOCKS, READ_AHEAD_EVENTS_MIN};
use crate::record::{ChainHash, Codec, Frame};
use crate::rows::{Bytes, Layered, RowMap, RowSource, StoredRows, scan_after};

/// How a projection stands in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FoldState {
    /// Its rows are those of the head.
    Live,
    /// Its rows are being made again and cannot be read.
    Rebuilding {
        /// Events folded so far.
        done: u64,
    },
    /// It could not take an event; its rows end before it.
    Stopped {
        /// The event.
        position: Position,
        /// What happened.
        message: String,
    },
}

/// A projection's place in a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct FoldPlace {
    pub(crate) name: &'static str,
    pub(crate) scope: Scope,
    pub(crate) slot: u8,
    pub(crate) state: FoldState,
}

/// Rows that are newer than the database's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    /// Rows since the last flush began.
    pub(crate) active: Arc<RowMap>,
    /// Rows of a flush that is under way.
    pub(crate) frozen: Option<Arc<RowMap>>,
}

impl Overlay {
    pub(crate) fn maps(&self) -> Vec<&RowMap> {
        let mut maps: Vec<&RowMap> = vec![&self.active];
        maps.extend(self.frozen.as_deref());
        maps
    }
}

/// Names of streams by number: they never change, so one cache serves all snapshots of a store.
pub(crate) type StreamNames = Arc<Mutex<HashMap<u64, Arc<StreamId>>>>;

/// One state of the store: everything up to its head, nothing after. Cheap to clone, and never blocks the writer.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) blocks: Arc<StoredBlocks>,
    pub(crate) rows: Arc<StoredRows>,
    pub(crate) standing: Arc<ReadOnlyTable<&'static [u8], &'static [u8]>>,
    pub(crate) overlay: Overlay,
    pub(crate) head: Position,
    pub(crate) chain: ChainHash,
    pub(crate) epoch: u64,
    pub(crate) folds: Arc<Vec<FoldPlace>>,
    pub(crate) names: StreamNames,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Snapshot").field("head", &self.head).field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// The last position.
    #[must_use]
    pub fn head(&self) -> Position {
        self.head
    }

    /// The chain after the last event.
    #[must_use]
    pub fn chain(&self) -> ChainHash {
        self.chain
    }

    /// The epoch that positions belong to.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The state as commands see it.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View {
            snapshot: self,
            batch: None,
            layered: Layered::new(self.overlay.maps(), Some(&*self.rows)),
            recent: &[],
            head: self.head,
        }
    }

    /// Visits events by position, from `from` to `to`, both included, each checked against its checksum.
    ///
    /// The blocks of a long range are read ahead on a thread of their own while their events are visited.
    ///
    /// # Errors
    /// An event is damaged or missing, or the disk refuses.
    pub fn visit(
        &self,
        from: Position,
        to: Position,
        visit: impl FnMut(&LogEvent<'_>) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let (from, to) = (Position(from.0.max(1)), to.min(self.head));
        if from > to {
            return Ok(());
        }
        let range = || self.blocks.range(self.block_key(from)?, to.0);
        if to.0 - from.0 < READ_AHEAD_EVENTS_MIN {
            return self.visit_blocks(range()?, from, to, visit);
        }
        let ahead = range()?;
        std::thread::scope(|scope| {
            let (read, blocks) = crossbeam_channel::bounded(READ_AHEAD_BLOCKS);
            // It ends with the blocks, or when nobody takes them any more.
            let read_ahead = move || ahead.map(|block| read.send(block)).take_while(Result::is_ok).for_each(drop);
            let reader = std::thread::Builder::new().name("cognilog-read-ahead".to_owned());
            match reader.spawn_scoped(scope, read_ahead) {
                Ok(_) => self.visit_blocks(blocks.into_iter(), from, to, visit),
                // Without a thread to spare the blocks are read when they are needed.
                Err(_) => self.visit_blocks(range()?, from, to, visit),
            }
        })
    }

    fn visit_blocks(
        &self,
        blocks: impl Iterator<Item = Result<(u64, BlockValue), StoreError>>,
        from: Position,
        to: Position,
        mut visit: impl FnMut(&LogEvent<'_>) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut next = from;
        for entry in blocks {
            let (key, value) = entry?;
            let block = Block::read(key, value.value())?;
            if block.first > next {
                return Err(StoreError::damaged(format!("position {next}"), "the block that holds it is missing"));
            }
            for frame in block.frames_from(next) {
                let frame = frame?;
                if frame.envelope.position > to {
                    return Ok(());
                }
                let stream = self.stream_of(&frame)?;
                next = frame.envelope.position.next();
                if visit(&LogEvent { frame, stream })?.is_break() {
                    return Ok(());
                }
            }
            if block.last() < to && next != block.last().next() {
                return Err(StoreError::damaged(format!("position {next}"), "the block ends before it should"));
            }
        }
        if next <= to {
            return Err(StoreError::damaged(format!("position {next}"), "the block that holds it is missing"));
        }
        Ok(())
    }

    fn block_key(&self, position: Position) -> Result<u64, StoreError> {
        match self.blocks.at_or_before(position.0)? {
            Some((key, _)) => Ok(key),
            None => Err(StoreError::damaged(format!("position {position}"), "the log has no block for it")),
        }
    }

    fn stream_of(&self, frame: &Frame<'_>) -> Result<Arc<StreamId>, StoreError> {
        let number = frame.envelope.stream_number;
        if let Some(stream) = self.names.lock().unwrap_or_else(PoisonError::into_inner).get(&number) {
            return Ok(Arc::clone(stream));
        }
        let stream = if frame.envelope.stream_index == 0 {
            StreamId::from_parts(frame.stream_code, frame.name)?
        } else {
            index::stream_name(&self.view().layered, number)?.ok_or_else(|| {
                StoreError::damaged(format!("position {}", frame.envelope.position), "its stream has no name")
            })?
        };
        let stream = Arc::new(stream);
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::clone(&stream));
        Ok(stream)
    }

    /// The event at a position.
    ///
    /// # Errors
    /// The event is damaged, or the disk refuses.
    pub fn event(&self, position: Position) -> Result<Option<StoredEvent>, StoreError> {
        let mut found = None;
        if position >= Position(1) {
            self.visit(position, position, |event| {
                found = Some(event.to_stored());
                Ok(ControlFlow::Break(()))
            })?;
        }
        Ok(found)
    }

    /// Visits the events of one stream behind `after`, in order. Each names the one before it and the stream its last one,
    /// so that an event which the index does not lead to is noticed.
    ///
    /// # Errors
    /// An event is missing or, as [`Snapshot::visit`], damaged.
    pub fn visit_stream(
        &self,
        stream: &StreamId,
        after: Position,
        mut visit: impl FnMut(&LogEvent<'_>) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        const PAGE: usize = 1_000;
        let view = self.view();
        let Some(standing) = index::find_stream(&view.layered, stream)? else { return Ok(()) };
        let missing = |position: Position| {
            let reason =
                "the index does not lead to this event of the stream; `rebuild` does not help: restore from a backup";
            StoreError::damaged(format!("position {position} of {stream}"), reason)
        };
        let mut last = after;
        loop {
            let positions = index::stream_positions(&view.layered, standing.number, last, PAGE)?;
            for (position, _) in &positions {
                let mut flow = ControlFlow::Continue(());
                self.visit(*position, *position, |event| {
                    let before = event.envelope().previous_in_stream;
                    if before > last {
                        return Err(missing(before));
                    }
                    flow = visit(event)?;
                    Ok(ControlFlow::Break(()))
                })?;
                if flow.is_break() {
                    return Ok(());
                }
                last = *position;
            }
            if positions.len() < PAGE {
                return if last < standing.last { Err(missing(standing.last)) } else { Ok(()) };
            }
        }
    }

    /// Whether another transaction's rows stand elsewhere than this snapshot's.
    pub(crate) fn stands_elsewhere(&self, transaction: &redb::ReadTransaction) -> Result<bool, StoreError> {
        use crate::projector::{STANDING, STANDING_KEY};
        contained(|| {
            let newer = transaction.open_table(STANDING)?;
            let newer = newer.get(STANDING_KEY)?.map(|sealed| sealed.value().to_vec());
            let ours = self.standing.get(STANDING_KEY)?.map(|sealed| sealed.value().to_vec());
            Ok(newer != ours)
        })
    }

    /// Projections with their states.
    #[must_use]
    pub fn projections(&self) -> Vec<(&'static str, FoldState)> {
        self.folds.iter().map(|place| (place.name, place.state.clone())).collect()
    }

    /// All stored rows of a projection's serving slot, as key and row, in key order; for comparisons.
    ///
    /// # Errors
    /// The projection is not readable or a row is damaged.
    pub fn projection_rows(&self, name: &str) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.view().scan(name, &[])
    }
}

/// The state that a command decides on, or a query reads: the log and the rows up to one position.
pub struct View<'s> {
    pub(crate) snapshot: &'s Snapshot,
    pub(crate) batch: Option<&'s [FoldPlace]>,
    pub(crate) layered: Layered<'s>,
    /// Events decided in this batch and not yet in a block.
    pub(crate) recent: &'s [RecentEvent],
    pub(crate) head: Position,
}

/// An event that is decided and not yet committed.
#[derive(Debug)]
pub(crate) struct RecentEvent {
    pub(crate) envelope: Envelope,
    pub(crate) stream: StreamId,
    pub(crate) event: NewEvent,
    pub(crate) append_events: u32,
    pub(crate) key: Vec<u8>,
}

impl View<'_> {
    /// The last position, decided events of this batch included.
    #[must_use]
    pub fn head(&self) -> Position {
        self.head
    }

    /// Where a stream stands, if it has events.
    ///
    /// # Errors
    /// A row is damaged or the disk refuses.
    pub fn stream(&self, stream: &StreamId) -> Result<Option<StreamStanding>, StoreError> {
        index::find_stream(&self.layered, stream)
    }

    /// The name of a stream's number.
    ///
    /// # Errors
    /// As [`View::stream`].
    pub fn stream_name(&self, number: u64) -> Result<Option<StreamId>, StoreError> {
        index::stream_name(&self.layered, number)
    }

    /// How many streams there are; their numbers run from 0.
    ///
    /// # Errors
    /// As [`View::stream`].
    pub fn stream_count(&self) -> Result<u64, StoreError> {
        index::stream_count(&self.layered)
    }

    /// Positions and kinds of a stream's events behind `after`, at most `limit`.
    ///
    /// # Errors
    /// As [`View::stream`].
    pub fn stream_positions(
        &self,
        number: u64,
        after: Position,
        limit: usize,
    ) -> Result<Vec<(Position, EventKind)>, StoreError> {
        index::stream_positions(&self.layered, number, after, limit)
    }

    /// Where an event id was recorded.
    ///
    /// # Errors
    /// As [`View::stream`].
    pub fn find_event(&self, id: EventId) -> Result<Option<Position>, StoreError> {
        index::find_event(&self.layered, id)
    }

    /// Where an idempotency key was used: first position and number of events.
    ///
    /// # Errors
    /// As [`View::stream`].
    pub fn find_key(&self, key: &[u8]) -> Result<Option<(Position, u64)>, StoreError> {
        index::find_key(&self.layered, key)
    }

    /// The event at a position, decided events of this batch included.
    ///
    /// # Errors
    /// As [`Snapshot::event`].
    pub fn event(&self, position: Position) -> Result<Option<StoredEvent>, StoreError> {
        if position <= self.snapshot.head {
            return self.snapshot.event(position);
        }
        let recent = self.recent.iter().find(|recent| recent.envelope.position == position);
        Ok(recent.map(|recent| StoredEvent {
            envelope: recent.envelope.clone(),
            stream: Arc::new(recent.stream.clone()),
            codec: recent.event.codec,
            payload: recent.event.payload.clone(),
            append_events: recent.append_events,
            key: recent.key.clone(),
        }))
    }

    fn place(&self, name: &str) -> Result<&FoldPlace, StoreError> {
        let folds = self.batch.unwrap_or(&self.snapshot.folds);
        let place = folds
            .iter()
            .find(|place| place.name == name)
            .ok_or_else(|| StoreError::NoSuchProjection { name: name.to_owned() })?;
        match &place.state {
            FoldState::Live => Ok(place),
            FoldState::Rebuilding { done } => {
                Err(StoreError::StaleVersion { name: name.to_owned(), done: *done, total: self.head.0 })
            }
            FoldState::Stopped { position, message } => Err(StoreError::ProjectionStopped {
                name: name.to_owned(),
                position: *position,
                message: message.clone(),
            }),
        }
    }

    /// A row of a projection. For a stream-scoped one the key begins with the stream's number, big-endian.
    ///
    /// # Errors
    /// The projection is being rebuilt or stopped, a row is damaged, or the disk refuses.
    pub fn row(&self, projection: &str, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let slot = self.place(projection)?.slot;
        let mut full = vec![slot];
        full.extend_from_slice(key);
        self.layered.get(&full)
    }

    /// The rows of a projection whose keys begin with `start`, in key order.
    ///
    /// # Errors
    /// As [`View::row`].
    pub fn scan(&self, projection: &str, start: &[u8]) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        self.scan_after(projection, start, None, usize::MAX)
    }

    /// As [`View::scan`], behind the key `after`, at most `limit` rows.
    ///
    /// # Errors
    /// As [`View::row`].
    pub fn scan_after(
        &self,
        projection: &str,
        start: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let slot = self.place(projection)?.slot;
        let full = |key: &[u8]| [&[slot], key].concat();
        scan_after(&self.layered, &full(start), after.map(full).as_deref(), limit, 1)
    }
}

/// An event in its block, borrowed.
#[derive(Debug)]
pub struct LogEvent<'a> {
    pub(crate) frame: Frame<'a>,
    pub(crate) stream: Arc<StreamId>,
}

impl LogEvent<'_> {
    /// What the log knows of the event beside its body.
    #[must_use]
    pub fn envelope(&self) -> &Envelope {
        &self.frame.envelope
    }

    /// The stream it belongs to.
    #[must_use]
    pub fn stream(&self) -> &StreamId {
        &self.stream
    }

    /// The payload's bytes.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.frame.payload
    }

    /// How the payload is written.
    #[must_use]
    pub fn codec(&self) -> Codec {
        self.frame.codec
    }

    /// Shows the event to `look` as folds see it.
    ///
    /// # Errors
    /// The body's bytes fail their check.
    pub fn with_view<T>(&self, look: impl FnOnce(&EventView<'_>) -> T) -> Result<T, StoreError> {
        with_view(&self.frame.envelope, &self.stream, self.frame.codec, self.frame.payload, look)
    }

    /// A copy that outlives the block.
    #[must_use]
    pub fn to_stored(&self) -> StoredEvent {
        StoredEvent {
            envelope: self.frame.envelope.clone(),
            stream: Arc::clone(&self.stream),
            codec: self.frame.codec,
            payload: self.frame.payload.to_vec(),
            append_events: self.frame.append_events,
            key: self.frame.key.to_vec(),
        }
    }
}

fn with_view<T>(
    envelope: &Envelope,
    stream: &StreamId,
    codec: Codec,
    payload: &[u8],
    look: impl FnOnce(&EventView<'_>) -> T,
) -> Result<T, StoreError> {
    let body_error = |error| StoreError::Body { position: envelope.position, error };
    // An amendment is seen as the event it makes of its target, which takes a look at the text inside it.
    if codec == Codec::Typed && envelope.kind != EventKind::EventAmended {
        let body = Body::access(envelope.kind, payload).map_err(body_error)?;
        return Ok(look(&EventView { envelope, stream, amends: None, body }));
    }
    let owned = match codec {
        Codec::Typed => OwnedBody::from_event(&Event::from_archived(envelope.kind, payload).map_err(body_error)?),
        Codec::Json => OwnedBody::from_json(envelope.kind, text(envelope.position, payload)?),
    }
    .map_err(body_error)?;
    let body = owned.body().map_err(body_error)?;
    Ok(look(&EventView { envelope, stream, amends: owned.amends, body }))
}

fn text(position: Position, payload: &[u8]) -> Result<&str, StoreError> {
    std::str::from_utf8(payload)
        .map_err(|_| StoreError::damaged(format!("position {position}"), "the event's text is not UTF-8"))
}

/// An event of the log, owned.
#[derive(Clone, Debug)]
pub struct StoredEvent {
    /// What the log knows of the event beside its body.
    pub envelope: Envelope,
    /// The stream it belongs to.
    pub stream: Arc<StreamId>,
    /// How the payload is written.
    pub codec: Codec,
    /// The payload's bytes.
    pub payload: Vec<u8>,
    /// Events of its append, on the first of them.
    pub append_events: u32,
    /// The caller's idempotency key, on the first event of an append.
    pub key: Vec<u8>,
}

impl StoredEvent {
    /// The event's JSON without white space between tokens: the text as it came, or the canonical form.
    ///
    /// # Errors
    /// The body's bytes fail their check.
    pub fn json(&self) -> Result<String, StoreError> {
        match self.codec {
            Codec::Json => text(self.envelope.position, &self.payload).map(str::to_owned),
            Codec::Typed => Event::from_archived(self.envelope.kind, &self.payload)
                .map(|event| event.to_json())
                .map_err(|error| StoreError::Body { position: self.envelope.position, error }),
        }
    }

    /// The event as a typed value, read leniently from raw text; `None` for an unknown kind.
    ///
    /// # Errors
    /// As [`StoredEvent::json`].
    pub fn event(&self) -> Result<Option<Event>, StoreError> {
        let body_error = |error| StoreError::Body { position: self.envelope.position, error };
        match self.codec {
            Codec::Typed => Event::from_archived(self.envelope.kind, &self.payload).map(Some).map_err(body_error),
            Codec::Json => {
                let text = text(self.envelope.position, &self.payload)?;
                let node = cognilog_core::json::Node::parse(text).map_err(|error| {
                    body_error(cognilog_core::event::BodyError::Json { message: error.to_string() })
                })?;
                Ok(match self.envelope.kind {
                    EventKind::Unknown => Event::from_node(&node, text),
                    kind => Event::from_node_as(kind, &node, text),
                }
                .event)
            }
        }
    }

    /// Shows the event to `look` as folds see it.
    ///
    /// # Errors
    /// As [`StoredEvent::json`].
    pub fn with_view<T>(&self, look: impl FnOnce(&EventView<'_>) -> T) -> Result<T, StoreError> {
        with_view(&self.envelope, &self.stream, self.codec, &self.payload, look)
    }
}
