//! `compare`: files against their exports.

use std::path::Path;

use cognilog::{Comparison, Error};

use super::Place;
use crate::failure::Failure;
use crate::output::{Output, printable, shown};

pub(crate) fn run(place: &Place, folder: &Path, output: &mut Output) -> Result<u8, Failure> {
    let engine = place.read()?;
    let compared = engine.compare(folder).map_err(|error: Error| Failure::from(error))?;
    let differing = compared.iter().filter(|file| file.result != Comparison::Same).count();
    if output.json {
        output.array(&compared)?;
    } else {
        for file in compared.iter().filter(|file| file.result != Comparison::Same) {
            output.line(&format!("{}: {}", shown(&file.path), printable(&file.result.to_string(), 400)))?;
        }
        output.line(&format!("{} files compared, {differing} differ", compared.len()))?;
    }
    Ok(u8::from(differing > 0))
}
