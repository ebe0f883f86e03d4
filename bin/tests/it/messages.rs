//! Exit codes and messages: what a person and a program are told when something is not as it should be.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Place, finish, query};

/// Runs a verb that has to fail: nothing on stdout, this exit code and this text on stderr; and with `--json` the same
/// as an object.
fn check(place: &Place, arguments: &[&str], input: &str, code: i32, expect: &str) {
    let ran = place.feed(arguments, input);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (code, "", expect), "{arguments:?}");
    let mut all = vec!["--json"];
    all.extend(arguments);
    let ran = place.feed(&all, input);
    assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{all:?}: {}", ran.err);
    let error: Value = serde_json::from_str(&ran.err).unwrap_or_else(|error| panic!("{error}: {}", ran.err));
    let error = error["error"].as_object().unwrap();
    assert_eq!(error.keys().collect::<Vec<_>>(), ["code", "message", "hint"], "{all:?}");
    let mut text = format!("error: {}\n", error["message"].as_str().unwrap());
    if let Some(hint) = error["hint"].as_str() {
        text += &format!("hint: {hint}\n");
    }
    assert_eq!(text, expect, "{all:?}");
}

const NO_STORE: &str = "error: no store: neither --store nor $COGNILOG_STORE, and no .cognilog here or above\n\
                        hint: make one with `cognilog init` or `cognilog import PATH`, or name it with --store\n";

#[test]
fn without_a_store() {
    let place = Place::new();
    for verb in [
        &["traces"][..],
        &["log"],
        &["log", "--follow"],
        &["status"],
        &["head"],
        &["verify"],
        &["stats"],
        &["rebuild"],
        &["show", "x"],
        &["export", "x"],
        &["export", "--all", "files"],
        &["replay", "x"],
        &["pending", "evaluations"],
        &["compare", "."],
    ] {
        check(&place, verb, "", 1, NO_STORE);
    }
    let hint = "hint: make one with `cognilog init` or `cognilog import PATH`, or name it with --store\n";
    check(&place, &["--store", "a/b/c", "traces"], "", 1, &format!("error: no store at a/b/c\n{hint}"));
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 0, "a verb that reads makes nothing");
}

#[test]
fn what_is_no_store() {
    let place = Place::new();
    place.write("file", "x");
    place.write("garbage/MANIFEST.json", "}{");
    place.write("folder/x", "x");
    place.write("half/MANIFEST.json", "{\"format\":0,\"layout\":5,\"store_id\":\"x\",\"epoch\":1}");
    let hint = "hint: name another folder with --store, or restore this one from a backup\n";
    for verb in [&["traces"][..], &["append", "t"], &["rebuild"], &["init"]] {
        let on = |store: &str, reason: &str| {
            let mut all = vec!["--store", store];
            all.extend(verb);
            check(&place, &all, &query("q"), 1, &format!("error: {store} is not a usable store: {reason}\n{hint}"));
        };
        on("file", "it is a file, not a directory");
        on("garbage", "MANIFEST.json cannot be read: expected value at line 1 column 1");
        on("folder", "it has no MANIFEST.json");
        on("half", "MANIFEST.json is there and log.redb is missing; restore it from a backup");
    }
    assert_eq!(std::fs::read_to_string(place.path("file")).unwrap(), "x");
}

#[test]
fn a_log_of_garbage_is_damage() {
    let place = Place::with_store();
    let log = place.path(".cognilog/log.redb");
    let bytes = std::fs::metadata(&log).unwrap().len() as usize;
    std::fs::write(&log, "garbage ".repeat(bytes / 8)).unwrap();
    for verb in [&["traces"][..], &["verify"], &["append", "t"]] {
        let ran = place.feed(verb, &query("q"));
        assert!(matches!(ran.code, 1 | 3), "{verb:?}: {ran:?}");
        assert!(ran.out.is_empty() && ran.err.starts_with("error: "), "{verb:?}: {ran:?}");
        assert!(!ran.err.contains("panicked"), "{verb:?}: {ran:?}");
    }
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "garbage ".repeat(bytes / 8), "it is left as it was");
    std::fs::write(&log, "").unwrap();
    let ran = place.feed(&["append", "t"], &query("q"));
    assert!(ran.code != 0 && ran.err.contains("empty"), "{ran:?}");
}

#[test]
fn init_makes_a_store_once() {
    let place = Place::new();
    let store = place.path(".cognilog").canonicalize().unwrap_or(place.path(".cognilog"));
    assert_eq!(place.ok(&["init"]), format!("made a store at {}\n", store.display()));
    let expect =
        format!("error: a store is already at {}\nhint: use it as it is, or name another folder\n", store.display());
    check(&place, &["init"], "", 1, &expect);
    // Folders above it are made too; an empty folder is taken.
    std::fs::create_dir(place.path("empty")).unwrap();
    place.ok(&["--store", "empty", "init"]);
    let ran = place.feed(&["--store", "a/b/c", "append", "t"], &query("q"));
    assert_eq!((ran.code, ran.err.as_str()), (0, "made a store at a/b/c\n"));
    let ran = place.feed(&["--store", "a/b/c/MANIFEST.json/x", "append", "t"], &query("q"));
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.contains("a/b/c/MANIFEST.json"), "{}", ran.err);
}

#[test]
fn the_store_is_found_upward_or_in_the_environment() {
    let place = Place::new();
    place.append("outer", &query("q"));
    std::fs::create_dir_all(place.path("a/b")).unwrap();
    let mut below = place.command(&["traces"]);
    below.current_dir(place.path("a/b"));
    assert!(finish(below, b"").out.starts_with("outer "));
    // What is appended below goes into the store above, and no second one is made.
    let mut below = place.command(&["append", "below"]);
    below.current_dir(place.path("a/b"));
    assert_eq!(finish(below, query("q").as_bytes()).err, "");
    assert_eq!(place.json(&["traces"]).as_array().unwrap().len(), 2);

    place.ok(&["--store", "named", "init"]);
    let with_variable = |value: &Path, arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("COGNILOG_STORE", value);
        finish(command, b"").out
    };
    assert_eq!(with_variable(&place.path("named"), &["traces"]), "");
    assert!(with_variable(Path::new(""), &["traces"]).contains("outer "), "an empty variable names nothing");
    assert!(with_variable(&place.path("named"), &["--store", ".cognilog", "traces"]).contains("outer "));
}

/// A command as a user whom file permissions bind.
fn as_somebody(place: &Place, arguments: &[&str]) -> Option<Command> {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        return Some(place.command(arguments));
    }
    // Root may do everything: the exe is copied to where another user reaches it, and run as that one.
    let exe = place.path("cognilog");
    if !exe.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_cognilog"), &exe).unwrap();
        std::fs::set_permissions(place.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(exe);
    command.args(arguments).current_dir(place.path("")).env_remove("COGNILOG_STORE").uid(65_534).gid(65_534);
    command.env("XDG_CONFIG_HOME", place.path("settings"));
    let reaches = Command::new(place.path("cognilog")).arg("--version").uid(65_534).gid(65_534).output();
    if !reaches.is_ok_and(|output| output.status.success()) {
        eprintln!("another user cannot run the exe here: permissions were not tested");
        return None;
    }
    Some(command)
}

#[test]
fn a_folder_that_may_only_be_read() {
    let place = Place::with_store();
    place.append("t", &query("q"));
    for (name, mode) in [(".cognilog", 0o555), ("", 0o555), (".cognilog/log.redb", 0o444), (".cognilog/LOCK", 0o444)] {
        std::fs::set_permissions(place.path(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    let run = |arguments: &[&str]| Some(finish(as_somebody(&place, arguments)?, query("q").as_bytes()));
    let Some(ran) = run(&["append", "t"]) else { return };
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.starts_with("error: cannot open ") && ran.err.contains("Permission denied"), "{}", ran.err);
    for verb in [&["log"][..], &["traces"], &["export", "t"], &["verify"], &["status"], &["head"]] {
        let ran = run(verb).unwrap();
        assert_eq!(ran.code, 0, "{verb:?}: {}", ran.err);
        assert!(!ran.out.is_empty(), "{verb:?}");
    }
    let ran = run(&["--store", "new", "init"]).unwrap();
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    assert!(ran.err.starts_with("error: cannot create ") && ran.err.contains("Permission denied"), "{}", ran.err);
    let ran = run(&["export", "t", "-o", "t.json"]).unwrap();
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("error: cannot write into "), "{}", ran.err);
    std::fs::set_permissions(place.path(""), PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn wrong_use_exits_with_two() {
    let place = Place::with_store();
    let usage = |arguments: &[&str], expect: &str| {
        let ran = place.run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.err.starts_with(&format!("error: {expect}")), "{arguments:?}: {}", ran.err);
        let mut all = vec!["--json"];
        all.extend(arguments);
        let ran = place.run(&all);
        let error: Value = serde_json::from_str(&ran.err).unwrap_or_else(|error| panic!("{error}: {}", ran.err));
        assert_eq!((ran.code, &error["error"]["code"]), (2, &Value::from("usage")), "{all:?}");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(expect.lines().next().unwrap()), "{all:?}: {message}");
    };
    usage(&["frobnicate"], "unrecognized subcommand 'frobnicate'");
    usage(&["traces", "--colour"], "unexpected argument '--colour' found");
    usage(&["append"], "the following required arguments were not provided:");
    usage(&["export"], "the following required arguments were not provided:");
    usage(&["export", "--all"], "--all needs a folder");
    usage(&["log", "--limit", "-1"], "unexpected argument '-1' found");
    usage(&["log", "--last", "1", "--from", "1"], "the argument '--last <N>' cannot be used with '--from <[EPOCH.]P>'");
    usage(&["--wait", "1h", "traces"], "invalid value '1h' for '--wait <TIME>': \"1h\" is no time");
    usage(&["pending", "everything"], "invalid value 'everything' for '<WHAT>'");
    usage(&["verify", "--expect", "zzz"], "\"zzz\" is not a head: expected EPOCH.POSITION.HASH");
    usage(&["completions", "tcsh"], "invalid value 'tcsh' for '<SHELL>'");
    place.write("trace/x/cognition_log.json", "{\"events\": []}");
    place.write("m", "");
    usage(&["import", "trace", "trace", "--messages", "m"], "--messages takes one PATH");
    assert_eq!(place.log().len(), 0, "wrong use records nothing");
    // Help and version are data.
    for arguments in [&["--help"][..], &["help"], &["help", "log"], &["log", "--help"], &["--version"]] {
        let ran = place.run(arguments);
        assert_eq!((ran.code, ran.err.as_str(), ran.out.is_empty()), (0, "", false), "{arguments:?}");
    }
}

#[test]
fn unknown_names() {
    let place = Place::with_store();
    place.append("t", &query("q"));
    let no_trace = "error: no trace is named \"nobody\"\nhint: `cognilog traces` lists the traces of the store\n";
    for verb in [
        &["export", "nobody"][..],
        &["export", "trace:nobody"],
        &["replay", "nobody"],
        &["replay", "nobody", "--until", "3"],
        &["show", "nobody"],
        &["show", "trace:nobody"],
        &["log", "--trace", "nobody"],
        &["pending", "evaluations", "--trace", "nobody"],
        &["pending", "reflections", "--trace", "nobody"],
    ] {
        check(&place, verb, "", 1, no_trace);
    }
    let no_extraction = "error: no extraction is named \"nobody\"\n\
                         hint: `cognilog pending extractions` lists those that wait\n";
    check(&place, &["show", "ext:nobody"], "", 1, no_extraction);
    check(&place, &["rebuild", "nobody"], "", 1, "error: no projection is named `nobody`\n");
    check(&place, &["append", ""], &query("q"), 1, "error: a trace id must not be empty\n");
    check(
        &place,
        &["append", &"x".repeat(16 * 1024 + 1)],
        &query("q"),
        1,
        "error: a trace id of 16385 bytes is over the limit of 16384\n",
    );
}

#[test]
fn missing_paths() {
    let place = Place::with_store();
    place.append("t", &query("q"));
    let missing = "cannot look at nowhere: No such file or directory (os error 2)\n";
    check(&place, &["import", "nowhere"], "", 1, &format!("error: {missing}"));
    check(&place, &["compare", "nowhere"], "", 1, &format!("error: {missing}"));
    check(
        &place,
        &["export", "t", "-o", "nowhere/t.json"],
        "",
        1,
        "error: cannot write into the folder nowhere: No such file or directory (os error 2)\n\
         hint: make the folder first\n",
    );
    // A typing error leaves no store behind.
    let empty = Place::new();
    check(&empty, &["import", "nowhere"], "", 1, &format!("error: {missing}"));
    std::fs::create_dir(empty.path("folder")).unwrap();
    let ran = empty.run(&["import", "folder"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert_eq!(ran.err, "no cognition_log.json or knowledge_log.json is there: nothing was imported\n");
    assert!(!empty.path(".cognilog").exists());
}

#[test]
fn a_flipped_bit_is_found_and_its_place_named() {
    let place = Place::with_store();
    for number in 0..50 {
        place.append("t", &query(&format!("needle number {number:03}")));
    }
    let log = place.path(".cognilog/log.redb");
    let whole = std::fs::read(&log).unwrap();
    let needle = b"needle number 031";
    let mut found = 0;
    for at in (0..whole.len() - needle.len()).filter(|at| whole[*at..].starts_with(needle)) {
        let mut bytes = whole.clone();
        bytes[at + 3] ^= 1;
        std::fs::write(&log, bytes).unwrap();
        let ran = place.run(&["verify"]);
        // A page that was copied and freed may still hold the text; the live one counts.
        if ran.code == 0 {
            continue;
        }
        found += 1;
        assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
        assert!((ran.out.clone() + &ran.err).contains("32"), "{}{}", ran.out, ran.err);
        let ran = place.run(&["log"]);
        assert_eq!(ran.code, 3, "{}", ran.err);
        assert!(ran.err.starts_with("error: damage at ") && ran.err.contains("32"), "{}", ran.err);
        assert!(ran.err.ends_with("hint: run `cognilog verify` and restore what is damaged from a backup\n"));
        let ran = place.run(&["--json", "export", "t"]);
        let error: Value = serde_json::from_str(&ran.err).unwrap();
        assert_eq!((ran.code, ran.out.as_str()), (3, ""));
        assert_eq!(error["error"]["code"], "data_damaged");
    }
    assert_eq!(found, 1);
    std::fs::write(&log, whole).unwrap();
    place.verified();
}

#[test]
fn a_head_that_was_kept_elsewhere() {
    let place = Place::with_store();
    place.append("t", &query("a"));
    let head = place.ok(&["head"]);
    let head = head.trim();
    assert_eq!(place.json(&["head"])["head"], head);
    assert!(head.starts_with("1.1.") && head.len() == 4 + 64, "{head}");
    place.append("t", &query("b"));
    let expect = |head: &str| {
        let ran = place.run(&["verify", "--expect", head]);
        (ran.code, ran.out)
    };
    for head in [head, &place.ok(&["head"])] {
        let (code, out) = expect(head);
        assert_eq!(code, 0, "{out}");
        assert!(out.starts_with("2 events in 2 blocks, ") && out.ends_with(" stored rows: all as it was recorded\n"));
    }
    // A store of its own has another chain, and one that was put back an earlier one.
    let other = Place::with_store();
    other.append("t", &query("a"));
    let ran = other.run(&["verify", "--expect", head]);
    assert_eq!(ran.code, 3);
    assert!(ran.out.starts_with(&format!("damage: not the log of --expect {head}: ")), "{}", ran.out);
    let ran = other.run(&["verify", "--expect", place.ok(&["head"]).trim()]);
    assert_eq!(ran.code, 3, "{}", ran.out);
    let ran = other.run(&["--json", "verify", "--expect", head]);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, found["findings"].as_array().unwrap().len()), (3, 1));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::with_store();
    place.append("t", &(0..3_000).map(|number| query(&format!("{number} {}", "x".repeat(200)))).collect::<String>());
    for arguments in [
        &["log"][..],
        &["log", "--ndjson"],
        &["log", "--follow"],
        &["--json", "replay", "t"],
        &["export", "t"],
        &["show", "t"],
        &["man"],
    ] {
        let quoted = arguments.join(" ");
        let exe = env!("CARGO_BIN_EXE_cognilog");
        for script in [
            format!("{exe} {quoted} | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}"),
            // Neither is one of stderr.
            format!("{exe} {quoted} 2>&1 | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}"),
        ] {
            let mut shell = Command::new("bash");
            shell.args(["-c", &script]).current_dir(place.path("")).env_remove("COGNILOG_STORE");
            let ran = finish(shell, b"");
            assert_eq!((ran.out.as_str(), ran.err.as_str()), ("0\n", ""), "{script}");
        }
    }
    let full = format!("{} log >/dev/full", env!("CARGO_BIN_EXE_cognilog"));
    let mut shell = Command::new("bash");
    shell.args(["-c", &full]).current_dir(place.path(""));
    let ran = finish(shell, b"");
    assert_eq!(ran.code, 1);
    assert_eq!(ran.err, "error: writing the output: No space left on device (os error 28)\n");
}

#[test]
fn stdout_is_data_only() {
    let place = Place::new();
    // Making the store is told on stderr.
    let ran = place.feed(&["--json", "append", "t"], &query("q"));
    assert_eq!(ran.out.lines().count(), 1);
    assert!(ran.err.starts_with("made a store at "), "{}", ran.err);
    for verb in [
        &["traces"][..],
        &["pending", "evaluations"],
        &["pending", "extractions"],
        &["pending", "reflections"],
        &["status"],
        &["stats"],
        &["verify"],
        &["head"],
        &["show", "t"],
        &["config"],
        &["rebuild"],
        &["compare", "."],
    ] {
        place.json(verb);
    }
    assert_eq!(place.ok(&["pending", "extractions"]), "");
}
