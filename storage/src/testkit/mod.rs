//! What the tests drive a store with: a simulated disk that loses power, refuses operations and lies; planted faults.

mod disk;
mod planted;

pub use disk::*;
pub use planted::*;
