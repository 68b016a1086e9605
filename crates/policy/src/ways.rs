//! The ways by which the daemon connects to hosts for hooks: directly, or by the proxy of a network.

use std::{fmt, path::PathBuf, str::FromStr};

use hookjail_base::redact::secret::Registration;

use crate::egress::{Destination, Egress, Host, is_public};

/// The ways to the hosts of all profiles.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ways {
    /// The file of the authorities that are trusted beside the machine's.
    pub ca: Option<PathBuf>,
    /// The proxy; `None` = all hosts are connected to directly.
    pub proxy: Option<Proxy>,
    /// The secrets that the daemon may send, each with one value.
    pub secrets: Vec<Registration>,
}

/// A proxy that connects to hosts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Proxy {
    /// Its place.
    pub address: ProxyAddress,
    /// The hosts that are connected to without it.
    pub direct: Vec<Egress>,
    /// The secret `USER:PASSWORD` that it requires.
    pub password: Option<Registration>,
}

/// The place of a proxy: `http://HOST:PORT` or `https://HOST:PORT`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProxyAddress {
    /// Host and port.
    pub destination: Destination,
    /// Whether TLS is spoken with it.
    pub is_tls: bool,
}

impl FromStr for ProxyAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or(NO_PROXY)?;
        let is_tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(NO_PROXY),
        };
        if rest.contains('@') {
            return Err(
                "has a user's name; name a secret `USER:PASSWORD` in `egress.proxy_secret`",
            );
        }
        let destination = rest.strip_suffix('/').unwrap_or(rest);
        let destination = destination.parse().map_err(|_| NO_PROXY)?;
        Ok(Self {
            destination,
            is_tls,
        })
    }
}

const NO_PROXY: &str = "is no proxy; write `http://HOST:PORT` or `https://HOST:PORT`";

impl fmt::Display for ProxyAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.destination)
    }
}

impl Ways {
    /// Returns a secret by its name.
    #[must_use]
    pub fn secret(&self, name: &str) -> Option<&Registration> {
        self.secrets.iter().find(|it| it.name == name)
    }

    /// Returns the proxy by which a host is connected to; `None` = directly.
    ///
    /// This machine, and addresses that are not public, are connected to directly, as is `egress.direct`.
    #[must_use]
    pub fn proxy_to(&self, destination: &Destination) -> Option<&Proxy> {
        let Destination { host, port } = destination;
        let is_direct = |proxy: &Proxy| match host {
            Host::Address(address) => {
                let is_listed = |it: &Egress| it.covers_address(*address, *port);
                !is_public(*address) || proxy.direct.iter().any(is_listed)
            }
            Host::Name(name) => {
                let is_listed = |it: &Egress| it.covers_name(name, *port);
                name.is_localhost() || proxy.direct.iter().any(is_listed)
            }
        };
        self.proxy.as_ref().filter(|proxy| !is_direct(proxy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_a_host_and_a_port_without_a_name_of_a_user() {
        for text in [
            "http://proxy.corp.example:3128",
            "https://10.0.0.1:443",
            "http://[fd00::1]:3128",
        ] {
            assert_eq!(text.parse::<ProxyAddress>().unwrap().to_string(), text);
        }
        let with_slash: ProxyAddress = "http://proxy:3128/".parse().unwrap();
        assert_eq!(with_slash.to_string(), "http://proxy:3128");
        for text in [
            "proxy:3128",
            "http://proxy",
            "socks5://proxy:1080",
            "http://proxy:3128/x",
            "http://",
            "",
        ] {
            assert_eq!(text.parse::<ProxyAddress>(), Err(NO_PROXY), "{text}");
        }
        let named = "http://user:word@proxy:3128".parse::<ProxyAddress>();
        assert!(named.unwrap_err().contains("egress.proxy_secret"));
    }

    #[test]
    fn all_hosts_are_reached_by_the_proxy_but_this_machine_private_addresses_and_those_that_are_listed()
     {
        let ways = Ways {
            proxy: Some(Proxy {
                address: "http://proxy:3128".parse().unwrap(),
                direct: [
                    "*.corp.example:443",
                    "git.example:22 any",
                    "1.1.1.0/24:53 any",
                ]
                .map(|it| it.parse().unwrap())
                .to_vec(),
                password: None,
            }),
            ..Ways::default()
        };
        let is_by_proxy = |ways: &Ways, text: &str| ways.proxy_to(&text.parse().unwrap()).is_some();
        for (text, expected) in [
            ("hooks.example:443", true),
            ("corp.example:443", true),
            ("a.corp.example:443", false),
            ("a.corp.example:80", true),
            ("git.example:22", false),
            ("localhost:80", false),
            ("127.0.0.1:80", false),
            ("10.0.0.1:80", false),
            ("[::1]:80", false),
            ("8.8.8.8:443", true),
            ("1.1.1.9:53", false),
            ("1.1.1.9:443", true),
        ] {
            assert_eq!(is_by_proxy(&ways, text), expected, "{text}");
            assert!(!is_by_proxy(&Ways::default(), text), "{text}");
        }
    }
}
