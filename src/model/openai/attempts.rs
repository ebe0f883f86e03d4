//! Attempts of one request: which answers are failures, which failures are tried again, and when.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use cognilog_core::json::Node;
use reqwest::Url;

use super::answer::Unreadable;
use super::settings::Key;
use super::transport::{Answer, Deadline, Transport};
use crate::model::limits::REASON_CHARACTERS_MAX;
use crate::model::{ModelError, ModelLimits};

/// What stands in an error of an endpoint that gives no reason.
pub(super) const NO_REASON: &str = "it said nothing more";

/// A request with what it takes to send it.
pub(super) struct Call<'c> {
    pub(super) transport: &'c Transport,
    pub(super) key: Option<&'c Key>,
    pub(super) limits: &'c ModelLimits,
    pub(super) path: &'static str,
    pub(super) body: Vec<u8>,
    pub(super) answer_bytes_max: usize,
    pub(super) deadline: Deadline,
}

impl Call<'_> {
    /// Sends the request until there is an answer that can be read, an error that trying again does not mend, or no retry
    /// left within the deadline.
    ///
    /// # Errors
    /// The last attempt's error.
    pub(super) fn send<T>(&self, read: impl Fn(&str) -> Result<T, Unreadable>) -> Result<T, ModelError> {
        let address = self.transport.address(self.path);
        let bytes_max = self.limits.request_bytes_max;
        if self.body.len() > bytes_max {
            return Err(ModelError::TooLarge { endpoint: address.to_string(), what: "request", bytes_max });
        }
        let mut delays = ExponentialBuilder::default()
            .with_min_delay(self.limits.retry_delay_min)
            .with_max_delay(self.limits.retry_delay_max)
            .with_max_times(self.limits.retries_max)
            .with_jitter()
            .build();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut error = match self.attempt(&address, &read) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if let ModelError::TimedOut { attempts, .. } = &mut error {
                *attempts = attempt;
            }
            let delay = delays.next().map(|delay| error.retry_after().map_or(delay, |asked| asked.max(delay)));
            match delay {
                // A wait that the deadline would cut is not begun: what happened says more than a deadline that passed.
                Some(delay) if error.may_retry() && self.deadline.has(delay) => std::thread::sleep(delay),
                _ => return Err(error),
            }
        }
    }

    fn attempt<T>(&self, address: &Url, read: impl Fn(&str) -> Result<T, Unreadable>) -> Result<T, ModelError> {
        let answer = self.transport.post(address, self.body.clone(), self.answer_bytes_max, self.deadline)?;
        let text = success(address, self.key, answer)?;
        read(&text).map_err(|unreadable| match unreadable {
            Unreadable::Error { status } => failure(address.to_string(), self.key, status, None, &text),
            Unreadable::NoAnswer { reason } => {
                let reason = shortened(&without_key(self.key, &reason));
                ModelError::BadAnswer { endpoint: address.to_string(), reason }
            }
        })
    }
}

/// The body of an answer of success; another answer as the error it is.
fn success(address: &Url, key: Option<&Key>, answer: Answer) -> Result<String, ModelError> {
    let endpoint = address.to_string();
    let status = answer.status;
    if let Some(encoding) = answer.encoding.filter(|_| matches!(status, 200..=299)) {
        let reason = without_key(key, &format!("it is compressed ({encoding}), which was not asked for"));
        return Err(ModelError::BadAnswer { endpoint, reason: shortened(&reason) });
    }
    // A byte that is no UTF-8 becomes U+FFFD, so that the rest of what a model said can be read.
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    if matches!(status, 200..=299) {
        return Ok(text);
    }
    if matches!(status, 300..=399) {
        let location = answer.location.and_then(|location| address.join(&location).ok());
        let location = location.map_or("nowhere".to_owned(), |url| url.origin().ascii_serialization());
        return Err(ModelError::Redirected { endpoint, status, location: shortened(&without_key(key, &location)) });
    }
    let retry_after = answer.retry_after.as_deref().and_then(wait_asked_for);
    Err(failure(endpoint, key, status, retry_after, &text))
}

/// The error that an answer of another status than success is.
fn failure(endpoint: String, key: Option<&Key>, status: u16, retry_after: Option<Duration>, body: &str) -> ModelError {
    let reason = reason(key, body);
    match status {
        401 | 403 => ModelError::Unauthorised { endpoint, status, reason },
        429 => {
            let quota_exhausted = body.contains("insufficient_quota");
            ModelError::RateLimited { endpoint, retry_after, quota_exhausted, reason }
        }
        // 408 and 425 ask for the same request again, as a failing server does.
        408 | 425 | 500.. => ModelError::Failed { endpoint, status, retry_after, reason },
        _ => ModelError::Refused { endpoint, status, reason },
    }
}

/// What an endpoint says in an error, in its own words as far as they fit, without the key.
fn reason(key: Option<&Key>, body: &str) -> String {
    let told = Node::parse(body).ok().and_then(|node| message(&node).map(str::to_owned));
    let text = without_key(key, told.as_deref().unwrap_or(body));
    let text = shortened(&text);
    if text.is_empty() { NO_REASON.to_owned() } else { text }
}

/// `{"error":{"message":…}}`, and the forms that other servers have: `{"error":…}`, `{"message":…}`, `{"detail":…}`.
fn message<'n>(node: &'n Node<'_>) -> Option<&'n str> {
    let text = |node: Option<&'n Node<'_>>| node.and_then(Node::as_text);
    let error = node.get("error");
    text(error.and_then(|error| error.get("message")))
        .or_else(|| text(error))
        .or_else(|| text(node.get("message")))
        .or_else(|| text(node.get("detail")))
}

fn without_key(key: Option<&Key>, text: &str) -> String {
    key.map_or_else(|| text.to_owned(), |key| key.removed_from(text))
}

/// The text on one line, cut to its limit, without control characters.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut kept: String =
        line.chars().filter(|character| !character.is_control()).take(REASON_CHARACTERS_MAX).collect();
    if kept.len() < line.len() {
        kept.push('…');
    }
    kept
}

/// `Retry-After`: seconds, or a date (RFC 9110, section 10.2.3).
fn wait_asked_for(header: &str) -> Option<Duration> {
    if let Ok(seconds) = header.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(header).ok()?;
    Some(Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits() {
        let check = |header: &str, expect: std::ops::RangeInclusive<u64>| {
            let wait = wait_asked_for(header).expect(header).as_secs();
            assert!(expect.contains(&wait), "{header}: {wait}");
        };
        check("0", 0..=0);
        check("120", 120..=120);
        check("Sun, 06 Nov 1994 08:49:37 GMT", 0..=0);
        check("Thu, 01 Jan 2099 00:00:00 GMT", 1_000_000..=u64::MAX);
        for header in ["", "-1", "soon", "1.5", "99999999999999999999999"] {
            assert_eq!(wait_asked_for(header), None, "{header}");
        }
    }

    #[test]
    fn failures() {
        let check = |status: u16, body: &str, code: &str, may_retry: bool, reason: &str| {
            let error = failure("http://host/v1".to_owned(), None, status, None, body);
            assert_eq!((error.code(), error.may_retry()), (code, may_retry), "{status} {body}");
            assert!(error.to_string().contains(reason), "{status} {body}: {error}");
        };
        check(400, r#"{"error":{"message":"no such field"}}"#, "model_refused", false, "no such field");
        check(400, r#"{"error":"no such field"}"#, "model_refused", false, "no such field");
        check(422, r#"{"detail":[{"msg":"x"}]}"#, "model_refused", false, r#"[{"msg":"x"}]"#);
        check(404, "", "model_refused", false, "said nothing more");
        check(401, r#"{"message":"who are you"}"#, "model_unauthorised", false, "who are you");
        check(403, "<html>\n<b>no</b>", "model_unauthorised", false, "<html> <b>no</b>");
        check(408, "", "model_failed", true, "408");
        check(429, r#"{"error":{"message":"slow down"}}"#, "model_rate_limited", true, "slow down");
        check(429, r#"{"error":{"code":"insufficient_quota"}}"#, "model_rate_limited", false, "quota");
        check(500, "\u{1b}[31mred", "model_failed", true, "[31mred");
        check(503, &"长".repeat(10_000), "model_failed", true, "长…");
    }
}
