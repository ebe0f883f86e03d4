//! Many callers at once, and subscribers beside them.

use std::collections::HashMap;
use std::time::Duration;

use cognilog_core::event::{Event, Query};
use cognilog_core::{EventId, Position, StreamId};
use cognilog_storage::{Followed, Limits, NewEvent, Receipt, Store, StoreError, Subscription};

use crate::common::*;

const THREADS: u64 = 16;
const APPENDS: u64 = 200;

/// Events of a thread go to one of a few streams, so that streams are shared.
fn stream(thread: u64) -> StreamId {
    format!("trace:shared{}", thread % 5).parse().unwrap()
}

fn event(thread: u64, number: u64) -> NewEvent {
    let query = Query { sequence: Some(number as i64), query: format!("{thread} asks {number}"), ..Query::default() };
    let mut id = [0; 16];
    id[..8].copy_from_slice(&(number + 1).to_be_bytes());
    id[8..].copy_from_slice(&thread.to_be_bytes());
    NewEvent::typed(&Event::from(query), EventId(id), None).unwrap()
}

/// Appends until it is acknowledged; a busy writer is asked again, as a caller does.
fn insist(store: &Store, thread: u64, number: u64) -> Receipt {
    loop {
        let put = Put { appends: vec![(stream(thread), vec![event(thread, number)])], ..Put::default() };
        match put.send(store) {
            Err(StoreError::Busy { .. }) => std::thread::sleep(Duration::from_millis(1)),
            answer => return answer.unwrap(),
        }
    }
}

/// Follows until it has seen as many events; gives their ids, each at its position, and how often it had caught up.
fn follow(mut subscription: Subscription<'_>, after: u64, events: u64) -> (Vec<EventId>, usize) {
    let (mut ids, mut caught_up) = (Vec::new(), 0);
    while (ids.len() as u64) < events {
        match subscription.next(Duration::from_secs(20)).unwrap() {
            Some(Followed::Event(event)) => {
                ids.push(event.envelope.event_id);
                assert_eq!(event.envelope.position, Position(after + ids.len() as u64));
            }
            Some(Followed::CaughtUp(head)) => {
                caught_up += 1;
                // A subscriber may ask for what is behind the head, and waits for it.
                assert!(head == Position(after + ids.len() as u64) || head < Position(after));
                assert_eq!(caught_up, 1);
            }
            other => panic!("{other:?} behind {} events", ids.len()),
        }
    }
    (ids, caught_up)
}

#[test]
fn many_threads_append_and_every_acknowledged_event_is_there_once_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let mut limits = Limits::default();
    // Flushes happen many times meanwhile, and the queue is full at times.
    (limits.overlay_events_max, limits.flush_slice_rows, limits.queue_commands_max) = (200, 64, 12);
    let store = Store::open(&path, options(folds_for_many(), limits)).unwrap();
    let (receipts, followed): (Vec<Vec<Receipt>>, Vec<_>) = std::thread::scope(|scope| {
        let store = &store;
        let total = THREADS * APPENDS;
        let followers = [0, 0, 777]
            .map(|after| scope.spawn(move || follow(store.subscribe(Position(after)), after, total - after).0));
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || (0..APPENDS).map(|number| insist(store, thread, number)).collect()))
            .collect();
        let receipts = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        (receipts, followers.map(|follower| follower.join().unwrap()).into())
    });
    let mut acknowledged = HashMap::new();
    for (thread, receipts) in receipts.iter().enumerate() {
        let positions: Vec<Position> = receipts.iter().map(|receipt| receipt.events[0].position).collect();
        assert!(positions.is_sorted() && receipts.iter().all(|receipt| !receipt.repeated), "thread {thread}");
        for (number, position) in positions.into_iter().enumerate() {
            let expected = event(thread as u64, number as u64).event_id();
            assert!(acknowledged.insert(position, (expected, thread as u64)).is_none());
        }
    }
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.head(), Position(THREADS * APPENDS));
    let mut ids = Vec::new();
    for position in 1..=THREADS * APPENDS {
        let found = snapshot.event(Position(position)).unwrap().unwrap();
        let (id, thread) = acknowledged[&Position(position)];
        assert_eq!((found.envelope.event_id, &*found.stream), (id, &stream(thread)));
        ids.push(id);
    }
    for (follower, after) in followed.iter().zip([0, 0, 777]) {
        assert_eq!(follower[..], ids[after..]);
    }
    assert_eq!(snapshot.verify().unwrap().findings, Vec::<String>::new());
    let before = rows(&snapshot, "counts").unwrap();
    store.rebuild(&[]).unwrap();
    assert_eq!(rows(&store.snapshot().unwrap(), "counts").unwrap(), before);
}

/// Without the fold that scans all its rows at every event, which is for short histories.
fn folds_for_many() -> cognilog_storage::Folds {
    folds().into_iter().filter(|fold| fold.name() == "counts").collect()
}

#[test]
fn a_subscription_gives_history_then_one_mark_then_what_comes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = open(&path);
    let events = planned(1..=700);
    events[..600].chunks(200).for_each(|chunk| drop(append(&store, chunk).unwrap()));
    for after in [0, 599, 600] {
        let mut subscription = store.subscribe(Position(after));
        for expected in after + 1..=600 {
            let next = subscription.next(Duration::ZERO).unwrap();
            assert!(matches!(next, Some(Followed::Event(event)) if event.envelope.position.0 == expected));
        }
        let mark = subscription.next(Duration::ZERO).unwrap();
        assert!(matches!(mark, Some(Followed::CaughtUp(Position(600)))));
        assert!(subscription.next(Duration::from_millis(5)).unwrap().is_none());
    }
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| follow(store.subscribe(Position::START), 0, 700));
        // The follower has the history and waits.
        std::thread::sleep(Duration::from_millis(200));
        for event in &events[600..] {
            append(&store, &[*event]).unwrap();
        }
        let (ids, caught_up) = follower.join().unwrap();
        assert_eq!(ids, events.iter().map(|event| event.id()).collect::<Vec<_>>());
        assert_eq!(caught_up, 1);
    });
}

#[test]
fn a_subscription_of_a_reader_sees_what_a_writer_appends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = open(&path);
    append(&store, &planned(1..=3)).unwrap();
    let reader = Store::open_reader(&path, options(folds(), tiny())).unwrap();
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| follow(reader.subscribe(Position(1)), 1, 19));
        for number in 4..=20 {
            append(&store, &[Planned(number)]).unwrap();
        }
        assert_eq!(follower.join().unwrap().0, (2..=20).map(|number| Planned(number).id()).collect::<Vec<_>>());
    });
}
