//! Tests of the exe as its users run it: processes, pipes, signals and files.
//!
//! `COGNILOG_SOAK=1` runs the longer variants.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod append;
#[cfg(feature = "model")]
mod asking;
mod common;
mod doctor;
mod import;
mod keeping;
mod log;
mod messages;
mod mirror;
mod operations;
mod processes;
mod replies;
mod review;
mod terminal;
mod verbs;
