//! Where a model's reasoning begins and ends in its reply.

/// Marks that open and close reasoning; letters of either case.
const MARKS: [(&str, &str); 10] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<analysis>", "</analysis>"),
    ("<reflection>", "</reflection>"),
    ("<scratchpad>", "</scratchpad>"),
    ("[think]", "[/think]"),
    ("◁think▷", "◁/think▷"),
];
/// The same in the channel notation, where the answer's own mark ends the reasoning.
const CHANNELS: [&str; 2] = ["<|channel|>analysis", "<|channel|>commentary"];
const FINAL_CHANNEL: &str = "<|channel|>final";

/// What stands at a place of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Reasoning that ends before this place.
    Closed(usize),
    /// Reasoning that never ends.
    Open,
    /// The end of reasoning whose beginning is not there: everything before this place is reasoning.
    End(usize),
}

/// The mark at a place, if there is one.
pub(super) fn mark_at(text: &str, at: usize) -> Option<Mark> {
    for (open, close) in MARKS {
        if starts_with(text, at, close) {
            return Some(Mark::End(at + close.len()));
        }
        if starts_with(text, at, open) {
            return Some(match find(text, at, close) {
                Some(found) => Mark::Closed(found + close.len()),
                None => Mark::Open,
            });
        }
    }
    if starts_with(text, at, FINAL_CHANNEL) {
        return Some(Mark::End(at + FINAL_CHANNEL.len()));
    }
    if CHANNELS.into_iter().any(|open| starts_with(text, at, open)) {
        return Some(find(text, at, FINAL_CHANNEL).map_or(Mark::Open, Mark::Closed));
    }
    None
}

fn starts_with(text: &str, at: usize, mark: &str) -> bool {
    let bytes = text.as_bytes().get(at..at + mark.len());
    bytes.is_some_and(|bytes| bytes.eq_ignore_ascii_case(mark.as_bytes()))
}

fn find(text: &str, from: usize, mark: &str) -> Option<usize> {
    let first = mark.as_bytes().first()?;
    let mut at = from;
    loop {
        at += text.as_bytes().get(at..)?.iter().position(|byte| byte == first)?;
        if starts_with(text, at, mark) {
            return Some(at);
        }
        at += 1;
    }
}
