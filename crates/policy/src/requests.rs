//! Requests of HTTP that the daemon makes by TLS in a hook's place, with a secret that the hook never has.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use hookjail_base::model::{Url, frames_request, variable};

use crate::egress::{Egress, HostName};

/// The place of the secret in the value of a header.
const PLACE: &str = "{secret}";

/// The port at which a hook finds the hosts whose port is 443, by `http://` and the name.
pub(crate) const PORT_OF_HTTP: u16 = 80;
pub(crate) const PORT_OF_HTTPS: u16 = 443;

/// Requests that a hook makes by HTTP in the clear and the daemon by TLS.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RequestRule {
    /// Header with the secret: `"NAME: VALUE"`, with `{secret}` in the value. The hook's own of that name is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<SecretHeader>,
    /// Allowed methods, such as `["GET", "POST"]`. Default: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// The `name` of a `[[secret]]` that is no `pattern`: the secret that the daemon sends, in the header or as the URL itself.
    /// Without one the entry limits paths and methods alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// URL of `https` without a query, of a host with a name: requests at or below it, by whole segments of the path.
    pub url: RequestUrl,
    /// Name of a variable, for a secret that is a URL at or below `url`. The hook has a URL in its place, which leads there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
}

/// A URL of `https` without a query, of a host with a name.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(into = "String", try_from = "String")]
pub struct RequestUrl {
    host: HostName,
    url: Url,
}

impl TryFrom<String> for RequestUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = |problem: &str| format!("`{text}` {problem}");
        let url = Url::parse(&text).map_err(wrong)?;
        if !url.is_secure() {
            return Err(wrong(
                "is no URL of `https`, by which alone a secret is sent",
            ));
        }
        if url.has_query() {
            return Err(wrong("has a query; leave it out, all queries are allowed"));
        }
        let host = HostName::parse(url.host()).ok_or_else(|| {
            wrong("names an address, which TLS has no server name for; write a name")
        })?;
        Ok(Self { host, url })
    }
}

impl From<RequestUrl> for String {
    fn from(url: RequestUrl) -> Self {
        url.url.to_string()
    }
}

impl JsonSchema for RequestUrl {
    fn schema_name() -> Cow<'static, str> {
        "RequestUrl".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A URL of `https` without a query: `https://api.example.org/repos/`.",
            "pattern": "^https://[^?#]+$",
            "type": "string",
        })
    }
}

/// A header of HTTP whose value has a secret.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(into = "String", try_from = "String")]
pub struct SecretHeader {
    /// The name.
    pub name: String,
    value: String,
}

impl SecretHeader {
    /// Returns the value with a secret in it.
    #[must_use]
    pub fn value_with(&self, secret: &[u8]) -> Vec<u8> {
        let (before, after) = self.value.split_once(PLACE).unwrap_or_default();
        [before.as_bytes(), secret, after.as_bytes()].concat()
    }
}

impl TryFrom<String> for SecretHeader {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = |problem: &str| format!("`{text}` {problem}");
        let parts = text.split_once(": ");
        let (name, value) =
            parts.ok_or_else(|| wrong("is no header; write `Authorization: Bearer {secret}`"))?;
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || !name.bytes().all(is_of_name) {
            return Err(wrong("has no name of a header before `: `"));
        }
        if frames_request(name) || name.eq_ignore_ascii_case("proxy-authorization") {
            return Err(wrong(
                "decides where a request goes or how it is framed; name another",
            ));
        }
        if value.matches(PLACE).count() != 1 {
            return Err(wrong("has to have `{secret}` in its value, once"));
        }
        if !value
            .bytes()
            .all(|byte| byte.is_ascii_graphic() || byte == b' ')
        {
            return Err(wrong(
                "has a character in its value that is not printable ASCII",
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            value: value.to_owned(),
        })
    }
}

impl From<SecretHeader> for String {
    fn from(header: SecretHeader) -> Self {
        format!("{}: {}", header.name, header.value)
    }
}

impl JsonSchema for SecretHeader {
    fn schema_name() -> Cow<'static, str> {
        "SecretHeader".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A header with the place of a secret: `Authorization: Bearer {secret}`.",
            "pattern": "^[A-Za-z0-9_-]+: .*\\{secret\\}.*$",
            "type": "string",
        })
    }
}

/// The form in which a secret is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SecretForm<'a> {
    /// In this header.
    Header(&'a SecretHeader),
    /// As the URL, for which the hook has another.
    Url,
}

impl RequestRule {
    /// Returns the key and the problem where parts of the rule do not fit.
    pub(crate) fn problem(&self) -> Option<(&'static str, &'static str)> {
        let is_method = |it: &String| {
            !it.is_empty()
                && it
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte == b'-')
        };
        if !self.methods.iter().all(is_method) {
            return Some((
                "methods",
                "has a word that is no method; write it as `GET` or `POST`",
            ));
        }
        match (&self.secret, &self.header, &self.variable) {
            (None, None, None) | (Some(_), Some(_), None) => None,
            (Some(_), None, Some(name)) => {
                let is_closed = !variable::is_name(name) || variable::is_closed(name);
                is_closed.then_some((
                    "variable",
                    "is no name of a variable that a profile can set",
                ))
            }
            (Some(_), None, None) => Some((
                "secret",
                "has no place; set `header`, or `variable` where the secret is a URL",
            )),
            (Some(_), Some(_), Some(_)) => {
                Some(("variable", "stands beside `header`; take one of them out"))
            }
            (None, Some(_), _) => Some(("header", "has no secret; set `secret`")),
            (None, None, Some(_)) => Some(("variable", "has no secret; set `secret`")),
        }
    }

    /// Returns the secret that it sends, and the form.
    #[must_use]
    pub fn secret(&self) -> Option<(&str, SecretForm<'_>)> {
        let form = self
            .header
            .as_ref()
            .map_or(SecretForm::Url, SecretForm::Header);
        Some((self.secret.as_deref()?, form))
    }

    /// Returns the rule of `egress` by which a hook connects.
    #[must_use]
    pub fn egress(&self) -> Egress {
        Egress::of_requests(self.url.host.clone(), self.url.url.port())
    }

    /// Returns the variable of a hook's and the URL that it has in the place of the secret one.
    #[must_use]
    pub fn stand_in(&self) -> Option<(&str, String)> {
        let variable = self.variable.as_deref()?;
        let port = match self.url.url.port() {
            PORT_OF_HTTPS => String::new(),
            port => format!(":{port}"),
        };
        Some((
            variable,
            format!("http://{}{port}{}", self.url.host, self.stand_in_path()?),
        ))
    }

    fn stand_in_path(&self) -> Option<String> {
        Some(format!("/hookjail/{}", self.secret.as_deref()?))
    }

    fn covers(&self, method: &str, path: &str) -> bool {
        let is_method = self.methods.is_empty() || self.methods.iter().any(|it| it == method);
        let is_there = match (self.secret(), self.stand_in_path()) {
            (Some((_, SecretForm::Url)), Some(stand_in)) => stand_in == path,
            _ => self.url.url.is_whole() || self.url.url.has_below(path) && stays_below(path),
        };
        is_method && is_there
    }

    /// Returns the path of a secret URL, with a request's query; `None` where the secret is no URL at or below the rule's.
    #[must_use]
    pub fn secret_path(&self, secret: &[u8], query: Option<&str>) -> Option<String> {
        let secret = Url::parse(str::from_utf8(secret).ok()?).ok()?;
        if !secret.is_within(&self.url.url) {
            return None;
        }
        let mark = if secret.has_query() { '&' } else { '?' };
        let query = query.map(|query| format!("{mark}{query}"));
        Some(secret.path_and_query() + &query.unwrap_or_default())
    }
}

/// Returns whether no part of a path leads upwards, as servers may read it: decoded once, with `\` for `/`, without what follows `;`.
fn stays_below(path: &str) -> bool {
    let decoded = decoded(path.as_bytes());
    let segments = decoded.split(|byte| matches!(byte, b'/' | b'\\'));
    let leads_up = |segment: &[u8]| {
        let bare = segment.split(|byte| *byte == b';').next();
        matches!(bare, Some(b"." | b"..")) || segment.contains(&0)
    };
    let mut segments = segments.into_iter();
    // A server may decode what is encoded twice once more.
    !segments.any(leads_up) && !decoded.contains(&b'%')
}

/// Decodes each `%` and two digits once.
fn decoded(path: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [byte, behind @ ..] = rest {
        let digits = behind.get(..2).filter(|_| *byte == b'%');
        let value = digits.and_then(|it| u8::from_str_radix(str::from_utf8(it).ok()?, 16).ok());
        decoded.push(value.unwrap_or(*byte));
        rest = if value.is_some() {
            &behind[2..]
        } else {
            behind
        };
    }
    decoded
}

impl fmt::Display for RequestRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.methods.is_empty() {
            write!(f, "{} ", self.methods.join(", "))?;
        }
        write!(f, "{}", self.url.url)?;
        match self.secret() {
            None => Ok(()),
            Some((name, SecretForm::Header(header))) => {
                write!(f, " with the secret `{name}` as `{}`", header.name)
            }
            Some((name, SecretForm::Url)) => write!(f, " by the secret `{name}`, which is its URL"),
        }
    }
}

/// Returns the rule by which a request may be made at a host; `None` = the host's requests are not limited. The path has no query.
///
/// # Errors
///
/// Returns why it may not: a predicate of the destination.
pub fn granted<'a>(
    rules: &'a [RequestRule],
    egress: &Egress,
    method: &str,
    path: &str,
) -> Result<Option<&'a RequestRule>, String> {
    let mut of_host = rules.iter().filter(|it| it.egress() == *egress).peekable();
    if of_host.peek().is_none() {
        return Ok(None);
    }
    let rule = of_host.find(|it| it.covers(method, path));
    rule.map(Some)
        .ok_or_else(|| format!("was sent `{method} {path}`, which is not in `requests`"))
}

/// Returns the first rule of `egress` by which a hook would reach the host of a request without its limits.
pub(crate) fn unlimited_rule<'a>(allowed: &'a [Egress], rule: &RequestRule) -> Option<&'a Egress> {
    let implied = rule.egress();
    let is_there = |it: &&Egress| it.covers_name(&rule.url.host, implied.port()) && **it != implied;
    allowed.iter().find(is_there)
}

#[cfg(test)]
mod tests;
