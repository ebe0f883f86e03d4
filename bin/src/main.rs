//! The exe `cognilog`.
fn main() {}
