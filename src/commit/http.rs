//! The sink `http`: each item is posted as JSON to a hub, with the extraction id as its idempotency key.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use reqwest::StatusCode;
use reqwest::blocking::{Client, Response};
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use serde_json::Value;

use super::{CommitItem, CommitSink, Prepared, RECORD_FIELDS};
use crate::error::Error;

/// Characters of an answer that are quoted in a reason.
const QUOTED_CHARACTERS: usize = 300;

/// How a hub is reached.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpOptions {
    /// Where items are posted. Keys belong into the header.
    pub url: String,
    /// A header with a key.
    pub header: Option<HttpHeader>,
    /// The hub's names of the record's fields ([`RECORD_FIELDS`], and `extraction_id` and `trace_id`, which are sent only
    /// when they are named here). An empty name leaves the field out.
    pub fields: BTreeMap<String, String>,
    /// Time for one item, from connecting to the end of the answer.
    pub deadline: Duration,
    /// Bytes of an answer that are read.
    pub answer_bytes_max: usize,
}

impl HttpOptions {
    /// A hub at a URL: 30 seconds for each item, answers of up to 1 MiB.
    #[must_use]
    pub fn new(url: impl Into<String>) -> HttpOptions {
        HttpOptions {
            url: url.into(),
            header: None,
            fields: BTreeMap::new(),
            deadline: Duration::from_secs(30),
            answer_bytes_max: 1 << 20,
        }
    }
}

/// A header whose value is a secret: it is shown nowhere.
#[derive(Clone)]
pub struct HttpHeader {
    name: String,
    value: String,
}

impl HttpHeader {
    /// A header, such as `Authorization` with `Bearer …`.
    #[must_use]
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> HttpHeader {
        HttpHeader { name: name.into(), value: value.into() }
    }
}

impl fmt::Debug for HttpHeader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: (not shown)", self.name)
    }
}

/// Posts items to a hub. It blocks, and is not for the threads of an async runtime.
#[derive(Debug)]
pub struct HttpSink {
    client: Client,
    options: HttpOptions,
    header: Option<(HeaderName, HeaderValue)>,
    origin: String,
}

impl HttpSink {
    /// Checks the options and makes the client; nothing is sent yet.
    ///
    /// # Errors
    /// The URL, the header or a field's name is not usable; the message names it, never the header's value.
    pub fn new(options: HttpOptions) -> Result<HttpSink, Error> {
        let wrong = |reason: String| Error::BadSink { reason };
        let url = reqwest::Url::parse(&options.url).map_err(|error| wrong(format!("`url`: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(format!("`url`: {} is neither http nor https", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("`url` holds a user or a password: give the key in a header".to_owned()));
        }
        let header = match &options.header {
            Some(header) => {
                let name = HeaderName::try_from(&header.name)
                    .map_err(|_| wrong(format!("{:?} is no name of a header", header.name)))?;
                let mut value = HeaderValue::from_str(header.value.trim())
                    .map_err(|_| wrong(format!("the value of the header {name} has characters that none may have")))?;
                value.set_sensitive(true);
                Some((name, value))
            }
            None => None,
        };
        let known = |field: &str| RECORD_FIELDS.contains(&field) || matches!(field, "extraction_id" | "trace_id");
        if let Some(field) = options.fields.keys().find(|field| !known(field)) {
            return Err(wrong(format!("a record has no field `{field}`; it has {}", RECORD_FIELDS.join(", "))));
        }
        // A program that has chosen its own provider keeps it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .redirect(Policy::none())
            .timeout(options.deadline)
            .connect_timeout(options.deadline.min(Duration::from_secs(10)))
            .user_agent(concat!("cognilog/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| wrong(format!("the client cannot be made: {}", error.without_url())))?;
        let origin = format!("{}{}", url.origin().ascii_serialization(), url.path());
        Ok(HttpSink { client, options, header, origin })
    }

    /// The item under the hub's names.
    fn body(&self, item: &CommitItem) -> String {
        let text = |text: &str| Value::from(text).to_string();
        let ids = [("extraction_id", text(item.extraction_id())), ("trace_id", text(item.trace().as_str()))];
        let ids = ids.iter().filter(|(name, _)| self.options.fields.contains_key(*name));
        let fields = ids.map(|(name, json)| (*name, json.as_str())).chain(item.fields());
        let members = fields.filter_map(|(name, json)| {
            let theirs = self.options.fields.get(name).map_or(name, String::as_str);
            (!theirs.is_empty()).then(|| format!("{}:{json}", Value::from(theirs)))
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    /// Text of the hub's for a reason: short, and without the key should the hub have said it again.
    fn quote(&self, answer: &[u8]) -> String {
        let mut text = String::from_utf8_lossy(answer).into_owned();
        if let Some(value) =
            self.options.header.as_ref().map(|header| header.value.trim()).filter(|key| !key.is_empty())
        {
            text = text.replace(value, "(not shown)");
            if let Some(word) = value.split_whitespace().next_back() {
                text = text.replace(word, "(not shown)");
            }
        }
        text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(QUOTED_CHARACTERS).collect()
    }
}

impl CommitSink for HttpSink {
    fn describe(&self) -> String {
        self.origin.clone()
    }

    fn prepare(&self, item: &CommitItem) -> Prepared {
        let mut request = self
            .client
            .post(&self.options.url)
            .header(CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", key_of(item.extraction_id()))
            .body(self.body(item));
        if let Some((name, value)) = &self.header {
            request = request.header(name, value);
        }
        let limit = self.options.answer_bytes_max;
        // The client's own limit counts anew with each read of an answer; this one ends it whatever the hub does.
        let (send, receive) = channel();
        std::thread::spawn(move || {
            let answer = request.send().map(|response| (response.status(), read(response, limit)));
            // Nobody listens any more when the time was over.
            let _ = send.send(answer);
        });
        match receive.recv_timeout(self.options.deadline) {
            Ok(Ok((status, answer))) => self.outcome(status, answer),
            Ok(Err(error)) if error.is_connect() => {
                Prepared::failed(format!("the hub cannot be reached: {}", reason(&error)))
            }
            Ok(Err(error)) if error.is_builder() => Prepared::failed(reason(&error)),
            Ok(Err(error)) => Prepared::unanswered(format!("no answer: {}", reason(&error))),
            Err(RecvTimeoutError::Timeout) => {
                Prepared::unanswered(format!("no answer within {} s", self.options.deadline.as_secs_f32()))
            }
            Err(RecvTimeoutError::Disconnected) => Prepared::unanswered("the request broke off"),
        }
    }
}

/// The key as a header carries it: visible ASCII; other bytes as `%XX`, the percent sign too.
fn key_of(extraction_id: &str) -> String {
    let mut key = String::new();
    for byte in extraction_id.bytes() {
        match byte {
            b'!'..=b'~' if byte != b'%' => key.push(char::from(byte)),
            byte => key.push_str(&format!("%{byte:02X}")),
        }
    }
    key
}

/// What a transport error says beneath its own words, without the URL.
fn reason(error: &reqwest::Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    if error.is_timeout() { "the time was over".to_owned() } else { deepest.to_string() }
}

/// How an answer ended that could not be read to its end.
enum Unread {
    TooLong,
    Broken(String),
}

fn read(response: Response, limit: usize) -> Result<Vec<u8>, Unread> {
    let mut answer = Vec::new();
    match response.take(limit as u64 + 1).read_to_end(&mut answer) {
        Ok(_) if answer.len() > limit => Err(Unread::TooLong),
        Ok(_) => Ok(answer),
        Err(error) => Err(Unread::Broken(error.to_string())),
    }
}

impl HttpSink {
    /// What an answer says. Only what names its record is taken for saved: a page that a proxy sends with status 200 is
    /// not.
    fn outcome(&self, status: StatusCode, answer: Result<Vec<u8>, Unread>) -> Prepared {
        let answer = match answer {
            Ok(answer) => answer,
            Err(_) if !status.is_success() => Vec::new(),
            Err(Unread::TooLong) => {
                return Prepared::unanswered(format!("an answer of more than {} bytes", self.options.answer_bytes_max));
            }
            Err(Unread::Broken(reason)) => return Prepared::unanswered(format!("the answer broke off: {reason}")),
        };
        let said = |what: &str| format!("the hub answered {}{what}: {}", status.as_u16(), self.quote(&answer));
        match status {
            // Whether the hub behind took it before it was too late, nobody knows.
            StatusCode::REQUEST_TIMEOUT | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
                return Prepared::unanswered(said(""));
            }
            status if status.is_redirection() => return Prepared::failed(said(", a redirect, which is not followed")),
            status if !status.is_success() => return Prepared::failed(said("")),
            _ => {}
        }
        let Ok(Value::Object(object)) = serde_json::from_slice(&answer) else {
            return Prepared::unanswered(said(" without a JSON object"));
        };
        let word = |keys: &[&str]| keys.iter().find_map(|key| object.get(*key)?.as_str());
        let outcome = word(&["outcome", "status"]).unwrap_or_default();
        let id = word(&["knowledge_id", "existing_id", "id"]).filter(|id| !id.is_empty());
        match (outcome, id) {
            ("failed" | "error", _) => Prepared::failed(said("")),
            ("skipped" | "duplicate", Some(id)) => Prepared::skipped(id),
            (_, Some(id)) => Prepared::saved(id),
            (_, None) if object.get("error").is_some_and(|error| !error.is_null()) => Prepared::failed(said("")),
            (_, None) => Prepared::unanswered(said(" without a record's id")),
        }
    }
}
