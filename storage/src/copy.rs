//! Copying a log into a fresh database: every block checked on the way, its index made anew beside it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant as Moment;

use cognilog_core::{Position, StreamId};
use redb::Database;

use crate::block::{Block, StoredBlocks, block_value};
use crate::error::{StoreError, contained};
use crate::index::{IndexedRecord, index_record};
use crate::limits::{COPY_COMMIT_BYTES, Limits};
use crate::projector::{BLOCKS, Standing, head_of};
use crate::record::{CHAIN_START, ChainHash, Frame};
use crate::rows::RowMap;
use crate::store::database_builder;
use crate::writer::{begin, make_tables, write_rows, write_standing};

/// What to do about a source that is damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// Refuse it, and copy nothing.
    #[default]
    Refuse,
    /// Copy what stands before the damage: the copy is whole, and ends there.
    StopBefore,
}

/// What was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Events in the copy.
    pub events: u64,
    /// Where it ends.
    pub head: crate::directory::Head,
    /// The damage that ended it, where that was asked for.
    pub damage: Option<String>,
}

/// Gives the source's blocks as they are now, in a read transaction of their own.
pub(crate) type Source<'s> = dyn FnMut() -> Result<Arc<StoredBlocks>, StoreError> + 's;

/// Where a copy ended, and why, if not at the source's head.
pub(crate) struct Ended {
    pub(crate) position: Position,
    pub(crate) chain: ChainHash,
    pub(crate) damage: Option<String>,
}

/// Copies the log that `source` shows up to the head that it has at the beginning into a new database at `log`.
///
/// The read transaction is renewed by position after so many events or so long as the limits say, so that a writer
/// beside it can use the space again that it frees (DESIGN section 4).
///
/// # Errors
/// The source is damaged and `on_damage` refuses that, or the disk refuses.
pub(crate) fn copy_log(
    source: &mut Source<'_>,
    log: &Path,
    store_id: &str,
    limits: &Limits,
    on_damage: OnDamage,
) -> Result<Ended, StoreError> {
    let database = contained(|| Ok(database_builder(limits).create(log)?))?;
    make_tables(&database, store_id)?;
    let to = match (contained(|| head_of(&*source()?)), on_damage) {
        (Ok((head, _)), _) => head,
        // The last block is damaged: what stands before it is met on the way.
        (Err(StoreError::Damaged { .. }), OnDamage::StopBefore) => Position(u64::MAX),
        (Err(error), _) => return Err(error),
    };
    let horizon = if to.0 == u64::MAX { Position::START } else { Position(to.0.saturating_sub(limits.key_horizon)) };
    let mut copy = LogCopy::new(&database, horizon);
    let copied = copy_blocks(source, &mut copy, to, limits);
    let damage = match copied {
        Ok(()) => None,
        Err(error @ StoreError::Damaged { .. }) if on_damage == OnDamage::StopBefore => Some(error.to_string()),
        Err(error) => return Err(error),
    };
    let (position, chain) = copy.finish()?;
    contained(|| Ok(database.close()?))?;
    let sync = std::fs::File::open(log).and_then(|file| file.sync_all());
    sync.map_err(|error| StoreError::io("sync", log, &error))?;
    Ok(Ended { position, chain, damage })
}

fn copy_blocks(
    source: &mut Source<'_>,
    copy: &mut LogCopy<'_>,
    to: Position,
    limits: &Limits,
) -> Result<(), StoreError> {
    while copy.next <= to {
        let (began, first) = (Moment::now(), copy.next);
        let blocks = source()?;
        let mut any = false;
        for entry in blocks.range(copy.next.0, to.0)? {
            let (key, value) = entry?;
            any = true;
            contained(|| copy.push(key, value.value()))?;
            if copy.next.0 - first.0 >= limits.read_events_max || began.elapsed() >= limits.read_time_max {
                break;
            }
        }
        if !any {
            if to.0 == u64::MAX {
                return Ok(());
            }
            let place = format!("position {}", copy.next);
            return Err(StoreError::damaged(place, "the block that holds it is missing"));
        }
    }
    Ok(())
}

/// A log that is being written into a fresh database, block by block.
pub(crate) struct LogCopy<'d> {
    database: &'d Database,
    next: Position,
    chain: ChainHash,
    /// Name, events and last position of each stream so far.
    streams: HashMap<u64, (Arc<StreamId>, u64, Position)>,
    /// Idempotency keys at or before this position are not remembered any more.
    horizon: Position,
    standing: Standing,
    blocks: Vec<(u64, Vec<u8>)>,
    block_bytes: usize,
    rows: RowMap,
}

impl<'d> LogCopy<'d> {
    pub(crate) fn new(database: &'d Database, horizon: Position) -> LogCopy<'d> {
        LogCopy {
            database,
            next: Position(1),
            chain: CHAIN_START,
            streams: HashMap::new(),
            horizon,
            standing: Standing::default(),
            blocks: Vec::new(),
            block_bytes: 0,
            rows: RowMap::new(),
        }
    }

    /// Takes the next block, if everything about it is as it should be. Of a block that is damaged the events before the
    /// damage are taken.
    ///
    /// # Errors
    /// A block is missing before it, or it is damaged.
    pub(crate) fn push(&mut self, key: u64, value: &[u8]) -> Result<(), StoreError> {
        let block = Block::read(key, value)?;
        if block.first != self.next {
            let place = format!("position {}", self.next);
            return Err(StoreError::damaged(place, "the block that holds it is missing"));
        }
        if block.chain_before != self.chain {
            let place = format!("position {}", block.first);
            return Err(StoreError::damaged(place, "the chain is broken before it"));
        }
        let (before, mut count, mut bytes) = (self.chain, 0, Vec::with_capacity(value.len()));
        let mut taken = Ok(());
        for frame in block.frames_from(block.first) {
            taken = frame.and_then(|frame| {
                self.take(&frame)?;
                bytes.extend_from_slice(frame.bytes());
                Ok(())
            });
            if taken.is_err() {
                break;
            }
            count += 1;
        }
        if taken.is_ok() && (self.chain != block.chain_after || self.next != block.last().next()) {
            taken =
                Err(StoreError::damaged(format!("position {}", block.first), "its block does not end as it should"));
        }
        if count > 0 {
            self.add(block_value(block.first, count, &before, &self.chain, &bytes))?;
        }
        taken
    }

    /// Checks a record against everything before it, and indexes it.
    fn take(&mut self, frame: &Frame<'_>) -> Result<(), StoreError> {
        let envelope = &frame.envelope;
        let damaged = |reason: &str| StoreError::damaged(format!("position {}", envelope.position), reason);
        if !frame.digest_matches() {
            return Err(damaged("its payload is not the one recorded"));
        }
        let number = envelope.stream_number;
        let (stream, events, last) = match self.streams.get(&number) {
            Some((stream, events, last)) => (Arc::clone(stream), *events, *last),
            None if envelope.stream_index == 0 => {
                (Arc::new(StreamId::from_parts(frame.stream_code, frame.name)?), 0, Position::START)
            }
            None => return Err(damaged("its stream has no first event")),
        };
        if envelope.stream_index != events || envelope.previous_in_stream != last {
            return Err(damaged("it is not the next event of its stream"));
        }
        let is_remembered = envelope.position > self.horizon;
        index_record(
            &mut self.rows,
            &IndexedRecord {
                stream: &stream,
                stream_number: number,
                stream_index: envelope.stream_index,
                position: envelope.position,
                kind: envelope.kind,
                event_id: envelope.event_id,
                append_events: frame.append_events,
                key: if is_remembered { frame.key } else { &[] },
            },
        );
        self.streams.insert(number, (stream, events + 1, envelope.position));
        self.chain = frame.link(&self.chain);
        self.next = envelope.position.next();
        Ok(())
    }

    fn add(&mut self, (first, value): (Position, Vec<u8>)) -> Result<(), StoreError> {
        self.block_bytes += value.len();
        self.blocks.push((first.0, value));
        if self.block_bytes >= COPY_COMMIT_BYTES { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let transaction = begin(self.database)?;
        {
            let mut table = transaction.open_table(BLOCKS)?;
            for (key, value) in self.blocks.drain(..) {
                table.insert(key, value.as_slice())?;
            }
        }
        write_rows(&transaction, self.rows.iter().map(|(key, row)| (key, row.as_ref())), &mut self.standing)?;
        self.standing.index_checkpoint = self.next.0 - 1;
        write_standing(&transaction, &self.standing)?;
        transaction.commit()?;
        self.rows.clear();
        self.block_bytes = 0;
        Ok(())
    }

    /// Writes what is left; gives the last position and the chain after it.
    pub(crate) fn finish(mut self) -> Result<(Position, ChainHash), StoreError> {
        contained(|| self.commit())?;
        Ok((Position(self.next.0 - 1), self.chain))
    }
}

#[cfg(test)]
mod tests {
    use cognilog_core::EventId;
    use cognilog_core::event::{Event, Query};

    use super::*;
    use crate::fold::{Command, Decision, NewEvent};
    use crate::snapshot::View;
    use crate::store::{Store, StoreOptions};

    struct Put(Option<Decision>);

    impl Command for Put {
        type Output = ();

        fn decide(&mut self, _view: &View<'_>) -> Result<(Decision, ()), StoreError> {
            Ok((self.0.take().unwrap_or_default(), ()))
        }
    }

    const EVENT_BYTES: usize = 2_000;

    /// Appends events of about two kilobytes in one commit.
    fn write(store: &Store, numbers: std::ops::Range<u64>) {
        let event = |number: u64| {
            let query = format!("{number:0EVENT_BYTES$}");
            let mut id = [1; 16];
            id[8..].copy_from_slice(&number.to_be_bytes());
            let event = Event::from(Query { sequence: Some(1), query, ..Query::default() });
            NewEvent::typed(&event, EventId(id), None).expect("an event")
        };
        let stream = "trace:t".parse().expect("a stream");
        let decision = Decision { appends: vec![(stream, numbers.map(event).collect())], ..Decision::default() };
        store.submit(Put(Some(decision)), 1).expect("recorded");
    }

    /// By how much the log file grows for each byte of events that is written during a copy.
    fn growth_during_a_copy(is_renewed: bool) -> f64 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let mut options = StoreOptions::new(Vec::new());
        options.limits.read_events_max = 40;
        Store::create(&path, &options.limits).expect("made");
        let store = Store::open(&path, options.clone()).expect("open");
        let mut written = 0;
        for _ in 0..20 {
            write(&store, written..written + 100);
            written += 100;
        }
        store.flush().expect("flushed");
        let bytes = || std::fs::metadata(path.join("log.redb")).expect("there").len();
        let before = bytes();
        let held = if is_renewed { None } else { Some(Arc::clone(&store.log().expect("a state").blocks)) };
        let mut appended = 0;
        let mut source = || {
            for _ in 0..10 {
                write(&store, written..written + 1);
                written += 1;
                appended += 1;
            }
            Ok(match &held {
                Some(held) => Arc::clone(held),
                None => Arc::clone(&store.log()?.blocks),
            })
        };
        let log = folder.path().join("copy.redb");
        let copied = copy_log(&mut source, &log, "id", &options.limits, OnDamage::Refuse).expect("copied");
        assert!(copied.position >= Position(2_000) && appended > 300, "{appended}");
        (bytes() - before) as f64 / (appended * EVENT_BYTES) as f64
    }

    #[test]
    fn a_renewed_read_lets_the_writer_use_its_space_again() {
        let renewed = growth_during_a_copy(true);
        assert!(renewed <= 1.2, "the file grew by {renewed} times what was written");
        let held = growth_during_a_copy(false);
        assert!(held > 1.2, "a read that is held shows no growth ({held}): this test would see nothing");
    }
}
