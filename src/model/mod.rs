//! The port to language models and embedders: what cognilog asks of one, what comes back, and doubles for tests.
//!
//! [`ChatModel`] and [`Embedder`] are all that the rest of cognilog knows of a model. [`RecordedModel`] and
//! [`RecordedEmbedder`] answer from a script; with the feature `openai`, [`openai::OpenAi`] asks an endpoint. A model that
//! fails is an error with a stable code ([`ModelError`]); nothing is recorded and nothing pending is lost by it
//! (DESIGN section 12, promise 16).

mod error;
mod limits;
#[cfg(feature = "openai")]
pub mod openai;
mod recorded;
mod request;

use std::time::Duration;

pub use error::ModelError;
pub use limits::ModelLimits;
pub use recorded::{RecordedEmbedder, RecordedModel};
pub use request::{ChatMessage, ChatRequest, ReplySchema, Role, Tool};

/// A language model that answers chat requests.
///
/// Calls block, and may be made from any thread at once, also from threads of an async runtime (which they hold up).
pub trait ChatModel: Send + Sync {
    /// The model that is asked, as its endpoint knows it.
    fn name(&self) -> &str;

    /// Asks the model once. What it says is returned as it is: whether it is what was asked for is the reader's matter.
    ///
    /// # Errors
    /// No answer came that a model could have given; [`ModelError::may_retry`] says whether asking again may help.
    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError>;
}

/// A model that turns texts into vectors.
pub trait Embedder: Send + Sync {
    /// The model that is asked, as its endpoint knows it.
    fn name(&self) -> &str;

    /// Turns texts into vectors: one for each text, in the texts' order, all of one length, all numbers finite.
    ///
    /// # Errors
    /// No such vectors came; [`ModelError::may_retry`] says whether asking again may help.
    fn embed(&self, texts: &[String]) -> Result<Embeddings, ModelError>;
}

/// What a model said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChatReply {
    /// The text; empty when there are only tool calls. Of a lone surrogate or a broken byte U+FFFD is left.
    pub text: String,
    /// The tools that the model wants called, in its order.
    pub tool_calls: Vec<ToolCall>,
    /// The model, as the endpoint named it; as it was asked for when the endpoint named none.
    pub model: String,
    /// Why the reply ends where it does.
    pub finish_reason: FinishReason,
    /// What it cost.
    pub token_use: TokenUse,
    /// How the form of the reply was asked for.
    pub response_format: ResponseFormat,
}

impl ChatReply {
    /// A whole reply of text alone.
    #[must_use]
    pub fn text(text: impl Into<String>) -> ChatReply {
        ChatReply { text: text.into(), ..ChatReply::default() }
    }

    /// A whole reply of tool calls alone.
    #[must_use]
    pub fn calls(tool_calls: impl IntoIterator<Item = ToolCall>) -> ChatReply {
        ChatReply {
            tool_calls: tool_calls.into_iter().collect(),
            finish_reason: FinishReason::ToolCalls,
            ..ChatReply::default()
        }
    }

    /// The same reply, from the model of this name.
    #[must_use]
    pub fn of_model(mut self, model: impl Into<String>) -> ChatReply {
        self.model = model.into();
        self
    }

    /// The same reply, with this cost.
    #[must_use]
    pub fn with_token_use(mut self, prompt: u64, completion: u64) -> ChatReply {
        self.token_use = TokenUse { prompt: Some(prompt), completion: Some(completion) };
        self
    }

    /// The same reply, ending for this reason.
    #[must_use]
    pub fn ending(mut self, finish_reason: FinishReason) -> ChatReply {
        self.finish_reason = finish_reason;
        self
    }
}

/// A call of a tool that a model asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The call's id; empty when the endpoint gave none.
    pub id: String,
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: meant to be JSON, and not checked.
    pub arguments: String,
}

/// Why a reply ends where it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishReason {
    /// The model had said all.
    #[default]
    Stop,
    /// The most tokens were reached: the reply is cut.
    Length,
    /// Tools are to be called.
    ToolCalls,
    /// The model or its endpoint would not answer; the text says why, where there is one.
    Refused,
    /// Another reason, or none, in the endpoint's word.
    Other(String),
}

/// Tokens that a call took, where the endpoint told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUse {
    /// Tokens of what was sent.
    pub prompt: Option<u64>,
    /// Tokens of what came back.
    pub completion: Option<u64>,
}

impl TokenUse {
    /// The cost of two calls; what is known of one alone counts.
    #[must_use]
    pub fn and(self, other: TokenUse) -> TokenUse {
        let sum = |left: Option<u64>, right: Option<u64>| match (left, right) {
            (None, None) => None,
            (left, right) => Some(left.unwrap_or_default().saturating_add(right.unwrap_or_default())),
        };
        TokenUse { prompt: sum(self.prompt, other.prompt), completion: sum(self.completion, other.completion) }
    }
}

/// How the form of a reply was asked for: the rungs that a client goes down (DESIGN section 11, "Model endpoint").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ResponseFormat {
    /// By the messages alone.
    #[default]
    Prompt,
    /// As a JSON object of any form.
    JsonObject,
    /// As JSON of the given schema.
    JsonSchema,
}

impl ResponseFormat {
    /// The word for events and messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ResponseFormat::Prompt => "prompt",
            ResponseFormat::JsonObject => "json_object",
            ResponseFormat::JsonSchema => "json_schema",
        }
    }
}

/// Vectors of texts.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Embeddings {
    /// One vector for each text, in the texts' order, all of one length.
    pub vectors: Vec<Vec<f32>>,
    /// The model, as the endpoint named it; as it was asked for when the endpoint named none.
    pub model: String,
    /// What it cost.
    pub token_use: TokenUse,
}

impl Embeddings {
    /// Vectors of a model, checked as [`Embedder::embed`] promises them.
    ///
    /// # Errors
    /// Not `count` vectors, vectors of different or no length, or a number that is not finite: in words.
    pub fn new(vectors: Vec<Vec<f32>>, count: usize, model: impl Into<String>) -> Result<Embeddings, String> {
        if vectors.len() != count {
            return Err(format!("{} vectors came for {count} texts", vectors.len()));
        }
        let length = vectors.first().map_or(0, Vec::len);
        for (index, vector) in vectors.iter().enumerate() {
            if vector.is_empty() || vector.len() != length {
                return Err(format!("vector {index} has {} numbers, vector 0 has {length}", vector.len()));
            }
            if vector.iter().any(|number| !number.is_finite()) {
                return Err(format!("vector {index} has a number that is not finite"));
            }
        }
        Ok(Embeddings { vectors, model: model.into(), token_use: TokenUse::default() })
    }
}

/// The whole seconds of a duration for messages, with tenths below ten seconds.
fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 10.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}
