//! The store through its public interface: what it promises, with and without a disk that fails.

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

mod backup;
mod checks;
mod common;
mod concurrency;
mod damage;
mod faults;
mod folds;
mod idempotency;
mod log;
mod opening;
