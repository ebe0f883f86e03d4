//! The text form of an extraction: every field that a reviewer may edit, read back strictly.

use cognilog::event::{ExtractionEdit, JsonText};
use cognilog::extraction_queue::Item;

/// What stands between the fields and the knowledge itself.
const MARKER: &str = "--- content: everything below this line ---";

const FIELDS: [&str; 8] = ["types", "task", "score", "tags", "scopes", "resource_ids", "owner", "source"];

/// Why a form is not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(crate) struct FormError {
    line: usize,
    reason: String,
}

/// The form of an item, with notes above it.
pub(crate) fn print(item: &Item, notes: &[String]) -> String {
    let mut text = String::new();
    for note in notes {
        text.push_str(&format!("# {}\n", note.replace(['\n', '\r'], " ")));
    }
    for field in FIELDS {
        let value = value_of(item, field);
        text.push_str(&format!("{field}:{}{value}\n", if value.is_empty() { "" } else { " " }));
    }
    text.push_str(&format!("{MARKER}\n{}\n", item.content));
    text
}

fn value_of(item: &Item, field: &str) -> String {
    let text = |text: &Option<String>| line(text.as_deref().unwrap_or_default());
    match field {
        "types" => list(&item.types),
        "task" => text(&item.task),
        "score" => item.score.clone().unwrap_or_default(),
        "tags" => item.tags.clone().unwrap_or_default(),
        "scopes" => list(item.scopes.as_deref().unwrap_or_default()),
        "resource_ids" => list(item.resource_ids.as_deref().unwrap_or_default()),
        "owner" => text(&item.owner),
        _ => item.source.clone().unwrap_or_default(),
    }
}

/// Text on one line: as it is where that can be read back, else as a JSON string.
fn line(text: &str) -> String {
    let is_plain = text == text.trim() && !text.starts_with('"') && !text.contains(char::is_control);
    if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

/// A list on one line: parted by commas where that can be read back, else as a JSON list.
fn list(texts: &[String]) -> String {
    let is_plain = |text: &String| {
        !text.is_empty() && text == text.trim() && !text.starts_with(['"', '[']) && !text.contains(is_special)
    };
    if texts.iter().all(is_plain) { texts.join(", ") } else { serde_json::Value::from(texts.to_vec()).to_string() }
}

fn is_special(character: char) -> bool {
    character == ',' || character.is_control()
}

/// Reads a form back: what differs from the item is the edit. An empty form edits nothing.
///
/// # Errors
/// A line is no field, a field stands twice or is missing, or a value cannot be what it is to be; with the line.
pub(crate) fn parse(form: &str, item: &Item) -> Result<ExtractionEdit, FormError> {
    let mut edit = ExtractionEdit::default();
    if form.trim().is_empty() {
        return Ok(edit);
    }
    let mut seen: Vec<&str> = Vec::new();
    let mut rest = form;
    let mut number = 0;
    loop {
        number += 1;
        let wrong = |reason: String| FormError { line: number, reason };
        if rest.is_empty() {
            return Err(wrong(format!("the line {MARKER:?} is missing")));
        }
        let (text, behind) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = behind;
        let text = text.strip_suffix('\r').unwrap_or(text);
        if text.trim_end() == MARKER {
            break;
        }
        if text.trim().is_empty() || text.starts_with('#') {
            continue;
        }
        let name = text.split(':').next().unwrap_or_default().trim();
        let Some(field) = FIELDS.into_iter().find(|field| *field == name && text.contains(':')) else {
            let shown: String = text.chars().take(40).collect();
            return Err(wrong(format!("{shown:?} is no field; the fields are {}", FIELDS.join(", "))));
        };
        if seen.contains(&field) {
            return Err(wrong(format!("`{field}` stands twice")));
        }
        seen.push(field);
        let value = text.split_once(':').map_or("", |(_, value)| value.trim());
        if value != value_of(item, field) {
            take(&mut edit, field, value).map_err(|reason| wrong(format!("`{field}`: {reason}")))?;
        }
    }
    if let Some(missing) = FIELDS.iter().find(|field| !seen.contains(field)) {
        let reason = format!("`{missing}:` is missing above this line; leave it empty where there is nothing");
        return Err(FormError { line: number, reason });
    }
    let content = rest.strip_suffix('\n').unwrap_or(rest);
    if content != item.content {
        edit.content = Some(content.to_owned());
    }
    Ok(edit)
}

fn take(edit: &mut ExtractionEdit, field: &str, value: &str) -> Result<(), String> {
    match field {
        "types" => edit.types = Some(read_list(value)?),
        "task" => edit.task = Some(read_line(value)?),
        "scopes" => edit.scopes = Some(read_list(value)?),
        "resource_ids" => edit.resource_ids = Some(read_list(value)?),
        "owner" => edit.owner = Some(read_line(value)?),
        "score" if value.is_empty() => return Err("a score that was given cannot be taken away".to_owned()),
        "tags" | "source" if value.is_empty() => return Err("to empty it, write {}".to_owned()),
        "score" => edit.score = Some(read_json(value)?),
        "tags" => edit.tags = Some(read_json(value)?),
        _ => edit.source = Some(read_json(value)?),
    }
    Ok(())
}

fn read_line(value: &str) -> Result<String, String> {
    match value.starts_with('"') {
        true => serde_json::from_str(value).map_err(|error| format!("no JSON string: {error}")),
        false => Ok(value.to_owned()),
    }
}

pub(crate) fn read_list(value: &str) -> Result<Vec<String>, String> {
    if value.starts_with('[') {
        return serde_json::from_str(value).map_err(|error| format!("no JSON list of strings: {error}"));
    }
    Ok(value.split(',').map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect())
}

pub(crate) fn read_json(value: &str) -> Result<JsonText, String> {
    JsonText::new(value).map_err(|error| format!("no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> Item {
        Item {
            types: vec!["tool".to_owned(), "case".to_owned()],
            task: Some("image editing".to_owned()),
            content: "# line one\n\n知识 line two\r\nend".to_owned(),
            score: Some("3.50".to_owned()),
            tags: Some("{\"n\":12345678901234567890}".to_owned()),
            scopes: Some(vec!["org:a,b".to_owned(), " x".to_owned()]),
            resource_ids: None,
            owner: Some("\"quoted\"\nname".to_owned()),
            source: None,
        }
    }

    #[test]
    fn an_untouched_form_edits_nothing() {
        let check = |item: &Item| {
            let form = print(item, &["a note\nof two lines".to_owned()]);
            assert_eq!(parse(&form, item), Ok(ExtractionEdit::default()), "{form}");
        };
        check(&item());
        check(&Item::default());
        check(&Item { content: "\n\n".to_owned(), ..Item::default() });
        check(&Item { types: vec![String::new()], task: Some(" ".to_owned()), ..item() });
        check(&Item { content: format!("{MARKER}\ntask: x"), task: Some("\"".to_owned()), ..item() });
        assert_eq!(parse("  \n", &item()), Ok(ExtractionEdit::default()));
    }

    #[test]
    fn what_is_changed_is_edited() {
        let check = |from: &str, to: &str, expect: ExtractionEdit| {
            let form = print(&item(), &[]);
            assert!(form.contains(from), "{form}");
            assert_eq!(parse(&form.replace(from, to), &item()), Ok(expect), "{to}");
        };
        let json = |text: &str| JsonText::new(text).ok();
        let none = ExtractionEdit::default();
        check("task: image editing", "task:", ExtractionEdit { task: Some(String::new()), ..none.clone() });
        check(
            "task: image editing",
            "task: \"a\\nb\"",
            ExtractionEdit { task: Some("a\nb".to_owned()), ..none.clone() },
        );
        check("tool, case", "strategy", ExtractionEdit { types: Some(vec!["strategy".to_owned()]), ..none.clone() });
        check("score: 3.50", "score: 4", ExtractionEdit { score: json("4"), ..none.clone() });
        check(
            "resource_ids:",
            "resource_ids: [\"a,b\"]",
            ExtractionEdit { resource_ids: Some(vec!["a,b".to_owned()]), ..none.clone() },
        );
        check(
            "source:",
            "source: {\"name\": \"n\"}",
            ExtractionEdit { source: json("{\"name\":\"n\"}"), ..none.clone() },
        );
        check(
            "\r\nend\n",
            "",
            ExtractionEdit { content: Some("# line one\n\n知识 line two".to_owned()), ..none.clone() },
        );
    }

    #[test]
    fn a_form_that_is_not_as_it_was_is_refused_with_its_line() {
        let check = |from: &str, to: &str, line: usize, expect: &str| {
            let form = print(&item(), &["note".to_owned()]).replace(from, to);
            let error = parse(&form, &item()).expect_err(to);
            assert!(error.line == line && error.reason.contains(expect), "{to}: {error}");
        };
        check("task:", "taks:", 3, "no field");
        check("task: image editing", "image editing", 3, "no field");
        check("task:", "types: x\ntask:", 3, "`types` stands twice");
        check("score: 3.50\n", "", 9, "`score:` is missing");
        check(MARKER, "---", 10, "no field");
        check("score: 3.50", "score:", 4, "cannot be taken away");
        check("score: 3.50", "score: very", 4, "no JSON");
        check("tags: {", "tags: ", 5, "no JSON");
        check("resource_ids:", "resource_ids: [1]", 7, "no JSON list");
        check("owner: ", "owner: \"x ", 8, "no JSON string");
        assert_eq!(parse("types: x\n", &item()).map_err(|error| error.line), Err(2));
    }
}
