//! A disk that refuses: `EIO` and `ENOSPC` at any operation and `EIO` at any read, once, or until space is freed.

use std::time::Instant;

use cognilog::Error;
use cognilog_storage::testkit::{DiskError, Fault, FaultKind, Tear, Times};

use super::life::*;
use super::oracle::{Finding, Judged, Oracle, finding, judged, stuck};
use super::workload::{Plan, Step};
use crate::common::Random;

/// What one refusal did.
#[derive(Clone, Copy, Default)]
struct Lived {
    /// Whether anybody was told of it.
    noticed: bool,
    /// Whether reads were refused too until `resume`.
    unread: bool,
    images: usize,
}

/// A life through a fault.
struct Through<'p> {
    life: Life,
    plan: &'p Plan,
    oracle: &'p Oracle,
    /// Events that were acknowledged, and that were handed in.
    acknowledged: usize,
    submitted: usize,
    lived: Lived,
}

impl Through<'_> {
    /// Does a step; an append that succeeds is acknowledged.
    fn act(&mut self, step: &Step) -> Result<(), Error> {
        if let Step::Append(number) = step {
            self.submitted = self.submitted.max(self.oracle.end(*number));
        }
        self.life.act(self.plan, step)?;
        if let Step::Append(number) = step {
            self.acknowledged = self.oracle.end(*number);
        }
        Ok(())
    }

    /// While the disk refuses: nothing is lost, what is served is right, and no append is taken.
    fn check_refusing(&mut self, reads_work: bool) -> Judged<()> {
        let Some(engine) = &self.life.engine else { return Ok(()) };
        if reads_work {
            match self.oracle.look(engine, (self.acknowledged, self.submitted)) {
                Ok(_) => {}
                // The database refuses what it has not in its cache once an operation failed, and a `resume` that could
                // not open it again has closed it. That is said; what is served is right.
                Err(refused) if refused.kind == "stuck" && refused.detail.contains("database_error") => {
                    self.lived.unread = true;
                }
                Err(finding) => return Err(finding),
            }
        }
        if engine.store().health().writable {
            return Ok(());
        }
        let next = self.oracle.behind(self.submitted).min(self.plan.appends.len() - 1);
        match engine.submit(self.plan.appends[next].to_append()) {
            Err(error) if error.code() == "writer_stopped" => Ok(()),
            answer => finding("wrong", format!("a stopped writer answers {:?}", answer.map_err(|error| error.code()))),
        }
    }

    /// What the disk may hold if the power goes too.
    fn check_losses(&mut self, seed: u64) -> Judged<()> {
        for tear in [Tear::DropAll, Tear::KeepAll, Tear::Subset, Tear::OneMissing] {
            let image = self.life.disk.crash_image(seed, tear);
            self.lived.images += 1;
            let engine = match open(&cognilog_storage::testkit::SimulatedDisk::from_image(image), &self.life.limits) {
                Ok(engine) => engine,
                Err(error) => return finding("unopenable", format!("{tear:?}: {error}")),
            };
            self.oracle.judge(&engine, (self.acknowledged, self.submitted))?;
        }
        Ok(())
    }

    /// Takes the fault away and goes on: by `resume` where there is an engine, by opening where there is none.
    fn heal(&mut self) -> Judged<()> {
        self.life.disk.clear_faults();
        let engine = stuck("open again", self.life.engine())?;
        stuck("resume", engine.resume())?;
        if !engine.store().health().writable {
            return finding("stuck", "it does not take appends after `resume`");
        }
        self.oracle.look(engine, (self.acknowledged, self.submitted)).map(drop)
    }
}

/// Lives the plan through a fault; `outage` steps are tried before it is taken away.
fn live_through(base: &[u8], plan: &Plan, oracle: &Oracle, seed: u64, fault: Fault, outage: usize) -> Judged<Lived> {
    let life = Life::new(base.to_vec(), limits(seed));
    life.disk.plan(fault);
    let reads_work = !matches!(fault.kind, FaultKind::ReadError { .. });
    let mut through = Through { life, plan, oracle, acknowledged: 0, submitted: 0, lived: Lived::default() };
    for (index, step) in plan.steps.iter().enumerate() {
        let Err(error) = through.act(step) else { continue };
        if through.lived.noticed {
            return finding("stuck", format!("step {index}: {}: {error}", error.code()));
        }
        through.lived.noticed = true;
        through.check_refusing(reads_work)?;
        through.check_losses(fault.at)?;
        for _ in 0..outage {
            // Nothing comes of these while the disk refuses, and nothing is lost by them.
            let _ = through.act(&Step::Resume);
            let _ = through.act(step);
            through.check_refusing(reads_work)?;
        }
        through.heal()?;
        stuck("the step again", through.act(step))?;
    }
    through.life.disk.clear_faults();
    let all = (oracle.all(), oracle.all());
    oracle.judge(stuck("open", through.life.engine())?, all)?;
    through.check_losses(fault.at)?;
    through.life.engine = None;
    oracle.judge(stuck("open again", through.life.engine())?, all)?;
    Ok(through.lived)
}

/// The faults that are tried: each at every so many operations, another set for each kind.
fn faults(operations: u64, reads: u64, step: u64) -> Vec<(Fault, usize)> {
    let mut found = Vec::new();
    let mut start = 0;
    for (times, outage) in [(Times::Once, 0), (Times::Forever, 2)] {
        for error in [DiskError::InputOutput, DiskError::NoSpace] {
            let kind = FaultKind::Error { error, times };
            found.extend((start % step..operations).step_by(step as usize).map(|at| (Fault { at, kind }, outage)));
            start += 1;
        }
        let kind = FaultKind::ReadError { times };
        let reads = (start % step..reads).step_by(4 * step as usize);
        found.extend(reads.map(|at| (Fault { at, kind }, outage)));
    }
    found
}

#[test]
fn a_disk_that_refuses_once_or_until_space_is_freed_loses_nothing() {
    let (seed, began) = (seed(), Instant::now());
    let base = created();
    let (lives, appends, step) = if is_full() { (3, 14, 3) } else { (1, 8, 29) };
    let (mut tried, mut noticed, mut unread, mut images, mut findings) = (0, 0, 0, 0, Vec::<(String, Finding)>::new());
    for life_seed in seed..seed + lives {
        let plan = Plan::new(life_seed, appends);
        let mut life = Life::new(base.clone(), limits(life_seed));
        let oracle = life.undisturbed(&plan).unwrap();
        life.engine = None;
        let mut faults = faults(life.disk.operations(), life.disk.reads(), step);
        // Those that come first would otherwise be those of one worker.
        let mut random = Random(life_seed);
        (1..faults.len()).rev().for_each(|last| faults.swap(last, random.below(last as u64 + 1) as usize));
        let lived = in_parallel(faults.len(), |number| {
            let (fault, outage) = faults[number];
            let verdict = judged(|| live_through(&base, &plan, &oracle, life_seed, fault, outage));
            (format!("life {life_seed}, {fault:?}"), verdict)
        });
        tried += lived.len();
        for (place, verdict) in lived {
            match verdict {
                Ok(lived) => {
                    noticed += usize::from(lived.noticed);
                    unread += usize::from(lived.unread);
                    images += lived.images;
                }
                Err(finding) => findings.push((place, finding)),
            }
        }
    }
    let counts = format!(
        "{lives} lives, {tried} refusals ({noticed} of them were told to a caller, {unread} stopped some reads until `resume`), {images} crash images: {} lost, {} stuck, {} others",
        of_kind(&findings, "lost"),
        of_kind(&findings, "stuck"),
        findings.len() - of_kind(&findings, "lost") - of_kind(&findings, "stuck"),
    );
    tell("refusals", seed, began, &counts);
    expect_nothing("refusals", seed, &findings);
}
