//! The built-in hooks that are commands: hooks that query git, that read the workspace, and that keep a tool's result.
//!
//! A workspace's configuration is untrusted. The options switch off programs and settings that git would use from it. These
//! are file system monitors, hooks, external diffs and conversions, signature checks, pagers, colours, and looking into
//! submodules, which takes a process for each.

use std::num::NonZeroU32;

use hookjail_base::model::InvalidField;

use super::builtin::{LargeResult, does_nothing};
use crate::{Members, Report, Verdict, hook_file::hookjail, plain};

/// The default number of commits where an entry has none.
const COMMITS: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// The most files that `add_prompt_files` reads.
const FILES: usize = 16;

/// The maximum length of git's output in the model's context, bytes.
const BYTES: usize = 4096;

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

/// The name of the built-in hook that cuts tool results.
pub const LIMIT_RESULTS: &str = "limit_large_tool_results";

/// The variable that names the workspace to hookjail as a built-in hook.
pub const HOOK_WORKSPACE: &str = "HOOK_WORKSPACE";

/// A built-in hook that is a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Query {
    /// `add_recent_commits`: the last commits, one line each.
    Commits(NonZeroU32),
    /// `add_git_diff` with `full`: the changes of the working tree, line by line.
    Diff,
    /// `add_git_diff`: the changes of the working tree, in numbers.
    DiffStat,
    /// hookjail itself.
    Look(Look),
    /// `limit_large_tool_results`: cuts a result that is too long for a conversation, and keeps the whole.
    Result,
    /// `add_git_status`: branch and changed files.
    Status,
}

/// A built-in hook that reads the workspace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Look {
    /// `add_environment_info`: the working directory and the system.
    Environment,
    /// `add_prompt_files`: the content of files.
    Files(Vec<String>),
    /// `add_directory_listing`: a listing of the working directory.
    Listing,
}

impl Look {
    /// Parses a built-in's name and arguments; `None` if it does not read the workspace.
    ///
    /// # Errors
    ///
    /// Names arguments that it does not take.
    pub fn parse(name: &str, args: &[String]) -> Option<Result<Self, InvalidField>> {
        match name {
            "add_directory_listing" => Some(without_arguments(Self::Listing, name, args)),
            "add_environment_info" => Some(without_arguments(Self::Environment, name, args)),
            "add_prompt_files" => Some(names(args).map(Self::Files)),
            _ => None,
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Environment => "add_environment_info",
            Self::Files(_) => "add_prompt_files",
            Self::Listing => "add_directory_listing",
        }
    }

    fn args(&self) -> &[String] {
        match self {
            Self::Environment | Self::Listing => &[],
            Self::Files(names) => names,
        }
    }
}

impl Query {
    /// Parses a built-in's name and arguments; `None` if it is no command.
    ///
    /// # Errors
    ///
    /// Names arguments that it does not take.
    pub fn parse(name: &str, args: &[String]) -> Option<Result<Self, InvalidField>> {
        let wrong = |problem: &str| Err(InvalidField::new("args", problem));
        let words: Vec<_> = args.iter().map(String::as_str).collect();
        if let Some(look) = Look::parse(name, args) {
            return Some(look.map(Self::Look));
        }
        Some(match (name, &words[..]) {
            ("add_git_diff", []) => Ok(Self::DiffStat),
            ("add_git_diff", ["full"]) => Ok(Self::Diff),
            ("add_git_diff", _) => wrong("must be empty, or `full` for more than numbers"),
            ("add_git_status", _) => without_arguments(Self::Status, name, args),
            ("add_recent_commits", []) => Ok(Self::Commits(COMMITS)),
            ("add_recent_commits", [count]) if count.parse::<NonZeroU32>().is_ok() => {
                Ok(Self::Commits(count.parse().unwrap_or(COMMITS)))
            }
            ("add_recent_commits", _) => wrong("must be empty or one positive number of commits"),
            (LIMIT_RESULTS, _) => without_arguments(Self::Result, name, args),
            _ => return None,
        })
    }

    /// Returns the built-in's name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Commits(_) => "add_recent_commits",
            Self::Diff | Self::DiffStat => "add_git_diff",
            Self::Look(look) => look.name(),
            Self::Result => LIMIT_RESULTS,
            Self::Status => "add_git_status",
        }
    }

    /// Returns the built-in's arguments.
    pub fn args(&self) -> Vec<String> {
        match self {
            Self::Commits(count) => vec![count.to_string()],
            Self::Diff => vec!["full".to_owned()],
            Self::DiffStat | Self::Result | Self::Status => Vec::new(),
            Self::Look(look) => look.args().to_vec(),
        }
    }

    /// Returns the points at which it has an effect.
    pub const fn points(&self) -> &'static [&'static str] {
        match self {
            Self::Commits(_) | Self::Look(Look::Environment | Look::Listing) => &["session_start"],
            Self::Diff | Self::DiffStat | Self::Look(Look::Files(_)) | Self::Status => {
                &["turn_start"]
            }
            Self::Result => &["tool_response_transform", "session_end"],
        }
    }

    /// Returns whether the program is git.
    pub const fn is_git(&self) -> bool {
        !matches!(self, Self::Look(_) | Self::Result)
    }

    /// Returns the verdict where that is a function of the event; `None` where the command has to run.
    ///
    /// `keeps`: whether a result that is cut is to be kept whole, which takes the command.
    pub fn own_verdict(&self, point: &str, event: &Members<'_>, keeps: bool) -> Option<Verdict> {
        if !self.points().contains(&point) {
            return Some(does_nothing(self.name()));
        }
        if *self != Self::Result {
            return None;
        }
        let result = LargeResult::in_event(event);
        let is_due = result.is_some() || point == "session_end";
        (!keeps || !is_due).then(|| Verdict {
            updated_output: result.map(|result| result.cut(None)),
            ..Verdict::default()
        })
    }

    /// Returns the use of the command's output; `None` if it is a hook's of the contract.
    pub const fn report(&self) -> Option<Report> {
        let heading = match self {
            Self::Commits(_) => "Recent commits",
            Self::Diff => "Current working-tree diff",
            Self::DiffStat => "Current working-tree diff (stat)",
            Self::Status => "Current git status",
            Self::Look(_) => return Some(Report::Findings),
            Self::Result => return None,
        };
        Some(Report::Text {
            bytes: BYTES,
            heading,
        })
    }

    /// Returns the command, as a consent names it.
    pub fn argv(&self) -> Vec<String> {
        let count;
        let arguments: &[&str] = match self {
            Self::Look(_) | Self::Result => return hookjail(self.name(), &self.args()),
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
        let words = ["git"].iter().chain(&OPTIONS).chain(arguments);
        words.map(|word| (*word).to_owned()).collect()
    }
}

/// Returns a built-in without parameters, if no arguments are given.
pub(super) fn without_arguments<T>(
    parsed: T,
    name: &str,
    args: &[String],
) -> Result<T, InvalidField> {
    if args.is_empty() {
        return Ok(parsed);
    }
    let problem = format!("must be empty: `{name}` takes no arguments");
    Err(InvalidField::new("args", problem))
}

/// Reads the arguments: the files' names.
fn names(args: &[String]) -> Result<Vec<String>, InvalidField> {
    let wrong = |problem: String| Err(InvalidField::new("args", problem));
    if args.is_empty() || args.len() > FILES {
        return wrong(format!(
            "must name the files that `add_prompt_files` reads, 1 to {FILES} of them"
        ));
    }
    for name in args {
        let dots = |part: &str| matches!(part, "" | "." | "..");
        if name.starts_with("--") {
            return wrong(format!("hold `{name}`: no option is served, only names"));
        }
        if name.contains(char::is_control) || name.split('/').any(dots) {
            let name = plain(name, &[]);
            return wrong(format!(
                "hold `{name}`, which is no name of a file, or path of one below the working directory"
            ));
        }
    }
    Ok(args.to_vec())
}
