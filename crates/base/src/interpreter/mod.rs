//! Finds the words of a command that name code. These are scripts, preloaded files, and the command of a shell's line.
//!
//! Pure: this module reads words and no file. The sandbox opens and binds the files that the words name.

mod table;
#[cfg(test)]
mod tests;

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    ops::Range,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    ptr,
};

use crate::model::variable;

use self::table::{Effect, FirstWord, Interpreter, OptionKind, ScriptPosition, Sort, Starter};

/// The most words that are looked up as files where they need not name one.
const MAX_NAMED: usize = 4096;

/// The longest path of Linux, bytes.
const MAX_PATH_BYTES: usize = 4096;

/// The most parts that are named as not bound.
const MAX_UNBOUND: usize = 64;

/// The position of a file's name in a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WordSpot {
    /// The argument's index.
    pub argument: usize,
    /// The bytes of the word in a shell's line; `None` = the whole argument.
    pub line: Option<Range<usize>>,
    /// The text before the path in the word: `--require=` of `--require=/x.js`.
    pub prefix: OsString,
}

impl WordSpot {
    /// Returns the spot of an argument that is a path and nothing else.
    pub fn argument(argument: usize) -> Self {
        Self {
            argument,
            line: None,
            prefix: OsString::new(),
        }
    }
}

/// The use of a named file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileUse {
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
pub struct NamedFile {
    pub path: OsString,
    pub spot: WordSpot,
    pub used: FileUse,
    /// The interpreter whose word it is, up to its script.
    reader: Option<&'static Interpreter>,
}

impl NamedFile {
    /// Returns the further names under which an interpreter looks for the file where this one is absent.
    pub fn completed(&self) -> Vec<OsString> {
        let is_completed = matches!(
            self.used,
            FileUse::Found | FileUse::Library | FileUse::Likely | FileUse::Script
        );
        let endings = self.reader.filter(|_| is_completed);
        let endings = endings.map_or("", |reader| reader.endings);
        let with = |ending| {
            let mut path = self.path.clone();
            path.push(".");
            path.push(ending);
            path
        };
        endings.split_terminator(' ').map(with).collect()
    }

    /// Returns the file and those that an interpreter may find in its place, as files whose words stay as they are.
    pub fn into_parts(self) -> Vec<Self> {
        if self.is_library_by_name() {
            return vec![self];
        }
        let mut parts = vec![self];
        for path in parts[0].completed() {
            let completed = Self {
                path,
                ..parts[0].clone()
            };
            parts.push(completed);
        }
        for part in &mut parts {
            part.used = FileUse::Part;
        }
        parts
    }

    /// Returns whether it is a library that the interpreter finds by a name.
    pub fn is_library_by_name(&self) -> bool {
        let path = Path::new(&self.path);
        let is_relative = [".", ".."].iter().any(|dots| path.starts_with(dots));
        self.used == FileUse::Library && !is_relative && !path.is_absolute()
    }

    /// Returns whether the interpreter that reads it obeys its first line.
    pub fn has_its_first_line_obeyed(&self) -> bool {
        self.reader.is_some_and(Interpreter::obeys_first_lines)
    }
}

/// The code that a command's words name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CommandReading {
    /// The line that a shell is given in a word, where there is one.
    pub line: Option<OsString>,
    /// The words that may name files, in their order.
    pub named: Vec<NamedFile>,
    /// The path of a program that has words and is neither an interpreter nor a starter.
    pub other: Option<OsString>,
    /// Descriptions of code that cannot be bound to content.
    pub unbound: Vec<String>,
}

/// Endings of files that interpreters read, and compilers that start their output.
const ENDINGS: &[&str] = &[
    "awk", "bash", "bats", "cjs", "clj", "cr", "cs", "csh", "csx", "cts", "dart", "erl", "escript",
    "ex", "exp", "exs", "fish", "go", "groovy", "hs", "jar", "java", "jl", "jq", "js", "jsx",
    "ksh", "kts", "lhs", "lua", "mjs", "mts", "nim", "nu", "php", "pl", "pm", "ps1", "py", "pyc",
    "pyz", "r", "raku", "rb", "rs", "sc", "scala", "scm", "sed", "sh", "swift", "tcl", "ts", "tsx",
    "wasm", "zsh",
];

/// Returns whether a path has a script's extension.
pub fn ends_like_a_script(path: &Path) -> bool {
    let ending = path.extension().and_then(OsStr::to_str);
    ending.is_some_and(|ending| ENDINGS.contains(&&*ending.to_ascii_lowercase()))
}

/// Returns whether a program of this name is an interpreter or starts other programs.
pub fn is_known(path: &Path) -> bool {
    !matches!(Sort::find(path.as_os_str().as_bytes()), Sort::Other)
}

/// Returns whether a program of this name starts nothing, and reads no file as code.
pub fn only_reads(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    lists(PLAIN_PROGRAMS, name.as_bytes())
}

/// Returns whether two files have the name of one program, regardless of its version.
pub fn are_one_program(one: &Path, other: &Path) -> bool {
    let sorts = [one, other].map(|it| Sort::find(it.as_os_str().as_bytes()));
    one.file_name() == other.file_name()
        || matches!(sorts, [Sort::Interpreter(one), Sort::Interpreter(other)] if ptr::eq(one, other))
}

/// Returns whether a program of this name is an interpreter.
pub fn is_interpreter(path: &Path) -> bool {
    matches!(
        Sort::find(path.as_os_str().as_bytes()),
        Sort::Interpreter(_)
    )
}

/// Returns the shell line of a command, as `sh -c` has it.
pub fn shell_line(argv: &[OsString]) -> Option<OsString> {
    read(argv, &by_name).line
}

/// Returns the arguments that an interpreter reads as its script, each by its index.
pub fn scripts(argv: &[OsString]) -> Vec<usize> {
    let named = read(argv, &by_name).named.into_iter();
    let is_script = |it: &NamedFile| {
        it.used == FileUse::Script && it.spot == WordSpot::argument(it.spot.argument)
    };
    named.filter(is_script).map(|it| it.spot.argument).collect()
}

/// Finds the file to which links lead from a program's path.
pub type RealPath<'a> = &'a dyn Fn(&Path) -> Option<PathBuf>;

/// Follows no links, so that names alone decide.
const fn by_name(_: &Path) -> Option<PathBuf> {
    None
}

/// Reads a command. The names of its program and of the file that links lead to decide the meaning of its other words.
pub fn read(argv: &[OsString], real: RealPath<'_>) -> CommandReading {
    let words = argv.iter().enumerate().map(|(argument, text)| Word {
        spot: WordSpot::argument(argument),
        text: text.as_bytes().to_vec(),
    });
    let mut reader = WordReader::new(real);
    reader.command(&words.collect::<Vec<_>>());
    reader.reading
}

/// Reads the argument in a script's first line.
///
/// The files that it names are those of argument 1, before the script's own path. Words that `env -S` makes of it are
/// no arguments, so no other files can take their places.
pub fn first_line(
    interpreter: &Path,
    argument: &OsStr,
    script: &Path,
    real: RealPath<'_>,
) -> CommandReading {
    let text = argument.as_bytes();
    let word = |argument: usize, text: &[u8]| Word {
        spot: WordSpot::argument(argument),
        text: text.to_vec(),
    };
    let program = word(0, interpreter.as_os_str().as_bytes());
    let sort = Sort::find(&program.text);
    let mut reader = WordReader::new(real);
    let split = match sort {
        Sort::Starter(starter) => starter.split(text),
        Sort::Interpreter(_) | Sort::Other => Some(vec![text]),
    };
    let Some(split) = split else {
        let why = format!(
            "the program that the first line of `{}` starts",
            script.display()
        );
        reader.note_unbound(why);
        return reader.reading;
    };
    let is_split = split != [text];
    let words = split.into_iter().map(|text| word(1, text));
    // A path without a name stands for the script's own.
    let words = [program].into_iter().chain(words).chain([word(2, b"/")]);
    let words: Vec<_> = words.collect();
    reader.command(&words);
    if matches!(sort, Sort::Other) {
        reader.ends(&words[1]);
    }
    let mut is_apart = is_split;
    if let Some((interpreter, options)) = obeyed(interpreter, text) {
        let words = [b"/".as_slice()].into_iter().chain(options.split(is_blank));
        let words = words.filter(|it| !it.is_empty()).map(|text| word(1, text));
        let words: Vec<_> = words.chain([word(2, b"/")]).collect();
        (reader.is_sure, is_apart) = (true, true);
        reader.interpreted(interpreter, &words[0], &words[1..]);
    }
    let mut reading = reader.reading;
    reading.named.retain(|it| it.spot.argument == 1);
    if is_apart {
        let named = reading.named.into_iter();
        reading.named = named.flat_map(NamedFile::into_parts).collect();
    }
    reading
}

/// Returns the options in a first line that names an interpreter which reads the line itself, with that interpreter.
fn obeyed<'a>(interpreter: &Path, argument: &'a [u8]) -> Option<(&'static Interpreter, &'a [u8])> {
    let words = argument.split(is_blank);
    let mut words = [interpreter.as_os_str().as_bytes()]
        .into_iter()
        .chain(words);
    let reader = words.find_map(|word| match Sort::find(word) {
        Sort::Interpreter(it) if it.obeys_first_lines() => Some(it),
        Sort::Interpreter(_) | Sort::Other | Sort::Starter(_) => None,
    })?;
    let mut starts = argument.iter().enumerate();
    let (start, _) = starts.find(|(index, byte)| {
        **byte == b'-'
            && index
                .checked_sub(1)
                .is_none_or(|before| is_blank(&argument[before]))
    })?;
    Some((reader, &argument[start..]))
}

const fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
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

    /// Returns the name of the file to which its path leads.
    fn name(&self) -> String {
        let name = self.text.rsplit(|byte| *byte == b'/').next();
        String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
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
            reader: None,
            used,
        }
    }
}

/// The words of an interpreter up to its script.
#[derive(Default)]
struct Seen<'a> {
    has_code: bool,
    has_script: bool,
    /// Whether a word, or a file of words, may have named the script.
    is_named: bool,
    turns: Vec<FirstWord>,
    /// How many more words options that are not listed may have taken.
    unsure: usize,
    /// The words that are no options, where options may stand anywhere.
    words: Vec<&'a Word>,
}

/// Returns whether a byte separates the parts of a word.
const fn is_separator(byte: u8) -> bool {
    matches!(byte, b'=' | b':' | b'@' | b'"' | b'\'')
}

/// Returns whether a text is the beginning of a long option's name.
fn abbreviates(text: &[u8], name: &[u8]) -> bool {
    text.len() > 2 && text.starts_with(b"--") && name.starts_with(text)
}

/// Commands of a shell's line that the shell itself has, and that start or read what their words name.
const SHELLS_OWN: &str =
    "alias bind case cd coproc enable eval fc for function if select trap until while";

/// Commands of a shell's line that the shell itself has, and that start and read nothing.
const SHELLS_PLAIN: &str = ": break continue echo exit export false hash printf pwd read return set shift test true type ulimit umask unset wait";

/// Commands of a shell's line whose words are the shell's own command or a program.
const SHELLS_STARTERS: &str = ". builtin command exec nocorrect noglob source";

/// Programs that start nothing and read no file as code, with any words.
const PLAIN_PROGRAMS: &str = concat!(
    "basename cat cmp cp cut date dirname echo egrep false fgrep grep head id ls mkdir mv printf pwd ",
    "readlink realpath rm rmdir sha256sum sleep stat tail tee test touch tr true uname uniq wc whoami",
);

/// Programs that run code named by files in their working directory.
const RUNNERS: &str = concat!(
    "ant bundle bunx cargo composer eslint gmake go gradle invoke jest just lefthook make mise mvn ninja ",
    "nox npm npx nx pnpm poetry pre-commit prettier pytest rake ruff task tox tsc ",
    "turbo uv uvx vite vitest webpack yarn",
);

/// Returns whether a list has a word.
fn lists(list: &str, word: &[u8]) -> bool {
    let mut words = list.as_bytes().split(|byte| *byte == b' ');
    words.any(|it| it == word)
}

/// Reads the words of one command.
struct WordReader<'a> {
    /// Whether relative names are looked up in another directory than the hook's own.
    is_elsewhere: bool,
    /// Whether the words are a command's for certain. Behind an unknown program or option they only look like it.
    is_sure: bool,
    real: RealPath<'a>,
    reader: Option<&'static Interpreter>,
    reading: CommandReading,
}

impl<'r> WordReader<'r> {
    fn new(real: RealPath<'r>) -> Self {
        Self {
            is_elsewhere: false,
            is_sure: true,
            real,
            reader: None,
            reading: CommandReading::default(),
        }
    }

    /// Reads a program with its words, and the programs it starts in turn. A loop and no recursion, as the caller
    /// decides their number.
    fn command(&mut self, words: &[Word]) {
        let mut next = Some(words);
        while let Some((program, rest)) = next.and_then(<[Word]>::split_first) {
            let sort = Sort::find(&program.text);
            let linked = self.linked(program);
            next = match (sort, linked) {
                (Sort::Interpreter(interpreter), linked) => {
                    self.interpreted(interpreter, program, rest);
                    if let Sort::Interpreter(other) = linked
                        && !ptr::eq(other, interpreter)
                    {
                        self.also_interpreted(other, program, rest);
                    }
                    None
                }
                (Sort::Other | Sort::Starter(_), Sort::Interpreter(interpreter)) => {
                    self.interpreted(interpreter, program, rest);
                    None
                }
                // A link to busybox has the name of the program that busybox then is.
                (Sort::Other | Sort::Starter(_), Sort::Starter(linked))
                    if linked.name() != "busybox" =>
                {
                    self.started(linked, rest)
                }
                (Sort::Other, Sort::Other | Sort::Starter(_)) => self.unknown(program, rest),
                (Sort::Starter(starter), Sort::Other | Sort::Starter(_)) => {
                    self.started(starter, rest)
                }
            };
            if let Some(started) = next {
                match sort {
                    Sort::Starter(starter) if starter.name() == "busybox" => {
                        self.applet(started);
                    }
                    Sort::Interpreter(_) | Sort::Other | Sort::Starter(_) => self.executed(started),
                }
            }
        }
    }

    /// Returns the sort of the program to which links lead from a program's path.
    fn linked(&self, program: &Word) -> Sort {
        if !program.text.contains(&b'/') || self.reading.named.len() >= MAX_NAMED {
            return Sort::Other;
        }
        let real = (self.real)(Path::new(OsStr::from_bytes(&program.text)));
        real.map_or(Sort::Other, |real| Sort::find(real.as_os_str().as_bytes()))
    }

    /// Reads words once more, as those of the interpreter that a program's name does not name, and adds the found files.
    fn also_interpreted(
        &mut self,
        interpreter: &'static Interpreter,
        program: &Word,
        words: &[Word],
    ) {
        let spot = |it: &NamedFile| {
            let start = it.spot.line.as_ref().map(|range| range.start);
            (it.spot.argument, start, it.path.clone())
        };
        let is_weak = |used| matches!(used, FileUse::Part | FileUse::Perhaps | FileUse::Trailing);
        let before = self.reading.named.len();
        let named = self.reading.named.iter();
        let strong: HashSet<_> = named.filter(|it| !is_weak(it.used)).map(spot).collect();
        self.is_sure = false;
        self.interpreted(interpreter, program, words);
        let added = self.reading.named.split_off(before);
        let added = added
            .into_iter()
            .filter(|it| it.used != FileUse::Trailing && !strong.contains(&spot(it)));
        self.reading.named.extend(added);
    }

    /// Reads the words of an unknown program, and returns the command among them, if any.
    fn unknown<'a>(&mut self, program: &Word, words: &'a [Word]) -> Option<&'a [Word]> {
        let name = program.name();
        if lists(RUNNERS, name.as_bytes()) {
            self.note_unbound(format!(
                "files and commands that `{name}` finds in its directory or by its words"
            ));
        } else if self.reading.other.is_none() && !words.is_empty() {
            self.reading.other = Some(OsString::from_vec(program.text.clone()));
        }
        self.others(words)
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
            let why = format!("files that words beyond the first {MAX_NAMED} name");
            return self.note_unbound(why);
        }
        let named = named();
        if self.is_elsewhere && !named.path.as_bytes().starts_with(b"/") {
            return;
        }
        self.reading.named.push(NamedFile {
            reader: self.reader,
            ..named
        });
    }

    fn note_unbound(&mut self, why: impl Into<String>) {
        let (why, unbound) = (why.into(), &mut self.reading.unbound);
        if unbound.len() < MAX_UNBOUND && !unbound.contains(&why) {
            unbound.push(why);
        }
    }

    /// Records words as arguments, which may name files of code.
    fn trailing<'a>(&mut self, words: impl IntoIterator<Item = &'a Word>) {
        for word in words {
            self.name(word, 0, FileUse::Trailing);
        }
    }

    /// Reads an unknown program's words, and returns the command among them, if any.
    fn others<'a>(&mut self, words: &'a [Word]) -> Option<&'a [Word]> {
        let known = |word: &Word| {
            !lists(SHELLS_STARTERS, &word.text) && !matches!(Sort::find(&word.text), Sort::Other)
        };
        let Some(index) = words.iter().position(known) else {
            self.trailing(words);
            return None;
        };
        let (before, command) = words.split_at(index);
        self.trailing(before);
        self.is_sure = false;
        Some(command)
    }

    /// Returns the words of the command that a starter starts.
    fn started<'a>(&mut self, starter: &Starter, words: &'a [Word]) -> Option<&'a [Word]> {
        let mut skipped = 0;
        let mut index = 0;
        while let Some(word) = words.get(index) {
            let text = &word.text[..];
            if text == b"--" {
                index += 1;
            } else if text.starts_with(b"-") {
                let (effect, next) = starter.effect(words, index);
                if let Effect::Value(_, _, OptionKind::Directory | OptionKind::Split) = effect {
                    let (name, option) = (starter.name(), word.shown());
                    self.note_unbound(format!("the program that `{name} {option}` starts"));
                    return None;
                }
                index = next;
            } else if starter.name() == "env" && text.contains(&b'=') {
                self.variable(text);
                index += 1;
            } else if skipped < starter.skipped {
                skipped += 1;
                index += 1;
            } else {
                return words.get(index..);
            }
        }
        None
    }

    /// Records a variable that a command sets, if it can make programs load code.
    fn variable(&mut self, assignment: &[u8]) {
        let name = assignment.split(|byte| matches!(byte, b'+' | b'=')).next();
        let name = String::from_utf8_lossy(name.unwrap_or_default());
        if variable::is_closed_to_requests(&name) {
            self.note_unbound(format!(
                "code that programs find or load by the variable `{name}`"
            ));
        }
    }

    /// Records the program of a command: by its path, as the shell's own, or as one that `PATH` finds.
    fn executed(&mut self, words: &[Word]) {
        let Some(program) = words.first() else {
            return;
        };
        let (text, is_in_line) = (&program.text[..], program.spot.line.is_some());
        if text.contains(&b'/') {
            self.name(program, 0, FileUse::Executed);
        } else if is_in_line && lists(SHELLS_OWN, text) {
            let shown = program.shown();
            self.note_unbound(format!(
                "code that the shell's builtin `{shown}` starts or reads"
            ));
        } else if is_in_line && lists(SHELLS_PLAIN, text) {
            // As an array's index these are expanded even where the line has them in quotes.
            let expands = |word: &Word| word.text.iter().any(|byte| matches!(byte, b'$' | b'`'));
            if words.iter().any(expands) {
                let shown = program.shown();
                self.note_unbound(format!(
                    "code that the shell's builtin `{shown}` starts or reads"
                ));
            }
        } else if !lists(SHELLS_STARTERS, text) {
            self.sought(program);
        }
    }

    /// Records a program that `PATH` finds.
    fn sought(&mut self, program: &Word) {
        let shown = program.shown();
        self.note_unbound(format!("the program `{shown}`, which `PATH` finds"));
    }

    /// Records the words of an unknown program of busybox.
    fn applet(&mut self, words: &[Word]) {
        if let Some((applet, [_, ..])) = words.split_first()
            && matches!(Sort::find(&applet.text), Sort::Other)
        {
            let shown = applet.shown();
            let why = format!("files and commands that the words of `busybox {shown}` name");
            self.note_unbound(why);
        }
    }

    fn interpreted(&mut self, interpreter: &'static Interpreter, program: &Word, words: &[Word]) {
        self.reader = Some(interpreter);
        let script = interpreter.script;
        let is_shell = script == ScriptPosition::OfAShell;
        let (mut index, mut has_begun) = (0, false);
        let mut seen = Seen::default();
        while let Some(word) = words.get(index) {
            let text = &word.text[..];
            // An option that is not listed may have taken the word; then options may follow.
            let is_doubtful = seen.unsure > 0 && !seen.has_code && !seen.has_script;
            if text == b"--" || is_shell && text == b"-" {
                index += 1;
                break;
            }
            if text == b"-" && script != ScriptPosition::None && !is_doubtful {
                self.note_unbound("the script on stdin");
                return self.trailing(&words[index + 1..]);
            }
            if script.is_option(text) {
                seen.turns.extend(interpreter.turns(text));
                let (effect, next) = interpreter.effect(words, index);
                index = next;
                match effect {
                    Effect::None => {}
                    Effect::Unlisted => {
                        self.unlisted(interpreter, word);
                        seen.is_named |= text.starts_with(b"@");
                        seen.unsure += usize::from(interpreter.takes_next(text));
                    }
                    Effect::Value(value, from, kind) => {
                        seen.has_code |= kind == OptionKind::Code;
                        seen.has_script |= kind == OptionKind::Script;
                        self.value(value, from, kind, interpreter, program);
                        if kind == OptionKind::Module {
                            self.note_unbound(format!("the code that `{}` names", word.shown()));
                        }
                        if matches!(kind, OptionKind::CodeBeforeWords | OptionKind::Module) {
                            return self.trailing(words.get(index..).unwrap_or_default());
                        }
                    }
                }
                continue;
            }
            if script == ScriptPosition::None {
                seen.words.push(word);
            } else if !has_begun && script.is_before(text) {
                has_begun = true;
            } else if is_doubtful {
                (self.is_sure, seen.is_named) = (false, true);
                seen.unsure -= 1;
                self.name(word, 0, FileUse::Likely);
            } else {
                break;
            }
            index += 1;
        }
        let rest = words.get(index..).unwrap_or_default();
        if script == ScriptPosition::None {
            seen.words.extend(rest);
            return self.code_and_words(interpreter, program, &seen);
        }
        match rest.split_first() {
            Some((first, trailing)) => self.script_and_words(interpreter, &seen, first, trailing),
            None if seen.turns.contains(&FirstWord::Each) => {
                let name = program.name();
                self.note_unbound(format!("the code that `{name}` finds in its directory"));
            }
            None if seen.is_named => {}
            None if is_shell || !seen.has_code && !seen.has_script => {
                self.note_unbound("stdin, where it is read as the script");
            }
            None => {}
        }
    }

    /// Reads the words that are no options of an interpreter whose first word is code.
    fn code_and_words(&mut self, interpreter: &Interpreter, program: &Word, seen: &Seen<'_>) {
        let mut words = seen.words.iter().copied();
        if seen.turns.contains(&FirstWord::File) {
            if let Some(first) = words.next() {
                self.name(first, 0, FileUse::Script);
            }
        } else if let Some(first) = seen.words.first()
            && !seen.has_code
            && !seen.has_script
        {
            self.code(interpreter, program, &first.text);
        }
        self.trailing(words);
    }

    /// Reads the words from the script on.
    fn script_and_words(
        &mut self,
        interpreter: &Interpreter,
        seen: &Seen<'_>,
        first: &Word,
        trailing: &[Word],
    ) {
        let is = |turn| seen.turns.contains(&turn);
        let script = interpreter.script;
        let is_shell = script == ScriptPosition::OfAShell;
        let is_name = !first.text.contains(&b'/');
        if is_shell && is(FirstWord::Code) {
            self.line(first);
        } else if is_shell && is(FirstWord::Stdin) {
            self.note_unbound("the script on stdin");
            self.trailing([first]);
        } else if !is_shell && (seen.has_code || seen.has_script) {
            self.trailing([first]);
        } else if is(FirstWord::Each) || seen.unsure > 0 {
            // Each of these options may have taken a word, and the next word is the script.
            let likely = if is(FirstWord::Each) {
                usize::MAX
            } else {
                seen.unsure
            };
            let (likely, rest) = trailing.split_at(likely.min(trailing.len()));
            for word in [first].into_iter().chain(likely) {
                self.name(word, 0, FileUse::Likely);
            }
            return self.trailing(rest);
        } else if is_name && is(FirstWord::Searched) {
            self.sought(first);
            self.name(first, 0, FileUse::Part);
        } else if matches!(script, ScriptPosition::After(_))
            && (is_name && !ends_like_a_script(Path::new(OsStr::from_bytes(&first.text)))
                || first.text.contains(&b':'))
        {
            self.note_unbound(format!("the code that `{}` names", first.shown()));
            self.name(first, 0, FileUse::Part);
        } else {
            let used = match script {
                ScriptPosition::Doubtful | ScriptPosition::Found => FileUse::Found,
                ScriptPosition::After(_)
                | ScriptPosition::First
                | ScriptPosition::None
                | ScriptPosition::OfAShell => FileUse::Script,
            };
            self.name(first, 0, used);
        }
        self.trailing(trailing);
    }

    /// Records that code in a word may load or start other code.
    fn code(&mut self, interpreter: &Interpreter, program: &Word, code: &[u8]) {
        if interpreter.may_load(code) {
            let name = program.name();
            let why = format!("code that the code in the words of `{name}` loads or starts");
            self.note_unbound(why);
        }
    }

    /// Records the files that an option's value names.
    fn value(
        &mut self,
        word: &Word,
        from: usize,
        kind: OptionKind,
        interpreter: &Interpreter,
        program: &Word,
    ) {
        let text = &word.text[from..];
        let shown = || String::from_utf8_lossy(text);
        match kind {
            OptionKind::Code | OptionKind::CodeBeforeScript | OptionKind::CodeBeforeWords => {
                self.code(interpreter, program, text);
            }
            OptionKind::Data
            | OptionKind::Flag
            | OptionKind::List
            | OptionKind::Module
            | OptionKind::Pair
            | OptionKind::Turns(_) => {}
            OptionKind::Directory => {
                self.note_unbound(format!("files that are named from `{}`", shown()));
                self.is_elsewhere = true;
            }
            OptionKind::Found => self.name(word, from, FileUse::Found),
            OptionKind::Import => {
                let is_plain =
                    |byte: &u8| byte.is_ascii_alphanumeric() || b"_:=,./+-".contains(byte);
                if !text.iter().all(is_plain) {
                    self.code(interpreter, program, text);
                }
                self.parts(word, from);
            }
            OptionKind::Library => self.name(word, from, FileUse::Library),
            OptionKind::Script if text == b"-" => {
                self.note_unbound("the script on stdin");
            }
            OptionKind::Script => self.name(word, from, FileUse::Script),
            OptionKind::Words => {
                self.note_unbound(format!("files that the words in `{}` name", shown()));
                self.parts(word, from);
            }
            OptionKind::Long | OptionKind::Split | OptionKind::Value | OptionKind::Within => {
                self.parts(word, from);
            }
        }
    }

    /// Records the files that an unlisted option names.
    fn unlisted(&mut self, interpreter: &Interpreter, word: &Word) {
        let text = &word.text[..];
        if let Some(name) = text.strip_prefix(b"@") {
            let shown = String::from_utf8_lossy(name);
            self.note_unbound(format!("files that the words in `{shown}` name"));
            return self.parts(word, 1);
        }
        if interpreter.script == ScriptPosition::Doubtful && !text.starts_with(b"--") {
            self.parts(word, text.len().min(2));
        }
        let value = text
            .iter()
            .skip(1)
            .position(|it| !it.is_ascii_alphanumeric());
        match value {
            // Letters alone are a cluster of options.
            Some(index) if !interpreter.is_long(text) => {
                self.parts(word, text.len().min(2));
                if index > 1 {
                    self.part(word, 1 + index);
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
        for (index, byte) in word.text.iter().enumerate().skip(from) {
            if is_separator(*byte) {
                self.part(word, index + 1);
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
                reader: None,
                used: FileUse::Part,
            });
        }
        if !is_long && !rest.is_empty() {
            self.name(word, from, FileUse::Perhaps);
        }
    }

    /// Records the files that the ends of a word may name, behind each letter of an option.
    fn ends(&mut self, word: &Word) {
        let is_option = word.text.starts_with(b"-");
        let letters = word.text.iter().skip(1);
        let letters = letters.take_while(|it| is_option && it.is_ascii_alphanumeric());
        for index in 0..=letters.count() {
            self.part(word, index);
        }
        self.parts_behind(word, 0);
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
            let why = "the shell's line, which is more than one plain command";
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
                let is_set = name.len() < word.text.len();
                let name = name.strip_suffix(b"+").unwrap_or(name);
                is_set && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
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

/// Splits a line into words with their ranges, if a shell would do nothing else. The line must be one command without
/// expansions and redirections.
fn words_of(line: &[u8]) -> Option<Vec<(Vec<u8>, Range<usize>)>> {
    let mut words = Vec::new();
    let mut position = 0;
    let end = line.trim_ascii_end().len();
    while position < end {
        if matches!(line[position], b' ' | b'\t') {
            position += 1;
            continue;
        }
        let (start, mut text) = (position, Vec::new());
        while position < end && !matches!(line[position], b' ' | b'\t') {
            match line[position] {
                quote @ (b'\'' | b'"') => {
                    let length = line[position + 1..end]
                        .iter()
                        .position(|byte| *byte == quote)?;
                    let quoted = &line[position + 1..=position + length];
                    let expands = |byte: &u8| matches!(byte, b'$' | b'`' | b'\\' | b'!');
                    if quote == b'"' && quoted.iter().any(expands) {
                        return None;
                    }
                    text.extend_from_slice(quoted);
                    position += length + 2;
                }
                byte if byte.is_ascii_alphanumeric()
                    || !byte.is_ascii()
                    || b"_@%+=:,./-".contains(&byte) =>
                {
                    text.push(byte);
                    position += 1;
                }
                _ => return None,
            }
        }
        words.push((text, start..position));
    }
    (!words.is_empty()).then_some(words)
}
