//! Connections to other hosts that a run made or tried, as its record describes them.

use std::{borrow::Cow, net::IpAddr};

use hookjail_policy::egress::{Destination, Egress, Host};

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
