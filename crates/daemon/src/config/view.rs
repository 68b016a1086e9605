//! The configuration in force, key by key, with where each value is from.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Serialize;
use toml::{Table, Value};

use hookjail_base::model::Users;

use super::{
    Config, ConfigError, ConfigProblem, ProcessEnv,
    managed::{self, Managed},
    read_table, reading,
};

/// A key's value and its origin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// The key, as `section.key`; the name of a list of tables alone.
    pub key: String,
    /// The value; of a list of tables how many it has.
    pub value: Value,
    /// The origin.
    pub origin: Origin,
    /// The file, if one has the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

/// Origin of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// No file has the key. Its value may depend on the user and on the environment.
    Default,
    /// The configuration.
    File,
    /// One of the administrator's files.
    Managed,
}

/// Returns all settings in force, by key.
///
/// # Errors
///
/// As [`Config::load`].
pub(crate) fn settings(
    path: Option<&Path>,
    environment: &ProcessEnv,
) -> Result<Vec<Setting>, ConfigError> {
    reading(path, |text, managed| {
        view((text, path), managed, environment)
    })
}

fn view(
    (text, path): (&str, Option<&Path>),
    managed: Option<&Managed>,
    environment: &ProcessEnv,
) -> Result<Vec<Setting>, ConfigProblem> {
    let config = Config::narrowed(text, managed, environment)?;
    let written = read_table(text)?;
    let merged = match managed {
        Some(managed) => managed.narrow(written.clone())?,
        None => written.clone(),
    };
    let setting = |(key, value): (String, Value)| {
        let (origin, file) = if managed::value_at(&written, &key).is_some() {
            (Origin::File, path)
        } else if managed::value_at(&merged, &key).is_some() {
            let file = managed.and_then(|managed| managed.file_of(&key));
            (Origin::Managed, file)
        } else {
            (Origin::Default, None)
        };
        Setting {
            file: file.map(Path::to_owned),
            key,
            origin,
            value: shown(value),
        }
    };
    let of_policy = managed.map(of_policy).unwrap_or_default();
    let settings = in_force(&config)?.into_iter().map(setting);
    Ok(settings.chain(of_policy).collect())
}

/// Returns the required hooks and the versions of the administrator's files, each with its file.
fn of_policy(managed: &Managed) -> Vec<Setting> {
    let required = managed.required.iter();
    let required = required.map(|(file, hook)| (managed::REQUIRED, file, &hook.name));
    let versions = managed.versions.iter();
    let versions = versions.map(|(file, version)| (managed::VERSION, file, version));
    let setting = |(key, file, value): (&str, &PathBuf, &String)| Setting {
        file: Some(file.clone()),
        key: key.to_owned(),
        origin: Origin::Managed,
        value: Value::from(value.as_str()),
    };
    required.chain(versions).map(setting).collect()
}

/// Returns the values in force, by key.
///
/// # Errors
///
/// Fails where a value cannot be written as a file has it.
pub(super) fn in_force(config: &Config) -> Result<BTreeMap<String, Value>, ConfigProblem> {
    let written = Table::try_from(&config.sections)
        .map_err(|error| ConfigProblem::Syntax(format!("cannot be shown: {error}")))?;
    let mut values = BTreeMap::new();
    for key in managed::keys(&written) {
        if let Some(value) = managed::value_at(&written, &key).cloned() {
            values.insert(key, value);
        }
    }
    for (value, key) in derived(config) {
        values.entry(key.to_owned()).or_insert(value);
    }
    Ok(values)
}

/// Returns the values that depend on the user and on the environment where no file has them.
fn derived(config: &Config) -> [(Value, &'static str); 3] {
    let roots = &config.workspace_roots;
    let roots = match roots.homes_of_callers {
        true => Value::from("the home of each caller"),
        false => {
            let roots = roots.homes.iter().chain(&roots.named);
            Value::Array(
                roots
                    .map(|it| Value::from(it.display().to_string()))
                    .collect(),
            )
        }
    };
    let most = Value::from(config.bytes_in_flight().to_string());
    [
        (roots, "hooks.workspace_roots"),
        (listed(&config.callers), "server.callers"),
        (most, "server.max_bytes_in_flight"),
    ]
}

fn listed(users: &Users) -> Value {
    let uids = users.uids.iter().map(|uid| Value::from(i64::from(*uid)));
    let groups = users
        .groups
        .iter()
        .map(|gid| Value::from(format!("group {gid}")));
    Value::Array(uids.chain(groups).collect())
}

/// Returns a value as it may be shown: entries of lists of tables may have variables with secrets.
fn shown(value: Value) -> Value {
    let entries = value
        .as_array()
        .filter(|items| items.iter().any(Value::is_table));
    match entries.map(Vec::len) {
        Some(count) => Value::from(format!("{count} of them")),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use hookjail_base::util::user_paths::UserPaths;

    use super::*;

    fn at_home() -> ProcessEnv {
        ProcessEnv {
            paths: UserPaths {
                home: Some("/home/u".into()),
                xdg_runtime: Some("/run/user/1".into()),
                ..UserPaths::default()
            },
            ..ProcessEnv::default()
        }
    }

    #[test]
    fn each_key_has_its_value_in_force_and_where_it_is_from() {
        let limits =
            "[hooks]\nmax_concurrent = 8\nmax_queued = 9\n[profiles]\nallow = [\"strict\"]\n";
        let managed = Managed::parse(Path::new("/m"), limits).unwrap();
        let text = "[hooks]\nmax_queued = 3\n[[secret]]\nname = \"s\"\npattern = \"hunter2\"\n";
        let view = view((text, Some(Path::new("/o"))), Some(&managed), &at_home()).unwrap();
        let setting = |key: &str| {
            let found = view.iter().find(|it| it.key == key).unwrap();
            let file = found.file.as_deref().and_then(Path::to_str);
            (found.value.to_string(), found.origin, file)
        };
        assert_eq!(
            setting("hooks.max_concurrent"),
            ("8".into(), Origin::Managed, Some("/m"))
        );
        assert_eq!(
            setting("hooks.max_queued"),
            ("3".into(), Origin::File, Some("/o"))
        );
        assert_eq!(
            setting("hooks.spawners"),
            ("4".into(), Origin::Default, None)
        );
        assert_eq!(setting("profiles.allow").1, Origin::Managed);
        assert_eq!(
            setting("paths.state"),
            (
                "\"/home/u/.local/state/hookjail\"".into(),
                Origin::Default,
                None
            )
        );
        assert_eq!(
            setting("secret"),
            ("\"1 of them\"".into(), Origin::File, Some("/o"))
        );
        assert!(!format!("{view:?}").contains("hunter2"));
    }

    #[test]
    fn every_key_of_the_example_is_shown() {
        let example = include_str!("../../../../examples/hookjail.toml");
        let view = view((example, None), None, &at_home()).unwrap();
        for key in managed::keys(&read_table(example).unwrap()) {
            assert!(view.iter().any(|it| it.key == key), "{key}");
        }
    }
}
