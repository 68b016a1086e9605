use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf};

use hookjail_base::{
    model::ProfileName,
    refusal::{Reason, Refusal},
};
use hookjail_policy::Registry;

use crate::seatbelt::{place::Problem, rules::quote, *};

fn strict() -> Policy {
    let registry = Registry::builtin().unwrap();
    let strict = registry.find(&ProfileName::parse("strict").unwrap());
    Policy::clone(strict.unwrap())
}

fn places<'a>(program: &'a Path, scratch: &'a Path) -> Places<'a> {
    Places {
        closed: &[],
        granted: &[],
        kept: &[],
        own: &[],
        program,
        scratch,
        witness: Path::new("/opt/hookjail"),
    }
}

#[test]
fn what_would_end_a_string_is_escaped() {
    let mut text = String::new();
    quote(r#"a"b\c) ; d"#, &mut text);
    assert_eq!(text, r#""a\"b\\c) ; d""#);
}

#[test]
fn paths_that_no_rule_can_be_about_are_refused() {
    let cases: [(&[u8], Problem); 16] = [
        (b"", Problem::Spelling),
        (b"relative", Problem::Spelling),
        (b"/a//b", Problem::Spelling),
        (b"/a/./b", Problem::Spelling),
        (b"/a/../b", Problem::Spelling),
        (b"/a/", Problem::Spelling),
        (b"//", Problem::Spelling),
        (b"/", Problem::Everything),
        (b"/a\0b", Problem::Nul),
        (b"/a\xff", Problem::Unicode),
        (b"/tmp", Problem::Alias),
        (b"/tmp/x", Problem::Alias),
        (b"/var/db", Problem::Alias),
        (b"/etc/hosts", Problem::Alias),
        (b"/System/Volumes/Data/Users/a", Problem::Alias),
        (&LONG, Problem::TooLong),
    ];
    for (bytes, problem) in cases {
        let path = PathBuf::from(OsStr::from_bytes(bytes));
        let fine = Path::new("/private/tmp/x");
        let inexpressible = Inexpressible {
            path: path.clone(),
            problem,
        };
        let witness = Places {
            witness: &path,
            ..places(fine, fine)
        };
        for places in [places(&path, fine), places(fine, &path), witness] {
            assert_eq!(profile(&strict(), &places).unwrap_err(), inexpressible);
        }
        let granted = [Granted {
            path: path.clone(),
            rights: Rights::File(Access::Read),
        }];
        let kept = [Kept {
            keep: Keep::Unchanged,
            path: path.clone(),
        }];
        let closed = [path];
        for places in [
            Places {
                granted: &granted,
                ..places(fine, fine)
            },
            Places {
                own: &granted,
                ..places(fine, fine)
            },
            Places {
                closed: &closed,
                ..places(fine, fine)
            },
            Places {
                kept: &kept,
                ..places(fine, fine)
            },
        ] {
            assert_eq!(profile(&strict(), &places).unwrap_err(), inexpressible);
        }
    }
    // The control: their neighbours are not.
    for path in [
        "/a",
        "/tmpx",
        "/variable",
        "/private/tmp",
        "/a\n\"b",
        "/a/..b",
    ] {
        let path = Path::new(path);
        profile(&strict(), &places(path, path)).unwrap();
    }
    let longest = format!("/{}", "x".repeat(1022));
    profile(&strict(), &places(longest.as_ref(), longest.as_ref())).unwrap();
}

#[test]
fn a_directory_is_no_file_to_write() {
    let fine = Path::new("/private/tmp/x");
    let granted = [Granted {
        path: "/dev".into(),
        rights: Rights::Directory(Access::WriteFile),
    }];
    let places = Places {
        granted: &granted,
        ..places(fine, fine)
    };
    let problem = profile(&strict(), &places).unwrap_err().problem;
    assert_eq!(problem, Problem::Directory);
}

#[test]
fn a_refused_path_is_named_without_being_printed_raw() {
    let path = Path::new("/a\n\0");
    let refusal = Refusal::from(profile(&strict(), &places(path, path)).unwrap_err());
    assert_eq!(refusal.reason, Reason::GrantMissing);
    assert_eq!(
        refusal.message,
        r"`/a\n\x00` cannot be named in a Seatbelt profile: the path has a NUL byte"
    );
}

#[test]
fn a_command_ends_its_options_before_the_program() {
    let (program, scratch) = (Path::new("/bin/sh"), Path::new("/private/tmp/a=b \"c\""));
    let generated = profile(&strict(), &places(program, scratch)).unwrap();

    let argv = generated.command(program, [OsStr::new("-c"), OsStr::new("-D")]);

    let text = generated.text.as_str();
    assert_eq!(
        argv,
        [
            "/usr/bin/sandbox-exec",
            "-p",
            text,
            "-D",
            "WITNESS=/opt/hookjail",
            "-D",
            "PROGRAM=/bin/sh",
            "-D",
            "SCRATCH=/private/tmp/a=b \"c\"",
            "--",
            "/bin/sh",
            "-c",
            "-D",
        ]
    );
}

const LONG: [u8; 1024] = {
    let mut path = [b'x'; 1024];
    path[0] = b'/';
    path
};
