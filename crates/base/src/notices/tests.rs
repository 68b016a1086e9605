use proptest::strategy::Strategy as _;

use super::*;

fn calls(calls: &[&[&str]]) -> Vec<u8> {
    let mut all = Vec::new();
    for call in calls {
        all.extend(format!("{}\0", call.len() - 1).into_bytes());
        for word in *call {
            all.extend(word.as_bytes());
            all.push(0);
        }
    }
    all
}

fn one(arguments: &[&str]) -> Option<(String, String, Urgency)> {
    let call: Vec<_> = iter::once(NOTIFY_SEND)
        .chain(arguments.iter().copied())
        .collect();
    let Asked { dropped, notices } = Asked::read(&calls(&[&call]));
    assert_eq!(dropped, 0);
    let mut notices = notices.into_iter();
    let notice = notices.next()?;
    assert!(!notice.sound && notices.next().is_none());
    Some((notice.title, notice.text, notice.urgency))
}

#[test]
fn title_text_and_urgency_are_found_among_all_options() {
    let expected = |urgency| Some(("Title".to_owned(), "Text".to_owned(), urgency));
    for (arguments, urgency) in [
        (&["Title", "Text"][..], Urgency::Normal),
        (&["-u", "critical", "Title", "Text"], Urgency::Critical),
        (&["-ulow", "Title", "Text"], Urgency::Low),
        (&["--urgency=low", "Title", "Text"], Urgency::Low),
        (
            &["--urgency", "critical", "--", "Title", "Text"],
            Urgency::Critical,
        ),
        (
            &["Title", "-t", "5000", "Text", "-i", "dialog-information"],
            Urgency::Normal,
        ),
        (
            &[
                "-a", "Agent", "-c", "im", "-h", "int:x:1", "-e", "Title", "Text",
            ],
            Urgency::Normal,
        ),
        (&["-et", "1", "Title", "Text"], Urgency::Normal),
        (
            &["--transient", "--wait", "--icon=x", "Title", "Text"],
            Urgency::Normal,
        ),
        (
            &[
                "-A", "a=b", "-n", "x", "-r", "7", "-p", "Title", "Text", "more",
            ],
            Urgency::Normal,
        ),
    ] {
        assert_eq!(one(arguments), expected(urgency), "{arguments:?}");
    }
    assert_eq!(one(&["a"]).unwrap().1, "");
    assert_eq!(one(&["a", "b\\nc"]).unwrap().1, "b c");
    for nothing in [
        &[][..],
        &["--version"],
        &["", "text"],
        &["-u"],
        &["\u{202e}"],
    ] {
        assert_eq!(one(nothing), None, "{nothing:?}");
    }
}

#[test]
fn what_cannot_be_seen_is_removed_and_what_is_long_is_cut() {
    let (title, text, _) = one(&["a\u{1b}[2J\u{202e}b\r\nc", " \t x\u{200b}y "]).unwrap();
    assert_eq!((&*title, &*text), ("a[2Jb c", "xy"));
    let (title, text, _) = one(&[&"é".repeat(1000), &"x".repeat(1000)]).unwrap();
    assert_eq!(title.chars().count(), MOST_TITLE + 1);
    assert_eq!(text.chars().count(), MOST_TEXT + 1);
    assert!(title.ends_with('…'));
    // No program takes it for an option.
    let (title, text, _) = one(&["--", "--help", "-x"]).unwrap();
    assert_eq!((&*title, &*text), (" --help", " -x"));
}

#[test]
fn a_sound_belongs_to_the_notice_beside_it() {
    let (notify, play) = (&["notify-send", "a"][..], &["paplay", "/x.oga"][..]);
    let sounds = |calls: &[u8]| -> Vec<(String, bool)> {
        let notices = Asked::read(calls).notices.into_iter();
        notices.map(|it| (it.title, it.sound)).collect()
    };
    let both = [("a".to_owned(), true)];
    assert_eq!(sounds(&calls(&[notify, play])), both);
    assert_eq!(sounds(&calls(&[play, notify])), both);
    assert_eq!(sounds(&calls(&[play, play])), [(String::new(), true)]);
    let later = sounds(&calls(&[notify, notify, play]));
    assert_eq!(later, [("a".to_owned(), false), ("a".to_owned(), true)]);
}

#[test]
fn the_hook_is_named_first_and_cannot_hide_it() {
    let notice = Notice {
        text: "text".to_owned(),
        title: "Update: enter your password".to_owned(),
        ..Notice::default()
    };
    let (title, text) = notice.shown("a\nb\u{202e}.sh");
    assert_eq!(
        (&*title, &*text),
        ("a b.sh: Update: enter your password", "text")
    );
    assert_eq!(notice.shown("").0, "hook: Update: enter your password");
    let sound = Notice {
        sound: true,
        ..Notice::default()
    };
    assert_eq!(
        sound.shown("x"),
        ("x".to_owned(), "plays a sound".to_owned())
    );
}

#[test]
fn of_a_run_no_more_is_read_than_the_most() {
    let notify = &["notify-send", "a"][..];
    let Asked { dropped, notices } = Asked::read(&calls(&[notify; 11]));
    assert_eq!((dropped, notices.len()), (3, MOST_NOTICES));
    let large = "x".repeat(MOST_BYTES);
    let Asked { dropped, notices } = Asked::read(&calls(&[notify, &["notify-send", &large]]));
    assert_eq!((dropped, notices.len()), (1, 1));
    let many = vec!["notify-send"; MOST_ARGUMENTS + 2];
    assert_eq!(Asked::read(&calls(&[&many])).notices, []);
}

#[test]
fn garbage_is_no_notice_and_ends_the_reading() {
    let good = calls(&[&["notify-send", "a"]]);
    for garbage in [
        &b"x"[..],
        b"\0",
        b"\0\0\0\0",
        b"-1\0notify-send\0",
        b"99999999999999999999\0notify-send\0",
        b"2\0notify-send\0a\0",
        b"1\0rm\0a\0",
        b"1\0notify-send\0a",
        b"\xff\xfe",
    ] {
        let all = [&good[..], garbage].concat();
        let Asked { dropped, notices } = Asked::read(&all);
        assert_eq!((dropped, notices.len()), (1, 1), "{garbage:?}");
        let none = Asked::read(&[garbage, &good].concat());
        // A call that lacks an argument takes the next word.
        assert!(none.notices.len() <= 1 && none.dropped <= 1, "{garbage:?}");
    }
    assert_eq!(Asked::read(b""), Asked::default());
    let bytes = Asked::read(b"1\0notify-send\0\xff\xfeA\0");
    assert_eq!(bytes.notices[0].title, "\u{fffd}\u{fffd}A");
}

proptest::proptest! {
    #[test]
    fn of_any_bytes_the_notices_are_few_short_and_visible(
        words in proptest::collection::vec(
            proptest::prop_oneof![
                "[0-9]{0,3}",
                proptest::sample::select(&PROGRAMS[..]).prop_map(str::to_owned),
                "-{0,2}\\PC{0,40}",
                ".{0,40}",
            ],
            0..60,
        ),
        end in proptest::collection::vec(proptest::num::u8::ANY, 0..40),
    ) {
        let mut bytes = words.join("\0").into_bytes();
        bytes.extend(end);
        let Asked { dropped: _, notices } = Asked::read(&bytes);
        assert!(notices.len() <= MOST_NOTICES);
        for notice in notices {
            let (title, text) = notice.shown("a hook");
            assert!(title.starts_with("a hook"), "{title}");
            assert!(title.chars().count() <= MOST_TITLE + 12, "{title}");
            assert!(text.chars().count() <= MOST_TEXT + 2, "{text}");
            assert!(!title.chars().chain(text.chars()).any(is_unseen));
            assert!(!text.starts_with('-'), "{text}");
        }
    }
}
