//! Builds a hook's environment from its profile, its configuration and its request.
//!
//! Nothing is inherited from the daemon.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use hookjail_base::model::{
    Hook, InvalidField, is_plain,
    variable::{
        DEPTH, NOTICES, TRACE_PARENT, TRACE_STATE, is_closed_to_requests, matches, settable,
    },
};

use super::{Access, GrantPlace, Policy};

/// The variables of a run but for those that name its scratch directory.
#[derive(Clone, Debug, Default)]
pub struct Variables(BTreeMap<OsString, OsString>);

impl Variables {
    /// Merges the variables of profile, hook and request, and sets the nesting depth. Variables that the operator
    /// configured for the hook need not be on the profile's list, and override those of the request.
    ///
    /// # Errors
    ///
    /// Fails if the request sets a variable that is not on the profile's list or that no list can allow. Fails also if the
    /// configuration sets one that not even a profile can set, or a value contains a NUL byte.
    pub fn resolve(policy: &Policy, hook: &Hook, depth: u32) -> Result<Self, InvalidField> {
        let mut all: BTreeMap<OsString, OsString> = policy
            .environment
            .set
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();

        let invalid = |name: &String, problem: String| {
            Err(InvalidField::new(format!("hook.env[{name}]"), problem))
        };
        let mut caller_path = None;
        for (name, value) in &hook.env {
            let invalid = |problem| invalid(name, problem);
            if name == "PATH" && policy.environment.caller_path {
                caller_path = Some(value);
                continue;
            }
            if is_closed_to_requests(name) {
                return invalid(
                    "decides what code is found or loaded, so no profile opens it to a request"
                        .into(),
                );
            }
            if !policy
                .environment
                .allow
                .iter()
                .any(|pattern| matches(pattern, name))
            {
                return invalid(format!(
                    "is not on profile `{}`'s list (`environment.allow`)",
                    policy.name
                ));
            }
            if value.as_bytes().contains(&0) {
                return invalid("contains a NUL byte".into());
            }
            all.insert(name.into(), value.clone());
        }
        for (name, value) in &hook.configured_env {
            if let Err(problem) = settable(name) {
                return invalid(name, problem.to_owned());
            }
            if value.as_bytes().contains(&0) {
                return invalid(name, "contains a NUL byte".into());
            }
            all.insert(name.into(), value.clone());
        }

        let callers = caller_path.map(|path| executable(policy, path));
        let profiles = policy.environment.path.iter().map(PathBuf::as_path);
        let mut path: Vec<&OsStr> = Vec::new();
        for dir in callers.into_iter().flatten().chain(profiles) {
            if !path.contains(&dir.as_os_str()) {
                path.push(dir.as_os_str());
            }
        }
        all.insert("PATH".into(), path.join(OsStr::new(":")));
        all.insert(DEPTH.into(), depth.saturating_add(1).to_string().into());
        if policy.notify {
            all.insert(NOTICES.into(), OsString::new());
        }
        set_english_messages(&mut all);
        let home = policy.environment.home.as_ref();
        all.extend(home.map(|home| ("HOME".into(), home.into())));
        Ok(Self(all))
    }

    /// Sets the position of the run in a trace, where the profile lists its variables. Replaces a position in the request.
    pub fn set_trace(&mut self, policy: &Policy, parent: String, state: &str) {
        for (name, value) in [(TRACE_PARENT, &*parent), (TRACE_STATE, state)] {
            if !admits(policy, name) {
                continue;
            }
            self.0.remove(OsStr::new(name));
            if !value.is_empty() {
                self.0.insert(name.into(), value.into());
            }
        }
    }

    /// Returns the directories of `PATH`.
    pub fn path(&self) -> Vec<PathBuf> {
        let path = self.0.get(OsStr::new("PATH"));
        path.map_or_else(Vec::new, |path| std::env::split_paths(path).collect())
    }

    /// Puts directories of `PATH` behind the others.
    pub fn put_last(&mut self, directories: &[PathBuf]) {
        let (last, first): (Vec<_>, Vec<_>) = self
            .path()
            .into_iter()
            .partition(|it| directories.contains(it));
        let all = first.into_iter().chain(last).map(PathBuf::into_os_string);
        let all: Vec<_> = all.collect();
        self.0.insert("PATH".into(), all.join(OsStr::new(":")));
    }

    /// Returns the names of the whole environment, sorted.
    pub fn names(&self) -> Vec<OsString> {
        self.with_scratch(Path::new("")).into_keys().collect()
    }

    /// Returns the whole environment, sorted by name. `TMPDIR` is `scratch`, and so is `HOME` where the profile has no other.
    pub fn with_scratch(&self, scratch: &Path) -> BTreeMap<OsString, OsString> {
        let mut all = self.0.clone();
        all.entry("HOME".into()).or_insert_with(|| scratch.into());
        all.insert("TMPDIR".into(), scratch.into());
        all
    }
}

/// Sets the language of messages to English. Guards' messages about denied calls are recognised by their text. Other
/// locale settings stay.
fn set_english_messages(all: &mut BTreeMap<OsString, OsString>) {
    let [everything, messages, language] = ["LC_ALL", "LC_MESSAGES", "LANG"].map(OsStr::new);
    let mut set = [everything, messages, language]
        .into_iter()
        .filter_map(|name| all.get(name));
    let is_english = set.find(|value| !value.is_empty()).is_none_or(|value| {
        let value = value.as_bytes();
        matches!(value, b"C" | b"POSIX") || value.starts_with(b"C.")
    });
    if is_english {
        return;
    }
    if let Some(value) = all.remove(everything).filter(|value| !value.is_empty()) {
        // `LC_ALL` overrides the other `LC_*`, which had no effect.
        all.retain(|name, _| !name.as_bytes().starts_with(b"LC_"));
        all.insert(language.into(), value);
    }
    all.insert(messages.into(), "C".into());
}

/// Returns the directories of a request's `PATH` in which hooks may execute files.
fn executable<'a>(policy: &Policy, path: &'a OsStr) -> Vec<&'a Path> {
    let granted = |dir: &Path| {
        let grants = policy.files.system.iter().chain(&policy.files.named);
        let mut grants = grants.filter(|it| matches!(it.access, Access::Execute | Access::Write));
        grants.any(|it| matches!(&it.place, GrantPlace::Path(path) if dir.starts_with(path)))
    };
    let dirs = path.as_bytes().split(|byte| *byte == b':');
    let dirs = dirs.map(|dir| Path::new(OsStr::from_bytes(dir)));
    dirs.filter(|dir| is_plain(dir) && granted(dir)).collect()
}

/// Returns whether a request under a profile can set a variable.
pub fn admits(policy: &Policy, name: &str) -> bool {
    if name == "PATH" && policy.environment.caller_path {
        return true;
    }
    let mut listed = policy.environment.allow.iter();
    !is_closed_to_requests(name) && listed.any(|pattern| matches(pattern, name))
}

/// Returns whether a variable that a runtime's settings set decides what hookjail, or the shell that starts it, loads, or where
/// hookjail looks for its own files.
pub fn steers_hookjail(name: &str) -> bool {
    const STEERING: [&str; 15] = [
        "BASHOPTS",
        "BASH_ENV",
        "BASH_FUNC_*",
        "BASH_LOADABLES_PATH",
        "DBUS_*",
        "DYLD_*",
        "GCONV_PATH",
        "GLIBC_TUNABLES",
        "HOME",
        "HOOKJAIL_*",
        "LD_*",
        "PS4",
        "SHELLOPTS",
        "TMPDIR",
        "XDG_*",
    ];
    STEERING.iter().any(|pattern| matches(pattern, name))
}

/// Returns whether an interpreter may read a variable when it starts: a variable that no request can set, or of the locale.
pub fn matters_at_start(name: &OsStr) -> bool {
    const LOCALE: [&str; 4] = ["LANG", "LANGUAGE", "LC_*", "TZ"];
    let name = name.to_string_lossy();
    is_closed_to_requests(&name) || LOCALE.iter().any(|pattern| matches(pattern, &name))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::ffi::OsStringExt, sync::Arc};

    use super::*;
    use hookjail_base::model::{Command, ProfileName};

    use crate::registry::Registry;

    fn build(
        policy: &Policy,
        scratch: &Path,
        request: &BTreeMap<String, OsString>,
    ) -> Result<Vec<(OsString, OsString)>, InvalidField> {
        let variables = Variables::resolve(policy, &hook(request, &BTreeMap::new()), 0)?;
        Ok(variables.with_scratch(scratch).into_iter().collect())
    }

    fn hook(request: &BTreeMap<String, OsString>, configured: &BTreeMap<String, OsString>) -> Hook {
        Hook {
            at_workspace: false,
            base: None,
            command: Command::Argv(vec!["x".into()]),
            configured_env: configured.clone(),
            env: request.clone(),
            name: String::new(),
            working_dir: None,
            workspace: None,
            source: None,
            umask: None,
        }
    }

    #[test]
    fn a_hook_finds_what_the_profile_sets_and_the_scratch_directory() {
        let built = build(&strict(), Path::new("/scratch/1"), &BTreeMap::new()).unwrap();

        let expected = [
            ("GIT_CONFIG_COUNT", "3"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_KEY_0", "safe.directory"),
            ("GIT_CONFIG_KEY_1", "maintenance.autoDetach"),
            ("GIT_CONFIG_KEY_2", "gc.autoDetach"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_VALUE_0", "*"),
            ("GIT_CONFIG_VALUE_1", "false"),
            ("GIT_CONFIG_VALUE_2", "false"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_PAGER", "cat"),
            ("HOME", "/scratch/1"),
            ("HOOKJAIL_DEPTH", "1"),
            ("LANG", "C.UTF-8"),
            ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
            ("TMPDIR", "/scratch/1"),
        ];
        assert_eq!(
            built,
            expected.map(|(name, value)| (name.into(), value.into()))
        );
    }

    #[test]
    fn directories_of_a_requests_path_come_first_where_they_hold_what_may_be_executed() {
        let strict = ProfileName::parse("strict").unwrap();
        let registry = Registry::builtin().unwrap();
        let mut policy = registry.find(&strict).unwrap().as_ref().clone();
        let path = "/usr/lib/tools:/home/ada/bin:bin::/usr/../etc:/etc/alternatives:/usr/bin";
        let request = BTreeMap::from([("PATH".to_owned(), path.into())]);
        assert!(!admits(&policy, "PATH"));
        assert!(build(&policy, Path::new("/s"), &request).is_err());

        let environment = Arc::make_mut(&mut policy.environment);
        environment.caller_path = true;
        environment.home = Some("/home/ada".into());
        assert!(admits(&policy, "PATH"));
        let built = build(&policy, Path::new("/s"), &request).unwrap();
        let value = |name: &str| {
            let mut found = built.iter().filter(|(it, _)| it == name);
            found.next().unwrap().1.to_str().unwrap()
        };
        assert_eq!(
            value("PATH"),
            "/usr/lib/tools:/usr/bin:/usr/local/bin:/bin:/usr/sbin:/sbin"
        );
        assert_eq!((value("HOME"), value("TMPDIR")), ("/home/ada", "/s"));
    }

    #[test]
    fn a_request_sets_what_the_profile_lists() {
        let request = env(&[
            ("HOOK_NAME", "lint"),
            ("LANG", "de_DE.UTF-8"),
            ("LC_ALL", "C"),
        ]);

        let built = build(&strict(), Path::new("/s"), &request).unwrap();

        for (name, value) in request {
            assert!(built.contains(&(name.into(), value)));
        }
        assert_eq!(built.iter().filter(|(name, _)| name == "LANG").count(), 1);
    }

    #[test]
    fn errors_are_told_in_english_and_the_rest_of_a_language_stays() {
        for (request, expected) in [
            (&[][..], &[("LANG", "C.UTF-8")][..]),
            (
                &[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")],
                &[("LANG", "de_DE.UTF-8"), ("LC_ALL", "C")],
            ),
            (
                &[("LANG", "de_DE.UTF-8")],
                &[("LANG", "de_DE.UTF-8"), ("LC_MESSAGES", "C")],
            ),
            (
                &[("LC_ALL", "fr_FR.UTF-8"), ("LC_TIME", "ja_JP.UTF-8")],
                &[("LANG", "fr_FR.UTF-8"), ("LC_MESSAGES", "C")],
            ),
            (
                &[("LC_MESSAGES", "es_ES.UTF-8"), ("LC_TIME", "ja_JP.UTF-8")],
                &[
                    ("LANG", "C.UTF-8"),
                    ("LC_MESSAGES", "C"),
                    ("LC_TIME", "ja_JP.UTF-8"),
                ],
            ),
            (
                &[("LC_ALL", ""), ("LANG", "de_DE.UTF-8")],
                &[("LANG", "de_DE.UTF-8"), ("LC_MESSAGES", "C")],
            ),
        ] {
            let mut built = build(&strict(), Path::new("/s"), &env(request)).unwrap();
            built.retain(|(name, _)| name == "LANG" || name.as_bytes().starts_with(b"LC_"));
            let expected = expected.iter();
            let expected: Vec<(OsString, OsString)> = expected
                .map(|(name, value)| (name.into(), value.into()))
                .collect();
            assert_eq!(built, expected, "{request:?}");
        }
    }

    #[test]
    fn a_name_not_on_the_list_is_refused() {
        for name in ["FOO", "HOOK", "LC", "hook_name", "LANGUAGE", "TZX", ""] {
            let refused = build(&strict(), Path::new("/s"), &env(&[(name, "1")])).unwrap_err();
            let problem = "is not on profile `strict`'s list (`environment.allow`)";
            assert_eq!(
                refused,
                InvalidField::new(format!("hook.env[{name}]"), problem)
            );
        }
    }

    #[test]
    fn no_list_opens_what_decides_which_code_runs() {
        let names = [
            "BASHOPTS",
            "BASH_ENV",
            "BASH_FUNC_ls%%",
            "DYLD_INSERT_LIBRARIES",
            "ENV",
            "GCONV_PATH",
            "GIT_SSH_COMMAND",
            "GLIBC_TUNABLES",
            "HOME",
            "HOSTALIASES",
            "IFS",
            "JAVA_TOOL_OPTIONS",
            "LD_AUDIT",
            "LD_LIBRARY_PATH",
            "LD_PRELOAD",
            "KUBECONFIG",
            "LOCPATH",
            "MAKEFILES",
            "MALLOC_CHECK_",
            "NLSPATH",
            "NODE_OPTIONS",
            "PATH",
            "PERL5LIB",
            "PERL5OPT",
            "PS4",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "RES_OPTIONS",
            "RUBYOPT",
            "SHELLOPTS",
            "SSH_AUTH_SOCK",
            "TCLLIBPATH",
            "TERMINFO",
            "TMPDIR",
            "_JAVA_OPTIONS",
        ];
        let mut policy = strict();
        let environment = Arc::make_mut(&mut policy.environment);
        environment.allow = vec!["*".into()];
        environment.allow.extend(names.map(String::from));

        for name in names {
            let refused = build(&policy, Path::new("/s"), &env(&[(name, "1")])).unwrap_err();
            assert_eq!(refused.field, format!("hook.env[{name}]"));
            assert!(refused.problem.contains("no profile opens it"), "{refused}");
        }
    }

    #[test]
    fn the_operator_sets_what_is_not_on_the_list_and_a_request_does_not() {
        let configured = env(&[("API_URL", "https://x"), ("PYTHONPATH", "/opt/hooks")]);
        let resolved = |request, configured| {
            Variables::resolve(&strict(), &hook(&request, &configured), 0)
                .map(|variables| variables.with_scratch(Path::new("/s")))
        };

        let all = resolved(BTreeMap::new(), configured.clone()).unwrap();
        for (name, value) in &configured {
            assert_eq!(all.get(OsStr::new(name)), Some(value));
        }
        for name in configured.into_keys() {
            let refused = resolved(env(&[(&name, "y")]), BTreeMap::new()).unwrap_err();
            assert_eq!(refused.field, format!("hook.env[{name}]"));
        }
        let variables = resolved(env(&[("TZ", "UTC")]), env(&[("TZ", "CET")])).unwrap();
        assert_eq!(
            variables.get(OsStr::new("TZ")),
            Some(&OsString::from("CET"))
        );
    }

    #[test]
    fn not_even_the_operator_sets_what_the_loader_reads() {
        for name in [
            "LD_PRELOAD",
            "BASH_ENV",
            "PATH",
            "HOOKJAIL_DEPTH",
            "A-B",
            "",
        ] {
            let hook = hook(&BTreeMap::new(), &env(&[(name, "1")]));
            let refused = Variables::resolve(&strict(), &hook, 0).unwrap_err();
            assert_eq!(refused.field, format!("hook.env[{name}]"));
        }
    }

    #[test]
    fn the_position_in_a_trace_is_set_where_the_profile_lists_it_over_what_the_request_says() {
        let request = env(&[("TRACEPARENT", "theirs"), ("TRACESTATE", "theirs")]);
        let built = |policy: &Policy, state: &str| {
            let hook = hook(&request, &BTreeMap::new());
            let mut variables = Variables::resolve(policy, &hook, 0).unwrap();
            variables.set_trace(policy, "ours".to_owned(), state);
            let all = variables.with_scratch(Path::new("/s"));
            [TRACE_PARENT, TRACE_STATE].map(|name| all.get(OsStr::new(name)).cloned())
        };
        let mut policy = strict();
        assert_eq!(
            built(&policy, "a=1"),
            [Some("ours".into()), Some("a=1".into())]
        );
        assert_eq!(built(&policy, ""), [Some("ours".into()), None]);

        let mut quiet = strict();
        let environment = Arc::make_mut(&mut quiet.environment);
        environment.allow.retain(|name| !name.starts_with("TRACE"));
        let mut variables =
            Variables::resolve(&quiet, &hook(&BTreeMap::new(), &BTreeMap::new()), 0).unwrap();
        variables.set_trace(&quiet, "ours".to_owned(), "a=1");
        let names = variables.names();
        assert!(
            names
                .iter()
                .all(|name| !name.as_bytes().starts_with(b"TRACE"))
        );

        // One alone.
        let environment = Arc::make_mut(&mut policy.environment);
        environment.allow.retain(|name| name != TRACE_STATE);
        let mut variables =
            Variables::resolve(&policy, &hook(&BTreeMap::new(), &BTreeMap::new()), 0).unwrap();
        variables.set_trace(&policy, "ours".to_owned(), "a=1");
        let names = variables.names();
        let traced = names
            .iter()
            .filter(|name| name.as_bytes().starts_with(b"TRACE"));
        assert_eq!(traced.collect::<Vec<_>>(), [TRACE_PARENT]);
    }

    #[test]
    fn a_value_with_a_nul_byte_is_refused() {
        let request = BTreeMap::from([("TZ".to_owned(), OsString::from_vec(b"UTC\0x".to_vec()))]);

        let refused = build(&strict(), Path::new("/s"), &request).unwrap_err();

        assert_eq!(
            refused,
            InvalidField::new("hook.env[TZ]", "contains a NUL byte")
        );
    }

    #[test]
    fn a_value_need_not_be_text() {
        let request = BTreeMap::from([("TZ".to_owned(), OsString::from_vec(vec![0xff]))]);

        let built = build(&strict(), Path::new("/s"), &request).unwrap();

        assert!(built.contains(&("TZ".into(), OsString::from_vec(vec![0xff]))));
    }

    fn strict() -> Policy {
        let name = ProfileName::parse("strict").unwrap();
        Registry::builtin()
            .unwrap()
            .find(&name)
            .unwrap()
            .as_ref()
            .clone()
    }

    fn env(pairs: &[(&str, &str)]) -> BTreeMap<String, OsString> {
        pairs
            .iter()
            .map(|&(name, value)| (name.into(), value.into()))
            .collect()
    }
}
