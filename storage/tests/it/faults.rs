//! A disk that loses power, refuses operations or lies, at every operation of a short life of a store.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cognilog_storage::testkit::{DiskError, Fault, FaultKind, SimulatedDisk, Tear, Times};
use cognilog_storage::{Fold, Folds, Scope, Store, StoreError};

use crate::common::*;

/// Every so many operations one is tried, another set for each kind of fault; `COGNILOG_SOAK=1` tries them all, and
/// several outcomes of each.
const SAMPLE: u64 = 17;

fn soak() -> bool {
    std::env::var_os("COGNILOG_SOAK").is_some()
}

fn ordinals(first: u64, last: u64, step: u64, start: u64) -> impl Iterator<Item = u64> {
    let step = if soak() { 1 } else { step };
    (first + start % step..last).step_by(step as usize)
}

/// Seeds that a torn image is made with.
fn seeds(at: u64) -> std::ops::Range<u64> {
    if soak() { at..at + 4 } else { at..at + 1 }
}

fn open_on(disk: &SimulatedDisk) -> Result<Store, StoreError> {
    open_with(disk, folds())
}

fn open_with(disk: &SimulatedDisk, folds: Folds) -> Result<Store, StoreError> {
    let mut limits = tiny();
    // Nothing happens by the clock, so that the same operation has the same ordinal in every run.
    limits.flush_idle = Duration::from_secs(3600);
    let disk = disk.clone();
    Store::open_on(move |builder| builder.create_with_backend(disk.backend()), options(folds, limits))
}

/// A disk with an empty store on it, for redb itself does not make a database at one stroke.
fn empty_store() -> Vec<u8> {
    let disk = SimulatedDisk::new();
    open_on(&disk).unwrap().close().unwrap();
    disk.image()
}

enum Step {
    Append(Vec<Planned>),
    Flush,
    Rebuild,
    Reopen,
}

/// The life of a store: appends of several streams, with all that is written beside them.
fn life() -> Vec<Step> {
    let mut steps = Vec::new();
    let mut next = 1;
    for append in 0..15u64 {
        let size = 1 + append % 3;
        steps.push(Step::Append(planned(next..next + size)));
        next += size;
        match append {
            5 => steps.push(Step::Flush),
            8 => steps.push(Step::Rebuild),
            11 => steps.push(Step::Reopen),
            _ => {}
        }
    }
    steps
}

fn all_events() -> Vec<Planned> {
    let appends = life().into_iter().map(|step| if let Step::Append(events) = step { events } else { Vec::new() });
    appends.flatten().collect()
}

fn act(store: &mut Option<Store>, disk: &SimulatedDisk, step: &Step) -> Result<(), StoreError> {
    let open = match store {
        Some(open) => open,
        None => store.insert(open_on(disk)?),
    };
    match step {
        Step::Append(events) => append(open, events).map(drop),
        Step::Flush => open.flush(),
        Step::Rebuild => open.rebuild(&["counts".to_owned()]),
        Step::Reopen => store.take().map_or(Ok(()), Store::close),
    }
}

/// Lives until the first error; gives how many events were acknowledged, and how many were tried.
fn live_until_error(disk: &SimulatedDisk) -> (usize, usize) {
    let (mut store, mut acknowledged, mut tried) = (None, 0, 0);
    for step in life() {
        if let Step::Append(events) = &step {
            tried += events.len();
        }
        if act(&mut store, disk, &step).is_err() {
            break;
        }
        acknowledged = tried;
    }
    (acknowledged, tried)
}

/// Opens what a loss of power left and holds it against the events: an exact prefix, with all that were acknowledged
/// and either all or none of the append that was under way; and the store goes on from there.
fn check_after_loss(image: Vec<u8>, acknowledged: usize, tried: usize) {
    let disk = SimulatedDisk::from_image(image);
    let store = open_on(&disk).unwrap();
    store.wait_rebuilt().unwrap();
    let events = all_events();
    let found = read(&store.snapshot().unwrap()).unwrap();
    assert!(found.len() == acknowledged || found.len() == tried, "{acknowledged}, {tried}: holds {}", found.len());
    check(&store, &events[..found.len()]);
    for step in life() {
        let Step::Append(events) = step else { continue };
        append(&store, &events).unwrap();
    }
    check(&store, &events);
    store.close().unwrap();
    let store = open_on(&disk).unwrap();
    store.wait_rebuilt().unwrap();
    check(&store, &events);
}

/// As [`check_after_loss`], for each way the disk can lose what it has not made durable.
fn check_all_losses(disk: &SimulatedDisk, acknowledged: usize, tried: usize, what: &str) {
    for tear in Tear::ALL {
        for seed in seeds(disk.operations()) {
            let image = disk.crash_image(seed, tear);
            let checked = catch_unwind(AssertUnwindSafe(|| check_after_loss(image, acknowledged, tried)));
            assert!(checked.is_ok(), "{what}, {tear:?}, seed {seed}");
        }
    }
}

fn undisturbed(base: &[u8]) -> (u64, u64) {
    let disk = SimulatedDisk::from_image(base.to_vec());
    let first = disk.operations();
    assert_eq!(live_until_error(&disk), (all_events().len(), all_events().len()));
    (first, disk.operations())
}

#[test]
fn a_power_loss_anywhere_leaves_a_prefix_with_all_that_was_acknowledged() {
    let base = empty_store();
    let (first, last) = undisturbed(&base);
    for at in ordinals(first, last, SAMPLE, 0) {
        let disk = SimulatedDisk::from_image(base.clone());
        disk.plan(Fault { at, kind: FaultKind::PowerLoss });
        let (acknowledged, tried) = live_until_error(&disk);
        assert!(disk.has_lost_power());
        check_all_losses(&disk, acknowledged, tried, &format!("power loss at {at} of {last}"));
    }
}

#[test]
fn a_sync_that_lies_is_found_out_by_the_same_check() {
    let base = empty_store();
    let (first, last) = undisturbed(&base);
    let found = ordinals(first, last, SAMPLE, 3).any(|at| {
        let disk = SimulatedDisk::from_image(base.clone());
        disk.plan(Fault { at: first, kind: FaultKind::LyingSync { times: Times::Forever } });
        disk.plan(Fault { at, kind: FaultKind::PowerLoss });
        let (acknowledged, tried) = live_until_error(&disk);
        let image = disk.crash_image(at, Tear::DropAll);
        catch_unwind(AssertUnwindSafe(|| check_after_loss(image, acknowledged, tried))).is_err()
    });
    assert!(found, "a check that does not see a lost event proves nothing");
}

/// Lives through a fault: what fails is answered as it should, and once the disk is well the store goes on.
fn live_through(disk: &SimulatedDisk) {
    let mut store = None;
    let mut healed = false;
    for step in life() {
        let Err(error) = act(&mut store, disk, &step) else { continue };
        assert!(!healed, "a second failure: {error}");
        if let (Some(open), Step::Append(events)) = (&store, &step) {
            assert_eq!(error.code(), "outcome_unknown");
            assert!(!open.health().writable);
            assert_eq!(append(open, events).map_err(|error| error.code()), Err("writer_stopped"));
        }
        disk.clear_faults();
        healed = true;
        if let Some(open) = &store {
            open.resume().unwrap();
            assert!(open.health().writable);
        }
        act(&mut store, disk, &step).unwrap();
    }
    disk.clear_faults();
    let store = store.unwrap();
    store.wait_rebuilt().unwrap();
    check(&store, &all_events());
    // All of them were acknowledged, on a disk that had once refused something: the power may go now.
    check_all_losses(disk, all_events().len(), all_events().len(), "power loss behind an error");
    store.close().unwrap();
}

#[test]
fn a_disk_that_refuses_anything_once_or_for_a_while_loses_nothing() {
    let base = empty_store();
    let (first, last) = undisturbed(&base);
    let mut start = 0;
    for error in [DiskError::InputOutput, DiskError::NoSpace] {
        for times in [Times::Once, Times::Forever] {
            for at in ordinals(first, last, SAMPLE * 2, start) {
                let disk = SimulatedDisk::from_image(base.clone());
                disk.plan(Fault { at, kind: FaultKind::Error { error, times } });
                let lived = catch_unwind(AssertUnwindSafe(|| {
                    live_through(&disk);
                    let store = open_on(&disk).unwrap();
                    store.wait_rebuilt().unwrap();
                    check(&store, &all_events());
                }));
                assert!(lived.is_ok(), "{error:?} {times:?} at {at} of {last}");
            }
            start += SAMPLE / 2 + 1;
        }
    }
}

/// What the stream-scoped fragile fold has when it took every event.
fn fragile_rows(events: &[Planned]) -> Rows {
    let counts = model(events, 1).remove("counts").unwrap_or_default();
    let counts = counts.into_iter().filter(|(key, _)| key.ends_with(b"count"));
    counts.map(|(key, row)| ([&key[..8], b"seen"].concat(), vec![row[0]])).collect()
}

#[test]
fn a_fold_that_had_stopped_misses_nothing_behind_a_power_loss_once_it_is_mended() {
    let base = empty_store();
    let at = Arc::new(AtomicU64::new(0));
    let with_fragile = || {
        let mut folds = folds();
        folds.push(Arc::new(Fragile { at: Arc::clone(&at), scope: Scope::Stream }) as Arc<dyn Fold>);
        folds
    };
    // Flushed in slices of two rows with and behind the event that stops the fold.
    let live = |disk: &SimulatedDisk| -> Result<(), StoreError> {
        let store = open_with(disk, with_fragile())?;
        for number in 1..=14 {
            append(&store, &[Planned(number)])?;
            if matches!(number, 4 | 9 | 13) {
                store.flush()?;
            }
        }
        store.close()
    };
    let whole = SimulatedDisk::from_image(base.clone());
    live(&whole).unwrap();
    for loss in ordinals(0, whole.operations(), SAMPLE, 5) {
        for stops_at in [3, 8, 9, 12] {
            let disk = SimulatedDisk::from_image(base.clone());
            disk.plan(Fault { at: loss, kind: FaultKind::PowerLoss });
            at.store(stops_at, Ordering::SeqCst);
            // The stop changes how many operations there are, so the last ones may be beyond its end.
            let _ = live(&disk);
            at.store(0, Ordering::SeqCst);
            let disk = SimulatedDisk::from_image(disk.crash_image(loss, Tear::Prefix));
            let store = open_with(&disk, with_fragile()).unwrap();
            store.wait_rebuilt().unwrap();
            let events = read(&store.snapshot().unwrap()).unwrap();
            check(&store, &events);
            let found = rows(&store.snapshot().unwrap(), "fragile").unwrap();
            assert_eq!(found, fragile_rows(&events), "stopped at {stops_at}, power loss at {loss}");
        }
    }
}

#[test]
fn rows_of_a_flush_that_was_cut_off_serve_nobody_who_did_not_finish_it() {
    let base = empty_store();
    let (first, last) = undisturbed(&base);
    let newer = || vec![Arc::new(Counts { version: 2 }) as Arc<dyn Fold>];
    let other = || vec![Arc::new(Fragile { at: Arc::default(), scope: Scope::Store }) as Arc<dyn Fold>];
    for at in ordinals(first, last, SAMPLE, 9) {
        let crashed = SimulatedDisk::from_image(base.clone());
        crashed.plan(Fault { at, kind: FaultKind::PowerLoss });
        live_until_error(&crashed);
        for between in [vec![newer()], vec![other()], vec![newer(), other(), newer()]] {
            let disk = SimulatedDisk::from_image(crashed.crash_image(at, Tear::DropAll));
            for folds in between {
                // Closed at once, so that a rebuild may be anywhere.
                open_with(&disk, folds).unwrap().close().unwrap();
            }
            let store = open_on(&disk).unwrap();
            store.wait_rebuilt().unwrap();
            let events = read(&store.snapshot().unwrap()).unwrap();
            check(&store, &events);
        }
    }
}
