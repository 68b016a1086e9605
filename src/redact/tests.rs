use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE},
};
use proptest::prelude::*;

use super::*;

fn redactor(secrets: &[(&str, &[u8])]) -> Redactor {
    let secret = |&(name, value): &(&str, &[u8])| Secret::new(name, value.to_vec()).unwrap();
    Redactor::new(secrets.iter().map(secret).collect()).unwrap()
}

fn pattern(name: &str, pattern: &str) -> Secret {
    Secret {
        name: name.to_owned(),
        what: Needle::Pattern(Regex::new(pattern).unwrap()),
    }
}

#[test]
fn every_occurrence_is_replaced_by_its_name() {
    let redactor = redactor(&[("key", b"s3cr3t-value"), ("pin", b"12345678")]);
    assert_eq!(
        redactor.text("a s3cr3t-value, 12345678 and s3cr3t-values3cr3t-value"),
        "a [redacted:key], [redacted:pin] and [redacted:key][redacted:key]"
    );
    assert!(matches!(redactor.text("nothing"), Cow::Borrowed("nothing")));
}

#[test]
fn secrets_that_overlap_leave_nothing_of_either() {
    let redactor = redactor(&[
        ("one", b"abcdefgh"),
        ("two", b"efghijkl"),
        ("long", b"abcdefghijklmnop"),
    ]);
    assert_eq!(redactor.text("<abcdefghijkl>"), "<[redacted:one]>");
    assert_eq!(redactor.text("<abcdefghijklmnop>"), "<[redacted:one]>");
}

#[test]
fn each_listed_encoding_is_found() {
    let value = "p\"a/ss\\wö<r>d\n&~!";
    let redactor = redactor(&[("key", value.as_bytes())]);
    let json = serde_json::Value::from(value).to_string();
    let twice = serde_json::Value::from(&*json).to_string();
    for written in [
        value,
        &json,
        &twice,
        // Python, Go, PHP, and an upper-case .NET.
        r#""p\"a/ss\\w\u00f6<r>d\n&~!""#,
        r#""p\"a/ss\\wö\u003cr\u003ed\n\u0026~!""#,
        r#""p\"a\/ss\\w\u00f6<r>d\n&~!""#,
        r#""p\"a/ss\\w\u00F6\u003Cr\u003Ed\n\u0026~!""#,
        // encodeURIComponent, quote, quote_plus, forms.
        "p%22a%2Fss%5Cw%C3%B6%3Cr%3Ed%0A%26~!",
        "p%22a/ss%5Cw%C3%B6%3Cr%3Ed%0A%26~%21",
        "p%22a%2fss%5cw%c3%b6%3cr%3ed%0a%26~%21",
        "p%22a%2Fss%5Cw%C3%B6%3Cr%3Ed%0A%26%7E%21",
    ] {
        let clean = redactor.text(written);
        assert!(clean.contains("[redacted:key]"), "{written}");
        assert!(
            clean.len() < "[redacted:key]".len() + 7,
            "{written}: {clean}"
        );
    }
}

#[test]
fn a_secret_that_is_no_text_is_found_in_bytes_and_in_their_rendering() {
    let value = b"\xff\xfetoken\x00\x80\x81";
    let redactor = redactor(&[("raw", value)]);
    assert_eq!(*redactor.bytes(value, Cut::default()), *b"[redacted:raw]");
    assert_eq!(
        redactor.text(&String::from_utf8_lossy(value)),
        "[redacted:raw]"
    );
}

#[test]
fn a_pattern_is_replaced_wherever_it_matches() {
    let redactor = Redactor::new(vec![pattern("ticket", "T-[0-9]{4,}|")]).unwrap();
    assert_eq!(redactor.text("see T-12345."), "see [redacted:ticket].");
}

#[test]
fn nothing_of_a_secret_is_left_at_a_cut_end() {
    let value = b"0123456789abcdef";
    let redactor = redactor(&[("key", value)]);
    let filler = vec![b'-'; 200];
    // The longest form decides how much is dropped, so each is cut in every place.
    for form in forms::of(value) {
        for cut in 1..form.len() {
            let head = [&filler, &form[..cut]].concat();
            let after = Cut {
                after: true,
                ..Cut::default()
            };
            let left = redactor.bytes(&head, after);
            assert!(left.iter().all(|byte| *byte == b'-'), "{cut}");
            let tail = [&form[cut..], &filler].concat();
            let before = Cut {
                before: true,
                ..Cut::default()
            };
            let left = redactor.bytes(&tail, before);
            assert!(left.iter().all(|byte| *byte == b'-'), "{cut}");
        }
    }
    // What reaches from the part that is kept into the one that is dropped was found whole, and keeps its marker.
    let whole = [&filler, &value[..], b"----------"].concat();
    let after = Cut {
        after: true,
        ..Cut::default()
    };
    assert!(redactor.bytes(&whole, after).ends_with(b"-[redacted:key]"));
}

#[test]
fn json_stays_json() {
    let redactor = redactor(&[("key", b"12345678"), ("pair", br#"x","y":"z"#)]);
    assert_eq!(
        redactor
            .json(r#"{"a":"<\u0031\u0032345678>","b":[1]}"#)
            .unwrap(),
        r#"{"a":"<[redacted:key]>","b":[1]}"#
    );
    assert_eq!(redactor.json(r#"{"a":1}"#), None);
    // In a number, in a key, across members: there is no string to rewrite.
    for (json, name) in [
        (r#"{"a":12345678}"#, "key"),
        (r#"{"12345678":1}"#, "key"),
        (r#"{"w":"x","y":"z"}"#, "pair"),
    ] {
        assert_eq!(
            redactor.json(json).unwrap(),
            format!("\"[redacted:{name}]\"")
        );
    }
}

#[test]
fn no_secret_is_shown_by_debug() {
    let secret = Secret::new("key", b"s3cr3t-value".to_vec()).unwrap();
    assert_eq!(format!("{secret:?}"), "Secret { name: \"key\", .. }");
    let redactor = Redactor::new(vec![secret]).unwrap();
    assert_eq!(
        format!("{redactor:?}"),
        "Redactor { markers: [\"[redacted:key]\"], .. }"
    );
}

#[test]
fn a_secret_within_a_marker_is_refused() {
    for value in ["redacted", "my-token", "[redacted:my-token]"] {
        let secret = Secret::new("my-token", value.as_bytes().to_vec()).unwrap();
        assert!(Redactor::new(vec![secret]).is_err(), "{value}");
    }
}

#[test]
fn without_secrets_nothing_is_touched() {
    let redactor = Redactor::default();
    let cut = Cut {
        before: true,
        after: true,
    };
    assert!(matches!(
        redactor.bytes(b"text", cut),
        Cow::Borrowed(b"text")
    ));
    assert_eq!(redactor.json("\"text\""), None);
}

proptest! {
    // A redactor is made for each: the search is for dozens of forms.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn base64_gives_nothing_away_wherever_the_secret_stands(
        value in proptest::collection::vec(any::<u8>(), 8..64),
        before in proptest::collection::vec(any::<u8>(), 0..8),
        after in proptest::collection::vec(any::<u8>(), 0..8),
    ) {
        let redactor = redactor(&[("key", &value)]);
        let all = [&before[..], &value, &after].concat();
        for engine in [STANDARD, STANDARD_NO_PAD, URL_SAFE] {
            let clean = redactor.text(&engine.encode(&all)).into_owned();
            prop_assert!(clean.contains("[redacted:key]"), "{clean}");
            // No more is left than the characters that are shared with what stands around it.
            let left = clean.trim_end_matches('=').len() - "[redacted:key]".len();
            let around = (before.len() * 4).div_ceil(3) + (after.len() * 4).div_ceil(3);
            prop_assert!(left <= around + 2, "{clean}");
        }
    }

    /// Overlapping secrets leave none of their bytes behind at a cut.
    #[test]
    fn nothing_of_overlapping_secrets_is_left_at_any_cut(
        before in "[x-z]{0,60}",
        repeated in 2_usize..12,
        after in "[x-z]{0,60}",
        cut in any::<proptest::sample::Index>(),
    ) {
        let redactor = redactor(&[("key", b"abcabcab")]);
        let text = format!("{before}{}ab{after}", "abc".repeat(repeated));
        let (head, tail) = text.split_at(cut.index(text.len() + 1));
        let left = [
            redactor.bytes(head.as_bytes(), Cut { before: false, after: true }),
            redactor.bytes(tail.as_bytes(), Cut { before: true, after: false }),
        ];
        for left in left {
            let left = String::from_utf8(left.into_owned()).unwrap();
            let other = left.replace("[redacted:key]", "");
            prop_assert!(!other.contains(['a', 'b', 'c']), "{left}");
        }
    }
}
