//! The hosts that a hook reaches under `network = "named"`: rules as profiles spell them, and decisions about destinations.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use hookjail_base::model::Url;

use crate::{
    EgressRules, HostSource,
    requests::{PORT_OF_HTTP, PORT_OF_HTTPS},
};

/// The length limit of a name, and of one of its labels (RFC 1035).
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// The machine's tables of names: of hosts, and of name servers. A view shows tables of the run in their places.
pub const NAME_TABLES: [&str; 2] = ["/etc/hosts", "/etc/resolv.conf"];

/// A rule of `egress`: hosts, a port, and the protocol there.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(into = "String", try_from = "String")]
pub struct Egress {
    hosts: Hosts,
    port: u16,
    /// The protocol there.
    pub speaks: Speaks,
}

/// The protocol of a connection, by which the relay compares it with the rule.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Speaks {
    /// Anything: nothing is compared.
    Any,
    /// HTTP/1.1 in the clear: each request's host is the rule's.
    Http,
    /// HTTP/1.1 in the clear from the hook, and TLS to the host: each request's host is the rule's.
    Https,
    /// TLS: its server name is the rule's.
    Tls,
}

impl Speaks {
    /// Returns the word of a rule.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Http => "http",
            Self::Https => "https",
            Self::Tls => "tls",
        }
    }
}

/// The hosts of a rule.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Hosts {
    /// Addresses that begin with the bits of one.
    Addresses { first: IpAddr, bits: u8 },
    /// All names below one.
    Below(HostName),
    /// One name.
    Name(HostName),
}

/// A host's name: lower case, without a dot at its end.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct HostName(String);

impl HostName {
    /// Returns a name as it is compared; `None` where it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_label = |label: &str| {
            (1..=LONGEST_LABEL).contains(&label.len())
                && label.bytes().all(is_letter)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let is_name = text.len() <= LONGEST_NAME && text.split('.').all(is_label);
        // `inet_aton` takes a name that ends with a number for an address.
        let last = text.rsplit('.').next().unwrap_or_default();
        let ends_with_number =
            last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
        (is_name && !ends_with_number).then(|| Self(text.to_ascii_lowercase()))
    }

    pub(crate) fn is_localhost(&self) -> bool {
        self.0 == "localhost"
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A host, as a program names it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Host {
    /// By an address.
    Address(IpAddr),
    /// By a name.
    Name(HostName),
}

impl Host {
    /// Returns whether another host is the same: names are compared, and `localhost` stands for the addresses of loopback
    /// (RFC 6761), which some programs take for that name without asking.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self == other || self.is_localhost() && other.is_localhost()
    }

    /// Returns whether the host is public: a name, or an address of neither this machine nor a private network.
    #[must_use]
    pub fn is_public(&self) -> bool {
        match self {
            Self::Address(address) => is_public(*address),
            Self::Name(_) => true,
        }
    }

    fn is_localhost(&self) -> bool {
        match self {
            Self::Address(address) => is_localhost(*address),
            Self::Name(name) => name.is_localhost(),
        }
    }
}

fn is_localhost(address: IpAddr) -> bool {
    [
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(Ipv6Addr::LOCALHOST),
    ]
    .contains(&address.to_canonical())
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Name(name) => write!(f, "{name}"),
        }
    }
}

/// A host and a port: `HOST:PORT`, `[IPV6]:PORT`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Destination {
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
}

impl Destination {
    /// Returns the rule that programs usually need there: TLS or HTTP by the port, and anything elsewhere.
    #[must_use]
    pub fn usual_rule(&self) -> Egress {
        self.rule(match (&self.host, self.port) {
            (Host::Name(_), 443 | 8443) => Speaks::Tls,
            (Host::Name(_), 80 | 8080) => Speaks::Http,
            (Host::Address(_) | Host::Name(_), _) => Speaks::Any,
        })
    }

    /// Returns the rule of this host alone.
    #[must_use]
    pub fn rule(&self, speaks: Speaks) -> Egress {
        let hosts = match &self.host {
            Host::Address(first) => {
                let (first, bits) = (*first, address_bits(*first));
                Hosts::Addresses { first, bits }
            }
            Host::Name(name) => Hosts::Name(name.clone()),
        };
        Egress {
            hosts,
            port: self.port,
            speaks,
        }
    }
}

impl FromStr for Destination {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const NONE: &str = "is not HOST:PORT or [IPV6]:PORT";
        let (host, port) = text.rsplit_once(':').ok_or(NONE)?;
        let bracketed = host.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        let address = match bracketed {
            Some(address) => address.parse().ok().map(IpAddr::V6),
            None => host.parse().ok().map(IpAddr::V4),
        };
        let name = || HostName::parse(host).map(Host::Name).ok_or(NONE);
        let host = address.map_or_else(name, |it| Ok(Host::Address(it.to_canonical())))?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or(NONE)?;
        Ok(Self { host, port })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Address(address) => write!(f, "{}", SocketAddr::new(*address, self.port)),
        }
    }
}

/// Why a rule cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum EgressProblem {
    /// An address has no server name.
    #[error("names an address, which TLS has no server name for; add ` any` or ` http`")]
    AddressOfTls,
    /// The host is no name and no address.
    #[error("names no host; write a name, `*.` and a name, an address, or `ADDRESS/BITS`")]
    Host,
    /// A name is not ASCII.
    #[error("has a name that is not ASCII; write it as DNS has it (`xn--…`)")]
    NotAscii,
    /// There is no port, or no such.
    #[error("has no port from 1 to 65535; write it behind a colon, as in `example.org:443`")]
    Port,
    /// The protocol is not known.
    #[error("speaks `{0}`; write `tls`, `http`, `https` or `any`")]
    Speaks(String),
    /// A wildcard covers names of many owners.
    #[error("covers all names below `{0}`; name at least two labels behind `*.`")]
    Wide(String),
}

impl FromStr for Egress {
    type Err = EgressProblem;

    fn from_str(text: &str) -> Result<Self, EgressProblem> {
        let (place, speaks) = match text.split_once(' ') {
            None => (text, Speaks::Tls),
            Some((place, "any")) => (place, Speaks::Any),
            Some((place, "http")) => (place, Speaks::Http),
            Some((place, "https")) => (place, Speaks::Https),
            Some((place, "tls")) => (place, Speaks::Tls),
            Some((_, other)) => return Err(EgressProblem::Speaks(other.to_owned())),
        };
        let (host, port) = place.rsplit_once(':').ok_or(EgressProblem::Port)?;
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| *port > 0 && is_number);
        let hosts = Hosts::parse(host)?;
        let has_tls = matches!(speaks, Speaks::Https | Speaks::Tls);
        if has_tls && matches!(hosts, Hosts::Addresses { .. }) {
            return Err(EgressProblem::AddressOfTls);
        }
        let port = port.ok_or(EgressProblem::Port)?;
        Ok(Self {
            hosts,
            port,
            speaks,
        })
    }
}

impl Hosts {
    fn parse(text: &str) -> Result<Self, EgressProblem> {
        if !text.is_ascii() {
            return Err(EgressProblem::NotAscii);
        }
        if let Some(parent) = text.strip_prefix("*.") {
            let parent = HostName::parse(parent).ok_or(EgressProblem::Host)?;
            return match parent.as_str().contains('.') {
                true => Ok(Self::Below(parent)),
                false => Err(EgressProblem::Wide(parent.0)),
            };
        }
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address = match address.strip_prefix('[') {
            Some(rest) => {
                let rest = rest.strip_suffix(']').ok_or(EgressProblem::Host)?;
                rest.parse().ok().map(IpAddr::V6)
            }
            None => address.parse().ok().map(IpAddr::V4),
        };
        let Some(first) = address.map(|it: IpAddr| it.to_canonical()) else {
            let name = HostName::parse(text).filter(|_| bits.is_none());
            return name.map(Self::Name).ok_or(EgressProblem::Host);
        };
        let most = address_bits(first);
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok());
        let bits = bits.filter(|bits| (1..=most).contains(bits));
        bits.map(|bits| Self::Addresses { first, bits })
            .ok_or(EgressProblem::Host)
    }
}

/// Returns the number of bits of an address.
const fn address_bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl fmt::Display for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            hosts,
            port,
            speaks,
        } = self;
        match hosts {
            Hosts::Addresses { first, bits } => {
                let bits = (*bits < address_bits(*first)).then(|| format!("/{bits}"));
                let bits = bits.unwrap_or_default();
                match first {
                    IpAddr::V4(first) => write!(f, "{first}{bits}")?,
                    IpAddr::V6(first) => write!(f, "[{first}]{bits}")?,
                }
            }
            Hosts::Below(parent) => write!(f, "*.{parent}")?,
            Hosts::Name(name) => write!(f, "{name}")?,
        }
        write!(f, ":{port}")?;
        match speaks {
            Speaks::Tls => Ok(()),
            Speaks::Any | Speaks::Http | Speaks::Https => write!(f, " {}", speaks.name()),
        }
    }
}

impl From<Egress> for String {
    fn from(rule: Egress) -> Self {
        rule.to_string()
    }
}

impl TryFrom<String> for Egress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
            .map_err(|problem| format!("`{text}` {problem}"))
    }
}

impl JsonSchema for Egress {
    fn schema_name() -> Cow<'static, str> {
        "Egress".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Hosts, a port and what is spoken there: `example.org:443`, `*.example.org:443`, `git.example.org:22 any`, \
                `10.1.0.0/16:5432 any`.",
            "pattern": r"^((\*\.)?[A-Za-z0-9_.-]+(/[0-9]+)?|\[[0-9A-Fa-f:.]+\](/[0-9]+)?):[0-9]{1,5}( (any|https?|tls))?$",
            "type": "string",
        })
    }
}

impl Egress {
    /// Returns the rule of a URL: its host and port, and the protocol of its scheme.
    ///
    /// # Errors
    ///
    /// Fails where its host is no name of DNS and no address.
    pub fn of_url(url: &Url) -> Result<Self, EgressProblem> {
        let host = url.host();
        let hosts = Hosts::parse(host)?;
        let speaks = match (url.is_secure(), &hosts) {
            // TLS has no server name for an address.
            (true, Hosts::Addresses { .. }) => Speaks::Any,
            (true, Hosts::Below(_) | Hosts::Name(_)) => Speaks::Tls,
            (false, _) => Speaks::Http,
        };
        Ok(Self {
            hosts,
            port: url.port(),
            speaks,
        })
    }

    /// Returns the one name of the rule, if it names one.
    #[must_use]
    pub const fn exact_name(&self) -> Option<&HostName> {
        match &self.hosts {
            Hosts::Name(name) => Some(name),
            Hosts::Addresses { .. } | Hosts::Below(_) => None,
        }
    }

    /// Returns the rule of requests that the daemon makes by TLS.
    pub(crate) const fn of_requests(name: HostName, port: u16) -> Self {
        Self {
            hosts: Hosts::Name(name),
            port,
            speaks: Speaks::Https,
        }
    }

    /// Returns the port of the host.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether a hook connects at a port for this rule: at its own, and where the daemon speaks TLS at 443, at 80 too.
    fn is_at(&self, port: u16) -> bool {
        let is_usual = (self.port, port) == (PORT_OF_HTTPS, PORT_OF_HTTP);
        self.port == port || self.speaks == Speaks::Https && is_usual
    }

    /// Returns whether a name at a port is among the rule's.
    #[must_use]
    pub fn covers_name(&self, name: &HostName, port: u16) -> bool {
        let is_named = match &self.hosts {
            Hosts::Addresses { .. } => false,
            Hosts::Below(parent) => {
                let below = name.0.strip_suffix(&parent.0);
                below.is_some_and(|below| below.len() > 1 && below.ends_with('.'))
            }
            Hosts::Name(named) => named == name,
        };
        is_named && self.is_at(port)
    }

    /// Returns whether an address at a port is among the rule's. The name `localhost` has two.
    #[must_use]
    pub fn covers_address(&self, address: IpAddr, port: u16) -> bool {
        let bits_of = |address| match address {
            IpAddr::V4(it) => (u128::from(u32::from(it)) << 96, 32),
            IpAddr::V6(it) => (u128::from(it), 128),
        };
        let (first, bits) = match &self.hosts {
            Hosts::Addresses { first, bits } => (first, bits),
            Hosts::Below(_) => return false,
            Hosts::Name(name) => {
                return name.is_localhost() && is_localhost(address) && self.is_at(port);
            }
        };
        let (first, kind) = bits_of(*first);
        let (other, other_kind) = bits_of(address.to_canonical());
        let rest = 128 - u32::from(*bits);
        self.port == port && kind == other_kind && first >> rest == other >> rest
    }

    /// Returns whether its name is one that no host can have (`.invalid`, RFC 6761).
    #[must_use]
    pub fn is_of_no_host(&self) -> bool {
        let name = self.exact_name().map(HostName::as_str);
        name.is_some_and(|name| name.ends_with(".invalid"))
    }

    /// Returns whether another rule allows all that this one does.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        let speaks = match other.speaks {
            Speaks::Any => true,
            Speaks::Tls => matches!(self.speaks, Speaks::Https | Speaks::Tls),
            Speaks::Http | Speaks::Https => self.speaks == other.speaks,
        };
        let hosts = match &self.hosts {
            Hosts::Addresses { first, bits } => match &other.hosts {
                Hosts::Addresses { bits: wider, .. } => {
                    wider <= bits && other.covers_address(*first, self.port)
                }
                Hosts::Below(_) | Hosts::Name(_) => false,
            },
            Hosts::Below(parent) => match &other.hosts {
                Hosts::Below(wider) => parent == wider || other.covers_name(parent, self.port),
                Hosts::Addresses { .. } | Hosts::Name(_) => false,
            },
            Hosts::Name(name) => other.covers_name(name, self.port),
        };
        speaks && hosts && self.port == other.port
    }
}

/// Returns the rule that counts of several: the one whose requests may be limited, then the one that speaks anything.
fn first<'a>(rules: impl Iterator<Item = &'a Egress>) -> Option<&'a Egress> {
    rules.min_by_key(|it| (it.speaks != Speaks::Https, it.speaks))
}

/// Returns the rule for a name at a port, the one that speaks anything first.
#[must_use]
pub fn rule_of_name<'a>(rules: &'a [Egress], name: &HostName, port: u16) -> Option<&'a Egress> {
    first(rules.iter().filter(|it| it.covers_name(name, port)))
}

/// Returns the rule for an address at a port, the one that speaks anything first.
#[must_use]
pub fn rule_of_address(rules: &[Egress], address: IpAddr, port: u16) -> Option<&Egress> {
    first(rules.iter().filter(|it| it.covers_address(address, port)))
}

/// Returns whether a connection for a name may go to an address that the name resolves to. Allowed are public addresses,
/// addresses that a rule names, and addresses of private networks where the rules allow these.
#[must_use]
pub fn may_resolve_to(rules: &EgressRules, address: IpAddr, port: u16) -> bool {
    let is_named = || rule_of_address(&rules.allowed, address, port).is_some();
    let is_beside = match rules.source {
        HostSource::Hook => true,
        HostSource::HttpAllow => is_private(address),
        HostSource::Profile => false,
    };
    is_public(address) || is_beside || is_named()
}

/// Returns whether an address is one of a private network (RFC 1918, RFC 4193).
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

/// Returns whether an address is of the public internet: not private, loopback, link-local, metadata or reserved, nor
/// translated to such an address (IANA's registries of special purposes).
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Ranges of IPv4 that are not public.
const CLOSED_V4: [(Ipv4Addr, u32); 16] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Of carriers, and of some clouds' metadata.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(168, 63, 129, 16), 32),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = u32::from(address);
    let mut closed = CLOSED_V4.iter();
    !closed.any(|(first, length)| bits >> (32 - length) == u32::from(*first) >> (32 - length))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let embedded = |high: u16, low: u16| {
        let bits = u32::from(high) << 16 | u32::from(low);
        is_public_v4(Ipv4Addr::from(bits))
    };
    match (a, b) {
        // NAT64: an IPv4 address is at its end.
        (0x64, 0xff9b) if [c, d, e, f] == [0; 4] => embedded(g, h),
        // 6to4: one is at its beginning.
        (0x2002, _) => embedded(b, c),
        // Teredo, ORCHID, benchmarks; documentation.
        (0x2001, 0..=0x01ff | 0xdb8) | (0x3fff, 0..=0x0fff) => false,
        (0x2000..=0x3fff, _) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Egress {
        text.parse().unwrap()
    }

    fn name(text: &str) -> HostName {
        HostName::parse(text).unwrap()
    }

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in [
            "hooks.slack.com:443",
            "*.registry.example:443",
            "git.example.org:22 any",
            "127.0.0.1:4318 http",
            "api.example.org:443 https",
            "10.1.0.0/16:5432 any",
            "[2001:db8::1]:80 http",
            "[fd00::]/8:22 any",
        ] {
            assert_eq!(rule(text).to_string(), text);
        }
        assert_eq!(
            rule("HOOKS.Slack.com.:443 tls").to_string(),
            "hooks.slack.com:443"
        );
        assert_eq!(
            rule("[::ffff:10.0.0.1]:1 any").to_string(),
            "10.0.0.1:1 any"
        );
    }

    #[test]
    fn a_rule_that_cannot_be_read_has_its_reason() {
        use EgressProblem::{AddressOfTls, Host, NotAscii, Port};
        for (text, problem) in [
            ("example.org", Port),
            ("example.org:", Port),
            ("example.org:0", Port),
            ("example.org:+1", Port),
            ("example.org:65536", Port),
            (":443", Host),
            ("*:443", Host),
            ("a..b:443", Host),
            ("-a.org:443", Host),
            ("exam ple:443", EgressProblem::Speaks("ple:443".to_owned())),
            ("https://example.org:443", Host),
            ("1.2.3:443", Host),
            ("0x7f000001:443 any", Host),
            ("10.0.0.0/33:1 any", Host),
            ("10.0.0.0/0:1 any", Host),
            ("example.org/8:1 any", Host),
            ("::1:80 any", Host),
            ("münchen.de:443", NotAscii),
            ("10.0.0.1:443", AddressOfTls),
            ("10.0.0.1:443 https", AddressOfTls),
            ("*.com:443", EgressProblem::Wide("com".to_owned())),
            (
                "example.org:443 quic",
                EgressProblem::Speaks("quic".to_owned()),
            ),
        ] {
            assert_eq!(text.parse::<Egress>(), Err(problem), "{text}");
        }
        let long = format!("{}.org:443", "a".repeat(64));
        assert_eq!(long.parse::<Egress>(), Err(Host));
    }

    #[test]
    fn names_are_compared_without_case_and_a_wildcard_covers_what_is_below_alone() {
        let rules = [rule("Api.example.org:443"), rule("*.cdn.example.org:443")];
        let covers = |host: &str, port| rule_of_name(&rules, &name(host), port).is_some();
        for host in [
            "api.example.org",
            "API.EXAMPLE.ORG.",
            "a.cdn.example.org",
            "a.b.cdn.example.org",
        ] {
            assert!(covers(host, 443), "{host}");
            assert!(!covers(host, 444), "{host}");
        }
        for host in [
            "example.org",
            "cdn.example.org",
            "xcdn.example.org",
            "api.example.org.evil.net",
            "x.api.example.org",
        ] {
            assert!(!covers(host, 443), "{host}");
        }
        assert!(HostName::parse(".cdn.example.org").is_none());
    }

    #[test]
    fn the_rule_that_speaks_anything_comes_first() {
        let rules = [
            rule("a.org:80"),
            rule("a.org:80 http"),
            rule("a.org:80 any"),
        ];
        assert_eq!(rule_of_name(&rules, &name("a.org"), 80), Some(&rules[2]));
        assert_eq!(
            rule_of_name(&rules[..2], &name("a.org"), 80),
            Some(&rules[1])
        );
        // Where the daemon speaks TLS its rule counts, at 80 too; its requests may be limited.
        let rules = [
            rule("a.org:80 http"),
            rule("a.org:443 any"),
            rule("a.org:443 https"),
            rule("a.org:8443 https"),
        ];
        for (port, expected) in [
            (80, Some(&rules[2])),
            (443, Some(&rules[2])),
            (8443, Some(&rules[3])),
            (8080, None),
        ] {
            assert_eq!(rule_of_name(&rules, &name("a.org"), port), expected);
        }
    }

    #[test]
    fn addresses_are_compared_by_their_bits_and_family() {
        let rules = [
            rule("10.1.0.0/16:5432 any"),
            rule("[fd00::]/8:22 any"),
            rule("127.0.0.1:4318 http"),
        ];
        let covers =
            |address: &str, port| rule_of_address(&rules, address.parse().unwrap(), port).is_some();
        for (address, port) in [
            ("10.1.255.1", 5432),
            ("::ffff:10.1.0.9", 5432),
            ("fdff::1", 22),
            ("127.0.0.1", 4318),
        ] {
            assert!(covers(address, port), "{address}");
            assert!(!covers(address, port + 1), "{address}");
        }
        for (address, port) in [
            ("10.2.0.1", 5432),
            ("fe80::1", 22),
            ("127.0.0.2", 4318),
            ("a01::", 5432),
            ("::1", 4318),
        ] {
            assert!(!covers(address, port), "{address}");
        }
    }

    #[test]
    fn no_address_that_a_machine_or_its_network_keeps_to_itself_is_public() {
        for address in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.192",
            "192.0.2.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::",
            "2002:0a00:0001::1",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::",
            "2001:4860:4860::8888",
            "2606:4700::1111",
            "2a00::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_name_may_resolve_to_a_private_address_where_a_rule_names_it() {
        let rules = [
            rule("db.example.org:5432 any"),
            rule("10.1.0.0/16:5432 any"),
        ];
        let mut rules = EgressRules {
            allowed: rules.to_vec(),
            ..EgressRules::default()
        };
        let may = |rules: &EgressRules, address: &str, port| {
            may_resolve_to(rules, address.parse().unwrap(), port)
        };
        assert!(may(&rules, "10.1.2.3", 5432) && may(&rules, "8.8.8.8", 5432));
        assert!(!may(&rules, "10.2.2.3", 5432) && !may(&rules, "10.1.2.3", 22));
        rules.source = HostSource::HttpAllow;
        for (address, expected) in [
            ("10.2.2.3", true),
            ("172.31.0.1", true),
            ("192.168.1.1", true),
            ("::ffff:192.168.1.1", true),
            ("fd00::1", true),
            ("8.8.8.8", true),
            ("127.0.0.1", false),
            ("::1", false),
            ("169.254.169.254", false),
            ("fe80::1", false),
            ("100.100.100.200", false),
            ("168.63.129.16", false),
            ("0.0.0.0", false),
        ] {
            assert_eq!(may(&rules, address, 22), expected, "{address}");
        }
    }

    #[test]
    fn a_url_has_a_rule_for_its_host_port_and_protocol() {
        for (url, expected) in [
            ("https://hooks.example.com/agent/", "hooks.example.com:443"),
            ("https://hooks.example.com:8443/", "hooks.example.com:8443"),
            ("http://collector/x", "collector:80 http"),
            ("http://127.0.0.1:8080/check", "127.0.0.1:8080 http"),
            ("http://[::1]:8080/", "[::1]:8080 http"),
            ("https://10.0.0.1/", "10.0.0.1:443 any"),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(Egress::of_url(&url).unwrap().to_string(), expected);
        }
        for url in ["https://a..b/", "http://1.2.3/", "http://-a/"] {
            assert!(Egress::of_url(&Url::parse(url).unwrap()).is_err(), "{url}");
        }
    }

    #[test]
    fn localhost_is_loopback_by_name_and_by_address() {
        let by_name = rule("localhost:80 http");
        for (address, covered) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("127.0.0.2", false),
            ("10.0.0.1", false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(by_name.covers_address(address, 80), covered, "{address}");
            assert!(!by_name.covers_address(address, 81));
            let rules = EgressRules {
                allowed: vec![by_name.clone()],
                ..EgressRules::default()
            };
            assert_eq!(may_resolve_to(&rules, address, 80), covered);
            let name = Host::Name(HostName::parse("localhost").unwrap());
            assert_eq!(name.is_same(&Host::Address(address)), covered, "{address}");
            let other = Host::Name(HostName::parse("a.localhost").unwrap());
            assert!(!other.is_same(&Host::Address(address)));
        }
    }

    #[test]
    fn a_rule_is_within_one_that_allows_as_much() {
        for (inner, outer) in [
            ("a.b.org:443", "a.b.org:443"),
            ("a.b.org:443", "*.b.org:443"),
            ("*.a.b.org:443", "*.b.org:443"),
            ("a.b.org:443", "a.b.org:443 any"),
            ("a.b.org:443 https", "*.b.org:443"),
            ("a.b.org:443 https", "a.b.org:443 https"),
            ("10.1.2.0/24:1 any", "10.1.0.0/16:1 any"),
        ] {
            assert!(rule(inner).is_within(&rule(outer)), "{inner} {outer}");
        }
        for (inner, outer) in [
            ("a.b.org:443", "a.b.org:80"),
            ("a.b.org:443 any", "a.b.org:443"),
            ("a.b.org:443", "a.b.org:443 https"),
            ("a.b.org:80 http", "a.b.org:443 https"),
            ("a.b.org:80 https", "a.b.org:443 https"),
            ("*.b.org:443", "a.b.org:443"),
            ("b.org:443", "*.b.org:443"),
            ("*.b.org:443", "*.a.b.org:443"),
            ("10.1.0.0/16:1 any", "10.1.2.0/24:1 any"),
            ("a.b.org:1 any", "10.1.2.0/24:1 any"),
        ] {
            assert!(!rule(inner).is_within(&rule(outer)), "{inner} {outer}");
        }
    }

    #[test]
    fn a_destination_is_a_host_and_a_port() {
        for good in ["example.org:443", "192.0.2.1:53", "[2001:db8::1]:80"] {
            let read = good.parse::<Destination>().map(|it| it.to_string());
            assert_eq!(read.as_deref(), Ok(good));
        }
        for bad in [
            "example.org",
            ":80",
            "example.org:0",
            "example.org:65536",
            "2001:db8::1:80",
        ] {
            assert!(bad.parse::<Destination>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_usual_rule_of_a_destination_goes_by_its_port() {
        for (destination, expected) in [
            ("a.org:443", "a.org:443"),
            ("a.org:80", "a.org:80 http"),
            ("a.org:22", "a.org:22 any"),
            ("127.0.0.1:443", "127.0.0.1:443 any"),
            ("[2001:db8::1]:80", "[2001:db8::1]:80 any"),
        ] {
            let destination: Destination = destination.parse().unwrap();
            assert_eq!(destination.usual_rule(), rule(expected));
        }
    }
}
