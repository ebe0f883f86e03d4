//! The state machine of an extraction: pending → reviewed → committed (DESIGN section 8).
//!
//! Every decision makes a new version and names it; a decision on a version that is no longer the latest is a
//! conflict. Until the commit any decision may be replaced or withdrawn. A withdrawal returns the item to pending with
//! its text as it was edited last; only undoing an edit brings the text before it back.

use crate::Instant;
use crate::event::{CommitOutcome, ReviewDecision};
use crate::limits::PENDING_DAYS;

/// Where an extraction stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExtractionState {
    /// Waits for a person.
    Pending,
    /// Approved as it is; a commit takes it.
    Approved,
    /// Approved with changes; a commit takes it.
    Edited,
    /// Left.
    Discarded,
    /// In the hub, or found equal to what is there.
    Committed,
}

impl ExtractionState {
    /// The word for people and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ExtractionState::Pending => "pending",
            ExtractionState::Approved => "approved",
            ExtractionState::Edited => "edited",
            ExtractionState::Discarded => "discarded",
            ExtractionState::Committed => "committed",
        }
    }

    /// Whether a commit would take it.
    #[must_use]
    pub fn is_approved(self) -> bool {
        matches!(self, ExtractionState::Approved | ExtractionState::Edited)
    }
}

/// Why a decision or an outcome is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractionRejection {
    /// The decision was made on a version that is no longer the latest.
    #[error("decided on version {seen}, the latest is {latest}: look at it again")]
    StaleVersion {
        /// The version that was seen.
        seen: u64,
        /// The latest version.
        latest: u64,
    },
    /// The extraction is in the hub.
    #[error("already committed: a decision can no longer be changed")]
    AlreadyCommitted,
    /// There is no decision to take back.
    #[error("nothing to withdraw: the extraction was never reviewed")]
    NothingToWithdraw,
    /// An edit without a field.
    #[error("nothing to edit: no field was changed")]
    NothingEdited,
    /// An edit that leaves no knowledge.
    #[error("edited to empty: discard it if it is to be left")]
    EditedToEmpty,
    /// The decision that is to be undone does not stand, or another one stands on it.
    #[error("version {version} cannot be undone: the decision that counts is version {latest}")]
    NotUndoable {
        /// The version that was to be undone.
        version: u64,
        /// The version of the decision that counts; 0 for none.
        latest: u64,
    },
    /// Only approved extractions are committed.
    #[error("not approved: an extraction that is {state} is not committed", state = .state.as_str())]
    NotApproved {
        /// Where it stands.
        state: ExtractionState,
    },
    /// A word that this build does not know.
    #[error("unknown decision or outcome")]
    UnknownWord,
}

/// What a decision makes of an extraction, seen at `seen` while `latest` is the newest version.
///
/// # Errors
/// See [`ExtractionRejection`].
pub fn decide_review(
    state: ExtractionState,
    latest: u64,
    seen: u64,
    decision: ReviewDecision,
) -> Result<ExtractionState, ExtractionRejection> {
    if seen != latest {
        return Err(ExtractionRejection::StaleVersion { seen, latest });
    }
    if state == ExtractionState::Committed {
        return Err(ExtractionRejection::AlreadyCommitted);
    }
    match decision {
        ReviewDecision::APPROVE => Ok(ExtractionState::Approved),
        ReviewDecision::EDIT => Ok(ExtractionState::Edited),
        ReviewDecision::DISCARD => Ok(ExtractionState::Discarded),
        ReviewDecision::WITHDRAW if state == ExtractionState::Pending => Err(ExtractionRejection::NothingToWithdraw),
        ReviewDecision::WITHDRAW => Ok(ExtractionState::Pending),
        _ => Err(ExtractionRejection::UnknownWord),
    }
}

/// Checks the text that an edit leaves: an extraction without content is no knowledge.
///
/// # Errors
/// Nothing but white space is left.
pub fn check_edited(content: &str) -> Result<(), ExtractionRejection> {
    if content.trim().is_empty() { Err(ExtractionRejection::EditedToEmpty) } else { Ok(()) }
}

/// The decisions that stand, by their places in a history whose versions count from 1: each is given as the version that
/// it undoes, if it undoes one. An undo takes the decision before it away, if that is the one it names; an undo that
/// names another one, as no writer of ours makes it, counts as a decision of its own.
#[must_use]
pub fn standing_decisions(undoes: impl IntoIterator<Item = Option<u64>>) -> Vec<usize> {
    let mut standing: Vec<usize> = Vec::new();
    for (index, undone) in undoes.into_iter().enumerate() {
        match (undone, standing.last()) {
            (Some(version), Some(top)) if *top as u64 + 1 == version => drop(standing.pop()),
            _ => standing.push(index),
        }
    }
    standing
}

/// Decides to undo the decision that made `version`, while `standing` are the decisions that stand. Gives the place of
/// the decision that counts afterwards, none when the extraction is pending as it came.
///
/// # Errors
/// It is committed, or the decision is not the one that counts.
pub fn decide_undo(
    state: ExtractionState,
    standing: &[usize],
    version: u64,
) -> Result<Option<usize>, ExtractionRejection> {
    if state == ExtractionState::Committed {
        return Err(ExtractionRejection::AlreadyCommitted);
    }
    match standing.split_last() {
        Some((top, before)) if *top as u64 + 1 == version => Ok(before.last().copied()),
        top => {
            let latest = top.map_or(0, |(top, _)| *top as u64 + 1);
            Err(ExtractionRejection::NotUndoable { version, latest })
        }
    }
}

/// Whole days since an extraction was made.
#[must_use]
pub fn age_days(extracted: Instant, now: Instant) -> i64 {
    now.0.saturating_sub(extracted.0).max(0) / MICROSECONDS_A_DAY
}

/// Whether an extraction has been pending for so long that it is pointed out: longer than `days`,
/// [`PENDING_DAYS`] unless a setting says otherwise (memory document, section 九).
#[must_use]
pub fn is_overdue(extracted: Instant, now: Instant, days: Option<u32>) -> bool {
    let limit = i64::from(days.unwrap_or(PENDING_DAYS)).saturating_mul(MICROSECONDS_A_DAY);
    now.0.saturating_sub(extracted.0) > limit
}

const MICROSECONDS_A_DAY: i64 = 24 * 3_600 * 1_000_000;

/// What the outcome of a commit makes of an extraction: a failed one stays as it was.
///
/// # Errors
/// The extraction is not approved, or the outcome is not known.
pub fn decide_commit(state: ExtractionState, outcome: CommitOutcome) -> Result<ExtractionState, ExtractionRejection> {
    if !state.is_approved() {
        return Err(ExtractionRejection::NotApproved { state });
    }
    match outcome {
        CommitOutcome::SAVED | CommitOutcome::SKIPPED => Ok(ExtractionState::Committed),
        CommitOutcome::FAILED | CommitOutcome::UNANSWERED => Ok(state),
        _ => Err(ExtractionRejection::UnknownWord),
    }
}

/// What an event that is in the log makes of an extraction. The log is the truth, so nothing is refused here: a
/// decision that came after the commit, or an outcome without an approval, as logs of other writers have, counts as
/// far as it can.
#[must_use]
pub fn fold_review(state: ExtractionState, decision: ReviewDecision) -> ExtractionState {
    decide_review(state, 0, 0, decision).unwrap_or(state)
}

/// As [`fold_review`], for the outcome of a commit.
#[must_use]
pub fn fold_commit(state: ExtractionState, outcome: CommitOutcome) -> ExtractionState {
    match outcome {
        CommitOutcome::SAVED | CommitOutcome::SKIPPED => ExtractionState::Committed,
        _ => state,
    }
}

#[cfg(test)]
mod tests {
    use super::ExtractionState::*;
    use super::*;

    #[test]
    fn review_table() {
        let check = |state, decision, expect: Result<ExtractionState, ExtractionRejection>| {
            assert_eq!(decide_review(state, 3, 3, decision), expect, "{state:?} {decision}");
        };
        for state in [Pending, Approved, Edited, Discarded] {
            check(state, ReviewDecision::APPROVE, Ok(Approved));
            check(state, ReviewDecision::EDIT, Ok(Edited));
            check(state, ReviewDecision::DISCARD, Ok(Discarded));
            check(state, ReviewDecision::UNKNOWN, Err(ExtractionRejection::UnknownWord));
        }
        for state in [Approved, Edited, Discarded] {
            check(state, ReviewDecision::WITHDRAW, Ok(Pending));
        }
        check(Pending, ReviewDecision::WITHDRAW, Err(ExtractionRejection::NothingToWithdraw));
        for decision in ReviewDecision::ALL {
            check(Committed, *decision, Err(ExtractionRejection::AlreadyCommitted));
        }
        assert_eq!(
            decide_review(Pending, 3, 2, ReviewDecision::APPROVE),
            Err(ExtractionRejection::StaleVersion { seen: 2, latest: 3 })
        );
    }

    #[test]
    fn commit_table() {
        let check = |state, outcome, expect: Result<ExtractionState, ExtractionRejection>| {
            assert_eq!(decide_commit(state, outcome), expect, "{state:?} {outcome}");
        };
        for state in [Approved, Edited] {
            check(state, CommitOutcome::SAVED, Ok(Committed));
            check(state, CommitOutcome::SKIPPED, Ok(Committed));
            check(state, CommitOutcome::FAILED, Ok(state));
            check(state, CommitOutcome::UNANSWERED, Ok(state));
            check(state, CommitOutcome::UNKNOWN, Err(ExtractionRejection::UnknownWord));
        }
        for state in [Pending, Discarded, Committed] {
            for outcome in CommitOutcome::ALL {
                check(state, *outcome, Err(ExtractionRejection::NotApproved { state }));
            }
        }
    }

    #[test]
    fn undo_table() {
        let check = |undoes: &[Option<u64>], expect: &[usize]| {
            assert_eq!(standing_decisions(undoes.iter().copied()), expect, "{undoes:?}");
        };
        check(&[], &[]);
        check(&[None, None], &[0, 1]);
        check(&[None, Some(1)], &[]);
        check(&[None, None, Some(2), Some(1)], &[]);
        check(&[None, None, Some(2), None], &[0, 3]);
        // An undo that names a decision which does not stand on top takes nothing away.
        check(&[None, None, Some(1)], &[0, 1, 2]);
        check(&[Some(1)], &[0]);
        check(&[None, Some(0)], &[0, 1]);

        assert_eq!(decide_undo(Approved, &[0], 1), Ok(None));
        assert_eq!(decide_undo(Discarded, &[0, 3], 4), Ok(Some(0)));
        assert_eq!(decide_undo(Approved, &[0, 3], 1), Err(ExtractionRejection::NotUndoable { version: 1, latest: 4 }));
        assert_eq!(decide_undo(Pending, &[], 1), Err(ExtractionRejection::NotUndoable { version: 1, latest: 0 }));
        assert_eq!(decide_undo(Committed, &[0], 1), Err(ExtractionRejection::AlreadyCommitted));
    }

    #[test]
    fn edits_and_ages() {
        for content in ["", " ", "\n\t", "\u{3000}"] {
            assert_eq!(check_edited(content), Err(ExtractionRejection::EditedToEmpty), "{content:?}");
        }
        assert_eq!(check_edited("知"), Ok(()));
        let day = MICROSECONDS_A_DAY;
        let check = |extracted: i64, now: i64, days: Option<u32>, expect: (i64, bool)| {
            let (extracted, now) = (Instant(extracted), Instant(now));
            assert_eq!((age_days(extracted, now), is_overdue(extracted, now, days)), expect);
        };
        check(0, 30 * day, None, (30, false));
        check(0, 30 * day + 1, None, (30, true));
        check(0, 8 * day, Some(7), (8, true));
        check(0, 1, Some(0), (0, true));
        check(5 * day, 0, None, (0, false));
        check(i64::MIN, i64::MAX, None, (i64::MAX / day, true));
    }

    #[test]
    fn folding_never_refuses() {
        assert_eq!(fold_review(Committed, ReviewDecision::DISCARD), Committed);
        assert_eq!(fold_review(Pending, ReviewDecision::WITHDRAW), Pending);
        assert_eq!(fold_commit(Pending, CommitOutcome::SAVED), Committed);
        assert_eq!(fold_commit(Approved, CommitOutcome::FAILED), Approved);
    }
}
