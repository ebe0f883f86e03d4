//! Power losses: at every operation of a life, with what was not synced dropped, torn, reordered; and again on the way up.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use cognilog_storage::testkit::{CrashPoints, Recording, SimulatedDisk, Tear};
use xxhash_rust::xxh3::xxh3_64;

use super::life::*;
use super::oracle::{Finding, Judged, Oracle, judged, stuck};
use super::workload::Plan;
use crate::common::Random;

/// What power losses in one life gave.
#[derive(Default)]
pub(crate) struct Losses {
    pub(crate) points: usize,
    pub(crate) images: usize,
    /// Of them after a second loss, while the first one was recovered from.
    pub(crate) second: usize,
    pub(crate) findings: Vec<(String, Finding)>,
}

impl Losses {
    pub(crate) fn add(&mut self, other: Losses) {
        self.points += other.points;
        self.images += other.images;
        self.second += other.second;
        self.findings.extend(other.findings);
    }
}

/// How power losses are tried.
#[derive(Clone, Copy)]
pub(crate) struct Sweep {
    /// Every so many points one is tried.
    pub(crate) step: usize,
    /// Images of each way to tear that has more than one outcome.
    pub(crate) seeds: u64,
    /// Every so many images the recovery loses the power too.
    pub(crate) second_step: usize,
    /// Every so many operations of such a recovery, from another one on each time.
    pub(crate) recovery_step: usize,
}

/// The images of one point, each once.
fn images(points: &CrashPoints<'_>, seed: u64, seeds: u64) -> Vec<(String, Vec<u8>)> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for tear in Tear::ALL {
        let outcomes = match tear {
            Tear::DropAll => 1,
            _ if points.uncertain() == 0 => 0,
            Tear::KeepAll => 1,
            _ => seeds,
        };
        for number in 0..outcomes {
            let image_seed = Random(seed ^ points.ordinal() ^ (number << 32)).next();
            let image = points.crash_image(image_seed, tear);
            if seen.insert(xxh3_64(&image)) {
                found.push((format!("operation {}, {tear:?} {image_seed}", points.ordinal()), image));
            }
        }
    }
    found
}

/// Loses the power at the points of a recording; the work is shared among workers by their number.
pub(crate) fn lose_power(recording: &Recording, oracle: &Arc<Oracle>, seed: u64, sweep: Sweep) -> Losses {
    let limits = limits(seed);
    let workers = workers();
    let parts = in_parallel(workers, |worker| {
        let mut losses = Losses::default();
        let mut points = recording.crash_points();
        let mut number = 0;
        loop {
            if number % sweep.step == 0 && number / sweep.step % workers == worker {
                losses.points += 1;
                let bounds = oracle.bounds(points.ordinal());
                for (place, image) in images(&points, seed, sweep.seeds) {
                    losses.images += 1;
                    let again = (losses.images % sweep.second_step == 0).then(|| image.clone());
                    // Some go on to the end of the plan.
                    let appends = if losses.images % 16 == 0 { usize::MAX / 2 } else { 1 };
                    if let Err(finding) = judged(|| survive(image, &limits, oracle, bounds, appends)) {
                        losses.findings.push((format!("life {seed}, {place}"), finding));
                    } else if let Some(image) = again {
                        let again = lose_power_again(image, oracle, bounds, seed, (&place, losses.images), sweep);
                        losses.add(again.unwrap_or_default());
                    }
                }
            }
            number += 1;
            if !points.advance() {
                return losses;
            }
        }
    });
    let mut losses = Losses::default();
    parts.into_iter().for_each(|part| losses.add(part));
    losses
}

/// Recovers from a power loss, and loses the power again at each operation of that.
fn lose_power_again(
    image: Vec<u8>,
    oracle: &Arc<Oracle>,
    bounds: (usize, usize),
    seed: u64,
    (place, start): (&str, usize),
    sweep: Sweep,
) -> Judged<Losses> {
    let limits = limits(seed);
    let disk = SimulatedDisk::from_image(image);
    disk.record();
    // What is recorded while the store is opened and its rows are brought up.
    let found = judged(|| {
        let engine = stuck("open", open(&disk, &limits))?;
        let found = oracle.judge(&engine, bounds)?;
        stuck("flush", engine.store().flush().map_err(Into::into))?;
        Ok(found)
    })?;
    let mut losses = Losses::default();
    let Some(recording) = disk.recording() else { return Ok(losses) };
    let mut points = recording.crash_points();
    let mut number = start;
    while points.advance() {
        number += 1;
        if number % sweep.recovery_step != 0 {
            continue;
        }
        for (second, image) in images(&points, seed, 1) {
            (losses.images, losses.second) = (losses.images + 1, losses.second + 1);
            if let Err(finding) = judged(|| survive(image, &limits, oracle, (found, found), 1)) {
                losses.findings.push((format!("life {seed}, {place}, then {second}"), finding));
            }
        }
    }
    Ok(losses)
}

/// Lives through a plan, and gives what the power losses are made from.
pub(crate) fn recorded(base: &[u8], seed: u64, appends: usize) -> Judged<(Recording, Arc<Oracle>)> {
    let plan = Plan::new(seed, appends);
    let mut life = Life::new(base.to_vec(), limits(seed));
    let oracle = Arc::new(life.undisturbed(&plan)?);
    oracle.judge(stuck("open", life.engine())?, (oracle.all(), oracle.all()))?;
    Ok((life.disk.recording().unwrap_or_else(|| unreachable!("it is recorded")), oracle))
}

/// How much one run tries: lives, appends of each, and how.
fn extent() -> (u64, usize, Sweep) {
    match is_full() {
        true => (4, 20, Sweep { step: 1, seeds: 2, second_step: 80, recovery_step: 7 }),
        false => (1, 14, Sweep { step: 19, seeds: 1, second_step: 20, recovery_step: 17 }),
    }
}

fn conclude(technique: &str, seed: u64, began: Instant, what: &str, losses: &Losses) {
    let kinds = ["lost", "partial", "unopenable", "wrong", "stuck", "panic"];
    let counts: Vec<String> = kinds.iter().map(|kind| format!("{} {kind}", of_kind(&losses.findings, kind))).collect();
    let counts = format!(
        "{what}, {} operations, {} crash images ({} of them in a recovery): {}",
        losses.points,
        losses.images,
        losses.second,
        counts.join(", ")
    );
    tell(technique, seed, began, &counts);
    expect_nothing(technique, seed, &losses.findings);
}

#[test]
fn a_power_loss_anywhere_leaves_an_exact_prefix_and_right_answers() {
    let (seed, began) = (seed(), Instant::now());
    let base = created();
    let (lives, appends, sweep) = extent();
    let mut losses = Losses::default();
    for life in seed..seed + lives {
        let (recording, oracle) = recorded(&base, life, appends).unwrap();
        losses.add(lose_power(&recording, &oracle, life, sweep));
    }
    conclude("power loss", seed, began, &format!("{lives} lives"), &losses);
}

/// Callers at once, and one who flushes and rebuilds meanwhile; the order of the log is that of the receipts.
fn crowd(base: &[u8], seed: u64, callers: usize, each: usize) -> Judged<(Recording, Arc<Oracle>)> {
    let appends = Plan::crowd(seed, callers, each);
    let mut life = Life::new(base.to_vec(), limits(seed));
    let disk = life.disk.clone();
    disk.record();
    let engine = stuck("open", life.engine())?;
    let answered = std::thread::scope(|scope| {
        let callers: Vec<_> = appends
            .iter()
            .map(|appends| {
                let disk = &disk;
                scope.spawn(move || -> Judged<Vec<_>> {
                    let mut answered = Vec::new();
                    for append in appends {
                        let submitted = disk.operations();
                        let receipt = stuck("append", engine.submit(append.to_append()))?;
                        answered.push((receipt.events[0].position, append.clone(), submitted, disk.operations()));
                    }
                    Ok(answered)
                })
            })
            .collect();
        let beside = scope.spawn(|| -> Judged<()> {
            stuck("flush", engine.store().flush().map_err(Into::into))?;
            stuck("rebuild", engine.rebuild(&[]))?;
            stuck("flush", engine.store().flush().map_err(Into::into))
        });
        let answered = callers.into_iter().map(|caller| caller.join().unwrap()).collect::<Judged<Vec<_>>>();
        beside.join().unwrap().and(answered)
    })?;
    let mut answered: Vec<_> = answered.into_iter().flatten().collect();
    answered.sort_by_key(|(position, ..)| *position);
    let mut oracle = Oracle::new(answered.iter().map(|(_, append, ..)| append.clone()).collect());
    oracle.submitted_at = answered.iter().map(|(_, _, submitted, _)| Some(*submitted)).collect();
    oracle.acknowledged_at = answered.iter().map(|(.., acknowledged)| Some(*acknowledged)).collect();
    oracle.judge(engine, (oracle.all(), oracle.all()))?;
    let recording = disk.recording().unwrap_or_else(|| unreachable!("it is recorded"));
    Ok((recording, Arc::new(oracle)))
}

#[test]
fn a_power_loss_among_callers_at_once_leaves_whole_appends_of_each() {
    let (seed, began) = (seed(), Instant::now());
    let base = created();
    let (_, _, mut sweep) = extent();
    // How many operations there are depends on which callers came together: about as many points are tried each time.
    let (lives, callers, each, points) = if is_full() { (2, 4, 6, 300) } else { (1, 3, 3, 12) };
    let mut losses = Losses::default();
    for life in seed..seed + lives {
        let (recording, oracle) = crowd(&base, life, callers, each).unwrap();
        sweep.step = (recording.operations() / points).max(1);
        losses.add(lose_power(&recording, &oracle, life, sweep));
    }
    conclude("power loss among callers", seed, began, &format!("{lives} lives, {callers} callers"), &losses);
}
