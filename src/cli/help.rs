//! The help of the program: its subcommands in groups, each with an example of its use.

use std::fmt::Write as _;

use clap::Command;

/// The groups of subcommands, in the order in which somebody meets them.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Use",
        &[
            "install",
            "allow",
            "learn",
            "test",
            "lock",
            "run",
            "dispatch",
            "uninstall",
        ],
    ),
    (
        "Look",
        &[
            "log", "status", "doctor", "explain", "ps", "kill", "audit", "state",
        ],
    ),
    (
        "Configure",
        &[
            "consent",
            "profile",
            "hooks",
            "config",
            "policy",
            "root-digest",
        ],
    ),
    ("Serve", &["serve", "reload", "drain"]),
    ("Build on", &["interpret", "schema", "completions", "help"]),
];

/// Examples of subcommands, each with its effect.
const EXAMPLES: [(&str, &[(&str, &str)]); 10] = [
    (
        "allow",
        &[
            ("hookjail allow", "the hooks of this project"),
            ("hookjail allow --all", "the hooks of all projects"),
            (
                "hookjail allow --check",
                "exit code 1 where one would be refused",
            ),
        ],
    ),
    (
        "doctor",
        &[
            ("hookjail doctor", "the axes that this host can enforce"),
            (
                "hookjail doctor --profile develop --verbose",
                "with evidence",
            ),
        ],
    ),
    (
        "explain",
        &[
            (
                "hookjail explain --profile develop path write ~/notes/log",
                "which rule decides",
            ),
            ("hookjail explain host example.org:443", "under strict"),
        ],
    ),
    (
        "install",
        &[
            ("hookjail install claude-code", "shows, asks, changes"),
            (
                "hookjail install claude-code --dry-run -v",
                "shows alone, with each line",
            ),
            (
                "hookjail install claude-code --uninstall",
                "puts everything back",
            ),
        ],
    ),
    (
        "learn",
        &[
            ("hookjail learn --last", "the hook that was denied last"),
            (
                "hookjail learn -- .claude/hooks/log.sh",
                "a hook of the settings",
            ),
            (
                "hookjail learn --output p.toml -- ./hook.sh",
                "the smallest profile, as a file",
            ),
        ],
    ),
    (
        "lock",
        &[
            (
                "hookjail lock --sign ~/.ssh/id_ed25519",
                "tests, locks, signs",
            ),
            (
                "hookjail lock --check",
                "in CI: exit code 1 where a hook changed",
            ),
            (
                "hookjail allow --locked",
                "after a clone: all hooks, one question",
            ),
        ],
    ),
    (
        "log",
        &[
            ("hookjail log --denied --since 1h", "refusals and denials"),
            ("hookjail log -f", "runs as they end"),
        ],
    ),
    (
        "run",
        &[
            (
                "hookjail run --profile develop -- ./hook.sh <event.json",
                "one hook, confined",
            ),
            (
                "hookjail run --dry-run -- ./hook.sh",
                "a preview, without a run",
            ),
        ],
    ),
    (
        "test",
        &[
            ("hookjail test", "all files *.hooktest.toml below"),
            (
                "hookjail test --bare --format tap",
                "with runs without confinement",
            ),
        ],
    ),
    (
        "uninstall",
        &[(
            "hookjail uninstall --all",
            "each file of settings, as it was",
        )],
    ),
];

/// Returns the program's command with its help in groups, and with examples.
pub(super) fn with_groups(mut command: Command) -> Command {
    command.build();
    let about = |name: &str| {
        let found = command.get_subcommands().find(|it| it.get_name() == name);
        let about = found.and_then(Command::get_about);
        about.map(|about| about.to_string())
    };
    let mut groups = String::new();
    for (heading, names) in GROUPS {
        groups.push_str(&format!("{heading}:\n"));
        for name in names {
            if let Some(about) = about(name) {
                groups.push_str(&format!("  {name:<12}{about}\n"));
            }
        }
        groups.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}"
    );
    EXAMPLES
        .into_iter()
        .fold(command.help_template(template), with_examples)
}

fn with_examples(command: Command, (name, examples): (&str, &[(&str, &str)])) -> Command {
    if command.find_subcommand(name).is_none() {
        return command;
    }
    let width = examples.iter().map(|(line, _)| line.len()).max();
    let width = width.unwrap_or_default();
    let mut text = "Examples:".to_owned();
    for (line, effect) in examples {
        // Writing to a string does not fail.
        _ = write!(text, "\n  {line:<width$}  {effect}");
    }
    command.mut_subcommand(name, |command| command.after_help(text))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Arguments;

    #[test]
    fn every_subcommand_is_in_one_group_and_every_example_is_of_one() {
        let command = with_groups(Arguments::command());
        let visible = command.get_subcommands().filter(|it| !it.is_hide_set());
        let mut visible: Vec<_> = visible.map(Command::get_name).collect();
        let groups = GROUPS.into_iter();
        let mut grouped: Vec<_> = groups
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(visible, grouped);
        for (name, examples) in EXAMPLES {
            assert!(visible.contains(&name), "{name}");
            for (line, _) in examples {
                let line = line.split(" <").next().unwrap();
                let words = shlex::split(line).unwrap();
                let parsed = command.clone().try_get_matches_from(&words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
        let help = command.clone().render_help().to_string();
        assert!(
            help.contains("Use:\n  install     Change a runtime"),
            "{help}"
        );
    }
}
