//! A tokeniser that accepts exactly the JSON text that Python's `json.load` accepts.

use std::ops::Range;

use thiserror::Error;

use super::escape::short_escape;

/// How many lists and objects may be open at once.
///
/// Python stops near 1,000 (its recursion limit); half of that leaves every later recursive walk over
/// a parsed value far from the end of a 2 MiB thread stack.
pub const DEPTH_MAX: usize = 512;

/// Why a text is not JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {kind}")]
pub struct JsonError {
    /// Byte offset of the fault in the text.
    pub offset: usize,
    /// Line of the fault, from 1; only `\n` ends a line, as in Python's messages.
    pub line: usize,
    /// Column of the fault, from 1, in characters.
    pub column: usize,
    /// What is wrong there.
    pub kind: JsonErrorKind,
}

impl JsonError {
    /// Whether the text is the beginning of a JSON text that was cut off, such as a half-written file.
    pub fn is_truncated(&self) -> bool {
        matches!(self.kind, JsonErrorKind::UnexpectedEnd { .. })
    }

    fn new(text: &str, offset: usize, kind: JsonErrorKind) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self { offset, line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1, kind }
    }
}

/// What is wrong with a text that is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum JsonErrorKind {
    /// The text ends inside a value, or before there is one.
    #[error("the text ends where {expected} was expected")]
    UnexpectedEnd {
        /// What could have followed.
        expected: &'static str,
    },
    /// Something else stands where the grammar asks for `expected`.
    #[error("expected {expected}")]
    Unexpected {
        /// What could have stood there.
        expected: &'static str,
    },
    /// A raw character below U+0020 stands inside a string.
    #[error("control character U+{code:04X} must be escaped inside a string")]
    ControlCharacter {
        /// The character's code.
        code: u8,
    },
    /// A backslash is not followed by one of `"\/bfnrt` or `u` and four hexadecimal digits.
    #[error("invalid escape inside a string")]
    InvalidEscape,
    /// More than [`DEPTH_MAX`] lists and objects are open.
    #[error("lists and objects are nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// Something other than white space follows the value.
    #[error("the value has ended, but more text follows")]
    ExtraText,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// `{`
    ObjectOpen,
    /// `}`
    ObjectClose,
    /// `[`
    ListOpen,
    /// `]`
    ListClose,
    /// `,`
    Comma,
    /// `:`
    Colon,
    /// A string that names a member of an object.
    Key,
    /// A string that is a value.
    Text,
    /// A number, `NaN`, `Infinity` or `-Infinity`.
    Number,
    /// `true`
    True,
    /// `false`
    False,
    /// `null`
    Null,
}

/// One token, with its text unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: TokenKind,
    /// Its text; strings include their quotes and escapes.
    pub text: &'a str,
    /// Its bytes in the whole text.
    pub span: Range<usize>,
    /// How many lists and objects enclose it; a bracket does not enclose itself.
    pub depth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Container {
    List,
    Object,
}

/// What the grammar allows next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Value,
    FirstValue,
    FirstKey,
    Key,
    Colon,
    AfterValue,
    End,
    Failed,
}

/// The tokens of a text that is one JSON value surrounded by optional white space.
///
/// The stream follows the grammar: a consumer that sees no error has seen a whole, well-formed value.
/// The first error ends the stream. One byte order mark before everything is skipped, as
/// `json.load` does for files opened in binary mode.
///
/// ```
/// use cognilog_core::json::Tokens;
///
/// let texts: Result<Vec<_>, _> = Tokens::new(" [1, NaN]").map(|token| token.map(|token| token.text)).collect();
/// assert_eq!(texts, Ok(vec!["[", "1", ",", "NaN", "]"]));
/// ```
#[derive(Clone, Debug)]
pub struct Tokens<'a> {
    text: &'a str,
    position: usize,
    open: Vec<Container>,
    state: State,
}

impl<'a> Tokens<'a> {
    /// Starts before the first token.
    pub fn new(text: &'a str) -> Self {
        let position = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Self { text, position, open: Vec::new(), state: State::Value }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn error(&self, offset: usize, kind: JsonErrorKind) -> JsonError {
        JsonError::new(self.text, offset, kind)
    }

    /// The error for a text that ends where `expected` could have followed.
    pub(super) fn end_error(&self, expected: &'static str) -> JsonError {
        self.error(self.text.len(), JsonErrorKind::UnexpectedEnd { expected })
    }

    fn unexpected(&self, offset: usize, expected: &'static str) -> JsonError {
        self.error(offset, JsonErrorKind::Unexpected { expected })
    }

    fn expected(&self) -> &'static str {
        match (self.state, self.open.last()) {
            (State::FirstValue, _) => "a value or ']'",
            (State::FirstKey, _) => "a string key or '}'",
            (State::Key, _) => "a string key",
            (State::Colon, _) => "':'",
            (State::AfterValue, Some(Container::Object)) => "',' or '}'",
            (State::AfterValue, _) => "',' or ']'",
            (State::Value | State::End | State::Failed, _) => "a value",
        }
    }

    fn skip_white_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte(self.position) {
            self.position += 1;
        }
    }

    fn step(&mut self) -> Result<Token<'a>, JsonError> {
        let start = self.position;
        let Some(byte) = self.byte(start) else {
            return Err(self.end_error(self.expected()));
        };
        let depth_before = self.open.len();
        let kind = match (self.state, byte, self.open.last()) {
            (State::FirstKey | State::AfterValue, b'}', Some(Container::Object)) => self.close(TokenKind::ObjectClose),
            (State::FirstValue | State::AfterValue, b']', Some(Container::List)) => self.close(TokenKind::ListClose),
            (State::FirstKey | State::Key, b'"', _) => {
                self.string()?;
                self.state = State::Colon;
                TokenKind::Key
            }
            (State::Colon, b':', _) => {
                self.position += 1;
                self.state = State::Value;
                TokenKind::Colon
            }
            (State::AfterValue, b',', container) => {
                self.state = match container {
                    Some(Container::Object) => State::Key,
                    _ => State::Value,
                };
                self.position += 1;
                TokenKind::Comma
            }
            (State::Value | State::FirstValue, _, _) => self.value(byte)?,
            _ => return Err(self.unexpected(start, self.expected())),
        };
        Ok(Token {
            kind,
            text: &self.text[start..self.position],
            span: start..self.position,
            depth: depth_before.min(self.open.len()),
        })
    }

    fn after_value(&self) -> State {
        if self.open.is_empty() { State::End } else { State::AfterValue }
    }

    fn open(&mut self, container: Container) -> Result<(), JsonError> {
        if self.open.len() >= DEPTH_MAX {
            return Err(self.error(self.position, JsonErrorKind::TooDeep));
        }
        self.open.push(container);
        self.position += 1;
        self.state = match container {
            Container::List => State::FirstValue,
            Container::Object => State::FirstKey,
        };
        Ok(())
    }

    fn close(&mut self, kind: TokenKind) -> TokenKind {
        self.open.pop();
        self.position += 1;
        self.state = self.after_value();
        kind
    }

    fn value(&mut self, byte: u8) -> Result<TokenKind, JsonError> {
        let kind = match byte {
            b'[' => return self.open(Container::List).map(|()| TokenKind::ListOpen),
            b'{' => return self.open(Container::Object).map(|()| TokenKind::ObjectOpen),
            b'"' => self.string().map(|()| TokenKind::Text)?,
            b't' => self.word("true").map(|()| TokenKind::True)?,
            b'f' => self.word("false").map(|()| TokenKind::False)?,
            b'n' => self.word("null").map(|()| TokenKind::Null)?,
            b'N' => self.word("NaN").map(|()| TokenKind::Number)?,
            b'I' => self.word("Infinity").map(|()| TokenKind::Number)?,
            b'-' if self.byte(self.position + 1) == Some(b'I') => self.word("-Infinity").map(|()| TokenKind::Number)?,
            b'-' | b'0'..=b'9' => self.number().map(|()| TokenKind::Number)?,
            _ => return Err(self.unexpected(self.position, self.expected())),
        };
        self.state = self.after_value();
        Ok(kind)
    }

    fn word(&mut self, word: &'static str) -> Result<(), JsonError> {
        let rest = &self.text[self.position..];
        if rest.starts_with(word) {
            self.position += word.len();
            Ok(())
        } else if word.starts_with(rest) {
            Err(self.end_error(word))
        } else {
            Err(self.unexpected(self.position, self.expected()))
        }
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.byte(self.position) == Some(b'-') {
            self.position += 1;
        }
        // A zero ends the integer part, so the digit after it in `01` is refused by the next step.
        if self.byte(self.position) == Some(b'0') {
            self.position += 1;
        } else {
            self.digits()?;
        }
        if self.byte(self.position) == Some(b'.') {
            self.position += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte(self.position) {
            self.position += 1;
            if let Some(b'+' | b'-') = self.byte(self.position) {
                self.position += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        match self.byte(self.position) {
            Some(b'0'..=b'9') => {}
            Some(_) => return Err(self.unexpected(self.position, "a digit")),
            None => return Err(self.end_error("a digit")),
        }
        while let Some(b'0'..=b'9') = self.byte(self.position) {
            self.position += 1;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), JsonError> {
        let mut at = self.position + 1;
        loop {
            match self.byte(at) {
                Some(b'"') => {
                    self.position = at + 1;
                    return Ok(());
                }
                Some(b'\\') => at = self.escape(at)?,
                Some(code @ 0..0x20) => {
                    return Err(self.error(at, JsonErrorKind::ControlCharacter { code }));
                }
                Some(_) => at += 1,
                None => return Err(self.end_error("the end of a string")),
            }
        }
    }

    /// Checks the escape that starts at `backslash` and returns where it ends.
    fn escape(&self, backslash: usize) -> Result<usize, JsonError> {
        let invalid = || self.error(backslash, JsonErrorKind::InvalidEscape);
        let Some(byte) = self.byte(backslash + 1) else {
            return Err(self.end_error("the rest of an escape"));
        };
        if byte != b'u' {
            return short_escape(byte).map(|_| backslash + 2).ok_or_else(invalid);
        }
        let end = backslash + 6;
        for at in backslash + 2..end {
            match self.byte(at) {
                Some(digit) if digit.is_ascii_hexdigit() => {}
                Some(_) => return Err(invalid()),
                None => return Err(self.end_error("the rest of an escape")),
            }
        }
        Ok(end)
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Result<Token<'a>, JsonError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.state == State::Failed {
            return None;
        }
        self.skip_white_space();
        let result = if self.state != State::End {
            self.step()
        } else if self.position == self.text.len() {
            return None;
        } else {
            Err(self.error(self.position, JsonErrorKind::ExtraText))
        };
        if result.is_err() {
            self.state = State::Failed;
        }
        Some(result)
    }
}
