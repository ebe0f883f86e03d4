//! The exe `cognilog`: the command line over the library.

mod arguments;
mod failure;
mod output;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Arguments;
use crate::output::Output;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
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
