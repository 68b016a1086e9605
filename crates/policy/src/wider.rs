//! Compares a profile with the one that was approved: whether a hook may do more under it.

use super::{
    Access, Environment, Files, GrantPlace, GrantSpec, Limits, Metadata, Network, Policy, Spawn,
    Time,
};
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
            *network == Network::Outbound && approved.network == Network::None,
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
                *demand == Demand::Wanted && *approved.demands.of(axis) == Demand::Required;
            note(is_wider, &format!("`{}` unenforced", axis.name()));
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
            (GrantPlace::Path(own), GrantPlace::Path(other)) => other.starts_with(own),
            (GrantPlace::Entries(own), GrantPlace::Entries(other)) => own == other,
            (GrantPlace::Source { below: own, .. }, GrantPlace::Source { below: other, .. })
            | (
                GrantPlace::Workspace { below: own, .. },
                GrantPlace::Workspace { below: other, .. },
            ) => other.starts_with(own),
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
            // It decides about the hook's end, and not about its rights.
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
