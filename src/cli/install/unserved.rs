//! Actions of hooks that are not served, as far as a text shows them.

use std::{fs::File, io::Read, iter, path::Path};

use hookjail_base::notices::PROGRAMS;
use hookjail_contract::Mode;
use hookjail_sandbox::program::Role;

use super::{super::show::HAS_LEARN, consent::Serves};
use hookjail_daemon::consent::allowlist::Entry;

/// Maximum size of a script that is searched, bytes.
const MOST: usize = 1 << 20;

/// An action that is not served.
#[derive(Clone, Copy, Debug)]
enum Unserved {
    Agent,
    Host,
    Left,
    SessionFile,
    Socket,
}

impl Unserved {
    const ALL: [Self; 5] = [
        Self::Agent,
        Self::Host,
        Self::Left,
        Self::SessionFile,
        Self::Socket,
    ];

    /// Returns the words by which a text shows it.
    fn words(self) -> Vec<&'static str> {
        let of_runtimes = |words: fn(Mode) -> &'static [&'static str]| {
            let words = Mode::ALL.into_iter().flat_map(words);
            words.copied().collect()
        };
        match self {
            Self::Agent => of_runtimes(|mode| mode.facts().agent_commands),
            Self::Host => ["curl", "wget"].into(),
            Self::Left => [
                "daemonize",
                "detached: true",
                "disown",
                "nohup",
                "start_new_session=True",
                "systemd-run",
                BACKGROUND,
            ]
            .into(),
            Self::SessionFile => of_runtimes(|mode| mode.facts().session_files),
            Self::Socket => [
                "dbus-send",
                "docker exec",
                "docker ps",
                "docker run",
                "docker.sock",
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
            Self::Agent => "starts an agent, which finds neither its credentials nor a network",
            Self::Host if HAS_LEARN => {
                "asks another host, and the profile has none; give it that host after its next run: hookjail learn --last"
            }
            Self::Host => "asks another host: the profile has no network; `develop-online` has one",
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

/// A process in the background of a shell, for which nothing waits.
const BACKGROUND: &str = "&";

/// Returns the text of a command, and those of its scripts.
fn texts(command: &str, entry: Option<&Entry>) -> Vec<String> {
    let scripts = entry.into_iter().flat_map(scripts).map(|(_, text)| text);
    iter::once(command.to_owned()).chain(scripts).collect()
}

/// Returns the paths and texts of a command's scripts.
pub(super) fn scripts(entry: &Entry) -> impl Iterator<Item = (&str, String)> {
    let digests = entry.digests.iter();
    let scripts = digests.filter(|digest| digest.role != Role::Interpreter);
    scripts.filter_map(|digest| Some((digest.path.as_str(), read(Path::new(&digest.path))?)))
}

/// Returns whether a command, or a script of it, names git.
pub(super) fn asks_git(command: &str, entry: Option<&Entry>) -> bool {
    texts(command, entry).iter().any(|text| names(text, "git"))
}

/// Returns a remark for each kind of thing that a command, or a script of it, does in vain.
pub(super) fn remarks(command: &str, entry: Option<&Entry>, serves: Serves) -> Vec<String> {
    let texts = texts(command, entry);
    let found = Unserved::ALL.into_iter().filter_map(|unserved| {
        // The machine's own programs are not answered.
        let is_served = |text: &str, word: &str| {
            serves.notices && PROGRAMS.contains(&word) && !text.contains(&format!("/{word}"))
        };
        let asks = |text: &String, word: &str| match unserved {
            Unserved::Host => !serves.network && calls(text, word),
            Unserved::Left if word == BACKGROUND => leaves(text),
            Unserved::Agent | Unserved::Left | Unserved::SessionFile | Unserved::Socket => {
                names(text, word) && !is_served(text, word)
            }
        };
        let mut words = unserved.words().into_iter();
        let word = words.find(|word| texts.iter().any(|text| asks(text, word)))?;
        Some(format!("not served: `{word}` {}", unserved.why()))
    });
    found.collect()
}

/// Reads the begin of a script; `None` for other programs.
pub(super) fn read(path: &Path) -> Option<String> {
    let mut text = Vec::new();
    let file = File::open(path).ok()?;
    file.take(MOST as u64).read_to_end(&mut text).ok()?;
    let is_binary = text.contains(&0);
    (!is_binary).then(|| String::from_utf8_lossy(&text).into_owned())
}

/// Returns the lines of a text but for comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.starts_with('#'))
}

/// Returns whether a text is a shell's, by its first line.
fn is_shell(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    !first.starts_with("#!") || first.contains("sh")
}

/// Returns the arguments of each call of a program in a shell's text, up to the end of the call.
pub(super) fn arguments<'a>(text: &'a str, program: &'a str) -> impl Iterator<Item = &'a str> {
    let begins = |before: &str| {
        let before = before.trim_end_matches([' ', '\t']);
        before.is_empty() || before.ends_with(['|', ';', '&', '(', '!'])
    };
    let lines = lines(text).filter(|_| is_shell(text));
    let found = lines.flat_map(move |line| {
        let found = line.match_indices(program);
        found.map(move |(position, _)| (&line[..position], &line[position + program.len()..]))
    });
    let calls =
        found.filter(move |(before, after)| begins(before) && after.starts_with([' ', '\t']));
    calls.map(|(_, after)| {
        after
            .split(['|', ';', '&', '<', '>', ')'])
            .next()
            .unwrap_or_default()
    })
}

/// Returns whether a shell's text starts a program with an option, a URL or a variable. Its name alone may be part of a rule.
fn calls(text: &str, program: &str) -> bool {
    let goes_on = |arguments: &str| {
        let begins = ["-", "\"", "'", "$", "http"];
        begins
            .iter()
            .any(|it| arguments.trim_start_matches([' ', '\t']).starts_with(it))
    };
    arguments(text, program).any(goes_on)
}

/// Returns whether a shell's text leaves a process in the background, and waits for none.
fn leaves(text: &str) -> bool {
    let ends_so = |line: &str, end: &str| {
        line.strip_suffix(end)
            .is_some_and(|before| !before.ends_with(['&', '>', '\\', '|']))
    };
    is_shell(text)
        && !lines(text).any(|line| line.contains("wait"))
        && lines(text).any(|line| ends_so(line, "&") || ends_so(line, "&)"))
}

/// Returns whether a text has a word by itself, outside of whole-line comments.
pub(super) fn names(text: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-');
    lines(text).any(|line| {
        line.match_indices(word).any(|(position, _)| {
            !line[..position].ends_with(is_part)
                && !line[position + word.len()..].starts_with(is_part)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_served_is_named_once_for_each_kind() {
        let remarks = |text| remarks(text, None, Serves::default());
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
        let remarks = |text, notices| {
            let serves = Serves {
                notices,
                ..Serves::default()
            };
            remarks(text, None, serves).len()
        };
        let text = "notify-send done && paplay /x.oga";
        assert_eq!((remarks(text, false), remarks(text, true)), (1, 0));
        assert_eq!(remarks("/usr/bin/notify-send done", true), 1);
        assert_eq!(remarks("notify-send done && tmux display done", true), 1);
    }

    #[test]
    fn hosts_and_jobs_are_named_where_a_text_uses_them_and_not_where_it_has_rules_about_them() {
        let network = Serves {
            network: true,
            ..Serves::default()
        };
        for (text, served) in [
            ("jq . | curl -s -X POST https://x.example", true),
            ("curl \"$URL\"", true),
            ("x=$(wget -qO- http://x.example)", true),
            ("#!/bin/bash\nserver --port 1 &\n", false),
            ("(sleep 30 &)", false),
            ("spawn(node, [x], { detached: true })", false),
            ("docker ps --format json", false),
            ("jq . | nc -U /var/run/docker.sock", false),
        ] {
            assert_eq!(remarks(text, None, Serves::default()).len(), 1, "{text}");
            assert_eq!(remarks(text, None, network).is_empty(), served, "{text}");
        }
        for text in [
            "grep -E 'curl|wget'",
            "case $c in *curl*) exit 2;; esac",
            "case $c in curl) exit 2;; esac",
            "a && b &&\nc",
            "server & wait",
            "#!/usr/bin/env python3\nx = a &\n",
            "docker-compose.yml",
        ] {
            let found = remarks(text, None, Serves::default());
            assert!(found.is_empty(), "{text}: {found:?}");
        }
    }
}
