//! `verify` and `doctor` for a store that may not open: everything that is wrong with it, and what to do about each.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use cognilog_core::event::{Event, EventKind};
use cognilog_core::extraction::is_overdue;
use cognilog_core::{Instant, Position};
use cognilog_storage::{
    Codec, FoldState, Head, StoreDirectory, StoreError, Surroundings, Verification, system_now, verify_store,
};
use serde::Serialize;

use crate::engine::{Engine, EngineOptions, repair};
use crate::error::Error;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// Good to know.
    Note,
    /// It works, and something should be done.
    Warning,
    /// Something does not work, or was lost.
    Problem,
}

/// Something about a store that a person should know, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable word for programs; `docs/operations.md` has a row for each.
    pub code: &'static str,
    /// How much it matters.
    pub weight: Weight,
    /// What was found, and where.
    pub what: String,
    /// What to do.
    pub remedy: &'static str,
}

/// How often the replies of a model were of no use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplyRate {
    /// eval, extract or dream.
    pub reply_kind: String,
    /// The model, as far as it was recorded.
    pub model: Option<String>,
    /// Replies from which nothing could be taken.
    pub unparsed: u64,
    /// Side branches that ended well with a reply of this kind and model.
    pub taken: u64,
}

/// What [`diagnose`] found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// Every finding, the weightiest first.
    pub findings: Vec<Finding>,
    /// The last position that could be read.
    pub position: Option<u64>,
    /// Bytes of the log file.
    pub log_bytes: u64,
    /// Bytes that are free on its disk.
    pub free_bytes: Option<u64>,
    /// The limits that the store is opened with.
    pub limits: Vec<(&'static str, String)>,
    /// Replies of models that were of no use, by kind and model.
    pub replies: Vec<ReplyRate>,
}

impl Diagnosis {
    /// The weight of the weightiest finding.
    #[must_use]
    pub fn weight(&self) -> Option<Weight> {
        self.findings.iter().map(|finding| finding.weight).max()
    }

    /// Whether what was recorded is not as it was.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.findings.iter().any(|finding| matches!(finding.code, "log_damaged" | "index_damaged" | "rows_damaged"))
    }

    fn add(&mut self, code: &'static str, weight: Weight, what: impl Into<String>, remedy: &'static str) {
        self.findings.push(Finding { code, weight, what: what.into(), remedy });
    }
}

/// Reads and checks everything that is stored at a path, also where damage keeps the store from being opened. A store
/// that was not closed cleanly is repaired first, if nobody writes to it.
///
/// # Errors
/// There is no store, or it is of another format or epoch, or the disk refuses; damage is a finding.
pub fn verify(path: &Path, options: &EngineOptions, expect: Option<&Head>) -> Result<Verification, Error> {
    match verify_store(path, &options.limits, expect) {
        Err(StoreError::NeedsRepair) => {
            repair(path, options);
            Ok(verify_store(path, &options.limits, expect)?)
        }
        verified => Ok(verified?),
    }
}

/// Looks for everything that may be wrong with a store; each finding says what to do about it.
///
/// # Errors
/// There is no store, or the disk refuses. Everything else is a finding.
pub fn diagnose(path: &Path, options: &EngineOptions, pending_days: Option<u32>) -> Result<Diagnosis, Error> {
    let mut found = Diagnosis {
        findings: Vec::new(),
        position: None,
        log_bytes: 0,
        free_bytes: None,
        limits: options.limits.listed(),
        replies: Vec::new(),
    };
    let directory = match StoreDirectory::open(path) {
        Ok(directory) => directory,
        Err(error @ (StoreError::NotAStore { .. } | StoreError::Format { .. })) => {
            let remedy = match error {
                StoreError::Format { .. } => "open it with the build that wrote it; its `log --ndjson` is an archive",
                _ => "put back what is missing, or `cognilog restore` a backup to another place",
            };
            found.add(error.code(), Weight::Problem, error.to_string(), remedy);
            return Ok(found);
        }
        Err(error) => return Err(error.into()),
    };
    let around = directory.surroundings(&options.limits)?;
    look_around(&around, &mut found);
    match verify(path, options, None) {
        Ok(verified) => sort_damage(&verified, &mut found),
        Err(error) => found.add(
            "unreadable",
            Weight::Problem,
            error.to_string(),
            "restore the newest backup to another place; keep this directory as it is until that works",
        ),
    }
    match Engine::open_reader_with(path, options.clone()) {
        Ok(engine) => look_inside(&engine, &around, pending_days, &mut found)?,
        Err(error) if found.weight() < Some(Weight::Problem) => {
            let remedy = "`cognilog restore` the newest backup to another place, and keep this directory";
            found.add("does_not_open", Weight::Problem, error.to_string(), remedy);
        }
        Err(_) => {}
    }
    found.findings.sort_by_key(|finding| std::cmp::Reverse(finding.weight));
    Ok(found)
}

fn look_around(around: &Surroundings, found: &mut Diagnosis) {
    (found.log_bytes, found.free_bytes) = (around.log_bytes, around.free_bytes);
    if let Some(holder) = &around.holder {
        let remedy = "nothing, if it should: verbs that write wait for it; otherwise stop that process";
        found.add("store_locked", Weight::Note, format!("{holder} writes to it"), remedy);
    }
    if !around.is_clean {
        let remedy = "nothing: it was repaired just now, and nothing acknowledged is lost by it";
        found.add("unclean", Weight::Warning, "it was not closed cleanly (a crash, a kill, a power loss)", remedy);
    }
    for path in &around.left_over {
        let what = format!("{} was left by work that was interrupted", path.display());
        found.add("left_over", Weight::Warning, what, "remove it once no cognilog process is at work on this store");
    }
    if let Some(name) = around.remote_file_system {
        let what = format!("it lies on a {name} file system: locks and syncs are not to be relied on there");
        found.add("not_local", Weight::Warning, what, "move the store to a local disk; back up to the other place");
    }
    // `compact`, `erase` and `backup` write a whole copy.
    if let Some(free) = around.free_bytes.filter(|free| *free < around.log_bytes) {
        let what = format!("{free} bytes are free on its disk, its log has {}", around.log_bytes);
        found.add("disk_short", Weight::Warning, what, "free space: `compact` and `erase` need as much as the log has");
    }
}

fn sort_damage(verified: &Verification, found: &mut Diagnosis) {
    const SHOWN: usize = 5;
    let what = || {
        let more = verified.findings.len().saturating_sub(SHOWN);
        let shown = verified.findings.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("; ");
        if more > 0 { format!("{shown}; and {more} more, which `cognilog verify` lists") } else { shown }
    };
    if verified.in_log > 0 {
        let remedy = "keep this directory, and `cognilog restore` the newest backup to another place";
        found.add("log_damaged", Weight::Problem, what(), remedy);
    } else if verified.in_index > 0 {
        let remedy = "`cognilog compact` makes the index again from the log, which is whole";
        found.add("index_damaged", Weight::Problem, what(), remedy);
    } else if verified.in_rows > 0 {
        let remedy = "`cognilog rebuild` makes the rows again from the log, which is whole";
        found.add("rows_damaged", Weight::Problem, what(), remedy);
    }
}

fn look_inside(
    engine: &Engine,
    around: &Surroundings,
    pending_days: Option<u32>,
    found: &mut Diagnosis,
) -> Result<(), Error> {
    let snapshot = engine.snapshot()?;
    found.position = Some(snapshot.head().0);
    let behind = snapshot.head().0.saturating_sub(around.head.map_or(0, |head| head.position.0));
    if behind > 0 && around.holder.is_none() {
        let what = match around.head {
            Some(head) => format!("the head file is at position {}, the log at {}", head.position, snapshot.head()),
            None => format!("there is no head file, and the log is at position {}", snapshot.head()),
        };
        let remedy = "nothing: the next writer renews it; until then a log cut down to there would not be noticed";
        found.add("head_behind", Weight::Note, what, remedy);
    }
    for (name, state) in snapshot.projections() {
        match state {
            FoldState::Live => {}
            FoldState::Stopped { position, message } => found.add(
                "projection_stopped",
                Weight::Problem,
                format!("projection `{name}` stopped at position {position}: {message}"),
                "update cognilog, then `cognilog rebuild`; events are recorded all the same",
            ),
            state => found.add(
                "projection_stale",
                Weight::Warning,
                format!("projection `{name}` does not serve yet: {state:?}"),
                "wait for the writer, or run `cognilog rebuild`",
            ),
        }
    }
    match read_through(engine, found) {
        Ok(()) => {}
        // It is among the findings of the check already.
        Err(Error::Store(StoreError::Damaged { .. } | StoreError::Body { .. })) => {}
        Err(error) => return Err(error),
    }
    if found.weight() < Some(Weight::Problem) {
        count_overdue(engine, pending_days, found)?;
    }
    Ok(())
}

/// Counts what only the events themselves tell: those that are kept as text, and replies of no use.
fn read_through(engine: &Engine, found: &mut Diagnosis) -> Result<(), Error> {
    let snapshot = engine.snapshot()?;
    let (mut unfit, mut unknown) = (Vec::new(), 0u64);
    let mut branches: BTreeMap<String, String> = BTreeMap::new();
    let mut rates: BTreeMap<(String, Option<String>), ReplyRate> = BTreeMap::new();
    snapshot.visit(Position(1), snapshot.head(), |event| {
        let position = event.envelope().position;
        if event.codec() == Codec::Json {
            let stored = event.to_stored();
            let text = stored.json()?;
            if let Ok(read) = Event::from_json(&text) {
                if read.kind == EventKind::Unknown {
                    unknown += 1;
                } else if !read.fits() {
                    unfit.push((position, read.problems.first().map(ToString::to_string).unwrap_or_default()));
                }
            }
        }
        let mut rate = |kind: &str, model: &Option<String>, unparsed: bool| {
            let key = (kind.to_owned(), model.clone());
            let fresh = || ReplyRate { reply_kind: key.0.clone(), model: key.1.clone(), ..ReplyRate::default() };
            let rate = rates.entry(key.clone()).or_insert_with(fresh);
            *(if unparsed { &mut rate.unparsed } else { &mut rate.taken }) += 1;
        };
        match event.envelope().kind {
            EventKind::SideBranchStarted | EventKind::SideBranchFinished | EventKind::ReplyUnparsed => {
                match event.to_stored().event()? {
                    Some(Event::SideBranchStarted(started)) => {
                        branches.insert(started.branch_id.clone(), reply_kind(&started.branch_type).to_owned());
                    }
                    Some(Event::SideBranchFinished(finished)) if finished.outcome == "done" => {
                        if let Some(kind) = branches.remove(&finished.branch_id) {
                            rate(&kind, &finished.model, false);
                        }
                    }
                    Some(Event::ReplyUnparsed(reply)) => rate(&reply.reply_kind, &reply.model, true),
                    _ => {}
                }
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if let Some((position, problem)) = unfit.first() {
        let what =
            format!("{} events do not fit their kind; the first is at position {position}: {problem}", unfit.len());
        let remedy = "nothing is lost: they are exported unchanged, and projected as far as they can be read";
        found.add("kept_as_text", Weight::Note, what, remedy);
    }
    if unknown > 0 {
        let what = format!("{unknown} events are of kinds that this build does not know");
        found.add("unknown_kinds", Weight::Note, what, "nothing is lost: they are kept and exported as text");
    }
    found.replies = rates.into_values().filter(|rate| rate.unparsed > 0).collect();
    for rate in found.replies.clone() {
        let model = rate.model.as_deref().unwrap_or("(no model recorded)");
        let all = rate.unparsed + rate.taken;
        let what = format!("of {all} {} replies of {model}, {} could not be read", rate.reply_kind, rate.unparsed);
        let remedy = "`cognilog log --type reply_unparsed` shows them; a stronger model, or a template that it follows";
        found.add("replies_unparsed", Weight::Note, what, remedy);
    }
    Ok(())
}

/// The kind of reply that a side branch waits for.
fn reply_kind(branch_type: &str) -> &str {
    match branch_type {
        "knowledge_eval" => "eval",
        "reflection" => "extract",
        other => other,
    }
}

fn count_overdue(engine: &Engine, pending_days: Option<u32>, found: &mut Diagnosis) -> Result<(), Error> {
    let now = system_now();
    let overdue = |time: i64| is_overdue(Instant(time), now, pending_days);
    let days = pending_days.unwrap_or(cognilog_core::limits::PENDING_DAYS);
    let extractions = engine.pending_extractions(None)?;
    let count = extractions.iter().filter(|pending| overdue(pending.extraction.time)).count();
    if count > 0 {
        let what = format!("{count} extractions have waited for a person for more than {days} days");
        found.add("extractions_overdue", Weight::Note, what, "`cognilog review`");
    }
    let evaluations = engine.pending_evaluations(None)?;
    let count = evaluations.iter().filter(|pending| overdue(pending.time)).count();
    if count > 0 {
        let what = format!("{count} queries have waited for an evaluation for more than {days} days");
        found.add("evaluations_overdue", Weight::Note, what, "`cognilog pending evaluations` lists them");
    }
    Ok(())
}
