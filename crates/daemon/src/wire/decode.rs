//! Decodes and validates requests.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, time::Duration};

use bytes::Bytes;
use jiff::Timestamp;
use uuid::Uuid;

use hookjail_proto as pb;

use hookjail_base::{
    model::{
        Backing, Command, Event, Hook, InvalidField, Narrow, OnDisconnect, OnFailure, ProfileName,
        check_name,
        event::{EventError, parse_event},
        is_plain,
    },
    refusal::{Fact, Reason, Refusal},
};
use hookjail_contract::{Entry, Envelope, Mode, ends_something};

use super::WireLimits;
use crate::request::Request;

/// The size up to which copying is cheaper than keeping the whole message, bytes.
const COPY_BYTES: usize = 64 * 1024;

/// Linux takes no longer argument (`MAX_ARG_STRLEN`).
const ARGUMENT_BYTES: usize = 128 * 1024 - 1;

/// The limit of arguments and environment together: a quarter of the usual 8 MiB stack, with room for the pointers.
const ARGUMENTS_BYTES: usize = 2 * 1024 * 1024 - 256 * 1024;

/// The most paths to which a request may narrow its profile.
const NARROWED_PATHS: usize = 32;

/// The most rules of `narrow.egress`: as many as a profile has.
const NARROWED_HOSTS: usize = 512;

/// The refusal of a request for a hook without a process.
pub(super) const NO_PROCESS: &str =
    "such a hook is no process, and the runtime gets its output; call `Interpret` to read that";

/// A margin below what gRPC clients accept by default, which is 4 MiB.
pub(super) const DEFAULT_REPLY_BYTES: u64 = 4 * 1024 * 1024 - 64 * 1024;

/// A refused message that did not decode to a request.
#[derive(Debug)]
pub struct MalformedRequest {
    /// The refusal.
    pub(crate) refusal: Refusal,
    /// The caller's id, or a generated one where that is unusable.
    pub(crate) request_id: String,
}

/// Decodes a request.
///
/// # Errors
///
/// Refuses with `INVALID_REQUEST`, `EVENT_TOO_LARGE`, `PROFILE_UNKNOWN` or `UNSUPPORTED`, and the field at fault.
pub fn decode(
    message: pb::ExecuteRequest,
    limits: WireLimits,
) -> Result<Request, Box<MalformedRequest>> {
    let request_id = id(&message.request_id)?;
    request(message, &request_id, limits).map_err(|refusal| {
        Box::new(MalformedRequest {
            refusal,
            request_id,
        })
    })
}

/// Returns the caller's id of a request, or a generated one.
pub(super) fn id(id: &str) -> Result<String, Box<MalformedRequest>> {
    match check_name("request_id", id) {
        Ok(()) if id.is_empty() => Ok(Uuid::now_v7().to_string()),
        Ok(()) => Ok(id.to_owned()),
        Err(field) => Err(Box::new(MalformedRequest {
            refusal: field.into(),
            request_id: Uuid::now_v7().to_string(),
        })),
    }
}

fn request(message: pb::ExecuteRequest, id: &str, limits: WireLimits) -> Result<Request, Refusal> {
    let contract = mode(message.contract, &message.mode)?;
    let event = message.event.unwrap_or_default();
    let event = if contract == Mode::Observe && event.raw {
        raw_event(event, limits)?
    } else {
        self::event(event, limits)?
    };
    contract.check_point(&event)?;
    let event = Event {
        point: contract.spelled(&event.point).to_owned(),
        ..event
    };
    if !contract.facts().is_process {
        return Err(Refusal::new(Reason::Unsupported, NO_PROCESS)
            .with(Fact::Contract(contract.facts().contract))
            .with(Fact::Mode(contract.mode_name())));
    }
    let hook = hook(message.hook.unwrap_or_default())?;
    check_name("session_id", &message.session_id)?;
    let profile = profile(&message.profile)?;
    let timeout = message.timeout.map(timeout).transpose()?;
    let on_disconnect = on_disconnect(message.on_disconnect, &event.point)?;
    let on_failure = on_failure(message.on_failure)?;
    Ok(Request {
        contract,
        depth: message.depth,
        entry: Entry::default(),
        envelope: envelope(&message.session_id, &hook),
        event,
        hook,
        id: id.to_owned(),
        backing: Backing::None,
        max_reply_bytes: message.max_reply_bytes.unwrap_or(DEFAULT_REPLY_BYTES),
        narrow: narrow(message.narrow.unwrap_or_default())?,
        on_disconnect,
        on_failure,
        only_looks_on: false,
        profile,
        profile_granted: false,
        require_confirmed: message.require_confirmed.unwrap_or(true),
        session: message.session_id,
        timeout,
        withheld: None,
    })
}

/// Reads a profile's name; empty = none is named.
pub(super) fn profile(text: &str) -> Result<Option<ProfileName>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    let unknown = || {
        let message = format!("there is no profile {text:?}; see `hookjail profile list`");
        Refusal::new(Reason::ProfileUnknown, message)
    };
    ProfileName::parse(text).map(Some).ok_or_else(unknown)
}

/// Decodes the behaviour on disconnect. The default is KILL, but FINISH at points that end something.
pub(super) fn on_disconnect(value: i32, point: &str) -> Result<OnDisconnect, InvalidField> {
    let value = known(pb::OnDisconnect::try_from(value), "on_disconnect")?;
    Ok(match value {
        pb::OnDisconnect::Finish => OnDisconnect::Finish,
        pb::OnDisconnect::Kill => OnDisconnect::Kill,
        pb::OnDisconnect::Unspecified if ends_something(point) => OnDisconnect::Finish,
        pb::OnDisconnect::Unspecified => OnDisconnect::Kill,
    })
}

/// Decodes the failure policy.
pub(super) fn on_failure(value: i32) -> Result<OnFailure, InvalidField> {
    Ok(match known(pb::OnFailure::try_from(value), "on_failure")? {
        pb::OnFailure::Closed => OnFailure::Closed,
        pb::OnFailure::Contract | pb::OnFailure::Unspecified => OnFailure::Contract,
    })
}

/// Returns the envelope of the event.
fn envelope(session: &str, hook: &Hook) -> Envelope {
    let cwd = hook.working_dir.as_ref().or(hook.workspace.as_ref());
    Envelope {
        cwd: cwd.map_or_else(String::new, |cwd| cwd.to_string_lossy().into_owned()),
        session: session.to_owned(),
        timestamp: Some(Timestamp::now()),
        ..Envelope::default()
    }
}

/// Returns a request's contract and point, for the record of a request that does not decode.
///
/// The point is in the contract's spelling. Both are empty where the contract does not exist.
pub(super) fn named(contract: i32, event: Option<&pb::Event>) -> (&'static str, String) {
    let mode = any_mode(pb::Contract::try_from(contract).unwrap_or_default());
    let point = event.map_or("", |event| event.point.as_str());
    let point = mode.map_or(point, |mode| mode.spelled(point));
    let is_one = check_name("event.point", point).is_ok()
        && mode.is_none_or(|mode| mode.stop_at(point).is_ok());
    let point = if is_one { point } else { "" };
    (
        mode.map_or("", |mode| mode.facts().contract),
        point.to_owned(),
    )
}

/// Returns a contract in any of its modes; `None` where none is named.
pub(super) fn any_mode(contract: pb::Contract) -> Option<Mode> {
    let is_named = contract != pb::Contract::Unspecified;
    is_named
        .then(|| Mode::any_of(contract_id(contract)))
        .flatten()
}

/// Reads a contract and one of its modes.
///
/// # Errors
///
/// There is no such contract or mode.
pub(super) fn mode(contract: i32, mode: &str) -> Result<Mode, InvalidField> {
    let contract = known(pb::Contract::try_from(contract), "contract")?;
    Mode::parse(contract_id(contract), mode)
}

/// Returns a contract's id as the command line and records spell it.
pub(crate) fn contract_id(contract: pb::Contract) -> &'static str {
    let name = contract.as_str_name().trim_start_matches("CONTRACT_");
    let mut known = Mode::ALL.into_iter().map(|mode| mode.facts().contract);
    known
        .find(|known| known.eq_ignore_ascii_case(name))
        .unwrap_or_else(|| Mode::Observe.facts().contract)
}

/// Returns the message value of a mode's contract.
pub(super) fn contract_of(mode: Mode) -> pb::Contract {
    let mut known = (1..).map_while(|number| pb::Contract::try_from(number).ok());
    known
        .find(|contract| contract_id(*contract) == mode.facts().contract)
        .unwrap_or_default()
}

/// Checks the size and the unambiguous syntax of a JSON document.
///
/// # Errors
///
/// Refuses with `EVENT_TOO_LARGE` or `INVALID_REQUEST`, naming the field.
pub(super) fn document(field: &str, json: Bytes, limits: WireLimits) -> Result<Bytes, Refusal> {
    let parsed = parse_event(json, limits.event_bytes).map_err(|error| match error {
        EventError::Malformed(InvalidField { problem, .. }) => {
            Refusal::from(InvalidField::new(field, problem))
        }
        EventError::TooLarge { max, size } => too_large(size, max),
    });
    parsed.map(apart)
}

/// Copies a small document out of its message's buffer, so that the buffer is freed.
fn apart(json: Bytes) -> Bytes {
    if json.len() < COPY_BYTES {
        Bytes::copy_from_slice(&json)
    } else {
        json
    }
}

/// Decodes an event that only the hook reads, and that need not be JSON.
fn raw_event(message: pb::Event, limits: WireLimits) -> Result<Event, Refusal> {
    check_name("event.point", &message.point)?;
    let size = message.json.len();
    if size > limits.event_bytes {
        return Err(too_large(size, limits.event_bytes));
    }
    Ok(Event {
        json: apart(message.json),
        point: message.point,
        raw: true,
    })
}

fn too_large(size: usize, max: usize) -> Refusal {
    let text = EventError::TooLarge { max, size }.to_string();
    Refusal::field(Reason::EventTooLarge, InvalidField::new("event.json", text))
        .with(Fact::MaxBytes(max))
        .with(Fact::Bytes(size))
}

pub(super) fn event(message: pb::Event, limits: WireLimits) -> Result<Event, Refusal> {
    check_name("event.point", &message.point)?;
    let json = if message.json.is_empty() {
        Bytes::new()
    } else {
        document("event.json", message.json, limits)?
    };
    Ok(Event {
        json,
        point: message.point,
        raw: message.raw,
    })
}

pub(super) fn hook(message: pb::Hook) -> Result<Hook, InvalidField> {
    check_name("hook.name", &message.name)?;
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
                "must be a name, not empty, and without `=` and NUL bytes",
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
            "and `hook.env` are {bytes} bytes together, and at most {ARGUMENTS_BYTES} can be executed"
        );
        return Err(InvalidField::new("hook.argv", problem));
    }
    let working_dir = optional_path("hook.working_dir", message.working_dir)?;
    let source = optional_path("hook.source", message.source)?;
    let workspace = optional_path("hook.workspace", message.workspace)?;
    if message.umask.is_some_and(|umask| umask > 0o777) {
        return Err(InvalidField::new("hook.umask", "must be at most 0777"));
    }
    Ok(Hook {
        at_workspace: false,
        base: None,
        command,
        configured_env: BTreeMap::new(),
        env,
        name: message.name,
        source,
        umask: message.umask,
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
            return field("is empty, and must name the program");
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
    let named = message.read.len().saturating_add(message.write.len());
    if named > NARROWED_PATHS {
        let problem = format!(
            "names {named} paths, and the maximum is {NARROWED_PATHS}, as each is open until the run is over"
        );
        return Err(InvalidField::new("narrow", problem));
    }
    let hosts = message.egress.len();
    if hosts > NARROWED_HOSTS {
        let problem = format!("names {hosts} hosts; name at most {NARROWED_HOSTS}");
        return Err(InvalidField::new("narrow.egress", problem));
    }
    let paths = |field: &str, texts: Vec<String>| {
        let numbered = texts.into_iter().enumerate();
        numbered
            .map(|(index, text)| path(&format!("{field}[{index}]"), text))
            .collect::<Result<Vec<_>, _>>()
    };
    Ok(Narrow {
        egress: message.egress,
        output_bytes: message.output_bytes,
        read: paths("narrow.read", message.read)?,
        without_named_grants: message.without_named_grants,
        without_network: message.without_network,
        without_spawn: message.without_spawn,
        write: paths("narrow.write", message.write)?,
    })
}

pub(super) fn optional_path(field: &str, text: String) -> Result<Option<PathBuf>, InvalidField> {
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

pub(super) fn timeout(duration: prost_types::Duration) -> Result<Duration, InvalidField> {
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

pub(super) fn known<T, E>(value: Result<T, E>, field: &str) -> Result<T, InvalidField> {
    value.map_err(|_| InvalidField::new(field, "is a value that this version does not support"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contract_of_the_protocol_has_rules_and_the_other_way_about() {
        let numbers = (1..).map_while(|number| pb::Contract::try_from(number).ok());
        for contract in numbers {
            let id = contract_id(contract);
            let named = format!("CONTRACT_{}", id.to_uppercase());
            assert_eq!(contract.as_str_name(), named);
            assert!(any_mode(contract).is_some(), "{id}");
        }
        for mode in Mode::ALL {
            assert_eq!(contract_id(contract_of(mode)), mode.facts().contract);
            assert_ne!(contract_of(mode), pb::Contract::Unspecified, "{mode:?}");
        }
        assert_eq!(any_mode(pb::Contract::Unspecified), None);
        assert_eq!(contract_id(pb::Contract::Unspecified), "observe");
    }
}
