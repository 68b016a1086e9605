//! Finds redirections to files that the profile does not let a hook write. A shell then runs nothing of the command,
//! and dash ends with 2.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use hookjail_base::interpreter::shell_line;
use hookjail_base::model::{Command, ProfileName};
use hookjail_policy::{
    Access, GrantPlace, GrantSpec, Policy, Registry, WorkingDir, explain::Remedy,
};

use super::{Action, Registered};

/// Warns of redirections to files that the hook's profile does not let it write.
pub fn warnings(hooks: &[Registered], profiles: &Registry) -> Vec<String> {
    let of_hook = |hook: &Registered| {
        let line = line(hook)?;
        let policy = profiles.find(&ProfileName::parse(hook.runs_under())?)?;
        let place = targets(&line)
            .into_iter()
            .filter_map(|target| place(&target, hook, policy))
            .find(|place| !is_writable(place, policy))?;
        let remedy = Remedy::Grants(vec![GrantSpec {
            access: Access::WriteFile,
            create: true,
            optional: false,
            place: place.clone(),
        }]);
        Some(format!(
            "{}: `>` writes `{place}`, which profile `{}` denies, so the shell does not run the command; name a profile with `{remedy}`",
            hook.source, policy.name
        ))
    };
    hooks.iter().filter_map(of_hook).collect()
}

/// Returns the line that a shell runs.
fn line(hook: &Registered) -> Option<Cow<'_, str>> {
    let Action::Command(command) = &hook.action else {
        return None;
    };
    let words = match command {
        Command::Argv(argv) => argv.clone(),
        Command::Line { text, .. } if hook.is_of_words() => hook.mode.split(text).ok()?,
        Command::Line { text, .. } => return Some(text.into()),
    };
    Some(shell_line(&words)?.into_string().ok()?.into())
}

/// Returns the place of a target, if it is known before the hook runs.
fn place(target: &str, hook: &Registered, policy: &Policy) -> Option<GrantPlace> {
    if Path::new(target).is_absolute() {
        return Some(GrantPlace::Path(target.into()));
    }
    let below = PathBuf::from(target.strip_prefix("./")?);
    match (&hook.working_dir, policy.working_dir) {
        (Some(directory), _) => Some(GrantPlace::Path(directory.join(below))),
        (None, WorkingDir::Workspace) => Some(GrantPlace::Workspace {
            below,
            if_bound: false,
        }),
        (None, WorkingDir::Scratch) if hook.is_of_words() && is_workspace_granted(policy) => {
            Some(GrantPlace::Workspace {
                below,
                if_bound: true,
            })
        }
        (None, WorkingDir::Scratch) => None,
    }
}

/// Returns whether the profile grants the workspace. A hook whose contract uses no shell then starts there.
fn is_workspace_granted(policy: &Policy) -> bool {
    let mut named = policy.files.named.iter();
    named.any(|grant| matches!(&grant.place, GrantPlace::Workspace { below, .. } if below.as_os_str().is_empty()))
}

fn is_writable(place: &GrantPlace, policy: &Policy) -> bool {
    let named = policy.files.named.iter().chain(policy.files.system.iter());
    let mut writable = named.filter(|grant| !grant.access.is_read_only());
    writable.any(|grant| match (&grant.place, place) {
        (GrantPlace::Path(granted), GrantPlace::Path(path))
            if grant.access == Access::WriteFile =>
        {
            granted == path
        }
        (GrantPlace::Path(granted), GrantPlace::Path(path)) => path.starts_with(granted),
        (GrantPlace::Workspace { below: granted, .. }, GrantPlace::Workspace { below, .. }) => {
            below.starts_with(granted)
        }
        // The workspace's path is not known yet.
        (GrantPlace::Workspace { .. }, GrantPlace::Path(_))
        | (GrantPlace::Path(_), GrantPlace::Workspace { .. }) => grant.access == Access::Write,
        // A source is never writable, nor are entries.
        (GrantPlace::Entries(_) | GrantPlace::Source { .. }, _)
        | (_, GrantPlace::Entries(_) | GrantPlace::Source { .. }) => false,
    })
}

/// Returns the literal targets of a command line's redirections. These are absolute paths, and those that begin with
/// `./`.
fn targets(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = line;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let after = &rest[first.len_utf8()..];
        rest = match first {
            '\\' => after
                .get(after.chars().next().map_or(0, char::len_utf8)..)
                .unwrap_or(""),
            '\'' => after.split_once('\'').map_or("", |(_, rest)| rest),
            '"' => behind_quote(after),
            '#' if before.is_whitespace() => {
                after.find('\n').map_or("", |position| &after[position..])
            }
            // After `<<` may come a here-document, which the program reads.
            '<' if after.starts_with('<') => return found,
            '>' => {
                let after = after.trim_start_matches(['>', '|']);
                let target = after.trim_start_matches([' ', '\t']);
                found.extend(word(target));
                after
            }
            _ => after,
        };
        before = first;
    }
    found
}

fn behind_quote(text: &str) -> &str {
    let mut escaped = false;
    for (position, char) in text.char_indices() {
        match char {
            '"' if !escaped => return &text[position + 1..],
            _ => escaped = char == '\\' && !escaped,
        }
    }
    ""
}

/// Returns a literal path at the start of a text, quoted or not.
fn word(text: &str) -> Option<String> {
    let quote = text
        .chars()
        .next()
        .filter(|first| ['"', '\''].contains(first));
    let word = match quote {
        Some(quote) => text[1..].split_once(quote)?.0,
        None => {
            let end = text.find(|c: char| c.is_whitespace() || ";&|()<>".contains(c));
            &text[..end.unwrap_or(text.len())]
        }
    };
    let is_path = word.starts_with('/') || word.starts_with("./");
    let is_literal = !word.contains(['$', '`', '*', '?', '[', '{', '\\', '\'', '"', '\n']);
    let is_plain = !Path::new(word)
        .components()
        .any(|it| it.as_os_str() == "..");
    (is_path && is_literal && is_plain).then(|| word.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookjail_contract::hook_file::{Origin, Switches, read};

    #[test]
    fn literal_targets_of_redirections_are_found_and_nothing_else_is_taken_for_one() {
        for (line, expected) in [
            ("echo x >> /tmp/a.log", &["/tmp/a.log"][..]),
            (
                "echo x >/tmp/a; cat <in 2>'/tmp/b c' | tee x",
                &["/tmp/a", "/tmp/b c"],
            ),
            ("{ date; echo; } >>\"/tmp/a\" 2>&1", &["/tmp/a"]),
            ("echo x >| ./audit.log", &["./audit.log"]),
            ("echo \"a > /tmp/b\" 'c > /tmp/d' \\> /tmp/e", &[]),
            ("echo x > \"$LOG\" > /tmp/$USER > out > /tmp/*", &[]),
            ("true # > /tmp/a", &[]),
            ("cat <<E\n> /tmp/a\nE", &[]),
            ("exec 2>&1 >&-;[ 1 \\> 2 ]", &[]),
            ("echo x >/tmp/../etc/x", &[]),
            ("echo \"", &[]),
            ("echo \\", &[]),
        ] {
            assert_eq!(targets(line), expected, "{line}");
        }
    }

    #[test]
    fn a_redirection_that_the_profile_refuses_is_warned_of_and_one_that_it_grants_is_not() {
        let file = |line: &str| {
            let text = format!("hooks:\n  stop:\n  - {{type: command, command: {line:?}}}\n");
            let origin = Origin {
                base: None,
                name: "agent.yaml",
            };
            read("docker_agent", &text, &origin, &Switches::default()).unwrap()
        };
        let profiles = Registry::builtin().unwrap();
        let warned = |line: &str, profile: &str| {
            let mut hooks = file(line).hooks;
            assert_eq!(hooks.len(), 1);
            hooks[0].profile = ProfileName::parse(profile);
            warnings(&hooks, &profiles)
        };
        let [warning] = &warned("echo x >> /tmp/agent.log", "workspace-ro")[..] else {
            panic!("no warning")
        };
        assert!(
            warning.starts_with("agent.yaml: hooks.stop[0]: `>` writes `/tmp/agent.log`, which profile `workspace-ro`"),
            "{warning}"
        );
        assert_eq!(warned("echo x > ./audit.log", "workspace-ro").len(), 1);
        let of_words = |command: &str| {
            let text = format!("hooks:\n- {{\"on\": turn_end, shell_exec: {command}}}\n");
            let origin = Origin {
                base: None,
                name: "hooks.yaml",
            };
            let hooks = read("reyn", &text, &origin, &Switches::default());
            let hooks = hooks.unwrap().hooks;
            assert_eq!(hooks.len(), 1);
            warnings(&hooks, &profiles).len()
        };
        for (command, warned) in [
            ("\"sh -c 'echo x >> /tmp/x'\"", 1),
            ("[bash, -euc, 'echo x >> /tmp/x']", 1),
            ("[env, A=b, /bin/sh, -c, 'cat >> /tmp/x']", 1),
            // The hook starts in the workspace, which it may read.
            ("[sh, -c, 'echo x > ./audit.log']", 1),
            ("[sh, -c, 'echo x > /dev/null']", 0),
            // A file, an argument of the script, and words that no shell reads.
            ("[sh, hooks/x.sh, -c, '> /tmp/x']", 0),
            ("[echo, x, '>', /tmp/x]", 0),
        ] {
            assert_eq!(of_words(command), warned, "{command}");
        }
        for (line, profile) in [
            ("echo x >/dev/null", "workspace-ro"),
            ("echo x > ./audit.log", "workspace-rw"),
            // The hook starts in its scratch directory.
            ("echo x > ./audit.log", "pipeline"),
            // That may lie in the workspace.
            ("echo x > /srv/project/audit.log", "workspace-rw"),
        ] {
            assert_eq!(warned(line, profile), Vec::<String>::new(), "{line}");
        }
    }
}
