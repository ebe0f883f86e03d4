//! What an endpoint's model was found to take of the OpenAI interface, and what is left out after a refusal.

use crate::model::{ChatRequest, ModelError, ResponseFormat};

/// Which of the interface's optional parts a model takes. A request is sent with all it has; what the endpoint refuses is
/// left out of it, and of later ones to the same model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    /// The strongest form of reply that can be asked for.
    pub(super) format: ResponseFormat,
    pub(super) tools: bool,
    pub(super) temperature: bool,
    /// Whether the most tokens go by the newer name `max_completion_tokens`, as OpenAI's own newer models want it.
    pub(super) completion_tokens: bool,
}

impl Default for Dialect {
    fn default() -> Dialect {
        Dialect { format: ResponseFormat::JsonSchema, tools: true, temperature: true, completion_tokens: false }
    }
}

/// Words of endpoints that do not take the form of the reply: OpenAI's, llama.cpp's, vLLM's, Ollama's and OpenRouter's.
const FORMAT_SIGNS: [&str; 8] = [
    "response_format",
    "response format",
    "schema",
    "json_object",
    "json mode",
    "grammar",
    "structured output",
    "requested parameters",
];
const TOOL_SIGNS: [&str; 2] = ["tool", "function call"];

impl Dialect {
    /// How the form of the request's reply is asked for.
    pub(super) fn format_of(&self, request: &ChatRequest) -> ResponseFormat {
        if request.reply_schema.is_some() { self.format } else { ResponseFormat::Prompt }
    }

    /// What to send instead after a refusal; nothing when the refusal is not about an optional part.
    ///
    /// Each step leaves something out, so there are only a few.
    pub(super) fn without_refused(self, request: &ChatRequest, error: &ModelError) -> Option<Dialect> {
        let reason = match error {
            ModelError::Refused { status: 400 | 404 | 415 | 422, reason, .. } => reason,
            ModelError::Failed { status: 500 | 501, reason, .. } => reason,
            _ => return None,
        };
        let reason = reason.to_lowercase();
        let says = |signs: &[&str]| signs.iter().any(|sign| reason.contains(sign));
        if request.tokens_max.is_some() && !self.completion_tokens && says(&["max_completion_tokens"]) {
            return Some(Dialect { completion_tokens: true, ..self });
        }
        if request.temperature.is_some() && self.temperature && says(&["temperature"]) {
            return Some(Dialect { temperature: false, ..self });
        }
        let format = match self.format_of(request) {
            ResponseFormat::JsonSchema => Some(ResponseFormat::JsonObject),
            ResponseFormat::JsonObject => Some(ResponseFormat::Prompt),
            ResponseFormat::Prompt => None,
        };
        match format {
            Some(format) if says(&FORMAT_SIGNS) || says_nothing(error) => Some(Dialect { format, ..self }),
            _ if !request.tools.is_empty() && self.tools && says(&TOOL_SIGNS) => Some(Dialect { tools: false, ..self }),
            _ => None,
        }
    }
}

/// Whether a refusal gives no reason: it may be about anything that was sent.
fn says_nothing(error: &ModelError) -> bool {
    matches!(error, ModelError::Refused { status: 400 | 422, reason, .. } if reason == super::attempts::NO_REASON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Tool;

    fn full_request() -> ChatRequest {
        ChatRequest::user("x")
            .with_reply_schema("answer", serde_json::json!({}))
            .with_tool(Tool { name: "save".into(), description: String::new(), parameters: serde_json::json!({}) })
            .with_tokens_max(9)
            .with_temperature(0.0)
    }

    #[test]
    fn refusals_of_known_endpoints() {
        let check = |status: u16, reason: &str, expect: Option<Dialect>| {
            let (endpoint, reason) = (String::new(), reason.to_owned());
            let error = match status {
                500.. => ModelError::Failed { endpoint, status, retry_after: None, reason },
                _ => ModelError::Refused { endpoint, status, reason },
            };
            assert_eq!(Dialect::default().without_refused(&full_request(), &error), expect, "{error}");
        };
        let whole = Dialect::default();
        let object = Some(Dialect { format: ResponseFormat::JsonObject, ..whole });
        check(
            400,
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
            object,
        );
        check(400, "Invalid schema for response_format 'answer': 'additionalProperties' is required", object);
        check(400, "'response_format.type' must be 'json_object' or 'text'", object);
        check(500, "failed to parse grammar", object);
        check(501, "structured output is not there", object);
        check(404, "No endpoints found that can handle the requested parameters.", object);
        check(422, super::super::attempts::NO_REASON, object);
        check(400, "Cannot use custom grammar constraints with tools.", object);
        check(400, "registry.example/small does not support tools", Some(Dialect { tools: false, ..whole }));
        check(500, "tools param requires --jinja flag", Some(Dialect { tools: false, ..whole }));
        check(
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            Some(Dialect { completion_tokens: true, ..whole }),
        );
        check(
            400,
            "Unsupported value: 'temperature' does not support 0 with this model.",
            Some(Dialect { temperature: false, ..whole }),
        );
        check(400, "This model's maximum context length is 8192", None);
        check(404, "model \"small\" not found, try pulling it first", None);
        check(500, "out of memory", None);
        check(503, "response_format", None);
        check(413, "response_format", None);
    }

    #[test]
    fn refusals_come_to_an_end() {
        let reason = "response_format, tools, temperature, max_completion_tokens".to_owned();
        let error = ModelError::Refused { endpoint: String::new(), status: 400, reason };
        let mut dialect = Dialect::default();
        let mut steps = 0;
        while let Some(next) = dialect.without_refused(&full_request(), &error) {
            dialect = next;
            steps += 1;
        }
        assert_eq!(steps, 5);
        let barest =
            Dialect { format: ResponseFormat::Prompt, tools: false, temperature: false, completion_tokens: true };
        assert_eq!(dialect, barest);
        let bare = ChatRequest::user("x");
        assert_eq!(Dialect::default().without_refused(&bare, &error), None);
    }
}
