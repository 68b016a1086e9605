//! Rules of every profile: the minimum that programs need on macOS, and lasting denials.
//!
//! By some accounts a rule about one operation has precedence over rules with a wildcard (`file-write*`), regardless of
//! their order. So a rule that revokes another names the same operation; the model of the language in the tests refuses
//! a profile that depends on this question.
//!
//! No profile of the system is imported: their grants change between releases without notice.

use hookjail_policy::{Network, Spawn};

use crate::seatbelt::rules::{Filter, Operation, Rule, Section, Value};

/// Denies operations that `(deny default)` does not cover on every release.
pub(crate) fn stragglers() -> Section {
    let rule = Rule::deny(
        &[
            Operation::FileMapExecutable,
            Operation::IokitProperties,
            Operation::Nvram,
            Operation::ProcessInfo,
        ],
        Vec::new(),
    );
    Section::new("not all of it is covered by the default", vec![rule])
}

/// Allows the reads of the loader and libSystem before a program's first line.
pub(crate) fn system() -> Section {
    Section::new(
        "needs of any program to start",
        vec![
            // The loader opens the root to find its cache, and ends the program where it cannot. The rule reads no entry.
            Rule::allow(&[Operation::FileRead], texts(Filter::Literal, &["/"])),
            Rule::allow(
                &[Operation::FileRead, Operation::FileMapExecutable],
                texts(Filter::Subpath, LIBRARIES),
            ),
            // The link that selects the shell of `/bin/sh`, and time zones.
            Rule::allow(
                &[Operation::FileRead],
                vec![
                    Filter::Literal(Value::Text("/private/var/select/sh")),
                    Filter::Subpath(Value::Text("/private/var/db/timezone")),
                ],
            ),
            // Programs stat every directory of a path, and their own pipes, which have no path.
            Rule::allow(
                &[Operation::FileReadMetadata, Operation::FileTestExistence],
                Vec::new(),
            ),
            // Listed by name: others, such as `kern.proc`, show processes with their arguments and environment.
            Rule::allow(
                &[Operation::SysctlRead],
                SYSCTLS
                    .iter()
                    .map(|name| Filter::SysctlName(name))
                    .chain(
                        SYSCTL_PREFIXES
                            .iter()
                            .map(|prefix| Filter::SysctlPrefix(prefix)),
                    )
                    .collect(),
            ),
            // The default does not cover plain syscalls; denied ones follow at the end.
            Rule::allow(&[Operation::SyscallUnix], Vec::new()),
        ],
    )
}

/// Allows a process's operations on itself. Where a run has several processes, on the others of the run too.
pub(crate) fn processes(spawn: Spawn) -> Section {
    let about = &[Operation::ProcessInfo, Operation::Signal];
    let rules = match spawn {
        Spawn::Processes => vec![
            Rule::allow(&[Operation::ProcessFork], Vec::new()),
            Rule::allow(
                about,
                vec![Filter::Target("self"), Filter::Target("same-sandbox")],
            ),
        ],
        Spawn::Threads => vec![Rule::allow(about, vec![Filter::Target("self")])],
    };
    Section::new("processes of the run", rules)
}

/// Allows outbound TCP and UDP. Includes the services that the system's library uses for names and certificates.
pub(crate) fn outbound() -> Section {
    Section::new(
        "outbound IPv4 and IPv6",
        vec![
            Rule::allow(
                &[Operation::NetworkOutbound],
                vec![
                    Filter::Remote("tcp"),
                    Filter::Remote("udp"),
                    Filter::Literal(Value::Text("/private/var/run/mDNSResponder")),
                ],
            ),
            Rule::allow(
                &[Operation::FileRead],
                vec![
                    Filter::Literal(Value::Text("/private/var/run/resolv.conf")),
                    Filter::Literal(Value::Text("/private/etc/hosts")),
                    Filter::Literal(Value::Text("/private/etc/services")),
                    Filter::Subpath(Value::Text("/private/etc/ssl")),
                ],
            ),
            Rule::allow(
                &[Operation::MachLookup],
                SERVICES
                    .iter()
                    .map(|name| Filter::GlobalName(name))
                    .collect(),
            ),
        ],
    )
}

/// Denies operations regardless of the preceding rules.
pub(crate) fn closed(network: Network, spawn: Spawn) -> Section {
    let mut rules = vec![
        // Rules match paths: a hard link or a clone of a file would have another path.
        Rule::deny(
            &[
                Operation::FileClone,
                Operation::FileIoctl,
                Operation::FileLink,
            ],
            Vec::new(),
        ),
        // FIFOs, which block a process that opens them, and devices.
        Rule::deny(
            &[Operation::FileWriteCreate],
            ["BLOCK-DEVICE", "CHARACTER-DEVICE", "FIFO", "SOCKET"]
                .map(Filter::VnodeType)
                .to_vec(),
        ),
        // Ways to make a process outside act.
        Rule::deny(
            &[
                Operation::AppleEvents,
                Operation::Iokit,
                Operation::IpcPosix,
                Operation::IpcSysv,
                Operation::JobCreation,
                Operation::Launch,
                Operation::MachPrivTaskPort,
                Operation::MachRegister,
                Operation::SystemSocket,
            ],
            Vec::new(),
        ),
        // A process outside of the process group would survive the run's end.
        Rule::deny(
            &[Operation::SyscallUnix],
            vec![Filter::Syscalls(&["SYS_setpgid", "SYS_setsid"])],
        ),
        // `posix_spawn` takes both as flags, which no rule matches. With ENOSYS programs fork instead.
        Rule::deny(
            &[Operation::SyscallUnix],
            vec![Filter::Syscalls(&["SYS_posix_spawn"])],
        )
        .with_errno("ENOSYS"),
    ];
    match network {
        Network::Named | Network::None => {
            rules.push(Rule::deny(
                &[Operation::MachLookup, Operation::Network],
                Vec::new(),
            ));
            rules.push(Rule::deny(
                &[Operation::SyscallUnix],
                vec![Filter::Syscalls(&["SYS_socket"])],
            ));
        }
        Network::Outbound => rules.push(Rule::deny(
            &[Operation::NetworkBind, Operation::NetworkInbound],
            Vec::new(),
        )),
    }
    if spawn == Spawn::Threads {
        rules.push(Rule::deny(&[Operation::ProcessFork], Vec::new()));
    }
    Section::new("closed, regardless of the rules above", rules)
}

/// Denies every use of paths. Paths that are allowed further down stay open.
pub(crate) fn shut(title: &'static str, closed: Vec<Filter>) -> Section {
    let mut operations = vec![
        Operation::FileMapExecutable,
        Operation::FileReadData,
        Operation::FileReadXattr,
        Operation::FileWriteCreate,
        Operation::FileWriteData,
        Operation::FileWriteUnlink,
        Operation::ProcessExec,
    ];
    operations.extend(Operation::METADATA);
    let rule = Rule::deny(&operations, closed);
    Section::new(title, vec![rule])
}

/// Keeps paths read-only, and others by name only. Nothing else can take the place of a kept name.
pub(crate) fn kept(read_only: Vec<Filter>, names: Vec<Filter>) -> Section {
    let entries = [Operation::FileWriteCreate, Operation::FileWriteUnlink];
    let mut rules = Vec::new();
    if !read_only.is_empty() {
        let mut operations = entries.to_vec();
        operations.push(Operation::FileWriteData);
        operations.extend(Operation::METADATA);
        rules.push(Rule::deny(&operations, read_only));
    }
    if !names.is_empty() {
        rules.push(Rule::deny(&entries, names));
    }
    Section::new("read-only paths", rules)
}

fn texts(filter: fn(Value) -> Filter, paths: &[&'static str]) -> Vec<Filter> {
    paths.iter().map(|path| filter(Value::Text(path))).collect()
}

/// Directories of the system's libraries and the loader's cache, on the sealed system volume.
const LIBRARIES: &[&str] = &[
    "/Library/Apple/System/Library",
    "/Library/Apple/usr/lib",
    "/System/Cryptexes/OS",
    "/System/Library",
    "/System/Volumes/Preboot/Cryptexes/OS",
    "/usr/lib",
];

/// Services that libraries use for name service settings and certificate validity.
const SERVICES: &[&str] = &[
    "com.apple.SystemConfiguration.DNSConfiguration",
    "com.apple.SystemConfiguration.configd",
    "com.apple.trustd",
    "com.apple.trustd.agent",
];

/// Sysctls that libSystem, shells and language runtimes read.
const SYSCTLS: &[&str] = &[
    "kern.argmax",
    "kern.bootargs",
    "kern.hostname",
    "kern.iossupportversion",
    "kern.maxfilesperproc",
    "kern.maxproc",
    "kern.ngroups",
    "kern.osproductversion",
    "kern.osrelease",
    "kern.ostype",
    "kern.osvariant_status",
    "kern.osversion",
    "kern.secure_kernel",
    "kern.usrstack64",
    "kern.version",
    "security.mac.lockdown_mode_state",
    "sysctl.proc_cputype",
    "vm.loadavg",
];

const SYSCTL_PREFIXES: &[&str] = &["hw.", "machdep.cpu."];
