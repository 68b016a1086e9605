//! Loads the operator's hook files at start. [`hookjail_contract::hook_file`] parses their content.

use std::{
    fs::File,
    io::{self, Read},
    mem,
    path::{Path, PathBuf},
};

use hookjail_base::{
    model::{Command, ProfileName},
    refusal::chain,
    util::trusted_file::{self, Untrusted},
};
use hookjail_contract::{
    Mode, Point,
    hook_file::{
        MAX_BYTES, Origin, ReadError, ReadFile, Switches, may_be_absent, plugins_name, read,
    },
};
use hookjail_sys::FileRights;

use super::{
    Action, Owner, Registered,
    rule::{self, Rule},
    variables::set_plugin_directory,
};

/// A file of hooks that the operator names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HooksFile {
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
    /// The user whose file it is; `None` = the operator.
    pub user: Option<FileUser>,
}

/// A user with a file of hooks.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileUser {
    /// Its group.
    pub gid: u32,
    /// Its uid.
    pub uid: u32,
}

/// Error of loading a file of hooks.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
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
pub struct Loaded {
    /// The files with disabled hooks, each with the reason.
    pub disabled: Vec<String>,
    /// The hooks that run, in the order of the files.
    pub hooks: Vec<Registered>,
    /// Possible mistakes.
    pub warnings: Vec<String>,
}

impl Loaded {
    fn append(&mut self, mut other: Self) {
        self.disabled.append(&mut other.disabled);
        self.hooks.append(&mut other.hooks);
        self.warnings.append(&mut other.warnings);
    }
}

/// Reads all files. They must exist, unless their runtime treats an absent file as one without hooks.
///
/// # Errors
///
/// Fails at the first file that cannot be read or whose content is invalid.
pub(crate) fn load(files: &[HooksFile], switches: &Switches) -> Result<Loaded, LoadError> {
    let mut all = Loaded::default();
    for file in files {
        match (load_one(file, switches), file.user) {
            (Ok(loaded), None) => all.append(loaded),
            (Ok(mut loaded), Some(user)) => {
                loaded.hooks.iter_mut().for_each(|hook| belong(hook, user));
                all.append(loaded);
            }
            (Err(error), None) => return Err(error),
            (Err(error), Some(user)) => all.append(unusable(file, user, &chain(&error))),
        }
    }
    Ok(all)
}

fn load_one(file: &HooksFile, switches: &Switches) -> Result<Loaded, LoadError> {
    let Some(text) = text(file)? else {
        let absent = format!("{}: there is no such file", file.path.display());
        return Ok(Loaded {
            disabled: vec![absent],
            ..Loaded::default()
        });
    };
    let name = file.path.display().to_string();
    let origin = Origin {
        base: file.base.as_deref().or_else(|| file.path.parent()),
        name: &name,
    };
    let mut read = read(&file.contract, &text, &origin, switches)?;
    set_owner(&mut read, &file.owner, &file.contract);
    govern(&mut read, file, &name);
    let disabled = read.disabled.as_ref();
    Ok(Loaded {
        disabled: disabled
            .map(|why| format!("{name}: {why}"))
            .into_iter()
            .collect(),
        warnings: mem::take(&mut read.warnings),
        hooks: read.enabled(),
    })
}

/// Makes a hook one of a user's: its file is no operator's configuration.
fn belong(hook: &mut Registered, user: FileUser) {
    hook.user = Some(user.uid);
    // Like a request's: names must be on the profile's list.
    hook.env.append(&mut hook.configured_env);
    if matches!(hook.action, Action::Http(_)) {
        let why = "the operator's URLs and secrets are for the operator's files";
        hook.action = Action::Unsupported(why.to_owned());
    }
}

/// Returns hooks that cannot run, in place of those of a user's file that cannot be used. There is one for each known point, so that no
/// guard in the file is missed. No user's file keeps a daemon from starting.
fn unusable(file: &HooksFile, user: FileUser, why: &str) -> Loaded {
    let modes = Mode::ALL.into_iter();
    let mode = modes
        .filter(|mode| mode.facts().contract == file.contract)
        .find(|mode| mode.facts().is_process);
    let name = file.path.display().to_string();
    let hooks_of = |mode: Mode| {
        let at_point = |point: &Point| {
            let action = Action::Unsupported(why.to_owned());
            let mut hook = Registered::new(mode, point.name, (name.clone(), name.clone()), action);
            hook.user = Some(user.uid);
            hook
        };
        mode.facts().points.iter().map(at_point).collect::<Vec<_>>()
    };
    Loaded {
        hooks: mode.into_iter().flat_map(hooks_of).collect(),
        warnings: vec![format!("the hooks of uid {} are refused: {why}", user.uid)],
        ..Loaded::default()
    }
}

/// Reads a regular file that need not be trusted, to examine it.
///
/// # Errors
///
/// Fails if there is another kind of file, or it cannot be read, or is not UTF-8.
pub fn peek(path: &Path) -> io::Result<String> {
    bounded(trusted_file::open_untrusted(path)?)
}

fn text(file: &HooksFile) -> Result<Option<String>, LoadError> {
    let opened = match file.user {
        None => trusted_file::open_own_or_roots(&file.path, File::options().read(true)),
        Some(FileUser { gid, uid }) => {
            let _as_user = FileRights::for_user(uid, gid, &[]);
            trusted_file::open_of_user(uid, &file.path, File::options().read(true))
        }
    };
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
pub fn bounded(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8"))
}

/// Applies the operator's configuration of a file to its hooks.
fn govern(read: &mut ReadFile, file: &HooksFile, name: &str) {
    for hook in &mut read.hooks {
        hook.base = file.base.clone();
        let is_judged =
            !hook.mode.facts().is_process && matches!(hook.action, Action::Unsupported(_));
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
fn set_owner(read: &mut ReadFile, owner: &Owner, contract: &str) {
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
            user: None,
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
    fn a_users_file_serves_that_user_and_one_that_cannot_be_used_refuses_it_at_every_point() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hooks.yaml");
        let user = FileUser {
            gid: nix::unistd::getegid().as_raw(),
            uid: nix::unistd::geteuid().as_raw(),
        };
        let file_of = |uid| HooksFile {
            user: Some(FileUser { uid, ..user }),
            ..file(path.clone(), "infer", Owner::Operator)
        };
        let load = |uid| load(&[file_of(uid)], &Switches::default()).unwrap();
        let is_refused = |loaded: &Loaded| {
            let mut actions = loaded.hooks.iter().map(|hook| &hook.action);
            actions.all(|action| matches!(action, Action::Unsupported(_)))
        };
        fs::write(&path, INFER).unwrap();
        let loaded = load(user.uid);
        assert_eq!(loaded.hooks.len(), 1);
        assert!(!is_refused(&loaded) && loaded.warnings.is_empty());
        assert!(loaded.hooks[0].is_for(user.uid) && !loaded.hooks[0].is_for(user.uid + 1));

        let points = Mode::Infer.facts().points.len();
        let refused = |loaded: Loaded, why: &str| {
            assert_eq!(loaded.hooks.len(), points);
            assert!(
                is_refused(&loaded) && loaded.warnings[0].contains(why),
                "{loaded:?}"
            );
        };
        // Somebody else's file, a file that others can write, and one without sense.
        refused(load(user.uid + 1), "the path belongs to uid");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        refused(load(user.uid), "others can write it");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "hooks: 7").unwrap();
        refused(load(user.uid), "hooks");
    }

    #[test]
    fn a_users_file_has_no_more_than_that_users_requests() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("settings.json");
        let own_user = FileUser {
            gid: nix::unistd::getegid().as_raw(),
            uid: nix::unistd::geteuid().as_raw(),
        };
        let entry = r#"{"type": "http", "url": "https://a.example/x"}"#;
        let text = format!(r#"{{"hooks": {{"PreToolUse": [{{"hooks": [{entry}]}}]}}}}"#);
        fs::write(&path, text).unwrap();
        for (user, unsupported) in [(Some(own_user), true), (None, false)] {
            let file = HooksFile {
                user,
                ..file(path.clone(), "claude_code", Owner::Operator)
            };
            let hooks = load(&[file], &Switches::default()).unwrap().hooks;
            let is_unsupported = matches!(hooks[0].action, Action::Unsupported(_));
            assert_eq!(is_unsupported, unsupported, "{:?}", hooks[0].action);
        }
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
        let absent_file = |contract| file(absent.clone(), contract, Owner::Operator);
        let loaded = load(&[absent_file("infer")], &Switches::default()).unwrap();
        assert!(loaded.hooks.is_empty());
        assert_eq!(
            loaded.disabled,
            ["/nonexistent/hooks: there is no such file"]
        );
        let error = load(&[absent_file("reyn")], &Switches::default()).unwrap_err();
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
