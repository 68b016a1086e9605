use std::{
    os::unix::fs::{PermissionsExt, symlink},
    thread,
};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::audit::{
    record::{Command, Consent, Ended, OutcomeKind, Peer, Refused, Started, Stream, Usage},
    verify::{Break, BrokenAt, Verified, VerifyError, verify},
};

#[test]
fn records_make_a_chain_that_verifies() {
    let dir = TempDir::new().unwrap();
    let journal = Journal::open(dir.path()).unwrap();

    journal.append(&started("a")).unwrap();
    journal.append(&ended("a")).unwrap();
    let last = journal.append(&refused("no")).unwrap();

    assert_eq!(last.sequence, 3);
    assert_eq!(
        verify(&path(&dir)).unwrap(),
        Verified {
            head: last.hash,
            records: 3
        }
    );
}

#[test]
fn an_empty_journal_verifies() {
    let dir = TempDir::new().unwrap();
    let _journal = Journal::open(dir.path()).unwrap();

    assert_eq!(
        verify(&path(&dir)).unwrap(),
        Verified {
            head: "0".repeat(64),
            records: 0
        }
    );
}

#[test]
fn lines_have_the_documented_form_and_hash() {
    let dir = TempDir::new().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
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
    let journal = Journal::open(dir.path()).unwrap();
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
    Journal::open(dir.path())
        .unwrap()
        .append(&refused("first"))
        .unwrap();

    let next = Journal::open(dir.path())
        .unwrap()
        .append(&refused("second"))
        .unwrap();

    assert_eq!(
        verify(&path(&dir)).unwrap(),
        Verified {
            head: next.hash,
            records: 2
        }
    );
}

#[test]
fn two_writers_of_two_threads_each_share_one_chain() {
    let dir = TempDir::new().unwrap();
    let journals = [
        Journal::open(dir.path()).unwrap(),
        Journal::open(dir.path()).unwrap(),
    ];

    thread::scope(|scope| {
        for journal in journals.iter().chain(&journals) {
            scope.spawn(move || {
                for turn in 0..250 {
                    journal.append(&refused(&"x".repeat(turn * 40))).unwrap();
                }
            });
        }
    });

    assert_eq!(verify(&path(&dir)).unwrap().records, 1000);
}

#[test]
fn a_record_larger_than_can_be_read_back_is_refused() {
    let dir = TempDir::new().unwrap();
    let journal = Journal::open(dir.path()).unwrap();

    let error = journal
        .append(&refused(&"x".repeat(MAX_LINE_BYTES)))
        .unwrap_err();

    assert!(matches!(error, JournalError::TooLarge { .. }), "{error}");
    journal.append(&refused("small")).unwrap();
    assert_eq!(verify(&path(&dir)).unwrap().records, 1);
}

#[test]
fn a_failed_write_leaves_no_trace_and_the_next_succeeds() {
    let dir = TempDir::new().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
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
    assert_eq!(verify(&path(&dir)).unwrap().records, 2);
}

#[test]
fn an_unfinished_line_is_cut_off_and_noted_by_the_next_opening() {
    let dir = TempDir::new().unwrap();
    Journal::open(dir.path())
        .unwrap()
        .append(&refused("first"))
        .unwrap();
    add(&dir, b"{\"sequence\":2,\"ti");
    assert_eq!(
        broken(&dir),
        BrokenAt {
            line: 2,
            why: Break::Unfinished
        }
    );

    let _journal = Journal::open(dir.path()).unwrap();

    assert_eq!(verify(&path(&dir)).unwrap().records, 2);
    let torn = Record::Torn(Torn {
        bytes: 17,
        text: "{\"sequence\":2,\"ti".into(),
    });
    assert_eq!(records(&dir)[1], torn);
}

#[test]
fn an_unfinished_line_of_another_writer_is_cut_off_by_a_running_one() {
    let dir = TempDir::new().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    journal.append(&refused("first")).unwrap();
    Journal::open(dir.path())
        .unwrap()
        .append(&refused("second"))
        .unwrap();
    add(&dir, &vec![0xff; 10_000]);

    journal.append(&refused("third")).unwrap();

    assert_eq!(verify(&path(&dir)).unwrap().records, 4);
    let torn = Record::Torn(Torn {
        bytes: 10_000,
        text: "\u{fffd}".repeat(TORN_TEXT_BYTES),
    });
    assert_eq!(records(&dir)[2], torn);
}

#[test]
fn an_unfinished_first_line_is_cut_off() {
    let dir = TempDir::new().unwrap();
    add(&dir, b"{");
    fs::set_permissions(path(&dir), fs::Permissions::from_mode(0o600)).unwrap();

    let _journal = Journal::open(dir.path()).unwrap();

    assert_eq!(verify(&path(&dir)).unwrap().records, 1);
}

#[test]
fn a_changed_last_record_is_not_continued() {
    let dir = TempDir::new().unwrap();
    Journal::open(dir.path())
        .unwrap()
        .append(&refused("first"))
        .unwrap();
    edit(&dir, |lines| lines[0] = lines[0].replace("first", "First"));

    let error = Journal::open(dir.path()).unwrap_err();

    assert!(matches!(error, JournalError::Broken { .. }), "{error}");
    assert_eq!(marks(&dir), 0);
}

#[test]
fn a_journal_cut_while_in_use_is_not_continued() {
    let dir = TempDir::new().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    journal.append(&refused("first")).unwrap();
    journal.append(&refused("second")).unwrap();
    edit(&dir, |lines| drop(lines.pop()));

    let error = journal.append(&refused("third")).unwrap_err();

    assert!(matches!(error, JournalError::Shrunk { .. }), "{error}");
}

#[test]
fn a_journal_removed_or_replaced_while_in_use_is_not_continued() {
    let dir = TempDir::new().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
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
    let dead = Journal::open(dir.path()).unwrap();
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

    drop(Journal::open(dir.path()).unwrap());
    drop(Journal::open(dir.path()).unwrap());

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
    assert_eq!(verify(&path(&dir)).unwrap().records, 8);
    assert_eq!(marks(&dir), 0);
}

#[test]
fn runs_already_marked_are_not_marked_again_when_the_marker_died_too() {
    let dir = TempDir::new().unwrap();
    let dead = Journal::open(dir.path()).unwrap();
    dead.append(&started("a")).unwrap();
    let mark = dead.mark.id().to_owned();
    drop(dead);
    drop(Journal::open(dir.path()).unwrap());
    // As if the one that wrote `interrupted` had died before it removed the mark.
    fs::write(dir.path().join(format!("instances/{mark}.lock")), "").unwrap();

    drop(Journal::open(dir.path()).unwrap());

    assert_eq!(records(&dir).len(), 2);
    assert_eq!(marks(&dir), 0);
}

#[test]
fn runs_of_a_living_writer_are_left_alone() {
    let dir = TempDir::new().unwrap();
    let living = Journal::open(dir.path()).unwrap();
    living.append(&started("a")).unwrap();

    drop(Journal::open(dir.path()).unwrap());
    living.append(&ended("a")).unwrap();
    drop(living);

    assert_eq!(records(&dir), [started("a"), ended("a")]);
    assert_eq!(marks(&dir), 0);
}

#[test]
fn a_run_whose_end_could_not_be_written_is_found_interrupted() {
    let dir = TempDir::new().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    journal.append(&started("a")).unwrap();
    journal
        .append_through(&ended("a"), full_after_half)
        .unwrap_err();
    drop(journal);

    drop(Journal::open(dir.path()).unwrap());

    assert!(matches!(&records(&dir)[..], [_, Record::Interrupted(run)] if run.run_id == "a"));
}

#[test]
fn files_are_made_for_the_owner_alone() {
    let dir = TempDir::new().unwrap();
    let inner = dir.path().join("state/audit");
    let _journal = Journal::open(&inner).unwrap();

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
        drop(Journal::open(dir.path()).unwrap());
        let path = dir.path().join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();

        let error = Journal::open(dir.path()).unwrap_err();

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

    let error = Journal::open(dir.path()).unwrap_err();

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

    let error = Journal::open(dir.path()).unwrap_err();

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
fn a_file_of_another_owner_is_refused() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can give a file away");
        return;
    }
    let dir = TempDir::new().unwrap();
    drop(Journal::open(dir.path()).unwrap());
    std::os::unix::fs::chown(path(&dir), Some(12345), None).unwrap();

    let error = Journal::open(dir.path()).unwrap_err();

    let JournalError::Untrusted {
        source: Untrusted::Owner { found, .. },
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(found, 12345);
}

#[test]
fn a_removed_record_is_named() {
    let dir = five();
    edit(&dir, |lines| drop(lines.remove(2)));
    assert_eq!(
        broken(&dir),
        BrokenAt {
            line: 3,
            why: Break::Misplaced {
                expected: 3,
                found: 4
            }
        }
    );
}

#[test]
fn a_removed_first_record_is_named() {
    let dir = five();
    edit(&dir, |lines| drop(lines.remove(0)));
    assert_eq!(
        broken(&dir),
        BrokenAt {
            line: 1,
            why: Break::Misplaced {
                expected: 1,
                found: 2
            }
        }
    );
}

#[test]
fn two_swapped_records_are_named() {
    let dir = five();
    edit(&dir, |lines| lines.swap(1, 2));
    assert_eq!(
        broken(&dir),
        BrokenAt {
            line: 2,
            why: Break::Misplaced {
                expected: 2,
                found: 3
            }
        }
    );
}

#[test]
fn a_record_replaced_by_one_with_a_fitting_hash_is_named_by_its_successor() {
    let (dir, other) = (five(), five());
    let foreign = lines(&other).swap_remove(1);
    edit(&dir, |lines| lines[1] = foreign);
    assert_eq!(
        broken(&dir),
        BrokenAt {
            line: 2,
            why: Break::Unlinked
        }
    );
}

#[test]
fn a_last_line_without_its_newline_is_named() {
    let dir = five();
    let text = fs::read(path(&dir)).unwrap();
    fs::write(path(&dir), &text[..text.len() - 1]).unwrap();
    assert_eq!(
        broken(&dir),
        BrokenAt {
            line: 5,
            why: Break::Unfinished
        }
    );
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

        prop_assert_eq!(broken(&dir).line, u64::try_from(line).unwrap());
    }

    #[test]
    fn any_tail_is_cut_off_and_the_chain_goes_on(tail in "[^\n]{1,200}", writers in 1..3_usize) {
        let dir = five();
        for _ in 0..writers {
            add(&dir, tail.as_bytes());
            drop(Journal::open(dir.path()).unwrap());
        }

        prop_assert_eq!(verify(&path(&dir)).unwrap().records, 5 + u64::try_from(writers).unwrap());
    }
}

fn full_after_half(mut file: &File, line: &[u8]) -> io::Result<()> {
    file.write_all(&line[..line.len() / 2])?;
    Err(nix::errno::Errno::ENOSPC.into())
}

fn path(dir: &TempDir) -> PathBuf {
    dir.path().join("journal.jsonl")
}

fn five() -> TempDir {
    let dir = TempDir::new().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
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

fn broken(dir: &TempDir) -> BrokenAt {
    match verify(&path(dir)).unwrap_err() {
        VerifyError::Broken(broken) => broken,
        VerifyError::Unreadable { source, .. } => panic!("{source}"),
    }
}

fn marks(dir: &TempDir) -> usize {
    fs::read_dir(dir.path().join("instances")).unwrap().count()
}

fn started(run: &str) -> Record {
    Record::Started(Box::new(Started {
        run_id: run.into(),
        request_id: "request".into(),
        hook: "guard".into(),
        command: Command::new(&[
            "/usr/bin/python3".into(),
            "/home/user/hooks/guard.py".into(),
        ]),
        program: "/usr/bin/python3.12".into(),
        digests: Vec::new(),
        consent: Consent::Allowlist,
        contract: "reyn".into(),
        mode: "exec".into(),
        point: "tool.pre".into(),
        session: String::new(),
        peer: Peer {
            pid: Some(7),
            uid: 1000,
        },
        profile: "strict".into(),
        profile_digest: "f".repeat(64),
        backend: "landlock".into(),
        axes: crate::axis::Axis::ALL
            .map(|axis| {
                let coverage = crate::axis::Coverage::Enforced { by: "landlock" };
                crate::audit::record::AxisLine::new(axis, crate::axis::Demand::Required, &coverage)
            })
            .to_vec(),
        timeout_ms: 5000,
        event_sha256: "e".repeat(64),
        event_bytes: 812,
        environment: vec!["REYN_POINT".into()],
        working_dir: None,
    }))
}

fn ended(run: &str) -> Record {
    let stream = Stream {
        sha256: None,
        total_bytes: 12,
        truncated: false,
    };
    Record::Ended(Box::new(Ended {
        run_id: run.into(),
        released: true,
        outcome: OutcomeKind::Exited,
        exit_code: Some(0),
        signal: None,
        stdout: stream.clone(),
        stderr: stream,
        verdict: None,
        confirmed: true,
        evidence: vec!["read: denied".into()],
        usage: Usage::default(),
    }))
}

fn refused(message: &str) -> Record {
    refusal(message, None)
}

fn refused_run(run_id: &str) -> Record {
    refusal("a step failed", Some(run_id.to_owned()))
}

fn refusal(message: &str, run_id: Option<String>) -> Record {
    Record::Refused(Box::new(Refused {
        run_id,
        request_id: "request".into(),
        reason: "CONSENT_REQUIRED".into(),
        message: message.into(),
        hook: "guard".into(),
        command: Some(Command::new(&["true".into()])),
        peer: Peer { pid: None, uid: 0 },
        profile: None,
    }))
}
