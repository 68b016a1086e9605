//! The command of a request: its arguments, its program, its name in the allowlist, and its timeout.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use hookjail_base::{
    interpreter,
    model::{Command, Hook, InvalidField, Peer, command_line, is_plain},
    refusal::Refusal,
};
use hookjail_contract::{CommandStyle, Defaults};
use hookjail_policy::Policy;
use hookjail_sandbox::{program::Program, rootfs::View};
use hookjail_sys::FileRights;

use super::rules::OperatorHook;
use crate::request::Request;

/// The command of a request, with its program's path.
#[derive(Debug)]
pub(super) struct FoundCommand {
    /// Program and arguments, with relative paths resolved.
    pub(super) argv: Vec<OsString>,
    /// The command as the allowlist spells it: by the program's path, however the request names it.
    pub(super) name: String,
    /// The program's path.
    pub(super) path: PathBuf,
    /// The command as the request spells it, in the allowlist's syntax; `None` if it is not UTF-8.
    pub(super) spelled: Option<String>,
}

impl FoundCommand {
    /// Finds a request's program.
    ///
    /// # Errors
    ///
    /// Refuses a line that cannot be split, a program that is not found, and a command that is not UTF-8.
    pub(super) fn find(
        request: &Request,
        policy: &Policy,
        view: View<'_>,
    ) -> Result<Self, Refusal> {
        let spelled = argv(request)?;
        let argv = absolute(&spelled, &request.hook);
        let path = Program::find(&argv, &policy.environment.path, view)?;
        let mut named = argv.clone();
        named[0] = path.clone().into_os_string();
        let name = command_line(&named).ok_or_else(|| {
            InvalidField::new(
                "hook.argv",
                "is not UTF-8, so no consent can be recorded for it",
            )
        })?;
        Ok(Self {
            argv,
            name,
            path,
            spelled: command_line(&spelled),
        })
    }

    /// Returns the command by the paths without links of its program and scripts, where it is known by those and not by its own. A
    /// project may be reached through a link.
    pub(super) fn by_real_path(self, peer: &Peer, is_known: impl Fn(&str) -> bool) -> Self {
        if is_known(&self.name) {
            return self;
        }
        let _as_caller = FileRights::for_user(peer.uid, peer.gid, &peer.groups);
        let mut argv = self.argv.clone();
        let scripts = interpreter::scripts(&self.argv);
        for index in [0].into_iter().chain(scripts) {
            let word = match index {
                0 => self.path.as_path(),
                script => Path::new(&self.argv[script]),
            };
            // The name itself stays: a link there is part of what was allowed.
            let (Some(directory), Some(name)) = (word.parent(), word.file_name()) else {
                continue;
            };
            if let Ok(directory) = directory.canonicalize()
                && word.is_absolute()
            {
                argv[index] = directory.join(name).into_os_string();
            }
        }
        match command_line(&argv).filter(|name| is_known(name)) {
            None => self,
            Some(name) => Self {
                name,
                path: PathBuf::from(&argv[0]),
                argv,
                spelled: self.spelled,
            },
        }
    }
}

/// Returns program and arguments; splits a command line by the contract's rules.
fn argv(request: &Request) -> Result<Vec<OsString>, InvalidField> {
    match &request.hook.command {
        Command::Argv(argv) => Ok(argv.clone()),
        Command::Line { shell, text } => match (defaults(request).command, shell) {
            (CommandStyle::Argv, None) => request.contract.split(text),
            (CommandStyle::Argv, Some(_)) => {
                let problem = format!(
                    "is not used by contract `{}`, which runs no shell",
                    request.contract.facts().contract
                );
                Err(InvalidField::new("hook.shell.shell", problem))
            }
            (CommandStyle::Shell { program, option }, shell) => {
                let program = shell.as_deref().unwrap_or(Path::new(program));
                Ok(vec![program.into(), option.into(), text.into()])
            }
        },
    }
}

/// Makes the program's relative path absolute.
///
/// Where the operator configures a base for relative paths, an interpreter's script is resolved as well.
fn absolute(argv: &[OsString], hook: &Hook) -> Vec<OsString> {
    let mut absolute = argv.to_vec();
    let workspace = hook.workspace.as_ref().filter(|_| hook.at_workspace);
    let Some(from) = hook.base.as_ref().or(workspace) else {
        return absolute;
    };
    let join = |word: &OsString| {
        let joined: PathBuf = from.join(word).components().collect();
        (Path::new(word).is_relative() && is_plain(&joined)).then(|| joined.into_os_string())
    };
    if let Some(program) = absolute.first_mut()
        && program.as_bytes().contains(&b'/')
        && let Some(joined) = join(program)
    {
        *program = joined;
    }
    if hook.base.is_some() {
        // The hook itself resolves other arguments, in the directory where the runtime starts it.
        for script in interpreter::scripts(argv) {
            if let Some(joined) = join(&argv[script]) {
                absolute[script] = joined;
            }
        }
    }
    absolute
}

/// Returns the defaults of the request's contract.
pub(super) fn defaults(request: &Request) -> Defaults {
    request.contract.defaults(&request.event.point)
}

/// Returns the wall time of a run: the request's, the hook's, the contract's, or the profile's.
pub(super) fn timeout(
    request: &Request,
    configured: Option<&OperatorHook>,
    policy: &Policy,
) -> Result<Duration, InvalidField> {
    let timeout = request
        .timeout
        .or_else(|| configured.and_then(|hook| hook.timeout))
        .or(defaults(request).timeout)
        .unwrap_or(policy.time.default);
    if timeout > policy.time.maximum {
        let problem = format!(
            "is {timeout:?}, and profile `{}` allows at most {:?}",
            policy.name, policy.time.maximum
        );
        return Err(InvalidField::new("timeout", problem));
    }
    Ok(timeout)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, os::unix::fs::symlink, sync::Arc};

    use super::*;

    #[test]
    fn a_command_behind_a_link_is_that_of_the_paths_without_it_where_it_is_known_by_those_alone() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir(root.join("project")).unwrap();
        symlink(root.join("project"), root.join("link")).unwrap();
        let peer = Peer {
            gid: nix::unistd::getegid().as_raw(),
            groups: Arc::default(),
            pid: None,
            remote: None,
            uid: nix::unistd::geteuid().as_raw(),
        };
        let find = |known: &[&str]| {
            let program = root.join("link/hook");
            let name = format!("{} x", program.display());
            let found = FoundCommand {
                argv: vec![program.clone().into(), "x".into()],
                name,
                path: program,
                spelled: None,
            };
            let known: Vec<_> = (known.iter())
                .map(|below| format!("{} x", root.join(below).display()))
                .collect();
            found.by_real_path(&peer, |name| known.iter().any(|known| known == name))
        };
        for (known, expected) in [
            (&["project/hook"][..], "project/hook"),
            (&["project/hook", "link/hook"], "link/hook"),
            (&["project/other"], "link/hook"),
        ] {
            let found = find(known);
            assert_eq!(found.path, root.join(expected), "{known:?}");
            assert_eq!(found.argv[0], found.path.as_os_str());
        }
    }

    #[test]
    fn relative_programs_and_scripts_start_where_the_operator_says_and_else_programs_in_the_workspace()
     {
        let hook = |base: Option<&str>, workspace: Option<&str>, at_workspace| Hook {
            source: None,
            umask: None,
            at_workspace,
            base: base.map(PathBuf::from),
            command: Command::Argv(Vec::new()),
            configured_env: BTreeMap::new(),
            env: BTreeMap::new(),
            name: String::new(),
            working_dir: None,
            workspace: workspace.map(PathBuf::from),
        };
        let resolved = |line: &str, hook: &Hook| {
            let argv: Vec<_> = line.split(' ').map(OsString::from).collect();
            command_line(&absolute(&argv, hook)).unwrap()
        };
        let in_base = hook(Some("/base"), Some("/w"), true);
        let in_workspace = hook(None, Some("/w"), true);
        let nowhere = hook(None, Some("/w"), false);
        for (line, base, workspace) in [
            ("./a/x b/c", "/base/a/x b/c", "/w/a/x b/c"),
            ("a/x", "/base/a/x", "/w/a/x"),
            ("python3 a/x.py b.py", "/base/a/x.py b.py", "a/x.py b.py"),
            ("x a/y", "x a/y", "x a/y"),
            ("/x a/y", "/x a/y", "/x a/y"),
            ("../x", "../x", "../x"),
        ] {
            let whole = |text: &str| match line.strip_prefix("python3 ") {
                Some(_) => format!("python3 {text}"),
                None => text.to_owned(),
            };
            assert_eq!(resolved(line, &in_base), whole(base));
            assert_eq!(resolved(line, &in_workspace), whole(workspace));
            assert_eq!(resolved(line, &nowhere), line);
        }
    }
}
