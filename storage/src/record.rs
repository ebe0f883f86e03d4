//! One record of the log: its bytes in a frame, its salted digest, its link in the hash chain.
//!
//! ```text
//! frame    length u32 · XXH3-64 of all that follows u64 · frame flags u8 (1 = erased) · 3 zero bytes
//! envelope format u8 · codec u8 · schema u8 · flags u8 · kind u16 · stream kind u8 · key length u8
//!          position u64 · stream number u64 · index in stream u64 · previous position in stream u64
//!          sequence i64 · recorded at i64 · occurred at i64 · event id 16 bytes
//!          payload length u32 · name length u32 · events in this append u32 · digest 32 bytes
//!          stream name (first event of a stream only) · key (first event of an append only)
//! payload  typed bytes or JSON text
//! salt     16 random bytes; absent once erased
//! ```
//! All integers are little-endian; times are microseconds since 1970. The chain covers the envelope with name and
//! key; the digest covers salt and payload, so an erased payload leaves a chain that verifies.

use std::sync::OnceLock;

use cognilog_core::event::{Envelope, EventKind};
use cognilog_core::{EventId, Instant, Position, StreamId};

use crate::error::StoreError;

/// A link of the hash chain.
pub type ChainHash = [u8; 32];

/// The chain before the first event.
pub(crate) const CHAIN_START: ChainHash = [0; 32];

const FORMAT: u8 = 0;
const FRAME_HEADER: usize = 16;
const ENVELOPE: usize = 124;
const SALT: usize = 16;
const FRAME_ERASED: u8 = 1;

const FLAG_COGNITION: u8 = 1;
const FLAG_SEQUENCE: u8 = 2;
const FLAG_OCCURRED: u8 = 4;
const FLAG_IMPORTED: u8 = 8;

/// How a payload is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// The typed bytes of the kind's schema.
    Typed,
    /// JSON text as it came.
    Json,
}

impl Codec {
    fn code(self) -> u8 {
        match self {
            Codec::Typed => 1,
            Codec::Json => 2,
        }
    }
}

/// A record to be written: everything but its place in the chain.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    pub(crate) envelope: &'a Envelope,
    pub(crate) stream: &'a StreamId,
    pub(crate) codec: Codec,
    pub(crate) schema: u8,
    /// Events in this append, on its first event; 0 on the others.
    pub(crate) append_events: u32,
    /// The caller's idempotency key, on the first event of an append.
    pub(crate) key: &'a [u8],
    pub(crate) payload: &'a [u8],
    pub(crate) salt: [u8; SALT],
}

fn digest(salt: &[u8], payload: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(salt).update(payload);
    *hasher.finalize().as_bytes()
}

fn link(previous: &ChainHash, envelope: &[u8]) -> ChainHash {
    static CHAIN: OnceLock<blake3::Hasher> = OnceLock::new();
    let mut hasher = CHAIN.get_or_init(|| blake3::Hasher::new_derive_key("cognilog log chain, format 0")).clone();
    hasher.update(previous).update(envelope);
    *hasher.finalize().as_bytes()
}

impl Draft<'_> {
    /// Bytes that the frame will take.
    pub(crate) fn frame_bytes(&self) -> usize {
        FRAME_HEADER + ENVELOPE + self.name().len() + self.key.len() + self.payload.len() + SALT
    }

    fn name(&self) -> &str {
        if self.envelope.stream_index == 0 { self.stream.parts().1 } else { "" }
    }

    /// Appends the frame to `out` and gives the chain after it.
    pub(crate) fn write(&self, previous: &ChainHash, out: &mut Vec<u8>) -> ChainHash {
        let start = out.len();
        let name = self.name();
        out.extend_from_slice(&(self.frame_bytes() as u32).to_le_bytes());
        out.extend_from_slice(&[0; 12]);
        let envelope = self.envelope;
        let mut flags = 0;
        flags |= if envelope.is_cognition { FLAG_COGNITION } else { 0 };
        flags |= if envelope.sequence.is_some() { FLAG_SEQUENCE } else { 0 };
        flags |= if envelope.occurred_at.is_some() { FLAG_OCCURRED } else { 0 };
        flags |= if envelope.imported { FLAG_IMPORTED } else { 0 };
        out.extend_from_slice(&[FORMAT, self.codec.code(), self.schema, flags]);
        out.extend_from_slice(&envelope.kind.code().to_le_bytes());
        out.extend_from_slice(&[self.stream.parts().0, self.key.len() as u8]);
        for number in
            [envelope.position.0, envelope.stream_number, envelope.stream_index, envelope.previous_in_stream.0]
        {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for number in
            [envelope.sequence.unwrap_or(0), envelope.recorded_at.0, envelope.occurred_at.map_or(0, |time| time.0)]
        {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&envelope.event_id.0);
        for number in [self.payload.len() as u32, name.len() as u32, self.append_events] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&digest(&self.salt, self.payload));
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(self.key);
        let hash = link(previous, &out[start + FRAME_HEADER..]);
        out.extend_from_slice(self.payload);
        out.extend_from_slice(&self.salt);
        let checksum = xxhash_rust::xxh3::xxh3_64(&out[start + 12..]);
        out[start + 4..start + 12].copy_from_slice(&checksum.to_le_bytes());
        hash
    }
}

/// A record as it stands in a block, checked against its checksum.
#[derive(Clone, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) envelope: Envelope,
    pub(crate) codec: Codec,
    pub(crate) stream_code: u8,
    /// The stream's name, on its first event only.
    pub(crate) name: &'a str,
    pub(crate) append_events: u32,
    pub(crate) key: &'a [u8],
    pub(crate) payload: &'a [u8],
    bytes: &'a [u8],
    chained: &'a [u8],
    salt: &'a [u8],
}

/// The whole frame's length, or `None` when the bytes cannot hold one.
pub(crate) fn frame_length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    (length >= FRAME_HEADER + ENVELOPE && length <= bytes.len()).then_some(length)
}

/// Reads integers from a fixed layout whose length was checked.
struct Fixed<'a>(&'a [u8]);

impl Fixed<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let (head, tail) = self.0.split_at(N);
        bytes.copy_from_slice(head);
        self.0 = tail;
        bytes
    }

    fn u8(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    fn i64(&mut self) -> i64 {
        i64::from_le_bytes(self.take())
    }
}

impl<'a> Frame<'a> {
    /// Reads the frame at the start of `bytes` and checks it: length, checksum, position, shape.
    ///
    /// # Errors
    /// The frame is damaged, or was written in another format.
    pub(crate) fn read(bytes: &'a [u8], expected: Position) -> Result<Frame<'a>, StoreError> {
        let place = || format!("position {expected}");
        let length =
            frame_length(bytes).ok_or_else(|| StoreError::damaged(place(), "the frame's length is impossible"))?;
        let bytes = &bytes[..length];
        let mut header = Fixed(&bytes[4..FRAME_HEADER]);
        let checksum = header.u64();
        let erased = header.u8() & FRAME_ERASED != 0;
        if xxhash_rust::xxh3::xxh3_64(&bytes[12..]) != checksum {
            return Err(StoreError::damaged(place(), "the checksum of the event does not match its bytes"));
        }
        let body = &bytes[FRAME_HEADER..];
        let mut fixed = Fixed(&body[..ENVELOPE]);
        let format = fixed.u8();
        if format != FORMAT {
            return Err(StoreError::damaged(place(), format!("record format {format} is not known to this build")));
        }
        let codec = match fixed.u8() {
            1 => Codec::Typed,
            2 => Codec::Json,
            other => return Err(StoreError::damaged(place(), format!("payload codec {other} is not known"))),
        };
        let schema = fixed.u8();
        let flags = fixed.u8();
        let kind = EventKind::from_code(u16::from_le_bytes(fixed.take()));
        if codec == Codec::Typed && kind != EventKind::Unknown && schema != kind.schema() {
            let reason = format!("schema {schema} of {} events is not known to this build", kind.as_str());
            return Err(StoreError::damaged(place(), reason));
        }
        let stream_code = fixed.u8();
        let key_length = fixed.u8() as usize;
        let position = Position(fixed.u64());
        if position != expected {
            return Err(StoreError::damaged(place(), format!("the event says it is at position {position}")));
        }
        let (stream_number, stream_index, previous) = (fixed.u64(), fixed.u64(), fixed.u64());
        let (sequence, recorded_at, occurred_at) = (fixed.i64(), fixed.i64(), fixed.i64());
        let event_id = EventId(fixed.take());
        let (_payload_length, name_length, append_events) = (fixed.u32(), fixed.u32() as usize, fixed.u32());
        let chained_length = ENVELOPE + name_length + key_length;
        let salt_length = if erased { 0 } else { SALT };
        if chained_length + salt_length > body.len() {
            return Err(StoreError::damaged(place(), "the event's parts do not fit into its frame"));
        }
        let name = std::str::from_utf8(&body[ENVELOPE..ENVELOPE + name_length])
            .map_err(|_| StoreError::damaged(place(), "the stream's name is not UTF-8"))?;
        Ok(Frame {
            envelope: Envelope {
                position,
                stream_number,
                stream_index,
                previous_in_stream: Position(previous),
                kind,
                is_cognition: flags & FLAG_COGNITION != 0,
                sequence: (flags & FLAG_SEQUENCE != 0).then_some(sequence),
                recorded_at: Instant(recorded_at),
                occurred_at: (flags & FLAG_OCCURRED != 0).then_some(Instant(occurred_at)),
                event_id,
                imported: flags & FLAG_IMPORTED != 0,
                erased,
            },
            codec,
            stream_code,
            name,
            append_events,
            key: &body[ENVELOPE + name_length..chained_length],
            payload: &body[chained_length..body.len() - salt_length],
            bytes,
            chained: &body[..chained_length],
            salt: &body[body.len() - salt_length..],
        })
    }

    /// The whole frame's bytes.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The chain after this record.
    pub(crate) fn link(&self, previous: &ChainHash) -> ChainHash {
        link(previous, self.chained)
    }

    /// Whether payload and salt are those the digest was made of; an erased payload cannot be told.
    pub(crate) fn digest_matches(&self) -> bool {
        self.envelope.erased || digest(self.salt, self.payload) == self.chained[ENVELOPE - 32..ENVELOPE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope() -> Envelope {
        Envelope {
            position: Position(7),
            stream_number: 3,
            stream_index: 0,
            previous_in_stream: Position(0),
            kind: EventKind::Query,
            is_cognition: true,
            sequence: Some(-4),
            recorded_at: Instant(1),
            occurred_at: None,
            event_id: EventId([9; 16]),
            imported: false,
            erased: false,
        }
    }

    fn written() -> (Vec<u8>, ChainHash) {
        let stream = "trace:t".parse().expect("a stream");
        let envelope = envelope();
        let draft = Draft {
            envelope: &envelope,
            stream: &stream,
            codec: Codec::Json,
            schema: 1,
            append_events: 1,
            key: b"key",
            payload: b"{}",
            salt: [5; 16],
        };
        let mut bytes = Vec::new();
        let hash = draft.write(&CHAIN_START, &mut bytes);
        assert_eq!(bytes.len(), draft.frame_bytes());
        (bytes, hash)
    }

    #[test]
    fn reads_what_was_written() {
        let (bytes, hash) = written();
        let frame = Frame::read(&bytes, Position(7)).expect("whole");
        assert_eq!(frame.envelope, envelope());
        assert_eq!((frame.name, frame.key, frame.payload), ("t", &b"key"[..], &b"{}"[..]));
        assert_eq!((frame.codec, frame.stream_code, frame.append_events), (Codec::Json, 1, 1));
        assert_eq!(frame.link(&CHAIN_START), hash);
        assert!(frame.digest_matches());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let (bytes, _) = written();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Frame::read(&damaged, Position(7)).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(Frame::read(&bytes[..length], Position(7)).is_err(), "cut to {length}");
        }
        assert!(Frame::read(&bytes, Position(8)).is_err(), "an event served at another position");
    }
}
