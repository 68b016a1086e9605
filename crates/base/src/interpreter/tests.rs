use super::*;

/// Returns what is named: its use, argument, prefix and path.
fn named(words: &[&str]) -> Vec<(FileUse, usize, String, String)> {
    let argv: Vec<_> = words.iter().map(OsString::from).collect();
    let text = |it: OsString| it.into_string().unwrap();
    let named = read(&argv, &by_name).named.into_iter();
    named
        .filter(|it| it.path.as_bytes().contains(&b'/'))
        .map(|it| {
            (
                it.used,
                it.spot.argument,
                text(it.spot.prefix),
                text(it.path),
            )
        })
        .collect()
}

fn one(used: FileUse, argument: usize, path: &str) -> (FileUse, usize, String, String) {
    (used, argument, String::new(), path.to_owned())
}

#[test]
fn each_interpreters_options_are_read_as_it_reads_them() {
    for (words, script) in [
        (&["/bin/sh", "/s"][..], 1),
        (&["sh", "-e", "/s"], 2),
        (&["bash", "-m", "/s"], 2),
        (&["bash", "-eu", "/s"], 2),
        (&["bash", "-eo", "pipefail", "/s"], 3),
        (&["bash", "-oe", "pipefail", "/s"], 3),
        (&["bash", "+o", "posix", "/s"], 3),
        (&["bash", "--norc", "--", "/s"], 3),
        (&["python3.11", "-u", "/s"], 2),
        (&["python3", "-W", "ignore", "/s"], 3),
        (&["python3", "-Wignore", "-X", "dev", "/s"], 4),
        (&["perl", "-w", "-I", "lib", "/s"], 4),
        (&["perl", "-Ilib", "-MCwd", "/s"], 3),
        (&["ruby", "-w", "-Ilib", "/s"], 3),
        (&["fish", "-C", "true", "/s"], 3),
        (&["deno", "run", "-A", "/s"], 3),
        (&["lua5.4", "-e", "x=1", "/s"], 3),
        (&["env", "-u", "HOME", "A=b", "python3", "/s"], 5),
        (&["env", "-iu", "HOME", "python3", "/s"], 4),
        (&["timeout", "-k", "1", "5", "node", "/s"], 5),
        (&["perl5.36-x86_64-linux-gnu", "/s"], 1),
        (&["python3-dbg", "-u", "/s"], 2),
        (&["zsh-5.9", "-e", "/s"], 2),
    ] {
        assert_eq!(
            named(words),
            [one(FileUse::Script, script, "/s")],
            "{words:?}"
        );
    }
    for words in [
        &["sh", "-c", "exit 0; /s"][..],
        &["sh", "-ec", "/s | cat"],
        &["python3", "-c", "import os", "x"],
        &["python3", "-uc", "open('/s')", "x"],
        &["perl", "-lne", "m:/s:", "x"],
        &["node", "-e", "/s/.test('')", "x"],
        &["ruby", "-ne", "p 1", "x"],
    ] {
        assert_eq!(named(words), [], "{words:?}");
    }
}

/// Commands, each with the use of the file `/f` in it, its argument, and the text before it.
///
/// A name of one letter more or less is another option, so each spelling stands beside the file that it names.
const NAMING: &[(&[&str], FileUse, usize, &str)] = &[
    (
        &["node", "--env-file=/f", "/s"],
        FileUse::Perhaps,
        1,
        "--env-file=",
    ),
    (&["node", "--env-file", "/f", "/s"], FileUse::Perhaps, 2, ""),
    (&["node", "--new=/f", "/s"], FileUse::Perhaps, 1, "--new="),
    (
        &["node", "--new=a:/f", "/s"],
        FileUse::Perhaps,
        1,
        "--new=a:",
    ),
    (&["sed", "--fil", "/f"], FileUse::Script, 2, ""),
    (&["sed", "--fil=/f"], FileUse::Script, 1, "--fil="),
    (&["sed", "-nf/f"], FileUse::Script, 1, "-nf"),
    (&["sed", "x", "-f", "/f"], FileUse::Script, 3, ""),
    (&["sed", "-e", "p", "-f", "/f"], FileUse::Script, 4, ""),
    (&["jq", "/f", "-f", "x"], FileUse::Script, 1, ""),
    (&["jq", "-rfn", "/f"], FileUse::Script, 2, ""),
    (&["mawk", "-Wexec", "/f"], FileUse::Script, 2, ""),
    (&["mawk", "-W", "exec", "/f"], FileUse::Script, 3, ""),
    (&["gawk", "-Wfile=/f"], FileUse::Script, 1, "-Wfile="),
    (&["perl", "-X/f", "/s"], FileUse::Perhaps, 1, "-X"),
    (&["perl", "-wI/f", "/s"], FileUse::Perhaps, 1, "-wI"),
    (&["php", "-d", "x=/f", "/s"], FileUse::Perhaps, 2, "x="),
    (&["bash", "-posix", "/f"], FileUse::Script, 2, ""),
    (&["bash", "-restricted", "/f"], FileUse::Script, 2, ""),
    (&["bash", "-rcfile", "/f", "/s"], FileUse::Script, 2, ""),
    (&["java", "@/f", "/s"], FileUse::Perhaps, 1, "@"),
    (&["java", "/f"], FileUse::Found, 1, ""),
    (&["java", "-cp", "/f:/x", "C"], FileUse::Part, 2, ""),
    (&["java", "-cp", "/x:/f", "C"], FileUse::Perhaps, 2, "/x:"),
    (&["java", "-javaagent:/f=x", "/s"], FileUse::Part, 1, ""),
    (&["java", "-jar", "/f"], FileUse::Script, 2, ""),
    (&["guile", "-l", "/f", "/s"], FileUse::Perhaps, 2, ""),
    (&["julia", "-l", "/f", "/s"], FileUse::Likely, 2, ""),
    (
        &["timeout", "--sig", "KILL", "5", "/f"],
        FileUse::Executed,
        4,
        "",
    ),
];

#[test]
fn each_part_of_a_word_before_the_script_may_name_a_file() {
    for (words, used, argument, prefix) in NAMING {
        let expected = (*used, *argument, (*prefix).to_owned(), "/f".to_owned());
        assert!(
            named(words).contains(&expected),
            "{words:?}: {:?}",
            named(words)
        );
    }
    // A script stays the script behind each of them.
    for words in [
        &["node", "--env-file", "/f", "/s"][..],
        &["node", "--no-warnings", "/s", "/log"],
        &["node", "--new=/f", "/s", "/log"],
        &["perl", "-X/f", "/s", "/log"],
        &["bash", "-norc", "/s", "/log"],
    ] {
        let script = words.iter().position(|it| *it == "/s").unwrap();
        let expected = one(FileUse::Script, script, "/s");
        assert!(
            named(words).contains(&expected),
            "{words:?}: {:?}",
            named(words)
        );
    }
    // Data by the option, by the place, and by the script.
    for words in [
        &["bash", "-o", "/log", "/s"][..],
        &["node", "--redirect-warnings=/log", "/s"],
        &["awk", "-v", "x=/log", "1"],
        &["gawk", "--profile=/log", "1"],
        &["jq", "--slurpfile", "x", "/log", "."],
        &["jq", "-r", ".", "/log"],
        &["sed", "-n", "p", "/log"],
        &["python3", "/s", "--config=/log"],
        &["python3", "-c", "x", "--config=/log"],
        &["node", "-u", "/s", "/log"],
    ] {
        let is_bound =
            |it: &(FileUse, usize, String, String)| it.0 != FileUse::Trailing && it.3 == "/log";
        assert!(
            !named(words).iter().any(is_bound),
            "{words:?}: {:?}",
            named(words)
        );
    }
}

/// An option that is not listed, with a value, has no part of the words behind it read as anything else than code.
#[test]
fn a_file_stays_named_behind_an_option_that_is_not_listed() {
    let mut tried = 0;
    for (words, _, _, prefix) in NAMING {
        let Sort::Interpreter(interpreter) = Sort::find(words[0].as_bytes()) else {
            continue;
        };
        if !interpreter.takes_next(b"--unlisted") {
            continue;
        }
        tried += 1;
        for before in [
            &["--unlisted", "v"][..],
            &["--un", "v", "--li", "w"],
            &["--unlisted"],
        ] {
            let words = [&words[..1], before, &words[1..]].concat();
            let named = named(&words);
            let is_it = |it: &(FileUse, usize, String, String)| {
                it.0 != FileUse::Trailing && it.2 == *prefix && it.3 == "/f"
            };
            assert!(named.iter().any(is_it), "{words:?}: {named:?}");
        }
    }
    assert!(tried > 8, "{tried}");
}

#[test]
fn a_name_that_begins_as_a_listed_option_is_that_option_only_for_programs_that_shorten_names() {
    for words in [
        &["jq", "--slurp", "-f", "/f", "/d"][..],
        &["jq", "-r", "--slurp", "--arg", "a", "b", "-f", "/f", "/d"],
        &["node", "--test", "--test-reporter=/f", "/s"],
        &["node", "--test-reporter", "/f", "/s"],
        &["ruby", "-E", "utf-8", "/f"],
        &["gawk", "--fi=/f"],
        &["sed", "--fil", "/f"],
        &["env", "--unse", "A", "/f"],
    ] {
        let named = named(words);
        let is_code = |it: &(FileUse, usize, String, String)| {
            it.3 == "/f" && it.0 != FileUse::Trailing && it.0 != FileUse::Likely
        };
        assert!(named.iter().any(is_code), "{words:?}: {named:?}");
    }
}

#[test]
fn behind_a_program_that_is_not_known_a_command_is_found_and_not_taken_for_certain() {
    for words in [
        &["xargs", "-n1", "sh", "/s"][..],
        &["stdbuf", "-oL", "python3.12", "/s"],
        &["flock", "lock", "nice", "bash", "/s"],
    ] {
        let expected = [one(FileUse::Likely, words.len() - 1, "/s")];
        assert_eq!(named(words), expected, "{words:?}");
    }
    assert_eq!(
        named(&["python3-config", "/s"]),
        [one(FileUse::Trailing, 1, "/s")]
    );
}

#[test]
fn what_no_word_names_is_said() {
    for words in [
        &["sh"][..],
        &["python3", "-u"],
        &["awk", "-f", "-"],
        &["env", "NODE_OPTIONS=--require=/x", "/s"],
        &["sh", "-c", "LD_PRELOAD=/x /s"],
        &["env", "-vS", "/s x"],
        &["node", "--run", "x"],
    ] {
        let argv: Vec<_> = words.iter().map(OsString::from).collect();
        assert_eq!(read(&argv, &by_name).unbound.len(), 1, "{words:?}");
    }
}

#[test]
fn files_that_options_name_are_found_and_so_is_the_script_behind_them() {
    let library = |argument, prefix: &str, path: &str| {
        (
            FileUse::Library,
            argument,
            prefix.to_owned(),
            path.to_owned(),
        )
    };
    assert_eq!(
        named(&["node", "-r", "/pre", "/s"]),
        [library(2, "", "/pre"), one(FileUse::Script, 3, "/s")]
    );
    assert_eq!(
        named(&["node", "--import=file:///pre", "/s"]),
        [
            library(1, "--import=file://", "/pre"),
            one(FileUse::Script, 2, "/s")
        ]
    );
    assert_eq!(
        named(&["bash", "--rcfile", "/rc", "/s"]),
        [
            one(FileUse::Script, 2, "/rc"),
            one(FileUse::Script, 3, "/s")
        ]
    );
    assert_eq!(
        named(&["ruby", "-r/pre", "/s"]),
        [library(1, "-r", "/pre"), one(FileUse::Script, 2, "/s")]
    );
    assert_eq!(
        named(&["awk", "-f", "/p", "/data"]),
        [
            one(FileUse::Script, 2, "/p"),
            one(FileUse::Trailing, 3, "/data")
        ]
    );
    assert_eq!(
        named(&["php", "-f", "/s", "/data"]),
        [
            one(FileUse::Script, 2, "/s"),
            one(FileUse::Trailing, 3, "/data")
        ]
    );
    // An option that is not known may take the word behind it.
    assert_eq!(
        named(&["node", "--new", "/x", "/s"]),
        [one(FileUse::Likely, 2, "/x"), one(FileUse::Likely, 3, "/s")]
    );
    // The words behind the script.
    assert_eq!(
        named(&["sh", "/s", "-c", "/x"]),
        [
            one(FileUse::Script, 1, "/s"),
            one(FileUse::Trailing, 3, "/x")
        ]
    );
}

#[test]
fn a_line_of_one_plain_command_leads_to_its_script() {
    let in_line = |line: &str| {
        let argv = ["/bin/sh", "-c", line].map(OsString::from);
        let reading = read(&argv, &by_name);
        let spot = |it: &NamedFile| &line[it.spot.line.clone().unwrap()];
        let named = reading.named.iter();
        let named: Vec<_> = named
            .filter(|it| it.path.as_bytes().contains(&b'/'))
            .map(|it| (it.used, spot(it).to_owned()))
            .collect();
        (named, reading.unbound.len())
    };
    let found = |used, text: &str| vec![(used, text.to_owned())];
    assert_eq!(in_line("/s arg"), (found(FileUse::Executed, "/s"), 0));
    assert_eq!(
        in_line("  './a b/s'  x "),
        (found(FileUse::Executed, "'./a b/s'"), 0)
    );
    assert_eq!(in_line("A=1 B=2 /s"), (found(FileUse::Executed, "/s"), 0));
    assert_eq!(in_line("exec /s"), (found(FileUse::Executed, "/s"), 0));
    assert_eq!(in_line(". /s"), (found(FileUse::Script, "/s"), 0));
    // The interpreter itself is one that PATH finds.
    assert_eq!(
        in_line("python3 -u \"/s\""),
        (found(FileUse::Script, "\"/s\""), 1)
    );
    for line in [
        "/s; true",
        "/s | cat",
        "/s > /dev/null",
        "$HOME/s",
        "\"$X\"/s",
        "~/s",
        "/s*",
        "/s `x`",
        "cd / && /s",
        "/s\n/t",
        "'/s",
        "sh -c /s",
    ] {
        assert_eq!(in_line(line).0, [], "{line}");
        assert_ne!(in_line(line).1, 0, "{line}");
    }
}
