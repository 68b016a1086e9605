//! The daemon's log: stderr, without registered secrets.

use std::{
    io::{self, Write},
    sync::{Arc, OnceLock},
};

use tracing_subscriber::fmt::MakeWriter;

use crate::{journal::CurrentRedaction, redact::Cut};

/// A writer of redacted lines to stderr. Before [`RedactedLog::follow`] no secret has been read.
#[derive(Clone, Debug, Default)]
pub(super) struct RedactedLog(Arc<OnceLock<CurrentRedaction>>);

impl RedactedLog {
    /// Sets the redaction of all lines from now on.
    pub(super) fn follow(&self, redaction: &CurrentRedaction) {
        // A daemon has one pipeline.
        drop(self.0.set(redaction.clone()));
    }
}

impl<'a> MakeWriter<'a> for RedactedLog {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for RedactedLog {
    /// Writes a whole line: a subscriber renders an event before it writes.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let redaction = self.0.get().map(|current| current.get());
        match &redaction {
            None => io::stderr().write_all(line)?,
            Some(redaction) => {
                let clean = redaction.redactor.bytes(line, Cut::default());
                io::stderr().write_all(&clean)?;
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
