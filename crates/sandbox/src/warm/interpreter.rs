//! The interpreters that can wait: they execute nothing of a hook or of its user until they are released.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use super::Waiter;
use crate::program::{Program, only_roots, roots_alone};

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

/// Options of Node.js that load nothing.
const NODE_OPTIONS: [&str; 2] = ["--no-deprecation", "--no-warnings"];

/// Letters of Python's options that load nothing.
const PYTHON_LETTERS: &[u8] = b"BOPbqsu";

type Environment = BTreeMap<OsString, OsString>;

/// An interpreter of a command's script that loads nothing of the hook's before it waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interpreter<'a> {
    /// The word by which `env` searches for it.
    searched: Option<&'a OsStr>,
    pub(super) waiter: Waiter,
}

impl<'a> Interpreter<'a> {
    /// Returns the interpreter that the words before a command's script name; `None` where it cannot wait, or an option or a
    /// variable has it load something before the script.
    pub(super) fn of(words: &'a [OsString], environment: &Environment) -> Option<Self> {
        let (first, mut rest) = words.split_first()?;
        let mut searched = None;
        if Path::new(first).file_name()? == "env" {
            rest = rest.strip_prefix(&[OsString::from("-S")]).unwrap_or(rest);
            let (name, options) = rest.split_first()?;
            (searched, rest) = (Some(&**name), options);
        }
        let waiter = kind(Path::new(searched.unwrap_or(first)))?;
        let loads_nothing = rest.iter().all(|option| match waiter {
            Waiter::Node => NODE_OPTIONS.iter().any(|known| option == known),
            Waiter::Python => is_letters(option),
        });
        let mut variables = environment.keys();
        (loads_nothing && !variables.any(|name| loads(name))).then_some(Self { searched, waiter })
    }

    /// Returns whether root alone can change what is executed before the script: a file that only has an interpreter's name
    /// could do anything.
    pub(super) fn is_roots(self, program: &Program, environment: &Environment) -> bool {
        let executable = only_roots(program.executable_path(), &program.executable);
        let is_roots = executable.is_some_and(|it| match self.waiter {
            Waiter::Node => true,
            Waiter::Python => is_library_roots(&it),
        });
        if !is_roots {
            return false;
        }
        let Some(searched) = self.searched else {
            return true;
        };
        let path = environment.get(OsStr::new("PATH"));
        let directories = path.into_iter().flat_map(std::env::split_paths);
        // The hook may not reach the first of them, and finds another.
        let mut found = directories
            .filter(|it| it.join(searched).exists())
            .peekable();
        let is_found = found.peek().is_some();
        is_found
            && found.all(|directory| {
                let named = directory.join(searched);
                roots_alone(&directory).is_some() && roots_alone(&named).is_some()
            })
    }
}

/// Returns whether root alone can change the standard library beside a Python, which loads nothing from elsewhere before it waits.
fn is_library_roots(executable: &Path) -> bool {
    let prefix = executable.parent().and_then(Path::parent);
    let library = prefix.map(|prefix| prefix.join("lib"));
    let Some(entries) = library.and_then(|library| library.read_dir().ok()) else {
        return false;
    };
    let names = entries.flatten().map(|entry| entry.path());
    let is_library = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name.as_bytes().starts_with(b"python")
    };
    let mut libraries = names
        .filter(|path| is_library(path))
        .flat_map(|path| [path.join("lib-dynload"), path])
        .filter(|path| path.exists());
    libraries.all(|path| roots_alone(&path).is_some())
}

/// Returns the kind of an interpreter, by its file's name.
fn kind(path: &Path) -> Option<Waiter> {
    match path.file_name()?.to_str()? {
        "node" | "nodejs" => Some(Waiter::Node),
        name => {
            let version = name.strip_prefix("python")?;
            let is_version = |c: char| c.is_ascii_digit() || c == '.';
            version.chars().all(is_version).then_some(Waiter::Python)
        }
    }
}

/// Returns whether a word is options of Python that load nothing.
fn is_letters(word: &OsStr) -> bool {
    let letters = word.as_bytes().strip_prefix(b"-").unwrap_or_default();
    !letters.is_empty() && letters.iter().all(|letter| PYTHON_LETTERS.contains(letter))
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
        Interpreter::of(&words, &variables.collect()).map(|it| it.waiter)
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
        for other in [
            "/bin/sh",
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
    }
}
