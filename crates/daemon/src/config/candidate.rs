//! A candidate for the administrator's files, compared with recorded runs.

use std::{collections::BTreeSet, ffi::OsString, net::IpAddr, path::Path};

use hookjail_base::model::{Command, Consent};
use hookjail_journal::record::{EgressLine, Ended, Started};
use hookjail_policy::egress::{HostName, rule_of_address, rule_of_name};

use super::{
    Config, ConfigError, ConfigProblem, ProcessEnv,
    managed::{Managed, Trust},
    read,
};

/// Files that could be the administrator's, with the configuration that they make.
#[derive(Debug)]
pub struct Candidate {
    config: Config,
    managed: Managed,
    /// The user who is served without being listed.
    own_uid: u32,
}

/// The keys by which runs are compared.
pub const COMPARED: [&str; 7] = [
    "profiles.allow",
    "backends.order",
    "egress.allow",
    "server.callers",
    "consent.accept_hooks",
    "consent.runtime",
    "hooks.event_max",
];

impl Candidate {
    /// Loads a file, or a directory with `managed.toml` and `managed.d`, over a configuration if one is named.
    ///
    /// # Errors
    ///
    /// Fails as in force: where others could change a file, a value is wrong, or the configuration is wider.
    pub fn load(
        path: &Path,
        configuration: Option<&Path>,
        environment: &ProcessEnv,
    ) -> Result<Self, ConfigError> {
        let failure = |path: &Path| {
            let path = path.to_owned();
            move |cause| ConfigError { path, cause }
        };
        let managed = if path.is_dir() {
            Managed::load(path, Trust::OwnOrRoot)?
        } else {
            Managed::load_one(path, Trust::OwnOrRoot)?
        };
        let managed = managed.ok_or_else(|| {
            let problem =
                "has neither `managed.toml` nor `managed.d`; name a file or another directory";
            failure(path)(ConfigProblem::Syntax(problem.to_owned()))
        })?;
        let text = configuration.map_or_else(|| Ok(String::new()), read);
        let made = text.and_then(|text| Config::narrowed(&text, Some(&managed), environment));
        let config = made.map_err(failure(configuration.unwrap_or(path)))?;
        Ok(Self {
            config,
            managed,
            own_uid: nix::unistd::geteuid().as_raw(),
        })
    }

    /// Returns the configuration.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Reads the profiles in a directory from another one, where a candidate's lie until it is in force.
    pub fn move_profiles(&mut self, former: &Path, new: &Path) {
        let dirs = self.config.sections.profiles.dirs.get_or_insert_default();
        match dirs.iter_mut().find(|directory| **directory == former) {
            Some(directory) => new.clone_into(directory),
            None if self.managed.file_of("profiles.dirs").is_none() => dirs.push(new.to_owned()),
            None => {}
        }
    }

    /// Returns what would have refused a recorded run, each with its key. Without an end only its start is compared.
    pub fn refusals(&self, started: &Started, ended: Option<&Ended>) -> BTreeSet<String> {
        let config = &self.config;
        let mut all = BTreeSet::new();
        let mut refuse = |key: &'static str, is_refused: bool, why: &str| {
            if is_refused && self.managed.file_of(key).is_some() {
                all.insert(format!("{key} {why}"));
            }
        };
        let profiles = config.profiles.allow.iter().flatten();
        let is_served = profiles
            .map(|it| it.as_str())
            .any(|it| it == started.profile);
        let lacks = |what: &str| format!("lacks {what}");
        refuse("profiles.allow", !is_served, &lacks(&started.profile));
        let mut order = config.backends.order.iter();
        let has_backend = order.any(|it| it.as_str() == started.backend);
        refuse("backends.order", !has_backend, &lacks(&started.backend));
        let callers = &config.callers;
        let uid = started.peer.uid;
        let may_call =
            uid == self.own_uid || callers.uids.contains(&uid) || callers.members.contains(&uid);
        refuse("server.callers", !may_call, &lacks(&format!("uid {uid}")));
        let accepts = config.consent.accept_hooks || started.consent != Consent::Environment;
        refuse("consent.accept_hooks", !accepts, "is false");
        let is_answer = matches!(
            started.consent,
            Consent::ListenerAlways | Consent::ListenerOnce
        );
        refuse(
            "consent.runtime",
            is_answer && !config.consent.runtime,
            "is false",
        );
        let most = config.hooks.event_bytes() as u64;
        refuse(
            "hooks.event_max",
            started.event_bytes > most,
            "is smaller than its event",
        );
        let connections = ended.iter().flat_map(|ended| &ended.egress);
        for line in connections.filter(|line| line.denied.is_none()) {
            let place = format!("{}:{}", line.host, line.port);
            refuse("egress.allow", !self.allows(line), &lacks(&place));
        }
        all
    }

    /// Returns whether `egress.allow` has the host of a connection.
    fn allows(&self, line: &EgressLine) -> bool {
        let Some(rules) = &self.config.egress.allow else {
            return true;
        };
        match line.host.parse::<IpAddr>() {
            Ok(address) => rule_of_address(rules, address, line.port).is_some(),
            Err(_) => HostName::parse(&line.host)
                .is_some_and(|name| rule_of_name(rules, &name, line.port).is_some()),
        }
    }

    /// Returns the version.
    pub fn version(&self) -> Option<&str> {
        self.config.policy_version.as_deref()
    }

    /// Returns the name, the profile and the command's words of each required hook.
    pub fn required(&self) -> impl Iterator<Item = (&str, &str, &[OsString])> {
        self.config.required.iter().map(|hook| {
            let words = match hook.action.command() {
                Some(Command::Argv(words)) => words.as_slice(),
                Some(Command::Line { .. }) | None => &[],
            };
            (hook.name.as_str(), hook.runs_under(), words)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hookjail_base::util::user_paths::UserPaths;
    use hookjail_journal::record::{Line, Record};

    use super::*;

    const STARTED: &str = r#"{"sequence": 1, "time": "2026-11-30T00:00:00Z", "instance": "i", "previous": "0", "hash": "0",
        "record": "started", "run_id": "r", "request_id": "q", "hook": "h", "command": {"argv": ["/bin/x"]}, "program": "/bin/x",
        "consent": "environment", "contract": "observe", "mode": "", "point": "", "session": "", "peer": {"uid": 4242},
        "profile": "develop-online", "profile_digest": "", "backend": "noop", "timeout_ms": 1, "event_sha256": "",
        "event_bytes": 2048}"#;

    const ENDED: &str = r#"{"sequence": 2, "time": "2026-11-30T00:00:01Z", "instance": "i", "previous": "0", "hash": "0",
        "record": "ended", "run_id": "r", "released": true, "outcome": "exited", "exit_code": 0,
        "stdout": {"total_bytes": 0, "truncated": false}, "stderr": {"total_bytes": 0, "truncated": false}, "confirmed": true,
        "egress": [
            {"host": "api.example.org", "port": 443, "sent_bytes": 1, "received_bytes": 1, "ms": 1},
            {"host": "other.example.org", "port": 443, "denied": "no rule", "sent_bytes": 0, "received_bytes": 0, "ms": 1}],
        "usage": {"queue_us": 0, "setup_us": 1, "run_us": 1, "wall_us": 1, "user_us": 1, "system_us": 0, "max_rss_bytes": 1}}"#;

    fn refusals(text: &str) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("m.toml");
        fs::write(&file, text).unwrap();
        let environment = ProcessEnv {
            paths: UserPaths {
                home: Some("/home/u".into()),
                ..UserPaths::default()
            },
            ..ProcessEnv::default()
        };
        let candidate = Candidate::load(&file, None, &environment).unwrap();
        let line = |text: &str| serde_json::from_str::<Line>(text).unwrap().record;
        let (Record::Started(started), Record::Ended(ended)) = (line(STARTED), line(ENDED)) else {
            panic!("other records");
        };
        candidate
            .refusals(&started, Some(&ended))
            .into_iter()
            .collect()
    }

    #[test]
    fn a_recorded_run_is_refused_by_each_key_that_does_not_have_what_it_had() {
        for (narrow, wide, expected) in [
            (
                "[profiles]\nallow = [\"strict\"]",
                "[profiles]\nallow = [\"develop-online\"]",
                "profiles.allow lacks develop-online",
            ),
            (
                "[backends]\norder = [\"landlock\"]",
                "[backends]\norder = [\"landlock\", \"noop\"]",
                "backends.order lacks noop",
            ),
            (
                "[egress]\nallow = [\"*.other.example:443\"]",
                "[egress]\nallow = [\"*.example.org:443\"]",
                "egress.allow lacks api.example.org:443",
            ),
            (
                "[server]\ncallers = [1]",
                "[server]\ncallers = [4242]",
                "server.callers lacks uid 4242",
            ),
            (
                "[consent]\naccept_hooks = false",
                "[consent]\naccept_hooks = true",
                "consent.accept_hooks is false",
            ),
            (
                "[hooks]\nevent_max = \"1KiB\"",
                "[hooks]\nevent_max = \"2KiB\"",
                "hooks.event_max is smaller than its event",
            ),
        ] {
            assert_eq!(refusals(narrow), [expected]);
            assert_eq!(refusals(wide), Vec::<String>::new(), "{wide}");
            assert!(COMPARED.iter().any(|key| expected.starts_with(key)));
        }
        assert_eq!(refusals("[consent]\nruntime = false"), Vec::<String>::new());
        let whole = "[server]\ncallers = [1]\n[profiles]\nallow = [\"strict\"]";
        assert_eq!(refusals(whole).len(), 2);
    }
}
