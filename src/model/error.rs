//! How a call to a model fails, with a stable code and what to do.

use std::time::Duration;

use super::seconds;

/// A call to a model without a reply. Endpoints are named by scheme, host and path; the key appears in none of it, not even
/// where the endpoint repeats it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A setting is missing or not valid.
    #[error("the model endpoint is not configured: {reason}")]
    Configuration {
        /// Which setting, and what is wrong.
        reason: String,
    },
    /// The request breaks a rule; it was not sent.
    #[error("the model request is not valid: {reason}")]
    InvalidRequest {
        /// The rule.
        reason: String,
    },
    /// No connection, or one that broke before the answer was whole.
    #[error("{endpoint} cannot be reached: {reason}")]
    Unreachable {
        /// Whom.
        endpoint: String,
        /// What the system said.
        reason: String,
    },
    /// The certificate of the other end was not accepted; nothing was sent.
    #[error("{endpoint} is not trusted: {reason}")]
    Untrusted {
        /// Whom.
        endpoint: String,
        /// What is wrong with the certificate.
        reason: String,
    },
    /// The deadline passed.
    #[error(
        "{endpoint} gave no whole answer within {}: {bytes_received} bytes of attempt {attempts} had come",
        seconds(*.deadline)
    )]
    TimedOut {
        /// Whom.
        endpoint: String,
        /// The time that the call had.
        deadline: Duration,
        /// Bytes of the last attempt's body that had come.
        bytes_received: u64,
        /// Attempts, from 1.
        attempts: usize,
    },
    /// The endpoint takes no more for now.
    #[error("{endpoint} takes no more requests for now{}: {reason}", after(*.retry_after))]
    RateLimited {
        /// Whom.
        endpoint: String,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
        /// Whether the endpoint says that waiting does not help, as for a quota that is used up.
        quota_exhausted: bool,
        /// What it said.
        reason: String,
    },
    /// The endpoint did not take the key, or wants one.
    #[error("{endpoint} did not accept the key (status {status}): {reason}")]
    Unauthorised {
        /// Whom.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        reason: String,
    },
    /// The endpoint refused the request.
    #[error("{endpoint} refused the request (status {status}): {reason}")]
    Refused {
        /// Whom.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// What it said.
        reason: String,
    },
    /// The endpoint failed.
    #[error("{endpoint} failed (status {status}){}: {reason}", after(*.retry_after))]
    Failed {
        /// Whom.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
        /// What it said.
        reason: String,
    },
    /// The endpoint pointed to another address. It is not followed: the key and the messages are for the endpoint that was
    /// named.
    #[error("{endpoint} points to another address (status {status}, {location}), which is not followed")]
    Redirected {
        /// Whom.
        endpoint: String,
        /// The HTTP status.
        status: u16,
        /// Scheme and host of the other address.
        location: String,
    },
    /// The answer is not one that a model endpoint gives.
    #[error("{endpoint} gave an answer that cannot be read: {reason}")]
    BadAnswer {
        /// Whom.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A request or answer is over its limit.
    #[error("the {what} of {endpoint} is over {bytes_max} bytes")]
    TooLarge {
        /// Whose.
        endpoint: String,
        /// `request` or `answer`.
        what: &'static str,
        /// The limit.
        bytes_max: usize,
    },
    /// A double has no reply for the request.
    #[error("no reply is recorded for request {request}")]
    NoRecordedReply {
        /// Which of the requests that the double got, from 1.
        request: usize,
    },
}

fn after(wait: Option<Duration>) -> String {
    wait.map(|wait| format!(" and asks to wait {}", seconds(wait))).unwrap_or_default()
}

impl ModelError {
    /// A stable word for programs; `docs/errors.md` lists them.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            ModelError::Configuration { .. } => "model_not_configured",
            ModelError::InvalidRequest { .. } => "model_request_invalid",
            ModelError::Unreachable { .. } => "model_unreachable",
            ModelError::Untrusted { .. } => "model_untrusted",
            ModelError::TimedOut { .. } => "model_timed_out",
            ModelError::RateLimited { .. } => "model_rate_limited",
            ModelError::Unauthorised { .. } => "model_unauthorised",
            ModelError::Refused { .. } => "model_refused",
            ModelError::Failed { .. } => "model_failed",
            ModelError::Redirected { .. } => "model_redirected",
            ModelError::BadAnswer { .. } => "model_bad_answer",
            ModelError::TooLarge { .. } => "model_too_large",
            ModelError::NoRecordedReply { .. } => "model_no_recorded_reply",
        }
    }

    /// What the reader can do about it, where there is something.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            ModelError::Configuration { .. } => {
                "set OPENAI_BASE_URL to an endpoint, such as http://127.0.0.1:11434/v1, COGNILOG_MODEL to a model of it, \
                 and OPENAI_API_KEY where it wants a key"
            }
            ModelError::Unreachable { .. } => "see that the endpoint runs and that OPENAI_BASE_URL names it",
            ModelError::Untrusted { .. } => {
                "see that OPENAI_BASE_URL names whom you mean, and that the system knows who signed its certificate"
            }
            ModelError::TimedOut { .. } => "try again, allow more time, or ask a smaller model",
            ModelError::RateLimited { quota_exhausted: true, .. } => "see to the account of the endpoint",
            ModelError::RateLimited { .. } | ModelError::Failed { .. } => "try again later",
            ModelError::Unauthorised { .. } => "set OPENAI_API_KEY to a key of this endpoint",
            ModelError::Refused { status: 404 | 405, .. } => {
                "see that OPENAI_BASE_URL ends as the endpoint wants it, mostly in /v1, and that it has the model"
            }
            ModelError::Redirected { .. } => "set OPENAI_BASE_URL to the address that is meant",
            ModelError::BadAnswer { .. } => "see that OPENAI_BASE_URL names an OpenAI-compatible endpoint",
            ModelError::InvalidRequest { .. }
            | ModelError::Refused { .. }
            | ModelError::TooLarge { .. }
            | ModelError::NoRecordedReply { .. } => return None,
        })
    }

    /// Whether the same request may be answered when it is sent again.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        match self {
            ModelError::Unreachable { .. } | ModelError::TimedOut { .. } | ModelError::Failed { .. } => true,
            ModelError::RateLimited { quota_exhausted, .. } => !quota_exhausted,
            _ => false,
        }
    }

    /// How long the endpoint wants to be left alone, where it said so.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ModelError::RateLimited { retry_after, .. } | ModelError::Failed { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
