//! The built-in hooks that ask git: each is a command, which goes through the pipeline as every hook does.
//!
//! A workspace is not to be trusted with what its configuration starts. The profile allows no process beside git, and the
//! options switch off what git would start or obey: file system monitors, hooks, external diffs and conversions, signature
//! checks, pagers, colours, and looking into submodules, which takes a process for each.

use std::{collections::BTreeMap, ffi::OsString, num::NonZeroU32, path::Path};

use super::{directory, does_nothing, sees_nothing};
use crate::{
    contract::{Members, Report, Verdict},
    model::InvalidField,
    request::Request,
};

/// The profile where an entry names none: it allows reading the workspace, and no new process.
pub const PROFILE: &str = "strict";

/// How much of git's output the model is told, bytes.
const BYTES: usize = 4096;

/// How many commits are told of where an entry does not say.
const COMMITS: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// What stands before every command of git's.
const OPTIONS: [&str; 14] = [
    "--no-pager",
    "--no-optional-locks",
    "-c",
    "color.diff=false",
    "-c",
    "color.status=false",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.untrackedCache=false",
    "-c",
    "safe.directory=*",
];

/// What git is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Question {
    /// `add_recent_commits`: the last commits, one line each.
    Commits(NonZeroU32),
    /// `add_git_diff` with `full`: what the working tree changes, line by line.
    Diff,
    /// `add_git_diff`: what the working tree changes, in numbers.
    DiffStat,
    /// `add_git_status`: branch and changed files.
    Status,
}

impl Question {
    /// Parses a built-in's name and arguments; `None` where the name is not of one that asks git.
    ///
    /// # Errors
    ///
    /// Names arguments that it does not take.
    pub(crate) fn parse(name: &str, args: &[String]) -> Option<Result<Self, InvalidField>> {
        let wrong = |problem: &str| Err(InvalidField::new("args", problem));
        let words: Vec<_> = args.iter().map(String::as_str).collect();
        Some(match (name, &words[..]) {
            ("add_git_diff", []) => Ok(Self::DiffStat),
            ("add_git_diff", ["full"]) => Ok(Self::Diff),
            ("add_git_diff", _) => wrong("must be empty, or `full` for more than numbers"),
            ("add_git_status", []) => Ok(Self::Status),
            ("add_git_status", _) => wrong("must be empty: `add_git_status` takes no arguments"),
            ("add_recent_commits", []) => Ok(Self::Commits(COMMITS)),
            ("add_recent_commits", [count]) if count.parse::<NonZeroU32>().is_ok() => {
                Ok(Self::Commits(count.parse().unwrap_or(COMMITS)))
            }
            ("add_recent_commits", _) => wrong("must be empty or one positive number of commits"),
            _ => return None,
        })
    }

    /// Returns the built-in's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Commits(_) => "add_recent_commits",
            Self::Diff | Self::DiffStat => "add_git_diff",
            Self::Status => "add_git_status",
        }
    }

    /// Returns the built-in's arguments.
    pub fn args(self) -> Vec<String> {
        match self {
            Self::Commits(count) => vec![count.to_string()],
            Self::Diff => vec!["full".to_owned()],
            Self::DiffStat | Self::Status => Vec::new(),
        }
    }

    /// Returns the point at which it does something.
    pub const fn point(self) -> &'static str {
        match self {
            Self::Commits(_) => "session_start",
            Self::Diff | Self::DiffStat | Self::Status => "turn_start",
        }
    }

    /// Returns the command, as a consent names it.
    pub fn argv(self) -> Vec<String> {
        let count;
        let own: &[&str] = match self {
            Self::Commits(commits) => {
                count = commits.to_string();
                &[
                    "log",
                    "--oneline",
                    "--no-color",
                    "--no-decorate",
                    "--no-ext-diff",
                    "--no-mailmap",
                    "--no-show-signature",
                    "--no-textconv",
                    "-n",
                    &count,
                ]
            }
            Self::Diff => &[
                "diff",
                "--no-color",
                "--no-ext-diff",
                "--no-textconv",
                "--ignore-submodules=dirty",
                "--submodule=short",
            ],
            Self::DiffStat => &[
                "diff",
                "--stat",
                "--no-color",
                "--no-ext-diff",
                "--no-textconv",
                "--ignore-submodules=dirty",
                "--submodule=short",
            ],
            Self::Status => &["status", "--short", "--branch", "--ignore-submodules=dirty"],
        };
        let words = ["git"].iter().chain(&OPTIONS).chain(own);
        words.map(|word| (*word).to_owned()).collect()
    }

    /// Has a request ask git, where the runtime works; what is returned is the whole answer, where there is nothing to ask.
    ///
    /// # Errors
    ///
    /// The event is not one JSON object.
    pub fn put(self, request: &mut Request) -> Result<Option<Verdict>, InvalidField> {
        let event = request.contract.stdin(&request.event, &request.envelope)?;
        let event = Members::of_event(&event)?;
        if request.event.point != self.point() {
            return Ok(Some(does_nothing(self.name())));
        }
        let hook = &request.hook;
        let directory = match directory(
            &event,
            hook.working_dir.as_deref(),
            hook.workspace.as_deref(),
        ) {
            Ok(directory) => directory,
            Err(elsewhere) => return Ok(Some(sees_nothing(self.name(), elsewhere))),
        };
        request.entry.report = Some(Report {
            bytes: BYTES,
            heading: match self {
                Self::Commits(_) => "Recent commits",
                Self::Diff => "Current working-tree diff",
                Self::DiffStat => "Current working-tree diff (stat)",
                Self::Status => "Current git status",
            },
        });
        request.hook.configured_env = environment(directory.workspace());
        request.hook.working_dir = Some(directory.path());
        Ok(None)
    }
}

/// Returns what git finds beside its profile's variables: no configuration but the repository's, and nothing above the
/// workspace or on another machine.
fn environment(workspace: &Path) -> BTreeMap<String, OsString> {
    let above = workspace.parent().unwrap_or(workspace);
    let variables = [
        ("GIT_ATTR_NOSYSTEM", "1".into()),
        ("GIT_CEILING_DIRECTORIES", above.into()),
        ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ("GIT_NO_LAZY_FETCH", "1".into()),
        ("GIT_TERMINAL_PROMPT", "0".into()),
    ];
    variables
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}
