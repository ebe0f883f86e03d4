//! What is asked of a chat model: messages, the form of the reply, tools and limits, with the rules for them.

use std::time::Duration;

use serde_json::Value;

use super::ModelError;
use super::limits::{MESSAGES_MAX, NAME_CHARACTERS_MAX, TOOLS_MAX};

/// One question to a chat model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The conversation, oldest first. They are sent as they are: nothing is added to them, so what a prompt's digest is
    /// taken of is what the model read.
    pub messages: Vec<ChatMessage>,
    /// The form that the reply should have. The messages must describe it too: an endpoint that knows no schemas is asked by
    /// the messages alone.
    pub reply_schema: Option<ReplySchema>,
    /// Tools that the model may ask to be called. A model whose reply is bound to a schema calls none, so a request has
    /// one or the other.
    pub tools: Vec<Tool>,
    /// Most tokens of the reply; without it the endpoint's own limit.
    pub tokens_max: Option<u32>,
    /// How much chance there is in the reply, from 0; without it the endpoint's own.
    pub temperature: Option<f32>,
    /// Time until there is an outcome; without it [`ModelLimits::deadline`](super::ModelLimits::deadline).
    pub deadline: Option<Duration>,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    /// Whose it is.
    pub role: Role,
    /// What it says.
    pub content: String,
}

/// Whose a message is. Calls and results of tools that belong to a recorded conversation are told in the words of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Instructions.
    System,
    /// The person, or the program, that asks.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        }
    }
}

/// The form of a reply.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplySchema {
    /// Up to 64 ASCII letters, digits, `_` and `-`.
    pub name: String,
    /// A JSON schema. It is sent as strict: OpenAI's endpoints then ask that every property is required and
    /// `additionalProperties` is false, and are asked for any JSON object where it is not so.
    pub schema: Value,
}

/// A tool that the model may ask to be called.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Up to 64 ASCII letters, digits, `_` and `-`.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
}

impl ChatRequest {
    /// A request of these messages.
    #[must_use]
    pub fn new(messages: impl IntoIterator<Item = ChatMessage>) -> ChatRequest {
        ChatRequest { messages: messages.into_iter().collect(), ..ChatRequest::default() }
    }

    /// A request of one message of the user.
    #[must_use]
    pub fn user(content: impl Into<String>) -> ChatRequest {
        ChatRequest::new([ChatMessage { role: Role::User, content: content.into() }])
    }

    /// The same request, for a reply of this form.
    #[must_use]
    pub fn with_reply_schema(mut self, name: impl Into<String>, schema: Value) -> ChatRequest {
        self.reply_schema = Some(ReplySchema { name: name.into(), schema });
        self
    }

    /// The same request, with one more tool.
    #[must_use]
    pub fn with_tool(mut self, tool: Tool) -> ChatRequest {
        self.tools.push(tool);
        self
    }

    /// The same request, with this outcome at the latest.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> ChatRequest {
        self.deadline = Some(deadline);
        self
    }

    /// The same request, for so many tokens at the most.
    #[must_use]
    pub fn with_tokens_max(mut self, tokens_max: u32) -> ChatRequest {
        self.tokens_max = Some(tokens_max);
        self
    }

    /// The same request, with this temperature.
    #[must_use]
    pub fn with_temperature(mut self, temperature: f32) -> ChatRequest {
        self.temperature = Some(temperature);
        self
    }

    /// Checks the rules that hold for every model; each implementation of [`ChatModel`](super::ChatModel) begins with it.
    ///
    /// # Errors
    /// [`ModelError::InvalidRequest`] with the first rule that is broken.
    pub fn check(&self) -> Result<(), ModelError> {
        let invalid = |reason: String| Err(ModelError::InvalidRequest { reason });
        if self.messages.is_empty() || self.messages.len() > MESSAGES_MAX {
            return invalid(format!("it has {} messages; 1 to {MESSAGES_MAX} can be sent", self.messages.len()));
        }
        if self.tools.len() > TOOLS_MAX {
            return invalid(format!("it has {} tools; at most {TOOLS_MAX} can be sent", self.tools.len()));
        }
        let names = self.reply_schema.iter().map(|schema| &schema.name).chain(self.tools.iter().map(|tool| &tool.name));
        for name in names {
            let fits = |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '-';
            if name.is_empty() || name.len() > NAME_CHARACTERS_MAX || !name.chars().all(fits) {
                return invalid(format!(
                    "the name {name:?} is not of 1 to {NAME_CHARACTERS_MAX} ASCII letters, digits, `_` and `-`"
                ));
            }
        }
        if self.temperature.is_some_and(|temperature| !temperature.is_finite() || temperature < 0.0) {
            return invalid("the temperature is not a number from 0".to_owned());
        }
        if self.tokens_max == Some(0) || self.deadline == Some(Duration::ZERO) {
            return invalid("it allows no tokens, or no time, for a reply".to_owned());
        }
        Ok(())
    }
}
