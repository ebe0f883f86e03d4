//! The events by which the log keeps faith with files that other programs write.

use super::field::fields;

fields! {
    /// An event of an imported file was changed in place by its writer, as Python marks reflections.
    ///
    /// `text` is the event as it stands now; the first form stays in the log at `position`.
    pub struct EventAmended {
        /// The event's sequence.
        sequence: Option<i64>,
        /// The position of the event that changed.
        position: i64,
        /// The event's JSON as it stands now, in a string so that its spelling is kept.
        text: String,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}

fields! {
    /// How a trace's JSON file is written: its white space and what stands beside the events.
    pub struct JsonFileStyle {
        /// The agent's message number: never set, present as in every event.
        sequence: Option<i64>,
        /// The white space, as `json::JsonStyle` serialises.
        style: String,
        /// The JSON of the file's top-level object up to its list of events.
        frame_before: String,
        /// The JSON of the file's top-level object behind that list.
        frame_after: String,
        /// `events`, or `entries` in a `knowledge_log.json`.
        list_key: String,
        /// When, as the text came.
        timestamp: Option<String>,
    }
}
