//! Why a run was admitted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The consent by which a run was admitted.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// The allowlist had the hook.
    Allowlist,
    /// The command is hookjail's own, and only root can change its program.
    Builtin,
    /// The operator's environment accepts every hook; the hook was added to the allowlist.
    Environment,
    /// A listener answered "always"; the hook was added to the allowlist.
    ListenerAlways,
    /// A listener answered "once".
    ListenerOnce,
    /// The administrator's files require it, and only root can change its files.
    Required,
    /// A trial of a rehearsal or of learning, which its user started.
    Trial,
    /// The operator typed the command.
    Typed,
}

impl Consent {
    /// Returns its name as records and replies spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowlist => "allowlist",
            Self::Builtin => "builtin",
            Self::Environment => "environment",
            Self::ListenerAlways => "listener_always",
            Self::ListenerOnce => "listener_once",
            Self::Required => "required",
            Self::Trial => "trial",
            Self::Typed => "typed",
        }
    }
}
