//! Reading a model's reply: what it says is accepted as far as it is certain, the rest reported, nothing guessed.
//!
//! Models decorate, shorten and break JSON. Reading goes over a ladder (DESIGN section 7, "Reply reading"): the whole
//! reply as JSON, else the values in it, fenced or not, chosen by their shape and by what waits for an answer, with
//! bounded repair of each. A wrong object is worse than a miss: where two readings are possible, none is taken.
//!
//! ```
//! use cognilog_core::reply::{EvaluationContext, read_evaluation};
//!
//! let context = EvaluationContext { pending: [(42, vec!["k-1".to_owned(), "k-2".to_owned()])].into() };
//! let reply = "<think>k-1 …</think>```json\n{'evaluations': [{'query_sequence': 42, 'assessments': [\n\
//!     {'source_id': 'k-1', 'status': ' Helpful', 'reason': None}, {'source_id': 'k-9', 'status': 'unused'},]}]}";
//! let reading = read_evaluation(reply, &context)?;
//! assert_eq!(reading.accepted.evaluations[0].assessments.len(), 1);
//! assert_eq!(reading.dropped.len(), 2); // k-9 is no source of query 42, and k-2 was not assessed
//! # Ok::<(), cognilog_core::reply::Unreadable>(())
//! ```

mod dream;
mod evaluation;
mod extraction;
mod parse;
pub mod path;
mod reasoning;
mod report;
mod scan;
mod unwrap;
mod value;

pub use dream::{DreamContext, DreamReply, FileUpdate, read_dream};
pub use evaluation::{EvaluationContext, EvaluationReply, Judgement, QueryJudgement, read_evaluation};
pub use extraction::{ExtractionReply, read_extraction};
pub use report::{Dropped, Reading, Repair, RepairKind, Unreadable, UnreadableReason};

use std::borrow::Cow;

use crate::limits::REPLY_BYTES_MAX;

/// What a reply answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplyKind {
    /// The evaluation of sources.
    Evaluation,
    /// The extraction of knowledge.
    Extraction,
    /// The integration of a dream.
    Dream,
}

impl ReplyKind {
    /// The word on events and on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ReplyKind::Evaluation => "eval",
            ReplyKind::Extraction => "extract",
            ReplyKind::Dream => "dream",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<ReplyKind> {
        [ReplyKind::Evaluation, ReplyKind::Extraction, ReplyKind::Dream].into_iter().find(|kind| kind.as_str() == word)
    }
}

/// The text of a reply's bytes: UTF-8, or UTF-16 that says so by its byte order mark. Other encodings are not guessed,
/// because a wrong guess writes mojibake.
///
/// # Errors
/// The bytes are neither; the error names the first byte that is wrong.
pub fn text_of(bytes: &[u8]) -> Result<Cow<'_, str>, Unreadable> {
    check_length(bytes.len())?;
    let not_text = |at| Unreadable { reason: UnreadableReason::NotUtf8, at: Some(at), dropped: Vec::new() };
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return str::from_utf8(bytes).map(Cow::Borrowed).map_err(|error| not_text(error.valid_up_to())),
    };
    let (pairs, rest) = bytes.as_chunks::<2>();
    let text = char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect::<Result<String, _>>();
    match text {
        Ok(text) if rest.is_empty() => Ok(Cow::Owned(text)),
        _ => Err(not_text(0)),
    }
}

fn check_length(length: usize) -> Result<(), Unreadable> {
    match length > REPLY_BYTES_MAX {
        true => Err(Unreadable { reason: UnreadableReason::TooLarge, at: Some(REPLY_BYTES_MAX), dropped: Vec::new() }),
        false => Ok(()),
    }
}

fn nothing_accepted(dropped: Vec<Dropped>) -> Unreadable {
    // What was cut off is the reason if nothing else was there.
    let is_cut = |dropped: &Dropped| matches!(dropped, Dropped::Cut { .. } | Dropped::CutOff { .. });
    let reason = match !dropped.is_empty() && dropped.iter().all(is_cut) {
        true => UnreadableReason::Cut,
        false => UnreadableReason::NothingAccepted,
    };
    Unreadable { reason, at: None, dropped }
}
