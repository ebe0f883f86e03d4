//! Faults that a store must never have, made on purpose: a check that does not find them proves nothing.

use redb::{Database, ReadableDatabase};

use super::SimulatedDisk;
use crate::error::StoreError;
use crate::projector::{STANDING, STANDING_KEY};

/// The log in `after` as if its flushes had written their rows and not the checkpoints: rows of `after`, checkpoints of
/// `before`, which is an earlier image of the same log.
///
/// # Errors
/// One of the images is no log.
pub fn flush_without_checkpoint(before: &[u8], after: &[u8]) -> Result<Vec<u8>, StoreError> {
    let standing = {
        let database = open(&SimulatedDisk::from_image(before.to_vec()))?;
        let table = database.begin_read()?.open_table(STANDING)?;
        table.get(STANDING_KEY)?.map(|sealed| sealed.value().to_vec())
    };
    let disk = SimulatedDisk::from_image(after.to_vec());
    let database = open(&disk)?;
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(STANDING)?;
        match &standing {
            Some(standing) => table.insert(STANDING_KEY, standing.as_slice())?.map(drop),
            // Nothing was flushed before: there was no checkpoint.
            None => table.remove(STANDING_KEY)?.map(drop),
        };
    }
    transaction.commit()?;
    database.close().map_err(|error| StoreError::Database { message: error.to_string() })?;
    Ok(disk.image())
}

fn open(disk: &SimulatedDisk) -> Result<Database, StoreError> {
    let mut builder = Database::builder();
    builder.set_concurrency_mode(redb::ConcurrencyMode::SingleWriter);
    Ok(builder.create_with_backend(disk.backend())?)
}
