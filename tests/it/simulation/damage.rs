//! Damage at rest: flipped bits, cut and zeroed logs, closed and unclean. What is served is right; what is missing is found.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cognilog::{Engine, Error, FoldState, Head, Limits, Position};
use cognilog_storage::testkit::SimulatedDisk;
use serde_json::Value;

use super::life::*;
use super::model::LoggedEvent;
use super::oracle::{Finding, Judged, Oracle, QUESTIONS, ask_one, finding, judged, read, same, stuck};
use super::workload::Plan;
use crate::common::{Random, id};

/// So large that random salts do not decide what is all zero, and a seed does the same in every run.
const GROUP: usize = 64;

type Rows = BTreeSet<(Vec<u8>, Vec<u8>)>;

/// A store that is whole, and everything that may be served of it.
struct Whole {
    image: Vec<u8>,
    limits: Limits,
    oracle: Oracle,
    events: Vec<(cognilog::EventId, LoggedEvent)>,
    rows: Vec<(&'static str, Rows)>,
    /// What its `head` file said last, and what it would say now.
    head: Head,
    true_head: Head,
    /// Places in the file, each of [`GROUP`] bytes, that are not all zero: free pages are most of it.
    used: Vec<usize>,
}

impl Whole {
    fn new(base: &[u8], seed: u64, closed: bool) -> Whole {
        let plan = Plan::new(seed, 24);
        let mut life = Life::new(base.to_vec(), limits(seed));
        let mut heads = Vec::new();
        let oracle = Oracle::new(plan.appends.clone());
        for step in &plan.steps {
            life.act(&plan, step).unwrap();
            heads.push(head_of(life.engine().unwrap()));
        }
        let engine = life.engine().unwrap();
        engine.store().wait_rebuilt().unwrap();
        oracle.judge(engine, (oracle.all(), oracle.all())).unwrap();
        let events = read(engine).unwrap();
        let rows = rows(engine).into_iter().map(|(name, rows)| (name, rows.unwrap())).collect();
        if closed {
            life.engine.take().unwrap().close().unwrap();
        }
        let image = life.disk.image();
        let groups = image.chunks(GROUP).enumerate();
        let used = groups.filter(|(_, group)| group.iter().any(|byte| *byte != 0)).map(|(index, _)| index * GROUP);
        let used = used.collect();
        let true_head = heads[heads.len() - 1];
        // The head file of an unclean store is older than its log.
        let head = if closed { true_head } else { heads[heads.len() * 3 / 4] };
        Whole { image, limits: life.limits.clone(), oracle, events, rows, head, true_head, used }
    }
}

pub(crate) fn head_of(engine: &Engine) -> Head {
    let snapshot = engine.snapshot().unwrap();
    Head { epoch: snapshot.epoch(), position: snapshot.head(), chain: snapshot.chain() }
}

fn rows(engine: &Engine) -> Vec<(&'static str, Result<Rows, Error>)> {
    let snapshot = engine.snapshot().unwrap();
    let names = snapshot.projections().into_iter().map(|(name, _)| name);
    names
        .map(|name| {
            let rows = snapshot.projection_rows(name).map_err(Error::from);
            (name, rows.map(|rows| rows.into_iter().map(|(key, row)| (key.to_vec(), row.to_vec())).collect()))
        })
        .collect()
}

/// What a damaged store did.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// It did not open.
    refused: bool,
    /// Plain reads that said that they cannot be answered.
    errors: usize,
    /// Plain reads in which something is missing, without a word.
    missing: usize,
    /// What `verify` found.
    found: usize,
    /// Rows are served that a fold made without others, which damage had hidden from it.
    derived: bool,
    /// The log is whole and ends earlier, at or behind its head file: only a head that is kept elsewhere tells.
    taken_back: bool,
}

impl Whole {
    /// Opens a damaged image, reads everything in every way and verifies; a finding is a wrong value, a panic, an export
    /// that does not say what it lost, or something missing that `verify` does not find.
    fn look(&self, image: Vec<u8>) -> Judged<Seen> {
        let disk = SimulatedDisk::from_image(image);
        let mut seen = Seen::default();
        let Ok(engine) = open(&disk, &self.limits) else { return Ok(Seen { refused: true, ..seen }) };
        wait_a_little(&engine);
        let Ok(snapshot) = engine.snapshot() else { return Ok(Seen { refused: true, ..seen }) };
        if snapshot.check_head(&self.head).is_err() {
            // A store whose log does not contain its head is not opened.
            return Ok(Seen { refused: true, ..seen });
        }
        if snapshot.head() < self.true_head.position {
            // A bit of the database's header says which of its last two commits counts.
            let whole = self.oracle.judge(&engine, (self.head.position.0 as usize, self.oracle.all()));
            if whole.is_ok() && snapshot.check_head(&self.true_head).is_err() {
                return Ok(Seen { taken_back: true, ..seen });
            }
        }
        self.read_events(&engine, &mut seen)?;
        self.read_rows(&engine, &mut seen)?;
        self.ask(&engine, &mut seen)?;
        seen.found = snapshot.verify().map_or(1, |verified| verified.findings.len());
        if seen.found == 0 && snapshot.head().0 < self.events.len() as u64 {
            return finding("escaped", format!("the log ends at {} and `verify` finds nothing", snapshot.head()));
        }
        if seen.found == 0 && (seen.derived || seen.errors + seen.missing > 0) {
            return finding("escaped", format!("{seen:?}"));
        }
        self.append(&engine)?;
        Ok(seen)
    }

    fn read_events(&self, engine: &Engine, seen: &mut Seen) -> Judged<()> {
        let snapshot = stuck("snapshot", engine.snapshot())?;
        let mut next = 0;
        let mut wrong = None;
        let visited = snapshot.visit(Position(1), snapshot.head(), |event| {
            let stored = event.to_stored();
            let json: Value = serde_json::from_str(&stored.json()?).unwrap();
            let expected = self.events.get(next).filter(|(event_id, logged)| {
                *event_id == stored.envelope.event_id && logged.json == json && event.stream().parts().1 == logged.trace
            });
            next += 1;
            if expected.is_none() {
                wrong = Some(format!("position {next} is served as {json}"));
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        });
        if let Some(wrong) = wrong {
            return finding("wrong", wrong);
        }
        seen.errors += usize::from(visited.is_err());
        seen.missing += usize::from(visited.is_ok() && next < self.events.len());
        for (index, (event_id, logged)) in self.events.iter().enumerate() {
            let position = Position(index as u64 + 1);
            match snapshot.event(position).and_then(|event| event.map(|event| event.json()).transpose()) {
                Ok(Some(json)) if serde_json::from_str::<Value>(&json).unwrap() == logged.json => {}
                Ok(Some(json)) => return finding("wrong", format!("position {position} is served as {json}")),
                Ok(None) => seen.missing += 1,
                Err(_) => seen.errors += 1,
            }
            match snapshot.view().find_event(*event_id) {
                Ok(Some(found)) if found == position => {}
                Ok(Some(found)) => return finding("wrong", format!("event {position} is found at {found}")),
                Ok(None) => seen.missing += 1,
                Err(_) => seen.errors += 1,
            }
        }
        Ok(())
    }

    fn read_rows(&self, engine: &Engine, seen: &mut Seen) -> Judged<()> {
        for ((_, found), (_, expected)) in rows(engine).into_iter().zip(&self.rows) {
            match found {
                Ok(found) => {
                    // A row that is served has its checksum; one that differs was made anew, without one that is hidden.
                    seen.derived |= found.difference(expected).next().is_some();
                    seen.missing += usize::from(found.len() < expected.len());
                }
                Err(_) => seen.errors += 1,
            }
        }
        Ok(())
    }

    fn ask(&self, engine: &Engine, seen: &mut Seen) -> Judged<()> {
        let expected = self.oracle.expected(self.oracle.all());
        for question in QUESTIONS.iter().filter(|question| **question != "exports") {
            match ask_one(engine, question) {
                Ok(answer) => seen.missing += usize::from(same(question, &answer, &expected[question]).is_err()),
                Err(_) => seen.errors += 1,
            }
        }
        // The traces by their names: the list of them may be damaged too.
        let names = expected["traces"].as_array().unwrap().iter().map(|trace| trace["trace_id"].as_str().unwrap());
        for (name, expected) in names.zip(expected["exports"].as_array().unwrap()) {
            match engine.export(&id(name)) {
                Ok(text) => {
                    let mut file: Value = serde_json::from_str(&text).unwrap();
                    if let Err(difference) = same("exports", &file["events"].take(), expected) {
                        return finding("silent export", difference.detail);
                    }
                }
                Err(_) => seen.errors += 1,
            }
        }
        Ok(())
    }

    /// Whatever an append is answered, what it recorded is read back as it was.
    fn append(&self, engine: &Engine) -> Judged<()> {
        let plan = Plan::crowd(99, 1, 1);
        let Ok(receipt) = engine.submit(plan[0][0].to_append()) else { return Ok(()) };
        match engine.snapshot().and_then(|snapshot| Ok(snapshot.event(receipt.events[0].position)?)) {
            Ok(Some(event)) if event.envelope.event_id == receipt.events[0].event_id => Ok(()),
            Ok(event) => finding("lost", format!("an acknowledged event is read as {event:?}")),
            Err(error) if matches!(error.code(), "data_damaged" | "database_error" | "event_unreadable") => Ok(()),
            Err(error) => finding("lost", format!("an acknowledged event: {error}")),
        }
    }
}

/// Waits until nothing is rebuilt; a damaged log may never come so far.
fn wait_a_little(engine: &Engine) {
    let until = Instant::now() + Duration::from_millis(500);
    let is_rebuilding = || {
        let health = engine.store().health();
        health.writable && health.projections.iter().any(|(_, state)| matches!(state, FoldState::Rebuilding { .. }))
    };
    while is_rebuilding() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What one kind of damage did in all.
fn conclude(technique: &str, seed: u64, began: Instant, judged: Vec<(String, Judged<Seen>)>) {
    let tried = judged.len();
    let (mut refused, mut said, mut silent, mut missed, mut taken_back, mut derived) = (0, 0, 0, 0, 0, 0);
    let mut findings = Vec::<(String, Finding)>::new();
    for (place, verdict) in judged {
        match verdict {
            Ok(seen) => {
                refused += usize::from(seen.refused);
                derived += usize::from(seen.derived);
                taken_back += usize::from(seen.taken_back);
                said += usize::from(seen.errors > 0);
                silent += usize::from(seen.errors == 0 && seen.missing > 0);
                missed += usize::from(!seen.refused && seen.errors + seen.missing == 0 && seen.found > 0);
            }
            Err(finding) => findings.push((place, finding)),
        }
    }
    let kinds = ["wrong", "panic", "escaped", "silent export", "lost"];
    let counts: Vec<String> = kinds.iter().map(|kind| format!("{} {kind}", of_kind(&findings, kind))).collect();
    let counts = format!(
        "{tried} tried: {refused} refused at open, {said} told by a plain read, {silent} with something missing that \
         only `verify` tells, {missed} that plain reads are right in spite of and `verify` finds, {taken_back} taken back to a commit behind \
         `head`, {} without effect ({derived} made a fold write rows without others that were hidden); {}",
        tried - refused - said - silent - missed - taken_back - findings.len(),
        counts.join(", ")
    );
    tell(technique, seed, began, &counts);
    expect_nothing(technique, seed, &findings);
}

/// Closed and unclean stores, as many of each.
fn stores(seed: u64) -> Vec<(String, Whole)> {
    let base = created();
    let each = if is_full() { 3 } else { 1 };
    let stores = (seed..seed + each).flat_map(|seed| [(seed, true), (seed, false)]);
    let name = |seed, closed| format!("{} store {seed}", if closed { "closed" } else { "unclean" });
    stores.map(|(seed, closed)| (name(seed, closed), Whole::new(&base, seed, closed))).collect()
}

/// Damages the stores in turn, each time in another way. What a finding was found in is kept in the target's `tmp`.
fn damage(technique: &str, count: usize, change: impl Fn(&mut Vec<u8>, &Whole, &mut Random) -> String + Sync) {
    let (seed, began) = (seed(), Instant::now());
    let stores = stores(seed);
    let judged = in_parallel(count, |number| {
        let (name, whole) = &stores[number % stores.len()];
        let mut image = whole.image.clone();
        let mut random = Random(seed ^ (number as u64) << 20);
        let what = change(&mut image, whole, &mut random);
        let verdict = judged(|| whole.look(image.clone()));
        if verdict.is_err() {
            let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{technique} {number}.redb"));
            let _ = std::fs::write(file, image);
        }
        (format!("{name}, {what}"), verdict)
    });
    conclude(technique, seed, began, judged);
}

#[test]
fn a_flipped_bit_is_never_served_and_never_escapes_verify() {
    let count = if is_full() { 12_000 } else { 240 };
    damage("bit flips", count, |image, whole, random| {
        // Where it matters most: redb's header, and pages that are in use.
        let offset = match random.below(8) {
            0 => random.below(image.len() as u64) as usize,
            1 => random.below(640) as usize,
            _ => whole.used[random.below(whole.used.len() as u64) as usize] + random.below(GROUP as u64) as usize,
        };
        let bit = random.below(8);
        image[offset] ^= 1 << bit;
        format!("bit {bit} of byte {offset}")
    });
}

#[test]
fn a_log_that_is_cut_or_zeroed_is_never_served_wrongly() {
    let count = if is_full() { 1_500 } else { 60 };
    damage("cut logs", count, |image, _, random| {
        let length = random.below(image.len() as u64) as usize;
        let length = if random.chance(2) { length / 4096 * 4096 } else { length };
        image.truncate(length);
        format!("cut to {length}")
    });
    damage("zeroed tails", count, |image, whole, random| {
        // The end of what is used, or of any block of it.
        let end = whole.used[random.below(whole.used.len() as u64) as usize] / 512 * 512;
        image[end..].fill(0);
        format!("zero from {end}")
    });
    damage("zeroed blocks", count, |image, whole, random| {
        let unit = *random.pick(&[&512usize, &4096]);
        let start = whole.used[random.below(whole.used.len() as u64) as usize] / unit * unit;
        let end = (start + unit).min(image.len());
        image[start..end].fill(0);
        format!("zero from {start} to {end}")
    });
}

#[test]
fn a_bit_of_the_header_takes_an_unclean_store_back_and_a_head_kept_elsewhere_sees_it() {
    let base = created();
    let taken_back = in_parallel(8, |number| {
        let whole = Whole::new(&base, seed() + number as u64, false);
        // The byte behind redb's magic number: its lowest bit says which of the two commits counts.
        let mut image = whole.image.clone();
        image[9] ^= 1;
        // A store that was taken back is whole, and fails against its true head.
        whole.look(image).unwrap().taken_back
    });
    assert!(taken_back.contains(&true), "no store was taken back: the table of docs/promises.md says too little");
}
