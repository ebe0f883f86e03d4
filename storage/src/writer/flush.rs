//! Writing: the blocks of a batch in one durable commit, and the rows in memory in slices behind it.

use std::collections::VecDeque;
use std::sync::Arc;

use cognilog_core::Position;
use redb::ReadableDatabase;

use super::{Batch, Writer, begin, lock};
use crate::block::{BlockBuilder, StoredBlocks};
use crate::error::StoreError;
use crate::index::forget_keys;
use crate::projector::{BLOCKS, ROWS, STANDING, Standing};
use crate::record::Draft;
use crate::rows::{RowMap, StoredRows};
use crate::snapshot::{FoldPlace, FoldState, Snapshot};

/// A flush that is under way: the frozen rows that are still to be written.
pub(super) struct Flush {
    to: Position,
    rows: Arc<RowMap>,
    next: VecDeque<std::ops::Range<usize>>,
    keys: Vec<crate::rows::Bytes>,
}

impl Flush {
    /// The next slices as one, until they hold `rows` rows; one at least.
    fn next_slices(&mut self, rows: usize) -> Option<std::ops::Range<usize>> {
        let mut slices = self.next.pop_front()?;
        while slices.len() < rows {
            let Some(next) = self.next.pop_front() else { break };
            slices.end = next.end;
        }
        Some(slices)
    }
}

impl Writer {
    /// Writes the batch's blocks in one durable commit, with the next slice of a flush, and publishes the new state.
    pub(super) fn commit(&mut self, snapshot: Snapshot, batch: Batch) -> Result<(), StoreError> {
        let mut builder = BlockBuilder::new(self.limits.block_bytes_max, snapshot.chain);
        let mut salts = vec![0u8; batch.recent.len() * 16];
        getrandom::fill(&mut salts).map_err(|error| StoreError::Database { message: error.to_string() })?;
        let mut payload_bytes = 0;
        for (recent, salt) in batch.recent.iter().zip(salts.as_chunks::<16>().0) {
            payload_bytes += recent.event.payload.len();
            builder.push(&Draft {
                envelope: &recent.envelope,
                stream: &recent.stream,
                codec: recent.event.codec,
                schema: recent.event.kind.schema(),
                append_events: recent.append_events,
                key: &recent.key,
                payload: &recent.event.payload,
                salt: *salt,
            });
        }
        let (blocks, chain) = builder.finish();
        // Twice as many rows as the batch adds, at least: so a flush ends however fast events come.
        let slice = self.flush.as_mut().and_then(|flush| flush.next_slices(batch.rows.len() * 2));
        let mut standing = self.standing.clone();
        let database = self.database.as_ref().ok_or(StoreError::ReadOnly)?;
        let transaction = begin(database)?;
        {
            let mut table = transaction.open_table(BLOCKS)?;
            for (position, value) in &blocks {
                table.insert(position.0, value.as_slice())?;
            }
        }
        if let (Some(slice), Some(flush)) = (slice, &self.flush) {
            write_slice(&transaction, flush, slice, &mut standing, &batch.places)?;
        }
        transaction.commit()?;
        self.standing = standing;
        self.overlay_events += batch.recent.len() as u64;
        self.overlay_bytes += payload_bytes / 4 + batch.rows.len() * 100;
        let flushed = self.flush.as_ref().is_some_and(|flush| flush.next.is_empty());
        if flushed {
            self.flush = None;
        }
        // Whoever reads events alone finds the names of new streams here and not in the rows in memory.
        for recent in batch.recent.iter().filter(|recent| recent.envelope.stream_index == 0) {
            lock(&self.names).insert(recent.envelope.stream_number, Arc::new(recent.stream.clone()));
        }
        // The published state is changed in place: the rows in memory are copied only if a reader still looks at them.
        drop(snapshot);
        self.publish(|published| {
            Arc::make_mut(&mut published.overlay.active).extend(batch.rows);
            if flushed {
                published.overlay.frozen = None;
            }
            published.head = batch.head;
            published.chain = chain;
            published.folds = Arc::new(batch.places);
        })?;
        *lock(&self.shared.last_commit) = Some((self.clock)());
        if self.flush.is_none()
            && (self.overlay_events >= self.limits.overlay_events_max
                || self.overlay_bytes >= self.limits.overlay_bytes_max)
        {
            self.begin_flush(self.limits.flush_slice_rows)?;
        }
        self.write_head(false);
        Ok(())
    }

    /// Makes a state visible: its tables are opened anew, so that they hold the blocks and rows just committed.
    pub(super) fn publish(&self, change: impl FnOnce(&mut Snapshot)) -> Result<(), StoreError> {
        let database = self.database.as_ref().ok_or(StoreError::ReadOnly)?;
        let transaction = database.begin_read()?;
        let blocks = Arc::new(StoredBlocks { table: transaction.open_table(BLOCKS)? });
        let rows = Arc::new(StoredRows { table: transaction.open_table(ROWS)? });
        let standing = Arc::new(transaction.open_table(STANDING)?);
        let head = {
            let mut published = lock(&self.shared.published);
            change(&mut published);
            (published.blocks, published.rows, published.standing) = (blocks, rows, standing);
            published.head
        };
        *lock(&self.shared.head) = head;
        self.shared.head_changed.notify_all();
        Ok(())
    }

    /// Freezes the rows in memory and cuts them into slices; each later commit writes one.
    pub(super) fn begin_flush(&mut self, slice_rows: usize) -> Result<(), StoreError> {
        let mut snapshot = lock(&self.shared.published).clone();
        let horizon = Position(snapshot.head.0.saturating_sub(self.limits.key_horizon));
        let mut forgotten = RowMap::new();
        if horizon > Position::START {
            forget_keys(
                &snapshot.view().layered,
                &mut forgotten,
                horizon,
                self.limits.overlay_events_max as usize * 2,
            )?;
        }
        let mut active = std::mem::take(&mut snapshot.overlay.active);
        if !forgotten.is_empty() {
            Arc::make_mut(&mut active).extend(forgotten);
        }
        snapshot.overlay.frozen = Some(Arc::clone(&active));
        let keys: Vec<crate::rows::Bytes> = active.keys().cloned().collect();
        let next = slices(&keys, slice_rows, &snapshot.folds);
        self.flush = Some(Flush { to: snapshot.head, rows: active, next, keys });
        self.overlay_events = 0;
        self.overlay_bytes = 0;
        self.publish(|published| *published = snapshot)
    }

    /// Writes what is left of the flush that is under way.
    pub(super) fn write_flush(&mut self) -> Result<(), StoreError> {
        while let Some(slice) = self.flush.as_mut().and_then(|flush| flush.next.pop_front()) {
            let Some(flush) = &self.flush else { break };
            let mut snapshot = lock(&self.shared.published).clone();
            let mut standing = self.standing.clone();
            let database = self.database.as_ref().ok_or(StoreError::ReadOnly)?;
            let transaction = begin(database)?;
            write_slice(&transaction, flush, slice, &mut standing, &snapshot.folds)?;
            transaction.commit()?;
            self.standing = standing;
            if flush.next.is_empty() {
                self.flush = None;
                snapshot.overlay.frozen = None;
                self.publish(|published| *published = snapshot)?;
            }
        }
        Ok(())
    }

    /// Writes every row now.
    pub(super) fn flush_all(&mut self) -> Result<(), StoreError> {
        self.write_flush()?;
        if !lock(&self.shared.published).overlay.active.is_empty() {
            self.begin_flush(self.limits.flush_slice_rows)?;
            self.write_flush()?;
        }
        Ok(())
    }
}

/// Cuts sorted keys into slices that end between streams of a stream-scoped fold, and never inside another fold.
fn slices(keys: &[crate::rows::Bytes], rows_max: usize, places: &[FoldPlace]) -> VecDeque<std::ops::Range<usize>> {
    use crate::fold::Scope;
    use crate::index::INDEX_SLOT;
    let group = |key: &[u8]| -> usize {
        match places.iter().find(|place| place.slot == key[0]) {
            Some(place) if place.scope == Scope::Stream => 9,
            Some(_) => 1,
            // Index rows are absolute: they may be cut anywhere.
            None if key[0] == INDEX_SLOT => usize::MAX,
            None => 1,
        }
    };
    let mut slices = VecDeque::new();
    let mut start = 0;
    for end in 1..=keys.len() {
        let full = end - start >= rows_max;
        let boundary = end == keys.len() || {
            let (last, next) = (&keys[end - 1], &keys[end]);
            let length = group(last);
            length == usize::MAX || last.get(..length) != next.get(..length)
        };
        if end == keys.len() || (full && boundary) {
            slices.push_back(start..end);
            start = end;
        }
    }
    if slices.is_empty() {
        // Without rows the checkpoints still move, in a commit of their own.
        slices.push_back(0..0);
    }
    slices
}

fn write_slice(
    transaction: &redb::WriteTransaction,
    flush: &Flush,
    slice: std::ops::Range<usize>,
    standing: &mut Standing,
    places: &[FoldPlace],
) -> Result<(), StoreError> {
    let last_key = slice.end.checked_sub(1).map(|last| flush.keys[last].to_vec());
    write_rows(transaction, flush.keys[slice].iter().map(|key| (key, flush.rows[key].as_ref())), standing)?;
    for place in places {
        if let Some(pointer) = standing.pointer(place.name) {
            pointer.stopped = match place.state {
                FoldState::Stopped { position, .. } => Some(position.0),
                _ => None,
            };
        }
    }
    match last_key.filter(|_| !flush.next.is_empty()) {
        Some(last_key) => standing.flush = Some(crate::projector::FlushStanding { to: flush.to.0, last_key }),
        None => move_checkpoints(standing, flush.to, places),
    }
    write_standing(transaction, standing)
}

/// Writes rows and keeps their slots' tallies.
pub(crate) fn write_rows<'r>(
    transaction: &redb::WriteTransaction,
    rows: impl Iterator<Item = (&'r crate::rows::Bytes, Option<&'r crate::rows::Bytes>)>,
    standing: &mut Standing,
) -> Result<(), StoreError> {
    use crate::rows::{row_hash, seal};
    let mut table = transaction.open_table(ROWS)?;
    let hash_of = |sealed: &[u8]| sealed.first_chunk::<8>().map_or(0, |checksum| u64::from_le_bytes(*checksum));
    for (key, row) in rows {
        let old = match row {
            Some(row) => table.insert(&key[..], seal(key, row).as_slice())?,
            None => table.remove(&key[..])?,
        };
        let old = old.map(|guard| hash_of(guard.value()));
        if let Some(tally) = standing.tally(key[0]) {
            if let Some(old) = old {
                tally.rows = tally.rows.wrapping_sub(1);
                tally.sum = tally.sum.wrapping_sub(old);
            }
            if let Some(row) = row {
                tally.rows += 1;
                tally.sum = tally.sum.wrapping_add(row_hash(key, row));
            }
        }
    }
    Ok(())
}

pub(crate) fn write_standing(transaction: &redb::WriteTransaction, standing: &Standing) -> Result<(), StoreError> {
    let mut table = transaction.open_table(STANDING)?;
    table.insert(crate::projector::STANDING_KEY, standing.to_sealed()?.as_slice())?;
    Ok(())
}

fn move_checkpoints(standing: &mut Standing, to: Position, places: &[FoldPlace]) {
    standing.flush = None;
    standing.index_checkpoint = to.0;
    for place in places {
        if let Some(pointer) = standing.pointer(place.name) {
            pointer.checkpoint = match &place.state {
                // A projection that was rebuilt while the flush was under way is ahead of it.
                FoldState::Live => pointer.checkpoint.max(to.0),
                FoldState::Stopped { position, .. } => pointer.checkpoint.max((position.0 - 1).min(to.0)),
                FoldState::Rebuilding { .. } => pointer.checkpoint,
            };
        }
    }
}
