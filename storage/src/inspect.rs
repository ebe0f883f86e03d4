//! A log as it lies in its directory, opened for reading alone and without its folds: what is looked at when a store is
//! checked or copied, also one that is too damaged to be opened.

use std::path::Path;

use cognilog_core::Position;
use redb::{ReadOnlyDatabase, ReadableDatabase};

use crate::block::StoredBlocks;
use crate::directory::{Head, StoreDirectory};
use crate::error::{StoreError, contained};
use crate::limits::Limits;
use crate::projector::{BLOCKS, check_store, load};
use crate::store::database_builder;
use crate::verify::{Verification, check_head};

/// A log that nothing is asked of but its blocks.
pub(crate) struct LogFile {
    directory: StoreDirectory,
    database: ReadOnlyDatabase,
}

impl LogFile {
    /// Opens the log of the store at a path, beside its writer or without one.
    ///
    /// # Errors
    /// There is no store, its log is another's, or it needs a repair first.
    pub(crate) fn open(path: &Path, limits: &Limits) -> Result<LogFile, StoreError> {
        let directory = StoreDirectory::open(path)?;
        let database = contained(|| Ok(database_builder(limits).open_read_only(directory.database())?))?;
        contained(|| check_store(&database.begin_read()?, &directory))?;
        Ok(LogFile { directory, database })
    }

    pub(crate) fn directory(&self) -> &StoreDirectory {
        &self.directory
    }

    /// The blocks as they are now, in a read transaction of their own.
    pub(crate) fn blocks(&self) -> Result<StoredBlocks, StoreError> {
        contained(|| Ok(StoredBlocks { table: self.database.begin_read()?.open_table(BLOCKS)? }))
    }
}

/// Reads and checks everything that is stored at a path, also where damage keeps the store from being opened: the log
/// with its chain and digests, the head file, the index, each row. A head that was kept elsewhere is held against the
/// log too.
///
/// # Errors
/// There is no store, its log is another's, it needs a repair first, or the head is of another epoch. Damage is a
/// finding.
pub fn verify_store(path: &Path, limits: &Limits, expect: Option<&Head>) -> Result<Verification, StoreError> {
    let log = LogFile::open(path, limits)?;
    let epoch = log.directory.manifest().epoch;
    if let Some(head) = expect.filter(|head| head.epoch != epoch) {
        return Err(StoreError::OtherEpoch { found: head.epoch, expected: epoch });
    }
    let mut found = Verification::default();
    let blocks = match log.blocks() {
        Err(error @ StoreError::Damaged { .. }) => {
            found.log(error.to_string());
            return Ok(found);
        }
        blocks => blocks?,
    };
    let last = match contained(|| crate::verify::verify_blocks(&blocks, Position(u64::MAX), &mut found)) {
        Ok((last, _)) => Some(last),
        Err(error) => {
            found.log(error.to_string());
            None
        }
    };
    let kept_here = log.directory.head();
    let heads = [("the head file", kept_here.as_ref().ok().and_then(Option::as_ref)), ("--expect", expect)];
    for (name, head) in heads {
        let (Some(head), Some(last)) = (head, last) else { continue };
        match contained(|| check_head(&blocks, last, epoch, Some(head))) {
            Ok(()) => {}
            Err(StoreError::HeadMismatch { reason }) => {
                found.log(format!("not the log of {name} {head}: {reason}"));
            }
            Err(error) => found.log(format!("{name} {head} cannot be held against the log: {error}")),
        }
    }
    if let Err(error) = kept_here {
        found.log(error.to_string());
    }
    drop(blocks);
    verify_derived(&log, epoch, limits, &mut found)?;
    Ok(found)
}

/// Checks index and rows. The index holds what no flush has written yet only where the log can be read.
fn verify_derived(log: &LogFile, epoch: u64, limits: &Limits, found: &mut Verification) -> Result<(), StoreError> {
    let loaded = contained(|| {
        let transaction = log.database.begin_read()?;
        let standing = crate::projector::Standing::read(&transaction.open_table(crate::projector::STANDING)?)?;
        let rows = transaction.open_table(crate::projector::ROWS)?;
        Ok((transaction, standing, rows))
    });
    let (transaction, standing, rows) = match loaded {
        Ok(loaded) => loaded,
        Err(error @ StoreError::Damaged { .. }) => {
            found.rows_of(None, error.to_string());
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    if found.findings.is_empty() {
        let indexed = contained(|| {
            let names = crate::snapshot::StreamNames::default();
            let loaded = load(&transaction, &Vec::new(), limits.overlay_events_max * 4, epoch, names)?;
            loaded.snapshot.verify_index(found)
        });
        if let Err(error) = indexed {
            found.index(error.to_string());
        }
    }
    if let Err(error) = contained(|| crate::verify::verify_rows(&rows, &standing, found)) {
        found.rows_of(None, error.to_string());
    }
    Ok(())
}
