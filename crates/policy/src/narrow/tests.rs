use std::sync::LazyLock;

use proptest::{prelude::*, sample::select};

use super::*;
use crate::{References, registry::Registry};

#[test]
fn the_workspace_is_bound() {
    let cases = [
        ("strict", Access::Read, WorkingDir::Scratch),
        ("pipeline", Access::Read, WorkingDir::Scratch),
        ("workspace-ro", Access::Execute, WorkingDir::Workspace),
        ("workspace-rw", Access::Write, WorkingDir::Workspace),
    ];
    for (name, access, working_dir) in cases {
        let policy = profile(name);

        let narrowed = narrow(
            &policy,
            Bindings::workspace(Some(Path::new("/home/me/work/"))),
            &Narrow::default(),
        )
        .unwrap();

        assert_eq!(
            narrowed.files.named,
            [grant(access, "/home/me/work")],
            "{name}"
        );
        assert_eq!(narrowed.files.system, policy.files.system, "{name}");
        assert_eq!(narrowed.working_dir, working_dir, "{name}");
        assert_eq!(narrowed.digest, policy.digest, "{name}");
    }
}

#[test]
fn a_grant_with_if_bound_falls_away_without_a_workspace() {
    for name in ["strict", "pipeline", "network"] {
        let narrowed = narrow(&profile(name), Bindings::default(), &Narrow::default()).unwrap();
        assert_eq!(narrowed.files.named, [], "{name}");
    }
}

#[test]
fn a_profile_that_needs_a_workspace_is_refused_without_one() {
    for name in ["workspace-ro", "workspace-rw"] {
        let refused = narrow(&profile(name), Bindings::default(), &Narrow::default()).unwrap_err();
        assert_eq!(refused.field(), "hook.workspace");
        assert_eq!(
            refused.to_string(),
            format!(
                "`hook.workspace` is not set, and profile `{name}` grants `${{workspace}}`; name it, on the command line by `--workspace DIR`"
            )
        );
    }
}

#[test]
fn where_a_workspace_is_withheld_all_grants_but_those_of_it_stay() {
    let withheld = Bindings {
        workspace_withheld: true,
        ..Bindings::default()
    };
    for name in ["workspace-ro", "workspace-rw", "develop"] {
        let base = profile(name);
        let narrowed = narrow(&base, withheld, &Narrow::default()).unwrap();
        let others = base.files.named.iter();
        let others: Vec<_> = others
            .filter(|grant| !matches!(grant.place, GrantPlace::Workspace { .. }))
            .cloned()
            .collect();
        assert_eq!(narrowed.files.named, others, "{name}");
        assert!(others.len() < base.files.named.len(), "{name}");
        assert_eq!(narrowed.working_dir, WorkingDir::Scratch);
        // Nothing of a workspace is left to keep, so that no mount is needed for it.
        assert!(!narrowed.files.keep(), "{name}");
        // A path of the place is not to be had by asking for it.
        let request = Narrow {
            read: vec!["/w/file".into()],
            ..Narrow::default()
        };
        assert!(matches!(
            narrow(&base, withheld, &request),
            Err(Widened::Path { .. })
        ));
    }
}

#[test]
fn a_workspace_that_no_profile_could_grant_is_refused() {
    for workspace in [
        "/",
        "/proc",
        "/proc/self/root",
        "/sys",
        "/dev",
        "/run",
        "work",
        "",
        "/home/..",
        "/a/../b",
    ] {
        for name in ["strict", "workspace-rw"] {
            let refused = narrow(
                &profile(name),
                Bindings::workspace(Some(Path::new(workspace))),
                &Narrow::default(),
            )
            .unwrap_err();
            assert_eq!(refused.field(), "hook.workspace", "{workspace}");
        }
    }
}

#[test]
fn a_writable_workspace_above_a_read_only_grant_is_refused() {
    let refused = narrow(
        &profile("workspace-rw"),
        Bindings::workspace(Some(Path::new("/etc"))),
        &Narrow::default(),
    )
    .unwrap_err();

    assert!(
        matches!(&refused, Widened::BelowWritable { outer, .. } if outer == "/etc"),
        "{refused}"
    );
    assert_eq!(refused.field(), "hook.workspace");
}

#[test]
fn read_paths_keep_what_their_grant_allows_but_writing() {
    let narrowed = |name: &str, narrow_to: &Narrow| {
        narrow(
            &profile(name),
            Bindings::workspace(Some(Path::new("/w"))),
            narrow_to,
        )
        .map(|policy| policy.files.named)
    };
    let read = |paths: &[&str]| Narrow {
        read: list(paths),
        ..Narrow::default()
    };

    assert_eq!(
        narrowed("strict", &read(&["/w/src"])).unwrap(),
        [grant(Access::Read, "/w/src")]
    );
    assert_eq!(
        narrowed("workspace-ro", &read(&["/w/src", "/w/./doc/", "/w/src"])).unwrap(),
        [
            grant(Access::Execute, "/w/doc"),
            grant(Access::Execute, "/w/src")
        ]
    );
    let both = Narrow {
        read: list(&["/w", "/w/out"]),
        write: list(&["/w/out"]),
        ..Narrow::default()
    };
    assert_eq!(
        narrowed("workspace-rw", &both).unwrap(),
        [grant(Access::Execute, "/w"), grant(Access::Write, "/w/out")]
    );
    // The write grant stands, so nothing in it can be read-only.
    let refused = narrowed("workspace-rw", &read(&["/w/src"])).unwrap_err();
    let (inner, outer) = ("/w/src".to_owned(), "/w".to_owned());
    assert_eq!(
        refused,
        Widened::BelowWritable {
            field: "narrow.read",
            inner,
            outer
        }
    );
}

#[test]
fn the_hook_starts_in_scratch_where_the_workspace_is_no_longer_granted() {
    let taken_away = [
        Narrow {
            write: list(&["/w/out"]),
            ..Narrow::default()
        },
        Narrow {
            without_named_grants: true,
            ..Narrow::default()
        },
    ];
    for narrow_to in taken_away {
        let narrowed = narrow(
            &profile("workspace-rw"),
            Bindings::workspace(Some(Path::new("/w"))),
            &narrow_to,
        )
        .unwrap();
        assert_eq!(narrowed.working_dir, WorkingDir::Scratch);
    }
}

#[test]
fn paths_outside_the_named_grants_are_refused() {
    // `/usr` is granted, but as a system directory: nothing is narrowed to it.
    for path in ["/x", "/", "/w2", "/usr/bin", "/w/../x", "/w/..", "w", ""] {
        let read = Narrow {
            read: list(&["/w", path]),
            ..Narrow::default()
        };
        let refused = narrow(
            &profile("workspace-ro"),
            Bindings::workspace(Some(Path::new("/w"))),
            &read,
        )
        .unwrap_err();
        assert_eq!(refused.field(), "narrow.read[1]", "{path}");

        let write = Narrow {
            write: list(&[path]),
            ..Narrow::default()
        };
        let refused = narrow(
            &profile("workspace-rw"),
            Bindings::workspace(Some(Path::new("/w"))),
            &write,
        )
        .unwrap_err();
        assert_eq!(refused.field(), "narrow.write[0]", "{path}");
    }
    let write = Narrow {
        write: list(&["/w/out"]),
        ..Narrow::default()
    };
    let refused = narrow(
        &profile("workspace-ro"),
        Bindings::workspace(Some(Path::new("/w"))),
        &write,
    )
    .unwrap_err();
    assert_eq!(
        refused.to_string(),
        "`narrow.write[0]` asks for `/w/out`, which lies in none of profile `workspace-ro`'s writable grants (`files.named`)"
    );
}

#[test]
fn more_output_is_refused_and_less_is_taken() {
    let policy = profile("strict");
    let ask = |bytes| {
        narrow(
            &policy,
            Bindings::default(),
            &Narrow {
                output_bytes: Some(bytes),
                ..Narrow::default()
            },
        )
    };

    assert_eq!(ask(1024).unwrap().limits.output_bytes, 1024);
    assert_eq!(ask(10 << 20).unwrap().limits.output_bytes, 10 << 20);
    let profile = policy.name.clone();
    assert_eq!(
        ask((10 << 20) + 1).unwrap_err(),
        Widened::Output {
            allowed: 10 << 20,
            asked: (10 << 20) + 1,
            profile
        }
    );
}

#[test]
fn network_spawn_and_named_grants_can_be_taken_away() {
    let narrow_to = Narrow {
        without_named_grants: true,
        without_network: true,
        without_spawn: true,
        ..Narrow::default()
    };

    let narrowed = narrow(
        &profile("network"),
        Bindings::workspace(Some(Path::new("/w"))),
        &narrow_to,
    )
    .unwrap();

    assert_eq!(
        (narrowed.network, narrowed.spawn),
        (Network::None, Spawn::Threads)
    );
    assert_eq!(narrowed.files.named, []);
}

#[test]
fn hosts_can_be_narrowed_to_those_inside_the_profiles() {
    let rules = |texts: &[&str]| -> Vec<Egress> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    };
    let named = Policy {
        egress: Arc::new(EgressRules {
            allowed: rules(&["*.example.org:443", "10.0.0.0/8:22 any"]),
            bytes: Some(7),
            connections: 3,
            ..EgressRules::default()
        }),
        network: Network::Named,
        ..profile("network")
    };
    let ask = |policy: &Policy, egress: &[&str]| {
        let egress = egress.iter().map(|&text| text.to_owned()).collect();
        let narrow_to = Narrow {
            egress,
            ..Narrow::default()
        };
        narrow(
            policy,
            Bindings::workspace(Some(Path::new("/w"))),
            &narrow_to,
        )
    };
    let kept = |egress: &[&str]| ask(&named, egress).unwrap().egress;

    assert_eq!(kept(&[]), named.egress);
    assert_eq!(
        *kept(&[
            "b.example.org:443",
            "a.example.org:443",
            "10.1.1.1:22 any",
            "a.example.org:443"
        ]),
        EgressRules {
            allowed: rules(&["10.1.1.1:22 any", "a.example.org:443", "b.example.org:443"]),
            bytes: Some(7),
            connections: 3,
            ..EgressRules::default()
        }
    );
    for wider in [
        "example.org:443",
        "a.example.org:80",
        "a.example.org:443 any",
        "11.1.1.1:22 any",
    ] {
        let error = ask(&named, &["a.example.org:443", wider]).unwrap_err();
        assert_eq!(error.reason(), Reason::ProfileWidened, "{wider}");
        assert_eq!(error.field(), "narrow.egress[1]");
        assert_eq!(
            error.to_string(),
            format!(
                "`narrow.egress[1]` is `{wider}`, and no rule in `egress` of profile `network` covers it"
            )
        );
    }
    let error = ask(&named, &["a.example.org"]).unwrap_err();
    assert_eq!(error.reason(), Reason::InvalidRequest);
    // A profile with every host, or none, names none.
    for network in [Network::Outbound, Network::None] {
        let other = Policy {
            egress: Arc::default(),
            network,
            ..named.clone()
        };
        let error = ask(&other, &["a.example.org:443"]).unwrap_err();
        assert_eq!(error.reason(), Reason::ProfileWidened);
    }
}

#[test]
fn a_cache_is_bound_in_grants_and_variables_and_by_no_other_path() {
    let references = References {
        cache: Some("/all".into()),
        home: Some("/home/ada".into()),
    };
    let registry = Registry::load(&[], &[], &references).unwrap();
    let develop = registry
        .find(&ProfileName::parse("develop").unwrap())
        .unwrap();
    let cached = |bound| {
        let narrowed = narrow(develop, bound, &Narrow::default()).unwrap();
        let mut named = narrowed.files.named.iter();
        let grant = named.find(|grant| grant.place.to_string().starts_with("/all"));
        let grant = grant.map(|grant| (grant.place.to_string(), grant.optional));
        (
            grant.unwrap(),
            narrowed.environment.set["UV_CACHE_DIR"].clone(),
        )
    };
    let workspace = Bindings::workspace(Some(Path::new("/w")));
    let unbound = (("/all".to_owned(), false), "/all/uv".to_owned());
    assert_eq!(cached(workspace), unbound);
    let bound = Bindings {
        cache: Some(Path::new("/all/a/files")),
        ..workspace
    };
    let of_run = (
        ("/all/a/files".to_owned(), true),
        "/all/a/files/uv".to_owned(),
    );
    assert_eq!(cached(bound), of_run);
    let mut other = (**develop).clone();
    other.files.cache = None;
    let narrowed = narrow(&other, bound, &Narrow::default()).unwrap();
    assert_eq!(narrowed.environment.set["UV_CACHE_DIR"], "/all/uv");
}

#[test]
fn a_source_is_bound_beside_the_workspace_and_falls_away_where_there_is_none() {
    let named = |bound: Bindings<'_>| {
        let narrowed = narrow(&profile("worktree"), bound, &Narrow::default());
        narrowed.map(|policy| policy.files.named)
    };
    let bound = |source: &'static str| Bindings {
        source: Some(Path::new(source)),
        ..Bindings::workspace(Some(Path::new("/w/tree")))
    };
    let env = GrantSpec {
        optional: true,
        ..grant(Access::Read, "/w/.env")
    };
    let tree = grant(Access::Write, "/w/tree");
    assert_eq!(named(bound("/w")).unwrap(), [env, tree.clone()]);
    let without = Bindings::workspace(Some(Path::new("/w/tree")));
    assert_eq!(named(without).unwrap(), [tree]);
    // Of the workspace all can be written, so that nothing in it can be read-only.
    assert!(matches!(
        named(bound("/w/tree")),
        Err(Widened::BelowWritable { .. })
    ));
    for nowhere in ["/", "/proc", "w", "/a/../w"] {
        assert_eq!(named(bound(nowhere)).unwrap_err().field(), "hook.source");
    }

    let mut policy = profile("worktree");
    policy.files.named = vec![GrantSpec {
        place: GrantPlace::Source {
            below: "conf".into(),
            if_bound: false,
        },
        ..grant(Access::Read, "/")
    }];
    let refused = narrow(&policy, Bindings::default(), &Narrow::default()).unwrap_err();
    assert_eq!(
        (refused.field(), refused.reason()),
        ("hook.source", Reason::InvalidRequest)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn narrowing_never_allows_more(
        named in prop::collection::vec(any_grant(), 0..4),
        system in prop::collection::vec(any_grant(), 0..2),
        source in prop::option::of(any_path()),
        workspace in prop::option::of(any_path()),
        asked in any_narrow(),
    ) {
        let mut policy = NETWORK.clone();
        policy.files = Files {
            cache: None,
            hidden: Vec::new(),
            named,
            read_only: Vec::new(),
            state: Vec::new(),
            system: system.into(),
            tokens: Vec::new(),
            transcripts: Vec::new(),
            unchanged: Vec::new(),
        };

        let bound = Bindings {
            source: source.as_deref(),
            workspace_withheld: true,
            ..Bindings::workspace(workspace.as_deref())
        };
        let Ok(narrowed) = narrow(&policy, bound, &asked) else { return Ok(()) };

        for grant in &narrowed.files.named {
            let GrantPlace::Path(path) = &grant.place else { panic!("{grant:?} is not bound") };
            // Every use of every path, not grant by grant: this must hold for the kernel's rules in the end.
            for below in ["", "a", "a/b", "b"] {
                let file = path.join(below);
                let allowed = uses(&policy.files.named, bound, &file);
                for granted in uses(std::slice::from_ref(grant), Bindings::default(), &file) {
                    prop_assert!(allowed.contains(&granted), "{granted} of {} was not allowed", file.display());
                }
            }
        }
        prop_assert_eq!(&narrowed.files.system, &policy.files.system);
        prop_assert!(narrowed.limits.output_bytes <= policy.limits.output_bytes);
        prop_assert!(narrowed.files.below_writable().is_none());
        prop_assert!(!asked.without_named_grants || narrowed.files.named.is_empty());
        prop_assert!(!asked.without_network || narrowed.network == Network::None);
        prop_assert!(!asked.without_spawn || narrowed.spawn == Spawn::Threads);
    }
}

/// Returns what grants allow on one file, by a second implementation. Parts are compared one by one, `..` goes up.
fn uses(grants: &[GrantSpec], bound: Bindings<'_>, file: &Path) -> Vec<&'static str> {
    let mut all = Vec::new();
    for grant in grants {
        let (bound, below) = match &grant.place {
            GrantPlace::Entries(_) => panic!("no named grant has a pattern"),
            GrantPlace::Path(path) => (Some(Path::new("/")), path),
            GrantPlace::Source { below, .. } => (bound.source, below),
            GrantPlace::Workspace { below, .. } => (bound.workspace, below),
        };
        let Some(root) = bound.map(|bound| bound.join(below)) else {
            continue;
        };
        let (root, file) = (parts(&root), parts(file));
        if file.len() < root.len() || file[..root.len()] != root[..] {
            continue;
        }
        all.extend(match grant.access {
            Access::Read => &["read"][..],
            Access::Execute => &["read", "execute"],
            Access::Write => &["read", "execute", "write"],
            Access::WriteFile if file.len() == root.len() => &["read", "write"],
            // Below a file there is nothing, so nothing to be allowed.
            Access::WriteFile => &[],
        });
    }
    all
}

fn parts(path: &Path) -> Vec<String> {
    let mut parts = Vec::new();
    for part in path.to_str().unwrap().split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            other => parts.push(other.to_owned()),
        }
    }
    parts
}

fn any_grant() -> impl Strategy<Value = GrantSpec> {
    let access = select(vec![
        Access::Execute,
        Access::Read,
        Access::Write,
        Access::WriteFile,
    ]);
    let below = select(vec!["", "a", "a/b"]);
    let place = prop_oneof![
        normal_path().prop_map(GrantPlace::Path),
        (below.clone(), any::<bool>()).prop_map(|(below, if_bound)| GrantPlace::Source {
            below: below.into(),
            if_bound
        }),
        (below, any::<bool>()).prop_map(|(below, if_bound)| GrantPlace::Workspace {
            below: below.into(),
            if_bound
        }),
    ];
    (access, place).prop_map(|(access, place)| GrantSpec {
        access,
        create: false,
        optional: false,
        place,
    })
}

fn any_narrow() -> impl Strategy<Value = Narrow> {
    let paths = || prop::collection::vec(any_path(), 0..3);
    let switches = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.1));
    (
        paths(),
        paths(),
        switches,
        prop::option::weighted(0.2, 0..(20u64 << 20)),
    )
        .prop_map(
            |(
                read,
                write,
                (without_network, without_spawn, without_named_grants),
                output_bytes,
            )| Narrow {
                egress: Vec::new(),
                output_bytes,
                read,
                without_named_grants,
                without_network,
                without_spawn,
                write,
            },
        )
}

/// Generates a path as a request might spell it.
fn any_path() -> impl Strategy<Value = PathBuf> {
    let part = select(vec!["a", "a", "b", "aa", ".", "..", ""]);
    prop::collection::vec(part, 1..4).prop_map(|parts| format!("/{}", parts.join("/")).into())
}

fn normal_path() -> impl Strategy<Value = PathBuf> {
    prop::collection::vec(select(vec!["a", "b", "aa"]), 1..3)
        .prop_map(|parts| format!("/{}", parts.join("/")).into())
}

fn profile(name: &str) -> Policy {
    let name = ProfileName::parse(name).unwrap();
    Registry::builtin()
        .unwrap()
        .find(&name)
        .unwrap()
        .as_ref()
        .clone()
}

fn grant(access: Access, path: &str) -> GrantSpec {
    GrantSpec {
        access,
        create: false,
        optional: false,
        place: GrantPlace::Path(path.into()),
    }
}

fn list(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).collect()
}

/// Loaded once, for the many cases of a property.
static NETWORK: LazyLock<Policy> = LazyLock::new(|| profile("network"));
