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

/// One page holds every verb, so that `cognilog man | man -l -` needs no folder of pages.
pub(crate) fn man(output: &mut Output) -> Result<u8, Failure> {
    let mut command = Arguments::command();
    // The global flags reach the verbs only in a built command.
    command.build();
    let mut page = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    output.raw(&String::from_utf8_lossy(&page))?;
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        let name = format!("cognilog {}", verb.get_name());
        // What every verb takes stands once, in front.
        let own = verb.clone().mut_args(|argument| {
            let is_common = argument.is_global_set() || argument.get_id() == "help";
            argument.hide(is_common)
        });
        let has_options = own.get_arguments().any(|argument| !argument.is_hide_set());
        let man = clap_mangen::Man::new(own.bin_name(name.clone()).display_name(name.clone()));
        let mut section = Vec::new();
        man.render_synopsis_section(&mut section)?;
        man.render_description_section(&mut section)?;
        if has_options {
            man.render_options_section(&mut section)?;
        }
        let section = String::from_utf8_lossy(&section).replace(".SH ", ".SS ");
        output.raw(&format!(".SH \"{}\"\n{section}", name.to_uppercase()))?;
    }
    Ok(0)
}
