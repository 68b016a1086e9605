//! The built-in hooks that query git: their commands.
//!
//! A workspace is not to be trusted with what its configuration starts. The options switch off what git would start or obey: file
//! system monitors, hooks, external diffs and conversions, signature checks, pagers, colours, and looking into submodules, which
//! takes a process for each.

use std::num::NonZeroU32;

use crate::model::InvalidField;

/// The default number of commits where an entry has none.
const COMMITS: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// Options before every git command.
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

/// Query to git.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Question {
    /// `add_recent_commits`: the last commits, one line each.
    Commits(NonZeroU32),
    /// `add_git_diff` with `full`: the changes of the working tree, line by line.
    Diff,
    /// `add_git_diff`: the changes of the working tree, in numbers.
    DiffStat,
    /// `add_git_status`: branch and changed files.
    Status,
}

impl Question {
    /// Parses a built-in's name and arguments; `None` if it does not query git.
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
}
