//! The commands of `docs/operations.md`, run as they stand there.

use std::process::Command;

use crate::common::*;

/// The blocks marked `sh run`, in order.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        match &mut open {
            None if line == "```sh run" => open = Some(String::new()),
            None => {}
            Some(_) if line == "```" => blocks.extend(open.take()),
            Some(block) => *block += &format!("{line}\n"),
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

#[test]
fn every_block_of_the_document_runs() {
    let place = Place::new();
    let exe = std::path::Path::new(env!("CARGO_BIN_EXE_cognilog")).parent().unwrap();
    let path = format!("{}:{}", exe.display(), std::env::var("PATH").unwrap());
    let blocks = blocks(include_str!("../../../docs/operations.md"));
    assert!(blocks.len() >= 5, "{}", blocks.len());
    for block in blocks {
        let mut command = Command::new("sh");
        command.args(["-euc", &block]).current_dir(place.path("")).env("PATH", &path);
        command.env_remove("COGNILOG_STORE").env("XDG_CONFIG_HOME", place.path("settings"));
        let ran = finish(command, b"");
        assert_eq!(ran.code, 0, "{block}\n{}{}", ran.out, ran.err);
    }
}

#[test]
fn every_finding_of_doctor_has_a_row() {
    let text = include_str!("../../../docs/operations.md");
    let source = include_str!("../../../src/doctor.rs");
    let table = text.split_once("| code |").unwrap().1;
    let codes: Vec<&str> = source
        .match_indices("found.add(")
        .filter_map(|(at, _)| source[at..].split('"').nth(1))
        .filter(|code| code.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'))
        .collect();
    assert!(codes.len() > 10, "{codes:?}");
    for code in codes {
        assert!(table.contains(&format!("`{code}`")), "{code} has no row in docs/operations.md");
    }
}
