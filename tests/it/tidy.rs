//! Rules of the workspace that no compiler checks: arrows between crates, first lines, references in documents, words.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What each package may depend on within the workspace; a package on itself is always allowed (features in tests).
const ARROWS: [(&str, &[&str]); 5] = [
    ("cognilog-core", &[]),
    ("cognilog-storage", &["cognilog-core"]),
    ("cognilog-projections", &["cognilog-core", "cognilog-storage"]),
    ("cognilog", &["cognilog-core", "cognilog-storage", "cognilog-projections"]),
    ("cognilog-cli", &["cognilog"]),
];

/// What each package must never depend on from outside, tests included or left out.
const FORBIDDEN: [(&str, &[&str], Tests); 6] = [
    ("cognilog-core", &["axum", "ratatui", "clap"], Tests::Included),
    ("cognilog-core", &["redb", "tokio", "tempfile"], Tests::LeftOut),
    ("cognilog-storage", &["axum", "ratatui", "clap"], Tests::Included),
    ("cognilog-projections", &["axum", "ratatui", "clap"], Tests::Included),
    ("cognilog", &["axum", "ratatui", "clap"], Tests::Included),
    ("cognilog-cli", &["redb"], Tests::Included),
];

#[derive(PartialEq)]
enum Tests {
    Included,
    LeftOut,
}

/// Modules of the library that everyone beside them may use. `model` is a port: several services ask models, none of them
/// owns it, and it uses no service itself.
const SHARED_MODULES: [&str; 6] = ["deciding", "engine", "error", "locate", "model", "prompts"];

/// What one service module may use of another all the same: user, used, names.
const SERVICE_EXCEPTIONS: [(&str, &str, &[&str]); 8] = [
    ("replay", "queries", &["At", "resolve", "stream_number"]),
    ("import", "queries", &["stream_number"]),
    ("compare", "import", &["find_files", "read_file", "trace_of"]),
    ("json_files", "import", &["FileOutcome", "ImportOptions", "read_text"]),
    ("json_files", "queries", &["At"]),
    ("review", "queries", &["PendingExtraction"]),
    ("commit", "review", &["ReviewRejection"]),
    ("session", "commit", &["CommitReport", "CommitSelection", "CommitSink"]),
];

/// Folders that hold code of the workspace.
const CODE: [&str; 8] = ["src", "core", "storage", "projections", "bin", "tests", "benches", "examples"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() && !path.ends_with("target") {
            walk(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Every source file by its path from the root, with its text, in order.
fn sources() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    CODE.iter().for_each(|folder| walk(&root().join(folder), &mut paths));
    paths.sort();
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// The documents at the root and in `docs`.
fn documents() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in ["", "docs/"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                let path = format!("{folder}{name}");
                let text = std::fs::read_to_string(root().join(&path)).unwrap();
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}

fn expect_none(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}:\n{}\n", findings.join("\n"));
}

/// The lines of a file that are code outside tests: no comments, no `#[cfg(test)]` items. Numbered from 1.
fn product_lines(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut skipped_indent = None;
    let mut marked = false;
    for (index, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let code = line.trim();
        if let Some(outer) = skipped_indent {
            if indent == outer && code.starts_with(['}', ')']) {
                skipped_indent = None;
            }
            continue;
        }
        if marked && !code.starts_with("#[") {
            marked = false;
            if !code.ends_with([';', '}']) {
                skipped_indent = Some(indent);
            }
        } else if code.starts_with("#[cfg(test)]") || code.starts_with("#[cfg(all(test") {
            marked = true;
        } else if !marked && !code.starts_with("//") {
            found.push((index + 1, line));
        }
    }
    found
}

/// Files that are compiled for tests only: in a folder for them, or named by a `mod` behind `#[cfg(test)]`.
fn is_test_file(path: &str, sources: &[(String, String)]) -> bool {
    let for_tests = |folder: &&str| matches!(*folder, "tests" | "benches" | "examples");
    if path.split('/').any(|folder| for_tests(&folder)) {
        return true;
    }
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let declarations = [format!("#[path = \"{name}\"]"), format!("mod {};", name.trim_end_matches(".rs"))];
    let siblings =
        sources.iter().filter(|(other, _)| other.rsplit_once('/').map_or("", |(folder, _)| folder) == folder);
    siblings.into_iter().any(|(_, text)| {
        let mut marked = false;
        text.lines().map(str::trim).any(|line| {
            let found = marked && declarations.iter().any(|declaration| line.ends_with(declaration.as_str()));
            marked = line.starts_with("#[cfg(test)]") || (marked && line.starts_with("#["));
            found
        })
    })
}

#[test]
fn no_arrow_between_crates_is_forbidden() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let members: BTreeSet<&str> = packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    let mut findings = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let manifest = Path::new(package["manifest_path"].as_str().unwrap()).strip_prefix(root()).unwrap().display();
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            findings.push(format!("{manifest}:1: {name} has no line in ARROWS"));
            continue;
        };
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            let in_tests = dependency["kind"] == "dev";
            let inside = members.contains(used) && used != name && !allowed.contains(&used);
            let outside = FORBIDDEN.iter().any(|(known, words, tests)| {
                *known == name && words.contains(&used) && (*tests == Tests::Included || !in_tests)
            });
            if inside || outside {
                let text = std::fs::read_to_string(root().join(manifest.to_string())).unwrap();
                let line = text.lines().position(|line| line.starts_with(used)).map_or(1, |index| index + 1);
                findings.push(format!("{manifest}:{line}: {name} must not depend on {used}"));
            }
        }
    }
    expect_none("a forbidden arrow", &findings);
}

#[test]
fn every_source_file_says_what_lives_there() {
    let findings: Vec<String> = sources()
        .iter()
        .filter(|(_, text)| {
            let first = text.lines().next().and_then(|line| line.strip_prefix("//! ")).unwrap_or_default();
            // The sentence may go on over lines; its end is looked for in the first paragraph.
            let paragraph: Vec<&str> =
                text.lines().map_while(|line| line.strip_prefix("//! ")).map(str::trim_end).collect();
            !first.starts_with(|start: char| start.is_alphanumeric() || "`[".contains(start))
                || !paragraph.iter().any(|line| line.ends_with(['.', ':']))
        })
        .map(|(path, _)| format!("{path}:1: the file does not open with a `//!` sentence"))
        .collect();
    expect_none("a file without its sentence", &findings);
}

#[test]
fn every_reference_in_a_document_exists() {
    let mut findings = Vec::new();
    for (document, text) in documents() {
        for (index, line) in text.lines().enumerate() {
            for reference in references(line) {
                if let Err(reason) = look_up(reference) {
                    findings.push(format!("{document}:{}: `{reference}`: {reason}", index + 1));
                }
            }
        }
    }
    expect_none("a reference that leads nowhere", &findings);
}

/// The `path.rs:function` references of a line.
fn references(line: &str) -> impl Iterator<Item = &str> {
    line.split(|character: char| !(character.is_alphanumeric() || "/_.:-".contains(character)))
        .map(|word| word.trim_end_matches(['.', ':']))
        .filter(|word| word.contains(".rs:"))
}

fn look_up(reference: &str) -> Result<(), String> {
    let (path, names) = reference.split_once(':').unwrap();
    let text = std::fs::read_to_string(root().join(path)).map_err(|_| format!("there is no {path}"))?;
    let name = names.rsplit("::").next().unwrap();
    if !name.starts_with(|start: char| start.is_alphabetic() || start == '_') {
        return Err("expected the name of an item behind the colon: line numbers do not last".to_owned());
    }
    let words = ["fn", "struct", "enum", "trait", "const", "static", "type", "mod", "macro_rules!"];
    let declares = |line: &str| {
        words.iter().any(|word| {
            line.match_indices(&format!("{word} {name}")).any(|(at, found)| {
                let before = line[..at].chars().next_back();
                let after = line[at + found.len()..].chars().next();
                let inside = |character: char| character.is_alphanumeric() || character == '_';
                !before.is_some_and(inside) && !after.is_some_and(inside)
            })
        })
    };
    let found = text.lines().filter(|line| !line.trim_start().starts_with("//")).any(declares);
    found.then_some(()).ok_or_else(|| format!("{path} declares no `{name}`"))
}

#[test]
fn nothing_is_left_to_be_done() {
    let words = ["to\u{64}o!", "un\u{69}mplemented!", "db\u{67}!"];
    let mut findings = Vec::new();
    for (path, text) in sources() {
        for (index, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in
                words.iter().filter(|word| code.contains(&format!("{word}(")) || code.contains(&format!("{word}[")))
            {
                findings.push(format!("{path}:{}: {word}", index + 1));
            }
        }
    }
    expect_none("code that is not finished", &findings);
}

#[test]
fn only_tests_unwrap() {
    let sources = sources();
    let mut findings = Vec::new();
    for (path, text) in sources.iter().filter(|(path, _)| !is_test_file(path, &sources)) {
        for (number, line) in product_lines(text) {
            if line.contains(".unwrap()") {
                findings.push(format!("{path}:{number}: {}", line.trim()));
            }
        }
    }
    expect_none("an unwrap outside tests", &findings);
}

#[test]
fn services_meet_in_the_log() {
    let mut findings = Vec::new();
    for (path, text) in sources() {
        let Some(inner) = path.strip_prefix("src/") else { continue };
        let user = inner.split('/').next().unwrap().trim_end_matches(".rs");
        if user == "lib" || SHARED_MODULES.contains(&user) {
            continue;
        }
        let lines = product_lines(&text);
        let joined: String = lines.iter().map(|(number, line)| format!("\u{0}{number}\u{1}{line}\n")).collect();
        for (at, _) in joined.match_indices("crate::") {
            // `$crate::` and `other_crate::` are other paths.
            if joined[..at].ends_with(|before: char| before.is_alphanumeric() || "_$".contains(before)) {
                continue;
            }
            let number = joined[..at].rsplit('\u{0}').next().and_then(|tail| tail.split('\u{1}').next()).unwrap();
            for (used, names) in paths_behind(&joined[at + "crate::".len()..]) {
                if used == user || SHARED_MODULES.contains(&used.as_str()) {
                    continue;
                }
                let allowed = SERVICE_EXCEPTIONS
                    .iter()
                    .filter(|(from, to, _)| *from == user && *to == used)
                    .flat_map(|(_, _, names)| names.iter());
                let allowed: Vec<&str> = allowed.copied().collect();
                for name in names.iter().filter(|name| !allowed.contains(&name.as_str())) {
                    findings.push(format!("src/{inner}:{number}: {user} uses {used}::{name}"));
                }
            }
        }
    }
    expect_none("a service that uses another service", &findings);
}

/// The modules that a path behind `crate::` names, each with the names it takes from them.
fn paths_behind(text: &str) -> Vec<(String, Vec<String>)> {
    match text.strip_prefix('{') {
        Some(inside) => branches(inside).iter().flat_map(|branch| paths_behind(branch)).collect(),
        None => {
            let (used, rest) = identifier(text);
            let names = match rest.strip_prefix("::") {
                Some(rest) => match rest.strip_prefix('{') {
                    Some(inside) => branches(inside).iter().map(|branch| identifier(branch).0).collect(),
                    None => vec![identifier(rest).0],
                },
                None => vec!["*".to_owned()],
            };
            vec![(used, names)]
        }
    }
}

fn identifier(text: &str) -> (String, &str) {
    let end = text.find(|character: char| !(character.is_alphanumeric() || character == '_')).unwrap_or(text.len());
    (text[..end].to_owned(), &text[end..])
}

/// The parts of a braced list of a `use`, which begins behind its brace, without white space and line marks.
fn branches(inside: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut depth, mut in_mark) = (0, false);
    for character in inside.chars() {
        match character {
            '\u{0}' => in_mark = true,
            '\u{1}' => in_mark = false,
            _ if in_mark || character.is_whitespace() => {}
            '}' if depth == 0 => break,
            ',' if depth == 0 => parts.push(String::new()),
            _ => {
                depth += i32::from(character == '{') - i32::from(character == '}');
                parts.last_mut().unwrap().push(character);
            }
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[test]
fn the_rules_see_what_they_should() {
    let text = "a();\n#[cfg(test)]\nmod tests {\n    b.unwrap();\n}\n// c.unwrap()\nd();\n#[cfg(test)]\nmod e;\nf();\n";
    let lines: Vec<&str> = product_lines(text).into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, ["a();", "d();", "f();"]);
    let found = |text: &str| {
        paths_behind(text)
            .into_iter()
            .flat_map(|(used, names)| names.into_iter().map(move |name| format!("{used}::{name}")))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(found("a::{B, c::D};"), "a::B a::c");
    assert_eq!(found("{a::B, c::{d, e}};"), "a::B c::d c::e");
    assert_eq!(found("a::b(c)"), "a::b");
    assert_eq!(
        references("see `src/a.rs:b` and storage/src/c.rs:D::e.").collect::<Vec<_>>(),
        ["src/a.rs:b", "storage/src/c.rs:D::e"]
    );
    assert!(look_up("tests/it/tidy.rs:look_up").is_ok());
    assert!(look_up("tests/it/tidy.rs:look").is_err());
    assert!(look_up("tests/it/tidy.rs:120").is_err());
    assert!(look_up("tests/it/absent.rs:look_up").is_err());
    assert!(is_test_file(
        "storage/src/x.rs",
        &[("storage/src/y.rs".to_owned(), "#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests;\n".to_owned())]
    ));
    assert!(!is_test_file("storage/src/x.rs", &[("storage/src/y.rs".to_owned(), "mod x;\n".to_owned())]));
}
