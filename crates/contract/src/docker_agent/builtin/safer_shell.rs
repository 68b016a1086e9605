//! `safer_shell`: asks for approval of shell commands that are not known to be read-only.

use crate::{Decision, Json, Members, Verdict, text};

use super::commands::{Class, class};

/// The tool that runs shell commands.
const TOOL: &str = "shell";

/// Asks about a destructive, unknown or unreadable command. Decides nothing for a command that only reads, and for
/// other tools.
pub(super) fn verdict(event: &Members<'_>) -> Verdict {
    let tool = event.last("tool_name").and_then(text);
    if tool.is_some_and(|tool| tool != TOOL) {
        return Verdict::default();
    }
    match command(event).map_or(Class::Unknown, |command| class(&command)) {
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
    let input = Members::parse_at_any_depth(event.last("tool_input")?.get()).ok()?;
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
