//! The search for the answer in a reply: every value that has the shape that was asked for, in order.

use super::parse::{Attempt, Budget, Mode, Stop, attempt, skip_white};
use super::reasoning::{Mark, mark_at};
use super::report::{Dropped, RepairKind, Repairs, Unreadable, UnreadableReason};
use super::unwrap::{Schema, Shape, Unwrapping};
use super::value::Value;

/// Items that belong to one answer.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) items: Vec<Value>,
    shape: Shape,
    /// Where the answer ends.
    end: usize,
}

/// What was found in a reply.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The answers, in the reply's order. There is at least one.
    pub(super) candidates: Vec<Candidate>,
    pub(super) repairs: Repairs,
    pub(super) dropped: Vec<Dropped>,
}

/// Looks through a reply.
///
/// A reply that is one JSON value is taken as that. Else the text is walked from the left: reasoning is skipped, and at
/// each bracket a value is tried. A value that was read is never looked into again, so nothing that stands inside a
/// string is taken for the answer. An answer that was begun after others and cannot be read withdraws the others all
/// the same: what it would have said is not known, and a withdrawn verdict is worse than none.
pub(super) fn find(text: &str, schema: &Schema) -> Result<Found, Unreadable> {
    let start = skip_white(text, 0);
    if start == text.len() {
        return Err(Unreadable::new(UnreadableReason::Empty));
    }
    let (budget, found) = (Budget::of(text), Found::default());
    let mut scan = Scan { text, schema, budget, found, failure: None, has_json: false };
    if text.starts_with('\u{feff}') {
        scan.found.repairs.note(RepairKind::ByteOrderMark, 0);
    }
    if !scan.whole(start)? {
        scan.walk(start)?;
        scan.found.repairs.note(RepairKind::TextAround, start);
    }
    match scan.found.candidates.is_empty() {
        false => Ok(scan.found),
        true => {
            let (reason, at) = scan.failure.unwrap_or((UnreadableReason::NoJson, start));
            Err(Unreadable { reason, at: Some(at), dropped: scan.found.dropped })
        }
    }
}

struct Scan<'t> {
    text: &'t str,
    schema: &'t Schema,
    budget: Budget,
    found: Found,
    /// Why the most promising place was no answer.
    failure: Option<(UnreadableReason, usize)>,
    /// Whether a value with members was seen: escaped quotes behind it are inside of its strings.
    has_json: bool,
}

impl Scan<'_> {
    fn attempt(&mut self, at: usize, mode: Mode) -> Result<Attempt, Unreadable> {
        let attempt = attempt(self.text, at, mode, self.schema.anchors, &mut self.budget);
        match attempt.value {
            Err(Stop::TooCostly) => Err(too_costly(attempt.at)),
            _ => Ok(attempt),
        }
    }

    /// Takes the whole reply as one value, and tells whether it is one.
    fn whole(&mut self, start: usize) -> Result<bool, Unreadable> {
        let attempt = self.attempt(start, Mode::Plain)?;
        let is_whole = !attempt.is_cut && skip_white(self.text, attempt.at) == self.text.len();
        match attempt.value {
            Ok(value) if is_whole => {
                self.take(value, start, attempt.at, &attempt.repairs)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn walk(&mut self, start: usize) -> Result<(), Unreadable> {
        let mut at = start;
        while let Some(length) = self.text[at..].find(['{', '[', '<', '｛', '［', '◁']) {
            at += length;
            let character = self.text[at..].chars().next().unwrap_or_default();
            let may_be_mark = matches!(character, '<' | '[' | '◁');
            let next = match may_be_mark.then(|| mark_at(self.text, at)).flatten() {
                Some(Mark::Closed(end)) => {
                    self.found.repairs.note(RepairKind::Reasoning, at);
                    self.fail(UnreadableReason::ReasoningOnly, at);
                    end
                }
                Some(Mark::End(end)) => {
                    self.found.repairs.note(RepairKind::Reasoning, start);
                    self.withdraw();
                    end
                }
                Some(Mark::Open) => {
                    // The model went on to think and ran out: what it had said before was not its last word.
                    self.withdraw();
                    self.fail(UnreadableReason::ReasoningOnly, at);
                    return Ok(());
                }
                None if matches!(character, '<' | '◁') => at + 1,
                None => match self.value_at(at)? {
                    Some(next) => next.max(at + 1),
                    None => return Ok(()),
                },
            };
            at = self.text.ceil_char_boundary(next);
        }
        Ok(())
    }

    /// Tries the value at a bracket. Gives where to go on; none if all that follows may be inside of it.
    fn value_at(&mut self, at: usize) -> Result<Option<usize>, Unreadable> {
        if is_escaped(&self.text[at..]) && !std::mem::replace(&mut self.has_json, true) {
            return self.escaped_value_at(at);
        }
        let mut attempt = self.attempt(at, Mode::Plain)?;
        // Only an answer is worth a guess.
        if attempt.has_anchor && (attempt.is_cut || attempt.value == Err(Stop::Broken)) {
            let guess = self.attempt(at, Mode::Guess)?;
            if guess.value.is_ok() && !guess.is_cut {
                attempt = guess;
            }
        }
        self.has_json |= attempt.has_member;
        // Brackets of prose often stand before an answer; braces with a key of the answer are an answer.
        let is_list = self.text[at..].starts_with(['[', '［']);
        let is_answer = attempt.has_anchor && !is_list;
        let end = attempt.at;
        match attempt.value {
            Ok(value) if !attempt.is_cut => {
                self.take(value, at, end, &attempt.repairs)?;
                Ok(Some(end))
            }
            Ok(value) => {
                if (attempt.has_anchor && self.take_cut(value, at, end, &attempt.repairs)?) || is_answer {
                    return Ok(None);
                }
                let is_json = attempt.has_member;
                self.fail(if is_json { UnreadableReason::NoAnswer } else { UnreadableReason::NoJson }, end);
                Ok((is_list || !is_json).then_some(at + 1))
            }
            Err(stop) => {
                self.fail(
                    match stop {
                        Stop::TooDeep => UnreadableReason::TooDeep,
                        _ if attempt.has_anchor => UnreadableReason::Broken,
                        _ => UnreadableReason::NoJson,
                    },
                    end,
                );
                if is_answer {
                    return Ok(self.behind_broken(at, stop == Stop::Ellipsis || !attempt.has_text));
                }
                let goes_on_behind = stop == Stop::TooDeep || (attempt.has_member && !is_list);
                Ok(Some(if goes_on_behind { end } else { at + 1 }))
            }
        }
    }

    /// Where to go on behind an answer that is no JSON. What follows may be its own strings, with an example of an
    /// answer in them, so only behind a template (`{"evaluations": [...]}` in prose) anything counts.
    fn behind_broken(&mut self, at: usize, is_template: bool) -> Option<usize> {
        if !is_template {
            self.withdraw();
            return None;
        }
        let mut open = 0_usize;
        for (offset, character) in self.text[at..].char_indices() {
            match character {
                '{' | '[' | '｛' | '［' => open += 1,
                '}' | ']' | '｝' | '］' => open -= 1,
                _ => continue,
            }
            if open == 0 {
                return Some(at + offset + character.len_utf8());
            }
        }
        None
    }

    /// A value all of whose quotes are escaped: the inside of a JSON string without that string's own quotes.
    fn escaped_value_at(&mut self, at: usize) -> Result<Option<usize>, Unreadable> {
        let text = unescape(&self.text[at..]);
        let inner = attempt(&text, 0, Mode::Plain, self.schema.anchors, &mut self.budget);
        match inner.value {
            Err(Stop::TooCostly) => Err(too_costly(at)),
            Ok(value) if !inner.is_cut => {
                self.found.repairs.note(RepairKind::DoubleEncoded, at);
                self.take(value, at, self.text.len(), &inner.repairs)?;
                Ok(None)
            }
            _ => Ok(Some(at + 1)),
        }
    }

    /// Takes a whole value if it is an answer.
    fn take(&mut self, value: Value, start: usize, end: usize, repairs: &Repairs) -> Result<(), Unreadable> {
        match self.unwrap(value)? {
            Some((items, shape)) => {
                self.found.repairs.add(repairs);
                self.push(Candidate { items, shape, end }, start);
            }
            None => self.fail(UnreadableReason::NoAnswer, start),
        }
        Ok(())
    }

    /// Takes what is complete of an answer that was cut off, and tells whether there is any.
    fn take_cut(&mut self, value: Value, start: usize, end: usize, repairs: &Repairs) -> Result<bool, Unreadable> {
        let is_list = matches!(value, Value::List { .. });
        // A list that ends before its first item is no empty answer.
        let unwrapped = self.unwrap(value)?.filter(|(items, _)| !items.is_empty());
        let is_item = |shape: &Shape| *shape == Shape::Bare;
        let follows_items = self.found.candidates.last().is_some_and(|last| is_item(&last.shape));
        self.found.dropped.push(Dropped::Cut { at: end });
        match unwrapped {
            Some((items, shape)) => {
                // The lines of an answer that has an item a line stay; any other answer before this one is withdrawn.
                if !(is_item(&shape) && follows_items) {
                    self.withdraw();
                }
                self.fail(UnreadableReason::Cut, end);
                self.found.repairs.add(repairs);
                self.found.repairs.note(RepairKind::Cut, end);
                self.push(Candidate { items, shape, end }, start);
                Ok(true)
            }
            None if is_list => Ok(false),
            None => {
                if !follows_items {
                    self.withdraw();
                }
                self.fail(UnreadableReason::Cut, end);
                Ok(false)
            }
        }
    }

    fn unwrap(&mut self, value: Value) -> Result<Option<(Vec<Value>, Shape)>, Unreadable> {
        let mut context = Unwrapping { budget: &mut self.budget, repairs: Repairs::default(), dropped: Vec::new() };
        let items = self.schema.unwrap(value, &mut context)?;
        self.found.dropped.append(&mut context.dropped);
        if items.is_some() {
            self.found.repairs.add(&context.repairs);
        }
        Ok(items)
    }

    fn push(&mut self, candidate: Candidate, start: usize) {
        let is_gap = |text: &str| text.chars().all(|character| character.is_whitespace() || character == ',');
        match self.found.candidates.last_mut() {
            Some(last)
                if last.shape == Shape::Bare
                    && candidate.shape == Shape::Bare
                    && self.text.get(last.end..start).is_some_and(is_gap) =>
            {
                last.items.extend(candidate.items);
                last.end = candidate.end;
            }
            _ => self.found.candidates.push(candidate),
        }
    }

    fn withdraw(&mut self) {
        self.found.candidates.clear();
    }

    fn fail(&mut self, reason: UnreadableReason, at: usize) {
        let weight = |reason: UnreadableReason| match reason {
            UnreadableReason::NoJson => 0,
            UnreadableReason::ReasoningOnly => 1,
            UnreadableReason::NoAnswer => 2,
            UnreadableReason::TooDeep => 3,
            _ => 4,
        };
        if self.failure.is_none_or(|(earlier, _)| weight(reason) >= weight(earlier)) {
            self.failure = Some((reason, at));
        }
    }
}

/// Whether a bracket opens a value all of whose quotes are escaped.
fn is_escaped(rest: &str) -> bool {
    let inside = |character: char| matches!(character, '{' | '[') || character.is_whitespace();
    // Line breaks are escaped there too. A short look is enough, and keeps the walk linear.
    let mut rest = &rest[..rest.floor_char_boundary(64)];
    for _ in 0..8 {
        rest = rest.trim_start_matches(inside);
        match rest.strip_prefix("\\n") {
            Some(after) => rest = after,
            None => break,
        }
    }
    rest.starts_with("\\\"")
}

/// The content of a JSON string up to the quote that ends it, or all of it. Unicode escapes are left to the parser.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => match characters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(quoted @ ('"' | '\\' | '/')) => out.push(quoted),
                Some(other) => out.extend(['\\', other]),
                None => break,
            },
            other => out.push(other),
        }
    }
    out
}

fn too_costly(at: usize) -> Unreadable {
    Unreadable { reason: UnreadableReason::TooCostly, at: Some(at), dropped: Vec::new() }
}
