//! Times as command lines spell them.

use jiff::{
    SignedDuration, Timestamp, Zoned,
    civil::{Date, DateTime},
};

/// The units of a length of time, in seconds.
const UNITS: [(char, i64); 5] = [
    ('s', 1),
    ('m', 60),
    ('h', 3600),
    ('d', 86_400),
    ('w', 604_800),
];

/// Parses a time; a length such as `1h` counts back from now.
///
/// # Errors
///
/// Fails where the text is no time, with the forms that are.
pub fn past(text: &str) -> Result<Timestamp, String> {
    let now = Zoned::now();
    parse(text, &now, |length| -length).ok_or_else(|| no_time(text))
}

/// Parses a time; a length such as `1h` counts from now.
///
/// # Errors
///
/// Fails where the text is no time, with the forms that are.
pub fn future(text: &str) -> Result<Timestamp, String> {
    let now = Zoned::now();
    parse(text, &now, |length| length).ok_or_else(|| no_time(text))
}

fn no_time(text: &str) -> String {
    format!("`{text}` is no time; write 1h, yesterday, 2026-11-26 or 2026-11-26T12:00Z")
}

/// Parses a time. The default zone is that of `now`, and a date is its beginning.
fn parse(
    text: &str,
    now: &Zoned,
    from_now: impl Fn(SignedDuration) -> SignedDuration,
) -> Option<Timestamp> {
    let local = |time: DateTime| {
        let zoned = time.to_zoned(now.time_zone().clone());
        zoned.ok().map(|zoned| zoned.timestamp())
    };
    let begin = |date: Date| local(date.to_datetime(jiff::civil::Time::midnight()));
    if let Some(length) = length(text) {
        return now.timestamp().checked_add(from_now(length)).ok();
    }
    match text {
        "today" => begin(now.date()),
        "yesterday" => begin(now.date().yesterday().ok()?),
        _ => text
            .parse()
            .ok()
            .or_else(|| text.parse().ok().and_then(local)),
    }
}

/// Parses a whole number with a unit.
fn length(text: &str) -> Option<SignedDuration> {
    let unit = text.chars().next_back()?;
    let (_, seconds) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    let number = text.strip_suffix(unit)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: i64 = number.parse().ok().filter(|_| is_number)?;
    Some(SignedDuration::from_secs(number.checked_mul(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noon, in a zone two hours east of Greenwich.
    fn noon() -> Zoned {
        "2026-11-26T12:00:00+02:00[+02:00]".parse().unwrap()
    }

    #[test]
    fn every_form_of_a_time_is_read_in_the_local_zone() {
        for (text, expected) in [
            ("90s", "2026-11-26T09:58:30Z"),
            ("30m", "2026-11-26T09:30:00Z"),
            ("1h", "2026-11-26T09:00:00Z"),
            ("2d", "2026-11-24T10:00:00Z"),
            ("1w", "2026-11-19T10:00:00Z"),
            ("0s", "2026-11-26T10:00:00Z"),
            ("today", "2026-11-25T22:00:00Z"),
            ("yesterday", "2026-11-24T22:00:00Z"),
            ("2026-11-20", "2026-11-19T22:00:00Z"),
            ("2026-11-20 08:30", "2026-11-20T06:30:00Z"),
            ("2026-11-20T08:30", "2026-11-20T06:30:00Z"),
            ("2026-11-20T08:30:15", "2026-11-20T06:30:15Z"),
            ("2026-11-26T12:00Z", "2026-11-26T12:00:00Z"),
            ("2026-11-20T08:30:15.5Z", "2026-11-20T08:30:15.5Z"),
            ("2026-11-20T08:30:15-05:00", "2026-11-20T13:30:15Z"),
        ] {
            let read = parse(text, &noon(), |length| -length);
            assert_eq!(read, Some(expected.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn a_length_is_ahead_where_an_end_is_asked_for() {
        for (text, expected) in [
            ("1h", "2026-11-26T11:00:00Z"),
            ("2d", "2026-11-28T10:00:00Z"),
            ("2026-12-01", "2026-11-30T22:00:00Z"),
        ] {
            let read = parse(text, &noon(), |length| length);
            assert_eq!(read, Some(expected.parse().unwrap()), "{text}");
        }
        assert!(past("1h").unwrap() < Timestamp::now());
        assert!(future("1h").unwrap() > Timestamp::now());
    }

    #[test]
    fn what_is_no_time_is_answered_with_the_forms_that_are() {
        for text in [
            "",
            "foo",
            "h",
            "-1h",
            "+1h",
            "1.5h",
            "1 h",
            "1y",
            "99999999999999d",
            "2026-13-01",
            "2026-11-31",
            "12:00",
            "tomorrow",
            "9999999999999999999h",
            "é",
        ] {
            let error = past(text).unwrap_err();
            let expected = "is no time; write 1h, yesterday, 2026-11-26 or 2026-11-26T12:00Z";
            assert_eq!(error, format!("`{text}` {expected}"));
        }
    }
}
