use super::*;

fn parse(line: &[u8]) -> Option<(String, Option<String>)> {
    let shebang = Shebang::parse(line)?;
    let text = |s: OsString| s.into_string().unwrap();
    Some((
        text(shebang.interpreter.into_os_string()),
        shebang.argument.map(text),
    ))
}

#[test]
fn why_a_file_cannot_be_executed_is_told_by_its_start() {
    let why = |start: &[u8], errno| why_not_executed(start, errno).unwrap_or_default();
    for (start, errno, expected) in [
        (
            &b"#!/no/such -x\nrest"[..],
            Errno::ENOENT,
            "`/no/such -x` in its first line",
        ),
        (
            b"#!bin/sh -x\n",
            Errno::ENOENT,
            "by a relative path, `bin/sh -x`",
        ),
        (b"#!/bin/sh\r\n", Errno::ENOENT, "CRLF"),
        (b"#!/root/sh\n", Errno::EACCES, "may not be executed here"),
        (b"\x7fELF...", Errno::ENOENT, "its loader"),
        (b"\x7fELF...", Errno::ENOEXEC, "another kind of machine"),
        (b"echo hi\n", Errno::ENOEXEC, "`#!/bin/sh`"),
        (b"", Errno::ENOEXEC, "is no program"),
        (b"echo hi\n", Errno::E2BIG, ""),
        (b"#!/bin/sh\n", Errno::E2BIG, ""),
    ] {
        let why = why(start, errno);
        assert!(
            why.contains(expected) && why.is_empty() == expected.is_empty(),
            "{why}"
        );
    }
}

#[test]
fn text_without_a_first_line_is_run_by_the_shell_and_what_is_no_text_is_not() {
    for text in [
        &b"read -r event\n"[..],
        b"",
        b"\xef\xbb\xbf#!/bin/sh\necho\n",
        b": << 'CMDBLOCK'\r\n@echo off\r\n",
        b"caf\xe9\n",
    ] {
        assert!(is_text(text), "{text:?}");
    }
    for other in [
        &b"\x7fELF\x02\x01\x01\x00"[..],
        b"\x7fELF",
        b"#!/no/such\n",
        b"#!/bin/sh\r\n",
        b"MZ\x90\x00",
    ] {
        assert!(!is_text(other), "{other:?}");
    }
}

#[test]
fn first_lines_are_read_as_the_kernel_reads_them() {
    let some = |i: &str, a: Option<&str>| Some((i.to_owned(), a.map(str::to_owned)));
    assert_eq!(parse(b"#!/bin/sh\necho"), some("/bin/sh", None));
    assert_eq!(parse(b"#! /bin/sh -eu \n"), some("/bin/sh", Some("-eu")));
    assert_eq!(
        parse(b"#!/usr/bin/env -S a b\n"),
        some("/usr/bin/env", Some("-S a b"))
    );
    assert_eq!(parse(b"#!/bin/sh"), some("/bin/sh", None));
    assert_eq!(parse(b"#!/bin/sh\r\n"), None);
    assert_eq!(parse(b"#!/bin/sh -e\r\n"), some("/bin/sh", Some("-e\r")));
    assert_eq!(parse(b"#!bin/sh\n"), some("bin/sh", None));
    assert_eq!(parse(b"#!\n"), None);
    assert_eq!(parse(b"\x7fELF"), None);
    let mut long = b"#!/bin/".to_vec();
    long.resize(400, b'x');
    assert_eq!(parse(&long[..MAX_SHEBANG_BYTES + 1]), None);
    // An argument may be cut, a name may not.
    let mut long = b"#!/bin/sh ./a".to_vec();
    long.resize(400, b'x');
    let cut = format!("./a{}", "x".repeat(MAX_SHEBANG_BYTES - 13));
    let found = parse(&long[..MAX_SHEBANG_BYTES + 1]);
    assert_eq!(found, some("/bin/sh", Some(&cut)));
    let found = parse(b"#!/bin/sh\0 -x\n");
    assert_eq!(found, some("/bin/sh", None));
}

/// Opens a command, whose names are of files on this system.
fn opened(argv: &[&OsStr], working_dir: Option<&Path>) -> Result<Opened, Refusal> {
    opened_with(argv, &[], working_dir)
}

fn opened_with(
    argv: &[&OsStr],
    data: &[OsString],
    working_dir: Option<&Path>,
) -> Result<Opened, Refusal> {
    let argv: Vec<_> = argv.iter().map(|word| (*word).to_owned()).collect();
    let path = PathBuf::from(&argv[0]);
    Program::open(
        path,
        &argv,
        data,
        working_dir,
        OpenedFor::Oneself,
        View::HOST,
    )
}

fn hashed(opened: Opened) -> Program {
    let stop = AtomicBool::new(false);
    opened.hash(&DigestCache::default(), &stop).unwrap()
}

#[test]
fn files_of_code_are_bound_and_data_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["hook.sh", "pre.js", "script.js", "state.json"] {
        std::fs::write(path(name), name).unwrap();
    }
    let bound = |argv: &[&OsStr]| {
        let digests = hashed(opened(argv, Some(directory.path())).unwrap()).digests;
        let arguments = digests.iter().filter(|it| it.role == Role::Argument);
        let name = |it: &Digest| Path::new(&it.path).file_name().unwrap().to_owned();
        arguments.map(name).collect::<Vec<_>>()
    };
    let [hook, data] = ["hook.sh", "state.json"].map(|name| path(name).into_os_string());
    let word = OsStr::new;
    assert_eq!(bound(&[word("/bin/sh"), word("-e"), &hook]), ["hook.sh"]);
    assert_eq!(bound(&[word("/bin/sh"), word("hook.sh")]), ["hook.sh"]);
    assert_eq!(bound(&[word("/bin/sh"), &hook, &data]), ["hook.sh"]);
    assert_eq!(
        bound(&[word("/bin/sh"), &hook, path("script.js").as_os_str()]),
        ["hook.sh", "script.js"]
    );
    assert_eq!(bound(&[word("/bin/cat"), &data]), [""; 0]);
    let line = format!("exec /bin/sh {}", path("hook.sh").display());
    assert_eq!(
        bound(&[word("/bin/sh"), word("-c"), word(&line)]),
        ["sh", "hook.sh"]
    );
}

/// A consent alone distinguishes data from code, for files that a program receives.
#[test]
fn what_is_called_data_is_not_bound_unless_it_is_known_to_be_executed() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for name in ["a.py", "b.py", "run", "pre.js"] {
        std::fs::write(path(name), "#!/bin/sh\n").unwrap();
    }
    std::fs::write(path("fmt"), b"\x7fELF").unwrap();
    for name in ["fmt", "run"] {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path(name), mode).unwrap();
    }
    let program = |argv: &[&str], data: &[&str]| {
        let first = path(argv[0]);
        let rest = argv[1..].iter().map(OsStr::new);
        let argv: Vec<_> = [first.as_os_str()].into_iter().chain(rest).collect();
        let data: Vec<OsString> = data.iter().map(Into::into).collect();
        hashed(opened_with(&argv, &data, Some(directory.path())).unwrap())
    };
    let bound = |program: &Program| {
        let arguments = program
            .digests
            .iter()
            .filter(|it| it.role == Role::Argument);
        let name = |it: &Digest| Path::new(&it.path).file_name().unwrap().to_owned();
        arguments.map(name).collect::<Vec<_>>()
    };

    let both = program(&["fmt", "--fix", "a.py", "b.py"], &[]);
    assert_eq!(
        (bound(&both), both.scripts.len()),
        (vec!["a.py".into(), "b.py".into()], 2)
    );
    assert_eq!(both.given, ["a.py", "b.py"]);
    // Behind such a word it may be the script.
    assert_eq!(program(&["fmt", "exec", "a.py"], &[]).given, [""; 0]);
    let one = program(&["fmt", "--fix", "a.py", "b.py"], &["a.py"]);
    // The program receives the file itself, and no copy.
    assert_eq!((bound(&one), one.scripts.len()), (vec!["b.py".into()], 1));
    assert_eq!(
        (one.data, one.given),
        (vec!["a.py".into()], vec!["b.py".into()])
    );
    assert!(one.unbound[0].contains("`a.py`, which is data"));
    for argv in [
        &["/bin/sh", "a.py"][..],
        &["/usr/bin/env", "/bin/sh", "a.py"],
        &["fmt", "/bin/sh", "a.py"],
        &["/bin/sh", "-c", "./a.py"],
        &["/bin/sh", "-c", "fmt a.py"],
    ] {
        let program = program(argv, &["a.py", "./a.py"]);
        assert!(bound(&program).contains(&"a.py".into()), "{argv:?}");
        assert_eq!(program.data, [""; 0], "{argv:?}");
    }
    assert_eq!(
        bound(&program(&["run", "a.py"], &["a.py", "run"]))[..],
        [] as [OsString; 0]
    );
    assert_eq!(
        program(&["run", "a.py"], &["run"]).digests[0].role,
        Role::Program
    );
    // A word of the first line is no argument.
    let line = format!("#!{} a.py\n", path("fmt").display());
    std::fs::write(path("run"), line).unwrap();
    let program = program(&["run", "a.py"], &["a.py"]);
    assert_eq!(
        (bound(&program), &*program.data[0]),
        (vec!["a.py".into()], OsStr::new("a.py"))
    );
}

/// Options that are not listed may have taken words: the first of these files may be the script, and the others are as likely data.
#[test]
fn a_word_behind_one_that_may_be_the_script_is_data_by_the_operators_word() {
    let (_held, root) = of_spellings();
    let words = ["node", "--unlisted", "h", "d"];
    let argv: Vec<_> = [root.join(words[0]).into_os_string()]
        .into_iter()
        .chain(words[1..].iter().map(OsString::from))
        .collect();
    let argv: Vec<_> = argv.iter().map(OsString::as_os_str).collect();
    let program = |data: &[&str]| {
        let data: Vec<OsString> = data.iter().map(Into::into).collect();
        hashed(opened_with(&argv, &data, Some(&root)).unwrap())
    };
    let [script, data] = ["h", "d"].map(|it| root.join(it));
    let all = program(&[]);
    assert!(binds(&all, &script) && binds(&all, &data));
    // Which of them is the script is not known, so none is proposed as data.
    assert_eq!(all.given, [""; 0]);
    let one = program(&["h", "d"]);
    assert!(binds(&one, &script) && !binds(&one, &data));
    assert_eq!(one.data, ["d"]);
}

#[test]
fn a_path_that_is_another_file_in_each_process_is_refused_as_code_and_named_as_data() {
    let (_held, root) = of_spellings();
    std::os::unix::fs::symlink("/proc/self/cwd", root.join("started")).unwrap();
    std::os::unix::fs::symlink("/proc/self/cwd/h", root.join("linked")).unwrap();
    std::os::unix::fs::symlink("h", root.join("control")).unwrap();
    assert!(spelled(&root, "/bin/sh|./control").is_ok());
    for words in [
        "/proc/self/cwd/h",
        "/bin/sh|/proc/self/cwd/h",
        "/bin/sh|/dev/fd/3",
        "/bin/sh|./started/h",
        "/bin/sh|./linked",
        "/usr/bin/env|./started/h",
        "/usr/bin/env|/proc/thread-self/cwd/h",
        "byproc",
        "/usr/bin/env|./byproc",
    ] {
        let refusal = spelled(&root, words).unwrap_err();
        assert!(
            refusal.message.contains("in each process"),
            "{words}: {refusal:?}"
        );
    }
    let unbound = spelled(&root, "/bin/cat|/proc/self/status")
        .unwrap()
        .unbound;
    assert!(
        unbound
            .iter()
            .any(|it| it.contains("another file in each process"))
    );
    for words in ["/bin/sh|/dev/stdin", "/bin/sh|-e|/dev/fd/0"] {
        assert_eq!(
            spelled(&root, words).unwrap().unbound,
            ["the script on stdin"]
        );
    }
}

#[test]
fn a_script_that_is_not_there_is_refused_and_what_cannot_be_bound_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let word = OsStr::new;
    let missing = directory.path().join("missing.sh");
    for argv in [
        vec![word("/bin/sh"), missing.as_os_str()],
        vec![word("/bin/sh"), word("-e"), word("missing.sh")],
        vec![word("/bin/bash"), word("--rcfile"), missing.as_os_str()],
    ] {
        let refusal = opened(&argv, Some(directory.path())).unwrap_err();
        assert_eq!(refusal.reason, Reason::InvalidRequest, "{argv:?}");
    }
    for argv in [
        vec![word("/bin/sh"), word("-c"), word("a; b")],
        vec![word("/bin/sh"), word("hook.sh")],
        vec![word("/bin/sh"), directory.path().as_os_str()],
        vec![word("/bin/sh"), word("/dev/null")],
        // The caller's text on stdin is the script.
        vec![word("/bin/sh")],
        vec![word("/bin/sh"), word("-e")],
        vec![word("/bin/sh"), word("-c"), word("BASH_ENV=/x /bin/true")],
    ] {
        assert_eq!(opened(&argv, None).unwrap().unbound.len(), 1, "{argv:?}");
    }
    assert_eq!(opened(&[word("/bin/true")], None).unwrap().unbound, [""; 0]);
}

/// The same words name other files in another directory, so relative words are bound, too.
#[test]
fn a_script_is_bound_whatever_program_starts_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, text: &[u8]| {
        std::fs::write(path(name), text).unwrap();
        std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    write("hook", b"console.log(1)");
    write("hook.awk", b"BEGIN {}");
    write("hook.ts", b"1");
    write("tool", b"#!/bin/sh\n");
    write("binary", b"\x7fELF");
    for name in ["deno", "node", "pwsh", "runner"] {
        write(name, b"\x7fELF");
    }
    // One of several versions is chosen by a script.
    write("python3", b"#!/bin/sh\nexec /usr/bin/python3 \"$@\"\n");
    std::os::unix::fs::symlink("/bin/sh", path("shell")).unwrap();
    let bound = |argv: &[&str]| {
        let program = path(argv[0]);
        let rest = argv[1..].iter().map(OsStr::new);
        let argv: Vec<_> = [program.as_os_str()].into_iter().chain(rest).collect();
        let digests = hashed(opened(&argv, Some(directory.path())).unwrap()).digests;
        let below = |it: &Digest| {
            let name = Path::new(&it.path).strip_prefix(directory.path()).ok()?;
            Some(name.display().to_string())
        };
        let arguments = digests.iter().filter(|it| it.role == Role::Argument);
        arguments.filter_map(below).collect::<Vec<_>>()
    };
    for argv in [
        &["node", "--no-warnings", "hook"][..],
        &["node", "--unknown", "hook"],
        &["node", "--unknown", "value", "hook", "file"],
        &["node", "--unknown", "--title", "x", "hook"],
        &["deno", "run", "--allow-read", "hook"],
        &["pwsh", "-File", "hook", "x"],
        &["python3", "-u", "hook"],
        &["shell", "hook"],
        &["runner", "-oL", "/bin/sh", "hook"],
        &["runner", "-oL", "bash", "-e", "hook"],
        &["/usr/bin/env", "-iu", "HOME", "/bin/sh", "hook"],
    ] {
        assert_eq!(bound(argv), ["hook"], "{argv:?}");
    }
    for (argv, file) in [
        (&["runner", "run", "hook.ts"][..], "hook.ts"),
        (&["runner", "./tool"], "tool"),
        (&["runner", "binary"], "binary"),
        (&["/bin/sh", "-c", "command ./tool x"], "tool"),
        (&["/usr/bin/awk", "-f", "hook.awk"], "hook.awk"),
    ] {
        assert_eq!(bound(argv), [file], "{argv:?}");
    }
    assert_eq!(bound(&["runner", "hook"]), [""; 0]);
}

/// Commands, each with a file whose content decides what they do. Words in one text are separated by `|`.
const SPELLINGS: &[(&str, &str)] = &[
    // Links with a starter's name, and to a starter.
    ("./nice|h", "h"),
    ("./starts|./h", "h"),
    ("./timeout|./h|./p", "h"),
    ("zsh|-c|noglob ./x", "x"),
    // An option that is not listed may have taken the word behind it; then options follow.
    ("node|--trace-events|v8|--no-warnings|h", "h"),
    ("node|--unlisted|1|--import=./p.mjs|h", "p.mjs"),
    ("node|--unlisted|1|--env-file=.env|h", ".env"),
    ("node|--unlisted|1|--require|./p|h", "p"),
    ("node|--unlisted|/tmp/x|--build-snapshot|h", "h"),
    (
        "node|--max-http-header-size|16384|--import=./p.mjs|h",
        "p.mjs",
    ),
    ("ruby|--external-encoding|UTF-8|-w|h", "h"),
    ("ruby|--unlisted|UTF-8|-r./p.rb|h", "p.rb"),
    ("ruby|--disable|gems|-w|h", "h"),
    ("fish|--debug-output|/dev/null|-N|h", "h"),
    ("fish|--debug-stack-frames|3|-N|h", "h"),
    ("expect|-c|set x 1|-f|h", "h"),
    ("expect|-c|A|-c|B|h", "h"),
    ("guile|-L|.|-e|main|-s|h", "h"),
    ("julia|-t|4|-O3|h", "h"),
    ("elixir|-r|a|-r|b|h", "h"),
    ("osascript|-l|JavaScript|-s|o|h", "h"),
    ("deno|run|--unlisted|v|--x|h", "h"),
    // A value in the word of its option may end in an option's letter.
    ("/usr/bin/timeout|-k5s|5|./h", "h"),
    ("/usr/bin/timeout|-k5s|5|/bin/sh|h", "h"),
    ("/usr/bin/timeout|-vk|5|5|./h", "h"),
    ("/usr/bin/env|-uGnu|/bin/sh|h", "h"),
    ("/usr/bin/env|-iu|Gnu|/bin/sh|h", "h"),
    // A lone dash ends a shell's options, and a line by `-c` comes before a script on stdin.
    ("/bin/sh|-|h", "h"),
    ("/bin/sh|-e|-|h", "h"),
    ("/bin/sh|+|h", "h"),
    ("/bin/bash|-o|errexit|-|h", "h"),
    ("zsh|-f|-|h", "h"),
    ("ksh|-|h", "h"),
    ("busybox|sh|-|h", "h"),
    ("/bin/sh|-c|-|. ./h", "h"),
    ("/bin/sh|-sc|. ./h", "h"),
    ("/bin/sh|-s|-c|. ./h", "h"),
    ("/bin/bash|-oc|posix|. ./h", "h"),
    ("zsh|-oshwordsplit|h", "h"),
    ("zsh|-onorcs|h", "h"),
    ("zsh|-ocshnullcmd|h", "h"),
    ("zsh|-oextendedglob|h", "h"),
    ("ksh|-onoglob|h", "h"),
    ("shell|-onoglob|h", "h"),
    // Interpreters of interpreters.
    ("perl|byi", "i"),
    ("perl|-w|byi", "i"),
    ("/bin/sh|-c|./relative", "i"),
    ("/usr/bin/find|.|-exec|./byi|;", "i"),
    // Single interpreters.
    ("jq|h|-nf", "h"),
    ("jq|h|d|-f", "h"),
    ("jq|--argfile|x|d|-n|h|-f", "h"),
    ("jq|-fr|h|d", "h"),
    ("jq|-f|-n|h", "h"),
    ("mawk|-Wi|-f|h", "h"),
    ("mawk|-Wposix,exec|h", "h"),
    ("mawk|-WEXEC|h", "h"),
    ("mawk|-W|Exec|h", "h"),
    ("gawk|-i|inc|1", "inc.awk"),
    ("gawk|-i|./inc|1", "inc.awk"),
    ("gawk|-f|inc", "inc.awk"),
    ("gawk|-Dh|-f|p", "h"),
    ("gawk|-Lfatal|-f|h", "h"),
    ("node|--test|a|h", "h"),
    ("node|--test|--test-concurrency|1|a|h", "h"),
    ("fish|-p|.env|h", "h"),
    ("fish|-D|3|h", "h"),
    ("expect|-fh", "h"),
    ("julia|-Lp", "p"),
    ("php|-d|auto_prepend_file=\"p\"|h", "p"),
    ("java|@p", "p"),
    ("node|./dist/hook", "dist/hook.js"),
    ("node|-r|./pre|h", "pre.js"),
    ("ruby|-r./lib/x|h", "lib/x.rb"),
    // A link with another interpreter's name.
    ("python3|-c|. ./h", "h"),
    ("/usr/bin/env|./foo|h", "h"),
    ("/bin/sh|-c|./foo h", "h"),
    ("/usr/bin/env|./python3|-c|. ./h", "h"),
    // A shell's own commands.
    ("/bin/bash|-c|builtin . ./h", "h"),
    ("/bin/bash|-c|command . ./h", "h"),
    ("/bin/bash|-c|command ./h", "h"),
    ("/bin/bash|-c|time ./h", "h"),
    ("/bin/bash|-c|A+=1 ./h", "h"),
    // Names that an interpreter completes, or that name a command as well.
    ("deno|run|hook.ts", "hook.ts"),
    ("bun|h", "h"),
    ("ruby|-C|lib|/bin/true", "/bin/true"),
];

/// First lines, each with a file whose content decides what the script does that has it.
const FIRST_LINES: &[(&str, &str)] = &[
    ("/usr/bin/env -S ./prog", "prog"),
    ("/usr/bin/env -S A=b ./prog x", "prog"),
    ("/usr/bin/env ./prog", "prog"),
    ("/usr/bin/env ./byi", "i"),
    ("/usr/bin/env -S ./byi", "i"),
    ("/usr/bin/env -vS python3 other", "other"),
    ("/usr/bin/env -iS python3 other", "other"),
    ("/usr/bin/env --split=python3 other", "other"),
    ("/usr/bin/env -S python3 other", "other"),
    ("/usr/bin/env -S timeout -k5s 5 ./prog", "prog"),
    ("/usr/bin/env -S nice ./prog", "prog"),
    ("/usr/bin/make -finc", "inc"),
    ("/usr/bin/make -fsub/inc", "sub/inc"),
    ("/usr/bin/make -rRfinc", "inc"),
    ("/bin/sh other", "other"),
    ("i", "i"),
    ("/usr/bin/ruby -w -r./p", "p.rb"),
    ("/usr/bin/env ruby -r./p", "p.rb"),
    ("/usr/bin/env -S ./bya x", "a"),
];

/// A directory with a file for each name in the tables, and stand-ins for interpreters.
fn of_spellings() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let write = |name: &str, text: &[u8]| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let code = ".env 3 a b d dist/hook.js h hook.ts i inc inc.awk lib/x.rb other p p.mjs p.rb pre.js prog sub/inc x";
    for name in code.split(' ') {
        write(name, b"echo one\n");
    }
    write(
        "byi",
        format!("#!{}\n", root.join("i").display()).as_bytes(),
    );
    write("relative", b"#!i\n");
    write("byproc", b"#!/proc/self/cwd/i\n");
    write("bya", b"#!/bin/sh ./a\n");
    let programs = "bun busybox deno elixir expect fish gawk guile java jq julia ksh make mawk node osascript perl php ruby zsh";
    for name in programs.split(' ') {
        write(name, b"\x7fELF");
    }
    for (name, target) in [
        ("foo", "/bin/sh"),
        ("python3", "/bin/sh"),
        ("shell", "ksh"),
        ("nice", "/bin/sh"),
        ("starts", "/usr/bin/env"),
        ("timeout", "/usr/bin/env"),
    ] {
        std::os::unix::fs::symlink(target, root.join(name)).unwrap();
    }
    (directory, root)
}

/// Opens the words of a text in a directory.
fn spelled(root: &Path, words: &str) -> Result<Program, Refusal> {
    let words: Vec<_> = words.split('|').collect();
    let program = root.join(words[0]);
    let rest = words[1..].iter().map(OsStr::new);
    let argv: Vec<_> = [program.as_os_str()].into_iter().chain(rest).collect();
    opened(&argv, Some(root)).map(hashed)
}

fn binds(program: &Program, path: &Path) -> bool {
    program.digests.iter().any(|it| Path::new(&it.path) == path)
}

#[test]
fn whatever_spelling_leads_to_a_file_binds_it() {
    let (_held, root) = of_spellings();
    let mut free = Vec::new();
    for (words, file) in SPELLINGS {
        match spelled(&root, words) {
            Ok(program) if binds(&program, &root.join(file)) => {}
            Ok(program) => free.push(format!("{words} ({file}): {:?}", program.unbound)),
            Err(refusal) => free.push(format!("{words}: {}", refusal.message)),
        }
    }
    for (line, file) in FIRST_LINES {
        let hook = root.join("hook");
        std::fs::write(&hook, format!("#!{line}\n")).unwrap();
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        for words in ["hook", "/usr/bin/env|./hook", "perl|hook"] {
            match spelled(&root, words) {
                Ok(program) if binds(&program, &root.join(file)) => {}
                Ok(program) => {
                    free.push(format!("{words}: #!{line} ({file}): {:?}", program.unbound))
                }
                Err(refusal) => free.push(format!("{words}: #!{line}: {}", refusal.message)),
            }
        }
    }
    assert!(free.is_empty(), "{}", free.join("\n"));
}

/// Code that cannot be bound is named truly, and no data is named.
#[test]
fn what_a_command_runs_and_no_consent_binds_is_named_as_it_is() {
    let (_held, root) = of_spellings();
    let code = "the code in the words of";
    for (words, expected) in [
        ("/usr/bin/env|hook|x", "the program `hook`"),
        ("perl|-e|do \"./h\"", code),
        ("perl|-Mstrict;do \"./h\"|h", code),
        ("fish|-C|source h|h", code),
        ("fish|-c|source h", code),
        ("node|-e|require('./h')", code),
        ("ruby|-e|load ARGV[0]|./h", code),
        ("php|-r|include 1;", code),
        ("gawk|BEGIN{system(\"sh h\")}", code),
        ("/bin/sed|1e sh h", code),
        ("jq|include \"m\"; g", code),
        ("guile|-c|(load \"h\")", code),
        ("expect|-c|source h|h", code),
        ("make", "files and commands that `make` finds"),
        ("make|-s", "files and commands that `make` finds"),
        (
            "node|--env-file=.env|h",
            "files that the words in `.env` name",
        ),
        ("java|@p", "files that the words in `p` name"),
        ("node|--test", "the code that `node` finds"),
        ("/bin/bash|-c|eval . ./h", "the shell's builtin `eval`"),
        (
            "/bin/bash|-c|command eval . ./h",
            "the shell's builtin `eval`",
        ),
        (
            "/bin/bash|-c|trap '. ./h' EXIT",
            "the shell's builtin `trap`",
        ),
        (
            "/bin/bash|-c|test -v 'a[$(./h)]'",
            "the shell's builtin `test`",
        ),
        ("busybox|run-parts|d", "the words of `busybox run-parts`"),
        ("/bin/sh|-s", "stdin, where it is read"),
        ("/bin/sh|-s|x", "the script on stdin"),
        ("deno|fmt|--check", "the code that `fmt` names"),
        ("deno|run|-A|npm:eslint", "the code that `npm:eslint` names"),
        (
            "deno|run|https://x.org/y.ts",
            "the code that `https://x.org/y.ts` names",
        ),
        ("bun|run|lint", "the code that `lint` names"),
        ("node|./missing", "the code that `./missing` names"),
        ("ruby|-S|rake", "the program `rake`"),
        ("perl|-S|prove", "the program `prove`"),
        ("ruby|-C|d|h.rb", "files that are named from `d`"),
        ("/bin/sed|s/o/e/e", code),
        ("mawk|BEGIN{system(\"sh h\")}", code),
    ] {
        let unbound = spelled(&root, words).unwrap().unbound;
        // A file of others may be another one when it is opened again.
        let notes: Vec<_> = unbound
            .iter()
            .filter(|it| !it.contains("for the moment"))
            .collect();
        assert!(
            notes.len() == 1 && notes[0].contains(expected),
            "{words}: {notes:?}"
        );
    }
    for words in [
        "/bin/sh|-c|exit 2",
        "jq|.a",
        "/bin/sh|-|h",
        "node|h|-c",
        "/bin/sed|s/o/0/",
        "mawk|{print $1}",
        "/bin/cat|h",
    ] {
        let unbound = spelled(&root, words).unwrap().unbound;
        assert_eq!(unbound, [""; 0], "{words}");
    }
    for (line, expected) in [
        ("/usr/bin/env node", "the program `node`"),
        ("/usr/bin/env -S python3 'oth''er'", "the first line of"),
        ("/usr/bin/env -S python3\\_other", "the first line of"),
        ("/usr/bin/env -S -S 'python3 other'", "the first line of"),
        ("/usr/bin/env -S timeout -k5s 5", "the program `timeout`"),
        ("/usr/bin/env -S /usr/bin/node -r foo", "the library `foo`"),
    ] {
        std::fs::write(root.join("hook"), format!("#!{line}\n")).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.join("hook"), mode).unwrap();
        let unbound = spelled(&root, "hook").unwrap().unbound;
        assert!(
            unbound.len() == 1 && unbound[0].contains(expected),
            "{line}: {unbound:?}"
        );
    }
}

#[test]
fn a_command_has_few_files_of_code_and_many_words_take_no_more_than_linear_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut argv = vec![OsStr::new("/usr/bin/env")];
    argv.resize(200_000, OsStr::new("env"));
    let found = opened(&argv, Some(directory.path())).unwrap();
    assert_eq!((found.files.len(), found.unbound.len()), (1, 1));
    // A word of many parts, too.
    let parts = format!("--{}", "a=".repeat(1 << 20));
    let found = opened(&[OsStr::new("/bin/sh"), OsStr::new(&parts)], None).unwrap();
    assert_eq!((found.files.len(), found.unbound.len()), (1, 2));
    let names = (0..2 * MAX_FILES).map(|it| directory.path().join(format!("{it}.sh")));
    let names: Vec<_> = names.collect();
    for name in &names {
        std::fs::write(name, "").unwrap();
    }
    let names = names.iter().map(|name| name.as_os_str());
    let argv: Vec<_> = [OsStr::new("/bin/true")].into_iter().chain(names).collect();
    let found = opened(&argv, None).unwrap();
    assert_eq!(found.files.len(), MAX_FILES);
    assert_eq!(found.unbound.len(), 1, "{:?}", found.unbound);
}

/// A first line is no part of the command: its words are bound where the file that has it runs.
#[test]
fn files_that_a_first_line_names_are_bound() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let write = |name: &str, text: &str| {
        std::fs::write(path(name), text).unwrap();
        std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    std::os::unix::fs::symlink("/bin/sh", path("node")).unwrap();
    write("reader", "#!/bin/sh\n");
    write(".env", "A=b\n");
    std::fs::create_dir(path("lib")).unwrap();
    let node = path("node").display().to_string();
    let reader = path("reader").display().to_string();
    let bound = |first: &str, before: &[&str]| {
        write("hook", &format!("#!{first}\n"));
        let hook = path("hook");
        let before = before.iter().map(OsStr::new);
        let argv: Vec<_> = before.chain([hook.as_os_str()]).collect();
        let program = hashed(opened(&argv, Some(directory.path())).unwrap());
        let digests = program.digests.iter();
        let is_it = digests.filter(|it| Path::new(&it.path) == path(".env"));
        (is_it.count(), program.unbound)
    };
    for first in [
        format!("{node} --env-file=.env"),
        format!("{reader} ./.env"),
        "/usr/bin/env -S node --env-file=.env".to_owned(),
        "/usr/bin/env -S A=b node --env-file .env".to_owned(),
    ] {
        assert_eq!(bound(&first, &[]).0, 1, "{first}");
        assert_eq!(bound(&first, &["/usr/bin/env"]).0, 1, "env {first}");
    }
    assert_eq!(bound(&node, &[]), (0, Vec::new()));
    for (first, expected) in [
        ("/usr/bin/perl -Ilib", "files in the directory `lib`"),
        ("/usr/bin/env -S NODE_OPTIONS=x node", "`NODE_OPTIONS`"),
    ] {
        let (_, unbound) = bound(first, &[]);
        assert!(unbound.concat().contains(expected), "{first}: {unbound:?}");
    }
}

/// The words of a program that is no interpreter cannot be bound as code; a script's text is bound.
#[test]
fn other_programs_words_are_named_as_not_bound() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for (name, text) in [
        ("tool", &b"\x7fELF"[..]),
        // Another program than root's of the name.
        ("cat", b"\x7fELF"),
        ("node", b"\x7fELF"),
        ("hook", b"#!/bin/sh\n"),
    ] {
        std::fs::write(path(name), text).unwrap();
        std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let named = |argv: &[&str]| {
        let program = path(argv[0]);
        let rest = argv[1..].iter().map(OsStr::new);
        let argv: Vec<_> = [program.as_os_str()].into_iter().chain(rest).collect();
        let unbound = opened(&argv, Some(directory.path())).unwrap().unbound;
        let is_it = |it: &&String| it.contains("the words of");
        unbound.iter().filter(is_it).count()
    };
    for argv in [
        &["tool", "-c", "alias.x=!sh hook"][..],
        &["cat", "--x"],
        &["/usr/bin/env", "./tool", "--x"],
        &["/bin/sh", "-c", "./tool --x"],
    ] {
        assert_eq!(named(argv), 1, "{argv:?}");
    }
    for argv in [
        &["tool"][..],
        &["hook", "--x"],
        &["node", "hook", "--x"],
        &["/usr/bin/env", "./hook", "--x"],
        &["/bin/sh", "-c", "./hook --x"],
    ] {
        assert_eq!(named(argv), 0, "{argv:?}");
    }
}

#[test]
fn a_script_that_reads_a_script_is_bound_too() {
    let directory = tempfile::tempdir().unwrap();
    let [hook, reader] = ["hook", "reader"].map(|name| directory.path().join(name));
    let write = |path: &Path, text: String| {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    write(&hook, format!("#!{}\n", reader.display()));
    write(&reader, "#!/bin/sh\n".to_owned());

    let program = hashed(opened(&[hook.as_os_str()], None).unwrap());

    let bound: Vec<_> = program
        .digests
        .iter()
        .map(|it| Path::new(&it.path))
        .collect();
    assert_eq!(bound, [&*hook, Path::new("/bin/sh"), &*reader]);
    // The words that the kernel would make; both scripts are read from copies.
    assert_eq!(program.executable_path(), "/bin/sh");
    let files = [Path::new("/bin/sh"), &reader, &hook].map(Path::as_os_str);
    assert_eq!(program.argv, files);
    let copies = program.argv_with(vec![(0, "/hook".into()), (1, "/reader".into())]);
    assert_eq!(copies, ["/bin/sh", "/reader", "/hook"]);
    assert_eq!(program.unbound, [""; 0]);
    // As many interpreters as Linux follows, and one more.
    let mut interpreter = "/bin/sh".to_owned();
    for index in 1..=MAX_INTERPRETERS {
        let path = directory.path().join(format!("{index}"));
        write(&path, format!("#!{interpreter}\n"));
        let bound = opened(&[path.as_os_str()], None);
        assert_eq!(bound.unwrap().files.len(), index + 1);
        interpreter = path.display().to_string();
    }
    write(&hook, format!("#!{interpreter}\n"));
    let refusal = opened(&[hook.as_os_str()], None).unwrap_err();
    assert_eq!(refusal.reason, Reason::InvalidRequest);
    write(&hook, format!("#!{}\n", reader.display()));
    std::fs::remove_file(&reader).unwrap();
    let program = hashed(opened(&[hook.as_os_str()], None).unwrap());
    assert_eq!((program.digests.len(), program.unbound.len()), (1, 1));
}

#[test]
fn other_files_take_the_places_of_scripts() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("a b.sh"), "#!/bin/sh -e\n").unwrap();
    let word = OsStr::new;
    let line = format!("A=1 '{}' x", path("a b.sh").display());
    let program = hashed(opened(&[word("/bin/sh"), word("-c"), word(&line)], None).unwrap());

    let argv = program.argv_with(vec![(0, PathBuf::from("/it's"))]);

    assert_eq!(argv[2], word(r"A=1 '/bin/sh' '-e' '/it'\''s' x"));
    assert_eq!(program.argv[2], word(&line));

    // Where a program starts the script, each word stands for itself.
    let script = path("a b.sh");
    let words = [word("/usr/bin/env"), word("A=1"), script.as_os_str()];
    let argv = [&words[..], &[word("x")]].concat();
    let program = hashed(opened(&argv, None).unwrap());
    assert_eq!(program.unbound, [""; 0]);

    let argv = program.argv_with(vec![(0, PathBuf::from("/copy"))]);

    let expected = ["/usr/bin/env", "A=1", "/bin/sh", "-e", "/copy", "x"];
    assert_eq!(argv, expected);
}

#[test]
fn only_what_root_alone_can_replace_is_bound_by_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let (link, copy) = (directory.path().join("link"), directory.path().join("copy"));
    std::os::unix::fs::symlink("/bin/sh", &link).unwrap();
    std::fs::copy("/bin/sh", &copy).unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let is_roots = |path: &Path, role| {
        let argv = [path.as_os_str().to_owned()];
        let opened = Program::open(
            path.to_owned(),
            &argv,
            &[],
            None,
            OpenedFor::Oneself,
            View::HOST,
        );
        let hashed = opened
            .unwrap()
            .hash(&DigestCache::default(), &AtomicBool::new(false));
        let mut digests = hashed.unwrap().digests.into_iter();
        digests.find(|it| it.role == role).unwrap().roots
    };
    assert!(is_roots(Path::new("/bin/sh"), Role::Program));
    // A link of the user's can lead to another program of root's tomorrow.
    assert!(!is_roots(&link, Role::Program));
    assert!(!is_roots(&copy, Role::Program));
    assert!(!is_roots(&script, Role::Program));
    assert!(is_roots(&script, Role::Interpreter));
}
