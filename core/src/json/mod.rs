//! JSON text as Python reads and writes it: tokens, values, and the white space of a whole file.
//!
//! Agents keep their memory in files that Python's `json` module wrote, so this module accepts what
//! `json.load` accepts (`NaN`, lone surrogate escapes, duplicate keys, numbers of any size), refuses
//! what it refuses, and never rewrites a token: a number or string keeps the text it was read with.

mod escape;
mod node;
mod style;
mod token;
mod write;

pub use node::{Node, Value, equal};
pub use style::{Indent, JsonStyle, detect, write_value};
pub use token::{DEPTH_MAX, JsonError, JsonErrorKind, Token, TokenKind, Tokens};
pub use write::{compact, escape_non_ascii, python_float};
