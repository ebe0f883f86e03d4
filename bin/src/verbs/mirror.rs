//! `export --all DIR --follow`: files that follow the log, and a log that takes in what others add to the files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cognilog::{Engine, FileOutcome, FileReport, ImportOptions, StoreError};

use super::Place;
use super::import::{Mark, mark, print};
use crate::failure::Failure;
use crate::output::{Output, note, printable, shown};

/// How long one step waits for events.
const STEP: Duration = Duration::from_millis(200);
/// How often the files are looked at for what others wrote.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Keeps the folder up to date until the program is stopped. The store is open for reading, so that others can append;
/// only to import what somebody added to a file it is opened for writing, for that moment.
pub(crate) fn mirror(place: &Place, engine: &Engine, folder: &Path, output: &mut Output) -> Result<u8, Failure> {
    let mut follower = engine.json_files(folder)?;
    let mut outside = Outside { place, engine, folder, seen: HashMap::new(), told: HashMap::new() };
    note(&format!("keeping {} up to date; stop with Ctrl-C", shown(folder)));
    let mut looked: Option<Instant> = None;
    loop {
        match follower.step(STEP) {
            Ok(reports) => {
                for report in reports {
                    if output.json {
                        output.object(&report)?;
                    } else {
                        output.line(&printable(&report.to_string(), 4_096))?;
                    }
                }
            }
            // A file holds more than the log: it is imported at the look that follows.
            Err(cognilog::Error::Store(StoreError::ReadOnly)) => looked = None,
            Err(error) => return Err(error.into()),
        }
        if looked.is_none_or(|looked| looked.elapsed() >= LOOK_INTERVAL) {
            outside.look(output)?;
            looked = Some(Instant::now());
        }
        output.flush()?;
    }
}

/// What others write into the folder.
struct Outside<'a> {
    place: &'a Place,
    engine: &'a Engine,
    folder: &'a Path,
    seen: HashMap<PathBuf, Mark>,
    told: HashMap<PathBuf, FileOutcome>,
}

impl Outside<'_> {
    fn look(&mut self, output: &mut Output) -> Result<(), Failure> {
        for file in cognilog::find_files(self.folder)? {
            // The mark is taken before the file is read: a change meanwhile shows at the next look.
            let Some(now) = mark(&file) else { continue };
            if self.seen.get(&file) == Some(&now) {
                continue;
            }
            let Some(report) = self.import(&file)? else { return Ok(()) };
            // A file that is half written now may be whole within the resolution of its time of change.
            if !matches!(report.outcome, FileOutcome::Failed { .. }) {
                self.seen.insert(file.clone(), now);
            }
            let told = self.told.get(&file) == Some(&report.outcome);
            match &report.outcome {
                FileOutcome::Unchanged | FileOutcome::Skipped { .. } => {
                    self.told.remove(&file);
                    continue;
                }
                FileOutcome::Imported => {
                    self.told.remove(&file);
                }
                _ if told => continue,
                outcome => {
                    self.told.insert(file, outcome.clone());
                }
            }
            if output.json {
                output.object(&report)?;
            } else {
                print(&report, output)?;
            }
        }
        Ok(())
    }

    /// Imports a file if it holds more than the log; none if another process holds the store, which is tried again.
    fn import(&self, file: &Path) -> Result<Option<FileReport>, Failure> {
        let options = ImportOptions::default();
        match self.engine.import_file(file, &options) {
            Err(cognilog::Error::Store(StoreError::ReadOnly)) => {}
            result => return Ok(Some(result?)),
        }
        let writer = match self.place.write() {
            Err(failure) if failure.exit_code() == 4 => {
                note(&format!("{} is imported later: {}", shown(file), printable(failure.message(), 400)));
                return Ok(None);
            }
            writer => writer?,
        };
        let report = writer.import_file(file, &options)?;
        writer.close()?;
        Ok(Some(report))
    }
}
