//! x.
pub(crate) fn run(
    _: &crate::verbs::Place,
    _: Option<cognilog::TraceId>,
    _: String,
) -> Result<u8, crate::failure::Failure> {
    Ok(0)
}
