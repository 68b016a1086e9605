//! Which commands of infer's hooks run, by the agent's mode.

use crate::contract::{AgentMode, infer_gate};

/// The entries of the gate: regular expressions for whole commands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Lists {
    /// For every mode.
    pub all: Vec<String>,
    /// For `auto`.
    pub auto: Vec<String>,
    /// For `plan`.
    pub plan: Vec<String>,
    /// For `standard`.
    pub standard: Vec<String>,
}

impl Default for Lists {
    /// Lets through what only looks, and in `auto` everything.
    fn default() -> Self {
        let reading = ["git (diff|log|show|status)( .*)?", "ls( .*)?", "pwd"];
        Self {
            all: reading.map(str::to_owned).into(),
            auto: vec![".*".to_owned()],
            plan: Vec::new(),
            standard: Vec::new(),
        }
    }
}

impl Lists {
    /// Adds entries for every mode, separated by commas or line breaks: `INFER_TOOLS_BASH_ALLOW_APPEND`.
    pub fn append(&mut self, entries: &str) {
        let entries = entries.split([',', '\n']).map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty());
        self.all.extend(entries.map(str::to_owned));
    }

    /// Says whether a command runs in a mode.
    pub fn lets_through(&self, command: &str, mode: AgentMode) -> bool {
        let own = match mode {
            AgentMode::Auto => &self.auto,
            AgentMode::Plan => &self.plan,
            AgentMode::Standard => &self.standard,
        };
        let list: Vec<_> = self.all.iter().chain(own).cloned().collect();
        infer_gate::gate(command, &list) == infer_gate::Gate::Allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_has_its_own_entries_and_those_of_all() {
        let mut lists = Lists::default();
        lists.append(" make test ,\ncargo .*\n,");
        let through = |command, mode| lists.lets_through(command, mode);
        assert!(through("git status", AgentMode::Standard));
        assert!(through("make test", AgentMode::Plan));
        assert!(through("cargo build", AgentMode::Plan));
        assert!(!through("rm x", AgentMode::Plan));
        assert!(!through("git status; rm x", AgentMode::Standard));
        assert!(through("rm x; rm y", AgentMode::Auto));
    }
}
