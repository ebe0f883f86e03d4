//! The pending rule: when a query still waits for the evaluation of its sources.

/// A query is pending while any of its sources has no assessment; one without sources never is
/// (DESIGN section 7 and 13.7). Gives the sources that are missing, in the query's order, each once.
///
/// ```
/// use cognilog_core::pending::missing_sources;
/// assert_eq!(missing_sources(["a", "b", "b", "c"], |id| id == "a"), ["b", "c"]);
/// assert!(missing_sources([], |_| false).is_empty());
/// ```
pub fn missing_sources<'a>(
    source_ids: impl IntoIterator<Item = &'a str>,
    is_assessed: impl Fn(&str) -> bool,
) -> Vec<&'a str> {
    let mut missing: Vec<&str> = Vec::new();
    for id in source_ids {
        if !is_assessed(id) && !missing.contains(&id) {
            missing.push(id);
        }
    }
    missing
}
