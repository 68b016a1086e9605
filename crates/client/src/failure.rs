//! The failure of a command.

use std::{collections::BTreeMap, error::Error};

use hookjail_base::refusal::chain;

/// The exit code where hookjail failed or refused.
pub const FAILED: u8 = 125;

/// The exit code of an invalid command line. No call in a hook's place ends with it on its own: there the code is an answer of
/// the hook.
const USAGE: u8 = 2;

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

    /// Builds the failure of a command line that names something which does not exist, or leaves something out.
    ///
    /// Not for a command whose exit code is a hook's.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(message).as_usage()
    }

    /// Makes this the failure of an invalid command line.
    #[must_use]
    pub fn as_usage(self) -> Self {
        self.with_code(USAGE)
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
