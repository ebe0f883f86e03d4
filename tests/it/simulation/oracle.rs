//! The oracle: it owns what was acknowledged, and holds an engine after a failure against it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use cognilog::{Engine, Error, Position};
use serde_json::{Value, json};

use super::model::{LoggedEvent, answers};
use super::workload::PlannedAppend;
use crate::common::id;

/// What is wrong with an engine.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// lost, partial, unopenable, wrong, stuck or panic.
    pub(crate) kind: &'static str,
    pub(crate) detail: String,
}

pub(crate) type Judged<T> = Result<T, Finding>;

pub(crate) fn finding<T>(kind: &'static str, detail: impl Into<String>) -> Judged<T> {
    Err(Finding { kind, detail: detail.into() })
}

/// An error where there must be none.
pub(crate) fn stuck<T>(what: &str, result: Result<T, Error>) -> Judged<T> {
    result.or_else(|error| finding("stuck", format!("{what}: {}: {error}", error.code())))
}

/// Runs a judgement; a panic in it is a finding.
pub(crate) fn judged<T>(judge: impl FnOnce() -> Judged<T>) -> Judged<T> {
    catch_unwind(AssertUnwindSafe(judge)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        finding("panic", text.unwrap_or_default())
    })
}

/// The appends in the order of the log, each with the operation of the disk at which it was handed in and the one at
/// which it was acknowledged.
pub(crate) struct Oracle {
    pub(crate) appends: Vec<PlannedAppend>,
    pub(crate) submitted_at: Vec<Option<u64>>,
    pub(crate) acknowledged_at: Vec<Option<u64>>,
    /// Events behind each append.
    ends: Vec<usize>,
    events: Vec<LoggedEvent>,
    /// What must be answered for a log of so many events.
    expected: Mutex<HashMap<usize, Arc<Value>>>,
}

impl Oracle {
    pub(crate) fn new(appends: Vec<PlannedAppend>) -> Oracle {
        let events = appends.iter().flat_map(|append| &append.events).map(|event| event.logged.clone()).collect();
        let ends = appends.iter().scan(0, |end, append| {
            *end += append.events.len();
            Some(*end)
        });
        Oracle {
            submitted_at: vec![None; appends.len()],
            acknowledged_at: vec![None; appends.len()],
            ends: ends.collect(),
            events,
            appends,
            expected: Mutex::default(),
        }
    }

    pub(crate) fn end(&self, append: usize) -> usize {
        self.ends[append]
    }

    pub(crate) fn all(&self) -> usize {
        self.events.len()
    }

    /// The append that comes behind so many events.
    pub(crate) fn behind(&self, events: usize) -> usize {
        self.ends.iter().take_while(|end| **end <= events).count()
    }

    /// The events that a log must hold at least and may hold at most when the power fails before an operation.
    pub(crate) fn bounds(&self, at: u64) -> (usize, usize) {
        let last = |times: &[Option<u64>], before: u64| {
            let index = times.iter().rposition(|time| time.is_some_and(|time| time <= before));
            index.map_or(0, |index| self.ends[index])
        };
        // What is handed in just before the power fails has not met the disk.
        (last(&self.acknowledged_at, at), at.checked_sub(1).map_or(0, |before| last(&self.submitted_at, before)))
    }

    pub(crate) fn expected(&self, events: usize) -> Arc<Value> {
        let mut known = self.expected.lock().unwrap();
        Arc::clone(known.entry(events).or_insert_with(|| Arc::new(answers(&self.events[..events]))))
    }

    /// Holds an engine against everything: an exact prefix with at least the first and at most the second number of
    /// events, whole appends, right answers, nothing that `verify` finds. Gives how many events it has.
    pub(crate) fn judge(&self, engine: &Engine, (least, most): (usize, usize)) -> Judged<usize> {
        stuck("wait for rebuilds", engine.store().wait_rebuilt().map_err(Error::from))?;
        let count = self.look(engine, (least, most))?;
        let verified = stuck("verify", engine.verify())?;
        if !verified.findings.is_empty() || verified.events != count as u64 {
            return finding("wrong", format!("verify: {} events, {:?}", verified.events, verified.findings));
        }
        Ok(count)
    }

    /// As [`Oracle::judge`], of an engine whose writer may be stopped: projections that are being rebuilt are not asked.
    pub(crate) fn look(&self, engine: &Engine, (least, most): (usize, usize)) -> Judged<usize> {
        let found = stuck("read the log", read(engine))?;
        let count = found.len();
        for (index, event) in found.iter().enumerate() {
            let Some(planned) = self.event(index) else {
                return finding("wrong", format!("position {} holds an event that nobody appended", index + 1));
            };
            let (event_id, logged) = planned;
            if event.0 != event_id || event.1.trace != logged.trace || event.1.json != logged.json {
                return finding("wrong", format!("position {}: {} for {}", index + 1, event.1.json, logged.json));
            }
        }
        if count < least {
            return finding("lost", format!("{least} events were acknowledged, {count} are there"));
        }
        if count > 0 && !self.ends.contains(&count) {
            return finding("partial", format!("{count} events are there, which is within an append"));
        }
        if count > most {
            return finding("wrong", format!("{most} events were handed in, {count} are there"));
        }
        match ask(engine) {
            Ok(answers) => {
                let expected = self.expected(count);
                QUESTIONS.iter().try_for_each(|question| same(question, &answers[question], &expected[question]))?;
            }
            Err(error) if error.code() == "stale_version" => {}
            Err(error) => return stuck("ask", Err(error)),
        }
        Ok(count)
    }

    fn event(&self, index: usize) -> Option<(cognilog::EventId, &LoggedEvent)> {
        let append = self.behind(index);
        let planned = self.appends.get(append)?;
        let first = self.ends[append] - planned.events.len();
        let event = &planned.events[index - first];
        Some((event.event_id, &event.logged))
    }

    /// Every row, of fields that the model does not know too, is the same when it is made again.
    pub(crate) fn judge_rebuilt(&self, engine: &Engine) -> Judged<()> {
        let rows = || -> Result<Vec<_>, Error> {
            let snapshot = engine.snapshot()?;
            let names = snapshot.projections().into_iter().map(|(name, _)| name);
            Ok(names.map(|name| snapshot.projection_rows(name)).collect::<Result<Vec<_>, _>>()?)
        };
        let before = stuck("rows", rows())?;
        stuck("rebuild", engine.rebuild(&[]))?;
        if stuck("rows made again", rows())? != before {
            return finding("wrong", "the rows are others when they are made again");
        }
        Ok(())
    }

    /// The log goes on behind so many events: what is there is answered as a retry, what follows is recorded.
    pub(crate) fn go_on(&self, engine: &Engine, events: usize, appends: usize) -> Judged<usize> {
        let next = self.behind(events);
        let mut end = events;
        for number in next.saturating_sub(1)..self.appends.len().min(next + appends) {
            let receipt = stuck("append", engine.submit(self.appends[number].to_append()))?;
            let first = (self.ends[number] - self.appends[number].events.len()) as u64;
            for (index, recorded) in receipt.events.iter().enumerate() {
                let expected = (Position(first + index as u64 + 1), self.appends[number].events[index].event_id);
                if (recorded.position, recorded.event_id) != expected || receipt.repeated != (number < next) {
                    return finding("wrong", format!("append {number} again is answered with {receipt:?}"));
                }
            }
            end = end.max(self.ends[number]);
        }
        Ok(end)
    }
}

/// Every event of the log.
pub(crate) fn read(engine: &Engine) -> Result<Vec<(cognilog::EventId, LoggedEvent)>, Error> {
    let snapshot = engine.snapshot()?;
    let mut found = Vec::new();
    snapshot.visit(Position(1), snapshot.head(), |event| {
        let stored = event.to_stored();
        assert_eq!(stored.envelope.position.0, found.len() as u64 + 1);
        let json = serde_json::from_str(&stored.json()?).unwrap();
        let cognilog::StreamId::Trace(trace) = event.stream() else { panic!("no trace: {}", event.stream()) };
        let trace = trace.as_str().to_owned();
        found.push((stored.envelope.event_id, LoggedEvent { trace, json }));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// The questions that [`answers`] has the answers to.
pub(crate) const QUESTIONS: [&str; 8] = [
    "traces",
    "details",
    "pending_evaluations",
    "pending_by_document",
    "extractions",
    "pending_extractions",
    "pending_reflections",
    "exports",
];

pub(crate) fn ask_one(engine: &Engine, question: &str) -> Result<Value, Error> {
    let names = || -> Result<Vec<cognilog::TraceId>, Error> {
        Ok(engine.traces()?.iter().map(|summary| id(&summary.trace_id)).collect())
    };
    Ok(match question {
        "traces" => json!(engine.traces()?),
        "details" => json!(names()?.iter().map(|name| engine.trace(name)).collect::<Result<Vec<_>, _>>()?),
        "pending_evaluations" => json!(engine.pending_evaluations(None)?),
        "pending_by_document" => json!(engine.pending_evaluations_by(None, cognilog::PendingRule::Document)?),
        "extractions" => json!(engine.extractions(None)?),
        "pending_extractions" => json!(engine.pending_extractions(None)?),
        "pending_reflections" => json!(engine.pending_reflections(None)?),
        _ => {
            let texts = names()?.iter().map(|name| engine.export(name)).collect::<Result<Vec<_>, _>>()?;
            let files = texts.iter().map(|text| serde_json::from_str::<Value>(text).unwrap());
            files.map(|mut file| file["events"].take()).collect()
        }
    })
}

fn ask(engine: &Engine) -> Result<Value, Error> {
    QUESTIONS.iter().map(|question| Ok(((*question).to_owned(), ask_one(engine, question)?))).collect()
}

pub(crate) fn same(question: &str, found: &Value, expected: &Value) -> Judged<()> {
    match first_difference(found, expected, question.to_owned()) {
        None => Ok(()),
        Some(difference) => finding("wrong", difference),
    }
}

/// Objects whose keys are data: everything else may have fields that the model does not know.
const DATA: [&str; 3] = ["by_type", "assessments", "goals"];

/// Where a value first differs from what is expected, with both. Fields beyond the expected ones are let pass.
fn first_difference(found: &Value, expected: &Value, place: String) -> Option<String> {
    match (found, expected) {
        (Value::Object(left), Value::Object(right)) => {
            let is_data = place.starts_with("exports") || DATA.iter().any(|name| place.ends_with(name));
            if is_data && left.len() != right.len() {
                return Some(format!("{place} has the keys {:?}, expected {:?}", left.keys(), right.keys()));
            }
            right.iter().find_map(|(key, expected)| {
                first_difference(left.get(key).unwrap_or(&Value::Null), expected, format!("{place}.{key}"))
            })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let pairs = left.iter().zip(right).enumerate();
            pairs
                .into_iter()
                .find_map(|(index, (left, right))| first_difference(left, right, format!("{place}[{index}]")))
        }
        (left, right) if left == right => None,
        (left, right) => {
            let short = |value: &Value| value.to_string().chars().take(300).collect::<String>();
            Some(format!("{place} is {}, expected {}", short(left), short(right)))
        }
    }
}
