//! `safer_shell`: a human is asked about shell commands that are not known to read only.

use super::commands::{Class, class};
use crate::contract::{Decision, Json, Members, Verdict, text};

/// The tool that runs shell commands.
const TOOL: &str = "shell";

/// Asks about a command that destroys something or that nothing is known of. About one that reads only, and about other
/// tools, it says nothing.
pub(super) fn verdict(event: &Members<'_>) -> Verdict {
    if event.last("tool_name").and_then(text).as_deref() != Some(TOOL) {
        return Verdict::default();
    }
    match class(&command(event).unwrap_or_default()) {
        Class::Safe => Verdict::default(),
        Class::Destructive(operation) => ask(
            operation.radius.as_str(),
            operation.category,
            &format!(
                "Command matches destructive operation: {}",
                operation.name()
            ),
        ),
        Class::Unknown => ask(
            "unknown",
            "",
            "Shell command requires safer-mode confirmation.",
        ),
    }
}

fn command(event: &Members<'_>) -> Option<String> {
    let input = Members::parse(event.last("tool_input")?.get()).ok()?;
    let string = |name| input.last(name).and_then(text);
    string("cmd").or_else(|| string("command"))
}

fn ask(radius: &str, category: &str, reason: &str) -> Verdict {
    let members = [
        ("blast_radius", radius),
        ("category", category),
        ("reason", reason),
    ];
    let known = members.iter().filter(|(_, text)| !text.is_empty());
    let metadata: Vec<_> = known
        .map(|(name, text)| ((*name).to_owned(), Json::text(text)))
        .collect();
    Verdict {
        decision: Decision::Ask,
        metadata: Some(Json::object(&metadata)),
        reason: reason.to_owned(),
        ..Verdict::default()
    }
}
