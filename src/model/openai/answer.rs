//! The endpoint's JSON answers, read leniently: servers differ in what they leave out and how they spell it.

use cognilog_core::json::{Node, Value};
use serde::Deserialize;

use crate::model::limits::TOOL_CALLS_MAX;
use crate::model::{ChatReply, Embeddings, FinishReason, TokenUse, ToolCall};

/// Why an answer of success is none.
#[derive(Debug, PartialEq)]
pub(super) enum Unreadable {
    /// It is an error in its body, with the status that stands there.
    Error {
        /// The HTTP status that the error has, or would have.
        status: u16,
    },
    /// It is not what the interface gives.
    NoAnswer {
        /// What is wrong.
        reason: String,
    },
}

fn no_answer<T>(reason: impl Into<String>) -> Result<T, Unreadable> {
    Err(Unreadable::NoAnswer { reason: reason.into() })
}

/// Reads an answer of `/chat/completions`. The JSON is that of Python's `json`, so that a lone surrogate or a `NaN`
/// costs no reply.
pub(super) fn chat(text: &str, asked: &str) -> Result<ChatReply, Unreadable> {
    let root = parse(text)?;
    let Some(choice) = root.get("choices").and_then(Node::as_list).and_then(<[Node<'_>]>::first) else {
        return no_answer("it has no `choices`");
    };
    let Some(message) = choice.get("message").filter(|message| message.as_object().is_some()) else {
        return no_answer("its first choice has no `message`");
    };
    let content = message.get("content");
    let mut reply = ChatReply {
        text: content.map(content_text).unwrap_or_default(),
        tool_calls: tool_calls(message, text)?,
        model: model(&root, asked),
        finish_reason: finish_reason(choice),
        token_use: token_use(&root),
        ..ChatReply::default()
    };
    let refusal = message.get("refusal").and_then(Node::as_text).filter(|refusal| !refusal.is_empty());
    if let Some(refusal) = refusal.filter(|_| reply.text.is_empty()) {
        reply.text = refusal.to_owned();
        reply.finish_reason = FinishReason::Refused;
    }
    Ok(reply)
}

fn parse(text: &str) -> Result<Node<'_>, Unreadable> {
    let root = match Node::parse(text) {
        Ok(root) => root,
        Err(error) => return no_answer(format!("it is no JSON ({error}): {text}")),
    };
    let Some(error) = root.get("error").filter(|error| !error.is_null()) else { return Ok(root) };
    // Some gateways answer 200 and put the status of whom they asked into the body.
    let status = error.get("code").or_else(|| error.get("status")).and_then(status_of);
    Err(Unreadable::Error { status: status.unwrap_or(500) })
}

fn status_of(node: &Node<'_>) -> Option<u16> {
    let number = node.as_integer().or_else(|| node.as_text()?.parse().ok())?;
    u16::try_from(number).ok().filter(|status| (400..600).contains(status))
}

/// A text, or a list of parts of which those with a text count.
fn content_text(content: &Node<'_>) -> String {
    match &content.value {
        Value::Text(text) => text.clone().into_owned(),
        Value::List(parts) => {
            let text = |part: &Node<'_>| part.as_text().or_else(|| part.get("text")?.as_text()).map(str::to_owned);
            parts.iter().filter_map(text).collect()
        }
        _ => String::new(),
    }
}

fn tool_calls(message: &Node<'_>, source: &str) -> Result<Vec<ToolCall>, Unreadable> {
    let calls = message.get("tool_calls").and_then(Node::as_list).unwrap_or_default();
    if calls.len() > TOOL_CALLS_MAX {
        return no_answer(format!("it has {} tool calls; at most {TOOL_CALLS_MAX} are taken", calls.len()));
    }
    let text = |node: Option<&Node<'_>>| node.and_then(Node::as_text).unwrap_or_default().to_owned();
    let call = |call: &Node<'_>| {
        let function = call.get("function").unwrap_or(call);
        let arguments = function.get("arguments").filter(|arguments| !arguments.is_null());
        // The interface has the arguments' JSON in a string; some servers leave it as it is.
        let arguments = arguments.map(|node| node.as_text().unwrap_or_else(|| node.raw(source)).to_owned());
        ToolCall {
            id: text(call.get("id")),
            name: text(function.get("name")),
            arguments: arguments.unwrap_or_default(),
        }
    };
    Ok(calls.iter().map(call).collect())
}

fn model(root: &Node<'_>, asked: &str) -> String {
    root.get("model").and_then(Node::as_text).filter(|model| !model.is_empty()).unwrap_or(asked).to_owned()
}

fn finish_reason(choice: &Node<'_>) -> FinishReason {
    match choice.get("finish_reason").and_then(Node::as_text).unwrap_or_default() {
        "stop" => FinishReason::Stop,
        "length" => FinishReason::Length,
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        "content_filter" => FinishReason::Refused,
        other => FinishReason::Other(other.to_owned()),
    }
}

fn token_use(root: &Node<'_>) -> TokenUse {
    let count = |name: &str| root.get("usage")?.get(name)?.as_integer().and_then(|count| u64::try_from(count).ok());
    TokenUse { prompt: count("prompt_tokens"), completion: count("completion_tokens") }
}

/// An answer of `/embeddings`. It is mostly numbers, so it is read into its types at once.
#[derive(Deserialize)]
struct EmbeddingsAnswer {
    data: Vec<EmbeddingAnswer>,
    model: Option<String>,
    usage: Option<EmbeddingsUsage>,
}

#[derive(Deserialize)]
struct EmbeddingAnswer {
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct EmbeddingsUsage {
    prompt_tokens: Option<u64>,
}

/// Reads an answer of `/embeddings` for so many texts, with vectors of this length where one is known.
pub(super) fn embeddings(
    text: &str,
    asked: &str,
    count: usize,
    length: Option<usize>,
) -> Result<Embeddings, Unreadable> {
    let answer: EmbeddingsAnswer = match serde_json::from_str(text) {
        Ok(answer) => answer,
        Err(error) => {
            // An error in the body is no list of vectors either; it has more to say.
            parse(text)?;
            return no_answer(format!("it has no embeddings ({error})"));
        }
    };
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    for (place, item) in answer.data.into_iter().enumerate() {
        match vectors.get_mut(item.index.unwrap_or(place)) {
            Some(slot @ None) => *slot = Some(item.embedding),
            _ => return no_answer(format!("it has a vector too many for {count} texts")),
        }
    }
    // One that is missing makes the count wrong, which is found below.
    let vectors = vectors.into_iter().flatten().collect();
    let model = answer.model.filter(|model| !model.is_empty()).unwrap_or_else(|| asked.to_owned());
    let mut embeddings = Embeddings::new(vectors, count, model).map_err(|reason| Unreadable::NoAnswer { reason })?;
    let came = embeddings.vectors.first().map(Vec::len);
    if length.is_some() && came != length {
        return no_answer("its vectors have another length than those that came before");
    }
    embeddings.token_use.prompt = answer.usage.and_then(|usage| usage.prompt_tokens);
    Ok(embeddings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ChatReply, Unreadable> {
        chat(text, "asked")
    }

    /// A choice's message and what stands beside it, as an answer.
    fn of_message(message: &str) -> String {
        format!(r#"{{"choices":[{{"message":{message}}}]}}"#)
    }

    #[test]
    fn texts() {
        let check = |message: &str, expect: &str| {
            assert_eq!(read(&of_message(message)).expect(message).text, expect, "{message}");
        };
        check(r#"{"content":"好的 \n"}"#, "好的 \n");
        check(r#"{"content":""}"#, "");
        check(r#"{"content":null}"#, "");
        check("{}", "");
        check(r#"{"content":[{"type":"text","text":"a"},{"type":"image_url"},{"type":"text","text":"b"},"c"]}"#, "abc");
        check(r#"{"content":"a","reasoning_content":"hidden","reasoning":{"x":1}}"#, "a");
        check(r#"{"content":"a\ud800b"}"#, "a\u{fffd}b");
        check(r#"{"content":"\ud83d\ude00"}"#, "\u{1f600}");
        check(r#"{"content":"first","content":"last"}"#, "last");
        check(r#"{"content":"a","logprobs":NaN}"#, "a");
        check(r#"{"content":7}"#, "");
        check(r#"{"content":null,"refusal":"I will not"}"#, "I will not");
        check(r#"{"content":"a","refusal":null}"#, "a");
    }

    #[test]
    fn calls() {
        let check = |calls: &str, expect: &[(&str, &str, &str)]| {
            let reply = read(&of_message(&format!(r#"{{"content":null,"tool_calls":{calls}}}"#))).expect(calls);
            let found: Vec<_> =
                reply.tool_calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
            assert_eq!(found, expect, "{calls}");
        };
        check("null", &[]);
        check("[]", &[]);
        check(
            r#"[{"id":"1","type":"function","function":{"name":"save","arguments":"{\"a\": 1.0}"}}]"#,
            &[("1", "save", r#"{"a": 1.0}"#)],
        );
        check(r#"[{"function":{"name":"save","arguments":{"a": 1.0}}}]"#, &[("", "save", r#"{"a": 1.0}"#)]);
        check(r#"[{"id":"1","function":{"name":"save","arguments":"{\"a\""}}]"#, &[("1", "save", r#"{"a""#)]);
        check(r#"[{"id":"1","name":"save","arguments":null},{}]"#, &[("1", "save", ""), ("", "", "")]);
        let many = format!("[{}]", vec!["{}"; TOOL_CALLS_MAX + 1].join(","));
        assert!(read(&of_message(&format!(r#"{{"tool_calls":{many}}}"#))).is_err());
    }

    #[test]
    fn what_stands_around_a_message() {
        let check = |text: &str, model: &str, reason: FinishReason, prompt: Option<u64>, completion: Option<u64>| {
            let reply = read(text).expect(text);
            assert_eq!((reply.model.as_str(), &reply.finish_reason), (model, &reason), "{text}");
            assert_eq!(reply.token_use, TokenUse { prompt, completion }, "{text}");
        };
        let other = |word: &str| FinishReason::Other(word.to_owned());
        check(
            r#"{"model":"m-1","choices":[{"message":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}"#,
            "m-1",
            FinishReason::Stop,
            Some(7),
            Some(3),
        );
        check(
            r#"{"model":"","choices":[{"message":{},"finish_reason":"length"}],"usage":null}"#,
            "asked",
            FinishReason::Length,
            None,
            None,
        );
        check(
            r#"{"choices":[{"message":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":7.0,"completion_tokens":-1}}"#,
            "asked",
            FinishReason::ToolCalls,
            Some(7),
            None,
        );
        check(r#"{"choices":[{"message":{},"finish_reason":null}],"usage":[]}"#, "asked", other(""), None, None);
        check(r#"{"choices":[{"message":{},"finish_reason":"eos"}]}"#, "asked", other("eos"), None, None);
        check(r#"{"choices":[{"message":{"refusal":"no"}}]}"#, "asked", FinishReason::Refused, None, None);
    }

    #[test]
    fn answers_that_are_none() {
        let check = |text: &str, expect: &str| match read(text) {
            Err(Unreadable::NoAnswer { reason }) => assert!(reason.contains(expect), "{text}: {reason}"),
            Err(Unreadable::Error { status }) => assert_eq!(status.to_string(), expect, "{text}"),
            Ok(reply) => panic!("{text}: {reply:?}"),
        };
        check("", "no JSON");
        check("<html>sign in</html>", "<html>sign in");
        check(r#"{"choices":[{"message":{"content":"a"#, "no JSON");
        check(&"[".repeat(100_000), "no JSON");
        check("null", "no `choices`");
        check(r#"{"choices":null}"#, "no `choices`");
        check(r#"{"choices":[]}"#, "no `choices`");
        check(r#"{"choices":[{}]}"#, "no `message`");
        check(r#"{"choices":[{"message":"hello"}]}"#, "no `message`");
        check(r#"{"error":{"message":"busy","code":429}}"#, "429");
        check(r#"{"error":{"message":"busy","code":"503"}}"#, "503");
        check(r#"{"error":{"message":"busy","code":"overloaded"},"choices":[]}"#, "500");
        check(r#"{"error":"busy"}"#, "500");
    }

    #[test]
    fn vectors() {
        let check = |text: &str, count: usize, expect: Result<&[&[f32]], &str>| match (
            embeddings(text, "asked", count, None),
            expect,
        ) {
            (Ok(found), Ok(expect)) => assert_eq!(found.vectors, expect, "{text}"),
            (Err(Unreadable::NoAnswer { reason }), Err(expect)) => {
                assert!(reason.contains(expect), "{text}: {reason}");
            }
            (Err(Unreadable::Error { status }), Err(expect)) => assert_eq!(status.to_string(), expect, "{text}"),
            (found, expect) => panic!("{text}: {found:?}, expected {expect:?}"),
        };
        check(
            r#"{"data":[{"index":1,"embedding":[3,4e0]},{"index":0,"embedding":[1,2.5]}],"usage":{"prompt_tokens":4}}"#,
            2,
            Ok(&[&[1.0, 2.5], &[3.0, 4.0]]),
        );
        check(r#"{"data":[{"embedding":[1]},{"embedding":[2]}]}"#, 2, Ok(&[&[1.0], &[2.0]]));
        check(r#"{"data":[{"embedding":[1]}]}"#, 2, Err("1 vectors came for 2 texts"));
        check(r#"{"data":[{"embedding":[1]},{"embedding":[2]}]}"#, 1, Err("too many"));
        check(r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[2]}]}"#, 2, Err("too many"));
        check(r#"{"data":[{"index":9,"embedding":[1]}]}"#, 1, Err("too many"));
        check(r#"{"data":[{"embedding":[1]},{"embedding":[2,3]}]}"#, 2, Err("vector 1 has 2 numbers"));
        check(r#"{"data":[{"embedding":[]}]}"#, 1, Err("vector 0 has 0 numbers"));
        check(r#"{"data":[{"embedding":[1e99]}]}"#, 1, Err("finite"));
        check(r#"{"data":[{"embedding":"AAAA"}]}"#, 1, Err("no embeddings"));
        check(r#"{"data":[{"embedding":[null]}]}"#, 1, Err("no embeddings"));
        check("{}", 1, Err("no embeddings"));
        check("<html>", 1, Err("no JSON"));
        check(r#"{"error":{"code":429}}"#, 1, Err("429"));
    }
}
