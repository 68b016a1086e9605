//! URLs of hooks and of operators, parsed so strictly that no client or server reads them differently.

use std::{fmt, net::Ipv6Addr};

use http::uri::{Scheme, Uri};

/// A URL of HTTP. `Display` omits the text after `?`, where tokens may be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Url {
    host: String,
    is_secure: bool,
    path: String,
    port: u16,
    query: Option<String>,
}

impl Url {
    /// Parses an absolute URL of `http` or `https`.
    ///
    /// # Errors
    ///
    /// Refuses an invalid URL, and one that clients or servers could parse differently.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains('#') {
            return Err("has a fragment (`#`)");
        }
        let uri: Uri = text.parse().map_err(|_| "is no URL")?;
        let is_secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(_) | None => return Err("does not begin with `http://` or `https://`"),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err("has a user name; put what it proves into a header");
        }
        let written = uri.host().unwrap_or_default();
        let host = host(written).ok_or("has a host that is no name or address")?;
        let port = match authority.strip_prefix(written) {
            Some("") if is_secure => 443,
            Some("") => 80,
            behind => {
                let port = behind.and_then(|behind| behind.strip_prefix(':'));
                // Numbers parse with a sign, too.
                let port = port.filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
                let port = port.and_then(|port| port.parse().ok());
                port.filter(|port| *port != 0)
                    .ok_or("has a port that is none")?
            }
        };
        check(uri.path(), uri.query())?;
        Ok(Self {
            host,
            is_secure,
            path: uri.path().to_owned(),
            port,
            query: uri.query().map(ToOwned::to_owned),
        })
    }

    /// Returns its host, in lower case.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns whether it is one of `https`.
    #[must_use]
    pub const fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Returns its path, with the text after `?`.
    #[must_use]
    pub fn path_and_query(&self) -> String {
        let query = self.query.as_ref().map(|query| format!("?{query}"));
        format!("{}{}", self.path, query.unwrap_or_default())
    }

    /// Returns its port, that of its scheme where it names none.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether there is something after its path: `?` and more.
    pub const fn has_query(&self) -> bool {
        self.query.is_some()
    }

    /// Returns whether the connection is private: encrypted or local.
    pub fn is_private(&self) -> bool {
        self.is_secure || matches!(&*self.host, "localhost" | "127.0.0.1" | "[::1]")
    }

    /// Returns the whole URL, for curl.
    pub fn whole(&self) -> String {
        let query = self.query.as_ref().map(|query| format!("?{query}"));
        format!("{self}{}", query.unwrap_or_default())
    }

    /// Returns whether it lies at or below another URL. Scheme, host and port are the same, its path the other's or, by
    /// whole segments, below.
    pub fn is_within(&self, other: &Self) -> bool {
        (self.is_secure, &self.host, self.port) == (other.is_secure, &other.host, other.port)
            && other.has_below(&self.path)
    }

    /// Returns whether a path is its own or, by whole segments, below.
    #[must_use]
    pub fn has_below(&self, path: &str) -> bool {
        let below = path.strip_prefix(&self.path);
        below.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with('/') || self.path.ends_with('/')
        })
    }

    /// Returns whether it is the whole of its host.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.path == "/"
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, usual) = if self.is_secure {
            ("https", 443)
        } else {
            ("http", 80)
        };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port != usual {
            write!(f, ":{}", self.port)?;
        }
        f.write_str(&self.path)
    }
}

/// Returns a host in canonical spelling.
fn host(text: &str) -> Option<String> {
    if let Some(address) = text.strip_prefix('[') {
        let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
        return Some(format!("[{address}]"));
    }
    let of_a_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (!text.is_empty() && text.bytes().all(of_a_name)).then(|| text.to_ascii_lowercase())
}

/// Rejects paths that a server may parse differently.
///
/// These have segments that lead upwards, in any encoding, or encoded separators.
fn check(path: &str, query: Option<&str>) -> Result<(), &'static str> {
    let is_of_a_url =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/".contains(&byte);
    if !path.bytes().all(is_of_a_url)
        || !query.is_none_or(|query| query.bytes().all(|byte| is_of_a_url(byte) || byte == b'?'))
    {
        return Err("has a character that is to be written as `%` and two digits");
    }
    let lower = path.to_ascii_lowercase();
    if ["%00", "%2e", "%2f", "%5c"]
        .iter()
        .any(|it| lower.contains(it))
    {
        return Err("has an encoded dot, slash or NUL in its path");
    }
    // Some servers ignore the part of a segment after `;`.
    let is_dots = |segment: &str| matches!(segment.split(';').next(), Some("." | ".."));
    if path.split('/').any(is_dots) {
        return Err("has a segment `.` or `..` in its path");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_one_spelling() {
        for (text, shown, whole) in [
            (
                "https://Example.ORG",
                "https://example.org/",
                "https://example.org/",
            ),
            ("https://a.b:443/x", "https://a.b/x", "https://a.b/x"),
            ("http://a.b:443/x", "http://a.b:443/x", "http://a.b:443/x"),
            (
                "http://127.0.0.1:80",
                "http://127.0.0.1/",
                "http://127.0.0.1/",
            ),
            (
                "http://[0:0::1]:8080/x",
                "http://[::1]:8080/x",
                "http://[::1]:8080/x",
            ),
            (
                "https://a/x?key=s%20ecret",
                "https://a/x",
                "https://a/x?key=s%20ecret",
            ),
            ("https://a?x=/../", "https://a/", "https://a/?x=/../"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(
                (url.to_string(), url.whole()),
                (shown.to_owned(), whole.to_owned())
            );
            assert_eq!(Url::parse(&url.whole()).unwrap(), url);
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_no_url() {
        for text in [
            "",
            "/x",
            "example.org/x",
            "ftp://a/x",
            "file:///etc/passwd",
            "http:///x",
            "http://a@b/x",
            "http://a:b@c/x",
            "http://allowed\\@b/x",
            "http://a/x#y",
            "http://a:/x",
            "http://a:0/x",
            "http://a:+80/x",
            "http://a:65536/x",
            "http://a:80:80/x",
            "http://a b/x",
            "http://a%2eb/x",
            "http://*.b/x",
            "http://[::1/x",
            "http://[fe80::1%25eth0]/x",
            "http://[::1]x/x",
            "http://a/x y",
            "http://a/x\ny",
            "http://a/\"x",
            "http://a/{x}",
            "http://a/x\\y",
            "http://a/ä",
            "http://a/x/../y",
            "http://a/x/./y",
            "http://a/x/..;p=1/y",
            "http://a/x/%2E%2e/y",
            "http://a/x%2fy",
            "http://a/x%5Cy",
            "http://a/?x\"y",
        ] {
            assert!(Url::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_url_lies_below_another_by_whole_segments_and_at_the_same_place() {
        let within = |url: &str, other: &str| {
            Url::parse(url)
                .unwrap()
                .is_within(&Url::parse(other).unwrap())
        };
        for (url, other, expected) in [
            ("https://a/agent", "https://a/agent", true),
            ("https://a/agent/", "https://a/agent", true),
            ("https://a/agent/x?y", "https://a/agent", true),
            ("https://a/agents", "https://a/agent", false),
            ("https://a/agent", "https://a/agent/", false),
            ("https://a/agent/x", "https://a/agent/", true),
            ("https://a/agent/x", "https://a", true),
            ("https://a/Agent", "https://a/agent", false),
            ("https://a:443/x", "https://A/", true),
            ("http://a/x", "https://a/", false),
            ("http://a:443/x", "https://a/", false),
            ("https://a:8443/x", "https://a/", false),
            ("https://b.a/x", "https://a/", false),
            ("https://a.b/x", "https://a/", false),
            ("https://a./x", "https://a/", false),
        ] {
            assert_eq!(within(url, other), expected, "{url} within {other}");
        }
    }
}
