//! A simulated disk under redb: it loses power, refuses operations, lies about syncs, and replays all of it from a seed.

use std::fmt;
use std::io;
use std::ops::{Bound, Range};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use redb::{BackendError, StorageBackend};

mod recording;

pub use recording::{CrashPoints, Recording};

/// The unit a disk writes whole; a larger write can be torn between any two sectors.
pub const SECTOR_BYTES: usize = 512;

/// The longest a simulated disk grows; beyond it operations report a full disk, as a damaged length must not exhaust
/// the memory of the machine that runs the tests.
pub const CAPACITY_BYTES: u64 = 1 << 30;

/// The error a refused operation reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// `EIO`: nothing of a refused write reached the disk.
    InputOutput,
    /// `ENOSPC`: the first half of the sectors of a refused write was written before the space ran out, which is how
    /// a short write ends.
    NoSpace,
}

/// How often a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// One operation only.
    Once,
    /// Every operation from its ordinal on, until [`SimulatedDisk::clear_faults`] or a restart.
    Forever,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The power fails just before the operation; it and everything after it fails until [`SimulatedDisk::restart`].
    PowerLoss,
    /// The write, length change or sync is refused.
    ///
    /// A refused sync puts the unsynced writes in doubt, as Linux does: they stay readable, they may or may not be
    /// durable, and no later sync makes them so, because the kernel marks the pages clean after it reported the
    /// error. Only writing the same bytes again and syncing them does. Length changes are journalled metadata, so
    /// they stay unsynced and a later sync settles them.
    Error {
        /// What it reports.
        error: DiskError,
        /// [`Times::Once`] strikes exactly the planned ordinal.
        times: Times,
    },
    /// A read fails with `EIO`. The ordinal counts reads ([`SimulatedDisk::reads`]).
    ReadError {
        /// [`Times::Once`] strikes the first read at or after the planned ordinal.
        times: Times,
    },
    /// A sync returns success and makes nothing durable.
    LyingSync {
        /// [`Times::Once`] strikes the first sync at or after the planned ordinal.
        times: Times,
    },
}

/// A fault and the operation it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The ordinal of the operation. [`SimulatedDisk::operations`] is the ordinal of the next one.
    pub at: u64,
    /// What happens to it.
    pub kind: FaultKind,
}

/// Which of the operations that are not known to be durable survive a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// None of them.
    DropAll,
    /// All of them.
    KeepAll,
    /// The first few, in the order they were issued.
    Prefix,
    /// Any of them, and of a write any of its sectors.
    ///
    /// Each sector ends as any one of the versions it had since the last sync. That is every outcome of reordered
    /// writes too, so the survivors are replayed in order and not shuffled.
    Subset,
    /// All but one of them: what a missing barrier between two writes looks like.
    OneMissing,
}

impl Tear {
    /// Every way to tear, for sweeps.
    pub const ALL: [Tear; 5] = [Tear::DropAll, Tear::KeepAll, Tear::Prefix, Tear::Subset, Tear::OneMissing];
}

/// A disk in memory, and the handle to it: clones share one disk.
///
/// It holds the durable image, the image a running process sees, and the operations between the two. Every write,
/// length change and sync has an ordinal number, so that a fault can be planned at each of them in turn.
#[derive(Clone, Default)]
pub struct SimulatedDisk {
    shared: Arc<Shared>,
}

impl SimulatedDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> SimulatedDisk {
        SimulatedDisk::default()
    }

    /// A disk that holds `image`, all of it durable.
    #[must_use]
    pub fn from_image(image: Vec<u8>) -> SimulatedDisk {
        let disk = SimulatedDisk::new();
        disk.state().settle_as(image);
        disk
    }

    /// Opens the disk, as a process opens a file; locks are held per backend.
    #[must_use]
    pub fn backend(&self) -> SimulatedBackend {
        let mut state = self.state();
        state.backends += 1;
        SimulatedBackend { shared: Arc::clone(&self.shared), owner: state.backends, boot: state.boot }
    }

    /// How many writes, length changes and syncs were issued; also the ordinal of the next one.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// How many reads were issued; also the ordinal of the next one.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// Whether the power failed and [`SimulatedDisk::restart`] was not called since.
    #[must_use]
    pub fn has_lost_power(&self) -> bool {
        self.state().power_lost
    }

    /// Plans a fault; several can be planned at once.
    pub fn plan(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Forgets the planned faults. Power that failed stays off.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// What the disk would hold after a power loss now. The same seed gives the same image.
    #[must_use]
    pub fn crash_image(&self, seed: u64, tear: Tear) -> Vec<u8> {
        self.state().medium.crash_image(seed, tear)
    }

    /// Keeps every operation from now on, so that [`SimulatedDisk::recording`] can lose the power at each of them.
    pub fn record(&self) {
        self.state().start_recording();
    }

    /// What happened since [`SimulatedDisk::record`], if that was called.
    #[must_use]
    pub fn recording(&self) -> Option<Recording> {
        self.state().recording.clone()
    }

    /// Loses power, if it is not lost yet, and comes back with [`SimulatedDisk::crash_image`] as its durable content.
    ///
    /// Backends opened before are as dead as the process that held them: their operations fail and their locks are
    /// gone. Planned faults are forgotten; the ordinals count on.
    pub fn restart(&self, seed: u64, tear: Tear) {
        let mut state = self.state();
        let image = state.medium.crash_image(seed, tear);
        state.settle_as(image);
        state.faults.clear();
        state.power_lost = false;
        state.end_processes();
        self.shared.lock_released.notify_all();
    }

    /// Ends every process that has the disk open, as a kill does: backends are dead and their locks gone, and what
    /// they wrote is still seen by the next process, synced or not.
    pub fn kill_processes(&self) {
        self.state().end_processes();
        self.shared.lock_released.notify_all();
    }

    /// What a running process sees.
    #[must_use]
    pub fn image(&self) -> Vec<u8> {
        self.state().current.clone()
    }

    /// Damages the disk at rest: flips one bit. What was unsynced counts as durable from then on.
    ///
    /// # Panics
    /// If the disk has no such bit.
    pub fn flip_bit(&self, offset: u64, bit: u8) {
        assert!(bit < 8, "a byte has no bit {bit}");
        self.damage(|image| {
            let length = image.len();
            match image.get_mut(index(offset)) {
                Some(byte) => *byte ^= 1 << bit,
                None => panic!("offset {offset} is past the end of a disk of {length} bytes"),
            }
        });
    }

    /// Damages the disk at rest: cuts it to `length`, if it is longer. What was unsynced counts as durable from then
    /// on.
    pub fn truncate(&self, length: u64) {
        self.damage(|image| image.truncate(index(length)));
    }

    /// Damages the disk at rest: zeroes the part of it in `range`. What was unsynced counts as durable from then on.
    pub fn zero_range(&self, range: Range<u64>) {
        self.damage(|image| {
            let end = index(range.end).min(image.len());
            let start = index(range.start).min(end);
            image[start..end].fill(0);
        });
    }

    fn damage(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let mut image = state.current.clone();
        change(&mut image);
        state.settle_as(image);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().describe(&mut formatter.debug_struct("SimulatedDisk"))
    }
}

/// One opened file on a [`SimulatedDisk`].
///
/// Its byte-range locks conflict with those of every other backend of the disk, which is all that redb needs to run
/// a single writer beside readers in one process. They behave like the open file description locks of Linux.
pub struct SimulatedBackend {
    shared: Arc<Shared>,
    owner: u64,
    boot: u64,
}

impl SimulatedBackend {
    /// The state, if the power is on and the process that opened this backend is alive.
    fn running(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.shared.state();
        state.admit(self.boot)?;
        Ok(state)
    }

    /// Runs an operation that can lose the power; whoever waits for a lock then learns of it.
    fn operate(&self, operation: impl FnOnce(&mut State) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.running()?;
        let result = operation(&mut state);
        if state.power_lost {
            self.shared.lock_released.notify_all();
        }
        result
    }

    fn wait_for_lock(&self, range: LockRange, mode: LockMode) -> Result<(), BackendError> {
        let mut state = self.running()?;
        while !state.try_lock(self.owner, range, mode) {
            state = self.shared.lock_released.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.admit(self.boot)?;
        }
        Ok(())
    }

    /// Releases the locks in any state of the disk, because the kernel does so when a file is closed.
    fn release_all(&self) {
        self.shared.state().locks.retain(|held| held.owner != self.owner);
        self.shared.lock_released.notify_all();
    }
}

impl fmt::Debug for SimulatedBackend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.state().describe(formatter.debug_struct("SimulatedBackend").field("owner", &self.owner))
    }
}

impl Drop for SimulatedBackend {
    fn drop(&mut self) {
        self.release_all();
    }
}

impl StorageBackend for SimulatedBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.running()?.current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.running()?.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.operate(|state| state.set_length(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.operate(State::sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.operate(|state| state.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.release_all();
        Ok(())
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        let range = LockRange::new(start, end)?;
        Ok(self.running()?.try_lock(self.owner, range, LockMode::Exclusive))
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        let range = LockRange::new(start, end)?;
        Ok(self.running()?.try_lock(self.owner, range, LockMode::Shared))
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.wait_for_lock(LockRange::new(start, end)?, LockMode::Exclusive)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.wait_for_lock(LockRange::new(start, end)?, LockMode::Shared)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        let range = LockRange::new(start, end)?;
        self.shared.state().locks.retain(|held| held.owner != self.owner || held.range != range);
        self.shared.lock_released.notify_all();
        Ok(())
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        let range = LockRange::new(start, end)?;
        Ok(self.running()?.conflicts(self.owner, range, LockMode::Exclusive))
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    lock_released: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a power loss chooses from: what is durable, and the operations that may or may not be.
#[derive(Clone, Default)]
struct Medium {
    durable: Vec<u8>,
    log: Vec<Logged>,
}

/// The disk itself. Applying the whole of the medium's log to what is durable gives `current`.
#[derive(Default)]
struct State {
    medium: Medium,
    current: Vec<u8>,
    recording: Option<Recording>,
    operations: u64,
    reads: u64,
    faults: Vec<Fault>,
    power_lost: bool,
    /// Backends carry the boot they were opened in; one of an earlier boot belongs to a dead process.
    boot: u64,
    backends: u64,
    locks: Vec<HeldLock>,
}

#[derive(Clone)]
struct Logged {
    operation: Operation,
    standing: Standing,
}

#[derive(Clone)]
enum Operation {
    Write { offset: usize, data: Arc<[u8]> },
    SetLength(usize),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Issued since the last sync.
    Unsynced,
    /// Given up by a sync that failed: durable or not, and out of reach of later syncs.
    InDoubt,
    /// Durable, and in the log only because an older operation is in doubt: a survivor of that one must not
    /// overwrite it.
    Durable,
}

impl State {
    fn admit(&self, boot: u64) -> io::Result<()> {
        if self.power_lost {
            return Err(io::Error::other("the simulated disk has lost power"));
        }
        if self.boot != boot {
            return Err(io::Error::other("the simulated process that opened this backend has ended"));
        }
        Ok(())
    }

    fn describe(&self, fields: &mut fmt::DebugStruct<'_, '_>) -> fmt::Result {
        fields
            .field("length", &self.current.len())
            .field("operations", &self.operations)
            .field("not_durable", &self.medium.log.len())
            .finish()
    }

    fn settle_as(&mut self, image: Vec<u8>) {
        self.current.clone_from(&image);
        self.medium = Medium { durable: image, log: Vec::new() };
        // What was recorded does not lead here.
        if self.recording.is_some() {
            self.start_recording();
        }
    }

    fn start_recording(&mut self) {
        self.recording = Some(Recording::new(self.operations, self.medium.clone()));
    }

    fn end_processes(&mut self) {
        self.boot += 1;
        self.locks.clear();
    }

    /// Numbers an operation and gives the refusal that is planned for it, if one is.
    fn start_operation(&mut self) -> io::Result<Option<DiskError>> {
        let ordinal = self.operations;
        self.operations += 1;
        if self.faults.iter().any(|fault| fault.kind == FaultKind::PowerLoss && fault.at <= ordinal) {
            self.power_lost = true;
        }
        self.admit(self.boot)?;
        Ok(self.faults.iter().find_map(|fault| match fault.kind {
            FaultKind::Error { error, times: Times::Once } if fault.at == ordinal => Some(error),
            FaultKind::Error { error, times: Times::Forever } if fault.at <= ordinal => Some(error),
            _ => None,
        }))
    }

    /// Whether a fault that `matches` is due at `ordinal`; one that strikes once is used up by it.
    fn is_struck(&mut self, ordinal: u64, matches: impl Fn(FaultKind) -> Option<Times>) -> bool {
        let due = self
            .faults
            .iter()
            .enumerate()
            .filter(|(_, fault)| fault.at <= ordinal)
            .find_map(|(position, fault)| Some((position, matches(fault.kind)?)));
        if let Some((position, Times::Once)) = due {
            self.faults.remove(position);
        }
        due.is_some()
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let ordinal = self.reads;
        self.reads += 1;
        let struck = self.is_struck(ordinal, |kind| match kind {
            FaultKind::ReadError { times } => Some(times),
            _ => None,
        });
        if struck {
            return Err(DiskError::InputOutput.into());
        }
        let start = index(offset);
        let found = start.checked_add(out.len()).and_then(|end| self.current.get(start..end));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_length(&mut self, length: u64) -> io::Result<()> {
        if let Some(error) = self.start_operation()? {
            return Err(error.into());
        }
        if length > CAPACITY_BYTES {
            return Err(DiskError::NoSpace.into());
        }
        self.record(Operation::SetLength(index(length)));
        Ok(())
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let refusal = self.start_operation()?;
        let written = match refusal {
            None => data,
            Some(DiskError::InputOutput) => &[],
            Some(DiskError::NoSpace) => &data[..data.len() / SECTOR_BYTES / 2 * SECTOR_BYTES],
        };
        let end = offset.saturating_add(written.len() as u64);
        if end > CAPACITY_BYTES {
            return Err(DiskError::NoSpace.into());
        }
        if !written.is_empty() {
            if index(end) > self.current.len() {
                self.record(Operation::SetLength(index(end)));
            }
            self.record(Operation::Write { offset: index(offset), data: written.into() });
        }
        refusal.map_or(Ok(()), |error| Err(error.into()))
    }

    fn sync(&mut self) -> io::Result<()> {
        let ordinal = self.operations;
        if let Some(error) = self.start_operation()? {
            self.settle(ordinal, Medium::doubt);
            return Err(error.into());
        }
        let lies = self.is_struck(ordinal, |kind| match kind {
            FaultKind::LyingSync { times } => Some(times),
            _ => None,
        });
        if !lies {
            self.settle(ordinal, Medium::make_durable);
        }
        Ok(())
    }

    /// What a sync does, done to the disk and kept in its recording.
    fn settle(&mut self, ordinal: u64, change: fn(&mut Medium)) {
        change(&mut self.medium);
        if let Some(recording) = &mut self.recording {
            recording.push_sync(ordinal, change);
        }
    }

    fn record(&mut self, operation: Operation) {
        operation.apply(&mut self.current, |_| true);
        if let Some(recording) = &mut self.recording {
            // The operation was numbered when it began.
            recording.push_operation(self.operations - 1, operation.clone());
        }
        self.medium.log.push(Logged { operation, standing: Standing::Unsynced });
    }

    fn conflicts(&self, owner: u64, range: LockRange, mode: LockMode) -> bool {
        self.locks.iter().any(|held| {
            held.owner != owner
                && held.range.overlaps(range)
                && (held.mode == LockMode::Exclusive || mode == LockMode::Exclusive)
        })
    }

    fn try_lock(&mut self, owner: u64, range: LockRange, mode: LockMode) -> bool {
        if self.conflicts(owner, range, mode) {
            return false;
        }
        self.locks.push(HeldLock { owner, range, mode });
        true
    }
}

impl Medium {
    /// What a refused sync does: the kernel marks the pages clean, whether they are durable or not.
    fn doubt(&mut self) {
        for logged in &mut self.log {
            if logged.standing == Standing::Unsynced && matches!(logged.operation, Operation::Write { .. }) {
                logged.standing = Standing::InDoubt;
            }
        }
    }

    fn make_durable(&mut self) {
        for logged in &mut self.log {
            if logged.standing == Standing::Unsynced {
                logged.standing = Standing::Durable;
            }
        }
        let settled = self.log.iter().take_while(|logged| logged.standing == Standing::Durable).count();
        for logged in self.log.drain(..settled) {
            logged.operation.apply(&mut self.durable, |_| true);
        }
    }

    fn uncertain(&self) -> usize {
        self.log.iter().filter(|logged| logged.standing != Standing::Durable).count()
    }

    fn crash_image(&self, seed: u64, tear: Tear) -> Vec<u8> {
        let mut random = Random(seed);
        let uncertain = self.uncertain();
        let prefix = random.below(uncertain + 1);
        let missing = random.below(uncertain.max(1));
        let mut image = self.durable.clone();
        let mut position = 0;
        for logged in &self.log {
            if logged.standing == Standing::Durable {
                logged.operation.apply(&mut image, |_| true);
                continue;
            }
            let survival = match tear {
                Tear::DropAll => Survival::None,
                Tear::KeepAll => Survival::Whole,
                Tear::Prefix if position < prefix => Survival::Whole,
                Tear::Prefix => Survival::None,
                Tear::Subset => [Survival::None, Survival::Whole, Survival::Torn][random.below(3)],
                Tear::OneMissing if position == missing => Survival::None,
                Tear::OneMissing => Survival::Whole,
            };
            position += 1;
            match survival {
                Survival::None => {}
                Survival::Whole => logged.operation.apply(&mut image, |_| true),
                Survival::Torn => logged.operation.apply(&mut image, |_| random.below(2) == 1),
            }
        }
        image
    }
}

/// How much of one operation survives a power loss.
#[derive(Clone, Copy)]
enum Survival {
    None,
    Whole,
    Torn,
}

impl Operation {
    /// Applies the operation to an image, of a write only the sectors that `survives` says yes to.
    ///
    /// What lies past the end of the image is lost: there the length change that made room for it did not survive,
    /// and the length in the journal decides where a file ends.
    fn apply(&self, image: &mut Vec<u8>, mut survives: impl FnMut(usize) -> bool) {
        match self {
            Operation::SetLength(length) => {
                if survives(0) {
                    image.resize(*length, 0);
                }
            }
            Operation::Write { offset, data } => {
                let mut start = *offset;
                let data_end = offset + data.len();
                while start < data_end {
                    let sector = start / SECTOR_BYTES;
                    let end = data_end.min((sector + 1) * SECTOR_BYTES);
                    let kept = survives(sector);
                    let kept_end = end.min(image.len());
                    if kept && start < kept_end {
                        image[start..kept_end].copy_from_slice(&data[start - offset..kept_end - offset]);
                    }
                    start = end;
                }
            }
        }
    }
}

impl From<DiskError> for io::Error {
    /// The numbers are those of Linux, so that callers which look at the raw error see the real one.
    fn from(error: DiskError) -> io::Error {
        io::Error::from_raw_os_error(match error {
            DiskError::InputOutput => 5,
            DiskError::NoSpace => 28,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LockMode {
    Shared,
    Exclusive,
}

/// A lock range by its first and last byte.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LockRange {
    first: u64,
    last: u64,
}

impl LockRange {
    fn new(start: Bound<u64>, end: Bound<u64>) -> io::Result<LockRange> {
        let first = match start {
            Bound::Unbounded => Some(0),
            Bound::Included(offset) => Some(offset),
            Bound::Excluded(offset) => offset.checked_add(1),
        };
        let last = match end {
            Bound::Unbounded => Some(u64::MAX),
            Bound::Included(offset) => Some(offset),
            Bound::Excluded(offset) => offset.checked_sub(1),
        };
        match (first, last) {
            (Some(first), Some(last)) if first <= last => Ok(LockRange { first, last }),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "the lock range is empty")),
        }
    }

    fn overlaps(self, other: LockRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

struct HeldLock {
    owner: u64,
    range: LockRange,
    mode: LockMode,
}

/// SplitMix64, after Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is at least one and small enough that the bias of the remainder is nothing.
    fn below(&mut self, limit: usize) -> usize {
        index(self.next() % limit as u64)
    }
}

/// An offset as an index; one that memory cannot hold is past the end of every image.
fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#[path = "disk_tests.rs"]
mod tests;
