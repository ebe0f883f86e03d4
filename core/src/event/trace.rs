//! The trace events: what surrounds the cognition events in a trace, and never appears in `cognition_log.json`.

use super::field::{Field as _, JsonText, Reader, Shape, fields, words};
use crate::json::Node;
use serde::ser::SerializeMap;

fields! {
    /// A run begins (DESIGN section 5).
    pub struct TraceStarted {
        /// The agent's message number.
        sequence: Option<i64>,
        /// What the agent is to do.
        task: Option<String>,
        /// The identity whose memory the run shares.
        identity: Option<String>,
        /// The kind of agent.
        agent_type: Option<String>,
        /// Whose run it is.
        owner: Option<String>,
        /// The run's configuration as JSON.
        config: Option<JsonText>,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}

/// A message of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize)]
#[rkyv(derive(Debug))]
pub struct Message {
    /// The agent's message number.
    pub sequence: Option<i64>,
    /// The message's own id.
    pub message_id: Option<String>,
    /// user, assistant, system, tool.
    pub role: String,
    /// The content as JSON: a string or a list of parts.
    pub content: Option<JsonText>,
    /// The side branch the message belongs to.
    pub branch_type: Option<String>,
    /// The goal it belongs to.
    pub goal_id: Option<String>,
    /// The tool's name in a tool message.
    pub name: Option<String>,
    /// Calls of tools, as JSON.
    pub tool_calls: Option<JsonText>,
    /// The call that a tool message answers.
    pub tool_call_id: Option<String>,
    /// Token use, as JSON.
    pub tokens: Option<JsonText>,
    /// When, as the text came; other writers call it `ts` or `created_at`.
    pub timestamp: Option<String>,
}

impl Shape for Message {
    fn read_fields(object: &Node<'_>, reader: &mut Reader<'_>) -> Message {
        let times = ["timestamp", "ts", "created_at"];
        let time = times.into_iter().find(|key| object.get(key).is_some()).unwrap_or("timestamp");
        Message {
            sequence: reader.field(object, "sequence"),
            message_id: reader.field(object, "message_id"),
            role: reader.field(object, "role"),
            content: reader.field(object, "content"),
            branch_type: reader.field(object, "branch_type"),
            goal_id: reader.field(object, "goal_id"),
            name: reader.field(object, "name"),
            tool_calls: reader.field(object, "tool_calls"),
            tool_call_id: reader.field(object, "tool_call_id"),
            tokens: reader.field(object, "tokens"),
            timestamp: reader.field(object, time),
        }
    }

    fn write_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        macro_rules! present {
            ($($field:ident)*) => { $( if !self.$field.is_absent() {
                map.serialize_entry(stringify!($field), &self.$field)?;
            } )* };
        }
        present!(sequence message_id role content branch_type goal_id name tool_calls tool_call_id tokens timestamp);
        Ok(())
    }
}

fields! {
    /// A goal was made, changed or ended.
    pub struct GoalChanged {
        /// The agent's message number.
        sequence: Option<i64>,
        /// The goal.
        goal_id: String,
        /// What it is.
        description: Option<String>,
        /// Where it stands.
        status: Option<GoalStatus>,
        /// The goal above it.
        parent_id: Option<String>,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}

words! {
    /// Where a goal stands.
    pub struct GoalStatus {
        /// Not begun.
        PENDING = 1 "pending",
        /// Worked on.
        IN_PROGRESS = 2 "in_progress",
        /// Reached: fires the evaluation trigger.
        COMPLETED = 3 "completed",
        /// Given up: fires the evaluation trigger.
        ABANDONED = 4 "abandoned",
    }
}

fields! {
    /// One of the three triggers fired (cognition log document, "评估触发机制").
    pub struct TriggerFired {
        /// The agent's message number.
        sequence: Option<i64>,
        /// Which one.
        trigger: Trigger,
        /// The side branches it queued, in order.
        queue: Vec<String>,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}

words! {
    /// What leads to side branches.
    pub struct Trigger {
        /// A goal was completed or abandoned.
        GOAL_COMPLETION = 1 "goal_completion",
        /// The context is over its threshold.
        COMPRESSION = 2 "compression",
        /// The task ends.
        TASK_COMPLETION = 3 "task_completion",
        /// A person asked.
        MANUAL = 4 "manual",
    }
}

fields! {
    /// A side branch began.
    pub struct SideBranchStarted {
        /// The agent's message number.
        sequence: Option<i64>,
        /// The branch.
        branch_id: String,
        /// knowledge_eval, reflection or compression, by their wire names.
        branch_type: String,
        /// What led to it.
        trigger: Option<Trigger>,
        /// The how-manieth try of this branch, from 1.
        attempt: Option<i64>,
        /// The sources that an evaluation asks for.
        asked: Option<Vec<AskedSources>>,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}

fields! {
    /// Sources of one query that an evaluation asks for.
    pub struct AskedSources {
        /// The query's sequence.
        query_sequence: i64,
        /// The sources.
        source_ids: Vec<String>,
    }
}

fields! {
    /// A side branch ended.
    pub struct SideBranchFinished {
        /// The agent's message number.
        sequence: Option<i64>,
        /// The branch.
        branch_id: String,
        /// done, failed or skipped.
        outcome: String,
        /// Why it failed or was skipped.
        error: Option<String>,
        /// Judgements or pieces of knowledge that were taken from the reply.
        accepted: Option<i64>,
        /// What of the reply was not taken, a line each.
        dropped: Option<Vec<String>>,
        /// The model that replied.
        model: Option<String>,
        /// A salted digest of the prompt: salt and BLAKE3 of salt and prompt, in hexadecimal.
        prompt_digest: Option<String>,
        /// Token use, as JSON.
        tokens: Option<JsonText>,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}

fields! {
    /// A model's reply from which nothing could be taken; the text is kept.
    pub struct ReplyUnparsed {
        /// The agent's message number.
        sequence: Option<i64>,
        /// The branch whose reply it is.
        branch_id: Option<String>,
        /// eval, extract or dream.
        reply_kind: String,
        /// The model that replied.
        model: Option<String>,
        /// Why nothing was taken.
        reason: String,
        /// The how-manieth try, from 1.
        attempt: Option<i64>,
        /// The reply.
        text: String,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}

fields! {
    /// The context was compressed.
    pub struct ContextCompressed {
        /// The agent's message number.
        sequence: Option<i64>,
        /// What stands for the messages that went.
        summary: String,
        /// First and last message that went.
        compressed_range: Option<Vec<i64>>,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}

fields! {
    /// A run ended.
    pub struct TraceFinished {
        /// The agent's message number.
        sequence: Option<i64>,
        /// How.
        status: TraceStatus,
        /// network, timeout, rate_limit, logic_error, wrong_output, …
        error_type: Option<String>,
        /// Steps taken.
        total_steps: Option<i64>,
        /// How often each source was used, as JSON.
        knowledge_usage: Option<JsonText>,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}

words! {
    /// How a run ended.
    pub struct TraceStatus {
        /// The task was done.
        COMPLETED = 1 "completed",
        /// It was not.
        FAILED = 2 "failed",
        /// Somebody stopped it.
        STOPPED = 3 "stopped",
    }
}
