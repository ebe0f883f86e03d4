//! Which paths a memory file may have, and which configured name or pattern covers one.

/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 1_024;

/// The path beneath the memory folder that a text names; none if it is empty, absolute, leads upward, or is written in
/// a way that another program could read differently (DESIGN section 10). `./` and doubled slashes are taken off.
///
/// ```
/// use cognilog_core::reply::path::normalize;
/// assert_eq!(normalize(" ./journals//2026-04.md").as_deref(), Some("journals/2026-04.md"));
/// assert_eq!(normalize("../taste.md"), None);
/// ```
#[must_use]
pub fn normalize(path: &str) -> Option<String> {
    let path = path.trim();
    let bytes = path.as_bytes();
    let has_drive = bytes.len() > 1 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
    let is_deceptive = path.contains(['\\', '\0']) || path.chars().any(char::is_control) || has_escape(bytes);
    if path.len() > PATH_BYTES_MAX || path.starts_with(['/', '~']) || has_drive || is_deceptive {
        return None;
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.is_empty() || parts.iter().any(|part| *part == ".." || part.trim() == "..") {
        return None;
    }
    Some(parts.join("/"))
}

/// Whether a dot, slash, backslash or NUL is written as a percent escape.
fn has_escape(bytes: &[u8]) -> bool {
    let escapes = [&b"2e"[..], b"2f", b"5c", b"00"];
    bytes.windows(3).any(|part| part[0] == b'%' && escapes.iter().any(|escape| part[1..].eq_ignore_ascii_case(escape)))
}

/// Whether a configured name or pattern covers a path. `*` and `?` stay within one level, case counts, and `[a-c]`,
/// `[!a-c]` are sets.
///
/// ```
/// use cognilog_core::reply::path::covers;
/// assert!(covers("journals/*.md", "journals/四月.md"));
/// assert!(!covers("journals/*.md", "journals/2026/04.md"));
/// ```
#[must_use]
pub fn covers(pattern: &str, path: &str) -> bool {
    let (patterns, parts) = (pattern.split('/'), path.split('/'));
    let (mut patterns, mut parts) = (patterns.fuse(), parts.fuse());
    loop {
        match (patterns.next(), parts.next()) {
            (None, None) => return true,
            (Some(pattern), Some(part)) if matches(pattern, part) => {}
            _ => return false,
        }
    }
}

/// Matches one level. After a mismatch only the last `*` is tried again, so the work is at most length times length.
fn matches(pattern: &str, part: &str) -> bool {
    let (pattern, part): (Vec<char>, Vec<char>) = (pattern.chars().collect(), part.chars().collect());
    let (mut at, mut taken) = (0, 0);
    let mut star = None;
    while taken < part.len() {
        let step = match pattern.get(at) {
            Some('*') => {
                star = Some((at, taken));
                at += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => in_set(&pattern[at..], part[taken]),
            Some(literal) => (*literal == part[taken]).then_some(1),
            None => None,
        };
        match (step, star) {
            (Some(length), _) => (at, taken) = (at + length, taken + 1),
            (None, Some((star_at, star_taken))) => {
                (at, taken) = (star_at + 1, star_taken + 1);
                star = Some((star_at, star_taken + 1));
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

/// Whether the set at the start of a pattern holds the character; gives the set's length. A set that is not closed is a
/// bracket.
fn in_set(pattern: &[char], character: char) -> Option<usize> {
    let is_negated = pattern.get(1) == Some(&'!');
    let first = if is_negated { 2 } else { 1 };
    // A bracket right at the start belongs to the set.
    let close = pattern.iter().skip(first + 1).position(|closing| *closing == ']').map(|length| first + 1 + length);
    let Some(close) = close else { return (character == '[').then_some(1) };
    let set = &pattern[first..close];
    let mut is_in = false;
    let mut at = 0;
    while at < set.len() {
        if at + 2 < set.len() && set[at + 1] == '-' {
            is_in |= (set[at]..=set[at + 2]).contains(&character);
            at += 3;
        } else {
            is_in |= set[at] == character;
            at += 1;
        }
    }
    (is_in != is_negated).then_some(close + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_stay_inside() {
        let check = |path: &str, expect: Option<&str>| assert_eq!(normalize(path).as_deref(), expect, "{path:?}");
        check("taste.md", Some("taste.md"));
        check(" taste.md\n", Some("taste.md"));
        check("./a/./b.md", Some("a/b.md"));
        check("a//b.md", Some("a/b.md"));
        check("journals/四月·复盘.md", Some("journals/四月·复盘.md"));
        check("..taste.md", Some("..taste.md"));
        check("a b/c.md", Some("a b/c.md"));
        for path in [
            "",
            "  ",
            ".",
            "./",
            "/etc/passwd",
            "//taste.md",
            "~/taste.md",
            "~root/x",
            "../taste.md",
            "a/../b.md",
            "a/..",
            "a/ .. /b",
            "..",
            "a\\b.md",
            "..\\taste.md",
            "C:taste.md",
            "c:/taste.md",
            "taste.md\0.txt",
            "a\nb.md",
            "a\u{7f}.md",
            "%2e%2e/taste.md",
            "%2E%2e/x",
            "a%2Fb",
            "a%5cb",
            "a%00",
        ] {
            check(path, None);
        }
        check(&"a".repeat(1_025), None);
    }

    #[test]
    fn patterns_cover_one_level() {
        let check = |pattern: &str, path: &str, expect: bool| {
            assert_eq!(covers(pattern, path), expect, "{pattern} {path}");
        };
        check("taste.md", "taste.md", true);
        check("taste.md", "Taste.md", false);
        check("taste.md", "taste.mdx", false);
        check("journals/*.md", "journals/2026-04.md", true);
        check("journals/*.md", "journals/.md", true);
        check("journals/*.md", "journals/a/b.md", false);
        check("journals/*.md", "other/a.md", false);
        check("journals/*.md", "journals", false);
        check("*", "a", true);
        check("*", "a/b", false);
        check("a*b*c", "aXbYbZc", true);
        check("a*b*c", "aXbYbZ", false);
        check("?.md", "四.md", true);
        check("?.md", ".md", false);
        check("[a-c]x", "bx", true);
        check("[!a-c]x", "bx", false);
        check("[!a-c]x", "dx", true);
        check("[]x]", "]", true);
        check("[", "[", true);
        check(&format!("{}b", "*a".repeat(20)), &"a".repeat(900), false);
    }
}
