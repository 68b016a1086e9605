//! Paths of runtimes' settings, and the variables of their hooks.

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

/// The paths of a runtime's hook settings, for a user and a project. A last component `*.json` is every such file.
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
