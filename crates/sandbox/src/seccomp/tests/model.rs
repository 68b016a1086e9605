//! Model of the table for one call, without any filter, and the calls worth testing.

use std::collections::{BTreeMap, BTreeSet};

use hookjail_policy::{HookView, Metadata, Network, Spawn};

use crate::seccomp::{
    arguments::{ArgTest, Wanted},
    rules::{FilterSpec, Rule, rule},
    setup::{Credentials, SetupNeeds},
    syscalls::nr,
    tests::interpreter::Verdict,
};

/// The process id the hook has in these tests.
pub(crate) const PID: u32 = 4242;

/// Flags of the `clone` that makes a child.
pub(crate) const CLONE_FLAGS: u32 =
    (libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD).cast_unsigned();

/// Returns every combination of the filters' inputs.
pub(crate) fn specs() -> Vec<FilterSpec> {
    let mut specs = Vec::new();
    for network in [Network::None, Network::Outbound] {
        for spawn in [Spawn::Processes, Spawn::Threads] {
            for metadata in [Metadata::Change, Metadata::Keep] {
                let spec = |landlock_abi, view| FilterSpec {
                    landlock_abi,
                    metadata,
                    mounts: false,
                    network,
                    spawn,
                    view,
                };
                specs.extend((1..=7).map(|abi| spec(abi, HookView::Machine)));
                // The other inputs do not depend on each other.
                specs.push(spec(7, HookView::Own));
            }
        }
    }
    specs
}

/// Returns all kinds of set-up.
pub(crate) fn needs() -> [SetupNeeds; 8] {
    use Credentials::{Drop, Keep};
    [
        (Drop, false, false, false),
        (Keep, false, false, false),
        (Drop, true, false, false),
        (Keep, true, false, false),
        (Drop, true, true, false),
        (Keep, false, true, false),
        (Drop, true, true, true),
        (Keep, true, false, true),
    ]
    .map(|(credentials, mounts, cgroup, tree)| SetupNeeds {
        cgroup,
        clone_flags: CLONE_FLAGS,
        credentials,
        mounts,
        tree,
    })
}

/// Returns the verdict of `rule` on a call by the hook of process id [`PID`].
pub(crate) fn expected(rule: &Rule, args: &[u64; 6]) -> Verdict {
    match rule {
        Rule::Allow => Verdict::Allow,
        Rule::AllowWhen { ways, .. }
            if ways
                .iter()
                .any(|way| way.iter().all(|test| holds(test, args))) =>
        {
            Verdict::Allow
        }
        Rule::AllowWhen { otherwise, .. } => Verdict::Errno(*otherwise),
        Rule::Errno(errno) => Verdict::Errno(*errno),
        Rule::Kill => Verdict::Kill,
    }
}

fn holds(test: &ArgTest, args: &[u64; 6]) -> bool {
    let (mask, value) = match test.wanted {
        Wanted::Exactly(value) => (u64::MAX, value),
        Wanted::Masked { mask, value } => (mask, value),
        Wanted::OwnGroup => (u64::MAX, u64::from(PID.wrapping_neg())),
        Wanted::OwnPid => (u64::MAX, u64::from(PID)),
    };
    (args[usize::from(test.index)] ^ value) & mask & test.width.mask() == 0
}

/// Returns arguments for which `tests` hold; untested ones are `rest`.
pub(crate) fn satisfying(tests: &[ArgTest], rest: u64) -> [u64; 6] {
    let mut args = [rest; 6];
    for test in tests {
        args[usize::from(test.index)] = values(test)[0];
    }
    args
}

/// Arguments of the calls whose verdict depends on them, by number. They are every combination of values at the boundaries of
/// tests in any profile or in the set-up.
#[derive(Debug)]
pub(crate) struct Vectors(BTreeMap<u32, Vec<[u64; 6]>>);

impl Vectors {
    /// Collects the arguments from all rules.
    pub(crate) fn new() -> Self {
        let mut tests: BTreeMap<u32, Vec<ArgTest>> = BTreeMap::new();
        for nr in 0..1024 {
            for spec in specs() {
                if let Rule::AllowWhen { ways, .. } = rule(&spec, nr) {
                    tests
                        .entry(nr)
                        .or_default()
                        .extend(ways.into_iter().flatten());
                }
            }
        }
        for (nr, way) in needs()[0].calls() {
            tests.entry(nr).or_default().extend(way);
        }
        Self(
            tests
                .into_iter()
                .map(|(nr, tests)| (nr, combinations(&tests)))
                .collect(),
        )
    }

    /// Returns the arguments to call `nr` with.
    pub(crate) fn arguments(&self, nr: u32) -> &[[u64; 6]] {
        self.0.get(&nr).map_or(&PLAIN, Vec::as_slice)
    }

    /// Iterates over the calls whose verdict depends on their arguments. That is so in some profile or in the set-up.
    pub(crate) fn tested(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }
}

const PLAIN: [[u64; 6]; 3] = [[0; 6], [1; 6], [u64::MAX; 6]];

fn combinations(tests: &[ArgTest]) -> Vec<[u64; 6]> {
    let mut vectors = PLAIN.to_vec();
    let mut tested = BTreeMap::<usize, BTreeSet<u64>>::new();
    for test in tests {
        tested
            .entry(test.index.into())
            .or_default()
            .extend(values(test));
    }
    let mut product = vec![[0; 6], [u64::MAX; 6]];
    for (&index, values) in &tested {
        let with = |args: [u64; 6], value| {
            let mut args = args;
            args[index] = value;
            args
        };
        product = product
            .iter()
            .flat_map(|&args| values.iter().map(move |&value| with(args, value)))
            .collect();
    }
    vectors.extend(product);
    vectors
}

/// Returns values for the tested argument. First one for which the test holds, then its neighbours.
fn values(test: &ArgTest) -> Vec<u64> {
    let pid = u64::from(PID);
    let group = u64::from(PID.wrapping_neg());
    let mut values = match test.wanted {
        Wanted::Exactly(value) => vec![value, value.wrapping_add(1), value.wrapping_sub(1)],
        Wanted::Masked { mask, value } => {
            let mask = mask & test.width.mask();
            let free = !mask & test.width.mask();
            let bits: Vec<u64> = (0..64)
                .map(|bit| 1 << bit)
                .filter(|bit| mask & bit != 0)
                .collect();
            // The many spare bits of a socket type are alike: the lowest and the highest stand for all.
            let ends = bits.iter().take(5).chain(bits.iter().rev().take(7));
            [value, value | free]
                .into_iter()
                .chain(ends.map(|bit| value ^ bit))
                .collect()
        }
        Wanted::OwnGroup => vec![
            group,
            pid.wrapping_neg(),
            group + 1,
            pid,
            u64::from(u32::MAX),
        ],
        Wanted::OwnPid => vec![pid, pid + 1, pid.wrapping_neg()],
    };
    // The same in its lower half, and all bits.
    values.extend([values[0] ^ 1 << 32, values[0] << 32, u64::MAX]);
    values
}

/// Calls of the set-up that every hook may make too.
pub(crate) const SHARED_WITH_HOOKS: [u32; 15] = [
    nr::close_range,
    nr::dup3,
    nr::execve,
    nr::execveat,
    nr::exit_group,
    nr::fchdir,
    nr::getpid,
    nr::kill,
    nr::openat,
    nr::rt_sigaction,
    nr::rt_sigprocmask,
    nr::setresgid,
    nr::setresuid,
    nr::umask,
    nr::write,
];
