//! Removes registered secrets from texts: values, however their characters are encoded, their base64, and matches of patterns.
//!
//! Pure: only [`secret`] reads values, and the use of a redacted text is not known here. `docs/threat-model.md` lists
//! the covered encodings; a secret in another one is not found.

mod decoded;
mod forms;
mod json;
pub mod secret;

use std::{borrow::Cow, fmt, ops::Range};

use aho_corasick::{AhoCorasick, BuildError};
use regex::bytes::Regex;

pub use self::json::rewrite_strings;
use self::{
    decoded::{Decoded, MAX_EXPANSION, decode},
    secret::{Needle, Secret},
};

/// How often a text is decoded: JSON in JSON in a URL is.
const MAX_LAYERS: usize = 3;

/// The longest part of a pattern's match that may be hidden by a cut end.
const PATTERN_REACH: usize = 4096;

/// The longest marker of a secret, which may replace a single byte.
pub const MARKER_BYTES: usize = secret::MAX_NAME + "[redacted:]".len();

/// A redactor: replaces every occurrence of the registered secrets by `[redacted:NAME]`.
#[derive(Default)]
pub struct Redactor {
    literals: Option<AhoCorasick>,
    markers: Vec<String>,
    /// The secret of each literal.
    owners: Vec<usize>,
    patterns: Vec<(usize, Regex)>,
    /// One less than the longest value may be in an encoded text. So much of a secret may be at a cut end without being found.
    reach: usize,
}

/// Shows only the names: the literals are the secrets.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("markers", &self.markers)
            .finish_non_exhaustive()
    }
}

/// The ends at which a text was cut.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cut {
    /// Whether its beginning was cut off.
    pub before: bool,
    /// Whether its end was cut off.
    pub after: bool,
}

/// Error of creating a redactor.
#[derive(Debug, thiserror::Error)]
pub enum RedactorError {
    /// A secret is part of a marker, and would appear in redacted texts.
    #[error(
        "the secret `{secret}` is part of `{marker}`, which stands where a secret was; change its value or that name"
    )]
    InMarker {
        /// The marker.
        marker: String,
        /// The secret's name.
        secret: String,
    },
    /// The secrets are too large together.
    #[error("the secrets are too large together; register fewer or shorter ones")]
    TooLarge(#[source] BuildError),
}

impl Redactor {
    /// Prepares the search for secrets.
    ///
    /// # Errors
    ///
    /// Fails if a secret is part of a marker, or the secrets are too large together.
    pub fn new(secrets: Vec<Secret>) -> Result<Self, RedactorError> {
        let markers: Vec<_> = secrets.iter().map(Secret::marker).collect();
        let (mut literals, mut owners, mut patterns) = (Vec::new(), Vec::new(), Vec::new());
        let mut longest = 0;
        for (owner, secret) in secrets.into_iter().enumerate() {
            let Secret { name, what } = secret;
            let value = match what {
                Needle::Pattern(pattern) => {
                    patterns.push((owner, pattern));
                    continue;
                }
                Needle::Value(value) => value,
            };
            let holds =
                |marker: &&String| marker.as_bytes().windows(value.len()).any(|w| w == value);
            if let Some(marker) = markers.iter().find(holds) {
                return Err(RedactorError::InMarker {
                    marker: marker.clone(),
                    secret: name,
                });
            }
            longest = longest.max(value.len());
            for form in forms::all(&value) {
                literals.push(form);
                owners.push(owner);
            }
        }
        let literals = (!literals.is_empty())
            .then(|| AhoCorasick::new(literals))
            .transpose()
            .map_err(RedactorError::TooLarge)?;
        let patterns_reach = if patterns.is_empty() {
            0
        } else {
            PATTERN_REACH
        };
        Ok(Self {
            reach: (MAX_EXPANSION * longest)
                .saturating_sub(1)
                .max(patterns_reach),
            literals,
            markers,
            owners,
            patterns,
        })
    }

    /// Returns whether no secret is registered.
    pub fn is_empty(&self) -> bool {
        self.markers.is_empty()
    }

    /// Returns the most bytes of a text that are dropped at a cut end.
    pub const fn reach(&self) -> usize {
        self.reach
    }

    /// Returns bytes without secrets.
    ///
    /// At a cut end, as many bytes are dropped as an incomplete secret could have there.
    pub fn bytes<'a>(&self, bytes: &'a [u8], cut: Cut) -> Cow<'a, [u8]> {
        if self.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let spans = merged(self.spans(bytes));
        let mut from = if cut.before {
            self.reach.min(bytes.len())
        } else {
            0
        };
        let mut end = if cut.after {
            bytes.len().saturating_sub(self.reach)
        } else {
            bytes.len()
        };
        for (span, _) in &spans {
            // A complete match is kept as its marker instead of being dropped.
            if span.start < end && end < span.end {
                end = span.end;
            }
            if span.start < from && from < span.end {
                from = span.start;
            }
        }
        if from >= end {
            return Cow::Borrowed(&[]);
        }
        let within = |(span, _): &(Range<usize>, usize)| from <= span.start && span.end <= end;
        let marked = |(span, owner): (Range<usize>, usize)| {
            (span.start - from..span.end - from, &*self.markers[owner])
        };
        let spans: Vec<_> = spans.into_iter().filter(within).map(marked).collect();
        let kept = &bytes[from..end];
        replaced(kept, spans).map_or(Cow::Borrowed(kept), Cow::Owned)
    }

    /// Returns a text without secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes(), Cut::default()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // A secret that is no UTF-8 may have matched a part of a character, so the rest may be no UTF-8.
            Cow::Owned(bytes) => Cow::Owned(lossy(bytes)),
        }
    }

    /// Redacts the secrets in a text.
    pub fn clean(&self, text: &mut String) {
        if let Cow::Owned(clean) = self.text(text) {
            *text = clean;
        }
    }

    /// Redacts a JSON document so that it stays one; `None` where nothing was found.
    ///
    /// Strings are searched as decoded. If a secret remains in a key, a number or across several values, a string with
    /// its marker replaces the whole document.
    pub fn json(&self, json: &str) -> Option<String> {
        if self.is_empty() {
            return None;
        }
        let rewritten = rewrite_strings(json, &[], |text| match self.text(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(clean) => Some(clean),
        });
        let left = self.spans(rewritten.as_deref().unwrap_or(json).as_bytes());
        match left.first() {
            Some((_, owner)) => Some(serde_json::Value::from(&*self.markers[*owner]).to_string()),
            None => rewritten,
        }
    }

    /// Returns the places of secrets in a text, and whose they are.
    ///
    /// Values are also searched in the text's decoded forms, repeatedly, with the places in the text itself.
    fn spans(&self, bytes: &[u8]) -> Vec<(Range<usize>, usize)> {
        let patterns = self.patterns.iter().flat_map(|(owner, pattern)| {
            let found = pattern.find_iter(bytes).filter(|found| !found.is_empty());
            found.map(|found| (found.range(), *owner))
        });
        let mut spans: Vec<_> = patterns.collect();
        let Some(literals) = &self.literals else {
            return spans;
        };
        let found = |text: &[u8]| {
            let found = literals.find_overlapping_iter(text);
            let found = found.map(|found| (found.range(), self.owners[found.pattern().as_usize()]));
            found.collect::<Vec<_>>()
        };
        spans.extend(found(bytes));
        let mut layers: Vec<Decoded> = Vec::new();
        while layers.len() < MAX_LAYERS
            && let Some(decoded) = decode(layers.last().map_or(bytes, |layer| &layer.bytes))
        {
            let within = found(&decoded.bytes);
            layers.push(decoded);
            spans.extend(within.into_iter().map(|(span, owner)| {
                let layers = layers.iter().rev();
                (layers.fold(span, |span, layer| layer.source(span)), owner)
            }));
        }
        spans
    }
}

/// Joins overlapping spans, each under the owner of its first.
fn merged(mut spans: Vec<(Range<usize>, usize)>) -> Vec<(Range<usize>, usize)> {
    spans.sort_unstable_by_key(|(span, _)| (span.start, span.end));
    let mut merged: Vec<(Range<usize>, usize)> = Vec::new();
    for (span, owner) in spans {
        match merged.last_mut() {
            Some((last, _)) if span.start < last.end => last.end = last.end.max(span.end),
            _ => merged.push((span, owner)),
        }
    }
    merged
}

/// Replaces spans by markers; `None` where there are none. A span that overlaps an earlier one gets no marker of its
/// own.
pub fn replaced(bytes: &[u8], mut spans: Vec<(Range<usize>, &str)>) -> Option<Vec<u8>> {
    spans.sort_unstable_by_key(|(span, _)| (span.start, span.end));
    let mut out = Vec::new();
    let mut copied = 0;
    for (span, marker) in &spans {
        if span.start >= copied {
            out.extend_from_slice(&bytes[copied..span.start]);
            out.extend_from_slice(marker.as_bytes());
        }
        copied = copied.max(span.end);
    }
    if spans.is_empty() {
        return None;
    }
    out.extend_from_slice(&bytes[copied..]);
    Some(out)
}

/// Converts bytes to text, without a copy if they are UTF-8.
pub fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests;
