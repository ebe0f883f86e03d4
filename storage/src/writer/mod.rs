//! The one writer: takes commands from a bounded queue, decides them, commits them together, then answers.

mod decide;
mod flush;
mod rebuild;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant as Moment;

use cognilog_core::{Instant, Position};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use redb::{Database, ReadableDatabase};

use crate::directory::{Head, StoreDirectory};
use crate::error::{StoreError, contained};
use crate::fold::{Decision, Folds, Receipt};
use crate::limits::Limits;
use crate::projector::{BLOCKS, Loaded, ROWS, STANDING, Standing, load};
use crate::rows::RowMap;
use crate::snapshot::{FoldPlace, FoldState, RecentEvent, Snapshot, StreamNames, View};
use decide::Decided;
use flush::Flush;
pub(crate) use flush::{write_rows, write_standing};

/// Opens the database again; called at the start and by `resume`.
pub(crate) type Opener = Box<dyn Fn() -> Result<Database, StoreError> + Send>;

/// Gives the time that records are stamped with.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// A decision with whatever the command tells its caller, type-erased.
type Decide = Box<dyn FnMut(&View<'_>) -> Result<Decision, StoreError> + Send>;
type Answer = Box<dyn FnOnce(Result<Receipt, StoreError>) + Send>;

/// A command in the queue.
pub(crate) struct Submission {
    pub(crate) decide: Decide,
    pub(crate) answer: Answer,
    /// Bytes it is counted with in the queue.
    pub(crate) bytes: usize,
}

/// What the queue carries.
pub(crate) enum Job {
    Command(Submission),
    /// Write all rows and the head file.
    Flush(Done),
    /// Make the rows of these projections again; all of them for an empty list.
    Rebuild(Vec<String>, Done),
    /// Close, reopen, check the tail and go on.
    Resume(Done),
    /// Finish what is queued, write rows and head, close.
    Close(Done),
}

pub(crate) type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// What the writer shares with the handles of the store.
pub(crate) struct Shared {
    pub(crate) published: Mutex<Snapshot>,
    pub(crate) head: Mutex<Position>,
    pub(crate) head_changed: Condvar,
    pub(crate) queued_bytes: AtomicUsize,
    /// Why the writer stopped, if it did.
    pub(crate) stopped: Mutex<Option<String>>,
    pub(crate) last_commit: Mutex<Option<Instant>>,
}

impl Shared {
    pub(crate) fn new(snapshot: Snapshot) -> Shared {
        Shared {
            head: Mutex::new(snapshot.head),
            published: Mutex::new(snapshot),
            head_changed: Condvar::new(),
            queued_bytes: AtomicUsize::new(0),
            stopped: Mutex::new(None),
            last_commit: Mutex::new(None),
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Writer {
    pub(crate) opener: Opener,
    pub(crate) directory: Option<StoreDirectory>,
    pub(crate) folds: Folds,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
    pub(crate) epoch: u64,
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Receiver<Job>,
    /// `None` once the writer stopped.
    pub(crate) database: Option<Database>,
    pub(crate) standing: Standing,
    pub(crate) names: StreamNames,
    flush: Option<Flush>,
    overlay_events: u64,
    overlay_bytes: usize,
    head_written: Option<(Position, Moment)>,
    /// Callers that were waiting or answered when the last batch was done: as many may be in the next one.
    callers_seen: usize,
    /// What the last batch took from its last decision to its answers.
    last_commit: std::time::Duration,
    /// A job that ended the gathering of a batch and is next.
    taken: Option<Job>,
    rebuild_waiters: Vec<Done>,
    /// Why a rebuild was given up, for those who wait for it.
    rebuild_failed: Option<StoreError>,
}

/// What a batch has taken from the queue so far.
struct Gathered {
    commands: usize,
    bytes: usize,
    /// When it stops waiting for more.
    until: Moment,
}

/// What a batch adds to the state it is decided on.
struct Batch {
    rows: RowMap,
    recent: Vec<RecentEvent>,
    places: Vec<FoldPlace>,
    head: Position,
    next_stream: Option<u64>,
}

impl Writer {
    #[allow(clippy::too_many_arguments, reason = "the parts a writer is made of; called once")]
    pub(crate) fn new(
        opener: Opener,
        directory: Option<StoreDirectory>,
        folds: Folds,
        limits: Limits,
        clock: Clock,
        epoch: u64,
        names: StreamNames,
        queue: Receiver<Job>,
    ) -> Result<Writer, StoreError> {
        let (database, loaded) = open(&opener, directory.as_ref(), &folds, &limits, epoch, &names)?;
        let overlay_events = loaded.overlay_events();
        let mut writer = Writer {
            opener,
            directory,
            folds,
            limits,
            clock,
            epoch,
            shared: Arc::new(Shared::new(loaded.snapshot)),
            queue,
            database: Some(database),
            standing: loaded.standing,
            names,
            flush: None,
            overlay_events,
            overlay_bytes: 0,
            head_written: None,
            callers_seen: 1,
            last_commit: std::time::Duration::ZERO,
            taken: None,
            rebuild_waiters: Vec::new(),
            rebuild_failed: None,
        };
        writer.settle()?;
        Ok(writer)
    }

    /// Finishes a flush that a crash interrupted, in one commit, before anything else is written: two flushes under
    /// way at once could not be told apart. Plans the rebuild of projections whose rows cannot serve.
    fn settle(&mut self) -> Result<(), StoreError> {
        let places = Arc::clone(&lock(&self.shared.published).folds);
        if self.standing.flush.is_some() {
            for pointer in &mut self.standing.pointers {
                let place = places.iter().find(|place| place.name == pointer.name);
                if place.is_none_or(|place| matches!(place.state, FoldState::Rebuilding { .. })) {
                    // Some of its rows are newer than its checkpoint and nobody brings the others up: they never
                    // serve again.
                    pointer.fingerprint = !pointer.fingerprint;
                }
            }
            self.begin_flush(usize::MAX)?;
            self.write_flush()?;
        }
        for place in places.iter() {
            let Some(pointer) = self.standing.pointer(place.name) else { continue };
            let fold = self.folds.iter().find(|fold| fold.name() == place.name);
            if fold.is_some_and(|fold| pointer.rebuilt_with != crate::fold::fingerprint(&**fold)) {
                pointer.rebuilt_to = pointer.rebuilt_to.map(|_| 0);
            }
            if let FoldState::Rebuilding { done } = &place.state {
                pointer.rebuilt_to.get_or_insert(*done);
            }
        }
        Ok(())
    }

    /// Works until the store is closed.
    pub(crate) fn run(mut self) {
        loop {
            match self.next_job() {
                NextJob::Take(Job::Command(first)) => {
                    self.batch(first);
                    // Under steady load the queue is never empty: a rebuild still gets a turn between batches.
                    self.rebuild_turn();
                }
                NextJob::Take(Job::Flush(done)) => {
                    let flushed = self.running().and_then(|()| contained(|| self.flush_all()));
                    let flushed = flushed.map(|()| self.write_head(true));
                    self.stop_on_error(&flushed);
                    done(flushed);
                }
                NextJob::Take(Job::Rebuild(names, done)) => {
                    match self.running().and_then(|()| self.plan_rebuild(&names)) {
                        Ok(()) => self.rebuild_waiters.push(done),
                        Err(error) => done(Err(error)),
                    }
                }
                NextJob::Take(Job::Resume(done)) => done(contained(|| self.resume())),
                NextJob::Take(Job::Close(done)) => return done(contained(|| self.close())),
                NextJob::Idle => self.background(),
                NextJob::Gone => {
                    // Every handle is gone: nobody is left to be told how the close went.
                    let _ = contained(|| self.close());
                    return;
                }
            }
        }
    }

    fn has_background_work(&self) -> bool {
        self.running().is_ok()
            && self.database.is_some()
            && (self.flush.is_some() || self.overlay_events > 0 || self.rebuilding().is_some())
    }

    fn next_job(&mut self) -> NextJob {
        if let Some(job) = self.taken.take() {
            return NextJob::Take(job);
        }
        if self.rebuilding().is_none() {
            let result = self.running().and(self.rebuild_failed.take().map_or(Ok(()), Err));
            self.rebuild_waiters.drain(..).for_each(|done| done(result.clone()));
        }
        let wait = if self.rebuilding().is_some() {
            std::time::Duration::ZERO
        } else if self.has_background_work() || self.head_is_behind() {
            self.limits.flush_idle
        } else {
            return self.queue.recv().map_or(NextJob::Gone, NextJob::Take);
        };
        match self.queue.recv_timeout(wait) {
            Ok(job) => NextJob::Take(job),
            Err(RecvTimeoutError::Timeout) => NextJob::Idle,
            Err(RecvTimeoutError::Disconnected) => NextJob::Gone,
        }
    }

    fn rebuild_turn(&mut self) {
        if self.rebuilding().is_some() {
            let worked = contained(|| self.rebuild_step());
            self.stop_on_error(&worked);
        }
    }

    fn background(&mut self) {
        if self.rebuilding().is_some() {
            self.rebuild_turn();
        } else if self.has_background_work() {
            let worked = contained(|| self.flush_all());
            self.stop_on_error(&worked);
        } else {
            self.write_head(true);
        }
    }

    fn running(&self) -> Result<(), StoreError> {
        match &*lock(&self.shared.stopped) {
            Some(reason) => Err(StoreError::WriterStopped { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    fn stop_on_error(&mut self, result: &Result<(), StoreError>) {
        if let Err(error) = result
            && !matches!(error, StoreError::WriterStopped { .. } | StoreError::NoSuchProjection { .. })
        {
            self.stop(error.to_string());
        }
    }

    /// Fail-stop: nothing is retried in place, and nothing more is written until `resume`.
    fn stop(&mut self, reason: String) {
        *lock(&self.shared.stopped) = Some(reason);
        self.flush = None;
    }

    /// Decides `first` and what comes behind it, each on top of the one before, and commits them together.
    fn batch(&mut self, first: Submission) {
        let begin = Moment::now();
        let mut gathered = Gathered { commands: 0, bytes: 0, until: begin + self.limits.gather.min(self.last_commit) };
        let mut batch = Decided::new(lock(&self.shared.published).clone());
        let mut next = Some(first);
        while let Some(submission) = next.take() {
            self.shared.queued_bytes.fetch_sub(submission.bytes, Ordering::Relaxed);
            gathered.commands += 1;
            gathered.bytes += submission.bytes;
            if let Err(error) = self.running() {
                (submission.answer)(Err(error));
            } else {
                self.decide_next(&mut batch, submission);
            }
            next = self.gather(&gathered);
        }
        let decided = Moment::now();
        self.finish(batch);
        self.last_commit = decided.elapsed();
        self.callers_seen = gathered.commands + self.queue.len();
    }

    /// The next command of a batch that is not full; a job that is no command ends it and is done next.
    fn gather(&mut self, gathered: &Gathered) -> Option<Submission> {
        if gathered.commands >= self.limits.batch_commands_max || gathered.bytes >= self.limits.batch_bytes_max {
            return None;
        }
        let job = match self.queue.try_recv() {
            Ok(job) => job,
            // Callers that were just answered are on their way again. Waiting for them costs less than the commit
            // that they would need for themselves; one caller alone is never kept waiting.
            Err(_) if gathered.commands < self.callers_seen => self.queue.recv_deadline(gathered.until).ok()?,
            Err(_) => return None,
        };
        match job {
            Job::Command(submission) => Some(submission),
            job => {
                self.taken = Some(job);
                None
            }
        }
    }

    fn head_is_behind(&self) -> bool {
        self.directory.is_some() && self.head_written.is_none_or(|(position, _)| position != *lock(&self.shared.head))
    }

    fn write_head(&mut self, now: bool) {
        let Some(directory) = &self.directory else { return };
        let due = self.head_written.is_none_or(|(_, at)| at.elapsed() >= self.limits.head_interval);
        if !self.head_is_behind() || !(now || due) {
            return;
        }
        let (position, chain) = {
            let published = lock(&self.shared.published);
            (published.head, published.chain)
        };
        // A head that cannot be written protects less and loses nothing: the log itself is on disk.
        let _ = directory.write_head(&Head { epoch: self.epoch, position, chain });
        self.head_written = Some((position, Moment::now()));
    }

    /// Closes the database, opens it again, checks the tail, and goes on.
    fn resume(&mut self) -> Result<(), StoreError> {
        self.flush = None;
        if let Some(database) = self.database.take() {
            // A database that failed to write may fail to close; what counts is what can be read after reopening.
            let _ = contained(|| Ok(database.close()?));
        }
        let (database, loaded) =
            open(&self.opener, self.directory.as_ref(), &self.folds, &self.limits, self.epoch, &self.names)?;
        self.database = Some(database);
        self.overlay_events = loaded.overlay_events();
        self.overlay_bytes = 0;
        self.standing = loaded.standing;
        self.publish(|published| *published = loaded.snapshot)?;
        *lock(&self.shared.stopped) = None;
        let settled = self.settle();
        self.stop_on_error(&settled);
        settled
    }

    fn close(&mut self) -> Result<(), StoreError> {
        let flushed = match self.running() {
            Ok(()) => {
                // A short tail is folded again at the next open sooner than it is written now.
                let flushed = if self.overlay_events > self.limits.close_tail_events || self.flush.is_some() {
                    self.flush_all()
                } else {
                    Ok(())
                };
                self.write_head(true);
                flushed
            }
            Err(_) => Ok(()),
        };
        *lock(&self.shared.stopped) = Some("the store is closed".to_owned());
        let closed = match self.database.take() {
            Some(database) => database.close().map_err(|error| StoreError::Database { message: error.to_string() }),
            None => Ok(()),
        };
        flushed.and(closed)
    }
}

enum NextJob {
    Take(Job),
    /// Nothing is asked: time for what can wait.
    Idle,
    /// Every handle of the store is gone.
    Gone,
}

fn open(
    opener: &Opener,
    directory: Option<&StoreDirectory>,
    folds: &Folds,
    limits: &Limits,
    epoch: u64,
    names: &StreamNames,
) -> Result<(Database, Loaded), StoreError> {
    let database = opener()?;
    let transaction = database.begin_read()?;
    if let Some(directory) = directory {
        crate::verify::check_belongs(&transaction, directory)?;
    }
    let tail_events_max = limits.overlay_events_max * 4;
    let loaded = load(&transaction, folds, tail_events_max, epoch, Arc::clone(names))?;
    Ok((database, loaded))
}

/// Makes all tables at once, so that no reader ever meets a database with some of them.
pub(crate) fn make_tables(database: &Database, store_id: &str) -> Result<(), StoreError> {
    match database.begin_read()?.open_table(STANDING) {
        Ok(_) => return Ok(()),
        Err(redb::TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let transaction = begin(database)?;
    transaction.open_table(BLOCKS)?;
    transaction.open_table(ROWS)?;
    {
        let mut table = transaction.open_table(STANDING)?;
        let sealed = crate::rows::seal(crate::projector::STORE_KEY, store_id.as_bytes());
        table.insert(crate::projector::STORE_KEY, sealed.as_slice())?;
    }
    transaction.commit()?;
    Ok(())
}

pub(crate) fn begin(database: &Database) -> Result<redb::WriteTransaction, StoreError> {
    let mut transaction = database.begin_write()?;
    // Quick repair implies two-phase commit; without it, opening a large store after a crash takes seconds.
    transaction.set_quick_repair(true);
    Ok(transaction)
}
