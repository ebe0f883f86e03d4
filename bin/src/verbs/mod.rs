//! The verbs, one file each, and how a verb finds and opens its store.

mod append;
mod ask;
mod commit;
mod compare;
mod config;
mod demo;
mod demo_run;
mod doctor;
mod export;
mod import;
mod interactive;
mod keeping;
mod log;
mod mirror;
mod parse_reply;
mod pending;
mod reparse;
mod replay;
pub(crate) mod review;
mod shell;
mod show;
mod stats;
mod traces;
mod trust;

use std::path::{Path, PathBuf};

use cognilog::session::SideBranch;
use cognilog::{Engine, EngineOptions, STORE_FOLDER, StoreError, find_store};

use crate::arguments::{Arguments, Verb};
use crate::failure::Failure;
use crate::output::{Output, note, shown};

/// Runs the verb that was asked for and gives its exit code.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<u8, Failure> {
    // These need no store, and a mistake in its settings is no reason to go without a manual.
    match &arguments.verb {
        Verb::Config { example: true } => return config::example(output),
        Verb::Demo { folder } => return demo::run(folder.as_deref(), output),
        Verb::Completions { shell } => return shell::completions(*shell, output),
        Verb::Man => return shell::man(output),
        Verb::ParseReply(parse) => return parse_reply::run(parse, output),
        _ => {}
    }
    let place = Place::of(arguments)?;
    match &arguments.verb {
        Verb::Init => trust::init(&place, output),
        Verb::Import(import) => import::run(&place, import, output),
        Verb::Append(append) => append::run(&place, append, output),
        Verb::Export(export) => export::run(&place, export, output),
        Verb::Traces => traces::run(&place, output),
        Verb::Show { id } => show::run(&place, id, output),
        Verb::Pending(pending) => pending::run(&place, pending, output),
        Verb::Review { trace, reviewer } => review::screen(&place, trace.as_ref(), reviewer, output),
        Verb::Approve(decide) => review::decide(&place, decide, cognilog::Verdict::Approve, output),
        Verb::Edit(edit) => review::edit(&place, edit, output),
        Verb::Discard(decide) => review::decide(&place, decide, cognilog::Verdict::Discard, output),
        Verb::Withdraw(decide) => review::decide(&place, decide, cognilog::Verdict::Withdraw, output),
        Verb::Undo(reviewer) => review::undo(&place, reviewer, output),
        Verb::Interactive { trace, reviewer, directory } => {
            interactive::run(&place, trace, reviewer, directory.as_deref(), output)
        }
        Verb::Commit(commit) => commit::run(&place, commit, output),
        Verb::Evaluate(arguments) => ask::run(&place, SideBranch::Evaluation, arguments, output),
        Verb::Extract(arguments) => ask::run(&place, SideBranch::Extraction, arguments, output),
        Verb::Replay(replay) => replay::run(&place, replay, output),
        Verb::Log(log) => log::run(&place, log, output),
        Verb::Reparse(reparse) => reparse::run(&place, reparse, output),
        Verb::Stats => stats::run(&place, output),
        Verb::Compare { folder } => compare::run(&place, folder, output),
        Verb::Verify { expect } => trust::verify(&place, expect.as_deref(), output),
        Verb::Doctor => doctor::run(&place, output),
        Verb::Backup { to, until_damage } => keeping::backup(&place, to, *until_damage, output),
        Verb::Restore { from, to, until_damage } => keeping::restore(&place, from, to, *until_damage, output),
        Verb::Head => trust::head(&place, output),
        Verb::Status => trust::status(&place, output),
        Verb::Rebuild { names } => trust::rebuild(&place, names, output),
        Verb::Config { .. } => config::run(&place, output),
        Verb::Demo { .. } | Verb::Completions { .. } | Verb::Man | Verb::ParseReply(_) => Ok(0),
    }
}

/// Where the store is, and how it is opened.
pub(crate) struct Place {
    named: Option<PathBuf>,
    pub(crate) settings: config::Settings,
}

impl Place {
    fn of(arguments: &Arguments) -> Result<Place, Failure> {
        // An empty variable is how a shell says that there is none.
        let variable = || std::env::var_os("COGNILOG_STORE").filter(|value| !value.is_empty()).map(PathBuf::from);
        let named = arguments.store.clone().or_else(variable);
        let path = named.clone().or_else(|| current_folder().ok().and_then(|folder| find_store(&folder)));
        let settings = config::Settings::load(path.as_deref(), arguments.wait)?;
        Ok(Place { named, settings })
    }

    /// The store that is there.
    pub(crate) fn existing(&self) -> Result<PathBuf, Failure> {
        if let Some(named) = &self.named {
            return Ok(named.clone());
        }
        find_store(&current_folder()?).ok_or_else(|| {
            let message = format!("no store: neither --store nor $COGNILOG_STORE, and no {STORE_FOLDER} here or above");
            Failure::new(1, "store_not_found", message)
                .with_hint("make one with `cognilog init` or `cognilog import PATH`, or name it with --store")
        })
    }

    fn to_create(&self) -> Result<PathBuf, Failure> {
        match &self.named {
            Some(named) => Ok(named.clone()),
            None => Ok(current_folder()?.join(STORE_FOLDER)),
        }
    }

    pub(crate) fn options(&self) -> EngineOptions {
        let mut options = EngineOptions::default();
        options.wait = self.settings.wait;
        options
    }

    /// Opens the store for reading.
    pub(crate) fn read(&self) -> Result<Engine, Failure> {
        Ok(Engine::open_reader_with(&self.existing()?, self.options())?)
    }

    /// Opens the store for writing.
    pub(crate) fn write(&self) -> Result<Engine, Failure> {
        Ok(Engine::open_with(&self.existing()?, self.options())?)
    }

    /// Opens the store for writing, making it if there is none, and says so.
    pub(crate) fn write_or_create(&self) -> Result<Engine, Failure> {
        let path = self.existing().or_else(|_| self.to_create())?;
        match Engine::open_with(&path, self.options()) {
            Err(cognilog::Error::Store(StoreError::NotFound { .. })) => {}
            opened => return Ok(opened?),
        }
        self.create(&path)?;
        Ok(Engine::open_with(&path, self.options())?)
    }

    /// Makes a store; one that another process made meanwhile is as good.
    pub(crate) fn create(&self, path: &Path) -> Result<(), Failure> {
        match cognilog::Store::create(path, &self.options().limits) {
            Ok(()) => {
                note(&format!("made a store at {}", shown(path)));
                Ok(())
            }
            Err(StoreError::AlreadyExists { .. }) => Ok(()),
            // Two processes that make one store at once: the second finds the first one's in its way.
            Err(_) if path.join("MANIFEST.json").is_file() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn current_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| Failure::io("look at", Path::new("."), &error))
}
