//! Reports to the service manager, by `sd_notify(3)`: the daemon's phase, and whether it can run hooks.

use std::{
    env,
    sync::{Arc, Mutex, PoisonError},
};

use sd_notify::NotifyState;

use crate::pipeline::Pipeline;

/// The service manager, if there is one.
#[derive(Debug)]
pub(super) struct Manager {
    /// Whether there is one, and the daemon is its service. A private daemon is not: its parent may be.
    has_manager: bool,
    pipeline: Arc<Pipeline>,
    reported: Mutex<Reported>,
}

/// Last report to the manager.
#[derive(Debug, Default)]
struct Reported {
    phase: Phase,
    status: String,
}

/// Phase of a daemon's life.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Phase {
    Draining,
    Reloading,
    #[default]
    Starting,
    Serving,
}

impl Manager {
    pub(super) fn new(pipeline: Arc<Pipeline>, is_private: bool) -> Self {
        Self {
            has_manager: !is_private && env::var_os("NOTIFY_SOCKET").is_some(),
            pipeline,
            reported: Mutex::default(),
        }
    }

    /// The daemon serves: its start or a reload is over.
    pub(super) fn serving(&self) {
        self.report(Phase::Serving, &[NotifyState::Ready]);
    }

    /// A reload begins.
    pub(super) fn reloading(&self) {
        // systemd 253 and newer compare this time with that of their own request.
        let since = NotifyState::monotonic_usec_now();
        let since = since.inspect_err(|error| tracing::warn!(%error, "the clock cannot be read"));
        let news: Vec<_> = std::iter::once(NotifyState::Reloading)
            .chain(since)
            .collect();
        self.report(Phase::Reloading, &news);
    }

    /// The drain begins, from which nothing leads back.
    pub(super) fn draining(&self) {
        self.report(Phase::Draining, &[NotifyState::Stopping]);
    }

    /// Reports changes since the last report: profiles are confirmed with a request, and the journal may lack resources.
    pub(super) fn look(&self) {
        self.report(self.phase(), &[]);
    }

    /// The daemon is alive.
    pub(super) fn alive() {
        notify(&[NotifyState::Watchdog]);
    }

    fn report(&self, phase: Phase, news: &[NotifyState<'_>]) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.phase == Phase::Draining && phase != Phase::Draining {
            return;
        }
        if !self.has_manager {
            reported.phase = phase;
            return;
        }
        let status = match phase {
            Phase::Draining => self.drains(),
            Phase::Reloading => "reloading".to_owned(),
            Phase::Serving | Phase::Starting => self.serves().unwrap_or_else(|refused| refused),
        };
        let mut states = news.to_vec();
        if status != reported.status {
            states.push(NotifyState::Status(&status));
        }
        if !states.is_empty() {
            notify(&states);
        }
        *reported = Reported { phase, status };
    }

    /// Returns what is served; the error is the reason why nothing is.
    pub(super) fn service(&self) -> Result<String, String> {
        match self.phase() {
            Phase::Draining => Err(self.drains()),
            Phase::Reloading | Phase::Serving | Phase::Starting => self.serves(),
        }
    }

    fn phase(&self) -> Phase {
        let reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        reported.phase
    }

    fn drains(&self) -> String {
        format!("draining, running hooks: {}", self.pipeline.gate.running())
    }

    fn serves(&self) -> Result<String, String> {
        if let Some(problem) = self.pipeline.problem() {
            return Err(refused(&problem));
        }
        let sandbox = &self.pipeline.sandbox;
        let rules = self.pipeline.gate.rules();
        let profiles = rules.registry.iter().count();
        let confirmed = rules
            .registry
            .iter()
            .filter(|policy| sandbox.is_confirmed(policy));
        match (confirmed.count(), sandbox.has_unconfined()) {
            (0, false) => Err(refused(
                "no profile is confirmed on this host; run `hookjail doctor`",
            )),
            (confirmed, is_unconfined) => {
                let tests = match self.pipeline.untested.count() {
                    0 => String::new(),
                    left => format!(", {left} still to be tested"),
                };
                let unconfined = match is_unconfined {
                    true => "; hooks of the backend `noop` are UNCONFINED",
                    false => "",
                };
                Ok(format!(
                    "serving, {confirmed} profiles confirmed of {profiles}{tests}{unconfined}"
                ))
            }
        }
    }
}

/// Returns the status of a daemon that refuses every request.
fn refused(why: &str) -> String {
    // Each line is a variable of its own to the manager.
    let line: String = why
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    format!("every request is refused: {line}")
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_several_lines_is_one_line_to_the_manager() {
        assert_eq!(
            refused("`/j\nMAINPID=1` is full"),
            "every request is refused: `/j MAINPID=1` is full"
        );
    }
}
