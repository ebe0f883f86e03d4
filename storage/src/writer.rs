//! The one writer: takes commands from a bounded queue, decides them, commits them together, then answers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant as Moment;

use cognilog_core::event::Envelope;
use cognilog_core::{Instant, Position, StreamId};
use crossbeam_channel::{Receiver, RecvTimeoutError};
use redb::{Database, ReadableDatabase};

use crate::block::{BlockBuilder, StoredBlocks};
use crate::directory::{Head, StoreDirectory};
use crate::error::{StoreError, contained, used_id};
use crate::fold::{Condition, Decision, Folds, NewEvent, Receipt, Recorded, panic_message};
use crate::index::{IndexedRecord, forget_keys, index_record};
use crate::limits::Limits;
use crate::projector::{BLOCKS, Loaded, ROWS, STANDING, Standing, apply_all, load};
use crate::record::Draft;
use crate::rows::{Layered, RowMap, StoredRows};
use crate::snapshot::{FoldPlace, FoldState, RecentEvent, Snapshot, StreamNames, View};

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

/// A flush that is under way: the frozen rows that are still to be written.
struct Flush {
    to: Position,
    rows: Arc<RowMap>,
    next: VecDeque<std::ops::Range<usize>>,
    keys: Vec<crate::rows::Bytes>,
}

impl Flush {
    /// The next slices as one, until they hold `rows` rows; one at least.
    fn next_slices(&mut self, rows: usize) -> Option<std::ops::Range<usize>> {
        let mut slices = self.next.pop_front()?;
        while slices.len() < rows {
            let Some(next) = self.next.pop_front() else { break };
            slices.end = next.end;
        }
        Some(slices)
    }
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
    /// What the last batch took from its first command to its answers.
    last_batch: std::time::Duration,
    /// A job that ended the gathering of a batch and is next.
    taken: Option<Job>,
    rebuild_waiters: Vec<Done>,
    /// Why a rebuild was given up, for those who wait for it.
    rebuild_failed: Option<StoreError>,
}

/// One batch while it is decided.
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
            last_batch: std::time::Duration::ZERO,
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

    /// Takes what waits behind `first`, decides each on top of the one before, and commits them together.
    fn batch(&mut self, first: Submission) {
        let mut submissions = vec![first];
        let control = self.gather(&mut submissions);
        for submission in &submissions {
            self.shared.queued_bytes.fetch_sub(submission.bytes, Ordering::Relaxed);
        }
        let (begin, taken) = (Moment::now(), submissions.len());
        if let Err(error) = self.running() {
            submissions.into_iter().for_each(|submission| (submission.answer)(Err(error.clone())));
        } else {
            self.decide_and_commit(submissions);
        }
        self.last_batch = begin.elapsed();
        self.callers_seen = taken + self.queue.len();
        self.taken = control;
    }

    /// Fills the batch from the queue; a job that is no command ends it and is handed back.
    fn gather(&mut self, submissions: &mut Vec<Submission>) -> Option<Job> {
        let mut bytes = submissions[0].bytes;
        let until = Moment::now() + self.limits.gather.min(self.last_batch / 2);
        let mut control = None;
        while submissions.len() < self.limits.batch_events_max && bytes < self.limits.batch_bytes_max {
            let job = match self.queue.try_recv() {
                Ok(job) => job,
                // Callers that were just answered are on their way again. Waiting for them costs less than the commit
                // that they would need for themselves; one caller alone is never kept waiting.
                Err(_) if submissions.len() < self.callers_seen => match self.queue.recv_deadline(until) {
                    Ok(job) => job,
                    Err(_) => break,
                },
                Err(_) => break,
            };
            match job {
                Job::Command(submission) => {
                    bytes += submission.bytes;
                    submissions.push(submission);
                }
                job => {
                    control = Some(job);
                    break;
                }
            }
        }
        control
    }

    fn decide_and_commit(&mut self, submissions: Vec<Submission>) {
        let snapshot = lock(&self.shared.published).clone();
        let mut batch = Batch {
            rows: RowMap::new(),
            recent: Vec::new(),
            places: snapshot.folds.to_vec(),
            head: snapshot.head,
            next_stream: None,
        };
        let mut answers: Vec<(Answer, Result<Receipt, StoreError>)> = Vec::new();
        let mut submissions = submissions.into_iter();
        while let Some(mut submission) = submissions.next() {
            let decided = contained(|| Ok(self.decide(&snapshot, &mut batch, &mut submission.decide)));
            match decided.unwrap_or_else(|error| Err(Failure::Broken(error))) {
                Ok(receipt) => answers.push((submission.answer, Ok(receipt))),
                Err(Failure::Rejected(error)) if batch.recent.is_empty() => (submission.answer)(Err(error)),
                // It may rest on an event of this batch, which is not on disk yet.
                Err(Failure::Rejected(error)) => answers.push((submission.answer, Err(error))),
                Err(Failure::Broken(error)) => {
                    // What was decided rests on rows that cannot be trusted: nothing of the batch is written.
                    self.stop(error.to_string());
                    let stopped = StoreError::WriterStopped { reason: error.to_string() };
                    (submission.answer)(Err(error));
                    answers.into_iter().for_each(|(answer, _)| answer(Err(stopped.clone())));
                    submissions.for_each(|submission| (submission.answer)(Err(stopped.clone())));
                    return;
                }
            }
        }
        let head = snapshot.head;
        let committed = if batch.recent.is_empty() { Ok(()) } else { contained(|| self.commit(snapshot, batch)) };
        let Err(error) = committed else {
            return answers.into_iter().for_each(|(answer, result)| answer(result));
        };
        let reason = error.to_string();
        self.stop(reason.clone());
        for (answer, result) in answers {
            answer(match result {
                // What was there before the batch is on disk whatever became of it.
                Ok(receipt) if receipt.repeated && receipt.events.iter().all(|event| event.position <= head) => {
                    Ok(receipt)
                }
                Ok(_) => Err(StoreError::OutcomeUnknown { reason: reason.clone() }),
                Err(_) => Err(StoreError::WriterStopped { reason: reason.clone() }),
            });
        }
    }

    /// Decides one command on top of the batch so far.
    fn decide(&self, snapshot: &Snapshot, batch: &mut Batch, decide: &mut Decide) -> Result<Receipt, Failure> {
        let mut maps = vec![&batch.rows];
        maps.extend(snapshot.overlay.maps());
        let view = View {
            snapshot,
            batch: Some(&batch.places),
            layered: Layered::new(maps, Some(&*snapshot.rows)),
            recent: &batch.recent,
            head: batch.head,
        };
        let run = std::panic::AssertUnwindSafe(|| decide(&view));
        let decision = match std::panic::catch_unwind(run) {
            Ok(decision) => decision.map_err(Failure::from_decide)?,
            Err(panic) => {
                let message = format!("the command panicked: {}", panic_message(panic.as_ref()));
                return Err(Failure::Rejected(StoreError::Rejected { code: "command_panicked", message }));
            }
        };
        self.check_limits(&decision).map_err(Failure::Rejected)?;
        if let Some(receipt) = self.repeated(&view, &decision)? {
            return Ok(receipt);
        }
        check_conditions(&view, &decision.conditions)?;
        drop(view);
        self.record(snapshot, batch, decision).map_err(Failure::Broken)
    }

    fn check_limits(&self, decision: &Decision) -> Result<(), StoreError> {
        let too_large = |what, found, limit| {
            if found > limit { Err(StoreError::TooLarge { what, found, limit }) } else { Ok(()) }
        };
        let events = || decision.appends.iter().flat_map(|(_, events)| events);
        for event in events() {
            too_large("an event's payload in bytes", event.payload.len(), self.limits.event_bytes_max)?;
        }
        let bytes = events().map(|event| event.payload.len()).sum();
        too_large("an append's payload in bytes", bytes, self.limits.append_bytes_max)?;
        too_large("the number of events in an append", events().count(), self.limits.append_events_max)?;
        let key = decision.key.as_ref().map_or(0, Vec::len);
        too_large("an idempotency key in bytes", key, cognilog_core::limits::IDEMPOTENCY_KEY_BYTES_MAX)
    }

    /// The first receipt again, if the key or the event ids were used before with the same content.
    fn repeated(&self, view: &View<'_>, decision: &Decision) -> Result<Option<Receipt>, StoreError> {
        let events: Vec<(&StreamId, &NewEvent)> = decision
            .appends
            .iter()
            .flat_map(|(stream, events)| events.iter().map(move |event| (stream, event)))
            .collect();
        if let Some(key) = decision.key.as_deref().filter(|key| !key.is_empty())
            && let Some((first, count)) = view.find_key(key)?
        {
            let conflict = || StoreError::IdempotencyConflict {
                what: format!("key {:?}", String::from_utf8_lossy(key)),
                position: first,
            };
            if count != events.len() as u64 {
                return Err(conflict());
            }
            let positions = (0..count).map(|offset| Position(first.0 + offset));
            return self.same_content(view, &events, positions, conflict).map(Some);
        }
        let mut found = Vec::with_capacity(events.len());
        for (stream, event) in &events {
            match view.find_event(event.event_id)? {
                Some(position) => found.push(position),
                None if found.is_empty() => {}
                None => {
                    return Err(StoreError::IdempotencyConflict {
                        what: used_id(event.event_id, stream),
                        position: found[0],
                    });
                }
            }
        }
        if found.is_empty() {
            return twice_in_one(&events).map(|()| None);
        }
        let conflict = || StoreError::IdempotencyConflict { what: "an event id".to_owned(), position: found[0] };
        if found.len() != events.len() {
            return Err(conflict());
        }
        self.same_content(view, &events, found.iter().copied(), conflict).map(Some)
    }

    fn same_content(
        &self,
        view: &View<'_>,
        events: &[(&StreamId, &NewEvent)],
        positions: impl Iterator<Item = Position>,
        conflict: impl Fn() -> StoreError,
    ) -> Result<Receipt, StoreError> {
        let mut recorded = Vec::with_capacity(events.len());
        for ((stream, event), position) in events.iter().zip(positions) {
            let Some(stored) = view.event(position)? else { return Err(conflict()) };
            // The content of an erased event is not known any more; its id and key still stand for it.
            let same = stored.envelope.erased || (stored.payload == event.payload && stored.codec == event.codec);
            if !same || *stored.stream != **stream || stored.envelope.kind != event.kind {
                return Err(conflict());
            }
            recorded.push(Recorded {
                position,
                event_id: stored.envelope.event_id,
                sequence: stored.envelope.sequence,
            });
        }
        Ok(Receipt { epoch: self.epoch, events: recorded, repeated: true })
    }

    /// Gives the events their places and folds them on top of the batch.
    fn record(&self, snapshot: &Snapshot, batch: &mut Batch, decision: Decision) -> Result<Receipt, StoreError> {
        let mut recorded = Vec::new();
        let mut append_events = decision.appends.iter().map(|(_, events)| events.len() as u32).sum();
        let mut key = decision.key.unwrap_or_default();
        for (stream, events) in decision.appends {
            let mut standing = self.stream_for(snapshot, batch, &stream)?;
            for event in events {
                let position = batch.head.next();
                let envelope = Envelope {
                    position,
                    stream_number: standing.number,
                    stream_index: standing.events,
                    previous_in_stream: standing.last,
                    kind: event.kind,
                    is_cognition: event.is_cognition,
                    sequence: event.sequence,
                    recorded_at: (self.clock)(),
                    occurred_at: event.occurred_at,
                    event_id: event.event_id,
                    imported: event.imported,
                    erased: false,
                };
                let recent = RecentEvent {
                    envelope,
                    stream: stream.clone(),
                    event,
                    append_events: std::mem::take(&mut append_events),
                    key: std::mem::take(&mut key),
                };
                self.fold(snapshot, batch, &recent)?;
                recorded.push(Recorded {
                    position,
                    event_id: recent.envelope.event_id,
                    sequence: recent.envelope.sequence,
                });
                standing.events += 1;
                standing.last = position;
                batch.head = position;
                batch.recent.push(recent);
            }
        }
        Ok(Receipt { epoch: self.epoch, events: recorded, repeated: false })
    }

    fn stream_for(
        &self,
        snapshot: &Snapshot,
        batch: &mut Batch,
        stream: &StreamId,
    ) -> Result<crate::index::StreamStanding, StoreError> {
        let mut maps = vec![&batch.rows];
        maps.extend(snapshot.overlay.maps());
        let layered = Layered::new(maps, Some(&*snapshot.rows));
        if let Some(standing) = crate::index::find_stream(&layered, stream)? {
            return Ok(standing);
        }
        let number = match batch.next_stream {
            Some(number) => number,
            None => crate::index::stream_count(&layered)?,
        };
        batch.next_stream = Some(number + 1);
        Ok(crate::index::StreamStanding { number, events: 0, last: Position::START })
    }

    fn fold(&self, snapshot: &Snapshot, batch: &mut Batch, recent: &RecentEvent) -> Result<(), StoreError> {
        index_record(
            &mut batch.rows,
            &IndexedRecord {
                stream: &recent.stream,
                stream_number: recent.envelope.stream_number,
                stream_index: recent.envelope.stream_index,
                position: recent.envelope.position,
                kind: recent.envelope.kind,
                event_id: recent.envelope.event_id,
                append_events: recent.append_events,
                key: &recent.key,
            },
        );
        let view = recent.event.view(&recent.envelope, &recent.stream)?;
        let older = snapshot.overlay.maps();
        apply_all(&self.folds, &mut batch.places, &mut batch.rows, &older, &snapshot.rows, &view, |_| true)
    }

    /// Writes the batch's blocks in one durable commit, with the next slice of a flush, and publishes the new state.
    fn commit(&mut self, snapshot: Snapshot, batch: Batch) -> Result<(), StoreError> {
        let mut builder = BlockBuilder::new(self.limits.block_bytes_max, snapshot.chain);
        let mut salts = vec![0u8; batch.recent.len() * 16];
        getrandom::fill(&mut salts).map_err(|error| StoreError::Database { message: error.to_string() })?;
        let mut payload_bytes = 0;
        for (recent, salt) in batch.recent.iter().zip(salts.as_chunks::<16>().0) {
            payload_bytes += recent.event.payload.len();
            builder.push(&Draft {
                envelope: &recent.envelope,
                stream: &recent.stream,
                codec: recent.event.codec,
                schema: recent.event.kind.schema(),
                append_events: recent.append_events,
                key: &recent.key,
                payload: &recent.event.payload,
                salt: *salt,
            });
        }
        let (blocks, chain) = builder.finish();
        // Twice as many rows as the batch adds, at least: so a flush ends however fast events come.
        let slice = self.flush.as_mut().and_then(|flush| flush.next_slices(batch.rows.len() * 2));
        let mut standing = self.standing.clone();
        let database = self.database.as_ref().ok_or(StoreError::ReadOnly)?;
        let transaction = begin(database)?;
        {
            let mut table = transaction.open_table(BLOCKS)?;
            for (position, value) in &blocks {
                table.insert(position.0, value.as_slice())?;
            }
        }
        if let (Some(slice), Some(flush)) = (slice, &self.flush) {
            write_slice(&transaction, flush, slice, &mut standing, &batch.places)?;
        }
        transaction.commit()?;
        self.standing = standing;
        self.overlay_events += batch.recent.len() as u64;
        self.overlay_bytes += payload_bytes / 4 + batch.rows.len() * 100;
        let flushed = self.flush.as_ref().is_some_and(|flush| flush.next.is_empty());
        if flushed {
            self.flush = None;
        }
        // The published state is changed in place: the rows in memory are copied only if a reader still looks at them.
        drop(snapshot);
        self.publish(|published| {
            Arc::make_mut(&mut published.overlay.active).extend(batch.rows);
            if flushed {
                published.overlay.frozen = None;
            }
            published.head = batch.head;
            published.chain = chain;
            published.folds = Arc::new(batch.places);
        })?;
        *lock(&self.shared.last_commit) = Some((self.clock)());
        if self.flush.is_none()
            && (self.overlay_events >= self.limits.overlay_events_max
                || self.overlay_bytes >= self.limits.overlay_bytes_max)
        {
            self.begin_flush(self.limits.flush_slice_rows)?;
        }
        self.write_head(false);
        Ok(())
    }

    /// Makes a state visible: its tables are opened anew, so that they hold the blocks and rows just committed.
    fn publish(&self, change: impl FnOnce(&mut Snapshot)) -> Result<(), StoreError> {
        let database = self.database.as_ref().ok_or(StoreError::ReadOnly)?;
        let transaction = database.begin_read()?;
        let blocks = Arc::new(StoredBlocks { table: transaction.open_table(BLOCKS)? });
        let rows = Arc::new(StoredRows { table: transaction.open_table(ROWS)? });
        let standing = Arc::new(transaction.open_table(STANDING)?);
        let head = {
            let mut published = lock(&self.shared.published);
            change(&mut published);
            (published.blocks, published.rows, published.standing) = (blocks, rows, standing);
            published.head
        };
        *lock(&self.shared.head) = head;
        self.shared.head_changed.notify_all();
        Ok(())
    }

    /// Freezes the rows in memory and cuts them into slices; each later commit writes one.
    fn begin_flush(&mut self, slice_rows: usize) -> Result<(), StoreError> {
        let mut snapshot = lock(&self.shared.published).clone();
        let horizon = Position(snapshot.head.0.saturating_sub(self.limits.key_horizon));
        let mut forgotten = RowMap::new();
        if horizon > Position::START {
            forget_keys(
                &snapshot.view().layered,
                &mut forgotten,
                horizon,
                self.limits.overlay_events_max as usize * 2,
            )?;
        }
        let mut active = std::mem::take(&mut snapshot.overlay.active);
        if !forgotten.is_empty() {
            Arc::make_mut(&mut active).extend(forgotten);
        }
        snapshot.overlay.frozen = Some(Arc::clone(&active));
        let keys: Vec<crate::rows::Bytes> = active.keys().cloned().collect();
        let next = slices(&keys, slice_rows, &snapshot.folds);
        self.flush = Some(Flush { to: snapshot.head, rows: active, next, keys });
        self.overlay_events = 0;
        self.overlay_bytes = 0;
        self.publish(|published| *published = snapshot)
    }

    /// Writes what is left of the flush that is under way.
    fn write_flush(&mut self) -> Result<(), StoreError> {
        while let Some(slice) = self.flush.as_mut().and_then(|flush| flush.next.pop_front()) {
            let Some(flush) = &self.flush else { break };
            let mut snapshot = lock(&self.shared.published).clone();
            let mut standing = self.standing.clone();
            let database = self.database.as_ref().ok_or(StoreError::ReadOnly)?;
            let transaction = begin(database)?;
            write_slice(&transaction, flush, slice, &mut standing, &snapshot.folds)?;
            transaction.commit()?;
            self.standing = standing;
            if flush.next.is_empty() {
                self.flush = None;
                snapshot.overlay.frozen = None;
                self.publish(|published| *published = snapshot)?;
            }
        }
        Ok(())
    }

    /// Writes every row now.
    fn flush_all(&mut self) -> Result<(), StoreError> {
        self.write_flush()?;
        if !lock(&self.shared.published).overlay.active.is_empty() {
            self.begin_flush(self.limits.flush_slice_rows)?;
            self.write_flush()?;
        }
        Ok(())
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
                let flushed = if self.overlay_events > CLOSE_TAIL_EVENTS || self.flush.is_some() {
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

    /// The first projection that waits to be rebuilt.
    fn rebuilding(&self) -> Option<usize> {
        self.database.as_ref()?;
        if lock(&self.shared.stopped).is_some() {
            return None;
        }
        self.standing.pointers.iter().position(|pointer| {
            pointer.rebuilt_to.is_some() && self.folds.iter().any(|fold| fold.name() == pointer.name)
        })
    }

    fn plan_rebuild(&mut self, names: &[String]) -> Result<(), StoreError> {
        let known: Vec<&'static str> = self.folds.iter().map(|fold| fold.name()).collect();
        if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
            return Err(StoreError::NoSuchProjection { name: name.clone() });
        }
        for name in known {
            let wanted = names.is_empty() || names.iter().any(|wanted| wanted == name);
            if let Some(pointer) = self.standing.pointer(name).filter(|_| wanted) {
                pointer.rebuilt_to = Some(0);
            }
        }
        Ok(())
    }
}

/// Events that may be left unwritten in rows when a store is closed.
const CLOSE_TAIL_EVENTS: u64 = 256;

enum NextJob {
    Take(Job),
    /// Nothing is asked: time for what can wait.
    Idle,
    /// Every handle of the store is gone.
    Gone,
}

/// Why a command was not recorded.
enum Failure {
    /// The command alone fails.
    Rejected(StoreError),
    /// What the batch rests on is damaged.
    Broken(StoreError),
}

impl Failure {
    fn from_decide(error: StoreError) -> Failure {
        match error {
            StoreError::Damaged { .. } | StoreError::Database { .. } => Failure::Broken(error),
            error => Failure::Rejected(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::from_decide(error)
    }
}

fn twice_in_one(events: &[(&StreamId, &NewEvent)]) -> Result<(), StoreError> {
    let mut seen = std::collections::HashSet::with_capacity(events.len());
    for (stream, event) in events {
        if !seen.insert(event.event_id) {
            return Err(StoreError::Rejected {
                code: "event_id_twice",
                message: format!("{} stands twice in one append", used_id(event.event_id, stream)),
            });
        }
    }
    Ok(())
}

fn check_conditions(view: &View<'_>, conditions: &[Condition]) -> Result<(), StoreError> {
    for (index, condition) in conditions.iter().enumerate() {
        match condition {
            Condition::StreamAt { stream, position } => {
                let found = view.stream(stream)?.map_or(Position::START, |standing| standing.last);
                if found != *position {
                    let reason = format!("{stream} is at position {found}, expected {position}");
                    return Err(StoreError::Conflict { index, reason, position: found });
                }
            }
            Condition::NoneSince { stream, kinds, after } => {
                let Some(standing) = view.stream(stream)? else { continue };
                let found = view
                    .stream_positions(standing.number, *after, usize::MAX)?
                    .into_iter()
                    .find(|(_, kind)| kinds.is_empty() || kinds.contains(kind));
                if let Some((position, kind)) = found {
                    let reason = format!("{stream} has a {} event behind position {after}", kind.as_str());
                    return Err(StoreError::Conflict { index, reason, position });
                }
            }
        }
    }
    Ok(())
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

fn begin(database: &Database) -> Result<redb::WriteTransaction, StoreError> {
    let mut transaction = database.begin_write()?;
    // Quick repair implies two-phase commit; without it, opening a large store after a crash takes seconds.
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// Cuts sorted keys into slices that end between streams of a stream-scoped fold, and never inside another fold.
fn slices(keys: &[crate::rows::Bytes], rows_max: usize, places: &[FoldPlace]) -> VecDeque<std::ops::Range<usize>> {
    use crate::fold::Scope;
    use crate::index::INDEX_SLOT;
    let group = |key: &[u8]| -> usize {
        match places.iter().find(|place| place.slot == key[0]) {
            Some(place) if place.scope == Scope::Stream => 9,
            Some(_) => 1,
            // Index rows are absolute: they may be cut anywhere.
            None if key[0] == INDEX_SLOT => usize::MAX,
            None => 1,
        }
    };
    let mut slices = VecDeque::new();
    let mut start = 0;
    for end in 1..=keys.len() {
        let full = end - start >= rows_max;
        let boundary = end == keys.len() || {
            let (last, next) = (&keys[end - 1], &keys[end]);
            let length = group(last);
            length == usize::MAX || last.get(..length) != next.get(..length)
        };
        if end == keys.len() || (full && boundary) {
            slices.push_back(start..end);
            start = end;
        }
    }
    if slices.is_empty() {
        // Without rows the checkpoints still move, in a commit of their own.
        slices.push_back(0..0);
    }
    slices
}

fn write_slice(
    transaction: &redb::WriteTransaction,
    flush: &Flush,
    slice: std::ops::Range<usize>,
    standing: &mut Standing,
    places: &[FoldPlace],
) -> Result<(), StoreError> {
    let last_key = slice.end.checked_sub(1).map(|last| flush.keys[last].to_vec());
    write_rows(transaction, flush.keys[slice].iter().map(|key| (key, flush.rows[key].as_ref())), standing)?;
    for place in places {
        if let Some(pointer) = standing.pointer(place.name) {
            pointer.stopped = match place.state {
                FoldState::Stopped { position, .. } => Some(position.0),
                _ => None,
            };
        }
    }
    match last_key.filter(|_| !flush.next.is_empty()) {
        Some(last_key) => standing.flush = Some(crate::projector::FlushStanding { to: flush.to.0, last_key }),
        None => move_checkpoints(standing, flush.to, places),
    }
    write_standing(transaction, standing)
}

/// Writes rows and keeps their slots' tallies.
fn write_rows<'r>(
    transaction: &redb::WriteTransaction,
    rows: impl Iterator<Item = (&'r crate::rows::Bytes, Option<&'r crate::rows::Bytes>)>,
    standing: &mut Standing,
) -> Result<(), StoreError> {
    use crate::rows::{row_hash, seal};
    let mut table = transaction.open_table(ROWS)?;
    let hash_of = |sealed: &[u8]| sealed.first_chunk::<8>().map_or(0, |checksum| u64::from_le_bytes(*checksum));
    for (key, row) in rows {
        let old = match row {
            Some(row) => table.insert(&key[..], seal(key, row).as_slice())?,
            None => table.remove(&key[..])?,
        };
        let old = old.map(|guard| hash_of(guard.value()));
        if let Some(tally) = standing.tally(key[0]) {
            if let Some(old) = old {
                tally.rows = tally.rows.wrapping_sub(1);
                tally.sum = tally.sum.wrapping_sub(old);
            }
            if let Some(row) = row {
                tally.rows += 1;
                tally.sum = tally.sum.wrapping_add(row_hash(key, row));
            }
        }
    }
    Ok(())
}

fn write_standing(transaction: &redb::WriteTransaction, standing: &Standing) -> Result<(), StoreError> {
    let mut table = transaction.open_table(STANDING)?;
    table.insert(crate::projector::STANDING_KEY, standing.to_sealed()?.as_slice())?;
    Ok(())
}

fn move_checkpoints(standing: &mut Standing, to: Position, places: &[FoldPlace]) {
    standing.flush = None;
    standing.index_checkpoint = to.0;
    for place in places {
        if let Some(pointer) = standing.pointer(place.name) {
            pointer.checkpoint = match &place.state {
                // A projection that was rebuilt while the flush was under way is ahead of it.
                FoldState::Live => pointer.checkpoint.max(to.0),
                FoldState::Stopped { position, .. } => pointer.checkpoint.max((position.0 - 1).min(to.0)),
                FoldState::Rebuilding { .. } => pointer.checkpoint,
            };
        }
    }
}

mod rebuild {
    //! Making a projection's rows again in its idle slot, in small jobs, and flipping to it in one commit.

    use std::ops::ControlFlow;

    use redb::ReadableTable;

    use super::*;
    use crate::fold::{Fold, apply_fold, fingerprint};
    use crate::rows::RowSource;

    impl Writer {
        /// Folds the next events of the first projection that waits; flips it when it has reached the head.
        pub(super) fn rebuild_step(&mut self) -> Result<(), StoreError> {
            let Some(which) = self.rebuilding() else { return Ok(()) };
            if self.standing.pointers[which].rebuilt_to == Some(0) {
                // Rows in memory that belong to the slot, from when it served, would be written over the new ones.
                self.flush_all()?;
            }
            let snapshot = lock(&self.shared.published).clone();
            let mut standing = self.standing.clone();
            let pointer = standing.pointers[which].clone();
            let Some(fold) = self.folds.iter().find(|fold| fold.name() == pointer.name).cloned() else {
                return Ok(());
            };
            let idle = 1 - pointer.serving;
            let slot = pointer.slots[idle];
            let done = Position(pointer.rebuilt_to.unwrap_or(0));
            let database = self.database.as_ref().ok_or(StoreError::ReadOnly)?;
            let transaction = begin(database)?;
            if done == Position::START {
                clear_slot(&transaction, slot)?;
                standing.pointers[which].tallies[idle] = Default::default();
            }
            let to = Position((done.0 + self.limits.rebuild_events as u64).min(snapshot.head.0));
            let Remade { rows, stopped } = match remake(&*fold, &snapshot, slot, done, to) {
                Ok(remade) => remade,
                Err(error @ (StoreError::Damaged { .. } | StoreError::Body { .. })) => {
                    drop(transaction);
                    return self.give_up(which, done, error);
                }
                Err(error) => return Err(error),
            };
            write_rows(&transaction, rows.iter().map(|(key, row)| (key, row.as_ref())), &mut standing)?;
            let finished = to == snapshot.head || stopped.is_some();
            let pointer = &mut standing.pointers[which];
            if finished {
                pointer.serving = idle;
                pointer.version = fold.version();
                pointer.fingerprint = fingerprint(&*fold);
                pointer.checkpoint = stopped.as_ref().map_or(to.0, |(position, _)| position.0 - 1);
                pointer.rebuilt_to = None;
            } else {
                pointer.rebuilt_to = Some(to.0);
                pointer.rebuilt_with = fingerprint(&*fold);
            }
            write_standing(&transaction, &standing)?;
            transaction.commit()?;
            self.standing = standing;
            let state = match stopped {
                Some((position, message)) => FoldState::Stopped { position, message },
                None if finished => FoldState::Live,
                None => FoldState::Rebuilding { done: to.0 },
            };
            self.publish_place(fold.name(), finished.then_some(slot), state)
        }

        /// Leaves the rows that serve as they are: new ones cannot be made from a log that is damaged.
        fn give_up(&mut self, which: usize, done: Position, error: StoreError) -> Result<(), StoreError> {
            let pointer = &mut self.standing.pointers[which];
            pointer.rebuilt_to = None;
            let name = pointer.name.clone();
            let message = format!("it cannot be rebuilt: {error}");
            self.rebuild_failed = Some(error);
            let state = FoldState::Stopped { position: done.next(), message };
            self.publish_place(&name, None, state)
        }

        fn publish_place(&mut self, name: &str, slot: Option<u8>, state: FoldState) -> Result<(), StoreError> {
            let mut snapshot = lock(&self.shared.published).clone();
            let mut places = snapshot.folds.to_vec();
            for place in places.iter_mut().filter(|place| place.name == name) {
                match slot {
                    Some(slot) => {
                        place.slot = slot;
                        place.state = state.clone();
                    }
                    // A forced rebuild beside a live slot: the old rows go on serving until the flip.
                    None if place.state == FoldState::Live => {}
                    None => place.state = state.clone(),
                }
            }
            snapshot.folds = Arc::new(places);
            self.publish(|published| *published = snapshot)
        }
    }

    /// Rows made of some events, and the event that the fold could not take.
    struct Remade {
        rows: RowMap,
        stopped: Option<(Position, String)>,
    }

    fn remake(
        fold: &dyn Fold,
        snapshot: &Snapshot,
        slot: u8,
        done: Position,
        to: Position,
    ) -> Result<Remade, StoreError> {
        let mut remade = Remade { rows: RowMap::new(), stopped: None };
        // At the start the snapshot still sees the rows that the slot held when it last served.
        let stored: Option<&dyn RowSource> = if done == Position::START { None } else { Some(&*snapshot.rows) };
        snapshot.visit(done.next(), to, |event| {
            let applied = event.with_view(|view| {
                let layered = Layered::new(vec![&remade.rows], stored);
                apply_fold(fold, &layered, &[slot], view)
            })??;
            match applied {
                Ok(changes) => {
                    remade.rows.extend(changes);
                    Ok(ControlFlow::Continue(()))
                }
                Err(message) => {
                    remade.stopped = Some((event.envelope().position, message));
                    Ok(ControlFlow::Break(()))
                }
            }
        })?;
        Ok(remade)
    }

    fn clear_slot(transaction: &redb::WriteTransaction, slot: u8) -> Result<(), StoreError> {
        let mut table = transaction.open_table(ROWS)?;
        let (from, to) = ([slot], [slot + 1]);
        let any = table.range::<&[u8]>(&from[..]..&to[..])?.next().is_some();
        if any {
            table.retain_in::<&[u8], _>(&from[..]..&to[..], |_, _| false)?;
        }
        Ok(())
    }
}
