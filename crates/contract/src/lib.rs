//! Hook contracts of each runtime: stdin format and interpretation of a process end. Pure functions over data.
//!
//! A contract is independent of the kernel and the wire. Its input is an [`End`], its result a [`Verdict`]. Each
//! runtime has a folder with its `Facts`, which decides how strictly output is parsed. The registry below has a
//! line for each. No module outside of `contract` names one.

#![forbid(unsafe_code)]

use hookjail_base::model::members;

pub mod adopt;
mod basecoat;
mod claude_code;
mod codex;
mod copilot;
mod cursor;
mod docker_agent;
mod due;
mod end;
mod entry;
mod envelope;
mod external_end;
mod family;
mod fields;
mod gemini_cli;
pub mod git;
mod hindered;
pub mod hook_file;
mod infer;
mod interpret;
mod loom;
pub mod matcher;
mod merge;
mod mode;
mod observe;
mod patch;
mod permission;
mod post;
mod quoted;
mod qwen_code;
mod report;
mod reyn;
mod runtime;
pub mod settings;
mod shlex;
pub mod sources;
mod stdin;
mod verdict;
pub mod words;

pub use self::{
    claude_code::filter::Filter,
    docker_agent::{
        builtin::{
            Builtin, CallerNames, LargeResult, NOT_SERVED, SERVED, Scene, does_nothing, shorthand,
        },
        query::{HOOK_WORKSPACE, LIMIT_RESULTS, Look, Query},
    },
    due::{HookList, Occasion, Scope},
    end::{End, EndKind},
    entry::{AgentMode, Entry, OnError},
    envelope::{Budget, Envelope, Tool},
    external_end::{ExternalEnd, ReportedKind},
    hindered::Bearing,
    hook_file::{Action, Owner, POST_PROFILE, Registered, Supplied},
    infer::{
        gate as infer_gate,
        lists::{Lists, WrittenLists},
    },
    interpret::{Folded, Reading, Reminder, ReminderKind, read},
    loom::{
        log::Log,
        payload::Payload,
        save::{NAME as SAVE_EVENT, Save},
    },
    matcher::Matcher,
    mode::display,
    post::{Allowed, Denied, Post, PostDecision, Url},
    report::{Findings, Report},
    reyn::template::{Flag, NAME as TEMPLATE_PUSH, Template},
    runtime::{
        CommandStyle, Defaults, Equality, Facts, Lifetime, OwnConsent, Point, Rules, Scheduling,
        Stop, Subject,
    },
    verdict::{BlockedBy, ContractEvent, Decision, Json, Push, Skip, Verdict},
};

use self::{adopt::Adapter, mode::tighten, runtime::point};
pub use self::{
    hindered::{MAY_BE_WHY, may_be_why, refusals, refused_lines},
    loom::log::summary as log_line,
    mode::Moment,
    post::{Piece, pieces},
    report::plain,
};
pub use hookjail_base::model::members::{Members, text};

/// Returns whether a lifecycle point of any contract ends something. A hook there should outlive a client that
/// disconnects.
pub fn ends_something(point: &str) -> bool {
    let mut modes = Mode::ALL.into_iter();
    modes.any(|mode| mode.facts().last_points.contains(&point))
}

/// Returns whether a spelling names a runtime or contract, ignoring hyphens and underscores. Names of runtimes have
/// hyphens, those of contracts underscores.
pub fn is_spelled(name: &str, spelling: &str) -> bool {
    fn letters(text: &str) -> impl Iterator<Item = u8> {
        text.bytes().filter(|byte| !matches!(byte, b'-' | b'_'))
    }
    letters(name).eq(letters(spelling))
}

/// Declares [`Mode`] and its tables from the lines of the registry.
macro_rules! registry {
    (
        modes { $($(#[$about:meta])* $mode:ident = ($facts:expr, $rules:expr),)+ }
        others { $($other:expr,)+ }
    ) => {
        /// A contract in one of its modes.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Mode {
            $($(#[$about])* $mode,)+
        }

        impl Mode {
            /// Every contract in every mode.
            pub const ALL: [Self; [$(Self::$mode),+].len()] = [$(Self::$mode),+];

            /// Returns what holds of it.
            pub fn facts(self) -> &'static Facts {
                match self {
                    $(Self::$mode => &$facts,)+
                }
            }

            /// Returns how its settings are read.
            pub fn rules(self) -> &'static Rules {
                match self {
                    $(Self::$mode => &$rules,)+
                }
            }
        }

        /// Runtimes without a contract of their own that can be adopted.
        const OTHERS: [&Adapter; [$(&$other),+].len()] = [$(&$other),+];
    };
}

registry! {
    modes {
        /// Base Coat lifecycle hooks.
        Basecoat = (basecoat::FACTS, basecoat::RULES),
        /// Claude Code command hooks.
        ClaudeCode = (claude_code::FACTS, claude_code::RULES),
        /// OpenAI Codex command hooks.
        Codex = (codex::FACTS, codex::RULES),
        /// GitHub Copilot hooks.
        Copilot = (copilot::FACTS, copilot::RULES),
        /// Cursor hooks.
        Cursor = (cursor::FACTS, cursor::RULES),
        /// docker-agent hooks that are commands.
        DockerAgent = (docker_agent::FACTS, docker_agent::RULES),
        /// docker-agent hooks that are a model's judgement: its reply is interpreted.
        DockerAgentModel = (docker_agent::MODEL, docker_agent::RULES),
        /// Hooks of runtimes with a form like Claude Code's, or a small one of their own.
        Family = (family::FACTS, family::RULES),
        /// Gemini CLI hooks.
        GeminiCli = (gemini_cli::FACTS, gemini_cli::RULES),
        /// infer command hooks.
        Infer = (infer::FACTS, infer::RULES),
        /// Loom engine hooks.
        Loom = (loom::FACTS, loom::RULES),
        /// No rules: the event verbatim, decision NONE, any exit code but 0 a failure.
        Observe = (observe::FACTS, Rules::NONE),
        /// Qwen Code hooks.
        QwenCode = (qwen_code::FACTS, qwen_code::RULES),
        /// reyn `shell_exec`: the command runs for its side effect, and its output is ignored.
        ReynExec = (reyn::EXEC, reyn::RULES),
        /// reyn `shell_push` (also `exec_capture`, `command`): stdout is a push directive.
        ReynPush = (reyn::PUSH, reyn::RULES),
    }
    others {
        git::ADAPTER,
    }
}

#[cfg(test)]
#[path = "tests/table.rs"]
mod table;
#[cfg(test)]
mod tests;
