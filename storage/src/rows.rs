//! Rows: what folds and indexes keep, as layers in memory over the database, and the change sets that are written to.
//!
//! A key is one byte for the fold's slot and the fold's own key. The newest layer that holds a key wins; a layer holds
//! `None` for a row that was deleted. The same change set isolates a fold (a panic drops it), batches its writes, is
//! the list of changes that a replay shows, and over nothing it is the as-of view (DESIGN section 1, idea 7).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use redb::ReadOnlyTable;

use crate::error::{StoreError, contained};

/// The bytes of a key or a row.
pub type Bytes = Arc<[u8]>;

/// Rows by key; `None` marks a deleted one.
pub type RowMap = BTreeMap<Bytes, Option<Bytes>>;

/// Rows that can be read.
pub trait RowSource {
    /// The row of a key.
    ///
    /// # Errors
    /// The row is damaged or the disk refuses.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// All layers' entries from `from` on, in key order, deleted ones as `None`.
    ///
    /// # Errors
    /// As [`RowSource::get`].
    fn entries<'s>(&'s self, from: Bound<&[u8]>) -> Result<Entries<'s>, StoreError>;
}

/// Entries in key order.
pub type Entries<'s> = Box<dyn Iterator<Item = Result<(Bytes, Option<Bytes>), StoreError>> + 's>;

impl RowSource for RowMap {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(BTreeMap::get(self, key).cloned().flatten())
    }

    fn entries<'s>(&'s self, from: Bound<&[u8]>) -> Result<Entries<'s>, StoreError> {
        let range = self.range::<[u8], _>((from, Bound::Unbounded));
        Ok(Box::new(range.map(|(key, row)| Ok((key.clone(), row.clone())))))
    }
}

/// Adds the checksum that every stored row carries.
pub(crate) fn seal(key: &[u8], row: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(row.len() + 8);
    sealed.extend_from_slice(&row_hash(key, row).to_le_bytes());
    sealed.extend_from_slice(row);
    sealed
}

/// Checks and strips what [`seal`] added.
///
/// # Errors
/// The row is damaged or stands under another key.
pub(crate) fn unseal<'a>(key: &[u8], sealed: &'a [u8]) -> Result<&'a [u8], StoreError> {
    match sealed.split_first_chunk::<8>() {
        Some((checksum, row)) if u64::from_le_bytes(*checksum) == row_hash(key, row) => Ok(row),
        _ => Err(StoreError::damaged(
            format!("the row with key {}", hexadecimal(key)),
            "its checksum does not match; `rebuild` makes the rows again from the log",
        )),
    }
}

/// The hash of a row under its key; row sums add these up, so that their order does not matter.
pub(crate) fn row_hash(key: &[u8], row: &[u8]) -> u64 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(&(key.len() as u32).to_le_bytes());
    hasher.update(key);
    hasher.update(row);
    hasher.digest()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().take(40).map(|byte| format!("{byte:02x}")).collect()
}

/// The rows in the database, as one read transaction sees them.
pub(crate) struct StoredRows {
    pub(crate) table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl RowSource for StoredRows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        contained(|| match self.table.get(key)? {
            Some(guard) => Ok(Some(Bytes::from(unseal(key, guard.value())?))),
            None => Ok(None),
        })
    }

    fn entries<'s>(&'s self, from: Bound<&[u8]>) -> Result<Entries<'s>, StoreError> {
        let mut range = contained(|| Ok(self.table.range::<&[u8]>((from, Bound::Unbounded))?))?;
        let mut broken = false;
        Ok(Box::new(std::iter::from_fn(move || {
            if broken {
                return None;
            }
            let entry = contained(|| {
                let Some(entry) = range.next() else { return Ok(None) };
                let (key, sealed) = entry?;
                let row = unseal(key.value(), sealed.value())?;
                Ok(Some((Bytes::from(key.value()), Some(Bytes::from(row)))))
            });
            // A range that failed once may give anything afterwards, itself again for ever included.
            broken = entry.is_err();
            entry.transpose()
        })))
    }
}

/// Layers over one another, the newest first.
#[derive(Clone)]
pub struct Layered<'s> {
    layers: Vec<&'s dyn RowSource>,
    maps: Vec<&'s RowMap>,
}

impl<'s> Layered<'s> {
    /// Puts maps (the newest first) over a source.
    #[must_use]
    pub fn new(maps: Vec<&'s RowMap>, base: Option<&'s dyn RowSource>) -> Layered<'s> {
        let mut layers: Vec<&dyn RowSource> = maps.iter().map(|map| *map as &dyn RowSource).collect();
        layers.extend(base);
        Layered { layers, maps }
    }
}

impl RowSource for Layered<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        for map in &self.maps {
            if let Some(row) = BTreeMap::get(*map, key) {
                return Ok(row.clone());
            }
        }
        match self.layers.get(self.maps.len()) {
            Some(base) => base.get(key),
            None => Ok(None),
        }
    }

    fn entries<'s>(&'s self, from: Bound<&[u8]>) -> Result<Entries<'s>, StoreError> {
        let mut layers = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            layers.push(layer.entries(from)?.peekable());
        }
        Ok(Box::new(Merge { layers }))
    }
}

/// Merges layers in key order; where several hold a key, the first wins.
struct Merge<'s> {
    layers: Vec<std::iter::Peekable<Entries<'s>>>,
}

impl Iterator for Merge<'_> {
    type Item = Result<(Bytes, Option<Bytes>), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut least: Option<(usize, Bytes)> = None;
        for (index, layer) in self.layers.iter_mut().enumerate() {
            match layer.peek() {
                Some(Ok((key, _))) if least.as_ref().is_none_or(|(_, smallest)| key < smallest) => {
                    least = Some((index, key.clone()));
                }
                Some(Err(_)) => return layer.next(),
                _ => {}
            }
        }
        let (winner, key) = least?;
        let entry = self.layers[winner].next();
        for layer in &mut self.layers {
            while layer.peek().is_some_and(|entry| entry.as_ref().is_ok_and(|(other, _)| *other == key)) {
                layer.next();
            }
        }
        entry
    }
}

/// One fold's or command's view of rows and its own writes on top.
///
/// Reading a damaged row gives nothing and remembers the error; whoever owns the change set asks
/// [`ChangeSet::into_changes`] before taking anything from it.
pub struct ChangeSet<'s> {
    base: &'s dyn RowSource,
    prefix: Vec<u8>,
    changes: RowMap,
    error: RefCell<Option<StoreError>>,
}

impl<'s> ChangeSet<'s> {
    /// An empty change set over `base`, whose keys all stand behind `prefix`.
    #[must_use]
    pub fn new(base: &'s dyn RowSource, prefix: Vec<u8>) -> ChangeSet<'s> {
        ChangeSet { base, prefix, changes: RowMap::new(), error: RefCell::new(None) }
    }

    fn full_key(&self, key: &[u8]) -> Vec<u8> {
        let mut full = Vec::with_capacity(self.prefix.len() + key.len());
        full.extend_from_slice(&self.prefix);
        full.extend_from_slice(key);
        full
    }

    /// The row of a key, own writes included.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Bytes> {
        let key = self.full_key(key);
        if let Some(row) = BTreeMap::get(&self.changes, key.as_slice()) {
            return row.clone();
        }
        self.base.get(&key).unwrap_or_else(|error| {
            self.error.borrow_mut().get_or_insert(error);
            None
        })
    }

    /// Writes a row.
    pub fn put(&mut self, key: &[u8], row: &[u8]) {
        let key = self.full_key(key);
        self.changes.insert(Bytes::from(key), Some(Bytes::from(row)));
    }

    /// Deletes a row.
    pub fn delete(&mut self, key: &[u8]) {
        let key = self.full_key(key);
        self.changes.insert(Bytes::from(key), None);
    }

    /// All rows whose key begins with `start`, in key order, own writes included.
    #[must_use]
    pub fn scan(&self, start: &[u8]) -> Vec<(Bytes, Bytes)> {
        let layered = LayeredOver { changes: &self.changes, base: self.base };
        match scan(&layered, &self.full_key(start), self.prefix.len()) {
            Ok(rows) => rows,
            Err(error) => {
                self.error.borrow_mut().get_or_insert(error);
                Vec::new()
            }
        }
    }

    /// The writes, with their full keys.
    ///
    /// # Errors
    /// A row that was read was damaged, so what was written must not be trusted.
    pub fn into_changes(self) -> Result<RowMap, StoreError> {
        match self.error.into_inner() {
            Some(error) => Err(error),
            None => Ok(self.changes),
        }
    }
}

struct LayeredOver<'s> {
    changes: &'s RowMap,
    base: &'s dyn RowSource,
}

impl RowSource for LayeredOver<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        match BTreeMap::get(self.changes, key) {
            Some(row) => Ok(row.clone()),
            None => self.base.get(key),
        }
    }

    fn entries<'s>(&'s self, from: Bound<&[u8]>) -> Result<Entries<'s>, StoreError> {
        let layers = vec![self.changes.entries(from)?.peekable(), self.base.entries(from)?.peekable()];
        Ok(Box::new(Merge { layers }))
    }
}

/// Collects the rows under a full prefix; keys are given without their first `strip` bytes.
///
/// # Errors
/// A row is damaged or the disk refuses.
pub fn scan(source: &dyn RowSource, prefix: &[u8], strip: usize) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
    scan_after(source, prefix, None, usize::MAX, strip)
}

/// As [`scan`], beginning behind the full key `after`, at most `limit` rows.
///
/// # Errors
/// As [`scan`].
pub fn scan_after(
    source: &dyn RowSource,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
    strip: usize,
) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
    let from = after.map_or(Bound::Included(prefix), Bound::Excluded);
    let mut rows = Vec::new();
    for entry in source.entries(from)? {
        let (key, row) = entry?;
        if !key.starts_with(prefix) || rows.len() >= limit {
            break;
        }
        if let Some(row) = row {
            rows.push((Bytes::from(&key[strip..]), row));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(entries: &[(&str, Option<&str>)]) -> RowMap {
        entries
            .iter()
            .map(|(key, row)| (Bytes::from(key.as_bytes()), row.map(|row| Bytes::from(row.as_bytes()))))
            .collect()
    }

    #[test]
    fn newer_layers_win_and_deleted_rows_are_gone() {
        let new = map(&[("ab", Some("2")), ("ac", None), ("b", Some("x"))]);
        let old = map(&[("aa", Some("1")), ("ab", Some("1")), ("ac", Some("1")), ("ad", Some("1"))]);
        let layered = Layered::new(vec![&new, &old], None);
        let rows: Vec<String> = scan(&layered, b"a", 1)
            .expect("maps do not fail")
            .into_iter()
            .map(|(key, row)| String::from_utf8_lossy(&[&key[..], b"=", &row[..]].concat()).into_owned())
            .collect();
        assert_eq!(rows, ["a=1", "b=2", "d=1"]);
        assert_eq!(layered.get(b"ac").expect("maps do not fail"), None);
    }

    #[test]
    fn a_change_set_sees_its_own_writes() {
        let base = map(&[("pa", Some("1")), ("pb", Some("1")), ("q", Some("other"))]);
        let mut changes = ChangeSet::new(&base, b"p".to_vec());
        changes.put(b"c", b"2");
        changes.delete(b"a");
        assert_eq!(changes.get(b"a"), None);
        assert_eq!(changes.get(b"b").as_deref(), Some(&b"1"[..]));
        let keys: Vec<Bytes> = changes.scan(b"").into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [Bytes::from(&b"b"[..]), Bytes::from(&b"c"[..])]);
        assert_eq!(changes.into_changes().expect("nothing damaged").len(), 2);
    }

    #[test]
    fn a_row_is_bound_to_its_key() {
        let sealed = seal(b"k", b"row");
        assert_eq!(unseal(b"k", &sealed).expect("whole"), b"row");
        assert!(unseal(b"l", &sealed).is_err());
        assert!(unseal(b"k", &sealed[..7]).is_err());
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(b"k", &damaged).is_err(), "bit {bit}");
        }
    }
}
