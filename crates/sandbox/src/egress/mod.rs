//! Connections of hooks under `network = "named"`: a hook's socket is connected by the daemon to a relay of its own, which connects to
//! the host.
//!
//! A hook may connect nowhere: the filters report each `connect`, and Landlock grants none. Names get addresses that are made up
//! for the run, so that the relay has the name for which a program connects, without its help. No call is ever continued
//! after a check: memory, descriptors and addresses may change meanwhile, and count as they were copied.

mod connect;
mod hello;
mod http;
mod names;
mod outward;
mod relay;
pub(crate) mod tables;

use std::{
    collections::{BTreeSet, HashMap},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use hookjail_policy::{
    EgressRules, HostSource,
    egress::{Destination, Egress, Host, HostName, Speaks, rule_of_address, rule_of_name},
};
use hookjail_sys::{Listener, Notification};

use self::outward::Trust;
use crate::{
    mutants,
    run::connection::{Connection, ConnectionEnd, Connections},
};

/// The network of the addresses that are made up: benchmarks' (RFC 2544), which no host of the internet has.
const MADE_UP: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

/// The names of a run at most.
const MOST_NAMES: usize = 4096;

/// The connections of a run that are described; others are counted.
const MOST_DESCRIBED: usize = 2048;

/// The connections of a run that ask for names at one time.
const MOST_ASKING: u32 = 64;

/// The port of name servers.
const NAME_SERVER: u16 = 53;

/// The destination of a connection, and the rule that allows it.
#[derive(Clone, Debug)]
struct Granted {
    destination: Destination,
    rule: Egress,
}

/// The end of a hook's connection.
#[derive(Clone, Debug)]
enum Target {
    Host(Granted),
    Names,
}

/// The egress of one run.
#[derive(Debug)]
pub(crate) struct RunEgress {
    /// Connections that ask for names, at this time.
    asking: AtomicU32,
    connections: AtomicU32,
    names: Mutex<Names>,
    over: CancellationToken,
    record: Mutex<Record>,
    rules: Arc<EgressRules>,
    sent: AtomicU64,
    trust: Arc<Trust>,
}

/// The names of a run, by their addresses.
#[derive(Debug, Default)]
struct Names {
    /// The place of each name.
    addresses: HashMap<HostName, usize>,
    names: Vec<HostName>,
}

impl RunEgress {
    fn new(rules: Arc<EgressRules>, trust: Arc<Trust>) -> Self {
        let names = tables::exact_names(&rules);
        let numbered = names.iter().cloned().zip(0..);
        Self {
            asking: AtomicU32::new(0),
            connections: AtomicU32::new(0),
            names: Mutex::new(Names {
                addresses: numbered.collect(),
                names,
            }),
            over: CancellationToken::new(),
            record: Mutex::default(),
            rules,
            sent: AtomicU64::new(0),
            trust,
        }
    }

    /// Returns the address of a name in this run, made up at its first use; `None` where the run has too many names.
    fn address_of(&self, name: &HostName) -> Option<Ipv4Addr> {
        let mut names = lock(&self.names);
        let known = names.addresses.get(name).copied();
        let index = match known {
            Some(index) => index,
            None if names.names.len() >= MOST_NAMES => return None,
            None => {
                let index = names.names.len();
                names.names.push(name.clone());
                names.addresses.insert(name.clone(), index);
                index
            }
        };
        Some(made_up(index))
    }

    /// Returns the name for which an address was made up.
    fn name_of(&self, address: Ipv4Addr) -> Option<HostName> {
        let index = u32::from(address).checked_sub(u32::from(MADE_UP) + 1)?;
        let names = lock(&self.names);
        names.names.get(usize::try_from(index).ok()?).cloned()
    }

    /// Returns the target of a connection to an address.
    ///
    /// # Errors
    ///
    /// Returns the destination that no rule names.
    fn target(&self, address: IpAddr, port: u16) -> Result<Target, Destination> {
        let address = address.to_canonical();
        let rules = &self.rules.allowed;
        let by_address = rule_of_address(rules, address, port);
        if by_address.is_none() && port == NAME_SERVER {
            return Ok(Target::Names);
        }
        let name = match address {
            IpAddr::V4(address) => self.name_of(address),
            IpAddr::V6(_) => None,
        };
        let (host, rule) = match (by_address, name) {
            // `localhost`, whose addresses are known: the name is what its rule compares.
            (Some(rule), _) => match rule.exact_name() {
                Some(name) => (Host::Name(name.clone()), Some(rule)),
                None => (Host::Address(address), Some(rule)),
            },
            (None, None) => (Host::Address(address), None),
            (None, Some(name)) => {
                let rule = rule_of_name(rules, &name, port);
                (Host::Name(name), rule)
            }
        };
        let destination = Destination { host, port };
        let reaches_any = self.rules.source == HostSource::Hook || mutants::lacks("relay", "rules");
        let any = reaches_any.then(|| destination.rule(Speaks::Any));
        match rule.cloned().or(any) {
            Some(rule) => Ok(Target::Host(Granted { destination, rule })),
            None => Err(destination),
        }
    }

    /// Counts a connection. Returns whether the run may make it.
    fn counts(&self) -> bool {
        let before = self.connections.fetch_add(1, Ordering::Relaxed);
        before < self.rules.connections || mutants::lacks("relay", "connections")
    }

    /// Counts a connection that asks for names. Returns whether the run may have it beside its others.
    fn asks(&self) -> bool {
        let before = self.asking.fetch_add(1, Ordering::Relaxed);
        let may = before < MOST_ASKING;
        if !may {
            self.asking.fetch_sub(1, Ordering::Relaxed);
        }
        may
    }

    /// Counts that a connection has ended.
    fn ended(&self, target: &Target) {
        if matches!(target, Target::Names) {
            self.asking.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts bytes that are to be sent. Returns whether the run may send them.
    fn sends(&self, bytes: u64) -> bool {
        let before = self.sent.fetch_add(bytes, Ordering::Relaxed);
        let limit = self.rules.bytes.unwrap_or(u64::MAX);
        before.saturating_add(bytes) <= limit || mutants::lacks("relay", "bytes")
    }

    /// Records a connection that begins.
    fn begin(&self, destination: Destination) -> Arc<Live> {
        let live = Arc::new(Live {
            began: Instant::now(),
            destination,
            progress: Mutex::default(),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        });
        let mut record = lock(&self.record);
        if record.described.len() < MOST_DESCRIBED {
            record.described.push(Arc::clone(&live));
        } else {
            record.more += 1;
        }
        live
    }

    /// Records a connection that is refused at once.
    fn refuse(&self, destination: Destination, end: ConnectionEnd) {
        self.begin(destination).end(end);
    }
}

/// The connections of a run, some of them in work.
#[derive(Debug, Default)]
struct Record {
    described: Vec<Arc<Live>>,
    more: u64,
}

/// A connection that may be in work.
#[derive(Debug)]
struct Live {
    began: Instant,
    destination: Destination,
    progress: Mutex<Progress>,
    received: AtomicU64,
    sent: AtomicU64,
}

#[derive(Debug, Default)]
struct Progress {
    address: Option<IpAddr>,
    end: Option<(ConnectionEnd, Duration)>,
    /// The names of secrets that the daemon sent.
    secrets: BTreeSet<String>,
}

impl Live {
    fn end(&self, end: ConnectionEnd) {
        lock(&self.progress).end = Some((end, self.began.elapsed()));
    }

    fn reaches(&self, address: IpAddr) {
        lock(&self.progress).address = Some(address);
    }

    fn sends(&self, secret: &str) {
        lock(&self.progress).secrets.insert(secret.to_owned());
    }

    fn seen(&self) -> Connection {
        let progress = lock(&self.progress);
        // One that is in work ends with its run.
        let in_work = || (ConnectionEnd::Done, self.began.elapsed());
        let (end, lasted) = progress.end.clone().unwrap_or_else(in_work);
        Connection {
            address: progress.address,
            destination: self.destination.clone(),
            end,
            millis: u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX),
            received: self.received.load(Ordering::Relaxed),
            secrets: progress.secrets.iter().cloned().collect(),
            sent: self.sent.load(Ordering::Relaxed),
        }
    }
}

/// The egress of a run that is known by the keeper's entry of its group. Dropping it ends the run's connections.
#[derive(Debug)]
pub(crate) struct Registered {
    egress: Arc<RunEgress>,
    relays: Arc<Relays>,
}

impl Registered {
    /// Ends the connections of a run whose process tree is dead, and returns what is known of them.
    pub(crate) fn take(self) -> Connections {
        self.egress.over.cancel();
        let record = lock(&self.egress.record);
        Connections {
            described: record.described.iter().map(|it| it.seen()).collect(),
            more: record.more,
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.egress.over.cancel();
        lock(&self.relays.runs).retain(|run| !Arc::ptr_eq(&run.egress, &self.egress));
        if let Some(relay) = self.relays.relay.get() {
            // Accepted connections end by themselves.
            let is_open = |it: &Expected| it.is_accepted || !Arc::ptr_eq(&it.run, &self.egress);
            lock(&relay.expected).retain(|_, it| is_open(it));
        }
    }
}

/// A run with egress.
#[derive(Debug)]
struct Run {
    egress: Arc<RunEgress>,
    /// Where its process group is written before it executes anything.
    entry: &'static AtomicI32,
}

/// The relay, and the runs whose connections it serves.
#[derive(Debug, Default)]
pub(crate) struct Relays {
    relay: OnceLock<Relay>,
    runs: Mutex<Vec<Run>>,
    trust: Arc<Trust>,
}

/// Sockets that accept the connections of hooks, and those that are to come.
#[derive(Debug)]
struct Relay {
    expected: Arc<Mutex<HashMap<SocketAddr, Expected>>>,
    /// The most connections that wait to be accepted: no `connect` of the daemon may wait.
    most_waiting: usize,
    next: AtomicU64,
    v4: SocketAddr,
    /// `None` where the machine has no IPv6.
    v6: Option<SocketAddr>,
}

/// Returns the address of a run's name, by its place among the run's names.
fn made_up(index: usize) -> Ipv4Addr {
    // MOST_NAMES is far less.
    let index = u32::try_from(index).unwrap_or(u32::MAX / 2);
    Ipv4Addr::from(u32::from(MADE_UP).wrapping_add(1 + index))
}

/// A connection to the relay, by the hook's end of it.
#[derive(Debug)]
struct Expected {
    /// Distinguishes the connection from a later one of the same address.
    id: u64,
    is_accepted: bool,
    run: Arc<RunEgress>,
    target: Target,
}

impl Relays {
    /// Makes the egress of a run known before its first process executes anything. Starts the relay where it is the first.
    ///
    /// # Errors
    ///
    /// Fails where no socket can be made on loopback.
    pub(crate) fn register(
        self: &Arc<Self>,
        entry: &'static AtomicI32,
        rules: &Arc<EgressRules>,
    ) -> io::Result<Registered> {
        if self.relay.get().is_none() {
            let started = relay::start()?;
            // Another run may have been faster: its relay serves both.
            self.relay.get_or_init(|| started);
        }
        let egress = Arc::new(RunEgress::new(Arc::clone(rules), Arc::clone(&self.trust)));
        lock(&self.runs).push(Run {
            egress: Arc::clone(&egress),
            entry,
        });
        Ok(Registered {
            egress,
            relays: Arc::clone(self),
        })
    }

    /// Returns the egress of a run, by its process group.
    pub(crate) fn of_group(&self, group: i32) -> Option<Arc<RunEgress>> {
        let runs = lock(&self.runs);
        let mut known = runs.iter();
        let run = known.find(|run| run.entry.load(Ordering::Acquire) == group);
        run.map(|run| Arc::clone(&run.egress))
    }

    /// Connects the socket of a hook's `connect`, and answers it.
    ///
    /// # Errors
    ///
    /// Returns the error of the kernel; the listener is of no use any more.
    pub(crate) fn answer(
        &self,
        run: &Arc<RunEgress>,
        listener: &Listener,
        notification: &Notification,
    ) -> io::Result<()> {
        let Some(relay) = self.relay.get() else {
            return listener.refuse(notification, libc::EACCES);
        };
        match connect::connect(relay, run, listener, notification) {
            Ok(()) => listener.succeed(notification),
            Err(errno) => listener.refuse(notification, errno as i32),
        }
    }
}

/// Parsers of what hooks send.
#[doc(hidden)]
pub(crate) mod testing {
    use std::net::Ipv4Addr;

    use super::{hello, names};

    /// Returns the server name of a TLS client's first message; `None` where the message is incomplete, has none or is none.
    #[must_use]
    pub fn server_name(bytes: &[u8]) -> Option<String> {
        match hello::read(bytes) {
            hello::Hello::Names(name) => name.map(|name| name.to_string()),
            hello::Hello::Incomplete | hello::Hello::Other(_) => None,
        }
    }

    /// Returns the answer to a question for a name.
    #[must_use]
    pub fn name_answer(bytes: &[u8]) -> Option<Vec<u8>> {
        names::answer(bytes, |_| Some(Ipv4Addr::new(198, 18, 0, 1)))
    }
}

/// How long the first bytes of a connection, a name's addresses, and a connection to the host may take each.
const PATIENCE: Duration = Duration::from_secs(30);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is one insertion, removal or addition.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
