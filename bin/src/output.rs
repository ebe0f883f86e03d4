//! stdout: buffered, in text for people or JSON for programs, with hostile characters made visible.

use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;

/// Where data goes.
pub(crate) struct Output {
    pub(crate) json: bool,
    out: BufWriter<Stdout>,
}

impl Output {
    pub(crate) fn new(json: bool) -> Output {
        Output { json, out: BufWriter::with_capacity(64 << 10, io::stdout()) }
    }

    /// Writes a line of text.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.out.write_all(text.as_bytes())?;
        Ok(self.out.write_all(b"\n")?)
    }

    /// Writes text as it is.
    pub(crate) fn raw(&mut self, text: &str) -> Result<(), Failure> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// Writes one JSON object on a line.
    pub(crate) fn object(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.out, value).map_err(io::Error::from)?;
        Ok(self.out.write_all(b"\n")?)
    }

    /// Writes one JSON array, an item a line.
    pub(crate) fn array(&mut self, values: &[impl Serialize]) -> Result<(), Failure> {
        self.out.write_all(b"[")?;
        for (index, value) in values.iter().enumerate() {
            self.out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut self.out, value).map_err(io::Error::from)?;
        }
        Ok(self.out.write_all(if values.is_empty() { b"]\n" } else { b"\n]\n" })?)
    }

    /// Hands what was written to the reader now.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.flush()
    }

    /// Whether whoever read the other end of the pipe has gone: a verb that waits would else learn it only when it
    /// writes again.
    pub(crate) fn is_reader_gone(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let stdout = io::stdout();
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut watched, Some(&at_once)).is_ok() && watched[0].revents().contains(PollFlags::ERR)
    }

    pub(crate) fn is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }
}

/// Says something to people on stderr. A closed stderr is no reason to fail: what matters is in the exit code.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A path for a terminal.
pub(crate) fn shown(path: &Path) -> String {
    printable(&path.display().to_string(), 4_096)
}

/// Text for a terminal: at most `limit` characters, control and direction characters made visible, so that no stored
/// text can act on the terminal or change how the line reads.
pub(crate) fn printable(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == limit {
            shown.push('…');
            break;
        }
        let hidden = matches!(
            character,
            '\u{061c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        );
        match character {
            '\n' => shown.push('⏎'),
            '\t' => shown.push(' '),
            character if character.is_control() || hidden => shown.extend(character.escape_unicode()),
            character => shown.push(character),
        }
    }
    shown
}

/// A time in microseconds since 1970 for people.
pub(crate) fn time(microseconds: i64) -> String {
    cognilog::Instant(microseconds).to_text()
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn nothing_acts_on_the_terminal() {
        let check = |text: &str, expect: &str| assert_eq!(printable(text, 10), expect);
        check("plain 知", "plain 知");
        check("a\u{1b}[31m", "a\\u{1b}[31m");
        check("a\nb\tc", "a⏎b c");
        check("a\u{202e}b", "a\\u{202e}b");
        check("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}");
        check("\u{61c}\u{e0041}", "\\u{61c}\\u{e0041}");
        check("0123456789x", "0123456789…");
    }
}
