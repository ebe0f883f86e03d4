//! cognilog, the flight recorder of an LLM agent's cognition.
//!
//! One append-only log holds what an agent asked, what it was told, what that was worth and what it learned; everything
//! else is a fold of it. Record, look at what is pending, replay, export:
//!
//! ```
//! use cognilog::{Engine, TraceId};
//! use cognilog::event::{Assessment, Evaluation, EvaluationStatus, Query};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("store");
//! let engine = Engine::create(&path)?;
//! let trace = TraceId::new("trace-1")?;
//! engine.append(&trace, [Query {
//!     sequence: Some(42),
//!     query: "ControlNet tools".into(),
//!     source_ids: vec!["knowledge-a1b2".into()],
//!     ..Query::default()
//! }])?;
//! assert_eq!(engine.pending_evaluations(None)?[0].missing_source_ids, ["knowledge-a1b2"]);
//!
//! engine.append(&trace, [Evaluation {
//!     sequence: Some(66),
//!     query_sequence: 42,
//!     trigger: Some("goal_completion".into()),
//!     assessments: vec![Assessment {
//!         source_id: "knowledge-a1b2".into(),
//!         status: EvaluationStatus::HELPFUL,
//!         reason: Some("it named the cause".into()),
//!     }],
//!     ..Evaluation::default()
//! }])?;
//! assert!(engine.pending_evaluations(None)?.is_empty());
//!
//! let json = engine.export(&trace)?; // what the Python readers expect in cognition_log.json
//! assert!(json.starts_with("{\n  \"trace_id\": \"trace-1\""));
//! engine.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every call of [`Engine::append`] returns after its events are on disk. [`Engine::replay`] steps through a trace with
//! what each event changed; [`Engine::import`] takes a Python agent's files.

mod append;
mod archive;
mod commit;
mod compare;
mod deciding;
mod doctor;
mod engine;
mod error;
mod import;
mod json_files;
mod keeping;
mod locate;
mod messages;
pub mod model;
pub mod prompts;
mod queries;
mod reparse;
mod replay;
mod review;
pub mod session;

pub use append::{Append, AppendEvent};
pub use archive::ArchiveReport;
pub use commit::{
    CommitItem, CommitPlan, CommitReport, CommitSelection, CommitSink, DirectorySink, LeftOut, Prepared, RECORD_FIELDS,
};
#[cfg(feature = "http")]
pub use commit::{HttpHeader, HttpOptions, HttpSink};
pub use compare::{ComparedFile, Comparison};
pub use doctor::{Diagnosis, Finding, ReplyRate, Weight, diagnose, verify};
pub use engine::{Engine, EngineOptions, Health};
pub use error::Error;
pub use import::{FileOutcome, FileReport, ImportOptions, OnFork, find_files};
pub use json_files::{FileAction, FollowedFile, JsonFiles};
pub use keeping::{backup, restore};
pub use locate::{STORE_FOLDER, find_store};
pub use messages::TraceMessage;
pub use queries::{
    At, PendingEvaluation, PendingExtraction, PendingReflection, PendingRule, TraceDetail, TraceSummary,
};
pub use reparse::{ReparseOutcome, ReparsedReply};
pub use replay::{Change, ReplayStep};
pub use review::{ReviewEntry, ReviewRejection, ReviewRequest, Reviewed, Verdict};

pub use cognilog_core::limits::PENDING_DAYS;
pub use cognilog_core::{
    EventId, EventKind, Instant, Position, Sequence, StreamId, TraceId, event, extraction, json, reply, time,
};
pub use cognilog_projections::json_file::{FileFrame, JsonFile, Profile};
pub use cognilog_projections::{Projection, evaluation_status, extraction_queue, reflection_checkpoints, traces};
pub use cognilog_storage::{
    Codec, Condition, Copied, FoldState, Followed, Head, Limits, OnDamage, Receipt, Recorded, Snapshot, Store,
    StoreDirectory, StoreError, StoreHealth, StoredEvent, Subscription, Verification,
};
