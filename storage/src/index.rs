//! The log's own rows: streams by name and number, positions of a stream, event ids and idempotency keys.
//!
//! They are made from records alone and every row has an absolute value, so making them again is harmless.
//!
//! ```text
//! 0 'n' stream code, name (or 'N', code, blake3 of a name over 200 bytes) → stream number
//! 0 'm' stream number                                                    → stream code, name
//! 0 's' stream number                                                    → events in the stream, last position
//! 0 'p' stream number, position                                          → kind
//! 0 'e' event id                                                         → position
//! 0 'k' key                                                              → first position, events of the append
//! 0 'q' position                                                         → key, to forget it behind the horizon
//! ```
//! Numbers in keys are big-endian, in rows little-endian.

use cognilog_core::event::EventKind;
use cognilog_core::{EventId, Position, StreamId};

use crate::error::StoreError;
use crate::rows::{Bytes, RowMap, RowSource, scan_after};

/// The slot byte of index rows.
pub(crate) const INDEX_SLOT: u8 = 0;
const NAME_BYTES_IN_KEY_MAX: usize = 200;

fn key(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = vec![INDEX_SLOT, tag];
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

fn name_key(code: u8, name: &str) -> Vec<u8> {
    if name.len() <= NAME_BYTES_IN_KEY_MAX {
        key(b'n', &[&[code], name.as_bytes()])
    } else {
        key(b'N', &[&[code], blake3::hash(name.as_bytes()).as_bytes()])
    }
}

fn numbers<const N: usize>(row: &[u8], what: &str) -> Result<[u64; N], StoreError> {
    let mut numbers = [0; N];
    let mut chunks = row.chunks_exact(8);
    for number in &mut numbers {
        let chunk = chunks.next().ok_or_else(|| StoreError::damaged(what, "the index row is too short"))?;
        *number = chunk.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
    }
    Ok(numbers)
}

fn row(numbers: &[u64]) -> Bytes {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamStanding {
    /// The stream's number in this store.
    pub number: u64,
    /// Events in the stream.
    pub events: u64,
    /// Position of its last event.
    pub last: Position,
}

/// What one record adds to the index.
pub(crate) struct IndexedRecord<'a> {
    pub(crate) stream: &'a StreamId,
    pub(crate) stream_number: u64,
    pub(crate) stream_index: u64,
    pub(crate) position: Position,
    pub(crate) kind: EventKind,
    pub(crate) event_id: EventId,
    pub(crate) append_events: u32,
    pub(crate) key: &'a [u8],
}

/// Writes the rows of one record.
pub(crate) fn index_record(changes: &mut RowMap, record: &IndexedRecord<'_>) {
    let mut put = |key: Vec<u8>, row: Bytes| {
        changes.insert(Bytes::from(key), Some(row));
    };
    let number = record.stream_number.to_be_bytes();
    let position = record.position.0.to_be_bytes();
    if record.stream_index == 0 {
        let (code, name) = record.stream.parts();
        put(name_key(code, name), row(&[record.stream_number]));
        let named: Bytes = std::iter::once(code).chain(name.bytes()).collect();
        put(key(b'm', &[&number]), named);
    }
    put(key(b's', &[&number]), row(&[record.stream_index + 1, record.position.0]));
    put(key(b'p', &[&number, &position]), Bytes::from(&record.kind.code().to_le_bytes()[..]));
    put(key(b'e', &[&record.event_id.0]), row(&[record.position.0]));
    if !record.key.is_empty() {
        put(key(b'k', &[record.key]), row(&[record.position.0, u64::from(record.append_events)]));
        put(key(b'q', &[&position]), Bytes::from(record.key));
    }
}

/// Forgets keys whose append lies at or before `horizon`, at most `limit` of them.
pub(crate) fn forget_keys(
    source: &dyn RowSource,
    changes: &mut RowMap,
    horizon: Position,
    limit: usize,
) -> Result<(), StoreError> {
    for (full, key_bytes) in scan_after(source, &[INDEX_SLOT, b'q'], None, limit, 0)? {
        let position = full[2..].iter().fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte));
        if position > horizon.0 {
            break;
        }
        // A key that was used again behind the horizon stands for its newer append.
        if find_key(source, &key_bytes)?.is_some_and(|(first, _)| first.0 == position) {
            changes.insert(Bytes::from(key(b'k', &[&key_bytes])), None);
        }
        changes.insert(full, None);
    }
    Ok(())
}

/// Finds a stream by its name.
pub(crate) fn find_stream(source: &dyn RowSource, stream: &StreamId) -> Result<Option<StreamStanding>, StoreError> {
    let (code, name) = stream.parts();
    let Some(found) = source.get(&name_key(code, name))? else { return Ok(None) };
    let [number] = numbers(&found, "a stream's name row")?;
    stream_standing(source, number)
}

/// Finds where a stream stands by its number.
pub(crate) fn stream_standing(source: &dyn RowSource, number: u64) -> Result<Option<StreamStanding>, StoreError> {
    let Some(standing) = source.get(&key(b's', &[&number.to_be_bytes()]))? else { return Ok(None) };
    let [events, last] = numbers(&standing, "a stream's standing row")?;
    Ok(Some(StreamStanding { number, events, last: Position(last) }))
}

/// The name of a stream's number.
pub(crate) fn stream_name(source: &dyn RowSource, number: u64) -> Result<Option<StreamId>, StoreError> {
    let Some(row) = source.get(&key(b'm', &[&number.to_be_bytes()]))? else { return Ok(None) };
    let damaged = || StoreError::damaged("a stream's name row", "it is not a name");
    let (code, name) = row.split_first().ok_or_else(damaged)?;
    let name = std::str::from_utf8(name).map_err(|_| damaged())?;
    Ok(Some(StreamId::from_parts(*code, name)?))
}

/// How many streams there are: numbers are given from 0 without gaps.
pub(crate) fn stream_count(source: &dyn RowSource) -> Result<u64, StoreError> {
    // The greatest number is found by halving, for rows can be read forward only.
    let exists = |number: u64| Ok::<bool, StoreError>(source.get(&key(b's', &[&number.to_be_bytes()]))?.is_some());
    let (mut low, mut high) = (0u64, 1u64);
    while exists(high - 1)? {
        low = high;
        high *= 2;
    }
    while low + 1 < high {
        let middle = low.midpoint(high);
        if exists(middle - 1)? { low = middle } else { high = middle }
    }
    Ok(low)
}

/// Positions of a stream behind `after`, at most `limit`, with their kinds.
pub(crate) fn stream_positions(
    source: &dyn RowSource,
    number: u64,
    after: Position,
    limit: usize,
) -> Result<Vec<(Position, EventKind)>, StoreError> {
    let prefix = key(b'p', &[&number.to_be_bytes()]);
    let from = key(b'p', &[&number.to_be_bytes(), &after.0.to_be_bytes()]);
    let rows = scan_after(source, &prefix, Some(&from), limit, prefix.len())?;
    Ok(rows
        .into_iter()
        .map(|(position, kind)| {
            let position = position.iter().fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte));
            let kind = kind.iter().rev().fold(0u16, |sum, byte| (sum << 8) | u16::from(*byte));
            (Position(position), EventKind::from_code(kind))
        })
        .collect())
}

/// Where an event id was recorded.
pub(crate) fn find_event(source: &dyn RowSource, id: EventId) -> Result<Option<Position>, StoreError> {
    match source.get(&key(b'e', &[&id.0]))? {
        Some(row) => Ok(Some(Position(numbers::<1>(&row, "an event id row")?[0]))),
        None => Ok(None),
    }
}

/// Where an idempotency key was used: first position and number of events.
pub(crate) fn find_key(source: &dyn RowSource, used: &[u8]) -> Result<Option<(Position, u64)>, StoreError> {
    match source.get(&key(b'k', &[used]))? {
        Some(row) => {
            let [first, events] = numbers(&row, "an idempotency key row")?;
            Ok(Some((Position(first), events)))
        }
        None => Ok(None),
    }
}
