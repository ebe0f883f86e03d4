//! A block: a run of records stored as one value, with the chain before and after it.
//!
//! ```text
//! magic "CGLB" · version u8 · 3 zero bytes · count u32 · first position u64 · chain before 32 bytes · chain after
//! 32 bytes · XXH3-64 of the 84 bytes before u64 · frames
//! ```

use cognilog_core::Position;

use crate::error::{StoreError, contained};
use crate::record::{ChainHash, Draft, Frame, frame_length};

const MAGIC: &[u8; 4] = b"CGLB";
const VERSION: u8 = 0;
pub(crate) const HEADER: usize = 92;

/// Gathers records into block values.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    limit: usize,
    chain: ChainHash,
    open: Vec<u8>,
    first: Position,
    count: u32,
    before: ChainHash,
    done: Vec<(Position, Vec<u8>)>,
}

impl BlockBuilder {
    pub(crate) fn new(limit: usize, chain: ChainHash) -> BlockBuilder {
        BlockBuilder {
            limit,
            chain,
            open: Vec::new(),
            first: Position::START,
            count: 0,
            before: chain,
            done: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, draft: &Draft<'_>) {
        if self.count > 0 && self.open.len() + draft.frame_bytes() > self.limit {
            self.close();
        }
        if self.count == 0 {
            self.first = draft.envelope.position;
            self.before = self.chain;
            self.open.resize(HEADER, 0);
        }
        self.chain = draft.write(&self.chain, &mut self.open);
        self.count += 1;
    }

    fn close(&mut self) {
        let mut value = std::mem::take(&mut self.open);
        write_header(&mut value, self.first, self.count, &self.before, &self.chain);
        self.done.push((self.first, value));
        self.count = 0;
    }

    /// The block values by their first position, and the chain after the last.
    pub(crate) fn finish(mut self) -> (Vec<(Position, Vec<u8>)>, ChainHash) {
        if self.count > 0 {
            self.close();
        }
        (self.done, self.chain)
    }
}

fn write_header(value: &mut [u8], first: Position, count: u32, before: &ChainHash, after: &ChainHash) {
    value[..4].copy_from_slice(MAGIC);
    value[4] = VERSION;
    value[8..12].copy_from_slice(&count.to_le_bytes());
    value[12..20].copy_from_slice(&first.0.to_le_bytes());
    value[20..52].copy_from_slice(before);
    value[52..84].copy_from_slice(after);
    let checksum = xxhash_rust::xxh3::xxh3_64(&value[..84]);
    value[84..HEADER].copy_from_slice(&checksum.to_le_bytes());
}

/// A block value of frames that were checked, with its key.
pub(crate) fn block_value(
    first: Position,
    count: u32,
    before: &ChainHash,
    after: &ChainHash,
    frames: &[u8],
) -> (Position, Vec<u8>) {
    let mut value = Vec::with_capacity(HEADER + frames.len());
    value.resize(HEADER, 0);
    value.extend_from_slice(frames);
    write_header(&mut value, first, count, before, after);
    (first, value)
}

/// A block value whose header was checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    pub(crate) first: Position,
    pub(crate) count: u32,
    pub(crate) chain_before: ChainHash,
    pub(crate) chain_after: ChainHash,
    frames: &'a [u8],
}

impl<'a> Block<'a> {
    /// Reads a block's header and checks it; its frames are checked as they are read.
    ///
    /// # Errors
    /// The header is damaged or does not belong to the key.
    pub(crate) fn read(key: u64, value: &'a [u8]) -> Result<Block<'a>, StoreError> {
        let damaged = |reason: &str| StoreError::damaged(format!("the block at position {key}"), reason);
        let header = value.get(..HEADER).ok_or_else(|| damaged("it is shorter than its header"))?;
        let number = |range: std::ops::Range<usize>| {
            header[range].iter().rev().fold(0u64, |sum, byte| (sum << 8) | u64::from(*byte))
        };
        if xxhash_rust::xxh3::xxh3_64(&header[..84]) != number(84..HEADER) {
            return Err(damaged("the checksum of its header does not match"));
        }
        if &header[..4] != MAGIC || header[4] != VERSION {
            return Err(damaged("it is not a block of this format"));
        }
        if number(12..20) != key || number(8..12) == 0 {
            return Err(damaged("its header belongs to another block"));
        }
        let mut block = Block {
            first: Position(key),
            count: number(8..12) as u32,
            chain_before: [0; 32],
            chain_after: [0; 32],
            frames: &value[HEADER..],
        };
        block.chain_before.copy_from_slice(&header[20..52]);
        block.chain_after.copy_from_slice(&header[52..84]);
        Ok(block)
    }

    /// The last position in the block.
    pub(crate) fn last(&self) -> Position {
        Position(self.first.0 + u64::from(self.count) - 1)
    }

    /// The records from `from` on; those before are passed over by their length alone.
    pub(crate) fn frames_from(&self, from: Position) -> Frames<'a> {
        let mut frames = Frames { rest: self.frames, next: self.first, remaining: self.count };
        while frames.next < from && frames.remaining > 0 {
            let Some(length) = frame_length(frames.rest) else { break };
            frames.advance(length);
        }
        frames
    }
}

/// A block value as it stands in the database.
pub(crate) type BlockValue = redb::AccessGuard<'static, &'static [u8]>;

/// The blocks in the database, as one read transaction sees them.
pub(crate) struct StoredBlocks {
    pub(crate) table: redb::ReadOnlyTable<u64, &'static [u8]>,
}

impl StoredBlocks {
    /// The last block.
    pub(crate) fn last(&self) -> Result<Option<(u64, BlockValue)>, StoreError> {
        self.at_or_before(u64::MAX)
    }

    /// The last block whose key is not behind `key`.
    pub(crate) fn at_or_before(&self, key: u64) -> Result<Option<(u64, BlockValue)>, StoreError> {
        contained(|| match self.table.range(..=key)?.next_back() {
            Some(entry) => read_entry(entry).map(Some),
            None => Ok(None),
        })
    }

    /// The blocks whose keys lie between these two, both included.
    pub(crate) fn range(
        &self,
        from: u64,
        to: u64,
    ) -> Result<impl Iterator<Item = Result<(u64, BlockValue), StoreError>>, StoreError> {
        let mut range = contained(|| Ok(self.table.range(from..=to)?))?;
        let mut broken = false;
        Ok(std::iter::from_fn(move || {
            if broken {
                return None;
            }
            let entry = contained(|| range.next().map(read_entry).transpose());
            // A range that failed once may give anything afterwards, itself again for ever included.
            broken = entry.is_err();
            entry.transpose()
        }))
    }
}

type Entry = Result<(redb::AccessGuard<'static, u64>, BlockValue), redb::StorageError>;

fn read_entry(entry: Entry) -> Result<(u64, BlockValue), StoreError> {
    let (key, value) = entry?;
    // A damaged page may hold lengths that lead out of it, where looking panics: that is found out here, contained.
    let _ = value.value();
    Ok((key.value(), value))
}

/// The records of a block, in order.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    rest: &'a [u8],
    next: Position,
    remaining: u32,
}

impl Frames<'_> {
    fn advance(&mut self, length: usize) {
        self.rest = &self.rest[length..];
        self.next = self.next.next();
        self.remaining -= 1;
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining == 0 {
            return None;
        }
        let frame = Frame::read(self.rest, self.next);
        match &frame {
            Ok(frame) => self.advance(frame.bytes().len()),
            Err(_) => self.remaining = 0,
        }
        Some(frame)
    }
}
