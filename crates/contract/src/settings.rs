//! Paths of runtimes' settings, their text, and the variables of their hooks.

use std::{borrow::Cow, sync::LazyLock};

use regex::{Captures, Regex};

/// Value of a variable that a runtime sets for its hooks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Holds {
    /// The directory that the event is about.
    Cwd,
    /// The directory of the plugin whose hook it is.
    Plugin,
    /// The project's directory.
    Project,
    /// The session's id.
    Session,
}

/// The paths of a runtime's hook settings, for a user and a project. A component `*` is any name, a last one `*.json` every such file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Settings {
    /// Below the project's directory.
    pub project: &'static [&'static str],
    /// Below the user's home.
    pub user: &'static [&'static str],
}

/// A variable that names a program to which the runtime hands every line that it would run by a shell, as one argument.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ShellPrefix {
    /// The settings of a project that are one user's own.
    pub local: &'static str,
    /// A part of every line of the runtime's own tool.
    pub of_tools: &'static str,
    /// The variable, of the environment or of `env` in settings.
    pub variable: &'static str,
}

/// Returns the value of a variable of the runtime's environment.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns a string of settings as Gemini CLI reads it.
///
/// `$NAME`, `${NAME}` and `${NAME:-DEFAULT}` are replaced, also between single quotes; a name without value and default is not. Source:
/// Gemini CLI 0.61.0, `resolveEnvVarsInString`.
pub(crate) fn with_defaults<'a>(text: &'a str, value: Lookup<'_>) -> Cow<'a, str> {
    static NAMES: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\$(?:((?-u:\w)+)|\{([^}]+?)(?::-([^}]*))?\})").ok());
    resolved(text, &NAMES, value)
}

/// Returns a string of settings as Qwen Code reads it: as Gemini CLI does, without defaults.
///
/// Source: Qwen Code 0.24.4, `resolveEnvVarsInString`.
pub(crate) fn without_defaults<'a>(text: &'a str, value: Lookup<'_>) -> Cow<'a, str> {
    static NAMES: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\$(?:((?-u:\w)+)|\{([^}]+)\})").ok());
    resolved(text, &NAMES, value)
}

fn resolved<'a>(text: &'a str, names: &Option<Regex>, value: Lookup<'_>) -> Cow<'a, str> {
    let resolve = |found: &Captures<'_>| {
        let name = found.get(1).or_else(|| found.get(2));
        let set = name.and_then(|name| value(name.as_str()));
        let default = || {
            found
                .iter()
                .nth(3)
                .flatten()
                .map(|it| it.as_str().to_owned())
        };
        set.or_else(default).unwrap_or_else(|| found[0].to_owned())
    };
    match names {
        Some(names) => names.replace_all(text, resolve),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_settings_are_resolved_as_their_runtime_does() {
        let value = |name: &str| match name {
            "HOME" => Some("/home/you".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        for (text, gemini, qwen) in [
            (
                "cat \"$HOME\"/a '$HOME'",
                "cat \"/home/you\"/a '/home/you'",
                None,
            ),
            ("${HOME}/b$EMPTY|", "/home/you/b|", None),
            (
                "$P/x ${P} $1 $(date) $$ $",
                "$P/x ${P} $1 $(date) $$ $",
                None,
            ),
            (
                "${P:-d} ${HOME:-d} ${P:-}",
                "d /home/you ",
                Some("${P:-d} ${HOME:-d} ${P:-}"),
            ),
            ("$HOMEé ${}", "/home/youé ${}", None),
        ] {
            assert_eq!(with_defaults(text, &value), gemini);
            assert_eq!(without_defaults(text, &value), qwen.unwrap_or(gemini));
        }
    }
}
