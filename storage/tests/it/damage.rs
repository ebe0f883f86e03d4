//! A log with flipped bytes: an error or the right event, never a panic and never a wrong one.

use std::ops::ControlFlow;
use std::path::Path;

use cognilog_core::Position;
use cognilog_core::event::Event;
use cognilog_storage::{Limits, Snapshot, Store, StoreError};

use crate::common::*;

/// Flipped bytes that are tried, each in a copy of its own; all of the soak are ten times as many.
const FLIPS: u64 = 120;

/// What one damaged copy gave.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    refused: bool,
    failed_reads: u64,
    findings: usize,
}

/// Reads everything in every way; panics if anything served is not what was recorded.
fn look(snapshot: &Snapshot, events: &[Planned]) -> Outcome {
    let mut outcome = Outcome::default();
    let mut position = 1;
    let visited = snapshot.visit(Position(1), Position(events.len() as u64), |event| {
        let expected = events[position as usize - 1];
        assert_eq!((event.envelope().position.0, event.envelope().event_id), (position, expected.id()));
        assert_eq!(event.stream(), &expected.stream());
        assert_eq!(event.to_stored().event()?, Some(Event::from(expected.query())));
        position += 1;
        Ok(ControlFlow::Continue(()))
    });
    outcome.failed_reads += u64::from(visited.is_err());
    for (index, expected) in events.iter().enumerate() {
        match snapshot.event(Position(index as u64 + 1)) {
            Ok(Some(event)) => assert_eq!(event.event().unwrap(), Some(Event::from(expected.query()))),
            Ok(None) | Err(_) => outcome.failed_reads += 1,
        }
        match snapshot.view().find_event(expected.id()) {
            Ok(Some(found)) => assert_eq!(found.0, index as u64 + 1),
            Ok(None) | Err(_) => outcome.failed_reads += 1,
        }
    }
    for (name, expected) in model(events, 1) {
        match rows(snapshot, name) {
            // A row that is missing is found by `verify`; one that is served is right.
            Ok(found) => assert!(found.iter().all(|row| expected.contains(row)), "{name}: a wrong row is served"),
            Err(_) => outcome.failed_reads += 1,
        }
    }
    outcome.findings = snapshot.verify().map_or(1, |verified| verified.findings.len());
    outcome
}

fn check_flip(path: &Path, log: &[u8], offset: usize, events: &[Planned]) -> Outcome {
    let mut damaged = log.to_vec();
    damaged[offset] ^= 1 << (offset % 8);
    std::fs::write(path.join("log.redb"), &damaged).unwrap();
    let reader = Store::open_reader(path, options(folds(), tiny()));
    let mut outcome = match reader.and_then(|reader| reader.snapshot()) {
        Ok(snapshot) => look(&snapshot, events),
        Err(_) => Outcome { refused: true, ..Outcome::default() },
    };
    match Store::open(path, options(folds(), tiny())) {
        Ok(store) => {
            let found = look(&store.snapshot().unwrap(), events);
            outcome.findings += found.findings;
            outcome.failed_reads += found.failed_reads;
            // Whatever it says to an append, what it recorded is read back as it was.
            if let Ok(receipt) = append(&store, &[Planned(1000)]) {
                let position = receipt.events[0].position;
                match store.snapshot().unwrap().event(position) {
                    Ok(Some(event)) => assert_eq!(event.envelope.event_id, Planned(1000).id()),
                    Ok(None) => panic!("an acknowledged event is not there"),
                    Err(error) => assert!(matches!(error, StoreError::Damaged { .. } | StoreError::Database { .. })),
                }
            }
        }
        Err(_) => outcome.refused = true,
    }
    outcome
}

#[test]
fn a_flipped_byte_is_an_error_or_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    // Few commits, so that little of the file is pages that nothing refers to any more.
    let store = Store::open(&path, options(folds(), Limits::default())).unwrap();
    let events = planned(1..=200);
    append(&store, &events).unwrap();
    store.flush().unwrap();
    store.close().unwrap();
    let log = std::fs::read(path.join("log.redb")).unwrap();
    let head = std::fs::read(path.join("head")).unwrap();
    let used: Vec<usize> = (0..log.len()).filter(|offset| log[*offset] != 0).collect();
    let mut random = Random(11);
    let flips = if std::env::var_os("COGNILOG_SOAK").is_some() { FLIPS * 10 } else { FLIPS };
    let mut noticed = 0;
    for number in 0..flips {
        // Free pages are most of the file; the first pages hold redb's header.
        let offset = match number % 4 {
            0 => random.below(log.len() as u64) as usize,
            1 => random.below(640) as usize,
            _ => used[random.below(used.len() as u64) as usize],
        };
        std::fs::write(path.join("head"), &head).unwrap();
        let outcome = check_flip(&path, &log, offset, &events);
        noticed += u64::from(outcome != Outcome::default());
    }
    assert!(noticed * 10 > flips, "only {noticed} of {flips} flips were noticed at all");
}
