//! Files that a command reads or writes by its words.

use std::path::{Component, Path, PathBuf};

use super::text::Word;

/// A command's program and its other words.
pub(super) struct Line<'a> {
    /// Its words without the program, but with assignments before it.
    others: Vec<&'a Word>,
    /// The program as written; empty where there is none.
    program: &'a str,
    /// The words behind the program that the shell does not open.
    pub(super) rest: Vec<&'a str>,
}

impl<'a> Line<'a> {
    /// Splits words at the program, the first that is neither an assignment nor opened by the shell.
    pub(super) fn new(words: &'a [Word]) -> Self {
        let is_program = |word: &Word| !word.is_input && !is_assignment(&word.text);
        let Some(place) = words.iter().position(is_program) else {
            return Self {
                others: words.iter().collect(),
                program: "",
                rest: Vec::new(),
            };
        };
        let behind = words.get(place + 1..).unwrap_or_default();
        let passed = behind.iter().filter(|word| !word.is_input);
        Self {
            others: words[..place].iter().chain(behind).collect(),
            program: &words[place].text,
            rest: passed.map(|word| word.text.as_str()).collect(),
        }
    }

    /// Returns the program's name without its directory.
    pub(super) fn name(&self) -> &'a str {
        self.program
            .rsplit_once('/')
            .map_or(self.program, |(_, name)| name)
    }

    /// Returns whether an option, or the second operand of `uniq`, has the program write a file.
    pub(super) fn writes(&self) -> bool {
        match self.name() {
            "git" => self.rest.iter().any(|word| is_output(word)),
            "sort" | "tree" => {
                let is_short = |word: &str| word.starts_with('-') && !word.starts_with("--");
                let writes = |word: &&str| is_output(word) || is_short(word) && word.contains('o');
                self.rest.iter().any(writes)
            }
            "uniq" => {
                let operands = self.operands();
                operands.get(1).is_some_and(|output| *output != "-")
            }
            _ => false,
        }
    }

    /// Returns whether a word may name a file that is not one of the project.
    ///
    /// Words that the shell completes from its environment count. Matches of a pattern are not looked up, nor is a link
    /// followed. Nothing is opened by `echo` and `printf`.
    pub(super) fn leaves(&self, workspace: Option<&Path>) -> bool {
        if matches!(self.program, "echo" | "printf") {
            return false;
        }
        if self.others.iter().any(|word| word.depends) {
            return true;
        }
        if self.only_links() {
            let place = self.operands().pop();
            return place
                .is_some_and(|place| matches_hidden(place) || !is_of_project(place, workspace));
        }
        let end = self.others.iter().position(|word| word.text == "--");
        let is_foreign = |(index, word): (usize, &&Word)| {
            let is_whole = word.is_input || end.is_some_and(|end| index > end);
            let named = if is_whole {
                Some(word.text.as_str())
            } else {
                path_in(&word.text)
            };
            named.is_some_and(|named| {
                word.is_pattern && matches_hidden(named) || !is_of_project(named, workspace)
            })
        };
        self.others.iter().enumerate().any(is_foreign)
    }

    /// Returns whether the program makes symbolic links, so that its operands but the last are not opened.
    fn only_links(&self) -> bool {
        let options = || self.rest.iter().filter(|word| word.starts_with('-'));
        let is_plain = |word: &&str| {
            word.trim_start_matches('-')
                .chars()
                .all(|c| "fnsv".contains(c))
        };
        self.program == "ln" && options().all(is_plain) && options().any(|word| word.contains('s'))
    }

    /// Returns the words that are no options.
    fn operands(&self) -> Vec<&'a str> {
        let end = self.rest.iter().position(|word| *word == "--");
        let is_operand = |(index, word): &(usize, &'a str)| {
            let is_option = word.starts_with('-') && *word != "-";
            !is_option || end.is_some_and(|end| *index > end)
        };
        let words = self.rest.iter().copied().enumerate();
        words.filter(is_operand).map(|(_, word)| word).collect()
    }
}

/// Files of a project that hold secrets, by name.
const SECRETS: [&str; 6] = [
    ".environment",
    "auth.yaml",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
];

/// Endings of the names of files that hold secrets.
const SECRET_ENDINGS: [&str; 3] = [".env", ".key", ".pem"];

/// Directories of a project that are not the agent's to use, at any depth.
const PRIVATE: [&str; 2] = [".git", ".infer"];

/// The directory outside of the project that is as good as inside.
const TEMPORARY: &str = "/tmp";

/// Returns whether a word sets a variable for the program behind it.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    let name = name.map(|name| name.strip_suffix('+').unwrap_or(name));
    name.is_some_and(|name| {
        let is_part = |c: char| c == '_' || c.is_ascii_alphanumeric();
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(is_part)
    })
}

/// Returns whether a word is the long option for an output file, which may be abbreviated.
fn is_output(word: &str) -> bool {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    name.len() > 2 && "--output".starts_with(name)
}

/// Returns the part of a word before any `--` that may name a file: of an option only its value.
fn path_in(word: &str) -> Option<&str> {
    if let Some(option) = word.strip_prefix("--") {
        return option.split_once('=').map(|(_, value)| value);
    }
    let Some(option) = word.strip_prefix('-') else {
        return Some(word);
    };
    let mut value = option.chars();
    value.next();
    Some(value.as_str())
}

/// Returns whether a pattern may match hidden names, `..` among them.
fn matches_hidden(pattern: &str) -> bool {
    let mut parts = pattern.split('/');
    parts.any(|part| part.starts_with('.') && part.contains(['*', '?', '[']))
}

/// Returns whether a path as written leads to a file of the project that holds no secret.
fn is_of_project(path: &str, workspace: Option<&Path>) -> bool {
    let Some(below) = below(Path::new(path), workspace) else {
        return false;
    };
    let name = below.file_name().unwrap_or_default().to_string_lossy();
    let is_secret =
        SECRETS.contains(&&*name) || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending));
    let mut parts = below.components();
    !is_secret && !parts.any(|part| PRIVATE.iter().any(|name| part.as_os_str() == *name))
}

/// Returns a path from the project's root or, where it is temporary, from `/`; `None` outside of both.
fn below(path: &Path, workspace: Option<&Path>) -> Option<PathBuf> {
    let root = workspace
        .filter(|root| root.is_absolute())
        .and_then(resolved);
    let place = match &root {
        Some(root) => resolved(&root.join(path))?,
        None => resolved(path)?,
    };
    if place.is_relative() || place.starts_with(TEMPORARY) {
        return Some(place);
    }
    let below = place.strip_prefix(root?).ok()?;
    Some(below.to_owned())
}

/// Returns a path without `.` and `..`; `None` if it leads above its relative start.
fn resolved(path: &Path) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !resolved.pop() && !resolved.has_root() {
                    return None;
                }
            }
            Component::Normal(_) | Component::Prefix(_) | Component::RootDir => {
                resolved.push(part);
            }
        }
    }
    Some(resolved)
}
