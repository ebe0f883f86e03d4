//! The limits that belong to the vocabulary: lengths of names and counts inside one event.

/// Longest trace id, in bytes of UTF-8. Longer ids are refused with this number.
pub const TRACE_ID_BYTES_MAX: usize = 16 * 1024;

/// Longest idempotency key of a caller, in bytes.
pub const IDEMPOTENCY_KEY_BYTES_MAX: usize = 255;

/// Characters kept of a query's source content and of a legacy extraction item's content
/// (cognition log document, section "query": "截断500字").
pub const CUT_CHARACTERS: usize = 500;
