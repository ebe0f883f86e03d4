//! Backup and restore: a whole copy or nothing, checked on the way, while the writer goes on.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cognilog_core::{Instant, Position};
use cognilog_storage::{
    Condition, CreationStep, Head, Limits, OnDamage, Store, StoreDirectory, StoreError, StoreOptions, backup_store,
    restore_store, verify_store,
};

use crate::common::*;

fn with_events(folder: &Path, count: u64) -> PathBuf {
    let path = folder.join("store");
    create(&path);
    let store = open(&path);
    for number in 1..=count {
        append(&store, &[Planned(number)]).unwrap();
    }
    store.close().unwrap();
    path
}

fn at(seconds: i64) -> StoreOptions {
    let mut options = options(folds(), tiny());
    options.clock = std::sync::Arc::new(move || Instant(seconds * 1_000_000));
    options
}

fn never_stop(_: CreationStep) -> Result<(), StoreError> {
    Ok(())
}

fn head_of(path: &Path) -> Head {
    StoreDirectory::open(path).unwrap().head().unwrap().unwrap()
}

#[test]
fn a_backup_is_the_same_log_with_its_own_rows_and_is_not_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_events(folder.path(), 40);
    let (from, to) = (open(&path), folder.path().join("backups/today"));
    let copied = from.backup(&to, &options(folds(), tiny()), OnDamage::Refuse).unwrap();
    assert_eq!((copied.events, copied.damage), (40, None));
    append(&from, &[Planned(41)]).unwrap();
    let reader = Store::open_reader(&to, options(folds(), tiny())).unwrap();
    check(&reader, &planned(1..=40));
    // The head of the source then is the head of the backup, and both hold it.
    assert!(reader.snapshot().unwrap().check_head(&copied.head).is_ok());
    assert!(from.snapshot().unwrap().check_head(&copied.head).is_ok());
    assert_eq!(verify_store(&to, &Limits::default(), Some(&copied.head)).unwrap().findings, Vec::<String>::new());
    let refused = Store::open(&to, options(folds(), tiny()));
    assert_eq!(refused.map(drop).map_err(|error| error.code()), Err("is_backup"));
    for again in [&to, &path] {
        let refused = from.backup(again, &options(folds(), tiny()), OnDamage::Refuse);
        assert_eq!(refused.map_err(|error| error.code()), Err("store_exists"));
    }
    check(&from, &planned(1..=41));
}

#[test]
fn a_reader_of_another_handle_backs_up_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_events(folder.path(), 10);
    let reader = Store::open_reader(&path, options(folds(), tiny())).unwrap();
    let to = folder.path().join("backup");
    assert_eq!(reader.backup(&to, &options(folds(), tiny()), OnDamage::Refuse).unwrap().events, 10);
    check(&Store::open_reader(&to, options(folds(), tiny())).unwrap(), &planned(1..=10));
}

#[test]
fn a_copy_that_fails_at_any_step_leaves_nothing_and_the_next_one_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_events(folder.path(), 12);
    let options = options(folds(), tiny());
    type Copy = fn(
        &Path,
        &Path,
        &StoreOptions,
        OnDamage,
        &cognilog_storage::AfterStep<'_>,
    ) -> Result<cognilog_storage::Copied, StoreError>;
    for copy in [backup_store as Copy, restore_store] {
        for stopped in 0..5 {
            let to = folder.path().join("copies/copy");
            let step = Cell::new(0);
            let planted = |_: CreationStep| {
                step.set(step.get() + 1);
                match step.get() > stopped {
                    true => Err(StoreError::Rejected { code: "planted", message: String::new() }),
                    false => Ok(()),
                }
            };
            let failed = copy(&path, &to, &options, OnDamage::Refuse, &planted);
            assert_eq!(failed.map_err(|error| error.code()), Err("planted"), "{stopped}");
            assert_eq!(std::fs::read_dir(folder.path().join("copies")).unwrap().count(), 0, "{stopped}");
            copy(&path, &to, &options, OnDamage::Refuse, &never_stop).unwrap();
            check(&Store::open_reader(&to, options.clone()).unwrap(), &planned(1..=12));
            std::fs::remove_dir_all(&to).unwrap();
        }
    }
}

#[test]
fn a_damaged_source_is_named_and_refused_or_copied_up_to_the_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = Store::open(&path, options(folds(), Limits::default())).unwrap();
    append(&store, &planned(1..=20)).unwrap();
    append(&store, &planned(21..=40)).unwrap();
    store.close().unwrap();
    let log = path.join("log.redb");
    let mut bytes = std::fs::read(&log).unwrap();
    let text = b"question 33";
    let places: Vec<usize> = (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text)).collect();
    places.iter().for_each(|at| bytes[at + 1] ^= 1);
    std::fs::write(&log, bytes).unwrap();
    let to = folder.path().join("copy");
    for on_damage in [OnDamage::Refuse, OnDamage::StopBefore] {
        let copied = backup_store(&path, &to, &options(folds(), tiny()), on_damage, &never_stop);
        match on_damage {
            OnDamage::Refuse => {
                let error = copied.unwrap_err();
                assert!(error.code() == "data_damaged" && error.to_string().contains("position 33"), "{error}");
                assert!(!to.exists());
            }
            OnDamage::StopBefore => {
                let copied = copied.unwrap();
                assert!(copied.damage.as_ref().is_some_and(|damage| damage.contains("position 33")), "{copied:?}");
                assert_eq!(copied.events, 32);
                check(&Store::open_reader(&to, options(folds(), tiny())).unwrap(), &planned(1..=32));
            }
        }
    }
}

#[test]
fn what_was_restored_is_of_another_epoch_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_events(folder.path(), 12);
    let before = head_of(&path);
    let backup = folder.path().join("backup");
    backup_store(&path, &backup, &options(folds(), tiny()), OnDamage::Refuse, &never_stop).unwrap();
    let lost = open(&path);
    let receipt = append(&lost, &[Planned(100)]).unwrap();
    assert_eq!(receipt.epoch, 1);
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    // Two restores of one backup differ; a clock that stands before 1970 still gives a new epoch.
    for (to, seconds, epoch) in [(&first, 1_800_000_000, 1_800_000_000), (&second, -5, 2)] {
        let copied = restore_store(&backup, to, &at(seconds), OnDamage::Refuse, &never_stop).unwrap();
        assert_eq!(copied.head, Head { epoch, ..before });
        let store = open(to);
        check(&store, &planned(1..=12));
        let old = receipt.events[0].position;
        let refused = Put::of(&[Planned(200)])
            .on(Condition::InEpoch { epoch: receipt.epoch })
            .on(Condition::NoneSince { stream: Planned(200).stream(), kinds: Vec::new(), after: old })
            .send(&store);
        assert!(matches!(refused, Err(StoreError::OtherEpoch { found: 1, .. })), "{refused:?}");
        assert!(store.check_epoch(1).is_err() && store.check_epoch(epoch).is_ok());
        assert!(matches!(store.snapshot().unwrap().check_head(&before), Err(StoreError::OtherEpoch { .. })));
        // What was lost is sent again, and what is there already adds nothing: ids outlive an epoch.
        let again = Put::of(&[Planned(100)]).on(Condition::InEpoch { epoch }).send(&store).unwrap();
        assert_eq!((again.epoch, again.repeated), (epoch, false));
        let known = append(&store, &[Planned(3)]).unwrap();
        assert_eq!((known.repeated, known.events[0].position), (true, Position(3)));
        let events: Vec<Planned> = planned((1..=12).chain([100]));
        check(&store, &events);
        store.close().unwrap();
        check(&open(to), &events);
        let found = verify_store(to, &Limits::default(), None).unwrap();
        assert_eq!((found.findings, found.events), (Vec::new(), 13));
    }
}

#[test]
fn keys_behind_the_horizon_are_forgotten_in_the_copy_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let mut limits = tiny();
    limits.key_horizon = 10;
    let store = Store::open(&path, options(folds(), limits.clone())).unwrap();
    Put::of(&[Planned(1)]).key("early").send(&store).unwrap();
    append(&store, &planned(2..=14)).unwrap();
    Put::of(&[Planned(15)]).key("late").send(&store).unwrap();
    let to = folder.path().join("copy");
    store.backup(&to, &options(folds(), limits), OnDamage::Refuse).unwrap();
    let copy = Store::open_reader(&to, options(folds(), tiny())).unwrap();
    let snapshot = copy.snapshot().unwrap();
    assert_eq!(snapshot.view().find_key(b"early").unwrap(), None);
    assert_eq!(snapshot.view().find_key(b"late").unwrap(), Some((Position(15), 1)));
}

#[test]
fn a_backup_goes_on_while_others_append() {
    let folder = tempfile::tempdir().unwrap();
    let path = with_events(folder.path(), 200);
    let store = open(&path);
    let mut limits = tiny();
    limits.read_events_max = 3;
    let (backups, mut events) = (AtomicU64::new(0), planned(1..=200));
    std::thread::scope(|scope| {
        let copier = scope.spawn(|| {
            for backup in 0..3 {
                let to = folder.path().join(format!("backup-{backup}"));
                let copied = store.backup(&to, &options(folds(), limits.clone()), OnDamage::Refuse).unwrap();
                backups.fetch_add(1, Ordering::SeqCst);
                let copy = Store::open_reader(&to, options(folds(), tiny())).unwrap();
                assert_eq!(copy.snapshot().unwrap().head(), Position(copied.events));
                assert_eq!(copy.snapshot().unwrap().verify().unwrap().findings, Vec::<String>::new());
            }
        });
        for number in 201.. {
            append(&store, &[Planned(number)]).unwrap();
            events.push(Planned(number));
            if copier.is_finished() {
                break;
            }
        }
    });
    assert_eq!(backups.load(Ordering::SeqCst), 3);
    check(&store, &events);
}
