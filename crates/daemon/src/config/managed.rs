//! The administrator's files: values that every other configuration of this host may only narrow.
//!
//! Their keys are those keys of a configuration that have a rule in [`RULES`]. A key that only these files set has their value;
//! one that both set is an error where the configuration's is wider.

mod files;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

use hookjail_base::util::units::{Size, Span};
use hookjail_contract::Url;
use hookjail_policy::egress::Egress;

pub use self::files::APPLYING;
pub(super) use self::files::Trust;
use super::{ConfigProblem, deserialize, file::HookEntry, read_table};

/// The directory of the administrator's files. No user and no variable of the environment decides that.
pub const DIRECTORY: &str = "/etc/hookjail";

/// The key of a file's version.
pub(super) const VERSION: &str = "version";

/// The key of required hooks.
pub(super) const REQUIRED: &str = "required";

/// The longest version, characters.
const VERSION_CHARACTERS: usize = 64;

/// Condition under which a value narrows another.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// A number or a size that is no larger.
    AtMost,
    /// A number that is no larger, where 0 stands for any.
    Capped,
    /// The value itself, once it is this one.
    Kept(bool),
    /// A list without other items.
    Within,
    /// A list of URLs, each at or below one of these.
    Below,
    /// A list of rules of `egress`, each inside one of these.
    Hosts,
    /// This value alone.
    Same,
}

/// The keys that can be managed.
const RULES: [(&str, Rule); 23] = [
    ("audit.readers", Rule::Within),
    ("backends.order", Rule::Within),
    ("consent.accept_hooks", Rule::Kept(false)),
    ("consent.operators", Rule::Within),
    ("consent.runtime", Rule::Kept(false)),
    ("egress.allow", Rule::Hosts),
    ("egress.ca", Rule::Same),
    ("egress.direct", Rule::Hosts),
    ("egress.proxy", Rule::Same),
    ("hooks.calls_per_minute", Rule::AtMost),
    ("hooks.cpu_per_minute", Rule::AtMost),
    ("hooks.disabled", Rule::Kept(true)),
    ("hooks.event_max", Rule::AtMost),
    ("hooks.journal_per_minute", Rule::AtMost),
    ("hooks.max_concurrent", Rule::AtMost),
    ("hooks.max_hook_driven_turns", Rule::Capped),
    ("hooks.max_queued", Rule::AtMost),
    ("http.allow", Rule::Below),
    ("notify.enabled", Rule::Kept(false)),
    ("profiles.allow", Rule::Within),
    ("profiles.dirs", Rule::Within),
    ("run.private", Rule::Kept(false)),
    ("server.callers", Rule::Within),
];

/// The administrator's files, read and joined.
#[derive(Clone, Debug, Default)]
pub(super) struct Managed {
    /// The file that sets each key.
    origins: BTreeMap<String, PathBuf>,
    /// The required hooks, each with its file.
    pub(super) required: Vec<(PathBuf, HookEntry)>,
    /// The joined values.
    table: Table,
    /// The version of each file that has one, in the order of the files.
    pub(super) versions: Vec<(PathBuf, String)>,
}

impl Managed {
    /// Parses one file.
    ///
    /// # Errors
    ///
    /// Names a key that cannot be managed, or whose value is no configuration's.
    pub(super) fn parse(file: &Path, text: &str) -> Result<Self, ConfigProblem> {
        let mut table = read_table(text)?;
        let version = table.remove(VERSION).map(version).transpose()?;
        let required = table.remove(REQUIRED).map(required).transpose()?;
        drop(deserialize(&table.to_string())?);
        let unmanageable = keys(&table).find(|key| rule(key).is_none());
        if let Some(key) = unmanageable {
            let known: Vec<_> = RULES.iter().map(|(key, _)| *key).collect();
            return Err(ConfigProblem::Syntax(format!(
                "`{key}` cannot be managed here; use one of {REQUIRED}, {VERSION}, {}",
                known.join(", ")
            )));
        }
        let with_file = |entry| (file.to_owned(), entry);
        Ok(Self {
            origins: keys(&table).map(|key| (key, file.to_owned())).collect(),
            required: required.into_iter().flatten().map(with_file).collect(),
            table,
            versions: version
                .into_iter()
                .map(|it| (file.to_owned(), it))
                .collect(),
        })
    }

    /// Joins a later file, which narrows these values.
    ///
    /// # Errors
    ///
    /// Names a key whose value is wider than here, and a required hook that an earlier file has.
    fn join(mut self, later: Self) -> Result<Self, ConfigProblem> {
        for (_, entry) in &later.required {
            let mut earlier = self.required.iter();
            if let Some((file, _)) = earlier.find(|(_, earlier)| earlier.name == entry.name) {
                let problem = format!("is in `{}` too; rename one of them", file.display());
                return Err(ConfigProblem::key("required.name", problem).in_entry(&entry.name));
            }
        }
        self.table = self.narrow(later.table)?;
        self.origins.extend(later.origins);
        self.required.extend(later.required);
        self.versions.extend(later.versions);
        Ok(self)
    }

    /// Returns the file that sets a key.
    pub(super) fn file_of(&self, key: &str) -> Option<&Path> {
        self.origins.get(key).map(PathBuf::as_path)
    }

    /// Returns the versions of all files, in the order of the files; `None` where no file has one.
    pub(super) fn version(&self) -> Option<String> {
        let versions: Vec<_> = self.versions.iter().map(|(_, it)| it.as_str()).collect();
        (!versions.is_empty()).then(|| versions.join(", "))
    }

    /// Returns a configuration with these values where it has none of its own.
    ///
    /// # Errors
    ///
    /// Names a key whose value is wider than here.
    pub(super) fn narrow(&self, mut configuration: Table) -> Result<Table, ConfigProblem> {
        for (key, rule) in RULES {
            let limit = value_at(&self.table, key);
            match (
                value_at(&configuration, key),
                limit.or_else(|| self.implied(key)),
            ) {
                (_, None) => continue,
                (None, Some(_)) => {
                    if let Some(limit) = limit {
                        put(&mut configuration, key, limit.clone());
                    }
                }
                (Some(value), Some(limit)) if rule.holds(value, limit) => {}
                (Some(value), Some(limit)) => return Err(self.wider(key, value, limit)),
            }
            if key == "backends.order"
                && let Some(limit) = limit
                && let Some(Value::Table(profiles)) = value_at(&configuration, "backends.profiles")
                && let Some(wider) = profiles.values().find(|it| !rule.holds(it, limit))
            {
                return Err(self.wider("backends.profiles", wider, limit));
            }
        }
        Ok(configuration)
    }

    /// Returns the limit of a key that the file leaves to another: with a proxy of the administrator's no host is reached without it.
    fn implied(&self, key: &str) -> Option<&'static Value> {
        const NONE: &Value = &Value::Array(Vec::new());
        let has_proxy = value_at(&self.table, "egress.proxy").is_some();
        (has_proxy && key == "egress.direct").then_some(NONE)
    }

    fn wider(&self, key: &'static str, value: &Value, limit: &Value) -> ConfigProblem {
        let of_list = (key == "backends.profiles").then_some("backends.order");
        let implied = (key == "egress.direct").then_some("egress.proxy");
        let keys = [Some(key), of_list, implied].into_iter().flatten();
        let mut files = keys.filter_map(|key| self.file_of(key));
        let file = files.next().unwrap_or(Path::new(DIRECTORY)).display();
        ConfigProblem::key(
            key,
            format!(
                "is {value}, and `{file}` allows no more than {limit}; narrow it or take it out"
            ),
        )
    }
}

impl Rule {
    /// Returns whether a value is no wider than another. One whose form is not known is wider.
    fn holds(self, value: &Value, limit: &Value) -> bool {
        let list = || value.as_array().zip(limit.as_array());
        let numbers = amount(value).zip(amount(limit));
        match self {
            Self::AtMost => numbers.is_some_and(|(value, limit)| value <= limit),
            Self::Capped => {
                numbers.is_some_and(|(value, limit)| limit == 0 || value != 0 && value <= limit)
            }
            Self::Kept(kept) => limit.as_bool() != Some(kept) || value.as_bool() == Some(kept),
            Self::Within => {
                list().is_some_and(|(values, limit)| values.iter().all(|item| limit.contains(item)))
            }
            Self::Below => list().is_some_and(|(values, limit)| {
                let limits: Vec<_> = limit.iter().filter_map(url).collect();
                values.iter().all(|item| {
                    url(item).is_some_and(|item| limits.iter().any(|limit| item.is_within(limit)))
                })
            }),
            Self::Hosts => list().is_some_and(|(values, limit)| {
                let limits: Vec<_> = limit.iter().filter_map(host).collect();
                values.iter().all(|item| {
                    host(item).is_some_and(|item| limits.iter().any(|limit| item.is_within(limit)))
                })
            }),
            Self::Same => value == limit,
        }
    }
}

/// Reads a version.
fn version(value: Value) -> Result<String, ConfigProblem> {
    let printable = |text: &&str| {
        (1..=VERSION_CHARACTERS).contains(&text.len())
            && text.chars().all(|it| it == ' ' || it.is_ascii_graphic())
    };
    let version = value.as_str().filter(printable).map(str::to_owned);
    version.ok_or_else(|| {
        let problem = format!("must be a text of 1 to {VERSION_CHARACTERS} printable characters");
        ConfigProblem::key(VERSION, problem)
    })
}

/// Reads the required hooks of a file.
fn required(value: Value) -> Result<Vec<HookEntry>, ConfigProblem> {
    let read = value.try_into();
    read.map_err(|error: toml::de::Error| {
        ConfigProblem::key(REQUIRED, format!("cannot be read: {}", error.message()))
    })
}

fn host(value: &Value) -> Option<Egress> {
    value.as_str()?.parse().ok()
}

fn url(value: &Value) -> Option<Url> {
    Url::parse(value.as_str()?).ok()
}

/// Returns a number, a size's bytes, or a duration's nanoseconds.
fn amount(value: &Value) -> Option<u128> {
    let size: Result<Size, _> = value.clone().try_into();
    let span = || {
        value
            .clone()
            .try_into()
            .ok()
            .map(|Span(time)| time.as_nanos())
    };
    size.ok().map(|size| size.0.into()).or_else(span)
}

fn rule(key: &str) -> Option<Rule> {
    let found = RULES.iter().find(|(known, _)| *known == key);
    found.map(|(_, rule)| *rule)
}

/// Returns the keys of a file. A key of a section has the section's name before it.
pub(super) fn keys(table: &Table) -> impl Iterator<Item = String> {
    table
        .iter()
        .flat_map(|(section, value)| match value.as_table() {
            Some(keys) => {
                let keys = keys.keys();
                keys.map(|key| format!("{section}.{key}")).collect()
            }
            None => vec![section.clone()],
        })
}

/// Returns the value of a key like `section.key`.
pub(super) fn value_at<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    match key.split_once('.') {
        Some((section, key)) => table.get(section)?.get(key),
        None => table.get(key),
    }
}

fn put(table: &mut Table, key: &str, value: Value) {
    let Some((section, key)) = key.split_once('.') else {
        return;
    };
    let section = table.entry(section).or_insert(Value::Table(Table::new()));
    if let Value::Table(section) = section {
        section.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use hookjail_base::util::user_paths::UserPaths;

    use super::*;
    use crate::config::{Config, ProcessEnv};

    fn managed(text: &str) -> Managed {
        Managed::parse(Path::new("/m"), text).unwrap()
    }

    /// Joins files called `/1`, `/2` and so on.
    fn join_all(texts: &[&str]) -> Result<Managed, ConfigProblem> {
        let mut files = texts.iter().zip(1..);
        files.try_fold(Managed::default(), |earlier, (text, number)| {
            earlier.join(Managed::parse(Path::new(&format!("/{number}")), text)?)
        })
    }

    #[test]
    fn a_later_file_narrows_the_earlier_ones_and_the_versions_of_all_count() {
        let all = join_all(&[
            "version = \"base 12\"\n[hooks]\nmax_concurrent = 64\nmax_queued = 5\n",
            "[profiles]\nallow = [\"strict\"]\n",
            "version = \"team-a 3\"\n[hooks]\nmax_concurrent = 8\n",
        ]);
        let all = all.unwrap();
        assert_eq!(all.version().as_deref(), Some("base 12, team-a 3"));
        assert_eq!(managed("[hooks]\nmax_queued = 1").version(), None);
        let file = |key: &str| all.file_of(key).and_then(Path::to_str);
        assert_eq!(file("hooks.max_concurrent"), Some("/3"));
        assert_eq!(file("hooks.max_queued"), Some("/1"));
        assert_eq!(file("profiles.allow"), Some("/2"));
        let narrow = |text: &str| all.narrow(read_table(text).unwrap());
        let error = narrow("[hooks]\nmax_concurrent = 9\n")
            .unwrap_err()
            .to_string();
        assert!(error.contains("`/3`"), "{error}");
        assert!(narrow("[hooks]\nmax_concurrent = 8\nmax_queued = 5\n").is_ok());
    }

    #[test]
    fn a_later_file_that_widens_an_earlier_one_is_an_error_that_names_it_and_the_key() {
        for (earlier, later, key) in [
            (
                "[hooks]\nmax_concurrent = 8\n",
                "[hooks]\nmax_concurrent = 9\n",
                "hooks.max_concurrent",
            ),
            (
                "[run]\nprivate = false\n",
                "[run]\nprivate = true\n",
                "run.private",
            ),
            (
                "[egress]\nproxy = \"http://a:1\"\n",
                "[egress]\ndirect = [\"a.example:443\"]\n",
                "egress.direct",
            ),
        ] {
            let error = join_all(&[earlier, later]).unwrap_err().to_string();
            assert!(
                error.contains(key) && error.contains("`/1`"),
                "{key}: {error}"
            );
            assert!(join_all(&[earlier, earlier]).is_ok(), "{key}");
        }
    }

    #[test]
    fn a_version_is_a_short_printable_text() {
        let version = |value: &str| {
            let parsed = Managed::parse(Path::new("/m"), &format!("version = {value}\n"));
            parsed.map(|it| it.version().unwrap())
        };
        assert_eq!(version("\"2026-11-30.1\"").unwrap(), "2026-11-30.1");
        let longest = format!("\"{}\"", "v".repeat(64));
        assert!(version(&longest).is_ok());
        let too_long = format!("\"{}\"", "v".repeat(65));
        for wrong in ["\"\"", "7", "\"a\\nb\"", "\"ä\"", &too_long] {
            let error = version(wrong).unwrap_err().to_string();
            assert!(error.contains("`version`"), "{wrong}: {error}");
        }
        // No user's configuration has one.
        assert!(Config::narrowed("version = \"1\"", None, &ProcessEnv::default()).is_err());
    }

    /// Returns whether a configuration may have a value, where the administrator's file has another.
    fn may(key: &str, limit: &str, value: &str) -> bool {
        let (section, name) = key.split_once('.').unwrap();
        let text = |value: &str| format!("[{section}]\n{name} = {value}\n");
        let configuration = read_table(&text(value)).unwrap();
        let narrowed = managed(&text(limit)).narrow(configuration.clone());
        if let Ok(narrowed) = &narrowed {
            assert_eq!(*narrowed, configuration, "{key}");
        }
        narrowed.is_ok()
    }

    #[test]
    fn what_is_narrower_is_taken_and_what_is_wider_is_an_error() {
        for (key, limit, narrower, wider) in [
            ("audit.readers", "[\"ada\", 7]", "[7]", "[8]"),
            (
                "backends.order",
                "[\"landlock\", \"container\"]",
                "[\"container\"]",
                "[\"landlock\", \"noop\"]",
            ),
            ("consent.accept_hooks", "false", "false", "true"),
            ("consent.accept_hooks", "true", "false", ""),
            ("consent.operators", "[]", "[]", "[0]"),
            ("consent.runtime", "false", "false", "true"),
            (
                "egress.allow",
                "[\"*.a.example:443\"]",
                "[\"b.a.example:443\"]",
                "[\"a.example:443\"]",
            ),
            ("egress.ca", "\"/a\"", "\"/a\"", "\"/b\""),
            (
                "egress.direct",
                "[\"*.a.example:443\"]",
                "[]",
                "[\"a.example:443\"]",
            ),
            (
                "egress.proxy",
                "\"http://a:1\"",
                "\"http://a:1\"",
                "\"http://b:1\"",
            ),
            ("hooks.calls_per_minute", "600", "599", "601"),
            ("hooks.cpu_per_minute", "\"30s\"", "\"29s\"", "\"1m\""),
            ("hooks.disabled", "true", "true", "false"),
            ("hooks.disabled", "false", "true", ""),
            ("hooks.event_max", "\"1MiB\"", "1048576", "\"1025KiB\""),
            (
                "hooks.journal_per_minute",
                "\"1MiB\"",
                "1048576",
                "\"1025KiB\"",
            ),
            ("hooks.max_concurrent", "64", "64", "65"),
            ("hooks.max_hook_driven_turns", "25", "1", "0"),
            ("hooks.max_hook_driven_turns", "0", "0", ""),
            ("hooks.max_queued", "10", "0", "11"),
            (
                "http.allow",
                "[\"https://a.example/x/\"]",
                "[\"https://a.example/x/y\"]",
                "[\"https://a.example/\"]",
            ),
            (
                "profiles.allow",
                "[\"strict\", \"pipeline\"]",
                "[\"strict\"]",
                "[\"strict\", \"network\"]",
            ),
            ("profiles.dirs", "[\"/etc/p\"]", "[]", "[\"/home/u/p\"]"),
            ("run.private", "false", "false", "true"),
            ("server.callers", "[\"@team\"]", "[\"@team\"]", "[\"eve\"]"),
        ] {
            assert!(may(key, limit, narrower), "{key} {narrower}");
            assert!(may(key, limit, limit), "{key} {limit}");
            assert!(wider.is_empty() || !may(key, limit, wider), "{key} {wider}");
        }
        for (key, _) in RULES {
            assert!(
                include_str!("../../../../docs/configuration.md").contains(&format!("| `{key}` |")),
                "{key}"
            );
        }
    }

    #[test]
    fn an_error_names_the_key_both_values_and_the_file() {
        let limits = managed("[hooks]\nmax_concurrent = 64\n");
        let configuration = read_table("[hooks]\nmax_concurrent = 100\n").unwrap();
        let error = limits.narrow(configuration).unwrap_err().to_string();
        for part in ["`hooks.max_concurrent`", "100", "64", "`/m`"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn an_administrators_proxy_is_not_passed_by() {
        let proxy = "[egress]\nproxy = \"http://a:1\"\n";
        let with_direct =
            |direct: &str| read_table(&format!("[egress]\ndirect = {direct}\n")).unwrap();
        assert!(managed(proxy).narrow(with_direct("[]")).is_ok());
        let error = managed(proxy).narrow(with_direct("[\"a.example:443\"]"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("`egress.direct`"), "{error}");
        let with_hosts = managed(&format!("{proxy}direct = [\"*.corp.example:443\"]\n"));
        let error = with_hosts.narrow(with_direct("[\"a.corp.example:22\"]"));
        assert!(error.is_err(), "another port");
        assert!(
            with_hosts
                .narrow(with_direct("[\"a.corp.example:443\"]"))
                .is_ok()
        );
    }

    #[test]
    fn a_profiles_backends_are_no_way_around() {
        let limits = managed("[backends]\norder = [\"landlock\"]\n");
        let configuration =
            |list: &str| read_table(&format!("[backends.profiles]\nstrict = {list}\n")).unwrap();
        assert!(limits.narrow(configuration("[\"landlock\"]")).is_ok());
        let error = limits
            .narrow(configuration("[\"noop\"]"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("backends.profiles"), "{error}");
    }

    #[test]
    fn without_a_value_of_its_own_a_configuration_has_these() {
        let limits = managed(
            "[run]\nprivate = false\n[hooks]\nmax_concurrent = 3\n[profiles]\nallow = [\"strict\"]\n",
        );
        let home = ProcessEnv {
            paths: UserPaths {
                home: Some("/home/u".into()),
                ..UserPaths::default()
            },
            ..ProcessEnv::default()
        };
        let config = Config::narrowed("", Some(&limits), &home).unwrap();
        let profiles = config.profiles.allow.clone().unwrap();
        let profiles: Vec<_> = profiles.iter().map(ToString::to_string).collect();
        assert_eq!(
            (config.run.private, config.hooks.max_concurrent, profiles),
            (false, 3, vec!["strict".to_owned()])
        );
        // The control.
        let config = Config::narrowed("", None, &home).unwrap();
        assert!(config.run.private && config.profiles.allow.is_none());
    }

    #[test]
    fn a_key_that_nothing_narrows_or_nobody_knows_is_an_error() {
        for (text, expected) in [
            (
                "[paths]\nstate = \"/x\"\n",
                "`paths.state` cannot be managed",
            ),
            ("[[hook]]\ncommand = [\"/x\"]\n", "`hook` cannot be managed"),
            ("[hooks]\nmax_concurent = 1\n", "max_concurent"),
            ("[hooks\n", ""),
        ] {
            let error = Managed::parse(Path::new("/m"), text)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn variables_that_accept_commands_are_an_error_where_they_may_not() {
        let limits = managed("[consent]\naccept_hooks = false\n");
        let environment = |accept_hooks, own_accepts: &[&'static str]| ProcessEnv {
            accept_hooks,
            paths: UserPaths {
                home: Some("/home/u".into()),
                ..UserPaths::default()
            },
            own_accepts: own_accepts.iter().copied().collect(),
            ..ProcessEnv::default()
        };
        assert!(Config::narrowed("", Some(&limits), &environment(false, &[])).is_ok());
        for set in [environment(true, &[]), environment(false, &["a runtime"])] {
            let error = Config::narrowed("", Some(&limits), &set).unwrap_err();
            assert!(
                error.to_string().contains("consent.accept_hooks"),
                "{error}"
            );
            assert!(Config::narrowed("", None, &set).is_ok());
        }
    }
}
