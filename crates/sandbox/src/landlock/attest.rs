//! Compares the kernel's state of a released child with the planned one.

use std::io;

use hookjail_policy::{ScratchLimits, StateScope};
use hookjail_sys::{Identity, Job, Report, Step};

use crate::{BackendName, Evidence, Status, mutants};

/// Expected kernel state of a released child.
#[derive(Debug)]
pub(super) struct Expected {
    pub(super) backend: BackendName,
    /// Number of seccomp filters; `None` = unconfined.
    pub(super) filters: Option<u32>,
    pub(super) identity: Option<Identity>,
    /// Whether the child keeps paths read-only.
    pub(super) keeps: bool,
    /// Whether it has a process tree and a view of its own.
    pub(super) own_tree: bool,
    /// Number of pid namespaces that the daemon is in.
    pub(super) pid_levels: usize,
    /// Limits of its scratch directory, if there are any.
    pub(super) scratch: Option<ScratchLimits>,
    /// The hooks that share its files that last, if it has any.
    pub(super) state: Option<StateScope>,
}

impl Expected {
    /// Compares the kernel's state of a child with the expected one. Returns the evidence, or the difference.
    pub(super) fn attest(&self, pid: i32, report: &Report) -> Result<Vec<Evidence>, Unattested> {
        if mutants::lacks("proof", "attestation") {
            return Ok(Vec::new());
        }
        let status = Status::read_process(pid)?;
        let mut seen = vec![Evidence {
            check: "uid",
            observed: status.uids[1].to_string(),
        }];
        if let Some(identity) = &self.identity {
            let mut groups = identity.groups.to_vec();
            groups.sort_unstable();
            let (uids, gids) = ([identity.uid; 4], [identity.gid; 4]);
            let found = (&status.uids, &status.gids, &status.groups);
            if found != (&uids, &gids, &groups) {
                let (found_uids, found_gids, found_groups) = found;
                return Err(Unattested::Differs(format!(
                    "uids {found_uids:?}, gids {found_gids:?} and groups {found_groups:?} instead of {uids:?}, {gids:?} and {groups:?}"
                )));
            }
            if !status.bounding_set_empty {
                return Err(Unattested::Differs(
                    "an exec could give it capabilities".to_owned(),
                ));
            }
        }
        if self.keeps && !report.did(Step::ReadOnly) {
            return Err(Unattested::Differs("nothing was kept read-only".to_owned()));
        }
        if let Some(limits) = self.scratch {
            if !report.did(Step::Scratch) {
                let why = "its scratch directory was not limited";
                return Err(Unattested::Differs(why.to_owned()));
            }
            seen.push(Evidence {
                check: "scratch",
                observed: limits.to_string(),
            });
        }
        if self.own_tree {
            let steps = [Step::Tree, Step::Init, Step::View];
            let lacking = steps.into_iter().find(|step| !report.did(*step));
            if let Some(step) = lacking {
                let why = format!("its step `{}` was not taken", step.name());
                return Err(Unattested::Differs(why));
            }
            if status.pid_levels != self.pid_levels + 1 {
                let why = format!(
                    "the process is in {} pid namespaces instead of {}",
                    status.pid_levels,
                    self.pid_levels + 1
                );
                return Err(Unattested::Differs(why));
            }
            seen.push(Evidence {
                check: "tree",
                observed: "own".to_owned(),
            });
            seen.extend(self.state.map(|scope| Evidence {
                check: "state",
                observed: scope.name().to_owned(),
            }));
        }
        if self.keeps || self.own_tree || self.scratch.is_some() {
            // A child that creates a user namespace gets all capabilities in it, so its bounding set must be empty.
            if !status.bounding_set_empty {
                let why = "an exec could give it capabilities in its namespace";
                return Err(Unattested::Differs(why.to_owned()));
            }
        }
        if !status.no_capabilities {
            return Err(Unattested::Differs(
                "the process has capabilities".to_owned(),
            ));
        }
        seen.push(Evidence {
            check: "capabilities",
            observed: "none".to_owned(),
        });
        if let Some(filters) = self.filters {
            if !status.no_new_privs {
                return Err(Unattested::Differs("NoNewPrivs is 0".to_owned()));
            }
            if !status.is_filtered() || status.seccomp_filters != filters {
                let (mode, count) = (status.seccomp, status.seccomp_filters);
                return Err(Unattested::Differs(format!(
                    "Seccomp is {mode} with {count} filters instead of 2 with {filters}"
                )));
            }
            seen.push(Evidence {
                check: "no_new_privs",
                observed: "1".to_owned(),
            });
            seen.push(Evidence {
                check: "seccomp_filters",
                observed: filters.to_string(),
            });
        }
        Ok(seen)
    }
}

/// Why the kernel's state of a child does not confirm its confinement.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unattested {
    #[error("the process is not confirmed to be in its cgroup")]
    Cgroup(#[source] io::Error),
    #[error("{0}")]
    Differs(String),
    #[error("its status cannot be read")]
    Unread(#[from] io::Error),
}

pub(super) fn evidence_of(job: &Job) -> Vec<Evidence> {
    let report = job.report();
    let seen = |step, check, observed: &str| {
        report.did(step).then(|| Evidence {
            check,
            observed: observed.to_owned(),
        })
    };
    [
        seen(Step::ReadOnly, "read_only", "mounted"),
        seen(Step::View, "view", "own"),
        seen(Step::Proc, "proc", "own"),
        seen(Step::Terminals, "terminals", "own"),
        seen(Step::Landlock, "landlock", "restricted"),
        seen(Step::CanaryGranted, "canary_granted", "opened"),
        seen(Step::CanaryDenied, "canary_denied", "EACCES"),
        seen(Step::CanaryUnnamed, "canary_unnamed", "refused"),
        seen(Step::ClosingFilter, "closing_filter", "loaded"),
        seen(Step::CloseFds, "descriptors", "0 1 2"),
    ]
    .into_iter()
    .flatten()
    .collect()
}
