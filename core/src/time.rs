//! Instants in UTC, read from the texts that agents write.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Microseconds since 1970-01-01T00:00:00Z. Order in the log never comes from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub i64);

impl Instant {
    /// The instant as RFC 3339 with `+00:00`, with microseconds when there are any, as Python's `isoformat` prints it.
    ///
    /// ```
    /// # use cognilog_core::Instant;
    /// assert_eq!(Instant(1_774_000_800_000_000).to_text(), "2026-03-20T10:00:00+00:00");
    /// ```
    #[must_use]
    pub fn to_text(self) -> String {
        match Timestamp::from_microsecond(self.0) {
            Ok(timestamp) => {
                let civil = TimeZone::UTC.to_datetime(timestamp);
                let fraction = self.0.rem_euclid(1_000_000);
                let date = civil.strftime("%Y-%m-%dT%H:%M:%S");
                if fraction == 0 { format!("{date}+00:00") } else { format!("{date}.{fraction:06}+00:00") }
            }
            Err(_) => format!("{}us", self.0),
        }
    }

    /// Whole days from this instant to `later`, never negative: a future date has age 0.
    #[must_use]
    pub fn days_until(self, later: Instant) -> i64 {
        (later.0.saturating_sub(self.0)).max(0) / 86_400_000_000
    }
}

/// The time zone that text without one is read in.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// UTC, the default (DESIGN section 5).
    #[must_use]
    pub fn utc() -> Zone {
        Zone(TimeZone::UTC)
    }

    /// A zone of the time zone database (`Asia/Shanghai`) or a fixed offset (`+08:00`).
    ///
    /// # Errors
    /// The name is neither.
    pub fn named(name: &str) -> Result<Zone, ZoneError> {
        let dated = format!("2000-01-01T00:00:00{name}");
        if let Ok(pieces) = jiff::fmt::temporal::Pieces::parse(&dated)
            && let Some(offset) = pieces.to_numeric_offset()
        {
            return Ok(Zone(TimeZone::fixed(offset)));
        }
        TimeZone::get(name).map(Zone).map_err(|_| ZoneError { name: name.to_owned() })
    }
}

impl Default for Zone {
    fn default() -> Zone {
        Zone::utc()
    }
}

/// A time zone name that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time zone {name:?} is neither an offset such as +08:00 nor a name such as Asia/Shanghai")]
pub struct ZoneError {
    /// The name as given.
    pub name: String,
}

/// Reads an instant from ISO 8601 text as Python's `isoformat`, RFC 3339 writers and people write it.
///
/// Text without a zone is read in `zone`. Gives `None` for anything else: the text itself is kept elsewhere.
///
/// ```
/// # use cognilog_core::time::{parse, Zone};
/// let utc = Zone::utc();
/// assert_eq!(parse("2026-03-20T10:00:00", &utc), parse("2026-03-20 18:00:00+08:00", &utc));
/// assert_eq!(parse("yesterday", &utc), None);
/// ```
#[must_use]
pub fn parse(text: &str, zone: &Zone) -> Option<Instant> {
    let text = text.trim();
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Some(Instant(timestamp.as_microsecond()));
    }
    let civil = text.parse::<DateTime>().ok()?;
    let timestamp = zone.0.to_ambiguous_timestamp(civil).compatible().ok()?;
    Some(Instant(timestamp.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_agents_write() {
        let utc = Zone::utc();
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(parse(text, &utc).map(Instant::to_text).as_deref(), expect, "{text}");
        };
        check("2026-03-20T10:00:00", Some("2026-03-20T10:00:00+00:00"));
        check("2026-03-20T10:00:00.123456", Some("2026-03-20T10:00:00.123456+00:00"));
        check("2026-03-20T10:00:00Z", Some("2026-03-20T10:00:00+00:00"));
        check("2026-03-20T18:00:00+08:00", Some("2026-03-20T10:00:00+00:00"));
        check("2026-03-20 10:00", Some("2026-03-20T10:00:00+00:00"));
        check("1969-12-31T23:59:59.5", Some("1969-12-31T23:59:59.500000+00:00"));
        check("2026-03-20", Some("2026-03-20T00:00:00+00:00"));
        check("", None);
        check("2026-13-20T10:00:00", None);
        check("soon", None);
    }

    #[test]
    fn zones_apply_only_to_text_without_one() {
        for name in ["+08:00", "Asia/Shanghai"] {
            let zone = Zone::named(name).expect(name);
            let check = |text: &str, expect: &str| {
                assert_eq!(parse(text, &zone).map(Instant::to_text).as_deref(), Some(expect), "{name} {text}");
            };
            check("2026-03-20T18:00:00", "2026-03-20T10:00:00+00:00");
            check("2026-03-20T18:00:00Z", "2026-03-20T18:00:00+00:00");
        }
        assert!(Zone::named("Mars/Base").is_err());
    }

    #[test]
    fn ages_are_never_negative() {
        let day = 86_400_000_000;
        assert_eq!(Instant(0).days_until(Instant(3 * day - 1)), 2);
        assert_eq!(Instant(10 * day).days_until(Instant(0)), 0);
    }
}
