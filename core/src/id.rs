//! Names of things in the log: positions, sequences, event ids, traces and streams.

use std::fmt;
use std::str::FromStr;

use crate::limits::TRACE_ID_BYTES_MAX;

/// Place of an event in the whole log: gapless, from 1, assigned in the commit. 0 is "before the first event".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The place before the first event.
    pub const START: Position = Position(0);

    /// The position after this one.
    #[must_use]
    pub fn next(self) -> Position {
        Position(self.0 + 1)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The agent's own message number. It may repeat and is never the order of the log.
pub type Sequence = i64;

/// Identity of an event and its idempotency key for ever: 16 bytes, written as a UUID.
///
/// Ids made here are time-ordered (RFC 9562, version 7), so that neighbours in time are neighbours in the index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub [u8; 16]);

impl EventId {
    /// Makes a version 7 UUID from milliseconds since 1970 and ten random bytes.
    #[must_use]
    pub fn from_parts(milliseconds: u64, random: [u8; 10]) -> EventId {
        let mut bytes = [0u8; 16];
        bytes[..6].copy_from_slice(&milliseconds.to_be_bytes()[2..]);
        bytes[6..].copy_from_slice(&random);
        bytes[6] = (bytes[6] & 0x0f) | 0x70;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        EventId(bytes)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                formatter.write_str("-")?;
            }
            write!(formatter, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl FromStr for EventId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<EventId, NameError> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
        if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(NameError::EventId { text: text.chars().take(80).collect() });
        }
        let mut bytes = [0u8; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let value = |digit: u8| (digit as char).to_digit(16).unwrap_or(0) as u8;
            *byte = value(pair[0]) << 4 | value(pair[1]);
        }
        Ok(EventId(bytes))
    }
}

/// Name of a trace: opaque text, never empty, at most [`TRACE_ID_BYTES_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(String);

impl TraceId {
    /// Takes any text as a trace id.
    ///
    /// # Errors
    /// The text is empty or longer than the limit.
    pub fn new(text: impl Into<String>) -> Result<TraceId, NameError> {
        let text = text.into();
        if text.is_empty() {
            return Err(NameError::TraceIdEmpty);
        }
        if text.len() > TRACE_ID_BYTES_MAX {
            return Err(NameError::TraceIdTooLong { bytes: text.len() });
        }
        Ok(TraceId(text))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the folder that holds the trace's files: the id itself where every file system takes it as it is,
    /// otherwise a readable start and a digest of the id. No two ids share a name, also where `A` and `a` are one file.
    ///
    /// ```
    /// use cognilog_core::TraceId;
    /// assert_eq!(TraceId::new("trace-1")?.folder_name(), "trace-1");
    /// assert!(TraceId::new("../../x")?.folder_name().starts_with("x~"));
    /// # Ok::<(), cognilog_core::id::NameError>(())
    /// ```
    #[must_use]
    pub fn folder_name(&self) -> String {
        let id = self.0.as_str();
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.@".contains(&byte);
        let stem = id.split('.').next().unwrap_or_default();
        let is_device = matches!(stem, "con" | "prn" | "aux" | "nul")
            || (stem.len() == 4 && (stem.starts_with("com") || stem.starts_with("lpt")));
        let edges = id.starts_with(['.', '-']) || id.ends_with('.');
        if id.len() <= 120 && id.bytes().all(plain) && !is_device && !edges {
            return id.to_owned();
        }
        let readable: String = id
            .chars()
            .map(|character| character.to_ascii_lowercase())
            .filter(|character| {
                character.is_ascii_lowercase() || character.is_ascii_digit() || "-_".contains(*character)
            })
            .take(60)
            .collect();
        let digest = blake3::hash(id.as_bytes()).to_hex();
        format!("{}~{}", readable.trim_start_matches('-'), &digest[..16])
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for TraceId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<TraceId, NameError> {
        TraceId::new(text)
    }
}

/// What a stream of events belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamId {
    /// The events of one trace.
    Trace(TraceId),
    /// The events of one knowledge record.
    Knowledge(String),
    /// The events of one memory identity.
    Memory(String),
    /// The events of the store itself.
    Store,
}

impl StreamId {
    /// The code of the stream's kind and its name, as the log stores them.
    #[must_use]
    pub fn parts(&self) -> (u8, &str) {
        match self {
            StreamId::Trace(id) => (1, id.as_str()),
            StreamId::Knowledge(name) => (2, name),
            StreamId::Memory(name) => (3, name),
            StreamId::Store => (4, ""),
        }
    }

    /// Reads what [`StreamId::parts`] gave.
    ///
    /// # Errors
    /// The code is not one of a stream, or the name breaks the rule of its kind.
    pub fn from_parts(code: u8, name: &str) -> Result<StreamId, NameError> {
        match code {
            1 => Ok(StreamId::Trace(TraceId::new(name)?)),
            2 => Ok(StreamId::Knowledge(name.to_owned())),
            3 => Ok(StreamId::Memory(name.to_owned())),
            4 => Ok(StreamId::Store),
            _ => Err(NameError::StreamCode { code }),
        }
    }

    /// The trace, if the stream is one.
    #[must_use]
    pub fn as_trace(&self) -> Option<&TraceId> {
        match self {
            StreamId::Trace(id) => Some(id),
            _ => None,
        }
    }
}

impl From<TraceId> for StreamId {
    fn from(id: TraceId) -> StreamId {
        StreamId::Trace(id)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamId::Trace(id) => write!(formatter, "trace:{id}"),
            StreamId::Knowledge(name) => write!(formatter, "knowledge:{name}"),
            StreamId::Memory(name) => write!(formatter, "memory:{name}"),
            StreamId::Store => formatter.write_str("store:"),
        }
    }
}

impl FromStr for StreamId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<StreamId, NameError> {
        match text.split_once(':') {
            Some(("trace", name)) => Ok(StreamId::Trace(TraceId::new(name)?)),
            Some(("knowledge", name)) => Ok(StreamId::Knowledge(name.to_owned())),
            Some(("memory", name)) => Ok(StreamId::Memory(name.to_owned())),
            Some(("store", "")) => Ok(StreamId::Store),
            _ => Err(NameError::Stream { text: text.chars().take(80).collect() }),
        }
    }
}

/// A name that breaks the rule of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// An event id that is not a UUID.
    #[error("event id {text:?} is not a UUID (32 hexadecimal digits, hyphens allowed)")]
    EventId {
        /// The start of the text.
        text: String,
    },
    /// An empty trace id.
    #[error("a trace id must not be empty")]
    TraceIdEmpty,
    /// A trace id over the limit.
    #[error("a trace id of {bytes} bytes is over the limit of {TRACE_ID_BYTES_MAX}")]
    TraceIdTooLong {
        /// The length found.
        bytes: usize,
    },
    /// A code that is not one of a stream.
    #[error("stream code {code} is not known to this build")]
    StreamCode {
        /// The code found.
        code: u8,
    },
    /// A stream name without its kind before a colon.
    #[error("stream {text:?} must begin with trace:, knowledge:, memory: or store:")]
    Stream {
        /// The start of the text.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_ids_print_as_they_are_read_and_sort_by_time() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(text.parse::<EventId>().ok().map(|id| id.to_string()).as_deref(), expect, "{text}");
        };
        check("0198F3A1-0000-7abc-8def-0123456789ab", Some("0198f3a1-0000-7abc-8def-0123456789ab"));
        check("0198f3a100007abc8def0123456789ab", Some("0198f3a1-0000-7abc-8def-0123456789ab"));
        check("evt-1", None);
        check("", None);
        check("0198f3a100007abc8def0123456789ag", None);
        let early = EventId::from_parts(1_000, [0xff; 10]);
        let late = EventId::from_parts(1_001, [0; 10]);
        assert!(early < late);
        assert_eq!(&early.to_string()[14..15], "7");
    }

    #[test]
    fn trace_ids_are_opaque_within_their_limit() {
        for text in ["../../x", "a/b", "🧠", "A", "a", "x\ny", " ", "CON"] {
            assert_eq!(TraceId::new(text).map(|id| id.to_string()).as_deref(), Ok(text));
        }
        assert_eq!(TraceId::new(""), Err(NameError::TraceIdEmpty));
        assert!(TraceId::new("x".repeat(10_000)).is_ok());
        assert_eq!(TraceId::new("x".repeat(20_000)), Err(NameError::TraceIdTooLong { bytes: 20_000 }));
    }

    #[test]
    fn folder_names_never_collide_or_leave() {
        let check = |id: &str, expect: &str| {
            let name = TraceId::new(id).map(|id| id.folder_name()).expect(id);
            assert!(name.starts_with(expect), "{id}: {name}");
            assert!(name.len() <= 120 && !name.contains(['/', '\\', '\0', '\n']) && !name.starts_with('.'), "{name}");
            name
        };
        let names = [
            check("trace-1", "trace-1"),
            check("Trace-1", "trace-1~"),
            check("a@sub-1.2", "a@sub-1.2"),
            check("..", "~"),
            check("../../x", "x~"),
            check("a/b", "ab~"),
            check("con", "con~"),
            check("con.txt", "contxt~"),
            check("x y", "xy~"),
            check("🧠", "~"),
            check("知识", "~"),
            check("x\ny", "xy~"),
            check(&"x".repeat(2_200), "xxxx"),
            check(&"x".repeat(2_201), "xxxx"),
            check("-rf", "rf~"),
        ];
        let distinct: std::collections::BTreeSet<String> = names.iter().map(|name| name.to_lowercase()).collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn streams_are_read_as_they_print() {
        for text in ["trace:a:b", "knowledge:k-1", "memory:me", "store:"] {
            assert_eq!(text.parse::<StreamId>().map(|stream| stream.to_string()).as_deref(), Ok(text));
        }
        assert!("a".parse::<StreamId>().is_err());
    }
}
