//! The daemon's log, without registered secrets: text or JSON lines on stderr, or entries of journald.

mod journald;

use std::{
    io::{self, Write},
    os::unix::net::UnixDatagram,
    sync::{Arc, OnceLock},
};

use tracing_subscriber::{
    EnvFilter, filter::ParseError, fmt, fmt::MakeWriter, layer::SubscriberExt, registry,
    util::SubscriberInitExt,
};

use hookjail_base::{
    model::{visible, visible_json},
    redact::{Cut, Redactor},
    util::journald::stderr_is_journald,
};
use hookjail_journal::CurrentRedaction;

use self::journald::Journald;

/// The form of the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogFormat {
    /// Lines of JSON on stderr.
    Json,
    /// Lines of text on stderr; entries of journald where stderr is connected to it.
    Text,
}

/// Error of starting the log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The variable that filters the log is wrong.
    #[error("HOOKJAIL_LOG={directives:?}: {cause}")]
    Filter {
        /// Its value.
        directives: String,
        /// The problem of the value.
        cause: ParseError,
    },
    /// There is no socket to send to journald.
    #[error("no socket for journald: {0}")]
    Socket(io::Error),
}

/// The log's redaction. Before [`LogRedaction::follow`] no secret has been read.
#[derive(Clone, Debug, Default)]
pub(super) struct LogRedaction(Arc<OnceLock<CurrentRedaction>>);

impl LogRedaction {
    /// Sets the redaction of everything that is logged from now on.
    pub(super) fn follow(&self, redaction: &CurrentRedaction) {
        // A daemon has one pipeline.
        drop(self.0.set(redaction.clone()));
    }

    /// Redacts by what is registered now; `None` where nothing is.
    fn apply<T>(&self, redact: impl FnOnce(&Redactor) -> T) -> Option<T> {
        let redaction = self.0.get()?.get();
        Some(redact(&redaction.redactor))
    }

    /// Redacts a text.
    fn text(&self, text: String) -> String {
        let clean = self.apply(|redactor| redactor.text(&text).into_owned());
        clean.unwrap_or(text)
    }
}

/// Starts the log in a form, filtered by `HOOKJAIL_LOG`.
///
/// # Errors
///
/// Fails where the filter is wrong, or there is no socket to send to journald.
pub(super) fn begin(format: LogFormat, redaction: &LogRedaction) -> Result<(), LogError> {
    let directives = std::env::var("HOOKJAIL_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter =
        EnvFilter::try_new(&directives).map_err(|cause| LogError::Filter { directives, cause })?;
    let registry = registry().with(filter);
    let stderr = RedactedStderr {
        format,
        redaction: redaction.clone(),
    };
    // A subscriber that reports a failed write does it on stderr, and panics where that fails, too: a full disk would end
    // every logging thread.
    // Without colours, so that each control character in a line is somebody else's.
    let lines = fmt::layer()
        .with_ansi(false)
        .with_writer(stderr)
        .log_internal_errors(false);
    match format {
        LogFormat::Json => {
            let lines = lines.json().flatten_event(true);
            let lines = lines.with_current_span(false).with_span_list(false);
            registry.with(lines).init();
        }
        LogFormat::Text if stderr_is_journald() => {
            let socket = UnixDatagram::unbound().map_err(LogError::Socket)?;
            let entries = Journald::new(socket, journald::SOCKET, redaction.clone());
            registry.with(entries).init();
        }
        LogFormat::Text => registry.with(lines).init(),
    }
    Ok(())
}

/// A writer of redacted lines to stderr.
#[derive(Clone, Debug)]
struct RedactedStderr {
    format: LogFormat,
    redaction: LogRedaction,
}

impl<'a> MakeWriter<'a> for RedactedStderr {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for RedactedStderr {
    /// Writes a whole line: a subscriber renders an event before it writes.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let clean = self.redaction.apply(|redactor| match self.format {
            LogFormat::Json => json_line(redactor, line),
            LogFormat::Text => redactor.bytes(line, Cut::default()).into_owned(),
        });
        let clean = String::from_utf8_lossy(clean.as_deref().unwrap_or(line));
        io::stderr().write_all(one_line(self.format, &clean).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Shows each character of an event's line, which stays one line.
fn one_line(format: LogFormat, line: &str) -> String {
    match format {
        LogFormat::Json => visible_json(line).into_owned(),
        LogFormat::Text => {
            let event = line.strip_suffix('\n').unwrap_or(line);
            format!("{}\n", visible(event).replace('\n', " "))
        }
    }
}

/// Redacts a line of JSON so that it stays one.
fn json_line(redactor: &Redactor, line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let clean = redactor.json(text.trim_end());
    clean.map_or_else(|| line.to_owned(), |clean| format!("{clean}\n").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookjail_base::redact::secret::Secret;

    #[test]
    fn an_event_is_one_line_and_steers_no_terminal() {
        let hidden = "a\u{9b}2J\u{202e}\nINFO forged\u{1b}[2J";
        assert_eq!(
            one_line(LogFormat::Text, &format!("{hidden}\n")),
            "a\u{fffd}2J\u{fffd} INFO forged\u{fffd}[2J\n"
        );
        let json = format!("{}\n", serde_json::json!({ "message": hidden }));
        let line = one_line(LogFormat::Json, &json);
        assert!(
            line.ends_with("}\n") && !line.contains('\u{9b}'),
            "{line:?}"
        );
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["message"], hidden);
    }

    #[test]
    fn a_secret_in_a_line_of_json_leaves_json() {
        let secret = Secret::new("token", b"a\"quoted\\secret".to_vec()).unwrap();
        let redactor = Redactor::new(vec![secret]).unwrap();
        let line = serde_json::json!({ "message": "found a\"quoted\\secret", "uid": 7 });

        let clean = json_line(&redactor, format!("{line}\n").as_bytes());

        let parsed: serde_json::Value = serde_json::from_slice(&clean).unwrap();
        assert_eq!(parsed["message"], "found [redacted:token]");
        assert_eq!(parsed["uid"], 7);
        assert!(clean.ends_with(b"}\n"));
        let other = b"{\"message\":\"nothing\"}\n";
        assert_eq!(json_line(&redactor, other), other);
    }
}
