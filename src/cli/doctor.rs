//! `hookjail doctor`: what this host can enforce, and why not.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;

use hookjail_base::model::plain;
use hookjail_client::{
    Failure, connect,
    output::{self, Style},
};
use hookjail_policy::Registry;
use hookjail_proto::{self as pb, sandbox_service_client::SandboxServiceClient};
use hookjail_sandbox::Confinement;

use super::{Context, private_server, profile, show::axis_name};
use hookjail_daemon::{
    daemon::Assembly,
    wire::{backend_statuses, json, profile_status},
};

/// Shows what this host can enforce, axis by axis, with evidence.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Only this profile
    #[arg(long)]
    profile: Option<String>,
    /// Have the daemon at this socket test itself again, instead of this process
    #[arg(long, value_name = "ADDR")]
    connect: Option<PathBuf>,
    /// Show what was tried on each axis, what a gap means, and how to close it
    #[arg(long, short)]
    verbose: bool,
}

impl DoctorArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let daemon = self
            .connect
            .as_ref()
            .and_then(|address| connect::socket(&context.call.paths, address));
        let status = match daemon {
            Some(socket) => connect::block_on(&connect::runtime()?, self.ask(&socket))?,
            None => {
                let config = context.load()?;
                let assembly = Assembly::begin()?;
                let registry = Assembly::registry(&config)?;
                let sandbox = assembly.sandbox(&config)?;
                connect::block_on(
                    &private_server::runtime()?,
                    self.examine(&registry, &sandbox),
                )?
            }
        };
        if context.call.json {
            output::json_line(&json::render(&status, "hookjail.v1.GetStatusResponse")?);
        } else {
            output::text(&describe(&status, self.verbose));
        }
        // The exit code tells a script whether hooks can run.
        let healthy = status.audit_problem.is_empty()
            && status.profiles.iter().all(|profile| profile.confirmed);
        Ok(if healthy {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    /// Requests a self-test from a daemon, and returns its status.
    async fn ask(&self, socket: &Path) -> Result<pb::GetStatusResponse, Failure> {
        let mut client = SandboxServiceClient::new(connect::connect(socket).await?);
        let refused = |status| connect::refused(&status);
        let request = pb::SelfTestRequest {
            profile: self.profile.clone().unwrap_or_default(),
        };
        let tested = client.self_test(request).await.map_err(refused)?;
        let status = client.get_status(pb::GetStatusRequest {}).await;
        Ok(pb::GetStatusResponse {
            profiles: tested.into_inner().profiles,
            ..status.map_err(refused)?.into_inner()
        })
    }

    /// Runs the self-tests in this process.
    ///
    /// Not through a private server: that would open the journal and fail where it cannot, and the host's abilities are
    /// to be shown then, too.
    async fn examine(
        &self,
        registry: &Registry,
        sandbox: &Confinement,
    ) -> Result<pb::GetStatusResponse, Failure> {
        let named = self.profile.as_deref();
        let named = named
            .map(|name| profile::find(registry, name))
            .transpose()?;
        let wanted = named.as_deref().map(|policy| vec![policy]);
        let mut profiles = Vec::new();
        for policy in wanted.unwrap_or_else(|| registry.iter().collect()) {
            profiles.push(profile_status(sandbox, policy).await);
        }
        Ok(pb::GetStatusResponse {
            audit_problem: String::new(),
            backends: backend_statuses(sandbox),
            profiles,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }
}

/// Shows a status to a person.
fn describe(status: &pb::GetStatusResponse, verbose: bool) -> String {
    let style = Style::of_stdout();
    let mut text = String::new();
    if !status.audit_problem.is_empty() {
        let problem = plain(&status.audit_problem);
        let why = style.bad("nothing is run: the journal cannot be written");
        text.push_str(&format!("{why}\n  why: {problem}\n"));
    }
    for backend in &status.backends {
        let state = match (backend.available, backend.confines) {
            (true, true) => style.good("available"),
            (true, false) => style.bad("available, and confines nothing: UNCONFINED"),
            (false, _) => style.bad("not available"),
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
    if !verbose {
        text.push('\n');
        for profile in &status.profiles {
            summarise(&mut text, profile, style);
        }
        text.push_str(
            "\nwhat was tried, what a gap means, and what closes it: hookjail doctor --verbose\n",
        );
        return text;
    }
    for profile in &status.profiles {
        let title = style.strong(&format!("profile {}", profile.profile));
        let state = if profile.unconfined {
            style.bad("UNCONFINED")
        } else {
            confirmed(profile.confirmed, style)
        };
        text.push_str(&format!("\n{title} on {}: {state}\n", profile.backend));
        describe_evidence(&mut text, &profile.reason, &profile.axes, style);
        for other in &profile.others {
            let name = style.strong(&format!("  backend {}", other.backend));
            let place = match (other.passed_over, other.confirmed) {
                (true, _) => "passed over, ",
                (false, true) => "not needed, ",
                (false, false) => "behind it, ",
            };
            let state = confirmed(other.confirmed, style);
            text.push_str(&format!("{name}: {place}{state}\n"));
            describe_evidence(&mut text, &other.reason, &other.axes, style);
        }
    }
    text
}

/// Renders a profile's status in one line, with failures where it is not confirmed.
fn summarise(text: &mut String, profile: &pb::ProfileStatus, style: Style) {
    let state = if profile.unconfined {
        style.bad("UNCONFINED")
    } else {
        confirmed(profile.confirmed, style)
    };
    let of = |coverage: pb::Coverage, word: &str| {
        let reports = profile.axes.iter().filter_map(|axis| axis.report.as_ref());
        let names = reports.filter(|report| report.coverage() == coverage);
        let names: Vec<_> = names.map(|report| axis_name(report.axis())).collect();
        (!names.is_empty()).then(|| format!("{word}: {}", names.join(", ")))
    };
    let gaps = [
        of(pb::Coverage::Degraded, "degraded"),
        of(pb::Coverage::Ignored, "ignored"),
    ];
    let gaps: Vec<_> = gaps.into_iter().flatten().collect();
    let name = style.strong(&format!("{:<17}", profile.profile));
    text.push_str(&format!(
        "{name} {:<10} {state}  {}\n",
        profile.backend,
        gaps.join("; ")
    ));
    if profile.confirmed || profile.unconfined {
        return;
    }
    if !profile.reason.is_empty() {
        text.push_str(&format!("  {}\n", plain(&profile.reason)));
    }
    for axis in &profile.axes {
        let legs = axis.deny.iter().chain(&axis.control);
        for leg in legs.filter(|leg| !leg.held) {
            let (attempt, observed) = (&leg.attempt, &leg.observed);
            let failed = style.bad("FAILED");
            text.push_str(&format!("  {failed}  {attempt}: {observed}\n"));
        }
        if !axis.fix.is_empty() {
            text.push_str(&format!("  fix: {}\n", axis.fix));
        }
    }
}

fn confirmed(confirmed: bool, style: Style) -> String {
    if confirmed {
        style.good("confirmed")
    } else {
        style.bad("NOT CONFIRMED")
    }
}

/// Renders the probes of each axis, and the reason of a failure.
fn describe_evidence(text: &mut String, reason: &str, axes: &[pb::AxisEvidence], style: Style) {
    if !reason.is_empty() {
        text.push_str(&format!("  {}\n", plain(reason)));
    }
    for axis in axes {
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
