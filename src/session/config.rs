//! The configuration of a run, under the documents' names; recorded in `trace_started` and read back when a trace is
//! resumed.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::prompts::PromptLanguage;

/// Most retries of a side branch, whatever is configured.
pub const EVALUATION_RETRIES_MAX: u32 = 10;

/// How a run is to be observed (memory document, section 十.4; DESIGN section 7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunConfig {
    /// Extraction of knowledge.
    pub knowledge: KnowledgeConfig,
    /// The groups of tools that the agent has.
    pub tool_groups: Vec<String>,
    /// How often a side branch is asked again after a reply from which nothing could be taken; at most
    /// [`EVALUATION_RETRIES_MAX`].
    pub eval_retries: u32,
    /// The language of the prompts.
    pub prompt_language: PromptLanguage,
    /// What else the host keeps here; recorded and left as it is.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Default for RunConfig {
    fn default() -> RunConfig {
        RunConfig {
            knowledge: KnowledgeConfig::default(),
            tool_groups: vec!["core".to_owned()],
            eval_retries: 1,
            prompt_language: PromptLanguage::Auto,
            other: Map::new(),
        }
    }
}

/// What is extracted, and what happens to it (memory document, section 五).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnowledgeConfig {
    /// Extract before a compression.
    pub enable_extraction: bool,
    /// Extract when the task has ended.
    pub enable_completion_extraction: bool,
    /// Approve what was extracted at once, in the name of `auto`; off unless switched on.
    pub reflect_auto_commit: bool,
    /// The template of the extraction prompt before a compression; empty for the shipped one.
    pub reflect_prompt: String,
    /// The template of the extraction prompt at the end; empty for the shipped one.
    pub completion_reflect_prompt: String,
}

impl Default for KnowledgeConfig {
    fn default() -> KnowledgeConfig {
        KnowledgeConfig {
            enable_extraction: true,
            enable_completion_extraction: true,
            reflect_auto_commit: false,
            reflect_prompt: String::new(),
            completion_reflect_prompt: String::new(),
        }
    }
}

/// Templates of prompts that stand above those of the run's configuration, such as those of a person who asks; see
/// [`crate::prompts`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptTemplates {
    /// The language, instead of the run's.
    pub language: Option<PromptLanguage>,
    /// The evaluation's.
    pub evaluation: Option<String>,
    /// That of the extraction before a compression.
    pub extraction: Option<String>,
    /// That of the extraction when the task has ended.
    pub completion_extraction: Option<String>,
    /// The compression's.
    pub compression: Option<String>,
}
