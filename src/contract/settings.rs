//! Where the runtimes keep their settings, and what the hooks in them are given.

/// What a variable holds that a runtime sets for its hooks.
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

/// Where a runtime keeps the hooks of a user and of a project. A last component `*.json` stands for every such file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Settings {
    /// Below the project's directory.
    pub project: &'static [&'static str],
    /// Below the user's home.
    pub user: &'static [&'static str],
}
