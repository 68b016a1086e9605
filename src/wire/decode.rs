//! From a message to a request: whatever passes here is well-formed.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use bytes::Bytes;
use uuid::Uuid;

use super::WireLimits;
use crate::{
    contract::{Mode, ParseModeError, ends_something},
    event::{EventError, parse_event},
    pb,
    refusal::{Reason, Refusal},
    request::{
        Command, Event, Hook, InvalidField, Narrow, OnDisconnect, OnFailure, ProfileName, Request,
        is_plain,
    },
};

/// Linux takes no longer argument (`MAX_ARG_STRLEN`).
const ARGUMENT_BYTES: usize = 128 * 1024 - 1;

/// Arguments and environment together: a quarter of the usual 8 MiB stack, with room for the pointers.
const ARGUMENTS_BYTES: usize = 2 * 1024 * 1024 - 256 * 1024;

/// The longest name, id or point.
const NAME_BYTES: usize = 256;

/// A margin below what gRPC clients accept by default, which is 4 MiB.
const DEFAULT_REPLY_BYTES: u64 = 4 * 1024 * 1024 - 64 * 1024;

/// A request that is refused before it is one.
#[derive(Debug)]
pub struct Malformed {
    /// Why.
    pub refusal: Refusal,
    /// The caller's id, or one made here where that is unusable.
    pub request_id: String,
}

/// Decodes a request.
///
/// # Errors
///
/// Refuses with the field at fault: `INVALID_REQUEST`, `EVENT_TOO_LARGE`, `PROFILE_UNKNOWN` or `UNSUPPORTED`.
pub fn decode(message: pb::ExecuteRequest, limits: WireLimits) -> Result<Request, Box<Malformed>> {
    let request_id = match name("request_id", &message.request_id) {
        Ok(()) if message.request_id.is_empty() => Uuid::now_v7().to_string(),
        Ok(()) => message.request_id.clone(),
        Err(field) => {
            return Err(Box::new(Malformed {
                refusal: field.into(),
                request_id: Uuid::now_v7().to_string(),
            }));
        }
    };
    request(message, &request_id, limits).map_err(|refusal| {
        Box::new(Malformed {
            refusal,
            request_id,
        })
    })
}

fn request(message: pb::ExecuteRequest, id: &str, limits: WireLimits) -> Result<Request, Refusal> {
    let contract = contract(&message)?;
    let event = event(message.event.unwrap_or_default(), limits)?;
    let hook = hook(message.hook.unwrap_or_default())?;
    name("session_id", &message.session_id)?;
    let profile = match message.profile.as_str() {
        "" => None,
        text => Some(ProfileName::parse(text).ok_or_else(|| {
            Refusal::new(
                Reason::ProfileUnknown,
                format!("there is no profile {text:?}; see `hookjail profile list`"),
            )
        })?),
    };
    let timeout = message.timeout.map(timeout).transpose()?;
    let on_disconnect = match known(
        pb::OnDisconnect::try_from(message.on_disconnect),
        "on_disconnect",
    )? {
        pb::OnDisconnect::Finish => OnDisconnect::Finish,
        pb::OnDisconnect::Kill => OnDisconnect::Kill,
        pb::OnDisconnect::Unspecified if ends_something(&event.point) => OnDisconnect::Finish,
        pb::OnDisconnect::Unspecified => OnDisconnect::Kill,
    };
    let on_failure = match known(pb::OnFailure::try_from(message.on_failure), "on_failure")? {
        pb::OnFailure::Closed => OnFailure::Closed,
        pb::OnFailure::Contract | pb::OnFailure::Unspecified => OnFailure::Contract,
    };
    Ok(Request {
        contract,
        event,
        hook,
        id: id.to_owned(),
        max_reply_bytes: message.max_reply_bytes.unwrap_or(DEFAULT_REPLY_BYTES),
        narrow: narrow(message.narrow.unwrap_or_default())?,
        on_disconnect,
        on_failure,
        profile,
        require_confirmed: message.require_confirmed.unwrap_or(true),
        session: message.session_id,
        timeout,
    })
}

fn contract(message: &pb::ExecuteRequest) -> Result<Mode, Refusal> {
    let contract = known(pb::Contract::try_from(message.contract), "contract")?;
    Mode::parse(contract_id(contract), &message.mode).map_err(|error| match error {
        ParseModeError::Invalid(field) => field.into(),
        ParseModeError::Unserved { contract } => Refusal::new(
            Reason::Unsupported,
            format!("contract `{contract}` is not served yet"),
        )
        .with("contract", contract),
    })
}

/// Returns a contract's id as the command line and records spell it.
pub(crate) const fn contract_id(contract: pb::Contract) -> &'static str {
    match contract {
        pb::Contract::Basecoat => "basecoat",
        pb::Contract::ClaudeCode => "claude_code",
        pb::Contract::Codex => "codex",
        pb::Contract::Copilot => "copilot",
        pb::Contract::Cursor => "cursor",
        pb::Contract::DockerAgent => "docker_agent",
        pb::Contract::GeminiCli => "gemini_cli",
        pb::Contract::Infer => "infer",
        pb::Contract::Loom => "loom",
        pb::Contract::Observe | pb::Contract::Unspecified => "observe",
        pb::Contract::Reyn => "reyn",
    }
}

fn event(message: pb::Event, limits: WireLimits) -> Result<Event, Refusal> {
    name("event.point", &message.point)?;
    let json = if message.json.is_empty() {
        Bytes::new()
    } else {
        parse_event(message.json, limits.event_bytes).map_err(|error| {
            let text = error.to_string();
            match error {
                EventError::Malformed(field) => Refusal::from(field),
                EventError::TooLarge { max, size } => {
                    let field = InvalidField::new("event.json", text);
                    Refusal::field(Reason::EventTooLarge, field)
                        .with("max_bytes", max.to_string())
                        .with("bytes", size.to_string())
                }
            }
        })?
    };
    Ok(Event {
        json,
        point: message.point,
        raw: message.raw,
    })
}

fn hook(message: pb::Hook) -> Result<Hook, InvalidField> {
    name("hook.name", &message.name)?;
    let command = match (message.shell, message.argv.is_empty()) {
        (Some(_), false) => {
            return Err(InvalidField::new(
                "hook.shell",
                "excludes `hook.argv`; give one of them",
            ));
        }
        (None, true) => {
            return Err(InvalidField::new(
                "hook.argv",
                "is empty, and there is no `hook.shell` either",
            ));
        }
        (Some(shell), true) => line(shell)?,
        (None, false) => Command::Argv(argv(message.argv)?),
    };
    let mut env = BTreeMap::new();
    let mut bytes = match &command {
        Command::Argv(argv) => argv
            .iter()
            .map(|argument| argument.len() + 1)
            .sum::<usize>(),
        Command::Line { shell: _, text } => text.len(),
    };
    for (name, value) in message.env {
        let field = || format!("hook.env[{}]", name.escape_debug());
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(InvalidField::new(
                field(),
                "is not a name: it is empty or holds `=` or a NUL byte",
            ));
        }
        if value.contains('\0') {
            return Err(InvalidField::new(field(), "holds a NUL byte"));
        }
        bytes += name.len() + value.len() + 2;
        env.insert(name, OsString::from(value));
    }
    if bytes > ARGUMENTS_BYTES {
        let problem = format!(
            "and `hook.env` are {bytes} bytes together; at most {ARGUMENTS_BYTES} can be executed"
        );
        return Err(InvalidField::new("hook.argv", problem));
    }
    let working_dir = optional_path("hook.working_dir", message.working_dir)?;
    let workspace = optional_path("hook.workspace", message.workspace)?;
    Ok(Hook {
        command,
        env,
        name: message.name,
        working_dir,
        workspace,
    })
}

fn argv(arguments: Vec<String>) -> Result<Vec<OsString>, InvalidField> {
    for (index, argument) in arguments.iter().enumerate() {
        let field = |problem: &str| Err(InvalidField::new(format!("hook.argv[{index}]"), problem));
        if argument.contains('\0') {
            return field("holds a NUL byte");
        }
        if argument.len() > ARGUMENT_BYTES {
            return field("is longer than 131071 bytes, which no program can be given");
        }
        if index == 0 && argument.is_empty() {
            return field("is empty; it names the program");
        }
    }
    Ok(arguments.into_iter().map(OsString::from).collect())
}

fn line(shell: pb::Shell) -> Result<Command, InvalidField> {
    let field = |problem: &str| InvalidField::new("hook.shell.script", problem);
    let text = shell.script;
    if text.trim().is_empty() {
        return Err(field("is blank"));
    }
    if text.contains('\0') {
        return Err(field("holds a NUL byte"));
    }
    if text.len() > ARGUMENT_BYTES {
        return Err(field(
            "is longer than 131071 bytes, which no program can be given",
        ));
    }
    Ok(Command::Line {
        shell: optional_path("hook.shell.shell", shell.shell)?,
        text,
    })
}

fn narrow(message: pb::Narrow) -> Result<Narrow, InvalidField> {
    let paths = |field: &str, texts: Vec<String>| {
        let numbered = texts.into_iter().enumerate();
        numbered
            .map(|(index, text)| path(&format!("{field}[{index}]"), text))
            .collect::<Result<Vec<_>, _>>()
    };
    Ok(Narrow {
        output_bytes: message.output_bytes,
        read: paths("narrow.read", message.read)?,
        without_named_grants: message.without_named_grants,
        without_network: message.without_network,
        without_spawn: message.without_spawn,
        write: paths("narrow.write", message.write)?,
    })
}

fn optional_path(field: &str, text: String) -> Result<Option<PathBuf>, InvalidField> {
    if text.is_empty() {
        Ok(None)
    } else {
        path(field, text).map(Some)
    }
}

fn path(field: &str, text: String) -> Result<PathBuf, InvalidField> {
    if text.contains('\0') {
        return Err(InvalidField::new(field, "holds a NUL byte"));
    }
    let path = PathBuf::from(text);
    if !is_plain(&path) {
        return Err(InvalidField::new(
            field,
            format!(
                "`{}` is not an absolute path without `.` and `..`",
                path.display()
            ),
        ));
    }
    Ok(path.components().collect())
}

fn timeout(duration: prost_types::Duration) -> Result<Duration, InvalidField> {
    let field = |problem: &str| InvalidField::new("timeout", problem);
    let not_one = || field("is negative or not a duration");
    // Checked before the conversion, which would normalise such values and may overflow.
    if duration.seconds < 0 || !(0..1_000_000_000).contains(&duration.nanos) {
        return Err(not_one());
    }
    let timeout = Duration::try_from(duration).map_err(|_| not_one())?;
    if timeout.is_zero() {
        return Err(field("is zero; leave it out for the default"));
    }
    Ok(timeout)
}

fn name(field: &str, text: &str) -> Result<(), InvalidField> {
    if text.len() > NAME_BYTES {
        return Err(InvalidField::new(
            field,
            format!("is longer than {NAME_BYTES} bytes"),
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(InvalidField::new(field, "holds a control character"));
    }
    Ok(())
}

fn known<T, E>(value: Result<T, E>, field: &str) -> Result<T, InvalidField> {
    value.map_err(|_| InvalidField::new(field, "is a value that this version does not know"))
}
