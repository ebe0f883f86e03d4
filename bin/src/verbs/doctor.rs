//! `doctor`: what is wrong with a store, and what to do about each finding.

use cognilog::{Weight, diagnose};

use super::Place;
use crate::failure::Failure;
use crate::output::{Output, printable, shown};

pub(crate) fn run(place: &Place, output: &mut Output) -> Result<u8, Failure> {
    let path = place.existing()?;
    let found = diagnose(&path, &place.options(), place.settings.pending_days)?;
    let exit = match found.weight() {
        _ if found.is_damaged() => 3,
        Some(Weight::Problem) => 1,
        _ => 0,
    };
    if output.json {
        let mut value = serde_json::to_value(&found).map_err(std::io::Error::from)?;
        value["store"] = serde_json::json!(path);
        output.object(&value)?;
        return Ok(exit);
    }
    output.line(&format!("store      {}", shown(&path)))?;
    let position = found.position.map_or("unknown".to_owned(), |position| position.to_string());
    let free = found.free_bytes.map_or(String::new(), |free| format!(", {free} free on its disk"));
    output.line(&format!("log        position {position}, {} bytes{free}", found.log_bytes))?;
    for finding in &found.findings {
        let weight = match finding.weight {
            Weight::Problem => "problem",
            Weight::Warning => "warning",
            Weight::Note => "note",
        };
        output.line(&format!("{weight:<10} {}: {}", finding.code, printable(&finding.what, 2_000)))?;
        output.line(&format!("           {}", finding.remedy))?;
    }
    if found.findings.is_empty() {
        output.line("           nothing to do")?;
    }
    for (name, value) in &found.limits {
        output.line(&format!("limit      {name:<20} {value}"))?;
    }
    for (key, value, origin) in &place.settings.origins {
        output.line(&format!("setting    {key:<20} {:<24} {}", printable(value, 80), printable(origin, 4_096)))?;
    }
    Ok(exit)
}
