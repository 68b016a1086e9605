use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    sync::LazyLock,
};

use nix::{
    fcntl::{Flock, FlockArg},
    unistd::{getegid, geteuid},
};
#[cfg(target_os = "linux")]
use nix::{
    sched::{CloneFlags, unshare},
    sys::stat::umask,
};

use hookjail_policy::NamePattern;
use hookjail_sys::FileRights;

use super::{
    placeholder::{Cleared, clear},
    *,
};

/// The user of these tests.
static CALLER: LazyLock<Peer> = LazyLock::new(|| peer(geteuid().as_raw(), getegid().as_raw()));

fn peer(uid: u32, gid: u32) -> Peer {
    Peer {
        gid,
        groups: [].into(),
        pid: None,
        remote: None,
        uid,
    }
}

fn making() -> Making<'static> {
    Making {
        caller: &CALLER,
        open: &[],
        makes: true,
        searched: None,
        spares: None,
    }
}

/// Files of which some names are kept, missing or not.
fn unchanged(list: &[&str]) -> Files {
    let kept = list.iter().map(|below| ReadOnly {
        below: below.into(),
        directory: false,
    });
    Files {
        unchanged: kept.collect(),
        ..files(&[])
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn files(hidden: &[&str]) -> Files {
    let kept = |below: &str, directory| ReadOnly {
        below: below.into(),
        directory,
    };
    let hidden = hidden.iter().map(|text| NamePattern::parse(text).unwrap());
    Files {
        cache: None,
        hidden: hidden.collect(),
        named: Vec::new(),
        read_only: vec![kept(".git/config", false), kept(".git/hooks", true)],
        state: Vec::new(),
        system: [].into(),
        tokens: Vec::new(),
        transcripts: Vec::new(),
        unchanged: Vec::new(),
    }
}

fn points(workspace: &Path) -> Option<Vec<(String, Keep)>> {
    let kept = Kept::find(workspace, &files(&[]), &[], making()).unwrap()?;
    let points = kept.points.into_iter();
    Some(
        points
            .map(|(path, kept)| (path.display().to_string(), kept))
            .collect(),
    )
}

#[test]
fn a_repository_is_kept_and_its_missing_directory_made() {
    let workspace = tempfile::tempdir().unwrap();
    let git = workspace.path().join(".git");
    assert_eq!(points(workspace.path()), None);

    fs::create_dir(&git).unwrap();
    fs::write(git.join("config"), "").unwrap();
    let expected = [
        (".git", Keep::Name),
        (".git/config", Keep::Unchanged),
        (".git/hooks", Keep::Unchanged),
    ];
    let expected = expected
        .map(|(path, kept)| (path.to_owned(), kept))
        .to_vec();

    assert_eq!(points(workspace.path()), Some(expected));
    assert!(git.join("hooks").is_dir());
}

#[test]
fn a_file_in_the_place_of_a_directory_is_kept_as_it_is() {
    let workspace = tempfile::tempdir().unwrap();
    fs::write(workspace.path().join(".git"), "gitdir: elsewhere").unwrap();

    assert_eq!(
        points(workspace.path()),
        Some(vec![(".git".to_owned(), Keep::Unchanged)])
    );
}

#[test]
fn what_cannot_be_kept_is_refused_by_name() {
    type Break = fn(&Path);
    let cases: [(&str, &str, Break); 4] = [
        ("symbolic link", ".git/hooks", |git| {
            fs::remove_dir(git.join("hooks")).unwrap();
            symlink("elsewhere", git.join("hooks")).unwrap();
        }),
        ("symbolic link", ".git", |git| {
            fs::rename(git, git.with_file_name("moved")).unwrap();
            symlink("moved", git).unwrap();
        }),
        ("missing", ".git/config", |git| {
            fs::remove_file(git.join("config")).unwrap()
        }),
        ("hard link", ".git/config", |git| {
            fs::hard_link(git.join("config"), git.with_file_name("other")).unwrap();
        }),
    ];
    for (why, path, broken) in cases {
        let workspace = tempfile::tempdir().unwrap();
        let git = workspace.path().join(".git");
        fs::create_dir_all(git.join("hooks")).unwrap();
        fs::write(git.join("config"), "").unwrap();
        // The positive control.
        assert!(points(workspace.path()).is_some());
        broken(&git);

        let kept = Kept::find(workspace.path(), &files(&[]), &[], making());
        let refusal = Refusal::from(kept.unwrap_err());

        assert_eq!(refusal.reason, Reason::PolicyUnenforceable, "{refusal}");
        assert!(refusal.message.contains(why), "{refusal}");
        let path = workspace.path().join(path).display().to_string();
        assert!(refusal.facts.contains(&Fact::Path(path)), "{refusal:?}");
    }
}

#[test]
fn what_is_hidden_is_a_point_and_so_is_its_way() {
    let workspace = tempfile::tempdir().unwrap();
    let path = workspace.path().canonicalize().unwrap();
    fs::create_dir_all(path.join("a/b")).unwrap();
    fs::write(path.join("a/b/.env"), "").unwrap();
    let kept = || Kept::find(&path, &files(&[".env*"]), &[], making());
    let points = kept().unwrap().unwrap().points;

    let expected = [
        ("a", Keep::Name),
        ("a/b", Keep::Name),
        ("a/b/.env", Keep::Hidden),
    ];
    let expected = expected.map(|(below, keep)| (PathBuf::from(below), keep));
    assert_eq!(points, expected.into());

    fs::hard_link(path.join("a/b/.env"), path.join("other")).unwrap();
    let refusal = Refusal::from(kept().unwrap_err());
    assert_eq!(refusal.reason, Reason::PolicyUnenforceable);
    for words in ["hard link", "`files.hidden` has `.env*`", "project-secrets"] {
        assert!(refusal.message.contains(words), "{refusal}");
    }
}

#[test]
fn a_missing_name_is_taken_for_as_long_as_any_run_lasts_and_in_no_dry_run() {
    let workspace = tempfile::tempdir().unwrap();
    let path = |below: &str| workspace.path().join(below);
    fs::create_dir(path(".b")).unwrap();
    let files = unchanged(&[".a", ".b/one", ".c/two", ".d/three"]);
    let open = [".d"];
    let find = |makes| {
        let making = Making {
            makes,
            open: &open,
            ..making()
        };
        Kept::find(workspace.path(), &files, &[], making)
            .unwrap()
            .unwrap()
    };
    let points = |kept: &Kept| {
        let points = kept.points.iter();
        let points = points.map(|(below, keep)| (below.display().to_string(), *keep));
        points.collect::<Vec<_>>()
    };
    let entry = |below: &str, keep| (below.to_owned(), keep);

    let found = points(&find(false));
    assert_eq!(found, [entry(".b", Keep::Name)]);
    assert!(!path(".a").exists() && !path(".d").exists() && !path(".hookjail-run").exists());

    let first = find(true);
    let taken = [
        entry(".a", Keep::Unchanged),
        entry(".b", Keep::Name),
        entry(".b/one", Keep::Unchanged),
        entry(".c", Keep::Unchanged),
        entry(".d", Keep::Name),
        entry(".d/three", Keep::Unchanged),
        entry(".hookjail-run", Keep::Empty),
    ];
    assert_eq!(points(&first), taken);
    let second = find(true);
    assert_eq!(points(&second), taken);
    drop(first);
    for below in [".a", ".b/one", ".c", ".d/three"] {
        assert!(path(below).is_dir(), "{below}");
    }
    drop(second);
    assert!(path(".b").is_dir());
    for below in [".a", ".b/one", ".c", ".d", ".hookjail-run"] {
        assert!(!path(below).exists(), "{below}");
    }

    // With something in it, or in the place of it, it is another's.
    let third = find(true);
    mode(&path(".a"), 0o755);
    fs::write(path(".a/file"), "").unwrap();
    fs::remove_dir(path(".c")).unwrap();
    fs::create_dir(path(".c")).unwrap();
    drop(third);
    assert!(path(".a/file").exists() && path(".c").is_dir());
    let fourth = find(true);
    assert_eq!(fourth.points.get(Path::new(".c")), Some(&Keep::Name));
    drop(fourth);
    assert!(path(".c").is_dir() && !path(".c/two").exists());
}

#[test]
fn runs_that_begin_and_end_at_the_same_time_all_have_the_name() {
    let workspace = tempfile::tempdir().unwrap();
    let files = unchanged(&[".a/b", ".c"]);
    for spares in [None, Some(Arc::default())] {
        let making = Making {
            open: &[".a"],
            spares: spares.as_ref(),
            ..making()
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let kept = loop {
                            match Kept::find(workspace.path(), &files, &[], making) {
                                Err(NotKept::Busy(_)) => std::thread::yield_now(),
                                kept => break kept.unwrap().unwrap(),
                            }
                        };
                        for below in [".a/b", ".c"] {
                            let keep = kept.points.get(Path::new(below));
                            assert_eq!(keep, Some(&Keep::Unchanged));
                            assert!(workspace.path().join(below).is_dir());
                        }
                    }
                });
            }
        });
        drop(spares);
        assert_eq!(fs::read_dir(workspace.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_lock_of_another_program_keeps_no_thread_waiting() {
    let workspace = tempfile::tempdir().unwrap();
    let find = || Kept::find(workspace.path(), &unchanged(&[".a"]), &[], making());
    let shared = workspace.path().join(RUNS_SHARE);
    let run = find().unwrap();
    let lock = Flock::lock(
        File::open(&shared).unwrap(),
        FlockArg::LockExclusiveNonblock,
    );
    assert!(lock.is_err(), "no run holds the lock");
    drop(run);

    fs::create_dir(&shared).unwrap();
    let lock = Flock::lock(File::open(&shared).unwrap(), FlockArg::LockExclusive).unwrap();
    let Err(NotKept::Busy(refusal)) = find() else {
        panic!("the directory was not busy");
    };
    assert!(
        refusal
            .message
            .contains("is locked by another program; end that"),
        "{refusal}"
    );
    drop(lock);
    assert!(find().unwrap().is_some());
}

#[test]
fn a_search_that_fails_for_want_of_descriptors_is_a_want_and_not_a_policys_fault() {
    let failed = |errno: Errno| {
        let error = || io::Error::from(errno);
        let unread = git_paths::Unread::closed(Path::new("/w/.git/config"), error());
        let unlisted = Unsearchable::from(error());
        [
            super::unread(&unread),
            unsearchable(Path::new("/w"), &unlisted),
        ]
        .map(|it| it.reason)
    };
    assert_eq!(failed(Errno::EMFILE), [Reason::Overloaded; 2]);
    assert_eq!(failed(Errno::EACCES), [Reason::PolicyUnenforceable; 2]);
}

#[test]
fn something_else_in_the_place_of_what_runs_share_is_refused_by_name() {
    type Put = fn(&Path);
    let cases: [Put; 3] = [
        |path| fs::write(path, "").unwrap(),
        |path| symlink(".", path).unwrap(),
        |path| {
            fs::create_dir(path).unwrap();
            mode(path, 0o000);
        },
    ];
    for (number, put) in cases.iter().enumerate() {
        // Root opens any directory.
        if number == 2 && geteuid().is_root() {
            continue;
        }
        let workspace = tempfile::tempdir().unwrap();
        let shared = workspace.path().join(RUNS_SHARE);
        put(&shared);
        let kept = Kept::find(workspace.path(), &unchanged(&[".a"]), &[], making());
        let refusal = Refusal::from(kept.unwrap_err());
        assert_eq!(refusal.reason, Reason::PolicyUnenforceable, "{refusal}");
        assert!(refusal.message.ends_with("; remove it"), "{refusal}");
        assert!(
            refusal.message.contains(&*shared.display().to_string()),
            "{refusal}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_runs_share_can_be_opened_by_runs_of_other_users() {
    let workspace = tempfile::tempdir().unwrap();
    let find = || {
        // A daemon's umask, of this thread alone.
        unshare(CloneFlags::CLONE_FS).unwrap();
        umask(Mode::from_bits_truncate(0o077));
        Kept::find(workspace.path(), &unchanged(&[".a"]), &[], making()).unwrap()
    };
    let _kept = std::thread::scope(|scope| scope.spawn(find).join().unwrap());
    let shared = workspace.path().join(RUNS_SHARE);
    assert_eq!(shared.metadata().unwrap().mode() & 0o7777, 0o1755);
}

#[test]
fn nothing_is_removed_but_what_was_made() {
    let directory = tempfile::tempdir().unwrap();
    let workspace = directory.path().join("workspace");
    let elsewhere = directory.path().join("elsewhere");
    for tree in [&workspace, &elsewhere] {
        fs::create_dir(tree).unwrap();
    }
    let find = || Kept::find(&workspace, &unchanged(&[".a", ".b"]), &[], making()).unwrap();
    let taken = |path: PathBuf| {
        fs::create_dir(&path).unwrap();
        mode(&path, 0o1555);
        path
    };

    // Of the same permissions, and another one.
    let kept = find();
    let (made, another) = (workspace.join(".a"), taken(workspace.join("other")));
    fs::rename(another, &made).unwrap();
    let another = made;
    drop(kept);
    assert!(another.is_dir() && !workspace.join(".b").exists());
    fs::remove_dir(another).unwrap();

    // The shared directory lies elsewhere at the end.
    let kept = find();
    let theirs = taken(elsewhere.join(".a"));
    mode(&workspace.join(RUNS_SHARE), 0o755);
    fs::rename(workspace.join(RUNS_SHARE), elsewhere.join(RUNS_SHARE)).unwrap();
    drop(kept);
    assert!(theirs.is_dir() && workspace.join(".a").is_dir());
    // The next run takes over what was left.
    drop(find());
    assert_eq!(fs::read_dir(&workspace).unwrap().count(), 0);
}

#[test]
fn a_directory_that_its_owners_hooks_can_open_is_not_taken_for_closed() {
    const OWNER: u32 = 4_000_000_000;
    let (uid, gid) = match geteuid() {
        root if root.is_root() => (OWNER, OWNER),
        user => (user.as_raw(), getegid().as_raw()),
    };
    let caller = peer(uid, gid);
    let workspace = tempfile::tempdir().unwrap();
    let path = |below: &str| workspace.path().join(below);
    let give = |path: &Path| {
        std::os::unix::fs::chown(path, Some(uid), Some(gid)).unwrap();
    };
    fs::create_dir(path(".a")).unwrap();
    for path in [workspace.path(), &path(".a")] {
        give(path);
        mode(path, 0o755);
    }
    let find = |makes| {
        let making = Making {
            caller: &caller,
            makes,
            open: &[],
            searched: None,
            spares: None,
        };
        let _as_caller = FileRights::for_user(uid, gid, &[]);
        Kept::find(workspace.path(), &unchanged(&[".a/b"]), &[], making).map_err(Refusal::from)
    };
    assert!(find(true).unwrap().is_some());

    let modes: [(u32, u32, &str); 2] =
        [(0o555, 0o755, "`chmod u+w "), (0o755, 0o555, "`chmod u+w ")];
    for (top, below, fix) in modes {
        mode(workspace.path(), top);
        mode(&path(".a"), below);
        let refusal = find(true).unwrap_err();
        assert_eq!(refusal.reason, Reason::PolicyUnenforceable, "{refusal}");
        assert!(refusal.message.contains(fix), "{refusal}");
        assert!(find(false).is_ok());
        mode(workspace.path(), 0o755);
        mode(&path(".a"), 0o755);
    }
    if geteuid().is_root() {
        // The top is root's, who is no hook's user. The directory below is not.
        std::os::unix::fs::chown(workspace.path(), Some(0), Some(0)).unwrap();
        let refusal = find(true).unwrap_err();
        assert!(
            refusal
                .message
                .contains("the path is missing, and a hook could make it"),
            "{refusal}"
        );
        assert!(!path(".a/b").exists());
        std::os::unix::fs::chown(path(".a"), Some(0), Some(0)).unwrap();
        assert!(find(true).is_ok());
    }
}

#[test]
fn directories_lie_ready_for_the_next_run_and_are_removed_at_the_end() {
    let workspace = tempfile::tempdir().unwrap();
    let path = |below: &str| workspace.path().join(below);
    fs::create_dir(path(".b")).unwrap();
    let spares = Arc::default();
    let making = Making {
        spares: Some(&spares),
        ..making()
    };
    let files = unchanged(&[".a", ".b/c", ".b/d\\e"]);
    let find = || Kept::find(workspace.path(), &files, &[], making).unwrap();
    let state = |below: &str| {
        let found = path(below).symlink_metadata().unwrap();
        (found.ino(), found.mode() & 0o7777)
    };

    let run = find();
    let made = [".a", ".b/c"].map(state);
    assert!(made.iter().all(|(_, mode)| *mode == 0o1555), "{made:?}");
    drop(run);
    let names = |below: &str| {
        let listed = fs::read_dir(path(below)).unwrap();
        let names = listed.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        BTreeSet::from_iter(names)
    };
    assert_eq!(names(""), [".b", RUNS_SHARE].map(str::to_owned).into());
    assert_eq!(names(".b"), [].into());
    assert_eq!(names(RUNS_SHARE), [".a", ".b\\c"].map(str::to_owned).into());

    let run = find();
    assert_eq!([".a", ".b/c"].map(state), made, "others were made");
    assert!(clear(workspace.path(), &CALLER) == Cleared::Busy);
    assert!(path(".a").is_dir(), "removed in spite of the run");
    drop(run);
    drop(spares);
    assert_eq!(names(""), [".b".to_owned()].into());
}

#[test]
fn none_lies_ready_where_permissions_do_not_tell_it_from_a_users() {
    let workspace = tempfile::tempdir().unwrap();
    let spares = Arc::default();
    let making = Making {
        spares: Some(&spares),
        ..making()
    };
    // As of a file system that keeps none.
    fs::create_dir(workspace.path().join(RUNS_SHARE)).unwrap();
    let run = Kept::find(workspace.path(), &unchanged(&[".a"]), &[], making).unwrap();
    assert!(workspace.path().join(".a").exists());
    drop(run);
    assert_eq!(fs::read_dir(workspace.path()).unwrap().count(), 0);
}

#[test]
fn what_is_put_into_a_directory_that_takes_a_name_stays_there() {
    let workspace = tempfile::tempdir().unwrap();
    let path = |below: &str| workspace.path().join(below);
    let spares = Arc::default();
    let making = Making {
        spares: Some(&spares),
        ..making()
    };
    let find = || Kept::find(workspace.path(), &unchanged(&[".a", ".b"]), &[], making).unwrap();
    // The permissions that root, or a user with the right over all files, does not need.
    let put = |below: &str| {
        let directory = path(below);
        let before = directory.metadata().unwrap().permissions();
        mode(&directory, 0o1755);
        fs::write(directory.join("file"), "").unwrap();
        fs::set_permissions(directory, before).unwrap();
    };

    let run = find();
    put(".a");
    drop(run);
    assert!(path(".a/file").exists(), "moved from its place");
    assert!(!path(".b").exists());

    // While it lies ready.
    put(&format!("{RUNS_SHARE}/.b"));
    drop(spares);
    assert!(path(".b/file").exists(), "lost");
    assert!(!path(RUNS_SHARE).exists());
}
