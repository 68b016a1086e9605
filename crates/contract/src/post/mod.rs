//! Hooks that are posted to a URL, and the operator's configuration for them.

use std::{collections::BTreeMap, fmt};

use http::HeaderName;

use hookjail_base::model::{frames_request, variable::is_name};

use super::Payload;
pub use hookjail_base::model::Url;

/// A hook that is posted to a URL.
#[derive(Clone, Debug, PartialEq)]
pub struct Post {
    /// Headers of the request, as names and values in which variables are not yet replaced.
    pub headers: Vec<(String, String)>,
    /// The form of the event that is sent; `None` = the hook's stdin.
    pub payload: Option<Payload>,
    /// Decision of the operator's configuration.
    pub standing: PostDecision,
    /// Destination of the request.
    pub url: Url,
    /// Environment variables that headers may contain.
    pub variables: Vec<String>,
}

/// Decision of the operator's configuration on a posted hook.
#[derive(Clone, Debug, PartialEq)]
pub enum PostDecision {
    /// Allowed, on these terms.
    Allowed(Allowed),
    /// Denied, for this reason.
    Denied(Denied),
    /// Not consulted: nothing is posted.
    Unasked,
}

/// Terms of a hook that the operator allows.
#[derive(Clone, PartialEq)]
pub struct Allowed {
    /// The URL of the operator's list at or below which it lies.
    pub by: Url,
    /// The host of that URL, as a rule of `egress`.
    pub host: String,
    /// The curl configuration, with the values of secrets.
    pub request: Vec<u8>,
}

/// Omits its request, which holds secrets.
impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allowed")
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}

/// The reason why a hook is not posted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Denied {
    /// The lines of a configuration that would allow it; empty where none would.
    pub lines: String,
    /// The reason.
    pub why: String,
}

/// Formats on one line the reason, and the configuration that would allow it.
impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)?;
        if self.lines.is_empty() {
            return Ok(());
        }
        write!(f, "; to let it through: {}", self.lines.replace('\n', " "))
    }
}

impl Denied {
    /// Builds a refusal that no line of a configuration lifts.
    pub fn never(why: impl Into<String>) -> Self {
        Self {
            lines: String::new(),
            why: why.into(),
        }
    }
}

impl Post {
    /// Builds a hook from a URL, verbatim headers, and the variables headers may name.
    ///
    /// # Errors
    ///
    /// Refuses a URL or header that is invalid or ambiguous.
    pub fn new(
        url: &str,
        headers: &BTreeMap<&str, &str>,
        variables: &[&str],
    ) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|problem| format!("its `url` {problem}"))?;
        for (name, value) in headers {
            let known = HeaderName::from_bytes(name.as_bytes());
            let known = known
                .map_err(|_| format!("its header `{}` has no name of one", name.escape_debug()))?;
            if frames_request(known.as_str()) {
                return Err(format!("its header `{known}` is not a hook's to set"));
            }
            if value.contains(char::is_control) {
                return Err(format!("its header `{known}` has a control character"));
            }
        }
        let owned = |(name, value): (&&str, &&str)| ((*name).to_owned(), (*value).to_owned());
        Ok(Self {
            headers: headers.iter().map(owned).collect(),
            payload: None,
            standing: PostDecision::Unasked,
            url,
            variables: variables.iter().map(|name| (*name).to_owned()).collect(),
        })
    }

    /// Returns the names of its headers.
    pub fn headers(&self) -> Vec<&str> {
        self.headers.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the variables that headers name and the hook does not list. Their values are empty.
    pub fn unlisted(&self) -> Vec<&str> {
        let named = self.headers.iter().flat_map(|(_, value)| pieces(value));
        let variable = |piece| match piece {
            Piece::Text(_) => None,
            Piece::Variable(name) => Some(name),
        };
        let named = named.filter_map(variable);
        named
            .filter(|name| !self.variables.iter().any(|listed| listed == name))
            .collect()
    }
}

/// A part of a header's value as it is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Piece<'a> {
    /// Text that is sent as written.
    Text(&'a str),
    /// Name of a variable whose value is sent.
    Variable(&'a str),
}

/// Splits a value: `$NAME` and `${NAME}` are variables, and any other `$` is itself.
pub fn pieces(value: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = value;
    while let Some(position) = rest.find('$') {
        let (before, after) = (&rest[..position], &rest[position + 1..]);
        let braced = after
            .strip_prefix('{')
            .and_then(|after| after.split_once('}'));
        let (name, behind) = braced.unwrap_or_else(|| {
            let end = after.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            after.split_at(end.unwrap_or(after.len()))
        });
        if is_name(name) {
            found.extend([Piece::Text(before), Piece::Variable(name)]);
            rest = behind;
        } else {
            found.push(Piece::Text(&rest[..=position]));
            rest = after;
        }
    }
    found.push(Piece::Text(rest));
    found
}
