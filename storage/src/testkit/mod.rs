//! What the tests drive a store with: a simulated disk that loses power, refuses operations and lies.

mod disk;

pub use disk::*;
