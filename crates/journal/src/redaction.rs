//! Redacts and cuts the texts of runs for records and replies.

use std::{borrow::Cow, sync::Arc};

use serde_json::Value;

use hookjail_base::{
    model::Captured,
    redact::{Cut, Redactor},
    util::swap::Current,
};

use super::record::{self, CapturedText, Record};

/// The registered secrets, and the texts of runs that the journal keeps.
#[derive(Debug, Default)]
pub struct Redaction {
    /// The texts that are kept.
    pub capture: Capture,
    /// The redactor of the secrets.
    pub redactor: Redactor,
}

/// Which of a run's texts are written into its records. By default none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Capture {
    /// Whether the event is.
    pub event: bool,
    /// How many bytes of each are.
    pub max_bytes: usize,
    /// Whether stderr is.
    pub stderr: bool,
    /// Whether stdout is.
    pub stdout: bool,
}

/// The current redaction, replaced atomically for all its users.
pub type CurrentRedaction = Arc<Current<Redaction>>;

impl Redaction {
    /// Removes secrets from all parts of a record that hookjail did not make itself.
    pub fn clean(&self, record: &mut Record) {
        if self.redactor.is_empty() {
            return;
        }
        record.each_text(|text| self.redactor.clean(text));
    }

    /// Redacts the start record of a run.
    pub fn clean_start(&self, started: &mut record::Started) {
        if !self.redactor.is_empty() {
            each_text_of_start(started, |text| self.redactor.clean(text));
        }
    }

    /// Redacts the record of a refusal.
    pub fn clean_refusal(&self, refused: &mut record::Refused) {
        if !self.redactor.is_empty() {
            each_text_of_refusal(refused, |text| self.redactor.clean(text));
        }
    }

    /// Returns as much of an event as is kept.
    pub fn event(&self, event: &[u8]) -> Option<CapturedText> {
        self.capture.event.then(|| self.kept(event, false))
    }

    /// Returns as much of an output as is kept.
    pub fn output(&self, wanted: bool, captured: &Captured) -> Option<CapturedText> {
        wanted.then(|| self.kept(&captured.head, captured.truncated()))
    }

    /// Returns the first bytes of a text, of which more may have been dropped before.
    fn kept(&self, bytes: &[u8], dropped: bool) -> CapturedText {
        // More than is kept: a marker is shorter than most secrets, and redaction drops some bytes at a cut end.
        let enough = self.capture.max_bytes.saturating_mul(2) + self.redactor.reach();
        let looked_at = &bytes[..bytes.len().min(enough)];
        let cut = Cut {
            after: dropped || looked_at.len() < bytes.len(),
            before: false,
        };
        let clean = self.redactor.bytes(looked_at, cut);
        let lossy = std::str::from_utf8(&clean).is_err();
        let mut text = match clean {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Cow::Owned(bytes) => hookjail_base::redact::lossy(bytes),
        };
        let fits = text.len().min(self.capture.max_bytes);
        let fits = (0..=fits).rev().find(|index| text.is_char_boundary(*index));
        let cut = cut.after || fits.is_some_and(|fits| fits < text.len());
        text.truncate(fits.unwrap_or(0));
        CapturedText { cut, lossy, text }
    }
}

/// The redacted ends of an output that is not shown itself.
#[derive(Debug)]
pub struct RedactedOutput {
    /// The first bytes, without secrets.
    pub head: Vec<u8>,
    /// The last bytes, without secrets.
    pub tail: Vec<u8>,
}

impl RedactedOutput {
    /// Redacts the secrets of an output.
    pub fn new(captured: &Captured, redactor: &Redactor) -> Self {
        let after = captured.truncated();
        let head = Cut {
            after,
            before: false,
        };
        let tail = Cut {
            after: false,
            before: true,
        };
        Self {
            head: redactor.bytes(&captured.head, head).into_owned(),
            tail: redactor.bytes(&captured.tail, tail).into_owned(),
        }
    }
}

impl Record {
    /// Goes through every text that a request, a hook or an operator wrote. Every field is named, so that a new one
    /// does not compile before it is handled here.
    fn each_text(&mut self, mut act: impl FnMut(&mut String)) {
        match self {
            Self::Ended(ended) => {
                let record::Ended {
                    confirmed: _,
                    denied,
                    egress,
                    event,
                    evidence,
                    exit_code: _,
                    incidental,
                    killed_by: _,
                    measures,
                    more_egress: _,
                    outcome: _,
                    refused_lines: _,
                    released: _,
                    run_id: _,
                    signal: _,
                    // Their texts are redacted as bytes, before they are cut.
                    stderr: _,
                    stdout: _,
                    unconfined: _,
                    usage: _,
                    verdict: _,
                } = &mut **ended;
                let texts = denied.iter_mut().chain(incidental).chain(evidence);
                texts.for_each(&mut act);
                for record::EgressLine {
                    address: _,
                    denied,
                    failed,
                    host,
                    ms: _,
                    port: _,
                    received_bytes: _,
                    // Names of the configuration, not of the hook.
                    secrets: _,
                    sent_bytes: _,
                } in egress
                {
                    [host]
                        .into_iter()
                        .chain(denied)
                        .chain(failed)
                        .for_each(&mut act);
                }
                let fields = event.iter_mut().flat_map(|event| event.fields.values_mut());
                let values = fields.chain(measures.values_mut());
                values.for_each(|value| each_string(value, &mut act));
            }
            Self::Refused(refused) => each_text_of_refusal(refused, act),
            Self::Started(started) => each_text_of_start(started, act),
            Self::Torn(torn) => act(&mut torn.text),
            Self::Interrupted(_) | Self::Lost(_) | Self::Rebooted(_) => {}
        }
    }
}

/// Goes through the texts of a refusal's record that its caller wrote, and the message.
fn each_text_of_refusal(refused: &mut record::Refused, act: impl FnMut(&mut String)) {
    let record::Refused {
        command,
        contract: _,
        count: _,
        hook,
        killed_by: _,
        message,
        peer: _,
        point,
        profile,
        reason: _,
        released: _,
        request_id,
        run_id: _,
        session,
        trace,
        workspace,
    } = refused;
    let command = command.iter_mut().flat_map(|command| &mut command.argv);
    [hook, message, point, request_id, session]
        .into_iter()
        .chain(profile)
        .chain(trace)
        .chain(workspace)
        .chain(command)
        .for_each(act);
}

/// Goes through the texts of a start record that a hook's caller wrote.
fn each_text_of_start(started: &mut record::Started, act: impl FnMut(&mut String)) {
    let record::Started {
        answered_by: _,
        axes: _,
        backend: _,
        command,
        consent: _,
        contract: _,
        digests,
        environment,
        event: _,
        event_bytes: _,
        event_sha256: _,
        hook,
        mode: _,
        passed_over,
        peer: _,
        point,
        policy_version,
        profile,
        profile_digest: _,
        program,
        request_id,
        request_sha256: _,
        run_id: _,
        session,
        timeout_ms: _,
        trace,
        unconfined: _,
        working_dir,
        workspace,
    } = started;
    [hook, point, profile, program, request_id, session]
        .into_iter()
        .chain(&mut command.argv)
        .chain(digests.iter_mut().map(|digest| &mut digest.path))
        .chain(environment)
        .chain(passed_over.iter_mut().map(|backend| &mut backend.message))
        .chain(policy_version)
        .chain(trace)
        .chain(working_dir)
        .chain(workspace)
        .for_each(act);
}

/// Goes through the strings that a value holds; names of members are the contract's own.
fn each_string(value: &mut Value, act: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => act(text),
        Value::Array(values) => values.iter_mut().for_each(|value| each_string(value, act)),
        Value::Object(members) => {
            let values = members.values_mut();
            values.for_each(|value| each_string(value, act));
        }
        Value::Bool(_) | Value::Null | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookjail_base::redact::secret::Secret;

    fn keeping(max_bytes: usize) -> Redaction {
        let secret = Secret::new("key", b"s3cr3t-value".to_vec()).unwrap();
        Redaction {
            capture: Capture {
                event: true,
                max_bytes,
                stderr: true,
                stdout: true,
            },
            redactor: Redactor::new(vec![secret]).unwrap(),
        }
    }

    #[test]
    fn no_part_of_a_secret_is_kept_wherever_the_text_is_cut() {
        for before in 0..40 {
            let text = format!("{}s3cr3t-value{}", "-".repeat(before), "-".repeat(200));
            for max_bytes in 1..60 {
                let kept = keeping(max_bytes).event(text.as_bytes()).unwrap();
                assert!(kept.cut && kept.text.len() <= max_bytes, "{kept:?}");
                let left = kept.text.replace("[redacted:key]", "");
                let left = left.split('[').next().unwrap();
                assert!(left.bytes().all(|byte| byte == b'-'), "{kept:?}");
            }
            // Output that the run's own limit cut off.
            let captured = Captured {
                head: text[..before + 5].into(),
                tail: text[before + 5..].into(),
                total: text.len() as u64,
            };
            let redaction = keeping(1000);
            let kept = redaction.output(true, &captured).unwrap();
            assert!(kept.cut && kept.text.bytes().all(|byte| byte == b'-'));
            let shown = RedactedOutput::new(&captured, &redaction.redactor);
            let shown = [shown.head, shown.tail].concat();
            assert!(shown.iter().all(|byte| *byte == b'-'));
        }
    }

    #[test]
    fn what_is_no_text_is_marked() {
        let kept = keeping(100).event(b"a\xffs3cr3t-value").unwrap();
        assert_eq!(kept.text, "a\u{fffd}[redacted:key]");
        assert!(kept.lossy && !kept.cut);
        let kept = keeping(100).event("ä".as_bytes()).unwrap();
        assert!(!kept.lossy && !kept.cut);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let kept = keeping(4).event("aäöü".as_bytes()).unwrap();
        assert_eq!((&*kept.text, kept.cut), ("aä", true));
    }

    #[test]
    fn nothing_is_kept_by_default() {
        let redaction = Redaction::default();
        assert_eq!(redaction.event(b"text"), None);
        assert_eq!(
            redaction.output(redaction.capture.stdout, &Captured::default()),
            None
        );
    }
}
