use std::{fs, os::unix::fs::symlink};

use super::*;

const ALL: FileRights = FileRights::new(&FileRight::ALL);

/// A directory with a file, a directory, and a link to the latter.
struct Ground(tempfile::TempDir);

impl Ground {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ground = Self(dir);
        for below in ["granted", "granted/below", "other"] {
            fs::create_dir(ground.path(below)).unwrap();
        }
        for file in ["granted/file", "other/file"] {
            fs::write(ground.path(file), "").unwrap();
        }
        symlink(ground.path("granted"), ground.path("alias")).unwrap();
        ground
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(below)
    }

    fn grant(&self, below: &str, access: Access) -> GrantSpec {
        GrantSpec {
            access,
            create: false,
            optional: false,
            place: GrantPlace::Path(self.path(below)),
        }
    }
}

fn files(system: Vec<GrantSpec>, named: Vec<GrantSpec>) -> Files {
    Files {
        cache: None,
        hidden: Vec::new(),
        named,
        read_only: Vec::new(),
        state: Vec::new(),
        system: system.into(),
        tokens: Vec::new(),
        transcripts: Vec::new(),
        unchanged: Vec::new(),
    }
}

fn reach(files: &Files) -> Reach {
    Reach::locate(files, None, ALL).unwrap()
}

fn decide(reach: &Reach, operation: Operation, path: &Path) -> GrantDecision {
    let target = Target::locate(operation, path);
    reach.decide(operation, &target, None, &Forbidden::default())
}

fn remedy(decision: GrantDecision) -> String {
    match decision {
        GrantDecision::Allowed { by: grantors } => format!("allowed by {grantors:?}"),
        GrantDecision::Refused(refused) => refused.remedy.to_string(),
    }
}

#[test]
fn what_lies_in_a_grant_is_allowed_by_it_and_what_lies_beside_it_by_none() {
    let ground = Ground::new();
    let grant = ground.grant("granted", Access::Read);
    let reach = reach(&files(vec![], vec![grant.clone()]));

    let allowed = GrantDecision::Allowed {
        by: vec![Grantor::Profile(grant)],
    };
    for (operation, path) in [
        (Operation::Read, "granted/file"),
        (Operation::List, "granted/below"),
        (Operation::Read, "granted/not-there"),
        (Operation::Read, "alias/file"),
    ] {
        let decision = decide(&reach, operation, &ground.path(path));
        assert_eq!(decision, allowed, "{path}");
    }
    for (operation, path) in [
        (Operation::Read, "other/file"),
        (Operation::List, ""),
        (Operation::Write, "granted/file"),
        (Operation::Execute, "granted/file"),
        (Operation::Remove, "granted/file"),
    ] {
        let decision = decide(&reach, operation, &ground.path(path));
        assert!(matches!(decision, GrantDecision::Refused(_)), "{path}");
    }
}

#[test]
fn a_grant_that_is_a_link_reaches_where_it_leads_in_the_system_and_is_missing_where_it_is_named() {
    let ground = Ground::new();
    let grant = || vec![ground.grant("alias", Access::Read)];
    let file = ground.path("granted/file");

    let system = reach(&files(grant(), vec![]));
    assert!(matches!(
        decide(&system, Operation::Read, &file),
        GrantDecision::Allowed { .. }
    ));
    let named = reach(&files(vec![], grant()));
    assert!(matches!(
        decide(&named, Operation::Read, &file),
        GrantDecision::Refused(_)
    ));
    assert_eq!(named.missing().collect::<Vec<_>>(), [&grant()[0]]);
}

#[test]
fn a_file_that_is_granted_is_known_by_its_other_names() {
    let ground = Ground::new();
    fs::hard_link(ground.path("granted/file"), ground.path("other/name")).unwrap();
    let reach = reach(&files(
        vec![],
        vec![ground.grant("granted/file", Access::WriteFile)],
    ));

    for (operation, allowed) in [(Operation::Write, true), (Operation::Remove, false)] {
        let decision = decide(&reach, operation, &ground.path("other/name"));
        assert_eq!(matches!(decision, GrantDecision::Allowed { .. }), allowed);
    }
}

#[test]
fn the_smallest_grant_is_on_as_little_as_can_be_named() {
    let ground = Ground::new();
    let nothing = reach(&files(vec![], vec![]));
    let grant = |below: &str, access: &str| {
        let path = ground.path(below);
        format!("files.named = [{{ path = {path:?}, access = \"{access}\" }}]")
    };

    for (operation, path, expected) in [
        (
            Operation::Read,
            "granted/file",
            grant("granted/file", "read"),
        ),
        (
            Operation::Execute,
            "granted/file",
            grant("granted/file", "execute"),
        ),
        (
            Operation::Write,
            "granted/file",
            grant("granted/file", "write-file"),
        ),
        (Operation::List, "granted", grant("granted", "read")),
        (Operation::Create, "granted/new", grant("granted", "write")),
        (Operation::Remove, "granted/file", grant("granted", "write")),
        (Operation::Read, "granted/new", grant("granted/new", "read")),
        (
            Operation::Create,
            "granted/new/below",
            grant("granted", "write"),
        ),
        (Operation::Read, "alias/file", grant("granted/file", "read")),
    ] {
        let text = remedy(decide(&nothing, operation, &ground.path(path)));
        assert_eq!(text, expected, "{operation:?} {path}");
    }
    let text = remedy(decide(
        &nothing,
        Operation::Read,
        Path::new("/proc/1/environ"),
    ));
    assert!(
        text.starts_with("nothing can: `/proc/1/environ` can never be granted"),
        "{text}"
    );
    let text = remedy(decide(&nothing, Operation::Create, Path::new("/not-there")));
    assert!(
        text.starts_with("nothing can: `/` can never be granted"),
        "{text}"
    );
    let fifo = ground.path("granted/fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let from = Target::locate(Operation::Rename, &fifo);
    let destination = Target::destination(&ground.path("other/fifo"));
    let text = remedy(nothing.decide(
        Operation::Rename,
        &from,
        Some(&destination),
        &Forbidden::default(),
    ));
    assert!(
        text.starts_with("nothing can: no profile lets a hook make"),
        "{text}"
    );
}

#[test]
fn no_grant_tells_apart_what_one_operation_stands_for() {
    use FileRight::{
        MakeDirectory, MakeFile, MakeLink, Refer, RemoveDirectory, RemoveFile, Truncate, WriteFile,
    };
    let accesses = [
        Access::Execute,
        Access::Read,
        Access::Write,
        Access::WriteFile,
    ];
    let grants = accesses.map(|access| {
        [
            Rights::for_access(access, true),
            Rights::for_access(access, false),
        ]
    });
    let alike: [&[FileRight]; 2] = [
        &[
            MakeDirectory,
            MakeFile,
            MakeLink,
            Refer,
            RemoveDirectory,
            RemoveFile,
        ],
        &[Truncate, WriteFile],
    ];
    for granted in grants.as_flattened().iter().chain([&Rights::Scratch]) {
        for alike in alike {
            let has = alike.iter().filter(|right| granted.allowed().has(**right));
            assert!([0, alike.len()].contains(&has.count()), "{granted:?}");
        }
        for never in FileKind::Special.made_by().iter() {
            assert!(!granted.allowed().has(never), "{granted:?}");
        }
    }
}

#[test]
fn the_grant_that_is_named_is_enough_and_keeps_the_rules_for_profiles() {
    let ground = Ground::new();
    let below = files(vec![ground.grant("granted/below", Access::Execute)], vec![]);
    let text = remedy(decide(
        &reach(&below),
        Operation::Create,
        &ground.path("granted/new"),
    ));
    assert!(
        text.starts_with("nothing can: no profile that grants"),
        "{text}"
    );

    let named = vec![ground.grant("granted", Access::Execute)];
    let text = remedy(decide(
        &reach(&files(vec![], named)),
        Operation::Create,
        &ground.path("granted/new"),
    ));
    let path = ground.path("granted");
    assert_eq!(
        text,
        format!("files.named = [{{ path = {path:?}, access = \"write\" }}]")
    );

    let start = files(vec![], vec![ground.grant("other", Access::Read)]);
    for operation in Operation::ALL {
        for path in ["granted/file", "granted/below", "other/file", "granted/new"] {
            let target = Target::locate(operation, &ground.path(path));
            let goal = Target::destination(&ground.path("granted/goal"));
            let goal = operation.has_destination().then_some(&goal);
            let forbidden = Forbidden::default();
            let GrantDecision::Refused(refused) =
                reach(&start).decide(operation, &target, goal, &forbidden)
            else {
                continue;
            };
            let Remedy::Grants(grants) = refused.remedy else {
                continue;
            };
            // Where a file is yet to come, a grant on it is missing until then.
            if grants
                .iter()
                .any(|grant| matches!(&grant.place, GrantPlace::Path(path) if !path.exists()))
            {
                continue;
            }
            let mut enough = start.clone();
            enough.named.extend(grants);
            let decision = reach(&enough).decide(operation, &target, goal, &forbidden);
            assert!(
                matches!(decision, GrantDecision::Allowed { .. }),
                "{operation:?} {path}: {decision:?}"
            );
        }
    }
}

#[test]
fn what_is_the_daemons_own_is_never_suggested() {
    let ground = Ground::new();
    let forbidden = Forbidden::locate(&[ground.path("other")]).unwrap();
    let target = Target::locate(Operation::Read, &ground.path("other/file"));
    let decision = reach(&files(vec![], vec![])).decide(Operation::Read, &target, None, &forbidden);

    let text = remedy(decision);
    assert!(text.contains("the daemon's own"), "{text}");
}

#[test]
fn a_move_that_gains_rights_is_refused_and_one_that_loses_some_is_not() {
    let ground = Ground::new();
    let all = files(vec![], vec![ground.grant("granted", Access::Write)]);
    let reach = reach(&all).with_scratch(&ground.path("other"));
    let decide = |from: &str, destination: &str| {
        let from = Target::locate(Operation::Rename, &ground.path(from));
        let destination = Target::destination(&ground.path(destination));
        reach.decide(
            Operation::Rename,
            &from,
            Some(&destination),
            &Forbidden::default(),
        )
    };

    // A writable grant executes, the scratch directory does not.
    assert!(matches!(
        decide("granted/file", "other/moved"),
        GrantDecision::Allowed { .. }
    ));
    let GrantDecision::Refused(refused) = decide("other/file", "granted/moved") else {
        panic!("allowed");
    };
    assert_eq!(
        refused.how,
        How::NotBetween(FileRights::new(&[FileRight::Execute]))
    );
}

#[test]
fn what_stays_read_only_is_neither_changed_nor_moved_and_the_rest_of_the_workspace_is() {
    let workspace = tempfile::tempdir().unwrap();
    let workspace = workspace.path().canonicalize().unwrap();
    std::fs::create_dir_all(workspace.join(".git/hooks")).unwrap();
    for file in ["file", ".git/config", ".git/index", ".git/hooks/sample"] {
        std::fs::write(workspace.join(file), "").unwrap();
    }
    let kept = |below: &str| crate::ReadOnly {
        below: below.into(),
        directory: false,
    };
    let files = Files {
        cache: None,
        hidden: Vec::new(),
        named: vec![GrantSpec {
            access: Access::Write,
            create: false,
            optional: false,
            place: GrantPlace::Path(workspace.clone()),
        }],
        read_only: vec![kept(".git/config"), kept(".git/hooks")],
        state: Vec::new(),
        system: [].into(),
        tokens: Vec::new(),
        transcripts: Vec::new(),
        unchanged: Vec::new(),
    };
    let reach = Reach::locate(&files, Some(&workspace), ALL).unwrap();
    let decide = |operation: Operation, path: &str, destination: Option<&str>| {
        let target = Target::locate(operation, &workspace.join(path));
        let destination =
            destination.map(|destination| Target::destination(&workspace.join(destination)));
        match reach.decide(
            operation,
            &target,
            destination.as_ref(),
            &Forbidden::default(),
        ) {
            GrantDecision::Allowed { .. } => None,
            GrantDecision::Refused(refused) => Some(refused.how),
        }
    };
    use Operation::{Create, Link, Read, Remove, Rename, Write};
    for (operation, path, destination, expected) in [
        (Write, ".git/config", None, Some(How::ReadOnly)),
        (Write, ".git/hooks/sample", None, Some(How::ReadOnly)),
        (Create, ".git/hooks/new", None, Some(How::ReadOnly)),
        (Remove, ".git/hooks/sample", None, Some(How::ReadOnly)),
        (Remove, ".git/config", None, Some(How::MountPoint)),
        (Remove, ".git/hooks", None, Some(How::MountPoint)),
        (Rename, ".git", Some("moved"), Some(How::MountPoint)),
        (
            Rename,
            ".git/index",
            Some(".git/config"),
            Some(How::MountPoint),
        ),
        (Rename, "file", Some(".git/hooks/new"), Some(How::ReadOnly)),
        (Rename, "file", Some(".git/new"), Some(How::OtherMount)),
        (
            Link,
            ".git/config",
            Some(".git/other"),
            Some(How::OtherMount),
        ),
        // The positive control.
        (Read, ".git/config", None, None),
        (Write, ".git/index", None, None),
        (Create, ".git/new", None, None),
        (Remove, ".git/index", None, None),
        (Rename, ".git/index", Some(".git/moved"), None),
        (Link, ".git/index", Some(".git/other"), None),
        (Write, "file", None, None),
    ] {
        assert_eq!(
            decide(operation, path, destination),
            expected,
            "{operation:?} {path} {destination:?}"
        );
    }
}

#[test]
fn what_is_hidden_is_opened_in_no_way_and_keeps_its_name() {
    let workspace = tempfile::tempdir().unwrap();
    let workspace = workspace.path().canonicalize().unwrap();
    std::fs::create_dir_all(workspace.join("a/vault")).unwrap();
    for file in ["a/.env", "a/vault/token", "a/open"] {
        std::fs::write(workspace.join(file), "").unwrap();
    }
    let files = Files {
        cache: None,
        hidden: [".env*", "vault"]
            .map(|it| crate::NamePattern::parse(it).unwrap())
            .into(),
        ..files(
            Vec::new(),
            vec![GrantSpec {
                access: Access::Write,
                create: false,
                optional: false,
                place: GrantPlace::Path(workspace.clone()),
            }],
        )
    };
    let reach = Reach::locate(&files, Some(&workspace), ALL).unwrap();
    use Operation::{Create, Execute, List, Read, Remove, Rename, Write};
    for (operation, path, destination, expected) in [
        (Read, "a/.env", None, Some(How::Hidden)),
        (Write, "a/.env", None, Some(How::Hidden)),
        (Execute, "a/vault/token", None, Some(How::Hidden)),
        (List, "a/vault", None, Some(How::Hidden)),
        (Remove, "a/.env", None, Some(How::MountPoint)),
        (Rename, "a", Some("b"), Some(How::MountPoint)),
        (Rename, "a/open", Some("open"), Some(How::OtherMount)),
        // The positive control.
        (Read, "a/open", None, None),
        (Rename, "a/open", Some("a/other"), None),
        (Create, "a/.env.new", None, None),
        (List, "a", None, None),
    ] {
        let target = Target::locate(operation, &workspace.join(path));
        let destination =
            destination.map(|destination| Target::destination(&workspace.join(destination)));
        let how = match reach.decide(
            operation,
            &target,
            destination.as_ref(),
            &Forbidden::default(),
        ) {
            GrantDecision::Allowed { .. } => None,
            GrantDecision::Refused(refused) => Some(refused.how),
        };
        assert_eq!(how, expected, "{operation:?} {path}");
    }
}
