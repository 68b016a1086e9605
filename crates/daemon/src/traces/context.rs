//! Reads and writes the context of a trace: W3C Trace Context, levels 1 and 2.

use std::fmt;

use uuid::Uuid;

/// The longest `tracestate` that is passed on, bytes: the length that the specification asks everybody to pass on.
const MAX_STATE_BYTES: usize = 512;

/// The most entries of a `tracestate`.
const MAX_STATE_ENTRIES: usize = 32;

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 0x01;

/// The flags that have a meaning: sampled, and an id that is random.
const KNOWN_FLAGS: u8 = 0x03;

/// The id of a trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TraceId([u8; 16]);

/// The id of a span.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SpanId([u8; 8]);

/// A position in a trace, as services pass it on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct TraceContext {
    flags: u8,
    /// The span.
    pub(crate) span: SpanId,
    /// State that tracing systems pass on to themselves; may be empty.
    pub(crate) state: String,
    /// The trace.
    pub(crate) trace: TraceId,
}

impl TraceId {
    /// Returns its bytes.
    pub(crate) const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// Returns whether a share of all traces includes this one. Services that use the same share decide alike.
    pub(super) fn is_within(self, ratio: f64) -> bool {
        let [.., a, b, c, d, e, f, g] = self.0;
        let random = u64::from_be_bytes([0, a, b, c, d, e, f, g]);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share is 0 to 1, so this is 0 to 2^56"
        )]
        let least = ((1.0 - ratio) * 2_f64.powi(56)) as u64;
        random >= least
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl SpanId {
    /// Makes an id.
    pub(super) fn new() -> Self {
        // Never zero: the variant's bits are among these.
        Self(Uuid::new_v4().as_u64_pair().1.to_be_bytes())
    }

    /// Returns its bytes.
    pub(crate) const fn bytes(self) -> [u8; 8] {
        self.0
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl TraceContext {
    /// Begins a trace, which is recorded if it is within a share of all.
    pub(super) fn begin(ratio: f64) -> Self {
        let trace = TraceId(Uuid::new_v4().into_bytes());
        Self {
            flags: if trace.is_within(ratio) { SAMPLED } else { 0 },
            span: SpanId::new(),
            state: String::new(),
            trace,
        }
    }

    /// Reads a `traceparent` and the values of `tracestate`, in their order.
    ///
    /// One that is invalid is none, and of an invalid state nothing is taken, as the specification requires.
    pub(crate) fn parse<'a>(
        parent: &str,
        states: impl IntoIterator<Item = &'a str>,
    ) -> Option<Self> {
        let mut parts = parent.split('-');
        let [version] = hex(parts.next()?)?;
        let (trace, span) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let [flags] = hex(parts.next()?)?;
        let is_known = version == 0 && parts.next().is_none();
        // A later version may have more at its end.
        if version == 0xff || version == 0 && !is_known || trace == [0; 16] || span == [0; 8] {
            return None;
        }
        Some(Self {
            flags: flags & KNOWN_FLAGS,
            span: SpanId(span),
            state: state(states).unwrap_or_default(),
            trace: TraceId(trace),
        })
    }

    /// Returns whether the trace is recorded.
    pub(super) const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns its flags.
    pub(super) const fn flags(&self) -> u8 {
        self.flags
    }

    /// Returns the position of another span of the trace.
    pub(super) fn with_span(&self, span: SpanId) -> Self {
        Self {
            span,
            ..self.clone()
        }
    }

    /// Returns it as a `traceparent`.
    pub(crate) fn parent(&self) -> String {
        let Self {
            flags, span, trace, ..
        } = self;
        format!("00-{trace}-{span}-{flags:02x}")
    }
}

/// Reads lower-case hexadecimal digits, exactly as many as there are.
fn hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digits = digits.as_bytes();
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

/// Joins the values of `tracestate`; `None` where an entry is invalid or there are too many.
fn state<'a>(states: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let entries = states.into_iter().flat_map(|state| state.split(','));
    let entries = entries.map(|entry| entry.trim_matches([' ', '\t']));
    let mut kept: Vec<(&str, &str)> = Vec::new();
    for entry in entries.filter(|entry| !entry.is_empty()) {
        let (key, value) = entry.split_once('=')?;
        let is_new = kept.iter().all(|(other, _)| *other != key);
        if !is_key(key) || !is_value(value) || !is_new || kept.len() == MAX_STATE_ENTRIES {
            return None;
        }
        kept.push((key, value));
    }
    let kept = kept.iter().map(|(key, value)| format!("{key}={value}"));
    let mut joined = String::new();
    for entry in kept {
        // The first are the newest; no entry is cut.
        if joined.len() + 1 + entry.len() > MAX_STATE_BYTES {
            break;
        }
        if !joined.is_empty() {
            joined.push(',');
        }
        joined.push_str(&entry);
    }
    Some(joined)
}

fn is_key(key: &str) -> bool {
    let is_part = |part: &str| {
        let begins = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(begins)
            && part
                .chars()
                .all(|c| begins(c) || matches!(c, '_' | '-' | '*' | '/'))
    };
    // A tenant of a system of several: `tenant@system`.
    key.len() <= 256 && key.splitn(2, '@').all(is_part)
}

fn is_value(value: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'=');
    (1..=256).contains(&value.len()) && value.bytes().all(is_allowed) && !value.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parsed(parent: &str) -> Option<TraceContext> {
        TraceContext::parse(parent, [])
    }

    #[test]
    fn a_context_is_written_as_it_was_read() {
        let read = parsed(PARENT).unwrap();

        assert_eq!(read.parent(), PARENT);
        assert_eq!(read.trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(read.span.to_string(), "00f067aa0ba902b7");
        assert!(read.is_sampled());
        let unsampled = PARENT.replace("-01", "-00");
        assert!(!parsed(&unsampled).unwrap().is_sampled());
    }

    #[test]
    fn unknown_flags_are_not_passed_on_and_that_of_a_random_id_is() {
        for (flags, expected) in [("02", "02"), ("03", "03"), ("fd", "01"), ("80", "00")] {
            let read = parsed(&PARENT.replace("-01", &format!("-{flags}"))).unwrap();
            assert!(read.parent().ends_with(&format!("-{expected}")), "{flags}");
        }
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        for parent in [
            PARENT.replacen("00-", "cc-", 1),
            PARENT.replacen("00-", "cc-", 1) + "-what-comes",
        ] {
            assert_eq!(parsed(&parent).unwrap().parent(), PARENT, "{parent}");
        }
    }

    #[test]
    fn what_the_specification_calls_invalid_is_no_context() {
        for parent in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47367-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473x-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01what",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(parsed(parent), None, "{parent:?}");
        }
    }

    #[test]
    fn a_state_is_joined_and_an_invalid_one_is_left_out() {
        let with = |states: &[&str]| {
            let read = TraceContext::parse(PARENT, states.iter().copied());
            read.unwrap().state
        };
        let long = "v".repeat(256);
        for (states, expected) in [
            (&[][..], ""),
            (&["a=1"], "a=1"),
            (&["a=1", "b=2, c@d=x y"], "a=1,b=2,c@d=x y"),
            (&["a=1,,b=2", ""], "a=1,b=2"),
            (&["0a=1,a_-*/=~!"], "0a=1,a_-*/=~!"),
            (&["a=1", "a=2"], ""),
            (&["a"], ""),
            (&["a="], ""),
            (&["A=1"], ""),
            (&["=1"], ""),
            (&["@a=1"], ""),
            (&["a@=1"], ""),
            (&["a=b=c"], ""),
            (&["a=\u{e9}"], ""),
            (&["a=1\u{7f}"], ""),
            (&[&format!("a={long}v")], ""),
        ] {
            assert_eq!(with(states), expected, "{states:?}");
        }
        let first = format!("a={long}");
        assert_eq!(with(&[&first, &format!("b={long}"), "c=1"]), first);
        let entries = |count: usize| {
            let all = (0..count).map(|index| format!("k{index}=1"));
            all.collect::<Vec<_>>().join(",")
        };
        assert_eq!(with(&[&entries(32)]), entries(32));
        assert_eq!(with(&[&entries(33)]), "");
    }

    #[test]
    fn a_share_of_all_traces_is_recorded() {
        let sampled = |ratio: f64| {
            let begun = (0..2000).filter(|_| TraceContext::begin(ratio).is_sampled());
            begun.count()
        };
        assert_eq!(sampled(0.0), 0);
        assert_eq!(sampled(1.0), 2000);
        // Wrong once in more than a billion times.
        assert!((850..1150).contains(&sampled(0.5)));
        let last = TraceId([0xff; 16]);
        let first = TraceId([0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(last.is_within(0.000_1) && !last.is_within(0.0));
        assert!(!first.is_within(0.999_9) && first.is_within(1.0));
    }

    #[test]
    fn ids_differ_and_what_is_begun_is_valid() {
        let one = TraceContext::begin(1.0);
        let other = TraceContext::begin(1.0);
        assert_ne!((one.trace, one.span), (other.trace, other.span));
        assert_eq!(parsed(&one.parent()), Some(one.clone()));
        assert_eq!(one.with_span(SpanId::new()).trace, one.trace);
    }
}
