//! The progress of something that takes longer than a moment: one line of a terminal, which is gone at the end.

use std::io::{self, IsTerminal};

use hookjail_base::model::plain;
use hookjail_client::output;

/// The columns of a line on every terminal.
const COLUMNS: usize = 79;

/// Moves to the line's begin and clears it.
const CLEAR: &[u8] = b"\r\x1b[K";

/// A number of steps, of which some are done.
pub(super) struct Progress {
    begun: usize,
    is_shown: bool,
    steps: usize,
    verb: &'static str,
}

impl Progress {
    /// Begins a number of steps. Nothing is shown where stderr is no terminal.
    pub(super) fn new(verb: &'static str, steps: usize) -> Self {
        Self {
            begun: 0,
            is_shown: io::stderr().is_terminal(),
            steps,
            verb,
        }
    }

    /// Shows the next step.
    pub(super) fn next(&mut self, step: &str) {
        self.begun += 1;
        if self.is_shown {
            let Self {
                begun, steps, verb, ..
            } = self;
            let line = format!("{verb} {begun} of {steps}: {}", plain(step));
            let line: String = line.chars().take(COLUMNS).collect();
            output::raw_stderr(CLEAR);
            output::raw_stderr(line.as_bytes());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown && self.begun > 0 {
            output::raw_stderr(CLEAR);
        }
    }
}
