//! `backup` and `restore`: whole copies of a store.

use std::path::Path;

use cognilog::{Copied, OnDamage};

use super::Place;
use crate::failure::Failure;
use crate::output::{Output, note, printable, shown};

fn on_damage(until_damage: bool) -> OnDamage {
    if until_damage { OnDamage::StopBefore } else { OnDamage::Refuse }
}

pub(crate) fn backup(place: &Place, to: &Path, until_damage: bool, output: &mut Output) -> Result<u8, Failure> {
    let from = place.existing()?;
    let copied = cognilog::backup(&from, to, &place.options(), on_damage(until_damage)).map_err(with_choice)?;
    said("backed up", "backup", to, &copied, output)
}

pub(crate) fn restore(
    place: &Place,
    from: &Path,
    to: &Path,
    until_damage: bool,
    output: &mut Output,
) -> Result<u8, Failure> {
    let copied = cognilog::restore(from, to, &place.options(), on_damage(until_damage)).map_err(with_choice)?;
    if !output.json {
        note(&format!("the store is of epoch {} now: positions of before are refused", copied.head.epoch));
    }
    said("restored", "store", to, &copied, output)
}

fn with_choice(error: cognilog::Error) -> Failure {
    let is_damage = matches!(error.code(), "data_damaged");
    let failure = Failure::from(error);
    if !is_damage {
        return failure;
    }
    failure.with_hint("take another backup if there is one; --until-damage copies what stands before the damage")
}

fn said(done: &str, key: &str, to: &Path, copied: &Copied, output: &mut Output) -> Result<u8, Failure> {
    if output.json {
        output.object(&serde_json::json!({
            key: to, "events": copied.events, "head": copied.head.to_string(), "damage": copied.damage,
        }))?;
    } else {
        output.line(&format!("{done} {} events to {}", copied.events, shown(to)))?;
        output.line(&format!("head {}", copied.head))?;
    }
    match &copied.damage {
        Some(damage) => {
            note(&format!("it ends before the damage: {}", printable(damage, 1_000)));
            Ok(3)
        }
        None => Ok(0),
    }
}
