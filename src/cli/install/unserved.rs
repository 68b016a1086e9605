//! Actions of hooks that are not served, as far as a text shows them.

use std::{fs, path::Path};

use crate::{
    consent::allowlist::{Entry, Role},
    contract::Mode,
    notices::PROGRAMS,
};

/// Maximum size of a script that is searched, bytes.
const MOST: usize = 1 << 20;

/// An action that is not served.
#[derive(Clone, Copy, Debug)]
enum Unserved {
    Agent,
    Left,
    SessionFile,
    Socket,
}

impl Unserved {
    const ALL: [Self; 4] = [Self::Agent, Self::Left, Self::SessionFile, Self::Socket];

    /// Returns the words by which a text shows it.
    fn words(self) -> Vec<&'static str> {
        let of_runtimes = |words: fn(Mode) -> &'static [&'static str]| {
            let words = Mode::ALL.into_iter().flat_map(words);
            words.copied().collect()
        };
        match self {
            Self::Agent => of_runtimes(Mode::agent_commands),
            Self::Left => ["daemonize", "disown", "nohup", "systemd-run"].into(),
            Self::SessionFile => of_runtimes(Mode::session_files),
            Self::Socket => [
                "dbus-send",
                "gdbus",
                "notify-send",
                "paplay",
                "tmux",
                "wl-copy",
                "xclip",
            ]
            .into(),
        }
    }

    /// Returns why it does not work.
    const fn why(self) -> &'static str {
        match self {
            Self::Agent => "starts an agent: it finds neither its credentials nor a network",
            Self::Left => "leaves a process running: all processes of a hook end with it",
            Self::SessionFile => {
                "hands variables to the agent's session by a file: that file cannot be written"
            }
            Self::Socket => {
                "asks a program outside of the run by its socket: `connect` to it is refused"
            }
        }
    }
}

/// Returns a remark for each kind of thing that a command, or a script of it, does in vain. `notifies`: notices are shown.
pub(super) fn remarks(command: &str, entry: Option<&Entry>, notifies: bool) -> Vec<String> {
    let mut texts = vec![command.to_owned()];
    let digests = entry.into_iter().flat_map(|entry| &entry.digests);
    texts.extend(
        digests
            .filter(|digest| digest.role != Role::Interpreter)
            .filter_map(|digest| read(Path::new(&digest.path))),
    );
    let found = Unserved::ALL.into_iter().filter_map(|unserved| {
        // The machine's own programs are not answered.
        let is_served = |text: &str, word: &str| {
            notifies && PROGRAMS.contains(&word) && !text.contains(&format!("/{word}"))
        };
        let asks = |text: &String, word: &str| names(text, word) && !is_served(text, word);
        let mut words = unserved.words().into_iter();
        let word = words.find(|word| texts.iter().any(|text| asks(text, word)))?;
        Some(format!("not served: `{word}` {}", unserved.why()))
    });
    found.collect()
}

/// Reads the begin of a script; `None` for other programs.
fn read(path: &Path) -> Option<String> {
    let mut text = fs::read(path).ok()?;
    text.truncate(MOST);
    let is_binary = text.contains(&0);
    (!is_binary).then(|| String::from_utf8_lossy(&text).into_owned())
}

/// Returns whether a text has a word by itself, outside of whole-line comments.
fn names(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-');
    let mut lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    lines.any(|line| {
        line.match_indices(word).any(|(at, _)| {
            !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_served_is_named_once_for_each_kind() {
        let remarks = |text| remarks(text, None, false);
        assert_eq!(remarks("nohup server & disown").len(), 1);
        assert_eq!(
            remarks("title=$(claude -p 'a title'); notify-send \"$title\"").len(),
            2
        );
        assert_eq!(remarks("echo 'export A=b' >>\"$CLAUDE_ENV_FILE\"").len(), 1);
        for harmless in [
            "# nohup\necho",
            "my-tmux.sh",
            "claude --version",
            "echo xclips",
        ] {
            assert!(remarks(harmless).is_empty(), "{harmless}");
        }
    }

    #[test]
    fn notices_are_named_where_they_are_not_shown_and_where_the_machines_program_is_asked() {
        let remarks = |text, notifies| remarks(text, None, notifies).len();
        let text = "notify-send done; paplay /x.oga";
        assert_eq!((remarks(text, false), remarks(text, true)), (1, 0));
        assert_eq!(remarks("/usr/bin/notify-send done", true), 1);
        assert_eq!(remarks("notify-send done; tmux display done", true), 1);
    }
}
