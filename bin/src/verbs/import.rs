//! `import`: a Python agent's files, once or for as long as they grow.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use cognilog::{Engine, FileOutcome, FileReport, ImportOptions, OnFork};

use super::Place;
use crate::arguments::{ForkChoice, ImportArguments};
use crate::failure::Failure;
use crate::output::{Output, note, printable, shown};

/// How often a watched tree is looked at.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn run(place: &Place, arguments: &ImportArguments, output: &mut Output) -> Result<u8, Failure> {
    let mut options = ImportOptions::default();
    options.on_fork = match arguments.on_fork {
        ForkChoice::Refuse => OnFork::Refuse,
        ForkChoice::Append => OnFork::Append,
        ForkChoice::NewTrace => OnFork::NewTrace,
    };
    if let Some(zone) = arguments.tz.as_ref().or(place.settings.time_zone.as_ref()) {
        options.zone = cognilog::time::Zone::named(zone).map_err(cognilog::Error::from)?;
    }
    let or_setting = |flag: &Option<String>, setting: &Option<String>| flag.clone().or_else(|| setting.clone());
    options.identity = or_setting(&arguments.identity, &place.settings.identity);
    options.agent_type = or_setting(&arguments.agent_type, &place.settings.agent_type);
    options.owner = or_setting(&arguments.owner, &place.settings.owner);
    options.messages.clone_from(&arguments.messages);
    let is_archive = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "ndjson");
    if arguments.paths.iter().any(is_archive) {
        if !arguments.paths.iter().all(is_archive) || arguments.watch {
            return Err(Failure::usage("an archive (.ndjson) is imported by itself, without other files or --watch"));
        }
        return archives(place, &arguments.paths, output);
    }
    // Paths are looked at before a store is made, so that a typing error leaves nothing behind.
    let mut files = 0;
    for path in &arguments.paths {
        files += cognilog::find_files(path)?.len();
    }
    if options.messages.is_some() && arguments.paths.len() != 1 {
        return Err(Failure::usage("--messages takes one PATH: the trace that the messages belong to"));
    }
    if files == 0 && !arguments.watch {
        note("no cognition_log.json or knowledge_log.json is there: nothing was imported");
        if output.json {
            output.array(&[] as &[FileReport])?;
        }
        return Ok(0);
    }
    let engine = place.write_or_create()?;
    if arguments.watch {
        return watch(&engine, &arguments.paths, &options, output);
    }
    let reports = import_all(&engine, &arguments.paths, &options)?;
    let failed = reports.iter().filter(|report| report.is_failure()).count();
    if output.json {
        output.array(&reports)?;
    } else {
        for report in &reports {
            print(report, output)?;
        }
        let added: usize = reports.iter().map(|report| report.added).sum();
        let amended: usize = reports.iter().map(|report| report.amended).sum();
        let known: usize = reports.iter().map(|report| report.known).sum();
        let files = reports.len();
        let not_imported = if failed > 0 { format!(", {failed} files not imported") } else { String::new() };
        output.line(&format!(
            "{files} files: {added} events added, {amended} amended, {known} known already{not_imported}"
        ))?;
    }
    engine.close()?;
    Ok(u8::from(failed > 0))
}

/// Imports what `log --ndjson` printed: every event with its identity.
fn archives(place: &Place, paths: &[PathBuf], output: &mut Output) -> Result<u8, Failure> {
    for path in paths {
        std::fs::metadata(path).map_err(|error| Failure::io("look at", path, &error))?;
    }
    let engine = place.write_or_create()?;
    for path in paths {
        let report = engine.import_archive(path)?;
        if output.json {
            output.object(&serde_json::json!({ "path": path, "added": report.added, "known": report.known }))?;
        } else {
            let (added, known) = (report.added, report.known);
            output.line(&format!("{}: {added} events added, {known} known already", path.display()))?;
        }
    }
    engine.close()?;
    Ok(0)
}

fn import_all(engine: &Engine, paths: &[PathBuf], options: &ImportOptions) -> Result<Vec<FileReport>, Failure> {
    let mut reports = Vec::new();
    for path in paths {
        reports.extend(engine.import(path, options)?);
    }
    Ok(reports)
}

pub(crate) fn print(report: &FileReport, output: &mut Output) -> Result<(), Failure> {
    let path = shown(&report.path);
    let trace = printable(report.trace_id.as_deref().unwrap_or("-"), 60);
    match &report.outcome {
        FileOutcome::Imported => {
            let (added, amended, known) = (report.added, report.amended, report.known);
            output.line(&format!("imported   {path} as {trace}: {added} added, {amended} amended, {known} known"))?;
        }
        FileOutcome::Unchanged => output.line(&format!("unchanged  {path} as {trace}: {} known", report.known))?,
        FileOutcome::Skipped { reason } => output.line(&format!("skipped    {path}: {}", printable(reason, 400)))?,
        FileOutcome::Failed { reason } => note(&format!("failed     {path}: {}", printable(reason, 400))),
        FileOutcome::Forked { index, ours, theirs } => {
            note(&format!("forked     {path} as {trace}: event {index} differs"));
            note(&format!("           log:  {}", printable(ours, 300)));
            note(&format!("           file: {}", printable(theirs, 300)));
            note("hint: --on-fork append records the file's events behind the log's, --on-fork new-trace apart");
        }
        outcome => note(&format!("{path}: {}", printable(&format!("{outcome:?}"), 400))),
    }
    if !report.problems.is_empty() {
        // The streams may go to one terminal: what was said of the file so far stands in front.
        output.flush()?;
    }
    for problem in &report.problems {
        note(&format!("noted      {path}: {}", printable(problem, 300)));
    }
    Ok(())
}

/// What tells that a file changed.
#[derive(PartialEq, Eq)]
pub(crate) struct Mark {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

pub(crate) fn mark(path: &std::path::Path) -> Option<Mark> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some(Mark { modified: metadata.modified().ok(), bytes: metadata.len(), inode: metadata.ino() })
}

/// A file that could not be imported at the last look.
struct Trouble {
    since: Instant,
    outcome: FileOutcome,
    told: bool,
}

/// Imports what changes, until the program is stopped. A file that fails is named once and tried again until it does
/// not.
fn watch(engine: &Engine, paths: &[PathBuf], options: &ImportOptions, output: &mut Output) -> Result<u8, Failure> {
    note(&format!("watching {} paths; stop with Ctrl-C", paths.len()));
    let mut seen: HashMap<PathBuf, Mark> = HashMap::new();
    // A file that is caught half written is tried again at the next look instead of holding up the others.
    let mut options = options.clone();
    let patience = std::mem::take(&mut options.patience);
    let mut troubles: HashMap<PathBuf, Trouble> = HashMap::new();
    let mut unlisted: Option<String> = None;
    loop {
        for path in paths {
            // The agent makes and removes folders as it likes: one that goes away under the look is no end.
            let files = match cognilog::find_files(path) {
                Ok(files) => files,
                Err(error) => {
                    let message = error.to_string();
                    if unlisted.as_ref() != Some(&message) {
                        note(&format!("waiting: cannot {}", printable(&message, 400)));
                        unlisted = Some(message);
                    }
                    continue;
                }
            };
            for file in files {
                // The mark is taken before the file is read: a change meanwhile shows at the next look.
                let Some(now) = mark(&file) else { continue };
                if seen.get(&file) == Some(&now) {
                    continue;
                }
                let report = engine.import_file(&file, &options)?;
                // A truncated file may be finished within the resolution of its time of change.
                if !matches!(report.outcome, FileOutcome::Failed { .. }) {
                    seen.insert(file.clone(), now);
                }
                if !report.is_failure() {
                    troubles.remove(&file);
                    if report.outcome == FileOutcome::Imported {
                        show(&report, output)?;
                    }
                    continue;
                }
                let trouble = Trouble { since: Instant::now(), outcome: report.outcome.clone(), told: false };
                let known = troubles.entry(file).or_insert(trouble);
                // A writer needs a moment: only what stays wrong is told, and what went another way at once.
                let is_due = matches!(report.outcome, FileOutcome::Forked { .. }) || known.since.elapsed() >= patience;
                if is_due && (!known.told || known.outcome != report.outcome) {
                    (known.told, known.outcome) = (true, report.outcome.clone());
                    show(&report, output)?;
                }
            }
        }
        std::thread::sleep(WATCH_INTERVAL);
    }
}

fn show(report: &FileReport, output: &mut Output) -> Result<(), Failure> {
    if output.json {
        output.object(report)?
    } else {
        print(report, output)?
    }
    output.flush()
}
