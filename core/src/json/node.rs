//! A JSON value read from a text, each part with its place in that text.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use super::escape::{Piece, Pieces, unescape};
use super::token::{JsonError, Token, TokenKind, Tokens};

/// The largest magnitude up to which every integer is a float of its own: 2^53.
const FLOAT_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// A JSON value and where it stands in its source text.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    /// The value's bytes in the source, from its first to its last token.
    pub span: Range<usize>,
    /// What stands there.
    pub value: Value<'a>,
}

/// What a JSON value is.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number's text, unchanged; also `NaN`, `Infinity` and `-Infinity`.
    Number(&'a str),
    /// A string without its escapes; a lone surrogate is U+FFFD.
    Text(Cow<'a, str>),
    /// The items of a list.
    List(Vec<Node<'a>>),
    /// The members of an object in the source's order, duplicates included.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

/// A list or object whose end has not been read yet.
struct Frame<'a> {
    start: usize,
    key: Cow<'a, str>,
    value: Value<'a>,
}

impl<'a> Frame<'a> {
    fn add(&mut self, node: Node<'a>) {
        match &mut self.value {
            Value::Object(members) => members.push((std::mem::take(&mut self.key), node)),
            Value::List(items) => items.push(node),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) => {}
        }
    }
}

impl<'a> Node<'a> {
    /// Reads a text that is one JSON value, surrounded by optional white space.
    ///
    /// # Errors
    ///
    /// When the text is not what Python's `json.load` accepts, or nests deeper than
    /// [`DEPTH_MAX`](super::DEPTH_MAX).
    ///
    /// ```
    /// use cognilog_core::json::Node;
    ///
    /// let node = Node::parse(r#"{"tries": 3.0}"#)?;
    /// assert_eq!(node.get("tries").and_then(Node::as_integer), Some(3));
    /// # Ok::<(), cognilog_core::json::JsonError>(())
    /// ```
    pub fn parse(text: &'a str) -> Result<Self, JsonError> {
        let mut tokens = Tokens::new(text);
        let mut open: Vec<Frame<'a>> = Vec::new();
        let mut root = None;
        while let Some(token) = tokens.next().transpose()? {
            let Some(node) = advance(&mut open, token) else {
                continue;
            };
            match open.last_mut() {
                Some(frame) => frame.add(node),
                None => root = Some(node),
            }
        }
        // The token stream ends without an error only after a whole value.
        root.ok_or_else(|| tokens.end_error("a value"))
    }

    /// The value of an object's member; of duplicate keys the last one counts, as in Python.
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        let members = self.as_object()?;
        let (_, node) = members.iter().rev().find(|(name, _)| name == key)?;
        Some(node)
    }

    /// The content of a string.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number as an integer: `42`, and also `42.0` or `4.2e1` within ±2^53.
    ///
    /// Numbers with a fraction, beyond `i64`, or not finite are `None`.
    pub fn as_integer(&self) -> Option<i64> {
        let Value::Number(text) = &self.value else {
            return None;
        };
        if let Ok(integer) = text.parse::<i64>() {
            return Some(integer);
        }
        // An integer beyond `i64` has neither mark, and is out of range as a float too.
        let float: f64 = text.parse().ok()?;
        let integral = float.abs() <= FLOAT_INTEGER_MAX && float.fract() == 0.0;
        // An integral float within ±2^53 is an `i64` exactly, so the cast loses nothing.
        integral.then_some(float as i64)
    }

    /// The truth value, of `true` and `false` only.
    pub fn as_bool(&self) -> Option<bool> {
        match self.value {
            Value::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn as_list(&self) -> Option<&[Node<'a>]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The members of an object in the source's order, duplicates included.
    pub fn as_object(&self) -> Option<&[(Cow<'a, str>, Node<'a>)]> {
        match &self.value {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    /// Whether the value is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// The value's own text in `source`, the text it was parsed from; empty for a text too short.
    pub fn raw<'s>(&self, source: &'s str) -> &'s str {
        source.get(self.span.clone()).unwrap_or_default()
    }

    /// What the value is, with its article, for messages.
    pub fn type_name(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }

    /// Whether a string or key anywhere in the value holds a surrogate escape without its partner.
    ///
    /// `source` is the text the value was parsed from. Python loads such a string; UTF-8 cannot hold it,
    /// so [`Value::Text`] shows U+FFFD instead.
    pub fn has_lone_surrogate(&self, source: &str) -> bool {
        Pieces::new(self.raw(source)).any(|piece| piece == Piece::LoneSurrogate)
    }

    /// Whether `NaN`, `Infinity` or `-Infinity` is written anywhere in the value.
    ///
    /// A number too large for a float, such as `1e400`, is not: its text is ordinary JSON.
    pub fn has_non_finite(&self) -> bool {
        match &self.value {
            // Of all number texts only these three end in a letter.
            Value::Number(text) => text.ends_with(['N', 'y']),
            Value::List(items) => items.iter().any(Node::has_non_finite),
            Value::Object(members) => members.iter().any(|(_, node)| node.has_non_finite()),
            Value::Null | Value::Bool(_) | Value::Text(_) => false,
        }
    }
}

/// Takes one token into the open lists and objects, and returns the value it completes.
fn advance<'a>(open: &mut Vec<Frame<'a>>, token: Token<'a>) -> Option<Node<'a>> {
    let span = token.span;
    let value = match token.kind {
        TokenKind::ListOpen | TokenKind::ObjectOpen => {
            open.push(Frame {
                start: span.start,
                key: Cow::Borrowed(""),
                value: if token.kind == TokenKind::ListOpen {
                    Value::List(Vec::new())
                } else {
                    Value::Object(Vec::new())
                },
            });
            return None;
        }
        TokenKind::ListClose | TokenKind::ObjectClose => {
            let frame = open.pop()?;
            return Some(Node { span: frame.start..span.end, value: frame.value });
        }
        TokenKind::Key => {
            open.last_mut()?.key = unescape(token.text);
            return None;
        }
        TokenKind::Comma | TokenKind::Colon => return None,
        TokenKind::Text => Value::Text(unescape(token.text)),
        TokenKind::Number => Value::Number(token.text),
        TokenKind::True => Value::Bool(true),
        TokenKind::False => Value::Bool(false),
        TokenKind::Null => Value::Null,
    };
    Some(Node { span, value })
}

/// Whether two values are equal as Python's `==` sees them, except that numbers must have the same text.
///
/// The order of an object's keys does not count, and of duplicate keys only the last one does. `NaN`
/// equals `NaN`, `1` differs from `1.0` and from `true`. Lone surrogates compare as the U+FFFD they
/// were read as.
pub fn equal(a: &Node<'_>, b: &Node<'_>) -> bool {
    match (&a.value, &b.value) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Number(a), Value::Number(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::List(a), Value::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            let (a, b) = (last_members(a), last_members(b));
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => false,
    }
}

/// The members that count: inserting in order lets the last of duplicate keys win.
fn last_members<'n, 'a>(members: &'n [(Cow<'a, str>, Node<'a>)]) -> HashMap<&'n str, &'n Node<'a>> {
    members.iter().map(|(key, node)| (key.as_ref(), node)).collect()
}
