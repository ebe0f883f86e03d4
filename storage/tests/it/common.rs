//! What the tests share: small folds with a pure model of their rows, events made from a number, and a whole check.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cognilog_core::event::{Event, EventKind, EventView, Query};
use cognilog_core::{EventId, Position, StreamId};
use cognilog_storage::{
    ChangeSet, Command, Condition, Decision, Fold, Folds, Limits, NewEvent, Receipt, Scope, Snapshot, Store,
    StoreError, StoreOptions, View,
};

/// Steele, Lea and Flood's generator: a seed replays everywhere.
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// An event that is known by its number alone: whatever the store gives back can be held against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned(pub(crate) u64);

impl Planned {
    pub(crate) fn stream(self) -> StreamId {
        format!("trace:t{}", Random(self.0).below(4)).parse().unwrap()
    }

    pub(crate) fn sequence(self) -> i64 {
        Random(self.0 ^ 0x5eed).below(7) as i64
    }

    pub(crate) fn id(self) -> EventId {
        let mut id = [7; 16];
        id[8..].copy_from_slice(&self.0.to_be_bytes());
        EventId(id)
    }

    pub(crate) fn query(self) -> Query {
        Query { sequence: Some(self.sequence()), query: format!("question {}", self.0), ..Query::default() }
    }

    pub(crate) fn event(self) -> NewEvent {
        NewEvent::typed(&Event::from(self.query()), self.id(), None).unwrap()
    }
}

pub(crate) fn planned(numbers: impl IntoIterator<Item = u64>) -> Vec<Planned> {
    numbers.into_iter().map(Planned).collect()
}

/// Appends what it holds.
#[derive(Default)]
pub(crate) struct Put {
    pub(crate) appends: Vec<(StreamId, Vec<NewEvent>)>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) key: Option<Vec<u8>>,
}

impl Put {
    pub(crate) fn of(events: &[Planned]) -> Put {
        Put { appends: events.iter().map(|event| (event.stream(), vec![event.event()])).collect(), ..Put::default() }
    }

    pub(crate) fn on(mut self, condition: Condition) -> Put {
        self.conditions.push(condition);
        self
    }

    pub(crate) fn key(mut self, key: &str) -> Put {
        self.key = Some(key.as_bytes().to_vec());
        self
    }

    pub(crate) fn send(self, store: &Store) -> Result<Receipt, StoreError> {
        Ok(store.submit(self, 100)?.0)
    }
}

impl Command for Put {
    type Output = ();

    fn decide(&mut self, _view: &View<'_>) -> Result<(Decision, ()), StoreError> {
        let decision = Decision {
            appends: std::mem::take(&mut self.appends),
            conditions: std::mem::take(&mut self.conditions),
            key: self.key.take(),
        };
        Ok((decision, ()))
    }
}

pub(crate) fn append(store: &Store, events: &[Planned]) -> Result<Receipt, StoreError> {
    Put::of(events).send(store)
}

/// Per stream: how many events, times the version, and the last sequence; a cell per sequence that the second event deletes again.
pub(crate) struct Counts {
    pub(crate) version: u32,
}

impl Fold for Counts {
    fn name(&self) -> &'static str {
        "counts"
    }

    fn version(&self) -> u32 {
        self.version
    }

    fn scope(&self) -> Scope {
        Scope::Stream
    }

    fn kinds(&self) -> &'static [EventKind] {
        &[EventKind::Query]
    }

    fn apply(&self, rows: &mut ChangeSet<'_>, event: &EventView<'_>) {
        let sequence = event.envelope.sequence.unwrap_or(-1);
        // Each event leaves the mark of the version that took it, whatever comes after.
        let count = rows.get(b"count").map_or(0, |row| row[0]).wrapping_add(self.version as u8);
        rows.put(b"count", &[count, sequence as u8]);
        let cell = [b'c', sequence as u8];
        match rows.get(&cell) {
            Some(_) => rows.delete(&cell),
            None => rows.put(&cell, &event.envelope.position.0.to_be_bytes()),
        }
    }
}

/// Over all streams: a row per event, and how many rows there are by a scan.
pub(crate) struct List;

impl Fold for List {
    fn name(&self) -> &'static str {
        "list"
    }

    fn version(&self) -> u32 {
        1
    }

    fn scope(&self) -> Scope {
        Scope::Store
    }

    fn kinds(&self) -> &'static [EventKind] {
        &[EventKind::Query]
    }

    fn apply(&self, rows: &mut ChangeSet<'_>, event: &EventView<'_>) {
        let key = [b"e".as_slice(), &event.envelope.position.0.to_be_bytes()].concat();
        rows.put(&key, event.stream.to_string().as_bytes());
        let found = rows.scan(b"e").len() as u64;
        rows.put(b"last", &[event.envelope.sequence.unwrap_or(-1) as u8, found as u8]);
    }
}

/// As [`List`], and panics at the event of one position, 0 for none.
pub(crate) struct Fragile {
    pub(crate) at: Arc<AtomicU64>,
    pub(crate) scope: Scope,
}

impl Fold for Fragile {
    fn name(&self) -> &'static str {
        "fragile"
    }

    fn version(&self) -> u32 {
        1
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn kinds(&self) -> &'static [EventKind] {
        &[EventKind::Query]
    }

    fn apply(&self, rows: &mut ChangeSet<'_>, event: &EventView<'_>) {
        rows.put(b"half", b"written");
        assert!(event.envelope.position.0 != self.at.load(Ordering::SeqCst), "planted");
        let seen = rows.get(b"seen").map_or(0, |row| row[0]) + 1;
        rows.put(b"seen", &[seen]);
        rows.delete(b"half");
    }
}

pub(crate) fn folds() -> Folds {
    vec![Arc::new(Counts { version: 1 }), Arc::new(List)]
}

pub(crate) type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// The rows that the folds must have after these events, reckoned without a store.
pub(crate) fn model(events: &[Planned], version: u32) -> BTreeMap<&'static str, Rows> {
    let mut numbers: Vec<StreamId> = Vec::new();
    let (mut counts, mut list) = (BTreeMap::new(), BTreeMap::new());
    for (index, event) in events.iter().enumerate() {
        let position = index as u64 + 1;
        let number = numbers.iter().position(|stream| *stream == event.stream()).unwrap_or_else(|| {
            numbers.push(event.stream());
            numbers.len() - 1
        });
        let key = |rest: &[u8]| [&(number as u64).to_be_bytes()[..], rest].concat();
        let count = counts.get(&key(b"count")).map_or(0, |row: &Vec<u8>| row[0]).wrapping_add(version as u8);
        counts.insert(key(b"count"), vec![count, event.sequence() as u8]);
        let cell = key(&[b'c', event.sequence() as u8]);
        if counts.remove(&cell).is_none() {
            counts.insert(cell, position.to_be_bytes().to_vec());
        }
        list.insert([b"e".as_slice(), &position.to_be_bytes()].concat(), event.stream().to_string().into_bytes());
        list.insert(b"last".to_vec(), vec![event.sequence() as u8, position as u8]);
    }
    BTreeMap::from([("counts", counts.into_iter().collect()), ("list", list.into_iter().collect())])
}

pub(crate) fn rows(snapshot: &Snapshot, name: &str) -> Result<Rows, StoreError> {
    Ok(snapshot.projection_rows(name)?.into_iter().map(|(key, row)| (key.to_vec(), row.to_vec())).collect())
}

/// So small that flushes, slices, blocks and rebuilds happen within a handful of events.
pub(crate) fn tiny() -> Limits {
    let mut limits = Limits::default();
    limits.overlay_events_max = 3;
    limits.flush_slice_rows = 2;
    limits.rebuild_events = 5;
    limits.block_bytes_max = 600;
    limits.cache_bytes = 1 << 20;
    limits
}

pub(crate) fn options(folds: Folds, limits: Limits) -> StoreOptions {
    let mut options = StoreOptions::new(folds);
    options.limits = limits;
    options.wait = Duration::ZERO;
    options
}

pub(crate) fn create(path: &Path) {
    Store::create(path, &tiny()).unwrap();
}

pub(crate) fn open(path: &Path) -> Store {
    Store::open(path, options(folds(), tiny())).unwrap()
}

/// The numbers of all events, each held against the event of its number in every part.
pub(crate) fn read(snapshot: &Snapshot) -> Result<Vec<Planned>, StoreError> {
    let mut found: Vec<Planned> = Vec::new();
    snapshot.visit(Position(1), snapshot.head(), |event| {
        let stored = event.to_stored();
        let number = u64::from_be_bytes(stored.envelope.event_id.0[8..].try_into().unwrap());
        let event = Planned(number);
        assert_eq!(stored.envelope.position, Position(found.len() as u64 + 1));
        assert_eq!((stored.envelope.event_id, &*stored.stream), (event.id(), &event.stream()));
        assert_eq!(stored.envelope.sequence, Some(event.sequence()));
        assert_eq!(stored.event()?, Some(Event::from(event.query())));
        found.push(event);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// Holds everything that a state of the store serves against these events.
pub(crate) fn check_snapshot(snapshot: &Snapshot, events: &[Planned]) {
    assert_eq!(snapshot.head(), Position(events.len() as u64));
    assert_eq!(read(snapshot).unwrap(), events);
    for (name, expected) in model(events, 1) {
        assert_eq!(rows(snapshot, name).unwrap(), expected, "{name}");
    }
    for (index, event) in events.iter().enumerate() {
        let found = snapshot.view().find_event(event.id()).unwrap();
        assert_eq!(found, Some(Position(index as u64 + 1)));
    }
    let verified = snapshot.verify().unwrap();
    assert_eq!((verified.findings, verified.events), (Vec::<String>::new(), events.len() as u64));
}

pub(crate) fn check(store: &Store, events: &[Planned]) {
    check_snapshot(&store.snapshot().unwrap(), events);
}
