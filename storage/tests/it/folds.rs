//! Folds that fail, rebuilds, and rows that are the same however they came to be.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cognilog_core::Position;
use cognilog_storage::{Fold, FoldState, Limits, Scope, Store, StoreError};

use crate::common::*;

fn state(store: &Store, name: &str) -> FoldState {
    let projections = store.health().projections;
    projections.into_iter().find(|(found, _)| *found == name).map(|(_, state)| state).unwrap()
}

fn open_with(path: &Path, extra: Arc<dyn Fold>) -> Store {
    let mut folds = folds();
    folds.push(extra);
    Store::open(path, options(folds, tiny())).unwrap()
}

/// The rows of the fragile fold in a store where it never fails.
fn sound_rows(events: &[Planned], scope: Scope) -> Rows {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = open_with(&path, Arc::new(Fragile { at: Arc::default(), scope }));
    append(&store, events).unwrap();
    rows(&store.snapshot().unwrap(), "fragile").unwrap()
}

#[test]
fn a_fold_that_panics_stops_alone_and_is_rebuilt_once_it_is_mended() {
    let events = planned(1..=12);
    for scope in [Scope::Stream, Scope::Store] {
        let expected = sound_rows(&events, scope);
        for fails_at in 1..=events.len() as u64 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            create(&path);
            let at = Arc::new(AtomicU64::new(fails_at));
            let fragile = || Arc::new(Fragile { at: Arc::clone(&at), scope });
            let store = open_with(&path, fragile());
            for event in &events {
                append(&store, &[*event]).unwrap();
            }
            let stopped = |store: &Store| {
                check(store, &events);
                let position = Position(fails_at);
                assert_eq!(state(store, "fragile"), FoldState::Stopped { position, message: "planted".to_owned() });
                assert!(matches!(
                    rows(&store.snapshot().unwrap(), "fragile"),
                    Err(StoreError::ProjectionStopped { position, .. }) if position.0 == fails_at
                ));
            };
            stopped(&store);
            store.rebuild(&["fragile".to_owned()]).unwrap();
            stopped(&store);
            store.flush().unwrap();
            store.close().unwrap();
            let store = open_with(&path, fragile());
            store.wait_rebuilt().unwrap();
            stopped(&store);
            at.store(0, Ordering::SeqCst);
            let mended = |store: &Store| {
                assert_eq!(state(store, "fragile"), FoldState::Live);
                assert_eq!(rows(&store.snapshot().unwrap(), "fragile").unwrap(), expected);
                check(store, &events);
            };
            if fails_at % 2 == 0 {
                store.rebuild(&["fragile".to_owned()]).unwrap();
                mended(&store);
            }
            store.close().unwrap();
            let store = open_with(&path, fragile());
            store.wait_rebuilt().unwrap();
            mended(&store);
        }
    }
}

#[test]
fn rows_are_the_same_however_they_came_to_be() {
    for seed in 0..12 {
        let mut random = Random(seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        create(&path);
        let mut store = open(&path);
        let mut events = Vec::new();
        while events.len() < 60 {
            match random.below(12) {
                0 => store.flush().unwrap(),
                1 => {
                    store.close().unwrap();
                    store = open(&path);
                    store.wait_rebuilt().unwrap();
                }
                2 => store.rebuild(&[]).unwrap(),
                3 => store.rebuild(&["counts".to_owned()]).unwrap(),
                4 => check(&store, &events),
                size => {
                    let first = events.len() as u64 + 1;
                    let next = planned(first..first + size % 4 + 1);
                    append(&store, &next).unwrap();
                    events.extend(next);
                }
            }
        }
        check(&store, &events);
        for _ in 0..3 {
            store.rebuild(&[]).unwrap();
            check(&store, &events);
            store.flush().unwrap();
            check(&store, &events);
        }
        store.close().unwrap();
        check(&open(&path), &events);
    }
}

#[test]
fn rebuilds_in_a_row_do_not_bring_back_rows_from_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    // Nothing is flushed by itself: rows of a slot that served stay in memory when it serves again.
    let store = Store::open(&path, options(folds(), Limits::default())).unwrap();
    let mut events = Vec::new();
    for number in 1..=8 {
        append(&store, &[Planned(number)]).unwrap();
        events.push(Planned(number));
        store.rebuild(&[]).unwrap();
        check(&store, &events);
    }
}

#[test]
fn a_raised_version_is_rebuilt_at_open_while_appends_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let mut events = planned(1..=30);
    append(&open(&path), &events).unwrap();
    for version in [2, 3, 1] {
        let folds = || vec![Arc::new(Counts { version }) as Arc<dyn Fold>, Arc::new(List)];
        let store = Store::open(&path, options(folds(), tiny())).unwrap();
        let next = Planned(events.len() as u64 + 1);
        append(&store, &[next]).unwrap();
        events.push(next);
        store.wait_rebuilt().unwrap();
        let expected = model(&events, version);
        let check_rows = |store: &Store| {
            let snapshot = store.snapshot().unwrap();
            assert_eq!(rows(&snapshot, "counts").unwrap(), expected["counts"], "version {version}");
            assert_eq!(rows(&snapshot, "list").unwrap(), expected["list"]);
            assert_eq!(snapshot.verify().unwrap().findings, Vec::<String>::new());
        };
        check_rows(&store);
        store.close().unwrap();
        check_rows(&Store::open(&path, options(folds(), tiny())).unwrap());
    }
    check(&open(&path), &events);
}

#[test]
fn a_rebuild_that_is_cut_off_never_goes_on_with_rows_of_another_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let events = planned(1..=60);
    append(&open(&path), &events).unwrap();
    // Each closes the store again while the rebuild of the one before may be half done.
    for version in [2, 3, 1, 3, 2, 1, 2, 1].repeat(5) {
        let folds = vec![Arc::new(Counts { version }) as Arc<dyn Fold>, Arc::new(List)];
        let store = Store::open(&path, options(folds, tiny())).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(u64::from(version)));
        match rows(&store.snapshot().unwrap(), "counts") {
            Ok(found) => assert_eq!(found, model(&events, version)["counts"]),
            Err(error) => assert!(matches!(error, StoreError::StaleVersion { .. }), "{error}"),
        }
    }
    let store = open(&path);
    store.wait_rebuilt().unwrap();
    check(&store, &events);
}

#[test]
fn a_fold_can_come_and_go_between_openings() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let mut events = Vec::new();
    for round in 0..6u64 {
        let with_fragile = round % 2 == 0;
        let store = match with_fragile {
            true => open_with(&path, Arc::new(Fragile { at: Arc::default(), scope: Scope::Stream })),
            false => open(&path),
        };
        let first = events.len() as u64 + 1;
        let next = planned(first..=first + 2 + round * 3);
        append(&store, &next).unwrap();
        events.extend(next);
        store.wait_rebuilt().unwrap();
        check(&store, &events);
        if with_fragile {
            let found = rows(&store.snapshot().unwrap(), "fragile").unwrap();
            assert_eq!(found, sound_rows(&events, Scope::Stream), "round {round}");
        }
    }
}

#[test]
fn an_unknown_projection_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = open(&path);
    let unknown = store.rebuild(&["no".to_owned()]);
    assert!(matches!(unknown, Err(StoreError::NoSuchProjection { name }) if name == "no"));
    append(&store, &[Planned(1)]).unwrap();
    check(&store, &[Planned(1)]);
}
