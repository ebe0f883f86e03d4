//! Asks the endpoint of `OPENAI_BASE_URL` whether a source helped, for a reply of a given form, and prints all that came.
#![allow(clippy::print_stdout, reason = "an example shows what it finds")]

use cognilog::model::openai::OpenAi;
use cognilog::model::{ChatMessage, ChatModel, ChatRequest, Embedder, Role};
use serde_json::json;

const QUESTION: &str = "An agent asked: which ControlNet settings keep the outline?\n\
    It was told by source knowledge-a1b2: use a strength of at least 0.3. The agent did so, and the outline was kept.\n\
    Judge the source. Answer with one JSON object: \
    {\"source_id\": …, \"status\": one of irrelevant, unused, helpful, harmful, neutral, \"reason\": one sentence}";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let question = std::env::args().nth(1).unwrap_or_else(|| QUESTION.to_owned());
    let endpoint = OpenAi::from_environment()?;
    let message = |role: Role, content: &str| ChatMessage { role, content: content.to_owned() };
    let request = ChatRequest::new([
        message(Role::System, "You judge what an agent was told. You answer in JSON alone."),
        message(Role::User, &question),
    ])
    .with_reply_schema(
        "assessment",
        json!({
            "type": "object",
            "properties": {
                "source_id": { "type": "string", "maxLength": 40 },
                "status": { "enum": ["irrelevant", "unused", "helpful", "harmful", "neutral"] },
                "reason": { "type": "string", "maxLength": 200 },
            },
            "required": ["source_id", "status", "reason"],
            "additionalProperties": false,
        }),
    )
    .with_tokens_max(160)
    .with_temperature(0.0);

    let model = endpoint.chat()?;
    let reply = model.complete(&request)?;
    println!("model {} asked by {}", reply.model, reply.response_format.as_str());
    println!("ended {:?}, tokens {:?}", reply.finish_reason, reply.token_use);
    println!("{}", reply.text);

    if let Ok(embedder) = endpoint.embedder() {
        let embeddings = embedder.embed(&[question, "轮廓".to_owned()])?;
        let lengths: Vec<usize> = embeddings.vectors.iter().map(Vec::len).collect();
        println!("vectors of {} have {lengths:?} numbers", embeddings.model);
    }
    Ok(())
}
