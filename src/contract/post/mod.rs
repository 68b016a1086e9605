//! A hook that is posted to a URL, as its entry has it, and what the operator's configuration says of it.

mod url;

use std::{collections::BTreeMap, fmt};

use http::HeaderName;

pub use self::url::Url;
use super::Payload;
use crate::policy::environment::is_name;

/// Headers that decide where a request goes or how it is framed, which is curl's to say.
const CURLS: [&str; 8] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A hook that is posted.
#[derive(Clone, Debug, PartialEq)]
pub struct Post {
    pub(crate) headers: Vec<(String, String)>,
    /// How the event is handed on; `None` = as hooks read it.
    pub payload: Option<Payload>,
    pub(crate) standing: Standing,
    pub(crate) url: Url,
    pub(crate) variables: Vec<String>,
}

/// What the operator's configuration says about it.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// It lets it through.
    Allowed(Allowed),
    /// It does not.
    Denied(Denied),
    /// It was not asked, and nothing is posted.
    Unasked,
}

/// How a hook is posted that the operator lets through.
#[derive(Clone, PartialEq)]
pub struct Allowed {
    /// The URL of the operator's list at or below which it lies.
    pub by: Url,
    /// What curl is to do, with the values of secrets.
    pub(crate) request: Vec<u8>,
}

/// Nothing of its request, which holds secrets.
impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allowed")
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}

/// Why a hook is not posted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Denied {
    /// The lines of a configuration that would let it through; empty where none would.
    pub lines: String,
    /// Why.
    pub why: String,
}

/// On one line: why, and what would let it through.
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
    pub(crate) fn never(why: impl Into<String>) -> Self {
        Self {
            lines: String::new(),
            why: why.into(),
        }
    }
}

impl Post {
    /// Takes a URL, headers as they are written, and the variables that those may name.
    ///
    /// # Errors
    ///
    /// Says what nobody could let through: a URL or a header that is none or can be read in more than one way.
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
            if CURLS.contains(&known.as_str()) {
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
            standing: Standing::Unasked,
            url,
            variables: variables.iter().map(|name| (*name).to_owned()).collect(),
        })
    }

    /// Returns where it is posted to.
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// Returns what the operator's configuration says about it.
    pub const fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Returns the names of its headers.
    pub fn headers(&self) -> Vec<&str> {
        self.headers.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Returns the variables that its headers name and that it does not list: empty texts stand in their place.
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
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Variable(&'a str),
}

/// Takes a value apart: `$NAME` and `${NAME}` are variables, and any other `$` is itself.
pub(crate) fn pieces(value: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
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
            found.push(Piece::Text(&rest[..=at]));
            rest = after;
        }
    }
    found.push(Piece::Text(rest));
    found
}
