//! `hookjail-run` is `hookjail run --as RUNTIME`, started in a fraction of the time.

use std::{fs, io::Read, path::Path};

use crate::{
    adopt::{CASES, assert_is_no, ended, in_place, outcome_of, places, written},
    support::{Daemon, directory, program, thin},
    witness::install,
};

/// Returns the words of the whole program for the same run.
fn by_the_whole<'a>(program: &'a str, words: &[&'a str]) -> Vec<&'a str> {
    [&[program, "run"], &words[1..]].concat()
}

#[tokio::test]
async fn both_programs_end_alike() {
    let daemon = Daemon::start().await;
    let (socket, directory) = places(&daemon);
    let missing = daemon.path().join("nobody").display().to_string();
    let program = program().display().to_string();
    let without_id = |text: String| match text.split_once(" (re") {
        Some((before, _)) => before.to_owned(),
        None => text,
    };
    for case in &CASES {
        let hook = written(&daemon, case.runtime, case.hook);
        let hook = hook.to_str().unwrap();
        for (socket, payload, hook) in [
            (&socket, case.harmless, hook),
            (&socket, case.harmful, hook),
            (&socket, case.harmless, "/nowhere/hook"),
            (&missing, case.harmless, hook),
        ] {
            let words = in_place(case.runtime, socket, &[], hook);
            let [small, whole] = [words.clone(), by_the_whole(&program, &words)].map(|words| {
                let (code, stdout, stderr) = outcome_of(&ended(&directory, &words, payload));
                (code, without_id(stdout), without_id(stderr))
            });
            assert_eq!(small, whole, "{}", case.runtime);
        }
    }
}

#[test]
fn it_names_its_version_without_the_program_beside_it() {
    let (directory, copy) = copies(false);
    for word in ["--version", "-V"] {
        let expected = format!("hookjail-run {}\n", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            outcome_of(&ended(directory.path(), &[&copy, word], "")),
            (Some(0), expected, String::new())
        );
    }
}

/// Puts the programs into a directory of their own, with the whole program if `with_whole` is true.
fn copies(with_whole: bool) -> (tempfile::TempDir, String) {
    let directory = directory();
    let copy = directory.path().join("hookjail-run");
    install(&thin(), &copy);
    if with_whole {
        install(&program(), &directory.path().join("hookjail"));
    }
    (directory, copy.display().to_string())
}

#[tokio::test]
async fn what_it_does_not_do_is_done_by_the_program_beside_it_and_is_a_no_without() {
    let daemon = Daemon::start().await;
    let (socket, directory) = places(&daemon);
    let hook = written(&daemon, CASES[0].runtime, CASES[0].hook);
    let hook = hook.to_str().unwrap();
    let (_directory, both) = copies(true);
    let (_other, alone) = copies(false);

    let help = ended(&directory, &[&both, "--help"], "");
    assert_eq!(help.status.code(), Some(0), "{help:?}");
    assert!(String::from_utf8_lossy(&help.stdout).contains("--rehearse"));
    let help = ended(&directory, &[&alone, "--help"], "");
    assert_eq!(help.status.code(), Some(125), "{help:?}");
    assert!(String::from_utf8_lossy(&help.stderr).contains("next to `hookjail-run`"));
    // In no runtime's place it is `hookjail run`.
    let words = [&*both, "--private", "--mirror", "--", "/bin/echo", "x"];
    let output = ended(&directory, &words, "{}");
    assert_eq!(output.stdout, b"x\n", "{output:?}");

    for case in &CASES {
        let words = [&*alone, "--as", case.runtime, "--bogus", "--", hook];
        assert_is_no(case, &ended(&directory, &words, case.harmless));
        let words = [&*alone, "--as", case.runtime, "--rehearse", "--", hook];
        assert_is_no(case, &ended(&directory, &words, case.harmless));
    }
    // A daemon is the other program, too; root has none that is started by itself.
    let home = format!("HOME={}", daemon.path().display());
    let claude = ["--as", "claude-code", "--start", "--", hook];
    let words = [&["env", "-i", &home, &alone], &claude[..]].concat();
    let output = ended(&directory, &words, CASES[0].harmless);
    assert_is_no(&CASES[0], &output);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        nix::unistd::geteuid().is_root() || stderr.contains("cannot start `"),
        "{stderr}"
    );
    // The control: its own work needs no other program.
    let mut words = in_place(CASES[0].runtime, &socket, &[], hook);
    words[0] = &alone;
    let output = ended(&directory, &words, CASES[0].harmless);
    assert!(output.status.success(), "{output:?}");
}

/// Returns whether a program's file contains a text.
fn contains(program: &Path, text: &str) -> bool {
    let bytes = fs::read(program).unwrap();
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

/// A panic's place names the file, so a program that links a part of a library has the paths of its files.
#[test]
fn it_holds_no_asynchronous_runtime() {
    for part in ["src/runtime/scheduler", "hyper-util-"] {
        assert!(!contains(&thin(), part), "{part}");
        // The control.
        assert!(contains(&program(), part), "{part}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn it_loads_no_library_for_what_the_compiler_has_an_archive_for() {
    let script = "cc -print-file-name=libgcc_eh.a || true";
    let printed = ended(Path::new("/"), &["/bin/sh", "-c", script], "").stdout;
    // The bare name is printed for an archive that is absent.
    if printed.starts_with(b"/") {
        assert!(!contains(&thin(), "libgcc_s.so"));
    }
}

/// Returns whether a program starts without a loader, which opens files first.
fn is_static(program: &Path) -> bool {
    let mut head = Vec::new();
    let file = fs::File::open(program).unwrap();
    file.take(4096).read_to_end(&mut head).unwrap();
    !head.windows(4).any(|part| part == b"/ld-")
}

#[tokio::test]
async fn it_is_a_no_under_every_limit_on_descriptors_that_its_start_survives() {
    let daemon = Daemon::start().await;
    let (socket, directory) = places(&daemon);
    let case = &CASES[0];
    let words = in_place(case.runtime, &socket, &[], "/bin/true");
    let ended = |limit: &str| {
        let limited = ["/bin/sh", "-c", "ulimit -n $0 && exec \"$@\"", limit];
        ended(&directory, &[&limited, &words[..]].concat(), case.harmless)
    };
    // A loader needs one beside the three that are open, and ends with 127 without it.
    let least = if is_static(&thin()) { 0 } else { 4 };
    for limit in least..4 {
        assert_is_no(case, &ended(&limit.to_string()));
    }
    // The control: beside these it needs one, for its socket.
    for limit in 4..9 {
        let output = ended(&limit.to_string());
        assert!(output.status.success(), "{limit}: {output:?}");
    }
}
