//! `append`: events from stdin, each answered with a receipt once it is on disk.

use std::io::{BufRead, BufReader, IsTerminal};

use cognilog::{Append, AppendEvent, Condition, Engine, Receipt, StreamId, TraceId};

use super::Place;
use crate::arguments::AppendArguments;
use crate::failure::Failure;
use crate::output::{Output, note};

/// Lines that are recorded together when they are waiting together.
const GROUP_LINES: usize = 512;
/// Longest line, in bytes.
const LINE_BYTES_MAX: usize = 16 << 20;

pub(crate) fn run(place: &Place, arguments: &AppendArguments, output: &mut Output) -> Result<u8, Failure> {
    let trace = TraceId::new(arguments.trace.clone()).map_err(cognilog::Error::from)?;
    let together = arguments.key.is_some() || arguments.expect_position.is_some();
    if std::io::stdin().is_terminal() {
        note("reading events from the terminal, one JSON object a line; Ctrl-D ends");
    }
    let mut lines = Lines::new();
    // Nothing is made or opened for input that is wrong from the start.
    let mut group = lines.group(together)?;
    if group.is_empty() {
        note("no events on stdin: nothing was recorded");
        return Ok(0);
    }
    let engine = place.write_or_create()?;
    while !group.is_empty() {
        if together {
            let mut append = to_append(&trace, &group);
            if let Some(key) = &arguments.key {
                append = append.key(key.as_bytes());
            }
            if let Some(position) = arguments.expect_position {
                let stream = StreamId::Trace(trace.clone());
                let position = position.of(&engine)?;
                append = append.condition(Condition::StreamAt { stream, position });
            }
            print(&engine.submit(append)?, output)?;
        } else {
            submit(&engine, &trace, &group, output)?;
        }
        output.flush()?;
        group = lines.group(together)?;
    }
    lines.finish()?;
    engine.close()?;
    Ok(0)
}

fn to_append(trace: &TraceId, group: &[(usize, AppendEvent)]) -> Append {
    group.iter().fold(Append::new(trace.clone()), |append, (_, event)| append.event(event.clone()))
}

/// Records a group in one append; where that is refused, each line on its own, so that one line fails alone.
fn submit(
    engine: &Engine,
    trace: &TraceId,
    group: &[(usize, AppendEvent)],
    output: &mut Output,
) -> Result<(), Failure> {
    match engine.submit(to_append(trace, group)) {
        Ok(receipt) => return print(&receipt, output),
        Err(error) if group.len() == 1 => return Err(Failure::from(error).at(&format!("line {}", group[0].0))),
        Err(error) if !matches!(error.code(), "idempotency_conflict" | "too_large" | "event_id_twice") => {
            return Err(error.into());
        }
        Err(_) => {}
    }
    for line in group {
        let receipt = engine
            .submit(to_append(trace, std::slice::from_ref(line)))
            .map_err(|error| Failure::from(error).at(&format!("line {}", line.0)))?;
        print(&receipt, output)?;
        output.flush()?;
    }
    Ok(())
}

fn print(receipt: &Receipt, output: &mut Output) -> Result<(), Failure> {
    for event in &receipt.events {
        if output.json {
            output.object(&serde_json::json!({
                "position": event.position.0,
                "event_id": event.event_id.to_string(),
                "sequence": event.sequence,
                "epoch": receipt.epoch,
                "repeated": receipt.repeated,
            }))?;
        } else {
            let sequence = event.sequence.map_or("-".to_owned(), |sequence| sequence.to_string());
            let repeated = if receipt.repeated { " (was there already)" } else { "" };
            output.line(&format!("position {} sequence {sequence} id {}{repeated}", event.position, event.event_id))?;
        }
    }
    Ok(())
}

/// Reads events from stdin, as many at a time as are waiting.
struct Lines {
    input: BufReader<std::io::Stdin>,
    number: usize,
    /// A line that is wrong: said once the lines before it are recorded.
    wrong: Option<Failure>,
}

impl Lines {
    fn new() -> Lines {
        Lines { input: BufReader::with_capacity(1 << 20, std::io::stdin()), number: 0, wrong: None }
    }

    fn group(&mut self, everything: bool) -> Result<Vec<(usize, AppendEvent)>, Failure> {
        let mut group = Vec::new();
        while self.wrong.is_none() {
            let waiting = self.input.buffer().contains(&b'\n');
            if !group.is_empty() && !everything && (!waiting || group.len() >= GROUP_LINES) {
                break;
            }
            let mut line = Vec::new();
            let mut limited = std::io::Read::take(&mut self.input, LINE_BYTES_MAX as u64 + 1);
            limited
                .read_until(b'\n', &mut line)
                .map_err(|error| Failure::new(1, "io_error", format!("cannot read stdin: {error}")))?;
            if line.is_empty() {
                break;
            }
            self.number += 1;
            match self.event(&line) {
                Ok(Some(event)) => group.push((self.number, event)),
                Ok(None) => {}
                Err(failure) => self.wrong = Some(failure.at(&format!("line {}", self.number))),
            }
        }
        // All lines or none: a wrong one refuses those before it too. Alone at the front it is said at once.
        if everything || group.is_empty() { self.finish().map(|()| group) } else { Ok(group) }
    }

    fn event(&self, line: &[u8]) -> Result<Option<AppendEvent>, Failure> {
        if line.len() > LINE_BYTES_MAX {
            return Err(Failure::new(1, "too_large", format!("it is longer than {LINE_BYTES_MAX} bytes")));
        }
        let text = std::str::from_utf8(line)
            .map_err(|error| Failure::new(1, "event_invalid", format!("not UTF-8 at byte {}", error.valid_up_to())))?;
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        if text.is_empty() {
            return Ok(None);
        }
        Ok(Some(AppendEvent::from_json(text).map_err(|error| match error {
            // The event is the line: a place within it is told by its column alone.
            cognilog::Error::InvalidEvent { reason, .. } => {
                let reason = reason.strip_prefix("line 1, ").unwrap_or(&reason);
                Failure::new(1, "event_invalid", reason)
            }
            error => error.into(),
        })?))
    }

    /// Says what was wrong with the last line that was read.
    fn finish(&mut self) -> Result<(), Failure> {
        self.wrong.take().map_or(Ok(()), Err)
    }
}
