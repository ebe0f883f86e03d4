//! One HTTP exchange with the endpoint, on a runtime of its own, within a deadline and a cap on bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant as Moment};

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, Response, Url};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use super::settings::OpenAiSettings;
use crate::model::{ModelError, ModelLimits};

/// Threads that look up host names at once.
const LOOKUP_THREADS_MAX: usize = 2;

/// How long a call may take, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    pub(super) total: Duration,
    pub(super) until: Moment,
}

impl Deadline {
    pub(super) fn new(asked: Option<Duration>, limits: &ModelLimits) -> Deadline {
        let total = asked.unwrap_or(limits.deadline).min(limits.deadline_max);
        Deadline { total, until: Moment::now() + total }
    }

    /// Whether a wait would end before the deadline does.
    pub(super) fn has(&self, wait: Duration) -> bool {
        self.until.saturating_duration_since(Moment::now()) > wait
    }
}

/// What the endpoint answered, whatever its status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// `Retry-After`, as it came.
    pub(super) retry_after: Option<String>,
    /// `Location`, as it came.
    pub(super) location: Option<String>,
    /// `Content-Encoding`, as it came; none is asked for.
    pub(super) encoding: Option<String>,
    /// The whole body of a success; the beginning of another's.
    pub(super) body: Vec<u8>,
}

/// The way to one endpoint.
///
/// Requests run on a thread of its own, so that callers may stand on any thread, those of an async runtime too.
pub(super) struct Transport {
    base_url: Url,
    client: Client,
    places: Arc<Semaphore>,
    limits: ModelLimits,
    /// Taken when it is dropped: a runtime may not be waited for on a thread of another one.
    runtime: Option<Runtime>,
}

impl Transport {
    pub(super) fn new(settings: &OpenAiSettings) -> Result<Transport, ModelError> {
        let failed = |what: &str, error: &dyn std::fmt::Display| ModelError::Configuration {
            reason: format!("{what} cannot be set up: {error}"),
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(LOOKUP_THREADS_MAX)
            .thread_name("cognilog-model")
            .enable_all()
            .build()
            .map_err(|error| failed("the thread of the model client", &error))?;
        let client = client(settings).map_err(|reason| failed("the model client", &reason))?;
        Ok(Transport {
            base_url: settings.base_url.clone(),
            client,
            places: Arc::new(Semaphore::new(settings.limits.calls_at_once_max.max(1))),
            limits: settings.limits.clone(),
            runtime: Some(runtime),
        })
    }

    /// The address of a path of the endpoint.
    pub(super) fn address(&self, path: &str) -> Url {
        let mut url = self.base_url.clone();
        url.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
        url
    }

    /// Sends a request once and waits for its answer, until the deadline at the latest.
    pub(super) fn post(
        &self,
        address: &Url,
        body: Vec<u8>,
        answer_bytes_max: usize,
        deadline: Deadline,
    ) -> Result<Answer, ModelError> {
        let endpoint = address.to_string();
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let Some(runtime) = &self.runtime else { return Err(ended(endpoint)) };
        let received = Arc::new(AtomicU64::new(0));
        let exchange = Exchange {
            request: self.client.post(address.clone()).body(body),
            places: Arc::clone(&self.places),
            endpoint: endpoint.clone(),
            answer_bytes_max,
            error_bytes_max: self.limits.error_bytes_max,
            received: Arc::clone(&received),
        };
        runtime.spawn(async move {
            let outcome = tokio::time::timeout_at(deadline.until.into(), exchange.run()).await;
            // The caller waits for as long as this runs, so there is somebody to take it.
            let _ = sender.send(outcome);
        });
        match receiver.recv() {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(ModelError::TimedOut {
                endpoint,
                deadline: deadline.total,
                bytes_received: received.load(Ordering::Relaxed),
                attempts: 1,
            }),
            Err(_) => Err(ended(endpoint)),
        }
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn ended(endpoint: String) -> ModelError {
    ModelError::Unreachable { endpoint, reason: "the thread of the model client has ended".to_owned() }
}

/// A client that follows no redirect, asks for no compression, and keeps the key out of what it prints.
fn client(settings: &OpenAiSettings) -> Result<Client, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(key) = &settings.key {
        headers.insert(AUTHORIZATION, key.header().map_err(|error| error.to_string())?);
    }
    let mut builder = Client::builder()
        .default_headers(headers)
        .user_agent(concat!("cognilog/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        // Attempts are counted in one place only.
        .retry(reqwest::retry::never())
        .tls_backend_preconfigured(tls(&settings.base_url)?);
    if is_loopback(&settings.base_url) {
        // What stays on the machine is not shown to a proxy elsewhere.
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| chain(&error))
}

/// TLS with the system's certificates. It is made here because the provider that a process has by default is the
/// program's own choice, not that of a library in it.
fn tls(base_url: &Url) -> Result<rustls::ClientConfig, String> {
    use rustls_platform_verifier::BuilderVerifierExt;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    if base_url.scheme() == "http" {
        // A machine without certificates can have a local endpoint all the same.
        return Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth());
    }
    Ok(builder.with_platform_verifier().map_err(|error| error.to_string())?.with_no_client_auth())
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// One request with all that it needs on the runtime's thread.
struct Exchange {
    request: reqwest::RequestBuilder,
    places: Arc<Semaphore>,
    endpoint: String,
    answer_bytes_max: usize,
    error_bytes_max: usize,
    received: Arc<AtomicU64>,
}

impl Exchange {
    async fn run(self) -> Result<Answer, ModelError> {
        let broken = |endpoint: &str, error: reqwest::Error| {
            let (endpoint, error) = (endpoint.to_owned(), error.without_url());
            match refused_certificate(&error) {
                Some(reason) => ModelError::Untrusted { endpoint, reason },
                None => ModelError::Unreachable { endpoint, reason: chain(&error) },
            }
        };
        let Ok(_place) = self.places.acquire().await else { return Err(ended(self.endpoint)) };
        let response = self.request.send().await.map_err(|error| broken(&self.endpoint, error))?;
        let mut answer = Answer {
            status: response.status().as_u16(),
            retry_after: header(&response, &reqwest::header::RETRY_AFTER),
            location: header(&response, &LOCATION),
            encoding: header(&response, &CONTENT_ENCODING).filter(|encoding| encoding != "identity"),
            body: Vec::new(),
        };
        let whole = response.status().is_success();
        let bytes_max = if whole { self.answer_bytes_max } else { self.error_bytes_max };
        let mut response = response;
        while let Some(chunk) = response.chunk().await.map_err(|error| broken(&self.endpoint, error))? {
            self.received.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            let free = bytes_max - answer.body.len();
            if chunk.len() > free {
                if whole {
                    return Err(ModelError::TooLarge { endpoint: self.endpoint, what: "answer", bytes_max });
                }
                answer.body.extend_from_slice(&chunk[..free]);
                break;
            }
            answer.body.extend_from_slice(&chunk);
        }
        Ok(answer)
    }
}

fn header(response: &Response, name: &reqwest::header::HeaderName) -> Option<String> {
    response.headers().get(name).and_then(|value| value.to_str().ok()).map(|value| value.trim().to_owned())
}

/// What is wrong with the other end's certificate, where an error comes from that: trying again does not mend it.
fn refused_certificate(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(rustls::Error::InvalidCertificate(reason)) = error.downcast_ref() {
        return Some(format!("its certificate is not accepted ({reason})"));
    }
    // An error of reading and writing leaves the one that it carries out of `source`.
    let carried = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let found = carried.and_then(|carried| refused_certificate(carried));
    found.or_else(|| error.source().and_then(refused_certificate))
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.ends_with(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        cause = error.source();
    }
    text
}
