//! What the tests of the library share: stores, files to import, and a generator of numbers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cognilog::{Append, AppendEvent, Engine, FileReport, ImportOptions, OnFork, Receipt, TraceId};
use tempfile::TempDir;

/// An engine on a fresh store, and a folder for files beside it.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    folder: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let engine = Engine::create(&folder.path().join("store")).unwrap();
        Bench { engine, folder }
    }

    pub(crate) fn store_path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// The engine and the folder, for a test that closes the engine.
    pub(crate) fn into_parts(self) -> (Engine, TempDir) {
        (self.engine, self.folder)
    }

    /// A path in the folder of files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("files").join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes a trace's file and imports it.
    pub(crate) fn import(&self, trace: &str, text: &str) -> FileReport {
        self.import_with(trace, text, &options())
    }

    pub(crate) fn import_with(&self, trace: &str, text: &str, options: &ImportOptions) -> FileReport {
        let path = self.write(&format!("{trace}/cognition_log.json"), text);
        self.engine.import_file(&path, options).unwrap()
    }

    /// Imports events given as compact JSON.
    pub(crate) fn import_events(&self, trace: &str, events: &[&str]) -> FileReport {
        self.import(trace, &file(trace, events))
    }

    pub(crate) fn export(&self, trace: &str) -> String {
        self.engine.export(&id(trace)).unwrap()
    }

    /// The events of a trace's export, without white space between tokens.
    pub(crate) fn exported_events(&self, trace: &str) -> Vec<String> {
        events_of(&self.export(trace))
    }

    pub(crate) fn append(&self, trace: &str, event: &str) -> Receipt {
        self.try_append(trace, event).unwrap()
    }

    pub(crate) fn try_append(&self, trace: &str, event: &str) -> Result<Receipt, cognilog::Error> {
        self.engine.submit(Append::new(id(trace)).event(AppendEvent::from_json(event)?))
    }

    pub(crate) fn head(&self) -> u64 {
        self.engine.snapshot().unwrap().head().0
    }

    /// Missing sources of each pending query of a trace.
    pub(crate) fn missing(&self, trace: &str) -> Vec<Vec<String>> {
        let pending = self.engine.pending_evaluations(Some(&id(trace))).unwrap();
        pending.into_iter().map(|pending| pending.missing_source_ids).collect()
    }

    /// Id, state and current content of each extraction of a trace.
    pub(crate) fn extractions(&self, trace: &str) -> Vec<(String, String, String)> {
        let all = self.engine.extractions(Some(&id(trace))).unwrap();
        all.into_iter()
            .map(|found| (found.extraction.extraction_id, found.extraction.state, found.extraction.current.content))
            .collect()
    }
}

pub(crate) fn id(trace: &str) -> TraceId {
    TraceId::new(trace).unwrap()
}

/// Files of tests are whole unless the test says otherwise, so nothing is waited for.
pub(crate) fn options() -> ImportOptions {
    let mut options = ImportOptions::default();
    options.patience = Duration::ZERO;
    options
}

pub(crate) fn on_fork(on_fork: OnFork) -> ImportOptions {
    let mut options = options();
    options.on_fork = on_fork;
    options
}

/// A trace's file on one line, as Python's `json.dump` writes it with tight separators.
pub(crate) fn file(trace: &str, events: &[&str]) -> String {
    format!("{{\"trace_id\":{},\"events\":[{}]}}", serde_json::Value::from(trace), events.join(","))
}

/// The events of a file, without white space between tokens.
pub(crate) fn events_of(text: &str) -> Vec<String> {
    cognilog::JsonFile::read(text).unwrap().events
}

/// The folder of real inputs, if it is there; says so when it is not.
pub(crate) fn cases(folder: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/cases").join(folder);
    if path.is_dir() {
        return Some(path);
    }
    eprintln!("skipped: {} is absent", path.display());
    None
}

/// Whether the long form of the tests was asked for.
pub(crate) fn is_soak() -> bool {
    std::env::var_os("COGNILOG_SOAK").is_some_and(|value| value == "1")
}

/// Numbers that are the same in every run (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    pub(crate) fn pick<'l, T: ?Sized>(&mut self, list: &[&'l T]) -> &'l T {
        list[self.below(list.len() as u64) as usize]
    }
}
