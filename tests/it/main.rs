//! Tests of the workspace as a whole: what holds across its crates and documents.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod appending;
mod archive;
mod asking;
mod common;
mod fidelity;
mod following;
mod importing;
mod prompts;
mod session;
mod reviewing;
mod tidy;
