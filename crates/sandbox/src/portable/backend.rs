//! Seatbelt as a backend: detects `sandbox-exec` and claims a profile's coverage.

use std::os::unix::fs::MetadataExt;

use hookjail_base::model::axis::{Axes, Axis};
use hookjail_policy::Policy;

use crate::{
    Absent, Backend, BackendName, Claims, Host, Prepared, Runner, Starting, Task, Unenforceable,
    portable::launcher::start,
    seatbelt::{self, SANDBOX_EXEC},
};

/// The Seatbelt backend, by `sandbox-exec`.
#[derive(Clone, Copy, Debug)]
pub struct Seatbelt;

impl Backend for Seatbelt {
    fn name(&self) -> BackendName {
        BackendName::SEATBELT
    }

    fn probe(&self) -> Result<Host, Absent> {
        let found = std::fs::symlink_metadata(SANDBOX_EXEC);
        match found {
            Ok(found) if found.is_file() && found.uid() == 0 && found.mode() & 0o022 == 0 => {
                Ok(Host { landlock_abi: 0 })
            }
            _ => Err(Absent {
                fix: "run hookjail on a macOS that has it".to_owned(),
                why: format!("there is no `{SANDBOX_EXEC}` that only root can change"),
            }),
        }
    }

    fn prepare(&self, policy: &Policy) -> Result<Prepared, Unenforceable> {
        if policy.limits.scratch.is_some() {
            return Err(Unenforceable {
                axis: Axis::Write,
                backend: self.name(),
                gap:
                    "`limits.scratch` takes a file system in memory per run, which it cannot make; \
                      run hooks under a profile without `limits.scratch`"
                        .to_owned(),
            });
        }
        Prepared::covering(policy, self.name(), claims(policy))
    }

    fn start<'a>(&'a self, runner: &'a Runner, task: Task<'a>) -> Starting<'a> {
        Box::pin(start(runner, true, task))
    }
}

/// Returns the claims of a profile; the remaining axes are the runner's.
fn claims(policy: &Policy) -> Claims {
    let Axes {
        cpu,
        devices,
        environment: _,
        execute,
        ipc,
        memory,
        metadata,
        network,
        output: _,
        pids,
        read,
        spawn,
        time: _,
        write,
    } = seatbelt::axes(policy);
    Claims {
        cpu,
        devices,
        execute,
        ipc,
        memory,
        metadata,
        network,
        pids,
        read,
        spawn,
        write,
    }
}
