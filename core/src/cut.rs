//! The documents' cut of long text to 500 characters.

use unicode_segmentation::UnicodeSegmentation;

use crate::limits::CUT_CHARACTERS;

/// The start of `text` that is kept: at most [`CUT_CHARACTERS`] Unicode scalar values, ended between
/// characters as a reader sees them, so that no accent, flag or family emoji is torn.
///
/// A single character as a reader sees it that is longer than the limit is cut between scalar values.
///
/// ```
/// assert_eq!(cognilog_core::cut::cut("short"), "short");
/// assert_eq!(cognilog_core::cut::cut(&"知".repeat(501)).chars().count(), 500);
/// ```
#[must_use]
pub fn cut(text: &str) -> &str {
    let Some((limit, _)) = text.char_indices().nth(CUT_CHARACTERS) else { return text };
    // A grapheme boundary at or before the limit can only be decided with what follows the limit in view.
    let end = text
        .grapheme_indices(true)
        .map(|(start, grapheme)| start + grapheme.len())
        .take_while(|end| *end <= limit)
        .last()
        .unwrap_or(limit);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_between_characters() {
        let check = |text: String, expect: usize| assert_eq!(cut(&text).chars().count(), expect, "{text:.20}");
        check("a".repeat(500), 500);
        check("a".repeat(501), 500);
        check("知".repeat(600), 500);
        // "e" with a combining accent is two scalar values; the 250th pair ends at 500.
        check("e\u{301}".repeat(300), 500);
        // After one plain letter the pair that would straddle the limit is left out whole.
        check(format!("a{}", "e\u{301}".repeat(300)), 499);
        // A flag is two regional indicators.
        check(format!("a{}", "🇨🇳".repeat(300)), 499);
        // One endless character is cut at the limit.
        check(format!("e{}", "\u{301}".repeat(900)), 500);
    }
}
