//! Paths that configurations of git name: paths without which git fails, and paths that it obeys and runs.

use std::{
    collections::{BTreeMap, VecDeque},
    env,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileTypeExt, MetadataExt},
    },
    path::{Component, Path, PathBuf},
};

use nix::unistd::User;

use super::{Access, profile::references::never_of_home};

/// Places of the configuration below a home.
const FILES: [&str; 2] = [".config/git/config", ".gitconfig"];

/// Depth of included files, as git itself limits it.
const DEPTH: usize = 10;

/// The largest file that is read, bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Maximum number of files that are read for one workspace.
const MOST_FILES: usize = 1_000;

/// The configuration of the system.
const SYSTEM: &str = "/etc/gitconfig";

/// Levels of directories in which repositories of submodules are looked for.
const MODULE_LEVELS: usize = 10;

/// Returns the home whose configuration of git a path is, if it is one.
fn home_of(path: &Path) -> Option<&Path> {
    let file = FILES.iter().find(|file| path.ends_with(file))?;
    path.ancestors().nth(Path::new(file).components().count())
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
pub fn named_by<'a>(
    granted: impl Iterator<Item = &'a Path>,
) -> impl Iterator<Item = (&'a Path, PathBuf, Access)> {
    let configurations = granted.filter_map(|path| Some((home_of(path)?, path)));
    configurations.flat_map(|(home, path)| {
        let named = named(home, path).into_iter();
        named.map(move |(path, access)| (home, path, access))
    })
}

fn collect(home: &Path, file: &Path, depth: usize, found: &mut BTreeMap<PathBuf, Access>) {
    let Ok(Some(text)) = read(file) else { return };
    for Named { kind, value } in values(&text) {
        let base = (kind == Kind::Include).then(|| file.parent()).flatten();
        let homes = [home.to_owned()];
        for path in located(&value, &homes, base).unwrap_or_default() {
            if !is_open(home, &path) || !path.canonicalize().is_ok_and(|real| is_open(home, &real))
            {
                continue;
            }
            let is_new = found.insert(path.clone(), kind.access()).is_none();
            if kind == Kind::Include && is_new && depth > 0 {
                collect(home, &path, depth - 1, found);
            }
        }
    }
}

/// Returns whether a path lies below a home, and is, holds and leads to no keys or sessions. Of a path that was opened since, the
/// real one is checked again: links can be changed.
pub fn is_open(home: &Path, path: &Path) -> bool {
    path.strip_prefix(home)
        .is_ok_and(|below| never_of_home(below, true).is_none())
}

/// A file of configuration that cannot be read whole.
#[derive(Debug, thiserror::Error)]
#[error("`{}`", .path.display())]
pub struct Unread {
    #[source]
    cause: UnreadCause,
    /// The file.
    pub path: PathBuf,
}

impl Unread {
    /// Wraps an error of opening or listing a path.
    pub fn closed(path: &Path, error: io::Error) -> Self {
        Self {
            cause: UnreadCause::Closed(error),
            path: path.to_owned(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum UnreadCause {
    #[error("cannot be read")]
    Closed(#[from] io::Error),
    #[error("is larger than 1 MiB")]
    Large,
    #[error("is one of more than {MOST_FILES} files")]
    Many,
    #[error("is neither a file nor a device")]
    NoFile,
    #[error("names a path around git's own programs (`%(prefix)/` with `..`)")]
    Prefix,
}

/// A reader of git's configurations for a workspace.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The directories that `~` may stand for.
    pub homes: &'a [PathBuf],
    /// The top of the working tree, if it is one.
    pub top: Option<&'a Path>,
}

impl Reader<'_> {
    /// Returns the paths that git obeys by the configurations of the system, the homes, this process's `XDG_CONFIG_HOME` and a
    /// repository. The paths are directories of hooks and templates, and included files that exist. git fails where the name
    /// of a missing one is taken.
    ///
    /// # Errors
    ///
    /// Returns a file that cannot be read, or whose names cannot be resolved.
    pub fn obeyed(&self, repository: &[PathBuf]) -> Result<Vec<PathBuf>, Unread> {
        let of_homes = self.homes.iter();
        let of_homes = of_homes.flat_map(|home| FILES.iter().map(|file| home.join(file)));
        let of_user = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let of_user = of_user.filter(|path| path.is_absolute());
        let of_user = of_user.map(|path| path.join("git/config"));
        let first = of_homes.chain(of_user).chain([SYSTEM.into()]);
        let first = first.chain(repository.to_vec());
        // The shortest chain to a file comes first: git follows each chain as far.
        let mut left: VecDeque<(PathBuf, usize)> = first.map(|file| (file, 0)).collect();
        let (mut found, mut read_files) = (Vec::new(), Vec::new());
        while let Some((file, depth)) = left.pop_front() {
            let fails = |cause| Unread {
                cause,
                path: file.clone(),
            };
            if read_files.contains(&file) {
                continue;
            }
            if read_files.len() == MOST_FILES {
                return Err(fails(UnreadCause::Many));
            }
            read_files.push(file.clone());
            let text = match read(&file) {
                // As git does with what is not the repository's.
                Err(UnreadCause::Closed(error))
                    if error.kind() == io::ErrorKind::PermissionDenied
                        && depth == 0
                        && !repository.contains(&file) =>
                {
                    None
                }
                text => text.map_err(fails)?,
            };
            let text = text.unwrap_or_default();
            for Named { kind, value } in values(&text) {
                let base = match kind {
                    Kind::Include => file.parent(),
                    Kind::Executed => self.top,
                    Kind::Read => continue,
                };
                for path in located(&value, self.homes, base).map_err(fails)? {
                    let path = plain(&path);
                    if kind == Kind::Include {
                        if path.symlink_metadata().is_err() {
                            continue;
                        }
                        if depth < DEPTH {
                            left.push_back((path.clone(), depth + 1));
                        }
                    }
                    let real = path.canonicalize().ok();
                    for path in [Some(path), real].into_iter().flatten() {
                        if !found.contains(&path) {
                            found.push(path);
                        }
                    }
                }
            }
        }
        Ok(found)
    }
}

/// Returns the working trees around a directory, each with its directories of git: `.git`, or those that such a file names. Also
/// returns the repositories without a tree that the directory is or lies in.
///
/// git obeys none of another owner. Of several it takes the nearest with a whole repository, which a hook could spoil.
pub fn trees_around(directory: &Path) -> Vec<(Option<&Path>, Vec<PathBuf>)> {
    let owner = |path: &Path| path.symlink_metadata().ok().map(|it| it.uid());
    let expected = owner(directory);
    let is_owned = |path: &Path| expected.is_some() && owner(path) == expected;
    let is_bare = |path: &Path| {
        let mut names = ["HEAD", "objects", "refs"].iter();
        is_owned(path) && names.all(|name| path.join(name).symlink_metadata().is_ok())
    };
    let trees = directory.ancestors().filter_map(|top| {
        let link = top.join(".git");
        if top != directory && is_owned(&link) {
            Some((Some(top), directories_of(link)))
        } else {
            is_bare(top).then(|| (None, vec![top.to_owned()]))
        }
    });
    trees.collect()
}

fn directories_of(link: PathBuf) -> Vec<PathBuf> {
    let named = |base: &Path, file: &Path, key: &str| {
        let text = read(file).ok().flatten()?;
        let text = text.trim_ascii_end().strip_prefix(key.as_bytes())?;
        base.join(OsStr::from_bytes(text)).canonicalize().ok()
    };
    let top = link.parent().unwrap_or(&link);
    let linked = named(top, &link, "gitdir: ");
    let common = linked
        .as_ref()
        .and_then(|linked| named(linked, &linked.join("commondir"), ""));
    [Some(link), linked, common].into_iter().flatten().collect()
}

/// Returns what steers the submodules of a repository, and of those: their configurations and their directories of hooks.
///
/// # Errors
///
/// Returns a directory that cannot be listed.
pub fn steering_modules(repository: &Path) -> Result<Vec<(PathBuf, bool)>, Unread> {
    fn look(
        directory: &Path,
        levels: usize,
        found: &mut Vec<(PathBuf, bool)>,
    ) -> Result<(), Unread> {
        let fails = |error| Unread::closed(directory, error);
        let entries = match fs::read_dir(directory) {
            Err(error) if is_missing(&error) => return Ok(()),
            entries => entries.map_err(fails)?,
        };
        for entry in entries {
            let entry = entry.map_err(fails)?;
            if !entry.file_type().map_err(fails)?.is_dir() {
                continue;
            }
            let path = entry.path();
            let has = |name: &str| path.join(name).symlink_metadata().is_ok();
            let is_repository = has("HEAD") || has("config");
            let within = match is_repository {
                true => {
                    let configurations = ["config", "config.worktree"].map(|name| path.join(name));
                    let exists = |path: &PathBuf| path.symlink_metadata().is_ok();
                    let existing = configurations.into_iter().filter(exists);
                    found.extend(existing.map(|path| (path, false)));
                    found.push((path.join("hooks"), true));
                    path.join("modules")
                }
                // A name may have several parts.
                false => path,
            };
            if levels > 0 {
                look(&within, levels - 1, found)?;
            }
        }
        Ok(())
    }
    let mut found = Vec::new();
    look(&repository.join("modules"), MODULE_LEVELS, &mut found)?;
    Ok(found)
}

/// Reads a file; `None` where there is none, or no more than a device.
fn read(file: &Path) -> Result<Option<Vec<u8>>, UnreadCause> {
    let found = match fs::metadata(file) {
        Err(error) if is_missing(&error) => return Ok(None),
        found => found?,
    };
    if found.file_type().is_char_device() {
        return Ok(None);
    }
    if !found.is_file() {
        return Err(UnreadCause::NoFile);
    }
    if found.len() > MOST_BYTES {
        return Err(UnreadCause::Large);
    }
    Ok(Some(fs::read(file)?))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
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

/// Returns the paths that a value may stand for: `git-config(1)`, "pathname". A relative one needs a base.
fn located(
    value: &OsStr,
    homes: &[PathBuf],
    base: Option<&Path>,
) -> Result<Vec<PathBuf>, UnreadCause> {
    let bytes = value.as_bytes();
    let bytes = bytes.strip_prefix(b":(optional)").unwrap_or(bytes);
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    if let Some(below) = bytes.strip_prefix(b"%(prefix)/") {
        let is_below = !path(below)
            .components()
            .any(|it| it == Component::ParentDir);
        return is_below.then(Vec::new).ok_or(UnreadCause::Prefix);
    }
    let Some(rest) = bytes.strip_prefix(b"~") else {
        let path = path(bytes);
        return Ok(match base {
            _ if bytes.is_empty() => Vec::new(),
            _ if path.is_absolute() => vec![path],
            Some(base) => vec![base.join(path)],
            None => Vec::new(),
        });
    };
    let mut parts = rest.splitn(2, |byte| *byte == b'/');
    let user = parts.next().unwrap_or_default();
    let below = path(parts.next().unwrap_or_default());
    let homes = match std::str::from_utf8(user) {
        Ok("") => homes.to_vec(),
        // git fails where there is no such user.
        Ok(user) => {
            let user = User::from_name(user).ok().flatten();
            user.map(|user| user.dir).into_iter().collect()
        }
        Err(_) => Vec::new(),
    };
    Ok(homes.iter().map(|home| home.join(&below)).collect())
}

/// Use of a path value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// Its files are run.
    Executed,
    /// Read as part of the configuration.
    Include,
    /// Read as a file.
    Read,
}

impl Kind {
    const fn access(self) -> Access {
        match self {
            Self::Executed => Access::Execute,
            Self::Include | Self::Read => Access::Read,
        }
    }

    /// Returns that of a variable.
    fn new(section: &str, key: &str) -> Option<Self> {
        match (section, key) {
            ("core", "excludesfile" | "attributesfile") | ("commit", "template") => {
                Some(Self::Read)
            }
            ("core", "hookspath") | ("init", "templatedir") => Some(Self::Executed),
            ("include" | "includeif", "path") => Some(Self::Include),
            _ => None,
        }
    }
}

/// A path value.
#[derive(Debug, Eq, PartialEq)]
struct Named {
    kind: Kind,
    value: OsString,
}

/// Reads the path values of a configuration: `git-config(1)`, "Syntax". Where git would fail, more is read.
fn values(text: &[u8]) -> Vec<Named> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut left = Characters(text);
    let (mut section, mut named) = (String::new(), Vec::new());
    while let Some(byte) = left.next() {
        match byte {
            b'[' => section = left.section(),
            b'#' | b';' => drop(left.until(|byte| byte == b'\n')),
            _ if byte.is_ascii_alphanumeric() => {
                let rest = left.until(|byte| !(byte.is_ascii_alphanumeric() || byte == b'-'));
                let key: Vec<u8> = [&[byte], rest].concat();
                let key = String::from_utf8_lossy(&key).to_ascii_lowercase();
                left.until(|byte| !matches!(byte, b' ' | b'\t' | b'\r'));
                if left.0.first() != Some(&b'=') {
                    continue;
                }
                left.next();
                let value = OsString::from_vec(left.value());
                named.extend(Kind::new(&section, &key).map(|kind| Named { kind, value }));
            }
            _ => {}
        }
    }
    named
}

/// The rest of a configuration.
struct Characters<'a>(&'a [u8]);

impl<'a> Characters<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        // A line may end as on other systems.
        match (first, rest) {
            (b'\r', [b'\n', ..]) => self.next(),
            _ => Some(*first),
        }
    }

    /// Takes what comes before a byte.
    fn until(&mut self, ends: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| ends(*byte));
        let (taken, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Takes the header of a section, and returns its first name. In quotation marks it has any byte.
    fn section(&mut self) -> String {
        let (mut header, mut in_quotes) = (Vec::new(), false);
        while let Some(byte) = self.next() {
            match byte {
                b'\n' => break,
                b']' if !in_quotes => break,
                b'"' => in_quotes = !in_quotes,
                b'\\' if in_quotes => drop(self.next()),
                _ => {}
            }
            header.push(byte);
        }
        let name = header
            .split(|byte| matches!(byte, b' ' | b'\t' | b'"' | b'.'))
            .next();
        String::from_utf8_lossy(name.unwrap_or_default()).to_ascii_lowercase()
    }

    /// Takes a value, and returns it without quotation marks, escapes, the comment behind it and the white space around it.
    fn value(&mut self) -> Vec<u8> {
        let (mut plain, mut kept, mut in_quotes) = (Vec::new(), 0, false);
        while let Some(byte) = self.next() {
            match byte {
                b'\n' => break,
                b'#' | b';' if !in_quotes => {
                    self.until(|byte| byte == b'\n');
                    break;
                }
                b'"' => {
                    in_quotes = !in_quotes;
                    kept = plain.len();
                    continue;
                }
                b'\\' => match self.next() {
                    Some(b'\n') => continue,
                    Some(b'n') => plain.push(b'\n'),
                    Some(b't') => plain.push(b'\t'),
                    Some(b'b') => plain.push(8),
                    Some(other) => plain.push(other),
                    None => break,
                },
                _ if !in_quotes && byte.is_ascii_whitespace() => {
                    if !plain.is_empty() {
                        plain.push(byte);
                    }
                    continue;
                }
                _ => plain.push(byte),
            }
            kept = plain.len();
        }
        plain.truncate(kept);
        plain
    }
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
        const READ: [&str; 1] = ["~/.ignore # all"];
        const RUN: [&str; 1] = [".hk"];
        const NONE: [&str; 0] = [];
        for (text, kind, expected) in [
            (
                "[core]\n\texcludesFile = \"~/.ignore # all\" ;a comment\n editor = ~/bin/editor\n",
                Kind::Read,
                &READ[..],
            ),
            ("[core]\n hooksPath=.hk\n", Kind::Executed, &RUN),
            ("[core]\r\n\thooksPath = .hk\r\n", Kind::Executed, &RUN),
            ("[CORE]\nHOOKSPATH = .hk", Kind::Executed, &RUN),
            ("[core] hooksPath = .hk\n", Kind::Executed, &RUN),
            ("[core]hooksPath=.hk;x\n", Kind::Executed, &RUN),
            ("\u{feff}[core]\nhooksPath = .hk\n", Kind::Executed, &RUN),
            ("[core]\nhooksPath = \\\n  .hk\n", Kind::Executed, &RUN),
            ("[core]\nhooksPath = .h\\\nk\n", Kind::Executed, &RUN),
            ("[core]\nhooksPath = \".h\"k \t\n", Kind::Executed, &RUN),
            ("[core]\nbare\nhooksPath = .hk\n", Kind::Executed, &RUN),
            (
                "[user \"a]b\\\"c\"] x = 1\n[core]\nhooksPath = .hk\n",
                Kind::Executed,
                &RUN,
            ),
            ("[core]\n# hooksPath = .hk\n", Kind::Executed, &NONE),
            ("[core]\nhooksPath\n", Kind::Executed, &NONE),
            ("[user]\nhooksPath = .hk\n", Kind::Executed, &NONE),
            ("[init]\ntemplateDir = .hk\n", Kind::Executed, &RUN),
            ("[include]\npath = .hk\n", Kind::Include, &RUN),
            (
                "[includeIf \"gitdir:~/work/\"] path = .hk\n",
                Kind::Include,
                &RUN,
            ),
        ] {
            let named = values(text.as_bytes());
            let found: Vec<_> = named.iter().filter_map(|it| it.value.to_str()).collect();
            assert_eq!(found, expected, "{text}");
            assert!(named.iter().all(|it| it.kind == kind), "{text}");
        }
        // A name that is no UTF-8, and a path.
        let text = b"[user]\nname = Jos\xe9\n[core]\nhooksPath = \xe9\n";
        let expected = OsString::from_vec(vec![0xe9]);
        assert_eq!(values(text)[0].value, expected);
    }

    #[test]
    fn a_value_stands_for_the_paths_that_git_takes_it_for() {
        let homes = ["/home/ada", "/mnt/ada"].map(PathBuf::from);
        let user = User::from_uid(nix::unistd::Uid::current())
            .unwrap()
            .unwrap();
        let of_user = (format!("~{}/x", user.name), user.dir.join("x"));
        let of_user = (&*of_user.0, vec![of_user.1.to_str().unwrap()]);
        for (value, paths) in [
            ("x", vec!["/base/x"]),
            ("/x", vec!["/x"]),
            ("~/x", vec!["/home/ada/x", "/mnt/ada/x"]),
            (":(optional)x", vec!["/base/x"]),
            ("%(prefix)/x", vec![]),
            ("%(other)/x", vec!["/base/%(other)/x"]),
            ("", vec![]),
            of_user,
        ] {
            let found = located(OsStr::new(value), &homes, Some(Path::new("/base"))).unwrap();
            assert_eq!(
                found,
                paths.into_iter().map(PathBuf::from).collect::<Vec<_>>(),
                "{value}"
            );
        }
        assert!(located(OsStr::new("%(prefix)/../x"), &homes, None).is_err());
        let none = located(OsStr::new("x"), &homes, None).unwrap();
        assert_eq!(none, Vec::<PathBuf>::new());
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

    /// A working tree and a home.
    struct Places {
        directory: tempfile::TempDir,
        homes: Vec<PathBuf>,
    }

    impl Places {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let homes = vec![directory.path().canonicalize().unwrap().join("home")];
            Self { directory, homes }
        }

        fn path(&self, below: &str) -> PathBuf {
            self.directory.path().canonicalize().unwrap().join(below)
        }

        fn write(&self, below: &str, text: &str) {
            let path = self.path(below);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// Returns what is obeyed, below the directory, by the configuration of the tree and the home.
        fn obeyed(&self) -> Result<Vec<String>, Unread> {
            let top = self.path("tree");
            let reader = Reader {
                homes: &self.homes,
                top: Some(&top),
            };
            let obeyed = reader.obeyed(&[self.path("tree/.git/config")])?;
            let below = obeyed
                .iter()
                .filter_map(|it| it.strip_prefix(self.path("")).ok());
            Ok(below.map(|it| it.display().to_string()).collect())
        }
    }

    #[test]
    fn a_repository_names_directories_of_hooks_and_files_that_it_includes_wherever_they_are_named()
    {
        let places = Places::new();
        assert_eq!(places.obeyed().unwrap(), [""; 0]);
        places.write(
            "tree/.git/config",
            "[core]\n\thooksPath = .husky/_\n[include]\n\tpath = ../shared\n\tpath = ../missing\n\tpath = ../../outside\n\tpath = /dev/null\n",
        );
        places.write(
            "tree/shared",
            "[core]\nhooksPath = ./tools/../hooks\n[include]\npath = shared\npath = ../link\n",
        );
        places.write("outside", "[include]\npath = ~/more\n");
        places.write("home/more", "[core]\nhooksPath = outsides\n");
        places.write("home/.gitconfig", "[init]\ntemplateDir = ~/template\n");
        places.write("tree/real", "");
        std::os::unix::fs::symlink("tree/real", places.path("link")).unwrap();
        let expected = [
            "home/template",
            "tree/.husky/_",
            "tree/shared",
            "outside",
            "tree/hooks",
            "link",
            "tree/real",
            "home/more",
            "tree/outsides",
        ];
        assert_eq!(places.obeyed().unwrap(), expected);
    }

    #[test]
    fn a_chain_of_files_is_followed_as_far_as_git_follows_it() {
        let places = Places::new();
        let first: String = (0..20)
            .map(|index| format!("path = ../wide{index}\n"))
            .collect();
        let first = format!("[include]\npath = ../chain1\n{first}");
        places.write("tree/.git/config", &first);
        for index in 0..20 {
            places.write(
                &format!("tree/wide{index}"),
                &format!("[core] hooksPath = w{index}\n"),
            );
            let next = index + 1;
            let text = format!("[core] hooksPath = c{index}\n[include] path = chain{next}\n");
            places.write(&format!("tree/chain{index}"), &text);
        }
        let found = places.obeyed().unwrap();
        let has = |name: &str| found.iter().any(|it| it == name);
        assert!(
            (0..20).all(|index| has(&format!("tree/w{index}"))),
            "{found:?}"
        );
        assert!(
            (1..=10).all(|index| has(&format!("tree/c{index}"))),
            "{found:?}"
        );
        assert!(!has("tree/c11"), "{found:?}");
    }

    #[test]
    fn a_configuration_that_cannot_be_read_whole_is_an_error_that_names_it() {
        let many: String = (0..=MOST_FILES)
            .map(|index| format!("path = m/{index}\n"))
            .collect();
        let many = format!("[include]\n{many}");
        for (included, text, why) in [
            ("large", "", "larger"),
            ("directory/x", "", "neither a file"),
            ("many", &*many, "one of more"),
            ("prefix", "[core] hooksPath = %(prefix)/../x\n", "prefix"),
        ] {
            let places = Places::new();
            places.write(
                "tree/.git/config",
                &format!("[include] path = ../{included}\n"),
            );
            match included {
                "large" => places.write("tree/large", &"#".repeat(2 << 20)),
                "directory/x" => places.write("tree/directory/x/y", ""),
                other => places.write(&format!("tree/{other}"), text),
            }
            (0..=MOST_FILES)
                .filter(|_| included == "many")
                .for_each(|index| {
                    places.write(&format!("tree/m/{index}"), "");
                });
            let unread = places.obeyed().unwrap_err();
            let shown = hookjail_base::refusal::chain(&unread);
            assert!(shown.contains(why), "{shown}");
            assert!(unread.path.starts_with(places.path("tree")), "{unread}");
        }
    }

    #[test]
    fn trees_around_a_directory_are_found_through_what_looks_like_a_nearer_one() {
        let places = Places::new();
        places.write("main/.git/worktrees/one/commondir", "../..\n");
        let linked = places.path("main/.git/worktrees/one");
        places.write("one/.git", &format!("gitdir: {}\n", linked.display()));
        places.write("one/a/.git/x", "");
        places.write("one/a/b/c/.git/x", "");
        let directory = places.path("one/a/b/c");
        let found = trees_around(&directory);
        let (one, a) = (places.path("one"), places.path("one/a"));
        let directories = vec![one.join(".git"), linked.clone(), places.path("main/.git")];
        assert_eq!(
            found[..2],
            [
                (Some(&*a), vec![a.join(".git")]),
                (Some(&*one), directories)
            ]
        );
        for name in ["HEAD", "objects", "refs"] {
            places.write(&format!("bare/{name}"), "");
        }
        let bare = places.path("bare");
        places.write("bare/hooks/x", "");
        for directory in [bare.clone(), bare.join("hooks")] {
            let found = trees_around(&directory);
            assert_eq!(found[0], (None, vec![bare.clone()]), "{directory:?}");
        }
    }

    #[test]
    fn submodules_are_found_by_names_of_several_parts_and_in_submodules() {
        let places = Places::new();
        for module in ["m", "libs/n", "m/modules/o"] {
            places.write(&format!("modules/{module}/HEAD"), "");
            places.write(&format!("modules/{module}/config"), "");
        }
        places.write("modules/m/config.worktree", "");
        let mut found = steering_modules(&places.path("")).unwrap();
        found.sort();
        let expected = [
            ("libs/n/config", false),
            ("libs/n/hooks", true),
            ("m/config", false),
            ("m/config.worktree", false),
            ("m/hooks", true),
            ("m/modules/o/config", false),
            ("m/modules/o/hooks", true),
        ];
        let expected = expected.map(|(below, is)| (places.path("modules").join(below), is));
        assert_eq!(found, expected);
    }
}
