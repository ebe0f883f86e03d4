//! Prompts of the side branches, in Chinese and English, overridable; they hold no messages (DESIGN section 7).
//!
//! A template is text in the Jinja language. What it may name is what [`PromptData`] holds; the filters `quote` (each
//! line behind `> `, so that data never looks like a part of the prompt) and `line` (one line) are ours.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Which language prompts are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PromptLanguage {
    /// That of the task: Chinese if it holds a Chinese character.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// Chinese.
    #[serde(rename = "zh")]
    Chinese,
    /// English.
    #[serde(rename = "en")]
    English,
}

impl PromptLanguage {
    /// Reads `auto`, `zh` or `en`.
    #[must_use]
    pub fn from_word(word: &str) -> Option<PromptLanguage> {
        match word {
            "auto" => Some(PromptLanguage::Auto),
            "zh" => Some(PromptLanguage::Chinese),
            "en" => Some(PromptLanguage::English),
            _ => None,
        }
    }

    /// The language for a task, never [`PromptLanguage::Auto`].
    #[must_use]
    pub fn for_task(self, task: &str) -> PromptLanguage {
        match self {
            PromptLanguage::Auto if task.chars().any(is_chinese) => PromptLanguage::Chinese,
            PromptLanguage::Auto => PromptLanguage::English,
            language => language,
        }
    }
}

/// The blocks of Unicode that hold unified ideographs.
fn is_chinese(character: char) -> bool {
    matches!(character, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{323af}')
}

/// A prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PromptKind {
    /// What the sources of pending queries were worth.
    Evaluation,
    /// Knowledge to extract before a compression.
    Extraction,
    /// Knowledge to extract when the task has ended.
    CompletionExtraction,
    /// The summary that stands for the messages that go.
    Compression,
}

impl PromptKind {
    /// All prompts.
    pub const ALL: [PromptKind; 4] =
        [PromptKind::Evaluation, PromptKind::Extraction, PromptKind::CompletionExtraction, PromptKind::Compression];

    /// The name in settings and of the file of an override.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PromptKind::Evaluation => "evaluation",
            PromptKind::Extraction => "extraction",
            PromptKind::CompletionExtraction => "completion_extraction",
            PromptKind::Compression => "compression",
        }
    }

    /// The template that this build ships.
    fn template(self, language: PromptLanguage) -> &'static str {
        match (self, language) {
            (PromptKind::Evaluation, PromptLanguage::Chinese) => include_str!("evaluation.zh.md"),
            (PromptKind::Evaluation, _) => include_str!("evaluation.en.md"),
            (PromptKind::Extraction, PromptLanguage::Chinese) => include_str!("extraction.zh.md"),
            (PromptKind::Extraction, _) => include_str!("extraction.en.md"),
            (PromptKind::CompletionExtraction, PromptLanguage::Chinese) => {
                include_str!("completion_extraction.zh.md")
            }
            (PromptKind::CompletionExtraction, _) => include_str!("completion_extraction.en.md"),
            (PromptKind::Compression, PromptLanguage::Chinese) => include_str!("compression.zh.md"),
            (PromptKind::Compression, _) => include_str!("compression.en.md"),
        }
    }
}

/// A source as a prompt shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PromptSource {
    /// The knowledge record's id, shown as it is.
    pub id: String,
    /// What the record is for.
    pub task: Option<String>,
    /// What it says.
    pub content: Option<String>,
}

/// A query as a prompt shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PromptQuery {
    /// The query's sequence.
    pub sequence: i64,
    /// What was asked.
    pub text: String,
    /// The answer.
    pub response: Option<String>,
    /// The sources that wait for an assessment.
    pub sources: Vec<PromptSource>,
}

/// What a template may name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PromptData {
    /// What the agent is to do.
    pub task: Option<String>,
    /// The description of the goal it works on.
    pub goal: Option<String>,
    /// The queries that wait for an evaluation.
    pub queries: Vec<PromptQuery>,
    /// The knowledge that was injected into the conversation.
    pub injected: Vec<PromptSource>,
    /// The memory that was injected.
    pub memory: Option<String>,
    /// Why the last reply of this branch was not taken.
    pub failure: Option<String>,
}

/// The text of a prompt.
///
/// `template` overrides what the build ships, where it is given and not empty.
///
/// # Errors
/// The template is no Jinja, or names what there is not; the message names the line.
///
/// ```
/// use cognilog::prompts::{PromptData, PromptKind, PromptLanguage, prompt};
///
/// let data = PromptData { task: Some("修复图像放大".to_owned()), ..PromptData::default() };
/// assert!(prompt(PromptKind::Compression, PromptLanguage::Auto, None, &data)?.contains("## 当前任务（Mission）\n修复图像放大"));
/// assert_eq!(prompt(PromptKind::Compression, PromptLanguage::Auto, Some("{{ task }}!"), &data)?, "修复图像放大!");
/// # Ok::<(), cognilog::Error>(())
/// ```
pub fn prompt(
    kind: PromptKind,
    language: PromptLanguage,
    template: Option<&str>,
    data: &PromptData,
) -> Result<String, Error> {
    let language = language.for_task(data.task.as_deref().unwrap_or_default());
    let template = template.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| kind.template(language));
    let invalid = |error: &minijinja::Error| Error::Template {
        name: kind.as_str(),
        line: error.line(),
        reason: error.detail().map_or_else(|| error.kind().to_string(), str::to_owned),
    };
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(|error| invalid(&error))?);
    environment.add_filter("quote", |text: &str| quote(text));
    environment.add_filter("line", |text: &str| one_line(text));
    let rendered = environment.render_named_str(kind.as_str(), template, Serde(data));
    rendered.map_err(|error| invalid(&error))
}

fn quote(text: &str) -> String {
    let quoted: Vec<String> = text.trim_end().lines().map(|line| format!("> {line}")).collect();
    quoted.join("\n")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}
