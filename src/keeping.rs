//! Copies of a store: `backup` and `restore`.

use std::path::Path;

use cognilog_storage::{Copied, OnDamage, StoreError, backup_store, restore_store};

use crate::engine::{Engine, EngineOptions, repair, store_options};
use crate::error::Error;

impl Engine {
    /// Copies everything that is recorded now into a new directory, with its projections, while appends go on. Every
    /// checksum, digest and link of the chain is checked on the way, and there is a whole copy in the end or nothing.
    ///
    /// # Errors
    /// Something stands at `to`, the log is damaged, or the disk refuses.
    pub fn backup(&self, to: &Path, on_damage: OnDamage) -> Result<Copied, Error> {
        let options = EngineOptions { limits: self.store().limits().clone(), ..EngineOptions::default() };
        Ok(self.store().backup(to, &store_options(options), on_damage)?)
    }
}

/// Copies the store at `from` into a new directory at `to`, as [`Engine::backup`] does, beside its writer or without one.
///
/// # Errors
/// As [`Engine::backup`]; and there is no store at `from`.
pub fn backup(from: &Path, to: &Path, options: &EngineOptions, on_damage: OnDamage) -> Result<Copied, Error> {
    let copy = || backup_store(from, to, &store_options(options.clone()), on_damage, &|_| Ok(()));
    match copy() {
        Err(StoreError::NeedsRepair) => {
            repair(from, options);
            Ok(copy()?)
        }
        copied => Ok(copied?),
    }
}

/// Makes a store at `to` of the backup at `from`. It is of a new epoch, so that whoever holds a position of before is
/// told: behind the backup, positions are given again to other events.
///
/// # Errors
/// As [`backup`].
pub fn restore(from: &Path, to: &Path, options: &EngineOptions, on_damage: OnDamage) -> Result<Copied, Error> {
    let copy = || restore_store(from, to, &store_options(options.clone()), on_damage, &|_| Ok(()));
    match copy() {
        Err(StoreError::NeedsRepair) => {
            repair(from, options);
            Ok(copy()?)
        }
        copied => Ok(copied?),
    }
}
