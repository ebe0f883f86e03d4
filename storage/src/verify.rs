//! Checks of everything stored: positions, chain, checksums, digests, index, rows.

use std::ops::ControlFlow;

use cognilog_core::Position;
use redb::ReadableTable;

use crate::block::{Block, StoredBlocks};
use crate::directory::{Head, StoreDirectory};
use crate::error::{StoreError, contained};
use crate::projector::{BLOCKS, Standing, check_store, head_of};
use crate::record::{CHAIN_START, ChainHash};
use crate::rows::{row_hash, unseal};
use crate::snapshot::Snapshot;

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Events that were read and whose chain and digest hold.
    pub events: u64,
    /// Blocks that were read.
    pub blocks: u64,
    /// Rows that were read and whose checksums hold.
    pub rows: u64,
    /// Every finding, with its place.
    pub findings: Vec<String>,
    /// How many of the findings are about the log itself: events that were recorded and are not as they were.
    pub in_log: usize,
    /// How many are about the index, which is made of the log.
    pub in_index: usize,
    /// How many are about rows of projections, which are made of the log too.
    pub in_rows: usize,
}

impl Verification {
    /// Adds a finding about the log itself.
    pub(crate) fn log(&mut self, finding: String) {
        self.in_log += 1;
        self.findings.push(finding);
    }

    /// Adds a finding about the index.
    pub(crate) fn index(&mut self, finding: String) {
        self.in_index += 1;
        self.findings.push(finding);
    }

    /// Adds a finding about a slot's rows; all slots' where it is not known.
    pub(crate) fn rows_of(&mut self, slot: Option<u8>, finding: String) {
        match slot {
            Some(crate::index::INDEX_SLOT) => self.index(finding),
            _ => {
                self.in_rows += 1;
                self.findings.push(finding);
            }
        }
    }
}

/// The chain after a position.
///
/// # Errors
/// The position is behind the head, or its block is damaged.
pub fn chain_at(snapshot: &Snapshot, position: Position) -> Result<ChainHash, StoreError> {
    chain_after(&snapshot.blocks, snapshot.head, position)
}

fn chain_after(blocks: &StoredBlocks, log_head: Position, position: Position) -> Result<ChainHash, StoreError> {
    if position == Position::START {
        return Ok(CHAIN_START);
    }
    let missing = || StoreError::damaged(format!("position {position}"), "the log does not hold it");
    if position > log_head {
        return Err(missing());
    }
    let (key, value) = blocks.at_or_before(position.0)?.ok_or_else(missing)?;
    let block = Block::read(key, value.value())?;
    let mut chain = block.chain_before;
    for frame in block.frames_from(block.first) {
        let frame = frame?;
        chain = frame.link(&chain);
        if frame.envelope.position == position {
            return Ok(chain);
        }
    }
    Err(missing())
}

/// Checks that the log contains a head that was kept elsewhere.
///
/// # Errors
/// The log is shorter, or went another way.
pub(crate) fn check_head(
    blocks: &StoredBlocks,
    log_head: Position,
    epoch: u64,
    head: Option<&Head>,
) -> Result<(), StoreError> {
    let Some(head) = head else { return Ok(()) };
    let mismatch = |reason: String| Err(StoreError::HeadMismatch { reason });
    if head.epoch != epoch {
        return mismatch(format!("the head is of epoch {}, the store of epoch {epoch}", head.epoch));
    }
    if head.position > log_head {
        return mismatch(format!("the log ends at position {log_head}, it had come to {}", head.position));
    }
    if chain_after(blocks, log_head, head.position)? != head.chain {
        return mismatch(format!("the events up to position {} are not those that were recorded", head.position));
    }
    Ok(())
}

/// Checks that a database is the log of the store in a directory, and contains its head.
///
/// # Errors
/// It is another's, or shorter than it was, or damaged.
pub(crate) fn check_belongs(transaction: &redb::ReadTransaction, directory: &StoreDirectory) -> Result<(), StoreError> {
    check_store(transaction, directory)?;
    let blocks = StoredBlocks { table: transaction.open_table(BLOCKS)? };
    let (head, _) = head_of(&blocks)?;
    check_head(&blocks, head, directory.manifest().epoch, directory.head()?.as_ref())
}

impl Snapshot {
    /// Checks that the log contains a head that was kept elsewhere.
    ///
    /// # Errors
    /// The head is of another epoch, or the log is shorter, or went another way.
    pub fn check_head(&self, head: &Head) -> Result<(), StoreError> {
        if head.epoch != self.epoch {
            return Err(StoreError::OtherEpoch { found: head.epoch, expected: self.epoch });
        }
        check_head(&self.blocks, self.head, self.epoch, Some(head))
    }

    /// Reads and checks everything: each block and event with its place in the chain, its checksum and its digest, the
    /// index against the log, each row's checksum and each slot's tally.
    ///
    /// # Errors
    /// The disk refuses; damage is not an error here but a finding.
    pub fn verify(&self) -> Result<Verification, StoreError> {
        let mut found = Verification::default();
        type Check = fn(&Snapshot, &mut Verification) -> Result<(), StoreError>;
        type Note = fn(&mut Verification, String);
        let checks: [(Check, Note); 3] = [
            (Snapshot::verify_log, Verification::log),
            (Snapshot::verify_index, Verification::index),
            (Snapshot::verify_rows, |found, finding| found.rows_of(None, finding)),
        ];
        for (check, note) in checks {
            match contained(|| check(self, &mut found)) {
                Err(error @ StoreError::Damaged { .. }) => note(&mut found, error.to_string()),
                checked => checked?,
            }
        }
        Ok(found)
    }

    fn verify_log(&self, found: &mut Verification) -> Result<(), StoreError> {
        let (last, chain) = verify_blocks(&self.blocks, self.head, found)?;
        if (last, chain) != (self.head, self.chain) {
            found.log(format!("the log ends at position {last}, its head is {}", self.head));
        }
        Ok(())
    }

    pub(crate) fn verify_index(&self, found: &mut Verification) -> Result<(), StoreError> {
        if !found.findings.is_empty() {
            // A log that is damaged cannot be held against its index.
            return Ok(());
        }
        let view = self.view();
        let mut standings = std::collections::HashMap::new();
        self.visit(Position(1), self.head, |event| {
            let envelope = event.envelope();
            if view.find_event(envelope.event_id)? != Some(envelope.position) {
                found.index(format!("the index does not find the event at position {}", envelope.position));
            }
            let (events, last) = standings.entry(envelope.stream_number).or_insert((0, Position::START));
            if envelope.stream_index != *events || envelope.previous_in_stream != *last {
                found.index(format!("{} is not in order at position {}", event.stream(), envelope.position));
            }
            (*events, *last) = (*events + 1, envelope.position);
            Ok(if found.findings.len() > FINDINGS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        for (number, (events, last)) in standings {
            let standing = crate::index::stream_standing(&view.layered, number)?;
            if standing.is_none_or(|standing| standing.events != events || standing.last != last) {
                found.index(format!("the index of stream number {number} is not that of the log"));
            }
        }
        Ok(())
    }

    fn verify_rows(&self, found: &mut Verification) -> Result<(), StoreError> {
        verify_rows(&self.rows.table, &Standing::read(&*self.standing)?, found)
    }
}

/// Checks each row's checksum and each slot's tally.
pub(crate) fn verify_rows(
    table: &redb::ReadOnlyTable<&'static [u8], &'static [u8]>,
    standing: &Standing,
    found: &mut Verification,
) -> Result<(), StoreError> {
    let mut tallies = std::collections::HashMap::new();
    for entry in table.iter()? {
        let (key, sealed) = entry?;
        found.rows += 1;
        match unseal(key.value(), sealed.value()) {
            Ok(row) => {
                let (rows, sum) = tallies.entry(key.value()[0]).or_insert((0u64, 0u64));
                *rows += 1;
                *sum = sum.wrapping_add(row_hash(key.value(), row));
                // A damaged key of an inner page hides rows from lookups that going through all of them finds.
                if table.get(key.value())?.is_none_or(|looked_up| looked_up.value() != sealed.value()) {
                    let slot = key.value().first().copied();
                    found.rows_of(slot, "a row is not found where it is looked up".to_owned());
                }
            }
            Err(error) => found.rows_of(key.value().first().copied(), error.to_string()),
        }
    }
    let mut standing = standing.clone();
    let slots: Vec<u8> = std::iter::once(0).chain(standing.pointers.iter().flat_map(|pointer| pointer.slots)).collect();
    for slot in slots {
        let (rows, sum) = tallies.remove(&slot).unwrap_or_default();
        let Some(tally) = standing.tally(slot) else { continue };
        if (tally.rows, tally.sum) != (rows, sum) {
            found.rows_of(
                Some(slot),
                format!(
                    "slot {slot} holds {rows} rows, its checkpoint says {}: `rebuild` makes them again",
                    tally.rows
                ),
            );
        }
    }
    for (slot, (rows, _)) in tallies {
        found.rows_of(Some(slot), format!("slot {slot} holds {rows} rows and belongs to no projection"));
    }
    Ok(())
}

/// Checks every block up to `to`, each event with its place in the chain and its digest; gives where the log ends.
pub(crate) fn verify_blocks(
    blocks: &StoredBlocks,
    to: Position,
    found: &mut Verification,
) -> Result<(Position, ChainHash), StoreError> {
    let (mut next, mut chain) = (Position(1), CHAIN_START);
    for entry in blocks.range(0, to.0)? {
        let (key, value) = match entry {
            Ok(entry) => entry,
            Err(error) => {
                found.log(format!("events from position {next} on cannot be reached: {error}"));
                break;
            }
        };
        found.blocks += 1;
        let block = match Block::read(key, value.value()) {
            Ok(block) => block,
            Err(error) => {
                found.log(error.to_string());
                continue;
            }
        };
        if block.first != next {
            found.log(format!("events {next} to {} are missing", block.first.0 - 1));
            chain = block.chain_before;
        }
        if block.chain_before != chain {
            found.log(format!("the chain is broken before position {}", block.first));
            chain = block.chain_before;
        }
        if blocks.at_or_before(key)?.is_none_or(|(found, _)| found != key) {
            found.log(format!("the block at position {key} is not found where it is looked up"));
        }
        next = block.last().next();
        for frame in block.frames_from(block.first) {
            match frame {
                Ok(frame) => {
                    found.events += 1;
                    chain = frame.link(&chain);
                    if !frame.digest_matches() {
                        let position = frame.envelope.position;
                        found.log(format!("the payload at position {position} is not the one recorded"));
                    }
                }
                Err(error) => found.log(error.to_string()),
            }
        }
        if chain != block.chain_after {
            found.log(format!("the chain is broken in the block at position {}", block.first));
            chain = block.chain_after;
        }
    }
    Ok((Position(next.0 - 1), chain))
}

/// Findings after which the index is not looked at any further.
const FINDINGS_MAX: usize = 100;
