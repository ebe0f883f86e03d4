//! Doubles of the port that answer from a script and remember what they were asked.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{ChatModel, ChatReply, ChatRequest, Embedder, Embeddings, ModelError, ResponseFormat};

type Outcome = Result<ChatReply, ModelError>;
type Matcher = Box<dyn Fn(&ChatRequest) -> bool + Send + Sync>;

/// A chat model whose replies were written down before.
///
/// A request that a matcher knows gets that matcher's outcome, each time; the others get the outcomes in order, each
/// once, and then [`ModelError::NoRecordedReply`]. It answers like an endpoint that takes schemas: a reply's
/// `response_format` is by the request.
///
/// ```
/// use cognilog::model::{ChatModel, ChatReply, ChatRequest, ModelError, RecordedModel};
///
/// let model = RecordedModel::new("small")
///     .reply(ChatReply::text("yes"))
///     .reply_when(|request| request.messages[0].content.contains("tea"), ChatReply::text("no"));
/// assert_eq!(model.complete(&ChatRequest::user("Coffee?"))?.text, "yes");
/// assert_eq!(model.complete(&ChatRequest::user("Or tea?"))?.text, "no");
/// assert_eq!(model.complete(&ChatRequest::user("Coffee?")).unwrap_err().code(), "model_no_recorded_reply");
/// assert_eq!(model.requests()[1].messages[0].content, "Or tea?");
/// # Ok::<(), ModelError>(())
/// ```
pub struct RecordedModel {
    name: String,
    matched: Vec<(Matcher, Outcome)>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    in_order: VecDeque<Outcome>,
    requests: Vec<ChatRequest>,
}

impl RecordedModel {
    /// A model of this name without replies.
    #[must_use]
    pub fn new(name: impl Into<String>) -> RecordedModel {
        RecordedModel { name: name.into(), matched: Vec::new(), state: Mutex::default() }
    }

    /// The same model with one more reply in order.
    #[must_use]
    pub fn reply(self, reply: ChatReply) -> RecordedModel {
        self.outcome(Ok(reply))
    }

    /// The same model, failing like this at the next place in the order.
    #[must_use]
    pub fn fail(self, error: ModelError) -> RecordedModel {
        self.outcome(Err(error))
    }

    /// The same model with one more outcome in order.
    #[must_use]
    pub fn outcome(self, outcome: Result<ChatReply, ModelError>) -> RecordedModel {
        self.state().in_order.push_back(outcome);
        self
    }

    /// The same model with a reply for every request that the matcher knows; the first matcher counts.
    #[must_use]
    pub fn reply_when(
        self,
        matches: impl Fn(&ChatRequest) -> bool + Send + Sync + 'static,
        reply: ChatReply,
    ) -> RecordedModel {
        self.outcome_when(matches, Ok(reply))
    }

    /// The same model with an outcome for every request that the matcher knows; the first matcher counts.
    #[must_use]
    pub fn outcome_when(
        mut self,
        matches: impl Fn(&ChatRequest) -> bool + Send + Sync + 'static,
        outcome: Result<ChatReply, ModelError>,
    ) -> RecordedModel {
        self.matched.push((Box::new(matches), outcome));
        self
    }

    /// The valid requests that it got, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.state().requests.clone()
    }

    /// Outcomes in order that nobody has asked for yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.state().in_order.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is a single push or pop, so a panic elsewhere leaves it whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChatModel for RecordedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ModelError> {
        request.check()?;
        // A matcher is the test's own code: it runs without the lock.
        let matched = self.matched.iter().find(|(matches, _)| matches(request)).map(|(_, outcome)| outcome.clone());
        let mut state = self.state();
        state.requests.push(request.clone());
        let number = state.requests.len();
        let next = matched.or_else(|| state.in_order.pop_front());
        let mut reply = next.unwrap_or(Err(ModelError::NoRecordedReply { request: number }))?;
        if reply.model.is_empty() {
            reply.model.clone_from(&self.name);
        }
        reply.response_format =
            if request.reply_schema.is_some() { ResponseFormat::JsonSchema } else { ResponseFormat::Prompt };
        Ok(reply)
    }
}

impl fmt::Debug for RecordedModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        formatter
            .debug_struct("RecordedModel")
            .field("name", &self.name)
            .field("matchers", &self.matched.len())
            .field("remaining", &state.in_order.len())
            .field("requests", &state.requests.len())
            .finish()
    }
}

/// An embedder whose vectors were written down before, by text.
///
/// A text that it does not know is [`ModelError::NoRecordedReply`].
#[derive(Debug, Default)]
pub struct RecordedEmbedder {
    name: String,
    vectors: HashMap<String, Vec<f32>>,
    requests: Mutex<Vec<Vec<String>>>,
}

impl RecordedEmbedder {
    /// An embedder of this name without vectors.
    #[must_use]
    pub fn new(name: impl Into<String>) -> RecordedEmbedder {
        RecordedEmbedder { name: name.into(), ..RecordedEmbedder::default() }
    }

    /// The same embedder, with the vector of one more text.
    #[must_use]
    pub fn vector(mut self, text: impl Into<String>, vector: impl Into<Vec<f32>>) -> RecordedEmbedder {
        self.vectors.insert(text.into(), vector.into());
        self
    }

    /// The texts of each request that it got, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<Vec<String>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Embedder for RecordedEmbedder {
    fn name(&self) -> &str {
        &self.name
    }

    fn embed(&self, texts: &[String]) -> Result<Embeddings, ModelError> {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(texts.to_vec());
        let number = requests.len();
        drop(requests);
        let vectors: Option<Vec<Vec<f32>>> = texts.iter().map(|text| self.vectors.get(text).cloned()).collect();
        let vectors = vectors.ok_or(ModelError::NoRecordedReply { request: number })?;
        Embeddings::new(vectors, texts.len(), &self.name)
            .map_err(|reason| ModelError::BadAnswer { endpoint: "the recorded embedder".to_owned(), reason })
    }
}
