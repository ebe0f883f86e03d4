//! Which side branches a trigger queues, in which order, and when a branch is given up (DESIGN section 7).

use std::collections::BTreeSet;

use crate::event::Trigger;

/// What the agent is asked beside its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SideBranch {
    /// What the sources of pending queries were worth; `knowledge_eval` on the wire.
    Evaluation,
    /// What the agent learned that is worth sharing; `reflection` on the wire.
    Extraction,
    /// A summary that stands for the messages that go; `compression` on the wire.
    Compression,
}

impl SideBranch {
    /// The documents' word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            SideBranch::Evaluation => "knowledge_eval",
            SideBranch::Extraction => "reflection",
            SideBranch::Compression => "compression",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<SideBranch> {
        [SideBranch::Evaluation, SideBranch::Extraction, SideBranch::Compression]
            .into_iter()
            .find(|branch| branch.as_str() == word)
    }
}

/// A source of a query, as it is asked for: by the query's sequence, as the documents' evaluations are.
pub type QuerySourceKey = (i64, String);

/// What a trigger finds.
#[derive(Clone, Copy, Debug)]
pub struct TriggerSituation<'a> {
    /// Sources without an assessment, of the queries that have a sequence.
    pub pending: &'a BTreeSet<QuerySourceKey>,
    /// Those that this trigger has asked for before: it does not ask for them again.
    pub asked: &'a BTreeSet<QuerySourceKey>,
    /// Branches that are queued already, or under way.
    pub queued: &'a [SideBranch],
    /// Whether the trace holds messages or queries: an empty trace extracts nothing.
    pub has_content: bool,
    /// Whether any came since knowledge was last extracted: the same messages are not extracted from again before a
    /// compression, as when the last compression failed. The end of a task looks at the whole.
    pub has_new_content: bool,
    /// `KnowledgeConfig.enable_extraction`.
    pub enable_extraction: bool,
    /// `KnowledgeConfig.enable_completion_extraction`.
    pub enable_completion_extraction: bool,
}

/// The branches that a trigger queues, in order (memory document, section 一.1.3; cognition log document, "评估触发机制";
/// DESIGN section 7).
///
/// A branch that is queued already is not queued twice; what is queued runs first, so an evaluation stands before a
/// compression either way.
#[must_use]
pub fn plan(trigger: Trigger, situation: &TriggerSituation<'_>) -> Vec<SideBranch> {
    let evaluates = situation.pending.difference(situation.asked).next().is_some();
    let extracts = match trigger {
        Trigger::COMPRESSION => situation.enable_extraction && situation.has_new_content,
        Trigger::TASK_COMPLETION => situation.enable_completion_extraction,
        _ => false,
    } && situation.has_content;
    let branches = match trigger {
        Trigger::COMPRESSION => [
            extracts.then_some(SideBranch::Extraction),
            evaluates.then_some(SideBranch::Evaluation),
            Some(SideBranch::Compression),
        ],
        // A trigger of a later build or a person's own asking queues what is asked for, and nothing by itself.
        Trigger::GOAL_COMPLETION | Trigger::TASK_COMPLETION => {
            [evaluates.then_some(SideBranch::Evaluation), extracts.then_some(SideBranch::Extraction), None]
        }
        _ => [None; 3],
    };
    branches.into_iter().flatten().filter(|branch| !situation.queued.contains(branch)).collect()
}

/// Where a branch joins the queue: at its end, but before a compression, which takes away what the others look at.
#[must_use]
pub fn place_in_queue(queue: &[SideBranch], branch: SideBranch) -> usize {
    let compression = queue.iter().position(|queued| *queued == SideBranch::Compression);
    compression.filter(|_| branch != SideBranch::Compression).unwrap_or(queue.len())
}

/// Whether an evaluation comes before the branch that is next: a compression takes away what an evaluation looks at, so a
/// source that came after the trigger is asked for as well (DESIGN section 7: "Compression never runs before the
/// evaluation was attempted").
#[must_use]
pub fn evaluates_first(next: SideBranch, pending: &BTreeSet<QuerySourceKey>, asked: &BTreeSet<QuerySourceKey>) -> bool {
    next == SideBranch::Compression && pending.difference(asked).next().is_some()
}

/// What follows a reply from which nothing could be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// The branch is asked once more, with the error shown.
    Again {
        /// The how-manieth try comes next, from 1.
        attempt: u32,
    },
    /// It is given up, and the queue goes on.
    GiveUp,
}

/// Whether a branch whose `attempt`-th try failed is tried again: at most `1 + retries` times (DESIGN section 7).
#[must_use]
pub fn after_failure(attempt: u32, retries: u32) -> AfterFailure {
    match attempt <= retries {
        true => AfterFailure::Again { attempt: attempt + 1 },
        false => AfterFailure::GiveUp,
    }
}

/// Whether a piece of knowledge is one that was injected: it came out of the hub and is not extracted again as new.
///
/// Texts are compared without regard to white space; what was injected may have been cut ([`crate::cut`]), so a piece
/// that begins with a cut text counts as that text.
#[must_use]
pub fn is_injected<'a>(content: &str, injected: impl IntoIterator<Item = &'a str>) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    let content = plain(content);
    injected.into_iter().any(|injected| {
        let was_cut = injected.chars().count() >= crate::limits::CUT_CHARACTERS;
        let injected = plain(injected);
        !injected.is_empty() && (content == injected || (was_cut && content.starts_with(&injected)))
    })
}

/// Characters of a piece of knowledge from which on it is looked for in memory; shorter ones are words of any text.
const MEMORY_CHARACTERS_MIN: usize = 8;

/// Whether a piece of knowledge stands in the memory that was injected, without regard to white space: memory never
/// becomes knowledge (DESIGN section 10).
#[must_use]
pub fn is_in_memory(content: &str, memory: &str) -> bool {
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    let content = plain(content);
    content.chars().count() >= MEMORY_CHARACTERS_MIN && plain(memory).contains(&content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> BTreeSet<QuerySourceKey> {
        text.split_whitespace().map(|source| (1, source.to_owned())).collect()
    }

    /// `switches`: `e` extraction on, `c` completion extraction on, `m` the trace has messages, `o` it has old ones alone.
    #[track_caller]
    fn check(trigger: Trigger, pending: &str, asked: &str, queued: &[SideBranch], switches: &str, expect: &str) {
        let found = plan(
            trigger,
            &TriggerSituation {
                pending: &keys(pending),
                asked: &keys(asked),
                queued,
                has_content: switches.contains(['m', 'o']),
                has_new_content: switches.contains('m'),
                enable_extraction: switches.contains('e'),
                enable_completion_extraction: switches.contains('c'),
            },
        );
        let found: Vec<&str> = found.into_iter().map(SideBranch::as_str).collect();
        assert_eq!(found.join(" "), expect, "{} {pending:?} {asked:?} {switches:?}", trigger.as_str());
    }

    #[test]
    fn the_documents_trigger_tables() {
        use SideBranch::{Compression, Evaluation, Extraction};
        let goal = Trigger::GOAL_COMPLETION;
        check(goal, "a b", "", &[], "ecm", "knowledge_eval");
        check(goal, "", "", &[], "ecm", "");
        // Asked for before by this trigger: a dead model is not asked for ever. One new source is reason enough.
        check(goal, "a b", "a b", &[], "m", "");
        check(goal, "a b", "a", &[], "m", "knowledge_eval");
        check(goal, "a", "", &[Evaluation], "m", "");

        let compression = Trigger::COMPRESSION;
        check(compression, "a", "", &[], "ecm", "reflection knowledge_eval compression");
        check(compression, "a", "", &[], "cm", "knowledge_eval compression");
        check(compression, "", "", &[], "em", "reflection compression");
        check(compression, "", "", &[], "m", "compression");
        check(compression, "a", "a", &[], "em", "reflection compression");
        check(compression, "a", "", &[], "e", "knowledge_eval compression");
        check(compression, "", "", &[], "eco", "compression");
        // What is queued already runs first, so the evaluation stands before the compression.
        check(compression, "a", "", &[Evaluation], "em", "reflection compression");
        check(compression, "a", "", &[Extraction, Evaluation, Compression], "em", "");

        let end = Trigger::TASK_COMPLETION;
        check(end, "a", "", &[], "ecm", "knowledge_eval reflection");
        check(end, "a", "", &[], "em", "knowledge_eval");
        check(end, "", "", &[], "cm", "reflection");
        check(end, "", "", &[], "eco", "reflection");
        check(end, "", "", &[], "e", "");
        check(end, "", "", &[], "c", "");
        check(end, "a", "a", &[], "cm", "reflection");
        check(end, "a", "", &[Evaluation, Extraction], "cm", "");

        check(Trigger::MANUAL, "a", "", &[], "ecm", "");
    }

    #[test]
    fn nothing_joins_the_queue_behind_a_compression() {
        use SideBranch::{Compression, Evaluation, Extraction};
        for (queue, branch, expect) in [
            (&[][..], Evaluation, 0),
            (&[Evaluation], Extraction, 1),
            (&[Evaluation], Compression, 1),
            (&[Extraction, Compression], Evaluation, 1),
            (&[Compression], Evaluation, 0),
        ] {
            assert_eq!(place_in_queue(queue, branch), expect, "{queue:?} {branch:?}");
        }
    }

    #[test]
    fn a_late_source_is_asked_for_before_a_compression() {
        use SideBranch::{Compression, Evaluation, Extraction};
        for (next, pending, asked, expect) in [
            (Compression, "a", "", true),
            (Compression, "a b", "a", true),
            (Compression, "a", "a", false),
            (Compression, "", "a", false),
            (Extraction, "a", "", false),
            (Evaluation, "a", "", false),
        ] {
            assert_eq!(evaluates_first(next, &keys(pending), &keys(asked)), expect, "{next:?} {pending:?} {asked:?}");
        }
    }

    #[test]
    fn attempts_are_bounded() {
        let tries = |retries| {
            let mut attempt = 1;
            while let AfterFailure::Again { attempt: next } = after_failure(attempt, retries) {
                attempt = next;
            }
            attempt
        };
        assert_eq!([0, 1, 3].map(tries), [1, 2, 4]);
    }

    #[test]
    fn injected_knowledge_is_known_again() {
        let long = "图像放大时先提高强度。".repeat(50);
        let cut = crate::cut::cut(&long);
        assert!(cut.len() < long.len());
        for (content, injected, expect) in [
            ("Raise the  strength\nfirst.", "Raise the strength first.", true),
            ("Raise the strength to 0.4 first.", "Raise the strength first.", false),
            ("Raise the strength first. And more.", "Raise the strength first.", false),
            (&long, cut, true),
            ("", "", false),
            ("anything", "", false),
        ] {
            assert_eq!(is_injected(content, [injected]), expect, "{content:.40} / {injected:.40}");
        }
    }

    #[test]
    fn memory_is_known_again() {
        let memory = "# taste\n- 偏好克制的色彩，不要过度锐化\n- Prefers muted\n  colours.\n";
        for (content, expect) in [
            ("偏好克制的色彩，不要过度锐化", true),
            ("Prefers muted colours.", true),
            ("Prefers loud colours.", false),
            ("taste", false),
            ("", false),
        ] {
            assert_eq!(is_in_memory(content, memory), expect, "{content}");
        }
    }
}
