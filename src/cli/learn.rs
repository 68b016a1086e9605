//! `hookjail learn`: proposes the smallest profile for a hook from its observed behaviour.
//!
//! The hook runs twice, each time confined: observed under the widest profile that the operator allows, and under the
//! resulting profile. Neither run has grants beyond that profile and the command line, and no profile is installed.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use serde_json::json;
use tonic::transport::Channel;

use hookjail_base::{
    model::{Event, ProfileName, plain},
    util::diff::unified,
};
use hookjail_client::{
    Failure,
    arguments::{contract, directory, parse_span, text},
    connect,
    offered::variables,
    output,
    program::resolve_program,
    run_as,
    server::until_interrupted,
};
use hookjail_contract::{Envelope, adopt::Adopted};
use hookjail_policy::{
    Access, GrantSpec, Network, Policy, References, Registry, SHARED, environment, explain::Remedy,
    forbidden::Forbidden, grantable,
};
use hookjail_proto::{self as pb, hook_service_client::HookServiceClient};
use hookjail_sandbox::{BriefState, Observer, Seen};

use super::{
    Context,
    learned::{Draft, Needs, PARTS, Site, Under},
    observed::{find_profile, is_read_only, landlock_abi, needs, refusals, under},
    private_server::{PrivateServer, runtime},
    rows::{Rows, shell_line},
    run::event,
    show::{denial_words, outcome_words},
    success,
};
use hookjail_daemon::{
    config::Config,
    consent::ConsentRule,
    daemon::{Assembly, own_places},
};

/// The widest profile where none is named, which suits usual hooks.
const PROFILE: &str = "develop";

/// The profile of the first run.
const TRIAL: &str = "learn-trial";

/// The difference of a hook that did not end alike.
const OTHER_END: &str = "it ends otherwise";

/// The maximum number of listed denials.
const NAMED: usize = 20;

/// Propose the smallest profile for a hook, from an observed run under a wide one.
///
/// Runs the hook twice, under the wide profile and under the proposed one. Both runs are real: what the hook writes, it writes.
/// Prints the profile as a diff that makes its file, and puts nothing in force. Exits with 0 where the hook ended under it as it did
/// under the wide one, with 1 where it did not.
#[derive(Debug, Args)]
pub(super) struct LearnArgs {
    /// Give it what this runtime gives its hooks, and what the contract says of their stdin
    #[arg(long = "as", value_name = "RUNTIME", value_parser = runtime_named)]
    runtime: Option<Adopted>,
    /// The lifecycle point
    #[arg(long, default_value = "", hide_default_value = true)]
    point: String,
    /// The widest profile that it may have
    #[arg(long, value_name = "PROFILE", default_value = PROFILE)]
    profile: String,
    /// Let it speak to other hosts too
    #[arg(long)]
    network: bool,
    /// Grant a path too: PATH=read, PATH=execute, PATH=write or PATH=write-file
    #[arg(long, value_name = "PATH=ACCESS", value_parser = grant)]
    grant: Vec<(PathBuf, Access)>,
    /// What the profile is to be called
    #[arg(long, value_name = "NAME", default_value = "learned")]
    name: String,
    /// Write the profile to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A file with the event, or - for stdin [default: stdin, unless it is a terminal or empty; then samples of the runtime's]
    #[arg(long, value_name = "FILE")]
    event: Option<PathBuf>,
    /// The wall time of each run, for example 500ms, 10s, 2m
    #[arg(long, value_parser = parse_span)]
    timeout: Option<Duration>,
    /// Binds ${workspace} [default: the project of the current directory]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// The command
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The results of a hook's runs under a profile, one for each event.
struct Trial {
    ends: Vec<pb::ExecuteResponse>,
    files: Vec<PathBuf>,
    seen: Vec<Seen>,
}

/// A refused access of the first run.
struct Unmet {
    /// The remedy, or the reason why there is none.
    remedy: String,
    what: String,
}

/// The learned profile, and the results of both runs.
struct Learned {
    /// The differences of the second run.
    differ: Vec<String>,
    /// The text of the profile.
    draft: String,
    learned: Trial,
    refused: Vec<Unmet>,
    trial: Trial,
}

impl LearnArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let mut config = context.load()?;
        let shipped = Registry::builtin()?;
        let is_free = |name: &ProfileName| {
            let taken = [TRIAL, self.profile.as_str()].into_iter().chain(PARTS);
            shipped.find(name).is_none() && !taken.into_iter().any(|taken| taken == name.as_str())
        };
        let name = ProfileName::parse(&self.name).filter(is_free);
        let name = name.ok_or_else(|| {
            Failure::new(format!(
                "`--name {}` is no name for a profile of one's own",
                self.name
            ))
        })?;
        let bench = Bench::new(&self, context, &config)?;
        let trial = bench.trial_profile(&self, &config)?;
        config.proposed_profiles = vec![(TRIAL.to_owned(), trial)];
        let homes = context.call.paths.own_homes();
        let registry = Assembly::registry(&config)?;
        let judge = Assembly::roots(&config, &registry);
        let added = config.workspace_roots.add(&bench.workspace, &homes, &judge);
        added.map_err(|why| Failure::new(format!("`{}` {why}", bench.workspace.display())))?;
        // Both runs begin without files of earlier ones, and leave none.
        let state = BriefState::make(&config.paths.runtime)?;
        config.hook_state = Some(state.path().to_owned());

        let observer = Arc::new(Observer::default());
        let assembly = Assembly::begin()?.observed_by(Arc::clone(&observer));
        let learned = connect::block_on(&runtime()?, async {
            let trial = bench.run(&assembly, &config, TRIAL, &observer).await?;
            let (draft, refused) = bench.judge(&self, &config, &trial, &name)?;
            config
                .proposed_profiles
                .push((name.to_string(), draft.clone()));
            let learned = bench
                .run(&assembly, &config, name.as_str(), &observer)
                .await?;
            let mut differ = differences(&trial.ends, &learned.ends);
            differ.extend(bench.kept(&config, &name, &learned)?);
            Ok::<_, Failure>(Learned {
                differ,
                draft,
                learned,
                refused,
                trial,
            })
        })?;
        self.tell(context, &config, &name, &learned)
    }

    /// Prints the result, and writes the profile if requested.
    fn tell(
        &self,
        context: &Context,
        config: &Config,
        name: &ProfileName,
        learned: &Learned,
    ) -> Result<ExitCode, Failure> {
        let differ = &learned.differ;
        if let Some(path) = &self.output {
            write_new(path, &learned.draft)?;
        }
        let directory = config.profiles.dirs().last().cloned().unwrap_or_else(|| {
            let file = config.file.clone().or(context.call.paths.config_file());
            let beside = file.as_deref().and_then(Path::parent);
            beside.unwrap_or(Path::new("")).join("profiles")
        });
        let to = format!("{name}.toml");
        let file = directory.join(&to);
        // Where there is such a profile already, what would change in it.
        let (from, old) = match fs::read_to_string(&file) {
            Ok(old) => (to.as_str(), old),
            Err(_) => ("/dev/null", String::new()),
        };
        let diff = unified((from, &old), (&to, &learned.draft));
        let command = shell_line(&self.command);
        let mut next = Vec::new();
        if self.output.as_deref() != Some(&file) {
            next.push(format!(
                "have it written to {} by --output, or give this to `patch -p0` there",
                file.display()
            ));
        }
        if config.profiles.dirs().is_empty() {
            next.push(format!(
                "name the directory in the configuration: [profiles] dirs = [{:?}]",
                directory.display().to_string()
            ));
        }
        next.push("hookjail reload, where a daemon runs".to_owned());
        next.push(format!(
            "hookjail consent allow --profile {name} -- {command}"
        ));

        if context.call.json {
            let refused = learned.refused.iter();
            let refused: Vec<_> = refused
                .map(|it| json!({ "remedy": it.remedy, "what": it.what }))
                .collect();
            output::json_line(&json!({
                "differences": differ,
                "green": differ.is_empty(),
                "name": name.as_str(),
                "next": next,
                "refused": refused,
                "toml": learned.draft,
            }));
        } else {
            self.say(name, learned, &next);
            output::document(&diff);
        }
        Ok(success(differ.is_empty()))
    }

    /// Prints for people how both runs ended, and what is to be done next.
    fn say(&self, name: &ProfileName, learned: &Learned, next: &[String]) {
        let style = output::Style::of_stdout();
        let ends = |trial: &Trial| {
            let ends = trial.ends.iter().map(|end| {
                outcome_words(&end.outcome.unwrap_or_default(), &end.exec_problem, style)
            });
            let ends: BTreeSet<_> = ends.collect();
            ends.into_iter().collect::<Vec<_>>().join("; ")
        };
        let mut rows = Rows::plain("", 12);
        let wide = match (self.network, self.grant.is_empty()) {
            (false, true) => self.profile.clone(),
            _ => format!("{} and what was granted with it", self.profile),
        };
        rows.row("tried", format!("{} under {wide}", ends(&learned.trial)));
        let refused = learned.refused.iter();
        let refused = refused.map(|Unmet { remedy, what }| format!("{what}: {remedy}"));
        rows.each("refused", refused);
        let green = match learned.differ.as_slice() {
            [] => "the same".to_owned(),
            [one] if one == OTHER_END => format!(
                "DIFFERENT: {one}, and is refused nothing that the first run was not; if what the first run did is why, start it anew"
            ),
            differ => format!("DIFFERENT: {}", differ.join("; ")),
        };
        let words = format!("{} under {name}, {green}", ends(&learned.learned));
        rows.row("learnt", words);
        rows.list("to use it", next);
        output::stderr_text(rows.as_str());
    }

    /// Returns the command line with more options.
    fn with(&self, more: &[String]) -> String {
        let mut words = vec!["hookjail".to_owned(), "learn".to_owned()];
        if let Some(runtime) = self.runtime {
            words.push(format!("--as={}", runtime.name));
        }
        for (option, value) in [("point", &self.point), ("profile", &self.profile)] {
            if !value.is_empty() && value != PROFILE {
                words.push(format!("--{option}={value}"));
            }
        }
        if self.network {
            words.push("--network".to_owned());
        }
        for (path, access) in &self.grant {
            words.push(format!("--grant={}={access}", path.display()));
        }
        words.extend_from_slice(more);
        let options = shlex::try_join(words.iter().map(String::as_str));
        let options = options.unwrap_or_else(|_| words.join(" "));
        format!("{options} -- {}", shell_line(&self.command))
    }
}

/// The set-up of both runs.
struct Bench {
    abi: u32,
    argv: Vec<String>,
    contract: i32,
    depth: u32,
    umask: u32,
    events: Vec<Vec<u8>>,
    /// The paths that no grant of the command line may reach; for a root daemon also root's home.
    floor: References,
    mode: String,
    path: Vec<PathBuf>,
    point: String,
    timeout: Option<prost_types::Duration>,
    working_dir: PathBuf,
    workspace: PathBuf,
}

impl Bench {
    fn new(learn: &LearnArgs, context: &Context, config: &Config) -> Result<Self, Failure> {
        let current = env::current_dir()?.canonicalize()?;
        let workspace = match (&learn.workspace, learn.runtime) {
            (Some(named), _) => PathBuf::from(directory(named)?),
            (None, Some(runtime)) => {
                run_as::project(runtime, &current, context.call.paths.home.as_deref())
            }
            (None, None) => current.clone(),
        };
        let argv = resolve_program(learn.command.clone())?;
        let argv = argv.into_iter().map(|word| text(word, "argument"));
        let given = event(learn.event.as_deref())?;
        let mut point = learn.point.clone();
        let mode = learn.runtime.map(|runtime| runtime.mode);
        let events = match (learn.runtime, mode) {
            (Some(runtime), Some(mode)) if given.is_empty() => {
                let samples = runtime.samples(&workspace).into_iter();
                let samples = samples.map(|sample| {
                    let event = Event {
                        json: sample.to_string().into_bytes().into(),
                        point: point.clone(),
                        raw: false,
                    };
                    let envelope = Envelope {
                        cwd: workspace.display().to_string(),
                        session: "learn".to_owned(),
                        ..Envelope::default()
                    };
                    mode.stdin(&event, &envelope)
                        .map(|stdin| stdin.to_vec())
                        .map_err(Failure::from)
                });
                samples.collect::<Result<Vec<_>, _>>()?
            }
            _ => vec![given],
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
                Some(own) => Err(Failure::new(format!(
                    "`{}` cannot be the workspace, because it reaches the daemon's own `{}`; start in a project, or name one by --workspace",
                    bench.workspace.display(),
                    own.display()
                ))),
            }
        })
    }

    /// Returns the first run's profile: the named one, with the command line's grants.
    fn trial_profile(&self, learn: &LearnArgs, config: &Config) -> Result<String, Failure> {
        let registry = Assembly::registry(config)?;
        let widest = find_profile(&registry, &learn.profile)?;
        let mut text = format!(
            "description = \"the first run of hookjail learn\"\nextends = \"{}\"\n",
            widest.name
        );
        let mut system = Vec::new();
        if learn.network {
            text.push_str("network = \"outbound\"\n");
            let known = |grant: &&GrantSpec| {
                let mut all = widest.files.system.iter().chain(&widest.files.named);
                all.all(|it| it.place != grant.place)
            };
            let network = find_profile(&registry, "network")?;
            system.extend(network.files.system.iter().filter(known).cloned());
        }
        text.push_str("[files]\nnamed = [");
        for (path, access) in &learn.grant {
            let never = self.floor.never(path, access.is_read_only());
            if let Some(why) = never {
                return Err(Failure::new(format!(
                    "`{}` is not granted so: {why}; an operator who wants it writes it into a profile, by its whole path",
                    path.display()
                )));
            }
            let path = toml::Value::String(path.display().to_string());
            text.push_str(&format!("{{ path = {path}, access = \"{access}\" }}, "));
        }
        text.push_str("]\nsystem = [");
        for grant in &system {
            let path = toml::Value::String(grant.place.to_string());
            let (access, optional) = (grant.access, grant.optional);
            text.push_str(&format!(
                "{{ path = {path}, access = \"{access}\", optional = {optional} }}, "
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
    async fn run(
        &self,
        assembly: &Assembly,
        config: &Config,
        profile: &str,
        observer: &Observer,
    ) -> Result<Trial, Failure> {
        let policy = find_profile(&Assembly::registry(config)?, profile)?;
        let server = PrivateServer::start(assembly, config.clone(), ConsentRule::Typed).await?;
        let done = self.run_all(&server.channel, &policy).await;
        let stopped = server.stop().await;
        let (files, ends) = done?;
        stopped?;
        let seen = observer.take().ok_or_else(|| {
            Failure::new(
                "what a hook does with files cannot be observed here: that takes backend `landlock`, no filter with a listener above this \
                 process, as some containers have one, and the right to read the memory of one's own children (`/proc/PID/mem`); ask \
                 for single paths by `hookjail explain path`",
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

    /// Returns the text of the smallest profile, and the denials.
    fn judge(
        &self,
        learn: &LearnArgs,
        config: &Config,
        trial: &Trial,
        name: &ProfileName,
    ) -> Result<(String, Vec<Unmet>), Failure> {
        let widest = find_profile(&Assembly::registry(config)?, TRIAL)?;
        let widest = under(widest, &self.workspace, &trial.files, self.abi)?;
        let needs = needs(&trial.seen, &trial.files, &config.paths.runtime);
        let site = Site {
            path: &self.path,
            references: &config.references,
            workspace: &self.workspace,
        };
        let program = self.argv.first().map(Path::new).and_then(Path::file_name);
        let program = program.unwrap_or_default().to_string_lossy();
        let description = format!("what {} needs, by hookjail learn", plain(&program));
        let draft = Draft::compose(&description, &needs, &widest, site, |draft| {
            let mut config = config.clone();
            config
                .proposed_profiles
                .push((name.to_string(), draft.to_string()));
            let policy = find_profile(&Assembly::registry(&config)?, name.as_str())?;
            under(policy, &self.workspace, &trial.files, self.abi)
        })?;
        Ok((
            draft.to_string(),
            self.refused(learn, config, trial, &needs, &widest)?,
        ))
    }

    /// Returns the denials of the first run, with remedies.
    fn refused(
        &self,
        learn: &LearnArgs,
        config: &Config,
        trial: &Trial,
        needs: &Needs,
        widest: &Under,
    ) -> Result<Vec<Unmet>, Failure> {
        let mut refused: Vec<Unmet> = Vec::new();
        let denials = trial.ends.iter().flat_map(|end| &end.denials);
        let of_calls = denials.filter(|it| !it.incidental);
        for denial in of_calls {
            let is_network =
                denial.suggestion.contains("network =") && widest.policy.network == Network::None;
            refused.push(Unmet {
                remedy: match (is_network, denial.suggestion.as_str()) {
                    (true, _) => {
                        format!("to allow it: {}", learn.with(&["--network".to_owned()]))
                    }
                    (false, "") => denial.rule.clone(),
                    (false, change) => format!("{}; {change}", denial.rule),
                },
                what: format!("{} {}", denial.operation, denial.target)
                    .trim_end()
                    .to_owned(),
            });
        }
        let forbidden = Forbidden::locate(&own_places(config))?;
        for (wanted, refusal) in refusals(needs, widest, &forbidden) {
            let floor = self
                .floor
                .never(&refusal.at, is_read_only(wanted.operation));
            refused.push(Unmet {
                remedy: match (floor, &refusal.remedy) {
                    (Some(why), _) => format!("never granted: {why}"),
                    (None, Remedy::Grants(grants)) => self.remedy(learn, grants),
                    (None, other) => format!("never granted: {other}"),
                },
                what: format!(
                    "{} {}",
                    wanted.operation.name(),
                    wanted.target.path().display()
                ),
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
            });
        }
        Ok(refused)
    }

    /// Returns the option that grants a denied access, or why none does.
    fn remedy(&self, learn: &LearnArgs, grants: &[GrantSpec]) -> String {
        let mut options = Vec::new();
        for grant in grants {
            let place = grant.place.to_string();
            let place = place.replacen("${workspace}", &self.workspace.display().to_string(), 1);
            let read_only = grant.access.is_read_only();
            if let Some(why) = self.floor.never(Path::new(&place), read_only) {
                return format!("never granted: {why}");
            }
            if SHARED.iter().any(|shared| place == *shared) {
                return format!(
                    "never granted: every program writes to `{place}`; set `view = \"own\"`, under which hooks have their own"
                );
            }
            options.push(format!("--grant={place}={}", grant.access));
        }
        format!("to allow it: {}", learn.with(&options))
    }

    /// Returns the paths denied by the second run's profile but not by the first one's.
    fn kept(
        &self,
        config: &Config,
        name: &ProfileName,
        learned: &Trial,
    ) -> Result<Vec<String>, Failure> {
        let registry = Assembly::registry(config)?;
        let resolve = |name| {
            let policy = find_profile(&registry, name)?;
            under(policy, &self.workspace, &learned.files, self.abi)
        };
        let (widest, narrow) = (resolve(TRIAL)?, resolve(name.as_str())?);
        let uses = needs(&learned.seen, &learned.files, &config.paths.runtime)
            .uses
            .into_iter();
        let uses = uses.filter(|it| it.is_allowed(&widest.reach) && !it.is_allowed(&narrow.reach));
        let kept = uses.map(|it| {
            let operation = it.operation.name();
            format!("it is refused {operation} {}", it.target.path().display())
        });
        let kept: BTreeSet<_> = kept.collect();
        Ok(kept.into_iter().take(NAMED).collect())
    }
}

/// Returns how the runs under the learnt profile differ from the first ones.
fn differences(first: &[pb::ExecuteResponse], second: &[pb::ExecuteResponse]) -> Vec<String> {
    let mut differ = BTreeSet::new();
    for (first, second) in first.iter().zip(second) {
        let (was, is) = (
            first.outcome.unwrap_or_default(),
            second.outcome.unwrap_or_default(),
        );
        if (was.kind, was.exit_code, was.signal) != (is.kind, is.exit_code, is.signal) {
            differ.insert(OTHER_END.to_owned());
        }
        let decision = |of: &pb::ExecuteResponse| of.verdict.as_ref().map_or(0, |it| it.decision);
        if decision(first) != decision(second) {
            differ.insert("its verdict is another".to_owned());
        }
        let known = |denial: &&pb::Denial| {
            first
                .denials
                .iter()
                .all(|it| it.operation != denial.operation)
        };
        let denials = second.denials.iter().filter(|it| !it.incidental);
        for denial in denials.filter(known) {
            differ.insert(format!("it is refused {}", denial_words(denial)));
        }
    }
    differ.into_iter().collect()
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::new(format!("cannot write `{}`: {error}", path.display()));
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)
        .map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)
}

fn runtime_named(text: &str) -> Result<Adopted, String> {
    run_as::parse(text)?.ok_or_else(|| "name the runtime".to_owned())
}

fn grant(text: &str) -> Result<(PathBuf, Access), String> {
    let problem = || format!("`{text}` is not PATH=read, =execute, =write or =write-file");
    let (path, access) = text.rsplit_once('=').ok_or_else(problem)?;
    let all = [
        Access::Execute,
        Access::Read,
        Access::Write,
        Access::WriteFile,
    ];
    let access = all.into_iter().find(|known| known.name() == access);
    if path.contains("${") {
        return Err(format!(
            "`{path}` cannot be in a profile, where `${{…}}` is a reference; rename it"
        ));
    }
    let path = Path::new(path).canonicalize();
    let path = path.map_err(|error| format!("cannot use `{text}`: {error}"))?;
    let path = path
        .to_str()
        .ok_or_else(|| format!("`{text}` is not UTF-8"))?;
    Ok((grantable(path)?, access.ok_or_else(problem)?))
}
