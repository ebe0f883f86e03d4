//! What the review verbs share: who reviews, which extraction is meant, and how a decision and its refusal are said.

pub(crate) mod editor;
pub(crate) mod form;
#[cfg(feature = "tui")]
pub(crate) mod screen;

use std::process::Command;

use cognilog::{Engine, Instant, PendingExtraction, ReviewRejection, Reviewed, TraceId};

use crate::failure::Failure;
use crate::output::{Output, printable};

/// Who reviews: the flag, `COGNILOG_REVIEWER`, git's `user.email`, `$USER`.
pub(crate) fn reviewer(flag: Option<&str>) -> Result<String, Failure> {
    let variable = |name: &str| std::env::var(name).ok();
    let git = || {
        let answer = Command::new("git").args(["config", "--get", "user.email"]).output().ok()?;
        answer.status.success().then(|| String::from_utf8_lossy(&answer.stdout).into_owned())
    };
    let named = |name: &String| !name.trim().is_empty();
    flag.map(str::to_owned)
        .or_else(|| variable("COGNILOG_REVIEWER").filter(named))
        .or_else(|| git().filter(named))
        .or_else(|| variable("USER"))
        .filter(named)
        .map(|name| name.trim().to_owned())
        .ok_or_else(|| cognilog::Error::from(ReviewRejection::NoReviewer).into())
}

/// The time now in the log's unit.
pub(crate) fn now() -> Instant {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Instant(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

pub(crate) fn trace_id(name: Option<&String>) -> Result<Option<TraceId>, Failure> {
    Ok(name.cloned().map(TraceId::new).transpose().map_err(cognilog::Error::from)?)
}

/// The extractions of these names, `ext:` in front of them or not, each of one trace.
pub(crate) fn resolve(
    engine: &Engine,
    trace: Option<&TraceId>,
    names: &[String],
) -> Result<Vec<PendingExtraction>, Failure> {
    let all = engine.extractions(trace)?;
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        let name = name.strip_prefix("ext:").unwrap_or(name);
        let mut of_name = all.iter().filter(|one| one.extraction.extraction_id == name && one.extraction.position > 0);
        let Some(first) = of_name.next() else {
            let trace_id = trace.map_or("any", |trace| trace.as_str()).to_owned();
            let rejection = ReviewRejection::NotFound { trace_id, extraction_id: name.to_owned() };
            return Err(cognilog::Error::from(rejection).into());
        };
        let others: Vec<String> = of_name.map(|one| one.trace_id.clone()).collect();
        if !others.is_empty() {
            let traces = std::iter::once(first.trace_id.clone()).chain(others).collect();
            return Err(cognilog::Error::AmbiguousExtraction { extraction_id: name.to_owned(), traces }.into());
        }
        found.push(first.clone());
    }
    Ok(found)
}

/// Prints what was decided on stdout and says what was refused on stderr; gives the exit code.
pub(crate) fn report(done: Vec<Result<Reviewed, ReviewRejection>>, output: &mut Output) -> Result<u8, Failure> {
    let mut exit = 0;
    let mut decided = Vec::new();
    for one in done {
        match one {
            Ok(reviewed) => decided.push(reviewed),
            Err(rejection) => {
                let failure = Failure::from(cognilog::Error::from(rejection));
                exit = exit.max(failure.exit_code());
                failure.report(output.json);
            }
        }
    }
    if output.json {
        output.array(&decided)?;
        return Ok(exit);
    }
    for reviewed in &decided {
        output.line(&said(reviewed))?;
    }
    Ok(exit)
}

/// A decision in words.
pub(crate) fn said(reviewed: &Reviewed) -> String {
    let what = match reviewed.undoes {
        Some(version) => format!("undone (version {version}): {} again", reviewed.state),
        None => reviewed.state.clone(),
    };
    format!("{}: {what}, version {}", printable(&reviewed.extraction_id, 100), reviewed.version)
}

/// What kind of knowledge it is, for people.
pub(crate) fn types(extraction: &cognilog::extraction_queue::ExtractionRow) -> String {
    match extraction.current.types.as_slice() {
        [] => "-".to_owned(),
        types => printable(&types.join(","), 40),
    }
}
