//! Retries, conditions, limits, and commands that fail alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cognilog_core::Position;
use cognilog_core::event::{Event, EventKind};
use cognilog_storage::{Command, Condition, Decision, NewEvent, Store, StoreError, View};

use crate::common::*;

fn code(result: Result<impl Sized, StoreError>) -> &'static str {
    result.map(drop).map_or_else(|error| error.code(), |()| "ok")
}

/// Does `act` on the store as it is, after a flush, and after reopening.
fn at_every_stage(events: &[Planned], act: impl Fn(&Store)) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = open(&path);
    for event in events {
        Put::of(std::slice::from_ref(event)).key(&format!("key {}", event.0)).send(&store).unwrap();
    }
    act(&store);
    store.flush().unwrap();
    act(&store);
    store.close().unwrap();
    let store = open(&path);
    act(&store);
    check(&store, events);
}

#[test]
fn the_same_events_again_get_the_first_receipt() {
    let events = planned(1..=9);
    at_every_stage(&events, |store| {
        for (index, event) in events.iter().enumerate() {
            let again = append(store, &[*event]).unwrap();
            assert!(again.repeated);
            assert_eq!(again.events[0].position, Position(index as u64 + 1));
        }
        let several = append(store, &events[2..6]).unwrap();
        assert!(several.repeated);
        assert_eq!(several.events.iter().map(|event| event.position.0).collect::<Vec<_>>(), [3, 4, 5, 6]);
    });
}

#[test]
fn the_same_id_with_other_content_is_a_conflict_at_its_position() {
    let events = planned(1..=9);
    let other_text = NewEvent::typed(&Event::from(Planned(77).query()), Planned(4).id(), None).unwrap();
    at_every_stage(&events, |store| {
        let attempts = [
            vec![(Planned(4).stream(), vec![other_text.clone()])],
            vec![("knowledge:k".parse().unwrap(), vec![Planned(4).event()])],
            vec![(Planned(4).stream(), vec![Planned(4).event(), Planned(50).event()])],
        ];
        for appends in attempts {
            match (Put { appends, ..Put::default() }).send(store) {
                Err(StoreError::IdempotencyConflict { position, .. }) => assert_eq!(position, Position(4)),
                other => panic!("{other:?}"),
            }
        }
        let new_and_old = append(store, &[Planned(50), Planned(4)]);
        assert_eq!(code(new_and_old), "idempotency_conflict");
        assert_eq!(code(append(store, &[Planned(51), Planned(51)])), "event_id_twice");
    });
}

#[test]
fn a_key_stands_for_its_append() {
    let events = planned(1..=9);
    at_every_stage(&events, |store| {
        let mut retry = Put::default().key("key 5");
        let new_id = NewEvent::typed(&Event::from(Planned(5).query()), Planned(60).id(), None).unwrap();
        retry.appends.push((Planned(5).stream(), vec![new_id]));
        let again = retry.send(store).unwrap();
        assert!(again.repeated);
        assert_eq!((again.events[0].position, again.events[0].event_id), (Position(5), Planned(5).id()));
        for other in [vec![Planned(61)], planned(62..=63), vec![]] {
            match Put::of(&other).key("key 5").send(store) {
                Err(StoreError::IdempotencyConflict { position, .. }) => assert_eq!(position, Position(5)),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn keys_are_forgotten_behind_the_horizon_and_can_be_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let mut limits = tiny();
    limits.key_horizon = 6;
    let store = Store::open(&path, options(folds(), limits)).unwrap();
    let events = planned(1..=40);
    for event in &events {
        // Each key comes back when its last use is twenty events old, behind the horizon.
        let found = Put::of(&[*event]).key(&format!("key {}", event.0 % 20)).send(&store);
        assert_eq!(code(found), "ok", "{event:?}");
        store.flush().unwrap();
    }
    for number in 35..=40 {
        let again = Put::of(&[Planned(number)]).key(&format!("key {}", number % 20)).send(&store).unwrap();
        assert!(again.repeated);
    }
    check(&store, &events);
}

#[test]
fn conditions_are_held_against_the_state_they_meet() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = open(&path);
    let events = planned(1..=9);
    append(&store, &events).unwrap();
    let stream = Planned(9).stream();
    let at = |position| Condition::StreamAt { stream: stream.clone(), position: Position(position) };
    let since = |kinds: &[EventKind], after| Condition::NoneSince {
        stream: stream.clone(),
        kinds: kinds.to_vec(),
        after: Position(after),
    };
    let unknown = || "trace:unknown".parse().unwrap();
    let refused = |conditions: Vec<Condition>, expected: usize| {
        let put = conditions.into_iter().fold(Put::of(&[Planned(10)]), Put::on);
        match put.send(&store) {
            Err(StoreError::Conflict { index, position, .. }) => assert_eq!((index, position), (expected, Position(9))),
            other => panic!("{other:?}"),
        }
    };
    refused(vec![at(8)], 0);
    refused(vec![at(9), at(0)], 1);
    refused(vec![since(&[], 8)], 0);
    refused(vec![at(9), since(&[EventKind::Query, EventKind::Message], 8)], 1);
    check(&store, &events);
    let holds = Put::of(&[Planned(10)])
        .on(at(9))
        .on(since(&[], 9))
        .on(since(&[EventKind::Message], 0))
        .on(Condition::StreamAt { stream: unknown(), position: Position::START })
        .on(Condition::NoneSince { stream: unknown(), kinds: vec![], after: Position::START });
    assert_eq!(code(holds.send(&store)), "ok");
    // A retry is answered before its conditions, which do not hold any more, are looked at.
    let retry = Put::of(&[Planned(10)]).on(at(9)).send(&store).unwrap();
    assert!(retry.repeated);
    check(&store, &planned(1..=10));
}

#[test]
fn what_is_over_a_limit_is_refused_and_nothing_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let mut limits = tiny();
    (limits.event_bytes_max, limits.append_bytes_max, limits.append_events_max) = (500, 900, 4);
    let store = Store::open(&path, options(folds(), limits)).unwrap();
    let text = |bytes: usize| {
        let text = format!(r#"{{"type":"other","text":"{}"}}"#, "x".repeat(bytes - 26));
        assert_eq!(text.len(), bytes);
        NewEvent::json(&text, EventKind::Unknown, None, Planned(bytes as u64).id(), None).unwrap()
    };
    let large = |sizes: &[usize]| Put {
        appends: sizes.iter().map(|size| (Planned(1).stream(), vec![text(*size)])).collect(),
        ..Put::default()
    };
    let put = |put: Put, expected: &str| assert_eq!(code(put.send(&store)), expected);
    put(large(&[501]), "too_large");
    put(large(&[401, 500]), "too_large");
    put(Put::of(&planned(1..=5)), "too_large");
    put(Put::of(&planned(1..=1)).key(&"k".repeat(256)), "too_large");
    assert_eq!(store.snapshot().unwrap().head(), Position::START);
    put(large(&[400, 500]), "ok");
    put(Put::of(&planned(1..=1)).key(&"k".repeat(255)), "ok");
    let text = store.snapshot().unwrap().event(Position(2)).unwrap().unwrap();
    assert_eq!(text.json().unwrap().len(), 500);
    assert_eq!(store.snapshot().unwrap().verify().unwrap().findings, Vec::<String>::new());
}

/// Holds the writer until it is let go.
struct Hold(Arc<AtomicBool>, Arc<AtomicBool>);

impl Command for Hold {
    type Output = ();

    fn decide(&mut self, _view: &View<'_>) -> Result<(Decision, ()), StoreError> {
        self.0.store(true, Ordering::SeqCst);
        while !self.1.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok((Decision::default(), ()))
    }
}

/// Runs `meanwhile` while the writer is held in a command, so that what is sent waits in the queue together.
fn while_held(store: &Store, meanwhile: impl FnOnce()) {
    let (begun, go) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    std::thread::scope(|scope| {
        let hold = Hold(Arc::clone(&begun), Arc::clone(&go));
        let held = scope.spawn(move || store.submit(hold, 0).map(drop));
        while !begun.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        meanwhile();
        go.store(true, Ordering::SeqCst);
        held.join().unwrap().unwrap();
    });
}

#[test]
fn a_full_queue_is_busy_and_nothing_of_the_refused_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let check_limit = |commands: usize, bytes: usize, first: u64| {
        let mut limits = tiny();
        (limits.queue_commands_max, limits.queue_bytes_max) = (commands, bytes);
        let store = Store::open(&path, options(folds(), limits)).unwrap();
        std::thread::scope(|scope| {
            while_held(&store, || {
                for number in [first, first + 1] {
                    let store = &store;
                    scope.spawn(move || append(store, &[Planned(number)]).unwrap());
                    while store.health().queued != (number - first + 1) as usize {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                assert_eq!(code(append(&store, &[Planned(99)])), "busy");
                assert_eq!(store.health().queued_bytes, 200);
            });
        });
        assert_eq!(store.health().queued_bytes, 0);
        store.close().unwrap();
    };
    check_limit(2, 1 << 20, 1);
    check_limit(100, 250, 3);
    check(&open(&path), &planned(1..=4));
}

struct Panics;

impl Command for Panics {
    type Output = ();

    fn decide(&mut self, _view: &View<'_>) -> Result<(Decision, ()), StoreError> {
        panic!("planted")
    }
}

#[test]
fn in_one_batch_the_rejected_and_the_panicking_fail_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = open(&path);
    append(&store, &[Planned(1)]).unwrap();
    let store = &store;
    let answers: Vec<&str> = std::thread::scope(|scope| {
        let mut answers = Vec::new();
        while_held(store, || {
            let mut send = |work: Box<dyn FnOnce() -> Result<(), StoreError> + Send>| {
                let before = store.health().queued;
                answers.push(scope.spawn(move || code(work())));
                while store.health().queued == before {
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            let condition = Condition::StreamAt { stream: Planned(2).stream(), position: Position(77) };
            send(Box::new(|| append(store, &[Planned(2)]).map(drop)));
            send(Box::new(|| Put::of(&[Planned(3)]).on(condition).send(store).map(drop)));
            send(Box::new(|| store.submit(Panics, 1).map(drop)));
            send(Box::new(|| append(store, &[Planned(2)]).map(drop)));
            send(Box::new(|| append(store, &[Planned(4), Planned(2)]).map(drop)));
            send(Box::new(|| append(store, &planned(3..=4)).map(drop)));
        });
        answers.into_iter().map(|answer| answer.join().unwrap()).collect()
    });
    assert_eq!(answers, ["ok", "conflict", "command_panicked", "ok", "idempotency_conflict", "ok"]);
    check(store, &planned(1..=4));
}
