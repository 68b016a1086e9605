//! Filters against the table: for every number, the composed programs must agree with `rule`.

mod interpreter;
mod model;

use std::{slice, thread};

use libc::sock_filter;
use proptest::prelude::*;

use hookjail_policy::{HookView, Metadata, Network, Spawn};

use self::{
    interpreter::{Call, Verdict, assert_loadable, run, verdict},
    model::{CLONE_FLAGS, PID, SHARED_WITH_HOOKS, Vectors, expected, needs, satisfying, specs},
};
use crate::seccomp::{
    arguments::ArgTest,
    closing::closing,
    filter::{ALLOWLIST, OBSERVED, ask_instead_of_refusing, inherited, observing},
    rules::{FilterSpec, Rule, rule},
    setup::SetupNeeds,
    syscalls::{AUDIT_ARCH, name, newest, nr},
};

const X86_64: u32 = 0xc000_003e;
const I386: u32 = 0x4000_0003;
const ARM: u32 = 0x4000_0028;
const AARCH64: u32 = 0xc000_00b7;

/// Numbers beyond 1023 around which a filter's verdict could change.
const FAR: [u32; 9] = [
    1024,
    4096,
    0x3fff_ffff,
    0x4000_0000,
    0x4000_0001,
    0x4000_0208,
    0x7fff_ffff,
    0x8000_0000,
    u32::MAX,
];

#[test]
fn composed_filters_say_what_the_table_says() {
    let vectors = Vectors::new();
    for_every_spec(|spec, needs| {
        let composed = composed(spec, needs);
        for nr in (0..1024).chain(FAR) {
            let rule = rule(spec, nr);
            // Of arguments that should not matter here, some will do.
            let matter = matches!(rule, Rule::AllowWhen { .. })
                || needs.calls().iter().any(|&(need, _)| need == nr);
            for &args in vectors
                .arguments(nr)
                .iter()
                .step_by(if matter { 1 } else { 11 })
            {
                let actual = verdict(
                    &composed,
                    &Call {
                        arch: AUDIT_ARCH,
                        args,
                        nr,
                    },
                );
                assert_eq!(
                    actual,
                    expected(&rule, &args),
                    "call {nr} {args:x?} under {spec:?} with {needs:?}"
                );
            }
        }
    });
}

/// Checks observed calls: none continues that the table refuses. None that it allows continues unobserved.
#[test]
fn an_observed_call_goes_on_where_the_table_lets_it_and_nowhere_else() {
    let vectors = Vectors::new();
    for_every_spec(|spec, needs| {
        let (mut programs, passing) = observing(spec, needs).unwrap();
        ask_instead_of_refusing(&mut programs[ALLOWLIST]);
        programs.push(closed(spec, needs));
        for nr in (0..1024).chain(FAR) {
            let rule = rule(spec, nr);
            let observed = OBSERVED.contains(&nr);
            for &args in vectors
                .arguments(nr)
                .iter()
                .step_by(if observed { 1 } else { 11 })
            {
                let expected = expected(&rule, &args);
                let call = Call {
                    arch: AUDIT_ARCH,
                    args,
                    nr,
                };
                let answered = match verdict(&programs, &call) {
                    Verdict::Ask if passing.lets(nr, &args) => Verdict::Allow,
                    Verdict::Ask => Verdict::Errno(libc::EPERM),
                    Verdict::Allow if observed => panic!("call {nr} {args:x?} goes on unseen"),
                    Verdict::Allow => Verdict::Allow,
                    Verdict::Errno(errno) => Verdict::Errno(errno),
                    Verdict::Kill => Verdict::Kill,
                };
                assert_eq!(
                    answered, expected,
                    "call {nr} {args:x?} under {spec:?} with {needs:?}"
                );
            }
        }
    });
}

#[test]
fn inherited_filters_let_the_set_up_through() {
    for_every_spec(|spec, needs| {
        let inherited = inherited(spec, needs).unwrap();
        let shared = SHARED_WITH_HOOKS.map(|nr| (nr, Vec::new()));
        let with = |index, value: libc::c_int| ArgTest::int(index, value as u64);
        let in_one_way = [
            (nr::prlimit64, vec![ArgTest::int(0, 0)]),
            (
                nr::prctl,
                vec![with(0, libc::PR_SET_PDEATHSIG), with(1, libc::SIGKILL)],
            ),
        ];
        let all = needs.calls().into_iter().chain(shared);
        for (nr, tests) in all.chain(in_one_way) {
            // Flags that truncate are not among what the set-up opens files with.
            let rest = [
                0,
                if nr == nr::openat {
                    0
                } else {
                    0xdead_beef_0000_0007
                },
            ];
            for args in rest.map(|rest| satisfying(&tests, rest)) {
                assert_eq!(
                    verdict(
                        &inherited,
                        &Call {
                            arch: AUDIT_ARCH,
                            args,
                            nr
                        }
                    ),
                    Verdict::Allow,
                    "{nr} {args:x?} {spec:?}"
                );
            }
        }
    });
}

#[test]
fn set_up_opens_what_the_child_does_to_itself_and_nothing_else() {
    let opened = |needs: SetupNeeds| -> Vec<_> {
        let calls = (0..1024).filter(|&nr| !needs.opened(&STRICT, nr).is_empty());
        let mut names: Vec<_> = calls.filter_map(name).collect();
        names.sort_unstable();
        names
    };
    let [drop, keep, .., in_cgroup, _, in_tree] = needs();
    let always = ["clone", "landlock_restrict_self", "seccomp", "setpgid"];
    assert_eq!(opened(keep), always);
    let [first, rest @ ..] = always;
    let of_cgroup: Vec<_> = [first, "clone3"].into_iter().chain(rest).collect();
    assert_eq!(opened(in_cgroup), of_cgroup);
    let tree = [
        "mount",
        "mount_setattr",
        "move_mount",
        "open_tree",
        "openat2",
        "setsid",
        "unshare",
    ];
    assert!(tree.iter().all(|call| opened(in_tree).contains(call)));
    assert_eq!(
        opened(drop),
        [
            "capset",
            "clone",
            "landlock_restrict_self",
            "seccomp",
            "setgroups",
            "setpgid",
        ]
    );
}

#[test]
fn closing_filter_leaves_nothing_of_the_set_up_open() {
    for_every_spec(|spec, needs| {
        let closing = closed(spec, needs);
        let composed = composed(spec, needs);
        for (nr, tests) in needs.calls() {
            let rule = rule(spec, nr);
            for args in [0, 1, u64::MAX].map(|rest| satisfying(&tests, rest)) {
                let call = Call {
                    arch: AUDIT_ARCH,
                    args,
                    nr,
                };
                let expected = expected(&rule, &args);
                assert_eq!(
                    verdict(&composed, &call),
                    expected,
                    "call {nr} {args:x?} under {spec:?}"
                );
                let alone = verdict(slice::from_ref(&closing), &call);
                assert_eq!(
                    alone, expected,
                    "closing filter alone, call {nr} {args:x?} under {spec:?}"
                );
            }
        }
    });
}

#[test]
fn set_up_calls_are_denied_to_every_hook() {
    for_every_spec(|spec, needs| {
        let composed = composed(spec, needs);
        for (nr, tests) in needs.calls() {
            // A child of one's own is what the other profile is for.
            let args = satisfying(&tests, 1);
            let is_open = spec.spawn == Spawn::Processes
                && match nr {
                    nr::clone => args[0] == u64::from(CLONE_FLAGS),
                    nr::setpgid | nr::setsid => spec.view == HookView::Own,
                    _ => false,
                };
            let verdict = verdict(
                &composed,
                &Call {
                    arch: AUDIT_ARCH,
                    args,
                    nr,
                },
            );
            assert_eq!(
                verdict == Verdict::Allow,
                is_open,
                "call {nr} under {spec:?}"
            );
        }
    });
}

#[test]
fn filter_that_forgets_one_closing_would_be_noticed() {
    let (spec, [needs, ..]) = (STRICT, needs());
    let inherited = inherited(&spec, &needs).unwrap();
    for (nr, tests) in needs.calls() {
        let args = satisfying(&tests, 1);
        let open = verdict(
            &inherited,
            &Call {
                arch: AUDIT_ARCH,
                args,
                nr,
            },
        );
        assert_ne!(
            open,
            expected(&rule(&spec, nr), &args),
            "call {nr} needs no closing"
        );
    }
}

#[test]
fn every_other_architecture_kills() {
    for_every_spec(|spec, needs| {
        let composed = composed(spec, needs);
        let others = [
            I386,
            X86_64,
            ARM,
            AARCH64,
            0,
            u32::MAX,
            AUDIT_ARCH ^ 1,
            AUDIT_ARCH & 0xff,
        ];
        for arch in others.into_iter().filter(|arch| *arch != AUDIT_ARCH) {
            for nr in [0, 1, nr::exit_group, nr::socket, 9999, u32::MAX] {
                assert_eq!(
                    verdict(
                        &composed,
                        &Call {
                            arch,
                            args: [0; 6],
                            nr
                        }
                    ),
                    Verdict::Kill
                );
            }
        }
    });
}

#[test]
fn no_filter_of_a_spawner_kills_what_the_spawner_calls() {
    for_every_spec(|spec, needs| {
        let inherited = inherited(spec, needs).unwrap();
        for nr in [
            nr::mmap,
            nr::futex,
            nr::write,
            nr::clone3,
            nr::clone,
            nr::seccomp,
            nr::socket,
            nr::sched_setaffinity,
        ] {
            assert_ne!(
                verdict(
                    &inherited,
                    &Call {
                        arch: AUDIT_ARCH,
                        args: [1; 6],
                        nr
                    }
                ),
                Verdict::Kill,
                "{nr}"
            );
        }
    });
}

#[test]
fn kernel_accepts_the_shape_of_every_program() {
    for_every_spec(|spec, needs| {
        for program in composed(spec, needs) {
            assert_loadable(&program);
        }
    });
}

#[test]
fn closing_filter_is_short_because_every_run_loads_it() {
    for_every_spec(|spec, needs| {
        let length = closed(spec, needs).len();
        let limit = if spec.landlock_abi < 6 { 30 } else { 20 };
        let limit = if needs.mounts { limit + 12 } else { limit };
        let limit = if needs.cgroup { limit + 2 } else { limit };
        assert!(
            length <= limit,
            "{length} instructions for {spec:?} with {needs:?}"
        );
    });
}

#[test]
fn process_id_is_asked_for_only_where_landlock_cannot_scope_signals() {
    for_every_spec(|spec, needs| {
        let closing = closing(spec, needs).unwrap();
        let slots = (closing.own_pid_slots.len(), closing.own_group_slots.len());
        assert_eq!(
            slots,
            if spec.landlock_abi < 6 {
                (2, 1)
            } else {
                (0, 0)
            }
        );
    });
}

#[test]
fn signals_reach_nobody_before_the_process_id_is_filled_in() {
    let spec = FilterSpec {
        landlock_abi: 5,
        ..STRICT
    };
    let closing = closing(&spec, &needs()[0]).unwrap();
    for target in [
        u64::from(PID),
        u64::from(PID.wrapping_neg()),
        1,
        u64::from(u32::MAX),
    ] {
        for nr in [nr::kill, nr::tgkill] {
            let call = Call {
                arch: AUDIT_ARCH,
                args: [target, 9, 9, 0, 0, 0],
                nr,
            };
            assert_ne!(run(&closing.program, &call), libc::SECCOMP_RET_ALLOW);
        }
    }
}

#[test]
fn every_list_has_its_place_in_the_order_of_loading() {
    let answers = |spec: &FilterSpec| -> Vec<Verdict> {
        let numbers = [
            nr::mount,
            nr::setsid,
            nr::clone3,
            nr::getxattr,
            newest() + 1,
        ];
        let programs = inherited(spec, &needs()[0]).unwrap();
        let call = |nr| Call {
            arch: AUDIT_ARCH,
            args: [0; 6],
            nr,
        };
        programs
            .iter()
            .zip(numbers)
            .map(|(program, nr)| verdict(std::slice::from_ref(program), &call(nr)))
            .collect()
    };
    let [eperm, enosys, enotsup] = [libc::EPERM, libc::ENOSYS, libc::ENOTSUP].map(Verdict::Errno);
    assert_eq!(
        answers(&STRICT),
        [Verdict::Kill, eperm, enosys, enotsup, enosys]
    );
}

proptest! {
    #[test]
    fn arbitrary_calls_meet_the_table(index in 0_usize..56, drop in any::<bool>(), calls in calls()) {
        let spec = specs()[index];
        let needs = needs()[usize::from(drop)];
        let composed = composed(&spec, &needs);
        for (nr, args) in calls {
            let actual = verdict(&composed, &Call { arch: AUDIT_ARCH, args, nr });
            prop_assert_eq!(actual, expected(&rule(&spec, nr), &args), "call {} {:x?} under {:?}", nr, args, spec);
        }
    }
}

/// Returns calls, most of them with tested arguments. Values are from the corners of their range.
fn calls() -> impl Strategy<Value = Vec<(u32, [u64; 6])>> {
    let tested = prop::sample::select(Vectors::new().tested().collect::<Vec<_>>());
    let number = prop_oneof![3 => tested, 1 => 0_u32..600, 1 => any::<u32>()];
    let bit = (0_u32..64).prop_map(|bit| 1_u64 << bit);
    let argument = prop_oneof![
        0_u64..64,
        bit,
        any::<u64>(),
        any::<u32>().prop_map(u64::from),
        0x5400_u64..0x5480
    ];
    prop::collection::vec((number, prop::array::uniform6(argument)), 64)
}

fn composed(spec: &FilterSpec, needs: &SetupNeeds) -> Vec<Vec<sock_filter>> {
    let mut programs = inherited(spec, needs).unwrap();
    programs.push(closed(spec, needs));
    programs
}

fn closed(spec: &FilterSpec, needs: &SetupNeeds) -> Vec<sock_filter> {
    let closing = closing(spec, needs).unwrap();
    closing.of_process(PID)[..closing.program.len()].to_vec()
}

/// Checks every combination of profile and set-up, on two threads.
fn for_every_spec(check: impl Fn(&FilterSpec, &SetupNeeds) + Sync) {
    let specs = specs();
    thread::scope(|scope| {
        for half in specs.chunks(specs.len() / 2) {
            let check = &check;
            scope.spawn(move || {
                for spec in half {
                    for needs in &needs() {
                        check(spec, needs);
                    }
                }
            });
        }
    });
}

const STRICT: FilterSpec = FilterSpec {
    landlock_abi: 7,
    metadata: Metadata::Keep,
    mounts: false,
    network: Network::None,
    spawn: Spawn::Threads,
    view: HookView::Machine,
};
