//! The handle of a store: create, open, append, read, subscribe, resume, close.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant as Moment};

use cognilog_core::{EventId, Instant, Position};
use crossbeam_channel::{Sender, TrySendError, bounded};
use redb::{Database, ReadOnlyDatabase, ReadableDatabase};

use crate::block::StoredBlocks;
use crate::directory::{self, CreationStep, Manifest, StoreDirectory, now};
use crate::error::{StoreError, contained};
use crate::fold::{Command, Folds, Receipt};
use crate::limits::Limits;
use crate::projector::{BLOCKS, head_of, load};
use crate::snapshot::{FoldState, Snapshot, StreamNames};
use crate::verify::check_belongs;
use crate::writer::{Clock, Done, Job, Opener, Shared, Submission, Writer, lock, make_tables};

/// How a store is opened.
#[derive(Clone)]
pub struct StoreOptions {
    /// The projections.
    pub folds: Folds,
    /// The limits.
    pub limits: Limits,
    /// How long to wait for another writer.
    pub wait: Duration,
    /// The time that records are stamped with.
    pub clock: Clock,
}

impl StoreOptions {
    /// The defaults with these projections: ten seconds for another writer, the system clock.
    #[must_use]
    pub fn new(folds: Folds) -> StoreOptions {
        StoreOptions { folds, limits: Limits::default(), wait: Duration::from_secs(10), clock: Arc::new(now) }
    }
}

/// How a store fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreHealth {
    /// Whether appends are taken.
    pub writable: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Commands that wait for the writer.
    pub queued: usize,
    /// Bytes of the commands that wait.
    pub queued_bytes: usize,
    /// When events were last recorded by this handle.
    pub last_commit: Option<Instant>,
    /// The last position.
    pub head: Position,
    /// Each projection's state.
    pub projections: Vec<(&'static str, FoldState)>,
    /// Size of the log database in bytes; 0 where it is not a file.
    pub bytes: u64,
}

enum Mode {
    Writer {
        queue: Sender<Job>,
        thread: Mutex<Option<std::thread::JoinHandle<()>>>,
        // Held until the writer's thread has ended, so that no other process opens the database before.
        lock: Mutex<Option<directory::WriterLock>>,
    },
    Reader {
        database: ReadOnlyDatabase,
        folds: Folds,
        limits: Limits,
        names: StreamNames,
    },
}

/// An open store. Share it by reference or in an `Arc`; all methods take `&self`.
pub struct Store {
    directory: Option<StoreDirectory>,
    epoch: u64,
    limits: Limits,
    shared: Arc<Shared>,
    mode: Mode,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Store").field("directory", &self.directory).finish_non_exhaustive()
    }
}

pub(crate) fn database_builder(limits: &Limits) -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_concurrency_mode(redb::ConcurrencyMode::SingleWriter);
    builder.set_cache_size(limits.cache_bytes);
    builder
}

impl Store {
    /// Makes an empty store at a path where none is.
    ///
    /// # Errors
    /// Something stands there, or the file system refuses; nothing is left at the path then.
    pub fn create(path: &Path, limits: &Limits) -> Result<(), StoreError> {
        Store::create_watched(path, limits, &|_| Ok(()))
    }

    /// As [`Store::create`], telling each step to `after`, which may stop there with an error.
    ///
    /// # Errors
    /// As [`Store::create`], and what `after` answers.
    pub fn create_watched(
        path: &Path,
        limits: &Limits,
        after: &dyn Fn(CreationStep) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let manifest = Manifest::new(new_event_id(now())?.to_string());
        let make_log = |log: &Path| {
            let database = database_builder(limits).create(log)?;
            make_tables(&database, &manifest.store_id)?;
            database.close()?;
            Ok(())
        };
        directory::create(path, &manifest, &manifest.store_id, make_log, after)
    }

    /// Opens a store for writing; other processes wait, or read beside it.
    ///
    /// # Errors
    /// There is no store, it is damaged, of another format or behind its head, or another process holds the writer for
    /// longer than the options wait.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Store, StoreError> {
        let directory = StoreDirectory::open(path)?;
        if directory.is_backup() {
            return Err(StoreError::IsBackup { path: path.to_owned() });
        }
        let held = directory.lock(options.wait)?;
        let log = directory.database();
        let limits = options.limits.clone();
        let looked_at = directory.clone();
        let opener: Opener = Box::new(move || {
            // redb makes a new file where none is: the log of a store is never begun anew in silence.
            match std::fs::metadata(&log) {
                Ok(metadata) if metadata.len() > 0 => {}
                Ok(_) => {
                    let reason = "its log is empty; restore it from a backup".to_owned();
                    return Err(StoreError::NotAStore { path: log.clone(), reason });
                }
                Err(error) => return Err(StoreError::io("open", &log, &error)),
            }
            // redb writes to what it opens for writing: what is not this store's log is found out before. A log that
            // was not closed cleanly cannot be looked at yet; it is checked once it is repaired.
            if let Ok(database) = database_builder(&limits).open_read_only(&log) {
                check_belongs(&database.begin_read()?, &looked_at)?;
                database.close()?;
            }
            Ok(database_builder(&limits).open(&log)?)
        });
        let epoch = directory.manifest().epoch;
        Store::start(Some(directory), Some(held), epoch, opener, options)
    }

    /// Opens a store on a database that `opener` gives, without a directory; how tests put it on a simulated disk.
    ///
    /// # Errors
    /// As [`Store::open`].
    #[cfg(feature = "testkit")]
    pub fn open_on(
        opener: impl Fn(&mut redb::Builder) -> Result<Database, redb::DatabaseError> + Send + 'static,
        options: StoreOptions,
    ) -> Result<Store, StoreError> {
        let limits = options.limits.clone();
        let opener: Opener = Box::new(move || {
            let database = opener(&mut database_builder(&limits))?;
            make_tables(&database, "")?;
            Ok(database)
        });
        Store::start(None, None, 1, opener, options)
    }

    pub(crate) fn start(
        directory: Option<StoreDirectory>,
        held: Option<directory::WriterLock>,
        epoch: u64,
        opener: Opener,
        options: StoreOptions,
    ) -> Result<Store, StoreError> {
        let StoreOptions { folds, limits, clock, .. } = options;
        let (queue, jobs) = bounded(limits.queue_commands_max);
        let names = StreamNames::default();
        let make = || Writer::new(opener, directory.clone(), folds, limits.clone(), clock, epoch, names, jobs);
        let writer = contained(make)?;
        let shared = Arc::clone(&writer.shared);
        let failed = Arc::clone(&writer.shared);
        let thread = std::thread::Builder::new()
            .name("cognilog-writer".to_owned())
            .spawn(move || {
                let run = std::panic::AssertUnwindSafe(|| writer.run());
                if let Err(panic) = std::panic::catch_unwind(run) {
                    let message = crate::fold::panic_message(panic.as_ref());
                    *lock(&failed.stopped) = Some(format!("the writer panicked: {message}"));
                }
                failed.head_changed.notify_all();
            })
            .map_err(|error| StoreError::Database { message: format!("the writer's thread: {error}") })?;
        let mode = Mode::Writer { queue, thread: Mutex::new(Some(thread)), lock: Mutex::new(held) };
        Ok(Store { directory, epoch, limits, shared, mode })
    }

    /// Opens a store for reading, beside a writer of another process or without one.
    ///
    /// # Errors
    /// There is no store, it is damaged or of another format, or it needs a writer to repair it first.
    pub fn open_reader(path: &Path, options: StoreOptions) -> Result<Store, StoreError> {
        let directory = StoreDirectory::open(path)?;
        let StoreOptions { folds, limits, .. } = options;
        let epoch = directory.manifest().epoch;
        let names = StreamNames::default();
        let open = || -> Result<(ReadOnlyDatabase, Snapshot), StoreError> {
            let database = database_builder(&limits).open_read_only(directory.database())?;
            let transaction = database.begin_read()?;
            check_belongs(&transaction, &directory)?;
            let loaded = load(&transaction, &folds, limits.overlay_events_max * 4, epoch, Arc::clone(&names))?;
            Ok((database, loaded.snapshot))
        };
        let (database, snapshot) = contained(open)?;
        let shared = Arc::new(Shared::new(snapshot));
        let mode = Mode::Reader { database, folds, limits: limits.clone(), names };
        Ok(Store { directory: Some(directory), epoch, limits, shared, mode })
    }

    /// The store's directory, where it has one.
    #[must_use]
    pub fn directory(&self) -> Option<&StoreDirectory> {
        self.directory.as_ref()
    }

    /// The epoch that positions belong to.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Checks that a position belongs to this store as it is now.
    ///
    /// # Errors
    /// It is of another epoch: the store was restored since, and the position may mean another event now.
    pub fn check_epoch(&self, epoch: u64) -> Result<(), StoreError> {
        if epoch == self.epoch { Ok(()) } else { Err(StoreError::OtherEpoch { found: epoch, expected: self.epoch }) }
    }

    /// The limits it was opened with.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether this handle can append.
    #[must_use]
    pub fn is_writer(&self) -> bool {
        matches!(self.mode, Mode::Writer { .. })
    }

    /// The state at the head. A reader beside a writer of another process looks at the log again.
    ///
    /// # Errors
    /// What came meanwhile is damaged, or the disk refuses.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        if let Mode::Reader { database, folds, limits, names } = &self.mode {
            return contained(|| {
                let transaction = database.begin_read()?;
                let (head, _) = head_of(&StoredBlocks { table: transaction.open_table(BLOCKS)? })?;
                let mut published = lock(&self.shared.published);
                if head != published.head || published.stands_elsewhere(&transaction)? {
                    let tail = limits.overlay_events_max * 4;
                    *published = load(&transaction, folds, tail, self.epoch, Arc::clone(names))?.snapshot;
                    *lock(&self.shared.head) = head;
                    self.shared.head_changed.notify_all();
                }
                Ok(published.clone())
            });
        }
        Ok(lock(&self.shared.published).clone())
    }

    /// The state at the head for reading events alone. It holds none of the rows in memory, so that the writer need not
    /// copy them for a reader that goes along with it.
    pub(crate) fn log(&self) -> Result<Snapshot, StoreError> {
        if let Mode::Reader { .. } = &self.mode {
            return self.snapshot();
        }
        let published = lock(&self.shared.published);
        Ok(Snapshot { overlay: crate::snapshot::Overlay::default(), ..published.clone() })
    }

    /// Decides a command on the writer's thread and records what it says; returns once that is on disk.
    ///
    /// # Errors
    /// The queue is full, the command rejects, a condition does not hold, an id was used with other content, a limit is
    /// passed: nothing is recorded. After [`StoreError::OutcomeUnknown`] ask again with the same ids.
    pub fn submit<C: Command>(&self, mut command: C, bytes: usize) -> Result<(Receipt, C::Output), StoreError> {
        let (answer, answered) = bounded(1);
        let output = Arc::new(Mutex::new(None));
        let filled = Arc::clone(&output);
        let submission = Submission {
            decide: Box::new(move |view| {
                let (decision, output) = command.decide(view)?;
                *lock(&filled) = Some(output);
                Ok(decision)
            }),
            answer: Box::new(move |result| {
                let _ = answer.send(result);
            }),
            bytes,
        };
        self.send_command(submission)?;
        let receipt = answered.recv().map_err(|_| self.gone())??;
        let output = lock(&output).take().ok_or_else(|| self.gone())?;
        Ok((receipt, output))
    }

    fn send_command(&self, submission: Submission) -> Result<(), StoreError> {
        let Mode::Writer { queue, .. } = &self.mode else { return Err(StoreError::ReadOnly) };
        let bytes = submission.bytes;
        let busy = || StoreError::Busy { waiting: queue.len() };
        let queued = self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        // One command alone may be larger than the queue: its own limits refuse it if it is too large.
        if queued > 0 && queued + bytes > self.limits.queue_bytes_max {
            self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(busy());
        }
        queue.try_send(Job::Command(submission)).map_err(|error| {
            self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            match error {
                TrySendError::Full(_) => busy(),
                TrySendError::Disconnected(_) => self.gone(),
            }
        })
    }

    fn gone(&self) -> StoreError {
        let reason = lock(&self.shared.stopped).clone().unwrap_or_else(|| "its thread has ended".to_owned());
        StoreError::WriterStopped { reason }
    }

    fn control(&self, job: impl FnOnce(Done) -> Job) -> Result<(), StoreError> {
        let Mode::Writer { queue, .. } = &self.mode else { return Err(StoreError::ReadOnly) };
        let (answer, answered) = bounded(1);
        let done: Done = Box::new(move |result| {
            let _ = answer.send(result);
        });
        queue.send(job(done)).map_err(|_| self.gone())?;
        answered.recv().map_err(|_| self.gone())?
    }

    /// Writes all rows and the head file now.
    ///
    /// # Errors
    /// The writer is stopped, or the disk refuses.
    pub fn flush(&self) -> Result<(), StoreError> {
        self.control(Job::Flush)
    }

    /// Makes the rows of these projections again from the log, all of them for an empty list, and waits for it.
    /// Appends and queries go on meanwhile.
    ///
    /// # Errors
    /// A name is not known, the writer is stopped, or the disk refuses.
    pub fn rebuild(&self, names: &[String]) -> Result<(), StoreError> {
        self.control(|done| Job::Rebuild(names.to_vec(), done))
    }

    /// Waits until no projection is being rebuilt.
    ///
    /// # Errors
    /// The writer is stopped.
    pub fn wait_rebuilt(&self) -> Result<(), StoreError> {
        loop {
            let snapshot = lock(&self.shared.published).clone();
            if !snapshot.folds.iter().any(|place| matches!(place.state, FoldState::Rebuilding { .. })) {
                return Ok(());
            }
            if lock(&self.shared.stopped).is_some() {
                return Err(self.gone());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// After a failure: closes the database, opens it again, checks the tail, and takes appends again.
    ///
    /// # Errors
    /// It cannot be opened again; the writer stays stopped.
    pub fn resume(&self) -> Result<(), StoreError> {
        self.control(Job::Resume)
    }

    /// How the store fares, without asking the writer.
    #[must_use]
    pub fn health(&self) -> StoreHealth {
        let (queued, writer) = match &self.mode {
            Mode::Writer { queue, .. } => (queue.len(), true),
            Mode::Reader { .. } => (0, false),
        };
        let reason = match (&*lock(&self.shared.stopped), writer) {
            (Some(reason), _) => Some(reason.clone()),
            (None, false) => Some("open for reading only".to_owned()),
            (None, true) => None,
        };
        let published = lock(&self.shared.published).clone();
        let bytes = self.directory.as_ref().and_then(|directory| std::fs::metadata(directory.database()).ok());
        StoreHealth {
            writable: reason.is_none(),
            reason,
            queued,
            queued_bytes: self.shared.queued_bytes.load(Ordering::Relaxed),
            last_commit: *lock(&self.shared.last_commit),
            head: published.head,
            projections: published.projections(),
            bytes: bytes.map_or(0, |metadata| metadata.len()),
        }
    }

    /// Waits until the head is behind `position`, at most `timeout`; tells whether it is.
    ///
    /// # Errors
    /// As [`Store::snapshot`].
    pub fn wait_behind(&self, position: Position, timeout: Duration) -> Result<bool, StoreError> {
        let until = Moment::now() + timeout;
        if let Mode::Reader { .. } = &self.mode {
            // Another process writes: nothing wakes us, so the log is looked at again in short steps.
            loop {
                if self.snapshot()?.head > position {
                    return Ok(true);
                }
                let left = until.saturating_duration_since(Moment::now());
                if left.is_zero() {
                    return Ok(false);
                }
                std::thread::sleep(left.min(Duration::from_millis(50)));
            }
        }
        let mut head = lock(&self.shared.head);
        while *head <= position {
            let left = until.saturating_duration_since(Moment::now());
            if left.is_zero() {
                return Ok(false);
            }
            head =
                self.shared.head_changed.wait_timeout(head, left).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        Ok(true)
    }

    /// Finishes what is queued, writes rows and head, and closes.
    ///
    /// # Errors
    /// The disk refuses; every acknowledged event is on it all the same.
    pub fn close(self) -> Result<(), StoreError> {
        self.shut()
    }

    fn shut(&self) -> Result<(), StoreError> {
        let Mode::Writer { thread, lock: held, .. } = &self.mode else { return Ok(()) };
        let Some(thread) = lock(thread).take() else { return Ok(()) };
        let closed = self.control(Job::Close);
        let _ = thread.join();
        drop(lock(held).take());
        closed
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Whoever wants to know how the close went calls `close`.
        let _ = self.shut();
    }
}

/// A new time-ordered event id.
///
/// # Errors
/// The system gives no random bytes.
pub fn new_event_id(now: Instant) -> Result<EventId, StoreError> {
    let mut random = [0; 10];
    getrandom::fill(&mut random).map_err(|error| StoreError::Database { message: error.to_string() })?;
    Ok(EventId::from_parts((now.0 / 1_000).max(0) as u64, random))
}

/// The system clock in the log's unit.
#[must_use]
pub fn system_now() -> Instant {
    now()
}
