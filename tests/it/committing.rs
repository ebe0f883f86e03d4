//! Commit: each approved item once, whatever happens between its steps, and nothing that is not approved.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;

use cognilog::{
    CommitItem, CommitReport, CommitSelection, CommitSink, DirectorySink, Engine, Prepared, ReviewRequest, Verdict,
};
use serde_json::{Value, json};

use crate::common::{Bench, Random, id};
use crate::reviewing::{edit, pending, request};

/// A hub in memory, and what it is told to do with an item.
#[derive(Default)]
struct Hub {
    records: Mutex<BTreeMap<String, (usize, String)>>,
    behaviour: Mutex<BTreeMap<String, Behaviour>>,
}

#[derive(Clone, Copy)]
enum Behaviour {
    Fail,
    Hang,
    /// The process ends before the hub hears of it.
    DieBefore,
    /// The process ends after the hub has it.
    DieAfter,
}

impl Hub {
    fn set(&self, name: &str, behaviour: Option<Behaviour>) {
        let mut all = self.behaviour.lock().unwrap();
        match behaviour {
            Some(behaviour) => drop(all.insert(name.to_owned(), behaviour)),
            None => drop(all.remove(name)),
        }
    }

    /// How many records each extraction became, and the text.
    fn records(&self) -> Vec<(String, usize, String)> {
        let records = self.records.lock().unwrap();
        records.iter().map(|(name, (times, text))| (name.clone(), *times, text.clone())).collect()
    }
}

impl CommitSink for Hub {
    fn describe(&self) -> String {
        "a hub of the test".to_owned()
    }

    fn prepare(&self, item: &CommitItem) -> Prepared {
        let behaviour = self.behaviour.lock().unwrap().get(item.extraction_id()).copied();
        match behaviour {
            Some(Behaviour::Fail) => return Prepared::failed("the hub is full"),
            Some(Behaviour::DieBefore) => panic!("before"),
            _ => {}
        }
        // The extraction id is the key: the same again is the record that is there.
        let mut records = self.records.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        records.entry(item.extraction_id().to_owned()).or_insert_with(|| (1, item.content().to_owned()));
        drop(records);
        match behaviour {
            Some(Behaviour::Hang) => Prepared::unanswered("no answer within 30 s"),
            Some(Behaviour::DieAfter) => panic!("after"),
            _ => Prepared::saved(format!("knowledge-{}", item.extraction_id())),
        }
    }
}

fn commit(engine: &Engine, sink: &dyn CommitSink, selection: &CommitSelection) -> Vec<CommitReport> {
    let plan = engine.commit_plan(selection).unwrap();
    engine.commit(&plan, sink, |_| {}).unwrap()
}

fn all() -> CommitSelection {
    CommitSelection::default()
}

fn outcomes(reports: &[CommitReport]) -> Vec<(&str, &str)> {
    reports.iter().map(|report| (report.extraction_id.as_str(), report.outcome)).collect()
}

fn approved(names: &[&str]) -> Bench {
    let bench = Bench::new();
    for name in names {
        bench.append("t", &pending(name, &format!("content of {name}")));
        bench.engine.review(request(name, Verdict::Approve)).unwrap();
    }
    bench
}

/// The `extraction_committed` events of a trace: extraction and outcome.
fn recorded(bench: &Bench) -> Vec<(String, String)> {
    let events = bench.exported_events("t");
    let events = events.iter().map(|text| serde_json::from_str::<Value>(text).unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    events
        .filter(|event| event["type"] == "extraction_committed")
        .map(|event| (text(&event["extraction_id"]), text(&event["outcome"])))
        .collect()
}

#[test]
fn the_text_as_it_was_edited_is_committed_and_the_history_has_all_five() {
    let bench = Bench::new();
    bench.append("t", &pending("e", "original"));
    for verdict in [Verdict::Approve, edit("edited"), Verdict::Withdraw, Verdict::Approve] {
        bench.engine.review(request("e", verdict)).unwrap();
    }
    let hub = Hub::default();
    let reports = commit(&bench.engine, &hub, &all());
    assert_eq!(outcomes(&reports), [("e", "saved")]);
    assert_eq!(hub.records(), [("e".to_owned(), 1, "edited".to_owned())]);
    let row = bench.engine.find_extraction(None, "e").unwrap().remove(0).extraction;
    let history: Vec<&str> = row.decisions.iter().map(|decision| decision.decision.as_str()).collect();
    assert_eq!(history, ["approve", "edit", "withdraw", "approve"]);
    let outcome = row.outcome.unwrap();
    assert_eq!((outcome.outcome.as_str(), outcome.knowledge_id.as_deref()), ("saved", Some("knowledge-e")));
    assert_eq!((row.state.as_str(), row.current.content.as_str()), ("committed", "edited"));
    // From here on nobody decides any more, and a second commit takes nothing.
    for verdict in [Verdict::Approve, edit("later"), Verdict::Discard, Verdict::Withdraw] {
        let refused = bench.engine.review(request("e", verdict)).unwrap_err();
        assert_eq!(refused.code(), "already_committed");
        assert!(refused.to_string().contains("saved as knowledge-e"), "{refused}");
    }
    let undone = bench.engine.undo("ada").unwrap().remove(0).unwrap_err();
    assert_eq!(undone.code(), "already_committed");
    assert_eq!(commit(&bench.engine, &hub, &all()), []);
    assert_eq!(recorded(&bench), [("e".to_owned(), "saved".to_owned())]);
}

#[test]
fn one_that_fails_stops_no_other_and_is_tried_again() {
    let bench = approved(&["a", "b", "c"]);
    let hub = Hub::default();
    hub.set("a", Some(Behaviour::Fail));
    hub.set("b", Some(Behaviour::Hang));
    let mut told = Vec::new();
    let plan = bench.engine.commit_plan(&all()).unwrap();
    let reports = bench.engine.commit(&plan, &hub, |report| told.push(report.clone())).unwrap();
    assert_eq!(told, reports);
    assert_eq!(outcomes(&reports), [("a", "failed"), ("b", "unknown"), ("c", "saved")]);
    let outcome_of = |name: &str| bench.engine.find_extraction(None, name).unwrap().remove(0).extraction;
    let (a, b) = (outcome_of("a"), outcome_of("b"));
    assert_eq!((a.state.as_str(), a.outcome.unwrap().error.as_deref()), ("approved", Some("the hub is full")));
    assert_eq!((b.state.as_str(), b.outcome.unwrap().outcome.as_str()), ("approved", "unknown"));
    // The failed one goes with the next commit, the unknown one only on request.
    hub.set("a", None);
    hub.set("b", None);
    let plan = bench.engine.commit_plan(&all()).unwrap();
    assert_eq!(plan.left_out.len(), 1);
    assert!(plan.left_out[0].is_unanswered && plan.left_out[0].reason.contains("no answer within 30 s"));
    assert_eq!(outcomes(&commit(&bench.engine, &hub, &all())), [("a", "saved")]);
    let mut named = all();
    named.extraction_ids = vec!["b".to_owned()];
    assert_eq!(commit(&bench.engine, &hub, &named), []);
    named.retry_unanswered = true;
    assert_eq!(outcomes(&commit(&bench.engine, &hub, &named)), [("b", "saved")]);
    assert!(hub.records().iter().all(|(_, times, _)| *times == 1));
    let expect = [("a", "failed"), ("b", "unknown"), ("c", "saved"), ("a", "saved"), ("b", "saved")];
    assert_eq!(recorded(&bench), expect.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())));
}

/// The process ends at each step of each item; the commit is repeated until it ends.
#[test]
fn a_commit_that_is_cut_off_anywhere_and_repeated_saves_each_item_once() {
    for behaviour in [Behaviour::DieBefore, Behaviour::DieAfter] {
        for victim in ["a", "b", "c"] {
            let (mut engine, folder) = approved(&["a", "b", "c"]).into_parts();
            let store = folder.path().join("store");
            let hub = Hub::default();
            hub.set(victim, Some(behaviour));
            let plan = engine.commit_plan(&all()).unwrap();
            let died = catch_unwind(AssertUnwindSafe(|| engine.commit(&plan, &hub, |_| {})));
            assert!(died.is_err());
            drop(engine);
            engine = Engine::open(&store).unwrap();
            hub.set(victim, None);
            commit(&engine, &hub, &all());
            assert_eq!(commit(&engine, &hub, &all()), []);
            let times: Vec<usize> = hub.records().iter().map(|(_, times, _)| *times).collect();
            assert_eq!(times, [1, 1, 1]);
            let rows = engine.extractions(None).unwrap();
            for row in rows {
                let words: Vec<&str> = row.extraction.outcomes.iter().map(|outcome| outcome.outcome.as_str()).collect();
                assert_eq!(words, ["saved"], "{}", row.extraction.extraction_id);
            }
        }
    }
}

/// Decides on the item, and commits it again, while it is out.
struct Meddling<'e> {
    engine: &'e Engine,
    seen: Mutex<Vec<String>>,
}

impl CommitSink for Meddling<'_> {
    fn describe(&self) -> String {
        String::new()
    }

    fn prepare(&self, item: &CommitItem) -> Prepared {
        let mut seen = self.seen.lock().unwrap();
        for verdict in [Verdict::Withdraw, edit("other")] {
            seen.push(self.engine.review(request(item.extraction_id(), verdict)).unwrap_err().code().to_owned());
        }
        let plan = self.engine.commit_plan(&all()).unwrap();
        let reports = self.engine.commit(&plan, &Hub::default(), |_| {}).unwrap();
        seen.extend(reports.iter().map(|report| report.outcome.to_owned()));
        Prepared::skipped("knowledge-0")
    }
}

#[test]
fn nobody_decides_on_an_item_while_it_is_out() {
    let bench = approved(&["e"]);
    let sink = Meddling { engine: &bench.engine, seen: Mutex::default() };
    assert_eq!(outcomes(&commit(&bench.engine, &sink, &all())), [("e", "skipped")]);
    assert_eq!(*sink.seen.lock().unwrap(), ["commit_in_progress", "commit_in_progress", "not_sent"]);
    assert_eq!(recorded(&bench), [("e".to_owned(), "skipped".to_owned())]);
}

#[test]
fn what_was_decided_anew_since_the_plan_is_not_sent() {
    let bench = approved(&["a", "b", "c"]);
    let plan = bench.engine.commit_plan(&all()).unwrap();
    bench.engine.review(request("a", Verdict::Discard)).unwrap();
    bench.engine.review(request("b", edit("newer"))).unwrap();
    let hub = Hub::default();
    let reports = bench.engine.commit(&plan, &hub, |_| {}).unwrap();
    assert_eq!(outcomes(&reports), [("a", "not_sent"), ("b", "not_sent"), ("c", "saved")]);
    assert!(reports[1].error.as_ref().unwrap().contains("ada decided edit"));
    assert_eq!(recorded(&bench), [("c".to_owned(), "saved".to_owned())]);
}

#[test]
fn what_is_named_must_be_there_and_be_approved() {
    let bench = approved(&["a"]);
    bench.append("t", &pending("b", "c"));
    bench.append("u", &pending("a", "c"));
    let plan = |trace: Option<&str>, names: &[&str]| {
        let mut selection = all();
        selection.trace = trace.map(id);
        selection.extraction_ids = names.iter().map(|name| (*name).to_owned()).collect();
        bench.engine.commit_plan(&selection)
    };
    assert_eq!(plan(None, &["a"]).unwrap_err().code(), "extraction_ambiguous");
    assert_eq!(plan(None, &["x"]).unwrap_err().code(), "extraction_not_found");
    assert_eq!(plan(Some("x"), &[]).unwrap_err().code(), "trace_not_found");
    let named = plan(Some("t"), &["a", "b", "a"]).unwrap();
    assert_eq!(named.items.iter().map(CommitItem::extraction_id).collect::<Vec<_>>(), ["a"]);
    assert_eq!(named.left_out.len(), 1);
    assert!(named.left_out[0].reason.contains("pending"), "{:?}", named.left_out);
}

#[test]
fn a_commit_fills_in_what_the_log_knows() {
    let bench = Bench::new();
    for event in [
        json!({"type": "trace_started", "sequence": 0, "identity": "researcher", "agent_type": "research",
            "owner": "team-a"}),
        json!({"type": "message", "sequence": 7, "message_id": "msg-7", "role": "assistant", "content": "x"}),
    ] {
        bench.append("t", &event.to_string());
    }
    bench.append(
        "t",
        r#"{"type":"extraction_pending","sequence":7,"extraction_id":"e","item":{"types":["tool"],"task":"任务","content":"c","score":3.50,"tags":{"n":12345678901234567890123},"scopes":["org:x"],"resource_ids":["r"],"source":{"name":"n","agent_id":"somebody else","big":1e400}},"timestamp":"2026-03-20T10:00:00"}"#,
    );
    let reviewer = ReviewRequest { reviewer: "ada@example.com".to_owned(), ..request("e", Verdict::Approve) };
    bench.engine.review(reviewer).unwrap();
    let plan = bench.engine.commit_plan(&all()).unwrap();
    let expect = r#"{"trace_id":"t","extraction_id":"e","version":1,"message_id":"msg-7","types":["tool"],"task":"任务","content":"c","score":3.50,"tags":{"n":12345678901234567890123},"scopes":["org:x"],"owner":"team-a","resource_ids":["r"],"source":{"name":"n","big":1e400,"agent_id":"researcher","submitted_by":"ada@example.com","timestamp":"2026-03-20T10:00:00+00:00","message_id":"msg-7"}}"#;
    assert_eq!(serde_json::to_string(&plan.items[0]).unwrap(), expect);
}

#[test]
fn what_no_hub_can_read_fails_alone_with_its_field() {
    let bench = Bench::new();
    bench.import_events(
        "t",
        &[
            r#"{"type":"extraction_pending","sequence":1,"extraction_id":"nan","item":{"content":"c","tags":{"x":NaN}}}"#,
            r#"{"type":"extraction_pending","sequence":1,"extraction_id":"empty","item":{"content":" "}}"#,
            r#"{"type":"extraction_pending","sequence":1,"extraction_id":"fine","item":{"content":"c","source":"a book"}}"#,
        ],
    );
    for name in ["nan", "empty", "fine"] {
        bench.engine.review(request(name, Verdict::Approve)).unwrap();
    }
    let hub = Hub::default();
    let reports = commit(&bench.engine, &hub, &all());
    assert_eq!(outcomes(&reports), [("nan", "failed"), ("empty", "failed"), ("fine", "saved")]);
    assert!(reports[0].error.as_ref().unwrap().contains("`tags`"), "{reports:?}");
    assert_eq!(hub.records().len(), 1);
}

/// The files beneath a folder, by path.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for trace in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        for file in std::fs::read_dir(&trace).unwrap().map(|entry| entry.unwrap().path()) {
            let name = file.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            found.insert(name, std::fs::read_to_string(file).unwrap());
        }
    }
    found
}

#[test]
fn the_folder_has_one_whole_file_for_each_item() {
    let bench = approved(&["e", "../../etc/x", "知识"]);
    let folder = bench.path("knowledge");
    let sink = DirectorySink::open(&folder).unwrap();
    // What a commit that was cut off left there is no item.
    std::fs::create_dir(folder.join("t")).unwrap();
    std::fs::write(folder.join("t/.e.json.tmp"), "half").unwrap();
    let plan = bench.engine.commit_plan(&all()).unwrap();
    let first: Vec<Prepared> = plan.items.iter().map(|item| sink.prepare(item)).collect();
    let written = files(&folder);
    assert_eq!(written.len(), 3, "{:?}", written.keys());
    let text = &written["t/e.json"];
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!((&value["content"], &value["extraction_id"]), (&json!("content of e"), &json!("e")));
    // The same again changes nothing and gives the same record.
    let again: Vec<Prepared> = plan.items.iter().map(|item| sink.prepare(item)).collect();
    assert_eq!((again, files(&folder)), (first, written.clone()));
    let reports = bench.engine.commit(&plan, &sink, |_| {}).unwrap();
    assert!(reports.iter().all(CommitReport::is_in_hub));
    assert_eq!(reports[0].knowledge_id.as_deref(), Some("t/e.json"));
    assert_eq!(files(&folder), written);
}

#[cfg(unix)]
#[test]
fn the_folder_is_never_left_and_nothing_in_it_replaced() {
    use std::os::unix::fs::symlink;
    let bench = approved(&["a", "b", "c"]);
    let folder = bench.path("knowledge");
    let outside = bench.path("outside");
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::create_dir_all(folder.join("t")).unwrap();
    std::fs::write(outside.join("secret"), "untouched").unwrap();
    std::fs::write(folder.join("t/a.json"), "somebody's own").unwrap();
    symlink(outside.join("secret"), folder.join("t/b.json")).unwrap();
    symlink(outside.join("secret"), folder.join("t/.c.json.tmp")).unwrap();
    let sink = DirectorySink::open(&folder).unwrap();
    let reports = commit(&bench.engine, &sink, &all());
    assert_eq!(outcomes(&reports), [("a", "failed"), ("b", "failed"), ("c", "saved")]);
    assert!(reports[0].error.as_ref().unwrap().contains("t/a.json is there with another text"), "{reports:?}");
    assert_eq!(std::fs::read_to_string(folder.join("t/a.json")).unwrap(), "somebody's own");
    assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "untouched");
    // A trace's folder that leads out is refused.
    std::fs::remove_dir_all(folder.join("t")).unwrap();
    symlink(&outside, folder.join("t")).unwrap();
    assert_eq!(outcomes(&commit(&bench.engine, &sink, &all())), [("a", "failed"), ("b", "failed")]);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
}

/// A random life of extractions: recorded in every form that files have, decided, undone, committed.
fn random_life(seed: u64, folder: &Path) -> Bench {
    let mut random = Random(seed);
    let bench = Bench::new();
    let sink = DirectorySink::open(folder).unwrap();
    let mut names = Vec::new();
    for step in 0..60 {
        let reviewer = *random.pick(&[&"ada", &"bob"]);
        match random.below(12) {
            0 | 1 => {
                let name = format!("e{}", names.len());
                bench.append("t", &pending(&name, &format!("text {step} 知")));
                names.push(name);
            }
            2 => {
                // Without an id the name is made from the trace and the number of the extraction.
                bench
                    .append("t", &json!({"type": "extraction_pending", "content": format!("flat {step}")}).to_string());
                names.push(format!("ext-t-{}", names.len() + 1));
            }
            3 => {
                let _ = bench.engine.undo(reviewer);
            }
            4 if random.chance(3) => {
                let mut selection = CommitSelection::default();
                if let Some(row) = bench
                    .engine
                    .extractions(None)
                    .unwrap()
                    .iter()
                    .find(|one| one.extraction.position > 0 && one.extraction.state().is_approved())
                {
                    selection.extraction_ids = vec![row.extraction.extraction_id.clone()];
                    let plan = bench.engine.commit_plan(&selection).unwrap();
                    bench.engine.commit(&plan, &sink, |_| {}).unwrap();
                }
            }
            5 => {
                let name = random.pick(&["e0", "e1", "ext-t-2"]).to_owned();
                let decision = random.pick(&["approved", "edited", "discarded", "withdrawn"]);
                let event = json!({"type": "extraction_reviewed", "extraction_id": name, "decision": decision,
                    "edited": {"content": format!("raw {step}"), "task": "new"}});
                bench.append("t", &event.to_string());
            }
            6 => {
                let name = random.pick(&["e0", "e1", "ext-t-2"]).to_owned();
                let outcome = random.pick(&["failed", "unknown", "failed"]);
                bench.append(
                    "t",
                    &json!({"type": "extraction_committed", "extraction_id": name, "outcome": outcome, "error": "x"})
                        .to_string(),
                );
            }
            _ if !names.is_empty() => {
                let name = names[random.below(names.len() as u64) as usize].clone();
                let verdict = match random.below(4) {
                    0 => Verdict::Approve,
                    1 => Verdict::Discard,
                    2 => Verdict::Withdraw,
                    _ => edit(&format!("edited {step}")),
                };
                let _ = bench.engine.review(ReviewRequest { reviewer: reviewer.to_owned(), ..request(&name, verdict) });
            }
            _ => {}
        }
    }
    bench
}

/// What the reader of forty lines prints: by extraction its state and text.
type Read = BTreeMap<String, (String, String)>;

/// The reader that was written from the document alone, and this crate, agree on every history.
#[test]
fn a_reader_of_the_documented_files_finds_the_same_approved_extractions() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/approved_set.py");
    let has_python = std::process::Command::new("python3").arg("--version").output();
    if !has_python.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: python3 is not here, so the reader in {} was not run", script.display());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut expect: Vec<Read> = Vec::new();
    for seed in 0..if crate::common::is_soak() { 400 } else { 16 } {
        let bench = random_life(seed, &folder.path().join(format!("knowledge-{seed}")));
        if bench.head() == 0 {
            continue;
        }
        let rows = bench.engine.extractions(None).unwrap();
        let rows = rows.into_iter().map(|one| one.extraction).filter(|row| row.position > 0);
        expect.push(rows.map(|row| (row.extraction_id, (row.state, row.current.content))).collect());
        // The trace's own file, and the one for the old readers.
        let profile = if seed % 2 == 0 { cognilog::Profile::Native } else { cognilog::Profile::Python };
        let text = bench.engine.export_at(&id("t"), cognilog::At::Head, profile).unwrap();
        std::fs::write(folder.path().join(format!("{:03}.json", expect.len())), text).unwrap();
    }
    let output = std::process::Command::new("python3").arg(&script).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Vec<Read> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found.len(), expect.len());
    let mut states = std::collections::BTreeSet::new();
    for (index, (found, expect)) in found.iter().zip(&expect).enumerate() {
        assert_eq!(found, expect, "history {index}");
        states.extend(expect.values().map(|(state, _)| state.as_str()));
    }
    assert_eq!(states.len(), 5, "the histories have every state: {states:?}");
}

/// What is pending, discarded or withdrawn never comes to a sink: the files are what was committed, and a commit of all
/// adds what is approved.
#[test]
fn only_what_is_approved_becomes_knowledge() {
    for seed in 0..if crate::common::is_soak() { 100 } else { 8 } {
        let folder = tempfile::tempdir().unwrap();
        let bench = random_life(seed, folder.path());
        let mut with_state: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let rows = bench.engine.extractions(None).unwrap();
        for row in rows.iter().map(|one| &one.extraction).filter(|row| row.position > 0) {
            let kept = match row.state.as_str() {
                "committed" => "committed",
                "approved" | "edited" => "approved",
                _ => "left",
            };
            with_state.entry(kept).or_default().push(row.current.content.clone());
        }
        let contents = || -> Vec<String> {
            let texts = files(folder.path());
            let mut contents: Vec<String> = texts
                .values()
                .map(|text| serde_json::from_str::<Value>(text).unwrap()["content"].as_str().unwrap().to_owned())
                .collect();
            contents.sort();
            contents
        };
        let sorted = |keys: &[&str]| {
            let mut all: Vec<String> = keys.iter().filter_map(|key| with_state.get(key)).flatten().cloned().collect();
            all.sort();
            all
        };
        assert_eq!(contents(), sorted(&["committed"]), "seed {seed}");
        let mut selection = all();
        selection.retry_unanswered = true;
        commit(&bench.engine, &DirectorySink::open(folder.path()).unwrap(), &selection);
        assert_eq!(contents(), sorted(&["committed", "approved"]), "seed {seed}");
    }
}
