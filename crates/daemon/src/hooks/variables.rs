//! Expands a runtime's variables in hook commands. A consent then covers the script that the command runs, and no other
//! that a variable could name.

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use hookjail_base::model::{Command, Event};
use hookjail_contract::{
    Envelope, Members, Mode, adopt::Adopted, settings::Holds, text, words::words,
};

use super::{Owner, Registered};

/// The maximum length of a value, bytes.
const MAX_VALUE: usize = 4096;

/// The sources of variables in a dispatch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) envelope: &'a Envelope,
    pub(crate) event: &'a Event,
    pub(crate) workspace: Option<&'a Path>,
}

impl Known<'_> {
    fn value(self, holds: Holds) -> Option<String> {
        let member = |name| {
            Members::of_event(&self.event.json)
                .ok()?
                .last(name)
                .and_then(text)
        };
        let workspace = || self.workspace?.to_str().map(str::to_owned);
        let value = match holds {
            Holds::Cwd => member("cwd").or_else(workspace),
            // Set when the hook's file is loaded.
            Holds::Plugin => None,
            Holds::Project => workspace(),
            Holds::Session => member("session_id").or_else(|| Some(self.envelope.session.clone())),
        };
        let is_fit =
            |value: &String| (1..=MAX_VALUE).contains(&value.len()) && !value.contains('\0');
        value.filter(is_fit)
    }
}

/// Sets the plugin's directory in a hook's variables. That is the operator's base of relative paths, else the file's
/// directory, or the one above if that is named `hooks`.
pub(super) fn set_plugin_directory(hook: &mut Registered, base: Option<&Path>, file: &Path) {
    let Owner::Plugin(_) = hook.owner else {
        return;
    };
    let plugin_directory = file.parent().and_then(|parent| {
        if parent.ends_with("hooks") {
            parent.parent()
        } else {
            Some(parent)
        }
    });
    let Some(root) = base.or(plugin_directory) else {
        return;
    };
    for (name, holds) in Adopted::for_mode(hook.mode).map_or(&[][..], |runtime| runtime.variables) {
        if *holds == Holds::Plugin && !hook.configured_env.contains_key(*name) {
            let name = (*name).to_owned();
            hook.configured_env.insert(name, root.into());
        }
    }
}

/// Returns a hook's command and configured environment, with its runtime's variables. Variables of its configuration or
/// request take precedence.
pub(crate) fn expanded(
    hook: &Registered,
    command: Command,
    known: Known<'_>,
) -> (Command, BTreeMap<String, OsString>) {
    let mut environment = hook.configured_env.clone();
    let mut values = BTreeMap::new();
    for (name, holds) in Adopted::for_mode(hook.mode).map_or(&[][..], |runtime| runtime.variables) {
        let set = environment.get(*name).or_else(|| hook.env.get(*name));
        let value = match set {
            Some(set) => set.to_str().map(str::to_owned),
            None => known.value(*holds),
        };
        let Some(value) = value else {
            continue;
        };
        if set.is_none() {
            environment.insert((*name).to_owned(), value.clone().into());
        }
        // A value from the event would make the command another one for each event.
        if matches!(holds, Holds::Plugin | Holds::Project) {
            values.insert(*name, value);
        }
    }
    (put_in(hook.mode, command, &values), environment)
}

/// Expands variables in a command. Does so in a line that is one command and, where the runtime does too, in the words
/// of an argv.
fn put_in(mode: Mode, command: Command, values: &BTreeMap<&str, String>) -> Command {
    match command {
        Command::Argv(argv) if mode.facts().expands_words => {
            let put_in = |word: OsString| {
                let Some(text) = word.to_str() else {
                    return word;
                };
                let put = |text: String, (name, value): (&&str, &String)| {
                    text.replace(&format!("${{{name}}}"), value)
                };
                values.iter().fold(text.to_owned(), put).into()
            };
            Command::Argv(argv.into_iter().map(put_in).collect())
        }
        Command::Line { shell, text } if text.contains('$') => {
            let words = words(&text, |name| values.get(name).cloned());
            let line = words.and_then(|words| {
                let words = words.iter().map(String::as_str);
                shlex::try_join(words).ok()
            });
            Command::Line {
                shell,
                text: line.unwrap_or(text),
            }
        }
        command @ (Command::Argv(_) | Command::Line { .. }) => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str) -> Option<String> {
        match name {
            "CLAUDE_PROJECT_DIR" => Some("/p q".to_owned()),
            "EMPTY" => Some(String::new()),
            "HOME" => Some("/home/u".to_owned()),
            "PATTERN" => Some("/p[q]".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn what_is_known_is_put_into_what_is_one_command_and_into_words_of_claude_codes() {
        let values = BTreeMap::from([("CLAUDE_PROJECT_DIR", "/p q".to_owned())]);
        let line = |text: &str| Command::Line {
            shell: None,
            text: text.to_owned(),
        };
        for (text, expected) in [
            (r#""$CLAUDE_PROJECT_DIR"/x.sh -a b"#, "'/p q/x.sh' -a b"),
            // A shell reads these, and finds the variable in its environment.
            ("$CLAUDE_PROJECT_DIR/x.sh", "$CLAUDE_PROJECT_DIR/x.sh"),
            (
                "cd $CLAUDE_PROJECT_DIR; ./x.sh",
                "cd $CLAUDE_PROJECT_DIR; ./x.sh",
            ),
            ("'$CLAUDE_PROJECT_DIR'/x.sh", "'$CLAUDE_PROJECT_DIR'/x.sh"),
            ("$CLAUDE_PROJECT_DIR/$X", "$CLAUDE_PROJECT_DIR/$X"),
            ("~/x.sh \"y\"", "~/x.sh \"y\""),
        ] {
            let found = put_in(Mode::GeminiCli, line(text), &values);
            assert_eq!(found, line(expected), "{text}");
        }
        let words = |words: &[&str]| Command::Argv(words.iter().map(Into::into).collect());
        let words_read = words(&["${CLAUDE_PROJECT_DIR}/x", "$CLAUDE_PROJECT_DIR", "${X}"]);
        let expected = words(&["/p q/x", "$CLAUDE_PROJECT_DIR", "${X}"]);
        assert_eq!(
            put_in(Mode::ClaudeCode, words_read.clone(), &values),
            expected
        );
        assert_eq!(
            put_in(Mode::GeminiCli, words_read.clone(), &values),
            words_read
        );
    }

    #[test]
    fn one_command_is_told_from_what_only_a_shell_can_run() {
        for (line, expected) in [
            (
                "npx prettier --check .",
                &["npx", "prettier", "--check", "."][..],
            ),
            (
                r#""$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh"#,
                &["/p q/.claude/hooks/guard.sh"],
            ),
            ("\"${CLAUDE_PROJECT_DIR}\"/x.py a", &["/p q/x.py", "a"]),
            (
                "\"${CLAUDE_PROJECT_DIR}/x.py\" $HOME/a",
                &["/p q/x.py", "/home/u/a"],
            ),
            ("~/.claude/hooks/log.sh", &["/home/u/.claude/hooks/log.sh"]),
            // The shell makes two words of a value with a space, and others of a pattern.
            ("$CLAUDE_PROJECT_DIR/x.sh", &[]),
            ("x.sh ${CLAUDE_PROJECT_DIR} \"$HOME\"", &[]),
            ("\"$HOME\"/$CLAUDE_PROJECT_DIR", &[]),
            ("$PATTERN/x.sh", &[]),
            ("x.sh $EMPTY", &[]),
            ("\"$PATTERN\"/x.sh \"$EMPTY\"", &["/p[q]/x.sh", ""]),
            ("python3 -c 'print(1)'", &[]),
            ("jq -r .x | tee f", &[]),
            ("FOO=1 npm test", &[]),
            ("$OTHER/x.sh", &[]),
            ("'$HOME'/x", &[]),
            ("echo \"~/x\"", &[]),
            ("~root/x", &[]),
            ("ls {a,b}", &[]),
            ("npm test && git commit", &[]),
            ("", &[]),
        ] {
            let words = words(line, value).unwrap_or_default();
            assert_eq!(words, expected, "{line}");
        }
    }
}
