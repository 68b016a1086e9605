//! Hooks of runtimes whose commands hookjail supplies: git, and `hookjail builtin`.

use crate::{Query, Report, Save, Template};

/// The words before the name and arguments of a built-in hook that hookjail itself executes.
const HOOKJAIL: [&str; 2] = ["hookjail", "builtin"];

/// A hook whose command hookjail supplies, and confines like every command.
#[derive(Clone, Debug, PartialEq)]
pub enum Supplied {
    /// Queries git, reads the workspace, or keeps a tool's result.
    Query(Query),
    /// Appends the event to a file.
    Save(Save),
    /// Renders a push directive from the event.
    Template(Template),
}

impl Supplied {
    /// Returns the command, as a consent names it.
    pub fn argv(&self) -> Vec<String> {
        match self {
            Self::Query(query) => query.argv(),
            Self::Save(save) => save.argv(),
            Self::Template(template) => template.argv(),
        }
    }

    /// Returns whether the program is hookjail.
    pub fn is_hookjail(&self) -> bool {
        match self {
            Self::Query(query) => !query.is_git(),
            Self::Save(_) | Self::Template(_) => true,
        }
    }

    /// Returns the use of the command's output; `None` if it is a hook's of the contract.
    pub const fn report(&self) -> Option<Report> {
        match self {
            Self::Query(query) => query.report(),
            Self::Save(_) => None,
            Self::Template(_) => Some(Report::Directive),
        }
    }
}

/// Returns the words of hookjail as a built-in hook.
pub(crate) fn hookjail(name: &str, args: &[String]) -> Vec<String> {
    let words = HOOKJAIL.iter().copied().chain([name]);
    let words = words.map(str::to_owned);
    words.chain(args.iter().cloned()).collect()
}
