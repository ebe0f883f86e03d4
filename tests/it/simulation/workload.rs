//! A plan of appends and of everything else that is done to an engine, made from a seed.

use std::collections::BTreeMap;

use cognilog::{Append, AppendEvent, Condition, EventId, EventKind, Position, StreamId};
use serde_json::{Value, json};

use super::model::{LoggedEvent, timestamp};
use crate::common::{Random, id};

/// One event: what is given to the engine, and what the log must hold then.
#[derive(Clone)]
pub(crate) struct PlannedEvent {
    pub(crate) event_id: EventId,
    given: String,
    pub(crate) logged: LoggedEvent,
}

/// One append. Its condition, if it has one, holds where the plan has it.
#[derive(Clone)]
pub(crate) struct PlannedAppend {
    pub(crate) trace: String,
    pub(crate) events: Vec<PlannedEvent>,
    key: Option<String>,
    condition: Option<Condition>,
}

impl PlannedAppend {
    pub(crate) fn to_append(&self) -> Append {
        let mut append = Append::new(id(&self.trace));
        for event in &self.events {
            append = append.event(AppendEvent::from_json(&event.given).unwrap().with_id(event.event_id));
        }
        append = self.condition.iter().cloned().fold(append, Append::condition);
        self.key.iter().fold(append, |append, key| append.key(key.as_bytes()))
    }
}

impl PlannedAppend {
    /// The event under the same identity, with one letter more in a text of its own.
    pub(crate) fn other_content(event: &PlannedEvent) -> PlannedEvent {
        let mut json: Value = serde_json::from_str(&event.given).unwrap();
        json["x"] = "other".into();
        PlannedEvent { given: json.to_string(), ..event.clone() }
    }
}

/// What is done next.
#[derive(Clone)]
pub(crate) enum Step {
    /// An append of the plan, by its number.
    Append(usize),
    /// An append that was acknowledged already, once more.
    Repeat(usize),
    /// An append that must be refused with this code.
    Refused(Box<PlannedAppend>, &'static str),
    Flush,
    Rebuild(Vec<String>),
    Reopen,
    Resume,
}

/// The life of a store.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) appends: Vec<PlannedAppend>,
    pub(crate) steps: Vec<Step>,
}

impl Plan {
    /// A life with so many appends, one caller after the other.
    pub(crate) fn new(seed: u64, appends: usize) -> Plan {
        let mut writer = Author::new(seed);
        let mut plan = Plan { appends: Vec::new(), steps: Vec::new() };
        for number in 0..appends {
            let size = 1 + writer.random.below(4) as usize;
            let trace = writer.trace();
            plan.appends.push(writer.append(&trace, size, true));
            plan.steps.push(Step::Append(number));
            for _ in 0..writer.random.below(3) {
                plan.steps.extend(writer.between(&plan.appends));
            }
        }
        plan
    }

    /// Appends only, without conditions and with nothing left open, so that they may be done in any order by callers at
    /// once; caller and append, each caller's in its order.
    pub(crate) fn crowd(seed: u64, callers: usize, each: usize) -> Vec<Vec<PlannedAppend>> {
        let mut found = Vec::new();
        for caller in 0..callers {
            let mut writer = Author::new(seed.wrapping_mul(31).wrapping_add(caller as u64 + 1));
            writer.namespace = format!("c{caller}-");
            found.push(
                (0..each)
                    .map(|_| {
                        let size = 1 + writer.random.below(3) as usize;
                        let trace = writer.trace();
                        writer.append(&trace, size, false)
                    })
                    .collect(),
            );
        }
        found
    }
}

/// What is known of a trace while the plan is written.
#[derive(Default)]
struct Known {
    latest: Option<i64>,
    queries: Vec<(i64, Vec<String>)>,
    extractions: Vec<String>,
    last: u64,
}

struct Author {
    random: Random,
    traces: BTreeMap<String, Known>,
    /// What the names of traces and ids begin with.
    namespace: String,
    events: u64,
    head: u64,
    seed: u64,
}

const WORDS: [&str; 8] = ["ControlNet", "工具", "prompt", "知识", "naïve", "line\nbreak", "\"quoted\"", "\u{1f600}"];
const SOURCES: [&str; 5] = ["knowledge-a", "knowledge-b", "来源", "w:1", "w:2"];

impl Author {
    fn new(seed: u64) -> Author {
        Author { random: Random(seed), traces: BTreeMap::new(), namespace: String::new(), events: 0, head: 0, seed }
    }

    fn trace(&mut self) -> String {
        let names = ["a", "轨迹-b", "c/d", "e"];
        format!("{}{}", self.namespace, self.random.pick(&names))
    }

    fn text(&mut self) -> String {
        // Some are longer than a block of the tests, and one in forty than several pages.
        let words = match self.random.below(40) {
            0 => 900,
            1..5 => 120,
            _ => 1 + self.random.below(8),
        };
        (0..words).map(|_| self.random.pick(&WORDS)).collect::<Vec<_>>().join(" ")
    }

    fn append(&mut self, trace: &str, size: usize, alone: bool) -> PlannedAppend {
        let (last, head) = (self.traces.entry(trace.to_owned()).or_default().last, self.head);
        let events: Vec<PlannedEvent> = (0..size).map(|_| self.event(trace, alone)).collect();
        self.traces.get_mut(trace).unwrap().last = self.head;
        let stream = StreamId::Trace(id(trace));
        let condition = match self.random.below(4) {
            0 => Some(Condition::StreamAt { stream, position: Position(last) }),
            1 => Some(Condition::NoneSince { stream, kinds: vec![EventKind::Query], after: Position(head) }),
            _ => None,
        };
        let key = self.random.chance(3).then(|| format!("key {}{}", self.namespace, self.events));
        PlannedAppend { trace: trace.to_owned(), events, key, condition: condition.filter(|_| alone) }
    }

    fn event(&mut self, trace: &str, may_be_open: bool) -> PlannedEvent {
        self.events += 1;
        self.head += 1;
        let mut event = self.content(trace);
        event["timestamp"] = timestamp(self.events).into();
        let kind = event["type"].as_str().unwrap().to_owned();
        let known = self.traces.get_mut(trace).unwrap();
        let new_place = matches!(kind.as_str(), "query" | "message" | "a_kind_of_tomorrow");
        let next = if new_place { known.latest.map_or(1, |latest| latest + 1) } else { known.latest.unwrap_or(0) };
        // An open sequence is filled in with the same number that is given otherwise.
        let is_open = may_be_open && self.random.chance(4);
        let with_sequence = |event: &Value| {
            let mut whole = json!({ "type": event["type"], "sequence": next });
            for (key, value) in event.as_object().unwrap() {
                whole[key] = value.clone();
            }
            whole
        };
        known.latest = known.latest.max(Some(next));
        if kind == "query" {
            let sources = event["source_ids"].as_array().unwrap();
            known.queries.push((next, sources.iter().map(|id| id.as_str().unwrap().to_owned()).collect()));
        }
        if kind == "reflection" {
            event["reflected_range"] = json!([0, next]);
        }
        let whole = with_sequence(&event);
        let given = if is_open { event.to_string() } else { whole.to_string() };
        let mut id = [0; 16];
        id[..8].copy_from_slice(&(0x0198_0000_0000_0000 | self.events << 8).to_be_bytes());
        let mut salt = Random(self.seed ^ self.events);
        id[8..].copy_from_slice(&salt.next().to_be_bytes());
        let logged = LoggedEvent { trace: trace.to_owned(), json: whole };
        PlannedEvent { event_id: EventId(id), given, logged }
    }

    fn content(&mut self, trace: &str) -> Value {
        let number = self.events;
        let known = &self.traces[trace];
        let (queries, extractions) = (known.queries.clone(), known.extractions.clone());
        let text = self.text();
        match self.random.below(20) {
            0..5 => {
                let sources: Vec<&str> = (0..self.random.below(4)).map(|_| self.random.pick(&SOURCES)).collect();
                json!({ "type": "query", "query": text, "source_ids": sources, "sources": [] })
            }
            5..9 if !queries.is_empty() => {
                let (sequence, sources) = &queries[self.random.below(queries.len() as u64) as usize];
                // Now and then a query that is never seen.
                let sequence = if self.random.chance(8) { 1_000 + number as i64 } else { *sequence };
                let statuses = ["helpful", "harmful", "unused", "irrelevant", "neutral"];
                let judged = sources.iter().filter(|_| !number.is_multiple_of(3));
                let assessments: Vec<Value> = judged
                    .map(|id| json!({ "source_id": id, "status": self.random.pick(&statuses), "reason": "因为" }))
                    .collect();
                json!({
                    "type": "evaluation", "query_sequence": sequence, "trigger": "goal_completion",
                    "assessments": assessments,
                })
            }
            9..12 => {
                let extraction_id = format!("ext-{}{number}", self.namespace);
                self.traces.get_mut(trace).unwrap().extractions.push(extraction_id.clone());
                let item = json!({ "types": ["tool"], "task": "任务", "content": text, "score": 3.5, "tags": {} });
                json!({
                    "type": "extraction_pending", "extraction_id": extraction_id, "trigger": "compression", "item": item,
                })
            }
            12..15 if !extractions.is_empty() => {
                let extraction_id = &extractions[self.random.below(extractions.len() as u64) as usize];
                let decision = *self.random.pick(&[&"approve", &"edit", &"discard", &"withdraw"]);
                let mut reviewed = json!({
                    "type": "extraction_reviewed", "extraction_id": extraction_id, "decision": decision,
                });
                if decision == "edit" {
                    reviewed["edited"] = json!({ "types": ["strategy"], "content": text });
                }
                reviewed["reviewer"] = "张三".into();
                reviewed
            }
            15 if !extractions.is_empty() => {
                let extraction_id = &extractions[self.random.below(extractions.len() as u64) as usize];
                match self.random.chance(3) {
                    true => json!({
                        "type": "extraction_committed", "extraction_id": extraction_id, "outcome": "failed",
                        "error": "timeout",
                    }),
                    false => json!({
                        "type": "extraction_committed", "extraction_id": extraction_id, "outcome": "saved",
                        "knowledge_id": format!("knowledge-{number}"),
                    }),
                }
            }
            16 => json!({ "type": "reflection", "reflected_range": [0, 0], "summary": text }),
            17 => json!({ "type": "message", "role": "user", "content": text }),
            18 => match self.random.below(3) {
                0 => json!({ "type": "trace_started", "task": text, "identity": "agent-1" }),
                1 => json!({ "type": "goal_changed", "goal_id": "g1", "description": text, "status": "in_progress" }),
                _ => json!({ "type": "trace_finished", "status": "failed", "error_type": "timeout" }),
            },
            _ => json!({ "type": "a_kind_of_tomorrow", "content": text, "number": 1.50, "nested": { "a": [1, null] } }),
        }
    }

    /// What is done beside appends.
    fn between(&mut self, appends: &[PlannedAppend]) -> Option<Step> {
        let earlier = self.random.below(appends.len() as u64) as usize;
        match self.random.below(16) {
            0 | 1 => Some(Step::Flush),
            2 => {
                let names = ["traces", "evaluation_status", "extraction_queue", "reflection_checkpoints"];
                let some = self.random.below(5) as usize;
                Some(Step::Rebuild(names[some.min(4)..].iter().map(|name| (*name).to_owned()).collect()))
            }
            3 | 4 => Some(Step::Reopen),
            5 => Some(Step::Resume),
            6 | 7 => Some(Step::Repeat(earlier)),
            8 => {
                // It looked at the trace before its last append.
                let mut stale = self.refused(&appends[earlier]);
                let stream = StreamId::Trace(id(&stale.trace));
                stale.condition = Some(Condition::StreamAt { stream, position: Position::START });
                Some(Step::Refused(Box::new(stale), "conflict"))
            }
            9 => {
                let mut other = self.refused(&appends[earlier]);
                other.events[0].event_id = appends[earlier].events[0].event_id;
                Some(Step::Refused(Box::new(other), "idempotency_conflict"))
            }
            _ => None,
        }
    }

    /// An append that is never recorded, so that nothing of it is remembered here.
    fn refused(&mut self, like: &PlannedAppend) -> PlannedAppend {
        let text = format!("refused {}", self.random.next());
        let json = json!({ "type": "query", "sequence": 1, "query": text, "source_ids": [], "sources": [] });
        let mut event_id = like.events[0].event_id;
        event_id.0[8..].copy_from_slice(&self.random.next().to_be_bytes());
        let logged = LoggedEvent { trace: like.trace.clone(), json: json.clone() };
        let event = PlannedEvent { event_id, given: json.to_string(), logged };
        PlannedAppend { trace: like.trace.clone(), events: vec![event], key: None, condition: None }
    }
}
