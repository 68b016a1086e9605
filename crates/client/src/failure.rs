//! The failure of a command.

use std::{collections::BTreeMap, error::Error};

use hookjail_base::refusal::chain;

/// The exit code where hookjail failed or refused.
pub const FAILED: u8 = 125;

/// The failure of a subcommand, with its exit code.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// The text for people.
    pub message: String,
    /// The details of a daemon's refusal, by name.
    pub metadata: BTreeMap<String, String>,
    /// The stable reason of a daemon's refusal.
    pub reason: Option<String>,
    /// The name of the gRPC status code; `FAILED` for this program's own failure.
    pub status: &'static str,
}

impl Failure {
    /// Builds this program's own failure.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: FAILED,
            message: message.into(),
            metadata: BTreeMap::new(),
            reason: None,
            status: "FAILED",
        }
    }

    /// Changes the exit code.
    #[must_use]
    pub fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(chain(&error))
    }
}
