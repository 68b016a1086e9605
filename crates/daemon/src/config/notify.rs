//! How notices of hooks are shown.

use std::path::Path;

use hookjail_base::notices::Means;

use super::{ConfigProblem, ProcessEnv, file::NotifyEntry};

/// Reads how notices are shown. Root's daemon asks no desktop, which would be another user's.
pub(super) fn read(written: NotifyEntry, environment: &ProcessEnv) -> Result<Means, ConfigProblem> {
    let NotifyEntry { command, enabled } = written;
    let command = command.map(checked).transpose()?;
    Ok(match command {
        _ if !enabled => Means::Off,
        Some(command) => Means::Command(command),
        None if environment.paths.root => Means::Off,
        None => Means::Desktop {
            address: environment.session_bus.clone(),
            path: environment.path.clone(),
            runtime: environment.paths.xdg_runtime.clone(),
        },
    })
}

fn checked(command: Vec<String>) -> Result<Vec<String>, ConfigProblem> {
    let is_absolute = command
        .first()
        .is_some_and(|it| Path::new(it).is_absolute());
    if !is_absolute || command.iter().any(|word| word.contains('\0')) {
        let problem = "must be a program's absolute path and its arguments, without NUL bytes, such as `[\"/usr/bin/notify-send\"]`";
        return Err(ConfigProblem::key("notify.command", problem));
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use hookjail_base::util::user_paths::UserPaths;

    use super::*;

    fn means(entry: NotifyEntry, root: bool) -> Result<Means, String> {
        let environment = ProcessEnv {
            path: vec!["/bin".into()],
            paths: UserPaths {
                root,
                ..UserPaths::default()
            },
            ..ProcessEnv::default()
        };
        read(entry, &environment).map_err(|problem| problem.to_string())
    }

    #[test]
    fn the_operators_program_comes_before_the_desktop_and_root_has_none() {
        let command = |words: &[&str]| NotifyEntry {
            command: Some(words.iter().map(|it| (*it).to_owned()).collect()),
            ..NotifyEntry::default()
        };
        let desktop = means(NotifyEntry::default(), false).unwrap();
        assert!(matches!(desktop, Means::Desktop { .. }));
        assert_eq!(means(NotifyEntry::default(), true), Ok(Means::Off));
        for root in [true, false] {
            let written = Means::Command(vec!["/x".into(), "-y".into()]);
            assert_eq!(means(command(&["/x", "-y"]), root), Ok(written));
            let off = NotifyEntry {
                enabled: false,
                ..command(&["/x"])
            };
            assert_eq!(means(off, root), Ok(Means::Off));
        }
        for wrong in [&[][..], &["notify-send"], &["/x", "a\0b"]] {
            let problem = means(command(wrong), false).unwrap_err();
            assert!(problem.contains("`notify.command`"), "{problem}");
        }
    }
}
