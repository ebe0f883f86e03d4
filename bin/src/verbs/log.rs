//! `log`: every event, for people or as the portable archive.

use std::ops::ControlFlow;
use std::time::Duration;

use cognilog::{Codec, EventKind, Followed, Position, StoredEvent, TraceId};
use serde_json::value::RawValue;

use super::Place;
use crate::arguments::LogArguments;
use crate::failure::Failure;
use crate::output::{Output, printable};

pub(crate) fn run(place: &Place, arguments: &LogArguments, output: &mut Output) -> Result<u8, Failure> {
    let engine = place.read()?;
    let trace = arguments.trace.clone().map(TraceId::new).transpose().map_err(cognilog::Error::from)?;
    let head = engine.snapshot()?.head();
    let from = match arguments.last {
        Some(last) => head.0.saturating_sub(last).saturating_add(1),
        None => arguments.from.max(1),
    };
    let json = output.json || arguments.ndjson;
    let mut left = arguments.limit.unwrap_or(u64::MAX);
    let wanted = |event: &StoredEvent| {
        trace.as_ref().is_none_or(|trace| event.stream.as_trace() == Some(trace))
            && arguments.kind.as_ref().is_none_or(|kind| *kind == type_of(event))
    };
    if arguments.follow {
        let mut subscription = engine.subscribe(Position(from - 1));
        while left > 0 {
            match subscription.next(Duration::from_secs(1))? {
                Some(Followed::Event(event)) if wanted(&event) => {
                    print(&event, json, output)?;
                    left -= 1;
                }
                Some(Followed::CaughtUp(position)) => {
                    output.flush()?;
                    eprintln!("caught up at position {position}; stop with Ctrl-C");
                }
                Some(_) => {}
                None => output.flush()?,
            }
            if left < u64::MAX {
                output.flush()?;
            }
        }
        return Ok(0);
    }
    let mut failure = None;
    engine.snapshot()?.visit(Position(from), head, |event| {
        let event = event.to_stored();
        if wanted(&event) {
            if left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            left -= 1;
            if let Err(error) = print(&event, json, output) {
                failure = Some(error);
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    failure.map_or(Ok(0), Err)
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

fn print(event: &StoredEvent, json: bool, output: &mut Output) -> Result<(), Failure> {
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
