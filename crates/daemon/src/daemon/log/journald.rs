//! Entries of journald, by its native protocol: a datagram with fields, each with its length.
//!
//! An entry that cannot be sent goes to stderr, which systemd connected to journald too, with its priority as a prefix. So no entry
//! is lost because it is long, or because this socket is missing.

use std::{
    fmt,
    io::{self, Write},
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    fmt::{FormatFields, format::DefaultFields, format::Writer},
    layer::Context,
};

use hookjail_base::model::visible;

use super::LogRedaction;

/// The address of journald.
pub(super) const SOCKET: &str = "/run/systemd/journal/socket";

/// A layer that sends each event to journald.
#[derive(Debug)]
pub(super) struct Journald {
    path: PathBuf,
    redaction: LogRedaction,
    socket: UnixDatagram,
}

impl Journald {
    /// Sends by a socket to the one at a path.
    pub(super) fn new(
        socket: UnixDatagram,
        path: impl AsRef<Path>,
        redaction: LogRedaction,
    ) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            redaction,
            socket,
        }
    }

    /// Sends an entry, or writes its line to `instead`.
    fn deliver(&self, entry: &Entry, instead: &mut impl Write) -> io::Result<()> {
        match self.socket.send_to(&entry.datagram(), &self.path) {
            Ok(_) => Ok(()),
            Err(_) => instead.write_all(entry.line().as_bytes()),
        }
    }

    /// Redacts a text, and shows each of its characters.
    fn text(&self, text: String) -> String {
        visible(&self.redaction.text(text)).into_owned()
    }

    /// Renders an event without secrets.
    fn entry(&self, event: &Event<'_>) -> Entry {
        let mut message = String::new();
        let writer = Writer::new(&mut message);
        // A `String` takes everything.
        DefaultFields::new()
            .format_fields(writer, event)
            .unwrap_or_default();
        let mut fields = Fields::default();
        event.record(&mut fields);
        let target = ("TARGET".to_owned(), event.metadata().target().to_owned());
        fields.0.push(target);
        Entry {
            fields: fields
                .0
                .into_iter()
                .map(|(name, value)| (name, self.text(value)))
                .collect(),
            message: self.text(message),
            priority: priority(*event.metadata().level()),
        }
    }
}

impl<S: Subscriber> Layer<S> for Journald {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // Where stderr fails, too, there is no place left for the error.
        drop(self.deliver(&self.entry(event), &mut io::stderr().lock()));
    }
}

/// An entry of journald, redacted.
#[derive(Debug)]
struct Entry {
    fields: Vec<(String, String)>,
    /// The event's message and its fields, as a line on stderr has them.
    message: String,
    priority: u8,
}

impl Entry {
    fn datagram(&self) -> Vec<u8> {
        let priority = self.priority.to_string();
        let fixed = [
            ("PRIORITY", priority.as_str()),
            ("SYSLOG_IDENTIFIER", "hookjail"),
            ("MESSAGE", &self.message),
        ];
        let fields = self.fields.iter().map(|(name, value)| (&**name, &**value));
        let mut datagram = Vec::new();
        for (name, value) in fixed.into_iter().chain(fields) {
            // With its length, a value may have line breaks and forge no other field.
            datagram.extend_from_slice(name.as_bytes());
            datagram.push(b'\n');
            datagram.extend_from_slice(&(value.len() as u64).to_le_bytes());
            datagram.extend_from_slice(value.as_bytes());
            datagram.push(b'\n');
        }
        datagram
    }

    /// Returns a line of stderr: journald takes the priority off its beginning.
    fn line(&self) -> String {
        let message = self.message.replace('\n', " ");
        format!("<{}>{message}\n", self.priority)
    }
}

/// The fields of an event but for its message, under names as journald has them.
#[derive(Debug, Default)]
struct Fields(Vec<(String, String)>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, format!("{value:?}"));
    }
}

impl Fields {
    fn take(&mut self, field: &Field, value: String) {
        // Fields that bridge the crate `log` are no content.
        if field.name() == "message" || field.name().starts_with("log.") {
            return;
        }
        let name = field
            .name()
            .replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let name = format!("HOOKJAIL_{}", name.to_ascii_uppercase());
        self.0.push((name, value));
    }
}

/// Returns the priority of syslog for a level.
const fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tracing_subscriber::{layer::SubscriberExt, registry};

    use super::*;
    use hookjail_base::redact::{Redactor, secret::Secret};

    use hookjail_journal::{CurrentRedaction, Redaction};

    /// Stand-in for journald.
    struct Receiver {
        _directory: tempfile::TempDir,
        path: PathBuf,
        socket: UnixDatagram,
    }

    impl Receiver {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("socket");
            let socket = UnixDatagram::bind(&path).unwrap();
            socket.set_nonblocking(true).unwrap();
            Self {
                _directory: directory,
                path,
                socket,
            }
        }

        fn entry(&self) -> BTreeMap<String, String> {
            let mut buffer = vec![0; 1 << 18];
            let length = self.socket.recv(&mut buffer).unwrap();
            parsed(&buffer[..length])
        }
    }

    /// Reads a datagram as the protocol's description has it.
    fn parsed(mut datagram: &[u8]) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        while !datagram.is_empty() {
            let end = datagram.iter().position(|byte| *byte == b'\n').unwrap();
            let name = std::str::from_utf8(&datagram[..end]).unwrap();
            let valid = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            assert!(name.chars().all(valid) && !name.starts_with('_'), "{name}");
            let rest = &datagram[end + 1..];
            let (length, rest) = rest.split_first_chunk().unwrap();
            let (value, rest) = rest.split_at(u64::from_le_bytes(*length).try_into().unwrap());
            assert_eq!(rest[0], b'\n');
            datagram = &rest[1..];
            let value = String::from_utf8(value.to_vec()).unwrap();
            assert_eq!(fields.insert(name.to_owned(), value), None);
        }
        fields
    }

    fn layer(path: &Path, secret: Option<&str>) -> Journald {
        let redaction = LogRedaction::default();
        if let Some(secret) = secret {
            let current = CurrentRedaction::default();
            let secret = Secret::new("token", secret.into()).unwrap();
            current.replace(Redaction {
                redactor: Redactor::new(vec![secret]).unwrap(),
                ..Redaction::default()
            });
            redaction.follow(&current);
        }
        Journald::new(UnixDatagram::unbound().unwrap(), path, redaction)
    }

    fn logged(layer: Journald, log: impl FnOnce()) {
        tracing::subscriber::with_default(registry().with(layer), log);
    }

    #[test]
    fn an_event_is_an_entry_with_its_priority_and_fields() {
        let journald = Receiver::new();
        logged(layer(&journald.path, None), || {
            let error = io::Error::other("broken");
            tracing::error!(%error, "cannot");
            tracing::warn!(reason = "OVERLOADED", uid = 7, "refused");
            tracing::info!(target: "of::it", profile = None::<&str>, "serving\nPRIORITY=0");
            tracing::debug!("details");
        });

        let error = journald.entry();
        assert_eq!(error["PRIORITY"], "3");
        assert_eq!(error["HOOKJAIL_ERROR"], "broken");
        let refused = journald.entry();
        assert_eq!(refused["PRIORITY"], "4");
        assert_eq!(refused["HOOKJAIL_REASON"], "OVERLOADED");
        assert_eq!(refused["HOOKJAIL_UID"], "7");
        assert_eq!(refused["MESSAGE"], "refused reason=\"OVERLOADED\" uid=7");
        assert_eq!(refused["SYSLOG_IDENTIFIER"], "hookjail");
        let serving = journald.entry();
        assert_eq!(serving["PRIORITY"], "6");
        assert_eq!(serving["MESSAGE"], "serving\nPRIORITY=0");
        assert_eq!(serving["TARGET"], "of::it");
        assert!(!serving.contains_key("HOOKJAIL_PROFILE"));
        assert_eq!(journald.entry()["PRIORITY"], "7");
    }

    #[test]
    fn a_secret_leaves_in_no_field() {
        let journald = Receiver::new();
        let log = || {
            tracing::warn!(
                text = "is hunter22",
                shown = ?["hunter22"],
                error = %io::Error::other("of hunter22"),
                "says {}",
                "hunter22"
            );
        };

        logged(layer(&journald.path, None), log);
        logged(layer(&journald.path, Some("hunter22")), log);

        let unredacted = journald.entry();
        assert_eq!(unredacted["HOOKJAIL_TEXT"], "is hunter22");
        let clean = journald.entry();
        assert_eq!(clean["HOOKJAIL_TEXT"], "is [redacted:token]");
        assert_eq!(clean["HOOKJAIL_SHOWN"], "[\"[redacted:token]\"]");
        assert_eq!(clean["HOOKJAIL_ERROR"], "of [redacted:token]");
        assert!(clean["MESSAGE"].starts_with("says [redacted:token] "));
        assert!(clean.values().all(|value| !value.contains("hunter22")));
        assert_eq!(unredacted.len(), clean.len());
    }

    #[test]
    fn what_journald_does_not_take_is_a_line_with_its_priority() {
        let journald = Receiver::new();
        let long = "x".repeat(1 << 24);
        let entry = |message: &str| Entry {
            fields: Vec::new(),
            message: message.to_owned(),
            priority: 4,
        };
        let reachable = layer(&journald.path, None);
        let missing = layer(&journald.path.with_file_name("nobodys"), None);
        let delivered = |layer: &Journald, message: &str| {
            let mut instead = Vec::new();
            layer.deliver(&entry(message), &mut instead).unwrap();
            String::from_utf8(instead).unwrap()
        };

        assert_eq!(delivered(&reachable, "short"), "");
        assert_eq!(journald.entry()["MESSAGE"], "short");
        assert_eq!(delivered(&missing, "one\ntwo"), "<4>one two\n");
        assert!(delivered(&reachable, &long) == format!("<4>{long}\n"));
    }
}
