//! Loads the operator's hook files at start. [`crate::contract::hook_file`] parses their content.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::{
    Action, Owner, Registered,
    rule::{self, Rule},
    variables::set_plugin_directory,
};
use crate::{
    contract::hook_file::{
        MAX_BYTES, Origin, ReadError, ReadFile, Switches, may_be_absent, plugins_name, read,
    },
    model::{Command, ProfileName},
    util::trusted_file::{self, Untrusted},
};

/// A file of hooks that the operator names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct HooksFile {
    /// The base of its relative paths; absolute. `None` = the file's directory for directories, the workspace for
    /// commands.
    pub base: Option<PathBuf>,
    /// The command that judges in the place of a model; `None` = none does.
    pub judge: Option<Command>,
    /// The contract, which also names the file's runtime.
    pub contract: String,
    /// The hooks' owner, where the file does not have one itself.
    pub owner: Owner,
    /// Its path; absolute.
    pub path: PathBuf,
    /// The profile that its hooks run under; `None` = each contract's.
    pub profile: Option<ProfileName>,
    /// Rules for some of its hooks.
    pub rules: Vec<Rule>,
}

/// Error of loading a file of hooks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    /// The content is invalid.
    #[error(transparent)]
    Content(#[from] ReadError),
    /// The file cannot be opened, or another user could have changed it.
    #[error("{}: cannot be read", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: Untrusted,
    },
}

/// Result of loading hook files.
#[derive(Clone, Debug, Default)]
#[must_use]
pub(crate) struct Loaded {
    /// The files with disabled hooks, each with the reason.
    pub disabled: Vec<String>,
    /// The hooks that run, in the order of the files.
    pub hooks: Vec<Registered>,
    /// Possible mistakes.
    pub warnings: Vec<String>,
}

/// Reads all files. They must exist, unless their runtime treats an absent file as one without hooks.
///
/// # Errors
///
/// Fails at the first file that cannot be read or whose content is invalid.
pub(crate) fn load(files: &[HooksFile], switches: &Switches) -> Result<Loaded, LoadError> {
    let mut all = Loaded::default();
    for file in files {
        let Some(text) = text(file)? else {
            let absent = format!("{}: there is no such file", file.path.display());
            all.disabled.push(absent);
            continue;
        };
        let name = file.path.display().to_string();
        let origin = Origin {
            base: file.base.as_deref().or_else(|| file.path.parent()),
            name: &name,
        };
        let mut read = read(&file.contract, &text, &origin, switches)?;
        own(&mut read, &file.owner, &file.contract);
        govern(&mut read, file, &name);
        all.warnings.append(&mut read.warnings);
        let disabled = read.disabled.as_ref();
        all.disabled
            .extend(disabled.map(|why| format!("{name}: {why}")));
        all.hooks.extend(read.enabled());
    }
    Ok(all)
}

/// Reads a file that need not be trusted, to examine it.
///
/// # Errors
///
/// Fails if the file cannot be read, or is not UTF-8.
pub(crate) fn peek(path: &Path) -> io::Result<String> {
    bounded(File::open(path)?)
}

fn text(file: &HooksFile) -> Result<Option<String>, LoadError> {
    let opened = trusted_file::open(&file.path, File::options().read(true));
    let read = opened.and_then(|opened| Ok(bounded(opened)?));
    match read {
        Ok(text) => Ok(Some(text)),
        Err(Untrusted::Io(error))
            if error.kind() == io::ErrorKind::NotFound && may_be_absent(&file.contract) =>
        {
            Ok(None)
        }
        Err(cause) => Err(LoadError::Open {
            cause,
            path: file.path.clone(),
        }),
    }
}

/// Reads a text up to one byte beyond the limit. Its parser then detects one too large.
pub(super) fn bounded(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Applies the operator's configuration of a file to its hooks.
fn govern(read: &mut ReadFile, file: &HooksFile, name: &str) {
    for hook in &mut read.hooks {
        hook.base = file.base.clone();
        let is_judged = !hook.mode.is_process() && matches!(hook.action, Action::Unsupported(_));
        if let (true, Some(judge)) = (is_judged, &file.judge) {
            hook.action = Action::Command(judge.clone());
        }
        set_plugin_directory(hook, file.base.as_deref(), &file.path);
        if let (None, Some(profile)) = (&hook.profile, &file.profile) {
            hook.profile = Some(profile.clone());
            hook.profile_granted = true;
        }
        rule::apply(&file.rules, hook);
    }
    for (index, rule) in file.rules.iter().enumerate() {
        if !read.hooks.iter().any(|hook| rule.means(hook)) {
            let warning = format!(
                "{name}: no hook of this file is meant by `rule[{index}]` of its `[[hooks_file]]`"
            );
            read.warnings.push(warning);
        }
    }
}

/// Sets the configured owner of hooks without one.
fn own(read: &mut ReadFile, owner: &Owner, contract: &str) {
    for hook in &mut read.hooks {
        if hook.owner != Owner::Operator {
            continue;
        }
        if let Owner::Plugin(plugin) = owner {
            hook.name = plugins_name(contract, plugin, std::mem::take(&mut hook.name));
        }
        hook.owner = owner.clone();
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    const INFER: &str = "enabled: true\nhooks:\n- {name: n, hook: pre_tool, command: c}\n";

    fn file(path: PathBuf, contract: &str, owner: Owner) -> HooksFile {
        HooksFile {
            base: None,
            contract: contract.to_owned(),
            judge: None,
            owner,
            path,
            profile: None,
            rules: Vec::new(),
        }
    }

    #[test]
    fn hooks_come_in_the_order_of_the_files_and_belong_to_whom_the_operator_says() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("1"), directory.path().join("2"));
        fs::write(&one, INFER).unwrap();
        fs::write(&two, INFER).unwrap();
        let files = [
            file(one.clone(), "infer", Owner::Operator),
            file(two, "infer", Owner::Plugin("p".to_owned())),
        ];

        let hooks = load(&files, &Switches::default()).unwrap().hooks;

        let names: Vec<_> = hooks.iter().map(|hook| hook.name.as_str()).collect();
        assert_eq!(names, ["n", "p:n"]);
        assert_eq!(hooks[0].source, format!("{}: hooks[0]", one.display()));
        assert_eq!(hooks[1].owner, Owner::Plugin("p".to_owned()));
    }

    #[test]
    fn a_rule_that_means_no_hook_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hooks.yaml");
        fs::write(&path, INFER).unwrap();
        let rule = |name: &str| Rule {
            name: Some(name.to_owned()),
            profile: ProfileName::parse("strict"),
            ..Rule::default()
        };
        let file = HooksFile {
            rules: vec![rule("n"), rule("m")],
            ..file(path.clone(), "infer", Owner::Operator)
        };
        let loaded = load(&[file], &Switches::default()).unwrap();
        assert_eq!(loaded.hooks[0].runs_under(), "strict");
        let warning = format!(
            "{}: no hook of this file is meant by `rule[1]` of its `[[hooks_file]]`",
            path.display()
        );
        assert_eq!(loaded.warnings, [warning]);
    }

    #[test]
    fn only_a_file_of_infers_may_be_absent() {
        let absent = PathBuf::from("/nonexistent/hooks");
        let of = |contract| file(absent.clone(), contract, Owner::Operator);
        let loaded = load(&[of("infer")], &Switches::default()).unwrap();
        assert!(loaded.hooks.is_empty());
        assert_eq!(
            loaded.disabled,
            ["/nonexistent/hooks: there is no such file"]
        );
        let error = load(&[of("reyn")], &Switches::default()).unwrap_err();
        assert_eq!(error.to_string(), "/nonexistent/hooks: cannot be read");
    }

    #[test]
    fn a_file_that_others_can_write_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hooks.yaml");
        fs::write(&path, INFER).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        let error = load(
            &[file(path, "infer", Owner::Operator)],
            &Switches::default(),
        );
        assert!(matches!(
            error,
            Err(LoadError::Open {
                cause: Untrusted::Writable { .. },
                ..
            })
        ));
    }

    #[test]
    fn a_file_that_is_too_large_or_no_text_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hooks.yaml");
        for content in [" ".repeat(2 * MAX_BYTES).into_bytes(), vec![0xff]] {
            fs::write(&path, content).unwrap();
            let files = [file(path.clone(), "reyn", Owner::Operator)];
            assert!(load(&files, &Switches::default()).is_err());
        }
    }
}
