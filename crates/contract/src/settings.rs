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
