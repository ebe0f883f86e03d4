//! The form in which a trace carries a kind: native events are exported in the form the trace had first.
//!
//! Forms are changed on the text of an object's members, so that every number keeps its spelling.

use cognilog_core::event::EventKind;
use cognilog_core::json::{JsonError, Node};

use super::export::Profile;

/// What a trace's own texts say about the forms it uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Forms {
    /// Whether extraction items stand flat in their event; unknown until one was seen.
    flat_items: Option<bool>,
    /// Whether decisions are written in the past form (`approved`).
    past_decisions: Option<bool>,
    /// Whether outcomes stand in a list `items`.
    listed_outcomes: Option<bool>,
}

/// The decisions as the documents spell them and in the past form.
const DECISIONS: [(&str, &str); 4] =
    [("approve", "approved"), ("edit", "edited"), ("discard", "discarded"), ("withdraw", "withdrawn")];

/// The keys that the documents do not have; the Python profile keeps them under [`APART`].
const OURS: [&str; 6] = ["version", "reviewer", "undoes", "branch_id", "relation", "digested_by"];
const APART: &str = "cognilog";

/// What the Python profile gives as the reason of a withdrawal.
const WITHDRAWN: &str = "\"withdrawn\"";

impl Forms {
    /// Learns from an event's text, in the order of the log: the first of a kind that shows its form decides.
    pub(super) fn learn(&mut self, kind: EventKind, text: &str) {
        let undecided = match kind {
            EventKind::ExtractionPending => self.flat_items.is_none(),
            EventKind::ExtractionReviewed => self.past_decisions.is_none(),
            EventKind::ExtractionCommitted => self.listed_outcomes.is_none(),
            _ => false,
        };
        if !undecided {
            return;
        }
        let Ok(node) = Node::parse(text) else { return };
        let has = |key: &str| node.get(key).is_some();
        match kind {
            EventKind::ExtractionPending => {
                self.flat_items = (has("item") || has("content")).then_some(!has("item"));
            }
            EventKind::ExtractionReviewed => {
                let word = node.get("decision").and_then(Node::as_text).unwrap_or_default();
                let known = DECISIONS.iter().find(|(now, past)| [*now, *past].contains(&word));
                self.past_decisions = known.map(|(_, past)| *past == word);
            }
            _ => self.listed_outcomes = (has("items") || has("extraction_id")).then_some(has("items")),
        }
    }

    /// Whether a native event of the kind is to be printed in another form than it is stored in.
    pub(super) fn changes(&self, kind: EventKind, profile: Profile) -> bool {
        match kind {
            EventKind::ExtractionPending => self.flat_items == Some(true) || profile == Profile::Python,
            EventKind::ExtractionReviewed => self.past_decisions == Some(true) || profile == Profile::Python,
            EventKind::ExtractionCommitted => self.listed_outcomes == Some(true) || profile == Profile::Python,
            EventKind::Reflection => profile == Profile::Python,
            _ => false,
        }
    }

    /// A native event's JSON in the trace's form.
    ///
    /// # Errors
    /// The text is no JSON, which the log never stores.
    pub(super) fn print(&self, kind: EventKind, text: &str, profile: Profile) -> Result<String, JsonError> {
        let node = Node::parse(text)?;
        if node.as_object().is_none() {
            return Ok(text.to_owned());
        }
        let mut members = Members::of(&node, text);
        match kind {
            EventKind::ExtractionPending if self.flat_items == Some(true) => members.flatten("item", &node, text),
            EventKind::ExtractionReviewed => self.respell_decision(&mut members, &node, profile),
            EventKind::ExtractionCommitted if self.listed_outcomes == Some(true) => members.list_outcome(),
            _ => {}
        }
        if profile == Profile::Python {
            members.set_apart();
        }
        Ok(members.print())
    }

    fn respell_decision(&self, members: &mut Members, node: &Node<'_>, profile: Profile) {
        let mut word = node.get("decision").and_then(Node::as_text).unwrap_or_default();
        // The documents know no withdrawal: old readers are told that the extraction is not taken.
        if profile == Profile::Python && is_withdrawal(word) {
            word = "discard";
            members.set("reason", WITHDRAWN);
        }
        if self.past_decisions == Some(true) {
            word = DECISIONS.iter().find(|(now, _)| *now == word).map_or(word, |(_, past)| past);
        }
        members.set("decision", &serde_json::Value::from(word).to_string());
    }
}

fn is_withdrawal(word: &str) -> bool {
    matches!(word, "withdraw" | "withdrawn")
}

/// An event of a file in the form the log has it in: what the Python profile respelled in `ours`, the native text whose
/// Python form is `printed`, is taken back in `theirs`, and everything else of `theirs` stays.
///
/// # Errors
/// A text is no JSON.
pub(super) fn restore(ours: &str, printed: &str, theirs: &str) -> Result<String, JsonError> {
    let (our_node, printed_node, node) = (Node::parse(ours)?, Node::parse(printed)?, Node::parse(theirs)?);
    if node.as_object().is_none() {
        return Ok(theirs.to_owned());
    }
    let mut members = Members::of(&node, theirs);
    if printed_node.get(APART).is_some() {
        members.flatten(APART, &node, theirs);
    }
    let word = |node: &Node<'_>| node.get("decision").and_then(Node::as_text).unwrap_or_default().to_owned();
    if is_withdrawal(&word(&our_node)) && word(&node) == word(&printed_node) && word(&node) != word(&our_node) {
        for key in ["decision", "reason"] {
            match our_node.get(key) {
                Some(native) => members.set(key, native.raw(ours)),
                None => members.0.retain(|(name, _)| name != key),
            }
        }
    }
    Ok(members.print())
}

/// An object's members in order, each value as its text.
struct Members(Vec<(String, String)>);

impl Members {
    fn of(node: &Node<'_>, text: &str) -> Members {
        let members = node.as_object().unwrap_or_default().iter();
        Members(members.map(|(key, value)| (key.to_string(), value.raw(text).to_owned())).collect())
    }

    /// Sets the value of a key at its place, or behind the others.
    fn set(&mut self, key: &str, value: &str) {
        match self.0.iter_mut().rev().find(|(name, _)| name == key) {
            Some((_, old)) => value.clone_into(old),
            None => self.0.push((key.to_owned(), value.to_owned())),
        }
    }

    /// Puts the members of the object under a key in its place.
    fn flatten(&mut self, key: &str, node: &Node<'_>, text: &str) {
        let Some(inner) = node.get(key).filter(|inner| inner.as_object().is_some()) else { return };
        let Some(place) = self.0.iter().rposition(|(name, _)| name == key) else { return };
        self.0.splice(place..=place, Members::of(inner, text).0);
    }

    /// Moves the members that speak of one extraction into a list `items` of one object.
    fn list_outcome(&mut self) {
        const OF_ITEM: [&str; 5] = ["extraction_id", "outcome", "knowledge_id", "relation", "error"];
        let Some(place) = self.0.iter().position(|(key, _)| OF_ITEM.contains(&key.as_str())) else { return };
        if self.0.iter().any(|(key, _)| key == "items") {
            return;
        }
        let (item, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.0).into_iter().partition(|(key, _)| OF_ITEM.contains(&key.as_str()));
        self.0 = rest;
        self.0.insert(place, ("items".to_owned(), format!("[{}]", Members(item).print())));
    }

    /// Moves keys that the documents do not have under [`APART`].
    fn set_apart(&mut self) {
        let (apart, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.0).into_iter().partition(|(key, _)| OURS.contains(&key.as_str()));
        self.0 = kept;
        if !apart.is_empty() {
            self.0.push((APART.to_owned(), Members(apart).print()));
        }
    }

    fn print(&self) -> String {
        let members = self.0.iter().map(|(key, value)| format!("{}:{value}", serde_json::Value::from(key.as_str())));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_events_take_the_form_of_their_trace() {
        let check = |first: (EventKind, &str), text: &str, profile: Profile, expect: &str| {
            let mut forms = Forms::default();
            forms.learn(first.0, first.1);
            assert_eq!(forms.print(first.0, text, profile).as_deref(), Ok(expect), "{text}");
        };
        let pending = EventKind::ExtractionPending;
        let nested = r#"{"type":"extraction_pending","branch_id":"b","item":{"content":"x","score":1e+16,"tags":{"n":9007199254740993123456}},"timestamp":"t"}"#;
        check((pending, r#"{"item":{}}"#), nested, Profile::Native, nested);
        // An event that shows no form decides nothing.
        check((pending, r#"{"type":"extraction_pending"}"#), nested, Profile::Native, nested);
        check(
            (pending, r#"{"content":"x"}"#),
            nested,
            Profile::Native,
            r#"{"type":"extraction_pending","branch_id":"b","content":"x","score":1e+16,"tags":{"n":9007199254740993123456},"timestamp":"t"}"#,
        );
        let reviewed = EventKind::ExtractionReviewed;
        let withdrawn = r#"{"extraction_id":"e","version":2,"decision":"withdraw","reviewer":"me","timestamp":"t"}"#;
        check(
            (reviewed, r#"{"decision":"approved"}"#),
            withdrawn,
            Profile::Native,
            r#"{"extraction_id":"e","version":2,"decision":"withdrawn","reviewer":"me","timestamp":"t"}"#,
        );
        check(
            (reviewed, r#"{"decision":"maybe"}"#),
            withdrawn,
            Profile::Python,
            r#"{"extraction_id":"e","decision":"discard","timestamp":"t","reason":"withdrawn","cognilog":{"version":2,"reviewer":"me"}}"#,
        );
        check(
            (EventKind::ExtractionCommitted, r#"{"items":[]}"#),
            r#"{"sequence":1,"extraction_id":"e","outcome":"saved","timestamp":"t"}"#,
            Profile::Native,
            r#"{"sequence":1,"items":[{"extraction_id":"e","outcome":"saved"}],"timestamp":"t"}"#,
        );
    }

    #[test]
    fn what_the_python_profile_respelled_is_taken_back() {
        let ours = r#"{"extraction_id":"e","version":2,"decision":"withdraw","reason":"why","timestamp":"t"}"#;
        let printed = Forms::default().print(EventKind::ExtractionReviewed, ours, Profile::Python).expect("JSON");
        let check = |theirs: &str, expect: &str| {
            let restored = restore(ours, &printed, theirs).expect("JSON");
            let (left, right) = (Node::parse(&restored).expect("JSON"), Node::parse(expect).expect("JSON"));
            assert!(cognilog_core::json::equal(&left, &right), "{restored} {expect}");
        };
        check(&printed, ours);
        check(ours, ours);
        check(
            &printed.replace("{\"extraction_id\"", "{\"seen\":true,\"extraction_id\""),
            r#"{"seen":true,"extraction_id":"e","version":2,"decision":"withdraw","reason":"why","timestamp":"t"}"#,
        );
        // A decision that the other writer changed is its own.
        check(
            &printed.replace("discard", "approve"),
            r#"{"extraction_id":"e","version":2,"decision":"approve","reason":"withdrawn","timestamp":"t"}"#,
        );
        check("[1]", "[1]");
    }
}
