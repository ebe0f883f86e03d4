//! `completions` and `man`: what shells and `man` want to know.

use clap::CommandFactory;

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn completions(shell: clap_complete::Shell, output: &mut Output) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "cognilog", &mut script);
    output.raw(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

pub(crate) fn man(output: &mut Output) -> Result<u8, Failure> {
    let mut pages = Vec::new();
    let command = Arguments::command();
    clap_mangen::Man::new(command.clone()).render(&mut pages)?;
    // One page holds every verb, so that `man` needs no folder of pages.
    for verb in command.get_subcommands() {
        let name = format!("cognilog {}", verb.get_name());
        let man = clap_mangen::Man::new(verb.clone().bin_name(name.clone()).display_name(name));
        man.render_synopsis_section(&mut pages)?;
        man.render_description_section(&mut pages)?;
        man.render_options_section(&mut pages)?;
    }
    output.raw(&String::from_utf8_lossy(&pages))?;
    Ok(0)
}
