//! The interpreters that can wait: they execute nothing of a hook or of its user until they are released.
//!
//! Each of these decisions has its own [`NeverWaits`], for `hookjail explain warm` and for the log.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::Waiter;
use crate::{
    program::{Program, only_roots, roots_alone},
    run::child_spec::stays,
};

/// Beginnings of the variables by which an interpreter, or a library of it, loads something when it starts.
const LOADING: [&str; 4] = ["NODE_", "OPENSSL_", "PYTHON", "SSL_"];

/// Variables that begin so and load nothing before the script.
const LOADING_NOTHING: [&str; 11] = [
    "NODE_ENV",
    "NODE_NO_WARNINGS",
    "NODE_PATH",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONNOUSERSITE",
    "PYTHONOPTIMIZE",
    "PYTHONSAFEPATH",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
];

/// Beginnings of the variables that bash sets by itself, or heeds when it starts or when they are assigned.
const BASHS_OWN: [&str; 30] = [
    "BASH",
    "COMP_",
    "DIRSTACK",
    "EPOCH",
    "EUID",
    "EXECIGNORE",
    "FIGNORE",
    "FUNCNAME",
    "FUNCNEST",
    "GLOBIGNORE",
    "GLOBSORT",
    "GROUPS",
    "HIST",
    "HOSTTYPE",
    "IFS",
    "IGNOREEOF",
    "LINENO",
    "MACHTYPE",
    "OLDPWD",
    "OPT",
    "OSTYPE",
    "PIPESTATUS",
    "POSIX",
    "PPID",
    "PWD",
    "RANDOM",
    "REPLY",
    "SECONDS",
    "SHELLOPTS",
    "SHLVL",
];

/// Others, whole.
const BASHS_OWN_WHOLE: [&str; 4] = ["SRANDOM", "TMOUT", "UID", "_"];

/// Letters of bash's options that load and print nothing.
const BASH_LETTERS: &[u8] = b"eu";

/// Options of Node.js that load nothing.
const NODE_OPTIONS: [&str; 2] = ["--no-deprecation", "--no-warnings"];

/// Letters of Python's options that load nothing.
const PYTHON_LETTERS: &[u8] = b"BOPbqsu";

type Environment = BTreeMap<OsString, OsString>;

/// Why no interpreter waits for the runs of a command.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NeverWaits {
    /// Others than root can change the interpreter, or its library.
    #[error("`{}` can be changed by others than root; run an interpreter of the system, as `/usr/bin/python3`", .0.display())]
    Changeable(PathBuf),
    /// The profile keeps paths of the workspace by mounts, which only a view can get later.
    #[error(
        "the profile keeps files of the workspace, and has no view; set `view = \"own\"` in it"
    )]
    NoView,
    /// The words name no script, or in a word with others.
    #[error(
        "no word is a script, as in shell lines and after `-c` and `-m`; name interpreter and script as words"
    )]
    NoScript,
    /// Neither bash, Python nor Node.js runs the script.
    #[error("`{}` is not bash, Python or Node.js; run the script by one of them", .0.display())]
    Other(PathBuf),
    /// An option has the interpreter load something, or may.
    #[error("the option `{}` may have the interpreter load something; leave it out", .0.display())]
    Option(OsString),
    /// The profile lets none wait.
    #[error("the profile has `warm = 0`; set `warm = 1` in it")]
    Profile,
    /// `env` may find another interpreter.
    #[error("`env` may find another `{}`; name the interpreter by its path", .0.display())]
    Searched(OsString),
    /// Root's script is run where it lies.
    #[error("`{}` is run where it lies, and the profile has no view; set `view = \"own\"` in it", .0.display())]
    Stays(PathBuf),
    /// A variable is not UTF-8, which Node.js requires.
    #[error("the variable `{}` is not UTF-8; set it to text", .0.display())]
    Text(OsString),
    /// A variable has the interpreter load something, or start in another way, or may.
    #[error("the variable `{}` may change how the interpreter starts; take it from the profile", .0.display())]
    Variable(OsString),
}

/// The facts that decide whether an interpreter waits for the runs of a command.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The variables of a run.
    pub environment: &'a BTreeMap<OsString, OsString>,
    /// Whether a hook has a uid of its own, and so copies of its scripts.
    pub has_own_uid: bool,
    /// Whether the run has a view of its own.
    pub has_view: bool,
    /// Whether paths of a workspace are kept, or hidden.
    pub keeps: bool,
    /// The program.
    pub program: &'a Program,
    /// How many the profile has wait.
    pub warm: u32,
}

impl Wanted<'_> {
    /// Returns the interpreter that waits for the command's runs, as long as memory and descriptors suffice.
    ///
    /// # Errors
    ///
    /// Returns why none does.
    pub fn waiter(self) -> Result<Waiter, NeverWaits> {
        let Self {
            environment,
            has_own_uid,
            has_view,
            keeps,
            program,
            warm,
        } = self;
        if warm == 0 {
            return Err(NeverWaits::Profile);
        }
        // Mounts are made when the run begins, in a namespace that only a view has.
        if keeps && !has_view {
            return Err(NeverWaits::NoView);
        }
        let words = program.words_before_script().ok_or(NeverWaits::NoScript)?;
        let interpreter = Interpreter::find(words, environment)?;
        interpreter.is_roots(program, environment)?;
        let mut scripts = program.scripts.iter();
        if let Some(script) = scripts.find(|script| !has_view && stays(script, has_own_uid)) {
            return Err(NeverWaits::Stays(script.path.clone()));
        }
        let mut variables = environment.iter();
        match variables.find(|(_, value)| value.to_str().is_none()) {
            Some((name, _)) if interpreter.waiter == Waiter::Node => {
                Err(NeverWaits::Text(name.clone()))
            }
            Some(_) | None => Ok(interpreter.waiter),
        }
    }
}

/// An interpreter of a command's script that loads nothing of the hook's before it waits.
#[derive(Clone, Copy, Debug)]
struct Interpreter<'a> {
    /// The word by which `env` searches for it.
    searched: Option<&'a OsStr>,
    waiter: Waiter,
}

impl<'a> Interpreter<'a> {
    /// Returns the interpreter that the words before a command's script name.
    ///
    /// # Errors
    ///
    /// Returns why it cannot wait: also where an option or a variable has it load something before the script.
    fn find(words: &'a [OsString], environment: &Environment) -> Result<Self, NeverWaits> {
        let (first, mut rest) = words.split_first().ok_or(NeverWaits::NoScript)?;
        let mut searched = None;
        if Path::new(first)
            .file_name()
            .is_some_and(|name| name == "env")
        {
            rest = rest.strip_prefix(&[OsString::from("-S")]).unwrap_or(rest);
            let (name, options) = rest.split_first().ok_or(NeverWaits::NoScript)?;
            (searched, rest) = (Some(&**name), options);
        }
        let named = Path::new(searched.unwrap_or(first));
        let waiter = kind(named).ok_or_else(|| NeverWaits::Other(named.to_owned()))?;
        let loading = rest.iter().find(|option| match waiter {
            Waiter::Bash => !is_letters(option, BASH_LETTERS),
            Waiter::Node => !NODE_OPTIONS.iter().any(|known| *option == known),
            Waiter::Python => !is_letters(option, PYTHON_LETTERS),
        });
        if let Some(option) = loading {
            return Err(NeverWaits::Option(option.clone()));
        }
        let changes = |name: &&OsString| match waiter {
            Waiter::Bash => is_bashs_own(name),
            Waiter::Node | Waiter::Python => loads(name),
        };
        match environment.keys().find(changes) {
            Some(name) => Err(NeverWaits::Variable(name.clone())),
            None => Ok(Self { searched, waiter }),
        }
    }

    /// Checks that root alone can change what is executed before the script: a file that only has an interpreter's name could do
    /// anything.
    fn is_roots(self, program: &Program, environment: &Environment) -> Result<(), NeverWaits> {
        let named = program.executable_path();
        let executable = only_roots(named, &program.executable);
        let executable = executable.ok_or_else(|| NeverWaits::Changeable(named.to_owned()))?;
        if self.waiter == Waiter::Python {
            is_library_roots(&executable)?;
        }
        let Some(searched) = self.searched else {
            return Ok(());
        };
        let path = environment.get(OsStr::new("PATH"));
        let directories = path.into_iter().flat_map(std::env::split_paths);
        // The hook may not reach the first of them, and finds another.
        let mut found = directories
            .filter(|it| it.join(searched).exists())
            .peekable();
        let is_found = found.peek().is_some();
        let is_roots = is_found
            && found.all(|directory| {
                let named = directory.join(searched);
                roots_alone(&directory).is_some() && roots_alone(&named).is_some()
            });
        match is_roots {
            true => Ok(()),
            false => Err(NeverWaits::Searched(searched.to_owned())),
        }
    }
}

/// Returns the directory in which the standard library beside a Python lies.
pub(crate) fn libraries(executable: &Path) -> Option<PathBuf> {
    let prefix = executable.parent().and_then(Path::parent)?;
    Some(prefix.join("lib"))
}

/// Checks that root alone can change the standard library beside a Python, which loads nothing from elsewhere before it waits.
fn is_library_roots(executable: &Path) -> Result<(), NeverWaits> {
    let changeable = || NeverWaits::Changeable(executable.to_owned());
    let library = libraries(executable).ok_or_else(changeable)?;
    let entries = library.read_dir().map_err(|_| changeable())?;
    let names = entries.flatten().map(|entry| entry.path());
    let is_library = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name.as_bytes().starts_with(b"python")
    };
    let mut libraries = names
        .filter(|path| is_library(path))
        .flat_map(|path| [path.join("lib-dynload"), path])
        .filter(|path| path.exists());
    match libraries.find(|path| roots_alone(path).is_none()) {
        Some(path) => Err(NeverWaits::Changeable(path)),
        None => Ok(()),
    }
}

/// Returns the kind of an interpreter, by its file's name.
fn kind(path: &Path) -> Option<Waiter> {
    match path.file_name()?.to_str()? {
        "bash" => Some(Waiter::Bash),
        "node" | "nodejs" => Some(Waiter::Node),
        name => {
            let version = name.strip_prefix("python")?;
            let is_version = |c: char| c.is_ascii_digit() || c == '.';
            version.chars().all(is_version).then_some(Waiter::Python)
        }
    }
}

/// Returns whether a word is options of these letters.
fn is_letters(word: &OsStr, known: &[u8]) -> bool {
    let letters = word.as_bytes().strip_prefix(b"-").unwrap_or_default();
    !letters.is_empty() && letters.iter().all(|letter| known.contains(letter))
}

/// Returns whether bash could not take a variable by an assignment as it takes it when it starts.
fn is_bashs_own(name: &OsStr) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let bytes = name.as_bytes();
    let begins_well = bytes.first().is_some_and(|byte| !byte.is_ascii_digit());
    let is_name = begins_well && bytes.iter().all(is_letter);
    let begins = |beginning: &&str| bytes.starts_with(beginning.as_bytes());
    !is_name || BASHS_OWN.iter().any(begins) || BASHS_OWN_WHOLE.iter().any(|it| name == *it)
}

/// Returns whether a variable has an interpreter load something when it starts.
fn loads(name: &OsStr) -> bool {
    let begins = |beginning: &&str| name.as_bytes().starts_with(beginning.as_bytes());
    LOADING.iter().any(begins) && !LOADING_NOTHING.iter().any(|it| name == *it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(words: &[&str], variables: &[&str]) -> Option<Waiter> {
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        let variables = variables.iter().map(|name| (name.into(), "x".into()));
        let interpreter = Interpreter::find(&words, &variables.collect());
        interpreter.ok().map(|it| it.waiter)
    }

    #[test]
    fn interpreters_have_their_names() {
        for python in [
            "/usr/bin/python3",
            "python",
            "/opt/python3.13",
            "/v/bin/python3",
        ] {
            assert_eq!(
                waiter(&[python, "-u"], &[]),
                Some(Waiter::Python),
                "{python}"
            );
        }
        assert_eq!(
            waiter(&["/usr/bin/env", "python3"], &[]),
            Some(Waiter::Python)
        );
        assert_eq!(
            waiter(&["/usr/bin/env", "-S", "node"], &[]),
            Some(Waiter::Node)
        );
        assert_eq!(waiter(&["/usr/bin/nodejs"], &[]), Some(Waiter::Node));
        assert_eq!(waiter(&["/bin/bash", "-eu"], &[]), Some(Waiter::Bash));
        for other in [
            "/bin/sh",
            "bashful",
            "python3-config",
            "nodemon",
            "/usr/bin/env",
            "pythonista",
        ] {
            assert_eq!(waiter(&[other], &[]), None, "{other}");
        }
        assert_eq!(waiter(&[], &[]), None);
    }

    #[test]
    fn an_option_that_may_load_something_lets_no_interpreter_wait() {
        for loads_nothing in ["-u", "-sB", "-OO", "-P"] {
            let words = ["python3", loads_nothing];
            assert_eq!(waiter(&words, &[]), Some(Waiter::Python), "{words:?}");
        }
        for loads in ["-X", "-Wd", "-I", "-E", "-S", "-", "--", "-u=x"] {
            assert_eq!(waiter(&["python3", loads], &[]), None, "{loads}");
        }
        assert_eq!(waiter(&["node", "--no-warnings"], &[]), Some(Waiter::Node));
        for loads in ["--require=./x", "-r", "--import", "--env-file=.env", "-u"] {
            assert_eq!(waiter(&["node", loads], &[]), None, "{loads}");
        }
        for loads in ["-i", "-l", "-p", "-x", "-o", "+B", "--posix", "--"] {
            assert_eq!(waiter(&["bash", loads], &[]), None, "{loads}");
        }
        assert_eq!(waiter(&["env", "-i", "node"], &[]), None);
        assert_eq!(waiter(&["env", "A=b", "node"], &[]), None);
    }

    #[test]
    fn a_variable_that_may_load_something_lets_no_interpreter_wait() {
        let harmless = ["HOME", "LANG", "NODE_PATH", "PATH", "PYTHONUNBUFFERED"];
        assert_eq!(waiter(&["python3"], &harmless), Some(Waiter::Python));
        for loads in [
            "NODE_OPTIONS",
            "OPENSSL_CONF",
            "PYTHONHOME",
            "PYTHONPATH",
            "PYTHONPYCACHEPREFIX",
            "PYTHONUSERBASE",
            "PYTHONWARNINGS",
            "SSL_CERT_FILE",
        ] {
            for interpreter in ["node", "python3"] {
                assert_eq!(waiter(&[interpreter], &["PATH", loads]), None, "{loads}");
            }
        }
        let harmless = ["HOME", "LC_ALL", "PATH", "PYTHONPATH", "_A1"];
        assert_eq!(waiter(&["bash"], &harmless), Some(Waiter::Bash));
        for taken in [
            "BASH_ENV",
            "BASH_FUNC_f%%",
            "A-B",
            "1A",
            "",
            "IFS",
            "PWD",
            "_",
        ] {
            assert_eq!(waiter(&["bash"], &["PATH", taken]), None, "{taken}");
        }
    }
}
