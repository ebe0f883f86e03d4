//! The limits that belong to the vocabulary: lengths of names and counts inside one event.

/// Longest trace id, in bytes of UTF-8. Longer ids are refused with this number.
pub const TRACE_ID_BYTES_MAX: usize = 16 * 1024;

/// Longest idempotency key of a caller, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// Days after which a pending extraction is pointed out (memory document, section 九: "30 天"). It is never discarded by
/// itself.
pub const PENDING_DAYS: u32 = 30;

/// Terms of a text that are compared when similar extractions are grouped; the rest of a longer text does not count.
pub const SIMILARITY_TERMS_MAX: usize = 2_000;

/// Characters kept of a query's source content and of a legacy extraction item's content
/// (cognition log document, section "query": "截断500字").
pub const CUT_CHARACTERS: usize = 500;

/// Longest model reply that is looked at, in bytes. No answer to our prompts comes near it; a longer one is a loop.
pub const REPLY_BYTES_MAX: usize = 2 << 20;

/// How many lists and objects of a model reply may be open at once. An answer has five.
pub const REPLY_DEPTH_MAX: usize = 64;

/// Most values (numbers, strings, lists, …) that are read from one reply.
pub const REPLY_VALUES_MAX: usize = 500_000;

/// Most memory files that one reply may update.
pub const REPLY_ITEMS_MAX: usize = 1_000;

/// Most extractions that are taken of one side branch (DESIGN section 7).
pub const REPLY_EXTRACTIONS_MAX: usize = 50;

/// Most steps, about one a character, that looking through one reply may take.
pub const REPLY_STEPS_MAX: usize = 64 << 20;
