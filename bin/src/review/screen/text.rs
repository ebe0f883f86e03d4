//! Text for cells of a terminal: harmless, cut and folded by the width that it takes, not by its characters.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::output::printable;

/// Cells that a text takes.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// A text in exactly `cells` cells: cut with an ellipsis, or filled with spaces.
pub(super) fn fit(text: &str, cells: usize) -> String {
    // No more characters than cells can be seen, whatever else they are; the limit keeps long lines cheap.
    let shown = printable(text, cells.saturating_mul(2) + 8);
    let mut fitted = String::new();
    let mut taken = 0;
    let is_cut = width(&shown) > cells;
    for character in shown.chars() {
        let cell = character.width().unwrap_or(0);
        if taken + cell > cells.saturating_sub(usize::from(is_cut)) {
            break;
        }
        fitted.push(character);
        taken += cell;
    }
    if is_cut && cells > 0 {
        fitted.push('…');
        taken += 1;
    }
    fitted.push_str(&" ".repeat(cells.saturating_sub(taken)));
    fitted
}

/// A text in lines of at most `cells` cells, broken between words where a line has a space in its second half. Of long
/// texts the beginning is shown, and how long they are.
pub(super) fn fold(text: &str, cells: usize, characters_max: usize) -> Vec<String> {
    let cells = cells.max(2);
    let mut lines = Vec::new();
    let mut left = characters_max;
    for line in text.split('\n') {
        let shown = printable(line.strip_suffix('\r').unwrap_or(line), left);
        left = left.saturating_sub(line.chars().take(left).count() + 1);
        fold_line(&shown, cells, &mut lines);
        if left == 0 {
            lines.push(format!("… ({} bytes in all)", text.len()));
            break;
        }
    }
    lines
}

fn fold_line(line: &str, cells: usize, lines: &mut Vec<String>) {
    let mut current = String::new();
    let mut taken = 0;
    for character in line.chars() {
        let cell = character.width().unwrap_or(0);
        if taken + cell > cells {
            let space = current.rfind(' ').filter(|at| width(&current[..*at]) * 2 >= cells);
            let rest = match space {
                Some(at) => current.split_off(at)[1..].to_owned(),
                None => String::new(),
            };
            lines.push(std::mem::replace(&mut current, rest));
            taken = width(&current);
        }
        current.push(character);
        taken += cell;
    }
    lines.push(current);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_take_exactly_their_cells() {
        let check = |text: &str, cells: usize, expect: &str| {
            let fitted = fit(text, cells);
            assert_eq!((fitted.as_str(), width(&fitted)), (expect, cells), "{text}");
        };
        check("abc", 5, "abc  ");
        check("abcdef", 5, "abcd…");
        check("知识库", 6, "知识库");
        check("知识库", 5, "知识…");
        check("知识库", 4, "知… ");
        check("a\u{1b}[2J", 20, "a\\u{1b}[2J          ");
        check("", 0, "");
        check("x", 0, "");
        check(&"y".repeat(5 << 20), 3, "yy…");
        check(&"e\u{301}".repeat(100), 4, "e\u{301}e\u{301}e\u{301}…");
    }

    #[test]
    fn texts_are_folded_between_words_and_by_width() {
        let check = |text: &str, cells: usize, expect: &[&str]| {
            let lines = fold(text, cells, 1_000);
            assert_eq!(lines, expect, "{text}");
            assert!(lines.iter().all(|line| width(line) <= cells), "{lines:?}");
        };
        check("one two three", 8, &["one two", "three"]);
        check("a\n\nb\r\n", 8, &["a", "", "b", ""]);
        check("知识知识知识", 5, &["知识", "知识", "知识"]);
        check("aaaaaaaaaa", 4, &["aaaa", "aaaa", "aa"]);
        check("\u{202e}x", 8, &["\\u{202e}", "x"]);
        let long = fold(&"x".repeat(5 << 20), 40, 100);
        assert_eq!((long.len(), long[3].as_str()), (4, "… (5242880 bytes in all)"));
    }
}
