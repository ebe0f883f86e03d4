//! Finding the store of a folder, as git finds its own.

use std::path::{Path, PathBuf};

/// The folder a store has when nobody names another.
pub const STORE_FOLDER: &str = ".cognilog";

/// The nearest [`STORE_FOLDER`] at `from` or above it.
#[must_use]
pub fn find_store(from: &Path) -> Option<PathBuf> {
    from.ancestors().map(|folder| folder.join(STORE_FOLDER)).find(|candidate| candidate.is_dir())
}
