//! Whole store directories: crash images beside older `head` files, and files that were swapped, stale, cut or foreign.

use std::path::Path;
use std::time::{Duration, Instant};

use cognilog::{Engine, EngineOptions, Head, Position};
use cognilog_storage::testkit::Tear;

use super::damage::head_of;
use super::life::*;
use super::oracle::{Finding, Judged, Oracle, finding, judged, stuck};
use super::workload::{Plan, Step};
use crate::common::Random;

fn options(seed: u64) -> EngineOptions {
    let mut options = EngineOptions::default();
    options.limits = limits(seed);
    options.wait = Duration::ZERO;
    options
}

/// Opens a directory as programs do, for writing and for reading, and judges it.
fn come_up(path: &Path, seed: u64, oracle: &Oracle, bounds: (usize, usize)) -> Judged<()> {
    let engine = match Engine::open_with(path, options(seed)) {
        Ok(engine) => engine,
        Err(error) => return finding("unopenable", format!("{}: {error}", error.code())),
    };
    let found = oracle.judge(&engine, bounds)?;
    let end = oracle.go_on(&engine, found, 1)?;
    stuck("close", engine.close())?;
    let reader = stuck("open to read", Engine::open_reader_with(path, options(seed)))?;
    oracle.judge(&reader, (end, end)).map(drop)
}

#[test]
fn a_directory_after_a_power_loss_opens_whatever_became_of_its_head_file() {
    let (seed, began) = (seed(), Instant::now());
    let (log, manifest) = created_files();
    let (lives, appends, step) = if is_full() { (2, 12, 3) } else { (1, 5, 31) };
    let mut findings: Vec<(String, Finding)> = Vec::new();
    let mut images = 0;
    for life_seed in seed..seed + lives {
        let plan = Plan::new(life_seed, appends);
        let mut life = Life::new(log.clone(), limits(life_seed));
        // The oracle, and the heads by the operation behind which each could have been written.
        let mut oracle = Oracle::new(plan.appends.clone());
        let mut heads: Vec<(u64, Head)> = Vec::new();
        life.disk.record();
        for done in &plan.steps {
            if let Step::Append(number) = done {
                oracle.submitted_at[*number] = Some(life.disk.operations());
            }
            life.act(&plan, done).unwrap();
            if let Step::Append(number) = done {
                oracle.acknowledged_at[*number] = Some(life.disk.operations());
                heads.push((life.disk.operations(), head_of(life.engine().unwrap())));
            }
        }
        let recording = life.disk.recording().unwrap();
        let mut points = recording.crash_points();
        let mut cases = Vec::new();
        let mut number = life_seed;
        loop {
            if number.is_multiple_of(step) {
                let mut random = Random(life_seed ^ points.ordinal());
                let written = heads.iter().take_while(|(at, _)| *at <= points.ordinal()).count();
                for tear in Tear::ALL {
                    // Absent, empty as a rename without a sync leaves it, or any that was written.
                    let head = match random.below(written as u64 + 2) as usize {
                        0 => None,
                        1 => Some(String::new()),
                        older => Some(format!("{}\n", heads[older - 2].1)),
                    };
                    cases.push((points.ordinal(), tear, points.crash_image(random.next(), tear), head));
                }
            }
            number += 1;
            if !points.advance() {
                break;
            }
        }
        images += cases.len();
        let verdicts = in_parallel(cases.len(), |case| {
            let (at, tear, image, head) = &cases[case];
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("log.redb"), image).unwrap();
            std::fs::write(folder.path().join("MANIFEST.json"), &manifest).unwrap();
            if let Some(head) = head {
                std::fs::write(folder.path().join("head"), head).unwrap();
            }
            let verdict = judged(|| come_up(folder.path(), life_seed, &oracle, oracle.bounds(*at)));
            (format!("life {life_seed}, operation {at}, {tear:?}, head {head:?}"), verdict)
        });
        findings.extend(verdicts.into_iter().filter_map(|(place, verdict)| Some((place, verdict.err()?))));
    }
    let unopenable = of_kind(&findings, "unopenable");
    let counts = format!(
        "{lives} lives, {images} directories: {} lost, {unopenable} unopenable, {} others",
        of_kind(&findings, "lost"),
        findings.len() - of_kind(&findings, "lost") - unopenable
    );
    tell("directories", seed, began, &counts);
    expect_nothing("directories", seed, &findings);
}

/// A store in a directory that lived on: its files when it had come half the way, and at the end.
struct Aged {
    folder: tempfile::TempDir,
    oracle: Oracle,
    /// Events at half the way, and the heads then and at the end.
    half: usize,
    half_head: Head,
    head: Head,
}

const FILES: [&str; 3] = ["log.redb", "head", "MANIFEST.json"];

impl Aged {
    /// Closed or, as a kill leaves it, with what the writer had in memory not written.
    fn new(seed: u64, closed: bool) -> Aged {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        let plan = Plan::new(seed, 12);
        let oracle = Oracle::new(plan.appends.clone());
        drop(Engine::create(&store).unwrap());
        let mut half_head = None;
        let mut engine = Engine::open_with(&store, options(seed)).unwrap();
        for (number, append) in plan.appends.iter().enumerate() {
            engine.submit(append.to_append()).unwrap();
            if number == 5 {
                half_head = Some(head_of(&engine));
                engine.close().unwrap();
                copy(&store, &folder.path().join("half"));
                engine = Engine::open_with(&store, options(seed)).unwrap();
            }
        }
        let head = head_of(&engine);
        if closed {
            engine.close().unwrap();
            copy(&store, &folder.path().join("end"));
        } else {
            copy(&store, &folder.path().join("end"));
            engine.close().unwrap();
        }
        std::fs::remove_dir_all(store).unwrap();
        Aged { half: oracle.end(5), folder, oracle, half_head: half_head.unwrap(), head }
    }

    /// The files at the end, some of them as `change` has them; opened for writing, or why not.
    fn opened(&self, change: impl Fn(&Path, &Path)) -> Result<(tempfile::TempDir, Engine), cognilog::Error> {
        let folder = tempfile::tempdir().unwrap();
        copy(&self.folder.path().join("end"), folder.path());
        change(folder.path(), &self.folder.path().join("half"));
        let engine = Engine::open_with(folder.path(), options(1))?;
        Ok((folder, engine))
    }

    /// Expects it to be refused with one of these codes by a writer and by a reader, and to be left as it is.
    fn refused(&self, codes: &[&str], change: impl Fn(&Path, &Path)) {
        let folder = tempfile::tempdir().unwrap();
        copy(&self.folder.path().join("end"), folder.path());
        change(folder.path(), &self.folder.path().join("half"));
        let files = || FILES.map(|file| std::fs::read(folder.path().join(file)).ok());
        let before = files();
        for opened in
            [Engine::open_with(folder.path(), options(1)), Engine::open_reader_with(folder.path(), options(1))]
        {
            let code = opened.map(drop).map_err(|error| error.code());
            assert!(code.is_err_and(|code| codes.contains(&code)), "{code:?}, expected {codes:?}");
        }
        assert!(files() == before, "the files have changed");
    }

    /// Expects it to open with so many events, all of them right, and no more.
    fn holds(&self, events: usize, change: impl Fn(&Path, &Path)) -> Engine {
        let (_folder, engine) = self.opened(change).unwrap();
        self.oracle.judge(&engine, (events, events)).unwrap();
        engine
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in FILES {
        let _ = std::fs::copy(from.join(file), to.join(file));
    }
}

fn take(file: &'static str) -> impl Fn(&Path, &Path) {
    move |store, other| {
        std::fs::copy(other.join(file), store.join(file)).unwrap();
    }
}

#[test]
fn an_older_log_than_its_head_is_refused() {
    Aged::new(seed(), true).refused(&["head_mismatch"], take("log.redb"));
}

#[test]
fn a_log_that_went_another_way_is_refused() {
    let one = Aged::new(seed(), true);
    // The same store until half the way, then other events, and more of them.
    let other = one.folder.path().join("half");
    let engine = Engine::open_with(&other, options(1)).unwrap();
    for append in &Plan::crowd(7, 1, 20)[0] {
        engine.submit(append.to_append()).unwrap();
    }
    assert!(head_of(&engine).position > one.head.position);
    engine.close().unwrap();
    one.refused(&["head_mismatch"], take("log.redb"));
}

#[test]
fn files_of_another_store_are_refused() {
    let (one, other) = (Aged::new(seed(), true), Aged::new(seed() + 1, true));
    let from_other = |file: &'static str| {
        let other = other.folder.path().join("end");
        move |store: &Path, _: &Path| {
            std::fs::copy(other.join(file), store.join(file)).unwrap();
        }
    };
    one.refused(&["not_a_store"], from_other("log.redb"));
    one.refused(&["not_a_store"], from_other("MANIFEST.json"));
    one.refused(&["head_mismatch"], from_other("head"));
}

#[test]
fn a_cut_an_empty_and_a_foreign_log_are_refused() {
    let one = Aged::new(seed(), true);
    let log = |store: &Path| store.join("log.redb");
    one.refused(&["not_a_store"], move |store, _| std::fs::remove_file(log(store)).unwrap());
    one.refused(&["not_a_store", "database_error"], move |store, _| std::fs::write(log(store), "").unwrap());
    let cut = |store: &Path, _: &Path| {
        let file = std::fs::File::options().write(true).open(store.join("log.redb")).unwrap();
        file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    };
    one.refused(&["data_damaged", "database_error"], cut);
    one.refused(&["data_damaged", "database_error"], move |store, _| {
        std::fs::write(log(store), "a text ".repeat(9_000)).unwrap()
    });
}

#[test]
fn what_came_behind_the_head_file_is_not_missed_by_it() {
    // Killed: the log has more than the head file says. An older log that still has the head's events opens.
    let one = Aged::new(seed(), false);
    let older_log_and_head = |store: &Path, half: &Path| {
        take("log.redb")(store, half);
        take("head")(store, half);
    };
    let engine = one.holds(one.half, older_log_and_head);
    let kept_elsewhere = engine.snapshot().unwrap().check_head(&one.head);
    assert_eq!(kept_elsewhere.map_err(|error| error.code()), Err("head_mismatch"));
}

#[test]
fn a_directory_that_was_taken_back_whole_is_seen_by_a_head_kept_elsewhere_alone() {
    let one = Aged::new(seed(), true);
    let everything = |store: &Path, half: &Path| FILES.iter().for_each(|file| take(file)(store, half));
    let engine = one.holds(one.half, everything);
    assert!(engine.verify().unwrap().findings.is_empty());
    let snapshot = engine.snapshot().unwrap();
    assert!(snapshot.check_head(&one.half_head).is_ok());
    assert_eq!(snapshot.check_head(&one.head).map_err(|error| error.code()), Err("head_mismatch"));
}

#[test]
fn an_older_an_empty_and_a_missing_head_file_lose_nothing() {
    for closed in [true, false] {
        let one = Aged::new(seed(), closed);
        let all = one.oracle.all();
        drop(one.holds(all, |_, _| {}));
        drop(one.holds(all, take("head")));
        drop(one.holds(all, |store, _| std::fs::write(store.join("head"), "").unwrap()));
        drop(one.holds(all, |store, _| std::fs::remove_file(store.join("head")).unwrap()));
    }
}

#[test]
fn a_head_file_that_is_none_is_refused() {
    let one = Aged::new(seed(), true);
    one.refused(&["not_a_store"], |store, _| std::fs::write(store.join("head"), "1.2.3\n").unwrap());
    one.refused(&["head_mismatch"], |store, _| {
        let mut head: Head = std::fs::read_to_string(store.join("head")).unwrap().parse().unwrap();
        head.position = Position(head.position.0 + 1);
        std::fs::write(store.join("head"), head.to_string()).unwrap();
    });
}
