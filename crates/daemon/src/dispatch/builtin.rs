//! Runs built-in hooks that need no process.

use std::{sync::LazyLock, time::Duration};

use jiff::Timestamp;
use nix::unistd::geteuid;
use tokio::{task, time::timeout};

use hookjail_base::util::{heavy, turns::Turns};
use hookjail_contract::{Mode, Verdict};

use crate::{
    hooks::{Builtin, Payload, ResultsOf, Save, Scene},
    pipeline::{Call, Pipeline},
    request::Request,
};

/// The maximum number of threads with file access at once.
const LOOKING: usize = 16;

/// Runs a built-in hook on a command hook's stdin, or returns why it cannot.
pub(super) async fn run(
    builtin: &Builtin,
    mode: Mode,
    pipeline: &Pipeline,
    call: &Call,
    request: &Request,
) -> Result<Verdict, String> {
    let now = request.envelope.timestamp.unwrap_or_else(Timestamp::now);
    let event = mode
        .stdin(&request.event, &request.envelope)
        .map_err(|error| error.to_string())?;
    let (own, point) = (builtin.clone(), request.event.point.clone());
    let (peer, results) = (call.peer.clone(), pipeline.results.clone());
    let redaction = pipeline.audit.redaction().get();
    let run = move || {
        let scene = Scene {
            results: ResultsOf {
                peer: &peer,
                redactor: &redaction.redactor,
                results: &results,
            },
            now,
            uid: peer.uid,
        };
        crate::hooks::builtin::run(&own, &point, &event, &scene)
    };
    let verdict = if builtin.waits() {
        in_time(call.peer.uid, limit(call, request), run).await?
    } else {
        // Searching a long conversation takes time, which must not block other requests.
        heavy::beside(call.peer.uid, run).await
    };
    let verdict = verdict.map_err(|error| error.to_string())?;
    // A reply holds the verdict twice, as the hook's and in the merged one. A truncated rewrite would be useless.
    if 2 * verdict.text_bytes() as u64 > request.max_reply_bytes {
        return Err("what it says is longer than the caller takes".to_owned());
    }
    Ok(verdict)
}

/// Replaces a command's stdin by the event's payload, or returns why it cannot.
pub(super) fn hand_on(
    payload: &Payload,
    pipeline: &Pipeline,
    request: &mut Request,
) -> Result<(), String> {
    request.event.json = handed_on(payload, pipeline, request)?.into();
    request.event.raw = true;
    Ok(())
}

/// Returns an event in a payload's form, without registered secrets.
fn handed_on(payload: &Payload, pipeline: &Pipeline, request: &Request) -> Result<String, String> {
    let event = request.contract.stdin(&request.event, &request.envelope);
    let event = event.map_err(|error| error.to_string())?;
    let event = str::from_utf8(&event).map_err(|error| error.to_string())?;
    let text = payload.of(event, &request.event.point, Timestamp::now());
    let redaction = pipeline.audit.redaction().get();
    Ok(redaction.redactor.json(&text).unwrap_or(text))
}

/// Saves an event, or returns why it cannot.
pub(super) async fn save(
    save: &Save,
    pipeline: &Pipeline,
    call: &Call,
    request: &Request,
) -> Result<Verdict, String> {
    let event = handed_on(&save.payload, pipeline, request)?;
    // One line: between the values of a document a line break is as good as a space, and in a string there is none.
    let event = event.replace(['\n', '\r'], " ");
    let writer = geteuid().is_root().then(|| call.peer.clone());
    let save = save.clone();
    let write = move || crate::hooks::save::write(&save, &event, writer.as_ref());
    in_time(call.peer.uid, limit(call, request), write).await
}

/// Returns the time limit of a hook that runs in this process.
fn limit(call: &Call, request: &Request) -> Duration {
    let contracts = request.contract.defaults(&request.event.point).timeout;
    let limits = [request.timeout.or(contracts), call.caller_timeout];
    limits.into_iter().flatten().min().unwrap_or(Duration::MAX)
}

/// Runs file access on a bounded number of threads, within the deadline.
///
/// A file system in user space or on another machine need never answer, and a thread that waits for it cannot be ended.
/// One uid gets at most half of the threads.
async fn in_time<T: Send + 'static>(
    uid: u32,
    limit: Duration,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    static TURNS: LazyLock<Turns> = LazyLock::new(|| Turns::new(LOOKING, LOOKING / 2));

    let looking = async {
        let turn = TURNS.turn(uid).await;
        let run = task::spawn_blocking(move || {
            let done = run();
            drop(turn);
            done
        });
        run.await.map_err(|error| error.to_string())
    };
    let late = |_| Err("the file system did not answer in time".to_owned());
    timeout(limit, looking).await.unwrap_or_else(late)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn what_never_answers_ends_in_time_and_keeps_its_place() {
        const LATE: &str = "the file system did not answer in time";
        let short = Duration::from_millis(1);
        let mut stuck = Vec::new();
        for _ in 0..LOOKING / 2 {
            let (release, released) = mpsc::channel::<()>();
            stuck.push(release);
            let done = in_time(1, short, move || released.recv().is_err()).await;
            assert_eq!(done, Err(LATE.to_owned()));
        }

        // Long enough for what has a place to be done.
        let long = Duration::from_millis(500);
        assert_eq!(in_time(1, long, || true).await, Err(LATE.to_owned()));
        // Another uid's are looked at all the same.
        assert_eq!(in_time(2, Duration::MAX, || true).await, Ok(true));

        stuck.clear();
        assert_eq!(in_time(1, Duration::MAX, || true).await, Ok(true));
    }
}
