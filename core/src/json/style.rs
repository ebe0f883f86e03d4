//! The white space of a file that Python's `json.dump` wrote: found in a text, and printed again.

use serde::{Deserialize, Serialize};

use super::escape::{Piece, Pieces};
use super::token::{JsonError, Token, TokenKind, Tokens};

/// How nested values are set on lines of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Indent {
    /// Everything on one line: `indent=None`.
    None,
    /// One line per item, this many spaces per level: `indent=2`; 0 breaks lines without indenting.
    Spaces(u8),
    /// One line per item, one tab per level: `indent="\t"`.
    Tab,
}

/// The layout of a whole JSON file: what Python's `json.dump` takes as arguments, and what surrounds the value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JsonStyle {
    /// How nested values are indented.
    pub indent: Indent,
    /// What separates items; with an indent, the line break follows it.
    pub item_separator: String,
    /// What separates a key from its value.
    pub key_separator: String,
    /// Whether characters beyond `~` are written as `\uXXXX`; `None` when the file has none to tell by.
    pub ensure_ascii: Option<bool>,
    /// What stands before the value, such as a byte order mark.
    pub leading: String,
    /// What stands after the value, such as a final line break.
    pub trailing: String,
}

impl JsonStyle {
    /// What `json.dump(value, file, indent=…)` writes: Python's own separators for that indent.
    ///
    /// ```
    /// use cognilog_core::json::{Indent, JsonStyle, write_value};
    ///
    /// let mut out = String::new();
    /// write_value(&mut out, "[1,[]]", &JsonStyle::python(Indent::Spaces(2)), 0)?;
    /// assert_eq!(out, "[\n  1,\n  []\n]");
    /// # Ok::<(), cognilog_core::json::JsonError>(())
    /// ```
    pub fn python(indent: Indent) -> Self {
        let item_separator = if indent == Indent::None { ", " } else { "," };
        Self {
            indent,
            item_separator: item_separator.to_owned(),
            key_separator: ": ".to_owned(),
            ensure_ascii: None,
            leading: String::new(),
            trailing: String::new(),
        }
    }

    /// Whether new text for this file must go through [`escape_non_ascii`](super::escape_non_ascii);
    /// without evidence it must not.
    pub fn escapes_non_ascii(&self) -> bool {
        self.ensure_ascii == Some(true)
    }

    fn push_line(&self, out: &mut String, depth: usize) {
        let (unit, count) = match self.indent {
            Indent::None => return,
            Indent::Spaces(width) => (' ', depth * usize::from(width)),
            Indent::Tab => ('\t', depth),
        };
        out.push('\n');
        out.extend(std::iter::repeat_n(unit, count));
    }

    fn push_tokens(&self, out: &mut String, text: &str, depth: usize) -> Result<(), JsonError> {
        // Whether the last token opened a list or object: an empty one gets no line break.
        let mut opened = false;
        for token in Tokens::new(text) {
            let token = token?;
            let level = depth + token.depth;
            let closes = matches!(token.kind, TokenKind::ListClose | TokenKind::ObjectClose);
            if opened != closes {
                self.push_line(out, level);
            }
            match token.kind {
                TokenKind::Comma => {
                    out.push_str(&self.item_separator);
                    self.push_line(out, level);
                }
                TokenKind::Colon => out.push_str(&self.key_separator),
                _ => out.push_str(token.text),
            }
            opened = matches!(token.kind, TokenKind::ListOpen | TokenKind::ObjectOpen);
        }
        Ok(())
    }
}

/// Prints a JSON value with the style's white space, each token's text unchanged.
///
/// `depth` says how many lists and objects enclose the value where it will stand; its continuation
/// lines are indented for that. Neither `leading` nor `trailing` is printed, and nothing is escaped:
/// see [`JsonStyle::escapes_non_ascii`].
///
/// # Errors
///
/// When `text` is not one JSON value; `out` is then as before.
pub fn write_value(out: &mut String, text: &str, style: &JsonStyle, depth: usize) -> Result<(), JsonError> {
    let length = out.len();
    let result = style.push_tokens(out, text, depth);
    if result.is_err() {
        out.truncate(length);
    }
    result
}

/// What a file's tokens and the gaps between them tell about its style.
#[derive(Default)]
struct Evidence {
    indent: Option<Indent>,
    item_separator: Option<String>,
    key_separator: Option<String>,
    has_raw: bool,
    has_escaped: bool,
}

impl Evidence {
    /// Takes in two neighbouring tokens and the gaps before, between and after them.
    fn add(&mut self, token: &Token<'_>, before: &str, after: &str, next: TokenKind) {
        match token.kind {
            TokenKind::ListOpen | TokenKind::ObjectOpen
                if self.indent.is_none() && !matches!(next, TokenKind::ListClose | TokenKind::ObjectClose) =>
            {
                self.indent = Some(indent_of(after));
            }
            TokenKind::Colon if self.key_separator.is_none() => {
                self.key_separator = Some(format!("{before}:{after}"));
            }
            TokenKind::Comma if self.item_separator.is_none() => {
                let after = match (self.indent, after.split_once('\n')) {
                    (None | Some(Indent::None), _) => after,
                    // A carriage return belongs to the line break, which is printed as `\n` alone.
                    (_, Some((after, _))) => after.trim_end_matches('\r'),
                    // A list kept on one line by hand says nothing about the lines of the rest.
                    (_, None) => return,
                };
                self.item_separator = Some(format!("{before},{after}"));
            }
            TokenKind::Key | TokenKind::Text => self.add_text(token.text),
            _ => {}
        }
    }

    /// Python escapes characters below U+0020 in every style, so only those beyond `~` tell.
    fn add_text(&mut self, text: &str) {
        for piece in Pieces::new(text) {
            match piece {
                Piece::Raw(raw) => self.has_raw |= raw.bytes().any(|byte| byte >= 0x7f),
                Piece::Code(character) => self.has_escaped |= character >= '\u{7f}',
                Piece::LoneSurrogate => self.has_escaped = true,
                Piece::Short(_) => {}
            }
        }
    }

    /// The style, with Python's defaults for what the file does not show.
    ///
    /// The compact separators come as a pair: on one line, a tight one speaks for the other.
    fn into_style(self, leading: &str, trailing: &str) -> JsonStyle {
        let style = JsonStyle::python(self.indent.unwrap_or(Indent::None));
        let on_one_line = style.indent == Indent::None;
        let item_is_tight = on_one_line && self.item_separator.as_deref() == Some(",");
        let key_is_tight = self.key_separator.as_deref() == Some(":");
        let item_default = if key_is_tight { "," } else { &style.item_separator };
        let key_default = if item_is_tight { ":" } else { &style.key_separator };
        JsonStyle {
            indent: style.indent,
            item_separator: self.item_separator.unwrap_or_else(|| item_default.to_owned()),
            key_separator: self.key_separator.unwrap_or_else(|| key_default.to_owned()),
            ensure_ascii: match (self.has_raw, self.has_escaped) {
                (true, _) => Some(false),
                (false, true) => Some(true),
                (false, false) => None,
            },
            leading: leading.to_owned(),
            trailing: trailing.to_owned(),
        }
    }
}

/// The indent that the gap after the outermost opening bracket shows.
fn indent_of(gap: &str) -> Indent {
    match gap.rsplit_once('\n') {
        None => Indent::None,
        Some((_, line)) if line.starts_with('\t') => Indent::Tab,
        Some((_, line)) => Indent::Spaces(u8::try_from(line.len()).unwrap_or(u8::MAX)),
    }
}

/// Finds the style of a whole JSON file.
///
/// For every file that Python's `json.dump` wrote (white space around the value may be added),
/// `leading`, the value printed by [`write_value`] at depth 0, and `trailing` make up the same file.
/// For other files the style is the nearest one.
///
/// # Errors
///
/// When the text is not one JSON value.
pub fn detect(text: &str) -> Result<JsonStyle, JsonError> {
    let mut evidence = Evidence::default();
    let mut leading = "";
    let mut before = "";
    let mut previous: Option<Token<'_>> = None;
    for token in Tokens::new(text) {
        let token = token?;
        match &previous {
            None => leading = &text[..token.span.start],
            Some(previous) => {
                let after = &text[previous.span.end..token.span.start];
                evidence.add(previous, before, after, token.kind);
                before = after;
            }
        }
        previous = Some(token);
    }
    let Some(last) = previous else {
        return Ok(evidence.into_style(leading, ""));
    };
    let trailing = &text[last.span.end..];
    evidence.add(&last, before, trailing, last.kind);
    Ok(evidence.into_style(leading, trailing))
}
