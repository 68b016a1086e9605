//! `hookjail doctor`: the axes that this host can enforce, with reasons for gaps.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use clap::Args;
use tonic::Status;

use hookjail_base::refusal::Reason;
use hookjail_client::{
    Failure, connect,
    output::{self, Style},
};
use hookjail_policy::Registry;
use hookjail_proto::{self as pb, sandbox_service_client::SandboxServiceClient};
use hookjail_sandbox::Confinement;

use super::{
    Context,
    install::Here,
    private_server, profile,
    rows::Rows,
    show::{axis_name, axis_words},
    success,
};
use hookjail_daemon::{
    daemon::Assembly,
    wire::{backend_statuses, broken_profiles, json, profile_status},
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
            describe(&status, self.verbose).print();
            let local = Here::look(context)?;
            output::line(&format!("hooks here: {local}"));
            for line in &local.unconfined {
                output::line(line);
            }
        }
        // The exit code reports whether hooks can run.
        let healthy = status.audit_problem.is_empty()
            && status.profiles.iter().all(|profile| profile.confirmed);
        Ok(success(healthy))
    }

    /// Requests a self-test from a daemon, and returns its status.
    async fn ask(&self, socket: &Path) -> Result<pb::GetStatusResponse, Failure> {
        let mut client = SandboxServiceClient::new(connect::connect(socket).await?);
        let request = pb::SelfTestRequest {
            profile: self.profile.clone().unwrap_or_default(),
        };
        let tested = client.self_test(request).await.map_err(refused)?;
        let status = client.get_status(pb::GetStatusRequest {}).await;
        Ok(pb::GetStatusResponse {
            profiles: tested.into_inner().profiles,
            ..status.map_err(connect::refused)?.into_inner()
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
        let broken = broken_profiles(registry);
        let broken = broken.filter(|it| named.is_none_or(|named| it.profile == named));
        let broken: Vec<_> = broken.collect();
        let found = match named {
            Some(name) if broken.is_empty() => vec![profile::find(registry, name)?],
            Some(_) | None => Vec::new(),
        };
        let wanted = match named {
            Some(_) => found.iter().map(Arc::as_ref).collect(),
            None => registry.iter().collect::<Vec<_>>(),
        };
        let mut profiles = Vec::new();
        for policy in wanted {
            profiles.push(profile_status(sandbox, policy).await);
        }
        profiles.extend(broken);
        Ok(pb::GetStatusResponse {
            audit_problem: String::new(),
            backends: backend_statuses(sandbox),
            profiles,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }
}

/// Returns the failure for a refusal: an unknown profile is the command line's.
fn refused(status: Status) -> Failure {
    let failure = connect::refused(status);
    match failure.reason.as_deref() == Some(Reason::ProfileUnknown.as_str()) {
        true => failure.as_usage(),
        false => failure,
    }
}

/// Describes a status.
fn describe(status: &pb::GetStatusResponse, verbose: bool) -> Rows {
    let style = Style::of_stdout();
    let mut rows = Rows::plain("  ", 0);
    if !status.audit_problem.is_empty() {
        rows.line(style.bad("nothing is run: the journal cannot be written"));
        rows.row("why: ", &status.audit_problem);
    }
    for backend in &status.backends {
        let state = match (backend.available, backend.confines) {
            (true, true) => style.good("available"),
            (true, false) => style.bad("available, and confines nothing: UNCONFINED"),
            (false, _) => style.bad("not available"),
        };
        let name = style.strong(&format!("backend {}", backend.backend));
        let abi = match backend.landlock_abi {
            0 => String::new(),
            abi => format!(", Landlock ABI {abi}"),
        };
        rows.line(format!("{name} {state}{abi}"));
        if !backend.available {
            rows.row("why: ", &backend.reason);
            rows.row("fix: ", &backend.fix);
        }
    }
    if verbose {
        let mut fixes = Remarks::default();
        for profile in &status.profiles {
            detail(&mut rows, profile, style);
            fixes.collect_fixes(profile);
        }
        fixes.add_to(&mut rows, status.profiles.len());
        return rows;
    }
    rows.line("");
    let mut remarks = Remarks::default();
    for profile in &status.profiles {
        summarise(&mut rows, profile, style);
        remarks.collect(profile, style);
    }
    remarks.add_to(&mut rows, status.profiles.len());
    rows.line("");
    rows.line(
        "to see what was tried, what a gap means, and how to close it: hookjail doctor --verbose",
    );
    rows
}

/// The failures of profiles that are not confirmed, or what closes the gaps of all, each once, with the names of its profiles.
#[derive(Default)]
struct Remarks<'a> {
    all: Vec<(String, Vec<&'a str>)>,
}

impl<'a> Remarks<'a> {
    /// Adds those of a profile.
    fn collect(&mut self, profile: &'a pb::ProfileStatus, style: Style) {
        if profile.confirmed || profile.unconfined {
            return;
        }
        let name = profile.profile.as_str();
        let reason = profile
            .reason
            .replace(&format!(" for profile `{name}`"), "");
        self.add(name, reason);
        for axis in &profile.axes {
            let legs = axis.deny.iter().chain(&axis.control);
            for leg in legs.filter(|leg| !leg.held) {
                let (attempt, observed) = (&leg.attempt, &leg.observed);
                let failed = style.bad("FAILED");
                self.add(name, format!("{failed}  {attempt}: {observed}"));
            }
            if !axis.fix.is_empty() {
                self.add(name, format!("fix: {}", axis.fix));
            }
        }
    }

    /// Adds what closes the gaps of a profile, on each backend.
    fn collect_fixes(&mut self, profile: &'a pb::ProfileStatus) {
        let others = profile.others.iter().flat_map(|other| &other.axes);
        let gaps = profile.axes.iter().chain(others).filter(|axis| {
            let report = axis.report.as_ref();
            report.is_some_and(|report| report.coverage() != pb::Coverage::Enforced)
        });
        for axis in gaps.filter(|axis| !axis.fix.is_empty()) {
            self.add(&profile.profile, format!("fix: {}", axis.fix));
        }
    }

    fn add(&mut self, profile: &'a str, remark: String) {
        if remark.is_empty() {
            return;
        }
        match self.all.iter_mut().find(|(known, _)| *known == remark) {
            None => self.all.push((remark, vec![profile])),
            Some((_, profiles)) if profiles.contains(&profile) => {}
            Some((_, profiles)) => profiles.push(profile),
        }
    }

    /// Renders each below the names of its profiles; `shown` counts the profiles of the report.
    fn add_to(&self, rows: &mut Rows, shown: usize) {
        for same in self.all.chunk_by(|(_, one), (_, next)| one == next) {
            let Some((_, profiles)) = same.first() else {
                continue;
            };
            rows.line("");
            rows.line(match shown > 1 && profiles.len() == shown {
                true => "all profiles:".to_owned(),
                false => format!("{}:", profiles.join(", ")),
            });
            rows.each("", same.iter().map(|(remark, _)| remark));
        }
    }
}

/// Renders a profile's status in one line.
fn summarise(rows: &mut Rows, profile: &pb::ProfileStatus, style: Style) {
    let named = |coverage: pb::Coverage, word: &str| {
        let reports = profile.axes.iter().filter_map(|axis| axis.report.as_ref());
        let names = reports.filter(|report| report.coverage() == coverage);
        let names: Vec<_> = names.map(|report| axis_name(report.axis())).collect();
        (!names.is_empty()).then(|| format!("{word}: {}", names.join(", ")))
    };
    let gaps = [
        named(pb::Coverage::Degraded, "degraded"),
        named(pb::Coverage::Ignored, "ignored"),
    ];
    let gaps: Vec<_> = gaps.into_iter().flatten().collect();
    let name = style.strong(&format!("{:<17}", profile.profile));
    let (backend, state) = (&profile.backend, state(profile, style));
    rows.line(format!("{name} {backend:<10} {state}  {}", gaps.join("; ")));
}

/// Renders a profile's status with the evidence for each backend.
fn detail(rows: &mut Rows, profile: &pb::ProfileStatus, style: Style) {
    let title = style.strong(&format!("profile {}", profile.profile));
    let (backend, state) = (&profile.backend, state(profile, style));
    rows.line("");
    rows.line(format!("{title} on {backend}: {state}"));
    describe_evidence(rows, &profile.reason, &profile.axes, style);
    for other in &profile.others {
        let name = style.strong(&format!("  backend {}", other.backend));
        let place = match (other.passed_over, other.confirmed) {
            (true, _) => "passed over, ",
            (false, true) => "not needed, ",
            (false, false) => "behind it, ",
        };
        let state = confirmed(other.confirmed, style);
        rows.line(format!("{name}: {place}{state}"));
        describe_evidence(rows, &other.reason, &other.axes, style);
    }
}

fn state(profile: &pb::ProfileStatus, style: Style) -> String {
    match profile.unconfined {
        true => style.bad("UNCONFINED"),
        false => confirmed(profile.confirmed, style),
    }
}

fn confirmed(confirmed: bool, style: Style) -> String {
    match confirmed {
        true => style.good("confirmed"),
        false => style.bad("NOT CONFIRMED"),
    }
}

/// Renders the probes of each axis, and the reason of a failure.
fn describe_evidence(rows: &mut Rows, reason: &str, axes: &[pb::AxisEvidence], style: Style) {
    rows.some("", reason);
    for axis in axes {
        let report = axis.report.clone().unwrap_or_default();
        rows.row("", axis_words(&report, style));
        let denied = axis.deny.iter().map(|leg| ("denied ", leg));
        let controls = axis.control.iter().map(|leg| ("control", leg));
        for (kind, leg) in denied.chain(controls) {
            let mark = match leg.held {
                true => style.good("ok"),
                false => style.bad("FAILED"),
            };
            let (attempt, observed) = (&leg.attempt, &leg.observed);
            rows.row("    ", format!("{kind} {mark}  {attempt}: {observed}"));
        }
        if report.coverage() != pb::Coverage::Enforced {
            rows.row("    means: ", &axis.consequence);
        }
    }
}
