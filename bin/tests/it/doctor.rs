//! `doctor`, and `verify` on a store that does not open.

use crate::common::*;

#[test]
fn a_store_that_is_well_has_nothing_to_do_and_shows_its_limits() {
    let place = Place::with_store();
    place.append("t", &query("where"));
    let out = place.ok(&["doctor"]);
    assert!(out.contains("nothing to do"), "{out}");
    assert!(out.contains("event_bytes_max") && out.contains("8 MiB"), "{out}");
    assert!(out.contains("log.wait_seconds"), "{out}");
    let found = place.json(&["doctor"]);
    assert_eq!((found["findings"].as_array().unwrap().len(), found["position"].as_u64()), (0, Some(1)));
}

#[test]
fn verify_lists_a_damaged_tail_and_doctor_says_what_to_do() {
    let place = Place::with_store();
    place.append("t", &(query("the first question") + &query("the second question")));
    let log = place.path(".cognilog/log.redb");
    let mut bytes = std::fs::read(&log).unwrap();
    let text = b"the first question";
    let places: Vec<usize> = (0..bytes.len() - text.len()).filter(|at| bytes[*at..].starts_with(text)).collect();
    places.iter().for_each(|at| bytes[at + 1] ^= 1);
    std::fs::write(&log, bytes).unwrap();
    let ran = place.run(&["traces"]);
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    let ran = place.run(&["verify"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.out.contains("position 1") && ran.out.contains("damaged"), "{}", ran.out);
    let ran = place.run(&["doctor"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.out.contains("log_damaged") && ran.out.contains("cognilog restore"), "{}", ran.out);
}

#[test]
fn whoever_holds_the_store_is_named() {
    let place = Place::with_store();
    let mut writer = place.start(&["append", "t"]);
    writer.send(&query("where"));
    writer.line();
    let ran = place.run(&["doctor"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("store_locked") && ran.out.contains(&writer.pid().to_string()), "{}", ran.out);
    writer.close_stdin();
    assert_eq!(writer.end(), 0);
}

#[test]
fn a_store_that_was_not_closed_is_repaired_and_said_so() {
    let place = Place::with_store();
    let mut writer = place.start(&["append", "t"]);
    writer.send(&query("where"));
    writer.line();
    writer.kill();
    let ran = place.run(&["doctor"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("unclean"), "{}", ran.out);
    assert!(!place.ok(&["doctor"]).contains("unclean"));
}
