use std::{fs, os::unix::fs::symlink};

use super::*;
use crate::policy::NamePattern;

const MAKING: Making<'_> = Making {
    open: &[],
    makes: true,
};

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
    let kept = Kept::find(workspace, &files(&[]), &[], MAKING).unwrap()?;
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

        let refusal = Kept::find(workspace.path(), &files(&[]), &[], MAKING).unwrap_err();

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
    let kept = || Kept::find(&path, &files(&[".env*"]), &[], MAKING);
    let points = kept().unwrap().unwrap().points;

    let expected = [
        ("a", Keep::Name),
        ("a/b", Keep::Name),
        ("a/b/.env", Keep::Hidden),
    ];
    let expected = expected.map(|(below, keep)| (PathBuf::from(below), keep));
    assert_eq!(points, expected.into());

    fs::hard_link(path.join("a/b/.env"), path.join("other")).unwrap();
    let refusal = kept().unwrap_err();
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
    let unchanged = |below: &str| ReadOnly {
        below: below.into(),
        directory: false,
    };
    let files = Files {
        unchanged: [".a", ".b/one", ".c/two", ".d/three"].map(unchanged).into(),
        ..files(&[])
    };
    let open = [".d"];
    let find = |makes| {
        let making = Making { open: &open, makes };
        Kept::find(workspace.path(), &files, &[], making)
            .unwrap()
            .unwrap()
    };
    let points = |kept: &Kept| {
        let points = kept.points.iter();
        let points = points.map(|(below, keep)| (below.display().to_string(), *keep));
        points.collect::<Vec<_>>()
    };
    let at = |below: &str, keep| (below.to_owned(), keep);

    let found = points(&find(false));
    assert_eq!(found, [at(".b", Keep::Name)]);
    assert!(!path(".a").exists() && !path(".d").exists() && !path(".hookjail-run").exists());

    let first = find(true);
    let taken = [
        at(".a", Keep::Unchanged),
        at(".b", Keep::Name),
        at(".b/one", Keep::Unchanged),
        at(".c", Keep::Unchanged),
        at(".d", Keep::Name),
        at(".d/three", Keep::Unchanged),
        at(".hookjail-run", Keep::Empty),
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
    fs::set_permissions(
        path(".a"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
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
    let files = Files {
        unchanged: vec![ReadOnly {
            below: ".a/b".into(),
            directory: false,
        }],
        ..files(&[])
    };
    let making = Making {
        open: &[".a"],
        makes: true,
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let kept = Kept::find(workspace.path(), &files, &[], making)
                        .unwrap()
                        .unwrap();
                    let keep = kept.points.get(Path::new(".a/b"));
                    assert_eq!(keep, Some(&Keep::Unchanged));
                    assert!(workspace.path().join(".a/b").is_dir());
                }
            });
        }
    });
    assert_eq!(fs::read_dir(workspace.path()).unwrap().count(), 0);
}
