//! Connections to other hosts that a run made or tried, as its record describes them.

use std::net::IpAddr;

/// A connection that a run made or tried.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Connection {
    /// The address that was connected to, or would have been; `None` where there was none.
    pub address: Option<IpAddr>,
    /// How it ended.
    pub end: ConnectionEnd,
    /// The host, as the hook named it.
    pub host: String,
    /// From its beginning to its end, milliseconds.
    pub millis: u64,
    /// The port.
    pub port: u16,
    /// Bytes that were received.
    pub received: u64,
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
    /// Refused, because no rule names the destination.
    Unlisted,
}

impl ConnectionEnd {
    /// Returns why the profile refused it; `None` = it did not.
    #[must_use]
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Denied(why) => Some(why),
            Self::Done | Self::Failed(_) => None,
            Self::Unlisted => Some("is not in `egress`"),
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

impl Connections {
    /// Returns those that the profile refused, each with the reason.
    pub fn denied(&self) -> impl Iterator<Item = (&Connection, &str)> {
        let described = self.described.iter();
        described.filter_map(|it| Some((it, it.end.refusal()?)))
    }
}
