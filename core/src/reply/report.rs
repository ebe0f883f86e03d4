//! What reading a reply has to tell: what was repaired, what was dropped, and why nothing could be taken.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// A way in which a reply was not plain JSON and was understood all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RepairKind {
    /// A byte order mark was skipped.
    ByteOrderMark,
    /// The bytes were UTF-16.
    Utf16,
    /// Reasoning such as `<think>` was left out.
    Reasoning,
    /// Text around the answer was left out.
    TextAround,
    /// The answer stood in several objects that were put together.
    Merged,
    /// A later object spoke of the same query or file, and the earlier one was left out.
    Superseded,
    /// The answer stood inside another object, list or tool call.
    Wrapped,
    /// JSON stood inside a JSON string.
    DoubleEncoded,
    /// A comma was missing, doubled, trailing or full-width.
    Comma,
    /// A comment was skipped.
    Comment,
    /// A string had other delimiters than `"`.
    Quotes,
    /// Quotes inside a string were not escaped; where the string ends was concluded from what follows.
    InnerQuotes,
    /// A key or value stood without quotes.
    Unquoted,
    /// A literal of another language, such as `None` or `True`.
    Literal,
    /// Full-width brackets, colons or digits.
    FullWidth,
    /// A control character stood inside a string.
    ControlCharacter,
    /// An escape that JSON does not have.
    Escape,
    /// A surrogate without its partner became U+FFFD.
    LoneSurrogate,
    /// Backslash escapes such as `\n` stood between tokens.
    EscapedWhiteSpace,
    /// The reply was cut; what was complete is taken.
    Cut,
}

/// How often a repair was needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Repair {
    /// What was repaired.
    pub kind: RepairKind,
    /// How often.
    pub count: usize,
    /// Byte offset of the first place; inside JSON that stood in a string, the offset in that string's content.
    pub first_at: usize,
}

/// The repairs of one reading, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Repairs(BTreeMap<RepairKind, (usize, usize)>);

impl Repairs {
    pub(super) fn note(&mut self, kind: RepairKind, at: usize) {
        self.0.entry(kind).or_insert((0, at)).0 += 1;
    }

    pub(super) fn add(&mut self, other: &Repairs) {
        for (kind, (count, at)) in &other.0 {
            self.0.entry(*kind).or_insert((0, *at)).0 += count;
        }
    }

    pub(super) fn list(&self) -> Vec<Repair> {
        self.0
            .iter()
            .map(|(kind, (count, first_at))| Repair { kind: *kind, count: *count, first_at: *first_at })
            .collect()
    }
}

impl fmt::Display for Repair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            RepairKind::ByteOrderMark => "skipped a byte order mark",
            RepairKind::Utf16 => "decoded UTF-16",
            RepairKind::Reasoning => "left out reasoning",
            RepairKind::TextAround => "left out text around the answer",
            RepairKind::Merged => "put several objects together",
            RepairKind::Superseded => "took the later of two answers",
            RepairKind::Wrapped => "took the answer out of what was around it",
            RepairKind::DoubleEncoded => "decoded JSON inside a string",
            RepairKind::Comma => "mended commas",
            RepairKind::Comment => "skipped comments",
            RepairKind::Quotes => "took other quotes as string delimiters",
            RepairKind::InnerQuotes => "took unescaped quotes as part of a string",
            RepairKind::Unquoted => "took words without quotes",
            RepairKind::Literal => "took literals of another language",
            RepairKind::FullWidth => "took full-width punctuation or digits",
            RepairKind::ControlCharacter => "kept control characters in a string",
            RepairKind::Escape => "took escapes that JSON does not have",
            RepairKind::LoneSurrogate => "replaced lone surrogates by U+FFFD",
            RepairKind::EscapedWhiteSpace => "skipped escaped white space between tokens",
            RepairKind::Cut => "took what was complete of a reply that was cut",
        };
        write!(formatter, "{what} ({} times, first at byte {})", self.count, self.first_at)
    }
}

/// A part of a reply that was not taken, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "code", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Dropped {
    /// An item of the list is no object.
    #[error("item {index} is {found}, not an object")]
    NotAnObject {
        /// Which, from 0.
        index: usize,
        /// What it is.
        found: String,
    },
    /// The reply ended inside an answer.
    #[error("the reply is cut off at byte {at}")]
    Cut {
        /// Byte offset of the end.
        at: usize,
    },
    /// An item was not complete when the reply ended.
    #[error("item {index} was cut off; it is dropped, never completed")]
    CutOff {
        /// Which, from 0.
        index: usize,
    },
    /// A key stands twice with different values.
    #[error("key {key:?} stands twice with different values")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// `query_sequence` is not an integer.
    #[error("query_sequence {found} is not an integer")]
    BadQuerySequence {
        /// What stands there.
        found: String,
    },
    /// No query of that sequence waits for an evaluation.
    #[error("query {found} does not wait for an evaluation")]
    UnknownQuery {
        /// The sequence.
        found: String,
    },
    /// `assessments` is not a list, or an empty one.
    #[error("query {query}: assessments is not a list, or empty")]
    NoAssessments {
        /// The query.
        query: i64,
    },
    /// The query has no such source.
    #[error("query {query}: {found} is none of its sources")]
    UnknownSource {
        /// The query.
        query: i64,
        /// What stands there.
        found: String,
    },
    /// The status is none of the five.
    #[error("query {query}, source {source_id}: {found} is no status")]
    UnknownStatus {
        /// The query.
        query: i64,
        /// The source.
        source_id: String,
        /// What stands there.
        found: String,
    },
    /// A source was given two statuses.
    #[error("query {query}, source {source_id}: contradicting statuses")]
    Contradiction {
        /// The query.
        query: i64,
        /// The source.
        source_id: String,
    },
    /// A source of an answered query was not assessed; it stays pending.
    #[error("query {query}, source {source_id}: not assessed, stays pending")]
    NotAssessed {
        /// The query.
        query: i64,
        /// The source.
        source_id: String,
    },
    /// A path that is missing, absolute, leads upward, or is written to deceive.
    #[error("path {found} is missing or not allowed")]
    BadPath {
        /// What stands there.
        found: String,
    },
    /// A path that no configured file name or pattern covers.
    #[error("path {path:?} matches no configured file")]
    UnconfiguredPath {
        /// The path.
        path: String,
    },
    /// A text that is empty or no text.
    #[error("{place}: no text in `content`")]
    NoContent {
        /// Whose.
        place: String,
    },
    /// A text whose end had to be concluded from what follows: too uncertain to be written into a file.
    #[error("{place}: where `content` ends is uncertain, because quotes inside it are not escaped")]
    UncertainContent {
        /// Whose.
        place: String,
    },
    /// Two contents for one file.
    #[error("{path}: two different contents")]
    DifferentContents {
        /// The file.
        path: String,
    },
    /// A tool was called that this branch does not have.
    #[error("the tool {name:?} is not one of this branch")]
    UnknownTool {
        /// Its name.
        name: String,
    },
    /// The arguments of a tool call are no object.
    #[error("the arguments of tool call {index} are no object")]
    BadArguments {
        /// Which, from 0.
        index: usize,
    },
    /// A type that is none of the documents' four; it is kept.
    #[error("extraction {index}: {found:?} is none of experience, tool, strategy, case; it is kept")]
    UnknownType {
        /// Which extraction, from 0.
        index: usize,
        /// The type.
        found: String,
    },
    /// A field of an extraction that cannot be used; the rest of it is taken.
    #[error("extraction {index}: `{field}` cannot be used: {found}")]
    BadField {
        /// Which extraction, from 0.
        index: usize,
        /// The field.
        field: String,
        /// What stands there.
        found: String,
    },
    /// More items than the limit.
    #[error("more than {limit} items; the rest is dropped")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The same item again.
    #[error("item {index} says the same as an earlier one")]
    Repeated {
        /// Which, from 0.
        index: usize,
    },
}

/// A reply that was understood, at least in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading<T> {
    /// What is accepted.
    pub accepted: T,
    /// What was repaired on the way.
    pub repairs: Vec<Repair>,
    /// What was not taken.
    pub dropped: Vec<Dropped>,
}

/// Why nothing could be taken from a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UnreadableReason {
    /// There is no text.
    Empty,
    /// There is text, and nothing in it looks like JSON.
    NoJson,
    /// The reply ends inside its reasoning.
    ReasoningOnly,
    /// There is JSON, and none of it has the shape that was asked for.
    NoAnswer,
    /// The answer is not JSON even after the repairs that are certain enough.
    Broken,
    /// Lists and objects nest deeper than any answer does.
    TooDeep,
    /// The reply ends inside its only item.
    Cut,
    /// The answer has the right shape, and every part of it was dropped.
    NothingAccepted,
    /// The bytes are not UTF-8 text.
    NotUtf8,
    /// The reply is longer than the limit.
    TooLarge,
    /// The reply has more values than the limit, or looking through it took too long.
    TooCostly,
}

impl UnreadableReason {
    /// The word for events, programs and statistics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            UnreadableReason::Empty => "empty",
            UnreadableReason::NoJson => "no_json",
            UnreadableReason::ReasoningOnly => "reasoning_only",
            UnreadableReason::NoAnswer => "no_answer",
            UnreadableReason::Broken => "broken",
            UnreadableReason::TooDeep => "too_deep",
            UnreadableReason::Cut => "cut",
            UnreadableReason::NothingAccepted => "nothing_accepted",
            UnreadableReason::NotUtf8 => "not_utf8",
            UnreadableReason::TooLarge => "too_large",
            UnreadableReason::TooCostly => "too_costly",
        }
    }
}

/// A reply from which nothing could be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Unreadable {
    /// Why.
    pub reason: UnreadableReason,
    /// Byte offset of the place, where there is one.
    pub at: Option<usize>,
    /// The parts that were dropped, where there were parts.
    pub dropped: Vec<Dropped>,
}

impl Unreadable {
    pub(super) fn new(reason: UnreadableReason) -> Unreadable {
        Unreadable { reason, at: None, dropped: Vec::new() }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.reason.as_str())?;
        formatter.write_str(match self.reason {
            UnreadableReason::Empty => "the reply is empty",
            UnreadableReason::NoJson => "the reply holds no JSON",
            UnreadableReason::ReasoningOnly => "the reply ends inside its reasoning",
            UnreadableReason::NoAnswer => "the reply holds JSON, but not the object that was asked for",
            UnreadableReason::Broken => "the answer is not JSON, and no repair of it is certain",
            UnreadableReason::TooDeep => "the reply nests deeper than any answer does",
            UnreadableReason::Cut => "the reply was cut before anything in it was complete",
            UnreadableReason::NothingAccepted => "nothing in the reply could be accepted",
            UnreadableReason::NotUtf8 => "the reply is not UTF-8 text",
            UnreadableReason::TooLarge => "the reply is longer than the limit",
            UnreadableReason::TooCostly => "the reply has too many values, or takes too long to look through",
        })?;
        if let Some(at) = self.at {
            write!(formatter, " (byte {at})")?;
        }
        // The first few say enough; the rest is in `dropped`.
        for dropped in self.dropped.iter().take(3) {
            write!(formatter, "; {dropped}")?;
        }
        Ok(())
    }
}

/// A piece of found text, short enough for a report.
pub(super) fn shown(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut kept: String =
        text.chars().take(SHOWN).map(|character| if character.is_control() { ' ' } else { character }).collect();
    if text.chars().nth(SHOWN).is_some() {
        kept.push('…');
    }
    kept
}
