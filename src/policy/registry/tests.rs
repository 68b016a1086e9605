use std::{
    fs::Permissions,
    os::unix::fs::{PermissionsExt, symlink},
};

use tempfile::TempDir;

use super::*;
use crate::{
    axis::{Axis, Demand},
    policy::{Access, GrantedBy, Metadata, Network, Spawn, WorkingDir},
};

#[test]
fn every_shipped_profile_loads() {
    let registry = Registry::builtin().unwrap();

    let names: Vec<&str> = registry.iter().map(|policy| policy.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "network",
            "pipeline",
            "strict",
            "workspace-ro",
            "workspace-rw"
        ]
    );
}

#[test]
fn shipped_profiles_differ_from_strict_in_what_they_are_for() {
    let registry = Registry::builtin().unwrap();
    let of = |name: &str| {
        let policy = find(&registry, name);
        let named: Vec<(String, Access)> = policy
            .files
            .named
            .iter()
            .map(|grant| (grant.place.to_string(), grant.access))
            .collect();
        let [(place, access)] = named.as_slice() else {
            panic!("{named:?}")
        };
        assert_eq!(place, "${workspace}");
        (
            policy.spawn,
            policy.network,
            policy.metadata,
            policy.granted_by,
            policy.working_dir,
            *access,
        )
    };
    use {Access::*, GrantedBy::*, WorkingDir::*};

    assert_eq!(
        of("strict"),
        (
            Spawn::Threads,
            Network::None,
            Metadata::Keep,
            Anyone,
            Scratch,
            Read
        )
    );
    assert_eq!(
        of("pipeline"),
        (
            Spawn::Processes,
            Network::None,
            Metadata::Keep,
            Anyone,
            Scratch,
            Read
        )
    );
    assert_eq!(
        of("workspace-ro"),
        (
            Spawn::Processes,
            Network::None,
            Metadata::Keep,
            Anyone,
            Workspace,
            Execute
        )
    );
    assert_eq!(
        of("workspace-rw"),
        (
            Spawn::Processes,
            Network::None,
            Metadata::Change,
            Anyone,
            Workspace,
            Write
        )
    );
    assert_eq!(
        of("network"),
        (
            Spawn::Processes,
            Network::Outbound,
            Metadata::Keep,
            Operator,
            Scratch,
            Read
        )
    );
}

#[test]
fn strict_requires_every_axis_but_those_a_host_may_lack() {
    let strict = find(&Registry::builtin().unwrap(), "strict");

    let wanted: Vec<Axis> = strict
        .demands
        .iter()
        .filter(|(_, d)| **d == Demand::Wanted)
        .map(|(axis, _)| axis)
        .collect();
    assert_eq!(
        wanted,
        [Axis::Metadata, Axis::Memory, Axis::Pids, Axis::Cpu]
    );
}

#[test]
fn no_shipped_profile_grants_other_processes_users_or_homes() {
    for policy in Registry::builtin().unwrap().iter() {
        for file in ["/proc", "/etc/passwd", "/home", "/etc/shadow", "/tmp"] {
            let reached = policy.files.system.iter().any(|grant| match &grant.place {
                Place::Path(path) => Path::new(file).starts_with(path) || path.starts_with(file),
                Place::Workspace { .. } => false,
            });
            assert!(!reached, "{} grants {file}", policy.name);
        }
    }
}

#[test]
fn a_resolved_profile_is_a_profile_file_of_the_same_digest() {
    for policy in Registry::builtin().unwrap().iter() {
        let dir = Dir::new();
        dir.write("copy.toml", &policy.to_toml());

        let copy = find(&dir.load().unwrap(), "copy");

        assert_eq!(copy.digest, policy.digest, "{}", policy.name);
    }
}

#[test]
fn a_directory_adds_profiles_and_replaces_shipped_ones() {
    let (first, second) = (Dir::new(), Dir::new());
    first.write(
        "lint.toml",
        "description = \"first\"\nextends = \"workspace-ro\"",
    );
    first.write(
        "strict.toml",
        &find(&Registry::builtin().unwrap(), "strict")
            .to_toml()
            .replace("30m", "5m"),
    );
    first.write("README", "not a profile");
    second.write(
        "lint.toml",
        "description = \"second\"\nextends = \"pipeline\"",
    );

    let registry = Registry::load(&[first.path(), second.path()], &[]).unwrap();

    assert_eq!(find(&registry, "lint").description, "second");
    for profile in ["strict", "lint", "workspace-rw"] {
        assert_eq!(
            find(&registry, profile).time.maximum.as_secs(),
            300,
            "{profile} follows strict"
        );
    }
}

#[test]
fn a_profile_is_found_by_its_exact_name_only() {
    let registry = Registry::builtin().unwrap();

    assert!(
        registry
            .find(&ProfileName::parse("strict").unwrap())
            .is_some()
    );
    assert!(
        registry
            .find(&ProfileName::parse("stric").unwrap())
            .is_none()
    );
    for never in [
        "../strict",
        "/strict",
        "Strict",
        "ѕtrict",
        "strict\0",
        "strict.toml",
        "",
    ] {
        assert_eq!(ProfileName::parse(never), None, "{never:?}");
    }
}

#[test]
fn parents_that_are_missing_or_go_in_circles_are_refused() {
    let cases = [
        (vec![("a", "nowhere")], "`extends` names `nowhere`"),
        (vec![("a", "../strict")], "`extends` names `../strict`"),
        (vec![("a", "a")], "`a` → `a`"),
        (
            vec![("a", "b"), ("b", "c"), ("c", "a")],
            "`a` → `b` → `c` → `a`",
        ),
        (
            vec![("a", "b"), ("b", "c"), ("c", "b")],
            "`a` → `b` → `c` → `b`",
        ),
        (
            vec![("strict", "pipeline")],
            "`extends` goes round in a circle",
        ),
    ];
    for (files, expected) in cases {
        let dir = Dir::new();
        for (child, parent) in files {
            dir.write(
                &format!("{child}.toml"),
                &format!("description = \"d\"\nextends = \"{parent}\""),
            );
        }
        let error = dir.load().unwrap_err();
        assert!(
            error.cause.to_string().contains(expected),
            "{expected}: {}",
            error.cause
        );
    }
}

#[test]
fn the_error_names_the_file() {
    let dir = Dir::new();
    dir.write("bad.toml", "description = 1");

    let error = dir.load().unwrap_err();

    assert_eq!(
        error.to_string(),
        format!(
            "cannot load profile `{}`",
            dir.path().join("bad.toml").display()
        )
    );
    assert_eq!(error.cause.to_string(), "`description` cannot be read");
}

#[test]
fn a_rule_is_applied_to_what_is_inherited_too() {
    let dir = Dir::new();
    dir.write(
        "bad.toml",
        "description = \"d\"\nextends = \"strict\"\nfiles.named = [{ path = \"/etc\", access = \"write\" }]",
    );

    let error = dir.load().unwrap_err();

    assert!(
        matches!(error.cause, ProfileCause::BelowWritable { .. }),
        "{}",
        error.cause
    );
}

#[test]
fn a_file_name_that_is_no_profile_name_is_refused() {
    for file in ["Upper.toml", "1.toml", "a b.toml", ".toml.toml"] {
        let dir = Dir::new();
        dir.write(file, "description = \"d\"\nextends = \"strict\"");
        assert!(
            matches!(dir.load().unwrap_err().cause, ProfileCause::Name),
            "{file}"
        );
    }
}

#[test]
fn what_others_could_have_written_is_refused() {
    for mode in [0o620, 0o602, 0o666] {
        let dir = Dir::new();
        let file = dir.write("p.toml", "description = \"d\"\nextends = \"strict\"");
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        assert_insecure(dir.load(), "`chmod go-w` it");

        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        dir.load().unwrap();
    }
    for mode in [0o770, 0o707, 0o1777] {
        let dir = Dir::new();
        fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        assert_insecure(dir.load(), "`chmod go-w` it");
    }
}

#[test]
fn links_and_other_things_than_files_are_refused() {
    let elsewhere = Dir::new();
    let file = elsewhere.write("p.toml", "description = \"d\"\nextends = \"strict\"");

    let dir = Dir::new();
    symlink(&file, dir.path().join("p.toml")).unwrap();
    assert_insecure(dir.load(), "not a regular file");

    let dir = Dir::new();
    fs::create_dir(dir.path().join("p.toml")).unwrap();
    assert_insecure(dir.load(), "not a regular file");

    let dir = Dir::new();
    nix::unistd::mkfifo(&dir.path().join("p.toml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_insecure(dir.load(), "not a regular file");

    let dir = Dir::new();
    symlink(elsewhere.path(), dir.path().join("profiles")).unwrap();
    assert_insecure(
        Registry::load(&[dir.path().join("profiles")], &[]),
        "not a directory",
    );
}

#[test]
fn a_file_longer_than_any_profile_is_refused_and_not_cut() {
    let dir = Dir::new();
    let comment = "#".repeat(1 << 20);
    dir.write(
        "p.toml",
        &format!("description = \"d\"\nextends = \"strict\"\n{comment}"),
    );

    let error = dir.load().unwrap_err();

    assert!(
        matches!(error.cause, ProfileCause::Unreadable(_)),
        "{}",
        error.cause
    );
}

#[test]
fn a_directory_that_does_not_exist_is_refused() {
    let dir = Dir::new();

    let error = Registry::load(&[dir.path().join("none")], &[]).unwrap_err();

    assert!(
        matches!(error.cause, ProfileCause::Unreadable(_)),
        "{}",
        error.cause
    );
}

#[test]
fn a_grant_that_reaches_the_daemons_own_is_refused() {
    let daemon = Dir::new();
    let state = daemon.path().join("state");
    fs::create_dir(&state).unwrap();
    symlink(&state, daemon.path().join("alias")).unwrap();
    fs::create_dir(daemon.path().join("beside")).unwrap();

    for (grant, reaches) in [
        ("", true),
        ("state", true),
        ("state/journal", true),
        ("alias", true),
        ("beside", false),
    ] {
        let dir = Dir::new();
        let path = daemon.path().join(grant).components().collect::<PathBuf>();
        dir.write(
            "p.toml",
            &format!(
                "description = \"d\"\nextends = \"strict\"\nfiles.named = [{{ path = \"{}\", access = \"read\" }}]",
                path.display()
            ),
        );

        let loaded = Registry::load(&[dir.path()], std::slice::from_ref(&state));

        match loaded {
            Ok(_) => assert!(!reaches, "{grant}"),
            Err(ProfileError {
                cause:
                    ProfileCause::Forbidden {
                        forbidden,
                        grant: named,
                    },
                ..
            }) => {
                assert!(reaches, "{grant}");
                assert_eq!((forbidden, named), (state.clone(), path));
            }
            Err(other) => panic!("{grant}: {}", other.cause),
        }
    }
}

/// A directory of profiles that only its user can write.
struct Dir(TempDir);

impl Dir {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        Self(dir)
    }

    fn path(&self) -> PathBuf {
        // Where the temporary directory is itself behind a link, the forbidden path is reported as it was given.
        self.0.path().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        path
    }

    fn load(&self) -> Result<Registry, ProfileError> {
        Registry::load(&[self.path()], &[])
    }
}

fn find(registry: &Registry, name: &str) -> Policy {
    registry
        .find(&ProfileName::parse(name).unwrap())
        .unwrap()
        .as_ref()
        .clone()
}

#[track_caller]
fn assert_insecure(loaded: Result<Registry, ProfileError>, expected: &str) {
    let cause = loaded.unwrap_err().cause;
    assert!(matches!(cause, ProfileCause::Insecure(_)), "{cause}");
    assert!(cause.to_string().contains(expected), "{cause}");
}

mod as_root {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn a_file_of_another_user_is_refused() {
        assert!(Uid::effective().is_root(), "this test needs root");
        let dir = Dir::new();
        let file = dir.write("p.toml", "description = \"d\"\nextends = \"strict\"");
        std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
        assert_insecure(dir.load(), "neither root nor the daemon's user");

        let dir = Dir::new();
        std::os::unix::fs::chown(dir.path(), Some(65534), None).unwrap();
        assert_insecure(dir.load(), "neither root nor the daemon's user");
    }
}
