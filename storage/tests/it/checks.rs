//! Checking a store that does not open: everything is listed, and nothing is changed.

use std::path::{Path, PathBuf};

use cognilog_core::Position;
use cognilog_storage::{Head, Limits, Store, StoreDirectory, StoreError, verify_store};

use crate::common::*;

/// A closed store of forty events whose rows are not written: they are folded again at each open.
fn with_unflushed_tail(folder: &Path) -> PathBuf {
    let path = folder.join("store");
    create(&path);
    let store = Store::open(&path, options(folds(), Limits::default())).unwrap();
    append(&store, &planned(1..=20)).unwrap();
    append(&store, &planned(21..=40)).unwrap();
    store.close().unwrap();
    path
}

/// Flips a bit in the middle of a text that the log file holds once.
fn spoil(path: &Path, text: &str) {
    let log = path.join("log.redb");
    let mut bytes = std::fs::read(&log).unwrap();
    let places: Vec<usize> =
        (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text.as_bytes())).collect();
    assert!(!places.is_empty(), "{text} is not in the file");
    for place in places {
        bytes[place + 2] ^= 1;
    }
    std::fs::write(&log, bytes).unwrap();
}

fn head_of(path: &Path) -> Head {
    StoreDirectory::open(path).unwrap().head().unwrap().unwrap()
}

#[test]
fn damage_in_a_tail_that_was_not_written_as_rows_is_listed_though_the_store_does_not_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_unflushed_tail(folder.path());
    let whole = verify_store(&path, &Limits::default(), None).unwrap();
    assert_eq!((whole.findings.len(), whole.events, whole.blocks), (0, 40, 2));
    spoil(&path, "question 13");
    spoil(&path, "question 33");
    let before = std::fs::read(path.join("log.redb")).unwrap();
    for opened in [Store::open(&path, options(folds(), tiny())), Store::open_reader(&path, options(folds(), tiny()))] {
        assert_eq!(opened.map(drop).map_err(|error| error.code()), Err("data_damaged"));
    }
    let found = verify_store(&path, &Limits::default(), None).unwrap();
    for place in ["position 13", "position 33"] {
        assert!(found.findings.iter().any(|finding| finding.contains(place)), "{place}: {:?}", found.findings);
    }
    assert_eq!((found.in_log, found.in_index, found.in_rows), (found.findings.len(), 0, 0));
    // The events before the damage in each block were still read.
    assert_eq!((found.events, found.blocks), (24, 2));
    assert_eq!(std::fs::read(path.join("log.redb")).unwrap(), before);
}

#[test]
fn a_damaged_header_of_the_last_block_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_unflushed_tail(folder.path());
    let log = path.join("log.redb");
    let mut bytes = std::fs::read(&log).unwrap();
    let blocks: Vec<usize> = (0..bytes.len() - 4).filter(|at| bytes[*at..].starts_with(b"CGLB")).collect();
    blocks.iter().for_each(|at| bytes[at + 30] ^= 1);
    std::fs::write(&log, bytes).unwrap();
    assert!(Store::open_reader(&path, options(folds(), tiny())).is_err());
    let found = verify_store(&path, &Limits::default(), None).unwrap();
    assert!(found.findings[0].contains("block at position 1"), "{:?}", found.findings);
    assert!(found.findings.iter().any(|finding| finding.contains("block at position 21")), "{:?}", found.findings);
}

#[test]
fn a_head_that_was_kept_elsewhere_is_held_against_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_unflushed_tail(folder.path());
    let head = head_of(&path);
    let check = |change: fn(&mut Head), expect: Result<usize, &str>| {
        let mut kept = head;
        change(&mut kept);
        let found = verify_store(&path, &Limits::default(), Some(&kept));
        assert_eq!(found.map(|found| found.findings.len()).map_err(|error| error.code()), expect, "{kept}");
    };
    check(|_| {}, Ok(0));
    check(|head| head.position = Position(41), Ok(1));
    check(|head| head.position = Position(39), Ok(1));
    check(|head| head.chain[0] ^= 1, Ok(1));
    check(|head| head.epoch = 2, Err("other_epoch"));
    let store = open(&path);
    append(&store, &[Planned(41)]).unwrap();
    let other = Head { epoch: 9, ..head };
    assert!(store.snapshot().unwrap().check_head(&head).is_ok());
    let refused = store.snapshot().unwrap().check_head(&other);
    assert!(matches!(refused, Err(StoreError::OtherEpoch { found: 9, expected: 1 })), "{refused:?}");
}

#[test]
fn damaged_rows_and_a_damaged_index_are_told_apart_from_a_damaged_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = Store::open(&path, options(folds(), Limits::default())).unwrap();
    append(&store, &planned(1..=40)).unwrap();
    store.flush().unwrap();
    store.close().unwrap();
    let whole = std::fs::read(path.join("log.redb")).unwrap();
    // Rows of the store-scoped fold hold the names of streams; those of the index stand behind a kind of stream.
    for (text, in_index, in_rows) in [(&b"trace:t1"[..], 0, true), (&b"\x01t1"[..], 1, false)] {
        let mut bytes = whole.clone();
        let places: Vec<usize> = (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text)).collect();
        places.iter().for_each(|at| bytes[at + text.len() - 1] ^= 1);
        std::fs::write(path.join("log.redb"), bytes).unwrap();
        let found = verify_store(&path, &Limits::default(), None).unwrap();
        assert!(!found.findings.is_empty(), "{places:?}");
        assert_eq!(found.in_rows > 0, in_rows, "{:?}", found.findings);
        assert!(found.in_index >= in_index, "{:?}", found.findings);
        assert_eq!(found.in_log, 0, "{:?}", found.findings);
    }
}
