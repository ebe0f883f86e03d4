//! How projection rows are written: the one place that knows bincode.

use bincode::{Decode, Encode, config};

/// Largest row that is read back, in bytes.
const ROW_BYTES_MAX: usize = 64 << 20;

fn configuration() -> impl config::Config {
    config::standard().with_limit::<ROW_BYTES_MAX>()
}

/// A row's bytes.
pub(crate) fn encode<T: Encode>(row: &T) -> Vec<u8> {
    // Writing to memory fails only where a type refuses to be written, which none of ours does.
    bincode::encode_to_vec(row, configuration()).unwrap_or_default()
}

/// A row from its bytes, all of which must be used.
///
/// # Errors
/// The bytes are not such a row; `rebuild` makes it again.
pub(crate) fn decode<T: Decode<()>>(bytes: &[u8]) -> Result<T, RowError> {
    match bincode::decode_from_slice(bytes, configuration()) {
        Ok((row, used)) if used == bytes.len() => Ok(row),
        Ok((_, used)) => Err(RowError { reason: format!("{} bytes are left over", bytes.len() - used) }),
        Err(error) => Err(RowError { reason: error.to_string() }),
    }
}

/// A row as a fold reads it back.
///
/// # Panics
/// The bytes are not such a row though their checksum holds: another version of the fold wrote them under the same
/// fingerprint. The panic stops the fold and names the event, as any fault of a fold does.
pub(crate) fn stored<T: Decode<()>>(bytes: Option<cognilog_storage::Bytes>) -> Option<T> {
    bytes.map(|bytes| match decode(&bytes) {
        Ok(row) => row,
        Err(error) => panic!("{error}"),
    })
}

/// A projection row that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a projection row cannot be read: {reason}; `rebuild` makes the rows again from the log")]
pub struct RowError {
    /// What is wrong.
    pub reason: String,
}

/// An integer in a key, so that keys sort as the numbers do.
pub(crate) fn sequence_key(sequence: i64) -> [u8; 8] {
    ((sequence as u64) ^ (1 << 63)).to_be_bytes()
}

/// Reads what [`sequence_key`] wrote.
pub(crate) fn sequence_of(key: &[u8]) -> i64 {
    (number_of(key) ^ (1 << 63)) as i64
}

/// A big-endian number from a key.
pub(crate) fn number_of(key: &[u8]) -> u64 {
    key.iter().take(8).fold(0, |sum, byte| (sum << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_use_all_their_bytes() {
        let bytes = encode(&(7u64, "text".to_owned()));
        assert_eq!(decode::<(u64, String)>(&bytes), Ok((7, "text".to_owned())));
        assert!(decode::<u64>(&bytes).is_err());
        assert!(decode::<(u64, String)>(&bytes[..bytes.len() - 1]).is_err());
        // A length that promises more than the limit is refused before memory is taken.
        assert!(decode::<Vec<u8>>(&[253, 255, 255, 255, 255, 255, 255, 255, 127]).is_err());
    }

    #[test]
    fn sequence_keys_sort_as_numbers() {
        let numbers = [i64::MIN, -2, -1, 0, 1, 42, i64::MAX];
        assert!(numbers.windows(2).all(|pair| sequence_key(pair[0]) < sequence_key(pair[1])));
        assert!(numbers.iter().all(|number| sequence_of(&sequence_key(*number)) == *number));
    }
}
