//! Living through a plan on a simulated disk, and the settings that the techniques share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cognilog::{Engine, Error, Limits, Store};
use cognilog_storage::testkit::SimulatedDisk;
use cognilog_storage::{Folds, StoreOptions};

use super::oracle::{Finding, Judged, Oracle, finding, stuck};
use super::workload::{Plan, Step};
use crate::common::Random;

/// The first seed: `COGNILOG_SEED`, or one that never changes.
pub(crate) fn seed() -> u64 {
    std::env::var("COGNILOG_SEED").ok().map_or(1, |text| text.parse().expect("COGNILOG_SEED is a number"))
}

/// How much is tried: `COGNILOG_SIMULATION=full` for CI, a small part otherwise.
pub(crate) fn is_full() -> bool {
    std::env::var_os("COGNILOG_SIMULATION").is_some_and(|value| value == "full")
}

/// Limits so small that flushes, slices, blocks and rebuilds happen within a handful of events; others for each seed.
pub(crate) fn limits(seed: u64) -> Limits {
    let mut random = Random(seed ^ 0x1157);
    let mut limits = Limits::default();
    limits.overlay_events_max = 3 + random.below(12);
    limits.flush_slice_rows = 1 + random.below(12) as usize;
    limits.rebuild_events = 3 + random.below(12) as usize;
    limits.block_bytes_max = [600, 1_500, 4_000, Limits::default().block_bytes_max][random.below(4) as usize];
    limits.close_tail_events = random.below(8);
    limits.cache_bytes = 1 << 20;
    // Nothing happens by the clock, so that a seed does the same operations in every run.
    limits.flush_idle = Duration::from_secs(3600);
    limits.gather = Duration::ZERO;
    limits
}

pub(crate) fn open(disk: &SimulatedDisk, limits: &Limits) -> Result<Engine, Error> {
    open_with(disk, limits, cognilog_projections::folds())
}

pub(crate) fn open_with(disk: &SimulatedDisk, limits: &Limits, folds: Folds) -> Result<Engine, Error> {
    let mut options = StoreOptions::new(folds);
    options.limits = limits.clone();
    options.wait = Duration::ZERO;
    options.clock = Arc::new(|| cognilog::Instant(0));
    let disk = disk.clone();
    Ok(Engine::on_store(Store::open_on(move |builder| builder.create_with_backend(disk.backend()), options)?))
}

/// The log of a store that was just created.
pub(crate) fn created() -> Vec<u8> {
    created_files().0
}

/// The log and the manifest of a store that was just created.
pub(crate) fn created_files() -> (Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    Store::create(&path, &limits(0)).unwrap();
    (std::fs::read(path.join("log.redb")).unwrap(), std::fs::read(path.join("MANIFEST.json")).unwrap())
}

/// A store that lives, and what it is opened with.
pub(crate) struct Life {
    pub(crate) disk: SimulatedDisk,
    pub(crate) limits: Limits,
    pub(crate) folds: Folds,
    pub(crate) engine: Option<Engine>,
}

impl Life {
    pub(crate) fn new(image: Vec<u8>, limits: Limits) -> Life {
        Life { disk: SimulatedDisk::from_image(image), limits, folds: cognilog_projections::folds(), engine: None }
    }

    pub(crate) fn engine(&mut self) -> Result<&Engine, Error> {
        if self.engine.is_none() {
            self.engine = Some(open_with(&self.disk, &self.limits, self.folds.clone())?);
        }
        self.engine.as_ref().ok_or_else(|| unreachable!("it was just opened"))
    }

    /// Does one step; an append that is answered as it must not be is a panic.
    pub(crate) fn act(&mut self, plan: &Plan, step: &Step) -> Result<(), Error> {
        if matches!(step, Step::Reopen) {
            let engine = self.engine.take();
            return engine.map_or(Ok(()), Engine::close);
        }
        let engine = self.engine()?;
        match step {
            Step::Append(number) => engine.submit(plan.appends[*number].to_append()).map(drop),
            Step::Repeat(number) => {
                let receipt = engine.submit(plan.appends[*number].to_append())?;
                assert!(receipt.repeated, "append {number} was recorded twice");
                Ok(())
            }
            Step::Refused(append, code) => match engine.submit(append.to_append()) {
                Ok(_) => panic!("expected {code}, and it was recorded"),
                Err(error) if error.code() == *code => Ok(()),
                Err(error) => Err(error),
            },
            Step::Flush => Ok(engine.store().flush()?),
            Step::Rebuild(names) => engine.rebuild(names),
            Step::Resume => engine.resume(),
            Step::Reopen => Ok(()),
        }
    }

    /// Lives through the plan without any fault, recording the disk and telling the oracle what was acknowledged when.
    pub(crate) fn undisturbed(&mut self, plan: &Plan) -> Judged<Oracle> {
        let mut oracle = Oracle::new(plan.appends.clone());
        self.disk.record();
        for step in &plan.steps {
            if let Step::Append(number) = step {
                oracle.submitted_at[*number] = Some(self.disk.operations());
            }
            stuck("live", self.act(plan, step))?;
            if let Step::Append(number) = step {
                oracle.acknowledged_at[*number] = Some(self.disk.operations());
            }
        }
        Ok(oracle)
    }
}

/// The workers that share the work: as many as there are processors.
pub(crate) fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Gives each number below `count` to one of the workers; gathers what they return.
pub(crate) fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    quiet_panics();
    let next = AtomicUsize::new(0);
    let run = || {
        QUIET.set(true);
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return done;
            }
            done.push(work(number));
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers()).map(|_| scope.spawn(run)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

thread_local! {
    static QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Panics of workers are findings, and those of the database on a damaged file are contained: neither is printed.
fn quiet_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let of_a_store = std::thread::current().name().is_some_and(|name| name.starts_with("cognilog"));
            if !QUIET.get() && !of_a_store {
                print(panic);
            }
        }));
    });
}

/// Fails with the first of what was found, each with the place that makes it again.
pub(crate) fn expect_nothing(technique: &str, seed: u64, findings: &[(String, Finding)]) {
    let shown: Vec<String> = findings
        .iter()
        .take(5)
        .map(|(place, finding)| format!("{}: {place}: {}", finding.kind, finding.detail))
        .collect();
    let count = findings.len();
    assert!(
        findings.is_empty(),
        "{technique}: {count} findings; COGNILOG_SEED={seed} makes them again\n{}\n",
        shown.join("\n")
    );
}

/// How many findings are of a kind.
pub(crate) fn of_kind(findings: &[(String, Finding)], kind: &str) -> usize {
    findings.iter().filter(|(_, finding)| finding.kind == kind).count()
}

/// The seconds that a technique took and its line of counts.
pub(crate) fn tell(technique: &str, seed: u64, began: std::time::Instant, counts: &str) {
    eprintln!("simulation: {technique} (seed {seed}): {counts}; {:.1} s", began.elapsed().as_secs_f64());
}

/// An image is tried through this: opened, judged, gone on with, closed, opened and judged again.
pub(crate) fn survive(
    image: Vec<u8>,
    limits: &Limits,
    oracle: &Arc<Oracle>,
    bounds: (usize, usize),
    appends: usize,
) -> Judged<usize> {
    let disk = SimulatedDisk::from_image(image);
    let engine = match open(&disk, limits) {
        Ok(engine) => engine,
        Err(error) => return finding("unopenable", format!("{}: {error}", error.code())),
    };
    let found = oracle.judge(&engine, bounds)?;
    if appends > 1 {
        oracle.judge_rebuilt(&engine)?;
    }
    let end = oracle.go_on(&engine, found, appends)?;
    if end > found || appends > 1 {
        oracle.judge(&engine, (end, end))?;
    }
    stuck("close", engine.close())?;
    Ok(found)
}
