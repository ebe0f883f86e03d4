//! How one field of an event is read from JSON leniently, noted when it does not fit, and written back.

use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use crate::json::{Node, Value};

/// How far a field was from what its kind expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A field that the documents have is absent; a default stands in and the text is kept as it came.
    Absent,
    /// A value of another type was understood, such as a number where text is expected.
    Coerced,
    /// An item of a list does not fit and is left out; the others count.
    Dropped,
    /// The event does not fit its kind here.
    Unfit,
}

/// One place where an event's JSON is not what its kind expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How far from expected.
    pub severity: Severity,
    /// The field, as `assessments[2].status`.
    pub field: String,
    /// What was found and what is expected.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "field `{}`: {}", self.field, self.what)
    }
}

/// Walks one event's JSON and collects the problems met on the way.
#[derive(Debug)]
pub(crate) struct Reader<'s> {
    pub(super) source: &'s str,
    path: Vec<String>,
    problems: Vec<Problem>,
}

impl<'s> Reader<'s> {
    pub(super) fn new(source: &'s str) -> Reader<'s> {
        Reader { source, path: Vec::new(), problems: Vec::new() }
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    pub(super) fn note(&mut self, severity: Severity, what: impl Into<String>) {
        let field = self.path.concat();
        self.problems.push(Problem { severity, field: field.trim_start_matches('.').to_owned(), what: what.into() });
    }

    pub(super) fn within<T>(&mut self, step: String, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let value = read(self);
        self.path.pop();
        value
    }

    pub(super) fn field<T: Field>(&mut self, object: &Node<'_>, key: &str) -> T {
        let key = key.trim_start_matches("r#");
        self.within(format!(".{key}"), |reader| T::read(object.get(key), reader))
    }

    /// Whether a problem noted since there were `before` of them keeps the event from fitting.
    fn is_unfit_since(&self, before: usize) -> bool {
        self.problems[before..].iter().any(|problem| problem.severity == Severity::Unfit)
    }

    fn mismatch(&mut self, expected: &str, node: &Node<'_>) {
        self.note(Severity::Unfit, format!("expected {expected}, found {}", node.type_name()));
    }
}

/// A type that stands in a field of an event.
pub(crate) trait Field: Sized + Default + Serialize {
    /// Reads the field; what does not fit is noted and a default taken.
    fn read(node: Option<&Node<'_>>, reader: &mut Reader<'_>) -> Self;

    /// Reads the field where it may be absent; `null` is absent too.
    fn read_optional(node: Option<&Node<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let node = node.filter(|node| !node.is_null())?;
        let before = reader.problems.len();
        let value = Self::read(Some(node), reader);
        (!reader.is_unfit_since(before)).then_some(value)
    }

    /// Whether the field is left out of the JSON.
    fn is_absent(&self) -> bool {
        false
    }
}

impl Field for String {
    fn read(node: Option<&Node<'_>>, reader: &mut Reader<'_>) -> String {
        let Some(node) = node else {
            reader.note(Severity::Unfit, "missing, expected a string");
            return String::new();
        };
        match &node.value {
            Value::Text(text) => text.to_string(),
            Value::Number(number) => {
                reader.note(Severity::Coerced, "expected a string, found a number");
                (*number).to_owned()
            }
            _ => {
                reader.mismatch("a string", node);
                String::new()
            }
        }
    }

    /// Text beside what makes the event, such as a reason or an error, is taken as its JSON when it is no string, so
    /// that the rest of the event counts and nothing is passed over.
    fn read_optional(node: Option<&Node<'_>>, reader: &mut Reader<'_>) -> Option<String> {
        let node = node.filter(|node| !node.is_null())?;
        match node.value {
            Value::Text(_) | Value::Number(_) => Some(String::read(Some(node), reader)),
            _ => {
                let found = node.type_name();
                reader.note(Severity::Coerced, format!("expected a string, found {found}, taken as its JSON"));
                Some(node.raw(reader.source).to_owned())
            }
        }
    }
}

impl Field for i64 {
    fn read(node: Option<&Node<'_>>, reader: &mut Reader<'_>) -> i64 {
        let Some(node) = node else {
            reader.note(Severity::Unfit, "missing, expected an integer");
            return 0;
        };
        if let Some(number) = node.as_integer() {
            return number;
        }
        if let Some(number) = node.as_text().and_then(|text| text.trim().parse().ok()) {
            reader.note(Severity::Coerced, "expected an integer, found a string of digits");
            return number;
        }
        match node.value {
            Value::Number(number) => {
                let shown: String = number.chars().take(40).collect();
                reader.note(Severity::Unfit, format!("{shown} is not an integer of 64 bits"));
            }
            _ => reader.mismatch("an integer", node),
        }
        0
    }
}

impl<T: Field> Field for Option<T> {
    fn read(node: Option<&Node<'_>>, reader: &mut Reader<'_>) -> Option<T> {
        T::read_optional(node, reader)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: Field> Field for Vec<T> {
    fn read(node: Option<&Node<'_>>, reader: &mut Reader<'_>) -> Vec<T> {
        let Some(node) = node.filter(|node| !node.is_null()) else {
            reader.note(Severity::Absent, "missing, taken as an empty list");
            return Vec::new();
        };
        let Some(list) = node.as_list() else {
            reader.mismatch("a list", node);
            return Vec::new();
        };
        let mut items = Vec::with_capacity(list.len());
        for (index, item) in list.iter().enumerate() {
            let before = reader.problems.len();
            let value = reader.within(format!("[{index}]"), |reader| T::read(Some(item), reader));
            // One item that cannot be understood takes nothing from the others.
            if reader.is_unfit_since(before) {
                for problem in &mut reader.problems[before..] {
                    problem.severity = problem.severity.min(Severity::Dropped);
                }
            } else {
                items.push(value);
            }
        }
        items
    }
}

/// JSON that is kept as text: tags, configurations, numbers that must keep their spelling.
#[derive(Clone, Debug, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[rkyv(derive(Debug))]
pub struct JsonText(String);

impl JsonText {
    /// Takes JSON text, without white space between its tokens.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn new(text: &str) -> Result<JsonText, crate::json::JsonError> {
        crate::json::compact(text).map(JsonText)
    }

    /// A JSON string of the text.
    #[must_use]
    pub fn from_text(text: &str) -> JsonText {
        JsonText(serde_json::Value::from(text).to_string())
    }

    /// The JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text of a JSON string; any other JSON as it is written.
    #[must_use]
    pub fn to_plain(&self) -> String {
        plain(&self.0)
    }
}

impl ArchivedJsonText {
    /// The JSON.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The text of a JSON string; any other JSON as it is written.
    #[must_use]
    pub fn to_plain(&self) -> String {
        plain(self.0.as_str())
    }
}

fn plain(json: &str) -> String {
    match Node::parse(json) {
        Ok(Node { value: Value::Text(text), .. }) => text.into_owned(),
        _ => json.to_owned(),
    }
}

impl Default for JsonText {
    fn default() -> JsonText {
        JsonText("null".to_owned())
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // NaN and the like are no JSON for serde_json: such text never comes from a typed event, and is refused here.
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl Field for JsonText {
    fn read(node: Option<&Node<'_>>, reader: &mut Reader<'_>) -> JsonText {
        let Some(node) = node else {
            reader.note(Severity::Unfit, "missing");
            return JsonText::default();
        };
        JsonText(crate::json::compact(node.raw(reader.source)).unwrap_or_else(|_| "null".to_owned()))
    }
}

/// A type made of fields: an event or an object inside one.
pub(crate) trait Shape: Sized + Default {
    /// Reads all fields from an object.
    fn read_fields(object: &Node<'_>, reader: &mut Reader<'_>) -> Self;

    /// Writes the fields that are present, in the documents' order.
    ///
    /// # Errors
    /// The serializer's own.
    fn write_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// Defines a type made of fields: its bytes in the log (rkyv), its JSON, and its lenient reading.
macro_rules! fields {
    ($(#[$meta:meta])* pub struct $name:ident { $( $(#[$field_meta:meta])* $field:ident: $type:ty, )* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[rkyv(derive(Debug))]
        pub struct $name { $( $(#[$field_meta])* pub $field: $type, )* }

        impl $crate::event::field::Shape for $name {
            fn read_fields(object: &$crate::json::Node<'_>, reader: &mut $crate::event::field::Reader<'_>) -> Self {
                Self { $( $field: reader.field(object, stringify!($field)), )* }
            }

            fn write_fields<M: serde::ser::SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
                $( if !$crate::event::field::Field::is_absent(&self.$field) {
                    map.serialize_entry(stringify!($field).trim_start_matches("r#"), &self.$field)?;
                } )*
                Ok(())
            }
        }

        $crate::event::field::shape_as_field!($name);
    };
}

/// Lets a type made of fields stand in a field itself.
macro_rules! shape_as_field {
    ($name:ident) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap as _;
                let mut map = serializer.serialize_map(None)?;
                $crate::event::field::Shape::write_fields(self, &mut map)?;
                map.end()
            }
        }

        impl $crate::event::field::Field for $name {
            fn read(node: Option<&$crate::json::Node<'_>>, reader: &mut $crate::event::field::Reader<'_>) -> Self {
                match node {
                    Some(node) if node.as_object().is_some() => $crate::event::field::Shape::read_fields(node, reader),
                    Some(node) => {
                        let found = format!("expected an object, found {}", node.type_name());
                        reader.note($crate::event::field::Severity::Unfit, found);
                        Self::default()
                    }
                    None => {
                        reader.note($crate::event::field::Severity::Unfit, "missing, expected an object");
                        Self::default()
                    }
                }
            }
        }
    };
}

/// Defines a set of words stored as a byte, where 0 stands for a word that this build does not know.
macro_rules! words {
    ($(#[$meta:meta])* pub struct $name:ident { $( $(#[$word_meta:meta])* $constant:ident = $code:literal $word:literal $(| $alias:literal)*, )* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
        #[rkyv(derive(Debug))]
        pub struct $name(pub u8);

        impl $name {
            /// A word that this build does not know.
            pub const UNKNOWN: $name = $name(0);
            $( $(#[$word_meta])* pub const $constant: $name = $name($code); )*

            /// Every word, in the documents' order.
            pub const ALL: &'static [$name] = &[$( $name($code), )*];

            /// The word as the documents spell it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self.0 { $( $code => $word, )* _ => "unknown" }
            }

            /// Reads a word or one of its other spellings.
            #[must_use]
            pub fn from_word(word: &str) -> Option<$name> {
                match word { $( $word $(| $alias)* => Some($name($code)), )* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl $crate::event::field::Field for $name {
            fn read(
                node: Option<&$crate::json::Node<'_>>,
                reader: &mut $crate::event::field::Reader<'_>,
            ) -> Self {
                let expected = concat!("one of" $(, " ", $word)*);
                let Some(node) = node else {
                    reader.note($crate::event::field::Severity::Unfit, format!("missing, expected {expected}"));
                    return $name::UNKNOWN;
                };
                match node.as_text() {
                    Some(text) => $name::from_word(text).unwrap_or_else(|| {
                        let shown: String = text.chars().take(40).collect();
                        reader.note($crate::event::field::Severity::Unfit, format!("{shown:?} is not {expected}"));
                        $name::UNKNOWN
                    }),
                    None => {
                        let found = format!("expected {expected}, found {}", node.type_name());
                        reader.note($crate::event::field::Severity::Unfit, found);
                        $name::UNKNOWN
                    }
                }
            }
        }
    };
}

pub(super) use {fields, shape_as_field, words};
