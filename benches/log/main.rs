//! The figures of the log: appends against the raw disk, appends as the store grows, replay against a flat file, and
//! looking back in a large store. `cargo bench` prints them with their ratios; `benches/README.md` says how.
#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

mod workload;

use std::io::{BufReader, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cognilog::{Append, AppendEvent, At, Engine, EngineOptions, Position, TraceId};
use workload::Workload;

/// How much is measured: all of it under `cargo bench`, little of it under `cargo test`, so that it cannot rot.
struct Size {
    round: Duration,
    rounds: usize,
    small: u64,
    large: u64,
    latency_appends: usize,
    replayed: u64,
}

const FULL: Size = Size {
    round: Duration::from_secs(4),
    rounds: 3,
    small: 1_000,
    large: 1_000_000,
    latency_appends: 2_000,
    replayed: 100_000,
};
const TINY: Size =
    Size { round: Duration::from_millis(50), rounds: 1, small: 100, large: 1_000, latency_appends: 20, replayed: 500 };

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let size = if arguments.iter().any(|argument| argument == "--bench") { FULL } else { TINY };
    let only = arguments.iter().skip(1).find(|argument| !argument.starts_with('-')).map(String::as_str);
    let wanted = |name: &str| only.is_none_or(|only| name.contains(only));
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    if wanted("append") {
        appends(folder.path(), &size);
    }
    if wanted("follower") {
        follower(folder.path(), &size);
    }
    if wanted("large") {
        large(folder.path(), &size);
    }
}

/// Appends of 64 callers and of one against `write` + `fdatasync` behind the same channel, in turn.
fn appends(folder: &Path, size: &Size) {
    for callers in [64, 1] {
        let (mut ours, mut raw) = (Vec::new(), Vec::new());
        for round in 0..size.rounds {
            raw.push(raw_round(&folder.join(format!("raw-{callers}-{round}")), callers, size.round));
            ours.push(our_round(&folder.join(format!("store-{callers}-{round}")), callers, size.round));
        }
        let (ours, raw) = (median(&mut ours), median(&mut raw));
        println!(
            "append, {callers:>2} callers: {ours:>8.0} events/s, raw disk {raw:>8.0} events/s, ratio {:.2} (bar {})",
            ours / raw,
            if callers == 64 { "0.40" } else { "0.25" }
        );
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs `callers` threads that call `append` until the time is over; gives events per second.
fn rate(callers: usize, time: Duration, append: impl Fn(usize, &mut Workload) + Send + Sync) -> f64 {
    let (append, count) = (Arc::new(append), AtomicU64::new(0));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for caller in 0..callers {
            let (append, count) = (Arc::clone(&append), &count);
            scope.spawn(move || {
                let mut workload = Workload::new(caller as u64);
                while begin.elapsed() < time {
                    append(caller, &mut workload);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    count.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64()
}

fn our_round(path: &Path, callers: usize, time: Duration) -> f64 {
    let engine = Engine::create(path).expect("a store");
    let rate = rate(callers, time, |_, workload| {
        let (trace, event) = workload.next();
        engine.append(&trace, [event]).expect("appended");
    });
    engine.close().expect("closed");
    rate
}

/// Appends of 8 callers with the follower that writes `cognition_log.json` files beside them, against without it.
fn follower(folder: &Path, size: &Size) {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..size.rounds {
        without.push(our_round(&folder.join(format!("alone-{round}")), 8, size.round));
        let engine = Engine::create(&folder.join(format!("followed-{round}"))).expect("a store");
        let files = folder.join(format!("files-{round}"));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut follower = engine.json_files(&files).expect("a follower");
                while !done.load(Ordering::Relaxed) {
                    follower.step(Duration::from_millis(100)).expect("followed");
                }
            });
            with.push(rate(8, size.round, |_, workload| {
                let (trace, event) = workload.next();
                engine.append(&trace, [event]).expect("appended");
            }));
            done.store(true, Ordering::Relaxed);
        });
        engine.close().expect("closed");
    }
    let (with, without) = (median(&mut with), median(&mut without));
    println!(
        "append, 8 callers, with the json_files follower: {with:.0} events/s, without {without:.0}, ratio {:.2} (bar 0.90)",
        with / without
    );
}

/// One writer thread that takes what waits, writes it and calls `fdatasync`, then answers: the least that durability
/// with a queue costs. It writes the same events' JSON.
fn raw_round(path: &Path, callers: usize, time: Duration) -> f64 {
    let (queue, waiting) = crossbeam_channel::bounded::<(Vec<u8>, crossbeam_channel::Sender<()>)>(1_024);
    let mut file = std::fs::File::create(path).expect("a file");
    let writer = std::thread::spawn(move || {
        while let Ok(first) = waiting.recv() {
            let mut batch = vec![first];
            while batch.len() < 512 {
                match waiting.try_recv() {
                    Ok(next) => batch.push(next),
                    Err(_) => break,
                }
            }
            let bytes: Vec<u8> = batch.iter().flat_map(|(bytes, _)| bytes.iter().copied()).collect();
            file.write_all(&bytes).expect("written");
            file.sync_data().expect("synced");
            batch.into_iter().for_each(|(_, answer)| answer.send(()).expect("answered"));
        }
    });
    let rate = rate(callers, time, |_, workload| {
        let (_, event) = workload.next();
        let (answer, answered) = crossbeam_channel::bounded(1);
        queue.send((event.to_json().into_bytes(), answer)).expect("queued");
        answered.recv().expect("answered");
    });
    drop(queue);
    writer.join().expect("the writer ended");
    let _ = std::fs::remove_file(path);
    rate
}

/// A store that grows large: append latency at both ends, replay, and looking back.
fn large(folder: &Path, size: &Size) {
    let path = folder.join("large");
    let engine = Engine::create(&path).expect("a store");
    let mut workload = Workload::new(7);
    fill(&engine, &mut workload, size.small);
    let small = latency(&engine, &mut workload, size.latency_appends);
    let begin = Instant::now();
    fill(&engine, &mut workload, size.large);
    let filled = begin.elapsed();
    settle(&path);
    let large = latency(&engine, &mut workload, size.latency_appends);
    println!(
        "append p50, one caller: {:.0} us around {} events, {:.0} us around {} events, ratio {:.2} (bar 1.30)",
        small.as_secs_f64() * 1e6,
        size.small,
        large.as_secs_f64() * 1e6,
        size.large,
        large.as_secs_f64() / small.as_secs_f64()
    );
    println!(
        "  (filled in appends of 500 at {:.0} events/s; file {} MB)",
        size.large as f64 / filled.as_secs_f64(),
        engine.store().health().bytes >> 20
    );
    replay("through a cache of 128 MiB", &engine, folder, size.replayed);
    look_back(&engine);
    engine.close().expect("closed");
    let mut options = EngineOptions::default();
    options.limits.cache_bytes = 1 << 30;
    let engine = Engine::open_with(&path, options).expect("the store again");
    replay("warm in a cache of 1 GiB", &engine, folder, size.replayed);
    engine.close().expect("closed");
}

fn fill(engine: &Engine, workload: &mut Workload, to: u64) {
    while engine.snapshot().expect("a snapshot").head().0 < to {
        let trace = workload.trace();
        let append = (0..500)
            .fold(Append::new(trace), |append, _| append.event(AppendEvent::new(workload.event()).expect("an event")));
        engine.submit(append).expect("appended");
    }
}

/// Waits until the disk has what filling left in the page cache: the latency of one append is asked for, not how long
/// the disk takes for gigabytes before it.
fn settle(store: &Path) {
    std::fs::File::open(store.join("log.redb")).expect("the log").sync_all().expect("synced");
    std::thread::sleep(Duration::from_secs(2));
}

fn latency(engine: &Engine, workload: &mut Workload, appends: usize) -> Duration {
    let mut times = Vec::with_capacity(appends);
    for index in 0..appends + appends / 10 {
        let (trace, event) = workload.next();
        let begin = Instant::now();
        engine.append(&trace, [event]).expect("appended");
        // The first tenth warms the caches.
        if index >= appends / 10 {
            times.push(begin.elapsed());
        }
    }
    times.sort();
    times[times.len() / 2]
}

/// Reads events in order, checksums checked, each as a typed view, against a flat file of the same payloads with the
/// same checksum. Both from the page cache, in turn, the best of three.
fn replay(how: &str, engine: &Engine, folder: &Path, events: u64) {
    let snapshot = engine.snapshot().expect("a snapshot");
    let flat: PathBuf = folder.join("flat");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&flat).expect("a file"));
    let to = Position(events);
    snapshot
        .visit(Position(1), to, |event| {
            let payload = event.payload();
            file.write_all(&(payload.len() as u32).to_le_bytes()).expect("written");
            file.write_all(&xxhash_rust::xxh3::xxh3_64(payload).to_le_bytes()).expect("written");
            file.write_all(payload).expect("written");
            Ok(ControlFlow::Continue(()))
        })
        .expect("read");
    file.flush().expect("flushed");
    let (mut ours, mut theirs) = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        let begin = Instant::now();
        let mut sources = 0usize;
        snapshot
            .visit(Position(1), to, |event| {
                sources += event.with_view(|view| match view.body {
                    cognilog::event::Body::Query(query) => query.source_ids.len(),
                    _ => 0,
                })?;
                Ok(ControlFlow::Continue(()))
            })
            .expect("replayed");
        ours = ours.min(begin.elapsed());
        assert!(sources > 0, "the events were looked at");
        theirs = theirs.min(read_flat(&flat));
    }
    println!(
        "replay of {events} events, {how}: {:.0} events/s, flat file {:.0} events/s, ratio {:.2} (bar 0.40)",
        events as f64 / ours.as_secs_f64(),
        events as f64 / theirs.as_secs_f64(),
        theirs.as_secs_f64() / ours.as_secs_f64()
    );
}

fn read_flat(path: &Path) -> Duration {
    let begin = Instant::now();
    let mut file = BufReader::with_capacity(1 << 20, std::fs::File::open(path).expect("a file"));
    let (mut header, mut payload) = ([0u8; 12], Vec::new());
    while file.read_exact(&mut header).is_ok() {
        let (length, checksum) = header.split_at(4);
        payload.resize(u32::from_le_bytes(length.try_into().expect("four bytes")) as usize, 0);
        file.read_exact(&mut payload).expect("whole");
        assert_eq!(xxhash_rust::xxh3::xxh3_64(&payload).to_le_bytes(), checksum);
    }
    begin.elapsed()
}

/// A trace of 100 events whose events lie far apart in the store: one step back and one as-of query.
fn look_back(engine: &Engine) {
    let trace = TraceId::new("bench-trace-of-100").expect("a name");
    let mut workload = Workload::new(11);
    for _ in 0..100 {
        engine.append(&trace, [workload.event()]).expect("appended");
        let other = workload.trace();
        engine.append(&other, [workload.event()]).expect("appended");
    }
    let mut positions = Vec::new();
    let collect = |step: cognilog::ReplayStep| {
        positions.push(step.position);
        ControlFlow::Continue(())
    };
    engine.replay(&trace, At::Head, collect).expect("replayed");
    let begin = Instant::now();
    engine.replay(&trace, At::Position(positions[98]), |_| ControlFlow::Continue(())).expect("replayed");
    let step_back = begin.elapsed();
    let begin = Instant::now();
    let state = engine.state_at(&trace, At::Position(positions[50])).expect("as of");
    let as_of = begin.elapsed();
    assert!(!state.is_empty(), "the trace had rows");
    println!(
        "in a store of {} events, a trace of 100: step back {:.1} ms, as-of query {:.1} ms (bar 50 ms)",
        engine.snapshot().expect("a snapshot").head(),
        step_back.as_secs_f64() * 1e3,
        as_of.as_secs_f64() * 1e3
    );
}
