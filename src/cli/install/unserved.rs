//! What hooks do that is not served, as far as their text shows it.

use std::{fs, path::Path};

use crate::consent::allowlist::{Entry, Role};

/// What is read of a script.
const MOST: usize = 1 << 20;

/// Words of hooks, and why what they stand for does not work.
const UNSERVED: [(&[&str], &str); 4] = [
    (
        &["daemonize", "disown", "nohup", "systemd-run"],
        "leaves a process running: all processes of a hook end with it",
    ),
    (
        &["CLAUDE_ENV_FILE"],
        "hands variables to the agent's session by a file: that file cannot be written",
    ),
    (
        &["claude -p", "codex exec", "gemini -p", "qwen -p"],
        "starts another agent: it finds neither its credentials nor a network",
    ),
    (
        &[
            "dbus-send",
            "gdbus",
            "notify-send",
            "paplay",
            "tmux",
            "wl-copy",
            "xclip",
        ],
        "asks a program outside of the run by its socket: `connect` to it is refused",
    ),
];

/// Returns a remark for each kind of thing that a command, or a script of it, does in vain.
pub(super) fn remarks(command: &str, entry: Option<&Entry>) -> Vec<String> {
    let mut texts = vec![command.to_owned()];
    let digests = entry.into_iter().flat_map(|entry| &entry.digests);
    texts.extend(
        digests
            .filter(|digest| digest.role != Role::Interpreter)
            .filter_map(|digest| read(Path::new(&digest.path))),
    );
    UNSERVED
        .iter()
        .filter_map(|(words, why)| {
            let word = words
                .iter()
                .find(|word| texts.iter().any(|text| names(text, word)))?;
            Some(format!("not served: `{word}` {why}"))
        })
        .collect()
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
        let remarks = |text| remarks(text, None);
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
}
