//! The settings of an OpenAI-compatible endpoint, from the environment alone.
//!
//! A file of a store must not name the endpoint: whoever hands over a store could then have the reader's key sent to
//! themselves.

use std::fmt;

use reqwest::Url;
use reqwest::header::HeaderValue;

use crate::model::{ModelError, ModelLimits};

/// The environment variables that are read (DESIGN section 11, "Model endpoint"), each with its meaning.
pub const VARIABLES: [(&str, &str); 5] = [
    ("OPENAI_BASE_URL", "the endpoint, such as http://127.0.0.1:11434/v1"),
    ("OPENAI_API_KEY", "its key, where it wants one"),
    ("COGNILOG_MODEL", "the chat model"),
    ("COGNILOG_MODEL_STRONG", "a stronger chat model for what the first is not sure of"),
    ("COGNILOG_EMBEDDING_MODEL", "the embedding model"),
];

/// Where an endpoint is, which of its models to ask, and within which limits.
#[derive(Clone, Debug)]
pub struct OpenAiSettings {
    pub(super) base_url: Url,
    pub(super) key: Option<Key>,
    pub(super) model: Option<String>,
    pub(super) model_strong: Option<String>,
    pub(super) embedding_model: Option<String>,
    /// The limits of calls.
    pub limits: ModelLimits,
}

impl OpenAiSettings {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// [`ModelError::Configuration`]: there is no `OPENAI_BASE_URL`, or a variable is not valid.
    pub fn from_environment() -> Result<OpenAiSettings, ModelError> {
        OpenAiSettings::from_lookup(|name| std::env::var(name).ok())
    }

    /// Reads variables from elsewhere; names are those of [`VARIABLES`], and an empty value is as none.
    ///
    /// ```
    /// use cognilog::model::openai::OpenAiSettings;
    ///
    /// let settings = OpenAiSettings::from_lookup(|name| match name {
    ///     "OPENAI_BASE_URL" => Some("http://127.0.0.1:11434/v1".to_owned()),
    ///     "OPENAI_API_KEY" => Some("secret".to_owned()),
    ///     _ => None,
    /// })?;
    /// assert!(!format!("{settings:?}").contains("secret"));
    /// # Ok::<(), cognilog::model::ModelError>(())
    /// ```
    ///
    /// # Errors
    /// As [`OpenAiSettings::from_environment`].
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<OpenAiSettings, ModelError> {
        let get = |name: &str| lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let base_url = get("OPENAI_BASE_URL").ok_or_else(|| configuration("OPENAI_BASE_URL is not set"))?;
        Ok(OpenAiSettings {
            base_url: parse_base_url(&base_url)?,
            key: get("OPENAI_API_KEY").map(Key::new).transpose()?,
            model: get("COGNILOG_MODEL"),
            model_strong: get("COGNILOG_MODEL_STRONG"),
            embedding_model: get("COGNILOG_EMBEDDING_MODEL"),
            limits: ModelLimits::default(),
        })
    }

    /// Each of [`VARIABLES`] as it may be shown to people: the key as a word for it, a base URL that is not valid as that.
    #[must_use]
    pub fn shown(lookup: impl Fn(&str) -> Option<String>) -> Vec<(&'static str, Option<String>)> {
        let show = |name: &str, value: String| match name {
            "OPENAI_API_KEY" => "[key]".to_owned(),
            "OPENAI_BASE_URL" => {
                parse_base_url(value.trim()).map_or_else(|_| "[not valid]".to_owned(), |url| url.to_string())
            }
            _ => value.trim().to_owned(),
        };
        let value = |name: &str| lookup(name).filter(|value| !value.trim().is_empty()).map(|value| show(name, value));
        VARIABLES.iter().map(|(name, _)| (*name, value(name))).collect()
    }

    /// The same settings with these limits.
    #[must_use]
    pub fn with_limits(mut self, limits: ModelLimits) -> OpenAiSettings {
        self.limits = limits;
        self
    }
}

/// The URL itself stands in no message: a wrong one may have a password in it.
fn parse_base_url(text: &str) -> Result<Url, ModelError> {
    let mut url = Url::parse(text).map_err(|error| configuration(&format!("OPENAI_BASE_URL is no URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(configuration("OPENAI_BASE_URL does not begin with http:// or https:// and a host"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(configuration(
            "OPENAI_BASE_URL has a user, a password, a query or a fragment; keys go into OPENAI_API_KEY",
        ));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Ok(url)
}

fn configuration(reason: &str) -> ModelError {
    ModelError::Configuration { reason: reason.to_owned() }
}

/// A key that shows itself to nobody but the endpoint.
#[derive(Clone)]
pub(super) struct Key(String);

impl Key {
    fn new(text: String) -> Result<Key, ModelError> {
        let key = Key(text);
        key.header().map(|_| key)
    }

    /// The value of the `Authorization` header, marked as sensitive.
    pub(super) fn header(&self) -> Result<HeaderValue, ModelError> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0))
            .map_err(|_| configuration("OPENAI_API_KEY has a character that no header can carry"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The text without the key, where an endpoint has repeated it.
    pub(super) fn removed_from(&self, text: &str) -> String {
        text.replace(&self.0, "[key]")
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[key]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-not-to-be-seen";

    fn read(base_url: &str, key: &str) -> Result<OpenAiSettings, ModelError> {
        OpenAiSettings::from_lookup(|name| match name {
            "OPENAI_BASE_URL" => Some(base_url.to_owned()),
            "OPENAI_API_KEY" => Some(key.to_owned()),
            _ => None,
        })
    }

    #[test]
    fn base_urls() {
        let check = |text: &str, expect: Result<&str, &str>| match (read(text, KEY), expect) {
            (Ok(settings), Ok(expect)) => assert_eq!(settings.base_url.as_str(), expect, "{text}"),
            (Err(error), Err(expect)) => {
                assert_eq!(error.code(), "model_not_configured", "{text}");
                let message = error.to_string();
                assert!(message.contains(expect), "{text}: {message}");
                assert!(!message.contains("hunter2"), "{message}");
            }
            (found, expect) => panic!("{text}: {found:?}, expected {expect:?}"),
        };
        check("http://127.0.0.1:11434/v1", Ok("http://127.0.0.1:11434/v1"));
        check(" https://example.org/v1// ", Ok("https://example.org/v1"));
        check("http://[::1]:8080", Ok("http://[::1]:8080/"));
        check("", Err("not set"));
        check("127.0.0.1:11434/v1", Err("no URL"));
        check("localhost:11434", Err("does not begin with"));
        check("ftp://example.org/", Err("does not begin with"));
        check("https://me:hunter2@example.org/v1", Err("a user, a password"));
        check("https://example.org/v1?key=hunter2", Err("a query"));
        check("https://example.org/v1#hunter2", Err("a fragment"));
    }

    #[test]
    fn keys_are_seen_by_nobody() {
        let settings = read("http://127.0.0.1/v1", &format!("  {KEY}\n")).expect("valid");
        assert!(!format!("{settings:?} {settings:#?}").contains(KEY));
        let key = settings.key.expect("there");
        let header = key.header().expect("valid");
        assert_eq!(header.as_bytes(), format!("Bearer {KEY}").as_bytes());
        assert!(!format!("{header:?}").contains(KEY));
        assert_eq!(key.removed_from(&format!("wrong key {KEY}.")), "wrong key [key].");
        let error = read("http://127.0.0.1/v1", &format!("{KEY}\n{KEY}")).expect_err("no header");
        assert_eq!(error.code(), "model_not_configured");
        assert!(!format!("{error} {error:?}").contains(KEY));
        assert!(read("http://127.0.0.1/v1", "").expect("valid").key.is_none());
    }
}
