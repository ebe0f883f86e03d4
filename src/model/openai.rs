//! The client of OpenAI-compatible endpoints: `/chat/completions` and `/embeddings` behind the port.
//!
//! ```no_run
//! use cognilog::model::openai::OpenAi;
//! use cognilog::model::{ChatModel, ChatRequest};
//!
//! let endpoint = OpenAi::from_environment()?;
//! let reply = endpoint.chat()?.complete(&ChatRequest::user("Which day follows Monday?"))?;
//! assert!(reply.text.contains("Tuesday"));
//! # Ok::<(), cognilog::model::ModelError>(())
//! ```
//!
//! A call has one deadline, in which everything counts. Failures that may pass are tried again, with growing waits or the
//! one that the endpoint asks for. Redirects are not followed, compression is not asked for, and no more of an answer is
//! read than its limit. The key comes from the environment and shows in no error and no `Debug` text.

mod answer;
mod attempts;
mod dialect;
mod settings;
mod transport;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

pub use settings::{OpenAiSettings, VARIABLES};

use self::attempts::Call;
use self::dialect::Dialect;
use self::transport::{Deadline, Transport};
use super::limits::REMEMBERED_MODELS_MAX;
use super::{ChatModel, ChatReply, ChatRequest, Embedder, Embeddings, ModelError, ResponseFormat};

/// An OpenAI-compatible endpoint. Its models share connections, places, and what was found out about the endpoint.
#[derive(Clone)]
pub struct OpenAi {
    endpoint: Arc<Endpoint>,
}

struct Endpoint {
    settings: OpenAiSettings,
    transport: Transport,
    /// What each model was found to take. Other models of one endpoint are often other servers.
    dialects: Mutex<HashMap<String, Dialect>>,
}

impl OpenAi {
    /// The endpoint that the environment names, as [`OpenAiSettings::from_environment`] reads it. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ModelError::Configuration`].
    pub fn from_environment() -> Result<OpenAi, ModelError> {
        OpenAi::new(OpenAiSettings::from_environment()?)
    }

    /// The endpoint of these settings. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ModelError::Configuration`]: the client's thread or the system's certificates are not to be had.
    pub fn new(settings: OpenAiSettings) -> Result<OpenAi, ModelError> {
        let transport = Transport::new(&settings)?;
        Ok(OpenAi { endpoint: Arc::new(Endpoint { settings, transport, dialects: Mutex::default() }) })
    }

    /// The chat model of the settings (`COGNILOG_MODEL`).
    ///
    /// # Errors
    /// [`ModelError::Configuration`]: there is none.
    pub fn chat(&self) -> Result<OpenAiChat, ModelError> {
        self.endpoint
            .settings
            .model
            .as_deref()
            .map(|model| self.chat_model(model))
            .ok_or_else(|| unset("COGNILOG_MODEL"))
    }

    /// The stronger chat model of the settings (`COGNILOG_MODEL_STRONG`), where there is one.
    #[must_use]
    pub fn strong_chat(&self) -> Option<OpenAiChat> {
        self.endpoint.settings.model_strong.as_deref().map(|model| self.chat_model(model))
    }

    /// The embedding model of the settings (`COGNILOG_EMBEDDING_MODEL`).
    ///
    /// # Errors
    /// [`ModelError::Configuration`]: there is none.
    pub fn embedder(&self) -> Result<OpenAiEmbedder, ModelError> {
        let model = self.endpoint.settings.embedding_model.as_deref();
        model.map(|model| self.embedding_model(model)).ok_or_else(|| unset("COGNILOG_EMBEDDING_MODEL"))
    }

    /// The chat model of this name.
    #[must_use]
    pub fn chat_model(&self, model: &str) -> OpenAiChat {
        OpenAiChat { endpoint: Arc::clone(&self.endpoint), model: model.to_owned() }
    }

    /// The embedding model of this name.
    #[must_use]
    pub fn embedding_model(&self, model: &str) -> OpenAiEmbedder {
        OpenAiEmbedder { endpoint: Arc::clone(&self.endpoint), model: model.to_owned() }
    }
}

impl fmt::Debug for OpenAi {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OpenAi").field("settings", &self.endpoint.settings).finish_non_exhaustive()
    }
}

fn unset(variable: &str) -> ModelError {
    ModelError::Configuration { reason: format!("{variable} is not set") }
}

/// A chat model of an endpoint.
#[derive(Clone)]
pub struct OpenAiChat {
    endpoint: Arc<Endpoint>,
    model: String,
}

impl ChatModel for OpenAiChat {
    fn name(&self) -> &str {
        &self.model
    }

    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        request.check()?;
        let limits = &self.endpoint.settings.limits;
        let deadline = Deadline::new(request.deadline, limits);
        let mut dialect = self.endpoint.dialect(&self.model);
        loop {
            let body = chat_body(&self.model, request, dialect);
            let call = self.endpoint.call("/chat/completions", &body, limits.chat_bytes_max, deadline);
            match call.send(|text| answer::chat(text, &self.model)) {
                Ok(mut reply) => {
                    // Only what has worked is remembered: a refusal may have had another reason.
                    self.endpoint.remember(&self.model, dialect);
                    reply.response_format = dialect.format_of(request);
                    return Ok(reply);
                }
                Err(error) => dialect = dialect.without_refused(request, &error).ok_or(error)?,
            }
        }
    }
}

impl fmt::Debug for OpenAiChat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OpenAiChat").field("model", &self.model).finish_non_exhaustive()
    }
}

/// The JSON of a chat request in a dialect.
fn chat_body(model: &str, request: &ChatRequest, dialect: Dialect) -> Value {
    let messages: Vec<Value> = request
        .messages
        .iter()
        .map(|message| json!({ "role": message.role.as_str(), "content": message.content }))
        .collect();
    let mut body = json!({ "model": model, "messages": messages, "stream": false });
    if let Some(temperature) = request.temperature.filter(|_| dialect.temperature) {
        body["temperature"] = json!(temperature);
    }
    if let Some(tokens_max) = request.tokens_max {
        body[if dialect.completion_tokens { "max_completion_tokens" } else { "max_tokens" }] = json!(tokens_max);
    }
    match (&request.reply_schema, dialect.format_of(request)) {
        (Some(schema), ResponseFormat::JsonSchema) => {
            let schema = json!({ "name": schema.name, "strict": true, "schema": schema.schema });
            body["response_format"] = json!({ "type": "json_schema", "json_schema": schema });
        }
        (Some(_), ResponseFormat::JsonObject) => body["response_format"] = json!({ "type": "json_object" }),
        (Some(_), ResponseFormat::Prompt) | (None, _) => {}
    }
    if dialect.tools && !request.tools.is_empty() {
        let tool = |tool: &super::Tool| {
            let function = json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
            json!({ "type": "function", "function": function })
        };
        body["tools"] = request.tools.iter().map(tool).collect();
    }
    body
}

/// An embedding model of an endpoint.
#[derive(Clone)]
pub struct OpenAiEmbedder {
    endpoint: Arc<Endpoint>,
    model: String,
}

impl Embedder for OpenAiEmbedder {
    fn name(&self) -> &str {
        &self.model
    }

    fn embed(&self, texts: &[String]) -> Result<Embeddings, ModelError> {
        let limits = &self.endpoint.settings.limits;
        let deadline = Deadline::new(None, limits);
        let mut all = Embeddings { model: self.model.clone(), ..Embeddings::default() };
        for texts in texts.chunks(limits.embedding_texts_max.max(1)) {
            let body = json!({ "model": self.model, "input": texts, "encoding_format": "float" });
            let call = self.endpoint.call("/embeddings", &body, limits.embeddings_bytes_max, deadline);
            // Each part must have vectors as long as those before it.
            let length = all.vectors.first().map(Vec::len);
            let part = call.send(|text| answer::embeddings(text, &self.model, texts.len(), length))?;
            all.vectors.extend(part.vectors);
            all.model = part.model;
            all.token_use = all.token_use.and(part.token_use);
        }
        Ok(all)
    }
}

impl fmt::Debug for OpenAiEmbedder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OpenAiEmbedder").field("model", &self.model).finish_non_exhaustive()
    }
}

impl Endpoint {
    fn dialect(&self, model: &str) -> Dialect {
        self.dialects.lock().unwrap_or_else(PoisonError::into_inner).get(model).copied().unwrap_or_default()
    }

    fn remember(&self, model: &str, dialect: Dialect) {
        let mut dialects = self.dialects.lock().unwrap_or_else(PoisonError::into_inner);
        if dialects.len() >= REMEMBERED_MODELS_MAX && !dialects.contains_key(model) {
            dialects.clear();
        }
        dialects.insert(model.to_owned(), dialect);
    }

    fn call(&self, path: &'static str, body: &Value, answer_bytes_max: usize, deadline: Deadline) -> Call<'_> {
        Call {
            transport: &self.transport,
            key: self.settings.key.as_ref(),
            limits: &self.settings.limits,
            path,
            body: body.to_string().into_bytes(),
            answer_bytes_max,
            deadline,
        }
    }
}
