//! The verbs of review and commit: reviewers, versions, forms, groups, the menu, the hub and its settings.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::common::{Place, Ran, lines};

/// A store with extractions `ext-1` …, each of another text.
fn place(texts: &[&str]) -> Place {
    let place = Place::with_store();
    for (index, text) in texts.iter().enumerate() {
        let event = json!({"type": "extraction_pending", "extraction_id": format!("ext-{}", index + 1),
            "item": {"types": ["tool"], "task": "images", "content": text, "score": 3}});
        place.append("t", &format!("{event}\n"));
    }
    place
}

fn states(place: &Place) -> Vec<String> {
    let detail = place.json(&["show", "trace:t"]);
    let all = detail["extractions"].as_array().unwrap();
    all.iter().map(|one| one["state"].as_str().unwrap().to_owned()).collect()
}

fn as_reviewer(place: &Place, name: &str, arguments: &[&str]) -> Ran {
    let mut all = arguments.to_vec();
    all.extend(["--reviewer", name]);
    place.run(&all)
}

fn error(ran: &Ran) -> Value {
    lines(&ran.err).into_iter().map(|line| line["error"].clone()).next().unwrap_or_else(|| panic!("{ran:?}"))
}

#[test]
fn two_reviewers_of_one_version() {
    let place = place(&["one", "two"]);
    let ran = as_reviewer(&place, "bob", &["discard", "ext-1", "--seen", "0", "--reason", "too broad"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "ext-1: discarded, version 1\n"), "{}", ran.err);
    let ran = as_reviewer(&place, "ada", &["--json", "approve", "ext:ext-1", "--seen", "0"]);
    assert_eq!((ran.code, ran.out.as_str()), (4, "[]\n"));
    assert_eq!(error(&ran)["code"], "review_conflict");
    let told = error(&ran)["message"].as_str().unwrap().to_owned();
    assert!(told.contains("bob decided discard") && told.contains("too broad"), "{told}");
    assert_eq!(states(&place), ["discarded", "pending"]);
    // Many at once: each is decided on its own, and the exit code tells that one was refused.
    let ran = as_reviewer(&place, "ada", &["withdraw", "ext-1", "ext-2"]);
    assert_eq!((ran.code, ran.out.as_str()), (1, "ext-1: pending, version 2\n"));
    assert!(ran.err.contains("ext-2: nothing to withdraw"), "{}", ran.err);
    for (verb, code, word) in
        [(&["approve", "ext-9"][..], 1, "extraction_not_found"), (&["undo", "--reviewer", "eve"], 1, "nothing_to_undo")]
    {
        let ran = place.run(&[&["--json"], verb].concat());
        assert_eq!((ran.code, error(&ran)["code"].as_str().unwrap()), (code, word));
    }
    place.append("u", r#"{"type":"extraction_pending","extraction_id":"ext-1","item":{"content":"x"}}"#);
    let ran = place.run(&["--json", "approve", "ext-1"]);
    assert_eq!(error(&ran)["code"], "extraction_ambiguous");
    assert!(error(&ran)["message"].as_str().unwrap().contains("t, u"));
    assert_eq!(place.run(&["approve", "ext-1", "--trace", "u"]).code, 0);
    place.verified();
}

#[test]
fn who_reviews() {
    let place = place(&["one", "two", "three", "four", "five"]);
    let approve = |extraction: &str, environment: &[(&str, &str)], flag: Option<&str>| {
        let mut arguments = vec!["approve", extraction];
        arguments.extend(flag.iter().flat_map(|name| ["--reviewer", name]));
        let mut command = place.command(&arguments);
        let git = place.path("gitconfig");
        for name in ["COGNILOG_REVIEWER", "USER", "EMAIL"] {
            command.env_remove(name);
        }
        command.env("GIT_CONFIG_GLOBAL", git).env("GIT_CONFIG_NOSYSTEM", "1").envs(environment.iter().copied());
        let ran = crate::common::finish(command, b"");
        let shown = place.json(&["show", &format!("ext:{extraction}")]);
        (ran.code, shown["decisions"][0]["reviewer"].as_str().map(str::to_owned))
    };
    let all = [("COGNILOG_REVIEWER", "from-variable"), ("USER", "from-user")];
    assert_eq!(approve("ext-1", &all, Some("from-flag")), (0, Some("from-flag".to_owned())));
    assert_eq!(approve("ext-2", &all, None), (0, Some("from-variable".to_owned())));
    assert_eq!(approve("ext-3", &all[1..], None), (0, Some("from-user".to_owned())));
    assert_eq!(approve("ext-4", &[], None), (2, None));
    if std::process::Command::new("git").arg("--version").output().is_ok_and(|output| output.status.success()) {
        place.write("gitconfig", "[user]\n\temail = from-git@example.com\n");
        assert_eq!(approve("ext-5", &all[1..], None), (0, Some("from-git@example.com".to_owned())));
    }
}

#[test]
fn groups_are_listed_decided_and_undone_together() {
    let place = place(&[
        "With strength below 0.3 the outline is lost.",
        "先用低分辨率试验参数，再放大。",
        "The outline is lost with strength below 0.3",
    ]);
    let listed = place.ok(&["pending", "extractions"]);
    let order: Vec<&str> = listed.lines().map(|line| &line[33..39]).collect();
    assert_eq!(order, [" ext-1", "=ext-3", " ext-2"]);
    let ran = as_reviewer(&place, "ada", &["approve", "--group", "ext-3"]);
    assert_eq!(ran.out, "ext-3: approved, version 1\next-1: approved, version 1\n", "{}", ran.err);
    assert_eq!(states(&place), ["approved", "pending", "approved"]);
    let ran = as_reviewer(&place, "ada", &["undo"]);
    assert_eq!(ran.out.lines().count(), 2, "{}", ran.out);
    assert!(ran.out.contains("undone (version 1): pending again"), "{}", ran.out);
    assert_eq!(states(&place), ["pending", "pending", "pending"]);
    let old = json!({"type": "extraction_pending", "extraction_id": "old", "item": {"content": "x"},
        "timestamp": "2020-01-01T00:00:00Z"});
    place.append("t", &format!("{old}\n"));
    let ran = place.run(&["pending", "extractions"]);
    assert!(ran.err.contains("1 of them (!) have waited for more than 30 days"), "{}", ran.err);
    assert_eq!(place.json(&["pending", "extractions"])[3]["is_overdue"], true);
}

#[test]
fn editing_by_flags_by_form_and_by_editor() {
    let place = place(&["original", "second"]);
    let ran = as_reviewer(
        &place,
        "ada",
        &["edit", "ext-1", "--content", "新的内容", "--types", "tool,case", "--tags", "{\"a\": 1}", "--score", "4"],
    );
    assert_eq!((ran.code, ran.out.as_str()), (0, "ext-1: edited, version 1\n"), "{}", ran.err);
    let shown = place.json(&["show", "ext:ext-1"]);
    assert_eq!(shown["current"]["content"], "新的内容");
    assert_eq!(shown["current"]["types"], json!(["tool", "case"]));
    // The form is printed, changed and taken back.
    let form = place.ok(&["edit", "ext-1", "--print-form"]);
    assert!(form.contains("types: tool, case\n") && form.ends_with("新的内容\n"), "{form}");
    let filled = form.replace("新的内容", "From the form").replace("owner:", "owner: team-a");
    let ran = place.feed(&["edit", "ext-1", "--form", "-", "--reviewer", "ada"], &filled);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let shown = place.json(&["show", "ext:ext-1"]);
    assert_eq!((&shown["current"]["content"], &shown["current"]["owner"]), (&json!("From the form"), &json!("team-a")));
    for (form, code, expect) in [
        (filled.replace("task:", "taks:"), "bad_form", "line 2"),
        (form.replace("新的内容\n", ""), "edited_to_empty", "edited to empty"),
        (String::new(), "nothing_edited", "no field was changed"),
    ] {
        let ran = place.feed(&["--json", "edit", "ext-1", "--form", "-", "--reviewer", "ada"], &form);
        assert_eq!((ran.code, error(&ran)["code"].as_str().unwrap()), (1, code), "{form}");
        assert!(error(&ran)["message"].as_str().unwrap().contains(expect), "{}", ran.err);
    }
    let ran = place.run(&["edit", "ext-2", "--reviewer", "ada"]);
    assert_eq!(ran.code, 2, "without a terminal nothing is opened");
    assert!(ran.err.contains("--form"), "{}", ran.err);
    let ran = place.run(&["edit", "ext-2", "--tags", "{", "--reviewer", "ada"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert_eq!(states(&place), ["edited", "pending"]);
}

#[test]
fn the_screen_needs_a_terminal_and_names_the_plain_verbs() {
    let ran = place(&["one"]).run(&["review"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("approve|edit|discard|withdraw") && ran.err.contains("interactive"), "{}", ran.err);
}

#[test]
fn the_numbered_menu_reviews_and_commits() {
    let place = place(&["nanobanana 工具的 strength 参数\n第二行", "two", "three", "four"]);
    let editor = place.write("editor.sh", "#!/bin/sh\nsed -i 's/^three$/edited three/' \"$1\"\n");
    let talk = |input: &str| {
        let mut command = place.command(&["interactive", "t", "--reviewer", "ada", "--directory", "knowledge"]);
        command.env("EDITOR", format!("sh {}", editor.display())).env_remove("VISUAL");
        let ran = crate::common::finish(command, input.as_bytes());
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran
    };
    let ran = talk("8\na\nx\nd\ne\ns\n9\nn\n9\ny\nq\n");
    assert!(
        ran.out.contains("  8. review what waits (4)\n  9. commit what is approved to the hub (0)\n"),
        "{}",
        ran.out
    );
    let first = "[1/4] tool images\n─────────────────────\nnanobanana 工具的 strength 参数\n第二行\n─────────────────────\n\
        [a]pprove / [e]dit / [d]iscard / [s]kip / [q]uit: ext-1: approved, version 1\n";
    assert!(ran.out.contains(first), "{}", ran.out);
    assert!(ran.out.contains("ext-3: edited, version 1") && ran.out.contains("[4/4]"), "{}", ran.out);
    assert_eq!(states(&place), ["committed", "discarded", "committed", "pending"]);
    let saved = std::fs::read_to_string(place.path("knowledge/t/ext-3.json")).unwrap();
    let saved: Value = serde_json::from_str(&saved).unwrap();
    assert_eq!((&saved["content"], &saved["source"]["submitted_by"]), (&json!("edited three"), &json!("ada")));
    // An untouched form decides nothing, and the end of the input is an end.
    let ran = talk("8\ne\n");
    assert!(ran.err.contains("nothing was changed"), "{}", ran.err);
    assert_eq!(states(&place)[3], "pending");
}

#[test]
fn a_commit_shows_asks_and_reports() {
    let place = place(&["one", "two", "three"]);
    let ran = place.run(&["commit", "--yes"]);
    assert_eq!(ran.code, 1, "there is no hub");
    assert!(ran.err.contains("[hub] sink"), "{}", ran.err);
    assert_eq!(as_reviewer(&place, "ada", &["approve", "ext-1", "ext-2"]).code, 0);
    let ran = place.run(&["commit", "--dry-run"]);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 2), "{}", ran.err);
    assert_eq!(place.json(&["commit", "--dry-run"])[0]["source"]["submitted_by"], "ada");
    let ran = place.run(&["commit", "--directory", "k"]);
    assert_eq!(ran.code, 2, "it asks first");
    assert!(!place.path("k/t").exists());
    assert_eq!(states(&place), ["approved", "approved", "pending"]);
    // In the way of one item is a file that somebody else wrote: the other goes, and the reason stays.
    place.write("k/t/ext-1.json", "mine");
    let ran = place.run(&["commit", "--yes", "--directory", "k"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("failed   ext-1") && ran.out.contains("saved    ext-2"), "{}", ran.out);
    assert!(ran.err.contains("1 saved, 1 failed") && ran.err.contains("next commit"), "{}", ran.err);
    assert!(place.ok(&["show", "ext:ext-1"]).contains("is there with another text"));
    std::fs::remove_file(place.path("k/t/ext-1.json")).unwrap();
    let reports: Value = place.json(&["commit", "--yes", "--directory", "k"]);
    assert_eq!(
        (reports[0]["outcome"].as_str(), reports[0]["knowledge_id"].as_str()),
        (Some("saved"), Some("t/ext-1.json"))
    );
    let ran = place.run(&["commit", "ext-3", "--yes", "--directory", "k"]);
    assert_eq!(ran.code, 1, "what is named and not approved is told");
    assert!(ran.err.contains("ext-3 stays: not approved: an extraction that is pending"), "{}", ran.err);
    let ran = as_reviewer(&place, "ada", &["--json", "discard", "ext-1"]);
    assert_eq!((ran.code, error(&ran)["code"].as_str().unwrap()), (1, "already_committed"));
    assert_eq!(place.ok(&["commit", "--yes", "--directory", "k"]), "");
    place.verified();
}

/// A hub on loopback that keeps what it got by key, and answers only once it may.
struct Hub {
    url: String,
    records: Arc<Mutex<Vec<(String, String)>>>,
    may_answer: Arc<Mutex<bool>>,
}

impl Hub {
    fn new() -> Hub {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/api/knowledge", listener.local_addr().unwrap());
        let hub = Hub { url, records: Arc::default(), may_answer: Arc::default() };
        let (records, may_answer) = (Arc::clone(&hub.records), Arc::clone(&hub.may_answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut asked = Vec::new();
                let mut part = [0; 4_096];
                let text = loop {
                    let bytes = stream.read(&mut part).unwrap_or(0);
                    asked.extend_from_slice(&part[..bytes]);
                    let text = String::from_utf8_lossy(&asked).into_owned();
                    if bytes == 0 || text.ends_with('}') {
                        break text;
                    }
                };
                let head = |name: &str| {
                    let line = text.lines().find(|line| line.to_lowercase().starts_with(name));
                    line.map(|line| line[name.len()..].trim().to_owned()).unwrap_or_default()
                };
                assert_eq!(head("authorization:"), "Bearer key-of-the-hub");
                let key = head("idempotency-key:");
                let mut records = records.lock().unwrap();
                if !records.iter().any(|(known, _)| *known == key) {
                    records.push((key.clone(), text));
                }
                drop(records);
                if *may_answer.lock().unwrap() {
                    let body = json!({"knowledge_id": format!("knowledge-{key}")}).to_string();
                    let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                } else {
                    std::thread::spawn(move || {
                        std::thread::sleep(std::time::Duration::from_secs(30));
                        drop(stream);
                    });
                }
            }
        });
        hub
    }
}

#[test]
fn a_commit_over_http_that_is_killed_and_repeated_saves_once() {
    let place = place(&["one", "two"]);
    let hub = Hub::new();
    place.write(
        ".cognilog/cognilog.toml",
        &format!(
            "[hub]\nsink = \"http\"\nurl = \"{}\"\nheader = \"Authorization\"\nheader_variable = \"HUB_KEY\"\nfields = {{ task = \"title\" }}\n",
            hub.url
        ),
    );
    assert_eq!(as_reviewer(&place, "ada", &["approve", "ext-1", "ext-2"]).code, 0);
    let ran = place.run(&["commit", "--yes"]);
    assert_eq!(ran.code, 2, "the variable is not set");
    assert!(ran.err.contains("$HUB_KEY is not set"), "{}", ran.err);
    let command = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("HUB_KEY", "Bearer key-of-the-hub");
        command
    };
    // The hub has the first item and its answer never comes: the process is killed over it.
    let mut running = crate::common::Running::new(command(&["commit", "--yes"]));
    let limit = std::time::Duration::from_secs(60);
    assert!(crate::common::eventually(limit, || hub.records.lock().unwrap().len() == 1));
    running.kill();
    assert_eq!(states(&place), ["approved", "approved"]);
    *hub.may_answer.lock().unwrap() = true;
    let ran = crate::common::finish(command(&["commit", "--yes"]), b"");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert_eq!(states(&place), ["committed", "committed"]);
    assert_eq!(crate::common::finish(command(&["commit", "--yes"]), b"").out, "");
    let records = hub.records.lock().unwrap();
    assert_eq!(records.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["ext-1", "ext-2"]);
    assert!(records[0].1.contains("\"title\":\"images\""), "{}", records[0].1);
    let told = [ran.out, ran.err, place.ok(&["log", "--ndjson"]), place.ok(&["config"])].concat();
    assert!(!told.contains("key-of-the-hub"));
    place.verified();
}
