//! A value as a reply has it: JSON after repair, with what a repair left uncertain.

use std::fmt::Write as _;

use super::report::shown;
use crate::json::python_float;

/// One value of a reply. Depth is bounded by the parser, so the walks below may recurse.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    /// In its own spelling, which is that of a JSON number, `NaN`, `Infinity` or `-Infinity`.
    Number(String),
    Text(Text),
    List {
        items: Vec<Value>,
        /// Whether its end was seen.
        closed: bool,
    },
    Object {
        members: Vec<(String, Value)>,
        /// Whether its end was seen.
        closed: bool,
    },
}

/// A string of a reply.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Text {
    pub(super) content: String,
    /// Quotes inside were not escaped; where it ends was concluded from what follows.
    pub(super) is_guessed: bool,
    /// It stood without quotes.
    pub(super) is_bare: bool,
}

/// What stands under a key.
pub(super) enum Member<'v> {
    Absent,
    One(&'v Value),
    /// The key stands twice with different values.
    Ambiguous,
}

impl<'v> Member<'v> {
    pub(super) fn one(self) -> Option<&'v Value> {
        match self {
            Member::One(value) => Some(value),
            Member::Absent | Member::Ambiguous => None,
        }
    }
}

impl Value {
    pub(super) fn text(content: String) -> Value {
        Value::Text(Text { content, is_guessed: false, is_bare: false })
    }

    pub(super) fn members(&self) -> Option<&[(String, Value)]> {
        match self {
            Value::Object { members, .. } => Some(members),
            _ => None,
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(&text.content),
            _ => None,
        }
    }

    /// Whether the end of a list or object was seen; other values are always whole.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Value::List { closed, .. } | Value::Object { closed, .. } => *closed,
            _ => true,
        }
    }

    /// The member with exactly this key.
    pub(super) fn get(&self, key: &str) -> Member<'_> {
        self.find(|name| name == key)
    }

    /// The member whose key is this one but for case and white space around it.
    pub(super) fn get_folded(&self, key: &str) -> Member<'_> {
        self.find(|name| name.trim().to_lowercase() == key)
    }

    fn find(&self, is_meant: impl Fn(&str) -> bool) -> Member<'_> {
        let mut found = None;
        for (_, value) in self.members().unwrap_or_default().iter().filter(|(name, _)| is_meant(name)) {
            match found {
                Some(earlier) if earlier != value => return Member::Ambiguous,
                _ => found = Some(value),
            }
        }
        found.map_or(Member::Absent, Member::One)
    }

    pub(super) fn has_keys(&self, keys: &[&str]) -> bool {
        let members = self.members().unwrap_or_default();
        keys.iter().all(|key| members.iter().any(|(name, _)| name == key))
    }

    /// The integer that a number, or a string of digits, says; an integral float counts (`42.0`), a fraction does not.
    pub(super) fn as_integer(&self) -> Option<Integer> {
        match self {
            Value::Number(text) => {
                if let Ok(integer) = text.parse::<i64>() {
                    return Some(Integer::Small(integer));
                }
                let float: f64 = text.parse().ok()?;
                // Beyond 2^53 a float no longer says which integer is meant, and no sequence is that large.
                match float.fract() == 0.0 && float.is_finite() {
                    true if float.abs() <= (1_i64 << 53) as f64 => Some(Integer::Small(float as i64)),
                    true => Some(Integer::Large),
                    false => None,
                }
            }
            Value::Text(text) if !text.is_bare => {
                let digits: Option<String> = text.content.trim().chars().map(ascii_digit).collect();
                let digits = digits.filter(|digits| (1..=18).contains(&digits.len()))?;
                digits.parse().ok().map(Integer::Small)
            }
            _ => None,
        }
    }

    /// What it is, with its article, for messages.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a string",
            Value::List { .. } => "a list",
            Value::Object { .. } => "an object",
        }
    }

    /// The value for a report: quoted and short.
    pub(super) fn shown(&self) -> String {
        match self {
            Value::Text(text) => format!("{:?}", shown(&text.content)),
            other => shown(&other.to_python()),
        }
    }

    /// The JSON as Python's `json.dumps(value, ensure_ascii=False)` prints it.
    pub(super) fn to_python(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, ", ", ": ", &|number| match number.parse::<f64>() {
            Ok(float) if number.contains(['.', 'e', 'E']) => python_float(float),
            _ => number.to_owned(),
        });
        out
    }

    /// The JSON without white space, numbers in their own spelling; what is no JSON number becomes null.
    pub(super) fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, ",", ":", &|number| match number.ends_with(['N', 'y']) {
            true => "null".to_owned(),
            false => number.to_owned(),
        });
        out
    }

    fn write(&self, out: &mut String, comma: &str, colon: &str, number: &dyn Fn(&str) -> String) {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match self {
            Value::Null => out.push_str("null"),
            Value::Bool(truth) => {
                // Writing to a `String` cannot fail.
                let _ = write!(out, "{truth}");
            }
            Value::Number(text) => out.push_str(&number(text)),
            Value::Text(text) => out.push_str(&quoted(&text.content)),
            Value::List { items, .. } => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index > 0 { comma } else { "" });
                    item.write(out, comma, colon, number);
                }
                out.push(']');
            }
            Value::Object { members, .. } => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    out.push_str(if index > 0 { comma } else { "" });
                    out.push_str(&quoted(key));
                    out.push_str(colon);
                    value.write(out, comma, colon, number);
                }
                out.push('}');
            }
        }
    }
}

/// An integer of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Integer {
    Small(i64),
    /// Larger than any sequence.
    Large,
}

/// The ASCII digit that a digit is, full-width ones included.
pub(super) fn ascii_digit(character: char) -> Option<char> {
    match character {
        '0'..='9' => Some(character),
        '０'..='９' => char::from_u32(character as u32 - '０' as u32 + '0' as u32),
        _ => None,
    }
}
