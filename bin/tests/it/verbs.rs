//! What the verbs print: replay, settings, shell, demo, stats and the lists.

use std::process::Command;

use serde_json::Value;

use crate::common::{Place, finish, lines, query};

/// A trace with a pending query, its evaluation, and an extraction.
fn place() -> Place {
    let place = Place::with_store();
    let events = [
        serde_json::json!({"type": "query", "sequence": 1, "query": "first", "source_ids": ["k-1"], "sources": [],
            "timestamp": "2026-04-01T10:00:00+00:00"}),
        serde_json::json!({"type": "evaluation", "sequence": 2, "query_sequence": 1, "trigger": "goal_completion",
            "assessments": [{"source_id": "k-1", "status": "helpful", "reason": "r"}],
            "timestamp": "2026-04-01T10:01:00+00:00"}),
        serde_json::json!({"type": "query", "sequence": 3, "query": "second", "source_ids": ["k-2"], "sources": [],
            "timestamp": "2026-04-01T10:02:00+00:00"}),
        serde_json::json!({"type": "extraction_pending", "sequence": 4, "extraction_id": "ext-1", "trigger": "manual",
            "branch_id": "b", "item": {"types": ["tool"], "task": "t", "content": "c", "score": 3},
            "timestamp": "2026-04-01T10:03:00+00:00"}),
    ];
    place.append("t", &events.map(|event| format!("{event}\n")).concat());
    place
}

#[test]
fn replay_shows_each_event_with_what_it_changed() {
    let place = place();
    let steps = lines(&place.ok(&["--json", "replay", "t"]));
    let kinds: Vec<&str> = steps.iter().map(|step| step["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["query", "evaluation", "query", "extraction_pending"]);
    assert!(steps.iter().all(|step| !step["changes"].as_array().unwrap().is_empty()));
    assert_eq!(steps[3]["event"]["extraction_id"], "ext-1");
    let text = place.ok(&["replay", "t"]);
    assert_eq!(text.lines().filter(|line| !line.starts_with("        ")).count(), 4);
    assert!(text.contains("\n        + extraction_queue/extraction:ext-1 {"), "{text}");
    assert!(text.contains("\n        ~ traces/counts {"), "{text}");
    // Before the second query there are two events.
    assert_eq!(lines(&place.ok(&["--json", "replay", "trace:t", "--until", "2"])).len(), 2);
    assert_eq!(lines(&place.ok(&["--json", "replay", "t", "--until", "-5"])).len(), 0);
}

#[test]
fn replay_steps_forward_back_and_to_a_number() {
    let place = place();
    let ran = place.feed(&["replay", "t", "--step"], "s\nb\n\nn\nb\n4\ns\nn\n0\n99\nx\nq\nn\n");
    assert_eq!(ran.code, 0);
    let places: Vec<&str> = ran.out.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(places, ["[1/4]", "[2/4]", "[1/4]", "[4/4]"]);
    // The state is that of the fourth event: the extraction is there.
    let state: Vec<&str> = ran.out.lines().filter(|line| line.starts_with("  ") && !line.starts_with("    ")).collect();
    assert!(state.iter().any(|line| line.starts_with("  extraction_queue/extraction:ext-1 {")), "{state:?}");
    let commands = "Enter or n forward, b back, a number jumps, s shows the state, q ends";
    let nothing = "there is no event there: 1 to 4";
    let said = format!(
        "4 events; {commands}\nno event was taken yet: Enter takes the first\n{nothing}\n{nothing}\n{nothing}\n{nothing}\n\
         \"x\" is no command; {commands}\n"
    );
    assert_eq!(ran.err, said);
    // The end of the input ends it too.
    assert_eq!(place.feed(&["replay", "t", "--step"], "n").code, 0);
}

#[test]
fn settings_have_a_value_and_an_origin() {
    let place = Place::with_store();
    let of = |place: &Place, arguments: &[&str], key: &str| {
        let all: Vec<&str> = arguments.iter().copied().chain(["config"]).collect();
        let rows = place.json(&all);
        let row = rows.as_array().unwrap().iter().find(|row| row["key"] == key).unwrap();
        (row["value"].as_str().unwrap().to_owned(), row["origin"].as_str().unwrap().to_owned())
    };
    let pair = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(of(&place, &[], "log.wait_seconds"), pair("10", "default"));
    assert_eq!(of(&place, &[], "import.owner"), pair("-", "default"));
    let users = place.write("settings/cognilog/cognilog.toml", "[log]\nwait_seconds = 3\n[import]\nowner = \"me\"\n");
    assert_eq!(of(&place, &[], "log.wait_seconds"), pair("3", users.to_str().unwrap()));
    let stores = place.write(".cognilog/cognilog.toml", "[log]\nwait_seconds = 5\n");
    let stores = stores.canonicalize().unwrap();
    assert_eq!(of(&place, &[], "log.wait_seconds"), pair("5", stores.to_str().unwrap()));
    assert_eq!(of(&place, &[], "import.owner"), pair("me", users.to_str().unwrap()));
    assert_eq!(of(&place, &["--wait", "500ms"], "log.wait_seconds"), pair("0.5", "--wait"));
    assert_eq!(place.ok(&["config"]).lines().count(), 17 + 5);

    let wrong = |text: &str, expect: &str| {
        place.write(".cognilog/cognilog.toml", text);
        for verb in ["config", "traces", "head"] {
            let ran = place.run(&[verb]);
            assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{verb}: {text}");
            assert!(ran.err.starts_with("error: ") && ran.err.contains(expect), "{text}: {}", ran.err);
            assert!(ran.err.contains(".cognilog/cognilog.toml: "), "{}", ran.err);
        }
        // These need no settings.
        place.ok(&["config", "--example"]);
        place.ok(&["completions", "bash"]);
        place.ok(&["man"]);
    };
    wrong("[log]\nwait_second = 3\n", "[log] has no key `wait_second`; the nearest is `wait_seconds`");
    wrong("[imports]\n", "there is no section [imports]; the nearest is [import]");
    wrong("[log\n", "TOML parse error");
    wrong("[log]\nwait_seconds = \"soon\"\n", "wait_seconds");
}

#[test]
fn the_model_endpoint_is_of_the_environment_alone_and_its_key_is_not_shown() {
    let place = Place::with_store();
    let check = |variable: &str, value: &str, expect: &str| {
        for arguments in [&["config"][..], &["--json", "config"]] {
            let output = place.command(arguments).env(variable, value).output().unwrap();
            let out = String::from_utf8(output.stdout).unwrap();
            let line = out.lines().find(|line| line.contains(variable)).unwrap_or(&out);
            assert!(line.contains(expect) && line.contains("environment"), "{variable}={value}: {line}");
            assert!(!out.contains("secret"), "{out}");
        }
    };
    check("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1/", "http://127.0.0.1:8080/v1");
    check("OPENAI_BASE_URL", "http://me:secret@127.0.0.1:8080/v1", "[not valid]");
    check("OPENAI_API_KEY", "secret", "[key]");
    check("COGNILOG_MODEL", "small", "small");
    check("COGNILOG_MODEL_STRONG", "large", "large");
    check("COGNILOG_EMBEDDING_MODEL", "vectors", "vectors");
    // Whoever hands over a store cannot have the reader's key sent elsewhere.
    place.write(".cognilog/cognilog.toml", "[model]\nbase_url = \"http://127.0.0.1:1/v1\"\n");
    assert_eq!(place.run(&["config"]).code, 2);
}

#[test]
fn the_example_of_the_settings_is_taken_as_it_is() {
    let place = Place::with_store();
    let example = place.ok(&["config", "--example"]);
    place.write(".cognilog/cognilog.toml", &example);
    let rows = place.json(&["config"]);
    // The variables of the model endpoint are of the environment alone, and have no section.
    for row in rows.as_array().unwrap().iter().filter(|row| row["key"].as_str().unwrap().contains('.')) {
        assert!(row["origin"].as_str().unwrap().ends_with("cognilog.toml"), "{row}");
        let (section, key) = row["key"].as_str().unwrap().split_once('.').unwrap();
        assert!(example.contains(&format!("[{section}]\n")) && example.contains(&format!("\n{key} = ")), "{row}");
    }
    // What an import needs is taken from there.
    place.write("trace/a/cognition_log.json", "{\"events\": []}");
    place.ok(&["import", "trace"]);
    assert_eq!(place.json(&["show", "a"])["identity"], "researcher");
}

#[test]
fn completions_and_manual() {
    let place = Place::new();
    for (shell, test) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = place.ok(&["completions", shell]);
        assert!(script.contains("cognilog") && script.contains("append"), "{shell}");
        let path = place.write(&format!("script.{shell}"), &script);
        let mut command = Command::new(shell);
        command.arg(test).arg(path);
        if Command::new(shell).arg("--version").output().is_err() {
            eprintln!("{shell} is not here: its completion script was not read by it");
            continue;
        }
        let ran = finish(command, b"");
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{shell}");
    }
    let page = place.ok(&["man"]);
    for verb in ["INIT", "IMPORT", "APPEND", "EXPORT", "REPLAY", "LOG", "VERIFY", "CONFIG", "DEMO", "MAN"] {
        assert!(page.contains(&format!(".SH \"COGNILOG {verb}\"\n")), "{verb}");
    }
    assert!(page.contains("\\-\\-expect\\-position") && page.contains("Exit codes"), "{page}");
    if Command::new("groff").arg("--version").output().is_err() {
        eprintln!("groff is not here: the manual page was not rendered");
        return;
    }
    let mut groff = Command::new("groff");
    groff.args(["-man", "-Tutf8", "-P-cbou", "-ww", "-rLL=100n"]);
    let ran = finish(groff, page.as_bytes());
    assert_eq!(ran.code, 0);
    assert!(ran.out.contains("COGNILOG APPEND"), "{}", ran.out);
    let wrong: Vec<&str> = ran.err.lines().filter(|line| !line.contains("can't break line")).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn the_demo_runs_and_leaves_a_first_one_alone() {
    let place = Place::new();
    let ran = place.run(&["demo"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.starts_with("1. import: ") && ran.out.contains("\n12. verify: "), "{}", ran.out);
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 0, "nothing is left of it");
    let ran = place.run(&["demo", "there"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.err, "the store is at there/store: try `cognilog --store there/store status`\n");
    let head = place.ok(&["--store", "there/store", "head"]);
    let file = place.path("there/trace/demo-trace/cognition_log.json");
    std::fs::write(&file, "mine").unwrap();
    let ran = place.run(&["demo", "there"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, ""));
    let expect = "error: there/store is there already\nhint: name a new folder, or none for a temporary one\n";
    assert_eq!(ran.err, expect);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
    assert_eq!(place.ok(&["--store", "there/store", "head"]), head);
}

#[test]
fn stats_count_events_and_bytes() {
    let place = place();
    place.append("u", &(query("a") + "{\"type\":\"mood\"}\n"));
    let stats = place.json(&["stats"]);
    let events = |at: &Value| at["events"].as_u64().unwrap();
    assert_eq!(events(&stats["total"]), 6);
    assert_eq!(events(&stats["by_type"]["query"]), 3);
    assert_eq!(events(&stats["by_type"]["mood"]), 1);
    assert_eq!(events(&stats["by_stream"]["trace:t"]), 4);
    let bytes: u64 =
        stats["by_type"].as_object().unwrap().values().map(|size| size["payload_bytes"].as_u64().unwrap()).sum();
    assert_eq!(stats["total"]["payload_bytes"], bytes);
    let text = place.ok(&["stats"]);
    assert!(text.starts_with("6 events, ") && text.lines().count() == 1 + 4 + 2, "{text}");
}

#[test]
fn lists_and_single_things() {
    let place = place();
    assert_eq!(place.ok(&["pending", "evaluations"]), format!("{:<32} query     3  second  missing k-2\n", "t"),);
    assert_eq!(place.json(&["pending", "evaluations", "--trace", "t"]).as_array().unwrap().len(), 1);
    assert_eq!(place.json(&["pending", "evaluations", "--rule", "document"]).as_array().unwrap().len(), 1);
    assert_eq!(place.json(&["pending", "extractions"])[0]["extraction_id"], "ext-1");
    assert_eq!(place.json(&["pending", "reflections"])[0]["latest_sequence"], 4);
    let traces = place.json(&["traces"]);
    assert_eq!((&traces[0]["trace_id"], &traces[0]["events"]), (&Value::from("t"), &Value::from(4)));
    let expect = "trace t\n  events      4 (1 evaluation, 1 extraction_pending, 2 query)\n  \
                  time        2026-04-01T10:00:00+00:00 to 2026-04-01T10:03:00+00:00\n  query 1: first\n    \
                  k-1                                      helpful    r\n  query 3: second\n    \
                  k-2                                      pending\n  extraction ext-1: pending c\n";
    assert_eq!(place.ok(&["show", "t"]), expect);
    assert_eq!(place.ok(&["show", "trace:t"]), expect);
    let extraction = place.ok(&["show", "ext:ext-1"]);
    assert!(extraction.starts_with("extraction ext-1 of t\n  state    pending (version "), "{extraction}");
    assert_eq!(place.ok(&["show", "ext-1"]), extraction);
    let ran = place.run(&["status"]);
    assert!(ran.out.contains("\nstate        well\nhead         position 4, "), "{}", ran.out);
    assert!(ran.out.contains("\nwriter       nobody writes now\n"), "{}", ran.out);
    assert_eq!(place.json(&["rebuild", "traces"])["rebuilt"], serde_json::json!(["traces"]));
    place.verified();
}

#[test]
fn exports_are_as_of_a_place_and_written_whole() {
    let place = place();
    let events = |arguments: &[&str]| {
        let export: Value = serde_json::from_str(&place.ok(arguments)).unwrap();
        export["events"].as_array().unwrap().len()
    };
    assert_eq!(events(&["export", "t"]), 4);
    assert_eq!(events(&["export", "t", "--at-sequence", "2"]), 2);
    assert_eq!(events(&["export", "t", "--at-position", "3"]), 3);
    assert_eq!(events(&["export", "trace:t", "--profile", "python"]), 4);
    let path = place.write("t.json", "an older one");
    let ran = place.run(&["export", "t", "-o", "t.json"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    assert!(ran.err.starts_with("wrote t.json ("), "{}", ran.err);
    assert_eq!(std::fs::read_to_string(path).unwrap(), place.ok(&["export", "t"]));
    place.append("T/..", &query("a"));
    let paths: Vec<String> = lines(&place.ok(&["--json", "export", "--all", "files"]))
        .iter()
        .map(|written| written["path"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(paths.len(), 2);
    assert!(paths.iter().all(|path| path.starts_with("files/") && place.path(path).is_file()), "{paths:?}");
    assert_eq!(place.run(&["compare", "files"]).code, 0);
}
