//! Checks of callers' events before they may reach a hook.
//!
//! The bytes are checked and then passed on as they are. The contract interprets them.

use std::str;

use bytes::Bytes;
use serde::de::IgnoredAny;

use crate::model::{InvalidField, json};

/// The field a malformed event is reported on.
const FIELD: &str = "event.json";

/// Error of an event that is not accepted.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EventError {
    /// The event is not JSON that all parsers read in the same way.
    #[error(transparent)]
    Malformed(#[from] InvalidField),
    /// The event is larger than the daemon accepts.
    #[error("the event has {size} bytes, more than the maximum of {max}")]
    TooLarge {
        /// The largest accepted size, bytes.
        max: usize,
        /// Its size, bytes.
        size: usize,
    },
}

/// Checks that an event is one JSON document without duplicate keys, in UTF-8, of at most `max_bytes`, and nested at most 128
/// deep.
///
/// Two parsers may read a repeated key differently, so a hook could decide about another event than the one that
/// happens. Empty input is no JSON document: callers handle an absent event themselves.
pub fn parse_event(event: Bytes, max_bytes: usize) -> Result<Bytes, EventError> {
    if event.len() > max_bytes {
        return Err(EventError::TooLarge {
            max: max_bytes,
            size: event.len(),
        });
    }
    check(&event).map_err(|problem| InvalidField::new(FIELD, problem))?;
    Ok(event)
}

fn check(event: &[u8]) -> Result<(), String> {
    let text = str::from_utf8(event)
        .map_err(|error| format!("is not UTF-8 at byte {}", error.valid_up_to()))?;
    // Parsing into `IgnoredAny` does not recurse, so depth can be checked afterwards.
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|error| format!("is not one JSON document: {error}"))?;
    if let Some(offset) = json::first_too_deep(text) {
        return Err(format!(
            "nests deeper than {} levels at {}",
            json::MAX_DEPTH,
            position(text, offset)
        ));
    }
    if let Some(offset) = json::first_repeated_key(text) {
        return Err(format!(
            "repeats a key of the same object at {}",
            position(text, offset)
        ));
    }
    Ok(())
}

/// Counts lines and columns as `serde_json` does: from 1, columns in bytes.
fn position(text: &str, offset: usize) -> String {
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    format!(
        "line {} column {}",
        before.matches('\n').count() + 1,
        offset - line_start + 1
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MAX: usize = 16 << 20;

    fn problem(event: impl Into<Bytes>) -> String {
        match parse_event(event.into(), MAX).unwrap_err() {
            EventError::Malformed(InvalidField { field, problem }) => {
                assert_eq!(field, "event.json");
                problem
            }
            EventError::TooLarge { .. } => panic!("not too large"),
        }
    }

    #[test]
    fn accepted_events_are_returned_byte_for_byte() {
        for event in [
            "{}",
            " [1, 2] \n",
            "null",
            "\"x\"",
            "1e999",
            "123456789012345678901234567890",
            r#"{"a":"\ud800"}"#,
        ] {
            assert_eq!(parse_event(Bytes::from(event), MAX).unwrap(), event);
        }
    }

    #[test]
    fn events_up_to_the_limit_pass_and_one_byte_more_does_not() {
        assert_eq!(parse_event(Bytes::from("[10]"), 4).unwrap(), "[10]");
        assert_eq!(
            parse_event(Bytes::from("[100]"), 4),
            Err(EventError::TooLarge { max: 4, size: 5 })
        );
    }

    #[test]
    fn malformed_events_are_refused_with_their_position() {
        assert_eq!(
            problem("{\"a\":\n nope}"),
            "is not one JSON document: expected ident at line 2 column 3"
        );
        assert_eq!(
            problem("{} {}"),
            "is not one JSON document: trailing characters at line 1 column 4"
        );
        assert_eq!(
            problem(""),
            "is not one JSON document: EOF while parsing a value at line 1 column 0"
        );
        assert_eq!(
            problem("\u{feff}{}"),
            "is not one JSON document: expected value at line 1 column 1"
        );
        assert_eq!(problem(&b"{\"a\":\"\xff\"}"[..]), "is not UTF-8 at byte 6");
        assert_eq!(
            problem("{\"a\":1,\n \"a\":2}"),
            "repeats a key of the same object at line 2 column 2"
        );
        assert_eq!(
            problem("[NaN]"),
            "is not one JSON document: expected value at line 1 column 2"
        );
    }

    #[test]
    fn deep_events_are_refused_without_recursion() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(
            parse_event(Bytes::from(nested(128)), MAX).unwrap(),
            nested(128)
        );
        assert_eq!(
            problem(nested(129)),
            "nests deeper than 128 levels at line 1 column 129"
        );
        assert_eq!(
            problem(nested(1_000_000)),
            "nests deeper than 128 levels at line 1 column 129"
        );
    }

    #[test]
    fn the_largest_event_of_nothing_but_keys_is_read() {
        let keys: Vec<String> = (0..1_000_000).map(|n| format!("\"{n:x}\":0")).collect();
        let event = Bytes::from(format!("{{{}}}", keys.join(",")));
        assert_eq!(parse_event(event.clone(), MAX), Ok(event));
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted_or_refused(event in proptest::collection::vec(any::<u8>(), 0..200)) {
            let accepted = parse_event(Bytes::from(event.clone()), MAX).is_ok();
            prop_assert!(!accepted || serde_json::from_slice::<IgnoredAny>(&event).is_ok());
        }

        #[test]
        fn text_like_json_is_accepted_or_refused(event in r#"[\[\]{}:,"\\a0u \n]{0,40}"#) {
            let accepted = parse_event(Bytes::from(event.clone()), MAX).is_ok();
            prop_assert!(!accepted || serde_json::from_str::<IgnoredAny>(&event).is_ok());
        }
    }
}
