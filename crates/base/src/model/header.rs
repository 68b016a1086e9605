//! Headers of HTTP.

/// Headers that decide where a request goes or how it is framed.
const FRAMING: [&str; 8] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Returns whether a header decides where a request goes or how it is framed. Case does not count.
#[must_use]
pub fn frames_request(name: &str) -> bool {
    FRAMING.iter().any(|it| name.eq_ignore_ascii_case(it))
}
