//! A parser of one JSON value that mends what models do to JSON, and stops where a mend would be a guess.
//!
//! It reads a value at a place of a longer text. Each character is looked at a bounded number of times and every step is
//! paid for from a budget that the whole reply shares, so no reply takes more than linear time. A value that the text's
//! end cuts off is given as far as it came, each list and object knowing whether its end was seen.

use super::report::{RepairKind, Repairs};
use super::value::{Text, Value, ascii_digit};
use crate::limits::{REPLY_DEPTH_MAX, REPLY_STEPS_MAX, REPLY_VALUES_MAX};

/// Longest key, and how far a look ahead goes for one, in bytes. The keys that count have at most 16.
const KEY_BYTES_MAX: usize = 128;
/// Longest comment, in bytes.
const COMMENT_BYTES_MAX: usize = 1_024;
/// Longest white space that a look ahead skips, in bytes.
const GAP_BYTES_MAX: usize = 512;
/// Longest word without quotes, in bytes.
const WORD_BYTES_MAX: usize = 128;

/// How the end of a string is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// At the first quote that is not escaped, as in JSON.
    Plain,
    /// At the first quote behind which the object or list goes on: quotes inside were not escaped.
    Guess,
}

/// What a whole reading may cost.
#[derive(Debug)]
pub(super) struct Budget {
    steps: usize,
    values: usize,
}

impl Budget {
    pub(super) fn of(text: &str) -> Budget {
        Budget { steps: REPLY_STEPS_MAX.min(text.len().saturating_mul(512) + 65_536), values: REPLY_VALUES_MAX }
    }
}

/// Why a value could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The text ended.
    End,
    /// Here the text is no JSON, and no mend is certain.
    Broken,
    /// The place is an ellipsis: a template, not an answer.
    Ellipsis,
    TooDeep,
    TooCostly,
}

/// What a parser has seen when it stops.
#[derive(Debug)]
pub(super) struct Attempt {
    /// The value, whole or cut.
    pub(super) value: Result<Value, Stop>,
    /// Whether the text ended inside the value.
    pub(super) is_cut: bool,
    /// Where it stopped.
    pub(super) at: usize,
    /// Whether one of the keys that were looked for was seen.
    pub(super) has_anchor: bool,
    /// Whether a member of an object was complete.
    pub(super) has_member: bool,
    /// Whether a string, as a value, was complete.
    pub(super) has_text: bool,
    pub(super) repairs: Repairs,
}

/// Reads the value that begins at `at`. `anchors` are the keys, in lower case, by which an answer is known.
pub(super) fn attempt(text: &str, at: usize, mode: Mode, anchors: &[&str], budget: &mut Budget) -> Attempt {
    // Values are memory, and that of an earlier attempt is free again.
    budget.values = REPLY_VALUES_MAX;
    let mut parser = Parser {
        text,
        at,
        mode,
        anchors,
        budget,
        depth: 0,
        is_cut: false,
        has_anchor: false,
        has_member: false,
        has_text: false,
        repairs: Repairs::default(),
    };
    let value = parser.skip_gap().and_then(|_| parser.value(false));
    let is_cut = parser.is_cut || value == Err(Stop::End);
    Attempt {
        value,
        is_cut,
        at: parser.at,
        has_anchor: parser.has_anchor,
        has_member: parser.has_member,
        has_text: parser.has_text,
        repairs: parser.repairs,
    }
}

/// Where a text's white space ends, zero-width characters counted in.
pub(super) fn skip_white(text: &str, at: usize) -> usize {
    text[at..].find(|character| !is_white(character)).map_or(text.len(), |length| at + length)
}

struct Parser<'t, 'b> {
    text: &'t str,
    at: usize,
    mode: Mode,
    anchors: &'t [&'t str],
    budget: &'b mut Budget,
    depth: usize,
    is_cut: bool,
    has_anchor: bool,
    has_member: bool,
    has_text: bool,
    repairs: Repairs,
}

/// Where a string stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Member,
    Item,
}

/// What lies between two tokens.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    has_line_break: bool,
}

impl<'t> Parser<'t, '_> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        // The end of a fenced block is the end of the answer in it.
        let rest = self.rest();
        match rest.starts_with("```") || rest.starts_with("~~~") {
            true => None,
            false => rest.chars().next(),
        }
    }

    fn pay(&mut self, steps: usize) -> Result<(), Stop> {
        self.budget.steps = self.budget.steps.checked_sub(steps).ok_or(Stop::TooCostly)?;
        Ok(())
    }

    fn note(&mut self, kind: RepairKind) {
        self.repairs.note(kind, self.at);
    }

    fn take(&mut self, character: char) {
        if !character.is_ascii() {
            self.note(RepairKind::FullWidth);
        }
        self.at += character.len_utf8();
    }

    fn skip_gap(&mut self) -> Result<Gap, Stop> {
        let mut gap = Gap::default();
        loop {
            let start = self.at;
            self.at = skip_white(self.text, start);
            gap.has_line_break |= self.text[start..self.at].contains('\n');
            self.pay(self.at - start + 1)?;
            let rest = self.rest();
            let near = &rest[..rest.floor_char_boundary(COMMENT_BYTES_MAX)];
            let length = if rest.starts_with("//") || rest.starts_with('#') {
                near.find('\n').or((near.len() == rest.len()).then_some(rest.len()))
            } else if rest.starts_with("/*") {
                near.find("*/").map(|length| length + 2)
            } else if rest.starts_with("\\n") || rest.starts_with("\\t") || rest.starts_with("\\r") {
                self.note(RepairKind::EscapedWhiteSpace);
                self.at += 2;
                continue;
            } else {
                return Ok(gap);
            };
            let Some(length) = length else {
                self.pay(near.len())?;
                return Err(Stop::Broken);
            };
            self.note(RepairKind::Comment);
            self.pay(length)?;
            self.at += length;
        }
    }

    fn value(&mut self, is_in_list: bool) -> Result<Value, Stop> {
        self.pay(1)?;
        self.budget.values = self.budget.values.checked_sub(1).ok_or(Stop::TooCostly)?;
        match self.peek().ok_or(Stop::End)? {
            open @ ('{' | '｛') => self.nested(open, Self::object),
            open @ ('[' | '［') => self.nested(open, Self::list),
            quote if closers(quote, Mode::Plain).is_some() => {
                self.string(quote, if is_in_list { Role::Item } else { Role::Member }).map(Value::Text)
            }
            _ => self.word(is_in_list),
        }
    }

    fn nested(&mut self, open: char, read: fn(&mut Self) -> Result<Value, Stop>) -> Result<Value, Stop> {
        if self.depth >= REPLY_DEPTH_MAX {
            return Err(Stop::TooDeep);
        }
        self.depth += 1;
        self.take(open);
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<Value, Stop> {
        let mut members = Vec::new();
        let mut had_comma = true;
        loop {
            let gap = self.skip_gap()?;
            let Some(next) = self.peek() else { break };
            match next {
                '}' | '｝' => {
                    if had_comma && !members.is_empty() {
                        self.note(RepairKind::Comma);
                    }
                    self.take(next);
                    return Ok(Value::Object { members, closed: true });
                }
                ',' | '，' | '、' => {
                    if had_comma || next != ',' {
                        self.note(RepairKind::Comma);
                    }
                    had_comma = true;
                    self.at += next.len_utf8();
                    continue;
                }
                _ => {}
            }
            if !had_comma {
                self.note(RepairKind::Comma);
            }
            let key = match self.key(next, had_comma || gap.has_line_break) {
                Err(Stop::End) => break,
                key => key?,
            };
            match self.skip_gap().and_then(|_| self.value(false)) {
                Err(Stop::End) => break,
                value => members.push((key, value?)),
            }
            if self.is_cut {
                return Ok(Value::Object { members, closed: false });
            }
            self.has_member = true;
            had_comma = false;
        }
        self.is_cut = true;
        Ok(Value::Object { members, closed: false })
    }

    /// A key with the colon behind it.
    fn key(&mut self, next: char, may_be_bare: bool) -> Result<String, Stop> {
        let is_quoted = closers(next, self.mode).is_some();
        let key = if is_quoted {
            self.quoted_key(next)?
        } else if may_be_bare && is_word(next) {
            let word = word_at(self.rest(), is_word);
            self.note(RepairKind::Unquoted);
            self.at += word.len();
            word.to_owned()
        } else if self.rest().starts_with("...") || next == '…' {
            return Err(Stop::Ellipsis);
        } else {
            return Err(Stop::Broken);
        };
        self.skip_gap()?;
        match self.peek().ok_or(Stop::End)? {
            colon @ (':' | '：') => self.take(colon),
            _ => return Err(Stop::Broken),
        }
        if self.anchors.contains(&key.trim().to_lowercase().as_str()) {
            self.has_anchor = true;
        }
        Ok(key)
    }

    fn list(&mut self) -> Result<Value, Stop> {
        let mut items = Vec::new();
        let mut had_comma = true;
        loop {
            let gap = self.skip_gap()?;
            let Some(next) = self.peek() else { break };
            match next {
                ']' | '］' => {
                    if had_comma && !items.is_empty() {
                        self.note(RepairKind::Comma);
                    }
                    self.take(next);
                    return Ok(Value::List { items, closed: true });
                }
                ',' | '，' | '、' => {
                    if had_comma || next != ',' {
                        self.note(RepairKind::Comma);
                    }
                    had_comma = true;
                    self.at += next.len_utf8();
                    continue;
                }
                _ => {}
            }
            if !had_comma {
                // Two strings side by side are more likely one string with a quote in it than two items.
                let is_nested = |value: &Value| matches!(value, Value::Object { .. } | Value::List { .. });
                let both_nested = items.last().is_some_and(is_nested) && matches!(next, '{' | '｛' | '[' | '［');
                if !both_nested && !gap.has_line_break {
                    return Err(Stop::Broken);
                }
                self.note(RepairKind::Comma);
            }
            match self.value(true) {
                Err(Stop::End) => break,
                value => items.push(value?),
            }
            if self.is_cut {
                return Ok(Value::List { items, closed: false });
            }
            had_comma = false;
        }
        self.is_cut = true;
        Ok(Value::List { items, closed: false })
    }

    /// A number, a literal, or a word without quotes.
    fn word(&mut self, is_in_list: bool) -> Result<Value, Stop> {
        let rest = self.rest();
        let word = word_at(rest, |character| is_word(character) || matches!(character, '-' | '+' | '.' | '/'));
        self.pay(word.len() + 1)?;
        // A word that touches the end may be the start of a longer one.
        if word.len() == rest.len() && self.depth > 0 {
            return Err(Stop::End);
        }
        let value = match word {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            "True" | "TRUE" => self.literal(Value::Bool(true)),
            "False" | "FALSE" => self.literal(Value::Bool(false)),
            "None" | "NULL" | "Null" | "nil" | "undefined" => self.literal(Value::Null),
            "NaN" | "nan" => self.literal(Value::Number("NaN".to_owned())),
            "Infinity" | "inf" => self.literal(Value::Number("Infinity".to_owned())),
            "-Infinity" | "-inf" => self.literal(Value::Number("-Infinity".to_owned())),
            _ => {
                let digits: String =
                    word.chars().map(|character| ascii_digit(character).unwrap_or(character)).collect();
                if is_number(&digits) {
                    if digits != word {
                        self.note(RepairKind::FullWidth);
                    }
                    Value::Number(digits)
                } else if word.starts_with("...") || rest.starts_with('…') {
                    return Err(Stop::Ellipsis);
                } else if !is_in_list
                    && self.depth > 0
                    && word.starts_with(char::is_alphanumeric)
                    && word.len() <= WORD_BYTES_MAX
                {
                    self.note(RepairKind::Unquoted);
                    Value::Text(Text { content: word.to_owned(), is_guessed: false, is_bare: true })
                } else {
                    return Err(Stop::Broken);
                }
            }
        };
        self.at += word.len();
        Ok(value)
    }

    fn literal(&mut self, value: Value) -> Value {
        self.note(RepairKind::Literal);
        value
    }

    /// The name of a member. No key that counts has a quote in it, so the first one ends it; one of another kind does
    /// with a colon behind it.
    fn quoted_key(&mut self, open: char) -> Result<String, Stop> {
        let own = closers(open, Mode::Plain).unwrap_or(&[]);
        let any = closers(open, Mode::Guess).unwrap_or(&[]);
        self.open_quote(open);
        let end = self.at + KEY_BYTES_MAX;
        let mut key = String::new();
        loop {
            self.plain_run(any, end.saturating_sub(self.at), &mut key)?;
            match self.rest().chars().next().ok_or(Stop::End)? {
                '\n' => return Err(Stop::Broken),
                _ if self.at >= end => return Err(Stop::Broken),
                '\\' => self.escape(&mut key)?,
                quote
                    if own.contains(&quote) || (any.contains(&quote) && self.has_colon(self.at + quote.len_utf8())) =>
                {
                    self.at += quote.len_utf8();
                    return Ok(key);
                }
                other => {
                    key.push(other);
                    self.at += other.len_utf8();
                }
            }
        }
    }

    fn has_colon(&self, at: usize) -> bool {
        self.text[self.look(at).0..].starts_with([':', '：'])
    }

    fn open_quote(&mut self, open: char) {
        if open != '"' {
            self.note(RepairKind::Quotes);
        }
        self.at += open.len_utf8();
    }

    fn string(&mut self, open: char, role: Role) -> Result<Text, Stop> {
        let own = closers(open, Mode::Plain).unwrap_or(&[]);
        let closers = closers(open, self.mode).unwrap_or(&[]);
        self.open_quote(open);
        let mut content = String::new();
        let (mut inner_quotes, mut inner_straight) = (0_usize, 0_usize);
        let mut is_guessed = false;
        loop {
            self.plain_run(closers, usize::MAX, &mut content)?;
            let next = self.rest().chars().next().ok_or(Stop::End)?;
            if next == '\\' {
                self.escape(&mut content)?;
                continue;
            }
            if closers.contains(&next) {
                let after = self.at + next.len_utf8();
                if self.mode == Mode::Plain || self.ends_string(after, role)? {
                    // A quote of another kind than the first may as well be one that stands inside.
                    is_guessed |= !own.contains(&next);
                    self.at = after;
                    break;
                }
                inner_quotes += 1;
                inner_straight += usize::from(next == '"');
            } else {
                // `plain_run` stops at nothing else but a control character.
                self.note(RepairKind::ControlCharacter);
            }
            content.push(next);
            self.at += next.len_utf8();
        }
        if inner_quotes > 0 {
            // Quotes come in pairs: an odd one says that the end was concluded wrongly.
            if inner_straight % 2 == 1 {
                return Err(Stop::Broken);
            }
            self.note(RepairKind::InnerQuotes);
            is_guessed = true;
        }
        self.has_text = true;
        Ok(Text { content, is_guessed, is_bare: false })
    }

    /// Takes characters up to the next one that needs a look.
    fn plain_run(&mut self, closers: &[char], length_max: usize, content: &mut String) -> Result<(), Stop> {
        let rest = self.rest();
        let rest = &rest[..rest.floor_char_boundary(length_max)];
        let stops = |character: char| character == '\\' || character < ' ' || closers.contains(&character);
        let length = rest.find(stops).unwrap_or(rest.len());
        self.pay(length + 1)?;
        content.push_str(&rest[..length]);
        self.at += length;
        Ok(())
    }

    /// Takes the escape that begins here.
    fn escape(&mut self, content: &mut String) -> Result<(), Stop> {
        let rest = self.rest();
        let escaped = rest[1..].chars().next().ok_or(Stop::End)?;
        let mut length = 1 + escaped.len_utf8();
        match escaped {
            '"' | '\\' | '/' => content.push(escaped),
            'b' => content.push('\u{8}'),
            'f' => content.push('\u{c}'),
            'n' => content.push('\n'),
            'r' => content.push('\r'),
            't' => content.push('\t'),
            'u' => match code_unit(rest, 2, 4) {
                Some(unit) => {
                    let second = rest.get(6..).filter(|rest| rest.starts_with("\\u"));
                    let second = second.and_then(|rest| code_unit(rest, 2, 4));
                    let units = [Some(unit), second].into_iter().flatten().map(|unit| unit as u16);
                    match char::decode_utf16(units).next() {
                        Some(Ok(character)) => {
                            content.push(character);
                            length = 6 * character.len_utf16();
                        }
                        _ => {
                            self.note(RepairKind::LoneSurrogate);
                            content.push(char::REPLACEMENT_CHARACTER);
                            length = 6;
                        }
                    }
                }
                None if rest.len() < 6 => return Err(Stop::End),
                None => self.keep_escape(content, escaped),
            },
            'x' | 'U' => {
                let digits = if escaped == 'x' { 2 } else { 8 };
                match code_unit(rest, 2, digits).and_then(char::from_u32) {
                    Some(character) => {
                        self.note(RepairKind::Escape);
                        content.push(character);
                        length = 2 + digits;
                    }
                    None => self.keep_escape(content, escaped),
                }
            }
            '\n' => self.note(RepairKind::Escape),
            quote if closers(quote, Mode::Plain).is_some() => {
                self.note(RepairKind::Escape);
                content.push(quote);
            }
            other => self.keep_escape(content, other),
        }
        self.at += length;
        Ok(())
    }

    /// An escape that JSON does not have is most likely a backslash that was meant, as in `\d` or a path.
    fn keep_escape(&mut self, content: &mut String, escaped: char) {
        self.note(RepairKind::Escape);
        content.push('\\');
        content.push(escaped);
    }

    /// Whether a string that ended before `after` would leave an object or list that goes on.
    fn ends_string(&mut self, after: usize, role: Role) -> Result<bool, Stop> {
        let (next, has_line_break) = self.look(after);
        // A look ahead for a key is short, so its cost counts as constant.
        self.pay(next - after + 8)?;
        let rest = &self.text[next..];
        let Some(character) = rest.chars().next() else { return Ok(true) };
        if rest.starts_with("```") {
            return Ok(true);
        }
        let is_comment = |rest: &str| rest.starts_with("//") || rest.starts_with("/*") || rest.starts_with('#');
        let is_comma = matches!(character, ',' | '，');
        match role {
            // A quote with a colon behind it begins or ends a key: the string's own end is missing.
            Role::Member if matches!(character, ':' | '：') => Err(Stop::Broken),
            Role::Member if matches!(character, '}' | '｝') => Ok(true),
            Role::Member if is_comma => {
                let rest = &self.text[self.look(next + character.len_utf8()).0..];
                Ok(rest.is_empty() || rest.starts_with(['}', '｝']) || is_comment(rest) || is_key(rest, true))
            }
            Role::Member => Ok(is_comment(rest) || is_key(rest, has_line_break)),
            Role::Item if matches!(character, ']' | '］') => Ok(true),
            Role::Item if is_comma => {
                let rest = &self.text[self.look(next + character.len_utf8()).0..];
                let goes_on = |next: char| closers(next, Mode::Plain).is_some() || matches!(next, ']' | '{' | '[');
                Ok(rest.is_empty() || is_comment(rest) || rest.starts_with(goes_on))
            }
            Role::Item => Ok(has_line_break && closers(character, Mode::Plain).is_some()),
        }
    }

    /// Where the white space at a place ends, and whether a line breaks in it.
    fn look(&self, at: usize) -> (usize, bool) {
        let mut length = 0;
        let mut has_line_break = false;
        for character in self.text[at..].chars().take_while(|character| is_white(*character)) {
            has_line_break |= character == '\n';
            length += character.len_utf8();
            if length > GAP_BYTES_MAX {
                break;
            }
        }
        (at + length, has_line_break)
    }
}

/// Whether the text begins with a key and its colon.
fn is_key(rest: &str, may_be_bare: bool) -> bool {
    let Some(first) = rest.chars().next() else { return false };
    let after = match closers(first, Mode::Guess) {
        Some(closers) => {
            let inside = rest[first.len_utf8()..].char_indices().take_while(|(at, _)| *at <= KEY_BYTES_MAX);
            let mut inside = inside.take_while(|(_, character)| *character != '\n');
            inside
                .find(|(_, character)| closers.contains(character))
                .map(|(at, closer)| at + closer.len_utf8())
                .map(|length| &rest[first.len_utf8() + length..])
        }
        None if may_be_bare && is_word(first) => Some(&rest[word_at(rest, is_word).len()..]),
        None => None,
    };
    after.is_some_and(|after| after.trim_start_matches([' ', '\t']).starts_with([':', '：']))
}

/// The word at the start of a text, one character longer than allowed at most.
fn word_at(rest: &str, belongs: impl Fn(char) -> bool) -> &str {
    let end = rest.char_indices().find(|(at, character)| !belongs(*character) || *at > WORD_BYTES_MAX);
    &rest[..end.map_or(rest.len(), |(at, _)| at)]
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$' | '-')
}

fn is_white(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{feff}' | '\u{200b}' | '\u{200c}' | '\u{200d}' | '\u{2060}')
}

/// The characters that end a string which this one begins.
fn closers(open: char, mode: Mode) -> Option<&'static [char]> {
    Some(match (open, mode) {
        ('"', Mode::Plain) => &['"'],
        ('＂', Mode::Plain) => &['＂'],
        ('“' | '”', Mode::Plain) => &['”'],
        ('"' | '＂' | '“' | '”', Mode::Guess) => &['"', '＂', '“', '”'],
        ('\'', Mode::Plain) => &['\''],
        ('‘' | '’', Mode::Plain) => &['’'],
        ('\'' | '‘' | '’', Mode::Guess) => &['\'', '‘', '’'],
        ('`', _) => &['`'],
        ('「', _) => &['」'],
        ('『', _) => &['』'],
        ('«', _) => &['»'],
        _ => return None,
    })
}

fn code_unit(rest: &str, from: usize, digits: usize) -> Option<u32> {
    let digits = rest.get(from..from + digits)?;
    // `from_str_radix` alone would accept a sign.
    let all_hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all_hexadecimal.then(|| u32::from_str_radix(digits, 16).ok())?
}

/// Whether the text is a number in JSON's grammar.
fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = is_digits(whole) && (whole == "0" || !whole.starts_with('0'));
    let is_exponent = |text: &str| is_digits(text.strip_prefix(['+', '-']).unwrap_or(text));
    is_whole && fraction.is_none_or(is_digits) && exponent.is_none_or(is_exponent)
}
