//! Compares a profile with the one that was approved: whether a hook may do more under it.

use super::{
    Access, EgressRules, Environment, Files, GrantPlace, GrantSpec, Limits, Metadata, Network,
    Policy, Spawn, Time,
};
use crate::{egress::Egress, requests::RequestRule};
use hookjail_base::model::axis::Demand;

impl Policy {
    /// Returns what a hook may do under this profile and not under the approved one, a phrase for each; none where that one covers it.
    ///
    /// Parts that are neither more nor less, such as variables with other values, count as more.
    #[must_use]
    pub fn wider_than(&self, approved: &Self) -> Vec<String> {
        let Self {
            description: _,
            digest: _,
            demands,
            egress,
            environment,
            files,
            granted_by: _,
            limits,
            line: _,
            metadata,
            name: _,
            network,
            notify,
            redact_output,
            spawn,
            state,
            time,
            // The caller's, where the profile lets hooks change modes.
            umask: _,
            view,
            // Interpreters that wait have no more rights than the hook.
            warm: _,
            working_dir,
        } = self;
        let mut found = Vec::new();
        let mut note = |is_wider: bool, phrase: &str| {
            if is_wider {
                found.push(phrase.to_owned());
            }
        };
        note(
            *network == Network::Outbound && approved.network != Network::Outbound,
            "connections to other hosts",
        );
        note(
            *spawn == Spawn::Processes && approved.spawn == Spawn::Threads,
            "processes of its own",
        );
        note(
            *metadata == Metadata::Change && approved.metadata == Metadata::Keep,
            "changes of modes, owners and times",
        );
        note(*notify && !approved.notify, "notices for the user");
        note(
            approved.redact_output && !redact_output,
            "secrets in its output",
        );
        note(*view != approved.view, "another view of the machine");
        note(
            *working_dir != approved.working_dir,
            "another directory to start in",
        );
        note(
            state.is_some() && *state != approved.state,
            "files that last",
        );
        for (axis, demand) in demands.iter() {
            let is_wider =
                *demand == Demand::Wanted && *approved.demands.get(axis) == Demand::Required;
            note(is_wider, &format!("`{}` unenforced", axis.name()));
        }
        if *network == Network::Named {
            found.extend(egress.wider_than(&approved.egress, approved.network));
        }
        found.extend(files.wider_than(&approved.files));
        found.extend(environment.wider_than(&approved.environment));
        found.extend(limits.wider_than(&approved.limits));
        if time.is_longer_than(&approved.time) {
            found.push("more time".to_owned());
        }
        found
    }
}

impl EgressRules {
    fn wider_than(&self, approved: &Self, network: Network) -> Vec<String> {
        let Self {
            allowed,
            bytes,
            connections,
            requests,
            // The same for each profile, independent of approvals.
            source: _,
            // The daemon's, independent of approvals.
            ways: _,
        } = self;
        let is_within = |it: &&Egress| approved.allowed.iter().any(|wider| it.is_within(wider));
        let new: Vec<_> = match network {
            Network::Outbound => Vec::new(),
            Network::None => allowed.iter().collect(),
            Network::Named => allowed.iter().filter(|it| !is_within(it)).collect(),
        };
        let mut found: Vec<_> = new
            .into_iter()
            .map(|it| format!("connections to {it}"))
            .collect();
        // A secret is no part of any network.
        let is_new = |it: &&RequestRule| !approved.requests.contains(it);
        let new = requests.iter().filter(is_new);
        found.extend(new.map(|it| format!("requests: {it}")));
        if network == Network::Named {
            let most = |bytes: &Option<u64>| bytes.unwrap_or(u64::MAX);
            if most(bytes) > most(&approved.bytes) || connections > &approved.connections {
                found.push("more connections".to_owned());
            }
        }
        found
    }
}

impl Files {
    fn wider_than(&self, approved: &Self) -> Vec<String> {
        let Self {
            cache,
            hidden,
            named,
            read_only,
            state,
            system,
            tokens,
            transcripts,
            unchanged,
        } = self;
        let granted = || approved.named.iter().chain(approved.system.iter());
        let wider = named.iter().chain(system.iter());
        let wider = wider.filter(|grant| !granted().any(|it| it.covers(grant)));
        let mut found: Vec<_> = wider.map(GrantSpec::phrase).collect();
        let gone = |name: &dyn std::fmt::Display| format!("{name}, which was kept from it");
        let mut of_names = approved.hidden.iter().filter(|it| !hidden.contains(it));
        found.extend(of_names.by_ref().map(|it| gone(it)));
        for (now, then) in [
            (read_only, &approved.read_only),
            (unchanged, &approved.unchanged),
        ] {
            // A path that cannot change is read-only, too.
            let is_kept = |it| now.contains(it) || unchanged.contains(it) || read_only.contains(it);
            found.extend(then.iter().filter(|it| !is_kept(it)).map(|it| gone(it)));
        }
        let tokens = approved.tokens.iter().filter(|it| !tokens.contains(it));
        found.extend(tokens.map(|it| gone(&it.display())));
        let places = state.iter().filter(|it| !approved.state.contains(it));
        let transcripts = transcripts
            .iter()
            .filter(|it| !approved.transcripts.contains(it));
        let places = places.chain(transcripts);
        found.extend(places.map(|it| format!("files of {}", it.display())));
        if cache.is_some() && *cache != approved.cache {
            found.push("another cache".to_owned());
        }
        found
    }
}

impl GrantSpec {
    /// Returns whether another grant gives no more than this one.
    fn covers(&self, other: &Self) -> bool {
        let access = match self.access {
            Access::Write => true,
            Access::WriteFile => matches!(other.access, Access::WriteFile),
            Access::Execute => matches!(other.access, Access::Execute | Access::Read),
            Access::Read => other.access == Access::Read,
        };
        // Whether the place must be there decides only if a run starts.
        let place = match (&self.place, &other.place) {
            (GrantPlace::Path(base), GrantPlace::Path(other)) => other.starts_with(base),
            (GrantPlace::Entries(base), GrantPlace::Entries(other)) => base == other,
            (GrantPlace::Source { below: base, .. }, GrantPlace::Source { below: other, .. })
            | (
                GrantPlace::Workspace { below: base, .. },
                GrantPlace::Workspace { below: other, .. },
            ) => other.starts_with(base),
            (
                GrantPlace::Entries(_)
                | GrantPlace::Path(_)
                | GrantPlace::Source { .. }
                | GrantPlace::Workspace { .. },
                _,
            ) => false,
        };
        access && place && (!other.create || self.create || self.access == Access::Write)
    }

    fn phrase(&self) -> String {
        format!("{} {}", self.access, self.place)
    }
}

impl Environment {
    fn wider_than(&self, approved: &Self) -> Vec<String> {
        let Self {
            allow,
            caller_path,
            home,
            path,
            set,
        } = self;
        let names = allow.iter().filter(|name| !approved.allow.contains(name));
        let names = names.map(|name| format!("the caller's variable {name}"));
        let others = set
            .iter()
            .filter(|(name, value)| approved.set.get(*name) != Some(value));
        let others = others.map(|(name, _)| format!("another value of {name}"));
        let gone = approved.set.keys().filter(|name| !set.contains_key(*name));
        let gone = gone.map(|name| format!("no value of {name}"));
        let mut found: Vec<_> = names.chain(others).chain(gone).collect();
        if *caller_path && !approved.caller_path {
            found.push("the caller's PATH".to_owned());
        }
        if *path != approved.path {
            found.push("another PATH".to_owned());
        }
        if *home != approved.home {
            found.push("another home".to_owned());
        }
        found
    }
}

impl Limits {
    fn wider_than(&self, approved: &Self) -> Vec<String> {
        let Self {
            address_space,
            cpus,
            file_size,
            memory,
            // The action decides about the hook's end, and not about its rights.
            on_output_limit: _,
            open_files,
            output_bytes,
            scratch,
            tasks,
        } = self;
        let most = |limit: &Option<u64>| limit.unwrap_or(u64::MAX);
        let (cpus, approved_cpus) = (cpus.map(u64::from), approved.cpus.map(u64::from));
        let sizes = |it: &Self| it.scratch.map(|it| (it.bytes, it.files)).unzip();
        let (bytes, files) = scratch.map(|it| (it.bytes, it.files)).unzip();
        let (approved_bytes, approved_files) = sizes(approved);
        let compared = [
            (
                "address space",
                most(address_space),
                most(&approved.address_space),
            ),
            ("processors", most(&cpus), most(&approved_cpus)),
            ("bytes in a file", *file_size, approved.file_size),
            ("memory", most(memory), most(&approved.memory)),
            ("open files", *open_files, approved.open_files),
            ("output", *output_bytes, approved.output_bytes),
            ("scratch space", most(&bytes), most(&approved_bytes)),
            ("scratch files", most(&files), most(&approved_files)),
            ("processes", *tasks, approved.tasks),
        ];
        let wider = compared.into_iter().filter(|(_, now, then)| now > then);
        wider.map(|(name, _, _)| format!("more {name}")).collect()
    }
}

impl Time {
    fn is_longer_than(&self, approved: &Self) -> bool {
        let Self { default, maximum } = self;
        *default > approved.default || *maximum > approved.maximum
    }
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, sync::Arc, time::Duration};

    use hookjail_base::model::ProfileName;

    use super::*;
    use crate::{References, Registry, StateScope, WorkingDir};

    fn shipped(name: &str) -> Policy {
        let name = ProfileName::parse(name).unwrap();
        Policy::clone(Registry::builtin().unwrap().find(&name).unwrap())
    }

    #[test]
    fn every_shipped_profile_covers_itself_as_its_text_was_kept() {
        for policy in Registry::builtin().unwrap().iter() {
            let name = policy.name.clone();
            let kept = Policy::read(name, &policy.to_toml(), &References::default()).unwrap();
            assert_eq!(kept.digest, policy.digest, "{}", policy.name);
            assert_eq!(policy.wider_than(&kept), [""; 0], "{}", policy.name);
        }
    }

    #[test]
    fn whatever_a_profile_allows_more_is_named_and_what_it_allows_less_is_covered() {
        let approved = shipped("workspace-ro");
        type Change = fn(&mut Policy);
        let grant = |access, place: &str| GrantSpec {
            access,
            create: false,
            optional: false,
            place: GrantPlace::Path(PathBuf::from(place)),
        };
        assert!(grant(Access::Write, "/a").covers(&grant(Access::Read, "/a/b")));
        assert!(!grant(Access::Read, "/a").covers(&grant(Access::Execute, "/a")));
        assert!(!grant(Access::Write, "/a/b").covers(&grant(Access::Read, "/a")));
        assert!(!grant(Access::WriteFile, "/a").covers(&grant(Access::Write, "/a")));
        let cases: [(&str, Change); 15] = [
            ("connections to other hosts", |it| {
                it.network = Network::Outbound
            }),
            ("connections to a.example.org:443", |it| {
                it.network = Network::Named;
                let egress = Arc::make_mut(&mut it.egress);
                egress.allowed.push("a.example.org:443".parse().unwrap());
            }),
            ("notices for the user", |it| it.notify = true),
            ("another view of the machine", |it| {
                it.view = crate::HookView::Machine
            }),
            ("another directory to start in", |it| {
                it.working_dir = WorkingDir::Scratch
            }),
            ("files that last", |it| it.state = Some(StateScope::Hook)),
            ("`network` unenforced", |it| {
                it.demands.network = Demand::Wanted
            }),
            ("more time", |it| it.time.maximum += Duration::from_secs(1)),
            ("more processes", |it| it.limits.tasks += 1),
            ("more memory", |it| it.limits.memory = None),
            ("the caller's variable X", |it| {
                Arc::make_mut(&mut it.environment)
                    .allow
                    .push("X".to_owned());
            }),
            ("another PATH", |it| {
                Arc::make_mut(&mut it.environment).path.push("/x".into());
            }),
            ("another value of X", |it| {
                let set = &mut Arc::make_mut(&mut it.environment).set;
                set.insert("X".to_owned(), String::new());
            }),
            ("write ${workspace}", |it| {
                for grant in &mut it.files.named {
                    grant.access = Access::Write;
                }
            }),
            ("read /srv/more", |it| {
                it.files.named.push(GrantSpec {
                    access: Access::Read,
                    create: false,
                    optional: true,
                    place: GrantPlace::Path("/srv/more".into()),
                });
            }),
        ];
        for (phrase, change) in cases {
            let mut wider = approved.clone();
            wider.limits.memory = Some(1 << 30);
            wider.view = crate::HookView::Own;
            let before = wider.clone();
            change(&mut wider);
            let found = wider.wider_than(&before);
            assert!(found.iter().any(|it| it == phrase), "{phrase}: {found:?}");
        }
        let narrower = Policy {
            network: Network::None,
            files: Files {
                named: Vec::new(),
                ..approved.files.clone()
            },
            notify: false,
            time: Time {
                maximum: Duration::from_secs(1),
                default: Duration::from_secs(1),
            },
            ..approved.clone()
        };
        assert_eq!(narrower.wider_than(&approved), [""; 0]);
    }

    #[test]
    fn hosts_that_were_not_approved_are_named_and_those_within_a_wildcard_are_not() {
        let named = |hosts: &[&str], connections| Policy {
            egress: Arc::new(EgressRules {
                allowed: hosts.iter().map(|it| it.parse().unwrap()).collect(),
                connections,
                ..EgressRules::default()
            }),
            network: Network::Named,
            ..shipped("develop")
        };
        let approved = named(&["*.example.org:443"], 8);
        assert_eq!(
            named(&["a.example.org:443"], 8).wider_than(&approved),
            [""; 0]
        );
        let wider = named(&["a.example.org:443", "b.net:443"], 9).wider_than(&approved);
        assert_eq!(wider, ["connections to b.net:443", "more connections"]);
        let outbound = Policy {
            network: Network::Outbound,
            ..approved.clone()
        };
        assert_eq!(approved.wider_than(&outbound), [""; 0]);
        assert_eq!(
            outbound.wider_than(&approved),
            ["connections to other hosts"]
        );
    }

    #[test]
    fn requests_that_were_not_approved_are_named() {
        let with = |texts: &[&str]| {
            let rule = |it: &&str| toml::from_str::<RequestRule>(it).unwrap();
            let requests: Vec<_> = texts.iter().map(rule).collect();
            Policy {
                egress: Arc::new(EgressRules {
                    allowed: requests.iter().map(RequestRule::egress).collect(),
                    requests,
                    ..EgressRules::default()
                }),
                network: Network::Named,
                ..shipped("develop")
            }
        };
        let plain = "url = \"https://a.example\"";
        let secret = "url = \"https://a.example\"\nsecret = \"s\"\nheader = \"X: {secret}\"";
        assert_eq!(with(&[plain]).wider_than(&with(&[plain])), [""; 0]);
        let named = ["requests: https://a.example/ with the secret `s` as `X`"];
        assert_eq!(with(&[secret]).wider_than(&with(&[plain])), named);
        // A network to every host is none that sends a secret.
        let outbound = Policy {
            network: Network::Outbound,
            ..shipped("develop")
        };
        assert_eq!(with(&[secret]).wider_than(&outbound), named);
    }

    #[test]
    fn what_was_kept_from_a_hook_and_is_no_longer_is_named() {
        let mut approved = shipped("develop");
        approved.files.tokens = vec!["/home/ada/.npmrc".into()];
        let mut wider = approved.clone();
        let kept = wider.files.unchanged.len() + wider.files.read_only.len();
        assert!(kept > 0);
        wider.files.unchanged.clear();
        wider.files.read_only.clear();
        wider.files.tokens.clear();
        let found = wider.wider_than(&approved);
        let named = found
            .iter()
            .filter(|it| it.ends_with("which was kept from it"));
        assert_eq!(
            named.count(),
            kept + approved.files.tokens.len(),
            "{found:?}"
        );
        assert_eq!(approved.wider_than(&wider), [""; 0]);
    }
}
