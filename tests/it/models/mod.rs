//! Models behind the port: one suite for every implementation, and what an endpoint can do wrong.

mod conformance;
#[cfg(feature = "openai")]
mod endpoint;
#[cfg(feature = "openai")]
mod loopback;
