//! Runs built-in hooks that are functions of the event, and sets up those that are commands.

use std::time::Duration;

use jiff::Timestamp;
use nix::unistd::{Uid, User, gethostname};
use tokio::time::timeout;

use hookjail_base::{model::InvalidField, util::heavy};
use hookjail_contract::{Builtin, CallerNames, Members, Mode, Scene, Verdict};

use crate::{
    hooks::{Supplied, supplied},
    pipeline::{Call, Pipeline},
    request::Request,
};

/// Returns the verdict of a built-in hook that is a function of a command hook's stdin, or why it has none.
pub(super) async fn verdict(
    builtin: &Builtin,
    mode: Mode,
    call: &Call,
    request: &Request,
) -> Result<Verdict, String> {
    let now = request.envelope.timestamp.unwrap_or_else(Timestamp::now);
    let event = mode
        .stdin(&request.event, &request.envelope)
        .map_err(|error| error.to_string())?;
    let (builtin, point) = (builtin.clone(), request.event.point.clone());
    let uid = call.peer.uid;
    let contracts = mode.defaults(&point).timeout;
    let limits = [request.timeout.or(contracts), call.caller_timeout];
    let limit = limits.into_iter().flatten().min().unwrap_or(Duration::MAX);
    // Searching a long conversation takes time, and a database of users on another machine may never answer.
    let verdict = heavy::offload(uid, move || {
        let names = match builtin {
            Builtin::AddUserInfo => names(uid),
            Builtin::AddDate
            | Builtin::MaxIterations(_)
            | Builtin::RedactSecrets
            | Builtin::SaferShell => CallerNames::default(),
        };
        let event = Members::of_event(&event)?;
        Ok(builtin.verdict(&point, &event, &Scene { names, now }))
    });
    let verdict = timeout(limit, verdict)
        .await
        .map_err(|_| "timed out".to_owned())?
        .map_err(|error: InvalidField| error.to_string())?;
    fitting(verdict, request)
}

/// Sets a request up for a command that hookjail supplies, and returns the request. A verdict beside it is the whole answer, and an
/// error is why there is none; the command then does not run.
pub(super) async fn supply(
    supplied: &Supplied,
    keeps: bool,
    pipeline: &Pipeline,
    call: &Call,
    mut request: Box<Request>,
) -> (Result<Option<Verdict>, String>, Box<Request>) {
    let (uid, bytes) = (call.peer.uid, request.event.json.len());
    let (supplied, redaction) = (supplied.clone(), pipeline.audit.redaction().get());
    let (answer, request) = heavy::sized(uid, bytes, move || {
        let answer = supplied::put(&supplied, keeps, &redaction.redactor, &mut request);
        (answer, request)
    })
    .await;
    let answer = answer.map_err(|error| error.to_string());
    let fitted = answer.and_then(|verdict| verdict.map(|it| fitting(it, &request)).transpose());
    (fitted, request)
}

/// Returns a verdict that fits into the reply, or why it does not. A truncated rewrite would be useless.
fn fitting(verdict: Verdict, request: &Request) -> Result<Verdict, String> {
    // A reply holds the verdict twice, as the hook's and in the merged one.
    if 2 * verdict.text_bytes() as u64 > request.max_reply_bytes {
        return Err("its verdict is longer than the caller takes".to_owned());
    }
    Ok(verdict)
}

/// Returns the names of a caller and of this host.
fn names(uid: u32) -> CallerNames {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let full = user.as_ref().map(|user| user.gecos.to_string_lossy());
    CallerNames {
        full: full.and_then(|gecos| gecos.split(',').next().map(str::to_owned)),
        host: gethostname().ok().and_then(|host| host.into_string().ok()),
        user: user.map(|user| user.name),
    }
}
