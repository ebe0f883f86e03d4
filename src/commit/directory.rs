//! The sink `directory`: one JSON file for each item, whole or not at all, beneath a folder that it never leaves.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use cognilog_core::TraceId;

use super::{CommitItem, CommitSink, Prepared};
use crate::error::Error;

/// Writes each item to `{folder}/{trace}/{extraction}.json`. The same item again finds its file and changes nothing; a file
/// of that name with another text is never replaced.
#[derive(Debug)]
pub struct DirectorySink {
    folder: Dir,
    path: PathBuf,
}

impl DirectorySink {
    /// Opens the folder, making it if there is none.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn open(path: &Path) -> Result<DirectorySink, Error> {
        std::fs::create_dir_all(path).map_err(|error| Error::io("create", path, &error))?;
        let folder =
            Dir::open_ambient_dir(path, ambient_authority()).map_err(|error| Error::io("open", path, &error))?;
        Ok(DirectorySink { folder, path: path.to_owned() })
    }

    fn write(&self, trace: &str, name: &str, text: &str) -> io::Result<Prepared> {
        let record = format!("{trace}/{name}");
        // Looked at by the handle: a link that leads out of the folder is refused.
        self.folder.create_dir_all(trace)?;
        sync(&self.folder)?;
        let folder = self.folder.open_dir(trace)?;
        match folder.symlink_metadata(name) {
            Ok(metadata) if metadata.is_file() && metadata.len() == text.len() as u64 => {
                if folder.read_to_string(name)? == text {
                    return Ok(Prepared::saved(record));
                }
                return Ok(in_the_way(&record));
            }
            Ok(_) => return Ok(in_the_way(&record)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // What a commit that was cut off left under this name is begun anew.
        let temporary = format!(".{name}.tmp");
        if folder.symlink_metadata(&temporary).is_ok() {
            folder.remove_file(&temporary)?;
        }
        let mut file = folder.open_with(&temporary, OpenOptions::new().write(true).create_new(true))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        folder.rename(&temporary, &folder, name)?;
        sync(&folder)?;
        Ok(Prepared::saved(record))
    }
}

fn in_the_way(record: &str) -> Prepared {
    Prepared::failed(format!("{record} is there with another text: it is left as it is"))
}

/// A new name is on disk once its folder is.
fn sync(folder: &Dir) -> io::Result<()> {
    // The handle itself is for paths only and cannot be synced.
    folder.open(".")?.sync_all()
}

impl CommitSink for DirectorySink {
    fn describe(&self) -> String {
        format!("the folder {}", self.path.display())
    }

    fn prepare(&self, item: &CommitItem) -> Prepared {
        // Names of extractions follow the rule of names of traces; they come from agents.
        let name = match TraceId::new(item.extraction_id()) {
            Ok(id) => format!("{}.json", id.folder_name()),
            Err(error) => return Prepared::failed(format!("its id makes no file name: {error}")),
        };
        let text = match serde_json::to_string_pretty(item) {
            Ok(text) => text + "\n",
            Err(error) => return Prepared::failed(format!("it makes no JSON: {error}")),
        };
        match self.write(&item.trace().folder_name(), &name, &text) {
            Ok(prepared) => prepared,
            // A file that was not renamed into place was not saved, whatever is on disk.
            Err(error) => Prepared::failed(format!("writing {name}: {error}")),
        }
    }
}
