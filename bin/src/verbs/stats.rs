//! `stats`: events and bytes by kind and by trace.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use cognilog::Position;
use serde::Serialize;

use super::Place;
use super::log::type_of;
use crate::failure::Failure;
use crate::output::{Output, note, printable};

/// Traces listed to people.
const TRACES_SHOWN: usize = 20;

#[derive(Default, Serialize)]
struct Size {
    events: u64,
    payload_bytes: u64,
}

impl Size {
    fn add(&mut self, bytes: usize) {
        self.events += 1;
        self.payload_bytes += bytes as u64;
    }
}

pub(crate) fn run(place: &Place, output: &mut Output) -> Result<u8, Failure> {
    let engine = place.read()?;
    let snapshot = engine.snapshot()?;
    let (mut total, mut by_type, mut by_stream) = (Size::default(), BTreeMap::new(), BTreeMap::new());
    snapshot.visit(Position(1), snapshot.head(), |event| {
        let bytes = event.payload().len();
        total.add(bytes);
        by_type.entry(type_of(&event.to_stored())).or_insert_with(Size::default).add(bytes);
        by_stream.entry(event.stream().to_string()).or_insert_with(Size::default).add(bytes);
        Ok(ControlFlow::Continue(()))
    })?;
    let file_bytes = engine.store().health().bytes;
    if output.json {
        output.object(&serde_json::json!({
            "total": total, "file_bytes": file_bytes, "by_type": by_type, "by_stream": by_stream,
        }))?;
        return Ok(0);
    }
    output
        .line(&format!("{} events, {} bytes of payload, file {file_bytes} bytes", total.events, total.payload_bytes))?;
    for (kind, size) in &by_type {
        output.line(&format!(
            "  {:<24} {:>9} events {:>12} bytes",
            printable(kind, 24),
            size.events,
            size.payload_bytes
        ))?;
    }
    let mut largest: Vec<_> = by_stream.iter().collect();
    largest.sort_by_key(|(_, size)| std::cmp::Reverse(size.payload_bytes));
    for (stream, size) in largest.iter().take(TRACES_SHOWN) {
        let stream = printable(stream, 40);
        output.line(&format!("  {stream:<40} {:>9} events {:>12} bytes", size.events, size.payload_bytes))?;
    }
    if largest.len() > TRACES_SHOWN {
        note(&format!("{TRACES_SHOWN} of {} streams, the largest first; --json lists all", largest.len()));
    }
    Ok(0)
}
