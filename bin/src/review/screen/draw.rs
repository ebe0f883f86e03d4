//! What is to be seen of the screen's state. Attributes only, no colours, so that it is the same everywhere.

use cognilog::ReviewEntry;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph};

use super::state::{Mode, Screen, position_of};
use super::text::{fit, fold};
use crate::output::{printable, time};
use crate::review::types;

/// Characters of a knowledge text that the detail shows, and of each message.
const TEXT_CHARACTERS: usize = 20_000;
const MESSAGE_CHARACTERS: usize = 1_000;

const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);

const KEYS: [(&str, &str); 13] = [
    ("a", "approve it as it stands"),
    ("e", "edit it in $EDITOR, and approve it with the changes"),
    ("d", "discard it"),
    ("s", "skip it: it goes on waiting"),
    ("A  D", "approve or discard its whole group"),
    ("u", "undo your last act"),
    ("Enter", "show it whole, with the messages around it"),
    ("g", "similar ones together, or the oldest first"),
    ("/", "filter by words of text, task, type, trace or id; Esc ends it"),
    ("↑ ↓ j k", "move; in the detail scroll, ← → move"),
    ("PgUp PgDn", "a page up or down; Home and End"),
    ("?", "these keys"),
    ("q", "back, and from the list quit; so does Ctrl-C"),
];

pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let [header, body, message, keys] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(row(&heading(screen), header, REVERSED), header);
    match screen.mode {
        Mode::Detail => detail(frame, screen, body),
        _ => list(frame, screen, body),
    }
    let said = match screen.mode {
        Mode::Filter => format!("filter: {}▏", screen.filter),
        _ if screen.message.is_empty() && !screen.filter.is_empty() => format!("filter: {}", screen.filter),
        _ => screen.message.clone(),
    };
    frame.render_widget(row(&said, message, BOLD), message);
    let hint = match screen.mode {
        Mode::Filter => "Enter keeps the filter  Esc ends it",
        Mode::Detail => "a approve  e edit  d discard  s skip  u undo  A/D group  ←→ ↑↓  ? help  q back",
        _ => "a approve  e edit  d discard  s skip  u undo  A/D group  Enter / g ? help q quit",
    };
    frame.render_widget(row(hint, keys, DIM), keys);
    if screen.mode == Mode::Help {
        help(frame, body);
    }
}

fn row(text: &str, area: Rect, style: Style) -> Line<'static> {
    Line::styled(fit(text, area.width as usize), style)
}

fn heading(screen: &Screen) -> String {
    let overdue = screen.entries.iter().filter(|entry| entry.is_overdue).count();
    let mut heading = format!(" cognilog review · {} pending", screen.entries.len());
    if screen.listed.len() < screen.entries.len() {
        heading.push_str(&format!(" ({} shown)", screen.listed.len()));
    }
    if overdue > 0 {
        heading.push_str(&format!(" · {overdue} overdue (!)"));
    }
    heading + &format!(" · as {}", screen.reviewer)
}

fn list(frame: &mut Frame<'_>, screen: &Screen, area: Rect) {
    let rows = area.height as usize;
    screen.page.set(rows.max(1));
    if screen.listed.is_empty() {
        let text = if screen.entries.is_empty() { "Nothing waits." } else { "Nothing matches the filter." };
        frame.render_widget(Line::from(text), area);
        return;
    }
    let top = screen.cursor.saturating_sub(rows / 2).min(screen.listed.len().saturating_sub(rows));
    for (offset, index) in screen.listed.iter().skip(top).take(rows).enumerate() {
        let entry = &screen.entries[*index];
        let line = Rect { y: area.y + offset as u16, height: 1, ..area };
        let style = if top + offset == screen.cursor { REVERSED } else { Style::new() };
        frame.render_widget(Line::styled(entry_row(entry, screen.is_grouped, area.width as usize), style), line);
    }
}

/// Age, kind, trace and the beginning of the text; the later ones of a group behind its first.
fn entry_row(entry: &ReviewEntry, is_grouped: bool, width: usize) -> String {
    let extraction = &entry.pending.extraction;
    let age = format!("{}d{}", entry.age_days, if entry.is_overdue { "!" } else { " " });
    let is_first = position_of(entry) == entry.group;
    let mark = match entry.group_size {
        1 => String::new(),
        size if is_first || !is_grouped => format!("×{size}"),
        _ => " └".to_owned(),
    };
    let trace_width = if width >= 110 { 26 } else { 14 };
    let start = format!(
        "{age:>6} {} {} {} ",
        fit(&mark, 3),
        fit(&types(extraction), 10),
        fit(&entry.pending.trace_id, trace_width)
    );
    let left = width.saturating_sub(super::text::width(&start));
    start + &fit(&extraction.current.content, left)
}

fn detail(frame: &mut Frame<'_>, screen: &Screen, area: Rect) {
    let Some(entry) = screen.current() else { return };
    let width = area.width.saturating_sub(2) as usize;
    let lines = detail_lines(screen, entry, width);
    let rows = area.height as usize;
    screen.page.set(rows.saturating_sub(1).max(1));
    screen.scroll_max.set(lines.len().saturating_sub(rows));
    let top = screen.scroll.min(screen.scroll_max.get());
    let shown: Vec<Line<'static>> = lines.into_iter().skip(top).take(rows).collect();
    frame.render_widget(Paragraph::new(shown), Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area });
}

fn detail_lines(screen: &Screen, entry: &ReviewEntry, width: usize) -> Vec<Line<'static>> {
    let extraction = &entry.pending.extraction;
    let current = &extraction.current;
    let mut lines: Vec<Line<'static>> = Vec::new();
    let mut push = |text: String, style: Style| lines.push(Line::styled(text, style));
    let place = format!("[{}/{}]", screen.cursor + 1, screen.listed.len());
    push(fit(&format!("{place} {} · {}", types(extraction), extraction.extraction_id), width), BOLD);
    let overdue = if entry.is_overdue { ", overdue" } else { "" };
    let age = format!("{} days old{overdue}", entry.age_days);
    push(
        fit(&format!("trace {} · {age} · version {}", entry.pending.trace_id, extraction.version), width),
        Style::new(),
    );
    let list = |texts: &Option<Vec<String>>| texts.as_ref().map(|texts| texts.join(", "));
    for (label, value) in [
        ("task", current.task.clone()),
        ("score", current.score.clone()),
        ("tags", current.tags.clone()),
        ("scopes", list(&current.scopes)),
        ("resources", list(&current.resource_ids)),
        ("owner", current.owner.clone()),
        ("source", current.source.clone()),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            push(fit(&format!("{label:<9} {value}"), width), Style::new());
        }
    }
    push("─".repeat(width), DIM);
    fold(&current.content, width, TEXT_CHARACTERS).into_iter().for_each(|line| push(line, Style::new()));
    push("─".repeat(width), DIM);
    for (key, what) in consequences(entry) {
        push(fit(&format!("{key} {what}"), width), Style::new());
    }
    for decision in &extraction.decisions {
        let who = decision.reviewer.as_deref().unwrap_or("somebody");
        let what = format!("{} {who}: {} (version {})", time(decision.time), decision.decision, decision.version);
        push(fit(&what, width), DIM);
    }
    let sequence = extraction.sequence.map_or("-".to_owned(), |sequence| sequence.to_string());
    push(fit(&format!("── messages around sequence {sequence} "), width), DIM);
    let messages = screen.messages.as_ref().filter(|(position, _)| *position == extraction.position);
    match messages.map(|(_, messages)| messages.as_slice()).unwrap_or_default() {
        [] => push("none are recorded".to_owned(), DIM),
        messages => {
            for message in messages {
                let mark = if Some(message.sequence) == extraction.sequence { "▶" } else { " " };
                push(fit(&format!("{mark} {} {}", message.sequence, printable(&message.role, 40)), width), BOLD);
                let text = fold(&message.text, width.saturating_sub(4), MESSAGE_CHARACTERS);
                text.into_iter().for_each(|line| push(format!("    {line}"), Style::new()));
            }
        }
    }
    lines
}

/// What each decision will do.
fn consequences(entry: &ReviewEntry) -> Vec<(&'static str, String)> {
    let version = entry.pending.extraction.version + 1;
    let mut consequences = vec![
        ("a", format!("approved as it stands (version {version}): the next commit sends it to the hub")),
        ("e", "every field in $EDITOR; saved, it is approved with your changes".to_owned()),
        ("d", "discarded: it reaches no hub; until a commit it can be undone or withdrawn".to_owned()),
    ];
    if entry.group_size > 1 {
        consequences.push(("A D", format!("the same for all {} that say nearly the same", entry.group_size)));
    }
    consequences
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let width = area.width.min(74);
    let height = area.height.min(KEYS.len() as u16 + 2);
    let place = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    let lines: Vec<Line<'static>> =
        KEYS.iter().map(|(key, what)| Line::from(format!(" {} {what}", fit(key, 9)))).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys · any key closes ")), place);
}
