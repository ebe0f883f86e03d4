//! The exe `cognilog`: the command line over the library.

mod arguments;
mod failure;
mod output;
mod review;
mod verbs;

use std::ffi::OsStr;
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output::Output;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return wrong_use(&error),
    };
    let mut output = Output::new(arguments.json);
    match verbs::run(&arguments, &mut output).and_then(|code| output.finish().map(|()| code)) {
        Ok(code) => ExitCode::from(code),
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(arguments.json);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Help and version go to stdout; wrong use is told on stderr, to programs in the form of every other error.
fn wrong_use(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os().skip(1).take_while(|word| word != OsStr::new("--")).any(|word| word == "--json");
    if !error.use_stderr() || !json {
        // A closed pipe is no failure here either.
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    let text = error.to_string();
    let mut paragraphs = text.split("\n\n");
    let message = paragraphs.next().unwrap_or_default().trim_start_matches("error: ");
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let usage = paragraphs.find(|paragraph| paragraph.starts_with("Usage: "));
    let failure = Failure::usage(message).with_hint(usage.unwrap_or("`cognilog --help` lists verbs and flags"));
    failure.report(true);
    ExitCode::from(failure.exit_code())
}
