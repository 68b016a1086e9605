//! Builds a daemon's pipeline from its configuration: the same for `serve`, `run` and `doctor`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf, absolute},
    sync::Arc,
};

use hookjail_base::{
    model::{ProfileName, command_line},
    redact::{Redactor, secret::Registration},
    util::{pem, user_paths::UserPaths},
};
use hookjail_contract::{self as contract, Mode, Registered};
use hookjail_journal::{Redaction, append::Journal};
use hookjail_policy::{Policy, Registry, WorkspaceRoots, forbidden::Forbidden};
use hookjail_sandbox::{
    BackendName, Identities, InstanceDir, OwnUids, RunAs, SandboxParts, StateStore, backend,
    program::roots_alone, rootfs::Root,
};
use hookjail_sys::Keeper;

use super::{metrics::MAX_CONNECTIONS, traces};

#[cfg(target_os = "linux")]
use hookjail_sandbox::{Absent, CgroupPlace, Cgroups, Observer};

use crate::{
    config::{Config, Network, ProcessEnv},
    consent::{ConsentRule, Operator, OwnSettings},
    metrics::Metrics,
    pipeline::{
        Audit, Configuration, Gate, GateParts, Homes, Notifier, OperatorHook, Pipeline, Rules,
        Runs, Sandbox, Starts, Untested,
    },
    traces::Tracer,
    wire::MAX_HANDSHAKES,
};
use hookjail_sys as sys;

/// The parts of a daemon that are set up before the first thread is started.
#[derive(Debug)]
pub struct Assembly {
    descriptors: usize,
    keeper: Arc<Keeper>,
    #[cfg(target_os = "linux")]
    observer: Option<Arc<Observer>>,
}

/// The connections and hooks that the limit of descriptors allows at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Capacity {
    /// Connections of authorised uids.
    pub(super) connections: usize,
    /// Hooks.
    pub(super) hooks: usize,
}

/// Descriptors for the daemon itself, for operators and for uids without permission.
const OWN_DESCRIPTORS: usize = 96;

/// Descriptors of a hook while it is set up, with its uid's lock, its cgroup and the lock in its workspace.
const HOOK_DESCRIPTORS: usize = 14;

impl Capacity {
    /// Returns the configured capacity, reduced to a limit of descriptors.
    ///
    /// Connections then get a quarter at most.
    ///
    /// # Errors
    ///
    /// Returns the least limit with which one hook could run.
    fn within(descriptors: usize, config: &Config) -> Result<Self, usize> {
        let reserved = own_descriptors(config);
        let left = descriptors.saturating_sub(reserved);
        let most = config.hooks.max_concurrent.saturating_mul(HOOK_DESCRIPTORS);
        let connections = config
            .server
            .max_connections
            .min((left / 4).max(left.saturating_sub(most)));
        let hooks = config
            .hooks
            .max_concurrent
            .min((left - connections) / HOOK_DESCRIPTORS);
        if hooks == 0 || connections == 0 {
            // Three quarters of the remaining descriptors are for hooks.
            return Err(reserved + HOOK_DESCRIPTORS * 4 / 3);
        }
        Ok(Self { connections, hooks })
    }
}

/// Returns how many descriptors the daemon needs beside those of hooks and callers.
fn own_descriptors(config: &Config) -> usize {
    // The listener's: itself, three of its thread's runtime, and the connection for which another one is ended.
    let metrics = config.metrics.listen.map_or(0, |_| MAX_CONNECTIONS + 5);
    let traces = config.traces.endpoint.map_or(0, |_| traces::DESCRIPTORS);
    // The listener's: itself, and handshakes, of which one more is accepted before another one is ended.
    let network = config.listener.as_ref().map_or(0, |_| MAX_HANDSHAKES + 2);
    OWN_DESCRIPTORS + metrics + network + traces
}

/// Building a pipeline failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}")]
pub struct AssemblyError {
    doing: String,
    #[source]
    cause: Box<dyn std::error::Error + Send + Sync>,
}

impl AssemblyError {
    fn new<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        doing: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let doing = doing.into();
        move |cause| Self {
            doing,
            cause: cause.into(),
        }
    }
}

/// The memory that the threads of a daemon without hooks take, with their stacks, bytes.
const LEAST_ADDRESS_SPACE: usize = 96 << 20;

impl Assembly {
    /// Prepares this process. Must be called once, before any thread is started.
    ///
    /// # Errors
    ///
    /// Names the step that failed.
    pub fn begin() -> Result<Self, AssemblyError> {
        sys::occupy_standard_fds().map_err(AssemblyError::new(
            "open /dev/null for closed standard descriptors",
        ))?;
        // Files made here are private unless a mode is given; a hook's umask is set in the child.
        nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
        check_address_space(sys::address_space_limit())
            .map_err(AssemblyError::new("reserve memory"))?;
        sys::keep_little_memory();
        sys::switch_off_core_images().map_err(AssemblyError::new("switch off core images"))?;
        sys::ignore_file_size_signal().map_err(AssemblyError::new("ignore SIGXFSZ"))?;
        sys::become_subreaper().map_err(AssemblyError::new("become the reaper of orphans"))?;
        sys::drop_groups().map_err(AssemblyError::new("leave root's supplementary groups"))?;
        // Why no error: where limits cannot be asked for, those of a hook cannot be set, and each request is refused for that.
        let descriptors = sys::raise_descriptor_limit().unwrap_or(usize::MAX);
        let keeper = Keeper::start().map_err(AssemblyError::new("start the keeper"))?;
        Ok(Self {
            descriptors,
            keeper: Arc::new(keeper),
            #[cfg(target_os = "linux")]
            observer: None,
        })
    }

    /// Sets an observer of hooks, which only `hookjail learn` has.
    #[cfg(target_os = "linux")]
    pub fn observed_by(self, observer: Arc<Observer>) -> Self {
        Self {
            observer: Some(observer),
            ..self
        }
    }

    /// Returns what kills hooks where this process is killed.
    pub(super) fn keeper(&self) -> Arc<Keeper> {
        Arc::clone(&self.keeper)
    }

    /// Returns the maximum numbers of concurrent connections and hooks. Logs where they are lower than configured.
    ///
    /// # Errors
    ///
    /// The process may have too few descriptors to run a single hook.
    pub(super) fn room(&self, config: &Config) -> Result<Capacity, AssemblyError> {
        let room = Capacity::within(self.descriptors, config).map_err(|least| {
            let problem = format!(
                "this process may have {} descriptors, and needs {least} at least; raise the limit (`ulimit -n`, `LimitNOFILE=`)",
                self.descriptors
            );
            AssemblyError::new("run hooks")(problem)
        })?;
        let Capacity { connections, hooks } = room;
        if hooks < config.hooks.max_concurrent || connections < config.server.max_connections {
            tracing::warn!(
                descriptors = self.descriptors,
                "at most {hooks} hooks and {connections} connections fit the limit of descriptors, fewer than configured; raise it (`ulimit -n`, `LimitNOFILE=`)"
            );
        }
        Ok(room)
    }

    /// Builds what confines.
    ///
    /// # Errors
    ///
    /// Names the step that failed.
    pub fn sandbox(&self, config: &Config) -> Result<Sandbox, AssemblyError> {
        let root = nix::unistd::geteuid().is_root();
        let identities = root
            .then(|| Identities::new(config.hooks.uids()).map(Arc::new))
            .transpose()
            .map_err(AssemblyError::new("prepare uids for hooks"))?;
        make_cache(config.references.cache.as_deref());
        let instance =
            InstanceDir::create(&config.paths.runtime, root).map_err(AssemblyError::new(
                format!("make a directory in `{}`", config.paths.runtime.display()),
            ))?;
        let own_uids = match root {
            true => OwnUids::for_users(config.hooks.users()),
            false => OwnUids::NONE,
        };
        if config.hooks.users().values().any(|it| *it == RunAs::Caller) {
            let suit = match &identities {
                Some(identities) => identities.suit_callers(),
                None => Err(io::Error::other(
                    "only a daemon that runs as root can; take the key out: hooks then run as the daemon's user",
                )),
            };
            suit.map_err(AssemblyError::new(
                "run hooks as their callers (`hooks.run_as`)",
            ))?;
        }
        // After the hooks of dead daemons were killed by their recorded groups, and before any uid is leased.
        if let Some(identities) = &identities {
            identities.clear().map_err(AssemblyError::new(
                "look for processes under the uids of hooks",
            ))?;
        }
        let named = config.backends.by_profile().named();
        if named.contains(&BackendName::NOOP) {
            tracing::warn!("backend `noop` is configured: hooks that it runs are UNCONFINED");
        }
        #[cfg(target_os = "linux")]
        let cgroups = cgroups(config)?;
        #[cfg(target_os = "linux")]
        if let Ok(cgroups) = &cgroups
            && !self.keeper.kill_in(cgroups.path())
        {
            let problem = format!("the path `{}` is too long", cgroups.path().display());
            return Err(AssemblyError::new("use `hooks.cgroup`")(problem));
        }
        #[cfg(target_os = "linux")]
        let controllers = cgroups.as_ref().ok().map(|cgroups| cgroups.controllers());
        #[cfg(not(target_os = "linux"))]
        let controllers = None;
        let backends = named
            .into_iter()
            // The configuration was refused where a list names what cannot be had.
            .filter_map(|name| {
                backend(
                    name,
                    config.container_runtime.clone(),
                    own_uids.clone(),
                    controllers,
                )
            })
            .collect();
        let spec = config.container_runtime.as_ref();
        let spec = spec.and_then(|runtime| runtime.root.as_ref());
        let root = spec.map(|spec| {
            let root = Root::open(spec)?;
            root.verify(spec).map(|()| root)
        });
        Sandbox::new(SandboxParts {
            backends,
            #[cfg(target_os = "linux")]
            cgroups,
            identities,
            instance,
            keeper: Arc::clone(&self.keeper),
            #[cfg(target_os = "linux")]
            observer: self.observer.clone(),
            order: config.backends.by_profile(),
            own: own_places(config),
            references: config.references.clone(),
            root: root
                .transpose()
                .map_err(AssemblyError::new("use `container.root`"))?,
            run_as: config.hooks.users(),
            state: StateStore::of_daemon(config.hook_state.as_ref().unwrap_or(&config.paths.state)),
            spawners: config.hooks.spawners,
        })
        .map_err(AssemblyError::new("read this process's own status"))
    }

    /// Opens the root of containers, if one is configured, without verifying its content.
    ///
    /// # Errors
    ///
    /// Fails where the root cannot be opened.
    pub fn root(config: &Config) -> Result<Option<Root>, AssemblyError> {
        let spec = config.container_runtime.as_ref();
        let spec = spec.and_then(|runtime| runtime.root.as_ref());
        let root = spec.map(Root::open).transpose();
        root.map_err(AssemblyError::new("use `container.root`"))
    }

    /// Loads the profiles.
    ///
    /// # Errors
    ///
    /// Names a directory that cannot be read, or a profile that the configuration names and is not there. One whose file cannot be
    /// loaded is there, and not served.
    pub fn registry(config: &Config) -> Result<Registry, AssemblyError> {
        let mut registry = Registry::load_with(
            config.profiles.dirs(),
            &config.proposed_profiles,
            &own_places(config),
            &config.references,
        )
        .map_err(AssemblyError::new("load the profiles"))?;
        let not_there = |key: &str, name: &ProfileName| {
            let problem = format!(
                "`{key}` names `{name}`, and there is no such profile; see `hookjail profile list`"
            );
            AssemblyError::new("find what the configuration names")(problem)
        };
        if let Some(allowed) = &config.profiles.allow {
            let kept = registry.keep(allowed);
            kept.map_err(|unknown| not_there("profiles.allow", unknown))?;
        }
        if let (Some(post), Some(network)) = (
            ProfileName::parse(contract::POST_PROFILE),
            ProfileName::parse("network"),
        ) {
            let order = config.backends.by_profile();
            let can_name =
                |policy: &Policy| order.nearest(&policy.line).contains(&BackendName::LANDLOCK);
            registry.post_to(&post, &config.posting.hosts(), can_name, &network);
        }
        if let Some(bound) = &config.egress.allow {
            registry.keep_within(bound);
        }
        if let Some(name) = &config.any_host {
            registry.open(name, config.egress.allow.as_deref());
        }
        if let Some(ca) = &config.ways.ca {
            pem::certificates(ca).map_err(AssemblyError::new("use `egress.ca`"))?;
        }
        registry.reach_by(&config.ways);
        let of_backends = config.backends.profiles.keys();
        let of_users = config.hooks.run_as_profiles.keys();
        let of_hooks = config.commands.iter().flat_map(|hook| &hook.profiles);
        let of_files = config.hooks_files.iter();
        let of_rules = of_files.clone().flat_map(|it| &it.rules);
        let mut named = of_backends
            .map(|name| ("backends.profiles", name))
            .chain(of_users.map(|name| ("hooks.run_as_profiles", name)))
            .chain(of_hooks.map(|name| ("hook.profiles", name)))
            .chain(of_files.filter_map(|it| Some(("hooks_file.profile", it.profile.as_ref()?))))
            .chain(
                of_rules.filter_map(|it| Some(("hooks_file.rule.profile", it.profile.as_ref()?))),
            );
        match named.find(|(_, name)| !registry.has(name)) {
            None => Ok(registry),
            Some((key, name)) => Err(not_there(key, name)),
        }
    }

    /// Reads the registered secrets.
    ///
    /// # Errors
    ///
    /// Names the secret that cannot be used.
    pub(crate) fn redaction(config: &Config) -> Result<Redaction, AssemblyError> {
        let read = |registration: &Registration| registration.read(|name| std::env::var_os(name));
        let secrets = config.secrets.iter().map(read).collect::<Result<_, _>>();
        let secrets = secrets.map_err(AssemblyError::new("read the registered secrets"))?;
        let redactor = Redactor::new(secrets).map_err(AssemblyError::new(
            "search texts for the registered secrets",
        ))?;
        Ok(Redaction {
            capture: config.audit.captured(),
            redactor,
        })
    }

    /// Reads what requests are decided by.
    ///
    /// # Errors
    ///
    /// Names the step that failed.
    pub(crate) fn rules(config: &Config) -> Result<Rules, AssemblyError> {
        let hooks = config.commands.iter().map(|hook| {
            let argv: Vec<_> = hook.command.iter().map(Into::into).collect();
            let command = command_line(&argv).ok_or_else(|| {
                AssemblyError::new("read the configured hooks")(io::Error::other("not UTF-8"))
            })?;
            Ok(OperatorHook {
                command,
                profiles: hook.profiles.clone(),
                timeout: hook.timeout,
            })
        });
        let registry = Self::registry(config)?;
        for (profile, why) in registry.broken() {
            tracing::error!(%profile, "a profile is not served: {why}");
        }
        Ok(Rules {
            callers: config.callers.clone(),
            readers: config.readers.clone(),
            configuration: configuration(config),
            operators: config.operators.clone(),
            rates: config.hooks.rates(),
            forbidden: Forbidden::locate(&own_places(config))
                .map_err(AssemblyError::new("locate the daemon's own directories"))?,
            homes: Homes::default(),
            hooks: hooks.collect::<Result<_, AssemblyError>>()?,
            policy_version: config.policy_version.clone(),
            replaced: Self::replaced(config)?,
            required: config.required.clone(),
            workspace_roots: Self::roots(config, &registry),
            registry,
        })
    }

    /// Returns the required hooks, by name, whose profile a file replaces that users other than root can change.
    fn replaced(config: &Config) -> Result<BTreeSet<String>, AssemblyError> {
        if config.required.is_empty() {
            return Ok(BTreeSet::new());
        }
        let load = |directories: &[PathBuf], proposed: &[(String, String)]| {
            Registry::load_with(
                directories,
                proposed,
                &own_places(config),
                &config.references,
            )
            .map_err(AssemblyError::new("load the profiles"))
        };
        let all = config.profiles.dirs();
        let roots: Vec<_> = all.iter().filter(|it| is_roots(it)).cloned().collect();
        let (all, roots) = (load(all, &config.proposed_profiles)?, load(&roots, &[])?);
        let digest = |registry: &Registry, name: &ProfileName| {
            let found = registry.find(name);
            found.map(|policy| policy.digest.clone())
        };
        let is_replaced = |hook: &&Registered| {
            let name = ProfileName::parse(hook.runs_under());
            name.is_none_or(|name| digest(&all, &name) != digest(&roots, &name))
        };
        let hooks = config.required.iter().filter(is_replaced);
        Ok(hooks.map(|hook| hook.name.clone()).collect())
    }

    /// Returns the directories below which a workspace may lie, beside what profiles, git and agents use.
    pub fn roots(config: &Config, registry: &Registry) -> WorkspaceRoots {
        let obeyed = contract::adopt::directories();
        let is_whole = registry.broken().next().is_none();
        // A broken profile may execute anything: at least the programs of the shipped ones count.
        let shipped = (!is_whole).then(|| Registry::load(&[], &[], &config.references));
        let shipped = shipped.and_then(Result::ok);
        let registries = [registry].into_iter().chain(&shipped);
        config.workspace_roots.excluding(registries, obeyed)
    }

    /// Builds the whole pipeline.
    ///
    /// # Errors
    ///
    /// Names the step that failed.
    pub fn pipeline(
        &self,
        config: &Config,
        consent: ConsentRule,
    ) -> Result<Pipeline, AssemblyError> {
        let redaction = Self::redaction(config)?;
        let rules = Self::rules(config)?;
        let sandbox = self.sandbox(config)?;
        let (settings, hooks) = (config.audit.settings(), self.room(config)?.hooks);
        check_file_size(sys::file_size_limit() as u64, settings.file_bytes(hooks))
            .map_err(AssemblyError::new("open the audit journal"))?;
        let journal = Journal::open(&config.journal(), settings)
            .map_err(AssemblyError::new("open the audit journal"))?;
        let gate = Gate::new(GateParts {
            consent,
            max_bytes: config.bytes_in_flight(),
            max_concurrent: hooks,
            max_queued: config.hooks.max_queued,
            rules,
        });
        let metrics = Metrics::new().map_err(AssemblyError::new("register the metrics"))?;
        let metrics = Arc::new(metrics);
        let audit = Audit::new(journal, Arc::clone(&metrics), redaction)
            .map_err(AssemblyError::new("start the journal's thread"))?;
        Ok(Pipeline {
            gate,
            audit,
            configuration: (config.file.as_ref())
                .map(|file| file.canonicalize().unwrap_or_else(|_| file.clone())),
            starts: Starts::default(),
            notifier: Notifier::new(config.notices.clone(), Arc::clone(&metrics)),
            metrics,
            runs: Runs::default(),
            sandbox,
            tracer: Tracer::default(),
            untested: Untested::default(),
        })
    }
}

/// Checks that this process may have the memory that its threads take, bytes.
///
/// # Errors
///
/// Fails where the limit is smaller: the process would end in the middle of something.
fn check_address_space(limit: usize) -> Result<(), String> {
    if limit >= LEAST_ADDRESS_SPACE {
        return Ok(());
    }
    Err(format!(
        "this process may have {limit} bytes of memory, and needs {LEAST_ADDRESS_SPACE}; raise the limit (`ulimit -v`, `LimitAS=`)"
    ))
}

/// Checks that a file may become as large as the journal's files need, bytes.
///
/// # Errors
///
/// Fails where the limit is smaller.
fn check_file_size(limit: u64, needed: u64) -> Result<(), String> {
    // With a limit of 0 nothing can be written at all, which the first write reports.
    if limit == 0 || limit >= needed {
        return Ok(());
    }
    Err(format!(
        "files are limited to {limit} bytes, and the journal needs {needed}; raise the limit (`ulimit -f`, `LimitFSIZE=`), or lower `audit.rotate_bytes`"
    ))
}

/// Prepares the cgroups of runs. They may be absent where the configuration does not name them.
#[cfg(target_os = "linux")]
fn cgroups(config: &Config) -> Result<Result<Arc<Cgroups>, Absent>, AssemblyError> {
    let started = Cgroups::start(&config.hooks.cgroup).map(Arc::new);
    match (&started, &config.hooks.cgroup) {
        (Ok(cgroups), _) => {
            tracing::info!(path = %cgroups.path().display(), "runs have cgroups of their own");
        }
        (Err(Absent { fix, why }), CgroupPlace::Below(_)) => {
            let problem = format!("{why}; {fix}");
            return Err(AssemblyError::new("use `hooks.cgroup`")(problem));
        }
        (Err(Absent { fix, why }), CgroupPlace::Auto | CgroupPlace::None) => {
            tracing::debug!(fix, "runs have no cgroups: {why}");
        }
    }
    Ok(started)
}

/// Returns how the operator allows commands.
pub fn operator(config: &Config, environment: &ProcessEnv) -> ConsentRule {
    ConsentRule::Operator(Operator {
        accept_all: environment.accept_hooks,
        allowlist: config.allowlist(),
        own: own_settings(config, environment),
        references: config.references.clone(),
        wait: config.consent.wait.0,
    })
}

/// Returns runtimes' own settings for commands.
fn own_settings(config: &Config, environment: &ProcessEnv) -> BTreeMap<&'static str, OwnSettings> {
    let contracts = Mode::contracts(|mode| mode.facts().own_consent.is_some()).into_iter();
    let settings = |contract| OwnSettings {
        accept_all: environment.own_accepts.contains(contract),
        allowlist: config.own_allowlists.get(contract).cloned(),
    };
    contracts
        .map(|contract| (contract, settings(contract)))
        .collect()
}

/// Returns the file of a configuration, for messages to those who have to change it.
fn configuration(config: &Config) -> Configuration {
    let usual = UserPaths::read().config_file();
    Configuration {
        is_named: config.file.is_some() && config.file != usual,
        // As it is found from anywhere.
        path: (config.file.clone().or(usual)).map(|path| absolute(&path).unwrap_or(path)),
    }
}

/// Returns whether only root can change a directory of profiles and each profile in it.
fn is_roots(directory: &Path) -> bool {
    let is_profile = |path: &PathBuf| path.extension().is_some_and(|it| it == "toml");
    let entries = fs::read_dir(directory).and_then(|entries| {
        let paths = entries.map(|entry| Ok(entry?.path()));
        paths.collect::<io::Result<Vec<_>>>()
    });
    roots_alone(directory).is_some()
        && entries.is_ok_and(|paths| {
            let mut profiles = paths.iter().filter(|path| is_profile(path));
            profiles.all(|path| roots_alone(path).is_some())
        })
}

/// Returns the daemon's own places, which no hook may reach.
pub fn own_places(config: &Config) -> Vec<PathBuf> {
    let directories = [&config.paths.state, &config.paths.runtime]
        .into_iter()
        .cloned();
    directories
        .chain(config.server.admin_socket.clone())
        .chain(config.server.socket.clone())
        .chain(config.file.clone())
        .chain(config.listener.as_ref().and_then(Network::key).cloned())
        .chain(config.own_allowlists.values().cloned())
        .chain(config.profiles.dirs().iter().cloned())
        .collect()
}

/// Creates the directory of `${cache}` if it is missing.
///
/// If that fails, grants in it cannot be opened, and runs with such grants are refused.
pub(super) fn make_cache(path: Option<&Path>) {
    let Some(path) = path.filter(|path| !path.exists()) else {
        return;
    };
    let made = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    if let Err(error) = made {
        tracing::warn!(%error, path = %path.display(), "the cache of hooks cannot be made");
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hookjail_base::model::ProfileName;
    use hookjail_journal::append::Settings;

    use super::*;
    use hookjail_policy::References;

    #[test]
    fn a_limit_below_the_journals_files_is_named_with_both_numbers() {
        let settings = Settings::default();
        // One more end than there are hooks, and 64 KiB.
        let needed = (64 << 20) + (64 << 10) + 257 * (8 << 10);
        assert_eq!(settings.file_bytes(256), needed);
        assert_eq!(check_file_size(needed, needed), Ok(()));
        assert_eq!(check_file_size(u64::MAX, needed), Ok(()));
        assert_eq!(check_file_size(0, needed), Ok(()));
        let why = check_file_size(needed - 1, needed).unwrap_err();
        for part in [
            &(needed - 1).to_string(),
            &needed.to_string(),
            "audit.rotate_bytes",
        ] {
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn the_listener_for_metrics_takes_nothing_from_hooks() {
        takes_nothing_from_hooks("[metrics]\nlisten = \"[::1]:9464\"", 21);
    }

    #[test]
    fn the_exporter_of_traces_takes_nothing_from_hooks() {
        takes_nothing_from_hooks("[traces]\nendpoint = \"http://[::1]:4317\"", 5);
    }

    /// Checks that descriptors for what a configuration adds are set aside.
    fn takes_nothing_from_hooks(text: &str, expected: usize) {
        let config = |text| {
            let environment = ProcessEnv {
                paths: UserPaths {
                    home: Some("/home/u".into()),
                    ..UserPaths::default()
                },
                ..ProcessEnv::default()
            };
            Config::parse(text, &environment).unwrap()
        };
        let (without, with) = (config(""), config(text));
        let more = own_descriptors(&with) - own_descriptors(&without);
        assert_eq!(more, expected);
        for descriptors in 0..5000 {
            let before = Capacity::within(descriptors, &without);
            let after = Capacity::within(descriptors + more, &with);
            assert_eq!(after, before.map_err(|least| least + more), "{descriptors}");
        }
    }

    #[test]
    fn hooks_and_connections_fit_the_descriptors() {
        let config = Config::parse(
            "",
            &ProcessEnv {
                paths: UserPaths {
                    home: Some("/home/u".into()),
                    ..UserPaths::default()
                },
                ..ProcessEnv::default()
            },
        )
        .unwrap();
        let room = |descriptors| {
            let room = Capacity::within(descriptors, &config);
            room.map(|room| (room.hooks, room.connections))
        };
        assert_eq!(room(65_536), Ok((256, 4096)));
        assert_eq!(room(4096), Ok((214, 1000)));
        assert_eq!(room(1024), Ok((49, 232)));
        assert_eq!(room(256), Ok((8, 40)));
        assert_eq!(room(120), Ok((1, 6)));
        for too_few in [0, 96, 99, 110] {
            assert_eq!(room(too_few), Err(114), "{too_few}");
        }
        for descriptors in 114..5000 {
            let Ok((hooks, connections)) = room(descriptors) else {
                continue;
            };
            let taken = OWN_DESCRIPTORS + hooks * HOOK_DESCRIPTORS + connections;
            assert!(taken <= descriptors, "{descriptors}");
        }
    }

    #[test]
    fn what_every_runtime_obeys_stays_unchanged_under_the_profiles_that_write_a_workspace() {
        // Files that editors, shells and tools around git run by themselves.
        const OTHERS: [&str; 6] = [
            ".devcontainer/",
            ".devcontainer.json",
            ".envrc",
            ".husky/",
            ".idea/",
            ".vscode/",
        ];
        let registry = Registry::load(&[], &[], &References::default()).unwrap();
        let mut obeyed = contract::adopt::obeyed();
        obeyed.extend(OTHERS);
        let obeyed: Vec<_> = (obeyed.iter())
            .map(|path| format!("${{workspace}}/{path}"))
            .collect();
        for name in ["workspace-rw", "worktree", "develop", "develop-online"] {
            let name = ProfileName::parse(name).unwrap();
            let unchanged = registry.find(&name).unwrap().files.unchanged.iter();
            let mut unchanged: Vec<_> = unchanged.map(ToString::to_string).collect();
            unchanged.sort();
            assert_eq!(unchanged, obeyed, "{name}");
        }
    }

    #[test]
    fn no_directory_that_stays_unchanged_is_a_workspace_or_holds_one() {
        let registry = Registry::load(&[], &[], &References::default()).unwrap();
        let roots = WorkspaceRoots {
            named: vec!["/srv".into()],
            ..WorkspaceRoots::default()
        };
        let roots = roots.excluding([&registry], contract::adopt::directories());
        let name = ProfileName::parse("workspace-rw").unwrap();
        let unchanged = &registry.find(&name).unwrap().files.unchanged;
        for kept in unchanged {
            let mut names = kept.below.iter();
            let first = Path::new("/srv/p").join(names.next().unwrap());
            let is_in_directory = kept.directory || names.next().is_some();
            assert_eq!(roots.admit(&first).is_err(), is_in_directory, "{kept}");
            assert_eq!(
                roots.admit(&first.join("x")).is_err(),
                is_in_directory,
                "{kept}"
            );
        }
        assert_eq!(roots.admit(Path::new("/srv/p/.private/x")), Ok(()));
    }
}
