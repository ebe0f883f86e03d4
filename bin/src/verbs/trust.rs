//! `init`, `verify`, `head`, `status` and `rebuild`: the store itself.

use cognilog::{FoldState, Head, StoreDirectory};

use super::Place;
use crate::failure::Failure;
use crate::output::{Output, printable, shown, time};

pub(crate) fn init(place: &Place, output: &mut Output) -> Result<u8, Failure> {
    let path = place.to_create()?;
    cognilog::Store::create(&path, &place.options().limits)?;
    if output.json {
        output.object(&serde_json::json!({ "store": path }))?;
    } else {
        output.line(&format!("made a store at {}", shown(&path)))?;
    }
    Ok(0)
}

pub(crate) fn verify(place: &Place, expect: Option<&str>, output: &mut Output) -> Result<u8, Failure> {
    let expect = expect.map(str::parse::<Head>).transpose().map_err(Failure::usage)?;
    let mut found = cognilog::verify(&place.existing()?, &place.options(), expect.as_ref())?;
    match place.read().and_then(|engine| Ok(engine.snapshot()?)) {
        Ok(snapshot) => {
            for (name, state) in snapshot.projections() {
                if state != FoldState::Live {
                    found.findings.push(format!("projection `{name}` does not serve: {state:?}"));
                }
            }
        }
        Err(failure) if found.findings.is_empty() => return Err(failure),
        // Why it does not open is among the findings.
        Err(_) => {}
    }
    if output.json {
        output.object(&serde_json::json!({
            "events": found.events, "blocks": found.blocks, "rows": found.rows, "findings": found.findings,
        }))?;
    } else {
        for finding in &found.findings {
            output.line(&format!("damage: {}", printable(finding, 1_000)))?;
        }
        let (events, blocks, rows) = (found.events, found.blocks, found.rows);
        let result = if found.findings.is_empty() { "all as it was recorded" } else { "damaged" };
        output.line(&format!("{events} events in {blocks} blocks, {rows} stored rows: {result}"))?;
    }
    Ok(if found.findings.is_empty() { 0 } else { 3 })
}

pub(crate) fn head(place: &Place, output: &mut Output) -> Result<u8, Failure> {
    let engine = place.read()?;
    let snapshot = engine.snapshot()?;
    let head = Head { epoch: snapshot.epoch(), position: snapshot.head(), chain: snapshot.chain() };
    if output.json {
        output.object(&serde_json::json!({
            "epoch": head.epoch, "position": head.position.0, "head": head.to_string(),
        }))?;
    } else {
        output.line(&head.to_string())?;
    }
    Ok(0)
}

pub(crate) fn status(place: &Place, output: &mut Output) -> Result<u8, Failure> {
    let path = place.existing()?;
    let engine = place.read()?;
    let health = engine.health()?;
    let writer = StoreDirectory::open(&path)?.holder()?;
    let evaluations = engine.pending_evaluations(None).map(|pending| pending.len()).unwrap_or_default();
    let extractions = engine.pending_extractions(None).map(|pending| pending.len()).unwrap_or_default();
    let reflections = engine.pending_reflections(None).map(|pending| pending.len()).unwrap_or_default();
    let healthy = health.is_healthy();
    if output.json {
        output.object(&serde_json::json!({
            "healthy": healthy,
            "store": path,
            "head": health.store.head.0,
            "bytes": health.store.bytes,
            "writer": writer,
            "not_serving": health.not_serving,
            "pending_evaluations": evaluations,
            "oldest_pending_evaluation": health.oldest_pending_evaluation.map(time),
            "pending_extractions": extractions,
            "oldest_pending_extraction": health.oldest_pending_extraction.map(time),
            "pending_reflections": reflections,
        }))?;
        return Ok(u8::from(!healthy));
    }
    output.line(&format!("store        {}", shown(&path)))?;
    output.line(&format!("state        {}", if healthy { "well" } else { "not well" }))?;
    output.line(&format!("head         position {}, {} bytes", health.store.head, health.store.bytes))?;
    output.line(&format!("writer       {}", writer.as_deref().unwrap_or("nobody writes now")))?;
    let since =
        |oldest: Option<i64>| oldest.map_or(String::new(), |oldest| format!(", the oldest of {}", time(oldest)));
    output.line(&format!("pending      {evaluations} evaluations{}", since(health.oldest_pending_evaluation)))?;
    output.line(&format!("             {extractions} extractions{}", since(health.oldest_pending_extraction)))?;
    output.line(&format!("             {reflections} traces to reflect on"))?;
    for (name, reason) in &health.not_serving {
        output.line(&format!("projection   {name}: {}", printable(reason, 400)))?;
    }
    Ok(u8::from(!healthy))
}

pub(crate) fn rebuild(place: &Place, names: &[String], output: &mut Output) -> Result<u8, Failure> {
    let engine = place.write()?;
    engine.rebuild(names)?;
    let known = engine.snapshot()?.projections();
    engine.close()?;
    let rebuilt: Vec<&str> = known
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| names.is_empty() || names.iter().any(|wanted| wanted == name))
        .collect();
    if output.json {
        output.object(&serde_json::json!({ "rebuilt": rebuilt }))?;
    } else {
        output.line(&format!("made the rows of {} again", rebuilt.join(", ")))?;
    }
    Ok(0)
}
