//! The self-test: faults that are planted, each of which the oracle must find. A check that misses one proves nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use cognilog::EventKind;
use cognilog_core::event::EventView;
use cognilog_storage::testkit::{Fault, FaultKind, Tear, Times, flush_without_checkpoint};
use cognilog_storage::{ChangeSet, Fold, Scope};

use super::crashes::{Sweep, lose_power, recorded};
use super::life::*;
use super::oracle::{Finding, Judged, Oracle, judged, stuck};
use super::workload::{Plan, PlannedAppend, Step};

/// How many of a kind were planted, and how many of them found.
#[derive(Default)]
struct Planted {
    planted: usize,
    found: usize,
    missed: Vec<String>,
}

impl Planted {
    /// A planted fault, and what the oracle says: it must say one of these kinds.
    fn expect(&mut self, what: impl Into<String>, kinds: &[&str], verdict: &Judged<()>) {
        self.planted += 1;
        match verdict {
            Err(Finding { kind, .. }) if kinds.contains(kind) => self.found += 1,
            Err(finding) => self.missed.push(format!("{}: found as {finding:?}", what.into())),
            Ok(()) => self.missed.push(what.into()),
        }
    }

    fn tell(&self, what: &str, seed: u64, began: Instant) {
        tell("planted", seed, began, &format!("{what}: {} of {} found", self.found, self.planted));
        assert!(self.planted > 0, "nothing was planted");
        assert!(self.missed.is_empty(), "{what}: not found: {:#?}", self.missed);
    }
}

fn appends() -> usize {
    if is_full() { 20 } else { 10 }
}

#[test]
fn a_sync_that_lies_is_found() {
    let (seed, began) = (seed(), Instant::now());
    let base = created();
    let mut planted = Planted::default();
    for life_seed in seed..seed + 3 {
        let plan = Plan::new(life_seed, appends());
        let mut life = Life::new(base.clone(), limits(life_seed));
        life.disk.plan(Fault { at: 0, kind: FaultKind::LyingSync { times: Times::Forever } });
        let oracle = Arc::new(life.undisturbed(&plan).unwrap());
        let recording = life.disk.recording().unwrap();
        let sweep = Sweep { step: 23, seeds: 1, second_step: usize::MAX, recovery_step: 1 };
        let losses = lose_power(&recording, &oracle, life_seed, sweep);
        let lost = losses.findings.into_iter().find(|(_, finding)| finding.kind == "lost");
        planted.expect(format!("life {life_seed}"), &["lost"], &lost.map_or(Ok(()), |(_, finding)| Err(finding)));
    }
    planted.tell("a disk whose syncs lie", seed, began);
}

/// An oracle of the same log that was told other times.
fn told_otherwise(oracle: &Oracle, change: impl FnOnce(&mut Oracle)) -> Oracle {
    let mut other = Oracle::new(oracle.appends.clone());
    other.submitted_at.clone_from(&oracle.submitted_at);
    other.acknowledged_at.clone_from(&oracle.acknowledged_at);
    change(&mut other);
    other
}

#[test]
fn an_answer_before_the_commit_is_found() {
    let (seed, began) = (seed(), Instant::now());
    let limits = limits(seed);
    let (recording, oracle) = recorded(&created(), seed, appends()).unwrap();
    let mut planted = Planted::default();
    for append in 0..oracle.appends.len() {
        // A handle that answers this append as soon as it is handed in.
        let submitted = oracle.submitted_at[append].unwrap();
        let early = Arc::new(told_otherwise(&oracle, |early| early.acknowledged_at[append] = Some(submitted)));
        let mut points = recording.crash_points();
        while points.ordinal() < submitted && points.advance() {}
        let mut verdict = Ok(());
        while verdict.is_ok() && points.ordinal() < oracle.acknowledged_at[append].unwrap() {
            let (bounds, image) = (early.bounds(points.ordinal()), points.crash_image(seed, Tear::DropAll));
            verdict = judged(|| survive(image, &limits, &early, bounds, 1)).map(drop);
            points.advance();
        }
        planted.expect(format!("append {append}"), &["lost"], &verdict);
    }
    planted.tell("an answer before the commit", seed, began);
}

/// A fold that leaves out the event at one position.
struct Skipping {
    fold: Arc<dyn Fold>,
    skipped: Arc<AtomicU64>,
}

impl Fold for Skipping {
    fn name(&self) -> &'static str {
        self.fold.name()
    }

    fn version(&self) -> u32 {
        self.fold.version()
    }

    fn scope(&self) -> Scope {
        self.fold.scope()
    }

    fn kinds(&self) -> &'static [EventKind] {
        self.fold.kinds()
    }

    fn apply(&self, rows: &mut ChangeSet<'_>, event: &EventView<'_>) {
        if event.envelope.position.0 != self.skipped.load(Ordering::SeqCst) {
            self.fold.apply(rows, event);
        }
    }
}

#[test]
fn a_fold_that_skips_an_event_is_found() {
    let (seed, began) = (seed(), Instant::now());
    let base = created();
    let plan = Plan::new(seed, appends());
    let oracle = Oracle::new(plan.appends.clone());
    let events: Vec<&serde_json::Value> =
        plan.appends.iter().flat_map(|append| &append.events).map(|event| &event.logged.json).collect();
    let cases: Vec<(usize, u64)> = (0..cognilog_projections::folds().len())
        .flat_map(|fold| (1..=events.len() as u64).map(move |position| (fold, position)))
        .filter(|(fold, position)| {
            let event = events[*position as usize - 1];
            let kind = EventKind::from_word(event["type"].as_str().unwrap());
            // An evaluation that judges nothing leaves nothing that could be missed.
            let is_empty = event["assessments"].as_array().is_some_and(Vec::is_empty);
            cognilog_projections::folds()[*fold].kinds().contains(&kind) && !is_empty
        })
        .collect();
    let verdicts = in_parallel(cases.len(), |case| {
        let (fold, position) = cases[case];
        let mut life = Life::new(base.clone(), limits(seed));
        let skipping = Skipping { fold: Arc::clone(&life.folds[fold]), skipped: Arc::new(AtomicU64::new(position)) };
        life.folds[fold] = Arc::new(skipping);
        judged(|| {
            for step in &plan.steps {
                stuck("live", life.act(&plan, step))?;
            }
            oracle.judge(stuck("open", life.engine())?, (oracle.all(), oracle.all())).map(drop)
        })
    });
    let mut planted = Planted::default();
    for ((fold, position), verdict) in cases.iter().zip(&verdicts) {
        // Positions that are filled in from a row may go wrong at once.
        planted.expect(format!("fold {fold}, position {position}"), &["wrong", "stuck"], verdict);
    }
    planted.tell("a fold that skips an event", seed, began);
}

#[test]
fn a_flush_without_its_checkpoint_is_found() {
    let (seed, began) = (seed(), Instant::now());
    let base = created();
    let mut planted = Planted::default();
    for life_seed in seed..seed + 4 {
        let plan = Plan::new(life_seed, appends());
        let mut life = Life::new(base.clone(), limits(life_seed));
        let oracle = Arc::new(Oracle::new(plan.appends.clone()));
        stuck("flush", life.engine().unwrap().store().flush().map_err(Into::into)).unwrap();
        for step in &plan.steps {
            life.act(&plan, step).unwrap();
            let Step::Append(number) = step else { continue };
            let before = life.disk.image();
            life.engine().unwrap().store().flush().unwrap();
            let after = life.disk.image();
            if before == after {
                continue;
            }
            let image = flush_without_checkpoint(&before, &after).unwrap();
            let held = (oracle.end(*number), oracle.end(*number));
            let verdict = judged(|| survive(image, &life.limits, &oracle, held, 1)).map(drop);
            planted.expect(format!("life {life_seed}, append {number}"), &["wrong", "unopenable"], &verdict);
        }
    }
    planted.tell("a flush without its checkpoint", seed, began);
}

#[test]
fn an_append_in_two_parts_and_another_content_are_found() {
    let (seed, began) = (seed(), Instant::now());
    let base = created();
    let limits = limits(seed);
    let plan = Plan::new(seed, appends());
    let oracle = Arc::new(Oracle::new(plan.appends.clone()));
    let (mut parts, mut contents) = (Planted::default(), Planted::default());
    for number in 0..plan.appends.len() {
        // Lived up to the append, which is then cut behind its first event, or has another first event.
        let append = &plan.appends[number];
        let live = |last: PlannedAppend| {
            let mut life = Life::new(base.clone(), limits.clone());
            for earlier in 0..number {
                life.act(&plan, &Step::Append(earlier)).unwrap();
            }
            life.engine().unwrap().submit(last.to_append()).unwrap();
            let held = (number.checked_sub(1).map_or(0, |last| oracle.end(last)), oracle.end(number));
            judged(|| survive(life.disk.image(), &limits, &oracle, held, 1)).map(drop)
        };
        if append.events.len() > 1 {
            let mut half = append.clone();
            half.events.truncate(1);
            parts.expect(format!("append {number}"), &["partial"], &live(half));
        }
        let mut other = append.clone();
        other.events[0] = PlannedAppend::other_content(&append.events[0]);
        contents.expect(format!("append {number}"), &["wrong"], &live(other));
    }
    parts.tell("an append in two parts", seed, began);
    contents.tell("a record with another content", seed, began);
}
