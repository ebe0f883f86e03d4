//! A simulator: an engine on a disk that fails in every way, held against an oracle that owns what was acknowledged.
//!
//! A run is made from a seed, which is printed; `COGNILOG_SEED=…` makes it again. Without more a small part is tried;
//! `COGNILOG_SIMULATION=full` tries what `.ci/run faults` does.

mod clocks;
mod crashes;
mod creation;
mod damage;
mod directories;
mod life;
mod model;
mod oracle;
mod planted;
mod refusals;
mod workload;
