//! Asking a model for a side branch, where cognilog itself does it: for hosts that leave it to the session, and for the
//! verbs `evaluate` and `extract`.

use std::collections::BTreeSet;
use std::time::Duration;

use cognilog_core::event::JsonText;
use serde_json::{Value, json};

use super::{BranchOutcome, BranchReply, SideBranch, SideBranchTask, TraceSession};
use crate::error::Error;
use crate::model::{ChatMessage, ChatModel, ChatReply, ChatRequest, Role};

/// How a model is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AskOptions {
    /// Most bytes of the conversation before the prompt.
    pub conversation_bytes_max: usize,
    /// Ask also where the trace has no messages, so that the model has nothing but the prompt to go by.
    pub blind: bool,
    /// Time until there is an outcome; without it the model's own.
    pub deadline: Option<Duration>,
    /// Most tokens of the reply; without it the model's own.
    pub tokens_max: Option<u32>,
}

impl Default for AskOptions {
    fn default() -> AskOptions {
        AskOptions { conversation_bytes_max: 256 << 10, blind: false, deadline: None, tokens_max: None }
    }
}

/// A side branch that was asked for, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedBranch {
    /// The branch, at its last try.
    pub task: SideBranchTask,
    /// What came of it.
    pub outcome: BranchOutcome,
}

impl TraceSession<'_> {
    /// What a model is to be asked for a side branch: the conversation, the prompt behind it, and the form of the reply.
    ///
    /// # Errors
    /// The trace has no messages, so that the model would have nothing to go by. As [`TraceSession::conversation`] else.
    pub fn chat_request(&self, task: &SideBranchTask, options: &AskOptions) -> Result<ChatRequest, Error> {
        let mut messages = self.conversation(options.conversation_bytes_max)?;
        if messages.is_empty() && !options.blind {
            return Err(Error::NoMessages { trace: self.trace.to_string() });
        }
        messages.push(ChatMessage { role: Role::User, content: task.prompt.clone() });
        let mut request = ChatRequest::new(messages);
        if let Some((name, schema)) = reply_schema(task) {
            request = request.with_reply_schema(name, schema);
        }
        request.tokens_max = options.tokens_max;
        request.deadline = options.deadline;
        Ok(request)
    }

    /// Asks a model for a side branch with [`TraceSession::chat_request`], and takes the reply. The store is held
    /// meanwhile; who shares it with other processes makes the three steps himself.
    ///
    /// # Errors
    /// The model cannot be asked: the branch is given up, so that the queue goes on, and what it asked for stays pending.
    /// As [`TraceSession::chat_request`] and [`TraceSession::take_reply`] else.
    pub fn ask(
        &self,
        task: &SideBranchTask,
        model: &dyn ChatModel,
        options: &AskOptions,
    ) -> Result<BranchOutcome, Error> {
        match model.complete(&self.chat_request(task, options)?) {
            Ok(reply) => self.take_reply(task, &reply.into()),
            Err(error) => {
                self.give_up(task, &format!("{}: {error}", error.code()))?;
                Err(error.into())
            }
        }
    }

    /// Asks a model for every side branch that is queued, with the retries that are configured.
    ///
    /// # Errors
    /// As [`TraceSession::ask`]; what was recorded before stays, and the branches behind it stay queued.
    pub fn ask_all(&self, model: &dyn ChatModel, options: &AskOptions) -> Result<Vec<AskedBranch>, Error> {
        let mut asked = Vec::new();
        while let Some(task) = self.next_side_branch()? {
            let outcome = self.ask(&task, model, options)?;
            if !outcome.again {
                asked.push(AskedBranch { task, outcome });
            }
        }
        Ok(asked)
    }
}

impl From<ChatReply> for BranchReply {
    fn from(reply: ChatReply) -> BranchReply {
        let call = |call: &crate::model::ToolCall| {
            let function = json!({"name": call.name, "arguments": call.arguments});
            json!({"id": call.id, "type": "function", "function": function})
        };
        let calls: Vec<Value> = reply.tool_calls.iter().map(call).collect();
        let tokens = json!({"prompt": reply.token_use.prompt, "completion": reply.token_use.completion});
        BranchReply {
            text: reply.text,
            tool_calls: (!calls.is_empty()).then(|| Value::from(calls).to_string()),
            model: Some(reply.model).filter(|model| !model.is_empty()),
            tokens: JsonText::new(&tokens.to_string()).ok(),
        }
    }
}

/// Ids that a schema lists at the most: endpoints limit the values of a schema, and a long list helps no model.
const LISTED_IDS_MAX: usize = 100;

/// The form of a branch's reply as a JSON schema, with the documents' keys; the queries and sources that are asked for are
/// listed, so that a model which is bound to the schema cannot name others. Free objects such as `tags` are left out,
/// because a strict schema cannot have them.
fn reply_schema(task: &SideBranchTask) -> Option<(&'static str, Value)> {
    let object = |properties: Value| {
        let keys: Vec<&String> = properties.as_object().into_iter().flat_map(|map| map.keys()).collect();
        json!({"type": "object", "properties": properties, "required": keys, "additionalProperties": false})
    };
    let list = |items: Value| json!({"type": "array", "items": items});
    let text = json!({"type": "string"});
    match task.branch {
        SideBranch::Evaluation => {
            let queries: BTreeSet<i64> = task.asked.iter().map(|(query, _)| *query).collect();
            let sources: BTreeSet<&String> = task.asked.iter().flat_map(|(_, sources)| sources).collect();
            let (mut query, mut source) = (json!({"type": "integer"}), text.clone());
            if queries.len() + sources.len() <= LISTED_IDS_MAX {
                query["enum"] = json!(queries);
                source["enum"] = json!(sources);
            }
            let statuses = ["irrelevant", "unused", "helpful", "harmful", "neutral"];
            let assessment = object(json!({
                "source_id": source, "status": {"type": "string", "enum": statuses}, "reason": text,
            }));
            let evaluation = object(json!({"query_sequence": query, "assessments": list(assessment)}));
            Some(("evaluations", object(json!({"evaluations": list(evaluation)}))))
        }
        SideBranch::Extraction => {
            let types = ["experience", "tool", "strategy", "case"];
            let extraction = object(json!({
                "types": list(json!({"type": "string", "enum": types})), "task": text, "content": text,
                "score": {"type": "number"}, "scopes": list(text.clone()), "resource_ids": list(text.clone()),
            }));
            Some(("extractions", object(json!({"extractions": list(extraction)}))))
        }
        SideBranch::Compression => None,
    }
}
