//! Expectations of a run.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;

use hookjail_base::util::units::Span;

/// The words for a decision.
const DECISIONS: [&str; 5] = ["allow", "ask", "block", "deny", "none"];

/// Expectations of a run. Absent ones are not compared.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    /// The changes in the workspace, all of them: `A`, `M` or `D` and a path.
    #[schemars(inner(regex(pattern = "^[AMD] ")))]
    pub(super) changes: Option<BTreeSet<String>>,
    /// The decision by the runtime's contract.
    #[schemars(extend("enum" = ["allow", "ask", "block", "deny", "none", null]))]
    pub(super) decision: Option<String>,
    /// Parts of the texts of all denials; each denial has one of them.
    pub(super) denials: Option<Vec<String>>,
    /// The exit code that the runtime gets.
    pub(super) exit: Option<u8>,
    /// Whether the hook fails: a crash, a timeout, an answer that cannot be read [default: false].
    pub(super) fails: Option<bool>,
    /// The hosts that the hook connects to, all of them: `HOST:PORT`.
    pub(super) hosts: Option<BTreeSet<String>>,
    /// A part of the decision's reason.
    pub(super) reason: Option<String>,
    /// A part of stderr.
    pub(super) stderr: Option<String>,
    /// A part of stdout.
    pub(super) stdout: Option<String>,
    /// Whether the runtime takes the end for a no.
    pub(super) stops: Option<bool>,
    /// The longest time of the run.
    pub(super) within: Option<Span>,
}

impl Expected {
    /// Checks the values of a case.
    ///
    /// # Errors
    ///
    /// Names the case, the key and its values.
    pub(super) fn check(&self, name: &str) -> Result<(), String> {
        if let Some(word) = &self.decision
            && !DECISIONS.contains(&&**word)
        {
            let words = DECISIONS.join(", ");
            return Err(format!(
                "`decision` of `{name}` is `{word}`; set one of {words}"
            ));
        }
        let is_change = |text: &str| {
            let kind = text.split_once(' ').map(|(kind, _)| kind);
            kind.is_some_and(|kind| ["A", "M", "D"].contains(&kind))
        };
        let mut changes = self.changes.iter().flatten();
        match changes.find(|text| !is_change(text)) {
            Some(text) => Err(format!(
                "`changes` of `{name}` has `{text}`; write `A`, `M` or `D` and a path"
            )),
            None => Ok(()),
        }
    }

    /// Returns these expectations, with others in the place of those that are set there.
    pub(super) fn overridden(&self, other: Option<&Self>) -> Self {
        let Self {
            changes,
            decision,
            denials,
            exit,
            fails,
            hosts,
            reason,
            stderr,
            stdout,
            stops,
            within,
        } = other.cloned().unwrap_or_default();
        Self {
            changes: changes.or_else(|| self.changes.clone()),
            decision: decision.or_else(|| self.decision.clone()),
            denials: denials.or_else(|| self.denials.clone()),
            exit: exit.or(self.exit),
            fails: fails.or(self.fails),
            hosts: hosts.or_else(|| self.hosts.clone()),
            reason: reason.or_else(|| self.reason.clone()),
            stderr: stderr.or_else(|| self.stderr.clone()),
            stdout: stdout.or_else(|| self.stdout.clone()),
            stops: stops.or(self.stops),
            within: within.or(self.within),
        }
    }
}
