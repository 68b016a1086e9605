use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use proptest::prelude::*;
use tempfile::TempDir;

use hookjail_base::model::Consent;

use super::{state::Retained, *};
use crate::{
    files::Older,
    record::{
        CommandLine, Ended, Lost, OutcomeKind, PeerLine, Rebooted, Refused, Started, Stream, Torn,
        Usage,
    },
    verify::{BrokenAt, ChainBreak, Reboot, Tail, Verified, VerifyError, verify_journal},
};

#[test]
fn records_make_a_chain_that_verifies() {
    let dir = TempDir::new().unwrap();
    let journal = open(dir.path()).unwrap();

    journal.append(&started("a")).unwrap();
    journal.append(&ended("a")).unwrap();
    let last = journal.append(&refused("no")).unwrap();

    assert_eq!(last.sequence, 3);
    assert_eq!(verify_journal(dir.path()).unwrap(), verified(last.hash, 3));
}

#[test]
fn an_empty_journal_verifies() {
    let dir = TempDir::new().unwrap();
    let _journal = open(dir.path()).unwrap();

    assert_eq!(
        verify_journal(dir.path()).unwrap(),
        verified("0".repeat(64), 0)
    );
}

#[test]
fn lines_have_the_documented_form_and_hash() {
    let dir = TempDir::new().unwrap();
    let journal = open(dir.path()).unwrap();
    journal.append(&started("a")).unwrap();
    let appended = journal
        .append(&refused("\"quoted\",\"hash\":\"x\"}"))
        .unwrap();

    let text = fs::read_to_string(path(&dir)).unwrap();
    let line = text.lines().nth(1).unwrap();
    let keys = [
        "{\"sequence\":2,\"time\":\"",
        "\",\"instance\":\"",
        "\",\"previous\":\"",
        "\",\"record\":\"refused\",\"",
    ];
    let places: Vec<_> = keys.iter().map(|key| line.find(key).unwrap()).collect();
    assert!(places.is_sorted() && places[0] == 0, "{line}");
    let (sealed, hash) = line.rsplit_once(",\"hash\":").unwrap();
    assert_eq!(hash, format!("\"{}\"}}", appended.hash));
    assert_eq!(
        appended.hash,
        format!("{:x}", <sha2::Sha256 as sha2::Digest>::digest(sealed))
    );
}

#[test]
fn every_record_reads_back_as_it_was_written() {
    let dir = TempDir::new().unwrap();
    let journal = open(dir.path()).unwrap();
    let torn = Record::Torn(Torn {
        bytes: 3,
        text: "\u{fffd}x".into(),
    });
    let interrupted = Record::Interrupted(Interrupted {
        run_id: "r".into(),
        started_by: "i".into(),
        started_sequence: 9,
    });
    let records = [started("a"), ended("a"), refused("no"), interrupted, torn];
    for record in &records {
        journal.append(record).unwrap();
    }

    let text = fs::read_to_string(path(&dir)).unwrap();
    let read: Vec<Record> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(read, records);
}

#[test]
fn a_second_opening_continues_the_chain() {
    let dir = TempDir::new().unwrap();
    open(dir.path()).unwrap().append(&refused("first")).unwrap();

    let next = open(dir.path())
        .unwrap()
        .append(&refused("second"))
        .unwrap();

    assert_eq!(verify_journal(dir.path()).unwrap(), verified(next.hash, 2));
}

#[test]
fn two_writers_of_two_threads_each_share_one_chain() {
    let dir = TempDir::new().unwrap();
    let journals = [open(dir.path()).unwrap(), open(dir.path()).unwrap()];

    thread::scope(|scope| {
        for journal in journals.iter().chain(&journals) {
            scope.spawn(move || {
                for turn in 0..250 {
                    journal.append(&refused(&"x".repeat(turn * 40))).unwrap();
                }
            });
        }
    });

    assert_eq!(verify_journal(dir.path()).unwrap().records, 1000);
}

#[test]
fn a_record_larger_than_can_be_read_back_is_refused() {
    let dir = TempDir::new().unwrap();
    let journal = open(dir.path()).unwrap();

    let error = journal
        .append(&refused(&"x".repeat(MAX_LINE_BYTES)))
        .unwrap_err();

    assert!(matches!(error, JournalError::TooLarge { .. }), "{error}");
    journal.append(&refused("small")).unwrap();
    assert_eq!(verify_journal(dir.path()).unwrap().records, 1);
}

#[test]
fn a_failed_write_leaves_no_trace_and_the_next_succeeds() {
    let dir = TempDir::new().unwrap();
    let journal = open(dir.path()).unwrap();
    journal.append(&refused("first")).unwrap();
    let before = fs::read(path(&dir)).unwrap();

    let error = journal
        .append_through(&refused("second"), full_after_half)
        .unwrap_err();

    assert!(
        matches!(
            error,
            JournalError::Unusable {
                doing: "append to",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(fs::read(path(&dir)).unwrap(), before);
    assert_eq!(journal.append(&refused("third")).unwrap().sequence, 2);
    assert_eq!(verify_journal(dir.path()).unwrap().records, 2);
}

#[test]
fn an_unfinished_line_is_cut_off_and_noted_by_the_next_opening() {
    let dir = TempDir::new().unwrap();
    open(dir.path()).unwrap().append(&refused("first")).unwrap();
    add(&dir, b"{\"sequence\":2,\"ti");
    assert_eq!(broken(&dir), (2, ChainBreak::Unfinished));

    let _journal = open(dir.path()).unwrap();

    assert_eq!(verify_journal(dir.path()).unwrap().records, 2);
    let torn = Record::Torn(Torn {
        bytes: 17,
        text: "{\"sequence\":2,\"ti".into(),
    });
    assert_eq!(records(&dir)[1], torn);
}

#[test]
fn an_unfinished_line_of_another_writer_is_cut_off_by_a_running_one() {
    let dir = TempDir::new().unwrap();
    let journal = open(dir.path()).unwrap();
    journal.append(&refused("first")).unwrap();
    open(dir.path())
        .unwrap()
        .append(&refused("second"))
        .unwrap();
    add(&dir, &vec![0xff; 10_000]);

    journal.append(&refused("third")).unwrap();

    assert_eq!(verify_journal(dir.path()).unwrap().records, 4);
    let torn = Record::Torn(Torn {
        bytes: 10_000,
        text: "\u{fffd}".repeat(state::TORN_TEXT_BYTES),
    });
    assert_eq!(records(&dir)[2], torn);
}

#[test]
fn an_unfinished_first_line_is_cut_off() {
    let dir = TempDir::new().unwrap();
    add(&dir, b"{");
    fs::set_permissions(path(&dir), fs::Permissions::from_mode(0o600)).unwrap();

    let _journal = open(dir.path()).unwrap();

    assert_eq!(verify_journal(dir.path()).unwrap().records, 1);
}

#[test]
fn a_changed_last_record_is_not_continued() {
    let dir = TempDir::new().unwrap();
    open(dir.path()).unwrap().append(&refused("first")).unwrap();
    edit(&dir, |lines| lines[0] = lines[0].replace("first", "First"));

    let error = open(dir.path()).unwrap_err();

    assert!(matches!(error, JournalError::Broken { .. }), "{error}");
    assert_eq!(marks(&dir), 0);
}

#[test]
fn a_journal_cut_while_in_use_is_not_continued() {
    let dir = TempDir::new().unwrap();
    let journal = open(dir.path()).unwrap();
    journal.append(&refused("first")).unwrap();
    journal.append(&refused("second")).unwrap();
    edit(&dir, |lines| drop(lines.pop()));

    let error = journal.append(&refused("third")).unwrap_err();

    assert!(matches!(error, JournalError::Shrunk { .. }), "{error}");
}

#[test]
fn a_journal_removed_or_replaced_while_in_use_is_not_continued() {
    let dir = TempDir::new().unwrap();
    let journal = open(dir.path()).unwrap();
    journal.append(&refused("first")).unwrap();
    fs::remove_file(path(&dir)).unwrap();
    let removed = journal.append(&refused("lost")).unwrap_err();
    assert!(
        matches!(removed, JournalError::Replaced { .. }),
        "{removed}"
    );

    fs::write(path(&dir), "").unwrap();

    let replaced = journal.append(&refused("lost")).unwrap_err();
    assert!(
        matches!(replaced, JournalError::Replaced { .. }),
        "{replaced}"
    );
}

#[test]
fn runs_of_a_dead_writer_are_marked_interrupted_once() {
    let dir = TempDir::new().unwrap();
    let dead = open(dir.path()).unwrap();
    for run in ["a", "b", "c", "d"] {
        dead.append(&started(run)).unwrap();
    }
    dead.append(&ended("b")).unwrap();
    // Announced, and then not released after all.
    dead.append(&refused_run("d")).unwrap();
    let id = dead.mark.id().to_owned();
    // Its mark stays, for it has open runs: dropping it is dying.
    drop(dead);
    assert_eq!(marks(&dir), 1);

    drop(open(dir.path()).unwrap());
    drop(open(dir.path()).unwrap());

    let interrupted = |run: &str, started_sequence| {
        Record::Interrupted(Interrupted {
            run_id: run.into(),
            started_by: id.clone(),
            started_sequence,
        })
    };
    assert_eq!(
        records(&dir)[6..],
        [interrupted("a", 1), interrupted("c", 3)]
    );
    assert_eq!(verify_journal(dir.path()).unwrap().records, 8);
    assert_eq!(marks(&dir), 0);
}

#[test]
fn runs_already_marked_are_not_marked_again_when_the_marker_died_too() {
    let dir = TempDir::new().unwrap();
    let dead = open(dir.path()).unwrap();
    dead.append(&started("a")).unwrap();
    let mark = dead.mark.id().to_owned();
    drop(dead);
    drop(open(dir.path()).unwrap());
    // As if the one that wrote `interrupted` had died before it removed the mark.
    fs::write(dir.path().join(format!("instances/{mark}.lock")), "").unwrap();

    drop(open(dir.path()).unwrap());

    assert_eq!(records(&dir).len(), 2);
    assert_eq!(marks(&dir), 0);
}

/// Has a directory's journal be left by a writer that died, with this in its mark.
fn die(dir: &TempDir, mark: &str) {
    // A time before any boot.
    let id = "00000000-0000-7000-8000-000000000001";
    fs::write(dir.path().join(format!("instances/{id}.lock")), mark).unwrap();
}

#[test]
fn a_boot_under_a_writer_is_recorded_and_explains_an_end_that_is_missing() {
    let now = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let rebooted = |dir: &TempDir| {
        let records = records(dir).into_iter();
        let found = records.filter_map(|record| match record {
            Record::Rebooted(rebooted) => Some(rebooted),
            Record::Ended(_)
            | Record::Interrupted(_)
            | Record::Lost(_)
            | Record::Refused(_)
            | Record::Started(_)
            | Record::Torn(_) => None,
        });
        found.collect::<Vec<_>>()
    };
    for (mark, is_earlier) in [
        (now.trim(), false),
        ("another", true),
        ("", true),
        ("\0\0", true),
    ] {
        for removed in [0, 2] {
            let dir = five();
            die(&dir, mark);
            edit(&dir, |lines| lines.truncate(5 - removed));

            drop(open(dir.path()).unwrap());

            let noted_sequence = (removed > 0).then_some(5);
            let expected = Rebooted {
                boot_id: now.trim().to_owned(),
                missing_ms: 35_000,
                noted_sequence,
            };
            if is_earlier {
                assert_eq!(rebooted(&dir), [expected], "{mark:?}");
                let sequence = u64::try_from(6 - removed).unwrap();
                let reboot = Reboot {
                    missing_ms: 35_000,
                    sequence,
                };
                assert_eq!(verify_journal(dir.path()).unwrap().reboots, [reboot]);
            } else {
                assert_eq!(rebooted(&dir), []);
                assert_eq!(verify_journal(dir.path()).is_ok(), removed == 0);
            }
            assert_eq!(marks(&dir), 0);
            drop(open(dir.path()).unwrap());
            assert_eq!(rebooted(&dir).len(), usize::from(is_earlier), "again");
        }
    }
}

#[test]
fn a_boot_explains_no_record_that_was_replaced() {
    let (dir, other) = (five(), five());
    fs::copy(path(&other), path(&dir)).unwrap();
    die(&dir, "another");

    drop(open(dir.path()).unwrap());

    assert!(matches!(
        &records(&dir)[5..],
        [Record::Rebooted(_), Record::Lost(_)]
    ));
    assert_eq!(broken(&dir), (7, ChainBreak::Lost));
}

#[test]
fn runs_of_a_living_writer_are_left_alone() {
    let dir = TempDir::new().unwrap();
    let living = open(dir.path()).unwrap();
    living.append(&started("a")).unwrap();

    drop(open(dir.path()).unwrap());
    living.append(&ended("a")).unwrap();
    drop(living);

    assert_eq!(records(&dir), [started("a"), ended("a")]);
    assert_eq!(marks(&dir), 0);
}

#[test]
fn a_run_whose_end_could_not_be_written_is_found_interrupted() {
    let dir = TempDir::new().unwrap();
    let journal = open(dir.path()).unwrap();
    journal.append(&started("a")).unwrap();
    journal
        .append_through(&ended("a"), full_after_half)
        .unwrap_err();
    drop(journal);

    drop(open(dir.path()).unwrap());

    assert!(matches!(&records(&dir)[..], [_, Record::Interrupted(run)] if run.run_id == "a"));
}

#[test]
fn files_are_made_for_the_owner_alone() {
    let dir = TempDir::new().unwrap();
    let inner = dir.path().join("state/audit");
    let _journal = open(&inner).unwrap();

    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(dir.path().join("state")), 0o700);
    assert_eq!(mode(inner.clone()), 0o700);
    assert_eq!(mode(inner.join("instances")), 0o700);
    assert_eq!(mode(inner.join("journal.jsonl")), 0o600);
    assert_eq!(mode(inner.join("journal.lock")), 0o600);
}

#[test]
fn a_file_or_directory_that_others_can_write_is_refused() {
    for (name, mode) in [
        ("journal.jsonl", 0o620),
        ("journal.jsonl", 0o602),
        ("journal.lock", 0o660),
        ("", 0o770),
    ] {
        let dir = TempDir::new().unwrap();
        drop(open(dir.path()).unwrap());
        let path = dir.path().join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();

        let error = open(dir.path()).unwrap_err();

        assert!(
            matches!(
                error,
                JournalError::Untrusted {
                    source: Untrusted::Writable { .. },
                    ..
                }
            ),
            "{name}: {error}"
        );
    }
}

#[test]
fn a_symbolic_link_is_refused() {
    let dir = TempDir::new().unwrap();
    let elsewhere = dir.path().join("elsewhere");
    fs::write(&elsewhere, "").unwrap();
    symlink(&elsewhere, path(&dir)).unwrap();

    let error = open(dir.path()).unwrap_err();

    assert!(
        matches!(
            error,
            JournalError::Untrusted {
                source: Untrusted::Symlink,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_fifo_is_refused_without_waiting() {
    let dir = TempDir::new().unwrap();
    nix::unistd::mkfifo(&path(&dir), nix::sys::stat::Mode::S_IRWXU).unwrap();

    let error = open(dir.path()).unwrap_err();

    assert!(
        matches!(
            error,
            JournalError::Untrusted {
                source: Untrusted::Kind { .. },
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_removed_record_is_named() {
    let dir = five();
    edit(&dir, |lines| drop(lines.remove(2)));
    assert_eq!(
        broken(&dir),
        (
            3,
            ChainBreak::Misplaced {
                expected: 3,
                found: 4
            }
        )
    );
}

#[test]
fn a_removed_first_record_is_named() {
    let dir = five();
    edit(&dir, |lines| drop(lines.remove(0)));
    assert_eq!(
        broken(&dir),
        (
            1,
            ChainBreak::Misplaced {
                expected: 1,
                found: 2
            }
        )
    );
}

#[test]
fn two_swapped_records_are_named() {
    let dir = five();
    edit(&dir, |lines| lines.swap(1, 2));
    assert_eq!(
        broken(&dir),
        (
            2,
            ChainBreak::Misplaced {
                expected: 2,
                found: 3
            }
        )
    );
}

#[test]
fn a_record_replaced_by_one_with_a_fitting_hash_is_named_by_its_successor() {
    let (dir, other) = (five(), five());
    let foreign = lines(&other).swap_remove(1);
    edit(&dir, |lines| lines[1] = foreign);
    assert_eq!(broken(&dir), (2, ChainBreak::Unlinked));
}

#[test]
fn a_last_line_without_its_newline_is_named() {
    let dir = five();
    let text = fs::read(path(&dir)).unwrap();
    fs::write(path(&dir), &text[..text.len() - 1]).unwrap();
    assert_eq!(broken(&dir), (5, ChainBreak::Unfinished));
}

#[test]
fn a_tail_cut_off_is_named() {
    for left in 0..5 {
        let dir = five();
        let text: Vec<_> = lines(&dir)[..left]
            .iter()
            .map(|line| format!("{line}\n"))
            .collect();
        fs::write(path(&dir), text.concat()).unwrap();

        let last = u64::try_from(left).unwrap();
        let cut = ChainBreak::Cut { last, noted: 5 };
        assert_eq!(broken(&dir), (last + 1, cut));
        assert_eq!(broken_at(&dir).record, Some(last + 1));
    }
}

#[test]
fn a_tail_cut_off_is_recorded_by_the_next_opening_and_never_verifies_again() {
    let dir = five();
    let noted = serde_json::from_str::<serde_json::Value>(&lines(&dir)[4]).unwrap();
    edit(&dir, |lines| lines.truncate(3));
    add(&dir, b"{\"sequence\":4");

    let journal = open(dir.path()).unwrap();
    journal.append(&refused("after")).unwrap();

    let lost = Record::Lost(Lost {
        hash: Some(noted["hash"].as_str().unwrap().to_owned()),
        sequence: Some(5),
    });
    assert_eq!(records(&dir)[3], lost);
    assert!(matches!(&records(&dir)[4..], [Record::Torn(_), after] if *after == refused("after")));
    assert_eq!(broken(&dir), (4, ChainBreak::Lost));
}

#[test]
fn a_chain_rewritten_to_the_same_length_is_named_and_recorded() {
    let (dir, other) = (five(), five());
    fs::copy(path(&other), path(&dir)).unwrap();
    assert_eq!(broken(&dir), (5, ChainBreak::Rewritten));

    drop(open(dir.path()).unwrap());

    assert!(matches!(records(&dir)[5], Record::Lost(_)));
}

#[test]
fn a_note_that_is_missing_or_damaged_is_named_and_recorded() {
    for damage in [None, Some("{}"), Some("")] {
        let dir = five();
        let note = dir.path().join("head.json");
        match damage {
            None => fs::remove_file(&note).unwrap(),
            Some(text) => fs::write(&note, text).unwrap(),
        }
        assert_eq!(broken(&dir), (1, ChainBreak::NoNote));

        drop(open(dir.path()).unwrap());

        let lost = Lost {
            hash: None,
            sequence: None,
        };
        assert_eq!(records(&dir)[5], Record::Lost(lost));
    }
}

#[test]
fn a_writer_that_died_before_it_noted_its_record_is_no_loss() {
    let dir = five();
    let note = dir.path().join("head.json");
    let before = fs::read(&note).unwrap();
    open(dir.path()).unwrap().append(&refused("six")).unwrap();
    fs::write(&note, before).unwrap();
    assert_eq!(verify_journal(dir.path()).unwrap().records, 6);

    let journal = open(dir.path()).unwrap();
    journal.append(&refused("seven")).unwrap();

    assert_eq!(records(&dir)[6], refused("seven"));
    assert_eq!(verify_journal(dir.path()).unwrap().records, 7);
}

#[test]
fn a_full_file_is_followed_by_the_next_and_the_chain_goes_on() {
    let dir = TempDir::new().unwrap();
    let journal = Journal::open(dir.path(), SMALL).unwrap();
    for _ in 0..49 {
        journal.append(&refused("x")).unwrap();
    }
    let last = journal.append(&refused("x")).unwrap();

    let older = Older::list(dir.path()).unwrap();
    assert!(older.len() > 3, "{older:?}");
    assert!(fs::metadata(path(&dir)).unwrap().len() <= SMALL.rotate_bytes);
    for older in &older {
        let length = fs::metadata(&older.path).unwrap().len();
        assert!(length <= SMALL.rotate_bytes, "{length}");
    }
    let expected = Verified {
        files: older.len() + 1,
        ..verified(last.hash, 50)
    };
    assert_eq!(verify_journal(dir.path()).unwrap(), expected);
    assert_eq!(whole(&dir).len(), 50);
}

/// A file system may have a file's new name and length, and zeros where its end was, after a power cut.
#[test]
fn a_rotated_file_whose_end_is_lost_is_cut_off_and_the_chain_goes_on() {
    for lost in [1, 40, 700, 1500] {
        let (dir, older) = older_files();
        let newest = older.last().unwrap();
        let whole_text = fs::read(&newest.path).unwrap();
        let kept = whole_text.len().saturating_sub(lost);
        let zeros = vec![0; whole_text.len() - kept];
        fs::write(&newest.path, [&whole_text[..kept], &zeros[..]].concat()).unwrap();
        fs::write(path(&dir), "").unwrap();

        let journal = Journal::open(dir.path(), SMALL).unwrap();
        journal.append(&refused("after")).unwrap();

        let records = whole(&dir);
        let [.., noted, torn, after] = &records[..] else {
            panic!("{records:?}")
        };
        assert!(matches!(noted, Record::Lost(_)), "{lost}: {noted:?}");
        let Record::Torn(torn) = torn else {
            panic!("{lost}: {torn:?}")
        };
        let before = whole_text[..kept].iter().rposition(|byte| *byte == b'\n');
        let end = before.map_or(0, |newline| newline + 1);
        assert_eq!(torn.bytes, bytes(&whole_text[end..]), "{lost}");
        assert_eq!(*after, refused("after"));
        // That records are missing stays to be seen.
        assert_eq!(broken_at(&dir).why, ChainBreak::Lost, "{lost}");
    }
}

/// The same in the file that is written: a page in the middle of its last line.
#[test]
fn a_last_line_with_a_page_of_zeros_is_unfinished_and_one_that_was_edited_is_broken() {
    let dir = five();
    let text = fs::read(path(&dir)).unwrap();
    let from = text.len() - 60;
    let mut lost = text.clone();
    lost[from..from + 30].fill(0);
    fs::write(path(&dir), &lost).unwrap();
    drop(open(dir.path()).unwrap());
    let found = records(&dir);
    assert_eq!(found.len(), 6);
    assert!(
        matches!(&found[4..], [Record::Lost(_), Record::Torn(_)]),
        "{found:?}"
    );
    assert_eq!(broken_at(&dir).why, ChainBreak::Lost);

    let dir = five();
    let mut edited = text;
    edited[from] ^= 1;
    fs::write(path(&dir), &edited).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(matches!(error, JournalError::Broken { .. }), "{error}");
}

#[test]
fn writers_follow_each_other_into_the_files_they_begin() {
    let dir = TempDir::new().unwrap();
    let journals = [
        Journal::open(dir.path(), SMALL).unwrap(),
        Journal::open(dir.path(), SMALL).unwrap(),
    ];
    thread::scope(|scope| {
        for journal in journals.iter().chain(&journals) {
            scope.spawn(move || {
                for _ in 0..100 {
                    journal.append(&refused("x")).unwrap();
                }
            });
        }
    });

    assert_eq!(verify_journal(dir.path()).unwrap().records, 400);
    assert_eq!(whole(&dir).len(), 400);
}

#[test]
fn no_more_files_are_kept_than_wanted_and_what_is_missing_at_the_beginning_is_said() {
    let dir = TempDir::new().unwrap();
    let settings = Settings {
        keep_files: 2,
        ..SMALL
    };
    let journal = Journal::open(dir.path(), settings).unwrap();
    for _ in 0..50 {
        journal.append(&refused("x")).unwrap();
    }

    let older = Older::list(dir.path()).unwrap();
    let verified = verify_journal(dir.path()).unwrap();
    assert_eq!((older.len(), verified.files), (2, 3));
    assert_eq!(verified.first, older[0].first);
    assert_eq!(verified.first + verified.records, 51);

    fs::remove_file(&older[0].path).unwrap();
    let missing = ChainBreak::MissingFile {
        from: older[0].first,
        to: older[1].first - 1,
    };
    assert_eq!(broken(&dir), (1, missing));
}

#[test]
fn no_file_with_young_records_is_removed() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const KEPT: Duration = DAY.saturating_mul(2);

    fn almost_in_two_days() -> Timestamp {
        Timestamp::now() + KEPT - Duration::from_secs(600)
    }
    fn in_two_days() -> Timestamp {
        Timestamp::now() + KEPT
    }

    let dir = TempDir::new().unwrap();
    let settings = Settings {
        keep_files: 2,
        keep_younger: KEPT,
        ..SMALL
    };
    let journal = Journal::open(dir.path(), settings).unwrap();
    let append_by = |clock: fn() -> Timestamp| {
        journal.shared.state.lock().unwrap().clock = clock;
        for _ in 0..50 {
            journal.append(&refused("x")).unwrap();
        }
        let retained = journal.shared.state.lock().unwrap().retained;
        let verified = verify_journal(dir.path()).unwrap();
        (Older::list(dir.path()).unwrap().len(), retained, verified)
    };
    let (files, retained, verified) = append_by(Timestamp::now);
    assert!(files > 5, "{files}");
    assert_eq!(
        (retained, verified.first, verified.records),
        (Retained::More, 1, 50)
    );
    let (more, retained, verified) = append_by(almost_in_two_days);
    assert!(more > files, "{more}");
    assert_eq!(
        (retained, verified.first, verified.records),
        (Retained::More, 1, 100)
    );
    let (files, retained, verified) = append_by(in_two_days);
    assert_eq!((files, retained), (2, Retained::Wanted));
    assert_eq!(verified.first + verified.records, 151);
}

#[test]
fn a_missing_file_is_named_wherever_it_was() {
    let files = older_files().1.len();
    for missing in 0..files {
        let (dir, older) = older_files();
        fs::remove_file(&older[missing].path).unwrap();
        let next = older.get(missing + 1).map(|next| next.first);
        let next = next.unwrap_or_else(|| first_of(&path(&dir)));
        let expected = ChainBreak::MissingFile {
            from: older[missing].first,
            to: next - 1,
        };
        let broken = broken_at(&dir);
        assert_eq!(broken.why, expected);
        assert_eq!(
            broken.file,
            Path::new(older[missing].path.file_name().unwrap())
        );
    }
}

#[test]
fn a_record_edited_in_an_older_file_is_named_with_its_file() {
    let (dir, older) = older_files();
    let text = fs::read_to_string(&older[1].path).unwrap();
    let place = text.rfind("guard").unwrap();
    let mut text = text.into_bytes();
    text[place] = b'G';
    fs::write(&older[1].path, &text).unwrap();

    let broken = broken_at(&dir);

    assert_eq!(
        (&broken.file, broken.why),
        (&older[1].path, ChainBreak::Edited)
    );
    assert_eq!(broken.record, Some(older[2].first - 1));
}

#[test]
fn a_writer_that_died_between_two_files_is_followed_by_the_next() {
    let dir = five();
    let next = Older::new(dir.path(), 1);
    fs::rename(path(&dir), &next.path).unwrap();
    assert_eq!(verify_journal(dir.path()).unwrap().records, 5);

    let journal = open(dir.path()).unwrap();
    journal.append(&refused("six")).unwrap();

    let verified = verify_journal(dir.path()).unwrap();
    assert_eq!((verified.files, verified.records), (2, 6));
    assert_eq!(whole(&dir)[5], refused("six"));
}

#[test]
fn a_living_writer_goes_on_where_another_died_between_two_files() {
    let dir = five();
    let journal = open(dir.path()).unwrap();
    fs::rename(path(&dir), Older::new(dir.path(), 1).path).unwrap();

    journal.append(&refused("six")).unwrap();

    assert_eq!(verify_journal(dir.path()).unwrap().records, 6);
    assert_eq!(whole(&dir)[5], refused("six"));
}

#[test]
fn runs_are_settled_though_they_started_in_an_older_file() {
    let dir = TempDir::new().unwrap();
    let dead = Journal::open(dir.path(), SMALL).unwrap();
    dead.append(&started("a")).unwrap();
    for _ in 0..20 {
        dead.append(&refused("x")).unwrap();
    }
    drop(dead);
    assert!(!Older::list(dir.path()).unwrap().is_empty());

    drop(Journal::open(dir.path(), SMALL).unwrap());

    let last = whole(&dir).pop().unwrap();
    assert!(
        matches!(last, Record::Interrupted(run) if run.run_id == "a" && run.started_sequence == 1)
    );
}

#[test]
fn a_living_writer_settles_the_runs_of_dead_ones_before_it_removes_a_file() {
    let dir = TempDir::new().unwrap();
    let settings = Settings {
        keep_files: 1,
        ..SMALL
    };
    let living = Journal::open(dir.path(), settings).unwrap();
    for run in ["a", "b"] {
        let dead = Journal::open(dir.path(), settings).unwrap();
        dead.append(&started(run)).unwrap();
        drop(dead);
        let is_settled =
            |record: &Record| matches!(record, Record::Interrupted(it) if it.run_id == run);
        let (mut settled, mut removed) = (false, false);
        let give_up = Instant::now() + Duration::from_secs(20);
        while !settled || !removed {
            assert!(Instant::now() < give_up, "{run}: {settled} {removed}");
            living.append(&refused("x")).unwrap();
            settled |= whole(&dir).iter().any(is_settled);
            removed = Older::list(dir.path()).unwrap().len() == 1;
            // Settling has a thread of its own.
            thread::sleep(Duration::from_millis(1));
        }
        let marks = fs::read_dir(dir.path().join(INSTANCES)).unwrap().count();
        assert_eq!(marks, 1, "{run}");
    }
    assert!(verify_journal(dir.path()).is_ok());
}

#[test]
fn a_reader_follows_writers_from_file_to_file_and_reads_nothing_twice() {
    let dir = TempDir::new().unwrap();
    let journal = Journal::open(dir.path(), SMALL).unwrap();
    let mut reader = JournalReader::open(dir.path());
    let mut read = 0;
    for turn in 1..=60 {
        journal.append(&refused("x")).unwrap();
        // Now and then, so that it falls behind by a file and more.
        if turn % 17 != 0 && turn != 60 {
            continue;
        }
        while let Some(line) = reader.next_line().unwrap() {
            read += 1;
            let link: serde_json::Value = serde_json::from_slice(line).unwrap();
            assert_eq!(link["sequence"], read);
        }
    }
    assert_eq!(read, 60);
}

#[test]
fn a_reader_takes_an_unfinished_line_only_when_it_is_whole() {
    let dir = TempDir::new().unwrap();
    let mut reader = JournalReader::open(dir.path());
    assert_eq!(reader.next_line().unwrap(), None);
    add(&dir, b"one\ntw");
    assert_eq!(reader.next_line().unwrap(), Some(&b"one"[..]));
    assert_eq!(reader.next_line().unwrap(), None);
    // Cut off by the next writer, who goes on in its place.
    fs::write(path(&dir), "one\nthree\n").unwrap();
    assert_eq!(reader.next_line().unwrap(), Some(&b"three"[..]));
    assert_eq!(reader.next_line().unwrap(), None);
}

#[test]
fn records_are_written_under_every_policy() {
    for fsync in [Fsync::Always, Fsync::Every(Duration::from_millis(10))] {
        let dir = TempDir::new().unwrap();
        let settings = Settings { fsync, ..SMALL };
        let journal = Journal::open(dir.path(), settings).unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        journal.append(&refused("x")).unwrap();
                    }
                });
            }
        });
        drop(journal);
        assert_eq!(verify_journal(dir.path()).unwrap().records, 100);
    }
}

#[test]
fn the_disk_has_a_record_before_it_counts_or_soon_or_when_the_kernel_sees_fit() {
    let every = Fsync::Every(Duration::from_millis(10));
    for (fsync, at_once, soon) in [
        (Fsync::Always, true, true),
        (every, false, true),
        (Fsync::Never, false, false),
    ] {
        let dir = TempDir::new().unwrap();
        let settings = Settings { fsync, ..SMALL };
        let journal = Journal::open(dir.path(), settings).unwrap();
        let reached = || journal.shared.synced.reached();
        let last = journal.append(&refused("x")).unwrap().sequence;
        if at_once {
            assert_eq!(reached(), last);
        }
        while soon && reached() < last {
            thread::yield_now();
        }
        if !soon {
            assert_eq!(reached(), 0);
        }
    }
}

#[test]
fn a_file_that_was_taken_away_is_missed() {
    let dir = five();
    fs::remove_file(path(&dir)).unwrap();
    assert_eq!(broken(&dir), (1, ChainBreak::Cut { last: 0, noted: 5 }));

    let (dir, older) = older_files();
    fs::remove_file(path(&dir)).unwrap();
    let ChainBreak::Cut { last, noted: 30 } = broken_at(&dir).why else {
        panic!("{:?}", broken_at(&dir))
    };
    assert!(last >= older.last().unwrap().first, "{last}");

    let empty = TempDir::new().unwrap();
    let error = verify_journal(empty.path()).unwrap_err();
    assert!(matches!(error, VerifyError::Unreadable { .. }), "{error}");
}

#[test]
fn nothing_is_written_any_more_once_the_disk_did_not_take_a_record() {
    let dir = TempDir::new().unwrap();
    let journal = open(dir.path()).unwrap();
    // A pipe cannot be synced: the system reports that, as a disk would.
    let (_reader, writer) = io::pipe().unwrap();
    let file = Arc::new(File::from(std::os::fd::OwnedFd::from(writer)));
    let path = path(&dir);
    journal
        .shared
        .synced
        .through(1, || (file, 1, path.clone()))
        .unwrap_err();

    let error = journal.append(&refused("x")).unwrap_err();

    assert!(matches!(error, JournalError::Unsynced { .. }), "{error}");
}

/// A few records fill a file.
const SMALL: Settings = Settings {
    fsync: Fsync::Never,
    keep_files: 0,
    keep_younger: Duration::ZERO,
    rotate_bytes: 3000,
};

fn older_files() -> (TempDir, Vec<Older>) {
    let dir = TempDir::new().unwrap();
    let journal = Journal::open(dir.path(), SMALL).unwrap();
    for _ in 0..30 {
        journal.append(&refused("x")).unwrap();
    }
    let older = Older::list(dir.path()).unwrap();
    assert!(older.len() > 2, "{older:?}");
    (dir, older)
}

fn first_of(path: &Path) -> u64 {
    files::first_claimed(&File::open(path).unwrap())
        .unwrap()
        .unwrap()
}

/// Reads the records of all files.
fn whole(dir: &TempDir) -> Vec<Record> {
    let mut reader = JournalReader::open(dir.path());
    let mut records = Vec::new();
    while let Some(line) = reader.next_line().unwrap() {
        records.push(serde_json::from_slice(line).unwrap());
    }
    records
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_byte_is_named(at in any::<prop::sample::Index>(), flip in 1..=255_u8) {
        let dir = five();
        let mut text = fs::read(path(&dir)).unwrap();
        let at = at.index(text.len());
        let line = 1 + text[..at].iter().filter(|byte| **byte == b'\n').count();
        text[at] ^= flip;
        fs::write(path(&dir), &text).unwrap();

        prop_assert_eq!(broken(&dir).0, u64::try_from(line).unwrap());
    }

    #[test]
    fn any_tail_is_cut_off_and_the_chain_goes_on(tail in "[^\n]{1,200}", writers in 1..3_usize) {
        let dir = five();
        for _ in 0..writers {
            add(&dir, tail.as_bytes());
            drop(open(dir.path()).unwrap());
        }

        prop_assert_eq!(verify_journal(dir.path()).unwrap().records, 5 + u64::try_from(writers).unwrap());
    }
}

#[test]
fn room_for_ends_is_kept_after_an_attempt_and_after_a_record_that_failed() {
    fn allocated(dir: &TempDir) -> (u64, u64) {
        let found = fs::metadata(dir.path().join("journal.jsonl")).unwrap();
        (found.blocks() * 512, found.len())
    }
    let keeps = |dir: &TempDir| {
        let (allocated, length) = allocated(dir);
        allocated >= length + (64 << 10)
    };
    // Not a memory file system, which gives back nothing with a cut.
    let dir = TempDir::new_in("/var/tmp").unwrap();
    let journal = Journal::open(dir.path(), Settings::default()).unwrap();
    journal.append(&started("a")).unwrap();
    assert!(keeps(&dir), "{:?}", allocated(&dir));

    journal.check_room().unwrap();
    assert!(keeps(&dir), "{:?}", allocated(&dir));

    journal
        .append_through(&refused("b"), full_after_half)
        .unwrap_err();
    journal.append(&started("c")).unwrap();
    assert!(keeps(&dir), "{:?}", allocated(&dir));
}

fn full_after_half(mut file: &File, line: &[u8]) -> io::Result<()> {
    file.write_all(&line[..line.len() / 2])?;
    Err(nix::errno::Errno::ENOSPC.into())
}

fn bytes(data: &[u8]) -> u64 {
    u64::try_from(data.len()).unwrap()
}

fn path(dir: &TempDir) -> PathBuf {
    dir.path().join("journal.jsonl")
}

fn five() -> TempDir {
    let dir = TempDir::new().unwrap();
    let journal = open(dir.path()).unwrap();
    for message in ["one", "two", "three", "four", "five"] {
        journal.append(&refused(message)).unwrap();
    }
    dir
}

fn lines(dir: &TempDir) -> Vec<String> {
    fs::read_to_string(path(dir))
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

fn edit(dir: &TempDir, change: impl FnOnce(&mut Vec<String>)) {
    let mut lines = lines(dir);
    change(&mut lines);
    fs::write(path(dir), lines.join("\n") + "\n").unwrap();
}

fn add(dir: &TempDir, tail: &[u8]) {
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path(dir))
        .unwrap()
        .write_all(tail)
        .unwrap();
}

fn records(dir: &TempDir) -> Vec<Record> {
    lines(dir)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn broken(dir: &TempDir) -> (u64, ChainBreak) {
    let BrokenAt { line, why, .. } = broken_at(dir);
    (line, why)
}

fn broken_at(dir: &TempDir) -> BrokenAt {
    match verify_journal(dir.path()).unwrap_err() {
        VerifyError::Broken(broken) => broken,
        VerifyError::Unreadable { source, .. } => panic!("{source}"),
    }
}

fn open(dir: &Path) -> Result<Journal, JournalError> {
    Journal::open(dir, Settings::default())
}

fn verified(head: String, records: u64) -> Verified {
    Verified {
        files: 1,
        first: 1,
        head,
        records,
        reboots: Vec::new(),
        tail: Tail::Noted,
    }
}

fn marks(dir: &TempDir) -> usize {
    fs::read_dir(dir.path().join("instances")).unwrap().count()
}

pub(crate) fn started(run: &str) -> Record {
    Record::Started(Box::new(Started {
        run_id: run.into(),
        request_sha256: None,
        request_id: "request".into(),
        hook: "guard".into(),
        command: CommandLine::new(&[
            "/usr/bin/python3".into(),
            "/home/user/hooks/guard.py".into(),
        ]),
        program: "/usr/bin/python3.12".into(),
        digests: Vec::new(),
        consent: Consent::Allowlist,
        answered_by: None,
        contract: "reyn".into(),
        mode: "exec".into(),
        point: "tool.pre".into(),
        session: String::new(),
        peer: PeerLine {
            pid: Some(7),
            remote: None,
            uid: 1000,
        },
        policy_version: None,
        profile: "strict".into(),
        profile_digest: "f".repeat(64),
        backend: "landlock".into(),
        passed_over: Vec::new(),
        unconfined: false,
        axes: hookjail_base::model::axis::Axis::ALL
            .map(|axis| {
                let coverage = hookjail_base::model::axis::Coverage::Enforced { by: "landlock" };
                crate::record::AxisLine::new(
                    axis,
                    hookjail_base::model::axis::Demand::Required,
                    &coverage,
                )
            })
            .to_vec(),
        timeout_ms: 5000,
        trace: None,
        event_sha256: "e".repeat(64),
        event: None,
        event_bytes: 812,
        environment: vec!["REYN_POINT".into()],
        working_dir: None,
        workspace: None,
    }))
}

fn ended(run: &str) -> Record {
    let stream = Stream {
        kept: None,
        sha256: None,
        total_bytes: 12,
        truncated: false,
    };
    Record::Ended(Box::new(Ended {
        egress: Vec::new(),
        measures: serde_json::Map::new(),
        more_egress: 0,
        run_id: run.into(),
        released: true,
        outcome: OutcomeKind::Exited,
        exit_code: Some(0),
        killed_by: None,
        signal: None,
        stdout: stream.clone(),
        stderr: stream,
        verdict: None,
        event: None,
        confirmed: true,
        unconfined: false,
        evidence: vec!["read: denied".into()],
        denied: Vec::new(),
        incidental: Vec::new(),
        refused_lines: 0,
        usage: Usage::default(),
    }))
}

pub(crate) fn refused(message: &str) -> Record {
    refusal(message, None)
}

pub(crate) fn refused_run(run_id: &str) -> Record {
    refusal("a step failed", Some(run_id.to_owned()))
}

fn refusal(message: &str, run_id: Option<String>) -> Record {
    Record::Refused(Box::new(Refused {
        contract: String::new(),
        point: String::new(),
        count: None,
        run_id,
        released: false,
        request_id: "request".into(),
        reason: "CONSENT_REQUIRED".into(),
        message: message.into(),
        killed_by: None,
        hook: "guard".into(),
        command: Some(CommandLine::new(&["true".into()])),
        peer: PeerLine {
            pid: None,
            remote: None,
            uid: 0,
        },
        profile: None,
        session: String::new(),
        trace: None,
        workspace: None,
    }))
}

mod as_root {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn a_file_of_another_owner_is_refused() {
        assert!(nix::unistd::geteuid().is_root(), "this test needs root");
        let dir = TempDir::new().unwrap();
        drop(open(dir.path()).unwrap());
        std::os::unix::fs::chown(path(&dir), Some(12345), None).unwrap();

        let error = open(dir.path()).unwrap_err();

        let JournalError::Untrusted {
            source: Untrusted::Owner { found, .. },
            ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!(found, 12345);
    }
}
