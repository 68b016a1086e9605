use std::{
    os::unix::fs::{PermissionsExt, symlink},
    thread,
};

use proptest::prelude::*;
use tempfile::TempDir;

use hookjail_base::model::command_line;

use super::*;

/// The digest of every profile here.
const PROFILE: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

impl Allowlist {
    fn says(&self, command: &str, digests: &[Digest], profile: &str, now: Timestamp) -> Check {
        self.check(&Lookup {
            command,
            digests,
            is_grant: false,
            now,
            profile,
            profile_digests: &[PROFILE.to_owned()],
            working_dir: None,
            workspace: None,
        })
    }
}

#[test]
fn a_missing_file_is_an_empty_list() {
    let dir = TempDir::new().unwrap();
    assert_eq!(Allowlist::load(&path(&dir)).unwrap(), Allowlist::default());
}

#[test]
fn a_recorded_entry_hits_for_the_same_bytes_and_profile() {
    let dir = TempDir::new().unwrap();
    let list = Allowlist::record(&path(&dir), entry("guard")).unwrap();

    assert_eq!(list.says("guard", &files(), "strict", now()), Check::Hit);
    assert_eq!(
        list.says("guard ", &files(), "strict", now()),
        Check::Missing
    );
    assert_eq!(
        list.says("guard", &files(), "network", now()),
        Check::Missing
    );
    assert_eq!(Allowlist::load(&path(&dir)).unwrap(), list);
}

#[test]
fn changed_content_is_named() {
    let dir = TempDir::new().unwrap();
    let list = Allowlist::record(&path(&dir), entry("guard")).unwrap();
    let mut files = files();
    files[1].sha256 = "0".repeat(64);

    let check = list.says("guard", &files, "strict", now());

    assert_eq!(
        check,
        Check::Changed {
            path: "/home/user/guard.py".into(),
            role: Role::Argument,
            was: Some(entry("guard").digests[1].sha256.clone()),
        }
    );
}

#[test]
fn a_file_more_a_file_less_and_another_role_are_changes() {
    let dir = TempDir::new().unwrap();
    let list = Allowlist::record(&path(&dir), entry("guard")).unwrap();
    let [program, script] = files();
    let argument = Check::Changed {
        path: script.path.clone(),
        role: Role::Argument,
        was: Some(script.sha256.clone()),
    };

    assert_eq!(
        list.says("guard", std::slice::from_ref(&program), "strict", now()),
        argument
    );
    let more = Digest {
        path: "/tmp/more".into(),
        ..script.clone()
    };
    let changed = Check::Changed {
        path: "/tmp/more".into(),
        role: Role::Argument,
        was: None,
    };
    assert_eq!(
        list.says(
            "guard",
            &[program.clone(), script.clone(), more],
            "strict",
            now()
        ),
        changed
    );
    let moved = Digest {
        role: Role::Interpreter,
        ..script.clone()
    };
    let changed = Check::Changed {
        path: script.path,
        role: Role::Interpreter,
        was: Some(script.sha256),
    };
    assert_eq!(
        list.says("guard", &[program, moved], "strict", now()),
        changed
    );
    assert!(matches!(
        list.says("guard", &[], "strict", now()),
        Check::Changed { .. }
    ));
}

#[test]
fn an_entry_ends_at_its_time() {
    let dir = TempDir::new().unwrap();
    let end = Timestamp::from_second(2_000_000_000).unwrap();
    let list = Allowlist::record(
        &path(&dir),
        Entry {
            expires_at: Some(end),
            ..entry("guard")
        },
    )
    .unwrap();

    assert_eq!(list.says("guard", &files(), "strict", now()), Check::Hit);
    assert_eq!(list.says("guard", &files(), "strict", end), Check::Expired);
    assert_eq!(Allowlist::load(&path(&dir)).unwrap(), list);
}

#[test]
fn an_entry_of_reyn_is_read_but_bound_to_nothing() {
    let dir = TempDir::new().unwrap();
    let text = r#"[{"command": "guard", "approved_at": "2026-01-02T03:04:05.678901+00:00", "script_mtime": 1767323045.25},
                   {"command": "other", "approved_at": "2026-01-02T03:04:05+00:00", "script_mtime": null}]"#;
    write(&dir, text);
    let list = Allowlist::load(&path(&dir)).unwrap();

    for (command, modified) in [("guard", Some(1_767_323_045.25)), ("other", None)] {
        let check = list.says(command, &files(), "strict", now());
        assert_eq!(check, Check::Missing, "{command}");
        assert!(!list.binds(command));
        let found: Vec<_> = list
            .unbound(command)
            .map(|entry| entry.script_mtime)
            .collect();
        assert_eq!(found, [modified]);
    }
    let bound = Allowlist::record(&path(&dir), entry("guard")).unwrap();
    assert!(bound.binds("guard") && bound.unbound("guard").next().is_none());
}

#[test]
fn a_consent_for_a_directory_bounds_where_a_hook_starts_and_what_it_is_given() {
    let dir = TempDir::new().unwrap();
    let scoped = |scope: &str| Entry {
        working_dir_scope: Some(scope.into()),
        ..entry("guard")
    };
    let list = Allowlist::record_all(&path(&dir), vec![scoped("/a/b"), scoped("/c")]).unwrap();
    assert_eq!(list.entries().len(), 2);
    for (working_dir, workspace, expected) in [
        (Some("/a/b"), None, Check::Hit),
        (None, Some("/a/b/c"), Check::Hit),
        (Some("/a/b/c"), Some("/a/b"), Check::Hit),
        (Some("/c/d"), None, Check::Hit),
        (Some("/a/bc"), None, Check::Missing),
        (None, Some("/a"), Check::Missing),
        (Some("/a/b"), Some("/a"), Check::Missing),
        (Some("/a"), Some("/a/b"), Check::Missing),
        (None, None, Check::Missing),
    ] {
        let check = list.check(&Lookup {
            command: "guard",
            digests: &files(),
            is_grant: false,
            now: now(),
            profile: "strict",
            profile_digests: &[PROFILE.to_owned()],
            working_dir: working_dir.map(Path::new),
            workspace: workspace.map(Path::new),
        });
        assert_eq!(check, expected, "{working_dir:?} {workspace:?}");
    }
    assert_eq!(Allowlist::load(&path(&dir)).unwrap(), list);
}

#[test]
fn a_consent_is_for_a_profile_as_it_was_and_an_entry_that_does_not_say_how_counts_no_more() {
    let dir = TempDir::new().unwrap();
    let with_profile = |profile: Option<&str>, digest: Option<&str>| {
        vec![Entry {
            profile: profile.map(str::to_owned),
            profile_digest: digest.map(str::to_owned),
            ..entry("guard")
        }]
    };
    let other = "f".repeat(64);
    for (entries, expected) in [
        (with_profile(Some("strict"), Some(PROFILE)), Check::Hit),
        (
            with_profile(Some("strict"), Some(&other)),
            Check::OtherProfile {
                was: Some(other.clone()),
            },
        ),
        (
            with_profile(Some("strict"), None),
            Check::OtherProfile { was: None },
        ),
        // One for every profile is for every profile.
        (with_profile(None, None), Check::Hit),
    ] {
        let list = Allowlist {
            entries,
            later: Vec::new(),
        };
        list.store(&path(&dir)).unwrap();
        let list = Allowlist::load(&path(&dir)).unwrap();
        let check = list.says("guard", &files(), "strict", now());
        assert_eq!(check, expected);
    }
}

#[test]
fn reyn_finds_its_three_keys_in_every_entry() {
    let dir = TempDir::new().unwrap();
    Allowlist::record(&path(&dir), entry("guard")).unwrap();

    let list: Value = serde_json::from_slice(&fs::read(path(&dir)).unwrap()).unwrap();

    let entry = list[0].as_object().unwrap();
    assert_eq!(entry["command"], "guard");
    assert_eq!(entry["approved_at"], "2026-01-02T03:04:05Z");
    assert_eq!(entry["script_mtime"], Value::Null);
}

#[test]
fn keys_not_known_here_survive_a_change() {
    let dir = TempDir::new().unwrap();
    write(
        &dir,
        r#"[{"command": "guard", "approved_at": "x", "script_mtime": 1.5, "scope": {"a": [1]}}]"#,
    );

    let list = Allowlist::record(&path(&dir), entry("other")).unwrap();

    assert_eq!(
        list.entries()[0].other["scope"],
        serde_json::json!({"a": [1]})
    );
    assert_eq!(Allowlist::load(&path(&dir)).unwrap(), list);
}

#[test]
fn recording_again_replaces_the_entry_of_that_profile_and_of_reyn() {
    let dir = TempDir::new().unwrap();
    Allowlist::record(
        &path(&dir),
        Entry {
            profile: None,
            digests: Vec::new(),
            ..entry("guard")
        },
    )
    .unwrap();
    Allowlist::record(
        &path(&dir),
        Entry {
            approved_by: Some("first".into()),
            ..entry("guard")
        },
    )
    .unwrap();
    Allowlist::record(
        &path(&dir),
        Entry {
            profile: Some("network".into()),
            ..entry("guard")
        },
    )
    .unwrap();

    let list = Allowlist::record(
        &path(&dir),
        Entry {
            approved_by: Some("second".into()),
            ..entry("guard")
        },
    )
    .unwrap();

    let kept: Vec<_> = list
        .entries()
        .iter()
        .map(|e| (e.profile.as_deref(), e.approved_by.as_deref()))
        .collect();
    assert_eq!(
        kept,
        [
            (Some("network"), Some("uid 1000")),
            (Some("strict"), Some("second"))
        ]
    );
}

#[test]
fn revoking_removes_every_entry_of_the_command() {
    let dir = TempDir::new().unwrap();
    for (command, profile) in [
        ("guard", "strict"),
        ("guard", "network"),
        ("other", "strict"),
    ] {
        Allowlist::record(
            &path(&dir),
            Entry {
                profile: Some(profile.into()),
                ..entry(command)
            },
        )
        .unwrap();
    }

    assert_eq!(Allowlist::revoke(&path(&dir), "guard").unwrap(), 2);
    assert_eq!(Allowlist::revoke(&path(&dir), "guard").unwrap(), 0);
    let list = Allowlist::load(&path(&dir)).unwrap();
    assert_eq!(list.entries(), [entry("other")]);
}

#[test]
fn a_consent_of_a_later_version_does_not_count_and_stays_in_the_file() {
    let cases = [
        (
            r#"[{"path":"/m","sha256":"0","role":"wasm_module"}]"#,
            "1",
            "a digest has the role `wasm_module`, which hookjail",
        ),
        ("{}", "2", "its entry has version 2, and hookjail"),
    ];
    for (digests, version, words) in cases {
        let dir = TempDir::new().unwrap();
        let text = format!(
            r#"[{{"command":"module","approved_at":"2027","profile":"strict","digests":{digests},"entry_version":{version},"new":{{"x":1}}}}]"#
        );
        write(&dir, &text);
        let written: Value = serde_json::from_str(&text).unwrap();

        let list = Allowlist::record(&path(&dir), entry("guard")).unwrap();

        assert_eq!(list.entries(), [entry("guard")]);
        let [later] = list.later() else {
            panic!("{list:?}");
        };
        let named = later.to_string();
        assert!(
            named.starts_with("the consent to `module` does not count: "),
            "{named}"
        );
        assert!(named.contains(words), "{named}");
        assert!(named.contains(env!("CARGO_PKG_VERSION")), "{named}");
        assert!(
            named.ends_with("; install the newer hookjail, or allow the command again"),
            "{named}"
        );
        // A runtime's own entry for the command does not count in its place.
        assert!(list.binds("module") && !list.names("module", "strict"));
        let kept: Value = serde_json::from_slice(&fs::read(path(&dir)).unwrap()).unwrap();
        assert_eq!(kept[1], written[0]);

        // A consent to the same command, profile and directory replaces it, and so does no other.
        let other = Entry {
            profile: Some("network".to_owned()),
            ..entry("module")
        };
        assert_eq!(
            Allowlist::record(&path(&dir), other).unwrap().later().len(),
            1
        );
        let again = Allowlist::record(&path(&dir), entry("module")).unwrap();
        assert_eq!(again.later(), []);

        write(&dir, &text);
        assert_eq!(Allowlist::revoke(&path(&dir), "module").unwrap(), 1);
        assert_eq!(Allowlist::load(&path(&dir)).unwrap(), Allowlist::default());
    }
}

#[test]
fn a_broken_file_is_an_error_and_is_not_overwritten() {
    let bad_time = r#"[{"command":"a","approved_at":"b","script_mtime":null,"expires_at":"soon"}]"#;
    for text in [
        "",
        "{",
        "{}",
        "[1]",
        r#"[{"command":"a"}]"#,
        "[] x",
        bad_time,
    ] {
        let dir = TempDir::new().unwrap();
        write(&dir, text);

        let load = Allowlist::load(&path(&dir)).unwrap_err();
        let record = Allowlist::record(&path(&dir), entry("guard")).unwrap_err();

        assert!(
            matches!(load, AllowlistError::Malformed { .. }),
            "{text}: {load}"
        );
        assert!(
            matches!(record, AllowlistError::Malformed { .. }),
            "{text}: {record}"
        );
        assert_eq!(fs::read_to_string(path(&dir)).unwrap(), text);
    }
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    for mode in [0o620, 0o602] {
        let dir = TempDir::new().unwrap();
        write(&dir, "[]");
        fs::set_permissions(path(&dir), fs::Permissions::from_mode(mode)).unwrap();

        let error = Allowlist::load(&path(&dir)).unwrap_err();

        assert!(
            matches!(
                error,
                AllowlistError::Untrusted {
                    source: Untrusted::Writable { .. },
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn a_symbolic_link_is_refused() {
    let dir = TempDir::new().unwrap();
    let elsewhere = dir.path().join("elsewhere.json");
    fs::write(&elsewhere, "[]").unwrap();
    symlink(&elsewhere, path(&dir)).unwrap();

    for error in [
        Allowlist::load(&path(&dir)).unwrap_err(),
        Allowlist::record(&path(&dir), entry("guard")).unwrap_err(),
    ] {
        assert!(
            matches!(
                error,
                AllowlistError::Untrusted {
                    source: Untrusted::Symlink,
                    ..
                }
            ),
            "{error}"
        );
    }
}

#[test]
fn a_write_that_was_broken_off_does_not_stop_the_next() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("allowlist.json.new"), "[{").unwrap();

    Allowlist::record(&path(&dir), entry("guard")).unwrap();

    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["allowlist.json", "allowlist.json.lock"]);
    assert_eq!(
        fs::metadata(path(&dir)).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn concurrent_writers_lose_no_entry_and_readers_see_a_whole_file() {
    let dir = TempDir::new().unwrap();
    let path = path(&dir);

    thread::scope(|scope| {
        for writer in 0..8 {
            let path = &path;
            scope.spawn(move || {
                for turn in 0..10 {
                    Allowlist::record(path, entry(&format!("{writer} {turn}"))).unwrap();
                    Allowlist::load(path).unwrap();
                }
                Allowlist::revoke(path, &format!("{writer} 0")).unwrap();
            });
        }
    });

    let list = Allowlist::load(&path).unwrap();
    let mut commands: Vec<_> = list
        .entries()
        .iter()
        .map(|entry| entry.command.clone())
        .collect();
    commands.sort();
    let expected: Vec<_> = (0..8)
        .flat_map(|writer| (1..10).map(move |turn| format!("{writer} {turn}")))
        .collect();
    assert_eq!(commands, expected);
}

#[test]
fn commands_are_quoted_as_python_quotes_them() {
    let cases = [
        (
            vec!["python3", "/a/b.py", "--x=1,2", "a@b:c%+_-."],
            "python3 /a/b.py --x=1,2 a@b:c%+_-.",
        ),
        (vec!["sh", "-c", "echo \"$HOME\""], "sh -c 'echo \"$HOME\"'"),
        (
            vec!["echo", "", "it's", "é", "~", "[x]"],
            r#"echo '' 'it'"'"'s' 'é' '~' '[x]'"#,
        ),
    ];
    for (argv, line) in cases {
        let argv: Vec<_> = argv.into_iter().map(OsString::from).collect();
        assert_eq!(command_line(&argv).as_deref(), Some(line));
    }
}

#[test]
fn a_command_that_is_not_utf8_has_no_text() {
    use std::os::unix::ffi::OsStringExt;
    assert_eq!(
        command_line(&["a".into(), OsString::from_vec(vec![0xff])]),
        None
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_command_line_splits_into_its_words(words in prop::collection::vec("[^\0]{0,12}", 1..5)) {
        let argv: Vec<_> = words.iter().map(OsString::from).collect();
        prop_assert_eq!(shlex::split(&command_line(&argv).unwrap()), Some(words));
    }
}

fn path(dir: &TempDir) -> PathBuf {
    dir.path().join("allowlist.json")
}

fn write(dir: &TempDir, text: &str) {
    fs::write(path(dir), text).unwrap();
    fs::set_permissions(path(dir), fs::Permissions::from_mode(0o600)).unwrap();
}

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn files() -> [Digest; 2] {
    [
        Digest {
            path: "/usr/bin/python3".into(),
            sha256: "a".repeat(64),
            role: Role::Program,
            roots: false,
        },
        Digest {
            path: "/home/user/guard.py".into(),
            sha256: "b".repeat(64),
            role: Role::Argument,
            roots: false,
        },
    ]
}

/// Files that one consent calls data are bound elsewhere. That is under another profile, for another command, in another place, and after expiry.
#[test]
fn what_a_consent_calls_data_is_so_for_its_command_and_profile_as_long_as_it_holds() {
    let dir = TempDir::new().unwrap();
    let data = |entry: Entry| Entry {
        data: vec!["a.py".into()],
        ..entry
    };
    let entries = [
        data(entry("fmt")),
        entry("lint"),
        data(Entry {
            expires_at: Some(now()),
            ..entry("over")
        }),
        data(Entry {
            working_dir_scope: Some("/a".into()),
            ..entry("here")
        }),
        Entry {
            data: vec!["a.py".into(), "b.py".into()],
            working_dir_scope: Some("/a/x".into()),
            ..entry("here")
        },
    ];
    let list = Allowlist::record_all(&path(&dir), entries.into()).unwrap();

    let found = |command, profile, workspace| {
        let workspace = Some(Path::new(workspace));
        let found = list.with_data(&Lookup {
            command,
            profile,
            workspace,
            digests: &[],
            is_grant: false,
            now: now(),
            profile_digests: &[PROFILE.to_owned()],
            working_dir: None,
        });
        let data: Vec<_> = found.into_iter().flat_map(|it| it.data).collect();
        data
    };
    assert_eq!(found("fmt", "strict", "/b"), ["a.py"]);
    // Of several for a place, the one with the most data comes first.
    assert_eq!(found("here", "strict", "/a/x"), ["a.py", "b.py", "a.py"]);
    for (command, profile, workspace) in [
        ("fmt", "develop", "/b"),
        ("lint", "strict", "/b"),
        ("over", "strict", "/b"),
        ("here", "strict", "/b"),
    ] {
        let found = found(command, profile, workspace);
        assert_eq!(found, [""; 0], "{command} {profile}");
    }
}

fn entry(command: &str) -> Entry {
    Entry {
        command: command.into(),
        approved_at: "2026-01-02T03:04:05Z".into(),
        script_mtime: None,
        working_dir_scope: None,
        data: Vec::new(),
        digests: files().to_vec(),
        profile: Some("strict".into()),
        profile_digest: Some(PROFILE.into()),
        approved_by: Some("uid 1000".into()),
        entry_version: None,
        expires_at: None,
        other: Map::new(),
    }
}

#[test]
fn a_command_that_is_shown_has_no_character_that_is_not_seen_and_means_what_it_did() {
    for (words, expected) in [
        (&["/bin/sh", "-c", "a b"][..], "/bin/sh -c 'a b'"),
        (&["sh", "-c", "it's \"x\""], r#"sh -c 'it'"'"'s "x"'"#),
        (
            &["sh", "-c", "echo 'a\\'\n\tb\r", "c d"],
            r#"sh -c 'echo '"'"'a\'"'"$'\n\tb\r' 'c d'"#,
        ),
        (&["a\u{1b}[2J\\n\u{202e}é"], r"$'a\x1b[2J\\n\xe2\x80\xaeé'"),
        (&["'\n'"], r#"''"'"$'\n'"'"''"#),
    ] {
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        assert_eq!(typed(&command_line(&words).unwrap()), expected);
    }
    // Commands that others wrote may be quoted in other ways, or not at all.
    for other in ["a 'b", "a \"b'c\" 'd'", "é"] {
        assert_eq!(typed(other), other);
    }
}

mod as_root {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn a_file_of_another_owner_is_refused() {
        assert!(nix::unistd::geteuid().is_root(), "this test needs root");
        let dir = TempDir::new().unwrap();
        write(&dir, "[]");
        std::os::unix::fs::chown(path(&dir), Some(12345), None).unwrap();

        let error = Allowlist::load(&path(&dir)).unwrap_err();

        assert!(
            matches!(
                error,
                AllowlistError::Untrusted {
                    source: Untrusted::Owner { .. },
                    ..
                }
            ),
            "{error}"
        );
    }
}
