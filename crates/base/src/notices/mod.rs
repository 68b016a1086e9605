//! Notices of hooks to the person at the machine, made of calls of programs such as `notify-send`. Pure.

mod options;

use std::{ffi::OsString, iter, path::PathBuf};

use crate::model::is_unseen;

/// The program of desktop notices.
pub const NOTIFY_SEND: &str = "notify-send";

/// The programs that are answered, by their names: that of desktop notices, and players of sounds.
pub const PROGRAMS: [&str; 6] = [
    NOTIFY_SEND,
    "afplay",
    "aplay",
    "canberra-gtk-play",
    "paplay",
    "pw-play",
];

/// The most bytes that are read of a run.
pub const MOST_BYTES: usize = 16 << 10;

/// The most notices of a run.
const MOST_NOTICES: usize = 8;

/// The most arguments of a call.
const MOST_ARGUMENTS: usize = 64;

/// The most characters of a title, of the hook's name before it, and of a text.
const MOST_TITLE: usize = 100;
const MOST_NAME: usize = 60;
const MOST_TEXT: usize = 400;

/// The program that shows notices.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Means {
    /// The operator's program and its arguments, before title and text.
    Command(Vec<String>),
    /// `notify-send` where it is found, on a bus of the session.
    Desktop {
        /// The address of the bus; without one, it lies in `runtime`.
        address: Option<OsString>,
        /// Directories in which the program may lie.
        path: Vec<PathBuf>,
        /// The directory of the user's sockets.
        runtime: Option<PathBuf>,
    },
    /// Nothing.
    Off,
}

/// How urgent a notice is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Urgency {
    /// Must not be missed.
    Critical,
    /// May be missed.
    Low,
    /// Neither.
    #[default]
    Normal,
}

impl Urgency {
    /// Returns the name that `notify-send` has for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Low => "low",
            Self::Normal => "normal",
        }
    }

    fn parse(name: &str) -> Self {
        match name {
            "critical" => Self::Critical,
            "low" => Self::Low,
            _ => Self::Normal,
        }
    }
}

/// A notice, without characters that cannot be seen, and short.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Notice {
    /// Whether a sound was asked for.
    pub sound: bool,
    /// The text; may be empty.
    pub text: String,
    /// The title; empty for a sound alone.
    pub title: String,
    /// How urgent it is.
    pub urgency: Urgency,
}

/// The notices that a run asked for.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Asked {
    /// The number of calls beyond the most of a run, or that could not be read.
    pub dropped: u64,
    /// The notices, in order.
    pub notices: Vec<Notice>,
}

impl Asked {
    /// Reads the calls of a run: of each the number of its arguments, the program's name and the arguments, each with a NUL after it.
    ///
    /// Bytes that the hook wrote itself are read the same way. Nothing is read after the first that are no call.
    pub fn read(calls: &[u8]) -> Self {
        let mut requested = Self::default();
        let cut = &calls[..calls.len().min(MOST_BYTES)];
        // The last word is cut where no NUL follows.
        let words = cut.split_inclusive(|byte| *byte == 0);
        let mut words = words.map(|word| word.strip_suffix(b"\0"));
        while let Some(count) = words.next() {
            match call(count, &mut words) {
                Some((program, arguments)) => requested.take(&program, &arguments),
                None => {
                    requested.dropped += 1;
                    break;
                }
            }
        }
        requested
    }

    /// Adds the notice of a call. A sound belongs to the notice before it, if there is one.
    fn take(&mut self, program: &str, arguments: &[String]) {
        if program != NOTIFY_SEND {
            match self.notices.last_mut() {
                Some(last) => last.sound = true,
                None => self.notices.push(Notice {
                    sound: true,
                    ..Notice::default()
                }),
            }
            return;
        }
        let Some(notice) = options::notice(arguments) else {
            return;
        };
        let last = self.notices.last();
        if last.is_some_and(|last| last.title.is_empty()) {
            // The sound came first.
            self.notices.pop();
            self.notices.push(Notice {
                sound: true,
                ..notice
            });
        } else if self.notices.len() < MOST_NOTICES {
            self.notices.push(notice);
        } else {
            self.dropped += 1;
        }
    }
}

/// Reads one call, whose number of arguments is given; `None` where the words are no call.
fn call<'a>(
    count: Option<&[u8]>,
    words: &mut impl Iterator<Item = Option<&'a [u8]>>,
) -> Option<(String, Vec<String>)> {
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let count: usize = str::from_utf8(count?).ok()?.parse().ok()?;
    let program = text(words.next()??);
    if count > MOST_ARGUMENTS || !PROGRAMS.contains(&&*program) {
        return None;
    }
    let arguments = iter::from_fn(|| Some(text(words.next()??)));
    let arguments: Vec<_> = arguments.take(count).collect();
    (arguments.len() == count).then_some((program, arguments))
}

impl Notice {
    /// Returns title and text for a person: the name of the hook comes first, since a hook can imitate any title.
    pub fn shown(&self, hook: &str) -> (String, String) {
        let name = shown_name(hook);
        match (&*self.title, &*self.text) {
            ("", _) => (name, "plays a sound".to_owned()),
            (title, text) => (format!("{name}: {title}"), text.to_owned()),
        }
    }
}

/// Returns the name of a hook as it is shown.
pub fn shown_name(hook: &str) -> String {
    match plain(hook, MOST_NAME) {
        name if name.is_empty() => "hook".to_owned(),
        name => name,
    }
}

/// Returns a text in one line, of at most `most` visible characters. No program reads it as an option.
fn plain(text: &str, most: usize) -> String {
    let visible = text
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c });
    let visible: String = visible.filter(|c| !is_unseen(*c)).collect();
    let mut words = visible.split_whitespace();
    let mut plain = words.next().unwrap_or_default().to_owned();
    for word in words {
        plain.push(' ');
        plain.push_str(word);
    }
    if let Some((end, _)) = plain.char_indices().nth(most) {
        plain.truncate(end);
        plain.push('…');
    }
    if plain.starts_with('-') {
        plain.insert(0, ' ');
    }
    plain
}

#[cfg(test)]
mod tests;
