//! The backslash escapes inside JSON strings, taken apart the way Python's decoder does.

use std::borrow::Cow;
use std::iter;

/// One stretch of JSON text as far as escapes are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// Text without a backslash.
    Raw(&'a str),
    /// A two-character escape such as `\n`, and what it stands for.
    Short(char),
    /// A `\uXXXX` escape or a joined surrogate pair, and what it stands for.
    Code(char),
    /// A `\uXXXX` escape of a surrogate without its partner.
    LoneSurrogate,
}

/// The pieces of JSON text; since a backslash occurs only in strings, any span of a valid document will do.
#[derive(Clone, Debug)]
pub(super) struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        if !self.rest.starts_with('\\') {
            let length = self.rest.find('\\').unwrap_or(self.rest.len());
            return Some(Piece::Raw(self.take(length)));
        }
        if let Some(unit) = code_unit(self.rest) {
            let second = self.rest.get(6..).and_then(code_unit);
            let decoded = char::decode_utf16(iter::once(unit).chain(second)).next();
            let (piece, length) = match decoded {
                Some(Ok(character)) => (Piece::Code(character), 6 * character.len_utf16()),
                _ => (Piece::LoneSurrogate, 6),
            };
            self.take(length);
            return Some(piece);
        }
        match self.rest.as_bytes().get(1).copied().and_then(short_escape) {
            Some(character) => {
                self.take(2);
                Some(Piece::Short(character))
            }
            // No valid document gets here; the backslash then stands for itself.
            None => Some(Piece::Raw(self.take(1))),
        }
    }
}

/// What the byte after a backslash stands for, `None` when that is no two-character escape.
pub(super) fn short_escape(byte: u8) -> Option<char> {
    match byte {
        b'"' | b'\\' | b'/' => Some(char::from(byte)),
        b'b' => Some('\u{8}'),
        b'f' => Some('\u{c}'),
        b'n' => Some('\n'),
        b'r' => Some('\r'),
        b't' => Some('\t'),
        _ => None,
    }
}

/// The UTF-16 code unit of a `\uXXXX` at the start of the text.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    // `from_str_radix` alone would accept a sign.
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(digits, 16).ok()
}

/// The content of a string token, quotes included, with lone surrogates as U+FFFD.
pub(super) fn unescape(token: &str) -> Cow<'_, str> {
    let inside = token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(token);
    if !inside.contains('\\') {
        return Cow::Borrowed(inside);
    }
    let mut text = String::with_capacity(inside.len());
    for piece in Pieces::new(inside) {
        match piece {
            Piece::Raw(raw) => text.push_str(raw),
            Piece::Short(character) | Piece::Code(character) => text.push(character),
            Piece::LoneSurrogate => text.push(char::REPLACEMENT_CHARACTER),
        }
    }
    Cow::Owned(text)
}
