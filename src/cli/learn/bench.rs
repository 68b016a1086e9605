//! The runs of a hook that is learnt, and the accesses that they were refused.

use std::{
    collections::BTreeSet,
    env,
    path::{Path, PathBuf},
};

use serde_json::json;
use tonic::transport::Channel;

use hookjail_base::model::{Consent, ProfileName, plain};
use hookjail_client::{
    Failure,
    arguments::{as_typed, contract, directory, text},
    connect,
    offered::variables,
    output,
    program::{current_directory, resolve_program},
    run_as,
    server::until_interrupted,
};
use hookjail_contract::adopt::Adopted;
use hookjail_daemon::{
    config::Config,
    consent::ConsentRule,
    daemon::{Assembly, own_places},
};
use hookjail_policy::{
    Access, GrantSpec, Network, Policy, References, SHARED,
    egress::Egress,
    environment,
    explain::{GrantDecision, Operation, Remedy},
    forbidden::Forbidden,
};
use hookjail_proto::{self as pb, hook_service_client::HookServiceClient};
use hookjail_sandbox::{Observer, Seen};

use super::{
    super::{
        Context,
        learned::{CERTIFICATES, Draft, Needs, Site, Under},
        observed::{
            find_profile, is_of_names, is_read_only, landlock_abi, needs, refusals, resolve,
        },
        private_server::PrivateServer,
        run::event,
        show::outcome_words,
    },
    LearnArgs, NAMED, TRIAL,
};

/// The exit code of what could not be run.
const CANNOT: i32 = 125;

/// The maximum number of shown lines of stderr.
const TAIL: usize = 3;

/// The results of a hook's runs under a profile, one for each event.
pub(super) struct Trial {
    pub(super) ends: Vec<pb::ExecuteResponse>,
    pub(super) files: Vec<PathBuf>,
    pub(super) seen: Vec<Seen>,
}

/// A refused access of the first run.
pub(super) struct Unmet {
    /// The remedy, or the reason why there is none.
    pub(super) remedy: String,
    pub(super) what: String,
    pub(super) wish: Wish,
}

/// The grants that would allow a refused access.
#[derive(Default)]
pub(super) struct Wish {
    pub(super) egress: Vec<Egress>,
    pub(super) grants: Vec<(PathBuf, Access)>,
}

impl Wish {
    pub(super) fn is_empty(&self) -> bool {
        self.grants.is_empty() && self.egress.is_empty()
    }

    /// Returns what is added, a line for each grant.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let grants = self.grants.iter().map(|(path, access)| {
            let verb = match access {
                Access::Execute => "read and execute",
                Access::Read => "read",
                Access::Write => "write and make files in",
                Access::WriteFile => "write",
            };
            format!("+ {verb} {}", path.display())
        });
        let egress = self.egress.iter();
        grants.chain(egress.map(|rule| format!("+ reach {rule}")))
    }
}

impl Unmet {
    pub(super) fn as_json(&self) -> serde_json::Value {
        json!({ "remedy": self.remedy, "what": self.what })
    }

    pub(super) fn words(&self) -> String {
        format!("{}: {}", self.what, self.remedy)
    }
}

impl Trial {
    /// Returns why nothing can be learnt from these runs: all failed, or one did not exit by itself.
    pub(super) fn failure(&self) -> Option<String> {
        let failed = |end: &&pb::ExecuteResponse| {
            let outcome = end.outcome.unwrap_or_default();
            let code = outcome.exit_code.unwrap_or(CANNOT);
            let decided = end.verdict.as_ref().map_or(0, |it| it.decision);
            let lets_pass = [
                pb::Decision::Unspecified,
                pb::Decision::None,
                pb::Decision::Allow,
            ];
            let lets_pass = lets_pass.map(i32::from).contains(&decided);
            code != 0 && (lets_pass || is_of_a_denial(&end.stderr))
        };
        let broken = |end: &&pb::ExecuteResponse| {
            let outcome = end.outcome.unwrap_or_default();
            outcome.kind() != pb::OutcomeKind::Exited || outcome.exit_code == Some(CANNOT)
        };
        let mut ends = self.ends.iter();
        let first = self.ends.first()?;
        let end = match self.ends.iter().find(broken) {
            Some(end) => end,
            None if ends.all(|end| failed(&end)) => first,
            None => return None,
        };
        let stderr = String::from_utf8_lossy(&end.stderr);
        let tail: Vec<_> = stderr.lines().rev().take(TAIL).collect();
        let tail: Vec<_> = tail.into_iter().rev().map(plain).collect();
        let outcome = end.outcome.unwrap_or_default();
        let ended = outcome_words(&outcome, &end.exec_problem, output::Style::of_stdout());
        Some(match tail.is_empty() {
            true => ended,
            false => format!("{ended}: {}", tail.join(" | ")),
        })
    }
}

/// Returns whether the last line of stderr is about an access that was denied.
fn is_of_a_denial(stderr: &[u8]) -> bool {
    let text = String::from_utf8_lossy(stderr).to_lowercase();
    let line = text.trim_end().lines().last().unwrap_or_default();
    let words = [
        "permission denied",
        "operation not permitted",
        "eacces",
        "eperm",
    ];
    words.iter().any(|word| line.contains(word))
}

/// The set-up of both runs.
pub(super) struct Bench {
    abi: u32,
    pub(super) argv: Vec<String>,
    contract: i32,
    depth: u32,
    umask: u32,
    pub(super) events: Vec<Vec<u8>>,
    /// The paths that no grant of the command line may reach; for a root daemon also root's home.
    floor: References,
    mode: String,
    path: Vec<PathBuf>,
    point: String,
    timeout: Option<prost_types::Duration>,
    working_dir: PathBuf,
    pub(super) workspace: PathBuf,
}

impl Bench {
    pub(super) fn new(
        learn: &LearnArgs,
        context: &Context,
        config: &Config,
    ) -> Result<Self, Failure> {
        let current = current_directory()?.canonicalize()?;
        let workspace = match (&learn.workspace, learn.runtime) {
            (Some(named), _) => PathBuf::from(directory(named)?),
            (None, Some(runtime)) => {
                run_as::project(runtime, &current, context.call.paths.home.as_deref())
            }
            (None, None) => current.clone(),
        };
        let argv = resolve_program(learn.command.clone())?;
        let argv = argv.into_iter().map(|word| text(word, "argument"));
        let payload = event(learn.event.as_deref())?;
        let mut point = learn.point.clone();
        let has_samples = payload.is_empty() && learn.runtime.is_some();
        if point.is_empty() && has_samples {
            point = learn
                .runtime
                .and_then(Adopted::call_point)
                .unwrap_or_default()
                .to_owned();
        }
        let mode = learn.runtime.map(|runtime| runtime.mode);
        let events = match learn.runtime {
            Some(runtime) if payload.is_empty() => {
                let samples = runtime.samples(&workspace).into_iter();
                let samples = samples.map(|sample| {
                    let payload = runtime.payload(&sample, &point, (&workspace, "learn"));
                    payload.map_err(|error| Failure::new(as_typed(&Failure::from(error).message)))
                });
                samples.collect::<Result<Vec<_>, _>>()?
            }
            Some(_) | None => vec![payload],
        };
        if let (Some(runtime), Some(event)) = (learn.runtime, events.first())
            && point.is_empty()
        {
            let named = runtime.named_point(event);
            point = named.or_else(|| runtime.point(event)).unwrap_or_default();
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let working_dir = match current.starts_with(&workspace) {
            true => current,
            false => workspace.clone(),
        };
        Ok(Self {
            abi: landlock_abi(),
            argv: argv.collect::<Result<_, _>>()?,
            contract: contract(mode.map_or("observe", |mode| mode.facts().contract))?.into(),
            depth: context.call.depth,
            umask: context.call.umask,
            events: match events.is_empty() {
                true => vec![Vec::new()],
                false => events,
            },
            floor: References {
                home: context.call.paths.home.clone(),
                ..config.references.clone()
            },
            mode: mode.map_or_else(String::new, |mode| mode.mode_name().to_owned()),
            path: env::split_paths(&path).collect(),
            point,
            timeout: learn
                .timeout
                .map(prost_types::Duration::try_from)
                .transpose()?,
            working_dir,
            workspace,
        })
        .and_then(|bench| {
            let forbidden = Forbidden::locate(&own_places(config))?;
            match forbidden.reached_by(&bench.workspace)? {
                None => Ok(bench),
                Some(place) => Err(Failure::new(format!(
                    "`{}` cannot be the workspace, because it reaches the daemon's `{}`; start in a project, or name one by --workspace",
                    bench.workspace.display(),
                    place.display()
                ))),
            }
        })
    }

    /// Returns the text of the widest profile with the command line's grants.
    pub(super) fn profile_text(
        &self,
        learn: &LearnArgs,
        config: &Config,
        egress: &[Egress],
        description: &str,
    ) -> Result<String, Failure> {
        let registry = Assembly::registry(config)?;
        let widest = find_profile(&registry, &learn.profile)?;
        let description = toml::Value::String(description.to_owned());
        let mut extends = vec![widest.name.as_str()];
        let mut network = String::new();
        if !egress.is_empty() {
            extends.push(CERTIFICATES);
            let egress: Vec<_> = egress.iter().map(|rule| format!("\"{rule}\"")).collect();
            network = format!("network = \"named\"\negress = [{}]\n", egress.join(", "));
        }
        let extends = match extends.as_slice() {
            [one] => format!("\"{one}\""),
            all => format!("[\"{}\"]", all.join("\", \"")),
        };
        let mut text = format!(
            "description = {description}\nextends = {extends}\ngranted_by = \"operator\"\n{network}"
        );
        text.push_str("\n[files]\nnamed = [\n");
        for (path, access) in &learn.grant {
            let never = self.floor.never(path, access.is_read_only());
            if let Some(why) = never {
                return Err(Failure::new(format!(
                    "`{}` is not granted this way: {why}; add it to a profile by its whole path",
                    path.display()
                )));
            }
            let path = toml::Value::String(path.display().to_string());
            // A log that is missing, or will be rotated away.
            let create = match access {
                Access::WriteFile => ", create = true",
                Access::Execute | Access::Read | Access::Write => "",
            };
            text.push_str(&format!(
                "    {{ path = {path}, access = \"{access}\"{create} }},\n"
            ));
        }
        text.push_str("]\n");
        Ok(text)
    }

    fn request(&self, policy: &Policy, event: &[u8]) -> Result<pb::ExecuteRequest, Failure> {
        // The runtime's variables, as far as the profile admits them.
        let admitted = variables().filter(|(name, _)| environment::admits(policy, name));
        let binds = policy.needs_workspace();
        let directory = |path: &Path| {
            if binds {
                text(path.into(), "directory")
            } else {
                Ok(String::new())
            }
        };
        Ok(pb::ExecuteRequest {
            contract: self.contract,
            depth: self.depth,
            event: Some(pb::Event {
                json: event.to_vec().into(),
                point: self.point.clone(),
                raw: true,
            }),
            hook: Some(pb::Hook {
                argv: self.argv.clone(),
                env: admitted.collect(),
                name: String::new(),
                shell: None,
                source: String::new(),
                umask: Some(self.umask),
                working_dir: directory(&self.working_dir)?,
                workspace: directory(&self.workspace)?,
            }),
            mode: self.mode.clone(),
            on_disconnect: pb::OnDisconnect::Kill.into(),
            profile: policy.name.to_string(),
            require_confirmed: Some(true),
            timeout: self.timeout,
            ..pb::ExecuteRequest::default()
        })
    }

    /// Runs the hook under a profile, once for each event.
    pub(super) async fn run(
        &self,
        assembly: &Assembly,
        config: &Config,
        profile: &str,
        observer: &Observer,
    ) -> Result<Trial, Failure> {
        let policy = find_profile(&Assembly::registry(config)?, profile)?;
        let server =
            PrivateServer::start(assembly, config.clone(), ConsentRule::Given(Consent::Trial))
                .await?;
        let done = self.run_all(&server.channel, &policy).await;
        let stopped = server.stop().await;
        let (files, ends) = done?;
        stopped?;
        let seen = observer.take().ok_or_else(|| {
            Failure::new(
                "a hook's use of files cannot be observed here. Observation needs backend `landlock`, and the right to read the memory of \
                 one's own children (`/proc/PID/mem`). No filter with a listener may be above this process, as in some containers; \
                 use `hookjail explain path` for single paths",
            )
        })?;
        Ok(Trial { ends, files, seen })
    }

    async fn run_all(
        &self,
        channel: &Channel,
        policy: &Policy,
    ) -> Result<(Vec<PathBuf>, Vec<pb::ExecuteResponse>), Failure> {
        let mut client = HookServiceClient::new(channel.clone());
        let mut ends = Vec::new();
        for event in &self.events {
            let request = tonic::Request::new(self.request(policy, event)?);
            ends.push(until_interrupted(connect::execute(&mut client, request)).await?);
        }
        let preview = pb::PreviewRequest {
            request: Some(self.request(policy, self.events.first().map_or(&[], Vec::as_slice))?),
        };
        let preview = client.preview(preview).await;
        let preview = preview.map_err(connect::refused)?;
        let files = preview.into_inner().files.into_iter();
        Ok((files.map(|file| file.path.into()).collect(), ends))
    }

    /// Returns the widest profile's meaning, and what the hook did.
    pub(super) fn observed(
        &self,
        config: &Config,
        trial: &Trial,
    ) -> Result<(Under, Needs), Failure> {
        let widest = find_profile(&Assembly::registry(config)?, TRIAL)?;
        let widest = resolve(widest, &self.workspace, &trial.files, self.abi)?;
        let mut needs = needs(&trial.seen, &trial.files, &config.paths.runtime);
        let allowed = &widest.policy.egress.allowed;
        let rules = needs.connections.iter();
        let rules = rules.flat_map(|it| it.own_rules(allowed));
        needs.egress = rules.collect::<BTreeSet<_>>().into_iter().collect();
        Ok((widest, needs))
    }

    /// Returns whether a run changed something that outlasts it, asked another host, or decided.
    pub(super) fn had_effect(&self, config: &Config, trial: &Trial) -> bool {
        let decides = [pb::Decision::Ask, pb::Decision::Block, pb::Decision::Deny];
        let decides = decides.map(i32::from);
        let mut verdicts = trial.ends.iter().filter_map(|end| end.verdict.as_ref());
        let has_decided = verdicts.any(|verdict| decides.contains(&verdict.decision));
        let needs = needs(&trial.seen, &trial.files, &config.paths.runtime);
        let null = Path::new("/dev");
        let mut uses = needs.uses.iter();
        has_decided
            || needs.network
            || needs.notices
            || uses.any(|it| !is_read_only(it.operation) && !it.target.path().starts_with(null))
    }

    /// Returns the text of the smallest profile.
    pub(super) fn draft(
        &self,
        config: &Config,
        trial: &Trial,
        name: &ProfileName,
    ) -> Result<String, Failure> {
        let (widest, needs) = self.observed(config, trial)?;
        let site = Site {
            path: &self.path,
            references: &config.references,
            workspace: &self.workspace,
        };
        let program = self.argv.first().map(Path::new).and_then(Path::file_name);
        let program = program.unwrap_or_default().to_string_lossy();
        let description = format!("needs of {}, by hookjail learn", plain(&program));
        let draft = Draft::compose(&description, &needs, &widest, site, |draft| {
            let mut config = config.clone();
            config
                .proposed_profiles
                .push((name.to_string(), draft.to_string()));
            let policy = find_profile(&Assembly::registry(&config)?, name.as_str())?;
            resolve(policy, &self.workspace, &trial.files, self.abi)
        })?;
        Ok(draft.to_string())
    }

    /// Returns whether a run was refused the network because its profile has none.
    pub(super) fn lacks_network(&self, config: &Config, trial: &Trial) -> Result<bool, Failure> {
        let widest = find_profile(&Assembly::registry(config)?, TRIAL)?;
        let mut denials = trial.ends.iter().flat_map(|end| &end.denials);
        Ok(widest.network == Network::None
            && denials.any(|it| !it.incidental && it.suggestion.contains("network =")))
    }

    /// Returns the denials of a run under the widest profile, with remedies.
    pub(super) fn refused(
        &self,
        learn: &LearnArgs,
        config: &Config,
        trial: &Trial,
    ) -> Result<Vec<Unmet>, Failure> {
        let (widest, needs) = self.observed(config, trial)?;
        let mut refused: Vec<Unmet> = Vec::new();
        let denials = trial.ends.iter().flat_map(|end| &end.denials);
        let of_calls = denials.filter(|it| !it.incidental);
        for denial in of_calls {
            let egress: Option<Egress> = denial.egress.parse().ok();
            refused.push(Unmet {
                remedy: match (&egress, denial.suggestion.as_str()) {
                    (Some(rule), _) => {
                        format!("to allow it: {}", learn.with(&[egress_option(rule)]))
                    }
                    (None, "") => denial.rule.clone(),
                    (None, change) => format!("{}; {change}", denial.rule),
                },
                what: format!("{} {}", denial.operation, denial.target)
                    .trim_end()
                    .to_owned(),
                wish: Wish {
                    egress: egress.into_iter().collect(),
                    grants: Vec::new(),
                },
            });
        }
        let forbidden = Forbidden::locate(&own_places(config))?;
        for (wanted, refusal) in refusals(&needs, &widest, &forbidden) {
            let floor = self
                .floor
                .never(&refusal.at, is_read_only(wanted.operation));
            // A log needs a file, and not the directory in which to make it, while its name stays the same.
            let name = wanted.given.file_name().unwrap_or_default();
            let is_steady = !name.to_string_lossy().contains(char::is_numeric);
            let is_file = is_steady && needs.opened.contains(&wanted.given);
            let of_file = is_file.then(|| {
                let (reach, target) = (&widest.reach, &wanted.target);
                reach.decide(Operation::Write, target, None, &forbidden)
            });
            let remedy = match &of_file {
                Some(GrantDecision::Refused(refusal)) => &refusal.remedy,
                Some(GrantDecision::Allowed { .. }) | None => &refusal.remedy,
            };
            let granted = match (floor, remedy) {
                (Some(why), _) => Err(format!("never granted: {why}")),
                (None, Remedy::Grants(grants)) => self.grants(grants),
                (None, other) => Err(format!("never granted: {other}")),
            };
            let options = |grants: &[(PathBuf, Access)]| {
                let options = grants.iter();
                let options = options.map(|(path, access)| grant_option(path, *access));
                options.collect::<Vec<_>>()
            };
            let (remedy, grants) = match granted {
                Ok(grants) => {
                    let command = learn.with(&options(&grants));
                    (format!("to allow it: {command}"), grants)
                }
                Err(never) => (never, Vec::new()),
            };
            refused.push(Unmet {
                remedy,
                what: format!(
                    "{} {}",
                    wanted.operation.name(),
                    wanted.target.path().display()
                ),
                wish: Wish {
                    egress: Vec::new(),
                    grants,
                },
            });
        }
        let mut known = BTreeSet::new();
        refused.retain(|it| known.insert(it.what.clone()));
        let more = refused.len().saturating_sub(NAMED);
        refused.truncate(NAMED);
        if more > 0 {
            refused.push(Unmet {
                remedy: "named once these are allowed".to_owned(),
                what: format!("{more} more"),
                wish: Wish::default(),
            });
        }
        Ok(refused)
    }

    /// Returns the grants on paths of a denied access, or why it is never granted.
    fn grants(&self, grants: &[GrantSpec]) -> Result<Vec<(PathBuf, Access)>, String> {
        let mut all = Vec::new();
        for grant in grants {
            let place = grant.place.to_string();
            let place = place.replacen("${workspace}", &self.workspace.display().to_string(), 1);
            let read_only = grant.access.is_read_only();
            if let Some(why) = self.floor.never(Path::new(&place), read_only) {
                return Err(format!("never granted: {why}"));
            }
            if SHARED.iter().any(|shared| place == *shared) {
                return Err(format!(
                    "never granted: every program writes to `{place}`; set `view = \"own\"`, under which hooks have their own"
                ));
            }
            all.push((PathBuf::from(place), grant.access));
        }
        Ok(all)
    }

    /// Returns the paths denied by the second run's profile but not by the first one's.
    pub(super) fn kept(
        &self,
        config: &Config,
        name: &ProfileName,
        learned: &Trial,
    ) -> Result<Vec<String>, Failure> {
        let registry = Assembly::registry(config)?;
        let resolve = |name| {
            let policy = find_profile(&registry, name)?;
            resolve(policy, &self.workspace, &learned.files, self.abi)
        };
        let (widest, narrow) = (resolve(TRIAL)?, resolve(name.as_str())?);
        let uses = needs(&learned.seen, &learned.files, &config.paths.runtime)
            .uses
            .into_iter();
        let uses = uses.filter(|it| {
            let is_kept = it.is_allowed(&widest.reach) && !it.is_allowed(&narrow.reach);
            is_kept && !is_of_names(it)
        });
        let kept = uses.map(|it| {
            let operation = it.operation.name();
            format!(
                "the hook is refused {operation} {}",
                it.target.path().display()
            )
        });
        let kept: BTreeSet<_> = kept.collect();
        Ok(kept.into_iter().take(NAMED).collect())
    }
}

pub(super) fn egress_option(rule: &Egress) -> String {
    format!("--egress={rule}")
}

pub(super) fn grant_option(path: &Path, access: Access) -> String {
    format!("--grant={}={access}", path.display())
}
