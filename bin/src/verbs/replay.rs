//! `replay`: a trace event by event, with what each changed.

use std::io::BufRead;
use std::ops::ControlFlow;

use cognilog::{At, Engine, Position, ReplayStep, TraceId};

use super::Place;
use crate::arguments::ReplayArguments;
use crate::failure::Failure;
use crate::output::{Output, note, printable};

pub(crate) fn run(place: &Place, arguments: &ReplayArguments, output: &mut Output) -> Result<u8, Failure> {
    let name = arguments.trace.as_str();
    let trace = TraceId::new(name.strip_prefix("trace:").unwrap_or(name)).map_err(cognilog::Error::from)?;
    let at = arguments.until.map_or(At::Head, At::Sequence);
    let engine = place.read()?;
    if arguments.step {
        return step(&engine, &trace, at, output);
    }
    let mut failure = None;
    engine.replay(&trace, at, |step| {
        let printed = if output.json { output.object(&step) } else { print(&step, output) };
        match printed {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failure.map_or(Ok(0), Err)
}

fn print(step: &ReplayStep, output: &mut Output) -> Result<(), Failure> {
    let sequence = step.sequence.map_or("-".to_owned(), |sequence| sequence.to_string());
    output.line(&format!(
        "{:>6}  {}  {:<22} sequence {sequence:>5}  {}",
        step.position.0,
        step.time.to_text(),
        step.kind.as_str(),
        printable(&step.json, 100)
    ))?;
    for change in &step.changes {
        let sign = match (&change.before, &change.after) {
            (None, _) => '+',
            (_, None) => '-',
            _ => '~',
        };
        let row = change.after.as_ref().or(change.before.as_ref());
        let row = row.map_or(String::new(), ToString::to_string);
        let key = printable(&change.key, 80);
        output.line(&format!("        {sign} {}/{key} {}", change.projection, printable(&row, 140)))?;
    }
    Ok(())
}

const COMMANDS: &str = "Enter or n forward, b back, a number jumps, s shows the state, q ends";

/// One event at a time: each command is one line, so that it works in a terminal and in a script.
fn step(engine: &Engine, trace: &TraceId, at: At, output: &mut Output) -> Result<u8, Failure> {
    let mut positions: Vec<Position> = Vec::new();
    engine.replay(trace, at, |step| {
        positions.push(step.position);
        ControlFlow::Continue(())
    })?;
    let last = positions.len();
    note(&format!("{last} events; {COMMANDS}"));
    let mut current: Option<usize> = None;
    let mut lines = std::io::stdin().lock().lines();
    loop {
        let command = match lines.next() {
            Some(line) => {
                line.map_err(|error| Failure::new(1, "io_error", format!("cannot read commands: {error}")))?
            }
            None => return Ok(0),
        };
        let wanted = match (command.trim(), current) {
            ("" | "n", None) => Some(0),
            ("" | "n", Some(index)) => Some(index + 1),
            ("b" | "p", index) => index.and_then(|index| index.checked_sub(1)),
            ("s", None) => {
                note("no event was taken yet: Enter takes the first");
                continue;
            }
            ("s", Some(index)) => {
                for (key, row) in engine.state_at(trace, At::Position(positions[index]))? {
                    output.line(&format!("  {} {}", printable(&key, 100), printable(&row.to_string(), 200)))?;
                }
                output.flush()?;
                continue;
            }
            ("q", _) => return Ok(0),
            (number, _) => match number.parse::<usize>() {
                Ok(number) => number.checked_sub(1),
                Err(_) => {
                    note(&format!("{:?} is no command; {COMMANDS}", printable(number, 40)));
                    continue;
                }
            },
        };
        let Some(index) = wanted.filter(|index| *index < positions.len()) else {
            note(&format!("there is no event there: 1 to {last}"));
            continue;
        };
        current = Some(index);
        let mut failure = None;
        engine.replay(trace, At::Position(positions[index]), |step| {
            if step.position == positions[index] {
                let heading = output.line(&format!("[{}/{last}]", index + 1));
                failure = heading.and_then(|()| print(&step, output)).err();
            }
            ControlFlow::Continue(())
        })?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        output.flush()?;
    }
}
