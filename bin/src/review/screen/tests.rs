//! Keys in, screens out: the state machine over a real store, drawn into a terminal in memory.

use cognilog::event::ExtractionEdit;
use cognilog::{AppendEvent, Engine, Instant, ReviewEntry, ReviewRequest, TraceId, TraceMessage, Verdict};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::draw::draw;
use super::state::{Flow, Screen};
use super::{Acted, Desk};
use crate::failure::Failure;
use crate::review::form;

/// Days that the extractions of the tests are old, from the newest to the oldest.
const NOW: &str = "2026-03-01T00:00:00Z";

struct Bench {
    _folder: tempfile::TempDir,
    engine: Engine,
    /// What the editor does to a form.
    editor: fn(&str) -> String,
}

impl Bench {
    fn new(items: &[(&str, &str, &str, &str)]) -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = Engine::create(&folder.path().join("store")).expect("a store");
        let bench = Bench { _folder: folder, engine, editor: str::to_owned };
        for sequence in 1..=9 {
            bench.append(
                "demo",
                &json!({"type": "message", "sequence": sequence, "role": "assistant",
                "content": format!("message {sequence} 消息")}),
            );
        }
        for (trace, id, content, time) in items {
            bench.append(
                trace,
                &json!({"type": "extraction_pending", "sequence": 5, "extraction_id": id,
                "item": {"types": ["tool"], "task": "image editing", "content": content, "score": 4},
                "timestamp": time}),
            );
        }
        bench
    }

    fn append(&self, trace: &str, event: &serde_json::Value) {
        let event = AppendEvent::from_json(&event.to_string()).expect("an event");
        let trace = TraceId::new(trace).expect("a name");
        self.engine.submit(cognilog::Append::new(trace).event(event)).expect("appended");
    }

    fn state(&self, id: &str) -> String {
        let row = self.engine.find_extraction(None, id).expect("read").remove(0).extraction;
        format!("{} {}", row.state, row.current.content)
    }
}

impl Desk for Bench {
    fn load(&mut self) -> Result<Vec<ReviewEntry>, Failure> {
        let now: Instant = cognilog::time::parse(NOW, &cognilog::time::Zone::utc()).expect("a time");
        Ok(self.engine.review_queue(None, now, None)?)
    }

    fn decide(&mut self, requests: Vec<ReviewRequest>) -> Result<Acted, Failure> {
        Ok(self.engine.review_all(requests)?)
    }

    fn undo(&mut self) -> Result<Acted, Failure> {
        Ok(self.engine.undo("ada")?)
    }

    fn messages(&mut self, entry: &ReviewEntry) -> Result<Vec<TraceMessage>, Failure> {
        let trace = TraceId::new(entry.pending.trace_id.clone()).expect("a name");
        Ok(self.engine.messages_around(&trace, entry.pending.extraction.sequence.unwrap_or(0), 2, 1)?)
    }

    fn edit(&mut self, entry: &ReviewEntry, draft: &mut Option<String>) -> Result<ExtractionEdit, Failure> {
        let item = &entry.pending.extraction.current;
        let text = (self.editor)(&draft.take().unwrap_or_else(|| form::print(item, &[])));
        crate::verbs::review::read_form(&text, item).inspect_err(|_| *draft = Some(text.clone()))
    }

    fn reviewer(&self) -> &str {
        "ada"
    }
}

struct Driven {
    bench: Bench,
    screen: Screen,
    terminal: Terminal<TestBackend>,
}

impl Driven {
    fn new(width: u16, height: u16, items: &[(&str, &str, &str, &str)]) -> Driven {
        let mut bench = Bench::new(items);
        let screen = Screen::new("ada".to_owned(), bench.load().expect("read"));
        Driven { bench, screen, terminal: Terminal::new(TestBackend::new(width, height)).expect("a terminal") }
    }

    /// Presses keys: characters as they are, others by name in angle brackets.
    fn press(&mut self, keys: &str) -> Flow {
        let mut flow = Flow::On;
        let mut rest = keys;
        while let Some(first) = rest.chars().next() {
            let named = [
                ("<Enter>", KeyCode::Enter),
                ("<Esc>", KeyCode::Esc),
                ("<Down>", KeyCode::Down),
                ("<Up>", KeyCode::Up),
                ("<Right>", KeyCode::Right),
                ("<End>", KeyCode::End),
                ("<Back>", KeyCode::Backspace),
            ];
            let (code, length) = named
                .iter()
                .find(|(name, _)| rest.starts_with(name))
                .map_or((KeyCode::Char(first), first.len_utf8()), |(name, code)| (*code, name.len()));
            rest = &rest[length..];
            flow = self.screen.key(KeyEvent::new(code, KeyModifiers::NONE), &mut self.bench);
            self.lines();
        }
        flow
    }

    /// The screen's lines, wide characters once.
    fn lines(&mut self) -> Vec<String> {
        let screen = &self.screen;
        self.terminal.draw(|frame| draw(frame, screen)).expect("drawn");
        let buffer = self.terminal.backend().buffer();
        let width = buffer.area.width as usize;
        let row = |cells: &[ratatui::buffer::Cell]| {
            let mut line = String::new();
            let mut skip = 0;
            for cell in cells {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                line.push_str(cell.symbol());
                skip = super::text::width(cell.symbol()).saturating_sub(1);
            }
            line.trim_end().to_owned()
        };
        buffer.content.chunks(width).map(row).collect()
    }

    fn shows(&mut self, text: &str) -> bool {
        self.lines().join("\n").contains(text)
    }
}

const ITEMS: [(&str, &str, &str, &str); 4] = [
    ("demo", "ext-1", "With strength below 0.3 the outline is lost.", "2026-01-01T00:00:00Z"),
    (
        "demo",
        "ext-2",
        "先用低分辨率试验参数，再放大，这样可以节省很多时间，也更容易比较不同的参数组合。",
        "2026-02-20T00:00:00Z",
    ),
    ("other", "ext-3", "The outline is lost with strength below 0.3", "2026-02-27T00:00:00Z"),
    ("demo", "ext-4", "Masks need feathered edges.", "2026-02-28T00:00:00Z"),
];

#[test]
fn the_list_at_eighty_columns() {
    let mut driven = Driven::new(80, 8, &ITEMS);
    assert_eq!(
        driven.lines(),
        [
            " cognilog review · 4 pending · 1 overdue (!) · as ada",
            "  59d! ×2  tool       demo           With strength below 0.3 the outline is los…",
            "   2d   └  tool       other          The outline is lost with strength below 0.3",
            "   9d      tool       demo           先用低分辨率试验参数，再放大，这样可以节省…",
            "   1d      tool       demo           Masks need feathered edges.",
            "",
            "",
            "a approve  e edit  d discard  s skip  u undo  A/D group  Enter / g ? help q quit",
        ]
    );
    // Without groups the oldest comes first.
    driven.press("g");
    let lines = driven.lines();
    assert!(lines[2].contains("先用") && lines[3].contains("×2"), "{lines:?}");
    assert_eq!(lines[6], "the oldest first");
}

#[test]
fn keys_decide_on_what_is_under_the_cursor() {
    let mut driven = Driven::new(80, 24, &ITEMS);
    driven.press("A");
    assert_eq!(driven.bench.state("ext-1"), "approved With strength below 0.3 the outline is lost.");
    assert!(driven.bench.state("ext-3").starts_with("approved"));
    assert!(driven.shows("approved: 2 extractions; u undoes") && driven.shows("2 pending"));
    driven.press("u");
    assert!(driven.bench.state("ext-3").starts_with("pending") && driven.shows("undone: 2 extractions"));
    driven.press("a");
    assert!(driven.bench.state("ext-1").starts_with("approved") && driven.bench.state("ext-3").starts_with("pending"));
    // Skipped is not decided; the cursor goes on, and stays where a decided one was.
    driven.press("sd");
    assert!(driven.bench.state("ext-2").starts_with("pending") && driven.bench.state("ext-3").starts_with("discarded"));
    driven.press("<Up>D");
    assert!(driven.bench.state("ext-2").starts_with("discarded"));
    assert!(driven.bench.state("ext-4").starts_with("pending"));
    driven.press("a");
    assert!(driven.shows("Nothing waits.") && driven.screen.summary().starts_with("4 decided, 0 still"));
    for keys in ["a", "e", "d", "s", "A", "<Enter>", "<Down>", "g"] {
        driven.press(keys);
    }
    driven.press("uuuuu");
    assert!(driven.shows("no decision that could be undone") && driven.shows("4 pending"));
    assert_eq!(driven.press("q"), Flow::End);
}

#[test]
fn the_detail_shows_text_messages_and_what_a_decision_does() {
    let mut driven = Driven::new(80, 24, &ITEMS);
    driven.press("<Enter>");
    let lines = driven.lines();
    assert_eq!(lines[1], " [1/4] tool · ext-1");
    assert_eq!(lines[2], " trace demo · 59 days old, overdue · version 0");
    for text in [
        "task      image editing",
        "With strength below 0.3 the outline is lost.",
        "a approved as it stands (version 1): the next commit sends it to the hub",
        "── messages around sequence 5",
        "▶ 5 assistant",
        "message 5 消息",
        "  6 assistant",
    ] {
        assert!(driven.shows(text), "{text}: {lines:#?}");
    }
    assert!(!driven.shows("message 3 "));
    // A decision leads to the next one; q leads back to the list.
    driven.press("<Right><Right>a");
    assert!(driven.bench.state("ext-2").starts_with("approved") && driven.shows("[3/3] tool · ext-4"));
    assert_eq!(driven.press("q"), Flow::On);
    assert!(driven.shows("Masks need") && !driven.shows("messages around"));
}

#[test]
fn the_editor_edits_approves_or_decides_nothing() {
    let mut driven = Driven::new(80, 24, &ITEMS);
    assert_eq!(driven.press("e"), Flow::Anew);
    assert!(driven.shows("nothing was changed") && driven.bench.state("ext-1").starts_with("pending"));
    driven.bench.editor = |form| form.replace("score: 4", "score: many");
    assert_eq!(driven.press("e"), Flow::Anew);
    assert!(driven.shows("e opens your text again: line 3: `score`: no JSON"));
    // The text of before is in the editor again.
    driven.bench.editor = |form| form.replace("score: many", "score: 5").replace("is lost.", "is lost: 轮廓");
    driven.press("e");
    assert_eq!(driven.bench.state("ext-1"), "edited With strength below 0.3 the outline is lost: 轮廓");
    driven.bench.editor = |form| form.split_inclusive("line ---\n").next().unwrap_or_default().to_owned();
    driven.press("e");
    assert!(driven.shows("edited to empty"), "{:?}", driven.lines());
}

#[test]
fn a_decision_that_comes_too_late_is_told() {
    let mut driven = Driven::new(120, 24, &ITEMS);
    let request = ReviewRequest {
        trace: TraceId::new("demo").expect("a name"),
        extraction_id: "ext-1".to_owned(),
        verdict: Verdict::Discard,
        reviewer: "bob".to_owned(),
        seen: Some(0),
        reason: None,
    };
    driven.bench.engine.review(request).expect("decided");
    driven.press("a");
    assert!(driven.shows("decided on version 0, the latest is 1") && driven.shows("bob decided discard"));
    assert!(driven.bench.state("ext-1").starts_with("discarded") && driven.shows("3 pending"));
}

#[test]
fn the_filter_narrows_the_list() {
    let mut driven = Driven::new(80, 24, &ITEMS);
    driven.press("/OUTLINE");
    assert!(driven.shows("filter: OUTLINE▏") && driven.shows("4 pending (2 shown)") && !driven.shows("Masks"));
    driven.press("<Back>x<Enter>");
    assert!(driven.shows("Nothing matches the filter.") && driven.shows("filter: OUTLINx"));
    driven.press("a");
    assert!(driven.shows("4 pending"));
    driven.press("<Esc>/参数<Enter>a");
    assert!(driven.bench.state("ext-2").starts_with("approved"));
    // A group is decided whole, whether the filter shows all of it or not.
    driven.press("<Esc>/other<Enter>A");
    assert!(driven.bench.state("ext-1").starts_with("approved") && driven.bench.state("ext-3").starts_with("approved"));
    driven.press("<Esc>?");
    assert!(driven.shows("keys · any key closes") && driven.shows("undo your last act"));
    driven.press("a");
    assert!(driven.bench.state("ext-4").starts_with("pending"), "a key closes the help and does nothing else");
}

/// Whatever is stored: no cell of the screen holds a character that acts on a terminal, and every row fits.
#[test]
fn hostile_texts_act_on_nothing_and_long_ones_are_cheap() {
    let hostile =
        "x\u{1b}[2J\u{7}\u{9b}31m\r\u{8}\u{7f}\u{202e}\u{2066}\u{200f}\u{2028}\u{feff}\u{e0041}e\u{301}👨\u{200d}👩y";
    let long = format!("{hostile}{}", "z".repeat(5 << 20));
    let lines = format!("{hostile}\n").repeat(20_000);
    let items = [
        (hostile, hostile, long.as_str(), "2026-02-01T00:00:00Z"),
        ("demo", "wide", "宽字符".repeat(400_000).leak() as &str, "2026-02-01T00:00:00Z"),
        ("demo", "lines", lines.as_str(), "2026-02-01T00:00:00Z"),
    ];
    for (width, height) in [(80, 24), (3, 3)] {
        let mut driven = Driven::new(width, height, &items);
        driven.bench.append(hostile, &json!({"type": "message", "sequence": 5, "role": hostile, "content": hostile}));
        let began = std::time::Instant::now();
        for keys in
            ["", "<Enter>", "<End>", "<Down>", "<Right>", "<Right>", "<End>", "q", "?", "x", "/x\u{7}<Esc>", "d"]
        {
            driven.press(keys);
            let shown = driven.lines().concat();
            let acts = |character: char| {
                character.is_control()
                    || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
            };
            assert!(!shown.contains(acts), "{width}×{height} {keys}: {shown:?}");
        }
        assert!(began.elapsed().as_secs() < 20, "{width}×{height}: {:?}", began.elapsed());
    }
}
