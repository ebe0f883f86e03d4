//! The vocabulary, rules and decisions of cognilog: pure, without input, output, clock or randomness.

pub mod json;
