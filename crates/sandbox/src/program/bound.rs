//! The files that a command is bound to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The content of a file when the consent was given.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Digest {
    /// Its absolute path, resolved.
    pub path: String,
    /// SHA-256 of its content, lower-case hex.
    pub sha256: String,
    /// The role of the file in the command.
    pub role: Role,
    /// Whether only root can put another file there. Then path and role are bound, and not the content.
    #[serde(default, skip_serializing_if = "is_false")]
    pub roots: bool,
}

impl Digest {
    /// Returns whether a consent with that digest binds this file as it is now.
    pub fn is_bound_by(&self, approved: &Self) -> bool {
        self.path == approved.path
            && self.role == approved.role
            && (self.roots || self.sha256 == approved.sha256)
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes the field so"
)]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// The role of a file in a command.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// An argument that is a file.
    Argument,
    /// The interpreter that the first line of the program names.
    Interpreter,
    /// The program itself.
    Program,
}

impl Role {
    /// Reads a role as the file spells it.
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::Argument, Self::Interpreter, Self::Program];
        all.into_iter().find(|role| role.name() == text)
    }

    /// Returns the role's name as the file spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Argument => "argument",
            Self::Interpreter => "interpreter",
            Self::Program => "program",
        }
    }
}
