//! The words that `install` writes, read without the parser of command lines.
//!
//! To build that parser takes a fifth of a call's own time. Here only the usual words are read; a test compares the result to the
//! parser's.

use std::{collections::HashSet, ffi::OsString};

use crate::{
    RunArgs,
    arguments::{DEFAULT_CONTRACT, RunAsOptions, parse_span},
};

/// Reads the words of `run` after its name; `None` where one is not usual, or where they contradict each other.
pub(crate) fn read(words: &[OsString]) -> Option<RunArgs> {
    let mut run = plain();
    let mut seen = HashSet::new();
    let mut words = words.iter();
    loop {
        let word = words.next()?.to_str()?;
        // The parser refuses an option that is there twice.
        if !seen.insert(word) {
            return None;
        }
        let place = &mut run.place;
        match word {
            "--" => break,
            "--as" => place.runtime = Some(value(&mut words)?.to_owned()),
            "--connect" => run.connect = Some(value(&mut words)?.into()),
            "--fail-closed" => place.fail_closed = true,
            "--gate" => place.gate = true,
            "--mirror-failures" => place.mirror_failures = true,
            "--name" => value(&mut words)?.clone_into(&mut run.name),
            "--observe" => place.observe = true,
            "--point" => value(&mut words)?.clone_into(&mut run.point),
            "--profile" => value(&mut words)?.clone_into(&mut run.profile),
            "--start" => place.start = true,
            "--timeout" => run.timeout = Some(parse_span(value(&mut words)?).ok()?),
            _ => return None,
        }
    }
    run.command = words.cloned().collect();
    let place = &run.place;
    let contradicts = place.gate && place.observe
        || place.fail_closed && place.mirror_failures
        || place.start && run.connect.is_some();
    let is_whole = place.runtime.is_some() && !run.command.is_empty();
    (is_whole && !contradicts).then_some(run)
}

/// Returns an option's value, where it cannot be mistaken for an option.
fn value<'a>(words: &mut impl Iterator<Item = &'a OsString>) -> Option<&'a str> {
    let value = words.next()?.to_str()?;
    (!value.is_empty() && !value.starts_with('-')).then_some(value)
}

/// Returns the arguments of a command line without options.
fn plain() -> RunArgs {
    RunArgs {
        place: RunAsOptions {
            runtime: None,
            gate: false,
            observe: false,
            fail_closed: false,
            mirror_failures: false,
            rehearse: false,
            bare: false,
            payloads: false,
            layer: false,
            needs: None,
            required: None,
            start: false,
        },
        contract: DEFAULT_CONTRACT.to_owned(),
        mode: String::new(),
        point: String::new(),
        profile: String::new(),
        event: None,
        raw: false,
        timeout: None,
        workspace: None,
        working_dir: None,
        env: Vec::new(),
        name: String::new(),
        session: String::new(),
        connect: None,
        private: false,
        verbose: false,
        mirror: false,
        allow_unconfirmed: false,
        dry_run: false,
        command: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use proptest::prelude::*;

    use super::*;
    use crate::RunArguments;

    /// Words of command lines, those that are read here and others.
    const WORDS: [&str; 30] = [
        "--as",
        "--as=codex",
        "--connect",
        "--fail-closed",
        "--gate",
        "--json",
        "--mirror-failures",
        "--name",
        "--observe",
        "--point",
        "--private",
        "--profile",
        "--raw",
        "--rehearse",
        "--start",
        "--timeout",
        "--",
        "-v",
        "-",
        "",
        "10s",
        "1e3",
        "/bin/true",
        "/run/a socket",
        "claude-code",
        "é",
        "help",
        "run",
        "strict",
        "--help",
    ];

    /// Compares both readings, and returns whether the words were usual.
    fn compared(words: &[OsString]) -> bool {
        let Some(run) = read(words) else {
            return false;
        };
        let whole = ["hookjail", "run"].map(OsString::from);
        let parsed = RunArguments::try_parse_from(whole.iter().chain(words));
        let (parsed, everywhere) = parsed.unwrap().into_parts();
        assert_eq!(format!("{run:?}"), format!("{parsed:?}"), "{words:?}");
        let none = "Everywhere { config: None, json: false }";
        assert_eq!(format!("{everywhere:?}"), none);
        true
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn usual_words_are_read_as_the_parser_reads_them() {
        for line in [
            "--as claude-code --profile workspace-ro --timeout 57s --start -- /srv/hook.sh a --as b",
            "--as codex --profile strict --point pre --connect /run/x.sock --gate --fail-closed -- /bin/true",
            "--observe --mirror-failures --name n --as bogus -- sh -c exit",
        ] {
            assert!(compared(&words(line)), "{line}");
        }
    }

    #[test]
    fn other_words_are_left_to_the_parser() {
        for line in [
            "--as claude-code /bin/true",
            "--as claude-code --",
            "--as claude-code --gate --observe -- /bin/true",
            "--as claude-code --start --connect /s -- /bin/true",
            "--as claude-code --as codex -- /bin/true",
            "--as claude-code --timeout x -- /bin/true",
            "--profile strict -- /bin/true",
            "--as claude-code --json -- /bin/true",
            "--as --gate -- /bin/true",
        ] {
            assert!(!compared(&words(line)), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_words_that_are_read_here_are_read_alike(
            chosen in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..10),
            ends in any::<bool>(),
        ) {
            let first = ["--as", "codex"].into_iter().take(if ends { 2 } else { 0 });
            let last = ["--", "/bin/true"].into_iter().take(if ends { 2 } else { 0 });
            let words: Vec<_> = first.chain(chosen).chain(last).map(OsString::from).collect();
            compared(&words);
        }
    }
}
