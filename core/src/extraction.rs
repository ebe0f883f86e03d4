//! The state machine of an extraction: pending → reviewed → committed (DESIGN section 8).
//!
//! Every decision makes a new version and names it; a decision on a version that is no longer the latest is a
//! conflict. Until the commit any decision may be replaced or withdrawn; a withdrawal returns the item to pending
//! with its original text, and the edit stays in the history.

use crate::event::{CommitOutcome, ReviewDecision};

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
        CommitOutcome::FAILED => Ok(state),
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
        }
        for state in [Pending, Discarded, Committed] {
            for outcome in CommitOutcome::ALL {
                check(state, *outcome, Err(ExtractionRejection::NotApproved { state }));
            }
        }
    }

    #[test]
    fn folding_never_refuses() {
        assert_eq!(fold_review(Committed, ReviewDecision::DISCARD), Committed);
        assert_eq!(fold_review(Pending, ReviewDecision::WITHDRAW), Pending);
        assert_eq!(fold_commit(Pending, CommitOutcome::SAVED), Committed);
        assert_eq!(fold_commit(Approved, CommitOutcome::FAILED), Approved);
    }
}
