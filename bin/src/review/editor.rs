//! The reviewer's editor: `$VISUAL`, `$EDITOR` or vi, on a file that only the reviewer may read.

use std::io::Write as _;
use std::process::Command;

use crate::failure::Failure;

/// What came of an editor.
pub(crate) struct Edited {
    /// The text as it was left.
    pub(crate) text: String,
    file: tempfile::NamedTempFile,
}

impl Edited {
    /// Keeps the file, for a text that could not be taken.
    pub(crate) fn keep(self) -> Option<std::path::PathBuf> {
        self.file.keep().ok().map(|(_, path)| path)
    }
}

/// Opens the editor and waits for its end.
pub(crate) fn edit(text: &str) -> Result<Edited, Failure> {
    let folder = std::env::temp_dir();
    let failed = |action: &str, error: &std::io::Error| Failure::io(action, &folder, error);
    let mut file = tempfile::Builder::new()
        .prefix("cognilog-edit-")
        .suffix(".txt")
        .tempfile()
        .map_err(|error| failed("write into", &error))?;
    file.write_all(text.as_bytes()).map_err(|error| failed("write into", &error))?;
    let named = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = named("VISUAL").or_else(|| named("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    // The variable is a command line, as for git: `code --wait` has an argument of its own.
    let status =
        Command::new("sh").arg("-c").arg(format!("{editor} \"$@\"")).arg(&editor).arg(file.path()).status().map_err(
            |error| Failure::new(1, "editor_failed", format!("the editor {editor:?} cannot be run: {error}")),
        )?;
    if !status.success() {
        return Err(Failure::new(
            1,
            "editor_failed",
            format!("the editor {editor:?} failed ({status}): nothing is decided"),
        )
        .with_hint("set $EDITOR to your editor"));
    }
    let text = std::fs::read_to_string(file.path()).map_err(|error| Failure::io("read", file.path(), &error))?;
    Ok(Edited { text, file })
}
