//! Brings rows from their checkpoints up to the head, and remembers where each projection's rows stand.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use cognilog_core::event::EventView;
use cognilog_core::{Position, StreamId};
use redb::{ReadTransaction, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};

use crate::block::{Block, StoredBlocks};
use crate::error::StoreError;
use crate::fold::{Fold, Folds, Scope, apply_fold, fingerprint};
use crate::index::{INDEX_SLOT, IndexedRecord, index_record};
use crate::record::{CHAIN_START, ChainHash};
use crate::rows::{Layered, RowMap, StoredRows, seal, unseal};
use crate::snapshot::{FoldPlace, FoldState, Overlay, Snapshot, StreamNames};

/// Blocks by their first position.
pub(crate) const BLOCKS: TableDefinition<'static, u64, &'static [u8]> = TableDefinition::new("blocks");
/// Index and projection rows by slot and key.
pub(crate) const ROWS: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("rows");
/// One row: where the rows stand.
pub(crate) const STANDING: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("standing");
pub(crate) const STANDING_KEY: &[u8] = b"standing";
/// The id of the store that the log belongs to.
pub(crate) const STORE_KEY: &[u8] = b"store";

/// Checks that a log belongs to the store whose directory it lies in.
///
/// # Errors
/// It belongs to another one, or cannot be read.
pub(crate) fn check_store(
    transaction: &ReadTransaction,
    directory: &crate::directory::StoreDirectory,
) -> Result<(), StoreError> {
    let refused = |reason: String| StoreError::NotAStore { path: directory.database(), reason };
    let table = match transaction.open_table(STANDING) {
        Err(redb::TableError::TableDoesNotExist(_)) => {
            return Err(refused("it is a database, and not the log of a store".to_owned()));
        }
        table => table?,
    };
    let sealed = table.get(STORE_KEY)?;
    let found = sealed.as_ref().map(|sealed| unseal(STORE_KEY, sealed.value())).transpose()?;
    let expected = &directory.manifest().store_id;
    if found != Some(expected.as_bytes()) {
        let found = found.map_or("none".into(), String::from_utf8_lossy);
        return Err(refused(format!("it is the log of store {found}, not of {expected}")));
    }
    Ok(())
}

/// How many rows a slot holds and the order-free sum of their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) rows: u64,
    pub(crate) sum: u64,
}

/// Where one projection's rows stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pointer {
    pub(crate) name: String,
    pub(crate) slots: [u8; 2],
    /// Which of the two slots serves.
    pub(crate) serving: usize,
    pub(crate) version: u32,
    pub(crate) fingerprint: u64,
    /// The position the serving rows are as of; 0 in a slot that never served.
    pub(crate) checkpoint: u64,
    /// The position the idle slot is rebuilt up to, while it is being rebuilt.
    pub(crate) rebuilt_to: Option<u64>,
    /// What the rows in the idle slot are being made with.
    pub(crate) rebuilt_with: u64,
    /// The event that had stopped the projection when a slice of a flush was written: its rows end before it.
    pub(crate) stopped: Option<u64>,
    pub(crate) tallies: [Tally; 2],
}

/// A flush that is under way: rows up to `last_key` are as of `to`, the others as of their checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FlushStanding {
    pub(crate) to: u64,
    pub(crate) last_key: Vec<u8>,
}

/// Where all rows stand; changed only in the commit that changes the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) index_checkpoint: u64,
    pub(crate) index_tally: Tally,
    pub(crate) pointers: Vec<Pointer>,
    pub(crate) flush: Option<FlushStanding>,
}

impl Standing {
    pub(crate) fn read(table: &impl ReadableTable<&'static [u8], &'static [u8]>) -> Result<Standing, StoreError> {
        let Some(sealed) = table.get(STANDING_KEY)? else { return Ok(Standing::default()) };
        let text = unseal(STANDING_KEY, sealed.value())?;
        serde_json::from_slice(text).map_err(|error| StoreError::damaged("the standing of the rows", error.to_string()))
    }

    pub(crate) fn to_sealed(&self) -> Result<Vec<u8>, StoreError> {
        let text = serde_json::to_vec(self).map_err(|error| StoreError::Database { message: error.to_string() })?;
        Ok(seal(STANDING_KEY, &text))
    }

    pub(crate) fn pointer(&mut self, name: &str) -> Option<&mut Pointer> {
        self.pointers.iter_mut().find(|pointer| pointer.name == name)
    }

    /// The tally of a slot.
    pub(crate) fn tally(&mut self, slot: u8) -> Option<&mut Tally> {
        if slot == INDEX_SLOT {
            return Some(&mut self.index_tally);
        }
        self.pointers.iter_mut().find_map(|pointer| {
            let which = pointer.slots.iter().position(|candidate| *candidate == slot)?;
            Some(&mut pointer.tallies[which])
        })
    }

    /// Adds pointers for folds that have none, with slots of their own.
    fn admit(&mut self, folds: &Folds) -> Result<(), StoreError> {
        for fold in folds {
            if self.pointer(fold.name()).is_some() {
                continue;
            }
            let used = self.pointers.iter().flat_map(|pointer| pointer.slots).max().unwrap_or(INDEX_SLOT);
            let first = used.checked_add(1).filter(|first| *first < u8::MAX).ok_or(StoreError::TooLarge {
                what: "the number of projections",
                found: self.pointers.len() + 1,
                limit: 127,
            })?;
            self.pointers.push(Pointer {
                name: fold.name().to_owned(),
                slots: [first, first + 1],
                serving: 0,
                version: fold.version(),
                fingerprint: fingerprint(&**fold),
                checkpoint: 0,
                rebuilt_to: None,
                rebuilt_with: 0,
                stopped: None,
                tallies: [Tally::default(); 2],
            });
        }
        Ok(())
    }
}

impl FlushStanding {
    /// Whether the rows of a fold's stream were written already.
    fn holds(&self, slot: u8, scope: Scope, stream_number: u64) -> bool {
        let mut prefix = vec![slot];
        if scope == Scope::Stream {
            prefix.extend_from_slice(&stream_number.to_be_bytes());
        }
        let length = prefix.len().min(self.last_key.len());
        match prefix[..length].cmp(&self.last_key[..length]) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => length == prefix.len(),
            std::cmp::Ordering::Greater => false,
        }
    }
}

/// The state of a store just read: published snapshot and what its rows stand on.
pub(crate) struct Loaded {
    pub(crate) snapshot: Snapshot,
    pub(crate) standing: Standing,
}

impl Loaded {
    /// Events whose rows are in memory only; at least one when there are such rows.
    pub(crate) fn overlay_events(&self) -> u64 {
        let tail = self.snapshot.head.0 - self.standing.index_checkpoint;
        tail.max(u64::from(!self.snapshot.overlay.active.is_empty()))
    }
}

/// Reads head, standing and rows from a read transaction and folds the tail that is not in the rows yet.
pub(crate) fn load(
    transaction: &ReadTransaction,
    folds: &Folds,
    tail_events_max: u64,
    epoch: u64,
    names: StreamNames,
) -> Result<Loaded, StoreError> {
    let blocks = StoredBlocks { table: transaction.open_table(BLOCKS)? };
    let rows = Arc::new(StoredRows { table: transaction.open_table(ROWS)? });
    let standing_table = transaction.open_table(STANDING)?;
    let mut standing = Standing::read(&standing_table)?;
    standing.admit(folds)?;
    let (head, chain) = head_of(&blocks)?;
    let checkpoints = standing.pointers.iter().map(|pointer| pointer.checkpoint.max(pointer.rebuilt_to.unwrap_or(0)));
    if let Some(ahead) = checkpoints.chain([standing.index_checkpoint]).max().filter(|ahead| *ahead > head.0) {
        let reason = format!("the rows are as of position {ahead}, the log ends at {head}");
        return Err(StoreError::damaged("the log database", reason));
    }
    let places = folds.iter().map(|fold| place(&**fold, &mut standing, head, tail_events_max)).collect();
    let mut snapshot = Snapshot {
        blocks: Arc::new(blocks),
        rows,
        standing: Arc::new(standing_table),
        overlay: Overlay::default(),
        head,
        chain,
        epoch,
        folds: Arc::new(places),
        names,
    };
    fold_tail(&mut snapshot, &standing, folds)?;
    Ok(Loaded { snapshot, standing })
}

/// The last position and the chain after it.
pub(crate) fn head_of(blocks: &StoredBlocks) -> Result<(Position, ChainHash), StoreError> {
    match blocks.last()? {
        Some((key, value)) => {
            let block = Block::read(key, value.value())?;
            Ok((block.last(), block.chain_after))
        }
        None => Ok((Position::START, CHAIN_START)),
    }
}

fn place(fold: &dyn Fold, standing: &mut Standing, head: Position, tail_events_max: u64) -> FoldPlace {
    let (mut slot, mut state) = (0, FoldState::Rebuilding { done: 0 });
    if let Some(pointer) = standing.pointer(fold.name()) {
        let same = pointer.version == fold.version() && pointer.fingerprint == fingerprint(fold);
        slot = pointer.slots[pointer.serving];
        if same && head.0 - pointer.checkpoint <= tail_events_max {
            state = FoldState::Live;
        } else {
            // What another version began in the idle slot is of no use to this one.
            let done = pointer.rebuilt_to.filter(|_| pointer.rebuilt_with == fingerprint(fold));
            state = FoldState::Rebuilding { done: done.unwrap_or(0) };
        }
    }
    FoldPlace { name: fold.name(), scope: fold.scope(), slot, state }
}

fn fold_tail(snapshot: &mut Snapshot, standing: &Standing, folds: &Folds) -> Result<(), StoreError> {
    // The checkpoint, and the last event that can be in rows which a flush under way has written.
    let mut checkpoints: HashMap<&str, (u64, u64)> = HashMap::new();
    let mut from = standing.index_checkpoint;
    for place in snapshot.folds.iter().filter(|place| place.state == FoldState::Live) {
        let found = standing.pointers.iter().find(|pointer| pointer.name == place.name);
        let checkpoint = found.map_or(0, |pointer| pointer.checkpoint);
        let stopped = found.and_then(|pointer| pointer.stopped);
        checkpoints.insert(place.name, (checkpoint, stopped.map_or(u64::MAX, |stopped| stopped.saturating_sub(1))));
        from = from.min(checkpoint);
    }
    let mut tail = RowMap::new();
    let mut places: Vec<FoldPlace> = snapshot.folds.to_vec();
    let source = snapshot.clone();
    source.visit(Position(from + 1), source.head, |event| {
        let envelope = event.envelope();
        index_record(
            &mut tail,
            &IndexedRecord {
                stream: event.stream(),
                stream_number: envelope.stream_number,
                stream_index: envelope.stream_index,
                position: envelope.position,
                kind: envelope.kind,
                event_id: envelope.event_id,
                append_events: event.frame.append_events,
                key: event.frame.key,
            },
        );
        let is_behind = |place: &FoldPlace| {
            let (checkpoint, reached) = checkpoints.get(place.name).copied().unwrap_or((u64::MAX, 0));
            let flushed = standing.flush.as_ref().is_some_and(|flush| {
                envelope.position.0 <= flush.to.min(reached)
                    && flush.holds(place.slot, place.scope, envelope.stream_number)
            });
            envelope.position.0 > checkpoint && !flushed
        };
        event.with_view(|view| apply_all(folds, &mut places, &mut tail, &[], &source.rows, view, is_behind))??;
        Ok(ControlFlow::Continue(()))
    })?;
    snapshot.overlay.active = Arc::new(tail);
    snapshot.folds = Arc::new(places);
    Ok(())
}

/// Runs every live fold on one event and merges what they write into `newest`; a fold that panics is stopped.
///
/// # Errors
/// A row that a fold read is damaged, or the disk refuses.
pub(crate) fn apply_all(
    folds: &Folds,
    places: &mut [FoldPlace],
    newest: &mut RowMap,
    older: &[&RowMap],
    stored: &StoredRows,
    event: &EventView<'_>,
    wanted: impl Fn(&FoldPlace) -> bool,
) -> Result<(), StoreError> {
    let mut written = Vec::with_capacity(folds.len());
    {
        let mut maps: Vec<&RowMap> = vec![newest];
        maps.extend(older);
        let layered = Layered::new(maps, Some(stored));
        for (fold, place) in folds.iter().zip(places.iter_mut()) {
            if place.state != FoldState::Live || !wanted(place) {
                continue;
            }
            match apply_fold(&**fold, &layered, &[place.slot], event)? {
                Ok(changes) => written.push(changes),
                Err(message) => {
                    place.state = FoldState::Stopped { position: event.envelope.position, message };
                }
            }
        }
    }
    newest.extend(written.into_iter().flatten());
    Ok(())
}

/// Folds one stream over nothing, up to a position, as an as-of view does; gives each event's changes to `visit`.
///
/// Never touches the store. Stream-scoped folds only. `places` are numbered by the fold's place in `folds`.
///
/// # Errors
/// An event is damaged, a fold panics on it, or `visit` fails.
pub fn fold_stream(
    snapshot: &Snapshot,
    folds: &[Arc<dyn Fold>],
    stream: &StreamId,
    to: Position,
    bytes_max: usize,
    mut visit: impl FnMut(&crate::snapshot::LogEvent<'_>, &RowMap, &RowMap) -> Result<ControlFlow<()>, StoreError>,
) -> Result<RowMap, StoreError> {
    let mut rows = RowMap::new();
    let mut bytes = 0usize;
    snapshot.visit_stream(stream, Position::START, |event| {
        if event.envelope().position > to {
            return Ok(ControlFlow::Break(()));
        }
        let mut changes = RowMap::new();
        for (number, fold) in folds.iter().enumerate() {
            if fold.scope() != Scope::Stream {
                continue;
            }
            let written = event.with_view(|view| apply_fold(&**fold, &rows, &[number as u8], view))??;
            changes.extend(written.map_err(|message| StoreError::ProjectionStopped {
                name: fold.name().to_owned(),
                position: event.envelope().position,
                message,
            })?);
        }
        bytes += changes.iter().map(|(key, row)| key.len() + row.as_ref().map_or(0, |row| row.len())).sum::<usize>();
        if bytes > bytes_max {
            return Err(StoreError::TooLarge { what: "an as-of view", found: bytes, limit: bytes_max });
        }
        let flow = visit(event, &rows, &changes)?;
        for (key, row) in changes {
            match row {
                Some(row) => rows.insert(key, Some(row)),
                None => rows.remove(&key),
            };
        }
        Ok(flow)
    })?;
    Ok(rows)
}
