//! The store directory: its manifest, its lock, its head file, and how it comes to be.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as Moment};

use cognilog_core::{Instant, Position};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::record::ChainHash;

/// The format of the directory and the log in it; 0 is unstable and opened by the same build only.
pub const FORMAT: u32 = 0;
/// Told apart within format 0; raised with every change of what is stored.
const LAYOUT: u32 = 5;

const MANIFEST: &str = "MANIFEST.json";
const LOCK: &str = "LOCK";
pub(crate) const HEAD: &str = "head";
/// The log database's file name.
pub(crate) const DATABASE: &str = "log.redb";

/// What a store says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The format.
    pub format: u32,
    /// Told apart within format 0.
    pub layout: u32,
    /// The store's identity.
    pub store_id: String,
    /// Raised by a restore.
    pub epoch: u64,
    /// Whether it is a backup, which only `restore` makes a store of that can be written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backup: bool,
}

impl Manifest {
    pub(crate) fn new(store_id: String) -> Manifest {
        Manifest { format: FORMAT, layout: LAYOUT, store_id, epoch: 1, backup: false }
    }
}

/// The head as the `head` file keeps it: how far the log had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The epoch that the position belongs to.
    pub epoch: u64,
    /// The last position.
    pub position: Position,
    /// The chain after it.
    pub chain: ChainHash,
}

impl std::fmt::Display for Head {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}.", self.epoch, self.position)?;
        self.chain.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl std::str::FromStr for Head {
    type Err = String;

    fn from_str(text: &str) -> Result<Head, String> {
        let wrong = || format!("{text:?} is not a head: expected EPOCH.POSITION.HASH");
        let mut parts = text.trim().splitn(3, '.');
        let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok()).ok_or_else(wrong);
        let (epoch, position) = (number()?, number()?);
        let digits = parts.next().filter(|digits| digits.len() == 64 && digits.is_ascii()).ok_or_else(wrong)?;
        let mut chain = [0; 32];
        for (index, byte) in chain.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[index * 2..index * 2 + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Head { epoch, position: Position(position), chain })
    }
}

/// How long the writer's lock is asked for at the least.
const INSTANT: Duration = Duration::from_millis(50);

/// The lock of the one writer; released when dropped.
#[derive(Debug)]
pub(crate) struct WriterLock {
    _file: File,
}

#[derive(Serialize, Deserialize)]
struct Holder {
    pid: u32,
    host: String,
    since: String,
}

/// An existing store directory.
#[derive(Clone, Debug)]
pub struct StoreDirectory {
    path: PathBuf,
    manifest: Manifest,
}

impl StoreDirectory {
    /// Reads what stands at a path.
    ///
    /// # Errors
    /// There is nothing, it is not a whole store, or it has another format.
    pub fn open(path: &Path) -> Result<StoreDirectory, StoreError> {
        let not_a_store = |reason: String| StoreError::NotAStore { path: path.to_owned(), reason };
        match fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(StoreError::NotFound { path: path.to_owned() });
            }
            Err(error) => return Err(StoreError::io("look at", path, &error)),
            Ok(metadata) if !metadata.is_dir() => return Err(not_a_store("it is a file, not a directory".to_owned())),
            Ok(_) => {}
        }
        let text = match fs::read_to_string(path.join(MANIFEST)) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
                return if empty {
                    Err(StoreError::NotFound { path: path.to_owned() })
                } else {
                    Err(not_a_store(format!("it has no {MANIFEST}")))
                };
            }
            Err(error) => return Err(StoreError::io("read", &path.join(MANIFEST), &error)),
        };
        let manifest: Manifest =
            serde_json::from_str(&text).map_err(|error| not_a_store(format!("{MANIFEST} cannot be read: {error}")))?;
        if (manifest.format, manifest.layout) != (FORMAT, LAYOUT) {
            return Err(StoreError::Format {
                path: path.to_owned(),
                found: format!("{}.{}", manifest.format, manifest.layout),
                supported: format!("{FORMAT}.{LAYOUT}"),
            });
        }
        let directory = StoreDirectory { path: path.to_owned(), manifest };
        if !directory.database().is_file() {
            return Err(not_a_store(format!(
                "{MANIFEST} is there and {DATABASE} is missing; restore it from a backup"
            )));
        }
        Ok(directory)
    }

    /// The directory's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the store says of itself.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The log database's path.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Takes the writer's lock, waiting for another holder up to `wait`.
    ///
    /// # Errors
    /// It is still held, or the file system refuses.
    pub(crate) fn lock(&self, wait: Duration) -> Result<WriterLock, StoreError> {
        let path = self.path.join(LOCK);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|error| StoreError::io("open", &path, &error))?;
        // Whoever asks for the holder locks the file for an instant: that is no writer, and not worth a refusal.
        let until = Moment::now() + wait.max(INSTANT);
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Moment::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => return Err(held(&mut file)),
                Err(TryLockError::Error(error)) => return Err(StoreError::io("lock", &path, &error)),
            }
        }
        let holder = Holder { pid: std::process::id(), host: host(), since: now().to_text() };
        let text = serde_json::to_string(&holder).unwrap_or_default();
        // The content only helps people to find the holder; the lock itself is what counts.
        let _ = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
        Ok(WriterLock { _file: file })
    }

    /// Who holds the writer's lock now, if anybody does.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn holder(&self) -> Result<Option<String>, StoreError> {
        let path = self.path.join(LOCK);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::io("open", &path, &error)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => match held(&mut file) {
                StoreError::Locked { holder, .. } => Ok(Some(holder)),
                error => Err(error),
            },
            Err(TryLockError::Error(error)) => Err(StoreError::io("lock", &path, &error)),
        }
    }

    /// Reads the `head` file; absent in a store that was never closed.
    ///
    /// # Errors
    /// It is there and is not a head.
    pub fn head(&self) -> Result<Option<Head>, StoreError> {
        let path = self.path.join(HEAD);
        match fs::read_to_string(&path) {
            // An empty file is what a power loss leaves of one that was just renamed into place.
            Ok(text) if text.is_empty() => Ok(None),
            Ok(text) => text.parse().map(Some).map_err(|reason| StoreError::NotAStore { path, reason }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", &path, &error)),
        }
    }

    /// Writes the `head` file whole or not at all; not synced, for it must never be ahead of the log.
    pub(crate) fn write_head(&self, head: &Head) -> Result<(), StoreError> {
        let temporary = self.path.join("head.new");
        fs::write(&temporary, format!("{head}\n")).map_err(|error| StoreError::io("write", &temporary, &error))?;
        let path = self.path.join(HEAD);
        fs::rename(&temporary, &path).map_err(|error| StoreError::io("rename", &path, &error))
    }
}

fn held(file: &mut File) -> StoreError {
    let mut text = String::new();
    let holder: Option<Holder> = file.read_to_string(&mut text).ok().and_then(|_| serde_json::from_str(&text).ok());
    match holder {
        Some(holder) => StoreError::Locked {
            holder: format!("process {} on {} since {}", holder.pid, holder.host, holder.since),
            pid: Some(holder.pid),
        },
        None => StoreError::Locked { holder: "a process that has not said its name yet".to_owned(), pid: None },
    }
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The system clock.
pub(crate) fn now() -> Instant {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Instant(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let write = || {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| StoreError::io("write", path, &error))
}

/// The steps of making a store, in order; tests stop between any two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreationStep {
    /// A directory with a temporary name stands beside the path.
    DirectoryMade,
    /// The empty log is in it and synced.
    LogMade,
    /// The manifest is in it and synced.
    ManifestWritten,
    /// It has its name.
    Renamed,
    /// The folder above is synced.
    Synced,
}

/// Makes a store beside the path and renames it into place, so that a crash leaves nothing or all of it.
///
/// An empty directory at the path is taken over. `attempt` tells the directory apart that it is built in. `after` is told each step and may stop there.
///
/// # Errors
/// Something stands at the path, or the file system refuses; nothing is left at the path then.
pub(crate) fn create(
    path: &Path,
    manifest: &Manifest,
    attempt: &str,
    make_log: impl FnMut(&Path) -> Result<(), StoreError>,
    after: &dyn Fn(CreationStep) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    match StoreDirectory::open(path) {
        Ok(_) | Err(StoreError::Format { .. }) => return Err(StoreError::AlreadyExists { path: path.to_owned() }),
        Err(StoreError::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    let absolute = std::path::absolute(path).map_err(|error| StoreError::io("resolve", path, &error))?;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(StoreError::NotAStore {
            path: path.to_owned(),
            reason: "it is no place for a directory".to_owned(),
        });
    };
    fs::create_dir_all(parent).map_err(|error| StoreError::io("create", parent, &error))?;
    let temporary = parent.join(format!(".{}.new-{}", name.to_string_lossy(), attempt));
    let made = make(&absolute, parent, &temporary, manifest, make_log, after);
    if made.is_err() {
        // What a failed attempt leaves has a name of its own and is in nobody's way if it cannot be removed.
        let _ = fs::remove_dir_all(&temporary);
    }
    made
}

fn make(
    path: &Path,
    parent: &Path,
    temporary: &Path,
    manifest: &Manifest,
    mut make_log: impl FnMut(&Path) -> Result<(), StoreError>,
    after: &dyn Fn(CreationStep) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    fs::create_dir(temporary).map_err(|error| StoreError::io("create", temporary, &error))?;
    after(CreationStep::DirectoryMade)?;
    make_log(&temporary.join(DATABASE))?;
    after(CreationStep::LogMade)?;
    let text = serde_json::to_string_pretty(manifest).unwrap_or_default() + "\n";
    write_synced(&temporary.join(MANIFEST), text.as_bytes())?;
    sync_directory(temporary)?;
    after(CreationStep::ManifestWritten)?;
    // Nobody writes to the store before it is there for good, so that it can still be taken back.
    let held = StoreDirectory { path: temporary.to_owned(), manifest: manifest.clone() }.lock(Duration::ZERO)?;
    // Renaming over an empty directory replaces it; over one that is not empty it fails, as it should.
    fs::rename(temporary, path).map_err(|error| StoreError::io("rename into place", path, &error))?;
    let settled =
        after(CreationStep::Renamed).and_then(|()| sync_directory(parent)).and_then(|()| after(CreationStep::Synced));
    if settled.is_err() {
        let _ = fs::rename(path, temporary);
    }
    drop(held);
    settled
}

fn sync_directory(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|error| StoreError::io("sync", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_they_print() {
        let head = Head { epoch: 1, position: Position(42), chain: [0xab; 32] };
        assert_eq!(head.to_string().parse(), Ok(head));
        for wrong in ["", "1.2", "1.2.zz", "x.2.ab", &format!("1.2.{}", "é".repeat(32))] {
            assert!(wrong.parse::<Head>().is_err(), "{wrong}");
        }
    }
}
