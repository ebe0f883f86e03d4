//! What stands around a log: who holds it, what is left over beside it, and what disk it lies on.

use std::path::{Path, PathBuf};

use crate::directory::{Head, StoreDirectory};
use crate::error::StoreError;
use crate::inspect::LogFile;
use crate::limits::Limits;

/// The state of a store's directory and of the disk beneath, found out without opening the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Surroundings {
    /// Who writes to it now.
    pub holder: Option<String>,
    /// Whether it was closed cleanly, or a writer is at it. Otherwise it is repaired when it is opened for writing.
    pub is_clean: bool,
    /// What the head file says, if there is one that can be read.
    pub head: Option<Head>,
    /// Files and directories that an interrupted piece of work left behind.
    pub left_over: Vec<PathBuf>,
    /// The kind of file system, where it is one of other machines or programs: locks and syncs may not hold there.
    pub remote_file_system: Option<&'static str>,
    /// Bytes of the log file.
    pub log_bytes: u64,
    /// Bytes that are free for this user on the disk, where the system tells.
    pub free_bytes: Option<u64>,
}

impl StoreDirectory {
    /// Looks at the directory and the disk beneath, and opens nothing for writing.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn surroundings(&self, limits: &Limits) -> Result<Surroundings, StoreError> {
        let holder = self.holder()?;
        let opened = LogFile::open(self.path(), limits);
        Ok(Surroundings {
            is_clean: holder.is_some() || !matches!(opened, Err(StoreError::NeedsRepair)),
            head: self.head().ok().flatten(),
            left_over: if holder.is_some() { Vec::new() } else { left_over(self.path()) },
            remote_file_system: remote_file_system(self.path()),
            log_bytes: std::fs::metadata(self.database()).map_or(0, |metadata| metadata.len()),
            free_bytes: free_bytes(self.path()),
            holder,
        })
    }
}

/// Files and directories that only work under way has: what is there while nobody works was left by a crash.
fn left_over(path: &Path) -> Vec<PathBuf> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let beside = absolute.file_name().map(|name| format!(".{}.new-", name.to_string_lossy()));
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut found: Vec<PathBuf> =
        entries(path).filter(|entry| named(entry).ends_with(".new")).map(|entry| entry.path()).collect();
    if let (Some(beside), Some(parent)) = (beside, absolute.parent()) {
        found.extend(entries(parent).filter(|entry| named(entry).starts_with(&beside)).map(|entry| entry.path()));
    }
    found.sort();
    found
}

/// File systems that reach over a network or through another program, by the magic numbers of statfs(2).
#[cfg(target_os = "linux")]
fn remote_file_system(path: &Path) -> Option<&'static str> {
    const REMOTE: [(u32, &str); 9] = [
        (0x0000_6969, "nfs"),
        (0x0000_517b, "smb"),
        (0xff53_4d42, "cifs"),
        (0xfe53_4d42, "smb2"),
        (0x6573_5546, "fuse"),
        (0x0102_1997, "9p"),
        (0x00c3_6400, "ceph"),
        (0x5346_414f, "afs"),
        (0x6b41_4653, "afs"),
    ];
    // The field is signed or not and 4 or 8 bytes wide, by machine; the numbers have 32 bits.
    let found = rustix::fs::statfs(path).ok()?.f_type as u32;
    REMOTE.iter().find(|(magic, _)| *magic == found).map(|(_, name)| *name)
}

#[cfg(not(target_os = "linux"))]
fn remote_file_system(_path: &Path) -> Option<&'static str> {
    None
}

fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
