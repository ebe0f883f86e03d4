//! What the screen knows and what a key does to it.

use std::collections::HashMap;

use cognilog::event::ExtractionEdit;
use cognilog::{ReviewEntry, ReviewRequest, Reviewed, TraceId, TraceMessage, Verdict};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Acted, Desk};
use crate::failure::Failure;
use crate::output::printable;

/// Longest filter, in characters.
const FILTER_CHARACTERS_MAX: usize = 200;

/// What is in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    List,
    /// The extraction under the cursor.
    Detail,
    /// The filter is being typed, over the list.
    Filter,
    Help,
}

/// What the run loop does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    /// Another program had the terminal.
    Anew,
    End,
}

/// The screen's state.
pub(super) struct Screen {
    pub(super) reviewer: String,
    pub(super) entries: Vec<ReviewEntry>,
    /// The entries that are listed, by place in `entries`.
    pub(super) listed: Vec<usize>,
    /// Place in `listed`.
    pub(super) cursor: usize,
    pub(super) mode: Mode,
    pub(super) filter: String,
    /// Whether similar ones stand together; else the oldest comes first.
    pub(super) is_grouped: bool,
    pub(super) message: String,
    /// Lines of the detail that are scrolled away, and the most that can be; the drawing sets the latter.
    pub(super) scroll: usize,
    pub(super) scroll_max: std::cell::Cell<usize>,
    /// Lines that a page has; the drawing sets it.
    pub(super) page: std::cell::Cell<usize>,
    /// The messages around the extraction in front, with its position.
    pub(super) messages: Option<(u64, Vec<TraceMessage>)>,
    /// Texts from the editor that could not be taken, by position.
    drafts: HashMap<u64, String>,
    decided: usize,
}

impl Screen {
    pub(super) fn new(reviewer: String, entries: Vec<ReviewEntry>) -> Screen {
        let mut screen = Screen {
            reviewer,
            entries: Vec::new(),
            listed: Vec::new(),
            cursor: 0,
            mode: Mode::List,
            filter: String::new(),
            is_grouped: true,
            message: String::new(),
            scroll: 0,
            scroll_max: std::cell::Cell::new(0),
            page: std::cell::Cell::new(10),
            messages: None,
            drafts: HashMap::new(),
            decided: 0,
        };
        screen.take(entries);
        screen
    }

    /// The extraction under the cursor.
    pub(super) fn current(&self) -> Option<&ReviewEntry> {
        self.listed.get(self.cursor).map(|index| &self.entries[*index])
    }

    /// What is said when the screen is left.
    pub(super) fn summary(&self) -> String {
        format!("{} decided, {} still wait", self.decided, self.entries.len())
    }

    /// Takes what waits now; the cursor stays on its extraction, or where that one was.
    fn take(&mut self, entries: Vec<ReviewEntry>) {
        let position = self.current().map(position_of);
        self.entries = entries;
        self.list(position);
    }

    fn list(&mut self, position: Option<u64>) {
        let wanted = self.filter.to_lowercase();
        let matches = |entry: &ReviewEntry| wanted.is_empty() || is_match(entry, &wanted);
        self.listed = (0..self.entries.len()).filter(|index| matches(&self.entries[*index])).collect();
        if !self.is_grouped {
            self.listed.sort_by_key(|index| position_of(&self.entries[*index]));
        }
        let place = self.listed.iter().position(|index| Some(position_of(&self.entries[*index])) == position);
        self.cursor = place.unwrap_or(self.cursor).min(self.listed.len().saturating_sub(1));
    }

    /// Does what a key says.
    pub(super) fn key(&mut self, key: KeyEvent, desk: &mut dyn Desk) -> Flow {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Flow::End } else { Flow::On };
        }
        match self.mode {
            Mode::Filter => {
                self.type_filter(key.code);
                Flow::On
            }
            Mode::Help => {
                self.mode = Mode::List;
                Flow::On
            }
            Mode::List | Mode::Detail => {
                self.message.clear();
                match self.act(key.code, desk) {
                    Ok(flow) => flow,
                    Err(failure) => {
                        self.message = printable(failure.message(), 500);
                        // The editor may have had the terminal before it failed.
                        if key.code == KeyCode::Char('e') { Flow::Anew } else { Flow::On }
                    }
                }
            }
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.mode = Mode::List,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::List;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(character) if self.filter.chars().count() < FILTER_CHARACTERS_MAX => {
                self.filter.push(character);
            }
            _ => {}
        }
        let position = self.current().map(position_of);
        self.list(position);
    }

    fn act(&mut self, code: KeyCode, desk: &mut dyn Desk) -> Result<Flow, Failure> {
        let in_detail = self.mode == Mode::Detail;
        match code {
            KeyCode::Char('q') | KeyCode::Esc if in_detail => self.mode = Mode::List,
            KeyCode::Esc if !self.filter.is_empty() => self.type_filter(KeyCode::Esc),
            KeyCode::Char('q') => return Ok(Flow::End),
            KeyCode::Char('?') => self.mode = Mode::Help,
            KeyCode::Char('u') => {
                let acted = desk.undo()?;
                self.tell(&acted, "undone");
                self.decided = self.decided.saturating_sub(acted.iter().flatten().count());
                self.reload(desk)?;
                // What came back is looked at again.
                if let Some(undone) = acted.iter().flatten().next() {
                    let is_it = |index: &usize| {
                        let pending = &self.entries[*index].pending;
                        pending.extraction.extraction_id == undone.extraction_id && pending.trace_id == undone.trace_id
                    };
                    self.cursor = self.listed.iter().position(is_it).unwrap_or(self.cursor);
                    self.open(desk)?;
                }
            }
            KeyCode::Char('/') => (self.mode, self.filter) = (Mode::Filter, String::new()),
            KeyCode::Char('g') => {
                self.is_grouped = !self.is_grouped;
                let position = self.current().map(position_of);
                self.list(position);
                let order = if self.is_grouped { "similar ones together" } else { "the oldest first" };
                order.clone_into(&mut self.message);
            }
            KeyCode::Up | KeyCode::Char('k') if in_detail => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') if in_detail => self.scroll_by(1),
            KeyCode::PageUp if in_detail => self.scroll = self.scroll.saturating_sub(self.page.get()),
            KeyCode::PageDown | KeyCode::Char(' ') if in_detail => self.scroll_by(self.page.get()),
            KeyCode::Home if in_detail => self.scroll = 0,
            KeyCode::End if in_detail => self.scroll = self.scroll_max.get(),
            KeyCode::Up | KeyCode::Char('k') | KeyCode::Left => self.go(-1, desk)?,
            KeyCode::Down | KeyCode::Char('j') | KeyCode::Char('s') | KeyCode::Right => self.go(1, desk)?,
            KeyCode::PageUp => self.go(-(self.page.get() as isize), desk)?,
            KeyCode::PageDown => self.go(self.page.get() as isize, desk)?,
            KeyCode::Home => self.go(isize::MIN, desk)?,
            KeyCode::End => self.go(isize::MAX, desk)?,
            KeyCode::Enter if !in_detail && self.current().is_some() => {
                self.mode = Mode::Detail;
                self.open(desk)?;
            }
            KeyCode::Char('a') => self.decide(desk, Verdict::Approve, false)?,
            KeyCode::Char('d') => self.decide(desk, Verdict::Discard, false)?,
            KeyCode::Char('A') => self.decide(desk, Verdict::Approve, true)?,
            KeyCode::Char('D') => self.decide(desk, Verdict::Discard, true)?,
            KeyCode::Char('e') => return self.edit(desk),
            _ => "? shows the keys".clone_into(&mut self.message),
        }
        Ok(Flow::On)
    }

    fn scroll_by(&mut self, lines: usize) {
        self.scroll = (self.scroll + lines).min(self.scroll_max.get());
    }

    fn go(&mut self, by: isize, desk: &mut dyn Desk) -> Result<(), Failure> {
        let last = self.listed.len().saturating_sub(1);
        self.cursor = (self.cursor as isize).saturating_add(by).clamp(0, last as isize) as usize;
        self.open(desk)
    }

    /// Fetches what the detail shows, if it is in front.
    fn open(&mut self, desk: &mut dyn Desk) -> Result<(), Failure> {
        self.scroll = 0;
        let Some(entry) = self.current().filter(|_| self.mode == Mode::Detail).cloned() else { return Ok(()) };
        let position = position_of(&entry);
        if self.messages.as_ref().is_none_or(|(known, _)| *known != position) {
            self.messages = Some((position, desk.messages(&entry)?));
        }
        Ok(())
    }

    fn reload(&mut self, desk: &mut dyn Desk) -> Result<(), Failure> {
        let entries = desk.load()?;
        self.take(entries);
        if self.listed.is_empty() && self.mode == Mode::Detail {
            self.mode = Mode::List;
        }
        self.open(desk)
    }

    /// Decides on the extraction under the cursor, or on its whole group, whether the filter shows it or not.
    fn decide(&mut self, desk: &mut dyn Desk, verdict: Verdict, whole_group: bool) -> Result<(), Failure> {
        let Some(current) = self.current() else { return Ok(()) };
        let (position, group) = (position_of(current), current.group);
        let is_meant = |entry: &&ReviewEntry| position_of(entry) == position || (whole_group && entry.group == group);
        let word = match verdict {
            Verdict::Discard => "discarded",
            _ => "approved",
        };
        let chosen: Vec<&ReviewEntry> = self.entries.iter().filter(is_meant).collect();
        let requests = chosen.iter().map(|entry| self.request(entry, verdict.clone())).collect::<Result<_, _>>()?;
        self.finish(desk, requests, word)
    }

    fn edit(&mut self, desk: &mut dyn Desk) -> Result<Flow, Failure> {
        let Some(entry) = self.current().cloned() else { return Ok(Flow::On) };
        let position = position_of(&entry);
        let mut draft = self.drafts.remove(&position);
        let edited = desk.edit(&entry, &mut draft);
        let is_kept = draft.is_some();
        self.drafts.extend(draft.map(|draft| (position, draft)));
        let edit = match edited {
            Ok(edit) => edit,
            Err(failure) if is_kept => {
                self.message = printable(&format!("e opens your text again: {}", failure.message()), 500);
                return Ok(Flow::Anew);
            }
            Err(failure) => return Err(failure),
        };
        if edit == ExtractionEdit::default() {
            "nothing was changed: nothing is decided".clone_into(&mut self.message);
            return Ok(Flow::Anew);
        }
        let request = self.request(&entry, Verdict::Edit(Box::new(edit)))?;
        self.finish(desk, vec![request], "edited and approved")?;
        Ok(Flow::Anew)
    }

    fn request(&self, entry: &ReviewEntry, verdict: Verdict) -> Result<ReviewRequest, Failure> {
        Ok(ReviewRequest {
            trace: TraceId::new(entry.pending.trace_id.clone()).map_err(cognilog::Error::from)?,
            extraction_id: entry.pending.extraction.extraction_id.clone(),
            verdict,
            reviewer: self.reviewer.clone(),
            seen: Some(entry.pending.extraction.version),
            reason: None,
        })
    }

    fn finish(&mut self, desk: &mut dyn Desk, requests: Vec<ReviewRequest>, word: &str) -> Result<(), Failure> {
        let acted = desk.decide(requests)?;
        self.decided += acted.iter().flatten().count();
        self.tell(&acted, word);
        self.reload(desk)
    }

    /// Says what was done, and of what was refused who decided what.
    fn tell(&mut self, acted: &Acted, word: &str) {
        let done: Vec<&Reviewed> = acted.iter().flatten().collect();
        let mut message = match done.as_slice() {
            [] => String::new(),
            [one] => format!("{word}: {}", one.extraction_id),
            several => format!("{word}: {} extractions", several.len()),
        };
        if !done.is_empty() && word != "undone" {
            message.push_str("; u undoes");
        }
        if let Some(rejection) = acted.iter().find_map(|one| one.as_ref().err()) {
            message = format!("{rejection}{}{message}", if message.is_empty() { "" } else { "; " });
        }
        self.message = printable(&message, 1_000);
    }
}

pub(super) fn position_of(entry: &ReviewEntry) -> u64 {
    entry.pending.extraction.position
}

/// Whether a filter in lower case is somewhere in what is known of an extraction.
fn is_match(entry: &ReviewEntry, wanted: &str) -> bool {
    let extraction = &entry.pending.extraction;
    let texts = [
        entry.pending.trace_id.as_str(),
        &extraction.extraction_id,
        &extraction.current.content,
        extraction.current.task.as_deref().unwrap_or_default(),
    ];
    texts
        .into_iter()
        .chain(extraction.current.types.iter().map(String::as_str))
        .any(|text| text.to_lowercase().contains(wanted))
}
