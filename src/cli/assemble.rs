//! Builds a daemon's pipeline from its configuration: the same for `serve`, `run` and `doctor`.

use std::{fs, io, path::PathBuf, sync::Arc};

use crate::{
    admission::{ConsentRule, Gate, GateParts, OperatorHook, allowlist::command_line},
    audit::{Audit, journal::Journal},
    config::Config,
    pipeline::Pipeline,
    policy::{Registry, forbidden::Forbidden},
    refusal::Refusal,
    sandbox::{
        Backend, BackendName, Identities, InstanceDir, Noop, Sandbox, SandboxParts, linux::Landlock,
    },
    sys::{self, Keeper},
};

/// What must be done before the first thread is started.
#[derive(Debug)]
pub struct Assembly {
    keeper: Arc<Keeper>,
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

impl Assembly {
    /// Prepares this process. To be called once, before any thread is started.
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
        // Kept across exec, so no hook's core image has anything in it, even where a piped handler ignores RLIMIT_CORE.
        fs::write("/proc/self/coredump_filter", "0")
            .map_err(AssemblyError::new("switch off core images"))?;
        sys::ignore_file_size_signal().map_err(AssemblyError::new("ignore SIGXFSZ"))?;
        sys::become_subreaper().map_err(AssemblyError::new("become the reaper of orphans"))?;
        let keeper = Keeper::start().map_err(AssemblyError::new("start the keeper"))?;
        Ok(Self {
            keeper: Arc::new(keeper),
        })
    }

    /// Builds what confines.
    ///
    /// # Errors
    ///
    /// Names the step that failed.
    pub fn sandbox(&self, config: &Config) -> Result<Sandbox, AssemblyError> {
        let root = nix::unistd::geteuid().is_root();
        let identities = root
            .then(|| Identities::new(config.uid_range.clone()).map(Arc::new))
            .transpose()
            .map_err(AssemblyError::new("prepare uids for hooks"))?;
        let instance = InstanceDir::create(&config.runtime, root).map_err(AssemblyError::new(
            format!("make a directory in `{}`", config.runtime.display()),
        ))?;
        let backends = config
            .backends
            .iter()
            .map(|name| -> Box<dyn Backend> {
                match name {
                    BackendName::Landlock => Box::new(Landlock::new(root)),
                    BackendName::Noop => Box::new(Noop),
                }
            })
            .collect();
        if config.backends.contains(&BackendName::Noop) {
            tracing::warn!("backend `noop` is configured: hooks that it runs are UNCONFINED");
        }
        Sandbox::new(SandboxParts {
            backends,
            identities,
            instance,
            keeper: Arc::clone(&self.keeper),
            spawners: config.spawners,
        })
        .map_err(AssemblyError::new("read this process's own status"))
    }

    /// Loads the profiles.
    ///
    /// # Errors
    ///
    /// Names the profile that cannot be loaded.
    pub fn registry(config: &Config) -> Result<Registry, AssemblyError> {
        Registry::load(&config.profile_dirs, &own(config))
            .map_err(AssemblyError::new("load the profiles"))
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
        let registry = Self::registry(config)?;
        let sandbox = self.sandbox(config)?;
        let journal = Journal::open(&config.journal())
            .map_err(AssemblyError::new("open the audit journal"))?;
        let hooks = config.hooks.iter().map(|hook| {
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
        let forbidden = Forbidden::locate(&own(config))
            .map_err(AssemblyError::new("locate the daemon's own directories"))?;
        let gate = Gate::new(GateParts {
            forbidden,
            allowed_uids: config.allowed_uids.clone(),
            consent,
            hooks: hooks.collect::<Result<_, AssemblyError>>()?,
            max_concurrent: config.max_concurrent,
            max_queued: config.max_queued,
            registry,
            workspace_roots: config.workspace_roots.clone(),
        });
        Ok(Pipeline {
            gate,
            audit: Audit::new(journal),
            sandbox,
        })
    }
}

/// Returns the daemon's own places, which no hook may reach.
fn own(config: &Config) -> Vec<PathBuf> {
    let directories = [&config.state, &config.runtime].into_iter().cloned();
    directories
        .chain(config.socket.clone())
        .chain(config.file.clone())
        .chain(config.profile_dirs.iter().cloned())
        .collect()
}

/// Has every profile confirmed. Returns those that are not, each with the reason.
pub(super) async fn confirm_all(pipeline: &Pipeline) -> Vec<(String, Refusal)> {
    let mut unconfirmed = Vec::new();
    for policy in pipeline.gate.registry().iter() {
        // The workspace's own grants differ with each request; the means that enforce them do not.
        if let Err(refusal) = pipeline.sandbox.select(policy, &policy.digest).await {
            unconfirmed.push((policy.name.to_string(), refusal));
        }
    }
    unconfirmed
}
