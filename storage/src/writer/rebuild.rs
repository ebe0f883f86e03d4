//! Making a projection's rows again in its idle slot, in small jobs, and flipping to it in one commit.

use std::ops::ControlFlow;

use redb::ReadableTable;

use std::sync::Arc;

use cognilog_core::Position;

use super::flush::{write_rows, write_standing};
use super::{Writer, begin, lock};
use crate::error::StoreError;
use crate::fold::{Fold, apply_fold, fingerprint};
use crate::projector::{Pointer, ROWS, Tally};
use crate::rows::{Bytes, Layered, RowMap, RowSource};
use crate::snapshot::{FoldState, Snapshot};

impl Writer {
    /// The first projection that waits to be rebuilt; behind these, one whose idle slot still has the rows that served
    /// before.
    pub(super) fn rebuilding(&self) -> Option<usize> {
        self.database.as_ref()?;
        if lock(&self.shared.stopped).is_some() {
            return None;
        }
        let pointers = || {
            let is_known = |pointer: &Pointer| self.folds.iter().any(|fold| fold.name() == pointer.name);
            self.standing.pointers.iter().enumerate().filter(move |(_, pointer)| is_known(pointer))
        };
        let waits = pointers().find(|(_, pointer)| pointer.rebuilt_to.is_some());
        let left = || pointers().find(|(_, pointer)| pointer.tallies[1 - pointer.serving].rows > 0);
        waits.or_else(left).map(|(which, _)| which)
    }

    pub(super) fn plan_rebuild(&mut self, names: &[String]) -> Result<(), StoreError> {
        let known: Vec<&'static str> = self.folds.iter().map(|fold| fold.name()).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(StoreError::NoSuchProjection { name: name.clone() });
        }
        for name in known {
            let wanted = names.is_empty() || names.iter().any(|wanted| wanted == name);
            if let Some(pointer) = self.standing.pointer(name).filter(|_| wanted) {
                pointer.rebuilt_to = Some(0);
            }
        }
        Ok(())
    }

    /// Folds the next events of the first projection that waits; flips it when it has reached the head.
    pub(super) fn rebuild_step(&mut self) -> Result<(), StoreError> {
        let Some(which) = self.rebuilding() else { return Ok(()) };
        if self.standing.pointers[which].rebuilt_to.is_none() {
            return self.clear_some(which);
        }
        if self.standing.pointers[which].rebuilt_to == Some(0) {
            // Rows in memory that belong to the slot, from when it served, would be written over the new ones.
            self.flush_all()?;
        }
        let snapshot = lock(&self.shared.published).clone();
        let mut standing = self.standing.clone();
        let pointer = standing.pointers[which].clone();
        let Some(fold) = self.folds.iter().find(|fold| fold.name() == pointer.name).cloned() else {
            return Ok(());
        };
        let idle = 1 - pointer.serving;
        let slot = pointer.slots[idle];
        let done = Position(pointer.rebuilt_to.unwrap_or(0));
        let database = self.database.as_ref().ok_or(StoreError::ReadOnly)?;
        let transaction = begin(database)?;
        if done == Position::START {
            clear_slot(&transaction, slot)?;
            standing.pointers[which].tallies[idle] = Default::default();
        }
        let to = Position((done.0 + self.limits.rebuild_events as u64).min(snapshot.head.0));
        let Remade { rows, stopped } = match remake(&*fold, &snapshot, slot, done, to) {
            Ok(remade) => remade,
            Err(error @ (StoreError::Damaged { .. } | StoreError::Body { .. })) => {
                drop(transaction);
                return self.give_up(which, done, error);
            }
            Err(error) => return Err(error),
        };
        write_rows(&transaction, rows.iter().map(|(key, row)| (key, row.as_ref())), &mut standing)?;
        let finished = to == snapshot.head || stopped.is_some();
        let pointer = &mut standing.pointers[which];
        if finished {
            pointer.serving = idle;
            pointer.version = fold.version();
            pointer.fingerprint = fingerprint(&*fold);
            pointer.checkpoint = stopped.as_ref().map_or(to.0, |(position, _)| position.0 - 1);
            pointer.rebuilt_to = None;
        } else {
            pointer.rebuilt_to = Some(to.0);
            pointer.rebuilt_with = fingerprint(&*fold);
        }
        write_standing(&transaction, &standing)?;
        transaction.commit()?;
        self.standing = standing;
        let state = match stopped {
            Some((position, message)) => FoldState::Stopped { position, message },
            None if finished => FoldState::Live,
            None => FoldState::Rebuilding { done: to.0 },
        };
        self.publish_place(fold.name(), finished.then_some(slot), state)
    }

    /// Removes some of the rows that served before the flip: what is left of them would be damage that no rebuild mends,
    /// and text that no erasure reaches.
    fn clear_some(&mut self, which: usize) -> Result<(), StoreError> {
        let mut standing = self.standing.clone();
        let idle = 1 - standing.pointers[which].serving;
        let slot = standing.pointers[which].slots[idle];
        let database = self.database.as_ref().ok_or(StoreError::ReadOnly)?;
        let transaction = begin(database)?;
        let keys = {
            let table = transaction.open_table(ROWS)?;
            let range = table.range::<&[u8]>(&[slot][..]..&[slot + 1][..])?.take(self.limits.flush_slice_rows);
            range.map(|entry| Ok(Bytes::from(entry?.0.value()))).collect::<Result<Vec<_>, StoreError>>()?
        };
        write_rows(&transaction, keys.iter().map(|key| (key, None)), &mut standing)?;
        if keys.len() < self.limits.flush_slice_rows {
            standing.pointers[which].tallies[idle] = Tally::default();
        }
        write_standing(&transaction, &standing)?;
        transaction.commit()?;
        self.standing = standing;
        self.publish(|_| ())
    }

    /// Leaves the rows that serve as they are: new ones cannot be made from a log that is damaged.
    fn give_up(&mut self, which: usize, done: Position, error: StoreError) -> Result<(), StoreError> {
        let pointer = &mut self.standing.pointers[which];
        pointer.rebuilt_to = None;
        let name = pointer.name.clone();
        let message = format!("it cannot be rebuilt: {error}");
        self.rebuild_failed = Some(error);
        let state = FoldState::Stopped { position: done.next(), message };
        self.publish_place(&name, None, state)
    }

    fn publish_place(&mut self, name: &str, slot: Option<u8>, state: FoldState) -> Result<(), StoreError> {
        let mut snapshot = lock(&self.shared.published).clone();
        let mut places = snapshot.folds.to_vec();
        for place in places.iter_mut().filter(|place| place.name == name) {
            match slot {
                Some(slot) => {
                    place.slot = slot;
                    place.state = state.clone();
                }
                // A forced rebuild beside a live slot: the old rows go on serving until the flip.
                None if place.state == FoldState::Live => {}
                None => place.state = state.clone(),
            }
        }
        snapshot.folds = Arc::new(places);
        self.publish(|published| *published = snapshot)
    }
}

/// Rows made of some events, and the event that the fold could not take.
struct Remade {
    rows: RowMap,
    stopped: Option<(Position, String)>,
}

fn remake(fold: &dyn Fold, snapshot: &Snapshot, slot: u8, done: Position, to: Position) -> Result<Remade, StoreError> {
    let mut remade = Remade { rows: RowMap::new(), stopped: None };
    // At the start the snapshot still sees the rows that the slot held when it last served.
    let stored: Option<&dyn RowSource> = if done == Position::START { None } else { Some(&*snapshot.rows) };
    snapshot.visit(done.next(), to, |event| {
        let applied = event.with_view(|view| {
            let layered = Layered::new(vec![&remade.rows], stored);
            apply_fold(fold, &layered, &[slot], view)
        })??;
        match applied {
            Ok(changes) => {
                remade.rows.extend(changes);
                Ok(ControlFlow::Continue(()))
            }
            Err(message) => {
                remade.stopped = Some((event.envelope().position, message));
                Ok(ControlFlow::Break(()))
            }
        }
    })?;
    Ok(remade)
}

fn clear_slot(transaction: &redb::WriteTransaction, slot: u8) -> Result<(), StoreError> {
    let mut table = transaction.open_table(ROWS)?;
    let (from, to) = ([slot], [slot + 1]);
    let any = table.range::<&[u8]>(&from[..]..&to[..])?.next().is_some();
    if any {
        table.retain_in::<&[u8], _>(&from[..]..&to[..], |_, _| false)?;
    }
    Ok(())
}
