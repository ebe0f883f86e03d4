//! Making a store while the power fails or the disk refuses: afterwards there is none, or a whole one.

use std::cell::Cell;
use std::path::Path;
use std::time::Instant;

use cognilog::{Engine, EngineOptions, Limits, Store, StoreError};
use cognilog_storage::CreationStep;
use cognilog_storage::testkit::{DiskError, Fault, FaultKind, SimulatedDisk, Tear, Times};

use super::life::*;
use super::oracle::{Finding, Judged, Oracle, finding, judged, stuck};
use super::workload::Plan;

/// Copies a folder with everything in it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
    }
}

fn options() -> EngineOptions {
    let mut options = EngineOptions::default();
    options.limits = limits(0);
    options
}

/// What a machine finds that comes up again: no store, which can be made then; or an empty one, which takes appends.
fn come_up(path: &Path, oracle: &Oracle, must_be_there: bool) -> Judged<()> {
    let engine = match Engine::open_with(path, options()) {
        Ok(engine) => engine,
        Err(error) if error.code() == "store_not_found" && !must_be_there => stuck("create", Engine::create(path))?,
        Err(error) => return finding("unopenable", format!("{}: {error}", error.code())),
    };
    oracle.judge(&engine, (0, 0))?;
    let end = oracle.go_on(&engine, 0, usize::MAX / 2)?;
    oracle.judge(&engine, (end, end)).map(drop)
}

/// The log as a power loss at any operation of its making leaves it.
fn logs_half_made(seed: u64) -> Vec<(String, Vec<u8>, bool)> {
    let disk = SimulatedDisk::new();
    disk.record();
    open(&disk, &limits(0)).unwrap().close().unwrap();
    let recording = disk.recording().unwrap();
    let mut points = recording.crash_points();
    let mut found = Vec::new();
    loop {
        let place = points.ordinal();
        let images: Vec<_> = Tear::ALL
            .iter()
            .map(|tear| (format!("operation {place}, {tear:?}"), points.crash_image(seed, *tear)))
            .collect();
        let is_last = !points.advance();
        found.extend(images.into_iter().map(|(place, image)| (place, image, is_last)));
        if is_last {
            return found;
        }
    }
}

#[test]
fn a_creation_that_loses_the_power_leaves_no_store_or_a_whole_one() {
    let (seed, began) = (seed(), Instant::now());
    let plan = Plan::new(seed, 3);
    let oracle = Oracle::new(plan.appends);
    let mut findings: Vec<(String, Finding)> = Vec::new();
    let mut tried = 0;
    let mut check = |what: String, make: &dyn Fn(&Path), must_be_there: bool| {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path());
        tried += 1;
        let path = folder.path().join("store");
        if let Err(finding) = judged(|| come_up(&path, &oracle, must_be_there)) {
            findings.push((what, finding));
        }
    };
    // What lies there at each step; the name is durable once the folder above is synced.
    let source = tempfile::tempdir().unwrap();
    let states = tempfile::tempdir().unwrap();
    let step = Cell::new(0);
    let after = |_: CreationStep| -> Result<(), StoreError> {
        step.set(step.get() + 1);
        copy(source.path(), &states.path().join(step.get().to_string()));
        Ok(())
    };
    Store::create_watched(&source.path().join("store"), &Limits::default(), &after).unwrap();
    for number in 1..=step.get() {
        let state = states.path().join(number.to_string());
        check(format!("step {number}"), &|folder| copy(&state, folder), number >= 4);
    }
    // Before the rename the log may be torn in any way, and nobody looks at it.
    for (place, image, is_last) in logs_half_made(seed) {
        let half = |folder: &Path| {
            let temporary = folder.join(".store.new-1");
            std::fs::create_dir(&temporary).unwrap();
            std::fs::write(temporary.join("log.redb"), &image).unwrap();
        };
        check(place.clone(), &half, false);
        // The rename comes behind the close of the log: whatever that left unsynced may be missing then.
        if is_last {
            let renamed = |folder: &Path| {
                let store = folder.join("store");
                std::fs::create_dir(&store).unwrap();
                std::fs::write(store.join("log.redb"), &image).unwrap();
                // A simulated store has no name.
                let manifest = std::fs::read_to_string(source.path().join("store/MANIFEST.json")).unwrap();
                let mut manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
                manifest["store_id"] = "".into();
                std::fs::write(store.join("MANIFEST.json"), manifest.to_string()).unwrap();
            };
            check(format!("{place}, renamed"), &renamed, true);
        }
    }
    tell("creation", seed, began, &format!("{tried} images: {} unopenable or wrong", findings.len()));
    expect_nothing("creation", seed, &findings);
}

#[test]
fn a_creation_that_is_refused_anything_is_an_error_and_no_panic() {
    let (seed, began) = (seed(), Instant::now());
    let whole = SimulatedDisk::new();
    open(&whole, &limits(0)).unwrap().close().unwrap();
    let mut tried = 0;
    for error in [DiskError::InputOutput, DiskError::NoSpace] {
        for times in [Times::Once, Times::Forever] {
            for at in 0..whole.operations() {
                let disk = SimulatedDisk::new();
                disk.plan(Fault { at, kind: FaultKind::Error { error, times } });
                let made = judged(|| Ok(open(&disk, &limits(0)).and_then(Engine::close).is_ok()));
                // The close alone may forgive: what matters was synced before.
                assert!(made.is_ok(), "{error:?} {times:?} at {at}: {made:?}");
                tried += 1;
            }
        }
    }
    tell("creation refused", seed, began, &format!("{tried} refusals: 0 panics"));
}
