//! Making a store, and opening what is not one, or not a whole one.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use cognilog_storage::{CreationStep, Head, Store, StoreError};

use crate::common::*;

const STEPS: [CreationStep; 5] = [
    CreationStep::DirectoryMade,
    CreationStep::LogMade,
    CreationStep::ManifestWritten,
    CreationStep::Renamed,
    CreationStep::Synced,
];

#[test]
fn a_creation_that_fails_at_any_step_leaves_nothing_in_the_way() {
    for (number, fails_at) in STEPS.into_iter().enumerate() {
        for empty_directory in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("deep/store");
            if empty_directory {
                std::fs::create_dir_all(&path).unwrap();
            }
            let seen = Cell::new(0);
            let planted = |step: CreationStep| {
                seen.set(seen.get() + 1);
                match step == fails_at {
                    true => Err(StoreError::Rejected { code: "planted", message: String::new() }),
                    false => Ok(()),
                }
            };
            let failed = Store::create_watched(&path, &tiny(), &planted);
            assert_eq!(failed.map_err(|error| error.code()), Err("planted"), "{fails_at:?}");
            assert_eq!(seen.get(), number + 1);
            let opened = Store::open(&path, options(folds(), tiny()));
            assert_eq!(opened.map(drop).map_err(|error| error.code()), Err("store_not_found"));
            let left: Vec<_> = std::fs::read_dir(folder.path().join("deep")).unwrap().flatten().collect();
            assert!(left.iter().all(|entry| entry.path() == path), "{left:?}");
            create(&path);
            append(&open(&path), &[Planned(1)]).unwrap();
            check(&open(&path), &[Planned(1)]);
        }
    }
}

#[test]
fn nothing_is_created_where_something_stands() {
    let folder = tempfile::tempdir().unwrap();
    let (store, file, other) = (folder.path().join("store"), folder.path().join("file"), folder.path().join("other"));
    create(&store);
    append(&open(&store), &[Planned(1)]).unwrap();
    std::fs::write(&file, "text").unwrap();
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("notes"), "text").unwrap();
    for (path, expected) in [(&store, "store_exists"), (&file, "not_a_store"), (&other, "not_a_store")] {
        assert_eq!(Store::create(path, &tiny()).map_err(|error| error.code()), Err(expected));
    }
    check(&open(&store), &[Planned(1)]);
    assert_eq!(std::fs::read(&file).unwrap(), b"text");
    assert_eq!(std::fs::read(other.join("notes")).unwrap(), b"text");
}

fn files(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(path).unwrap().flatten();
    // The lock is taken before anything is looked at, and names its last holder.
    let entries = entries.filter(|entry| entry.file_name() != "LOCK");
    entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect()
}

/// Spoils a closed store of twenty events, and expects both ways to open it to fail with one of the codes and to leave
/// it as it is.
fn refused(name: &str, spoil: impl Fn(&Path), codes: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    create(&path);
    let store = open(&path);
    append(&store, &planned(1..=20)).unwrap();
    store.flush().unwrap();
    store.close().unwrap();
    spoil(&path);
    let before = files(&path);
    let tries = [Store::open(&path, options(folds(), tiny())), Store::open_reader(&path, options(folds(), tiny()))];
    for opened in tries {
        match opened {
            Ok(_) => panic!("{name}: it opens"),
            Err(error) => assert!(codes.contains(&error.code()), "{name}: {}: {error}", error.code()),
        }
    }
    assert!(files(&path) == before, "{name}: the files have changed");
}

#[test]
fn what_is_not_a_whole_store_is_refused_and_left_as_it_is() {
    let log = |path: &Path| path.join("log.redb");
    refused("no log", |path| std::fs::remove_file(log(path)).unwrap(), &["not_a_store"]);
    refused("empty log", |path| std::fs::write(log(path), "").unwrap(), &["not_a_store", "database_error"]);
    let text = |path: &Path| std::fs::write(log(path), "text ".repeat(5000)).unwrap();
    refused("text for a log", text, &["database_error", "data_damaged"]);
    refused(
        "a short text for a log",
        |path| std::fs::write(log(path), "x").unwrap(),
        &["database_error", "data_damaged"],
    );
    let of_another = |path: &Path| {
        let other = path.parent().unwrap().join("other");
        create(&other);
        std::fs::copy(log(&other), log(path)).unwrap();
    };
    refused("the log of another store", of_another, &["not_a_store"]);
    let another_database = |path: &Path| {
        std::fs::remove_file(log(path)).unwrap();
        let mut builder = redb::Database::builder();
        builder.set_concurrency_mode(redb::ConcurrencyMode::SingleWriter);
        builder.create(log(path)).unwrap().close().unwrap();
    };
    refused("a database of something else", another_database, &["not_a_store"]);
    let without = |path: &Path| std::fs::remove_file(path.join("MANIFEST.json")).unwrap();
    refused("no manifest", without, &["not_a_store"]);
    refused("half a manifest", |path| std::fs::write(path.join("MANIFEST.json"), "{\"form").unwrap(), &["not_a_store"]);
    let format = r#"{"format":9,"layout":0,"store_id":"s","epoch":1}"#;
    refused(
        "another format",
        |path| std::fs::write(path.join("MANIFEST.json"), format).unwrap(),
        &["format_unsupported"],
    );
    refused("garbage for a head", |path| std::fs::write(path.join("head"), "1.2.3").unwrap(), &["not_a_store"]);
    let head = |change: fn(&mut Head)| {
        move |path: &Path| {
            let mut head: Head = std::fs::read_to_string(path.join("head")).unwrap().parse().unwrap();
            change(&mut head);
            std::fs::write(path.join("head"), head.to_string()).unwrap();
        }
    };
    refused("a head ahead of the log", head(|head| head.position.0 += 1), &["head_mismatch"]);
    refused("a head of another epoch", head(|head| head.epoch = 2), &["head_mismatch"]);
    refused("a head of another chain", head(|head| head.chain[3] ^= 1), &["head_mismatch"]);
}

#[test]
fn a_log_that_is_cut_is_refused_and_left_as_it_is() {
    for kept in [1, 100, 511, 4095, 4096, 5000, 9000, 20_000, 40_000, 60_000] {
        let cut = |path: &Path| {
            let file = std::fs::File::options().write(true).open(path.join("log.redb")).unwrap();
            assert!(file.metadata().unwrap().len() > kept);
            file.set_len(kept).unwrap();
        };
        refused(&format!("cut to {kept}"), cut, &["database_error", "data_damaged", "needs_repair", "not_a_store"]);
    }
}

#[test]
fn a_path_without_a_store_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "text").unwrap();
    for (path, expected) in [(folder.path().join("no"), "store_not_found"), (file, "not_a_store")] {
        for opened in
            [Store::open(&path, options(folds(), tiny())), Store::open_reader(&path, options(folds(), tiny()))]
        {
            assert_eq!(opened.map(drop).map_err(|error| error.code()), Err(expected));
        }
    }
}
