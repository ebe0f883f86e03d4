//! Every limit of the log, in one place (DESIGN section 4).

use std::time::Duration;

/// Events from which on a range of the log is read ahead on a thread of its own: a thread costs what reading some
/// hundred events does.
pub(crate) const READ_AHEAD_EVENTS_MIN: u64 = 2_000;
/// Blocks that are read ahead at the most.
pub(crate) const READ_AHEAD_BLOCKS: usize = 16;

/// Bytes of blocks that one commit of a copy writes.
pub(crate) const COPY_COMMIT_BYTES: usize = 4 << 20;

/// The limits a store is opened with. All sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Largest payload of one event.
    pub event_bytes_max: usize,
    /// Largest sum of payloads in one append.
    pub append_bytes_max: usize,
    /// Most events in one append.
    pub append_events_max: usize,
    /// Commands that may wait for the writer; one more is refused as busy.
    pub queue_commands_max: usize,
    /// Bytes of the commands that may wait for the writer.
    pub queue_bytes_max: usize,
    /// Commands that one durable commit takes from the queue.
    pub batch_commands_max: usize,
    /// Payload bytes that one durable commit takes from the queue.
    pub batch_bytes_max: usize,
    /// How long the writer waits at the most for callers that it answered just now; never longer than the last commit
    /// took.
    pub gather: Duration,
    /// Bytes of one block value: just under a power of two of redb's 4 KiB pages.
    pub block_bytes_max: usize,
    /// Events whose index and projection rows may wait in memory before they are written.
    pub overlay_events_max: u64,
    /// Bytes of such rows.
    pub overlay_bytes_max: usize,
    /// Rows written by one slice of a flush; bounds how long an append waits behind it.
    pub flush_slice_rows: usize,
    /// How long the queue must be empty before rows are written though the limits are not reached.
    pub flush_idle: Duration,
    /// Events that one job of a rebuild folds.
    pub rebuild_events: usize,
    /// Cache of redb.
    pub cache_bytes: usize,
    /// Positions for which a caller's idempotency key is remembered.
    pub key_horizon: u64,
    /// Events that may be left unwritten in rows when a store is closed: folding them again at the next open is quicker.
    pub close_tail_events: u64,
    /// How often the `head` file is renewed at the most.
    pub head_interval: Duration,
    /// Events after which a long copy renews its read transaction, so that it pins no pages for long.
    pub read_events_max: u64,
    /// Time after which it does.
    pub read_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            event_bytes_max: 8 << 20,
            append_bytes_max: 16 << 20,
            append_events_max: 8_192,
            queue_commands_max: 1_024,
            queue_bytes_max: 32 << 20,
            batch_commands_max: 512,
            batch_bytes_max: 256 << 10,
            gather: Duration::from_millis(2),
            block_bytes_max: (32 << 10) - 256,
            overlay_events_max: 4_096,
            overlay_bytes_max: 32 << 20,
            flush_slice_rows: 1_024,
            flush_idle: Duration::from_millis(500),
            rebuild_events: 2_000,
            cache_bytes: 128 << 20,
            key_horizon: 1_000_000,
            close_tail_events: 256,
            head_interval: Duration::from_secs(1),
            read_events_max: 10_000,
            read_time_max: Duration::from_secs(1),
        }
    }
}

impl Limits {
    /// Every limit by name, with its value and unit in words; how `doctor` shows them.
    #[must_use]
    pub fn listed(&self) -> Vec<(&'static str, String)> {
        let bytes = |bytes: usize| match bytes {
            bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
            bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
            bytes => format!("{bytes} bytes"),
        };
        let time = |time: Duration| format!("{} ms", time.as_millis());
        // Taken apart, so that a limit that is added cannot be forgotten here.
        let Limits {
            event_bytes_max,
            append_bytes_max,
            append_events_max,
            queue_commands_max,
            queue_bytes_max,
            batch_commands_max,
            batch_bytes_max,
            gather,
            block_bytes_max,
            overlay_events_max,
            overlay_bytes_max,
            flush_slice_rows,
            flush_idle,
            rebuild_events,
            cache_bytes,
            key_horizon,
            close_tail_events,
            head_interval,
            read_events_max,
            read_time_max,
        } = *self;
        vec![
            ("event_bytes_max", bytes(event_bytes_max)),
            ("append_bytes_max", bytes(append_bytes_max)),
            ("append_events_max", format!("{append_events_max} events")),
            ("queue_commands_max", format!("{queue_commands_max} commands")),
            ("queue_bytes_max", bytes(queue_bytes_max)),
            ("batch_commands_max", format!("{batch_commands_max} commands")),
            ("batch_bytes_max", bytes(batch_bytes_max)),
            ("gather", time(gather)),
            ("block_bytes_max", bytes(block_bytes_max)),
            ("overlay_events_max", format!("{overlay_events_max} events")),
            ("overlay_bytes_max", bytes(overlay_bytes_max)),
            ("flush_slice_rows", format!("{flush_slice_rows} rows")),
            ("flush_idle", time(flush_idle)),
            ("rebuild_events", format!("{rebuild_events} events")),
            ("cache_bytes", bytes(cache_bytes)),
            ("key_horizon", format!("{key_horizon} positions")),
            ("close_tail_events", format!("{close_tail_events} events")),
            ("head_interval", time(head_interval)),
            ("read_events_max", format!("{read_events_max} events")),
            ("read_time_max", time(read_time_max)),
        ]
    }
}
