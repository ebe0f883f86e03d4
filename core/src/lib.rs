//! The vocabulary, rules and decisions of cognilog: pure, without input, output, clock or randomness.
//!
//! Start at [`event`]: one type per kind of event, which is at once its JSON (the source documents')
//! and its bytes in the log. The rules that folds and commands share stand beside it:
//! [`pending`] says when a query still waits for an evaluation, [`extraction`] is the state machine
//! of an extracted piece of knowledge, [`side_branch`] says what a trigger queues, [`similarity`] which extractions stand
//! together for a person, [`cut`] shortens what the documents shorten.

pub mod cut;
pub mod event;
pub mod extraction;
pub mod id;
pub mod json;
pub mod limits;
pub mod pending;
pub mod reply;
pub mod side_branch;
pub mod similarity;
pub mod time;

pub use event::{Event, EventKind};
pub use id::{EventId, Position, Sequence, StreamId, TraceId};
pub use time::Instant;
