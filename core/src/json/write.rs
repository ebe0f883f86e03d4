//! Pieces of JSON text in the exact form Python writes them.

use std::fmt::Write as _;

use super::token::{JsonError, Tokens};

/// The text without the white space between its tokens; the tokens are unchanged.
///
/// # Errors
///
/// When the text is not one JSON value.
///
/// ```
/// assert_eq!(cognilog_core::json::compact("[1.50, \"a b\"]\n")?, "[1.50,\"a b\"]");
/// # Ok::<(), cognilog_core::json::JsonError>(())
/// ```
pub fn compact(text: &str) -> Result<String, JsonError> {
    let mut out = String::with_capacity(text.len());
    for token in Tokens::new(text) {
        out.push_str(token?.text);
    }
    Ok(out)
}

/// The JSON text with every character beyond `~` as `\uXXXX`, as Python's `ensure_ascii=True` writes it.
///
/// Valid JSON has such characters only inside strings, so the value stays the same.
///
/// ```
/// assert_eq!(cognilog_core::json::escape_non_ascii("[\"é😀\"]"), r#"["\u00e9\ud83d\ude00"]"#);
/// ```
pub fn escape_non_ascii(compact: &str) -> String {
    let mut out = String::with_capacity(compact.len());
    for character in compact.chars() {
        if character < '\u{7f}' {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// The float exactly as Python's `json.dumps` prints it: `1.0`, `-0.0`, `1e-05`, `1e+16`, `NaN`, `Infinity`.
///
/// The digits are the fewest that read back as the same float. The exponent form begins below 1e-4
/// and at 1e16, and its exponent has a sign and at least two digits.
pub fn python_float(float: f64) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if float.is_sign_negative() { "-" } else { "" };
    if float.is_infinite() {
        return format!("{sign}Infinity");
    }
    let (digits, exponent) = shortest_digits(float.abs());
    let (first, rest) = digits.split_at(1);
    match usize::try_from(exponent) {
        Ok(places) if places < 16 => {
            let whole = format!("{digits:0<width$}", width = places + 1);
            let (whole, fraction) = whole.split_at(places + 1);
            let fraction = if fraction.is_empty() { "0" } else { fraction };
            format!("{sign}{whole}.{fraction}")
        }
        Err(_) if exponent >= -4 => {
            let places = digits.len() + exponent.unsigned_abs() - 1;
            format!("{sign}0.{digits:0>places$}")
        }
        _ => {
            let point = if rest.is_empty() { "" } else { "." };
            format!("{sign}{first}{point}{rest}e{exponent:+03}")
        }
    }
}

/// The fewest significant digits that read back as the float, and the power of ten of the first one.
fn shortest_digits(float: f64) -> (String, isize) {
    let shortest = format!("{float:e}");
    let count = shortest.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    // Of two equally near shortest forms Rust takes the upper one and Python the one with an even last
    // digit, as rounding to a fixed count of digits does. At a power of two, where the floats below lie
    // closer, the rounded form may be another float.
    let rounded = format!("{float:.*e}", count.saturating_sub(1));
    let printed = if rounded.parse() == Ok(float) { rounded } else { shortest };
    let (digits, exponent) = printed.split_once('e').unwrap_or((&printed, "0"));
    (digits.replace('.', ""), exponent.parse().unwrap_or(0))
}
