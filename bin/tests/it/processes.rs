//! Many processes at one store: writers that wait, readers beside a writer, and writers that are killed.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Place, Random, Running, eventually, lines, query, soak};

fn query_of(event: &Value) -> &str {
    event["event"]["query"].as_str().unwrap()
}

#[test]
fn eight_processes_append_one_event_each_time() {
    let each = if soak() { 500 } else { 60 };
    let place = Place::new();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let place = &place;
            scope.spawn(move || {
                for number in 0..each {
                    let trace = format!("trace-{}", writer % 3);
                    let out = place.append(&trace, &query(&format!("{writer}-{number}")));
                    assert_eq!(out.lines().count(), 1, "{out}");
                }
            });
        }
    });
    eprintln!("{} one-shot appends of 8 processes took {:?}", each * 8, began.elapsed());
    let log = place.log();
    assert_eq!(log.len(), 8 * each);
    let mut next = [0; 8];
    for (index, event) in log.iter().enumerate() {
        assert_eq!(event["position"], index + 1);
        let (writer, number) = query_of(event).split_once('-').unwrap();
        let writer: usize = writer.parse().unwrap();
        assert_eq!(event["stream"], format!("trace:trace-{}", writer % 3));
        // A writer's own events stand in the order of their receipts.
        assert_eq!(number, next[writer].to_string());
        next[writer] += 1;
    }
    place.verified();
}

#[test]
fn a_second_writer_is_refused_with_the_holders_pid_or_waits() {
    let place = Place::new();
    let mut holder = place.start(&["append", "t"]);
    holder.send(&query("held"));
    holder.line();
    let refused = |arguments: &[&str]| {
        let began = Instant::now();
        let ran = place.feed(arguments, &query("second"));
        assert!(began.elapsed() < Duration::from_secs(1), "{arguments:?} took {:?}", began.elapsed());
        assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(&format!("process {} on ", holder.pid())), "{}", ran.err);
        ran.err
    };
    let said = refused(&["--wait", "0", "append", "t"]);
    assert!(said.ends_with("\nhint: try again, or wait longer with --wait\n"), "{said}");
    let said = refused(&["--wait", "0", "--json", "append", "t"]);
    let error: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(error["error"]["code"], "store_locked");
    refused(&["--wait", "200ms", "rebuild"]);
    place.write("trace/x/cognition_log.json", r#"{"trace_id": "x", "events": []}"#);
    refused(&["--wait", "0", "import", "trace"]);

    let mut second = place.start(&["append", "t"]);
    second.send(&query("second"));
    second.close_stdin();
    std::thread::sleep(Duration::from_millis(300));
    assert!(second.is_running(), "it waits");
    holder.close_stdin();
    assert_eq!((holder.end(), second.end()), (0, 0), "{}", second.said());
    assert_eq!(place.log().iter().map(query_of).collect::<Vec<_>>(), ["held", "second"]);
}

#[test]
fn two_processes_make_the_same_store_at_once() {
    for round in 0..10 {
        let place = Place::new();
        let mut both = [place.start(&["append", "a"]), place.start(&["append", "b"])];
        both.iter_mut().for_each(|one| {
            one.send(&query("first"));
            one.close_stdin();
        });
        let ends = both.each_mut().map(Running::end);
        let said = both.each_mut().map(Running::said).concat();
        assert_eq!(ends, [0, 0], "round {round}: {said}");
        assert_eq!(said.matches("made a store").count(), 1, "round {round}: {said}");
        assert_eq!(place.log().len(), 2);
        let left: Vec<_> = std::fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".cognilog"], "nothing of the other attempt is left");
    }
}

/// A writer that is fed line by line, and what it has acknowledged.
struct Writer {
    running: Running,
    acknowledged: Vec<Value>,
}

impl Writer {
    fn start(place: &Place) -> Writer {
        Writer { running: place.start(&["--json", "append", "t"]), acknowledged: Vec::new() }
    }

    fn collect(&mut self) {
        let lines = self.running.lines_so_far();
        self.acknowledged.extend(lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()));
    }
}

/// Every reading verb sees at least what was acknowledged before it was asked.
fn readers_see(place: &Place, head: u64) {
    let log = place.log();
    assert!(log.len() as u64 >= head, "log: {} of {head}", log.len());
    let traces = place.json(&["traces"]);
    assert!(traces[0]["events"].as_u64().unwrap() >= head, "{traces}");
    let export: Value = serde_json::from_str(&place.ok(&["export", "t"])).unwrap();
    assert!(export["events"].as_array().unwrap().len() as u64 >= head);
    let status = place.json(&["status"]);
    assert!(status["head"].as_u64().unwrap() >= head, "{status}");
    assert_eq!(status["healthy"], true, "{status}");
}

#[test]
fn readers_see_the_head_beside_a_writer_and_after_it_was_killed() {
    let place = Place::with_store();
    let mut follower = place.start(&["log", "--follow", "--ndjson"]);
    let mut random = Random(0x5eed);
    let mut acknowledged: Vec<Value> = Vec::new();
    let mut sent = 0;
    for round in 0..20 {
        let mut writer = Writer::start(&place);
        let killed_at = Instant::now() + Duration::from_millis(40 + random.below(160));
        let first = sent;
        while Instant::now() < killed_at {
            for _ in 0..=random.below(4) {
                writer.running.send(&query(&sent.to_string()));
                sent += 1;
            }
            std::thread::sleep(Duration::from_millis(random.below(8)));
            writer.collect();
        }
        if round % 5 == 0 {
            // A writer that is alive is looked past.
            assert!(eventually(Duration::from_secs(10), || {
                writer.collect();
                !writer.acknowledged.is_empty()
            }));
            let head = writer.acknowledged.last().unwrap()["position"].as_u64().unwrap();
            readers_see(&place, head);
            assert_eq!(
                place.json(&["status"])["writer"].as_str().map(|writer| writer.split(' ').nth(1).unwrap().to_owned()),
                Some(writer.running.pid().to_string())
            );
        }
        writer.running.kill();
        writer.collect();
        acknowledged.append(&mut writer.acknowledged);
        let log = place.log();
        let by_id: BTreeSet<&str> = log.iter().map(|event| event["event_id"].as_str().unwrap()).collect();
        for receipt in &acknowledged {
            assert!(by_id.contains(receipt["event_id"].as_str().unwrap()), "round {round}: {receipt} is lost");
        }
        // What is there of this round is a prefix of what was sent.
        let of_round: Vec<usize> = log
            .iter()
            .map(|event| query_of(event).parse::<usize>().unwrap())
            .filter(|number| *number >= first)
            .collect();
        assert_eq!(of_round, (first..first + of_round.len()).collect::<Vec<_>>(), "round {round}");
        sent = first + of_round.len();
        place.verified();
    }
    readers_see(&place, acknowledged.len() as u64);
    assert!(place.json(&["status"])["writer"].is_null());
    let log = place.ok(&["log", "--ndjson"]);
    let mut followed = String::new();
    eventually(Duration::from_secs(10), || {
        follower.lines_so_far().iter().for_each(|line| followed += &format!("{line}\n"));
        followed.len() >= log.len()
    });
    assert_eq!(lines(&followed).len(), lines(&log).len(), "{}", follower.said());
    assert_eq!(followed, log);
}

#[test]
fn what_is_followed_comes_at_once_and_an_interrupt_ends_it() {
    let place = Place::with_store();
    let mut follower = place.start(&["log", "--follow", "--type", "query"]);
    follower.wait_for("caught up at position 0");
    let mut writer = place.start(&["append", "t"]);
    for number in 0..3 {
        writer.send(&query(&format!("number {number}")));
        writer.line();
        let asked = Instant::now();
        let line = follower.line();
        assert!(line.contains(&format!("number {number}")), "{line}");
        assert!(asked.elapsed() < Duration::from_millis(900), "{:?}", asked.elapsed());
    }
    follower.signal(rustix::process::Signal::INT);
    writer.signal(rustix::process::Signal::INT);
    assert_eq!((follower.end(), writer.end()), (-2, -2));
    place.append("t", &query("after the interrupt"));
    assert_eq!(place.log().len(), 4);
    place.verified();
}

#[test]
fn an_append_that_is_interrupted_keeps_what_it_acknowledged() {
    let place = Place::new();
    let mut writer = place.start(&["append", "t"]);
    writer.send(&query("first"));
    writer.line();
    writer.signal(rustix::process::Signal::TERM);
    assert_eq!(writer.end(), -15);
    // A folder that was not closed cleanly is repaired by whoever reads first.
    let status = place.json(&["status"]);
    assert_eq!((&status["healthy"], &status["head"]), (&Value::Bool(true), &Value::from(1)));
}
