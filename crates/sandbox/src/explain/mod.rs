//! Explains the kernel's decisions about a hook, by evaluating the rule table and the grants.
//!
//! The answers come from [`rule`], from which the filters are built, and from [`Reach`], which reads the table that
//! rulesets are built from. There is no second copy of either.

mod names;

use std::fmt;

use hookjail_policy::{
    EgressRules, HostSource, Network,
    egress::{Destination, Host, Speaks, rule_of_address, rule_of_name},
    explain::{FileKind, GrantDecision, How, Operation, Reach, Remedy, Target},
    forbidden::Forbidden,
    rights::FileRights,
};

use self::names::{constants, parameters};
use crate::{
    landlock,
    seccomp::{
        FilterSpec,
        arguments::{ArgTest, Wanted, Width},
        rules::{ACCESS_MODE, Rule, is_about_paths, rule},
        syscalls::{self, nr},
    },
};

/// Returns the rights that a Landlock ABI handles. Landlock does not refuse other rights.
pub fn handled(landlock_abi: u32) -> FileRights {
    landlock::handled(landlock_abi)
}

/// The kernel's decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Not refused by confinement.
    Allowed,
    /// Allowed with some values of the arguments left open.
    Depends,
    /// Kills the hook with SIGSYS.
    Killed,
    /// Fails with this errno.
    Refused(i32),
}

/// The deciding mechanism.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Enforcer {
    /// Landlock's rules on files.
    Landlock,
    /// The filters on syscalls.
    Seccomp,
    /// The hook's mounts.
    Mounts,
    /// The relay to named hosts.
    Relay,
}

impl fmt::Display for Enforcer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Mounts => "mounts",
            Self::Relay => "relay",
        })
    }
}

/// A decision, with its reason.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Explanation {
    /// The mechanism.
    pub by: Enforcer,
    /// Caveats and conditions of the decision.
    pub notes: Vec<String>,
    /// The smallest change of a profile that would allow it; none if it is allowed.
    pub remedy: Option<Remedy>,
    /// The reason, as text.
    pub rule: String,
    /// The decision.
    pub verdict: Verdict,
}

impl Explanation {
    fn new(enforcer: Enforcer, verdict: Verdict, rule: impl Into<String>) -> Self {
        Self {
            by: enforcer,
            notes: Vec::new(),
            remedy: None,
            rule: rule.into(),
            verdict,
        }
    }

    fn with_remedy(self, remedy: Remedy) -> Self {
        Self {
            remedy: Some(remedy),
            ..self
        }
    }

    fn noting(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

/// Explains an operation on a path. Its syscalls are open to every hook, so that the grants decide, and the mounts.
pub fn path(
    reach: &Reach,
    forbidden: &Forbidden,
    operation: Operation,
    target: &Target,
    destination: Option<&Target>,
) -> Explanation {
    let answer = match reach.decide(operation, target, destination, forbidden) {
        GrantDecision::Allowed { by: grants } => {
            let grants: Vec<_> = grants.iter().map(ToString::to_string).collect();
            Explanation::new(Enforcer::Landlock, Verdict::Allowed, grants.join("; "))
        }
        GrantDecision::Refused(refused) => {
            let (enforcer, errno) = match refused.how {
                How::Hidden => (Enforcer::Mounts, libc::EACCES),
                How::MountPoint => (Enforcer::Mounts, libc::EBUSY),
                How::NotBetween(_) => (Enforcer::Landlock, libc::EXDEV),
                How::NotGranted(_) => (Enforcer::Landlock, libc::EACCES),
                How::OtherMount => (Enforcer::Mounts, libc::EXDEV),
                How::ReadOnly => (Enforcer::Mounts, libc::EROFS),
            };
            let rule = refused.to_string();
            Explanation::new(enforcer, Verdict::Refused(errno), rule).with_remedy(refused.remedy)
        }
    };
    let shown = target.path().display();
    match (target.kind(), operation) {
        (FileKind::Unknown, _) => answer.noting(format!(
            "`{shown}` cannot be examined from here, so its path alone decides, and a link leads elsewhere"
        )),
        (FileKind::Missing, Operation::Create) => answer,
        (FileKind::Missing, Operation::Write) => {
            answer.noting(format!("`{shown}` does not exist, so it is asked whether it can be made"))
        }
        (FileKind::Missing, _) => {
            let grant = if answer.remedy.is_some() {
                ". A grant on a missing path refuses every run, unless it has `create`"
            } else {
                ""
            };
            answer.noting(format!(
                "`{shown}` does not exist: until it does, the kernel reports that under every policy{grant}"
            ))
        }
        (_, Operation::Create) => {
            answer.noting(format!("`{shown}` exists already, so it cannot be made"))
        }
        _ => answer,
    }
}

/// Transport protocol to another host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Explains a connection attempt to another host.
pub fn host(
    spec: &FilterSpec,
    egress: &EgressRules,
    transport: Transport,
    destination: &Destination,
) -> Explanation {
    match spec.network {
        Network::Named => named_host(egress, transport, destination),
        Network::None | Network::Outbound => any_host(spec, transport),
    }
}

/// Explains a connection attempt where hosts are named, by the rules that the relay has.
fn named_host(
    egress: &EgressRules,
    transport: Transport,
    destination: &Destination,
) -> Explanation {
    if transport == Transport::Udp {
        let verdict = Verdict::Refused(libc::EPERM);
        let rule = "the profile has `network = \"named\"`: no socket but those of TCP";
        return Explanation::new(Enforcer::Seccomp, verdict, rule)
            .with_remedy(Remedy::Setting("network", "outbound"));
    }
    let port = destination.port;
    let found = match &destination.host {
        Host::Name(name) => rule_of_name(&egress.allowed, name, port),
        Host::Address(address) => rule_of_address(&egress.allowed, *address, port),
    };
    let Some(found) = found else {
        let verdict = Verdict::Refused(libc::EACCES);
        let rule = format!("`{destination}` is not in `egress`");
        let answer = Explanation::new(Enforcer::Relay, verdict, rule);
        return match egress.source {
            HostSource::HttpAllow => {
                answer.noting("the hosts are those of the configuration's `http.allow`")
            }
            HostSource::Hook | HostSource::Profile => {
                answer.with_remedy(Remedy::Egress(destination.usual_rule()))
            }
        };
    };
    let rule = format!("`egress` has `{found}`");
    let answer = Explanation::new(Enforcer::Relay, Verdict::Allowed, rule);
    let answer = match found.speaks {
        Speaks::Any => answer,
        Speaks::Http => answer.noting("HTTP/1.1 alone, and each request for this host"),
        Speaks::Https => {
            let of_host = egress.requests.iter().filter(|it| it.egress() == *found);
            of_host.fold(
                answer.noting(
                    "HTTP/1.1 alone, as `http://` and the name, and the daemon speaks TLS with the host",
                ),
                |answer, request| answer.noting(format!("requests: {request}")),
            )
        }
        Speaks::Tls => answer.noting("TLS alone, and with the server name of this host"),
    };
    match (egress.ways.proxy_to(destination), &destination.host) {
        (Some(proxy), _) => {
            let address = &proxy.address;
            answer.noting(format!("by the proxy {address}, which looks the name up"))
        }
        (None, Host::Name(_)) => answer.noting(match egress.source {
            HostSource::HttpAllow => {
                "the name has to lead to a public address, or to one of a private network"
            }
            HostSource::Hook | HostSource::Profile => {
                "the name has to lead to a public address, or to one in `egress`"
            }
        }),
        (None, Host::Address(_)) => answer,
    }
}

fn any_host(spec: &FilterSpec, transport: Transport) -> Explanation {
    let (kind, words) = match transport {
        Transport::Tcp => (libc::SOCK_STREAM, "TCP"),
        Transport::Udp => (libc::SOCK_DGRAM, "UDP"),
    };
    let number = |value: libc::c_int| Some(u64::from(value.cast_unsigned()));
    let verdicts = [libc::AF_INET, libc::AF_INET6].map(|family| {
        let socket = [number(family), number(kind), Some(0), None, None, None];
        called(spec, nr::socket, &socket).verdict
    });
    let connect = called(spec, nr::connect, &Arguments::default()).verdict;
    let refused = verdicts
        .into_iter()
        .chain([connect])
        .find(|verdict| *verdict != Verdict::Allowed);
    match refused {
        Some(verdict) => Explanation::new(
            Enforcer::Seccomp,
            verdict,
            "the profile has `network = \"none\"`: no socket of any family",
        )
        .with_remedy(Remedy::Setting("network", "outbound")),
        None => {
            let rule = format!(
                "the profile has `network = \"outbound\"`: {words} to any host and port, over IPv4 and IPv6"
            );
            Explanation::new(Enforcer::Seccomp, Verdict::Allowed, rule)
                .noting("listening and binding are refused, and hosts and ports are not distinguished")
                .noting("names must be looked up first: a lookup takes files of `/etc` and a name server")
        }
    }
}

/// Known arguments of a call; `None` = left open.
pub type Arguments = [Option<u64>; 6];

/// Decision on a call whose arguments may not all be known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CallDecision {
    /// The decision.
    pub verdict: Verdict,
    /// For [`Verdict::Depends`]: the remaining tests of each remaining way.
    pub ways: Vec<Vec<ArgTest>>,
}

/// Returns the filters' decision on a call.
pub fn called(spec: &FilterSpec, number: u32, arguments: &Arguments) -> CallDecision {
    let plain = |verdict| CallDecision {
        verdict,
        ways: Vec::new(),
    };
    let (ways, otherwise) = match rule(spec, number) {
        Rule::Allow => return plain(Verdict::Allowed),
        Rule::Errno(errno) => return plain(Verdict::Refused(errno)),
        Rule::Kill => return plain(Verdict::Killed),
        Rule::AllowWhen { ways, otherwise } => (ways, otherwise),
    };
    let decided = |test: &ArgTest| {
        let argument = arguments.get(usize::from(test.index)).copied().flatten();
        argument.and_then(|argument| test.passes(argument))
    };
    let left: Vec<Vec<ArgTest>> = ways
        .into_iter()
        .filter(|way| !way.iter().any(|test| decided(test) == Some(false)))
        .map(|way| {
            way.into_iter()
                .filter(|test| decided(test).is_none())
                .collect()
        })
        .collect();
    if left.iter().any(Vec::is_empty) {
        plain(Verdict::Allowed)
    } else if left.is_empty() {
        plain(Verdict::Refused(otherwise))
    } else {
        CallDecision {
            verdict: Verdict::Depends,
            ways: left,
        }
    }
}

/// Explains a syscall.
pub fn call(spec: &FilterSpec, number: u32, arguments: &Arguments) -> Explanation {
    if spec.network == Network::Named && number == nr::connect {
        let rule = "the daemon connects sockets of TCP to the hosts of `egress`, and no others";
        return Explanation::new(Enforcer::Relay, Verdict::Depends, rule)
            .noting("ask for the host");
    }
    let CallDecision { verdict, ways } = called(spec, number, arguments);
    let name = syscalls::name(number).map_or_else(|| number.to_string(), str::to_owned);
    let all = match rule(spec, number) {
        Rule::AllowWhen { ways, .. } => ways,
        Rule::Allow | Rule::Errno(_) | Rule::Kill => Vec::new(),
    };
    let rule = match verdict {
        Verdict::Allowed if all.is_empty() => {
            format!("`{name}` is open to every hook of this profile")
        }
        Verdict::Allowed => format!(
            "`{name}` is open with these arguments: {}",
            words(number, &all)
        ),
        Verdict::Depends => format!("`{name}` is open where {}", words(number, &ways)),
        Verdict::Killed => {
            format!("no hook needs `{name}`: a process that calls it is trying to escape")
        }
        Verdict::Refused(libc::ENOSYS) => {
            format!(
                "`{name}` is hidden, as in a kernel without it, so that programs take another way"
            )
        }
        Verdict::Refused(_) if all.is_empty() => {
            format!("`{name}` is not open to hooks of this profile")
        }
        Verdict::Refused(_) => format!("`{name}` is open only where {}", words(number, &all)),
    };
    let mut answer = Explanation::new(Enforcer::Seccomp, verdict, rule);
    if matches!(verdict, Verdict::Refused(_) | Verdict::Killed) {
        answer = answer.with_remedy(remedy(spec, number, arguments));
    }
    if verdict == Verdict::Allowed && is_about_paths(number) {
        answer = answer.noting("the grants decide which files it reaches: ask for the path");
    }
    if verdict == Verdict::Allowed && matches!(number, nr::kill | nr::tgkill) {
        answer = answer.noting(
            "reaches processes of this run only: Landlock refuses signals to others with EPERM",
        );
    }
    if verdict == Verdict::Allowed && number == nr::connect {
        answer = answer.noting("on a socket that the hook could make: ask for the host");
    }
    answer
}

/// Finds the key of a profile that would allow a call.
fn remedy(spec: &FilterSpec, number: u32, arguments: &Arguments) -> Remedy {
    use hookjail_policy::{HookView, Metadata, Network, Spawn};
    let others = [
        (
            FilterSpec {
                spawn: Spawn::Processes,
                ..*spec
            },
            Remedy::Setting("spawn", "processes"),
        ),
        (
            FilterSpec {
                view: HookView::Own,
                ..*spec
            },
            Remedy::Setting("view", "own"),
        ),
        (
            FilterSpec {
                metadata: Metadata::Change,
                ..*spec
            },
            Remedy::Setting("metadata", "change"),
        ),
        (
            FilterSpec {
                network: Network::Outbound,
                ..*spec
            },
            Remedy::Setting("network", "outbound"),
        ),
    ];
    // A key after which the decision depends on unknown arguments is better than none.
    [Verdict::Allowed, Verdict::Depends]
        .into_iter()
        .find_map(|wanted| {
            let mut others = others.iter().cloned();
            others.find(|(other, _)| called(other, number, arguments).verdict == wanted)
        })
        .map_or_else(
            || Remedy::Never("no profile opens it to a hook".to_owned()),
            |(_, remedy)| remedy,
        )
}

fn words(number: u32, ways: &[Vec<ArgTest>]) -> String {
    // Most rules are a list of values for one argument, alone or before ways of more tests.
    let value = |way: &Vec<ArgTest>| match way.as_slice() {
        [
            ArgTest {
                index,
                wanted: Wanted::Exactly(value),
                ..
            },
        ] => Some((*index, *value)),
        _ => None,
    };
    let first = ways.first().and_then(value).map(|(index, _)| index);
    let same = |way: &&Vec<ArgTest>| value(way).map(|(index, _)| index) == first;
    let alone = first.map_or(0, |_| ways.iter().take_while(same).count());
    let (alone, rest) = ways.split_at(if alone > 1 { alone } else { 0 });
    let mut all: Vec<String> = Vec::new();
    if let Some(index) = first.filter(|_| !alone.is_empty()) {
        let values = alone.iter().filter_map(value);
        let values: Vec<_> = values
            .map(|(index, value)| value_words(number, index, value))
            .collect();
        let name = parameter(number, index);
        all.push(format!("`{name}` is one of {}", values.join(", ")));
    }
    all.extend(rest.iter().map(|way| {
        let tests: Vec<_> = way.iter().map(|test| test_words(number, test)).collect();
        tests.join(" and ")
    }));
    all.join("; or ")
}

fn test_words(number: u32, test: &ArgTest) -> String {
    let name = parameter(number, test.index);
    match test.wanted {
        Wanted::Exactly(0) if test.width == Width::Qword => format!("`{name}` is null"),
        Wanted::Exactly(value) => {
            format!("`{name}` is {}", value_words(number, test.index, value))
        }
        // A mask of nearly all bits: shown as a value with a few free flags.
        Wanted::Masked { mask, value } if mask.count_ones() > 16 => {
            let free = flag_words(number, test.index, !mask & test.width.mask());
            let value = value_words(number, test.index, value);
            format!("`{name}` is {value} ({free} or not)")
        }
        // The access mode of `open` is a value in two bits, not two flags.
        Wanted::Masked { mask, value } if mask == ACCESS_MODE as u64 => {
            format!("`{name}` has {}", value_words(number, test.index, value))
        }
        Wanted::Masked { mask, value } => {
            let set = mask & value;
            let clear = mask & !value;
            let mut parts = Vec::new();
            if set != 0 {
                parts.push(format!("has {}", flag_words(number, test.index, set)));
            }
            if clear != 0 {
                parts.push(format!(
                    "has none of {}",
                    flag_words(number, test.index, clear)
                ));
            }
            format!("`{name}` {}", parts.join(" and "))
        }
        Wanted::OwnGroup => format!("`{name}` is the hook's own process group"),
        Wanted::OwnPid => format!("`{name}` is the hook's own process"),
    }
}

fn parameter(number: u32, index: u8) -> String {
    let name = parameters(number).get(usize::from(index));
    name.map_or_else(|| format!("argument {index}"), |name| (*name).to_owned())
}

/// Renders a call's arguments, as far as their values have names.
#[must_use]
pub fn about(number: u32, arguments: &[u64; 6]) -> String {
    let named = (0_u8..).zip(arguments).filter_map(|(index, &argument)| {
        // Arguments with named values are `int`s, of which the kernel reads the lower half.
        let value = argument & Width::Dword.mask();
        let known = constants(number, index);
        let words = match known.iter().find(|(_, constant)| *constant == value) {
            Some((name, _)) => (*name).to_owned(),
            None if known.is_empty() || value == 0 => return None,
            None => flag_words(number, index, value).replace(", ", "|"),
        };
        Some(format!("{}={words}", parameter(number, index)))
    });
    named.collect::<Vec<_>>().join(" ")
}

fn value_words(number: u32, index: u8, value: u64) -> String {
    let known = constants(number, index)
        .iter()
        .find(|(_, constant)| *constant == value);
    known.map_or_else(|| plain(value), |(name, _)| (*name).to_owned())
}

fn flag_words(number: u32, index: u8, bits: u64) -> String {
    let mut rest = bits;
    let mut words: Vec<String> = Vec::new();
    for (name, value) in constants(number, index) {
        if value.count_ones() == 1 && rest & value != 0 {
            words.push((*name).to_owned());
            rest &= !value;
        }
    }
    if rest != 0 {
        words.push(plain(rest));
    }
    words.join(", ")
}

fn plain(value: u64) -> String {
    if value < 1024 {
        value.to_string()
    } else {
        format!("{value:#x}")
    }
}

/// Cause of an unreadable argument.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ArgumentError {
    /// There is no parameter of this name.
    #[error(
        "`{call}` has no parameter `{name}` that a rule looks at; name it by its place, 0 to 5{known}"
    )]
    Name {
        /// The call.
        call: String,
        /// The parameters that have names.
        known: String,
        /// The given name.
        name: String,
    },
    /// The text is not `NAME=VALUE`.
    #[error("`{0}` is not NAME=VALUE")]
    Shape(String),
    /// The parameter has no such value.
    #[error("`{value}` is neither a number nor names of values joined by `|`")]
    Value {
        /// The given value.
        value: String,
    },
}

/// Parses arguments: `flags=CLONE_VM|CLONE_THREAD`, `0=0x10000000`, `pid=-1`.
///
/// # Errors
///
/// Fails where one of them is not an argument of this call.
pub fn parse_arguments(number: u32, texts: &[String]) -> Result<Arguments, ArgumentError> {
    let mut arguments = Arguments::default();
    for text in texts {
        let Some((name, value)) = text.split_once('=') else {
            return Err(ArgumentError::Shape(text.clone()));
        };
        let names = parameters(number);
        let index = names
            .iter()
            .position(|parameter| *parameter == name)
            .or_else(|| name.parse().ok().filter(|index| *index < arguments.len()));
        let Some(slot) = index.and_then(|index| arguments.get_mut(index)) else {
            let known = if names.is_empty() {
                String::new()
            } else {
                format!(", or {}", names.join(", "))
            };
            return Err(ArgumentError::Name {
                call: syscalls::name(number).unwrap_or_default().to_owned(),
                known,
                name: name.to_owned(),
            });
        };
        let place = index
            .and_then(|index| u8::try_from(index).ok())
            .unwrap_or_default();
        let parsed = value
            .split('|')
            .map(|part| parse_value(number, place, part.trim()))
            .try_fold(0, |all, part| part.map(|part| all | part));
        *slot = Some(parsed.ok_or_else(|| ArgumentError::Value {
            value: value.to_owned(),
        })?);
    }
    Ok(arguments)
}

fn parse_value(number: u32, index: u8, text: &str) -> Option<u64> {
    if let Some((_, value)) = constants(number, index)
        .iter()
        .find(|(name, _)| *name == text)
    {
        return Some(*value);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    if text.starts_with('-') {
        return text.parse().ok().map(i64::cast_unsigned);
    }
    text.parse().ok()
}

/// Iterates over the names of all syscalls.
pub fn names() -> impl Iterator<Item = &'static str> {
    syscalls::TABLE.iter().map(|(_, name)| *name)
}

/// Returns the number of a syscall by its name, or parses a number.
pub fn number(text: &str) -> Option<u32> {
    let by_name = syscalls::TABLE.iter().find(|(_, name)| *name == text);
    by_name
        .map(|(number, _)| *number)
        .or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests;
