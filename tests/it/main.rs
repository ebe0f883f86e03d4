//! Tests of the workspace as a whole: what holds across its crates and documents.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod appending;
mod archive;
mod asking;
mod committing;
mod common;
mod doctor;
mod fidelity;
mod following;
#[cfg(feature = "http")]
mod hub_over_http;
mod importing;
mod models;
mod prompts;
mod reparsing;
mod reviewing;
mod session;
mod simulation;
mod tidy;
