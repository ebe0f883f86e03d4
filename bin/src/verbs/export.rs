//! `export`: a trace's `cognition_log.json`, now or as it was, or all of them.

use std::io::Write;
use std::path::Path;

use cognilog::{At, Engine, Profile, TraceId};

use super::Place;
use super::mirror::mirror;
use crate::arguments::{ExportArguments, ProfileChoice};
use crate::failure::Failure;
use crate::output::{Output, note, printable, shown};

pub(crate) fn run(place: &Place, arguments: &ExportArguments, output: &mut Output) -> Result<u8, Failure> {
    let profile = match arguments.profile {
        ProfileChoice::Native => Profile::Native,
        ProfileChoice::Python => Profile::Python,
    };
    if let Some(folder) = &arguments.all {
        let Some(folder) = folder.as_ref().or(place.settings.folder.as_ref()) else {
            return Err(Failure::usage("--all needs a folder")
                .with_hint("name it behind --all, or set [json_files] folder in cognilog.toml"));
        };
        let engine = place.read()?;
        if arguments.follow {
            return mirror(place, &engine, folder, output);
        }
        return all(&engine, folder, profile, output);
    }
    let engine = place.read()?;
    let name = arguments.trace.as_deref().unwrap_or_default();
    let trace = TraceId::new(name.strip_prefix("trace:").unwrap_or(name)).map_err(cognilog::Error::from)?;
    let at = match (arguments.at_sequence, arguments.at_position) {
        (Some(sequence), _) => At::Sequence(sequence),
        (None, Some(position)) => At::Position(position.of(&engine)?),
        (None, None) => At::Head,
    };
    let text = engine.export_at(&trace, at, profile)?;
    match &arguments.output {
        Some(path) => {
            write_whole(path, &text)?;
            note(&format!("wrote {} ({} bytes)", shown(path), text.len()));
        }
        None => {
            output.raw(&text)?;
            // A terminal gets its line ended; a pipe gets the file's bytes and nothing else.
            if output.is_terminal() && !text.ends_with('\n') {
                output.raw("\n")?;
            }
        }
    }
    Ok(0)
}

fn all(engine: &Engine, folder: &Path, profile: Profile, output: &mut Output) -> Result<u8, Failure> {
    let traces = engine.traces()?;
    for trace in &traces {
        let id = TraceId::new(trace.trace_id.clone()).map_err(cognilog::Error::from)?;
        let path = folder.join(id.folder_name()).join("cognition_log.json");
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|error| Failure::io("create", parent, &error))?;
        write_whole(&path, &engine.export_at(&id, At::Head, profile)?)?;
        if output.json {
            output.object(&serde_json::json!({ "trace_id": trace.trace_id, "path": path }))?;
        } else {
            output.line(&format!("{}  {}", shown(&path), printable(&trace.trace_id, 80)))?;
        }
    }
    note(&format!("{} traces", traces.len()));
    Ok(0)
}

/// Writes a file whole or not at all: a reader never sees a mixture of old and new.
fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // The temporary file's own message would name a file that the user never heard of.
    if let Err(error) = std::fs::metadata(folder) {
        return Err(Failure::io("write into the folder", folder, &error).with_hint("make the folder first"));
    }
    let mut file =
        tempfile::NamedTempFile::new_in(folder).map_err(|error| Failure::io("write into", folder, &error))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.as_file().sync_all())
        .map_err(|error| Failure::io("write", path, &error))?;
    // A temporary file is private; an export is a file like any other.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(mode).map_err(|error| Failure::io("write", path, &error))?;
    file.persist(path).map_err(|error| Failure::io("write", path, &error.error))?;
    Ok(())
}
