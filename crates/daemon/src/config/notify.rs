//! How notices of hooks are shown.

use std::path::Path;

use serde::Deserializer;

use hookjail_base::notices::Means;

use super::{ProcessEnv, file::NotifyEntry, value::parsed};

/// Returns how notices are shown. Root's daemon asks no desktop, which would be another user's.
pub(super) fn means(entry: &NotifyEntry, environment: &ProcessEnv) -> Means {
    match &entry.command {
        _ if !entry.enabled => Means::Off,
        Some(command) => Means::Command(command.clone()),
        None if environment.paths.root => Means::Off,
        None => Means::Desktop {
            address: environment.session_bus.clone(),
            path: environment.path.clone(),
            runtime: environment.paths.xdg_runtime.clone(),
        },
    }
}

pub(super) fn command<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    parsed(from, |command: Vec<String>| {
        let program = command.first();
        let is_absolute = program.is_some_and(|it| Path::new(it).is_absolute());
        match is_absolute && !command.iter().any(|word| word.contains('\0')) {
            true => Ok(Some(command)),
            false => Err(
                "must be a program's absolute path and its arguments, without NUL bytes, such as `[\"/usr/bin/notify-send\"]`",
            ),
        }
    })
}

#[cfg(test)]
mod tests {
    use hookjail_base::util::user_paths::UserPaths;

    use super::*;
    use crate::config::Config;

    fn environment(root: bool) -> ProcessEnv {
        ProcessEnv {
            path: vec!["/bin".into()],
            paths: UserPaths {
                home: Some("/home/u".into()),
                root,
                ..UserPaths::default()
            },
            ..ProcessEnv::default()
        }
    }

    fn means(entry: &NotifyEntry, root: bool) -> Means {
        super::means(entry, &environment(root))
    }

    #[test]
    fn the_operators_program_comes_before_the_desktop_and_root_has_none() {
        let command = |words: &[&str]| NotifyEntry {
            command: Some(words.iter().map(|it| (*it).to_owned()).collect()),
            ..NotifyEntry::default()
        };
        let desktop = means(&NotifyEntry::default(), false);
        assert!(matches!(desktop, Means::Desktop { .. }));
        assert_eq!(means(&NotifyEntry::default(), true), Means::Off);
        for root in [true, false] {
            let written = Means::Command(vec!["/x".into(), "-y".into()]);
            assert_eq!(means(&command(&["/x", "-y"]), root), written);
            let disabled = NotifyEntry {
                enabled: false,
                ..command(&["/x"])
            };
            assert_eq!(means(&disabled, root), Means::Off);
        }
        for wrong in ["[]", "[\"notify-send\"]", "[\"/x\", \"a\\u0000b\"]"] {
            let text = format!("[notify]\ncommand = {wrong}");
            let problem = Config::parse(&text, &environment(false)).unwrap_err();
            let problem = problem.to_string();
            assert!(problem.contains("`notify.command`"), "{problem}");
        }
    }
}
