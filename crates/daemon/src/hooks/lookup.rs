//! Finds missing programs and scripts of hook commands, before a hook is due.

use std::path::{Path, PathBuf};

use hookjail_base::model::{Command, ProfileName};
use hookjail_policy::{Policy, Registry};

use super::{Action, Registered, http::CURL};

/// Warns of hooks without a shell whose program is missing. Relative paths are resolved at `base`, if known.
pub fn missing(hooks: &[Registered], profiles: &Registry, base: Option<&Path>) -> Vec<String> {
    let of_hook = |hook: &Registered| {
        if matches!(hook.action, Action::Http(_)) && !Path::new(CURL).is_file() {
            return Some(format!(
                "{}: `{CURL}`, which posts it, is not there",
                hook.source
            ));
        }
        let policy = profiles.find(&ProfileName::parse(hook.runs_under())?)?;
        let program = program(hook)?;
        let problem = problem(&program, policy, hook.base.as_deref().or(base))?;
        Some(format!("{}: {problem}", hook.source))
    };
    hooks.iter().filter_map(of_hook).collect()
}

/// Returns the first word of a command that no shell reads.
fn program(hook: &Registered) -> Option<String> {
    let words = match &hook.action {
        Action::Command(Command::Argv(argv)) => argv.clone(),
        Action::Command(Command::Line { text, .. }) if hook.is_of_words() => {
            hook.mode.split(text).ok()?
        }
        Action::Approve(_)
        | Action::Builtin(_)
        | Action::Command(_)
        | Action::Http(_)
        | Action::Log(_)
        | Action::Supplied(_)
        | Action::Unsupported(_) => return None,
    };
    let program = words.first()?.to_str()?;
    // The value of a variable is known only when the hook is due.
    (!program.contains('$')).then(|| program.to_owned())
}

/// Returns why a program is not found.
fn problem(program: &str, policy: &Policy, base: Option<&Path>) -> Option<String> {
    let path = Path::new(program);
    if program.contains('/') {
        let found: PathBuf = if path.is_absolute() {
            path.to_owned()
        } else {
            base?.join(path).components().collect()
        };
        let shown = found.display();
        return (!found.is_file()).then(|| format!("`{shown}` is not there"));
    }
    let on_path = |name: &str| {
        let mut directories = policy.environment.path.iter();
        directories.any(|directory| directory.join(name).is_file())
    };
    if on_path(program) {
        return None;
    }
    let third = format!("{program}3");
    let hint = if on_path(&third) {
        format!("; there is `{third}`")
    } else {
        String::new()
    };
    let profile = &policy.name;
    Some(format!(
        "`{program}` is not on the PATH of profile `{profile}`{hint}"
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use hookjail_contract::hook_file::{Origin, Switches, read};

    #[test]
    fn programs_that_are_not_there_are_named_and_those_that_are_may_run() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("there.sh"), "").unwrap();
        let script = directory.path().join("there.sh").display().to_string();
        let profiles = Registry::builtin().unwrap();
        let warned = |command: &str| {
            let text = format!(
                "{{\"version\": 1, \"hooks\": {{\"PreToolUse\": [{{\"command\": {command:?}}}]}}}}"
            );
            let origin = Origin {
                base: None,
                name: "mcp.json",
            };
            let read = read("basecoat", &text, &origin, &Switches::default()).unwrap();
            missing(&read.hooks, &profiles, Some(directory.path()))
        };
        for command in ["sh hooks/x.sh", "./there.sh --all", &script] {
            assert_eq!(warned(command), Vec::<String>::new(), "{command}");
        }
        let place = "mcp.json: hooks.PreToolUse[0]";
        let absent = directory.path().join("scripts/absent.sh");
        for (command, problem) in [
            (
                "scripts/absent.sh",
                format!("`{}` is not there", absent.display()),
            ),
            ("/nowhere/x", "`/nowhere/x` is not there".to_owned()),
            (
                "no-such-program x",
                "`no-such-program` is not on the PATH of profile `strict`".to_owned(),
            ),
        ] {
            assert_eq!(warned(command), [format!("{place}: {problem}")]);
        }
    }
}
