//! Output of docker-agent hooks: an `Output` object, plain text, or a model's reply.
//!
//! The host parses with Go's JSON library: keys in any case, the last of several with one name, and `null` is nothing.
//! Here, as there, each of several members with one name must be of the right type.

use serde_json::value::RawValue;

use super::{
    super::members::{self, Members, boolean, is_null, text},
    super::patch::Patch,
    BlockedBy, Decision, End, Fault, Json, Skip, Verdict, stops,
};

const FIELDS: [&str; 7] = [
    "continue",
    "stop_reason",
    "suppress_output",
    "system_message",
    "decision",
    "reason",
    SPECIFIC,
];

const SPECIFIC: &str = "hook_specific_output";

const SPECIFIC_FIELDS: [&str; 10] = [
    "hook_event_name",
    "permission_decision",
    "permission_decision_reason",
    "updated_input",
    "metadata",
    "updated_tool_response",
    "summary",
    "additional_context",
    // From the newest code.
    INSTRUCTIONS,
    "updated_messages",
];

const CONTEXT: &str = "additional_context";
const INPUT: &str = "updated_input";
const MESSAGES: &str = "updated_messages";
const METADATA: &str = "metadata";
const PERMISSION: &str = "permission_decision";
const RESPONSE: &str = "updated_tool_response";
const SUMMARY: &str = "summary";

/// A text for the model's instructions, which is handed on as metadata.
const INSTRUCTIONS: &str = "instruction_context";

/// Parses the output of a command that exited with 0.
pub(super) fn read(end: &End<'_>) -> Result<Verdict, Fault> {
    let stdout = String::from_utf8_lossy(end.stdout);
    let stdout = stdout.trim();
    if stdout.is_empty() {
        return Ok(Verdict {
            skip: Some(Skip::EmptyStdout),
            ..Verdict::default()
        });
    }
    if !stdout.starts_with('{') {
        return plain(end, stdout);
    }
    let output = Output::read(&object(stdout)?, end.entry.strict_output)?;
    if end.entry.strict_output {
        output.check_for(end)?;
    }
    Ok(output.verdict(end))
}

/// Parses a model's reply: one object with exactly one decision and its reason. There must be nothing around it.
///
/// The host itself also extracts a reply from surrounding text, and accepts a decision in any letter case. Text in a
/// reply can come from the judged tool call, so here such a reply has no verdict.
pub(super) fn read_reply(end: &End<'_>) -> Result<Verdict, Fault> {
    const DECISIONS: [&str; 2] = ["decision", "permission_decision"];

    let invalid = |skip| Fault::new(skip, format!("its reply is not valid: {skip}"));
    let reply = String::from_utf8_lossy(end.stdout);
    let reply = reply.trim();
    if reply.is_empty() {
        return Err(invalid(Skip::EmptyStdout));
    }
    let members = object(reply)?;
    let deciding = |key: &str| DECISIONS.iter().any(|name| name.eq_ignore_ascii_case(key));
    let mut decisions = members.iter().filter(|(key, _)| deciding(key));
    let decision = match (decisions.next(), decisions.next()) {
        (Some((_, decision)), None) => decision,
        (None, _) => return Err(invalid(Skip::MissingField("decision"))),
        (Some(_), Some(_)) => return Err(invalid(Skip::WrongType("decision"))),
    };
    let reason = field(&members, "reason", text)?;
    let reason = reason.ok_or_else(|| invalid(Skip::MissingField("reason")))?;
    let is_known = |key: &str| deciding(key) || key.eq_ignore_ascii_case("reason");
    if end.entry.strict_output {
        check_keys(&members, is_known)?;
    }
    let decision = text(decision).unwrap_or_default();
    let permission = permission(&decision).ok().flatten();
    let output = Output {
        permission: Some(permission.ok_or_else(|| invalid(Skip::WrongType("decision")))?),
        permission_reason: reason.trim().to_owned(),
        ..Output::default()
    };
    Ok(output.verdict(end))
}

/// Texts beside a block by exit code; each may be empty.
#[derive(Default)]
pub(super) struct BlockTexts {
    /// The reason of the block.
    pub(super) reason: String,
    /// The text for the user.
    pub(super) system_message: String,
}

/// Returns the texts beside a block by exit code, if stdout is an object. Nothing else in it counts.
pub(super) fn block_texts(end: &End<'_>) -> BlockTexts {
    let stdout = String::from_utf8_lossy(end.stdout);
    let Some(members) = object(stdout.trim()).ok().filter(|_| !end.stdout_truncated) else {
        return BlockTexts::default();
    };
    let member = |name| {
        let found = field(&members, name, text).ok().flatten();
        found
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
    };
    let specific = field(&members, SPECIFIC, Members::from_value)
        .ok()
        .flatten();
    let permission = specific.and_then(|specific| {
        field(&specific, "permission_decision_reason", text)
            .ok()
            .flatten()
    });
    let permission = permission.map(|text| text.trim().to_owned());
    let reasons = [
        member("reason"),
        permission.filter(|text| !text.is_empty()),
        member("stop_reason"),
        member("system_message"),
    ];
    BlockTexts {
        reason: reasons.into_iter().flatten().next().unwrap_or_default(),
        system_message: member("system_message").unwrap_or_default(),
    }
}

/// Interprets plain text: context, where the point has any.
fn plain(end: &End<'_>, stdout: &str) -> Result<Verdict, Fault> {
    if end.entry.strict_output {
        let text = "its output is not one JSON object, as `strict_output` has it";
        return Err(Fault::new(Skip::InvalidJson, text));
    }
    Ok(if is_read(CONTEXT, end) {
        Verdict {
            additional_context: vec![stdout.to_owned()],
            ..Verdict::default()
        }
    } else {
        Verdict::skipped(Skip::OutputIgnored)
    })
}

/// Parsed stdout of a hook.
#[derive(Default)]
struct Output {
    context: String,
    decides: bool,
    goes_on: Option<bool>,
    input: Option<Json>,
    instructions: String,
    messages: Option<Json>,
    metadata: Option<Json>,
    permission: Option<Decision>,
    permission_reason: String,
    point: String,
    reason: String,
    response: Option<String>,
    stop_reason: String,
    summary: String,
    suppress: bool,
    system_message: String,
}

impl Output {
    fn read(members: &Members<'_>, is_strict: bool) -> Result<Self, Fault> {
        let string = |name| field(members, name, text).map(Option::unwrap_or_default);
        let mut output = Self {
            decides: match string("decision")?.as_str() {
                "" => false,
                "block" => true,
                _ => return Err(wrong("decision")),
            },
            goes_on: field(members, "continue", boolean)?,
            reason: string("reason")?,
            stop_reason: string("stop_reason")?,
            suppress: field(members, "suppress_output", boolean)?.unwrap_or(false),
            system_message: string("system_message")?,
            ..Self::default()
        };
        if is_strict {
            check_keys(members, |key| is_among(&FIELDS, key))?;
        }
        if let Some(specific) = field(members, SPECIFIC, Members::from_value)? {
            output.read_specific(&specific)?;
            if is_strict {
                check_keys(&specific, |key| is_among(&SPECIFIC_FIELDS, key))?;
            }
        }
        Ok(output)
    }

    fn read_specific(&mut self, members: &Members<'_>) -> Result<(), Fault> {
        let string = |name| field(members, name, text).map(Option::unwrap_or_default);
        self.context = string("additional_context")?;
        self.input = field(members, "updated_input", map)?;
        self.instructions = string(INSTRUCTIONS)?;
        self.messages = field(members, "updated_messages", list)?;
        self.metadata = field(members, "metadata", strings)?;
        self.permission = permission(&string("permission_decision")?)?;
        self.permission_reason = string("permission_decision_reason")?;
        self.point = string("hook_event_name")?;
        self.response = field(members, "updated_tool_response", text)?;
        self.summary = string("summary")?;
        Ok(())
    }

    fn blocks(&self) -> bool {
        self.decides || self.goes_on == Some(false)
    }

    /// Rejects members without a meaning at the point, as `strict_output` requires.
    fn check_for(&self, end: &End<'_>) -> Result<(), Fault> {
        let permits = self.permission.is_some() || !self.permission_reason.is_empty();
        for (name, is_given) in [
            (CONTEXT, !self.context.is_empty()),
            ("decision", self.blocks()),
            ("hook_event_name", !self.point.is_empty()),
            (METADATA, self.metadata.is_some()),
            (PERMISSION, permits),
            (SUMMARY, !self.summary.is_empty()),
            ("suppress_output", self.suppress),
            (INPUT, self.input.is_some()),
            (MESSAGES, self.messages.is_some()),
            (RESPONSE, self.response.is_some()),
        ] {
            let is_known = match name {
                "decision" => stops(end.point).is_some(),
                "hook_event_name" => self.point == end.point,
                name => is_read(name, end),
            };
            if is_given && !is_known {
                return Err(wrong(name));
            }
        }
        Ok(())
    }

    fn verdict(&self, end: &End<'_>) -> Verdict {
        let metadata = self.metadata.as_ref().filter(|_| is_read(METADATA, end));
        let mut handed_on = Patch::default();
        metadata.iter().for_each(|all| handed_on.put_all(all));
        if !self.instructions.is_empty() {
            handed_on.put(INSTRUCTIONS, Json::text(&self.instructions));
        }
        let has_context = is_read(CONTEXT, end) && !self.context.is_empty();
        let messages = self.messages.as_ref().filter(|all| all.as_str() != "[]");
        Verdict {
            additional_context: has_context
                .then(|| self.context.clone())
                .into_iter()
                .collect(),
            metadata: handed_on.into_members(),
            summary: Some(&self.summary)
                .filter(|text| is_read(SUMMARY, end) && !text.is_empty())
                .cloned(),
            suppress_output: self.suppress,
            system_message: self.system_message.clone(),
            // The stage before the others rewrites nothing: later hooks read the model's own call.
            updated_input: self
                .input
                .clone()
                .filter(|_| is_read(INPUT, end) && !end.entry.preempt),
            updated_messages: messages.cloned().filter(|_| is_read(MESSAGES, end)),
            updated_output: self
                .response
                .as_ref()
                .filter(|_| is_read(RESPONSE, end))
                .map(|text| Json::text(text)),
            ..self.decided(end)
        }
    }

    /// Returns the decision with its reason.
    fn decided(&self, end: &End<'_>) -> Verdict {
        let point = end.point;
        let permission = self.permission.filter(|_| is_read(PERMISSION, end));
        let blocked_by = if self.goes_on == Some(false) {
            Some(BlockedBy::ContinueFalse)
        } else if self.decides {
            Some(BlockedBy::Decision)
        } else if permission == Some(Decision::Deny) {
            Some(BlockedBy::PermissionDecision)
        } else {
            None
        };
        let mut warnings = Vec::new();
        if self.permission.is_some() && permission.is_none() {
            warnings.push(format!(
                "a permission decision counts for nothing at `{point}`"
            ));
        }
        let verdict = match (blocked_by, stops(point)) {
            (Some(blocked_by), Some(decision)) => Verdict {
                stop_reason: self.stop_text().to_owned(),
                ..Verdict::stopped(decision, blocked_by, self.why(permission))
            },
            (Some(_), None) => {
                warnings.push(format!("a block blocks nothing at `{point}`"));
                Verdict::default()
            }
            (None, _) => Verdict {
                decision: permission.unwrap_or_default(),
                reason: permission
                    .map_or("", |_| &self.permission_reason)
                    .to_owned(),
                ..Verdict::default()
            },
        };
        Verdict {
            warnings,
            ..verdict
        }
    }

    fn stop_text(&self) -> &str {
        if self.goes_on == Some(false) {
            &self.stop_reason
        } else {
            ""
        }
    }

    /// Returns the first text that gives a reason for the block.
    fn why(&self, permission: Option<Decision>) -> String {
        let denies = permission == Some(Decision::Deny);
        let of_permission = if denies { &self.permission_reason } else { "" };
        let of_block = if self.blocks() { &self.reason } else { "" };
        let texts = [of_block, of_permission, self.stop_text()];
        let first = texts.into_iter().find(|text| !text.is_empty());
        first.unwrap_or_default().to_owned()
    }
}

/// Returns whether a member of the specific output has a meaning at a point.
fn is_read(name: &str, end: &End<'_>) -> bool {
    let points: &[&str] = match name {
        CONTEXT => &[
            "post_tool_use",
            "pre_compact",
            "session_start",
            "stop",
            "turn_start",
            "user_followup_submit",
            "user_prompt_submit",
            "user_steering_messages_submit",
            "worktree_create",
        ],
        INPUT => &["pre_tool_use", "tool_input_transform"],
        MESSAGES => &["before_llm_call"],
        // Annotations of a confirmation count only where one may follow.
        METADATA if end.entry.preempt => &["permission_request", "pre_tool_use", "tool_guard"],
        METADATA => &["permission_request", "tool_guard"],
        PERMISSION => &["permission_request", "pre_tool_use", "tool_guard"],
        RESPONSE => &["tool_response_transform"],
        SUMMARY => &["before_compaction"],
        _ => &[],
    };
    points.contains(&end.point)
}

fn object(text: &str) -> Result<Members<'_>, Fault> {
    Members::parse(text).map_err(|fault| {
        let text = match fault {
            members::Fault::NotJson => "its output is not one JSON object and nothing else",
            members::Fault::NotObject => "its output is no JSON object",
            members::Fault::TooDeep => "its output nests too deep to be read",
        };
        Fault::new(Skip::from(fault), text)
    })
}

/// Returns the last value under a name; all of them must be of its type.
fn field<'a, T>(
    members: &Members<'a>,
    name: &'static str,
    read: impl Fn(&'a RawValue) -> Option<T>,
) -> Result<Option<T>, Fault> {
    let mut last = None;
    for (key, value) in members.iter() {
        if key.eq_ignore_ascii_case(name) && !is_null(value) {
            last = Some(read(value).ok_or_else(|| wrong(name))?);
        }
    }
    Ok(last)
}

fn wrong(name: &'static str) -> Fault {
    let text = format!("`{name}` in its output is not what it may be");
    Fault::new(Skip::WrongType(name), text)
}

fn check_keys(members: &Members<'_>, is_known: impl Fn(&str) -> bool) -> Result<(), Fault> {
    let unknown = members.iter().find(|(key, _)| !is_known(key));
    unknown.map_or(Ok(()), |_| {
        let text = "its output has a key that is none, as `strict_output` has it";
        Err(Fault::new(Skip::InvalidJson, text))
    })
}

fn is_among(names: &[&str], key: &str) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(key))
}

fn permission(text: &str) -> Result<Option<Decision>, Fault> {
    Ok(match text {
        "" => None,
        "allow" => Some(Decision::Allow),
        "ask" => Some(Decision::Ask),
        "deny" => Some(Decision::Deny),
        _ => return Err(wrong("permission_decision")),
    })
}

fn map(value: &RawValue) -> Option<Json> {
    let members = Members::from_value(value)?;
    let mut patch = Patch::default();
    for (name, value) in members.iter() {
        patch.put(&name, Json::from_raw(value));
    }
    Some(patch.into_json())
}

fn list(value: &RawValue) -> Option<Json> {
    let messages: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
    let is_message = |value: &&RawValue| Members::from_value(value).is_some();
    messages
        .iter()
        .all(is_message)
        .then(|| Json::from_raw(value))
}

/// Reads a map of strings, where `null` is an empty one.
fn strings(value: &RawValue) -> Option<Json> {
    let members = Members::from_value(value)?;
    let mut patch = Patch::default();
    for (name, value) in members.iter() {
        let is_none = is_null(value);
        let text = if is_none { String::new() } else { text(value)? };
        patch.put(&name, Json::text(&text));
    }
    Some(patch.into_json())
}
