//! `log`: every event, for people or as the portable archive.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

use cognilog::{Codec, Engine, EventKind, Followed, Position, StoredEvent, TraceId};
use serde_json::value::RawValue;

use super::Place;
use crate::arguments::LogArguments;
use crate::failure::Failure;
use crate::output::{Output, note, printable};

/// Which events are printed.
struct Wanted<'a> {
    trace: Option<TraceId>,
    kind: Option<&'a str>,
}

impl Wanted<'_> {
    fn takes(&self, event: &StoredEvent) -> bool {
        self.trace.as_ref().is_none_or(|trace| event.stream.as_trace() == Some(trace))
            && self.kind.is_none_or(|kind| kind == type_of(event))
    }
}

pub(crate) fn run(place: &Place, arguments: &LogArguments, output: &mut Output) -> Result<u8, Failure> {
    let engine = place.read()?;
    let trace = arguments.trace.as_deref().map(|name| TraceId::new(name.strip_prefix("trace:").unwrap_or(name)));
    let trace = trace.transpose().map_err(cognilog::Error::from)?;
    // What is followed may begin later; what is only looked at has to be there.
    if let Some(trace) = trace.as_ref().filter(|_| !arguments.follow) {
        engine.trace(trace)?;
    }
    let wanted = Wanted { trace, kind: arguments.kind.as_deref() };
    let from = match arguments.last {
        Some(last) => first_of_last(&engine, &wanted, last)?,
        None => arguments.from.of(&engine)?.max(Position(1)),
    };
    let json = output.json || arguments.ndjson;
    let limit = arguments.limit.unwrap_or(u64::MAX);
    if arguments.follow {
        return follow(&engine, &wanted, from, limit, json, output);
    }
    let mut left = limit;
    let mut failure = None;
    let snapshot = engine.snapshot()?;
    snapshot.visit(from, snapshot.head(), |event| {
        let event = event.to_stored();
        if wanted.takes(&event) {
            if left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            left -= 1;
            if let Err(error) = print(&event, engine.store().epoch(), json, output) {
                failure = Some(error);
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    failure.map_or(Ok(0), Err)
}

/// Where the last so many of the wanted events begin; behind the head if none is wanted.
fn first_of_last(engine: &Engine, wanted: &Wanted<'_>, last: u64) -> Result<Position, Failure> {
    let snapshot = engine.snapshot()?;
    let head = snapshot.head();
    let behind = Position(head.0 + 1);
    if last == 0 {
        return Ok(behind);
    }
    if wanted.trace.is_none() && wanted.kind.is_none() {
        return Ok(Position(head.0.saturating_sub(last) + 1));
    }
    let mut positions = VecDeque::new();
    snapshot.visit(Position(1), head, |event| {
        let event = event.to_stored();
        if wanted.takes(&event) {
            positions.push_back(event.envelope.position);
            if positions.len() as u64 > last {
                positions.pop_front();
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(positions.front().copied().unwrap_or(behind))
}

fn follow(
    engine: &Engine,
    wanted: &Wanted<'_>,
    from: Position,
    limit: u64,
    json: bool,
    output: &mut Output,
) -> Result<u8, Failure> {
    let mut subscription = engine.subscribe(Position(from.0 - 1));
    let mut left = limit;
    while left > 0 {
        // What is there is printed in one go; before waiting for more, the reader gets it.
        let next = match subscription.next(Duration::ZERO)? {
            None => {
                output.flush()?;
                if output.is_reader_gone() {
                    return Ok(0);
                }
                subscription.next(Duration::from_secs(1))?
            }
            next => next,
        };
        match next {
            Some(Followed::Event(event)) if wanted.takes(&event) => {
                print(&event, engine.store().epoch(), json, output)?;
                left -= 1;
            }
            Some(Followed::CaughtUp(position)) => {
                output.flush()?;
                note(&format!("caught up at position {position}; stop with Ctrl-C"));
            }
            _ => {}
        }
    }
    Ok(0)
}

/// The event's `type`, also of a kind that this build does not know.
pub(crate) fn type_of(event: &StoredEvent) -> String {
    if event.envelope.kind != EventKind::Unknown {
        return event.envelope.kind.as_str().to_owned();
    }
    event
        .json()
        .ok()
        .and_then(|text| {
            let node = cognilog::json::Node::parse(&text).ok()?;
            Some(node.get("type")?.as_text()?.to_owned())
        })
        .unwrap_or_else(|| "unknown".to_owned())
}

fn print(event: &StoredEvent, epoch: u64, json: bool, output: &mut Output) -> Result<(), Failure> {
    let envelope = &event.envelope;
    let text = event.json()?;
    if !json {
        let sequence = envelope.sequence.map_or("-".to_owned(), |sequence| sequence.to_string());
        let (position, time) = (envelope.position.0, envelope.time().to_text());
        let (stream, kind) = (printable(&event.stream.to_string(), 40), printable(&type_of(event), 24));
        return output.line(&format!(
            "{position:>7}  {time}  {stream:<32} {kind:<22} sequence {sequence:>5}  {}",
            printable(&text, 100)
        ));
    }
    let mut object = serde_json::json!({
        "epoch": epoch,
        "position": envelope.position.0,
        "stream": event.stream.to_string(),
        "type": type_of(event),
        "sequence": envelope.sequence,
        "event_id": envelope.event_id.to_string(),
        "recorded_at": envelope.recorded_at.to_text(),
        "occurred_at": envelope.occurred_at.map(|time| time.to_text()),
        "imported": envelope.imported,
        "cognition": envelope.is_cognition,
        "typed": event.codec == Codec::Typed,
    });
    // The event's own text stands last and as it is; what is no JSON for other readers (NaN) stands in a string.
    match serde_json::from_str::<&RawValue>(&text) {
        Ok(raw) => {
            let mut line = object.to_string();
            line.pop();
            output.line(&format!("{line},\"event\":{}}}", raw.get()))
        }
        Err(_) => {
            object["event_text"] = text.into();
            output.object(&object)
        }
    }
}
