//! Following the log: history first, then what is appended, each event once and in order.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

use cognilog_core::Position;

use crate::error::StoreError;
use crate::snapshot::StoredEvent;
use crate::store::Store;

/// What a subscription gives.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Followed {
    /// The next event.
    Event(Box<StoredEvent>),
    /// Everything that was there when the subscription caught up was given; what follows is live.
    CaughtUp(Position),
}

/// A reader that goes along with the log. It reads by position, so a slow one falls back to history by itself, and it
/// never holds up the writer.
#[derive(Debug)]
pub struct Subscription<'s> {
    store: &'s Store,
    next: Position,
    ready: VecDeque<StoredEvent>,
    caught_up: bool,
}

/// Events a subscription reads ahead.
const READ_AHEAD: usize = 256;

impl Store {
    /// Follows the log from the event behind `after`.
    #[must_use]
    pub fn subscribe(&self, after: Position) -> Subscription<'_> {
        Subscription { store: self, next: after.next(), ready: VecDeque::new(), caught_up: false }
    }
}

impl Subscription<'_> {
    /// The next event or mark; `None` when nothing came within `timeout`.
    ///
    /// # Errors
    /// An event is damaged, or the disk refuses.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Followed>, StoreError> {
        if let Some(event) = self.ready.pop_front() {
            return Ok(Some(Followed::Event(Box::new(event))));
        }
        let snapshot = self.store.log()?;
        if snapshot.head() < self.next {
            if !self.caught_up {
                self.caught_up = true;
                return Ok(Some(Followed::CaughtUp(snapshot.head())));
            }
            if !self.store.wait_behind(Position(self.next.0 - 1), timeout)? {
                return Ok(None);
            }
        }
        let snapshot = self.store.log()?;
        let to = Position((self.next.0 + READ_AHEAD as u64 - 1).min(snapshot.head().0));
        let read = snapshot.visit(self.next, to, |event| {
            self.ready.push_back(event.to_stored());
            self.next = event.envelope().position.next();
            Ok(ControlFlow::Continue(()))
        });
        // What stands before a damaged event is given first; the damage is met again behind it.
        if self.ready.is_empty() {
            read?;
        }
        Ok(self.ready.pop_front().map(|event| Followed::Event(Box::new(event))))
    }
}
