//! Builds hooks' stdin: one object of the event's members and the contract's additions.

use bytes::Bytes;
use serde_json::{Value, value::RawValue};

use hookjail_base::model::{Event, InvalidField, json};

use super::{
    Envelope, Facts,
    envelope::Part,
    members::{Members, text},
    patch::over_input,
    verdict::Json,
};

/// A member that a contract adds: its name, its value, and the points at which it is there; none = at every point.
pub(super) type Added = (&'static str, Part, &'static [&'static str]);

/// Builds stdin as a contract's facts have it: [`object`] with its members.
///
/// # Errors
///
/// Refuses an empty point, and an event that is not an object or names another point.
pub(super) fn usual(
    facts: &Facts,
    event: &Event,
    envelope: &Envelope,
) -> Result<Bytes, InvalidField> {
    object(facts, event, &added(facts.members, event, envelope))
}

/// Returns the members of a contract at an event's point. Of several with one name the first counts.
pub(super) fn added(members: &[Added], event: &Event, envelope: &Envelope) -> Vec<Extra> {
    let mut extras: Vec<Extra> = Vec::new();
    for (name, part, points) in members {
        let is_there = points.is_empty() || points.contains(&event.point.as_str());
        if is_there && !extras.iter().any(|(known, _)| known == name) {
            extras.push((name, envelope.part(*part)));
        }
    }
    extras
}

/// A member beside the event's own, with its value, if there is one.
pub(super) type Extra = (&'static str, Option<Json>);

/// Builds one flat JSON object without white space.
///
/// The object has the point under the contract's name for it, then the present members of `extras`, then the event's own
/// members verbatim. An event's member has precedence over one of `extras`; a point of its own must equal the point.
///
/// # Errors
///
/// Refuses an empty point, and an event that is not an object or names another point.
pub(super) fn object(
    facts: &Facts,
    event: &Event,
    extras: &[Extra],
) -> Result<Bytes, InvalidField> {
    object_of(facts, event, Some(facts.point_key), extras, |_, _| true)
}

/// Builds an object like [`object`], with the point under another name or none, as hooks may have it from their
/// registration, and with the event's members that `keeps` accepts.
///
/// An omitted member still has precedence over one of `extras`.
///
/// # Errors
///
/// Refuses an empty point, and an event that is not an object or names another point.
pub(super) fn object_of(
    facts: &Facts,
    event: &Event,
    name: Option<&'static str>,
    extras: &[Extra],
    keeps: fn(&str, &RawValue) -> bool,
) -> Result<Bytes, InvalidField> {
    let contract = facts.contract;
    if event.point.is_empty() {
        return Err(InvalidField::new(
            "event.point",
            "must name the lifecycle point",
        ));
    }
    let mut has: Vec<_> = extras.iter().map(|_| false).collect();
    let mut event_members = String::with_capacity(event.json.len());
    let added = name.map_or_else(|| "its own".to_owned(), |name| format!("`{name}`"));
    let members = Members::of_event(&event.json).map_err(|error| {
        let problem = format!("{}: {contract} adds {added} to its members", error.problem);
        InvalidField::new("event.json", problem)
    })?;
    for (key, value) in members.entries() {
        if name.is_some_and(|name| key.is(name)) {
            if text(value).is_none_or(|name| facts.named(&name) != event.point) {
                let problem = format!("has a {added} that is not `event.point`");
                return Err(InvalidField::new("event.json", problem));
            }
            continue;
        }
        for ((other, _), has) in extras.iter().zip(&mut has) {
            *has |= key.is(other);
        }
        if !keeps(&key.text(), value) {
            continue;
        }
        event_members.push(',');
        key.write(&mut event_members);
        event_members.push(':');
        json::compact_into(value.get(), &mut event_members);
    }
    let mut out = String::with_capacity(event_members.len() + 256);
    out.push('{');
    if let Some(name) = name {
        member(&mut out, name);
        out.push_str(&Value::from(event.point.as_str()).to_string());
    }
    for ((key, value), is_own) in extras.iter().zip(has) {
        if let (Some(value), false) = (value, is_own) {
            if out.len() > 1 {
                out.push(',');
            }
            member(&mut out, key);
            out.push_str(value.as_str());
        }
    }
    // Each of the event's own members comes with a comma before it.
    let is_first = out.len() == 1;
    out.push_str(&event_members[usize::from(is_first && !event_members.is_empty())..]);
    out.push('}');
    Ok(out.into())
}

/// Returns whether Go's `omitempty` leaves a value out: `null`, `false`, zero, or nothing in quotes or brackets.
pub(super) fn is_empty(value: &RawValue) -> bool {
    let inside = |text: &str, open, close| {
        let text = text.strip_prefix(open)?.strip_suffix(close)?;
        text.trim_ascii().is_empty().then_some(())
    };
    let text = value.get();
    matches!(text, "null" | "false" | "\"\"")
        || inside(text, '[', ']').is_some()
        || inside(text, '{', '}').is_some()
        || text.parse() == Ok(0.0_f64)
}

fn member(out: &mut String, key: &str) {
    out.push_str(&Value::from(key).to_string());
    out.push(':');
}

/// Sets a value in an event, at a path of member names. An event that is empty becomes an object.
pub(super) fn put(event: &mut Event, path: &[&str], value: &Json) {
    let json = match event.json.is_empty() {
        true => "{}".into(),
        false => String::from_utf8_lossy(&event.json),
    };
    event.json = with_member(&json, path, value).into();
}

/// Merges a hook's rewrite over the tool's input in the event of the next hook.
pub(super) fn put_over_input(event: &mut Event, envelope: &Envelope, patch: Option<&Json>) {
    if let Some(patch) = patch {
        let input = over_input(patch, event, envelope);
        put(event, &["tool_input"], &input);
    }
}

/// Appends a hook's context to the prompt in the event of the next hook. An event without a prompt stays as it is.
pub(super) fn append_to_prompt(event: &mut Event, context: &[String]) {
    if context.is_empty() {
        return;
    }
    let members = Members::of_event(&event.json).unwrap_or_default();
    let Some(prompt) = members.last("prompt").and_then(text) else {
        return;
    };
    let prompt = Json::text(&format!("{prompt}\n\n{}", context.join("\n\n")));
    put(event, &["prompt"], &prompt);
}

/// Sets a member of an object, at a path of member names.
///
/// Missing objects on the path are created. A value that is not an object is returned unchanged.
fn with_member(object: &str, path: &[&str], value: &Json) -> String {
    let Some((name, rest)) = path.split_first() else {
        return value.as_str().to_owned();
    };
    let Ok(members) = Members::parse_at_any_depth(object) else {
        return object.to_owned();
    };
    let old = members.last(name).map_or("{}", RawValue::get);
    let new = with_member(old, rest, value);
    let mut out = String::from("{");
    let mut is_there = false;
    for (key, value) in members.entries() {
        if out.len() > 1 {
            out.push(',');
        }
        key.write(&mut out);
        out.push(':');
        if key.is(name) {
            is_there = true;
            out.push_str(&new);
        } else {
            json::compact_into(value.get(), &mut out);
        }
    }
    if !is_there {
        if out.len() > 1 {
            out.push(',');
        }
        member(&mut out, name);
        out.push_str(&new);
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_member_gets_another_value_and_the_rest_stays_as_it_is() {
        let value = Json::text("new");
        for (object, path, expected) in [
            (
                r#"{"a": 1e999, "tool": {"input": {"x": 1}, "name": "t"}}"#,
                &["tool", "input"][..],
                r#"{"a":1e999,"tool":{"input":"new","name":"t"}}"#,
            ),
            (r#"{}"#, &["tool", "input"], r#"{"tool":{"input":"new"}}"#),
            (
                r#"{"a":1}"#,
                &["tool_input"],
                r#"{"a":1,"tool_input":"new"}"#,
            ),
            ("[1]", &["a"], "[1]"),
        ] {
            assert_eq!(with_member(object, path, &value), expected);
        }
    }
}
