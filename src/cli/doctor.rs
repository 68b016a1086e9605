//! `hookjail doctor`: what this host can enforce, and why not.

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;

use super::{
    Context, Failure,
    assemble::Assembly,
    output::{self, Style},
};
use crate::{
    axis::Axis,
    pb,
    policy::{Policy, Registry},
    sandbox::{AxisProof, Leg, Prepared, Sandbox},
    wire::{axis_report, json},
};

/// Shows what this host can enforce, axis by axis, with evidence.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Only this profile
    #[arg(long)]
    profile: Option<String>,
}

impl Doctor {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let config = context.load()?;
        let assembly = Assembly::begin()?;
        let registry = Assembly::registry(&config)?;
        let sandbox = assembly.sandbox(&config)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let status = runtime.block_on(self.examine(&registry, &sandbox))?;
        if context.json {
            output::json_line(&json::render(&status, "hookjail.v1.GetStatusResponse")?);
        } else {
            output::stdout(describe(&status).as_bytes());
        }
        // Somebody who asks in a script wants to know whether hooks can run.
        let healthy = status.profiles.iter().all(|profile| profile.confirmed);
        Ok(if healthy {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    async fn examine(
        &self,
        registry: &Registry,
        sandbox: &Sandbox,
    ) -> Result<pb::GetStatusResponse, Failure> {
        let backends = sandbox.probe().into_iter().map(|(name, probed)| {
            let (landlock_abi, reason, fix) = match &probed {
                Ok(host) => (host.landlock_abi, String::new(), String::new()),
                Err(absent) => (0, absent.why.clone(), absent.fix.clone()),
            };
            pb::BackendStatus {
                available: probed.is_ok(),
                backend: name.as_str().to_owned(),
                fix,
                landlock_abi,
                reason,
            }
        });
        let backends = backends.collect();
        let wanted = |policy: &&Policy| {
            self.profile
                .as_ref()
                .is_none_or(|name| policy.name.as_str() == name)
        };
        let mut profiles = Vec::new();
        for policy in registry.iter().filter(wanted) {
            profiles.push(examine_profile(sandbox, policy).await);
        }
        if profiles.is_empty() {
            let name = self.profile.as_deref().unwrap_or_default();
            return Err(Failure::new(format!("there is no profile `{name}`")));
        }
        Ok(pb::GetStatusResponse {
            backends,
            profiles,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }
}

async fn examine_profile(sandbox: &Sandbox, policy: &Policy) -> pb::ProfileStatus {
    let now = Timestamp::now();
    let tested_at = Some(prost_types::Timestamp {
        nanos: now.subsec_nanosecond(),
        seconds: now.as_second(),
    });
    match sandbox.select(policy, &policy.digest).await {
        Ok((prepared, confirmation)) => pb::ProfileStatus {
            axes: evidence(policy, &prepared, &confirmation.proofs),
            backend: prepared.backend.as_str().to_owned(),
            confirmed: prepared.backend.confines(),
            profile: policy.name.to_string(),
            reason: String::new(),
            tested_at,
        },
        Err(refusal) => pb::ProfileStatus {
            axes: Vec::new(),
            backend: refusal.metadata.get("backend").cloned().unwrap_or_default(),
            confirmed: false,
            profile: policy.name.to_string(),
            reason: format!("{}: {}", refusal.reason, refusal.message),
            tested_at,
        },
    }
}

fn evidence(policy: &Policy, prepared: &Prepared, proofs: &[AxisProof]) -> Vec<pb::AxisEvidence> {
    let legs = |legs: &[Leg]| {
        let leg = |leg: &Leg| pb::Leg {
            attempt: leg.attempt.clone(),
            held: leg.held,
            observed: leg.observed.clone(),
        };
        legs.iter().map(leg).collect()
    };
    let axis = |(axis, coverage)| {
        let proof = proofs.iter().find(|proof| proof.axis == axis);
        pb::AxisEvidence {
            consequence: consequence(axis).to_owned(),
            control: proof.map(|proof| legs(&proof.control)).unwrap_or_default(),
            deny: proof.map(|proof| legs(&proof.deny)).unwrap_or_default(),
            fix: fix(axis).to_owned(),
            report: Some(axis_report(axis, coverage, *policy.demands.of(axis))),
        }
    };
    prepared.axes.iter().map(axis).collect()
}

/// Returns what a gap on an axis means for the host.
const fn consequence(axis: Axis) -> &'static str {
    match axis {
        Axis::Cpu => "a hook can use all processor time until its deadline",
        Axis::Memory => "a hook can use all memory until its deadline",
        Axis::Metadata => {
            "a hook can learn which files exist outside its grants, how large they are and when they changed"
        }
        Axis::Pids => "a hook can start as many threads or processes as its user may",
        Axis::Devices
        | Axis::Environment
        | Axis::Execute
        | Axis::Ipc
        | Axis::Network
        | Axis::Output
        | Axis::Read
        | Axis::Spawn
        | Axis::Time
        | Axis::Write => "hooks under a profile that requires it are refused",
    }
}

/// Returns the one thing that closes a gap; empty where this version has none.
const fn fix(axis: Axis) -> &'static str {
    match axis {
        Axis::Pids => {
            "run the daemon as root: each hook then has a uid of its own and a limit on it"
        }
        Axis::Cpu
        | Axis::Devices
        | Axis::Environment
        | Axis::Execute
        | Axis::Ipc
        | Axis::Memory
        | Axis::Metadata
        | Axis::Network
        | Axis::Output
        | Axis::Read
        | Axis::Spawn
        | Axis::Time
        | Axis::Write => "",
    }
}

/// Shows a status to a person.
fn describe(status: &pb::GetStatusResponse) -> String {
    let style = Style::of_stdout();
    let mut text = String::new();
    for backend in &status.backends {
        let state = if backend.available {
            style.good("available")
        } else {
            style.bad("not available")
        };
        text.push_str(&format!(
            "{} {state}",
            style.strong(&format!("backend {}", backend.backend))
        ));
        if backend.landlock_abi > 0 {
            text.push_str(&format!(", Landlock ABI {}", backend.landlock_abi));
        }
        if !backend.available {
            text.push_str(&format!(
                "\n  why: {}\n  fix: {}",
                backend.reason, backend.fix
            ));
        }
        text.push('\n');
    }
    for profile in &status.profiles {
        let state = if profile.confirmed {
            style.good("confirmed")
        } else {
            style.bad("NOT CONFIRMED")
        };
        let title = style.strong(&format!("profile {}", profile.profile));
        text.push_str(&format!("\n{title} on {}: {state}\n", profile.backend));
        if !profile.reason.is_empty() {
            text.push_str(&format!("  {}\n", profile.reason));
        }
        for axis in &profile.axes {
            let report = axis.report.clone().unwrap_or_default();
            text.push_str(&format!("  {}\n", super::show::axis_words(&report, style)));
            for (kind, leg) in axis
                .deny
                .iter()
                .map(|leg| ("denied ", leg))
                .chain(axis.control.iter().map(|leg| ("control", leg)))
            {
                let mark = if leg.held {
                    style.good("ok")
                } else {
                    style.bad("FAILED")
                };
                text.push_str(&format!(
                    "      {kind} {mark}  {}: {}\n",
                    leg.attempt, leg.observed
                ));
            }
            if report.coverage() != pb::Coverage::Enforced {
                text.push_str(&format!("      means: {}\n", axis.consequence));
                if !axis.fix.is_empty() {
                    text.push_str(&format!("      fix: {}\n", axis.fix));
                }
            }
        }
    }
    text
}
