//! Resolves a request for a required hook: its command and terms are those of the administrator's files.

use hookjail_proto as pb;

use hookjail_base::{
    model::{Backing, Command, InvalidField, OnFailure},
    refusal::{Reason, Refusal},
};

use super::decode;
use crate::{hooks::Registered, request::Request};

/// Puts the command of the required hook that a request names into it; `None` where it names none.
///
/// No variable of the caller reaches the hook: each could change what its programs do.
///
/// # Errors
///
/// Refuses a name that is no required hook's, a request for another contract or point, and one with terms of its own.
pub(super) fn settle(
    message: &mut pb::ExecuteRequest,
    required: &[Registered],
) -> Result<Option<Registered>, Refusal> {
    if message.required.is_empty() {
        return Ok(None);
    }
    let name = message.required.clone();
    let hook = required.iter().find(|hook| hook.name == name);
    let hook = hook.ok_or_else(|| {
        let message = format!(
            "no required hook is called `{name}`; `hookjail install` takes lines of former ones out of settings"
        );
        Refusal::new(Reason::NotAllowlisted, message)
    })?;
    check(message, hook)?;
    if let Some(offer) = &mut message.offer {
        offer.env.clear();
        offer.names.clear();
    }
    let words = match hook.action.command() {
        Some(Command::Argv(words)) => words.as_slice(),
        Some(Command::Line { .. }) | None => &[],
    };
    let sent = message.hook.get_or_insert_default();
    sent.argv = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    sent.name.clone_from(&hook.name);
    if let Some(directory) = &hook.working_dir {
        sent.working_dir = directory.to_string_lossy().into_owned();
    }
    hook.runs_under().clone_into(&mut message.profile);
    Ok(Some(hook.clone()))
}

/// Checks that a request has the contract and the point of a required hook, and no terms of its own.
fn check(message: &pb::ExecuteRequest, hook: &Registered) -> Result<(), InvalidField> {
    let sent = message.hook.clone().unwrap_or_default();
    for (field, is_there) in [
        ("hook.argv", !sent.argv.is_empty()),
        ("hook.env", !sent.env.is_empty()),
        ("hook.shell", sent.shell.is_some()),
        ("hook.working_dir", !sent.working_dir.is_empty()),
        ("narrow", message.narrow.is_some()),
        ("profile", !message.profile.is_empty()),
    ] {
        if is_there {
            let problem = "excludes `required`, whose hook has its own; take it out";
            return Err(InvalidField::new(field, problem));
        }
    }
    let mode = decode::mode(message.contract, &message.mode)?;
    let point = message.event.as_ref().map_or("", |event| &event.point);
    if mode != hook.mode || mode.spelled(point) != hook.point {
        let problem = format!(
            "names `{}`, which is required at `{}` of {}",
            hook.name,
            hook.point,
            hook.mode.facts().contract
        );
        return Err(InvalidField::new("required", problem));
    }
    Ok(())
}

/// Gives a request the terms of the required hook that it is for.
pub(super) fn apply(request: &mut Request, hook: &Registered) {
    request.backing = Backing::Required;
    request.entry = hook.entry;
    request.profile_granted = true;
    request.hook.configured_env.clone_from(&hook.configured_env);
    request.timeout = [request.timeout, hook.entry.timeout]
        .into_iter()
        .flatten()
        .min();
    if hook.entry.on_failure == OnFailure::Closed {
        request.on_failure = OnFailure::Closed;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        hooks::{Action, Owner},
        wire::WireLimits,
    };
    use hookjail_contract::Mode;

    fn guard() -> Registered {
        let action = Action::Command(Command::Argv(vec!["/opt/guard".into(), "-x".into()]));
        let mode = Mode::parse("claude_code", "").unwrap();
        let names = ("guard".to_owned(), "managed.toml".to_owned());
        let mut hook = Registered::new(mode, "PreToolUse", names, action);
        hook.owner = Owner::Required;
        hook.entry.on_failure = OnFailure::Closed;
        hook.entry.timeout = Some(Duration::from_secs(5));
        hook
    }

    fn request() -> pb::ExecuteRequest {
        pb::ExecuteRequest {
            contract: pb::Contract::ClaudeCode.into(),
            event: Some(pb::Event {
                json: "{}".into(),
                point: "PreToolUse".to_owned(),
                ..pb::Event::default()
            }),
            offer: Some(pb::Offer {
                env: [("PATH".to_owned(), "/home/u/bin".to_owned())].into(),
                ..pb::Offer::default()
            }),
            required: "guard".to_owned(),
            ..pb::ExecuteRequest::default()
        }
    }

    #[test]
    fn a_required_hook_has_the_command_and_terms_of_the_administrators_file() {
        let mut message = request();
        let hook = settle(&mut message, &[guard()]).unwrap().unwrap();
        assert_eq!(message.hook.as_ref().unwrap().argv, ["/opt/guard", "-x"]);
        assert!(message.offer.as_ref().unwrap().env.is_empty());
        message.timeout = Some(prost_types::Duration {
            seconds: 60,
            nanos: 0,
        });
        let mut decoded = decode::decode(message, WireLimits::default()).unwrap();
        apply(&mut decoded, &hook);
        assert_eq!(decoded.backing, Backing::Required);
        assert_eq!(decoded.on_failure, OnFailure::Closed);
        assert_eq!(decoded.timeout, Some(Duration::from_secs(5)));
        let mut other = pb::ExecuteRequest {
            required: String::new(),
            ..request()
        };
        assert!(settle(&mut other, &[guard()]).unwrap().is_none());
    }

    #[test]
    fn a_request_for_a_required_hook_has_no_command_variables_profile_or_other_point() {
        let hook = |hook: pb::Hook| pb::ExecuteRequest {
            hook: Some(hook),
            ..request()
        };
        let argv = hook(pb::Hook {
            argv: vec!["/bin/true".to_owned()],
            ..pb::Hook::default()
        });
        let env = hook(pb::Hook {
            env: [("SKIP".to_owned(), "1".to_owned())].into(),
            ..pb::Hook::default()
        });
        let profile = pb::ExecuteRequest {
            profile: "strict".to_owned(),
            ..request()
        };
        let narrow = pb::ExecuteRequest {
            narrow: Some(pb::Narrow::default()),
            ..request()
        };
        let mut point = request();
        "PostToolUse".clone_into(&mut point.event.as_mut().unwrap().point);
        let contract = pb::ExecuteRequest {
            contract: pb::Contract::Codex.into(),
            ..request()
        };
        for (mut message, field) in [
            (argv, "hook.argv"),
            (env, "hook.env"),
            (profile, "profile"),
            (narrow, "narrow"),
            (point, "required"),
            (contract, "required"),
        ] {
            let refusal = settle(&mut message, &[guard()]).unwrap_err();
            assert_eq!(refusal.field.unwrap().field, field);
        }
        let refusal = settle(&mut request(), &[]).unwrap_err();
        assert_eq!(refusal.reason, Reason::NotAllowlisted);
        assert!(settle(&mut request(), &[guard()]).is_ok());
    }
}
