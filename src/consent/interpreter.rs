//! Finds the words of a command that name code. These are scripts, preloaded files, and the command of a shell's line.
//!
//! Pure: it reads words and no file. [`super::program`] opens and binds the files that the words name.

use std::{
    ffi::{OsStr, OsString},
    ops::Range,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

use crate::policy::environment;

/// The most words that are looked up as files where they need not name one.
const MAX_NAMED: usize = 4096;

/// The most parts that are named as not bound.
const MAX_UNBOUND: usize = 64;

/// The position of a file's name in a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct WordSpot {
    /// The argument's index.
    pub(super) argument: usize,
    /// The bytes of the word in a shell's line; `None` = the whole argument.
    pub(super) line: Option<Range<usize>>,
    /// The text before the path in the word: `--require=` of `--require=/x.js`.
    pub(super) prefix: OsString,
}

impl WordSpot {
    /// Returns the spot of an argument that is a path and nothing else.
    pub(super) fn argument(argument: usize) -> Self {
        Self {
            argument,
            line: None,
            prefix: OsString::new(),
        }
    }
}

/// The use of a named file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FileUse {
    /// A shell's line, or a program that starts others, executes it.
    Executed,
    /// A library by name, or a file of code by its path.
    Library,
    /// Code if it is a file: an unknown option stands before it.
    Likely,
    /// An option's value, which may be a file.
    Perhaps,
    /// The interpreter reads it as its script.
    Script,
    /// An argument of the script or program.
    Trailing,
}

/// A word that may name a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct NamedFile {
    pub(super) path: OsString,
    pub(super) spot: WordSpot,
    pub(super) used: FileUse,
}

/// The code that a command's words name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct CommandReading {
    /// The line that a shell is given in a word, where there is one.
    pub(super) line: Option<OsString>,
    /// The words that may name files, in their order.
    pub(super) named: Vec<NamedFile>,
    /// Descriptions of code that cannot be bound to content.
    pub(super) unbound: Vec<String>,
}

/// An interpreter: how its options take code and files. An option of one letter is written with one dash, and may stand
/// in a cluster; a long one has two dashes, or one, by the interpreter's convention.
struct Interpreter {
    /// Whether several options of one letter may share a word.
    clustered: bool,
    /// Names, without a version at their end.
    names: &'static [&'static str],
    /// Options that take a file of code, or a library by name.
    files: &'static [&'static str],
    /// Options that take code: there is no script then.
    inline: &'static [&'static str],
    /// Long options that take nothing.
    plain: &'static [&'static str],
    /// The position of the script among the words that are no options.
    script: ScriptPosition,
    /// Options that take a file of code by its path. With one, the first word is no script.
    scripts: &'static [&'static str],
    /// Options that take the rest of their word, which may be empty.
    suffixed: &'static [&'static str],
    /// Options that take another value.
    valued: &'static [&'static str],
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum ScriptPosition {
    /// Code comes by option, or is the first word itself.
    None,
    /// As `First`; a word of these may come before it.
    After(&'static [&'static str]),
    /// The first word.
    First,
    /// As `First`, but with `-c` before it the first word is the code. With `-s` there is no script.
    OfAShell,
}

const fn interpreter(names: &'static [&'static str], script: ScriptPosition) -> Interpreter {
    Interpreter {
        clustered: true,
        names,
        files: &[],
        inline: &[],
        plain: &[],
        script,
        scripts: &[],
        suffixed: &[],
        valued: &[],
    }
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        plain: &[
            "--debug",
            "--debugger",
            "--login",
            "--noediting",
            "--noprofile",
            "--norc",
            "--posix",
            "--restricted",
            "--verbose",
        ],
        scripts: &["--init-file", "--rcfile"],
        valued: &["-O", "-o", "+O", "+o"],
        ..interpreter(
            &[
                "ash", "bash", "csh", "dash", "ksh", "lksh", "mksh", "oksh", "posh", "rbash", "sh",
                "tcsh", "yash", "zsh",
            ],
            ScriptPosition::OfAShell,
        )
    },
    // Of a shell's line.
    interpreter(&[".", "source"], ScriptPosition::First),
    Interpreter {
        inline: &["-c", "--command"],
        valued: &["-C", "-d", "-f", "-o", "--features", "--init-command"],
        ..interpreter(&["fish"], ScriptPosition::First)
    },
    Interpreter {
        // What `-m` names is a module: no file.
        inline: &["-c", "-m"],
        valued: &["-W", "-X", "--check-hash-based-pycs"],
        ..interpreter(&["pypy", "python"], ScriptPosition::First)
    },
    Interpreter {
        files: &[
            "-r",
            "--experimental-loader",
            "--import",
            "--loader",
            "--require",
        ],
        inline: &["-e", "-p", "--eval", "--print", "--run"],
        plain: &[
            "--check",
            "--enable-source-maps",
            "--experimental-strip-types",
            "--interactive",
            "--no-deprecation",
            "--no-warnings",
            "--permission",
            "--preserve-symlinks",
            "--test",
            "--trace-warnings",
            "--watch",
        ],
        valued: &[
            "-C",
            "--conditions",
            "--disable-warning",
            "--dns-result-order",
            "--env-file",
            "--env-file-if-exists",
            "--icu-data-dir",
            "--input-type",
            "--openssl-config",
            "--redirect-warnings",
            "--title",
            "--unhandled-rejections",
        ],
        ..interpreter(&["node", "nodejs"], ScriptPosition::First)
    },
    Interpreter {
        files: &["-r", "--import", "--preload", "--require"],
        inline: &["-e", "-p", "--eval", "--print"],
        valued: &["-c", "--config", "--cwd", "--env-file"],
        ..interpreter(&["bun"], ScriptPosition::After(&["run", "test"]))
    },
    Interpreter {
        files: &["--import", "--preload", "--require"],
        plain: &[
            "--allow-all",
            "--allow-env",
            "--allow-ffi",
            "--allow-net",
            "--allow-read",
            "--allow-run",
            "--allow-sys",
            "--allow-write",
            "--cached-only",
            "--no-check",
            "--no-lock",
            "--no-npm",
            "--no-prompt",
            "--no-remote",
            "--quiet",
        ],
        valued: &["-c", "-L", "--cert", "--config", "--import-map", "--lock"],
        ..interpreter(&["deno"], ScriptPosition::After(&["run", "serve", "test"]))
    },
    Interpreter {
        inline: &["-E", "-e"],
        suffixed: &["-C", "-D", "-F", "-M", "-i", "-m", "-x"],
        valued: &["-I"],
        ..interpreter(&["perl"], ScriptPosition::First)
    },
    Interpreter {
        files: &["-r", "--require"],
        inline: &["-e"],
        suffixed: &["-0", "-E", "-F", "-K", "-T", "-W", "-i", "-x"],
        valued: &["-C", "-I", "-X", "--encoding"],
        ..interpreter(&["ruby"], ScriptPosition::First)
    },
    Interpreter {
        inline: &["-B", "-E", "-R", "-r", "--run"],
        scripts: &["-F", "-f", "--file", "--process-file"],
        valued: &["-S", "-c", "-d", "-t", "-z", "--define", "--php-ini"],
        ..interpreter(&["php"], ScriptPosition::First)
    },
    Interpreter {
        files: &["-l"],
        valued: &["-e"],
        ..interpreter(&["lua", "luajit"], ScriptPosition::First)
    },
    Interpreter {
        clustered: false,
        valued: &["-encoding"],
        ..interpreter(&["tclsh"], ScriptPosition::First)
    },
    Interpreter {
        clustered: false,
        inline: &["-Command", "-EncodedCommand", "-c", "-e", "-ec"],
        scripts: &["-File", "-f"],
        valued: &["-ExecutionPolicy", "-WorkingDirectory", "-ep", "-ex", "-wd"],
        ..interpreter(&["pwsh"], ScriptPosition::First)
    },
    Interpreter {
        files: &["-i", "--include"],
        inline: &["-e", "--source"],
        scripts: &["-E", "-f", "--exec", "--file"],
        valued: &["-F", "-l", "-v", "--assign", "--field-separator"],
        ..interpreter(&["awk", "gawk", "mawk", "nawk"], ScriptPosition::None)
    },
    Interpreter {
        inline: &["-e", "--expression"],
        scripts: &["-f", "--file"],
        suffixed: &["-i"],
        valued: &["-l", "--line-length"],
        ..interpreter(&["gsed", "sed"], ScriptPosition::None)
    },
    Interpreter {
        scripts: &["-f", "--from-file"],
        valued: &["-L", "--indent"],
        ..interpreter(&["jq"], ScriptPosition::None)
    },
];

/// A program that starts what its words name.
struct Starter {
    name: &'static str,
    /// How many words come before the program.
    skipped: usize,
    /// Options that take the next word.
    valued: &'static [&'static str],
}

const STARTERS: &[Starter] = &[
    Starter {
        name: "busybox",
        skipped: 0,
        valued: &[],
    },
    Starter {
        name: "env",
        skipped: 0,
        valued: &["-u", "--unset"],
    },
    // Of a shell's line.
    Starter {
        name: "exec",
        skipped: 0,
        valued: &["-a"],
    },
    Starter {
        name: "nice",
        skipped: 0,
        valued: &["-n", "--adjustment"],
    },
    Starter {
        name: "nohup",
        skipped: 0,
        valued: &[],
    },
    Starter {
        name: "setsid",
        skipped: 0,
        valued: &[],
    },
    Starter {
        name: "timeout",
        skipped: 1,
        valued: &["-k", "-s", "--kill-after", "--signal"],
    },
];

/// Endings of files that interpreters read.
const ENDINGS: [&str; 35] = [
    "awk", "bash", "bats", "cjs", "csh", "cts", "exp", "exs", "fish", "jar", "jl", "jq", "js",
    "jsx", "ksh", "lua", "mjs", "mts", "nu", "php", "pl", "pm", "ps1", "py", "pyc", "pyz", "r",
    "rb", "scm", "sh", "tcl", "ts", "tsx", "wasm", "zsh",
];

/// Returns whether a path has a script's extension.
pub(super) fn ends_like_a_script(path: &Path) -> bool {
    let ending = path.extension().and_then(OsStr::to_str);
    ending.is_some_and(|ending| ENDINGS.contains(&&*ending.to_ascii_lowercase()))
}

/// Returns whether a program of this name is an interpreter or starts other programs.
pub(super) fn is_known(path: &Path) -> bool {
    !matches!(Sort::of(path.as_os_str().as_bytes()), Sort::Other)
}

/// Returns whether a program of this name is an interpreter.
pub(crate) fn is_interpreter(path: &Path) -> bool {
    matches!(Sort::of(path.as_os_str().as_bytes()), Sort::Interpreter(_))
}

/// Returns the shell line of a command, as `sh -c` has it.
pub(crate) fn shell_line(argv: &[OsString]) -> Option<OsString> {
    read(argv).line
}

/// Returns the arguments that an interpreter reads as its script, each by its index.
pub(crate) fn scripts(argv: &[OsString]) -> Vec<usize> {
    let named = read(argv).named.into_iter();
    let is_script = |it: &NamedFile| {
        it.used == FileUse::Script && it.spot == WordSpot::argument(it.spot.argument)
    };
    named.filter(is_script).map(|it| it.spot.argument).collect()
}

/// Reads a command: its program's name decides what its other words are.
pub(super) fn read(argv: &[OsString]) -> CommandReading {
    let words = argv.iter().enumerate().map(|(argument, text)| Word {
        spot: WordSpot::argument(argument),
        text: text.as_bytes().to_vec(),
    });
    let mut reader = WordReader {
        is_sure: true,
        reading: CommandReading::default(),
    };
    reader.command(&words.collect::<Vec<_>>());
    reader.reading
}

/// The sort of a program, by its name.
#[derive(Clone, Copy)]
enum Sort {
    Interpreter(&'static Interpreter),
    Other,
    Starter(&'static Starter),
}

impl Sort {
    fn of(path: &[u8]) -> Self {
        let name = path.rsplit(|byte| *byte == b'/').next();
        let name = String::from_utf8_lossy(name.unwrap_or_default());
        // A version is no part of the name: `python3.11`, `zsh-5.9`, `perl5.36-x86_64-linux-gnu`, `python3-dbg`.
        let stem = match name.split_once('-') {
            Some((stem, rest)) if of_a_version(rest) => stem,
            Some(_) | None => &name,
        };
        let stem = match stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
            "" => &name,
            stem => stem,
        };
        if let Some(starter) = STARTERS.iter().find(|starter| starter.name == stem) {
            return Self::Starter(starter);
        }
        let interpreter = INTERPRETERS.iter().find(|it| it.names.contains(&stem));
        interpreter.map_or(Self::Other, Self::Interpreter)
    }
}

/// Returns whether the text after a dash in a program's name is its version.
fn of_a_version(rest: &str) -> bool {
    let first = rest.split('-').next().unwrap_or_default();
    first == "dbg" || first.contains(|c: char| c.is_ascii_digit())
}

/// One word of a command.
#[derive(Clone, Debug)]
struct Word {
    spot: WordSpot,
    text: Vec<u8>,
}

impl Word {
    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }

    /// Returns the file that the word names from this byte on.
    fn names(&self, from: usize, used: FileUse) -> NamedFile {
        let (prefix, path) = self.text.split_at(from);
        let mut prefix = prefix.to_vec();
        // Node.js also takes `file://` URLs.
        let path = match path.strip_prefix(b"file://") {
            Some(path) if path.starts_with(b"/") => {
                prefix.extend_from_slice(b"file://");
                path
            }
            _ => path,
        };
        NamedFile {
            path: OsString::from_vec(path.to_vec()),
            spot: WordSpot {
                prefix: OsString::from_vec(prefix),
                ..self.spot.clone()
            },
            used,
        }
    }
}

/// The effect of one option.
enum Took {
    /// Nothing but itself.
    Itself,
    /// The next word too.
    Next(OptionKind),
    /// An unknown option, which may take the next word.
    Unknown,
    /// A value in its own word, from this byte on.
    Within(usize, OptionKind),
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum OptionKind {
    File,
    Inline,
    Script,
    Value,
}

impl Interpreter {
    fn kind(&self, option: &str) -> Option<OptionKind> {
        let lists = [
            (self.files, OptionKind::File),
            (self.inline, OptionKind::Inline),
            (self.scripts, OptionKind::Script),
            (self.valued, OptionKind::Value),
        ];
        let list = lists.into_iter().find(|(list, _)| list.contains(&option));
        list.map(|(_, kind)| kind)
    }

    /// Reads a word that begins with a dash or a plus.
    fn option(&self, word: &[u8]) -> Took {
        let Ok(text) = std::str::from_utf8(word) else {
            return Took::Unknown;
        };
        // A long option, or a listed one with one dash and several letters.
        if let Some(kind) = self.kind(text) {
            return Took::Next(kind);
        }
        if text.starts_with("--") {
            return match text.split_once('=') {
                Some((name, _)) => {
                    let kind = self.kind(name).unwrap_or(OptionKind::Value);
                    Took::Within(name.len() + 1, kind)
                }
                None if self.plain.contains(&text) => Took::Itself,
                None => Took::Unknown,
            };
        }
        if !self.clustered {
            return Took::Itself;
        }
        // A cluster: the first option that takes a value takes the rest of the word, or else the next word.
        let sign = &text[..1];
        for (at, letter) in text.char_indices().skip(1) {
            let option = format!("{sign}{letter}");
            if self.suffixed.contains(&option.as_str()) {
                return Took::Itself;
            }
            if let Some(kind) = self.kind(&option) {
                let rest = at + letter.len_utf8();
                return match rest == text.len() {
                    true => Took::Next(kind),
                    // A shell's `-o` takes the next word wherever it stands in its cluster.
                    false if self.script == ScriptPosition::OfAShell => Took::Next(kind),
                    false => Took::Within(rest, kind),
                };
            }
        }
        Took::Itself
    }
}

/// Reads the words of one command.
struct WordReader {
    /// Whether the words are a command's for certain. Behind an unknown program they only look like it.
    is_sure: bool,
    reading: CommandReading,
}

impl WordReader {
    /// Reads a program with its words, and the programs it starts in turn. Why a loop and no recursion: the caller
    /// decides how many there are.
    fn command(&mut self, words: &[Word]) {
        let mut next = Some(words);
        while let Some((program, rest)) = next.and_then(<[Word]>::split_first) {
            next = match Sort::of(&program.text) {
                Sort::Interpreter(interpreter) => {
                    self.interpreted(interpreter, rest);
                    None
                }
                Sort::Other => self.others(rest),
                Sort::Starter(starter) => self.started(starter, rest),
            };
            if let Some(started) = next {
                self.executed(started);
            }
        }
    }

    /// Records a file that a word names from this byte on.
    fn name(&mut self, word: &Word, from: usize, used: FileUse) {
        let used = match (self.is_sure, used) {
            (false, FileUse::Executed) => FileUse::Trailing,
            (false, FileUse::Script) => FileUse::Likely,
            (true | false, used) => used,
        };
        let must_be = matches!(used, FileUse::Executed | FileUse::Library | FileUse::Script);
        if !must_be && self.reading.named.len() >= MAX_NAMED {
            let why = format!("what words beyond the first {MAX_NAMED} name");
            return self.note_unbound(why);
        }
        self.reading.named.push(word.names(from, used));
    }

    fn note_unbound(&mut self, why: impl Into<String>) {
        let (why, unbound) = (why.into(), &mut self.reading.unbound);
        if unbound.len() < MAX_UNBOUND && !unbound.contains(&why) {
            unbound.push(why);
        }
    }

    /// Records words as arguments, which may name files of code.
    fn trailing(&mut self, words: &[Word]) {
        for word in words {
            self.name(word, 0, FileUse::Trailing);
        }
    }

    /// Reads an unknown program's words, and returns the command among them, if any.
    fn others<'a>(&mut self, words: &'a [Word]) -> Option<&'a [Word]> {
        let known = |word: &Word| {
            // These are commands of a shell's line alone.
            let is_builtin = matches!(&word.text[..], b"." | b"exec" | b"source");
            !is_builtin && !matches!(Sort::of(&word.text), Sort::Other)
        };
        let Some(at) = words.iter().position(known) else {
            self.trailing(words);
            return None;
        };
        let (before, command) = words.split_at(at);
        self.trailing(before);
        self.is_sure = false;
        Some(command)
    }

    /// Returns the words of the command that a starter starts.
    fn started<'a>(&mut self, starter: &Starter, words: &'a [Word]) -> Option<&'a [Word]> {
        let mut skipped = 0;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            let text = word.shown();
            if text == "--" {
                continue;
            }
            let letters = match text.strip_prefix('-') {
                Some(letters) if !letters.starts_with('-') => letters,
                Some(_) | None => "",
            };
            let last = letters.chars().last().map(|letter| format!("-{letter}"));
            let takes = |option: &str| starter.valued.contains(&option);
            if takes(&text) || last.is_some_and(|last| takes(&last)) {
                at += 1;
            } else if starter.name == "env" && letters.contains(['C', 'S'])
                || text.starts_with("--split-string")
                || text.starts_with("--chdir")
            {
                self.note_unbound(format!("what `{} {text}` starts", starter.name));
                return None;
            } else if text.starts_with('-') {
                // The starters' other options take no word.
            } else if starter.name == "env" && text.contains('=') {
                self.variable(&word.text);
            } else if skipped < starter.skipped {
                skipped += 1;
            } else {
                return words.get(at - 1..);
            }
        }
        None
    }

    /// Records a variable that a command sets, if it can make programs load code.
    fn variable(&mut self, assignment: &[u8]) {
        let name = assignment.split(|byte| *byte == b'=').next();
        let name = String::from_utf8_lossy(name.unwrap_or_default());
        if environment::is_closed_to_requests(&name) {
            self.note_unbound(format!("what the variable `{name}` has found or loaded"));
        }
    }

    /// Records the program of a command, by its path or as one that `PATH` finds.
    fn executed(&mut self, words: &[Word]) {
        let Some(program) = words.first() else {
            return;
        };
        if program.text.contains(&b'/') {
            self.name(program, 0, FileUse::Executed);
        } else if !matches!(&program.text[..], b"." | b"exec" | b"source") {
            self.note_unbound(format!(
                "the program `{}`, which `PATH` finds",
                program.shown()
            ));
        }
    }

    fn interpreted(&mut self, interpreter: &Interpreter, words: &[Word]) {
        let mut at = 0;
        let (mut has_code, mut has_script, mut unsure) = (false, false, 0);
        while let Some(word) = words.get(at) {
            let text = &word.text[..];
            let ends = text == b"--";
            let is_option = matches!(text, [b'-', _, ..])
                || (interpreter.script == ScriptPosition::OfAShell
                    && matches!(text, [b'+', _, ..]));
            if ends {
                at += 1;
                break;
            }
            if text == b"-" {
                self.note_unbound("the script on stdin");
                return self.trailing(&words[at + 1..]);
            }
            if !is_option {
                match interpreter.script {
                    ScriptPosition::After(before)
                        if before.iter().any(|it| it.as_bytes() == text) =>
                    {
                        at += 1;
                        continue;
                    }
                    ScriptPosition::After(_)
                    | ScriptPosition::First
                    | ScriptPosition::None
                    | ScriptPosition::OfAShell => break,
                }
            }
            at += 1;
            if interpreter.script == ScriptPosition::OfAShell && !text.starts_with(b"--") {
                if text.starts_with(b"-") && text.contains(&b's') {
                    self.note_unbound("the script on stdin");
                    return self.trailing(&words[at..]);
                }
                has_code |= text.starts_with(b"-") && text.contains(&b'c');
            }
            match interpreter.option(text) {
                Took::Itself => {}
                Took::Unknown => unsure += 1,
                Took::Within(from, kind) => {
                    has_script |= kind == OptionKind::Script;
                    has_code |= self.value(word, from, kind);
                }
                Took::Next(kind) => {
                    if let Some(next) = words.get(at) {
                        has_script |= kind == OptionKind::Script;
                        has_code |= self.value(next, 0, kind);
                        at += 1;
                    }
                }
            }
            if has_code && interpreter.script != ScriptPosition::OfAShell {
                let is_module = text.contains(&b'm') && !text.contains(&b'c');
                if is_module && interpreter.names.contains(&"python") {
                    self.note_unbound("the module that `-m` names");
                } else if text.starts_with(b"--run") && interpreter.names.contains(&"node") {
                    self.note_unbound("the command of `package.json` that `--run` names");
                }
                return self.trailing(words.get(at..).unwrap_or_default());
            }
        }
        let rest = words.get(at..).unwrap_or_default();
        let is_shell = interpreter.script == ScriptPosition::OfAShell;
        let Some((first, trailing)) = rest.split_first() else {
            if interpreter.script != ScriptPosition::None && (is_shell || !has_script) {
                self.note_unbound("what comes on stdin, where that is taken for the script");
            }
            return;
        };
        match interpreter.script {
            ScriptPosition::OfAShell if has_code => {
                self.line(first);
                self.trailing(trailing);
            }
            ScriptPosition::None => self.trailing(rest),
            ScriptPosition::After(_) | ScriptPosition::First if has_script => self.trailing(rest),
            // Each unknown option may have taken a word, and the next word is the script.
            ScriptPosition::After(_) | ScriptPosition::First | ScriptPosition::OfAShell
                if unsure > 0 =>
            {
                let (likely, trailing) = rest.split_at(rest.len().min(unsure + 1));
                for word in likely {
                    self.name(word, 0, FileUse::Likely);
                }
                self.trailing(trailing);
            }
            ScriptPosition::After(_) | ScriptPosition::First | ScriptPosition::OfAShell => {
                self.name(first, 0, FileUse::Script);
                self.trailing(trailing);
            }
        }
    }

    /// Records an option's value, and returns whether it is code.
    fn value(&mut self, word: &Word, from: usize, kind: OptionKind) -> bool {
        let used = match kind {
            OptionKind::Inline => return true,
            OptionKind::File => FileUse::Library,
            OptionKind::Script if &word.text[from..] == b"-" => {
                self.note_unbound("the script on stdin");
                return false;
            }
            OptionKind::Script => FileUse::Script,
            OptionKind::Value => FileUse::Perhaps,
        };
        self.name(word, from, used);
        false
    }

    /// Reads a shell's line, if it is one plain command.
    fn line(&mut self, line: &Word) {
        if self.reading.line.is_none() {
            self.reading.line = Some(OsString::from_vec(line.text.clone()));
        }
        // A line within a line would have to be quoted twice.
        let words = match line.spot.line {
            None => words_of(&line.text),
            Some(_) => None,
        };
        let Some(words) = words else {
            let why = "what the shell's line starts or reads: it is more than one plain command";
            self.note_unbound(why);
            return;
        };
        let words = words.into_iter().map(|(text, range)| Word {
            spot: WordSpot {
                line: Some(range),
                ..line.spot.clone()
            },
            text,
        });
        let is_assignment = |word: &Word| {
            let name = word.text.split(|byte| *byte == b'=').next();
            name.is_some_and(|name| {
                name.len() < word.text.len()
                    && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
            })
        };
        let words: Vec<_> = words.collect();
        let set = words.iter().take_while(|word| is_assignment(word)).count();
        let (variables, command) = words.split_at(set);
        for variable in variables {
            self.variable(&variable.text);
        }
        self.executed(command);
        self.command(command);
    }
}

/// Splits a line into words with their ranges, if a shell would do nothing else. There must be nothing to expand, one command, no
/// redirection.
fn words_of(line: &[u8]) -> Option<Vec<(Vec<u8>, Range<usize>)>> {
    let mut words = Vec::new();
    let mut at = 0;
    let end = line.trim_ascii_end().len();
    while at < end {
        if matches!(line[at], b' ' | b'\t') {
            at += 1;
            continue;
        }
        let (start, mut text) = (at, Vec::new());
        while at < end && !matches!(line[at], b' ' | b'\t') {
            match line[at] {
                quote @ (b'\'' | b'"') => {
                    let length = line[at + 1..end].iter().position(|byte| *byte == quote)?;
                    let quoted = &line[at + 1..=at + length];
                    let expands = |byte: &u8| matches!(byte, b'$' | b'`' | b'\\' | b'!');
                    if quote == b'"' && quoted.iter().any(expands) {
                        return None;
                    }
                    text.extend_from_slice(quoted);
                    at += length + 2;
                }
                byte if byte.is_ascii_alphanumeric()
                    || !byte.is_ascii()
                    || b"_@%+=:,./-".contains(&byte) =>
                {
                    text.push(byte);
                    at += 1;
                }
                _ => return None,
            }
        }
        words.push((text, start..at));
    }
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is named: its use, argument, prefix and path.
    fn named(words: &[&str]) -> Vec<(FileUse, usize, String, String)> {
        let argv: Vec<_> = words.iter().map(OsString::from).collect();
        let text = |it: OsString| it.into_string().unwrap();
        let named = read(&argv).named.into_iter();
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
            assert_eq!(read(&argv).unbound.len(), 1, "{words:?}");
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
        // What is the script's own.
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
            let reading = read(&argv);
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
}
