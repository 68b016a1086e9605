//! Interprets the output of commands that are not written as hooks, for docker-agent's built-in hooks.

use serde::{Deserialize, Serialize};

use super::Verdict;

/// Use of the output of a command that is not written as a hook.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Report {
    /// A directive of the contract's own, rendered from a template.
    Directive,
    /// JSON of [`Findings`].
    Findings,
    /// Context for the model, under a heading.
    Text {
        /// The maximum length of the output that is passed on, bytes.
        bytes: usize,
        /// The heading.
        heading: &'static str,
    },
}

/// Output of hookjail as a built-in hook.
#[derive(Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Findings {
    /// Texts for the model.
    pub context: Vec<String>,
    /// Notices about omitted findings, with the reasons.
    pub warnings: Vec<String>,
}

impl Report {
    /// Builds the verdict from a command's output; `None` if the output is invalid.
    ///
    /// A command under a heading that prints nothing, or exits with another code than 0, yields no text: its subject is
    /// absent.
    pub(super) fn verdict(self, code: i32, stdout: &[u8]) -> Option<Verdict> {
        match self {
            Self::Directive => None,
            Self::Findings => {
                let findings = (code == 0).then(|| serde_json::from_slice(stdout).ok());
                let Findings { context, warnings } = findings.flatten()?;
                Some(Verdict {
                    additional_context: context,
                    warnings,
                    ..Verdict::default()
                })
            }
            Self::Text { bytes, heading } => {
                let text = text(stdout, bytes);
                let context =
                    (code == 0 && !text.is_empty()).then(|| format!("{heading}:\n\n{text}"));
                Some(Verdict {
                    additional_context: context.into_iter().collect(),
                    ..Verdict::default()
                })
            }
        }
    }
}

fn text(stdout: &[u8], bytes: usize) -> String {
    let head = &stdout[..stdout.len().min(bytes)];
    // A character across the limit is left out.
    let head = match str::from_utf8(head) {
        Err(error) if error.error_len().is_none() && head.len() < stdout.len() => {
            &head[..error.valid_up_to()]
        }
        _ => head,
    };
    let text = String::from_utf8_lossy(head);
    let text = plain(text.trim_end(), &['\n', '\t']);
    if head.len() < stdout.len() {
        return format!("{text}\n... (truncated)");
    }
    text
}

/// Escapes control characters, except those in `keeps`, so that the text cannot control a terminal.
pub fn plain(text: &str, keeps: &[char]) -> String {
    text.chars().fold(String::new(), |mut plain, c| {
        if c.is_control() && !keeps.contains(&c) {
            plain.extend(c.escape_default());
        } else {
            plain.push(c);
        }
        plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: Report = Report::Text {
        bytes: 8,
        heading: "Said",
    };

    fn context(code: i32, stdout: &[u8]) -> Vec<String> {
        REPORT.verdict(code, stdout).unwrap().additional_context
    }

    #[test]
    fn output_is_told_under_its_heading_and_whatever_it_looks_like_decides_nothing() {
        assert_eq!(context(0, b" a\tb\n\n"), ["Said:\n\n a\tb"]);
        let verdict = REPORT.verdict(0, b"{\"a\":1}").unwrap();
        assert_eq!(verdict.additional_context, ["Said:\n\n{\"a\":1}"]);
        assert!(!verdict.failed);
        assert_eq!(context(0, b"\n"), Vec::<String>::new());
        assert_eq!(REPORT.verdict(128, b"a"), Some(Verdict::default()));
    }

    #[test]
    fn findings_are_read_whole_or_not_at_all() {
        let verdict = Report::Findings.verdict(0, br#"{"context":["a"],"warnings":["b"]}"#);
        let verdict = verdict.unwrap();
        assert_eq!(
            (&*verdict.additional_context, &*verdict.warnings),
            (&["a".to_owned()][..], &["b".to_owned()][..])
        );
        for (code, output) in [
            (0, ""),
            (0, "a"),
            (0, r#"{"context":["a"]}"#),
            (1, r#"{"context":[],"warnings":[]}"#),
        ] {
            assert_eq!(
                Report::Findings.verdict(code, output.as_bytes()),
                None,
                "{output}"
            );
        }
    }

    #[test]
    fn output_is_cut_between_characters_and_says_so() {
        assert_eq!(context(0, b"12345678"), ["Said:\n\n12345678"]);
        assert_eq!(
            context(0, b"123456789"),
            ["Said:\n\n12345678\n... (truncated)"]
        );
        assert_eq!(
            context(0, "1234567é".as_bytes()),
            ["Said:\n\n1234567\n... (truncated)"]
        );
        assert_eq!(context(0, b"a\xffb"), ["Said:\n\na\u{fffd}b"]);
        assert_eq!(context(0, b"a\xc3"), ["Said:\n\na\u{fffd}"]);
    }

    #[test]
    fn output_steers_no_terminal() {
        assert_eq!(context(0, b"\x1b[2Ja\r\nb"), ["Said:\n\n\\u{1b}[2Ja\\r\nb"]);
        assert_eq!(context(0, "a\u{9b}b".as_bytes()), ["Said:\n\na\\u{9b}b"]);
    }
}
