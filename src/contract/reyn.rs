//! reyn lifecycle hooks, as its page of June 2026 describes them, with the scheme names of later releases accepted.
//!
//! A hook never stops the point it runs at: every failure only skips the push. A directive is taken whole or not at all.

use std::{ffi::OsString, fmt, str};

use bytes::Bytes;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, json, value::RawValue};

use super::{ContractEvent, End, EndKind, Push, Skip, Verdict, failure_of};
use crate::{
    json,
    request::{Event, InvalidField},
};

/// The rules followed.
pub(super) const VERSION: &str = "reyn/2026-06";

/// The wall time of a hook. An entry has no key for another.
pub(super) const TIMEOUT_SECONDS: u64 = 60;

/// Returns what a hook reads: one flat object, `point` first, then the event's own members as they are written.
pub(super) fn stdin(event: &Event) -> Result<Bytes, InvalidField> {
    if event.point.is_empty() {
        return Err(InvalidField::new(
            "event.point",
            "must name the lifecycle point",
        ));
    }
    let mut extras = Extras {
        conflict: false,
        out: String::with_capacity(event.json.len() + 64),
        point: &event.point,
    };
    extras.out.push_str("{\"point\":");
    extras
        .out
        .push_str(&Value::from(event.point.as_str()).to_string());
    // An event that was not given has no extras.
    if !event.json.is_empty() {
        let mut source = serde_json::Deserializer::from_slice(&event.json);
        let read = (&mut extras)
            .deserialize(&mut source)
            .and_then(|()| source.end());
        if extras.conflict {
            return Err(InvalidField::new(
                "event.json",
                "has a `point` that is not `event.point`",
            ));
        }
        read.map_err(|_| {
            InvalidField::new(
                "event.json",
                "must be one JSON object: reyn adds `point` to its members",
            )
        })?;
    }
    extras.out.push('}');
    Ok(extras.out.into())
}

/// Splits a command line into the words that reyn would run.
///
/// reyn splits with Python's `shlex`, which differs from a shell in that `#` starts no comment, that a backslash between
/// double quotes escapes only itself and the quote, and that a backslash before a newline keeps the newline.
pub(super) fn split(text: &str) -> Result<Vec<OsString>, InvalidField> {
    let invalid = |problem| InvalidField::new("hook.shell.script", problem);
    let mut words: Vec<OsString> = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take().map(OsString::from)),
            '\'' | '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars
                        .next()
                        .ok_or_else(|| invalid("has a quotation that is not closed"))?
                    {
                        end if end == c => break,
                        '\\' if c == '"' => match chars.next() {
                            Some(escaped @ ('"' | '\\')) => word.push(escaped),
                            Some(other) => word.extend(['\\', other]),
                            None => return Err(invalid("has a quotation that is not closed")),
                        },
                        other => word.push(other),
                    }
                }
            }
            '\\' => {
                let escaped = chars
                    .next()
                    .ok_or_else(|| invalid("ends in a backslash that escapes nothing"))?;
                word.get_or_insert_default().push(escaped);
            }
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word.map(OsString::from));
    if words.first().is_none_or(|program| program.is_empty()) {
        return Err(invalid("names no program"));
    }
    Ok(words)
}

/// Reads the end of a `shell_exec` hook: its output is never looked at.
pub(super) fn interpret_exec(kind: EndKind) -> Verdict {
    Verdict::skipped(failure_of(kind).unwrap_or(Skip::OutputIgnored))
}

/// Reads the end of a `shell_push` hook: on exit 0, stdout is a push directive.
pub(super) fn interpret_push(end: &End<'_>) -> Verdict {
    match failure_of(end.kind).map_or_else(|| directive(end), Err) {
        Ok(push) => Verdict {
            push: Some(push),
            ..Verdict::default()
        },
        Err(skip) => Verdict::skipped(skip),
    }
}

/// Returns the event of a run, unless nothing ran.
pub(super) fn event(mode: &str, end: &End<'_>) -> Option<ContractEvent> {
    let returncode = match end.kind {
        // Nothing but SIGKILL ends a run that is not to go on.
        EndKind::Canceled | EndKind::OutputLimit => -9,
        EndKind::ExecFailed => return None,
        EndKind::Exited(code) => code,
        EndKind::Signaled(signal) => -signal,
        EndKind::TimedOut => -1,
    };
    let json = json!({ "command": end.command, "mode": mode, "returncode": returncode });
    Some(ContractEvent {
        json,
        name: "hook_shell_executed",
    })
}

fn directive(end: &End<'_>) -> Result<Push, Skip> {
    // A cut document may still parse, and would then say what its hook never said.
    if end.stdout_truncated {
        return Err(Skip::InvalidJson);
    }
    let text = String::from_utf8_lossy(end.stdout);
    if is_blank(&text) {
        return Err(Skip::EmptyStdout);
    }
    let document: &RawValue = serde_json::from_str(&text).map_err(|_| Skip::InvalidJson)?;
    if json::first_too_deep(document.get()).is_some() {
        return Err(Skip::InvalidJson);
    }
    if !document.get().starts_with('{') {
        return Err(Skip::NotObject);
    }
    let fields: Fields<'_> = serde_json::from_str(document.get()).map_err(|_| Skip::InvalidJson)?;
    let message: String = required(fields.message, "message")?;
    if is_blank(&message) {
        return Err(Skip::EmptyMessage);
    }
    let wake = required(fields.wake, "wake")?;
    let push_when: bool = required(fields.push_when, "push_when")?;
    let session = optional(fields.session, "session")?
        .filter(|session| !is_blank(session))
        .unwrap_or_default();
    if !push_when {
        return Err(Skip::PushWhenFalse);
    }
    let name = if is_blank(end.name) {
        end.point
    } else {
        end.name
    };
    Ok(Push {
        message,
        name: name.to_owned(),
        session,
        wake,
    })
}

// Text that holds half of a surrogate pair is no Unicode and cannot be delivered: it counts as the wrong type.
fn required<'a, T: Deserialize<'a>>(
    field: Option<&'a RawValue>,
    name: &'static str,
) -> Result<T, Skip> {
    let value = field.ok_or(Skip::MissingField(name))?;
    serde_json::from_str(value.get()).map_err(|_| Skip::WrongType(name))
}

fn optional(field: Option<&RawValue>, name: &'static str) -> Result<Option<String>, Skip> {
    field.map_or(Ok(None), |value| {
        serde_json::from_str(value.get()).map_err(|_| Skip::WrongType(name))
    })
}

/// Says whether Python's `strip` would leave nothing: it also takes the four ASCII separators.
fn is_blank(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}

/// The members of a directive that mean something. The last of several with one name counts.
#[derive(Default)]
struct Fields<'a> {
    message: Option<&'a RawValue>,
    push_when: Option<&'a RawValue>,
    session: Option<&'a RawValue>,
    wake: Option<&'a RawValue>,
}

// Why not derived: a derived implementation refuses a repeated field.
impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a push directive")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::default();
        while let Some(key) = map.next_key()? {
            match key {
                Key::Message => fields.message = Some(map.next_value()?),
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
                Key::PushWhen => fields.push_when = Some(map.next_value()?),
                Key::Session => fields.session = Some(map.next_value()?),
                Key::Wake => fields.wake = Some(map.next_value()?),
            }
        }
        Ok(fields)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    Message,
    PushWhen,
    Session,
    Wake,
    #[serde(other)]
    Other,
}

/// Appends the members of an object to another's text, except `point`, which must not contradict the request's.
struct Extras<'a> {
    conflict: bool,
    out: String,
    point: &'a str,
}

impl<'de> DeserializeSeed<'de> for &mut Extras<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Extras<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
            if key == "point" {
                self.conflict |=
                    serde_json::from_str::<String>(value.get()).ok().as_deref() != Some(self.point);
                continue;
            }
            self.out.push(',');
            self.out.push_str(&Value::from(key).to_string());
            self.out.push(':');
            json::compact_into(value.get(), &mut self.out);
        }
        Ok(())
    }
}
