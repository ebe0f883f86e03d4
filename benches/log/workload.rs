//! The events that the benches append: 70 % queries of about 2.5 kB with three sources, 20 % evaluations of about 400
//! bytes, 10 % others, over 1,000 traces, in Chinese and English; the same for the same seed.

use cognilog::TraceId;
use cognilog::event::{
    Assessment, Evaluation, EvaluationStatus, Event, ExtractionItem, ExtractionPending, GoalChanged, GoalStatus,
    JsonText, Message, Query, QuerySource,
};

const TRACES: u64 = 1_000;
const ENGLISH: &str = "The strength parameter below 0.3 loses the outline of the original picture; raise it first. ";
const CHINESE: &str = "参数小于零点三时会丢失原图轮廓，应先提高强度再尝试放大。";

/// A seeded source of events.
pub(crate) struct Workload {
    state: u64,
    sequence: i64,
    asked: Vec<(i64, [String; 3])>,
}

impl Workload {
    /// The events of a seed.
    pub(crate) fn new(seed: u64) -> Workload {
        Workload { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1, sequence: 0, asked: Vec::new() }
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn random(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    fn text(&mut self, bytes: usize) -> String {
        let piece = if self.random(2) == 0 { ENGLISH } else { CHINESE };
        let mut text = format!("{} ", self.random(1_000_000));
        while text.len() + piece.len() <= bytes {
            text.push_str(piece);
        }
        text
    }

    /// A trace.
    pub(crate) fn trace(&mut self) -> TraceId {
        TraceId::new(format!("trace-{:04}", self.random(TRACES))).expect("a name")
    }

    /// A trace and an event for it.
    pub(crate) fn next(&mut self) -> (TraceId, Event) {
        (self.trace(), self.event())
    }

    /// An event.
    pub(crate) fn event(&mut self) -> Event {
        self.sequence += 1;
        match self.random(10) {
            0..7 => self.query(),
            7..9 => self.evaluation(),
            _ => self.other(),
        }
    }

    fn query(&mut self) -> Event {
        let ids = [(); 3].map(|()| format!("knowledge-20260320-{:04x}", self.random(0x1_0000)));
        self.asked.push((self.sequence, ids.clone()));
        if self.asked.len() > 64 {
            self.asked.remove(0);
        }
        let sources = ids
            .iter()
            .map(|id| QuerySource {
                id: id.clone(),
                task: Some("image editing".to_owned()),
                content: Some(self.text(450)),
            })
            .collect();
        Query {
            sequence: Some(self.sequence),
            goal_id: Some("1".to_owned()),
            query: self.text(120),
            response: Some(self.text(700)),
            source_ids: ids.to_vec(),
            sources,
            timestamp: Some("2026-03-20T10:00:00+00:00".to_owned()),
        }
        .into()
    }

    fn evaluation(&mut self) -> Event {
        let Some((query_sequence, ids)) = self.asked.last().cloned() else { return self.other() };
        let assessments = ids
            .into_iter()
            .map(|source_id| {
                let status = EvaluationStatus::ALL[self.random(5) as usize];
                Assessment { source_id, status, reason: Some(self.text(60)) }
            })
            .collect();
        Evaluation {
            sequence: Some(self.sequence),
            query_sequence,
            trigger: Some("goal_completion".to_owned()),
            assessments,
            timestamp: Some("2026-03-20T10:05:00+00:00".to_owned()),
        }
        .into()
    }

    fn other(&mut self) -> Event {
        let timestamp = Some("2026-03-20T10:10:00+00:00".to_owned());
        match self.random(3) {
            0 => Message {
                sequence: Some(self.sequence),
                role: "assistant".to_owned(),
                content: Some(JsonText::from_text(&self.text(600))),
                timestamp,
                ..Message::default()
            }
            .into(),
            1 => GoalChanged {
                sequence: Some(self.sequence),
                goal_id: "1".to_owned(),
                status: Some(GoalStatus::COMPLETED),
                timestamp,
                ..GoalChanged::default()
            }
            .into(),
            _ => ExtractionPending {
                sequence: Some(self.sequence),
                extraction_id: Some(format!("ext-{:016x}", self.random(u64::MAX))),
                trigger: Some("compression".to_owned()),
                item: ExtractionItem {
                    types: vec!["tool".to_owned()],
                    content: self.text(500),
                    ..ExtractionItem::default()
                },
                timestamp,
                ..ExtractionPending::default()
            }
            .into(),
        }
    }
}
