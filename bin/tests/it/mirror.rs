//! A live Python agent: `import --watch` beside it, and `export --all --follow` into a folder that it writes too.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Place, eventually, python, query, soak};

/// Rewrites a file at each event, as the agents do: open, truncate, write. Some writes pause in the middle.
const WRITER: &str = r#"
import json, os, random, sys, time
folder, seconds = sys.argv[1], float(os.path.basename(sys.argv[2]))
random.seed(7)
styles = [dict(indent=2, ensure_ascii=False), dict(), dict(indent=4), dict(ensure_ascii=False, separators=(",", ":"))]
logs = {f"trace-{n}": [] for n in range(4)}
end = time.monotonic() + seconds
while time.monotonic() < end:
    number = random.randrange(4)
    name = f"trace-{number}"
    events = logs[name]
    events.append({"type": "query", "sequence": len(events) + 1, "query": "知识 \U0001f9e0 " + "x" * random.randrange(300),
                   "source_ids": [f"k-{len(events)}"], "sources": [], "timestamp": "2026-04-01T10:00:00.5"})
    if random.random() < 0.2 and len(events) > 1:
        # What reflects marks an earlier event in place.
        events[random.randrange(len(events))]["digested_by"] = f"dream-{len(events)}"
    os.makedirs(f"{folder}/{name}", exist_ok=True)
    text = json.dumps({"trace_id": name, "events": events}, **styles[number]).encode()
    with open(f"{folder}/{name}/cognition_log.json", "wb", buffering=0) as file:
        cut = random.randrange(len(text))
        file.write(text[:cut])
        if random.random() < 0.3:
            time.sleep(random.random() * 0.2)
        file.write(text[cut:])
    time.sleep(random.random() * 0.02)
print(sum(len(events) for events in logs.values()))
"#;

#[test]
fn a_live_tree_is_mirrored_without_loss() {
    let place = Place::with_store();
    let tree = place.path("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::create_dir(place.path("away")).unwrap();
    let mut watch = place.start(&["import", "--watch", "tree", "away"]);
    watch.wait_for("watching 2 paths");
    std::fs::remove_dir(place.path("away")).unwrap();
    watch.wait_for("waiting: cannot look at away");
    let Some(mut writer) = python(WRITER, &[&tree, Path::new(if soak() { "60" } else { "5" })]) else { return };
    assert_eq!(writer.end(), 0, "{}", writer.said());
    let written: usize = writer.line().parse().unwrap();
    assert!(written > 50, "{written}");
    let same = eventually(Duration::from_secs(20), || place.run(&["compare", "tree"]).code == 0);
    assert!(same, "{}\n{}", place.run(&["compare", "tree"]).out, watch.said());
    let traces = place.json(&["traces"]);
    let counted: u64 = traces.as_array().unwrap().iter().map(|trace| trace["by_type"]["query"].as_u64().unwrap()).sum();
    assert_eq!(counted, written as u64);
    for trace in 0..4 {
        let file = std::fs::read_to_string(tree.join(format!("trace-{trace}/cognition_log.json"))).unwrap();
        assert_eq!(place.ok(&["export", &format!("trace-{trace}")]), file);
    }
    let said = watch.said();
    assert!(!said.contains("failed") && !said.contains("forked"), "{said}");
    watch.signal(Signal::TERM);
    assert_eq!(watch.end(), -15);
    place.verified();
    assert_eq!(place.run(&["compare", "tree"]).code, 0);
}

#[test]
fn a_watched_file_that_stays_broken_is_named_once() {
    let place = Place::with_store();
    place.write("tree/a/cognition_log.json", "{\"events\": [");
    let mut watch = place.start(&["import", "--watch", "tree"]);
    watch.wait_for("failed     tree/a/cognition_log.json: it ends in the middle");
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(watch.said().matches("failed").count(), 0);
    place.write("tree/a/cognition_log.json", "{\"events\": []}");
    place.write("tree/b/cognition_log.json", "{\"events\": [{\"type\": \"query\", \"query\": \"q\"}]}");
    assert_eq!(watch.line(), "imported   tree/a/cognition_log.json as a: 0 added, 0 amended, 0 known");
    assert_eq!(watch.line(), "imported   tree/b/cognition_log.json as b: 1 added, 0 amended, 0 known");
}

/// Reads a file, adds an event and writes it again, a few times; knows nothing of the one who also writes it.
const ADDER: &str = r#"
import json, os, sys, time
path, count = sys.argv[1], int(os.path.basename(sys.argv[2]))
os.makedirs(os.path.dirname(path), exist_ok=True)
for number in range(count):
    for attempt in range(100):
        try:
            with open(path) as file:
                log = json.load(file)
            break
        except FileNotFoundError:
            log = {"trace_id": os.path.basename(os.path.dirname(path)), "events": []}
            break
        except ValueError:
            time.sleep(0.01)
    log["events"].append({"type": "query", "sequence": len(log["events"]) + 1, "query": f"python {number}",
                          "source_ids": [], "sources": [], "timestamp": "2026-04-01T10:00:00+00:00"})
    with open(path, "w") as file:
        json.dump(log, file, indent=2, ensure_ascii=False)
    time.sleep(0.07)
"#;

fn queries(export: &Value) -> Vec<&str> {
    export["events"].as_array().unwrap().iter().map(|event| event["query"].as_str().unwrap()).collect()
}

#[test]
fn files_follow_the_log_and_what_others_add_to_them_is_imported() {
    let place = Place::with_store();
    place.append("ours", &query("before"));
    let folder = place.path("files");
    let mut follower = place.start(&["export", "--all", "files", "--follow"]);
    follower.wait_for("keeping files up to date");
    let file = |trace: &str| folder.join(trace).join("cognition_log.json");
    let counts: BTreeMap<&str, usize> = [("theirs", 30), ("both", 30)].into();
    let mut writers = Vec::new();
    for (trace, count) in &counts {
        let Some(writer) = python(ADDER, &[&file(trace), Path::new(&count.to_string())]) else { return };
        writers.push(writer);
    }
    let mut receipts = 0;
    for number in 0..30 {
        receipts += place.append("ours", &query(&format!("exe {number}"))).lines().count();
        receipts += place.append("both", &query(&format!("exe {number}"))).lines().count();
        std::thread::sleep(Duration::from_millis(60));
    }
    assert_eq!(receipts, 60);
    for writer in &mut writers {
        assert_eq!(writer.end(), 0, "{}", writer.said());
    }
    let mut said = String::new();
    let settled = eventually(Duration::from_secs(20), || {
        follower.lines_so_far().iter().for_each(|line| said += &format!("{line}\n"));
        said += &follower.said();
        ["ours", "theirs"].iter().all(|trace| place.run(&["compare", &format!("files/{trace}")]).code == 0)
            && std::fs::read_to_string(file("theirs")).is_ok_and(|text| text.matches("python ").count() == 30)
            && (place.run(&["compare", "files"]).code == 0 || said.contains("forked "))
    });
    assert!(settled && follower.is_running(), "{}\n{said}", place.run(&["compare", "files"]).out);

    let export = |trace: &str| serde_json::from_str::<Value>(&place.ok(&["export", trace])).unwrap();
    let (ours, theirs, both) = (export("ours"), export("theirs"), export("both"));
    let mut expect = vec!["before".to_owned()];
    expect.extend((0..30).map(|number| format!("exe {number}")));
    assert_eq!(queries(&ours), expect);
    // Nobody else wrote to this trace: all of it is in the log, in order.
    assert_eq!(queries(&theirs), (0..30).map(|number| format!("python {number}")).collect::<Vec<_>>());
    // Two wrote to this one: what was appended is in the log, and what Python wrote is too, or the fork was told and
    // the file left as it is.
    let on_disk: Value = serde_json::from_str(&std::fs::read_to_string(file("both")).unwrap()).unwrap();
    for number in 0..30 {
        assert!(queries(&both).contains(&format!("exe {number}").as_str()), "exe {number} is lost");
        let python = format!("python {number}");
        let kept = queries(&both).contains(&python.as_str())
            || (said.contains("forked ") && queries(&on_disk).contains(&python.as_str()));
        assert!(kept, "{python} is lost: {said}");
    }
    follower.signal(Signal::INT);
    assert_eq!(follower.end(), -2);
    place.verified();
}

#[test]
fn a_follower_goes_on_where_the_last_one_stopped() {
    let place = Place::with_store();
    let current = |trace: &str| {
        let file = place.path("files").join(trace).join("cognition_log.json");
        let export = place.ok(&["export", trace]);
        eventually(Duration::from_secs(10), || std::fs::read_to_string(&file).is_ok_and(|text| text == export))
    };
    for round in 0..3 {
        let mut follower = place.start(&["export", "--all", "files", "--follow"]);
        follower.wait_for("keeping files up to date");
        for trace in ["a", "b"] {
            place.append(trace, &query(&format!("round {round}")));
            assert!(current(trace), "round {round}: {}", follower.said());
        }
        assert!(follower.is_running(), "{}", follower.said());
        follower.kill();
        // What comes while nobody follows is caught up.
        place.append("a", &query(&format!("between {round}")));
    }
    assert_eq!(place.log().len(), 9, "following records nothing of its own");
    // Settings name the folder as well as the flag.
    place.write(".cognilog/cognilog.toml", "[json_files]\nfolder = \"files\"\n");
    let mut follower = place.start(&["export", "--all", "--follow"]);
    follower.wait_for("keeping files up to date");
    assert!(current("a"), "{}", follower.said());
    drop(follower);
    assert_eq!(place.ok(&["export", "--all"]).lines().count(), 2);
}
