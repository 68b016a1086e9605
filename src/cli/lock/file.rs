//! `hookjail.lock`: the digests of a repository's hooks, and how they differ from what is there.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The version of the form.
const VERSION: u32 = 1;

/// The first lines of the file.
const HEAD: &str =
    "# By `hookjail lock`; compared by `hookjail lock --check`. Not to be edited by hand.\n\n";

/// A lock file.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lock {
    /// The version of the form.
    version: u32,
    /// The version of hookjail that wrote it. Not compared.
    hookjail: String,
    /// The hooks, by command and profile.
    #[serde(default, rename = "hook", skip_serializing_if = "Vec::is_empty")]
    pub(super) hooks: Vec<LockedHook>,
    /// The files of tests, by path.
    #[serde(default, rename = "test", skip_serializing_if = "Vec::is_empty")]
    pub(super) tests: Vec<LockedTest>,
}

/// A hook.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LockedHook {
    /// The command without hookjail, as the settings have it.
    pub(super) command: String,
    /// Its declared name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    pub(super) profile: String,
    /// The declared hosts, as they are written: the same on each machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) hosts: Vec<String>,
    /// The names of the declared secrets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) secrets: Vec<String>,
    /// The files of settings, with the points.
    pub(super) settings: BTreeSet<String>,
    /// The SHA-256 of its files in the repository, and of its declaration.
    pub(super) files: BTreeMap<String, String>,
}

/// A file of tests.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LockedTest {
    pub(super) file: String,
    /// The number of runs that passed; none failed.
    pub(super) passed: usize,
    pub(super) sha256: String,
}

impl Lock {
    /// Makes the lock of hooks. Hooks with one command and one profile become one.
    pub(super) fn new(hooks: impl IntoIterator<Item = LockedHook>, tests: Vec<LockedTest>) -> Self {
        let mut merged: BTreeMap<(String, String), LockedHook> = BTreeMap::new();
        for hook in hooks {
            let key = (hook.command.clone(), hook.profile.clone());
            match merged.get_mut(&key) {
                Some(known) => known.settings.extend(hook.settings),
                None => drop(merged.insert(key, hook)),
            }
        }
        Self {
            version: VERSION,
            hookjail: env!("CARGO_PKG_VERSION").to_owned(),
            hooks: merged.into_values().collect(),
            tests,
        }
    }

    /// Parses a lock.
    ///
    /// # Errors
    ///
    /// Returns why it is none, or of another version.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = toml::from_str(text).map_err(|error| error.to_string())?;
        if version != VERSION {
            return Err(format!(
                "version {version} is not version {VERSION}, which this hookjail reads; update hookjail"
            ));
        }
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// Returns its text.
    ///
    /// # Errors
    ///
    /// Fails where it cannot be written as TOML.
    pub(super) fn text(&self) -> Result<String, toml::ser::Error> {
        Ok(format!("{HEAD}{}", toml::to_string_pretty(self)?))
    }

    /// Returns whether it has a hook's command under a profile.
    pub(super) fn has(&self, command: &str, profile: &str) -> bool {
        let mut hooks = self.hooks.iter();
        hooks.any(|it| it.command == command && it.profile == profile)
    }

    /// Returns how what is there differs from it, in words. The results of tests count with their files.
    pub(super) fn differences(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let of_command = |all: &'_ [LockedHook]| {
            let mut by_command: BTreeMap<String, Vec<LockedHook>> = BTreeMap::new();
            for hook in all {
                by_command
                    .entry(hook.command.clone())
                    .or_default()
                    .push(hook.clone());
            }
            by_command
        };
        let (was, is) = (of_command(&self.hooks), of_command(&other.hooks));
        for (command, hooks) in &is {
            match was.get(command) {
                None => found.push(format!("new hook: {command}")),
                Some(locked) => compare(command, locked, hooks, &mut found),
            }
        }
        let gone = was.keys().filter(|command| !is.contains_key(*command));
        found.extend(gone.map(|command| format!("gone: {command}")));
        let files = |lock: &Self| -> BTreeMap<_, _> {
            let tests = lock.tests.iter();
            tests
                .map(|it| (it.file.clone(), it.sha256.clone()))
                .collect()
        };
        compare_files("", &files(self), &files(other), &mut found);
        found
    }
}

/// Compares the hooks of one command.
fn compare(command: &str, locked: &[LockedHook], current: &[LockedHook], found: &mut Vec<String>) {
    let ([locked], [hook]) = (locked, current) else {
        if locked != current {
            found.push(format!(
                "changed: {command}: its profiles, settings or files"
            ));
        }
        return;
    };
    let mut changed = |key: &str, was: &str, is: &str| {
        if was != is {
            found.push(format!("{key} of {command}: was {was}, is {is}"));
        }
    };
    let list = |items: &mut dyn Iterator<Item = &String>| match items.cloned().collect::<Vec<_>>() {
        items if items.is_empty() => "none".to_owned(),
        items => items.join("; "),
    };
    let name = |hook: &LockedHook| hook.name.clone().unwrap_or_else(|| "none".to_owned());
    changed("name", &name(locked), &name(hook));
    changed("profile", &locked.profile, &hook.profile);
    for (key, was, is) in [
        ("hosts", &locked.hosts, &hook.hosts),
        ("secrets", &locked.secrets, &hook.secrets),
    ] {
        changed(key, &list(&mut was.iter()), &list(&mut is.iter()));
    }
    changed(
        "settings",
        &list(&mut locked.settings.iter()),
        &list(&mut hook.settings.iter()),
    );
    compare_files(command, &locked.files, &hook.files, found);
}

fn compare_files(
    command: &str,
    was: &BTreeMap<String, String>,
    is: &BTreeMap<String, String>,
    found: &mut Vec<String>,
) {
    let suffix = match command {
        "" => String::new(),
        command => format!(" of {command}"),
    };
    for (file, digest) in is {
        match was.get(file) {
            None => found.push(format!("new file{suffix}: {file}")),
            Some(was) if was != digest => found.push(format!("changed file{suffix}: {file}")),
            Some(_) => {}
        }
    }
    let gone = was.keys().filter(|file| !is.contains_key(*file));
    found.extend(gone.map(|file| format!("gone file{suffix}: {file}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hook(command: &str) -> LockedHook {
        LockedHook {
            command: command.to_owned(),
            name: None,
            profile: "develop".to_owned(),
            hosts: Vec::new(),
            secrets: Vec::new(),
            settings: [".claude/settings.json: PreToolUse Bash".to_owned()].into(),
            files: [("hooks/guard.sh".to_owned(), "a1".to_owned())].into(),
        }
    }

    fn test() -> LockedTest {
        LockedTest {
            file: "hooks/guard.hooktest.toml".to_owned(),
            passed: 2,
            sha256: "b1".to_owned(),
        }
    }

    fn lock(change: impl Fn(&mut LockedHook)) -> Lock {
        let mut changed = hook("hooks/guard.sh");
        change(&mut changed);
        Lock::new([changed], vec![test()])
    }

    #[test]
    fn a_lock_is_read_as_it_was_written_and_one_of_another_version_is_not() {
        let locked = lock(|_| {});
        let text = locked.text().unwrap();
        assert_eq!(Lock::parse(&text), Ok(locked));
        let other = Lock::parse(&text.replace("version = 1", "version = 2"));
        assert!(other.unwrap_err().contains("update hookjail"));
        assert!(Lock::parse(&text.replace("profile", "profiles")).is_err());
    }

    #[test]
    fn each_difference_is_named_and_the_version_of_hookjail_is_none() {
        let locked = lock(|_| {});
        let mut later = locked.clone();
        "9.9.9".clone_into(&mut later.hookjail);
        later.tests[0].passed = 3;
        assert_eq!(locked.differences(&later), [""; 0]);
        for (other, expected) in [
            (lock(|it| "x".clone_into(&mut it.command)), "new hook: x"),
            (
                lock(|it| {
                    drop(
                        it.files
                            .insert("hooks/guard.sh".to_owned(), "a2".to_owned()),
                    )
                }),
                "changed file of hooks/guard.sh: hooks/guard.sh",
            ),
            (
                lock(|it| drop(it.files.insert("lib.sh".to_owned(), "a2".to_owned()))),
                "new file of hooks/guard.sh: lib.sh",
            ),
            (
                lock(|it| it.files.clear()),
                "gone file of hooks/guard.sh: hooks/guard.sh",
            ),
            (
                lock(|it| "network".clone_into(&mut it.profile)),
                "profile of hooks/guard.sh: was develop, is network",
            ),
            (
                lock(|it| it.hosts = vec!["a.example:443".to_owned()]),
                "hosts of hooks/guard.sh: was none, is a.example:443",
            ),
            (
                lock(|it| it.name = Some("Guard".to_owned())),
                "name of hooks/guard.sh: was none, is Guard",
            ),
            (
                lock(|it| it.settings = BTreeSet::new()),
                "settings of hooks/guard.sh: was .claude/settings.json: PreToolUse Bash, is none",
            ),
        ] {
            let found = locked.differences(&other);
            assert!(
                found.iter().any(|it| it == expected),
                "{expected}: {found:?}"
            );
        }
        let mut other = locked.clone();
        "b2".clone_into(&mut other.tests[0].sha256);
        assert_eq!(
            locked.differences(&other),
            ["changed file: hooks/guard.hooktest.toml"]
        );
        assert_eq!(
            locked.differences(&Lock::new([], vec![test()])),
            ["gone: hooks/guard.sh"]
        );
    }

    #[test]
    fn hooks_of_one_command_and_profile_are_one() {
        let mut other = hook("hooks/guard.sh");
        other.settings = [".codex/hooks.json: PreToolUse".to_owned()].into();
        let merged = Lock::new([hook("hooks/guard.sh"), other], Vec::new());
        assert_eq!((merged.hooks.len(), merged.hooks[0].settings.len()), (1, 2));
        assert!(
            merged.has("hooks/guard.sh", "develop") && !merged.has("hooks/guard.sh", "network")
        );
    }
}
