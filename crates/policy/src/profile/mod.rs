//! Profile files: format, inheritance, and the rules for a resolved profile.
//!
//! A file starts from its parent: a single value replaces the parent's; lists add to the parent's. A grant on a path that
//! the parent also grants replaces that grant. This module only handles text; [`super::registry`] reads directories.

pub(super) mod grants;
pub(crate) mod references;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use hookjail_base::{
    model::{
        OnOutputLimit, ProfileName,
        axis::{Axes, Axis, Demand},
        variable,
    },
    util::{
        keyed_toml::{self, KeyedTomlError},
        units::{OptionalCpus, OptionalSize, Size, Span},
    },
};

use crate::{
    egress::Egress,
    requests::{self, RequestRule},
};

use self::{
    grants::{FilesSection, absolute},
    references::References,
};
use super::{
    EgressRules, Environment, GrantPlace, GrantedBy, HookView, HostSource, Limits, Metadata,
    Network, Policy, ScratchLimits, Spawn, StateScope, Time, WorkingDir,
};

/// A profile file, as written. One that extends nothing must have every key that has no default.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Profile of hookjail")]
pub struct ProfileFile {
    /// Purpose of the profile, in one line.
    description: String,
    /// Hosts with ports that a hook can reach, with `network = "named"` alone: at most 512, such as `example.org:443` (TLS),
    /// `*.example.org:443`, `127.0.0.1:4318 http`, `git.example.org:22 any`. Lists of parents add up. Default: none.
    // Left out where it is empty, so that the digests of profiles without it stay the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    egress: Vec<Egress>,
    /// Name of the profile to start from, or a list of it and of parts that are added. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    extends: Option<Extends>,
    /// Whether the file is a part, not a profile. Default: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    part: bool,
    /// Requests that can name the profile.
    granted_by: Option<GrantedBy>,
    /// Whether modes, owners, times and extended attributes can be changed: in containers of grants, elsewhere of all files of
    /// the hook's user.
    metadata: Option<Metadata>,
    /// Network access of a hook.
    network: Option<Network>,
    /// Whether notices are shown for which the hook's programs ask: `notify-send` and players of sounds. Takes `view = "own"`.
    /// Default: `false`.
    // Left out where it is false, so that profiles without it keep their digests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notify: Option<bool>,
    /// Processes and threads that a hook may start. `execve` in place is always allowed.
    spawn: Option<Spawn>,
    /// Hooks that share files that last, of one caller and profile. Takes `view = "own"`. Default: none.
    // Left out where there is none, so that profiles without it keep their digests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<StateScope>,
    /// Requests that the daemon makes by TLS in a hook's place, with secrets that the hook does not have; with `network =
    /// "named"` alone. Lists of parents add up. Default: none.
    // Left out where it is empty, so that the digests of profiles without it stay the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    requests: Vec<RequestRule>,
    /// File system and processes that a hook sees. Default: `"machine"`.
    // Left out where it is the machine's, so that profiles without it keep their digests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    view: Option<HookView>,
    /// Number of interpreters, started and confined ahead, that wait for the next runs of each bash, Python or Node.js command:
    /// 0 to 8. Default: `0`; shipped profiles have 1.
    // Left out where it is 0, so that the digests of profiles without it stay the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    warm: Option<u32>,
    /// Working directory at the start, unless the request names one. `"workspace"` needs an unconditional grant of
    /// `${workspace}`.
    working_dir: Option<WorkingDir>,
    /// Axes that must be enforced, and axes that are only reported.
    #[serde(default)]
    axes: AxesSection,
    /// Environment variables.
    #[serde(default)]
    environment: EnvironmentSection,
    /// Grants of files.
    #[serde(default)]
    files: FilesSection,
    /// Resource limits.
    #[serde(default)]
    limits: LimitsSection,
    /// Treatment of a hook's output, on its way to the caller.
    // Left out where it is empty, so that the digests of profiles without it stay the same.
    #[serde(default, skip_serializing_if = "OutputSection::is_silent")]
    output: OutputSection,
    /// Limits of wall time.
    #[serde(default)]
    time: TimeSection,
}

impl ProfileFile {
    /// Returns the schema of a profile file.
    pub fn schema(generator: SchemaGenerator) -> Schema {
        generator.into_root_schema_for::<Self>()
    }

    /// Reads the text of a profile file.
    ///
    /// # Errors
    ///
    /// Fails if the text is not TOML, a key is unknown or has an invalid value, a list names something twice, or a part
    /// extends something.
    pub fn parse(text: &str) -> Result<Self, ProfileCause> {
        let file: Self = keyed_toml::read(text).map_err(|error| match error {
            KeyedTomlError::Key { key, source } => ProfileCause::Key {
                key,
                source: Box::new(source),
            },
            KeyedTomlError::Syntax(error) => ProfileCause::Syntax(Box::new(error)),
        })?;
        file.axes.check()?;
        file.files.check()?;
        if file.part && file.extends.is_some() {
            return Err(broken(
                "extends",
                "stands in a part, which is put on top of any profile that names it; leave it out",
            ));
        }
        once("extends", file.extends().iter().cloned())?;
        Ok(file)
    }

    /// Returns the names under `extends`: a profile, and parts.
    pub(super) fn extends(&self) -> &[String] {
        match &self.extends {
            None => &[],
            Some(Extends::One(name)) => std::slice::from_ref(name),
            Some(Extends::Several(names)) => names,
        }
    }

    /// Returns whether it is a part, and no profile by itself.
    pub(super) const fn is_part(&self) -> bool {
        self.part
    }

    /// Returns the paths of the system's grants that a host may lack.
    pub(super) fn optional_system(&self, references: &References) -> Vec<GrantPlace> {
        self.files.optional_system(references)
    }

    /// Puts this file on top of its parent.
    pub(super) fn with_parent(self, parent: Self) -> Self {
        Self {
            axes: self.axes.with_parent(parent.axes),
            description: self.description,
            egress: [parent.egress, self.egress].concat(),
            environment: self.environment.with_parent(parent.environment),
            extends: None,
            files: self.files.with_parent(parent.files),
            granted_by: self.granted_by.or(parent.granted_by),
            limits: self.limits.with_parent(parent.limits),
            metadata: self.metadata.or(parent.metadata),
            network: self.network.or(parent.network),
            notify: self.notify.or(parent.notify),
            output: OutputSection {
                redact: self.output.redact.or(parent.output.redact),
            },
            part: false,
            requests: [parent.requests, self.requests].concat(),
            spawn: self.spawn.or(parent.spawn),
            state: self.state.or(parent.state),
            time: self.time.with_parent(parent.time),
            view: self.view.or(parent.view),
            warm: self.warm.or(parent.warm),
            working_dir: self.working_dir.or(parent.working_dir),
        }
    }

    /// Resolves the policy, and checks that every key is present and every rule kept.
    pub(super) fn resolve(
        mut self,
        name: ProfileName,
        references: &References,
    ) -> Result<Policy, ProfileCause> {
        let description = match self.description.trim() {
            "" => {
                return Err(broken(
                    "description",
                    "is blank; write in one line what the profile is for",
                ));
            }
            text if text.contains(char::is_control) => {
                return Err(broken(
                    "description",
                    "has more than one line; keep it to one",
                ));
            }
            text => text.to_owned(),
        };
        let demands = self.axes.resolve()?;
        let metadata = self.metadata.ok_or(ProfileCause::Missing("metadata"))?;
        let network = self.network.ok_or(ProfileCause::Missing("network"))?;
        let egress = egress_rules(self.egress, self.requests, network, &self.limits)?;
        for (name, url) in egress.requests.iter().filter_map(RequestRule::stand_in) {
            let before = self.environment.set.insert(name.to_owned(), url.clone());
            if before.is_some_and(|before| before != url) {
                let rule = format!(
                    "names `{name}`, which has another value by `environment.set` or another entry; keep one"
                );
                return Err(broken("requests.variable", rule));
            }
        }
        let mut policy = Policy {
            demands,
            description,
            digest: String::new(),
            egress: Arc::new(egress),
            environment: Arc::new(self.environment.resolve(references, self.network)?),
            files: self.files.resolve(references, self.network)?,
            granted_by: self.granted_by.ok_or(ProfileCause::Missing("granted_by"))?,
            limits: self.limits.resolve()?,
            line: [name.clone()].into(),
            metadata,
            name,
            network,
            notify: self.notify.unwrap_or(false),
            redact_output: self.output.redact.unwrap_or(false),
            spawn: self.spawn.ok_or(ProfileCause::Missing("spawn"))?,
            state: self.state,
            time: self.time.resolve()?,
            umask: metadata.umask(None),
            view: self.view.unwrap_or_default(),
            warm: self.warm.unwrap_or(0),
            working_dir: self
                .working_dir
                .ok_or(ProfileCause::Missing("working_dir"))?,
        };
        if policy.warm > MOST_WARM {
            let rule = format!("is {}; set 0 to {MOST_WARM}", policy.warm);
            return Err(broken("warm", rule));
        }
        let mut requests = policy.egress.requests.iter();
        if policy.granted_by != GrantedBy::Operator && requests.any(|it| it.secret.is_some()) {
            let rule =
                "is \"anyone\", and `requests` sends a secret; set `granted_by = \"operator\"`";
            return Err(broken("granted_by", rule));
        }
        if policy.state.is_some() && policy.view != HookView::Own {
            let rule = "is set, and files of hooks are shown by views alone; set `view = \"own\"`";
            return Err(broken("state", rule));
        }
        if policy.notify && policy.view != HookView::Own {
            let rule = "is true, and notices are taken in views alone; set `view = \"own\"`";
            return Err(broken("notify", rule));
        }
        if policy.working_dir == WorkingDir::Workspace && !policy.files.grant_workspace() {
            let rule = "is \"workspace\", which no grant covers for every request; grant `${workspace}` in `files.named` \
                        without `if_bound`";
            return Err(broken("working_dir", rule));
        }
        policy.digest = Self::from(&policy).digest();
        Ok(policy)
    }

    /// Hashes everything but the description as JSON. Why not as TOML: its form changes with the writer's version.
    fn digest(mut self) -> String {
        self.description.clear();
        let canonical = serde_json::to_vec(&self)
            .expect("strings, integers, lists and string-keyed maps are JSON");
        format!("{:x}", Sha256::digest(canonical))
    }
}

impl From<&Policy> for ProfileFile {
    fn from(policy: &Policy) -> Self {
        let axes_with = |demand| {
            policy
                .demands
                .iter()
                .filter(move |(_, d)| **d == demand)
                .map(|(axis, _)| axis)
                .collect()
        };
        let path = |dir: &PathBuf| dir.display().to_string();
        let is_named = policy.network == Network::Named;
        Self {
            axes: AxesSection {
                required: axes_with(Demand::Required),
                wanted: axes_with(Demand::Wanted),
            },
            description: policy.description.clone(),
            egress: policy.egress.allowed.clone(),
            environment: EnvironmentSection {
                allow: policy.environment.allow.clone(),
                caller_path: policy.environment.caller_path.then_some(true),
                home: policy.environment.home.is_some().then_some(Home::User),
                path: policy.environment.path.iter().map(path).collect(),
                set: policy.environment.set.clone(),
                unset: Vec::new(),
                without_network: BTreeMap::new(),
            },
            extends: None,
            files: FilesSection::spelled(&policy.files, policy.network),
            granted_by: Some(policy.granted_by),
            limits: LimitsSection {
                address_space: Some(OptionalSize::from_bytes(policy.limits.address_space)),
                cpus: policy.limits.cpus.map(|cpus| OptionalCpus(Some(cpus))),
                egress_bytes: is_named.then(|| OptionalSize::from_bytes(policy.egress.bytes)),
                egress_connections: is_named.then_some(policy.egress.connections),
                file_size: Some(Size(policy.limits.file_size)),
                memory: Some(OptionalSize::from_bytes(policy.limits.memory)),
                on_limit: Some(policy.limits.on_output_limit),
                open_files: Some(policy.limits.open_files),
                output: Some(Size(policy.limits.output_bytes)),
                scratch: (policy.limits.scratch).map(|limits| OptionalSize::At(Size(limits.bytes))),
                scratch_files: policy.limits.scratch.map(|limits| limits.files),
                tasks: Some(policy.limits.tasks),
            },
            metadata: Some(policy.metadata),
            network: Some(policy.network),
            notify: policy.notify.then_some(true),
            output: OutputSection {
                redact: policy.redact_output.then_some(true),
            },
            part: false,
            requests: policy.egress.requests.clone(),
            spawn: Some(policy.spawn),
            state: policy.state,
            time: TimeSection {
                default: Some(Span(policy.time.default)),
                maximum: Some(Span(policy.time.maximum)),
            },
            view: (policy.view != HookView::default()).then_some(policy.view),
            warm: (policy.warm > 0).then_some(policy.warm),
            working_dir: Some(policy.working_dir),
        }
    }
}

impl Policy {
    /// Resolves the text of a profile that extends nothing, as [`Policy::to_toml`] writes it.
    ///
    /// # Errors
    ///
    /// Fails if the text is no whole profile.
    pub fn read(
        name: ProfileName,
        text: &str,
        references: &References,
    ) -> Result<Self, ProfileCause> {
        ProfileFile::parse(text)?.resolve(name, references)
    }

    /// Returns the resolved profile as the text of a profile file that extends nothing.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(&ProfileFile::from(self))
            .expect("strings, integers, lists and string-keyed maps are TOML")
    }
}

/// Reason why a profile cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ProfileCause {
    /// A read-only grant lies below a writable one.
    #[error(
        "`files` grants `{inner}` read-only below the writable `{outer}`, which allows writing it; leave one of them \
         out or move it"
    )]
    BelowWritable {
        /// The read-only grant.
        inner: String,
        /// The writable one.
        outer: String,
    },
    /// A name under `extends` is that of a file that cannot be loaded.
    #[error("`extends` names `{name}`, which cannot be loaded ({why})")]
    BrokenParent {
        /// The name.
        name: String,
        /// File and cause.
        why: String,
    },
    /// A profile extends itself.
    #[error(
        "`extends` goes round in a circle ({0}); let one of them extend nothing or another profile"
    )]
    Circle(String),
    /// A grant reaches a path of the daemon's own.
    #[error(
        "`files` grants `{grant}`, which reaches the daemon's own `{forbidden}`; grant something beside it"
    )]
    Forbidden {
        /// The daemon's path.
        forbidden: PathBuf,
        /// The granted path.
        grant: PathBuf,
    },
    /// A file or directory that others than root and the daemon's user can change.
    #[error("{0}")]
    Insecure(&'static str),
    /// A key is unknown or its value is invalid.
    #[error("`{key}` cannot be read")]
    Key {
        /// The path of the key.
        key: String,
        /// The problem.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Neither the file nor what it extends has a key.
    #[error("`{0}` is missing; set it here or extend a profile that has it")]
    Missing(&'static str),
    /// A file whose name is no profile name.
    #[error(
        "the file's name is no profile name: 1 to 64 of `a-z 0-9 - _`, starting with a letter, then `.toml`"
    )]
    Name,
    /// A value breaks a rule.
    #[error("`{key}` {rule}")]
    Rule {
        /// The path of the key.
        key: String,
        /// The rule, and a valid value.
        rule: String,
    },
    /// The text is not TOML.
    #[error("the file is not TOML")]
    Syntax(#[source] Box<toml::de::Error>),
    /// A name under `extends` is a part instead of a profile, or the reverse.
    #[error("`extends` names `{name}`, which {problem}")]
    Parent {
        /// The name.
        name: String,
        /// The problem.
        problem: &'static str,
    },
    /// The parent does not exist.
    #[error(
        "`extends` names `{0}`, and no profile has that name; `hookjail profile list` shows those there are"
    )]
    UnknownParent(String),
    /// The file cannot be read.
    #[error("the file cannot be read")]
    Unreadable(#[from] std::io::Error),
}

impl ProfileCause {
    /// Returns what the cause's own words leave open, in one line without text of the file.
    pub(super) fn detail(&self) -> Option<String> {
        let text = match self {
            Self::Key { source, .. } => source.to_string(),
            Self::Syntax(error) => error.message().to_owned(),
            Self::Unreadable(error) => error.to_string(),
            Self::BelowWritable { .. }
            | Self::BrokenParent { .. }
            | Self::Circle(_)
            | Self::Forbidden { .. }
            | Self::Insecure(_)
            | Self::Missing(_)
            | Self::Name
            | Self::Parent { .. }
            | Self::Rule { .. }
            | Self::UnknownParent(_) => return None,
        };
        // The parser draws the line, and names the tables that hold it.
        let is_drawn = |line: &str| {
            line.is_empty()
                || line.starts_with("TOML parse error")
                || line.starts_with("in `")
                || line.contains(" |")
        };
        let cause = text.lines().find(|line| !is_drawn(line.trim_end()))?;
        Some(cause.replace('\0', ""))
    }

    /// Returns the line of a file's text, from 1, at which it stands.
    pub(super) fn line(&self, text: &str) -> Option<usize> {
        let with = |mark: &str| {
            let mut lines = text.lines();
            lines.position(|line| line.contains(mark))
        };
        let of_key = |key: &str| {
            let name = key.rsplit('.').next().unwrap_or(key);
            let name = name.split('[').next().filter(|name| !name.is_empty())?;
            let begins = |line: &str| line.trim_start().trim_start_matches('"').starts_with(name);
            let position = text.lines().position(begins);
            position.or_else(|| with(&format!("{name} =")))
        };
        let drawn = |text: &str| {
            let after = text.split("TOML parse error at line ").nth(1)?;
            after.split(',').next()?.parse::<usize>().ok()
        };
        let index = match self {
            Self::BelowWritable { inner, .. } => with(inner),
            Self::BrokenParent { .. }
            | Self::Circle(_)
            | Self::Parent { .. }
            | Self::UnknownParent(_) => of_key("extends"),
            Self::Forbidden { grant, .. } => with(&grant.to_string_lossy()),
            Self::Key { key, source } => {
                let drawn = drawn(&source.to_string());
                of_key(key).or_else(|| drawn?.checked_sub(1))
            }
            Self::Rule { key, .. } => of_key(key),
            Self::Syntax(error) => drawn(&error.to_string())?.checked_sub(1),
            Self::Insecure(_) | Self::Missing(_) | Self::Name | Self::Unreadable(_) => None,
        };
        index.map(|index| index + 1)
    }
}

/// The base of a profile.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(untagged)]
enum Extends {
    /// A profile.
    One(String),
    /// A profile, and then parts.
    Several(Vec<String>),
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
struct AxesSection {
    /// Axes without which a run is refused.
    required: Vec<Axis>,
    /// Axes whose absence is reported. Both lists together name all fourteen.
    wanted: Vec<Axis>,
}

impl AxesSection {
    fn check(&self) -> Result<(), ProfileCause> {
        once(
            "axes",
            self.required
                .iter()
                .chain(&self.wanted)
                .map(|axis| axis.name().to_owned()),
        )
    }

    /// Removes from the parent's list each axis that a child names.
    fn with_parent(mut self, parent: Self) -> Self {
        let mine: BTreeSet<Axis> = self.required.iter().chain(&self.wanted).copied().collect();
        self.required.extend(
            parent
                .required
                .into_iter()
                .filter(|axis| !mine.contains(axis)),
        );
        self.wanted.extend(
            parent
                .wanted
                .into_iter()
                .filter(|axis| !mine.contains(axis)),
        );
        self
    }

    fn resolve(self) -> Result<Axes<Demand>, ProfileCause> {
        if let Some(axis) = Axis::ALL
            .into_iter()
            .find(|axis| !self.required.contains(axis) && !self.wanted.contains(axis))
        {
            return Err(broken(
                "axes",
                format!("does not name `{axis}`; put it under `required` or `wanted`"),
            ));
        }
        let demand = |axis| {
            if self.required.contains(&axis) {
                Demand::Required
            } else {
                Demand::Wanted
            }
        };
        Ok(Axes::from_fn(demand))
    }
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
struct EnvironmentSection {
    /// Variables that a request may set: names, or prefixes and `*`.
    allow: Vec<String>,
    /// Whether a request may set `PATH`. Its directories that lie in grants to execute come before the profile's, and any that
    /// would replace an interpreter last. Default: `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    caller_path: Option<bool>,
    /// Value of `HOME`. Default: `"scratch"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    home: Option<Home>,
    /// `PATH`, and the search path for programs without a slash: at least one directory, absolute, or below `${home}` or
    /// `${cache}`.
    path: Vec<String>,
    /// Variables that the profile sets. A value may begin with `${home}` or `${cache}`.
    set: BTreeMap<String, String>,
    /// Inherited variables that this profile does not set. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unset: Vec<String>,
    /// Variables that the profile sets where `network` is `"none"`, unless `environment.set` has them. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    without_network: BTreeMap<String, String>,
}

/// The value of `HOME`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Home {
    /// The scratch directory.
    Scratch,
    /// `${home}`, of which this grants no file; the scratch directory where hooks have users of their own.
    User,
}

impl EnvironmentSection {
    fn with_parent(self, mut parent: Self) -> Self {
        parent.allow.extend(self.allow);
        parent.caller_path = self.caller_path.or(parent.caller_path);
        parent.home = self.home.or(parent.home);
        parent.path.extend(self.path);
        for (set, added) in [
            (&mut parent.set, self.set),
            (&mut parent.without_network, self.without_network),
        ] {
            set.retain(|name, _| !self.unset.contains(name));
            set.extend(added);
        }
        parent
    }

    fn resolve(
        mut self,
        references: &References,
        network: Option<Network>,
    ) -> Result<Environment, ProfileCause> {
        if network == Some(Network::None) {
            for (name, value) in self.without_network {
                self.set.entry(name).or_insert(value);
            }
        }
        if network == Some(Network::Named) {
            // Names are resolved by TCP, as they are written.
            let options = "use-vc ndots:0".to_owned();
            self.set.entry("RES_OPTIONS".to_owned()).or_insert(options);
        }
        for pattern in &self.allow {
            let stem = pattern.strip_suffix('*').unwrap_or(pattern);
            if !variable::is_name(stem) {
                let rule = format!(
                    "has `{pattern}`, which is neither a name (`[A-Za-z_][A-Za-z0-9_]*`) nor the start of one and `*`"
                );
                return Err(broken("environment.allow", rule));
            }
            // A shorter prefix such as `G*` is accepted: variables that it must not open are refused one by one.
            if variable::is_closed_to_requests(stem) {
                let rule = format!(
                    "has `{pattern}`, which no profile can open to requests; leave it out, or give it a value in `environment.set`"
                );
                return Err(broken("environment.allow", rule));
            }
        }
        for (name, value) in &self.set {
            let key = || format!("environment.set.{name}");
            if !variable::is_name(name) {
                return Err(broken(key(), "is not a name (`[A-Za-z_][A-Za-z0-9_]*`)"));
            }
            if variable::is_closed(name) {
                return Err(broken(
                    key(),
                    "is not for profiles to set, as it decides what code is loaded, or the daemon sets it",
                ));
            }
            if value.contains('\0') {
                return Err(broken(key(), "contains a NUL byte"));
            }
        }
        let mut path: Vec<PathBuf> = Vec::new();
        for dir in self.path.iter().filter_map(|dir| references.bind(dir)) {
            let dir = absolute(&dir).map_err(|rule| broken("environment.path", rule))?;
            if dir.as_os_str().as_encoded_bytes().contains(&b':') {
                let rule = format!(
                    "has `{}`, whose `:` would make two entries of it",
                    dir.display()
                );
                return Err(broken("environment.path", rule));
            }
            if !path.contains(&dir) {
                path.push(dir);
            }
        }
        if path.is_empty() {
            return Err(broken(
                "environment.path",
                "is empty; add a directory with programs, `/usr/bin` for example",
            ));
        }
        self.allow.sort();
        self.allow.dedup();
        let set = self.set.into_iter();
        let set = set.filter_map(|(name, value)| Some((name, references.bind(&value)?)));
        let home = self.home.filter(|home| *home == Home::User);
        Ok(Environment {
            allow: self.allow,
            caller_path: self.caller_path.unwrap_or(false),
            home: home.and(references.home.clone()),
            path,
            set: set.collect(),
        })
    }
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
struct LimitsSection {
    /// `RLIMIT_AS`: a size, or `"none"`.
    address_space: Option<OptionalSize>,
    /// Processor time of a run with a cgroup: a number of processors from 0.01 to 1000, or `"none"`. Default: `"none"`.
    // Left out where it is empty, so that the digests of profiles without it stay the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus: Option<OptionalCpus>,
    /// Bytes that a run sends to the hosts of `egress`, all connections together: a size, or `"none"`. Default: `"none"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    egress_bytes: Option<OptionalSize>,
    /// Connections of a run to the hosts of `egress`: 1 to 4096. Default: `256`.
    #[serde(skip_serializing_if = "Option::is_none")]
    egress_connections: Option<u32>,
    /// `RLIMIT_FSIZE`: a size.
    file_size: Option<Size>,
    /// Memory of a run with a cgroup, files in memory included: a size of at least 16MiB, or `"none"`. More ends the run
    /// (`OUT_OF_MEMORY`).
    memory: Option<OptionalSize>,
    /// Treatment of a hook that prints more than `limits.output`.
    on_limit: Option<OnOutputLimit>,
    /// `RLIMIT_NOFILE`, at least 16.
    open_files: Option<u64>,
    /// Size of the kept output, of each stream.
    output: Option<Size>,
    /// Size of all files in the scratch directory together: 64KiB to 1024GiB, or `"none"`. With a size the directory is a file
    /// system in memory. Default: `"none"`, and in containers `limits.file_size`, at most 1GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    scratch: Option<OptionalSize>,
    /// Number of files, directories and links in the scratch directory, each name of a file counted: at least 1. With
    /// `limits.scratch` alone. Default: one for each 4KiB of the size.
    #[serde(skip_serializing_if = "Option::is_none")]
    scratch_files: Option<u64>,
    /// `RLIMIT_NPROC` under a root daemon whose hooks have uids of their own, and the limit of the cgroup, with one: at least
    /// 1.
    tasks: Option<u64>,
}

impl LimitsSection {
    fn with_parent(self, parent: Self) -> Self {
        Self {
            address_space: self.address_space.or(parent.address_space),
            cpus: self.cpus.or(parent.cpus),
            egress_bytes: self.egress_bytes.or(parent.egress_bytes),
            egress_connections: self.egress_connections.or(parent.egress_connections),
            file_size: self.file_size.or(parent.file_size),
            memory: self.memory.or(parent.memory),
            on_limit: self.on_limit.or(parent.on_limit),
            open_files: self.open_files.or(parent.open_files),
            output: self.output.or(parent.output),
            scratch: self.scratch.or(parent.scratch),
            scratch_files: self.scratch_files.or(parent.scratch_files),
            tasks: self.tasks.or(parent.tasks),
        }
    }

    fn resolve(self) -> Result<Limits, ProfileCause> {
        let limits = Limits {
            address_space: self
                .address_space
                .ok_or(ProfileCause::Missing("limits.address_space"))?
                .bytes(),
            cpus: self.cpus.and_then(|cpus| cpus.0),
            file_size: self
                .file_size
                .ok_or(ProfileCause::Missing("limits.file_size"))?
                .0,
            memory: self
                .memory
                .ok_or(ProfileCause::Missing("limits.memory"))?
                .bytes(),
            on_output_limit: self
                .on_limit
                .ok_or(ProfileCause::Missing("limits.on_limit"))?,
            open_files: self
                .open_files
                .ok_or(ProfileCause::Missing("limits.open_files"))?,
            output_bytes: self.output.ok_or(ProfileCause::Missing("limits.output"))?.0,
            scratch: scratch_limits(self.scratch, self.scratch_files)?,
            tasks: self.tasks.ok_or(ProfileCause::Missing("limits.tasks"))?,
        };
        if limits.open_files < MIN_OPEN_FILES {
            return Err(broken(
                "limits.open_files",
                format!("is below {MIN_OPEN_FILES}, with which no interpreter starts"),
            ));
        }
        if limits.tasks == 0 {
            return Err(broken("limits.tasks", "is 0, and the hook itself is one"));
        }
        if limits.address_space == Some(0) {
            return Err(broken(
                "limits.address_space",
                "is 0, with which nothing starts; use \"none\" for no limit",
            ));
        }
        if limits.memory.is_some_and(|bytes| bytes < MIN_MEMORY) {
            return Err(broken(
                "limits.memory",
                format!(
                    "is below {}, which a container needs before its hook begins; use \"none\" for no limit",
                    Size(MIN_MEMORY)
                ),
            ));
        }
        Ok(limits)
    }
}

/// Returns a policy with more hosts, whose names may resolve to the addresses of private networks.
pub(super) fn with_hosts(policy: &Policy, hosts: &[Egress]) -> Policy {
    let mut allowed = policy.egress.allowed.clone();
    allowed.retain(|rule| !rule.is_of_no_host());
    allowed.extend_from_slice(hosts);
    allowed.sort();
    allowed.dedup();
    let mut policy = Policy {
        egress: Arc::new(EgressRules {
            allowed,
            source: HostSource::HttpAllow,
            ..EgressRules::clone(&policy.egress)
        }),
        ..policy.clone()
    };
    policy.digest = ProfileFile::from(&policy).digest();
    policy
}

/// Returns the hosts of `egress` and the limits of connections. Without `network = "named"` there are none.
fn egress_rules(
    mut allowed: Vec<Egress>,
    mut requests: Vec<RequestRule>,
    network: Network,
    limits: &LimitsSection,
) -> Result<EgressRules, ProfileCause> {
    for rule in &requests {
        if let Some((key, problem)) = rule.problem() {
            return Err(broken(format!("requests.{key}"), problem));
        }
    }
    allowed.extend(requests.iter().map(RequestRule::egress));
    if network != Network::Named {
        return match allowed.is_empty() {
            true => Ok(EgressRules::default()),
            false => Err(broken(
                "egress",
                format!(
                    "names hosts, and `network` is \"{}\"; set `network = \"named\"`",
                    network.name()
                ),
            )),
        };
    }
    if allowed.is_empty() {
        let rule = "names no host, and `network` is \"named\"; name one, as \"example.org:443\", or set `network = \"none\"`";
        return Err(broken("egress", rule));
    }
    allowed.sort();
    allowed.dedup();
    for rule in &requests {
        if let Some(other) = requests::unlimited_rule(&allowed, rule) {
            let rule = format!(
                "has `{other}`, by which a hook would reach the host of `{rule}` without these limits; take one of them out"
            );
            return Err(broken("egress", rule));
        }
    }
    let mut known: Vec<RequestRule> = Vec::new();
    requests.retain(|rule| {
        let is_new = !known.contains(rule);
        if is_new {
            known.push(rule.clone());
        }
        is_new
    });
    if allowed.len() > MOST_EGRESS {
        let rule = format!("has {} rules; name at most {MOST_EGRESS}", allowed.len());
        return Err(broken("egress", rule));
    }
    let connections = limits
        .egress_connections
        .unwrap_or(EgressRules::default().connections);
    if !(1..=MOST_CONNECTIONS).contains(&connections) {
        let rule = format!("is {connections}; set 1 to {MOST_CONNECTIONS}");
        return Err(broken("limits.egress_connections", rule));
    }
    Ok(EgressRules {
        allowed,
        bytes: limits.egress_bytes.and_then(OptionalSize::bytes),
        connections,
        requests,
        source: HostSource::Profile,
        ways: Arc::default(),
    })
}

/// Returns the limits on a scratch directory, if there are any.
fn scratch_limits(
    size: Option<OptionalSize>,
    files: Option<u64>,
) -> Result<Option<ScratchLimits>, ProfileCause> {
    let bytes = match (size, files) {
        (Some(OptionalSize::At(Size(bytes))), _) => bytes,
        // Also switches off an inherited number of files.
        (Some(OptionalSize::None), _) | (None, None) => return Ok(None),
        (None, Some(_)) => {
            return Err(broken(
                "limits.scratch_files",
                "is set without `limits.scratch`, which makes the file system whose files it limits; set that too",
            ));
        }
    };
    let (least, most) = (ScratchLimits::MIN_BYTES, ScratchLimits::MAX_BYTES);
    if !(least..=most).contains(&bytes) {
        let rule = format!(
            "is not between {} and {}; use \"none\" for no limit",
            Size(least),
            Size(most)
        );
        return Err(broken("limits.scratch", rule));
    }
    let limits = ScratchLimits::of_size(bytes);
    let files = files.unwrap_or(limits.files);
    let most = ScratchLimits::MAX_FILES;
    if !(1..=most).contains(&files) {
        let rule = format!("is not between 1 and {most}");
        return Err(broken("limits.scratch_files", rule));
    }
    Ok(Some(ScratchLimits { files, ..limits }))
}

/// Treatment of a hook's output in replies.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
struct OutputSection {
    /// Whether registered secrets are redacted from replies. Default: `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    redact: Option<bool>,
}

impl OutputSection {
    const fn is_silent(&self) -> bool {
        self.redact.is_none()
    }
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
struct TimeSection {
    /// Time if unset in request and contract.
    default: Option<Span>,
    /// Maximum time; a request for more is refused.
    maximum: Option<Span>,
}

impl TimeSection {
    fn with_parent(self, parent: Self) -> Self {
        Self {
            default: self.default.or(parent.default),
            maximum: self.maximum.or(parent.maximum),
        }
    }

    fn resolve(self) -> Result<Time, ProfileCause> {
        let default = self.default.ok_or(ProfileCause::Missing("time.default"))?;
        let maximum = self.maximum.ok_or(ProfileCause::Missing("time.maximum"))?;
        if default.0.is_zero() {
            return Err(broken(
                "time.default",
                "is zero, with which every hook would time out",
            ));
        }
        if default.0 > maximum.0 {
            let rule = format!(
                "is {default}, more than `time.maximum` ({maximum}); lower the one or raise the other"
            );
            return Err(broken("time.default", rule));
        }
        Ok(Time {
            default: default.0,
            maximum: maximum.0,
        })
    }
}

fn once(key: &str, names: impl Iterator<Item = String>) -> Result<(), ProfileCause> {
    let mut seen = BTreeSet::new();
    for name in names {
        if seen.contains(&name) {
            return Err(broken(key, format!("names `{name}` twice; keep one")));
        }
        seen.insert(name);
    }
    Ok(())
}

fn broken(key: impl Into<String>, rule: impl Into<String>) -> ProfileCause {
    ProfileCause::Rule {
        key: key.into(),
        rule: rule.into(),
    }
}

const MIN_OPEN_FILES: u64 = 16;

/// The most rules of `egress`, and connections of a run.
const MOST_EGRESS: usize = 512;
const MOST_CONNECTIONS: u32 = 4096;

/// The most interpreters that wait for one command.
const MOST_WARM: u32 = 8;

/// The first process of a container counts as well. Of another hook, the kernel's memory counts until its program is executed.
/// Until then the hook shares the daemon's memory, and a process that is killed for lack of memory takes all with it that share
/// its memory.
const MIN_MEMORY: u64 = 16 * 1024 * 1024;
#[cfg(test)]
mod tests;
