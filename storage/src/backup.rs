//! `backup` and `restore`: a whole copy of a log in a store directory of its own, built beside it and renamed.

use std::path::Path;
use std::sync::Arc;

use crate::copy::{Copied, OnDamage, Source, copy_log};
use crate::directory::{self, CreationStep, Head, Manifest, StoreDirectory, now};
use crate::error::StoreError;
use crate::inspect::LogFile;
use crate::limits::Limits;
use crate::store::{Store, StoreOptions, database_builder};
use crate::writer::Opener;

/// Tells each step of making a copy; may stop there with an error. How tests stop between any two steps.
pub type AfterStep<'s> = dyn Fn(CreationStep) -> Result<(), StoreError> + 's;

impl Store {
    /// Copies the log as it is now into a new store directory at `to`, with its projections, while appends go on. Every
    /// checksum, digest and link of the chain is checked on the way. The copy is made beside `to` and renamed: there is
    /// all of it or nothing.
    ///
    /// The copy is marked as a backup: it can be read and checked, and `restore` makes a store of it.
    ///
    /// # Errors
    /// Something stands at `to`, the log is damaged, or the disk refuses; nothing is left at `to` then.
    pub fn backup(&self, to: &Path, options: &StoreOptions, on_damage: OnDamage) -> Result<Copied, StoreError> {
        let Some(directory) = self.directory() else { return Err(StoreError::ReadOnly) };
        if !self.is_writer() {
            // This handle's own state would hold on to the space that the writer frees meanwhile.
            return backup_store(directory.path(), to, options, on_damage, &|_| Ok(()));
        }
        let mut source = || Ok(Arc::clone(&self.log()?.blocks));
        copy_store(&mut source, &as_backup(directory.manifest()), to, options, on_damage, &|_| Ok(()))
    }
}

/// Copies the store at `from` as [`Store::backup`] does, beside its writer or without one.
///
/// # Errors
/// As [`Store::backup`]; and there is no store at `from`, or it needs a repair first.
pub fn backup_store(
    from: &Path,
    to: &Path,
    options: &StoreOptions,
    on_damage: OnDamage,
    after: &AfterStep<'_>,
) -> Result<Copied, StoreError> {
    let log = LogFile::open(from, &options.limits)?;
    let manifest = as_backup(log.directory().manifest());
    copy_store(&mut || Ok(Arc::new(log.blocks()?)), &manifest, to, options, on_damage, after)
}

/// Makes a store at `to` of the backup (or store) at `from`. It is of a new epoch: positions behind the backup are given
/// again to other events, so whoever still holds one of before is told.
///
/// # Errors
/// As [`backup_store`].
pub fn restore_store(
    from: &Path,
    to: &Path,
    options: &StoreOptions,
    on_damage: OnDamage,
    after: &AfterStep<'_>,
) -> Result<Copied, StoreError> {
    let log = LogFile::open(from, &options.limits)?;
    let manifest = log.directory().manifest();
    // Seconds since 1970 and not the next number: the same backup may be restored twice, and both must differ.
    let seconds = u64::try_from((options.clock)().0 / 1_000_000).unwrap_or(0);
    let manifest = Manifest { epoch: seconds.max(manifest.epoch + 1), backup: false, ..manifest.clone() };
    copy_store(&mut || Ok(Arc::new(log.blocks()?)), &manifest, to, options, on_damage, after)
}

fn as_backup(manifest: &Manifest) -> Manifest {
    Manifest { backup: true, ..manifest.clone() }
}

fn copy_store(
    source: &mut Source<'_>,
    manifest: &Manifest,
    to: &Path,
    options: &StoreOptions,
    on_damage: OnDamage,
    after: &AfterStep<'_>,
) -> Result<Copied, StoreError> {
    let mut copied = None;
    let make_log = |log: &Path| {
        let ended = copy_log(source, log, &manifest.store_id, &options.limits, on_damage)?;
        build_projections(log, manifest.epoch, options)?;
        let head = Head { epoch: manifest.epoch, position: ended.position, chain: ended.chain };
        directory::write_synced(&log.with_file_name(directory::HEAD), format!("{head}\n").as_bytes())?;
        copied = Some(Copied { events: ended.position.0, head, damage: ended.damage });
        Ok(())
    };
    // Two copies at once have directories of their own to be built in.
    let number = crate::store::new_event_id(now())?;
    directory::create(to, manifest, &number.to_string(), make_log, after)?;
    copied.ok_or_else(|| StoreError::Database { message: "the copy was not made".to_owned() })
}

/// Opens a copied log once, so that its projections are made and written.
fn build_projections(log: &Path, epoch: u64, options: &StoreOptions) -> Result<(), StoreError> {
    let (path, limits): (_, Limits) = (log.to_owned(), options.limits.clone());
    let opener: Opener = Box::new(move || Ok(database_builder(&limits).open(&path)?));
    let store = Store::start(None, None, epoch, opener, options.clone())?;
    store.wait_rebuilt()?;
    store.flush()?;
    store.close()?;
    std::fs::File::open(log).and_then(|file| file.sync_all()).map_err(|error| StoreError::io("sync", log, &error))
}

impl StoreDirectory {
    /// Whether it is a backup: it can be read, and only `restore` makes a store of it that can be written.
    #[must_use]
    pub fn is_backup(&self) -> bool {
        self.manifest().backup
    }
}
