//! Calls made up by chance: any number with hostile arguments, and more often those that could reach something.

use std::net::SocketAddr;

use hookjail_sandbox::seccomp::{
    FilterSpec,
    arguments::{ArgTest, Wanted},
    rules::{Rule, rule},
    syscalls::{TABLE, newest, nr},
};

use super::{
    calls::{Arg, Call, Chance},
    shapes::{
        ENDS, FAVOURITES,
        Kind::{
            self, Address, Any, Bytes, Dir, Fd, Flags, How, Junk, Length, Message, Path, Pid,
            Signal, Text, Vector, Words, Zeros,
        },
        SHAPES,
    },
};

/// Targets that calls could reach, as the player finds them: descriptors are those of its `set_up`.
#[derive(Clone, Debug)]
pub(super) struct Pools {
    /// Socket addresses as the kernel takes them.
    addresses: Vec<Vec<u8>>,
    paths: Vec<String>,
    /// A process outside.
    victim: u32,
}

impl Pools {
    /// Collects the targets that are worth trying; only those in the scratch directory and in the grants of the profile may be
    /// reached. `marker` is in the name of everything that would be new.
    pub(super) fn new(
        outside: &std::path::Path,
        workspace: &std::path::Path,
        marker: &str,
        sockets: &[SocketAddr],
        victim: u32,
    ) -> Self {
        let outside = outside.display();
        let workspace = workspace.display();
        let up = "../".repeat(12);
        let mut paths: Vec<_> = [
            "",
            ".",
            "..",
            "/",
            "f",
            "d",
            "d/e",
            "d/new",
            "new",
            "c",
            "./c",
            "d/../c",
            "/proc/self/cwd/c",
            "l0",
            "l1",
            "l1/secret",
            "l2",
            "l2/etc/passwd",
            "d/l3/etc/passwd",
            "new/",
            "./d/../f",
            "d/e/../../f",
            "//usr//bin",
            "/usr",
            "/usr/bin/env",
            "/usr/lib/os-release",
            "/usr/./bin/../bin",
            "/etc",
            "/etc/passwd",
            "/etc/ld.so.cache",
            "/dev",
            "/dev/null",
            "/dev/urandom",
            "/dev/kmsg",
            "/dev/mem",
            "/dev/tty",
            "/dev/shm",
            "/proc",
            "/proc/self/exe",
            "/proc/self/mem",
            "/proc/self/environ",
            "/proc/self/fd/3",
            "/proc/self/fd/4",
            "/proc/self/fd/10",
            "/proc/self/fd/11",
            "/proc/self/fd/11/..",
            "/proc/self/root/etc/passwd",
            "/proc/self/cwd/f",
            "/proc/self/oom_score_adj",
            "/proc/1/environ",
            "/proc/sys/kernel/core_pattern",
            "/sys/kernel",
            "/sys/fs/cgroup/cgroup.procs",
            "/tmp",
            "/home",
            "/root",
            "/run",
        ]
        .map(str::to_owned)
        .into();
        for (base, name) in [
            ("/tmp", marker),
            ("/var/tmp", marker),
            ("/dev/shm", marker),
            ("/usr", marker),
            ("", marker),
        ] {
            paths.push(format!("{base}/{name}"));
        }
        for name in [
            "",
            "/secret",
            "/kept",
            "/empty",
            "/new",
            "/.",
            "/..",
            "/../o/secret",
            "//kept",
            "/stream",
            "/secret/",
        ] {
            paths.push(format!("{outside}{name}"));
            paths.push(format!("{workspace}{name}"));
        }
        paths.push(format!("{up}{outside}/secret"));
        paths.push(format!("/usr/{up}{outside}/kept"));
        paths.push(format!("/proc/self/fd/9/{up}{outside}/new"));
        for name in [
            "oom_score_adj",
            "environ",
            "mem",
            "cwd/secret",
            "root/etc/passwd",
        ] {
            paths.push(format!("/proc/{victim}/{name}"));
        }

        let family = |family: libc::c_int| u16::try_from(family).unwrap().to_ne_bytes().to_vec();
        let mut addresses = Vec::new();
        for socket in sockets {
            let SocketAddr::V4(socket) = socket else {
                continue;
            };
            let parts = [
                family(libc::AF_INET),
                socket.port().to_be_bytes().to_vec(),
                socket.ip().octets().to_vec(),
                vec![0; 8],
            ];
            addresses.push(parts.concat());
        }
        for name in [
            format!("{outside}/stream"),
            format!("{outside}/datagram"),
            format!("\0{marker}"),
        ] {
            addresses.push([family(libc::AF_UNIX), name.into_bytes(), vec![0]].concat());
        }
        // The kernel, by netlink.
        addresses.push([family(libc::AF_NETLINK), vec![0; 10]].concat());
        Self {
            addresses,
            paths,
            victim,
        }
    }

    /// Makes up a call.
    pub(super) fn call(&self, chance: &mut Chance, spec: &FilterSpec) -> Call {
        let number = loop {
            let number = number(chance);
            if !ENDS.contains(&number) {
                break number;
            }
        };
        let shape = SHAPES
            .iter()
            .find(|(number_of_shape, _)| *number_of_shape == number)
            .map_or(&[Any; 6][..], |(_, shape)| shape);
        let mut args: Vec<_> = shape
            .iter()
            .map(|kind| self.argument(chance, *kind))
            .collect();
        args.resize(6, Arg::Value(0));
        let mut call = Call {
            args,
            nr: u64::from(number),
        };
        if chance.one_in(2) {
            at_the_edge(chance, spec, &mut call);
        }
        tame(chance, &mut call);
        // The upper half of the number counts for nothing.
        if chance.one_in(4) {
            call.nr |= chance.number() << 32;
        }
        call
    }

    /// Makes up a call that kills.
    pub(super) fn deadly(&self, chance: &mut Chance, spec: &FilterSpec) -> Call {
        loop {
            let call = self.call(chance, spec);
            if rule(spec, call.number()) == Rule::Kill {
                return call;
            }
        }
    }

    fn argument(&self, chance: &mut Chance, kind: Kind) -> Arg {
        // A path that the model follows stays one: the model could not follow anything else.
        let stays = matches!(kind, Path(..) | Junk | Length | Zeros);
        if !stays && chance.one_in(12) {
            return self.any(chance);
        }
        match kind {
            Address => Arg::Bytes(chance.pick(&self.addresses).clone()),
            Any => self.any(chance),
            Bytes => Arg::Bytes(bytes(chance)),
            Dir => {
                let fd = *chance.pick(&DIRECTORIES);
                Arg::Value(dirty(chance, fd))
            }
            Fd => descriptor(chance),
            Flags => Arg::Value(flags(chance)),
            How => {
                let words = [
                    flags(chance),
                    0o600 * chance.below(2),
                    *chance.pick(&[0, 0, 0, 1, 2, 4, 8, 16]),
                ];
                Arg::Bytes(words.iter().flat_map(|word| word.to_le_bytes()).collect())
            }
            Junk => Arg::Junk,
            Length => Arg::Value(*chance.pick(&[0, 1, 2, 8, 16, 24, 110, 512, 4096])),
            Message => Arg::Message(chance.pick(&self.addresses).clone()),
            Path(dir, follow) => Arg::Path {
                dir,
                follow,
                text: chance.pick(&self.paths).clone(),
            },
            Pid => {
                let pids = [
                    u64::from(self.victim),
                    u64::from(self.victim),
                    0,
                    1,
                    2,
                    u64::MAX,
                    u64::from(self.victim).wrapping_neg(),
                ];
                let pid = *chance.pick(&pids);
                Arg::Value(dirty(chance, pid))
            }
            // SIGWINCH is what the victim counts.
            Signal => Arg::Value(*chance.pick(&[0, 28, 28, 28, 28, 10, 18, 64, 65, 1 << 32 | 28])),
            Text if chance.one_in(24) => Arg::Long(*chance.pick(&[100, 2000, 2047, 2048, 4096])),
            Text => Arg::Text(chance.pick(&self.paths).clone()),
            Vector => Arg::Vector,
            Words => Arg::Words,
            Zeros => Arg::Zeros,
        }
    }

    fn any(&self, chance: &mut Chance) -> Arg {
        match chance.below(16) {
            0..=4 => {
                let small = chance.below(20);
                Arg::Value(dirty(chance, small))
            }
            5 => Arg::Value(*chance.pick(&BAD)),
            6 => Arg::Value(1 << chance.below(64)),
            7 => Arg::Value(chance.number()),
            8 => Arg::Value(chance.number() & 0xffff_ffff),
            9 => Arg::Bytes(bytes(chance)),
            10 => Arg::Zeros,
            11 => Arg::Text(chance.pick(&self.paths).clone()),
            12 => Arg::Vector,
            13 => descriptor(chance),
            14 => Arg::Value(0),
            _ => Arg::Value(dirty(chance, 0xffff_ffff)),
        }
    }
}

/// Pointers to nothing, to the kernel, and beyond; numbers at the ends of their range.
const BAD: [u64; 12] = [
    1,
    0xfff,
    0xdead_beef_f000,
    0x7fff_ffff_f000,
    0x8000_0000_0000,
    0xffff_8880_0000_0000,
    0xffff_ffff_ff60_0000,
    0xffff_ffff_ffff_f000,
    0x8000_0000,
    0x7fff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// Where the player stands, its scratch directory, `/usr`, outside, the workspace, and what is no directory.
const DIRECTORIES: [u64; 9] = [0xffff_ff9c, u64::MAX - 99, 4, 9, 10, 11, 12, 3, u64::MAX];

fn number(chance: &mut Chance) -> u32 {
    let known = |chance: &mut Chance| chance.pick(TABLE).0;
    match chance.below(20) {
        0..=8 => known(chance),
        9..=16 => chance.pick(&SHAPES[..FAVOURITES]).0,
        // Numbers without a meaning, around the end of the table and far away.
        17 => newest() + u32::try_from(chance.below(64)).unwrap(),
        18 => 335 + u32::try_from(chance.below(89)).unwrap(),
        _ => {
            u32::try_from(chance.number() & 0x3fff_ffff).unwrap()
                | if chance.one_in(2) { 0x4000_0000 } else { 0 }
        }
    }
}

/// Puts arguments on the edge of what the table allows: one of its ways, sometimes with a bit flipped.
fn at_the_edge(chance: &mut Chance, spec: &FilterSpec, call: &mut Call) {
    let Rule::AllowWhen { ways, .. } = rule(spec, call.number()) else {
        return;
    };
    for ArgTest {
        index,
        wanted,
        width,
    } in chance.pick(&ways).clone()
    {
        let mut value = match wanted {
            Wanted::Exactly(value) => value,
            Wanted::Masked { mask, value } => (chance.number() & !mask) | value,
            Wanted::OwnGroup | Wanted::OwnPid => continue,
        };
        if chance.one_in(3) {
            value ^= 1 << chance.below(64);
        }
        if chance.one_in(3) {
            value = (value & width.mask()) | (chance.number() & !width.mask());
        }
        call.args[usize::from(index)] = Arg::Value(value);
    }
}

/// Takes from a call everything that would end or stop the player instead of showing something.
fn tame(chance: &mut Chance, call: &mut Call) {
    let value = |call: &Call, index: usize| call.values()[index] & 0xffff_ffff;
    match call.number() {
        // The player's own descriptors.
        nr::close_range => {
            let first = 17 + chance.below(100);
            call.args[0] = Arg::Value(dirty(chance, first));
            call.args[1] = Arg::Value(199);
        }
        // Signals that would stop or kill the player, which may send them to itself.
        nr::kill | nr::tgkill => {
            let index = if call.number() == nr::kill { 1 } else { 2 };
            if [9, 19, 20, 21, 22, 11, 7, 4, 8, 5, 31, 6].contains(&value(call, index)) {
                call.args[index] = Arg::Value(28);
            }
        }
        // The signal that the player would get when a child ends.
        nr::clone => {
            if let Arg::Value(flags) = call.args[0] {
                call.args[0] = Arg::Value(flags & !0xff);
            }
        }
        nr::timer_create => call.args[1] = Arg::Zeros,
        // Resources that the player needs, lowered for good: processor time, files, memory, stack.
        nr::prlimit64 | nr::setrlimit => {
            let index = usize::from(call.number() == nr::prlimit64);
            if value(call, index) <= 9 || value(call, index) == 11 {
                call.args[index] = Arg::Value(*chance.pick(&[4, 8, 10, 12, 13, 14, 15]));
            }
        }
        // States in which the player could not be looked at, or would hardly run.
        nr::prctl if value(call, 0) == 4 => call.args[1] = Arg::Value(1),
        nr::sched_setscheduler if value(call, 1) & 0xff == 5 => call.args[1] = Arg::Value(3),
        nr::setpriority if (3..0x8000_0000).contains(&value(call, 2)) => {
            call.args[2] = Arg::Value(2);
        }
        // Linking follows a link only with this flag.
        nr::linkat => {
            let follows = has(value(call, 4), libc::AT_SYMLINK_FOLLOW);
            if let Arg::Path { follow, .. } = &mut call.args[1] {
                *follow = follows;
            }
        }
        _ => {}
    }
}

fn flags(chance: &mut Chance) -> u64 {
    let mode = chance.below(4);
    let mut flags = mode;
    for flag in [
        libc::O_CREAT,
        libc::O_TRUNC,
        libc::O_EXCL,
        libc::O_DIRECTORY,
        libc::O_NOFOLLOW,
        libc::O_APPEND,
        libc::O_PATH,
        libc::O_TMPFILE,
    ] {
        if chance.one_in(9) {
            flags |= u64::try_from(flag).unwrap();
        }
    }
    // A file that could be opened has no other end.
    flags |= u64::try_from(libc::O_NONBLOCK | libc::O_NOCTTY).unwrap();
    if chance.one_in(20) {
        flags = chance.number();
    }
    flags
}

fn descriptor(chance: &mut Chance) -> Arg {
    let fd = *chance.pick(&[
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15,
        99,
        u64::MAX,
    ]);
    Arg::Value(dirty(chance, fd))
}

fn bytes(chance: &mut Chance) -> Vec<u8> {
    let word = *chance.pick(&[0, 1, 3, 16, u64::MAX, 1 << 32]);
    let mut words: Vec<_> = (0..1 + chance.below(6)).map(|_| word).collect();
    if chance.one_in(3) {
        words = words.iter().map(|_| chance.number() | 0xffff).collect();
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Sometimes puts dirt into the half of an `int` that the kernel ignores.
fn dirty(chance: &mut Chance, value: u64) -> u64 {
    if chance.one_in(4) {
        (value & 0xffff_ffff) | (chance.number() << 32)
    } else {
        value
    }
}

/// Whether a flag is set.
pub(super) fn has(flags: u64, flag: libc::c_int) -> bool {
    let flag = u64::from(flag.cast_unsigned());
    flags & flag == flag
}
