//! Every limit of model calls, in one place (DESIGN section 12, promise 15).

use std::time::Duration;

/// Messages of one request at the most.
pub(super) const MESSAGES_MAX: usize = 10_000;
/// Tools of one request at the most; OpenAI's endpoints take 128.
pub(super) const TOOLS_MAX: usize = 128;
/// Characters of a tool's or a schema's name at the most, as OpenAI's endpoints have it.
pub(super) const NAME_CHARACTERS_MAX: usize = 64;
/// Tool calls that are taken of one reply; one that has more is refused as a bad answer.
#[cfg(feature = "openai")]
pub(super) const TOOL_CALLS_MAX: usize = 1_000;
/// Characters of an endpoint's own words in an error.
#[cfg(feature = "openai")]
pub(super) const REASON_CHARACTERS_MAX: usize = 300;
/// Models of one endpoint for which it is remembered what the endpoint takes; with one more it is found out again.
#[cfg(feature = "openai")]
pub(super) const REMEMBERED_MODELS_MAX: usize = 256;

/// The limits of calls to an endpoint. All sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelLimits {
    /// Time of one call from its beginning to its outcome, when the request names none: waiting for a place, connecting,
    /// headers, body and all retries count.
    pub deadline: Duration,
    /// The longest deadline that a request can name.
    pub deadline_max: Duration,
    /// Largest request.
    pub request_bytes_max: usize,
    /// Largest answer of a chat model.
    pub chat_bytes_max: usize,
    /// Largest answer of an embedder.
    pub embeddings_bytes_max: usize,
    /// Bytes that are read of an answer that is an error; the rest is left.
    pub error_bytes_max: usize,
    /// Times that a failed attempt is tried again within one call.
    pub retries_max: usize,
    /// Wait before the first retry; the next ones double, each with a random part on top. A longer wait that the endpoint
    /// asks for (`Retry-After`) is kept to.
    pub retry_delay_min: Duration,
    /// Longest wait of the doubling.
    pub retry_delay_max: Duration,
    /// Calls that are with the endpoint at once; more wait, within their deadline.
    pub calls_at_once_max: usize,
    /// Texts that are sent to an embedder at once; more go in several requests, within one deadline.
    pub embedding_texts_max: usize,
}

impl Default for ModelLimits {
    fn default() -> ModelLimits {
        ModelLimits {
            deadline: Duration::from_secs(120),
            deadline_max: Duration::from_secs(3_600),
            request_bytes_max: 16 << 20,
            chat_bytes_max: 4 << 20,
            embeddings_bytes_max: 16 << 20,
            error_bytes_max: 64 << 10,
            retries_max: 3,
            retry_delay_min: Duration::from_millis(500),
            retry_delay_max: Duration::from_secs(20),
            calls_at_once_max: 8,
            embedding_texts_max: 128,
        }
    }
}
