//! The log of cognilog on redb: one append-only, hash-chained sequence of events, and rows that folds derive from it.
//!
//! [`Store`] is the handle. Appends are [`Command`]s that the one writer decides on the state at the head and commits
//! in groups; [`Snapshot`]s read beside it. What is stored, byte by byte, is in `docs/format.md`.

mod backup;
mod block;
mod copy;
mod directory;
mod error;
mod fold;
mod index;
mod inspect;
mod limits;
mod projector;
mod record;
mod rows;
mod snapshot;
mod store;
mod subscription;
mod surroundings;
#[cfg(feature = "testkit")]
pub mod testkit;
mod verify;
mod writer;

pub use backup::{AfterStep, backup_store, restore_store};
pub use copy::{Copied, OnDamage};
pub use directory::{CreationStep, FORMAT, Head, Manifest, StoreDirectory};
pub use error::StoreError;
pub use fold::{Command, Condition, Decision, Fold, Folds, NewEvent, Receipt, Recorded, Scope, apply_fold};
pub use index::StreamStanding;
pub use inspect::verify_store;
pub use limits::Limits;
pub use projector::fold_stream;
pub use record::{ChainHash, Codec};
pub use rows::{Bytes, ChangeSet, Entries, Layered, RowMap, RowSource, scan, scan_after};
pub use snapshot::{FoldState, LogEvent, Snapshot, StoredEvent, View};
pub use store::{Store, StoreHealth, StoreOptions, new_event_id, system_now};
pub use subscription::{Followed, Subscription};
pub use surroundings::Surroundings;
pub use verify::{Verification, chain_at};
pub use writer::Clock;
