//! Appending, reading back, reopening, and reading beside the writer.

use std::ops::ControlFlow;

use cognilog_core::{Position, StreamId};
use cognilog_storage::{Limits, Recorded, Store, StoreError};

use crate::common::*;

#[test]
fn what_was_appended_is_read_back_before_and_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let events = planned(1..=40);
    let mut done = 0;
    for size in [1, 2, 5, 1, 0, 9, 3, 19] {
        let store = open(&path);
        let receipt = append(&store, &events[done..done + size]).unwrap();
        let expected: Vec<Recorded> = (done..done + size)
            .map(|index| Recorded {
                position: Position(index as u64 + 1),
                event_id: events[index].id(),
                sequence: Some(events[index].sequence()),
            })
            .collect();
        assert_eq!((receipt.events, receipt.repeated, receipt.epoch), (expected, false, 1));
        done += size;
        check(&store, &events[..done]);
        store.close().unwrap();
        check(&open(&path), &events[..done]);
    }
}

#[test]
fn streams_hold_their_events_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = open(&path);
    let events = planned(1..=30);
    events.chunks(4).for_each(|chunk| drop(append(&store, chunk).unwrap()));
    let snapshot = store.snapshot().unwrap();
    let view = snapshot.view();
    assert_eq!(view.stream_count().unwrap(), 4);
    for number in 0..4 {
        let stream = view.stream_name(number).unwrap().unwrap();
        let expected: Vec<Position> =
            (1..=30).filter(|number| Planned(*number).stream() == stream).map(Position).collect();
        let standing = view.stream(&stream).unwrap().unwrap();
        assert_eq!((standing.number, standing.events), (number, expected.len() as u64));
        assert_eq!(Some(&standing.last), expected.last());
        for after in [0, 7, 30] {
            let mut found = Vec::new();
            snapshot
                .visit_stream(&stream, Position(after), |event| {
                    found.push(event.envelope().position);
                    Ok(ControlFlow::Continue(()))
                })
                .unwrap();
            let behind: Vec<Position> = expected.iter().copied().filter(|position| position.0 > after).collect();
            assert_eq!(found, behind);
        }
    }
    let other: StreamId = "knowledge:none".parse().unwrap();
    assert_eq!(view.stream(&other).unwrap(), None);
    assert_eq!(view.find_event(Planned(31).id()).unwrap(), None);
}

#[test]
fn a_visit_gives_exactly_what_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = open(&path);
    planned(1..=20).chunks(7).for_each(|chunk| drop(append(&store, chunk).unwrap()));
    let snapshot = store.snapshot().unwrap();
    let check = |from: u64, to: u64, expected: Vec<u64>| {
        let mut found = Vec::new();
        let visit = snapshot.visit(Position(from), Position(to), |event| {
            found.push(event.envelope().position.0);
            Ok(ControlFlow::Continue(()))
        });
        visit.unwrap();
        assert_eq!(found, expected, "{from} to {to}");
    };
    check(0, 3, vec![1, 2, 3]);
    check(5, 5, vec![5]);
    check(18, u64::MAX, vec![18, 19, 20]);
    check(21, 30, vec![]);
    check(9, 3, vec![]);
    assert!(snapshot.event(Position(0)).unwrap().is_none());
    assert!(snapshot.event(Position(21)).unwrap().is_none());
    assert_eq!(snapshot.event(Position(20)).unwrap().unwrap().envelope.event_id, Planned(20).id());
}

#[test]
fn the_head_file_follows_the_log_at_close() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    for last in [3, 3, 8] {
        let store = open(&path);
        append(&store, &planned(last - 2..=last)).unwrap();
        let snapshot = store.snapshot().unwrap();
        let directory = store.directory().unwrap().clone();
        store.close().unwrap();
        let head = directory.head().unwrap().unwrap();
        assert_eq!((head.epoch, head.position, head.chain), (1, snapshot.head(), snapshot.chain()));
        snapshot.check_head(&head).unwrap_or_else(|error| assert!(matches!(error, StoreError::Database { .. })));
    }
}

#[test]
fn a_reader_goes_along_with_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = open(&path);
    let reader = Store::open_reader(&path, options(folds(), tiny())).unwrap();
    assert!(!reader.is_writer());
    assert!(matches!(append(&reader, &planned(1..=1)), Err(StoreError::ReadOnly)));
    let events = planned(1..=25);
    for (index, event) in events.iter().enumerate() {
        append(&store, std::slice::from_ref(event)).unwrap();
        check(&reader, &events[..=index]);
    }
    store.rebuild(&[]).unwrap();
    check(&reader, &events);
    drop(store);
    check(&reader, &events);
    check(&Store::open_reader(&path, options(folds(), tiny())).unwrap(), &events);
}

#[test]
fn a_second_writer_is_refused_with_the_process_that_holds_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = open(&path);
    match Store::open(&path, options(folds(), Limits::default())) {
        Err(StoreError::Locked { pid, .. }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    store.close().unwrap();
    open(&path);
}

#[test]
fn a_snapshot_stays_as_it_was_while_the_log_grows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = open(&path);
    let events = planned(1..=24);
    let mut snapshots = Vec::new();
    for event in &events {
        append(&store, std::slice::from_ref(event)).unwrap();
        snapshots.push(store.snapshot().unwrap());
    }
    store.flush().unwrap();
    for (index, snapshot) in snapshots.iter().enumerate() {
        check_snapshot(snapshot, &events[..=index]);
    }
}
