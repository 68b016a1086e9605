//! Reloads the configuration of a running daemon, and reports its status.

use std::{
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime},
};

use tokio::sync::Mutex;

use hookjail_base::{
    model::ProfileName,
    refusal::{Fact, Reason, Refusal, chain},
    util::swap::Current,
};
use hookjail_contract::hook_file::Switches;
use hookjail_policy::Registry;

use super::{
    build::Assembly,
    manager::Manager,
    network,
    survey::{confirm_all, warn_of_none},
};
use crate::{
    config::{Config, ConfigSource},
    consent::allowlist::Allowlist,
    hooks::{self, HookList, Lists, Registered, load::Loaded, lookup, redirection},
    pipeline::Pipeline,
    wire::{Control, DaemonPlaces, DaemonReport, Reloaded},
};

/// The reload of a daemon's configuration, whole or not at all.
#[derive(Debug)]
pub(super) struct Reloader {
    pub(super) configured: Arc<Current<HookList>>,
    pub(super) source: ConfigSource,
    /// The configuration in force; locked while it is replaced.
    pub(super) in_force: Mutex<Config>,
    pub(super) loads: StdMutex<Loads>,
    pub(super) manager: Arc<Manager>,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) places: DaemonPlaces,
    pub(super) started: Instant,
}

/// When the configuration in force was loaded, and when and why none was since.
#[derive(Clone, Debug)]
pub(super) struct Loads {
    loaded: SystemTime,
    refused: Option<(SystemTime, String)>,
}

impl Loads {
    /// The configuration in force was loaded now.
    pub(super) fn now() -> Self {
        Self {
            loaded: SystemTime::now(),
            refused: None,
        }
    }
}

#[tonic::async_trait]
impl Control for Reloader {
    async fn reload(&self) -> Result<Reloaded, Refusal> {
        // One at a time, so that the manager gets each begin and end.
        let mut in_force = self.in_force.lock().await;
        self.manager.reloading();
        // Its numbers would come after those of this reload.
        self.pipeline.untested.ended().await;
        let reloaded = self.take_over(&mut in_force).await;
        let metrics = &self.pipeline.metrics;
        match &reloaded {
            Ok(all) => {
                metrics.loaded(self.pipeline.gate.rules().policy_version.as_deref());
                metrics.surveyed(all.profiles.len(), all.unconfirmed.len());
                *self.loads() = Loads::now();
            }
            Err(refusal) => {
                metrics.not_loaded();
                self.loads().refused = Some((SystemTime::now(), refusal.message.clone()));
            }
        }
        self.manager.serving();
        reloaded
    }

    fn report(&self) -> DaemonReport {
        let Loads { loaded, refused } = self.loads().clone();
        DaemonReport {
            loaded,
            places: self.places.clone(),
            refused,
            serving: self.manager.service(),
            started: self.started,
        }
    }
}

impl Reloader {
    fn loads(&self) -> MutexGuard<'_, Loads> {
        self.loads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take_over(&self, in_force: &mut Config) -> Result<Reloaded, Refusal> {
        let config = self.source.load().map_err(|error| refused(&error))?;
        let fixed = in_force
            .needs_restart(&config)
            .map_err(|error| refused(&error))?;
        if !fixed.is_empty() {
            let message = format!(
                "{} changed, which takes effect at a restart only; restart the daemon or change it back",
                fixed.join(", ")
            );
            return Err(
                Refusal::new(Reason::ReloadRefused, message).with(Fact::Keys(fixed.join(" ")))
            );
        }
        let rules = Assembly::rules(&config).map_err(|error| refused(&error))?;
        let served = self.pipeline.gate.rules();
        let is_served = |name: &str| {
            let name = ProfileName::parse(name);
            name.is_some_and(|name| served.registry.find(&name).is_some())
        };
        if let Some((_, why)) = rules.registry.broken().find(|(name, _)| is_served(name)) {
            let message = format!("a profile that is served cannot be loaded: {why}");
            return Err(Refusal::new(Reason::ReloadRefused, message));
        }
        let (configured, count) =
            registered(&config, &self.source.environment.switches, &rules.registry)
                .map_err(|error| refused(&error))?;
        let redaction = Assembly::redaction(&config).map_err(|error| refused(&error))?;
        Allowlist::load(&config.allowlist()).map_err(|error| refused(&error))?;
        let identities = config.listener.as_ref().map(network::identities);
        let identities = identities.transpose().map_err(|error| refused(&error))?;

        for policy in rules.registry.iter() {
            self.pipeline.sandbox.forget(&policy.digest);
        }
        let unconfirmed = confirm_all(&self.pipeline, rules.registry.shared()).await;
        if unconfirmed.len() == rules.registry.iter().count() {
            warn_of_none();
        }
        let profiles = rules.registry.iter().map(|policy| policy.name.clone());
        let reloaded = Reloaded {
            hooks: count,
            profiles: profiles.collect(),
            unconfirmed,
        };
        self.pipeline.audit.redaction().replace(redaction);
        // Rules before the hooks that need them: a hook that runs in between finds its rules in force.
        self.pipeline.gate.replace_rules(rules);
        self.configured.replace(configured);
        // Both are there or neither: `network.listen` is the same.
        if let (Some(place), Some(identities)) = (&self.places.network, identities) {
            place.identities.replace(identities);
        }
        *in_force = config;
        Ok(reloaded)
    }
}

/// Loads and counts the hooks of all points, and logs warnings about them.
pub(super) fn registered(
    config: &Config,
    switches: &Switches,
    profiles: &Registry,
) -> Result<(HookList, usize), hooks::load::LoadError> {
    let Loaded {
        disabled,
        hooks,
        mut warnings,
    } = config.all_hooks(switches)?;
    let lists = config.listing.load()?;
    warnings.extend(noteworthy(config, &hooks, &lists, profiles));
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    for disabled in &disabled {
        tracing::info!("no hooks: {disabled}");
    }
    let count = hooks.len();
    Ok((HookList::new(hooks, lists), count))
}

/// Returns warnings about hooks and lists that may behave unexpectedly.
pub fn noteworthy(
    config: &Config,
    hooks: &[Registered],
    lists: &Lists,
    profiles: &Registry,
) -> Vec<String> {
    let mut all = lists.warnings();
    all.extend(redirection::warnings(hooks, profiles));
    // Files in the container's root cannot be checked here.
    let container = config.container_runtime.as_ref();
    if container.is_none_or(|container| container.root.is_none()) {
        all.extend(lookup::missing(hooks, profiles, None));
    }
    all
}

fn refused(error: &dyn std::error::Error) -> Refusal {
    Refusal::new(
        Reason::ReloadRefused,
        format!(
            "the reload failed, and the configuration in force stays: {}",
            chain(error)
        ),
    )
}
