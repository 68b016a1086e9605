//! Connections to other hosts that a run made or tried, as its record describes them.

use std::{borrow::Cow, net::IpAddr};

use hookjail_policy::egress::{Destination, Egress, Host, rule_of_address, rule_of_name};

/// A connection that a run made or tried.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Connection {
    /// The address that was connected to, or would have been; `None` where there was none.
    pub address: Option<IpAddr>,
    /// The host, as the hook named it, and the port.
    pub destination: Destination,
    /// How it ended.
    pub end: ConnectionEnd,
    /// From its beginning to its end, milliseconds.
    pub millis: u64,
    /// Bytes that were received.
    pub received: u64,
    /// The names of the secrets that the daemon sent with requests.
    pub secrets: Vec<String>,
    /// Bytes that were sent.
    pub sent: u64,
}

/// How a connection ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ConnectionEnd {
    /// Refused for what was spoken, or where it led: a predicate of the destination.
    Denied(String),
    /// By the run or by the host.
    Done,
    /// Not made, or broken: the network's answer.
    Failed(String),
    /// Refused, because the name leads to this address, which is neither public nor in a rule.
    NotPublic(IpAddr),
    /// Refused, because no rule names the destination.
    Unlisted,
}

impl ConnectionEnd {
    /// Returns why the profile refused it; `None` = it did not.
    #[must_use]
    pub fn refusal(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Denied(why) => Some(why.into()),
            Self::Done | Self::Failed(_) => None,
            Self::NotPublic(address) => Some(
                format!("resolves to {address}, which is not public and not in `egress`").into(),
            ),
            Self::Unlisted => Some("is not in `egress`".into()),
        }
    }
}

impl Connection {
    /// Returns rules that allow what it reached, each for one host, as narrow as the profile's; none where the profile refused it.
    #[must_use]
    pub fn own_rules(&self, allowed: &[Egress]) -> Vec<Egress> {
        if self.end.refusal().is_some() {
            return Vec::new();
        }
        let Destination { host, port } = &self.destination;
        let known = match host {
            Host::Address(address) => rule_of_address(allowed, *address, *port),
            Host::Name(name) => rule_of_name(allowed, name, *port),
        };
        let usual = self.destination.usual_rule();
        let rule = known.map_or(usual, |known| self.destination.rule(known.speaks));
        let mut rules = vec![rule];
        let host = self.address.map(Host::Address);
        if let Some(host) =
            host.filter(|host| !host.is_public() && !host.is_same(&self.destination.host))
        {
            let port = *port;
            rules.push(Destination { host, port }.usual_rule());
        }
        rules
    }

    /// Returns the rule that would have allowed it, as far as a rule can.
    #[must_use]
    pub fn missing_rule(&self) -> Option<Egress> {
        let port = self.destination.port;
        match self.end {
            ConnectionEnd::Denied(_) | ConnectionEnd::Done | ConnectionEnd::Failed(_) => None,
            ConnectionEnd::NotPublic(address) => {
                let host = Host::Address(address);
                Some(Destination { host, port }.usual_rule())
            }
            ConnectionEnd::Unlisted => Some(self.destination.usual_rule()),
        }
    }
}

/// The connections of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Connections {
    /// The first, at most 2048.
    pub described: Vec<Connection>,
    /// The number of those beyond.
    pub more: u64,
}

/// Numbers of connections by their ends, and of their bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ConnectionCounts {
    /// Made, as a rule allows.
    pub allowed: u64,
    /// Refused by the profile.
    pub denied: u64,
    /// Allowed, and failed by the network.
    pub failed: u64,
    /// Bytes that were received.
    pub received: u64,
    /// Bytes that were sent.
    pub sent: u64,
}

impl Connections {
    /// Counts those that are described, by their ends, and their bytes.
    #[must_use]
    pub fn counts(&self) -> ConnectionCounts {
        let mut counts = ConnectionCounts::default();
        for connection in &self.described {
            let of_end = match connection.end {
                ConnectionEnd::Done => &mut counts.allowed,
                ConnectionEnd::Failed(_) => &mut counts.failed,
                ConnectionEnd::Denied(_)
                | ConnectionEnd::NotPublic(_)
                | ConnectionEnd::Unlisted => &mut counts.denied,
            };
            *of_end += 1;
            counts.received += connection.received;
            counts.sent += connection.sent;
        }
        counts
    }

    /// Returns those that the profile refused, each with the reason.
    pub fn denied(&self) -> impl Iterator<Item = (&Connection, Cow<'_, str>)> {
        let described = self.described.iter();
        described.filter_map(|it| Some((it, it.end.refusal()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_rules_for_its_host_alone() {
        let connection = |place: &str, address: Option<&str>, end| Connection {
            address: address.map(|it| it.parse().unwrap()),
            destination: place.parse().unwrap(),
            end,
            millis: 0,
            received: 0,
            secrets: Vec::new(),
            sent: 0,
        };
        let allowed = ["*.b.example:443 any", "10.0.0.0/8:80 http"].map(|it| it.parse().unwrap());
        let rules = |place: &str, address, end| {
            let rules = connection(place, address, end).own_rules(&allowed);
            rules.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let done = || ConnectionEnd::Done;
        let failed = || ConnectionEnd::Failed("refused".to_owned());
        let public = Some("8.8.8.8");
        for (place, address, end, expected) in [
            ("a.example:443", public, done(), &["a.example:443"][..]),
            ("a.example:443", None, failed(), &["a.example:443"]),
            // As narrow as the profile's.
            ("a.b.example:443", public, done(), &["a.b.example:443 any"]),
            (
                "10.1.1.1:80",
                Some("10.1.1.1"),
                done(),
                &["10.1.1.1:80 http"],
            ),
            ("8.8.8.8:22", public, done(), &["8.8.8.8:22 any"]),
            (
                "localhost:80",
                Some("127.0.0.1"),
                done(),
                &["localhost:80 http"],
            ),
            // A name that leads into a private network.
            (
                "a.example:443",
                Some("10.1.1.1"),
                done(),
                &["a.example:443", "10.1.1.1:443 any"],
            ),
            ("a.example:443", public, ConnectionEnd::Unlisted, &[]),
            (
                "a.example:443",
                public,
                ConnectionEnd::Denied("x".to_owned()),
                &[],
            ),
        ] {
            assert_eq!(rules(place, address, end), expected, "{place}");
        }
    }
}
