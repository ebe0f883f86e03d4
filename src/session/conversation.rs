//! The conversation that precedes a prompt where cognilog itself asks the model (DESIGN section 7, "Prompts").

use std::ops::ControlFlow;

use cognilog_core::event::{Event, EventKind, JsonText, Message};
use cognilog_core::{Position, StreamId};
use serde_json::Value;

use super::TraceSession;
use crate::error::Error;
use crate::model::{ChatMessage, Role};

/// Bytes kept of one message: what a tool returned can be larger than any context.
const MESSAGE_BYTES_MAX: usize = 32 << 10;

impl TraceSession<'_> {
    /// The trace's messages since the last compression, as chat messages: first the compression's summary, then the
    /// messages, the oldest left out and said so where they are more than `bytes_max`. Messages of side branches are no
    /// part of it.
    ///
    /// # Errors
    /// An event is damaged, or the disk refuses.
    pub fn conversation(&self, bytes_max: usize) -> Result<Vec<ChatMessage>, Error> {
        let (mut summary, mut messages) = (None, Vec::new());
        let snapshot = self.engine.snapshot()?;
        snapshot.visit_stream(&StreamId::Trace(self.trace.clone()), Position::START, |event| {
            // A message in a file of cognition events is stored as text of an unknown kind, and is a message by its text.
            if matches!(event.envelope().kind, EventKind::Message | EventKind::ContextCompressed | EventKind::Unknown) {
                match event.to_stored().event()? {
                    Some(Event::Message(message)) => messages.extend(chat_message(message)),
                    Some(Event::ContextCompressed(compressed)) => {
                        summary = Some(compressed.summary);
                        messages.clear();
                    }
                    _ => {}
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(within(summary, messages, bytes_max))
    }
}

fn within(summary: Option<String>, messages: Vec<ChatMessage>, bytes_max: usize) -> Vec<ChatMessage> {
    let summary = summary.map(|summary| format!("[Summary of the messages before]\n{summary}"));
    let mut bytes = summary.as_ref().map_or(0, String::len);
    let kept = messages.iter().rev().take_while(|message| {
        bytes += message.content.len();
        bytes <= bytes_max
    });
    let left_out = messages.len() - kept.count();
    let mut conversation = Vec::with_capacity(messages.len() + 2);
    conversation.extend(summary.map(|content| ChatMessage { role: Role::User, content }));
    if left_out > 0 {
        let content = format!("[{left_out} earlier messages left out]");
        conversation.push(ChatMessage { role: Role::User, content });
    }
    conversation.extend(messages.into_iter().skip(left_out));
    conversation
}

/// A recorded message as a model is shown it; calls and results of tools are told in words, because an endpoint takes
/// them only with all of their counterparts.
fn chat_message(message: Message) -> Option<ChatMessage> {
    if message.branch_type.is_some() {
        return None;
    }
    let mut text = message.content.map_or_else(String::new, |content| plain(&content));
    if text.len() > MESSAGE_BYTES_MAX {
        let kept = text.floor_char_boundary(MESSAGE_BYTES_MAX);
        let cut = text.len() - kept;
        text.truncate(kept);
        text.push_str(&format!(" [{cut} bytes left out]"));
    }
    if let Some(calls) = message.tool_calls {
        let space = if text.is_empty() { "" } else { "\n" };
        text.push_str(&format!("{space}[calls {}]", calls.as_str()));
    }
    let (role, content) = match message.role.as_str() {
        "system" | "developer" => (Role::System, text),
        "assistant" => (Role::Assistant, text),
        "tool" | "function" => {
            let name = message.name.map_or_else(String::new, |name| format!(" of {name}"));
            (Role::User, format!("[result{name}] {text}"))
        }
        _ => (Role::User, text),
    };
    (!content.trim().is_empty()).then_some(ChatMessage { role, content })
}

/// The text of a message's content: of a list of parts the texts, and of other parts their type.
fn plain(content: &JsonText) -> String {
    let Ok(Value::Array(parts)) = serde_json::from_str(content.as_str()) else { return content.to_plain() };
    let part = |part: &Value| match (part.as_str().or_else(|| part["text"].as_str()), part["type"].as_str()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(kind)) => format!("[{kind}]"),
        (None, None) => part.to_string(),
    };
    parts.iter().map(part).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_messages_are_left_out_first() {
        let message = |content: &str| ChatMessage { role: Role::User, content: content.to_owned() };
        let check = |summary: Option<&str>, messages: &[&str], bytes_max, expect: &[&str]| {
            let found = within(
                summary.map(str::to_owned),
                messages.iter().map(|content| message(content)).collect(),
                bytes_max,
            );
            let found: Vec<&str> = found.iter().map(|message| message.content.as_str()).collect();
            assert_eq!(found, expect);
        };
        check(None, &["aa", "bb"], 10, &["aa", "bb"]);
        check(None, &["aa", "bb", "cc"], 5, &["[1 earlier messages left out]", "bb", "cc"]);
        check(None, &["aa"], 1, &["[1 earlier messages left out]"]);
        check(Some("s"), &["aa"], 100, &["[Summary of the messages before]\ns", "aa"]);
        check(Some("s"), &[], 0, &["[Summary of the messages before]\ns"]);
    }

    #[test]
    fn tools_are_told_in_words() {
        let json = |text: &str| cognilog_core::event::JsonText::new(text).ok();
        let check = |message: Message, role: Role, content: &str| {
            assert_eq!(chat_message(message), Some(ChatMessage { role, content: content.to_owned() }));
        };
        let of = |role: &str| Message { role: role.to_owned(), ..Message::default() };
        check(
            Message { tool_calls: json(r#"[{"name":"zoom"}]"#), ..of("assistant") },
            Role::Assistant,
            r#"[calls [{"name":"zoom"}]]"#,
        );
        check(
            Message { name: Some("zoom".to_owned()), content: json(r#""done""#), ..of("tool") },
            Role::User,
            "[result of zoom] done",
        );
        check(
            Message { content: json(r#"[{"type":"text","text":"hi"},{"type":"image_url"}]"#), ..of("user") },
            Role::User,
            "hi\n[image_url]",
        );
        assert_eq!(chat_message(Message { branch_type: Some("reflection".to_owned()), ..of("user") }), None);
        assert_eq!(chat_message(of("assistant")), None);
        let long = Message { content: json(&format!("{:?}", "知".repeat(20_000))), ..of("user") };
        let text = chat_message(long).expect("a message").content;
        assert!(text.len() < MESSAGE_BYTES_MAX + 40 && text.ends_with(" bytes left out]"), "{}", text.len());
    }
}
