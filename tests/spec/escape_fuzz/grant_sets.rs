//! Sets of grants made up by chance, laid over one tree of files. A hook can do with each path exactly what the set grants, and
//! a set that contradicts itself is refused.
//!
//! `PROPTEST_CASES` is the number of sets, a dozen by default.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use hookjail::policy::{Access, References, Registry};
use hookjail_sandbox::seccomp::syscalls::nr;
use proptest::{
    prelude::*,
    sample::{select, subsequence},
    test_runner::{Config, TestRunner},
};
use tempfile::TempDir;

use super::{
    bench::{made, request},
    calls::{Arg, Call, encode},
};
use crate::{
    attempts::Probe,
    support::{Daemon, Setup, directory, reason},
};

const DIRECTORIES: [&str; 7] = ["a", "a/b", "a/b/c", "a/bc", "d", "d/e", "g"];

/// Files in each directory.
const FILES: [&str; 2] = ["f", "x"];

/// Which paths are granted, and how.
type Set = Vec<(String, Access)>;

/// An operation on a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Deed {
    Empty,
    Execute,
    List,
    Make,
    Read,
    Remove,
    Write,
}

/// Returns sets of grants on directories and files of the tree.
fn sets() -> impl Strategy<Value = Set> {
    let files = DIRECTORIES
        .iter()
        .flat_map(|directory| FILES.map(|file| format!("{directory}/{file}")));
    let places: Vec<_> = DIRECTORIES
        .map(str::to_owned)
        .into_iter()
        .chain(files)
        .collect();
    // Most places are directories, and one to write as a file refuses the whole set.
    let access = prop_oneof![
        1 => Just(Access::WriteFile),
        6 => select(&[Access::Execute, Access::Read, Access::Write][..]),
    ];
    subsequence(places, 0..=6).prop_flat_map(move |places| {
        let accesses = prop::collection::vec(access.clone(), places.len());
        accesses.prop_map(move |accesses| places.iter().cloned().zip(accesses).collect())
    })
}

/// Returns whether a set is consistent: grants add up, so nothing stays read-only below a writable directory.
fn is_true(set: &Set) -> bool {
    set.iter().all(|(inner, access)| {
        let writable = |(outer, access): &(String, Access)| {
            !access.is_read_only() && Path::new(inner).starts_with(outer)
        };
        !access.is_read_only() || !set.iter().any(writable)
    })
}

/// Whether a set lets a hook do something with a path; with what is in a directory, for [`Deed::Make`] and
/// [`Deed::Remove`].
fn allows(set: &Set, path: &str, deed: Deed) -> bool {
    set.iter().any(|(tree, access)| {
        let gives = match access {
            Access::Execute => matches!(deed, Deed::Execute | Deed::List | Deed::Read),
            Access::Read => matches!(deed, Deed::List | Deed::Read),
            Access::Write => true,
            Access::WriteFile => matches!(deed, Deed::Empty | Deed::Read | Deed::Write),
        };
        gives && Path::new(path).starts_with(tree)
    })
}

/// The tree of files, which every user may do anything with: only Landlock refuses.
struct Tree {
    directory: TempDir,
}

impl Tree {
    fn grow(program: &Path) -> Self {
        let tree = Self {
            directory: directory(),
        };
        let open =
            |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        for directory in DIRECTORIES {
            let path = tree.path(directory);
            fs::create_dir_all(path.join("old-directory")).unwrap();
            fs::write(path.join("f"), "content").unwrap();
            fs::write(path.join("old"), "old").unwrap();
            fs::copy(program, path.join("x")).unwrap();
            for name in ["", "f", "old", "x"] {
                open(&path.join(name));
            }
        }
        tree
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn profile(&self, set: &Set) -> String {
        let grants = set.iter().map(|(path, access)| {
            format!("{{ path = {:?}, access = \"{access}\" }}", self.path(path))
        });
        format!(
            "description = \"made up\"\nextends = \"strict\"\n[files]\nnamed = [{}]\n",
            grants.collect::<Vec<_>>().join(", ")
        )
    }
}

/// Returns calls to make in the tree, each with what it does; none changes what a later one meets.
fn attempts(tree: &Tree) -> Vec<(Call, String, Vec<Deed>)> {
    let value = |value: libc::c_int| Arg::Value(u64::from(value.cast_unsigned()));
    let text = |name: &str| Arg::Text(tree.path(name).display().to_string());
    let mut attempts = Vec::new();
    let mut attempt =
        |number: u32, path: &str, name: &str, args: &[libc::c_int], deeds: &[Deed]| {
            let path_of = if name.is_empty() {
                path.to_owned()
            } else {
                format!("{path}/{name}")
            };
            let args = args.iter().map(|&arg| value(arg));
            let call = Call {
                args: [text(&path_of)].into_iter().chain(args).collect(),
                nr: u64::from(number),
            };
            attempts.push((call, path.to_owned(), deeds.to_vec()));
        };
    for directory in DIRECTORIES {
        let make = libc::O_CREAT | libc::O_EXCL | libc::O_RDONLY;
        attempt(
            nr::open,
            directory,
            "",
            &[libc::O_RDONLY | libc::O_DIRECTORY],
            &[Deed::List],
        );
        attempt(
            nr::open,
            directory,
            "new",
            &[make, 0o600],
            &[Deed::Make, Deed::Read],
        );
        attempt(
            nr::mkdir,
            directory,
            "new-directory",
            &[0o700],
            &[Deed::Make],
        );
        attempt(nr::unlink, directory, "old", &[], &[Deed::Remove]);
        attempt(nr::rmdir, directory, "old-directory", &[], &[Deed::Remove]);
        for file in FILES {
            let file = format!("{directory}/{file}");
            attempt(nr::open, &file, "", &[libc::O_RDONLY], &[Deed::Read]);
            attempt(nr::open, &file, "", &[libc::O_WRONLY], &[Deed::Write]);
            attempt(
                nr::open,
                &file,
                "",
                &[libc::O_RDWR],
                &[Deed::Read, Deed::Write],
            );
        }
        let file = format!("{directory}/f");
        attempt(nr::truncate, &file, "", &[3], &[Deed::Empty]);
        attempt(
            nr::open,
            &file,
            "",
            &[libc::O_RDONLY | libc::O_TRUNC],
            &[Deed::Read, Deed::Empty],
        );
    }
    attempts
}

#[test]
fn sets_of_grants_made_up_by_chance_give_what_a_set_of_paths_says() {
    let cases = env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    let mut runner = TestRunner::new(Config {
        cases: cases.unwrap_or(12),
        failure_persistence: None,
        max_shrink_iters: 64,
        ..Config::default()
    });
    let player = Probe::build_from("player.c", &["-fno-stack-protector"]);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runner
        .run(&sets(), |set| runtime.block_on(holds(&set, &player)))
        .unwrap();
}

/// Checks one set.
async fn holds(set: &Set, player: &Probe) -> Result<(), TestCaseError> {
    let tree = Tree::grow(&player.path());
    let profile = tree.profile(set);
    let profiles = directory();
    fs::write(profiles.path().join("made-up.toml"), &profile).unwrap();
    let loaded = Registry::load(&[profiles.path().to_owned()], &[], &References::default());
    prop_assert_eq!(loaded.is_ok(), is_true(set), "{:?}", loaded);
    if !is_true(set) {
        return Ok(());
    }
    let daemon = Daemon::with(Setup {
        profiles: vec![("made-up".to_owned(), profile)],
        ..Setup::default()
    })
    .await;
    let root = tree.path("");

    // Known once it is opened.
    let grants_a_directory_as_a_file = set
        .iter()
        .any(|(path, access)| *access == Access::WriteFile && DIRECTORIES.contains(&path.as_str()));
    if grants_a_directory_as_a_file {
        let refused = daemon.run(request(player, "made-up", [&root; 2], "")).await;
        prop_assert_eq!(reason(&refused.unwrap_err()), "GRANT_MISSING");
        return Ok(());
    }

    let attempts = attempts(&tree);
    let calls: Vec<_> = attempts.iter().map(|(call, ..)| call.clone()).collect();
    let calls = encode(&calls, |_| false);
    let (response, heard) = made(&daemon, request(player, "made-up", [&root; 2], &calls)).await;
    prop_assert!(heard.finished, "{:?}", response);
    for ((call, path, deeds), report) in attempts.iter().zip(&heard.reports) {
        let allowed = deeds.iter().all(|deed| allows(set, path, *deed));
        let as_it_must = if allowed {
            report.answer >= 0
        } else {
            report.answer == i64::from(-libc::EACCES)
        };
        prop_assert!(
            as_it_must,
            "{:?} of {} is {}, and {} came to {:?}",
            deeds,
            path,
            allowed,
            call,
            report
        );
    }

    for directory in DIRECTORIES {
        let path = format!("{directory}/x");
        let program = tree.path(&path).display().to_string();
        let call = Call {
            args: vec![Arg::Text(program.clone()), Arg::Words],
            nr: u64::from(nr::execve),
        };
        let call = call.to_string();
        let (response, heard) = made(&daemon, request(player, "made-up", [&root; 2], &call)).await;
        let answers: Vec<_> = heard.reports.iter().map(|report| report.answer).collect();
        let came_to = (heard.executed, answers);
        let must = if allows(set, &path, Deed::Execute) {
            (vec![program], vec![])
        } else {
            (vec![], vec![i64::from(-libc::EACCES)])
        };
        prop_assert_eq!(came_to, must, "executing {}: {:?}", path, response);
    }
    Ok(())
}

#[test]
fn a_set_that_says_something_untrue_is_one_with_something_read_only_below_something_writable() {
    let set = |grants: &[(&str, Access)]| -> Set {
        grants
            .iter()
            .map(|(path, access)| ((*path).to_owned(), *access))
            .collect()
    };
    assert!(!is_true(&set(&[
        ("a", Access::Write),
        ("a/b", Access::Read)
    ])));
    assert!(is_true(&set(&[
        ("a", Access::Read),
        ("a/b", Access::Write)
    ])));
    assert!(is_true(&set(&[
        ("a/b", Access::Write),
        ("a/bc", Access::Read)
    ])));
}
