//! `backup`, `restore`, `compact` and `erase`, as a person runs them.

use crate::common::*;

#[test]
fn backup_restore_append_verify_and_the_old_epoch_is_refused() {
    let place = Place::with_store();
    place.append("t", &(query("first") + &query("second")));
    let out = place.ok(&["backup", "copies/monday"]);
    assert!(out.starts_with("backed up 2 events to copies/monday\nhead 1.2."), "{out}");
    let head = out.trim().rsplit(' ').next().unwrap().to_owned();
    place.append("t", &query("third"));
    // The backup is read and checked as a store is, and not written to.
    assert!(place.ok(&["--store", "copies/monday", "verify", "--expect", &head]).contains("all as it was recorded"));
    let ran = place.feed(&["--store", "copies/monday", "append", "t"], &query("wrong"));
    assert_eq!((ran.code, ran.err.contains("is a backup")), (1, true), "{}", ran.err);
    assert!(ran.err.contains("cognilog restore"), "{}", ran.err);
    let ran = place.run(&["backup", "copies/monday"]);
    assert_eq!((ran.code, ran.err.contains("already at")), (1, true), "{}", ran.err);

    let restored = place.json(&["restore", "copies/monday", "--to", "again"]);
    let epoch = restored["head"].as_str().unwrap().split('.').next().unwrap().parse::<u64>().unwrap();
    assert!(epoch > 1 && restored["events"] == 2, "{restored}");
    let ran = place.feed(&["--store", "again", "append", "t"], &query("another third"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(place.ok(&["--store", "again", "verify"]).contains("3 events"));
    // Position 3 of before is another event now.
    let old_epoch: [&[&str]; 4] = [
        &["log", "--from", "1.3"],
        &["export", "t", "--at-position", "1.3"],
        &["append", "t", "--expect-position", "1.3"],
        &["verify", "--expect", &head],
    ];
    for arguments in old_epoch {
        let arguments = [&["--store", "again"], arguments].concat();
        let ran = place.feed(&arguments, &query("late"));
        assert_eq!((ran.code, ran.err.contains("of epoch 1")), (1, true), "{arguments:?}: {}{}", ran.out, ran.err);
    }
    let now = format!("{epoch}.3");
    assert!(place.ok(&["--store", "again", "log", "--from", &now]).contains("another third"));
    let lines = lines(&place.ok(&["--store", "again", "log", "--ndjson"]));
    assert!(lines.iter().all(|line| line["epoch"] == epoch), "{lines:?}");
}

#[test]
fn a_backup_beside_a_writer_is_whole() {
    let place = Place::with_store();
    let mut writer = place.start(&["append", "t"]);
    for number in 0..30 {
        writer.send(&query(&format!("question {number}")));
        writer.line();
    }
    let copied = place.json(&["backup", "copy"]);
    assert_eq!(copied["events"], 30);
    writer.send(&query("one more"));
    writer.line();
    writer.close_stdin();
    assert_eq!(writer.end(), 0);
    assert!(place.ok(&["--store", "copy", "verify"]).contains("30 events"));
    place.verified();
}

#[test]
fn a_killed_backup_leaves_nothing_at_its_place() {
    let place = Place::with_store();
    let events: String = (0..3_000).map(|number| query(&format!("question {number}"))).collect();
    place.append("t", &events);
    for delay in [1, 20, 60, 120] {
        let mut backup = place.start(&["backup", "copies/copy"]);
        std::thread::sleep(std::time::Duration::from_millis(delay));
        backup.kill();
        if place.path("copies/copy").exists() {
            assert!(place.ok(&["--store", "copies/copy", "verify"]).contains("3000 events"));
            std::fs::remove_dir_all(place.path("copies/copy")).unwrap();
        }
    }
    assert_eq!(place.json(&["backup", "copies/copy"])["events"], 3_000);
    assert!(place.ok(&["--store", "copies/copy", "verify"]).contains("3000 events"));
}
