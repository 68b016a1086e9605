//! Paths that a user's configuration of git names, which git fails without: ignored files, attributes, hooks, templates, includes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Component, Path, PathBuf},
};

use super::{Access, profile::references::never_of_home};

/// Places of the configuration below a home.
const FILES: [&str; 2] = [".config/git/config", ".gitconfig"];

/// Depth of included files, as git itself limits it.
const DEPTH: usize = 10;

/// The largest file that is read, bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Returns the home whose configuration of git a path is, if it is one.
fn home_of(path: &Path) -> Option<&Path> {
    FILES.iter().find_map(|file| {
        let home = path.ancestors().nth(Path::new(file).components().count())?;
        path.ends_with(file).then_some(home)
    })
}

/// Returns the paths below a home that a configuration of git names, each with the access that git needs.
///
/// Paths that no profile can grant by `${home}` are left out, whether named or led to by a link.
fn named(home: &Path, configuration: &Path) -> BTreeMap<PathBuf, Access> {
    let mut found = BTreeMap::new();
    collect(home, configuration, DEPTH, &mut found);
    found
}

/// Returns the paths that granted configurations of git name, each with its home and the access that git needs.
pub(crate) fn named_by<'a>(
    granted: impl Iterator<Item = &'a Path>,
) -> impl Iterator<Item = (&'a Path, PathBuf, Access)> {
    let configurations = granted.filter_map(|path| Some((home_of(path)?, path)));
    configurations.flat_map(|(home, path)| {
        let named = named(home, path).into_iter();
        named.map(move |(path, access)| (home, path, access))
    })
}

fn collect(home: &Path, file: &Path, depth: usize, found: &mut BTreeMap<PathBuf, Access>) {
    let is_small = fs::metadata(file).is_ok_and(|it| it.is_file() && it.len() <= MOST_BYTES);
    let Some(text) = is_small.then(|| fs::read_to_string(file).ok()).flatten() else {
        return;
    };
    for Named {
        access,
        is_include,
        path,
    } in values(&text, home, file.parent(), None)
    {
        if !is_open(home, &path) || !path.canonicalize().is_ok_and(|real| is_open(home, &real)) {
            continue;
        }
        let is_new = found.insert(path.clone(), access).is_none();
        if is_include && is_new && depth > 0 {
            collect(home, &path, depth - 1, found);
        }
    }
}

/// Returns whether a path lies below a home, and is, holds and leads to no keys or sessions. Of a path that was opened since, the
/// real one is checked again: links can be changed.
pub(crate) fn is_open(home: &Path, path: &Path) -> bool {
    path.strip_prefix(home)
        .is_ok_and(|below| never_of_home(below, true).is_none())
}

/// A path value.
#[derive(Debug, Eq, PartialEq)]
struct Named {
    access: Access,
    is_include: bool,
    path: PathBuf,
}

/// Returns the paths below a working tree that the configuration of its repository names: directories of hooks, and files that it
/// includes and that exist. git fails where the name of one that is missing is taken.
pub(crate) fn obeyed_in(tree: &Path, configuration: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![configuration.to_owned()]);
    for _ in 0..DEPTH {
        let Some(file) = left.pop() else { break };
        let is_small = fs::metadata(&file).is_ok_and(|it| it.is_file() && it.len() <= MOST_BYTES);
        let text = is_small.then(|| fs::read_to_string(&file).ok()).flatten();
        for named in values(&text.unwrap_or_default(), tree, file.parent(), Some(tree)) {
            let path = plain(&named.path);
            let is_there = path.symlink_metadata().is_ok();
            let is_obeyed = named.access == Access::Execute || (named.is_include && is_there);
            let below = path.strip_prefix(tree).ok().map(Path::to_owned);
            let Some(below) = below.filter(|it| is_obeyed && !it.as_os_str().is_empty()) else {
                continue;
            };
            if found.contains(&below) {
                continue;
            }
            found.push(below);
            if named.is_include {
                left.push(path);
            }
        }
    }
    found
}

/// Returns the paths below a working tree that its repository, or those of its submodules, are steered by, beside the configuration
/// and the hooks of its own, as far as they exist.
pub(crate) fn steering_in(tree: &Path) -> Vec<PathBuf> {
    let modules = Path::new(".git/modules");
    let entries = fs::read_dir(tree.join(modules)).into_iter().flatten();
    let of_modules = entries.flatten().flat_map(|entry| {
        let module = modules.join(entry.file_name());
        ["config", "hooks"].map(|name| module.join(name))
    });
    let all = of_modules.chain([".git/config.worktree".into()]);
    all.filter(|below| tree.join(below).symlink_metadata().is_ok())
        .collect()
}

/// Returns a path without `.` and `..`, as text.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for name in path.components() {
        match name {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            Component::Normal(_) | Component::Prefix(_) | Component::RootDir => plain.push(name),
        }
    }
    plain
}

/// Reads the path values of a configuration: `git-config(1)`, "Syntax". Values that go on in the next line name no path. Relative
/// directories of hooks begin at the top of a working tree.
fn values(text: &str, home: &Path, directory: Option<&Path>, tree: Option<&Path>) -> Vec<Named> {
    let mut section = String::new();
    let mut named = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(header) = line.strip_prefix('[') {
            let name = header.split([']', ' ', '"']).next().unwrap_or_default();
            section = name.to_ascii_lowercase();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let key = key.trim().to_ascii_lowercase();
        let (access, is_include) = match (&*section, &*key) {
            ("core", "excludesfile" | "attributesfile") | ("commit", "template") => {
                (Access::Read, false)
            }
            ("core", "hookspath") | ("init", "templatedir") => (Access::Execute, false),
            ("include" | "includeif", "path") => (Access::Read, true),
            _ => continue,
        };
        let value = unquoted(value.trim());
        let path = match (value.strip_prefix("~/"), directory) {
            (Some(below), _) => home.join(below),
            (None, _) if value.starts_with('/') => value.into(),
            // Includes are relative to the file that names them.
            (None, Some(directory)) if is_include && !value.is_empty() => directory.join(value),
            (None, _) if access == Access::Execute && !value.is_empty() => match tree {
                Some(tree) => tree.join(value),
                None => continue,
            },
            (None, _) => continue,
        };
        named.push(Named {
            access,
            is_include,
            path,
        });
    }
    named
}

/// Returns a value without quotation marks, escapes and the comment behind it.
fn unquoted(value: &str) -> String {
    let mut plain = String::new();
    let (mut in_quotes, mut characters) = (false, value.chars());
    while let Some(character) = characters.next() {
        match character {
            '"' => in_quotes = !in_quotes,
            '\\' => plain.extend(characters.next()),
            '#' | ';' if !in_quotes => break,
            other => plain.push(other),
        }
    }
    plain.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_belongs_to_the_home_that_it_lies_in() {
        let home = |path: &str| home_of(Path::new(path)).map(Path::to_owned);
        assert_eq!(home("/home/ada/.gitconfig"), Some("/home/ada".into()));
        assert_eq!(
            home("/home/ada/.config/git/config"),
            Some("/home/ada".into())
        );
        assert_eq!(home("/home/ada/.config/git/ignore"), None);
        assert_eq!(home("/etc/gitconfig"), None);
    }

    #[test]
    fn path_values_are_read_as_git_reads_them() {
        let text = "[core]\n\texcludesFile = \"~/.ignore # all\" ; a comment\n hooksPath=~/.githooks\n editor = ~/bin/editor\n\
                    [user]\npath = ~/user\n[includeIf \"gitdir:~/work/\"]\n path = work.inc\n[COMMIT]\ntemplate = /home/ada/message\n";
        let named = values(
            text,
            Path::new("/home/ada"),
            Some(Path::new("/home/ada/.config/git")),
            None,
        );
        let paths: Vec<_> = named
            .iter()
            .map(|it| (it.path.to_str().unwrap(), it.access))
            .collect();
        assert_eq!(
            paths,
            [
                ("/home/ada/.ignore # all", Access::Read),
                ("/home/ada/.githooks", Access::Execute),
                ("/home/ada/.config/git/work.inc", Access::Read),
                ("/home/ada/message", Access::Read),
            ]
        );
    }

    #[test]
    fn included_files_count_and_keys_and_what_leads_to_them_do_not() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap();
        let write = |name: &str, text: &str| {
            let path = home.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            ".gitconfig",
            "[include]\npath = more\npath = ~/.ssh/config\npath = ~/link\npath = missing\n[core]\nhooksPath = ~\nexcludesFile = /etc/passwd\n",
        );
        write(
            "more",
            "[core]\nexcludesFile = ~/ignored\n[include]\npath = ~/.gitconfig\n",
        );
        write("ignored", "");
        write(".ssh/config", "");
        std::os::unix::fs::symlink(home.join(".ssh/config"), home.join("link")).unwrap();
        let named = named(&home, &home.join(".gitconfig"));
        let below: Vec<_> = named
            .keys()
            .map(|path| path.strip_prefix(&home).unwrap())
            .collect();
        assert_eq!(below, [".gitconfig", "ignored", "more"].map(Path::new));
    }

    #[test]
    fn a_repository_names_directories_of_hooks_and_files_that_it_includes_below_its_tree() {
        let tree = tempfile::tempdir().unwrap();
        let path = |below: &str| tree.path().join(below);
        fs::create_dir(path(".git")).unwrap();
        fs::write(
            path(".git/config"),
            "[core]\n\thooksPath = .husky/_\n[include]\n\tpath = ../shared\n\tpath = ../missing\n\tpath = /etc/gitconfig\n",
        )
        .unwrap();
        fs::write(
            path("shared"),
            "[core]\nhooksPath = ./tools/../hooks\n[include]\npath = shared\n",
        )
        .unwrap();
        let found = obeyed_in(tree.path(), &path(".git/config"));
        let found: Vec<_> = found.iter().filter_map(|it| it.to_str()).collect();
        assert_eq!(found, [".husky/_", "shared", "hooks"]);
        assert!(obeyed_in(tree.path(), &path("none")).is_empty());
    }
}
