//! A command with the shell's view of each character.

use std::iter;

/// Quoting state of a character of a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// Outside quotes: the shell reads it.
    Bare,
    /// Between double quotes: the shell reads some.
    Double,
    /// A quote mark, which is no part of a word.
    Mark,
    /// After a backslash or between single quotes, and so literal.
    Plain,
}

/// A word of a command, with the effects of the shell on it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Word {
    /// Whether its value depends on the environment, or the shell makes several words of it.
    pub(super) depends: bool,
    /// Whether the shell opens it for reading.
    pub(super) is_input: bool,
    /// Whether the shell replaces it by the names of files that match it.
    pub(super) is_pattern: bool,
    /// The word without its quotes.
    pub(super) text: String,
}

/// A command with the shell's quoting state of each character. Continuations of lines are joined.
pub(super) struct Text {
    chars: Vec<(char, Place)>,
    /// Whether a comment reaches over a line break, wherever its quotes would have it.
    comment_is_broken: bool,
    /// Whether every quotation ends, unambiguously.
    pub(super) is_balanced: bool,
}

impl Text {
    /// Reads a command.
    pub(super) fn read(command: &str) -> Self {
        let mut text = Self {
            chars: Vec::with_capacity(command.len()),
            comment_is_broken: false,
            is_balanced: true,
        };
        let mut in_comment = false;
        let mut chars = command.chars();
        loop {
            let rest = chars.as_str();
            let Some(c) = chars.next() else {
                return text;
            };
            let before = text.chars.last().copied();
            // A plain parser sees quotes in a comment, a shell does not.
            in_comment |= c == '#' && before.is_none_or(|(c, _)| ends_word(c));
            match c {
                '\\' => text.escape(&mut chars, true),
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
            let taken = &rest[..rest.len() - chars.as_str().len()];
            text.comment_is_broken |= in_comment && taken.contains(['\n', '\r']);
        }
    }

    /// Reads behind a backslash. A line break is no part of the command where it `joins` lines.
    fn escape(&mut self, chars: &mut std::str::Chars<'_>, joins: bool) {
        let escaped = chars.next();
        if joins && escaped == Some('\n') {
            return;
        }
        self.chars.push(('\\', Place::Mark));
        self.chars.extend(escaped.map(|c| (c, Place::Plain)));
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
                self.escape(chars, place == Place::Double);
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

    /// Returns whether a part of it is the output of another command.
    pub(super) fn substitutes(&self) -> bool {
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

    /// Returns whether it is more than one command.
    pub(super) fn is_several(&self) -> bool {
        let bare = |index: Option<usize>| {
            let (c, place) = *self.chars.get(index?)?;
            (place == Place::Bare).then_some(c)
        };
        let ends_one = |index: usize| match bare(Some(index)) {
            Some(';' | '|' | '\n' | '\r') => true,
            // A part of a redirection in `&>` and `>&`.
            Some('&') => {
                bare(Some(index + 1)) != Some('>') && bare(index.checked_sub(1)) != Some('>')
            }
            _ => false,
        };
        self.comment_is_broken || (0..self.chars.len()).any(ends_one)
    }

    /// Returns whether it contains the value of a variable.
    pub(super) fn expands(&self) -> bool {
        self.pairs().any(starts_expansion)
    }

    /// Returns whether it has no characters.
    pub(super) fn is_empty(&self) -> bool {
        self.chars.is_empty()
    }

    /// Returns whether its output goes elsewhere.
    pub(super) fn redirects(&self) -> bool {
        self.chars.contains(&('>', Place::Bare))
    }

    /// Returns its characters, with all quotes.
    pub(super) fn into_line(self) -> String {
        self.chars.into_iter().map(|(c, _)| c).collect()
    }

    /// Removes a trailing redirection that discards output or sends it where other output goes.
    pub(super) fn strip_redirection(&mut self) -> bool {
        self.trim_end();
        let is_bare = |index: usize, is: fn(char) -> bool| {
            let found = self.chars.get(index);
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
        let copies = target.strip_prefix('&').is_some_and(|descriptor| {
            descriptor == "-"
                || (!descriptor.is_empty() && descriptor.bytes().all(|byte| byte.is_ascii_digit()))
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
        let digits = digits.take_while(|&index| is_bare(index, |c| c.is_ascii_digit()));
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

    /// Returns its words, also those that the shell opens.
    pub(super) fn words(&self) -> Vec<Word> {
        let mut words = Vec::new();
        let mut word: Option<Word> = None;
        let mut before = ' ';
        let (mut has_brace, mut in_double, mut is_input) = (false, false, false);
        for (c, place, next) in self.pairs() {
            if place == Place::Bare && " \t\n()<".contains(c) {
                words.extend(word.take().map(|word| word.ended(has_brace)));
                has_brace = false;
                is_input |= c == '<';
                before = ' ';
                continue;
            }
            let starts = word.is_none();
            let word = word.get_or_insert_with(|| Word {
                is_input: std::mem::take(&mut is_input),
                ..Word::default()
            });
            match place {
                Place::Mark => in_double ^= c == '"',
                Place::Plain => {
                    // Between double quotes a backslash before any other character is one.
                    let is_kept = in_double && !"$`\"\\".contains(c);
                    word.text.extend(is_kept.then_some('\\'));
                    word.text.push(c);
                }
                Place::Bare | Place::Double => {
                    let is_bare = place == Place::Bare;
                    let is_home = is_bare && c == '~' && (starts || "=:".contains(before));
                    let is_quoted = is_bare && c == '$' && matches!(next, Some('\'' | '"'));
                    word.depends |= is_home || is_quoted || starts_expansion((c, place, next));
                    word.is_pattern |= is_bare && "*?[".contains(c);
                    has_brace |= is_bare && c == '{';
                    word.text.push(c);
                }
            }
            before = c;
        }
        words.extend(word.map(|word| word.ended(has_brace)));
        words
    }
}

impl Word {
    /// Completes the word. The shell makes several of one with an unquoted `{` that `has` two dots or a comma.
    fn ended(mut self, has_brace: bool) -> Self {
        self.depends |= has_brace && (self.text.contains(',') || self.text.contains(".."));
        self
    }
}

/// Returns whether the value of a variable starts at a character, given the one after it.
fn starts_expansion((c, place, next): (char, Place, Option<char>)) -> bool {
    let is_read = matches!(place, Place::Bare | Place::Double);
    let starts = |c: char| c.is_ascii_alphanumeric() || "_{@*#?!$-[".contains(c);
    c == '$' && is_read && next.is_some_and(starts)
}

/// Returns whether a word can start after a character.
fn ends_word(c: char) -> bool {
    c.is_ascii_whitespace() || "&();<>|".contains(c)
}
