//! Everything a disk was told, kept so that the power can be lost at each operation without living through it again.

use super::{Logged, Medium, Operation, Standing, Tear};

/// The operations of a disk since [`super::SimulatedDisk::record`], and what it held then.
#[derive(Clone)]
pub struct Recording {
    first: u64,
    start: Medium,
    steps: Vec<(u64, Step)>,
}

#[derive(Clone)]
enum Step {
    Operation(Operation),
    Sync(fn(&mut Medium)),
}

impl Recording {
    pub(super) fn new(first: u64, start: Medium) -> Recording {
        Recording { first, start, steps: Vec::new() }
    }

    pub(super) fn push_operation(&mut self, ordinal: u64, operation: Operation) {
        self.steps.push((ordinal, Step::Operation(operation)));
    }

    pub(super) fn push_sync(&mut self, ordinal: u64, change: fn(&mut Medium)) {
        self.steps.push((ordinal, Step::Sync(change)));
    }

    /// How many operations it spans.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.steps.last().map_or(0, |(last, _)| usize::try_from(last + 1 - self.first).unwrap_or(usize::MAX))
    }

    /// Walks through the recording; at first nothing of it has happened.
    #[must_use]
    pub fn crash_points(&self) -> CrashPoints<'_> {
        CrashPoints { medium: self.start.clone(), steps: &self.steps, ordinal: self.first }
    }
}

/// A place in a [`Recording`], at which the power can be lost in every way.
pub struct CrashPoints<'r> {
    medium: Medium,
    steps: &'r [(u64, Step)],
    ordinal: u64,
}

impl CrashPoints<'_> {
    /// The ordinal of the operation that is next: it and all behind it did not happen.
    #[must_use]
    pub fn ordinal(&self) -> u64 {
        self.ordinal
    }

    /// Operations that may or may not be durable here. With none of them every image is the same.
    #[must_use]
    pub fn uncertain(&self) -> usize {
        self.medium.uncertain()
    }

    /// What the disk would hold after a power loss here, as [`super::SimulatedDisk::crash_image`].
    #[must_use]
    pub fn crash_image(&self, seed: u64, tear: Tear) -> Vec<u8> {
        self.medium.crash_image(seed, tear)
    }

    /// Lets the next operation happen; tells whether there was one.
    pub fn advance(&mut self) -> bool {
        let Some((ordinal, _)) = self.steps.first() else { return false };
        let ordinal = *ordinal;
        while let Some(((_, step), rest)) = self.steps.split_first().filter(|((at, _), _)| *at == ordinal) {
            match step {
                Step::Operation(operation) => {
                    self.medium.log.push(Logged { operation: operation.clone(), standing: Standing::Unsynced });
                }
                Step::Sync(change) => change(&mut self.medium),
            }
            self.steps = rest;
        }
        // Operations that changed nothing, as syncs that lie, are no places of their own.
        self.ordinal = self.steps.first().map_or(ordinal + 1, |(next, _)| *next);
        true
    }
}
