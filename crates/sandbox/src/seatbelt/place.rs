//! Paths of one run, and the check that a profile's rule can name them.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use hookjail_base::refusal::{Fact, Reason, Refusal};

use hookjail_policy::{Access, Keep, rights::Rights};

/// Paths of one run, as the kernel names the opened files (`F_GETPATH`).
///
/// They are without links, in the file system's case and normal form. A rule about another spelling matches nothing.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The daemon's own paths, closed to the hook under every policy, except for the run's own paths in them.
    pub closed: &'a [PathBuf],
    /// The policy's grants, as far as they exist.
    pub granted: &'a [Granted],
    /// Paths that stay unchanged, even if the policy grants paths around them.
    pub kept: &'a [Kept],
    /// The run's own paths beside program and scratch directory: its script, its canary.
    pub own: &'a [Granted],
    /// The executed program.
    pub program: &'a Path,
    /// The hook's private directory.
    pub scratch: &'a Path,
    /// This program's own file, which `sandbox-exec` executes.
    pub witness: &'a Path,
}

/// A path that stays unchanged.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Kept {
    /// The path.
    pub path: PathBuf,
    /// Its protection.
    pub keep: Keep,
}

/// One granted path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Granted {
    /// The path.
    pub path: PathBuf,
    /// Rights that are granted.
    pub rights: Rights,
}

impl Granted {
    pub(crate) fn check(&self) -> Result<(), Inexpressible> {
        match self.rights {
            // Such a grant excludes creating entries, but a rule about the subtree would include it.
            Rights::Directory(Access::WriteFile) => {
                Err(Inexpressible::new(&self.path, Problem::Directory))
            }
            Rights::Directory(_) | Rights::File(_) | Rights::Private | Rights::Scratch => Ok(()),
        }
    }
}

/// A path that no rule of a profile can name.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{}` cannot be named in a Seatbelt profile: {problem}", .path.as_os_str().as_bytes().escape_ascii())]
pub struct Inexpressible {
    /// The path.
    pub path: PathBuf,
    /// The problem.
    pub problem: Problem,
}

impl Inexpressible {
    fn new(path: &Path, problem: Problem) -> Self {
        Self {
            path: path.to_owned(),
            problem,
        }
    }
}

impl From<Inexpressible> for Refusal {
    fn from(inexpressible: Inexpressible) -> Self {
        let path = inexpressible.path.display().to_string();
        Self::new(Reason::GrantMissing, inexpressible.to_string()).with(Fact::Path(path))
    }
}

/// Problem with a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Problem {
    /// A link on every Mac, which never occurs in the kernel's names.
    #[error(
        "the path leads through a link of the system; name the link's target, `/private/…` for example"
    )]
    Alias,
    /// A directory that is granted as a file to write.
    #[error("the path is a directory and granted as a file to write; grant the file")]
    Directory,
    /// The root directory, which contains everything.
    #[error("everything lies in it; name what is needed")]
    Everything,
    /// A parameter ends at a NUL byte.
    #[error("the path has a NUL byte")]
    Nul,
    /// Not absolute, or with empty, `.` or `..` parts, or a slash at the end.
    #[error("the path must be absolute, without `.`, `..`, `//` and a slash at the end")]
    Spelling,
    /// Longer than any path on a Mac.
    #[error("the path is longer than 1023 bytes, and no path on macOS is")]
    TooLong,
    /// Not Unicode, as every name on a Mac is.
    #[error("the path is not UTF-8, and every name on macOS is")]
    Unicode,
}

/// Checks that a rule can match a path, and no other.
pub(crate) fn check(path: &Path) -> Result<(), Inexpressible> {
    problem(path.as_os_str()).map_or(Ok(()), |problem| Err(Inexpressible::new(path, problem)))
}

fn problem(path: &OsStr) -> Option<Problem> {
    let bytes = path.as_bytes();
    let Some(rest) = bytes.strip_prefix(b"/") else {
        return Some(Problem::Spelling);
    };
    if rest.is_empty() {
        return Some(Problem::Everything);
    }
    if bytes.contains(&0) {
        return Some(Problem::Nul);
    }
    if rest
        .split(|byte| *byte == b'/')
        .any(|part| matches!(part, b"" | b"." | b".."))
    {
        return Some(Problem::Spelling);
    }
    if bytes.len() > MAX_PATH {
        return Some(Problem::TooLong);
    }
    if path.to_str().is_none() {
        return Some(Problem::Unicode);
    }
    let aliased = ALIASES
        .iter()
        .any(|alias| Path::new(path).starts_with(alias));
    aliased.then_some(Problem::Alias)
}

/// `PATH_MAX` of macOS counts the NUL at the end.
const MAX_PATH: usize = 1023;

/// Links on every Mac, and the volume with second names for its content (firmlinks).
const ALIASES: [&str; 4] = ["/etc", "/System/Volumes/Data", "/tmp", "/var"];
