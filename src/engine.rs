//! The engine: a store with its projections, as programs use it.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cognilog_core::event::Event;
use cognilog_core::{Position, StreamId, TraceId};
use cognilog_projections::{Projection, folds, projections};
use cognilog_storage::{
    FoldState, Limits, Receipt, Snapshot, Store, StoreError, StoreHealth, StoreOptions, Subscription, Verification,
};

use crate::append::{Append, AppendCommand, AppendEvent};
use crate::deciding::InFlight;
use crate::error::Error;

/// How an engine is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineOptions {
    /// The limits of the log.
    pub limits: Limits,
    /// How long to wait for another writer.
    pub wait: Duration,
    /// Most bytes of rows that an as-of view or a replay may hold.
    pub as_of_bytes_max: usize,
}

impl Default for EngineOptions {
    fn default() -> EngineOptions {
        EngineOptions { limits: Limits::default(), wait: Duration::from_secs(10), as_of_bytes_max: 512 << 20 }
    }
}

/// A store with its projections.
pub struct Engine {
    pub(crate) store: Store,
    pub(crate) projections: Vec<Arc<dyn Projection>>,
    pub(crate) as_of_bytes_max: usize,
    pub(crate) in_flight: InFlight,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Engine").field("store", &self.store).finish_non_exhaustive()
    }
}

/// How an engine fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The store.
    pub store: StoreHealth,
    /// Projections that do not serve, each with why.
    pub not_serving: Vec<(&'static str, String)>,
    /// The oldest pending evaluation: when its query was asked, in microseconds since 1970.
    pub oldest_pending_evaluation: Option<i64>,
    /// The oldest pending extraction: when it was extracted, in microseconds since 1970.
    pub oldest_pending_extraction: Option<i64>,
}

impl Health {
    /// Whether everything that should work does. A store that is open for reading only is healthy too.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        let read_only = self.store.reason.as_deref() == Some("open for reading only");
        (self.store.writable || read_only) && self.not_serving.is_empty()
    }
}

impl Engine {
    /// Makes a store where none is, and opens it for writing.
    ///
    /// # Errors
    /// Something stands at the path, or the file system refuses.
    pub fn create(path: &Path) -> Result<Engine, Error> {
        Store::create(path, &Limits::default())?;
        Engine::open(path)
    }

    /// Opens a store for writing. Waits up to ten seconds for another writer.
    ///
    /// # Errors
    /// There is no store, it is damaged, of another format or behind its head, or another process writes to it.
    pub fn open(path: &Path) -> Result<Engine, Error> {
        Engine::open_with(path, EngineOptions::default())
    }

    /// As [`Engine::open`], with options.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn open_with(path: &Path, options: EngineOptions) -> Result<Engine, Error> {
        let as_of_bytes_max = options.as_of_bytes_max;
        let store = Store::open(path, store_options(options))?;
        Ok(Engine { store, projections: projections(), as_of_bytes_max, in_flight: InFlight::default() })
    }

    /// An engine on a store that was opened elsewhere; how tests put it on a simulated disk.
    #[cfg(feature = "testkit")]
    #[must_use]
    pub fn on_store(store: Store) -> Engine {
        let as_of_bytes_max = EngineOptions::default().as_of_bytes_max;
        Engine { store, projections: projections(), as_of_bytes_max, in_flight: InFlight::default() }
    }

    /// Opens a store for reading, beside a writer of another process or without one. A store that was not closed
    /// cleanly is repaired first, if nobody writes to it.
    ///
    /// # Errors
    /// As [`Engine::open`]; a store in need of repair on a read-only file system.
    pub fn open_reader(path: &Path) -> Result<Engine, Error> {
        Engine::open_reader_with(path, EngineOptions::default())
    }

    /// As [`Engine::open_reader`], with options.
    ///
    /// # Errors
    /// As [`Engine::open_reader`].
    pub fn open_reader_with(path: &Path, options: EngineOptions) -> Result<Engine, Error> {
        let as_of_bytes_max = options.as_of_bytes_max;
        let engine =
            |store| Engine { store, projections: projections(), as_of_bytes_max, in_flight: InFlight::default() };
        match Store::open_reader(path, store_options(options.clone())) {
            Ok(store) if !is_rebuilding(&store)? => return Ok(engine(store)),
            Ok(store) => drop(store),
            Err(StoreError::NeedsRepair) => {}
            Err(error) => return Err(error.into()),
        }
        // A writer repairs the store and makes stale rows again; where another process writes, it does that itself.
        let repair = EngineOptions { wait: Duration::ZERO, ..options.clone() };
        match Store::open(path, store_options(repair)) {
            Ok(writer) => {
                writer.wait_rebuilt()?;
                writer.close()?;
            }
            Err(StoreError::Locked { .. } | StoreError::IsBackup { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(engine(Store::open_reader(path, store_options(options))?))
    }

    /// The store beneath, for what the engine has no call for.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Checks that a position belongs to this store as it is now: whoever keeps positions keeps their epoch too.
    ///
    /// # Errors
    /// It is of another epoch: the store was restored from a backup since.
    pub fn check_epoch(&self, epoch: u64) -> Result<(), Error> {
        Ok(self.store.check_epoch(epoch)?)
    }

    /// The projections, for showing keys and rows.
    #[must_use]
    pub fn projections(&self) -> &[Arc<dyn Projection>] {
        &self.projections
    }

    /// Appends events to a trace; returns once they are on disk. Sequences and times that are left open are filled in.
    ///
    /// # Errors
    /// Nothing is recorded, but for [`StoreError::OutcomeUnknown`], after which the same append may be tried again only
    /// with event ids of the caller's ([`Engine::submit`]).
    pub fn append<E: Into<Event>>(
        &self,
        trace: &TraceId,
        events: impl IntoIterator<Item = E>,
    ) -> Result<Receipt, Error> {
        let mut append = Append::new(trace.clone());
        for event in events {
            append = append.event(AppendEvent::new(event)?);
        }
        self.submit(append)
    }

    /// Records an append with identities, conditions and key of the caller's; returns once it is on disk.
    ///
    /// # Errors
    /// The append is refused and nothing recorded, or its outcome is unknown: then submit the same again.
    pub fn submit(&self, append: Append) -> Result<Receipt, Error> {
        let bytes = append.bytes();
        let command = AppendCommand { append, now: cognilog_storage::system_now() };
        Ok(self.store.submit(command, bytes)?.0)
    }

    /// The state at the head.
    ///
    /// # Errors
    /// What came meanwhile is damaged, or the disk refuses.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        Ok(self.store.snapshot()?)
    }

    /// Follows the log behind a position: history, a mark when it is caught up, then what is appended.
    #[must_use]
    pub fn subscribe(&self, after: Position) -> Subscription<'_> {
        self.store.subscribe(after)
    }

    /// How the engine fares.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn health(&self) -> Result<Health, Error> {
        let store = self.store.health();
        let not_serving = store
            .projections
            .iter()
            .filter_map(|(name, state)| match state {
                FoldState::Live => None,
                FoldState::Rebuilding { done } => Some((*name, format!("it is being rebuilt ({done} events done)"))),
                FoldState::Stopped { position, message } => {
                    Some((*name, format!("it stopped at position {position}: {message}")))
                }
                state => Some((*name, format!("{state:?}"))),
            })
            .collect::<Vec<_>>();
        let (evaluation, extraction) = match not_serving.is_empty() {
            true => {
                let evaluations = self.pending_evaluations(None)?;
                let extractions = self.pending_extractions(None)?;
                (
                    evaluations.iter().map(|pending| pending.time).min(),
                    extractions.iter().map(|pending| pending.extraction.time).min(),
                )
            }
            false => (None, None),
        };
        Ok(Health { store, not_serving, oldest_pending_evaluation: evaluation, oldest_pending_extraction: extraction })
    }

    /// Reads and checks everything that is stored.
    ///
    /// # Errors
    /// The disk refuses; damage is a finding, not an error.
    pub fn verify(&self) -> Result<Verification, Error> {
        Ok(self.store.snapshot()?.verify()?)
    }

    /// Makes the rows of projections again from the log, all of them for an empty list, while appends go on.
    ///
    /// # Errors
    /// A name is not known, or the disk refuses.
    pub fn rebuild(&self, names: &[String]) -> Result<(), Error> {
        Ok(self.store.rebuild(names)?)
    }

    /// After a failure: opens the log again, checks it, and takes appends again.
    ///
    /// # Errors
    /// It cannot be opened again.
    pub fn resume(&self) -> Result<(), Error> {
        Ok(self.store.resume()?)
    }

    /// Visits the events of a trace in order.
    ///
    /// # Errors
    /// An event is damaged, or the disk refuses.
    pub fn visit_trace(
        &self,
        trace: &TraceId,
        mut visit: impl FnMut(&cognilog_storage::LogEvent<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let stream = StreamId::Trace(trace.clone());
        Ok(self.store.snapshot()?.visit_stream(&stream, Position::START, |event| Ok(visit(event)))?)
    }

    /// Writes what waits in memory, and closes.
    ///
    /// # Errors
    /// The disk refuses; every acknowledged event is on it all the same.
    pub fn close(self) -> Result<(), Error> {
        Ok(self.store.close()?)
    }
}

/// Lets a writer open the store, which repairs its database. Whether it then finds damage is seen by looking again.
pub(crate) fn repair(path: &Path, options: &EngineOptions) {
    if let Ok(engine) = Engine::open_with(path, EngineOptions { wait: Duration::ZERO, ..options.clone() }) {
        let _ = engine.close();
    }
}

pub(crate) fn store_options(options: EngineOptions) -> StoreOptions {
    let mut store = StoreOptions::new(folds());
    store.limits = options.limits;
    store.wait = options.wait;
    store
}

fn is_rebuilding(store: &Store) -> Result<bool, StoreError> {
    let states = store.snapshot()?.projections();
    Ok(states.iter().any(|(_, state)| matches!(state, FoldState::Rebuilding { .. })))
}
