use std::sync::Arc;

use hookjail_policy::{
    HookView, HostSource, Metadata, Network, Spawn,
    egress::Egress,
    requests::RequestRule,
    ways::{Proxy, Ways},
};

use super::*;
use crate::seccomp::rules::Rule;

const STRICT: FilterSpec = FilterSpec {
    landlock_abi: 7,
    metadata: Metadata::Keep,
    mounts: false,
    network: Network::None,
    spawn: Spawn::Threads,
    view: HookView::Machine,
};

const OPEN: FilterSpec = FilterSpec {
    metadata: Metadata::Change,
    mounts: false,
    network: Network::Outbound,
    spawn: Spawn::Processes,
    ..STRICT
};

fn ask(spec: &FilterSpec, name: &str, arguments: &[&str]) -> Explanation {
    let number = number(name).unwrap();
    let texts: Vec<_> = arguments.iter().map(|&text| text.to_owned()).collect();
    call(spec, number, &parse_arguments(number, &texts).unwrap())
}

#[test]
fn every_parameter_that_a_rule_looks_at_has_a_name() {
    for abi in 1..=9 {
        for spec in [STRICT, OPEN].map(|spec| FilterSpec {
            landlock_abi: abi,
            ..spec
        }) {
            for number in syscalls::numbers() {
                let Rule::AllowWhen { ways, .. } = rule(&spec, number) else {
                    continue;
                };
                for test in ways.iter().flatten() {
                    let named = parameters(number).get(usize::from(test.index));
                    assert!(named.is_some(), "{:?} {test:?}", syscalls::name(number));
                }
                let words = words(number, &ways);
                assert!(!words.is_empty() && !words.contains("argument"), "{words}");
            }
        }
    }
}

#[test]
fn an_answer_is_the_tables_with_or_without_arguments() {
    let table = [
        ("read", &[][..], Verdict::Allowed),
        ("unshare", &[], Verdict::Killed),
        ("clone3", &[], Verdict::Refused(libc::ENOSYS)),
        ("bind", &[], Verdict::Refused(libc::EPERM)),
        ("clone", &[], Verdict::Depends),
        (
            "clone",
            &["flags=0x10000000"],
            Verdict::Refused(libc::EPERM),
        ),
        ("clone", &["flags=CLONE_VM|CLONE_THREAD"], Verdict::Allowed),
        (
            "clone",
            &["flags=CLONE_THREAD|CLONE_NEWUSER"],
            Verdict::Refused(libc::EPERM),
        ),
        ("fcntl", &["cmd=F_SETFD"], Verdict::Allowed),
        ("fcntl", &["1=8"], Verdict::Refused(libc::EPERM)),
        (
            "socketpair",
            &["domain=AF_UNIX", "type=SOCK_STREAM|SOCK_CLOEXEC"],
            Verdict::Allowed,
        ),
        ("socketpair", &["domain=AF_UNIX"], Verdict::Depends),
        (
            "socketpair",
            &["domain=AF_UNIX", "type=SOCK_DGRAM"],
            Verdict::Refused(libc::EPERM),
        ),
        ("ioctl", &["request=TCGETS"], Verdict::Allowed),
        (
            "ioctl",
            &["request=TIOCSTI"],
            Verdict::Refused(libc::ENOTTY),
        ),
        ("prctl", &["option=PR_SET_DUMPABLE"], Verdict::Depends),
        (
            "prctl",
            &["option=PR_SET_DUMPABLE", "value=1"],
            Verdict::Refused(libc::EPERM),
        ),
        ("prlimit64", &["pid=0"], Verdict::Allowed),
        ("prlimit64", &["pid=1"], Verdict::Refused(libc::EPERM)),
        ("600", &[], Verdict::Refused(libc::ENOSYS)),
    ];
    for (name, arguments, expected) in table {
        assert_eq!(
            ask(&STRICT, name, arguments).verdict,
            expected,
            "{name} {arguments:?}"
        );
    }
}

#[test]
fn the_system_calls_of_every_operation_on_a_path_are_open_to_every_hook() {
    let table: [(&str, &[&str]); 9] = [
        ("execve", &[]),
        ("linkat", &[]),
        ("mkdirat", &[]),
        ("openat", &["flags=O_RDONLY", "mode=0644"]),
        ("openat", &["flags=O_WRONLY|O_TRUNC", "mode=0644"]),
        ("openat", &["flags=O_WRONLY|O_CREAT|O_EXCL", "mode=0644"]),
        ("renameat2", &["flags=0"]),
        ("symlinkat", &[]),
        ("unlinkat", &[]),
    ];
    for landlock_abi in 1..=9 {
        for spec in [STRICT, OPEN].map(|spec| FilterSpec {
            landlock_abi,
            ..spec
        }) {
            for (name, arguments) in table {
                let verdict = ask(&spec, name, arguments).verdict;
                assert_eq!(verdict, Verdict::Allowed, "{name} {arguments:?}");
            }
        }
    }
}

#[test]
fn what_would_open_a_call_is_a_key_of_the_profile_or_nothing() {
    let table = [
        ("fork", "spawn = \"processes\""),
        ("chmod", "metadata = \"change\""),
        ("connect", "network = \"outbound\""),
        ("setsid", "nothing can: no profile opens it to a hook"),
        ("ptrace", "nothing can: no profile opens it to a hook"),
    ];
    for (name, expected) in table {
        let remedy = ask(&STRICT, name, &[])
            .remedy
            .map(|remedy| remedy.to_string());
        assert_eq!(remedy.as_deref(), Some(expected), "{name}");
    }
    assert_eq!(ask(&OPEN, "fork", &[]).remedy, None);
}

#[test]
fn rules_are_told_in_words() {
    assert_eq!(
        ask(&STRICT, "clone", &[]).rule,
        "`clone` is open where `flags` has CLONE_THREAD and has none of CLONE_NEWCGROUP, CLONE_NEWIPC, \
         CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS"
    );
    assert_eq!(
        ask(&STRICT, "socketpair", &[]).rule,
        [
            "`socketpair` is open where `domain` is AF_UNIX and `type` is SOCK_STREAM (SOCK_CLOEXEC, SOCK_NONBLOCK or not)",
            "or `domain` is AF_UNIX and `type` is SOCK_SEQPACKET (SOCK_CLOEXEC, SOCK_NONBLOCK or not)",
        ]
        .join("; ")
    );
    assert_eq!(
        ask(&STRICT, "setpriority", &[]).rule,
        "`setpriority` is open where `which` is PRIO_PROCESS and `who` is 0"
    );
    let prctl = ask(&STRICT, "prctl", &["option=PR_SET_MM"]).rule;
    assert!(
        prctl.starts_with("`prctl` is open only where `option` is one of PR_CAPBSET_READ, ")
            && prctl.ends_with(
                "PR_SET_VMA; or `option` is PR_SET_DUMPABLE and `value` is 0; \
                 or `option` is PR_SET_PDEATHSIG and `value` is 9"
            ),
        "{prctl}"
    );
}

#[test]
fn arguments_that_are_none_are_refused() {
    let parse = |name: &str, text: &str| {
        parse_arguments(number(name).unwrap(), &[text.to_owned()]).unwrap_err()
    };
    assert!(matches!(parse("clone", "flags"), ArgumentError::Shape(_)));
    assert!(matches!(
        parse("clone", "flag=1"),
        ArgumentError::Name { .. }
    ));
    assert!(matches!(parse("clone", "6=1"), ArgumentError::Name { .. }));
    assert!(matches!(
        parse("clone", "flags=SOCK_RAW"),
        ArgumentError::Value { .. }
    ));
    assert_eq!(number("no_such_call"), None);
}

#[test]
fn hosts_are_for_profiles_with_a_network() {
    let target = "a.example.org:443".parse().unwrap();
    for transport in [Transport::Tcp, Transport::Udp] {
        assert_eq!(
            host(&STRICT, &EgressRules::default(), transport, &target).verdict,
            Verdict::Refused(libc::EPERM)
        );
        assert_eq!(
            host(&OPEN, &EgressRules::default(), transport, &target).verdict,
            Verdict::Allowed
        );
    }
}

#[test]
fn the_requests_of_a_host_and_the_proxy_that_leads_there_are_explained() {
    let request: RequestRule = serde_json::from_value(serde_json::json!({
        "url": "https://a.org/x/", "secret": "token", "header": "X: {secret}",
    }))
    .unwrap();
    let rules = EgressRules {
        allowed: vec![request.egress()],
        requests: vec![request],
        ..EgressRules::default()
    };
    let proxied = EgressRules {
        ways: Arc::new(Ways {
            proxy: Some(Proxy {
                address: "http://proxy:3128".parse().unwrap(),
                direct: Vec::new(),
                password: None,
            }),
            ..Ways::default()
        }),
        ..rules.clone()
    };
    let spec = FilterSpec {
        network: Network::Named,
        ..STRICT
    };
    let notes = |rules: &EgressRules, target: &str| {
        let answer = host(&spec, rules, Transport::Tcp, &target.parse().unwrap());
        assert_eq!(answer.verdict, Verdict::Allowed, "{target}");
        answer.notes.join("; ")
    };
    for target in ["a.org:80", "a.org:443"] {
        let notes = notes(&rules, target);
        let part = "requests: https://a.org/x/ with the secret `token` as `X`";
        assert!(notes.contains(part), "{notes}");
        assert!(notes.contains("a public address"), "{notes}");
    }
    let notes = notes(&proxied, "a.org:443");
    assert!(notes.contains("by the proxy http://proxy:3128"), "{notes}");
    assert!(!notes.contains("a public address"), "{notes}");
}

#[test]
fn a_host_that_is_not_posted_to_has_no_rule_to_add() {
    let egress = EgressRules {
        allowed: vec!["a.org:443".parse().unwrap()],
        source: HostSource::HttpAllow,
        ..EgressRules::default()
    };
    let spec = FilterSpec {
        network: Network::Named,
        ..STRICT
    };
    let answer = |target: &str| host(&spec, &egress, Transport::Tcp, &target.parse().unwrap());
    let refused = answer("b.org:443");
    assert_eq!(refused.verdict, Verdict::Refused(libc::EACCES));
    assert!(refused.remedy.is_none());
    assert!(refused.notes.concat().contains("`http.allow`"));
    assert!(
        answer("a.org:443")
            .notes
            .concat()
            .contains("a private network")
    );
}

#[test]
fn a_named_host_is_explained_by_its_rule() {
    let parsed = |it: &str| it.parse::<Egress>().unwrap();
    let egress = EgressRules {
        allowed: ["a.org:443", "10.0.0.0/8:22 any"].map(parsed).to_vec(),
        ..EgressRules::default()
    };
    let spec = FilterSpec {
        network: Network::Named,
        ..STRICT
    };
    let answer =
        |transport, target: &str| host(&spec, &egress, transport, &target.parse().unwrap());
    let allowed = answer(Transport::Tcp, "A.org:443");
    assert_eq!(
        (allowed.verdict, allowed.by),
        (Verdict::Allowed, Enforcer::Relay)
    );
    for (transport, target, errno, remedy) in [
        (
            Transport::Tcp,
            "b.org:443",
            libc::EACCES,
            "egress = [\"b.org:443\"]",
        ),
        (
            Transport::Tcp,
            "a.org:80",
            libc::EACCES,
            "egress = [\"a.org:80 http\"]",
        ),
        (
            Transport::Tcp,
            "10.0.0.1:80",
            libc::EACCES,
            "egress = [\"10.0.0.1:80 any\"]",
        ),
        (
            Transport::Udp,
            "a.org:443",
            libc::EPERM,
            "network = \"outbound\"",
        ),
    ] {
        let refused = answer(transport, target);
        assert_eq!(refused.verdict, Verdict::Refused(errno), "{target}");
        assert_eq!(refused.remedy.unwrap().to_string(), remedy);
    }
    assert_eq!(
        answer(Transport::Tcp, "10.9.9.9:22").verdict,
        Verdict::Allowed
    );
    assert_eq!(
        call(&spec, nr::connect, &Arguments::default()).verdict,
        Verdict::Depends
    );
}
