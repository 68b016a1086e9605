//! infer's gate: decides which commands run without approval.
//!
//! A command must be one clean command and match an entry of the list whole, or the list must let everything through.
//! Where a shell would see more in a command than a plain parsing of its quotes does, the shell's view counts.

use std::{iter, sync::LazyLock};

use regex::{Regex, RegexBuilder};
use regex_syntax::hir::literal::{Extractor, Literal};

/// The gate's decision on a command.
#[must_use]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Gate {
    /// The command may run.
    Allowed,
    /// The command may not run.
    Refused {
        /// The remedy; empty where the command only is not on the list.
        hint: &'static str,
    },
}

/// Checks a command against the entries for all modes and the agent's mode.
///
/// An entry is a regular expression in RE2's syntax that must match the whole command, without trailing redirections
/// that discard output. An empty or invalid entry allows nothing. Linear in time.
pub fn gate(command: &str, list: &[String]) -> Gate {
    let command = command.trim();
    if command.is_empty() {
        return Gate::Refused { hint: "" };
    }
    if list.iter().any(|entry| ALLOW_ALL.contains(&entry.trim())) {
        return Gate::Allowed;
    }
    match clean(command) {
        Err(hint) => Gate::Refused { hint },
        Ok(command) if list.iter().any(|entry| lets_through(entry, &command)) => Gate::Allowed,
        Ok(_) => Gate::Refused { hint: "" },
    }
}

/// Returns whether an entry for a command names its program.
///
/// The first word of every match is then one of a few literal ones. An entry that matches everything names none.
pub fn names(command: &str, list: &[String]) -> bool {
    clean(command.trim()).is_ok_and(|command| {
        let names = |entry: &&String| names_programs(entry) && lets_through(entry, &command);
        list.iter().find(names).is_some()
    })
}

/// Returns why an entry is no regular expression, if so, and matches nothing.
pub fn fault(entry: &str) -> Option<&'static str> {
    let is_one = !entry.is_empty() && compiled(&in_ascii(entry)).is_ok();
    (!is_one).then_some("is no regular expression, and lets nothing through")
}

/// Returns whether every match of an entry begins with one of a few whole words.
///
/// A variable or an assignment does not count: the program is another word then.
pub fn names_programs(entry: &str) -> bool {
    let Ok(parsed) = regex_syntax::parse(&format!("(?s:{})", in_ascii(entry))) else {
        return false;
    };
    let mut beginnings = Extractor::new();
    beginnings.limit_literal_len(LONGEST_BEGINNING);
    let beginnings = beginnings.extract(&parsed);
    let names_one = |beginning: &Literal| {
        let bytes = beginning.as_bytes();
        let end = bytes.iter().position(u8::is_ascii_whitespace);
        // A prefix of a match must contain the end of its first word.
        let word = &bytes[..end.unwrap_or(bytes.len())];
        let is_whole = end.is_some() || beginning.is_exact();
        is_whole && !word.is_empty() && !word.iter().any(|byte| b"$=".contains(byte))
    };
    beginnings
        .literals()
        .is_some_and(|all| !all.is_empty() && all.iter().all(names_one))
}

/// Returns how to fix a refused command; empty if it is one clean command.
pub fn hint(command: &str) -> &'static str {
    clean(command.trim()).err().unwrap_or_default()
}

/// Forms of an entry that match everything, so that no command need be clean.
const ALLOW_ALL: [&str; 8] = [".*", "^.*$", "^.*", ".*$", ".+", "^.+$", "^.+", ".+$"];

const SUBSTITUTION: &str =
    "a command or process substitution is not let through; run the inner command by itself";
const QUOTES: &str = "the quotes of the command do not balance, or stand inside a `\"${…}\"`";
const SEVERAL: &str =
    "only a single command is let through: no pipes, `&&`, `||`, `;`, `&` or line breaks";
const VARIABLE: &str = "a command that prints or publishes may not expand a variable; put a literal `$` in single quotes";
const REDIRECT: &str =
    "output may not go to a file; `>/dev/null` and `2>&1` at the end are let through";
const FIND: &str =
    "`find` may only look: its actions that execute, write or delete are not let through";

/// Actions of `find` that do more than read.
const FIND_ACTIONS: [&str; 9] = [
    "-delete", "-exec", "-execdir", "-fls", "-fprint", "-fprint0", "-fprintf", "-ok", "-okdir",
];

/// The maximum size of an entry's compiled program, bytes.
const SIZE_LIMIT: usize = 1 << 20;

/// Quoting state of a character of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// Outside quotes: the shell reads it.
    Bare,
    /// Between double quotes: the shell reads some.
    Double,
    /// A quote mark, which is no part of a word.
    Mark,
    /// After a backslash or between single quotes: it is literal.
    Plain,
}

/// A command with the shell's quoting state of each character.
struct Text {
    chars: Vec<(char, Place)>,
    /// Whether a comment reaches over a line break, wherever its quotes would have it.
    comment_is_broken: bool,
    /// Whether every quotation ends, unambiguously.
    is_balanced: bool,
}

/// Returns a command without trailing redirections, or why it is not clean.
fn clean(command: &str) -> Result<String, &'static str> {
    let mut text = Text::read(command);
    if text.substitutes() {
        return Err(SUBSTITUTION);
    }
    if !text.is_balanced {
        return Err(QUOTES);
    }
    if text.is_several() {
        return Err(SEVERAL);
    }
    while text.strip_redirection() {}
    if text.chars.is_empty() {
        return Err("");
    }
    let words = text.words();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let prints = match words[..] {
        ["echo" | "printf", ..] => true,
        ["gh", "issue" | "pr", action, ..] => matches!(action, "create" | "comment" | "edit"),
        _ => false,
    };
    if prints && text.expands() {
        return Err(VARIABLE);
    }
    if text.chars.contains(&('>', Place::Bare)) {
        return Err(REDIRECT);
    }
    if let ["find", rest @ ..] = &words[..]
        && rest.iter().any(|word| FIND_ACTIONS.contains(word))
    {
        return Err(FIND);
    }
    Ok(text.chars.into_iter().map(|(c, _)| c).collect())
}

impl Text {
    fn read(command: &str) -> Self {
        let mut text = Self {
            chars: Vec::with_capacity(command.len()),
            comment_is_broken: false,
            is_balanced: true,
        };
        let mut in_comment = false;
        let mut chars = command.chars();
        while let Some(c) = chars.next() {
            let before = text.chars.last().copied();
            // A plain parser sees quotes in a comment, a shell does not.
            in_comment |= c == '#' && before.is_none_or(|(c, _)| ends_word(c));
            let start = text.chars.len();
            match c {
                '\\' => {
                    text.chars.push((c, Place::Mark));
                    text.chars.extend(chars.next().map(|c| (c, Place::Plain)));
                }
                '\'' => {
                    // `$'…'` has escapes, also of its quote. `$$` is a word of its own.
                    let dollars = text.chars.iter().rev();
                    let dollars = dollars.take_while(|read| **read == ('$', Place::Bare));
                    let escapes = dollars.count() % 2 == 1;
                    text.quote(c, &mut chars, Place::Plain, escapes);
                }
                '"' => text.quote(c, &mut chars, Place::Double, true),
                _ => text.chars.push((c, Place::Bare)),
            }
            let breaks = |&(c, _): &(char, Place)| matches!(c, '\n' | '\r');
            text.comment_is_broken |= in_comment && text.chars[start..].iter().any(breaks);
        }
        text
    }

    fn quote(&mut self, mark: char, chars: &mut std::str::Chars<'_>, place: Place, escapes: bool) {
        self.chars.push((mark, Place::Mark));
        let mut in_braces = false;
        while let Some(c) = chars.next() {
            if place == Place::Double {
                let opens = c == '{' && self.chars.last() == Some(&('$', place));
                in_braces = (in_braces || opens) && c != '}';
                // In `"${x#'…'}"` a shell reads the inner quotes separately, so the end of the outer ones is ambiguous.
                self.is_balanced &= !(in_braces && matches!(c, '\'' | '"'));
            }
            if c == mark {
                self.chars.push((c, Place::Mark));
                return;
            }
            if c == '\\' && escapes {
                self.chars.push((c, Place::Mark));
                self.chars.extend(chars.next().map(|c| (c, Place::Plain)));
            } else {
                self.chars.push((c, place));
            }
        }
        self.is_balanced = false;
    }

    /// Returns each character with the one after it.
    fn pairs(&self) -> impl Iterator<Item = (char, Place, Option<char>)> {
        let behind = self.chars.iter().skip(1).map(|(c, _)| Some(*c));
        let behind = behind.chain(iter::once(None));
        self.chars
            .iter()
            .zip(behind)
            .map(|((c, place), next)| (*c, *place, next))
    }

    fn substitutes(&self) -> bool {
        self.pairs().any(|(c, place, next)| {
            let is_read = matches!(place, Place::Bare | Place::Double);
            match c {
                '`' => is_read,
                '$' => is_read && next == Some('('),
                '<' | '>' => place == Place::Bare && next == Some('('),
                _ => false,
            }
        }) || self.substitutes_in_braces()
    }

    /// Returns whether there is a `${ command; }` or `${|command; }`. Newer releases of bash have these.
    fn substitutes_in_braces(&self) -> bool {
        self.chars.windows(3).any(|window| {
            let ('$', Place::Bare | Place::Double) = window[0] else {
                return false;
            };
            window[1].0 == '{' && (window[2].0.is_ascii_whitespace() || window[2].0 == '|')
        })
    }

    fn is_several(&self) -> bool {
        let bare = |at: Option<usize>| {
            let (c, place) = *self.chars.get(at?)?;
            (place == Place::Bare).then_some(c)
        };
        let ends_one = |at: usize| match bare(Some(at)) {
            Some(';' | '|' | '\n' | '\r') => true,
            // It is part of a redirection in `&>` and `>&`.
            Some('&') => bare(Some(at + 1)) != Some('>') && bare(at.checked_sub(1)) != Some('>'),
            _ => false,
        };
        self.comment_is_broken || (0..self.chars.len()).any(ends_one)
    }

    fn expands(&self) -> bool {
        self.pairs().any(|(c, place, next)| {
            let is_read = matches!(place, Place::Bare | Place::Double);
            let is_name = |c: char| c.is_ascii_alphanumeric() || "_{@*#?!$-".contains(c);
            c == '$' && is_read && next.is_some_and(is_name)
        })
    }

    /// Removes a trailing redirection that discards output or sends it where other output goes.
    fn strip_redirection(&mut self) -> bool {
        self.trim_end();
        let is_bare = |at: usize, is: fn(char) -> bool| {
            let found = self.chars.get(at);
            found.is_some_and(|(c, place)| *place == Place::Bare && is(*c))
        };
        let Some(arrow) = self
            .chars
            .iter()
            .rposition(|read| *read == ('>', Place::Bare))
        else {
            return false;
        };
        let behind = &self.chars[arrow + 1..];
        if behind.iter().any(|(_, place)| *place != Place::Bare) {
            return false;
        }
        let target: String = behind.iter().map(|(c, _)| *c).collect();
        let copies = target.strip_prefix('&').is_some_and(|to| {
            to == "-" || (!to.is_empty() && to.bytes().all(|byte| byte.is_ascii_digit()))
        });
        if !copies && target.trim_start() != "/dev/null" {
            return false;
        }
        let mut start = arrow;
        if !copies {
            start -= usize::from(start > 0 && is_bare(start - 1, |c| c == '>'));
            if start > 0 && is_bare(start - 1, |c| c == '&') {
                self.chars.truncate(start - 1);
                return true;
            }
        }
        let digits = (0..start).rev();
        let digits = digits.take_while(|&at| is_bare(at, |c| c.is_ascii_digit()));
        let first = start - digits.count();
        // Digits at the end of a word belong to the word and are no descriptor.
        if first == 0 || is_bare(first - 1, |c| c.is_ascii_whitespace()) {
            start = first;
        }
        self.chars.truncate(start);
        true
    }

    fn trim_end(&mut self) {
        while let Some((c, Place::Bare)) = self.chars.last()
            && c.is_ascii_whitespace()
        {
            self.chars.pop();
        }
    }

    /// Returns its words without their quotes.
    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut word: Option<String> = None;
        for (c, place) in &self.chars {
            match place {
                Place::Bare if c.is_ascii_whitespace() => words.extend(word.take()),
                Place::Mark => {
                    word.get_or_insert_default();
                }
                Place::Bare | Place::Double | Place::Plain => {
                    word.get_or_insert_default().push(*c);
                }
            }
        }
        words.extend(word);
        words
    }
}

/// Returns whether a word can start after a character.
fn ends_word(c: char) -> bool {
    c.is_ascii_whitespace() || "&();<>|".contains(c)
}

fn compiled(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).size_limit(SIZE_LIMIT).build()
}

fn lets_through(entry: &str, command: &str) -> bool {
    if entry.is_empty() {
        return false;
    }
    let entry = in_ascii(entry);
    // Compiled alone first: an unbalanced parenthesis could escape the group added below.
    let is_one = compiled(&entry).is_ok();
    is_one && compiled(&format!(r"\A(?s:{entry})\z")).is_ok_and(|whole| whole.is_match(command))
}

/// The maximum length of the common prefix of an entry's matches that is examined, bytes.
const LONGEST_BEGINNING: usize = 4096;

/// Rewrites classes that are ASCII in RE2 and wider here.
fn in_ascii(entry: &str) -> String {
    static ESCAPES: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?s)\\.").ok());
    let Some(escapes) = ESCAPES.as_ref() else {
        return entry.to_owned();
    };
    let ascii = |found: &regex::Captures<'_>| match &found[0] {
        r"\d" => "[0-9]".to_owned(),
        r"\D" => "[^0-9]".to_owned(),
        r"\s" => r"[\t\n\f\r ]".to_owned(),
        r"\S" => r"[^\t\n\f\r ]".to_owned(),
        r"\w" => "[0-9A-Za-z_]".to_owned(),
        r"\W" => "[^0-9A-Za-z_]".to_owned(),
        other => other.to_owned(),
    };
    escapes.replace_all(entry, ascii).into_owned()
}

#[cfg(test)]
mod tests;
