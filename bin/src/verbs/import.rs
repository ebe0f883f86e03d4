//! `import`: a Python agent's files, once or for as long as they grow.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use cognilog::{Engine, FileOutcome, FileReport, ImportOptions, OnFork};

use super::Place;
use crate::arguments::{ForkChoice, ImportArguments};
use crate::failure::Failure;
use crate::output::{Output, printable};

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
    // Paths are looked at before a store is made, so that a typing error leaves nothing behind.
    for path in &arguments.paths {
        std::fs::metadata(path).map_err(|error| Failure::io("look at", path, &error))?;
    }
    let engine = place.write_or_create()?;
    if arguments.watch {
        return watch(&engine, &arguments.paths, &options, output);
    }
    let reports = import_all(&engine, &arguments.paths, &options)?;
    let failed = reports.iter().any(FileReport::is_failure);
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
        output.line(&format!("{files} files: {added} events added, {amended} amended, {known} known already"))?;
    }
    engine.close()?;
    Ok(u8::from(failed))
}

fn import_all(engine: &Engine, paths: &[PathBuf], options: &ImportOptions) -> Result<Vec<FileReport>, Failure> {
    let mut files_only = options.clone();
    files_only.messages = None;
    let mut reports = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        let last = index + 1 == paths.len();
        let options = if last && paths.len() == 1 { options } else { &files_only };
        reports.extend(engine.import(path, options)?);
    }
    if options.messages.is_some() && paths.len() != 1 {
        return Err(Failure::usage("--messages takes one PATH: the trace that the messages belong to"));
    }
    Ok(reports)
}

fn print(report: &FileReport, output: &mut Output) -> Result<(), Failure> {
    let path = report.path.display();
    let trace = printable(report.trace_id.as_deref().unwrap_or("-"), 60);
    match &report.outcome {
        FileOutcome::Imported => {
            let (added, amended, known) = (report.added, report.amended, report.known);
            output.line(&format!("imported   {path} as {trace}: {added} added, {amended} amended, {known} known"))?;
        }
        FileOutcome::Unchanged => output.line(&format!("unchanged  {path} as {trace}: {} known", report.known))?,
        FileOutcome::Skipped { reason } => output.line(&format!("skipped    {path}: {reason}"))?,
        FileOutcome::Failed { reason } => eprintln!("failed     {path}: {}", printable(reason, 400)),
        FileOutcome::Forked { index, ours, theirs } => {
            eprintln!("forked     {path} as {trace}: event {index} differs");
            eprintln!("           log:  {}", printable(ours, 300));
            eprintln!("           file: {}", printable(theirs, 300));
            eprintln!("hint: --on-fork append records the file's events behind the log's, --on-fork new-trace apart");
        }
        outcome => eprintln!("{path}: {outcome:?}"),
    }
    for problem in &report.problems {
        eprintln!("           {}", printable(problem, 300));
    }
    Ok(())
}

/// What tells that a file changed.
#[derive(PartialEq, Eq)]
struct Mark {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

fn mark(path: &std::path::Path) -> Option<Mark> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path).ok()?;
    Some(Mark { modified: metadata.modified().ok(), bytes: metadata.len(), inode: metadata.ino() })
}

/// Imports what changes, until the program is stopped. A file that fails is named once and tried again when it changes.
fn watch(engine: &Engine, paths: &[PathBuf], options: &ImportOptions, output: &mut Output) -> Result<u8, Failure> {
    eprintln!("watching {} paths; stop with Ctrl-C", paths.len());
    let mut seen: HashMap<PathBuf, Mark> = HashMap::new();
    // A file that is caught half written is tried again at the next look instead of holding up the others.
    let mut options = options.clone();
    options.patience = Duration::ZERO;
    let mut failures: HashMap<PathBuf, FileOutcome> = HashMap::new();
    loop {
        for path in paths {
            for file in cognilog::find_files(path)? {
                // The mark is taken before the file is read: a change meanwhile shows at the next look.
                let Some(now) = mark(&file) else { continue };
                if seen.get(&file) == Some(&now) {
                    continue;
                }
                let report = engine.import_file(&file, &options)?;
                if report.is_failure() {
                    if failures.get(&file) != Some(&report.outcome) {
                        show(&report, output)?;
                        failures.insert(file.clone(), report.outcome.clone());
                    }
                } else {
                    failures.remove(&file);
                    if report.outcome == FileOutcome::Imported {
                        show(&report, output)?;
                    }
                }
                // A truncated file may be finished within the resolution of its time of change.
                if !matches!(report.outcome, FileOutcome::Failed { .. }) {
                    seen.insert(file, now);
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
