//! Reads the kernel's audit records about hooks. They have Landlock's refusals, which no filter sees, and the calls that the
//! closing filter refuses or kills a hook for.
//!
//! Read from the log's multicast group, so that whoever else reads the log reads all of it. It is in use where the daemon may
//! read it, somebody has switched auditing on, and process ids in it are the daemon's.

mod record;

use std::{
    collections::{HashMap, VecDeque},
    fs, io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        socket::{
            AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recvfrom,
            sendto, setsockopt, socket, sockopt,
        },
        time::{TimeVal, TimeValLike},
    },
    unistd::{Pid, getpgid},
};

pub(in crate::sandbox) use self::record::Access;
use self::record::{Call, Record};
use crate::sandbox::run::denials::Denials;

/// Time limit for the kernel to deliver outstanding records at the end of a run.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(20);

/// Polling interval while records are outstanding.
const BETWEEN_ASKING: Duration = Duration::from_micros(100);

/// `AUDIT_GET`.
const GET: u16 = 1000;

/// `AUDIT_LIST_RULES`.
const LIST_RULES: u16 = 1013;

/// `AUDIT_FILTER_EXCLUDE`: the list of rules by which records are not written.
const EXCLUDE: u32 = 5;

/// `AUDIT_FAIL_PANIC`: the kernel panics when a record is lost.
const PANIC: u32 = 2;

/// Multicast group of read-only listeners, as a mask.
const READERS: u32 = 1;

/// Limit on the size of a message, bytes.
const MESSAGE: usize = 16 * 1024;

/// Size of the socket's receive buffer, bytes.
const BUFFER: usize = 4 * 1024 * 1024;

/// Limit on records of one domain kept until its run is known.
const EARLY: usize = 64;

/// Limit on domains whose run is not known yet.
const STRANGERS: usize = 256;

/// The initial process id namespace.
const FIRST_PIDS: &str = "pid:[4026531836]";

/// Why the log is not used.
#[derive(Debug, thiserror::Error)]
pub(in crate::sandbox) enum Unused {
    /// Auditing is off.
    #[error("auditing is switched off")]
    Off,
    /// The log's process ids are not those of the daemon's namespace.
    #[error("this daemon is not in the first process id namespace")]
    Namespace,
    /// A hook with enough refusals could make the kernel panic.
    #[error("auditing is set to panic when records are lost")]
    Panics,
    /// The log cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// The opened audit log.
#[derive(Debug)]
pub(in crate::sandbox) struct AuditLog {
    control: Mutex<Control>,
    /// Number of events after which records may be missing.
    doubts: AtomicU64,
    /// The kernel thread that delivers records.
    kauditd: Option<u32>,
    records: Mutex<Records>,
    /// The doubt and loss counts up to which auditing is known to be on.
    seen_on: Mutex<Option<Mark>>,
}

/// The moment from which doubts and losses count against a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::sandbox) struct Mark {
    doubts: u64,
    lost: u32,
}

/// The socket for requests about the log's state.
#[derive(Debug)]
struct Control {
    sequence: u32,
    socket: OwnedFd,
}

/// Received records, and the run of each.
#[derive(Debug)]
struct Records {
    /// Process groups by hooks' Landlock domains.
    domains: HashMap<u64, i32>,
    /// Records received before their run is known. A domain is announced only after its first refusal.
    early: VecDeque<(u64, Early)>,
    socket: OwnedFd,
}

#[derive(Debug, Default)]
struct Early {
    cut: bool,
    refused: Vec<Access>,
}

/// State of the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct State {
    backlog: u32,
    enabled: bool,
    lost: u32,
    panics: bool,
}

impl AuditLog {
    /// Opens the log.
    ///
    /// # Errors
    ///
    /// It cannot be used here, or nothing is written into it.
    pub(in crate::sandbox) fn open() -> Result<Self, Unused> {
        let namespace = fs::read_link("/proc/self/ns/pid")?;
        if namespace.as_os_str() != FIRST_PIDS {
            return Err(Unused::Namespace);
        }
        let records = audit_socket(SockFlag::SOCK_NONBLOCK, READERS)?;
        // It holds what many hooks are refused at once; where it cannot be had, less is certain.
        if let Err(error) = setsockopt(&records, sockopt::RcvBufForce, &BUFFER) {
            tracing::debug!(%error, "the audit log has a small buffer");
        }
        let control = audit_socket(SockFlag::empty(), 0)?;
        setsockopt(
            &control,
            sockopt::ReceiveTimeout,
            &TimeVal::milliseconds(100),
        )
        .map_err(io::Error::from)?;
        let mut control = Control {
            sequence: 0,
            socket: control,
        };
        let state = control.state()?;
        state.is_for_use()?;
        Ok(Self {
            control: Mutex::new(control),
            doubts: AtomicU64::new(0),
            kauditd: find_kauditd(),
            records: Mutex::new(Records {
                domains: HashMap::new(),
                early: VecDeque::new(),
                socket: records,
            }),
            seen_on: Mutex::new(Some(Mark {
                doubts: 0,
                lost: state.lost,
            })),
        })
    }

    /// Reads the log on a dedicated thread for the lifetime of this process.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub(in crate::sandbox) fn attend(self: &Arc<Self>, denials: &Arc<Denials>) -> io::Result<()> {
        let (log, denials) = (Arc::clone(self), Arc::clone(denials));
        // Waits on a descriptor of its own, so that waiting holds no lock.
        let waits_on = self.records().socket.try_clone()?;
        thread::Builder::new()
            .name("audit-log".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || {
                loop {
                    let mut ready = [PollFd::new(waits_on.as_fd(), PollFlags::POLLIN)];
                    match poll(&mut ready, PollTimeout::NONE) {
                        Ok(_) => log.drain(&denials),
                        Err(Errno::EINTR) => {}
                        Err(error) => {
                            // Each run still reads what there is at its end.
                            tracing::error!(%error, "the audit log is not attended to");
                            return;
                        }
                    }
                }
            })
            .map(drop)
    }

    /// Returns the mark from which a run is recorded completely. `None` where auditing may be off.
    pub(in crate::sandbox) fn mark(&self) -> Option<Mark> {
        let seen_on = *lock(&self.seen_on);
        seen_on.filter(|mark| mark.doubts == self.doubts())
    }

    /// Reads the records of an ended run and waits briefly for outstanding ones. Returns whether they are complete.
    ///
    /// It is, if all of this is true. Auditing was on before the run and is on now, and no record says that what is logged
    /// was changed; switching it off, and taking an excluding rule away, are written down before anything else is. No rule
    /// excludes records now. The kernel says that it lost none. And it has delivered all: its queue was empty after the run's
    /// last process was dead, and its one thread that takes records from there was asleep after that. It sleeps while it waits
    /// for records, and while it hands one to an audit daemon, but it never does between taking a record from the queue and
    /// putting it into the sockets of those who read along.
    pub(in crate::sandbox) fn settle(&self, denials: &Denials, mark: Option<Mark>) -> bool {
        let before = self.doubts();
        let told = self.wait_until_delivered();
        self.drain(denials);
        let state = match told {
            Ok(state) => state,
            Err(error) => {
                tracing::warn!(%error, "the kernel does not say how its audit log stands");
                return false;
            }
        };
        let enabled = state.is_some_and(|(state, _)| state.enabled);
        *lock(&self.seen_on) = state.filter(|_| enabled).map(|(state, _)| Mark {
            // As of before the kernel was asked: a change that came later is a doubt that is not counted in.
            doubts: before,
            lost: state.lost,
        });
        let now = state.map(|(state, _)| Mark {
            doubts: self.doubts(),
            lost: state.lost,
        });
        let delivered = state.is_some_and(|(_, delivered)| delivered);
        enabled && delivered && mark.is_some() && mark == now && self.writes_all()
    }

    /// Forgets a run's domains; later records belong to no run.
    pub(in crate::sandbox) fn forget(&self, group: i32) {
        self.records().domains.retain(|_, of| *of != group);
    }

    /// Polls until all records written before are delivered, or the time limit is reached. Returns the last state.
    fn wait_until_delivered(&self) -> io::Result<Option<(State, bool)>> {
        let give_up = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let state = lock(&self.control).state()?;
            let delivered = state.backlog == 0 && self.kauditd.is_some_and(is_asleep);
            if delivered || !state.enabled || Instant::now() > give_up {
                return Ok(Some((state, delivered)));
            }
            // The kernel's thread needs a processor for it.
            thread::sleep(BETWEEN_ASKING);
        }
    }

    /// Returns whether the kernel writes all records: no exclude rules, all filter actions logged.
    fn writes_all(&self) -> bool {
        let excludes = lock(&self.control).excludes();
        let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_logged");
        let logged = actions.is_ok_and(|actions| {
            let mut wanted = ["errno", "kill_process"].into_iter();
            wanted.all(|action| actions.split_whitespace().any(|word| word == action))
        });
        logged && matches!(excludes, Ok(false))
    }

    /// Records every message that has arrived.
    fn drain(&self, denials: &Denials) {
        let mut records = self.records();
        let mut buffer = [0; MESSAGE];
        loop {
            match receive(&records.socket, &mut buffer) {
                Ok(Message::Told { kind, body, .. }) => match record::parse(kind, body) {
                    Ok(record) => self.note(&mut records, denials, record),
                    Err(_) => self.doubt(),
                },
                Ok(Message::Foreign) => {}
                Ok(Message::Unreadable) => self.doubt(),
                Err(Errno::EAGAIN) => return,
                Err(Errno::EINTR) => {}
                // ENOBUFS: some came faster than they were read.
                Err(_) => self.doubt(),
            }
        }
    }

    fn note(&self, records: &mut Records, denials: &Denials, record: Record) {
        match record {
            Record::Access(domain, access) => match records.domains.get(&domain) {
                Some(&group) => denials.note_access(group, access),
                None => {
                    if !records.keep(domain, access) {
                        self.doubt();
                    }
                }
            },
            Record::Allocated { domain, pid } => {
                // The first process of a run leads its group, and no process of it makes another domain: there is no rule by
                // which it could. A group that ended since then was not forgotten yet, or nobody asks for it; that its id is
                // another hook's by now would take all ids to be used in the time that a record takes.
                let early = records.known(domain);
                if !denials.is_of_a_hook(pid) {
                    return;
                }
                records.domains.insert(domain, pid);
                let Early { cut, refused } = early.unwrap_or_default();
                for access in refused {
                    denials.note_access(pid, access);
                }
                if cut {
                    denials.note_cut(pid);
                }
            }
            Record::Call(call) => self.note_call(denials, &call),
            Record::Change => self.doubt(),
            Record::Deallocated { domain } => {
                records.known(domain);
                records.domains.remove(&domain);
            }
            Record::Other => {}
        }
    }

    fn note_call(&self, denials: &Denials, call: &Call) {
        if denials.is_of_a_hook(call.pid) {
            denials.note_call(call.pid, call.number, call.killed);
            return;
        }
        // Of a run's later processes only the process itself says of which.
        match getpgid(Some(Pid::from_raw(call.pid))) {
            Ok(group) if denials.is_of_a_hook(group.as_raw()) => {
                denials.note_call(group.as_raw(), call.number, call.killed);
            }
            Ok(_) => {}
            // It is gone, and may have been a hook's.
            Err(_) => self.doubt(),
        }
    }

    fn doubt(&self) {
        self.doubts.fetch_add(1, Ordering::AcqRel);
    }

    fn doubts(&self) -> u64 {
        self.doubts.load(Ordering::Acquire)
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        lock(&self.records)
    }
}

impl Records {
    /// Keeps a refusal until its run is known. Returns whether nothing was discarded for that.
    fn keep(&mut self, domain: u64, access: Access) -> bool {
        if let Some((_, early)) = self.early.iter_mut().find(|(of, _)| *of == domain) {
            early.cut |= early.refused.len() >= EARLY;
            if !early.cut {
                early.refused.push(access);
            }
            return true;
        }
        let all_kept = self.early.len() < STRANGERS || self.early.pop_front().is_none();
        let refused = vec![access];
        self.early.push_back((
            domain,
            Early {
                cut: false,
                refused,
            },
        ));
        all_kept
    }

    /// Returns the records kept for a domain.
    fn known(&mut self, domain: u64) -> Option<Early> {
        let index = self.early.iter().position(|(of, _)| *of == domain)?;
        self.early.remove(index).map(|(_, early)| early)
    }
}

impl Control {
    /// Requests the log's state from the kernel.
    fn state(&mut self) -> io::Result<State> {
        let mut told = None;
        self.ask(GET, |kind, body| {
            if kind == GET {
                told = State::read(body);
            }
            kind == GET
        })?;
        told.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Requests whether a rule excludes records.
    fn excludes(&mut self) -> io::Result<bool> {
        let mut excludes = false;
        self.ask(LIST_RULES, |kind, body| {
            if kind == LIST_RULES {
                let list = word(body, 0).map(|flags| flags & 0xf);
                excludes |= list.is_none_or(|list| list == EXCLUDE);
            }
            false
        })?;
        Ok(excludes)
    }

    /// Sends one request and passes on the replies until they end or `enough` returns true.
    fn ask(&mut self, what: u16, mut enough: impl FnMut(u16, &[u8]) -> bool) -> io::Result<()> {
        const REQUEST: u16 = 1;
        const ERROR: u16 = 2;
        const DONE: u16 = 3;
        const LENGTH: u32 = 16;
        self.sequence = self.sequence.wrapping_add(1);
        let asked = self.sequence;
        let mut request = Vec::new();
        request.extend(LENGTH.to_ne_bytes());
        request.extend(what.to_ne_bytes());
        request.extend(REQUEST.to_ne_bytes());
        request.extend(asked.to_ne_bytes());
        request.extend(0_u32.to_ne_bytes());
        let kernel = NetlinkAddr::new(0, 0);
        sendto(
            self.socket.as_raw_fd(),
            &request,
            &kernel,
            MsgFlags::empty(),
        )?;
        let mut buffer = [0; MESSAGE];
        loop {
            match receive(&self.socket, &mut buffer)? {
                Message::Told {
                    kind,
                    sequence,
                    body,
                } if sequence == asked => match kind {
                    DONE => return Ok(()),
                    ERROR => {
                        let errno = word(body, 0).map_or(libc::EIO, |code| -code.cast_signed());
                        return Err(io::Error::from_raw_os_error(errno));
                    }
                    _ if enough(kind, body) => return Ok(()),
                    _ => {}
                },
                // An answer that somebody gave up on.
                Message::Foreign | Message::Told { .. } => {}
                Message::Unreadable => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }
}

impl State {
    /// Parses a `struct audit_status`.
    fn read(body: &[u8]) -> Option<Self> {
        Some(Self {
            enabled: word(body, 1)? != 0,
            panics: word(body, 2)? == PANIC,
            lost: word(body, 6)?,
            backlog: word(body, 7)?,
        })
    }

    /// Checks whether denials of hooks may be written to the log.
    const fn is_for_use(self) -> Result<(), Unused> {
        match self {
            Self { enabled: false, .. } => Err(Unused::Off),
            Self { panics: true, .. } => Err(Unused::Panics),
            Self { .. } => Ok(()),
        }
    }
}

/// A message from a socket.
enum Message<'a> {
    /// Not from the kernel.
    Foreign,
    /// From the kernel.
    Told {
        kind: u16,
        sequence: u32,
        body: &'a [u8],
    },
    /// Too short or too long.
    Unreadable,
}

fn receive<'a>(socket: &OwnedFd, buffer: &'a mut [u8; MESSAGE]) -> Result<Message<'a>, Errno> {
    const HEADER: usize = 16;
    let (length, sender) = recvfrom::<NetlinkAddr>(socket.as_raw_fd(), buffer)?;
    if sender.is_none_or(|sender| sender.pid() != 0) {
        return Ok(Message::Foreign);
    }
    // The length in the header is not to be relied on: the kernel has counted it in two ways.
    if !(HEADER..MESSAGE).contains(&length) {
        return Ok(Message::Unreadable);
    }
    let (header, body) = buffer[..length].split_at(HEADER);
    let kind = [header[4], header[5]];
    let sequence = [header[8], header[9], header[10], header[11]];
    Ok(Message::Told {
        kind: u16::from_ne_bytes(kind),
        sequence: u32::from_ne_bytes(sequence),
        body,
    })
}

fn audit_socket(flags: SockFlag, groups: u32) -> io::Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        flags | SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkAudit,
    )?;
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(socket)
}

/// Returns one number of a message that is an array of them.
fn word(body: &[u8], index: usize) -> Option<u32> {
    let (words, _) = body.as_chunks::<4>();
    words.get(index).map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Finds the kernel thread that delivers records.
fn find_kauditd() -> Option<u32> {
    let processes = fs::read_dir("/proc").ok()?;
    processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .find(|&process| state_of_kauditd(process).is_some())
}

fn is_asleep(kauditd: u32) -> bool {
    state_of_kauditd(kauditd) == Some('S')
}

/// Returns a process's state if it is that thread. Any process may have its name, but not its parent.
fn state_of_kauditd(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.split_once(' ')?;
    let mut words = rest.strip_prefix("(kauditd) ")?.split(' ');
    let state = words.next()?.chars().next()?;
    (words.next()? == "2").then_some(state)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whatever panicked here left a note out at most, and a record that is not noted is one that nobody asked for.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(enabled: u32, failure: u32) -> Vec<u8> {
        let words = [0, enabled, failure, 0, 0, 64, 7, 3, 0, 0];
        words.into_iter().flat_map(u32::to_ne_bytes).collect()
    }

    #[test]
    fn a_log_is_used_where_it_is_written_and_no_lost_record_ends_the_host() {
        let state = |enabled, failure| State::read(&status(enabled, failure)).unwrap();
        assert_eq!(
            state(1, 1),
            State {
                backlog: 3,
                enabled: true,
                lost: 7,
                panics: false,
            }
        );
        assert!(state(1, 1).is_for_use().is_ok());
        assert!(state(2, 0).is_for_use().is_ok());
        assert!(matches!(state(0, 1).is_for_use(), Err(Unused::Off)));
        assert!(matches!(state(1, 2).is_for_use(), Err(Unused::Panics)));
        assert_eq!(State::read(&status(1, 1)[..31]), None);
    }

    #[test]
    fn of_what_nobody_is_known_to_have_done_only_so_much_is_kept() {
        let mut records = Records {
            domains: HashMap::new(),
            early: VecDeque::new(),
            socket: fs::File::open("/dev/null").unwrap().into(),
        };
        let access = || Access {
            kinds: vec!["fs.read_file".to_owned()],
            path: None,
        };
        for _ in 0..=EARLY {
            assert!(records.keep(1, access()));
        }
        let first = records.known(1).unwrap();
        assert!(first.cut && first.refused.len() == EARLY);
        assert!(records.known(1).is_none());
        for domain in 1..=STRANGERS as u64 {
            assert!(records.keep(domain, access()));
        }
        assert!(!records.keep(0, access()));
        assert_eq!(records.early.len(), STRANGERS);
        assert!(records.known(1).is_none());
    }

    #[test]
    fn nobody_but_the_kernels_own_thread_delivers_records() {
        assert_eq!(state_of_kauditd(std::process::id()), None);
        if let Some(kauditd) = find_kauditd() {
            assert!(state_of_kauditd(kauditd).is_some());
        }
    }
}
