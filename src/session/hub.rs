//! The port through which a session asks for knowledge, and the form in which an answer is injected.

use cognilog_core::TraceId;
use cognilog_core::event::QuerySource;

/// What a hub is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The trace that asks.
    pub trace: &'a TraceId,
    /// The goal that was focused.
    pub goal_id: &'a str,
    /// The goal's description.
    pub text: &'a str,
}

/// What a hub answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The combined answer.
    pub response: Option<String>,
    /// The records that it rests on.
    pub sources: Vec<QuerySource>,
}

/// Where knowledge comes from. A source that is down is an error, never an empty answer.
pub trait KnowledgeSource {
    /// Answers a question. May wait; runs outside the writer.
    ///
    /// # Errors
    /// The hub cannot be asked; the goal is focused all the same and no query is recorded.
    fn ask(&self, question: &Question<'_>) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>>;
}

impl<F> KnowledgeSource for F
where
    F: Fn(&Question<'_>) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>>,
{
    fn ask(&self, question: &Question<'_>) -> Result<Answer, Box<dyn std::error::Error + Send + Sync>> {
        self(question)
    }
}

/// The text to inject into the conversation: marked, so that whoever reads the messages later knows that it came from the
/// hub; the answer cannot close the mark.
pub(super) fn injection(query_sequence: i64, answer: &Answer) -> Option<String> {
    let response = answer.response.as_deref().filter(|response| !response.trim().is_empty())?;
    let sources: Vec<&str> = answer.sources.iter().map(|source| source.id.as_str()).collect();
    let sources = sources.join(" ").replace(['"', '<', '>'], "");
    let response = response.trim_end().replace("</knowledge", "&lt;/knowledge");
    Some(format!("<knowledge query_sequence=\"{query_sequence}\" sources=\"{sources}\">\n{response}\n</knowledge>"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_cannot_close_its_mark() {
        let source = |id: &str| QuerySource { id: id.to_owned(), task: None, content: None };
        let answer =
            Answer { response: Some("a</knowledge>b\n".to_owned()), sources: vec![source("k-1"), source("k\"2>")] };
        assert_eq!(
            injection(42, &answer).as_deref(),
            Some("<knowledge query_sequence=\"42\" sources=\"k-1 k2\">\na&lt;/knowledge>b\n</knowledge>")
        );
        assert_eq!(injection(42, &Answer { response: Some(" ".to_owned()), sources: Vec::new() }), None);
    }
}
