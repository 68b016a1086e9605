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

/// The longest path of Linux, bytes.
const MAX_PATH_BYTES: usize = 4096;

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
    /// A script's path, or a name under which an interpreter finds code.
    Found,
    /// Code if it is a file: an unknown option stands before it.
    Likely,
    /// As `Perhaps`, but other text follows in the word.
    Part,
    /// An option's value, or its end: code if it is a file.
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
    /// The path of a program that has words and is neither an interpreter nor a starter.
    pub(super) other: Option<OsString>,
    /// Descriptions of code that cannot be bound to content.
    pub(super) unbound: Vec<String>,
}

/// An interpreter: the exceptions to the reading that the words of all interpreters have.
///
/// Up to the script, a file that a word or a part of a word names is bound. An option that is not listed takes nothing,
/// or where [`Self::takes_next`] perhaps the next word.
struct Interpreter {
    /// Names, without a version at their end.
    names: &'static str,
    /// The listed options. A shortened long option stands for the first that it begins.
    options: &'static [(OptionKind, &'static str)],
    /// The position of the script among the words that are no options.
    script: ScriptPosition,
    spelling: Spelling,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum OptionKind {
    /// Takes code: there is no script then.
    Code,
    /// As `Code`, and all words after the code are its own.
    CodeBeforeWords,
    /// Takes a value that names no code: a mode, a number, a file that is written.
    Data,
    /// Takes nothing, or text in its word that names no code.
    Flag,
    /// Takes a file of code, or a library by name.
    Library,
    /// Takes the name of a long option.
    Long,
    /// Takes a name under which the interpreter finds code. All words after it are that code's own.
    Module,
    /// Takes a file of code by its path. With one, the first word is no script.
    Script,
    /// Takes another value.
    Value,
    /// Takes the rest of its word, which may be empty.
    Within,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum ScriptPosition {
    /// As `First`; a word of these may come before it.
    After(&'static str),
    /// The first word.
    First,
    /// As `First`, or the word is a name under which the interpreter finds code. `@FILE` is a file of arguments.
    Found,
    /// Code comes by option, or is the first word itself. Options may stand after it.
    None,
    /// As `First`, but with `-c` before it the first word is the code. With `-s` there is no script.
    OfAShell,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Spelling {
    /// An option with one dash is a letter, and several may share a word. A listed long option may have one dash, too.
    Letters,
    /// An option with one dash has a whole name.
    Names,
}

/// Returns an interpreter of which several options may share a word.
const fn lettered(
    names: &'static str,
    script: ScriptPosition,
    options: &'static [(OptionKind, &'static str)],
) -> Interpreter {
    Interpreter {
        names,
        options,
        script,
        spelling: Spelling::Letters,
    }
}

/// Returns an interpreter whose options have whole names, with one dash or two.
const fn named(
    names: &'static str,
    script: ScriptPosition,
    options: &'static [(OptionKind, &'static str)],
) -> Interpreter {
    Interpreter {
        names,
        options,
        script,
        spelling: Spelling::Names,
    }
}

const INTERPRETERS: &[Interpreter] = &[
    lettered(
        "ash bash csh dash ksh lksh mksh oksh posh rbash sh tcsh yash zsh",
        ScriptPosition::OfAShell,
        &[
            (OptionKind::Script, "--init-file --rcfile"),
            (OptionKind::Data, "-O -o +O +o --emulate"),
            (OptionKind::Flag, BASH_FLAGS),
        ],
    ),
    // Of a shell's line.
    lettered(". source", ScriptPosition::First, &[]),
    lettered(
        "fish",
        ScriptPosition::First,
        &[
            (OptionKind::Code, "-c --command"),
            (OptionKind::Data, "-C -d -f -o --features --init-command"),
            (OptionKind::Flag, "--interactive --login --private"),
        ],
    ),
    lettered(
        "pypy python",
        ScriptPosition::First,
        &[
            (OptionKind::CodeBeforeWords, "-c"),
            (OptionKind::Module, "-m"),
            (OptionKind::Data, "-W --check-hash-based-pycs"),
            (OptionKind::Value, "-X"),
        ],
    ),
    lettered(
        "node nodejs",
        ScriptPosition::First,
        &[
            (
                OptionKind::Library,
                "-r --experimental-loader --import --loader --require",
            ),
            (OptionKind::Code, "-e -p --eval --print"),
            (OptionKind::Module, "--run"),
            (
                OptionKind::Data,
                "-C --conditions --disable-warning --dns-result-order --input-type --redirect-warnings --title --unhandled-rejections",
            ),
            (
                OptionKind::Value,
                "--env-file --env-file-if-exists --icu-data-dir --openssl-config",
            ),
            (
                OptionKind::Flag,
                "--check --enable-source-maps --experimental-strip-types --interactive --permission --preserve-symlinks --test --trace-warnings --watch",
            ),
        ],
    ),
    lettered(
        "bun",
        ScriptPosition::After("run test"),
        &[
            (OptionKind::Library, "-r --import --preload --require"),
            (OptionKind::Code, "-e -p --eval --print"),
            (OptionKind::Value, "-c --config --cwd --env-file"),
        ],
    ),
    lettered(
        "deno",
        ScriptPosition::After("run serve test"),
        &[
            (OptionKind::Library, "--import --preload --require"),
            (OptionKind::Data, "-L --log-level"),
            (OptionKind::Value, "-c --cert --config --import-map --lock"),
            (
                OptionKind::Flag,
                "--allow-all --allow-env --allow-ffi --allow-net --allow-read --allow-run --allow-sys --allow-write --cached-only --quiet",
            ),
        ],
    ),
    lettered(
        "perl",
        ScriptPosition::First,
        &[
            (OptionKind::Code, "-E -e"),
            (OptionKind::Value, "-I"),
            (OptionKind::Within, "-C -D -F -M -i -m -x"),
        ],
    ),
    lettered(
        "ruby",
        ScriptPosition::First,
        &[
            (OptionKind::Library, "-r --require"),
            (OptionKind::Code, "-e"),
            (OptionKind::Data, "--encoding"),
            (OptionKind::Value, "-C -I -X"),
            (OptionKind::Within, "-0 -E -F -K -T -W -i -x"),
        ],
    ),
    lettered(
        "php",
        ScriptPosition::First,
        &[
            (OptionKind::Script, "-F -f --file --process-file"),
            (OptionKind::Code, "-B -E -R -r --run"),
            (OptionKind::Data, "-S"),
            (OptionKind::Value, "-c -d -t -z --define --php-ini"),
        ],
    ),
    lettered(
        "lua luajit",
        ScriptPosition::First,
        &[
            (OptionKind::Library, "-l"),
            // A script may follow the code.
            (OptionKind::Data, "-e"),
        ],
    ),
    named(
        "tclsh",
        ScriptPosition::First,
        &[(OptionKind::Data, "-encoding")],
    ),
    named(
        "pwsh",
        ScriptPosition::First,
        &[
            (OptionKind::Script, "-File -f"),
            (
                OptionKind::CodeBeforeWords,
                "-Command -EncodedCommand -c -e -ec",
            ),
            (
                OptionKind::Data,
                "-ExecutionPolicy -WorkingDirectory -ep -ex -wd",
            ),
        ],
    ),
    lettered(
        "awk gawk mawk nawk",
        ScriptPosition::None,
        &[
            (OptionKind::Script, "-E -f --exec --file"),
            (OptionKind::Library, "-l --load"),
            (OptionKind::Value, "-i --include"),
            (OptionKind::Code, "-e --source"),
            (OptionKind::Data, "-F -v --assign --field-separator"),
            // The files that gawk writes.
            (
                OptionKind::Flag,
                "-d -o -p --dump-variables --pretty-print --profile",
            ),
            (OptionKind::Long, "-W"),
        ],
    ),
    lettered(
        "gsed sed",
        ScriptPosition::None,
        &[
            (OptionKind::Script, "-f --file"),
            (OptionKind::Code, "-e --expression"),
            (OptionKind::Data, "-l --line-length"),
            (OptionKind::Within, "-i"),
        ],
    ),
    lettered(
        "jq",
        ScriptPosition::None,
        &[
            (OptionKind::Script, "-f --from-file"),
            (
                OptionKind::Data,
                "--arg --argfile --argjson --indent --rawfile --slurpfile",
            ),
            (OptionKind::Value, "-L"),
        ],
    ),
    named(
        "java",
        ScriptPosition::Found,
        &[
            (OptionKind::Script, "-jar"),
            (OptionKind::Module, "-m --module"),
            (
                OptionKind::Data,
                "--add-exports --add-modules --add-opens --add-reads --limit-modules --source",
            ),
            (
                OptionKind::Value,
                "-classpath -cp -p --class-path --module-path --patch-module --upgrade-module-path",
            ),
            (
                OptionKind::Flag,
                "--dry-run --enable-preview --show-version",
            ),
        ],
    ),
    // Each option of these may take a word.
    named(
        "Rscript elixir escript expect groovy guile julia nu osascript racket runghc runhaskell rust-script",
        ScriptPosition::Found,
        &[],
    ),
];

/// The long options of bash that take nothing. With one dash they are no letters.
const BASH_FLAGS: &str = "--debug --debugger --dump-po-strings --dump-strings --help --login --noediting --noprofile --norc --posix --pretty-print --protected --restricted --verbose --version --wordexp";

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

/// Endings of files that interpreters, and compilers that start what they compile, read.
const ENDINGS: &[&str] = &[
    "awk", "bash", "bats", "cjs", "clj", "cr", "cs", "csh", "csx", "cts", "dart", "erl", "escript",
    "ex", "exp", "exs", "fish", "go", "groovy", "hs", "jar", "java", "jl", "jq", "js", "jsx",
    "ksh", "kts", "lhs", "lua", "mjs", "mts", "nim", "nu", "php", "pl", "pm", "ps1", "py", "pyc",
    "pyz", "r", "raku", "rb", "rs", "sc", "scala", "scm", "sed", "sh", "swift", "tcl", "ts", "tsx",
    "wasm", "zsh",
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
    let mut reader = WordReader::default();
    reader.command(&words.collect::<Vec<_>>());
    reader.reading
}

/// Reads the argument in a script's first line.
///
/// The files that it names are those of argument 1, before the script's own path. Words that `env -S` makes of it are
/// no arguments, so no other files can take their places.
pub(super) fn first_line(interpreter: &Path, argument: &OsStr) -> CommandReading {
    let text = argument.as_bytes();
    let spot = WordSpot::argument(1);
    let word = |text: &[u8]| Word {
        spot: spot.clone(),
        text: text.to_vec(),
    };
    let script = Word {
        spot: WordSpot::argument(2),
        text: b"script".to_vec(),
    };
    let split = [&b"-S"[..], b"--split-string="];
    let split = split.iter().find_map(|it| text.strip_prefix(*it));
    let mut reader = WordReader::default();
    match (Sort::of(interpreter.as_os_str().as_bytes()), split) {
        (Sort::Interpreter(interpreter), _) => {
            reader.interpreted(interpreter, &[word(text), script]);
        }
        (Sort::Starter(_), Some(line)) => {
            let words = line.split(u8::is_ascii_whitespace);
            let words = words.filter(|it| !it.is_empty()).map(word);
            let words: Vec<_> = words.chain([script]).collect();
            let command = reader.assigned(&words);
            reader.command(command);
            for named in &mut reader.reading.named {
                named.used = FileUse::Part;
            }
        }
        (Sort::Starter(_) | Sort::Other, _) if text.contains(&b'/') => {
            reader.name(&word(text), 0, FileUse::Perhaps);
        }
        (Sort::Starter(_) | Sort::Other, _) => {}
    }
    reader.reading.named.retain(|it| it.spot.argument == 1);
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
        let interpreter = INTERPRETERS
            .iter()
            .find(|it| it.names.split(' ').any(|name| name == stem));
        interpreter.map_or(Self::Other, Self::Interpreter)
    }
}

/// Returns whether the text after a dash in a program's name is its version.
fn of_a_version(rest: &str) -> bool {
    let first = rest.split('-').next().unwrap_or_default();
    matches!(first, "dbg" | "static") || first.contains(|c: char| c.is_ascii_digit())
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
#[derive(Clone, Copy)]
enum Took {
    /// Nothing but itself.
    Itself,
    /// The next word too.
    Next(OptionKind),
    /// An option that is not listed.
    Unlisted,
    /// A value in its own word, from this byte on.
    Within(usize, OptionKind),
}

/// The effect of one option, with the word that has its value.
enum Effect<'a> {
    None,
    Unlisted,
    /// The value begins at this byte of the word.
    Value(&'a Word, usize, OptionKind),
}

impl ScriptPosition {
    /// Returns whether a word begins with the sign of an option.
    fn is_option(self, word: &[u8]) -> bool {
        match word {
            [b'-', _, ..] => true,
            [b'+', _, ..] => self == Self::OfAShell,
            [b'@', _, ..] => self == Self::Found,
            _ => false,
        }
    }

    /// Returns whether a word may come before the script.
    fn is_before(self, word: &[u8]) -> bool {
        match self {
            Self::After(subcommands) => subcommands.split(' ').any(|it| it.as_bytes() == word),
            Self::First | Self::Found | Self::None | Self::OfAShell => false,
        }
    }
}

impl OptionKind {
    /// Returns the effect of an option without a value in its word.
    const fn alone(self) -> Took {
        match self {
            Self::Flag | Self::Within => Took::Itself,
            Self::Code
            | Self::CodeBeforeWords
            | Self::Data
            | Self::Library
            | Self::Long
            | Self::Module
            | Self::Script
            | Self::Value => Took::Next(self),
        }
    }
}

impl Interpreter {
    /// Returns the kind of the first listed option that a test admits.
    fn find(&self, admits: impl Fn(&[u8]) -> bool) -> Option<OptionKind> {
        let mut listed = self.options.iter();
        let listed = listed.find(|(_, names)| names.split(' ').any(|name| admits(name.as_bytes())));
        listed.map(|(kind, _)| *kind)
    }

    fn kind(&self, option: &[u8]) -> Option<OptionKind> {
        self.find(|name| name == option)
    }

    /// Returns the kind of an option with a name of several letters.
    fn long_kind(&self, option: &[u8]) -> Option<OptionKind> {
        let is_it = |name: &[u8]| name == option || name.strip_prefix(b"-") == Some(option);
        self.find(is_it).or_else(|| {
            let is_shortened = |name: &[u8]| name.starts_with(b"--") && abbreviates(option, name);
            self.find(is_shortened)
        })
    }

    /// Returns whether a word is an option with a name of several letters.
    fn is_long(&self, word: &[u8]) -> bool {
        let is_listed = |name: &[u8]| name.len() > 2 && name.strip_prefix(b"-") == Some(word);
        word.starts_with(b"--")
            || self.spelling == Spelling::Names
            || self.find(is_listed).is_some()
    }

    /// Returns whether an option that is not listed may take the next word.
    fn takes_next(&self, option: &[u8]) -> bool {
        if option.contains(&b'=') {
            return false;
        }
        match self.script {
            ScriptPosition::After(_) | ScriptPosition::First => {
                option.starts_with(b"--") && !option.starts_with(b"--no-")
            }
            ScriptPosition::Found => self.options.is_empty() && option.starts_with(b"-"),
            ScriptPosition::None | ScriptPosition::OfAShell => false,
        }
    }

    /// Returns the effect of the option at a word, and the position behind it and its value.
    fn effect<'a>(&self, words: &'a [Word], at: usize) -> (Effect<'a>, usize) {
        let word = &words[at];
        match self.option(&word.text) {
            Took::Itself => (Effect::None, at + 1),
            Took::Next(OptionKind::Long) => match words.get(at + 1) {
                Some(name) => self.named_effect(name, 0, words, at + 2),
                None => (Effect::None, at + 1),
            },
            Took::Next(kind) => next_value(words, at + 1, kind),
            Took::Unlisted => (Effect::Unlisted, at + 1),
            Took::Within(from, OptionKind::Long) => self.named_effect(word, from, words, at + 1),
            Took::Within(from, kind) => (Effect::Value(word, from, kind), at + 1),
        }
    }

    /// Returns the same of a long option whose name, without dashes, a word has from this byte on.
    fn named_effect<'a>(
        &self,
        word: &'a Word,
        from: usize,
        words: &'a [Word],
        next: usize,
    ) -> (Effect<'a>, usize) {
        let spelled = [b"--", &word.text[from..]].concat();
        match self.option(&spelled) {
            Took::Itself | Took::Unlisted => (Effect::None, next),
            Took::Next(kind) => next_value(words, next, kind),
            Took::Within(value, kind) => (Effect::Value(word, from + value - 2, kind), next),
        }
    }

    /// Reads a word that begins with the sign of an option.
    fn option(&self, word: &[u8]) -> Took {
        if self.is_long(word) {
            let name = word.split(|byte| *byte == b'=').next().unwrap_or(word);
            return match self.long_kind(name) {
                None => Took::Unlisted,
                Some(kind) if name.len() < word.len() => Took::Within(name.len() + 1, kind),
                Some(kind) => kind.alone(),
            };
        }
        // The first option that takes a value takes the rest of the word, or else the next word.
        for (at, letter) in word.iter().enumerate().skip(1) {
            if !letter.is_ascii_alphanumeric() {
                break;
            }
            let Some(kind) = self.kind(&[word[0], *letter]) else {
                continue;
            };
            // A shell's `-o` takes the next word wherever it stands in its cluster.
            if at + 1 == word.len() || self.script == ScriptPosition::OfAShell {
                return kind.alone();
            }
            return Took::Within(at + 1, kind);
        }
        Took::Unlisted
    }
}

/// Returns the effect of an option whose value is the next word, if there is one.
fn next_value(words: &[Word], at: usize, kind: OptionKind) -> (Effect<'_>, usize) {
    match words.get(at) {
        Some(value) => (Effect::Value(value, 0, kind), at + 1),
        None => (Effect::None, at),
    }
}

/// Returns whether a byte separates the parts of a word.
const fn is_separator(byte: u8) -> bool {
    matches!(byte, b'=' | b':' | b'@')
}

/// Returns whether a text is the beginning of a long option's name.
fn abbreviates(text: &[u8], name: &[u8]) -> bool {
    text.len() > 2 && text.starts_with(b"--") && name.starts_with(text)
}

/// Reads the words of one command.
struct WordReader {
    /// Whether the words are a command's for certain. Behind an unknown program they only look like it.
    is_sure: bool,
    reading: CommandReading,
}

impl Default for WordReader {
    fn default() -> Self {
        Self {
            is_sure: true,
            reading: CommandReading::default(),
        }
    }
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
                Sort::Other => {
                    if self.reading.other.is_none() && !rest.is_empty() {
                        self.reading.other = Some(OsString::from_vec(program.text.clone()));
                    }
                    self.others(rest)
                }
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
            (false, FileUse::Found | FileUse::Script) => FileUse::Likely,
            (true | false, used) => used,
        };
        self.push(used, || word.names(from, used));
    }

    fn push(&mut self, used: FileUse, named: impl FnOnce() -> NamedFile) {
        let must_be = matches!(used, FileUse::Executed | FileUse::Library | FileUse::Script);
        if !must_be && self.reading.named.len() >= MAX_NAMED {
            let why = format!("what words beyond the first {MAX_NAMED} name");
            return self.note_unbound(why);
        }
        self.reading.named.push(named());
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
            let takes = |option: &str| {
                let mut valued = starter.valued.iter();
                valued.any(|it| *it == option || abbreviates(option.as_bytes(), it.as_bytes()))
            };
            let name = text.split('=').next().unwrap_or_default().as_bytes();
            let elsewhere = [&b"--chdir"[..], b"--split-string"];
            if takes(&text) || last.is_some_and(|last| takes(&last)) {
                at += 1;
            } else if starter.name == "env"
                && (letters.contains(['C', 'S'])
                    || elsewhere.iter().any(|it| abbreviates(name, it)))
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
        let script = interpreter.script;
        let is_shell = script == ScriptPosition::OfAShell;
        let mut at = 0;
        let (mut has_code, mut has_script, mut unsure) = (false, false, 0);
        // The first word that is no option, where options may stand anywhere.
        let mut early = None;
        while let Some(word) = words.get(at) {
            let text = &word.text[..];
            if text == b"--" {
                at += 1;
                break;
            }
            if text == b"-" && script != ScriptPosition::None {
                self.note_unbound("the script on stdin");
                return self.trailing(&words[at + 1..]);
            }
            if !script.is_option(text) {
                at += 1;
                if script == ScriptPosition::None {
                    if early.is_none() && !has_code && !has_script {
                        early = Some(word);
                    }
                    self.name(word, 0, FileUse::Trailing);
                } else if !script.is_before(text) {
                    at -= 1;
                    break;
                }
                continue;
            }
            if is_shell && !interpreter.is_long(text) {
                if text.starts_with(b"-") && text.contains(&b's') {
                    self.note_unbound("the script on stdin");
                    return self.trailing(&words[at + 1..]);
                }
                has_code |= text.starts_with(b"-") && text.contains(&b'c');
            }
            let (effect, next) = interpreter.effect(words, at);
            at = next;
            match effect {
                Effect::None => {}
                Effect::Unlisted => {
                    self.unlisted(interpreter, word);
                    unsure += usize::from(interpreter.takes_next(text));
                }
                Effect::Value(value, from, kind) => {
                    has_code |= kind == OptionKind::Code;
                    has_script |= kind == OptionKind::Script;
                    self.value(value, from, kind);
                    if matches!(kind, OptionKind::CodeBeforeWords | OptionKind::Module) {
                        if kind == OptionKind::Module {
                            self.note_unbound(format!("the code that `{}` names", word.shown()));
                        }
                        return self.trailing(words.get(at..).unwrap_or_default());
                    }
                }
            }
        }
        let rest = words.get(at..).unwrap_or_default();
        if script == ScriptPosition::None {
            // With its option for a file, jq takes the first word for that file, wherever the option stands.
            if let Some(early) = early.filter(|_| has_script) {
                self.name(early, 0, FileUse::Likely);
            }
            return self.trailing(rest);
        }
        let Some((first, trailing)) = rest.split_first() else {
            if is_shell || !has_code && !has_script {
                self.note_unbound("what comes on stdin, where that is taken for the script");
            }
            return;
        };
        if is_shell && has_code {
            self.line(first);
            self.trailing(trailing);
        } else if !is_shell && (has_code || has_script) {
            self.trailing(rest);
        } else if unsure > 0 {
            // Each of these options may have taken a word, and the next word is the script.
            let mut left = unsure + 1;
            for word in rest {
                let is_likely = left > 0 && !script.is_before(&word.text);
                left -= usize::from(is_likely);
                let used = if is_likely {
                    FileUse::Likely
                } else {
                    FileUse::Trailing
                };
                self.name(word, 0, used);
            }
        } else {
            let used = match script {
                ScriptPosition::Found => FileUse::Found,
                ScriptPosition::After(_)
                | ScriptPosition::First
                | ScriptPosition::None
                | ScriptPosition::OfAShell => FileUse::Script,
            };
            self.name(first, 0, used);
            self.trailing(trailing);
        }
    }

    /// Records the files that an option's value names.
    fn value(&mut self, word: &Word, from: usize, kind: OptionKind) {
        match kind {
            OptionKind::Code
            | OptionKind::CodeBeforeWords
            | OptionKind::Data
            | OptionKind::Flag
            | OptionKind::Module => {}
            OptionKind::Library => self.name(word, from, FileUse::Library),
            OptionKind::Script if &word.text[from..] == b"-" => {
                self.note_unbound("the script on stdin");
            }
            OptionKind::Script => self.name(word, from, FileUse::Script),
            OptionKind::Long | OptionKind::Value | OptionKind::Within => self.parts(word, from),
        }
    }

    /// Records the files that an option names which is not listed.
    fn unlisted(&mut self, interpreter: &Interpreter, word: &Word) {
        let text = &word.text[..];
        if text.starts_with(b"@") {
            return self.parts(word, 1);
        }
        let value = text
            .iter()
            .skip(1)
            .position(|it| !it.is_ascii_alphanumeric());
        match value {
            // Letters alone are a cluster of options.
            Some(at) if !interpreter.is_long(text) => {
                self.parts(word, text.len().min(2));
                if at > 1 {
                    self.part(word, 1 + at);
                }
            }
            Some(_) | None => self.parts_behind(word, 1),
        }
    }

    /// Records the files that a word may name from this byte on.
    fn parts(&mut self, word: &Word, from: usize) {
        self.part(word, from);
        self.parts_behind(word, from);
    }

    /// Records the files that a word may name behind its separators.
    fn parts_behind(&mut self, word: &Word, from: usize) {
        for (at, byte) in word.text.iter().enumerate().skip(from) {
            if is_separator(*byte) {
                self.part(word, at + 1);
            }
        }
    }

    /// Records the file that a word may name from this byte to its end, or to a separator.
    fn part(&mut self, word: &Word, from: usize) {
        let rest = &word.text[from..];
        // The text behind a URL's scheme is no path.
        if rest.starts_with(b"//") {
            return;
        }
        // Each end of a long word, with the text before it, would take quadratic time.
        let is_long = word.text.len() > MAX_PATH_BYTES;
        let end = rest.iter().position(|byte| is_separator(*byte));
        let length = end.unwrap_or(rest.len());
        if (end.is_some() || is_long) && (1..=MAX_PATH_BYTES).contains(&length) {
            self.push(FileUse::Part, || NamedFile {
                path: OsString::from_vec(rest[..length].to_vec()),
                spot: word.spot.clone(),
                used: FileUse::Part,
            });
        }
        if !is_long && !rest.is_empty() {
            self.name(word, from, FileUse::Perhaps);
        }
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
        let words: Vec<_> = words.collect();
        let command = self.assigned(&words);
        self.executed(command);
        self.command(command);
    }

    /// Records the variables that are set before a command, and returns the command's words.
    fn assigned<'a>(&mut self, words: &'a [Word]) -> &'a [Word] {
        let is_assignment = |word: &Word| {
            let name = word.text.split(|byte| *byte == b'=').next();
            name.is_some_and(|name| {
                name.len() < word.text.len()
                    && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
            })
        };
        let set = words.iter().take_while(|word| is_assignment(word)).count();
        let (variables, command) = words.split_at(set);
        for variable in variables {
            self.variable(&variable.text);
        }
        command
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

    /// A name of one letter more or less is another option, so each spelling stands beside the file that it names.
    #[test]
    fn each_part_of_a_word_before_the_script_may_name_a_file() {
        for (words, used, argument, prefix) in [
            (
                &["node", "--env-file=/f", "/s"][..],
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
            (&["jq", "/f", "-f", "x"], FileUse::Likely, 1, ""),
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
            (&["guile", "-l", "/f", "/s"], FileUse::Likely, 2, ""),
            (
                &["timeout", "--sig", "KILL", "5", "/f"],
                FileUse::Executed,
                4,
                "",
            ),
        ] {
            let expected = (used, argument, prefix.to_owned(), "/f".to_owned());
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
