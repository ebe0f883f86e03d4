//! What every implementation of the model port does alike: one table, run against each of them.

use std::sync::Arc;

use cognilog::model::{
    ChatModel, ChatReply, ChatRequest, Embedder, FinishReason, ModelError, RecordedEmbedder, RecordedModel,
    ResponseFormat, Tool, ToolCall,
};
use serde_json::json;

/// The name that the models under test are asked by.
const MODEL: &str = "model-a";

/// What a model under test is told to say to a prompt: a reply, or a failure with this code.
type Told = Result<ChatReply, &'static str>;

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.into(), name: name.into(), arguments: arguments.into() }
}

/// The prompts with what the model is told to say to them, and is expected to have said.
fn table() -> Vec<(&'static str, Told)> {
    let reply = |text: &str| ChatReply::text(text).of_model(MODEL);
    let mut both = reply("I save it.");
    both.tool_calls = vec![call("c1", "save", "{}")];
    vec![
        ("plain", Ok(reply("Tuesday"))),
        ("empty", Ok(reply(""))),
        ("languages", Ok(reply("轮廓保持在 0.3 以上 — naïve 🙂\u{0}\t\"quoted\" \\ back\r\nlines"))),
        ("json", Ok(reply("{\"evaluations\": [ ]}\n"))),
        ("other model", Ok(ChatReply::text("x").of_model("model-a-2026"))),
        ("cost", Ok(reply("x").with_token_use(12, 3))),
        ("cut", Ok(reply("half a sent").ending(FinishReason::Length))),
        ("unwilling", Ok(reply("").ending(FinishReason::Refused))),
        ("other end", Ok(reply("x").ending(FinishReason::Other("eos".into())))),
        (
            "calls",
            Ok(ChatReply::calls([
                call("c1", "save", r#"{"task": "图像", "score": 4.0}"#),
                call("c2", "save", "{\"task\": "),
                call("", "unknown", ""),
            ])
            .of_model(MODEL)),
        ),
        ("both", Ok(both)),
        ("limited", Err("model_rate_limited")),
        ("unauthorised", Err("model_unauthorised")),
        ("refused", Err("model_refused")),
        ("failed", Err("model_failed")),
        ("no sense", Err("model_bad_answer")),
    ]
}

/// The suite. `make` makes a model of the name [`MODEL`] that says to each prompt what the table has for it.
fn conforms(make: impl Fn(Vec<(&'static str, Told)>) -> Arc<dyn ChatModel>) {
    let model = make(table());
    assert_eq!(model.name(), MODEL);
    // Twice, so that a failure is seen to leave nothing behind.
    for (prompt, told) in table().into_iter().chain(table()) {
        let found = model.complete(&ChatRequest::user(prompt));
        assert_eq!(found.map_err(|error| error.code()), told, "{prompt}");
    }

    // The form of the reply is told with it.
    let schema = ChatRequest::user("json").with_reply_schema("answer", json!({ "type": "object" }));
    let plain = ChatRequest::user("json");
    for (request, expect) in [(schema, ResponseFormat::JsonSchema), (plain, ResponseFormat::Prompt)] {
        assert_eq!(model.complete(&request).map(|reply| reply.response_format), Ok(expect), "{request:?}");
    }

    // Only the last message of these differs from a table prompt's request; all the rest is taken.
    let full = ChatRequest::user("plain")
        .with_tool(Tool { name: "save".into(), description: "Saves.".into(), parameters: json!({}) })
        .with_tokens_max(100)
        .with_temperature(0.5)
        .with_deadline(std::time::Duration::from_secs(60));
    assert_eq!(model.complete(&full).map(|reply| reply.text), Ok("Tuesday".to_owned()));

    // Invalid requests are refused by all with the same words.
    let invalid = [
        ChatRequest::new([]),
        ChatRequest::user("plain").with_reply_schema("", json!({})),
        ChatRequest::user("plain").with_reply_schema("not a name", json!({})),
        ChatRequest::user("plain").with_reply_schema("n".repeat(65), json!({})),
        ChatRequest::user("plain").with_tool(Tool {
            name: "保存".into(),
            description: String::new(),
            parameters: json!({}),
        }),
        ChatRequest::user("plain").with_temperature(f32::NAN),
        ChatRequest::user("plain").with_temperature(-0.5),
        ChatRequest::user("plain").with_tokens_max(0),
        ChatRequest::user("plain").with_deadline(std::time::Duration::ZERO),
    ];
    for request in invalid {
        let expect = request.check().expect_err("the rule is everybody's");
        assert_eq!(expect.code(), "model_request_invalid");
        assert_eq!(model.complete(&request), Err(expect), "{request:?}");
    }

    // Callers on several threads get each their own reply.
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let model = &model;
            scope.spawn(move || {
                let replies: Vec<_> = table().into_iter().filter(|(_, told)| told.is_ok()).collect();
                for round in 0..replies.len() {
                    let (prompt, told) = &replies[(caller + round) % replies.len()];
                    let found = model.complete(&ChatRequest::user(*prompt));
                    assert_eq!(found.map_err(|error| error.code()), *told, "{prompt}");
                }
            });
        }
    });

    // A model outlives the thread that made it, and may end on another one.
    std::thread::spawn(move || {
        assert!(model.complete(&ChatRequest::user("plain")).is_ok());
        drop(model);
    })
    .join()
    .unwrap();
}

fn error_of(code: &str) -> ModelError {
    let (endpoint, reason) = ("the double".to_owned(), "as told".to_owned());
    match code {
        "model_rate_limited" => ModelError::RateLimited { endpoint, retry_after: None, quota_exhausted: false, reason },
        "model_unauthorised" => ModelError::Unauthorised { endpoint, status: 401, reason },
        "model_refused" => ModelError::Refused { endpoint, status: 400, reason },
        "model_failed" => ModelError::Failed { endpoint, status: 500, retry_after: None, reason },
        "model_bad_answer" => ModelError::BadAnswer { endpoint, reason },
        other => panic!("no error has the code {other}"),
    }
}

#[test]
fn the_recorded_model_conforms() {
    conforms(|table| {
        let mut model = RecordedModel::new(MODEL);
        for (prompt, told) in table {
            let outcome = told.map_err(error_of);
            let is_it = move |request: &ChatRequest| request.messages.last().is_some_and(|last| last.content == prompt);
            model = model.outcome_when(is_it, outcome);
        }
        Arc::new(model)
    });
}

#[test]
fn recorded_replies_come_in_order_and_requests_are_kept() {
    let model = RecordedModel::new(MODEL)
        .reply(ChatReply::text("one"))
        .fail(error_of("model_failed"))
        .reply_when(|request| !request.tools.is_empty(), ChatReply::calls([call("1", "save", "{}")]))
        .reply(ChatReply::text("two"));
    let tool = Tool { name: "save".into(), description: String::new(), parameters: json!({}) };
    let asked = [
        ChatRequest::user("a"),
        ChatRequest::user("b").with_tool(tool),
        ChatRequest::user("c"),
        ChatRequest::user("d"),
    ];
    let found: Vec<_> = asked
        .iter()
        .map(|request| match model.complete(request) {
            Ok(reply) => format!("{}{}", reply.text, reply.tool_calls.len()),
            Err(error) => error.code().to_owned(),
        })
        .collect();
    assert_eq!(found, ["one0", "1", "model_failed", "two0"]);
    assert_eq!((model.requests().as_slice(), model.remaining()), (asked.as_slice(), 0));
    assert_eq!(model.complete(&asked[0]), Err(ModelError::NoRecordedReply { request: 5 }));
}

/// The suite of embedders. `make` makes one of the name [`MODEL`] with these vectors.
fn embedder_conforms(make: impl Fn(Vec<(&'static str, Vec<f32>)>) -> Arc<dyn Embedder>) {
    let vectors = vec![("轮廓", vec![0.25, -1.0, 3.0e-8]), ("outline", vec![1.0, 0.0, 0.5]), ("", vec![0.0, 0.0, 1.0])];
    let embedder = make(vectors.clone());
    assert_eq!(embedder.name(), MODEL);
    for order in [vec![0], vec![2, 0, 1], vec![1, 1, 1, 0], vec![], vec![0, 1, 2, 0, 1, 2, 0]] {
        let texts: Vec<String> = order.iter().map(|index| vectors[*index].0.to_owned()).collect();
        let expect: Vec<Vec<f32>> = order.iter().map(|index| vectors[*index].1.clone()).collect();
        let found = embedder.embed(&texts).unwrap();
        assert_eq!(found.vectors, expect, "{texts:?}");
        assert_eq!(found.model, MODEL);
    }
}

#[test]
fn the_recorded_embedder_conforms() {
    embedder_conforms(|vectors| {
        let add = |embedder: RecordedEmbedder, (text, vector): (&str, Vec<f32>)| embedder.vector(text, vector);
        Arc::new(vectors.into_iter().fold(RecordedEmbedder::new(MODEL), add))
    });
    let embedder = RecordedEmbedder::new(MODEL).vector("a", [1.0]).vector("b", [1.0, 2.0]);
    assert_eq!(embedder.embed(&["c".into()]).unwrap_err().code(), "model_no_recorded_reply");
    assert_eq!(embedder.embed(&["a".into(), "b".into()]).unwrap_err().code(), "model_bad_answer");
    assert_eq!(embedder.requests(), [vec!["c".to_owned()], vec!["a".to_owned(), "b".to_owned()]]);
}

#[cfg(feature = "openai")]
mod openai {
    use super::*;
    use crate::models::endpoint::{limits, open};
    use crate::models::loopback::{Act, Loopback};

    /// The answer that an OpenAI-compatible server gives where it is to say this.
    fn wire(told: &Told) -> Act {
        let reply = match told {
            Ok(reply) => reply,
            Err("model_rate_limited") => return Act::json(429, "{}"),
            Err("model_unauthorised") => return Act::json(401, "{}"),
            Err("model_refused") => return Act::json(400, r#"{"error":{"message":"too long"}}"#),
            Err("model_failed") => return Act::json(500, "{}"),
            Err(_) => return Act::json(200, "<html>"),
        };
        let calls: Vec<_> = reply
            .tool_calls
            .iter()
            .map(|call| {
                let function = json!({ "name": call.name, "arguments": call.arguments });
                json!({ "id": call.id, "type": "function", "function": function })
            })
            .collect();
        let finish_reason = match &reply.finish_reason {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::Refused => "content_filter",
            FinishReason::Other(word) => word,
            other => panic!("{other:?} has no word"),
        };
        let message = json!({ "role": "assistant", "content": reply.text, "tool_calls": calls });
        let usage = json!({ "prompt_tokens": reply.token_use.prompt, "completion_tokens": reply.token_use.completion });
        let choices = [json!({ "index": 0, "message": message, "finish_reason": finish_reason })];
        Act::json(200, json!({ "model": reply.model, "choices": choices, "usage": usage }).to_string())
    }

    #[test]
    fn the_client_conforms() {
        let servers = std::cell::RefCell::new(Vec::new());
        conforms(|table| {
            let server = Loopback::new(move |_, seen| {
                wire(&table.iter().find(|(prompt, _)| *prompt == seen.last_message()).unwrap().1)
            });
            let model = open(&server, limits()).chat_model(MODEL);
            servers.borrow_mut().push(server);
            Arc::new(model)
        });
    }

    #[test]
    fn the_embedding_client_conforms() {
        let servers = std::cell::RefCell::new(Vec::new());
        embedder_conforms(|vectors| {
            let server = Loopback::new(move |_, seen| {
                let texts = seen.body["input"].as_array().unwrap();
                // Three texts at once and one more is what the limits of these tests allow.
                assert!(texts.len() <= 3, "{texts:?}");
                let vector = |text: &str| &vectors.iter().find(|(known, _)| *known == text).unwrap().1;
                let items = texts.iter().enumerate().rev();
                let items: Vec<_> = items
                    .map(|(index, text)| json!({ "index": index, "embedding": vector(text.as_str().unwrap()) }))
                    .collect();
                Act::json(200, json!({ "data": items }).to_string())
            });
            let mut limits = limits();
            limits.embedding_texts_max = 3;
            let embedder = open(&server, limits).embedding_model(MODEL);
            servers.borrow_mut().push(server);
            Arc::new(embedder)
        });
    }
}
