//! The table of interpreters and of programs that start others, and the reading of one option by it.

use super::{SHELLS_STARTERS, Word, abbreviates, lists};

/// An interpreter: the exceptions to the reading that the words of all interpreters have.
///
/// Up to the script, a file that a word or a part of a word names is bound. An option that is not listed takes nothing,
/// or where [`Self::takes_next`] perhaps the next word.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Interpreter {
    /// Names, without a version at their end.
    names: &'static str,
    /// The endings that it adds to a name.
    pub(super) endings: &'static str,
    /// Words without which code loads and starts nothing; empty = any code may.
    loads: &'static str,
    /// The listed options. Where names may be shortened, one stands for the first that it begins.
    options: &'static [(OptionKind, &'static str)],
    /// The position of the script among the words that are no options.
    pub(super) script: ScriptPosition,
    spelling: Spelling,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum OptionKind {
    /// Takes code: there is no script then.
    Code,
    /// Takes code; a script may follow.
    CodeBeforeScript,
    /// As `Code`, and all words after the code are its own.
    CodeBeforeWords,
    /// Takes a value that names no code: a mode, a number, a file that is written.
    Data,
    /// Takes the directory from which relative names are looked up.
    Directory,
    /// Takes nothing, or text in its word that names no code.
    Flag,
    /// Takes a file of code, or a name under which the interpreter finds one.
    Found,
    /// Takes a module's name in its word, and code behind it.
    Import,
    /// Takes a file of code, or a library by name.
    Library,
    /// Takes a list. With a word in it that begins with `e`, the next word is a file of code.
    List,
    /// Takes the name of a long option.
    Long,
    /// Takes a name under which the interpreter finds code. All words after it are that code's own.
    Module,
    /// Takes two words that name no code.
    Pair,
    /// Takes a file of code by its path. With one, the first word is no script.
    Script,
    /// Takes a text that is split into words.
    Split,
    /// Takes nothing, and has the first word read in this way.
    Turns(FirstWord),
    /// Takes another value.
    Value,
    /// Takes a file of words that count as the command's, or of variables.
    Words,
    /// Takes the rest of its word, which may be empty.
    Within,
}

/// The meaning of the first word that is no option, by the options before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum FirstWord {
    /// Code.
    Code,
    /// This word and all words behind it may be files of code.
    Each,
    /// A file of code, wherever the option stands.
    File,
    /// A script that `PATH` finds.
    Searched,
    /// The script's first argument; the script comes on stdin.
    Stdin,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ScriptPosition {
    /// As `First`; a word of these may come before it. A word without a slash may also be a command, or a name.
    After(&'static str),
    /// As `Found`, and each option that is not listed may take a word.
    Doubtful,
    /// The first word.
    First,
    /// As `First`, or the word is a name under which the interpreter finds code. `@FILE` is a file of arguments.
    Found,
    /// Code comes by option, or is the first word itself. Options may stand after it.
    None,
    /// As `First`. A lone `-` ends the options.
    OfAShell,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Spelling {
    /// As `Letters`, but a value is never in its option's word.
    Apart,
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
        endings: "",
        loads: "",
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
        spelling: Spelling::Names,
        ..lettered(names, script, options)
    }
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        spelling: Spelling::Apart,
        ..lettered(
            "ash bash csh dash posh rbash sh tcsh yash",
            ScriptPosition::OfAShell,
            &[
                SHELL_CODE,
                SHELL_STDIN,
                (OptionKind::Script, "--init-file --rcfile"),
                (OptionKind::Data, "-O -o +O +o"),
                (OptionKind::Flag, BASH_FLAGS),
            ],
        )
    },
    lettered(
        "ksh lksh mksh oksh zsh",
        ScriptPosition::OfAShell,
        &[
            SHELL_CODE,
            SHELL_STDIN,
            (OptionKind::Script, "--rcfile"),
            (OptionKind::Data, "-o +o --emulate"),
        ],
    ),
    // Of a shell's line.
    lettered(". source", ScriptPosition::First, &[]),
    lettered(
        "fish",
        ScriptPosition::First,
        &[
            (OptionKind::Code, "-c --command"),
            (OptionKind::CodeBeforeScript, "-C --init-command"),
            (
                OptionKind::Data,
                "-D -d -f -o -p --debug --debug-output --debug-stack-frames --features --profile --profile-startup",
            ),
            (
                OptionKind::Flag,
                "--interactive --login --no-config --no-execute --private",
            ),
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
    Interpreter {
        endings: "js json node",
        ..lettered(
            "node nodejs",
            ScriptPosition::First,
            &[
                (
                    OptionKind::Library,
                    "-r --experimental-loader --import --loader --require",
                ),
                (OptionKind::Code, "-e -p --eval --print"),
                (OptionKind::Module, "--run"),
                (OptionKind::Turns(FirstWord::Each), "--test"),
                (OptionKind::Library, "--test-reporter"),
                (
                    OptionKind::Data,
                    "-C --conditions --cpu-prof-dir --cpu-prof-name --diagnostic-dir --disable-warning --dns-result-order --heap-prof-dir --heap-prof-name --input-type --max-http-header-size --redirect-warnings --report-dir --report-directory --report-filename --stack-trace-limit --test-concurrency --test-name-pattern --test-reporter-destination --test-timeout --title --trace-event-categories --unhandled-rejections",
                ),
                (OptionKind::Words, "--env-file --env-file-if-exists"),
                (OptionKind::Value, "--icu-data-dir --openssl-config"),
                (
                    OptionKind::Flag,
                    "--abort-on-uncaught-exception --check --cpu-prof --enable-source-maps --experimental-strip-types --experimental-vm-modules --experimental-wasm-modules --expose-gc --expose_gc --heap-prof --interactive --max-old-space-size --max-semi-space-size --pending-deprecation --permission --preserve-symlinks --preserve-symlinks-main --stack-size --test-only --throw-deprecation --trace-deprecation --trace-exit --trace-uncaught --trace-warnings --use-openssl-ca --use-system-ca --watch",
                ),
            ],
        )
    },
    Interpreter {
        endings: "js cjs mjs json jsx ts tsx mts cts",
        ..lettered(
            "bun",
            ScriptPosition::After("run test"),
            &[
                (OptionKind::Library, "-r --import --preload --require"),
                (OptionKind::Code, "-e -p --eval --print"),
                (OptionKind::Directory, "--cwd"),
                (OptionKind::Words, "--env-file"),
                (OptionKind::Value, "-c --config"),
            ],
        )
    },
    lettered(
        "deno",
        ScriptPosition::After("run serve test"),
        &[
            (OptionKind::Library, "--import --preload --require"),
            (OptionKind::Data, "-L --log-level"),
            (OptionKind::Words, "--env-file"),
            (OptionKind::Value, "-c --cert --config --import-map --lock"),
            (
                OptionKind::Flag,
                "-E -N -R -S -W --allow-all --allow-env --allow-ffi --allow-import --allow-net --allow-read --allow-run --allow-sys --allow-write --cached-only --deny-env --deny-ffi --deny-import --deny-net --deny-read --deny-run --deny-sys --deny-write --quiet",
            ),
        ],
    ),
    lettered(
        "perl",
        ScriptPosition::First,
        &[
            (OptionKind::Code, "-E -e"),
            (OptionKind::Turns(FirstWord::Searched), "-S"),
            (OptionKind::Value, "-I"),
            (OptionKind::Import, "-M -m"),
            (OptionKind::Within, "-C -D -F -i -x"),
        ],
    ),
    Interpreter {
        endings: "rb so",
        ..lettered(
            "ruby",
            ScriptPosition::First,
            &[
                (OptionKind::Library, "-r --require"),
                (OptionKind::Code, "-e"),
                (OptionKind::Turns(FirstWord::Searched), "-S"),
                (OptionKind::Directory, "-C -X"),
                (
                    OptionKind::Data,
                    "-E --backtrace-limit --disable --enable --encoding --external-encoding --internal-encoding",
                ),
                (
                    OptionKind::Flag,
                    "--debug --disable-all --disable-did_you_mean --disable-error_highlight --disable-frozen-string-literal --disable-gem --disable-gems --disable-jit --disable-rubyopt --disable-yjit --enable-all --enable-frozen-string-literal --enable-gems --enable-jit --enable-yjit --jit --mjit --rjit --verbose --yjit",
                ),
                (OptionKind::Value, "-I"),
                (OptionKind::Within, "-0 -F -K -T -W -i -x"),
            ],
        )
    },
    lettered(
        "php",
        ScriptPosition::First,
        &[
            (OptionKind::Script, "-F -f --file --process-file"),
            (
                OptionKind::Code,
                "-B -E -R -r --process-begin --process-code --process-end --run",
            ),
            (OptionKind::Data, "-S"),
            (OptionKind::Words, "-c --php-ini"),
            (OptionKind::Value, "-d -t -z --define"),
        ],
    ),
    lettered(
        "lua luajit",
        ScriptPosition::First,
        &[
            (OptionKind::Library, "-l"),
            (OptionKind::CodeBeforeScript, "-e"),
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
            (OptionKind::Directory, "-WorkingDirectory -wd"),
            (OptionKind::Data, "-ExecutionPolicy -ep -ex"),
        ],
    ),
    Interpreter {
        endings: "awk",
        loads: AWK_LOADS,
        ..lettered(
            "awk gawk nawk",
            ScriptPosition::None,
            &[
                (OptionKind::Script, "-E -f --exec --file"),
                (OptionKind::Library, "-l --load"),
                (OptionKind::Found, "-i --include"),
                (OptionKind::Code, "-e --source"),
                (OptionKind::Data, "-F -v --assign --field-separator"),
                (OptionKind::Within, "-D --debug"),
                // The files that gawk writes.
                (
                    OptionKind::Flag,
                    "-L -d -o -p --dump-variables --lint --pretty-print --profile",
                ),
                (OptionKind::Long, "-W"),
            ],
        )
    },
    Interpreter {
        loads: AWK_LOADS,
        ..lettered(
            "mawk",
            ScriptPosition::None,
            &[
                (OptionKind::Script, "-f --file"),
                (OptionKind::Data, "-F -v --assign --field-separator"),
                (OptionKind::List, "-W"),
            ],
        )
    },
    Interpreter {
        // Commands that start a program, which flags of `s` do, too.
        loads: "e",
        ..lettered(
            "gsed sed",
            ScriptPosition::None,
            &[
                (OptionKind::Script, "-f --file"),
                (OptionKind::Code, "-e --expression"),
                (OptionKind::Data, "-l --line-length"),
                (OptionKind::Within, "-i"),
            ],
        )
    },
    Interpreter {
        loads: "import include",
        ..lettered(
            "jq",
            ScriptPosition::None,
            &[
                (OptionKind::Turns(FirstWord::File), "-f --from-file"),
                (
                    OptionKind::Pair,
                    "--arg --argfile --argjson --rawfile --slurpfile",
                ),
                (OptionKind::Data, "--indent"),
                (OptionKind::Value, "-L"),
            ],
        )
    },
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
    lettered(
        "expect",
        ScriptPosition::First,
        &[
            (OptionKind::Script, "-b -f"),
            (OptionKind::CodeBeforeScript, "-c"),
            (OptionKind::Data, "-D"),
        ],
    ),
    named(
        "guile",
        ScriptPosition::Doubtful,
        &[
            (OptionKind::Script, "-s"),
            (OptionKind::CodeBeforeWords, "-c"),
            (OptionKind::Data, "-e"),
            (OptionKind::Value, "-C -L -l -x"),
        ],
    ),
    named(
        "Rscript groovy nu osascript",
        ScriptPosition::Doubtful,
        &[(OptionKind::Code, "-c -e --commands --execute")],
    ),
    named(
        "elixir escript julia racket runghc runhaskell rust-script",
        ScriptPosition::Doubtful,
        &[(OptionKind::CodeBeforeScript, "-e --eval")],
    ),
];

/// Without these a text of AWK starts and loads nothing.
const AWK_LOADS: &str = "system | @";

const SHELL_CODE: (OptionKind, &str) = (OptionKind::Turns(FirstWord::Code), "-c");

const SHELL_STDIN: (OptionKind, &str) = (OptionKind::Turns(FirstWord::Stdin), "-s");

/// The long options of bash that take nothing. With one dash they are no letters.
const BASH_FLAGS: &str = "--debug --debugger --dump-po-strings --dump-strings --help --login --noediting --noprofile --norc --posix --pretty-print --protected --restricted --verbose --version --wordexp";

/// A program that starts what its words name.
#[derive(Debug)]
pub(super) struct Starter {
    /// How many words come before the program.
    pub(super) skipped: usize,
    /// Its name and options.
    words: Interpreter,
}

/// Returns a program that starts what its words name, behind its options and a number of words.
const fn starter(
    name: &'static str,
    skipped: usize,
    options: &'static [(OptionKind, &'static str)],
) -> Starter {
    Starter {
        skipped,
        words: lettered(name, ScriptPosition::First, options),
    }
}

const STARTERS: &[Starter] = &[
    // Of a shell's line.
    starter("builtin", 0, &[]),
    starter("busybox", 0, &[]),
    // Of a shell's line.
    starter("command", 0, &[]),
    starter(
        "env",
        0,
        &[
            (OptionKind::Data, "-a -u --argv0 --unset"),
            (OptionKind::Directory, "-C --chdir"),
            (OptionKind::Split, "-S --split-string"),
        ],
    ),
    // Of a shell's line.
    starter("exec", 0, &[(OptionKind::Data, "-a")]),
    starter("nice", 0, &[(OptionKind::Data, "-n --adjustment")]),
    // Of a line of zsh.
    starter("nocorrect", 0, &[]),
    // Of a line of zsh.
    starter("noglob", 0, &[]),
    starter("nohup", 0, &[]),
    starter("setsid", 0, &[]),
    starter("time", 0, &[(OptionKind::Data, "-f -o --format --output")]),
    starter(
        "timeout",
        1,
        &[(OptionKind::Data, "-k -s --kill-after --signal")],
    ),
];

impl Starter {
    /// Returns its name.
    pub(super) const fn name(&self) -> &'static str {
        self.words.names
    }

    /// Returns the effect of the option at an index, and the index behind it and its value.
    pub(super) fn effect<'a>(&self, words: &'a [Word], index: usize) -> (Effect<'a>, usize) {
        self.words.effect(words, index)
    }

    /// Returns the words of which one word consists: the word itself, or the parts into which an option splits it. `None`
    /// where only the starter's own rules of quoting separate them.
    pub(super) fn split<'a>(&self, word: &'a [u8]) -> Option<Vec<&'a [u8]>> {
        match self.words.option(word) {
            Took::Within(from, OptionKind::Split) => {
                let text = &word[from..];
                if text.iter().any(|byte| b"'\"\\$#".contains(byte)) {
                    return None;
                }
                let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
                let words = text.split(is_blank).filter(|it| !it.is_empty());
                Some(words.collect())
            }
            Took::Next(OptionKind::Split) => None,
            Took::Itself | Took::Next(_) | Took::Unlisted | Took::Within(..) => Some(vec![word]),
        }
    }
}

/// The sort of a program, by its name.
#[derive(Clone, Copy)]
pub(super) enum Sort {
    Interpreter(&'static Interpreter),
    Other,
    Starter(&'static Starter),
}

impl Sort {
    pub(super) fn find(path: &[u8]) -> Self {
        let name = path.rsplit(|byte| *byte == b'/').next();
        let name = String::from_utf8_lossy(name.unwrap_or_default());
        // Of a shell's line: a file of such a name is another program.
        if name.len() < path.len() && lists(SHELLS_STARTERS, name.as_bytes()) {
            return Self::Other;
        }
        // A version is no part of the name: `python3.11`, `zsh-5.9`, `perl5.36-x86_64-linux-gnu`, `python3-dbg`.
        let stem = match name.split_once('-') {
            Some((stem, rest)) if is_version(rest) => stem,
            Some(_) | None => &name,
        };
        let stem = match stem.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
            "" => &name,
            stem => stem,
        };
        if let Some(starter) = STARTERS.iter().find(|starter| starter.name() == stem) {
            return Self::Starter(starter);
        }
        let interpreter = INTERPRETERS
            .iter()
            .find(|it| lists(it.names, stem.as_bytes()));
        interpreter.map_or(Self::Other, Self::Interpreter)
    }
}

/// Returns whether the text after a dash in a program's name is its version.
fn is_version(rest: &str) -> bool {
    let first = rest.split('-').next().unwrap_or_default();
    matches!(first, "dbg" | "static") || first.contains(|c: char| c.is_ascii_digit())
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
pub(super) enum Effect<'a> {
    None,
    Unlisted,
    /// The value begins at this byte of the word.
    Value(&'a Word, usize, OptionKind),
}

impl ScriptPosition {
    /// Returns whether a word begins with the sign of an option.
    pub(super) fn is_option(self, word: &[u8]) -> bool {
        match word {
            [b'-', _, ..] => true,
            [b'+', ..] => self == Self::OfAShell,
            [b'@', _, ..] => matches!(self, Self::Doubtful | Self::Found),
            _ => false,
        }
    }

    /// Returns whether a word may come before the script.
    pub(super) fn is_before(self, word: &[u8]) -> bool {
        match self {
            Self::After(subcommands) => subcommands.split(' ').any(|it| it.as_bytes() == word),
            Self::Doubtful | Self::First | Self::Found | Self::None | Self::OfAShell => false,
        }
    }
}

impl OptionKind {
    /// Returns the effect of an option without a value in its word.
    const fn alone(self) -> Took {
        match self {
            Self::Flag | Self::Import | Self::Turns(_) | Self::Within => Took::Itself,
            Self::Code
            | Self::CodeBeforeScript
            | Self::CodeBeforeWords
            | Self::Data
            | Self::Directory
            | Self::Found
            | Self::Library
            | Self::List
            | Self::Long
            | Self::Module
            | Self::Pair
            | Self::Script
            | Self::Split
            | Self::Value
            | Self::Words => Took::Next(self),
        }
    }
}

impl Interpreter {
    /// Returns whether it obeys the first line of a script that it is given, as the kernel would.
    pub(super) fn obeys_first_lines(&self) -> bool {
        matches!(self.names, "perl" | "ruby")
    }

    /// Returns whether the beginning of a long option's name stands for it, as for what GNU's library reads.
    fn shortens(&self) -> bool {
        const SHORTENING: &str = "awk env fish gsed mawk nice time timeout";
        let first = self.names.split(' ').next();
        first.is_some_and(|first| SHORTENING.split(' ').any(|name| name == first))
    }

    /// Returns whether code in a word may load or start other code.
    pub(super) fn may_load(&self, code: &[u8]) -> bool {
        let has = |word: &str| code.windows(word.len()).any(|it| it == word.as_bytes());
        self.loads.is_empty() || self.loads.split(' ').any(has)
    }

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
        let shortened = || {
            let is_shortened = |name: &[u8]| name.starts_with(b"--") && abbreviates(option, name);
            self.find(is_shortened)
        };
        self.find(is_it)
            .or_else(|| self.shortens().then(shortened).flatten())
    }

    /// Returns whether a word is an option with a name of several letters.
    pub(super) fn is_long(&self, word: &[u8]) -> bool {
        let is_listed = |name: &[u8]| name.len() > 2 && name.strip_prefix(b"-") == Some(word);
        word.starts_with(b"--")
            || self.spelling == Spelling::Names
            || self.find(is_listed).is_some()
    }

    /// Returns whether an option that is not listed may take the next word.
    pub(super) fn takes_next(&self, option: &[u8]) -> bool {
        if option.contains(&b'=') {
            return false;
        }
        match self.script {
            ScriptPosition::After(_) | ScriptPosition::First => {
                option.starts_with(b"--") && !option.starts_with(b"--no-")
            }
            ScriptPosition::Doubtful => option.starts_with(b"-"),
            ScriptPosition::Found | ScriptPosition::None | ScriptPosition::OfAShell => false,
        }
    }

    /// Returns how the options in a word have the first word read.
    pub(super) fn turns(&self, word: &[u8]) -> Vec<FirstWord> {
        let kinds = if self.is_long(word) {
            vec![self.long_kind(word)]
        } else {
            let letters = self.letters(word);
            letters.map(|(_, kind)| Some(kind)).collect()
        };
        let mut turns = Vec::new();
        for kind in kinds.into_iter().flatten() {
            if let OptionKind::Turns(first) = kind {
                turns.push(first);
            }
        }
        turns
    }

    /// Returns the effect of the option at an index, and the index behind it and its value.
    pub(super) fn effect<'a>(&self, words: &'a [Word], index: usize) -> (Effect<'a>, usize) {
        let word = &words[index];
        match self.option(&word.text) {
            Took::Itself => (Effect::None, index + 1),
            Took::Next(OptionKind::List) => match words.get(index + 1) {
                Some(list) => listed_effect(&list.text, words, index + 2),
                None => (Effect::None, index + 1),
            },
            Took::Next(OptionKind::Long) => match words.get(index + 1) {
                Some(name) => self.named_effect(name, 0, words, index + 2),
                None => (Effect::None, index + 1),
            },
            Took::Next(OptionKind::Pair) => (Effect::None, index + 3),
            Took::Next(kind) => next_value(words, index + 1, kind),
            Took::Unlisted => (Effect::Unlisted, index + 1),
            Took::Within(from, OptionKind::List) => {
                listed_effect(&word.text[from..], words, index + 1)
            }
            Took::Within(from, OptionKind::Long) => self.named_effect(word, from, words, index + 1),
            Took::Within(from, kind) => (Effect::Value(word, from, kind), index + 1),
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
        let taking = self
            .letters(word)
            .find(|(_, kind)| !matches!(kind, OptionKind::Turns(_)));
        match taking {
            None => Took::Unlisted,
            Some((index, kind)) if index + 1 == word.len() || self.spelling == Spelling::Apart => {
                kind.alone()
            }
            Some((index, kind)) => Took::Within(index + 1, kind),
        }
    }

    /// Returns the listed letters of a word, each with its position, up to the first that takes the rest of the word.
    fn letters<'a>(&'a self, word: &'a [u8]) -> impl Iterator<Item = (usize, OptionKind)> + 'a {
        let letters = word.iter().enumerate().skip(1);
        let letters = letters.take_while(|(_, letter)| letter.is_ascii_alphanumeric());
        let sign = word.first().copied().unwrap_or_default();
        let listed = letters.filter_map(move |(index, letter)| {
            let kind = self.kind(&[sign, *letter])?;
            Some((index, kind))
        });
        let mut is_over = false;
        listed.take_while(move |(_, kind)| {
            let takes_rest =
                !matches!(kind, OptionKind::Turns(_)) && self.spelling != Spelling::Apart;
            let was_over = is_over;
            is_over |= takes_rest;
            !was_over
        })
    }
}

/// Returns the effect of an option whose value is the next word, if there is one.
fn next_value(words: &[Word], index: usize, kind: OptionKind) -> (Effect<'_>, usize) {
    match words.get(index) {
        Some(value) => (Effect::Value(value, 0, kind), index + 1),
        None => (Effect::None, index),
    }
}

/// Returns the effect of a list of names, which may have the word at a position for a file of code.
fn listed_effect<'a>(list: &[u8], words: &'a [Word], index: usize) -> (Effect<'a>, usize) {
    let mut names = list.split(|byte| *byte == b',');
    if names.any(|name| matches!(name.first(), Some(b'E' | b'e'))) {
        return next_value(words, index, OptionKind::Script);
    }
    (Effect::None, index)
}
