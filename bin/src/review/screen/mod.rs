//! The review screen: its terminal, its keys one after the other, and the store behind it.
//!
//! What a key does is in [`state`], what is to be seen in [`draw`]; both work without a terminal.

mod draw;
mod state;
#[cfg(test)]
mod tests;
mod text;

use std::io;

use cognilog::event::ExtractionEdit;
use cognilog::{ReviewEntry, ReviewRejection, ReviewRequest, Reviewed, TraceId, TraceMessage};
use crossterm::event::{self, Event, KeyEventKind};
use ratatui::DefaultTerminal;

use crate::failure::Failure;
use crate::review::now;
use crate::verbs::Place;
use crate::verbs::review::{notes, read_form};
use state::{Flow, Screen};

/// Messages of a trace that are shown up to an extraction's sequence, and behind it.
const MESSAGES: (usize, usize) = (3, 2);

/// What came of an act on the store.
pub(crate) type Acted = Vec<Result<Reviewed, ReviewRejection>>;

/// The store as the screen needs it. Each call opens and closes it, so that agents go on recording while a person reads.
pub(crate) trait Desk {
    fn load(&mut self) -> Result<Vec<ReviewEntry>, Failure>;
    fn decide(&mut self, requests: Vec<ReviewRequest>) -> Result<Acted, Failure>;
    fn undo(&mut self) -> Result<Acted, Failure>;
    fn messages(&mut self, entry: &ReviewEntry) -> Result<Vec<TraceMessage>, Failure>;
    /// Lets the reviewer edit, beginning with `draft` if there is one from before. A text that cannot be taken becomes
    /// the draft of the next time.
    fn edit(&mut self, entry: &ReviewEntry, draft: &mut Option<String>) -> Result<ExtractionEdit, Failure>;
    fn reviewer(&self) -> &str;
}

/// The desk over the store of the command line.
struct StoreDesk<'p> {
    place: &'p Place,
    trace: Option<TraceId>,
    reviewer: String,
}

impl Desk for StoreDesk<'_> {
    fn load(&mut self) -> Result<Vec<ReviewEntry>, Failure> {
        Ok(self.place.read()?.review_queue(self.trace.as_ref(), now(), self.place.settings.pending_days)?)
    }

    fn decide(&mut self, requests: Vec<ReviewRequest>) -> Result<Acted, Failure> {
        let engine = self.place.write()?;
        let acted = engine.review_all(requests)?;
        engine.close()?;
        Ok(acted)
    }

    fn undo(&mut self) -> Result<Acted, Failure> {
        let engine = self.place.write()?;
        let acted = engine.undo(&self.reviewer)?;
        engine.close()?;
        Ok(acted)
    }

    fn messages(&mut self, entry: &ReviewEntry) -> Result<Vec<TraceMessage>, Failure> {
        let Some(sequence) = entry.pending.extraction.sequence else { return Ok(Vec::new()) };
        let trace = TraceId::new(entry.pending.trace_id.clone()).map_err(cognilog::Error::from)?;
        Ok(self.place.read()?.messages_around(&trace, sequence, MESSAGES.0, MESSAGES.1)?)
    }

    fn edit(&mut self, entry: &ReviewEntry, draft: &mut Option<String>) -> Result<ExtractionEdit, Failure> {
        ratatui::restore();
        let edited = edit_form(entry, draft);
        // The run loop draws everything anew on the terminal that it gets back.
        edited
    }

    fn reviewer(&self) -> &str {
        &self.reviewer
    }
}

fn edit_form(entry: &ReviewEntry, draft: &mut Option<String>) -> Result<ExtractionEdit, Failure> {
    let item = &entry.pending.extraction.current;
    let text = draft.take().unwrap_or_else(|| super::form::print(item, &notes(&entry.pending)));
    let edited = super::editor::edit(&text)?.text;
    read_form(&edited, item).inspect_err(|failure| {
        let own = edited.lines().filter(|line| !line.starts_with("# ! ")).collect::<Vec<_>>().join("\n");
        *draft = Some(format!("# ! {}\n{own}\n", failure.message().replace('\n', " ")));
    })
}

/// Runs the screen until the reviewer leaves it.
pub(crate) fn run(place: &Place, trace: Option<TraceId>, reviewer: String) -> Result<u8, Failure> {
    let mut desk = StoreDesk { place, trace, reviewer };
    let mut screen = Screen::new(desk.reviewer().to_owned(), desk.load()?);
    let mut terminal = ratatui::try_init().map_err(|error| terminal_failed(&error))?;
    let ended = keys(&mut terminal, &mut screen, &mut desk);
    ratatui::restore();
    ended.map_err(|error| terminal_failed(&error))?;
    crate::output::note(&screen.summary());
    Ok(0)
}

fn terminal_failed(error: &io::Error) -> Failure {
    Failure::new(1, "io_error", format!("the terminal: {error}"))
}

fn keys(terminal: &mut DefaultTerminal, screen: &mut Screen, desk: &mut StoreDesk<'_>) -> io::Result<()> {
    loop {
        terminal.draw(|frame| draw::draw(frame, screen))?;
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match screen.key(key, desk) {
            Flow::On => {}
            Flow::Anew => {
                *terminal = ratatui::try_init()?;
                terminal.clear()?;
            }
            Flow::End => return Ok(()),
        }
    }
}
