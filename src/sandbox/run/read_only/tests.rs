use std::{fs, os::unix::fs::symlink};

use super::*;
use crate::policy::NamePattern;

fn files(hidden: &[&str]) -> Files {
    let kept = |below: &str, directory| ReadOnly {
        below: below.into(),
        directory,
    };
    let hidden = hidden.iter().map(|text| NamePattern::parse(text).unwrap());
    Files {
        hidden: hidden.collect(),
        named: Vec::new(),
        read_only: vec![kept(".git/config", false), kept(".git/hooks", true)],
        state: Vec::new(),
        system: [].into(),
    }
}

fn points(workspace: &Path) -> Option<Vec<(String, Keep)>> {
    let kept = Kept::find(workspace, &files(&[])).unwrap()?;
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

        let refusal = Kept::find(workspace.path(), &files(&[])).unwrap_err();

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
    let kept = || Kept::find(&path, &files(&[".env*"]));
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
