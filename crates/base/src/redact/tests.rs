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

/// Spells a character in every way that is listed.
fn spellings(c: char) -> Vec<String> {
    let mut utf8 = [0; 4];
    let bytes = c.encode_utf8(&mut utf8).as_bytes();
    let hex = |prefix: &str, digits: fn(u8) -> String| {
        let bytes = bytes
            .iter()
            .map(|byte| format!("{prefix}{}", digits(*byte)));
        bytes.collect::<String>()
    };
    let mut utf16 = [0; 2];
    let units = c.encode_utf16(&mut utf16).iter();
    let number = u32::from(c);
    vec![
        c.to_string(),
        hex("%", |byte| format!("{byte:02x}")),
        hex("%", |byte| format!("{byte:02X}")),
        hex("\\x", |byte| format!("{byte:02x}")),
        units.clone().map(|unit| format!("\\u{unit:04x}")).collect(),
        units.map(|unit| format!("\\u{unit:04X}")).collect(),
        format!("&#{number};"),
        format!("&#{number:05};"),
        format!("&#x{number:x};"),
        format!("&#X{number:04X};"),
    ]
}

/// Returns the secret with each character spelled in one way, for each way, and each of these spelled once more.
fn wholly_encoded(value: &str) -> Vec<String> {
    let ways = spellings('a').len();
    let spelled = |text: &str, way: usize| {
        let spelled = text.chars().map(|c| spellings(c)[way].clone());
        spelled.collect::<String>()
    };
    let once = (0..ways).map(|way| spelled(value, way));
    let once: Vec<_> = once.collect();
    let json = once
        .iter()
        .map(|once| serde_json::Value::from(&**once).to_string());
    let html = once.iter().map(|once| once.replace('&', "&amp;"));
    once.iter().cloned().chain(json).chain(html).collect()
}

#[test]
fn a_secret_of_which_every_character_is_encoded_is_found() {
    for value in ["sup3r-s3cret", "k\u{e9}y/\u{1f511}+%41 &amp;\\u0041\"x"] {
        let redactor = redactor(&[("key", value.as_bytes())]);
        for written in wholly_encoded(value) {
            let clean = redactor.text(&written);
            assert_eq!(clean.trim_matches('"'), "[redacted:key]", "{written}");
            let around = redactor.text(&format!("<{written}>")).into_owned();
            assert_eq!(around.replace('"', ""), "<[redacted:key]>", "{written}");
        }
        // Encoded text that is no secret stays as it is.
        for other in wholly_encoded("sup3r-secret") {
            assert_eq!(redactor.text(&other), *other);
        }
    }
}

#[test]
fn an_entity_with_a_name_and_what_only_looks_encoded_are_found() {
    let redactor = redactor(&[("key", br#"a&<">'b-c%d"#), ("odd", br"\q&x;%zz\u12")]);
    for (written, clean) in [
        ("a&amp;&lt;&quot;&gt;&apos;b-c%d", "[redacted:key]"),
        ("a&#38;%3C\\u0022\\x3e'b-c%25d", "[redacted:key]"),
        (r"\q&x;%zz\u12", "[redacted:odd]"),
        (r"\\q&amp;x;%25zz\\u12", "[redacted:odd]"),
    ] {
        assert_eq!(redactor.text(written), clean, "{written}");
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
    let encoded = wholly_encoded("0123456789abcdef").into_iter();
    let encoded = encoded.map(String::into_bytes);
    // Each is cut in every place.
    for form in forms::all(value).into_iter().chain(encoded) {
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
    // A secret that reaches from the kept part into the dropped one was found whole, and keeps its marker.
    let rest = vec![b'-'; redactor.reach() - 6];
    let whole = [&filler, &value[..], &rest].concat();
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

    /// Each character is spelled in a way of its own.
    #[test]
    fn no_mixture_of_encodings_hides_a_secret(
        value in "[ -~\u{e0}-\u{ff}\u{1f511}]{8,24}",
        ways in proptest::collection::vec(any::<proptest::sample::Index>(), 24),
        before in "[a-z<>=]{0,8}",
        after in "[a-z<>=]{0,8}",
    ) {
        prop_assume!(!"[redacted:key]".contains(&value));
        let redactor = redactor(&[("key", value.as_bytes())]);
        // A writer that encodes anything encodes the characters by which an encoded one begins.
        let spelled = value.chars().zip(ways).map(|(c, way)| {
            let begins = usize::from("%&+\\".contains(c));
            way.get(&spellings(c)[begins..]).clone()
        });
        let text = spelled.collect::<String>();
        let clean = redactor.text(&format!("{before}{text}{after}")).into_owned();
        prop_assert_eq!(clean, format!("{before}[redacted:key]{after}"));
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
