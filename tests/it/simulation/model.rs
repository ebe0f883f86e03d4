//! What the projections must answer, reckoned from the events' JSON alone: no code of the library is used here.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// An event as the log must hold it.
#[derive(Clone)]
pub(crate) struct LoggedEvent {
    pub(crate) trace: String,
    pub(crate) json: Value,
}

/// The instant of [`timestamp`] zero: 2026-03-01T00:00:00Z in microseconds since 1970.
const FIRST_MICROS: i64 = 1_772_323_200_000_000;

/// The text of a time, so many seconds (below one hour) behind the first.
pub(crate) fn timestamp(second: u64) -> String {
    format!("2026-03-01T00:{:02}:{:02}+00:00", second / 60 % 60, second % 60)
}

fn micros(event: &Value) -> i64 {
    let text = event["timestamp"].as_str().unwrap();
    let number = |range: std::ops::Range<usize>| text[range].parse::<i64>().unwrap();
    FIRST_MICROS + (number(14..16) * 60 + number(17..19)) * 1_000_000
}

/// Everything the engine is asked, for a log of these events: an object with a key for each question.
pub(crate) fn answers(events: &[LoggedEvent]) -> Value {
    let mut order: Vec<&str> = Vec::new();
    let mut traces: BTreeMap<&str, Trace> = BTreeMap::new();
    for (index, event) in events.iter().enumerate() {
        if !traces.contains_key(event.trace.as_str()) {
            order.push(&event.trace);
        }
        traces.entry(&event.trace).or_default().take(index as u64 + 1, &event.json);
    }
    let mut answers = Map::new();
    let each = |of: &dyn Fn(&str, &Trace) -> Vec<Value>| -> Value {
        order.iter().flat_map(|name| of(name, &traces[name])).collect()
    };
    answers.insert("traces".into(), each(&|name, trace| vec![trace.summary(name)]));
    answers.insert("details".into(), each(&|name, trace| vec![trace.detail(name)]));
    answers.insert("pending_evaluations".into(), each(&|name, trace| trace.pending_evaluations(name)));
    answers.insert("pending_by_document".into(), each(&|name, trace| trace.pending_by_document(name)));
    answers.insert("extractions".into(), each(&|name, trace| trace.all_extractions(name)));
    answers.insert("pending_extractions".into(), each(&|name, trace| trace.pending_extractions(name)));
    answers.insert("pending_reflections".into(), each(&|name, trace| trace.pending_reflection(name)));
    answers.insert("exports".into(), each(&|_, trace| vec![Value::from(trace.exported.clone())]));
    Value::Object(answers)
}

#[derive(Default)]
struct Trace {
    events: u64,
    by_type: BTreeMap<String, u64>,
    latest: Option<i64>,
    latest_message: Option<i64>,
    first_time: i64,
    last_time: i64,
    info: BTreeMap<&'static str, Value>,
    goals: BTreeMap<String, BTreeMap<&'static str, Value>>,
    /// Position and query.
    queries: Vec<(u64, Value)>,
    /// Position and evaluation.
    evaluations: Vec<(u64, Value)>,
    extractions: BTreeMap<String, Vec<(u64, Value)>>,
    reflections: Vec<Value>,
    exported: Vec<Value>,
}

const INFO: [&str; 4] = ["task", "identity", "agent_type", "owner"];
const GOAL: [&str; 3] = ["description", "status", "parent_id"];
const KNOWN: [&str; 11] = [
    "query",
    "evaluation",
    "extraction_pending",
    "extraction_reviewed",
    "extraction_committed",
    "reflection",
    "trace_started",
    "message",
    "goal_changed",
    "trigger_fired",
    "trace_finished",
];
/// Kinds that surround the cognition events and are never exported.
const NOT_EXPORTED: [&str; 5] = ["trace_started", "message", "goal_changed", "trigger_fired", "trace_finished"];

impl Trace {
    fn take(&mut self, position: u64, event: &Value) {
        let kind = event["type"].as_str().unwrap();
        let known = if KNOWN.contains(&kind) { kind } else { "unknown" };
        let sequence = event["sequence"].as_i64();
        if self.events == 0 {
            self.first_time = micros(event);
        }
        self.events += 1;
        *self.by_type.entry(known.to_owned()).or_default() += 1;
        self.latest = self.latest.max(sequence);
        self.last_time = micros(event);
        if !NOT_EXPORTED.contains(&kind) {
            self.exported.push(event.clone());
        }
        match kind {
            "message" => self.latest_message = self.latest_message.max(sequence),
            "trace_started" => {
                for key in INFO.into_iter().filter(|key| !event[key].is_null()) {
                    self.info.insert(key, event[key].clone());
                }
                self.info.remove("status");
                self.info.remove("error_type");
            }
            "trace_finished" => {
                self.info.insert("status", event["status"].clone());
                self.info.insert("error_type", event["error_type"].clone());
            }
            "goal_changed" => {
                let goal = self.goals.entry(event["goal_id"].as_str().unwrap().to_owned()).or_default();
                for key in GOAL.into_iter().filter(|key| !event[key].is_null()) {
                    goal.insert(key, event[key].clone());
                }
            }
            "query" => self.queries.push((position, event.clone())),
            "evaluation" => self.evaluations.push((position, event.clone())),
            "extraction_pending" | "extraction_reviewed" | "extraction_committed" => {
                let id = event["extraction_id"].as_str().unwrap().to_owned();
                self.extractions.entry(id).or_default().push((position, event.clone()));
            }
            "reflection" => self.reflections.push(event.clone()),
            _ => {}
        }
    }

    /// The latest word on each source of queries with a sequence, and how many evaluations there were.
    fn assessed(&self, sequence: &Value) -> (u64, Map<String, Value>) {
        let mut sources: BTreeMap<String, Value> = BTreeMap::new();
        let mut evaluations = 0;
        for (position, evaluation) in self.evaluations.iter().filter(|(_, event)| event["query_sequence"] == *sequence)
        {
            evaluations += 1;
            for assessment in evaluation["assessments"].as_array().unwrap() {
                let id = assessment["source_id"].as_str().unwrap();
                let times = sources.get(id).map_or(0, |earlier| earlier["times"].as_u64().unwrap()) + 1;
                let latest = json!({
                    "status": assessment["status"], "reason": assessment["reason"], "trigger": evaluation["trigger"],
                    "position": position, "time": micros(evaluation), "times": times,
                });
                sources.insert(id.to_owned(), latest);
            }
        }
        (evaluations, sources.into_iter().collect())
    }

    fn missing(&self, query: &Value) -> Vec<Value> {
        let (_, known) = self.assessed(&query["sequence"]);
        let mut missing: Vec<Value> = Vec::new();
        for id in query["source_ids"].as_array().unwrap() {
            if !known.contains_key(id.as_str().unwrap()) && !missing.contains(id) {
                missing.push(id.clone());
            }
        }
        missing
    }

    fn pending_query(&self, name: &str, position: u64, query: &Value, missing: Value) -> Value {
        json!({
            "trace_id": name, "query_sequence": query["sequence"], "query": query["query"],
            "missing_source_ids": missing, "position": position, "time": micros(query),
        })
    }

    fn pending_evaluations(&self, name: &str) -> Vec<Value> {
        let missing = self.queries.iter().map(|(position, query)| (position, query, self.missing(query)));
        let pending = missing.filter(|(_, _, missing)| !missing.is_empty());
        pending.map(|(position, query, missing)| self.pending_query(name, *position, query, missing.into())).collect()
    }

    fn pending_by_document(&self, name: &str) -> Vec<Value> {
        let silent = self.queries.iter().filter(|(_, query)| self.assessed(&query["sequence"]).0 == 0);
        silent
            .map(|(position, query)| self.pending_query(name, *position, query, query["source_ids"].clone()))
            .collect()
    }

    fn extraction(&self, id: &str) -> Value {
        let mut row = json!({
            "extraction_id": id, "position": 0, "sequence": null, "trigger": null, "branch_id": null, "time": 0,
            "original": item(&Value::Null), "decisions": [], "outcomes": [], "outcome": null,
        });
        let (mut state, mut current, mut version) = ("pending", item(&Value::Null), 0);
        for (position, event) in &self.extractions[id] {
            match event["type"].as_str().unwrap() {
                "extraction_pending" => {
                    for key in ["sequence", "trigger", "branch_id"] {
                        row[key] = event[key].clone();
                    }
                    (row["position"], row["time"]) = ((*position).into(), micros(event).into());
                    row["original"] = item(&event["item"]);
                    current = row["original"].clone();
                }
                "extraction_reviewed" => {
                    version += 1;
                    let decision = event["decision"].as_str().unwrap();
                    let edit = edit(&event["edited"]);
                    row["decisions"].as_array_mut().unwrap().push(json!({
                        "position": position, "decision": decision, "version": version,
                        "reviewer": event["reviewer"], "reason": event["reason"], "content": edit["content"],
                        "edited": edit, "time": micros(event),
                    }));
                    if state == "committed" {
                        continue;
                    }
                    // What was edited stays, whatever is decided later.
                    if decision == "edit" {
                        for (key, value) in edit.as_object().unwrap().iter().filter(|(_, value)| !value.is_null()) {
                            current[key] = value.clone();
                        }
                    }
                    state = match decision {
                        "approve" => "approved",
                        "edit" => "edited",
                        "discard" => "discarded",
                        _ => "pending",
                    };
                }
                _ => {
                    let outcome = json!({
                        "position": position, "outcome": event["outcome"], "knowledge_id": event["knowledge_id"],
                        "error": event["error"],
                    });
                    row["outcomes"].as_array_mut().unwrap().push(outcome.clone());
                    row["outcome"] = outcome;
                    if event["outcome"] != "failed" {
                        state = "committed";
                    }
                }
            }
        }
        (row["state"], row["version"], row["current"]) = (state.into(), version.into(), current);
        row
    }

    fn all_extractions(&self, name: &str) -> Vec<Value> {
        self.extractions.keys().map(|id| of_trace(name, self.extraction(id))).collect()
    }

    fn pending_extractions(&self, name: &str) -> Vec<Value> {
        let mut pending = self.all_extractions(name);
        pending.retain(|row| row["state"] == "pending" && row["position"] != 0);
        pending.sort_by_key(|row| row["position"].as_u64());
        pending
    }

    fn reflected(&self) -> Option<i64> {
        self.reflections.iter().filter_map(|reflection| reflection["reflected_range"][1].as_i64()).max()
    }

    fn pending_reflection(&self, name: &str) -> Vec<Value> {
        let Some(latest) = self.latest_message.or(self.latest) else { return Vec::new() };
        if self.reflected().is_some_and(|reflected| reflected >= latest) {
            return Vec::new();
        }
        vec![json!({
            "trace_id": name, "reflected_at_sequence": self.reflected(), "latest_sequence": latest,
            "identity": self.info.get("identity"),
        })]
    }

    fn summary(&self, name: &str) -> Value {
        let mut summary = json!({
            "trace_id": name, "status": self.info.get("status"), "error_type": self.info.get("error_type"),
            "events": self.events, "by_type": self.by_type, "latest_sequence": self.latest,
            "latest_message_sequence": self.latest_message, "first_time": self.first_time,
            "last_time": self.last_time, "pending_evaluations": self.pending_evaluations(name).len(),
            "pending_extractions": self.pending_extractions(name).len(), "reflected_at_sequence": self.reflected(),
        });
        for key in INFO {
            summary[key] = json!(self.info.get(key));
        }
        summary
    }

    fn detail(&self, name: &str) -> Value {
        let mut detail = self.summary(name);
        let goal = |goal: &BTreeMap<&str, Value>| {
            GOAL.into_iter().map(|key| (key.to_owned(), json!(goal.get(key)))).collect::<Map<String, Value>>()
        };
        detail["goals"] = self.goals.iter().map(|(id, found)| (id.clone(), Value::Object(goal(found)))).collect();
        detail["queries"] = self
            .queries
            .iter()
            .map(|(position, query)| {
                json!({
                    "position": position, "sequence": query["sequence"], "goal_id": query["goal_id"],
                    "query": query["query"], "source_ids": query["source_ids"], "time": micros(query),
                    "assessments": self.assessed(&query["sequence"]).1, "missing_source_ids": self.missing(query),
                })
            })
            .collect();
        detail["extractions"] = self.extractions.keys().map(|id| self.extraction(id)).collect();
        let undigested = self.reflections.iter().filter(|reflection| reflection["digested_by"].is_null()).count();
        detail["reflections"] = json!({
            "reflected_at_sequence": self.reflected(), "reflections": self.reflections.len(), "undigested": undigested,
        });
        let mut orphans: Vec<i64> =
            self.evaluations.iter().filter_map(|(_, event)| event["query_sequence"].as_i64()).collect();
        orphans.retain(|sequence| !self.queries.iter().any(|(_, query)| query["sequence"] == *sequence));
        orphans.sort_unstable();
        orphans.dedup();
        detail["orphan_evaluations"] = orphans.into();
        detail
    }
}

fn of_trace(name: &str, mut row: Value) -> Value {
    row["trace_id"] = name.into();
    row
}

/// An item as the queue shows it: every field there, free JSON as text.
fn item(of: &Value) -> Value {
    let mut item = edit_fields(of);
    for (key, empty) in [("types", json!([])), ("content", json!(""))] {
        if item[key].is_null() {
            item[key] = empty;
        }
    }
    item
}

fn edit(of: &Value) -> Value {
    if of.is_null() { Value::Null } else { edit_fields(of) }
}

fn edit_fields(of: &Value) -> Value {
    let as_text = |key: &str| (!of[key].is_null()).then(|| of[key].to_string());
    json!({
        "types": of["types"], "task": of["task"], "content": of["content"], "score": as_text("score"),
        "tags": as_text("tags"), "scopes": of["scopes"], "resource_ids": of["resource_ids"], "owner": of["owner"],
        "source": as_text("source"),
    })
}
