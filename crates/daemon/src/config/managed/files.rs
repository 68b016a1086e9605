//! The administrator's files on the disk: `managed.toml`, then those of `managed.d` by name.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    path::{Path, PathBuf},
};

use hookjail_base::util::trusted_file::{self, Untrusted};

use super::Managed;
use crate::config::{ConfigError, ConfigProblem};

/// The file that is there while files are replaced: nothing of the directory counts then.
pub const APPLYING: &str = ".applying";

/// The users who may have written the files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::config) enum Trust {
    /// Root alone: the files are in force.
    Root,
    /// The user of this process too: the files are a candidate.
    OwnOrRoot,
}

impl Trust {
    fn open(self, path: &Path) -> Result<File, Untrusted> {
        let open = match self {
            Self::Root => trusted_file::open_roots,
            Self::OwnOrRoot => trusted_file::open_own_or_roots,
        };
        open(path, OpenOptions::new().read(true))
    }

    fn check(self, directory: &Path) -> Result<(), Untrusted> {
        let metadata = directory.symlink_metadata()?;
        match self {
            _ if metadata.is_symlink() => Err(Untrusted::Symlink),
            _ if !metadata.is_dir() => Err(Untrusted::Kind {
                expected: "directory",
            }),
            Self::Root => trusted_file::check_roots(&metadata),
            Self::OwnOrRoot => trusted_file::check_own_or_roots(&metadata),
        }
    }
}

impl Managed {
    /// Reads all files of a directory; `None` where there is none.
    ///
    /// # Errors
    ///
    /// Names the file or directory that cannot be read, that others could change, or whose value widens an earlier file's.
    pub(in crate::config) fn load(
        directory: &Path,
        trust: Trust,
    ) -> Result<Option<Self>, ConfigError> {
        check_whole(directory)?;
        let first = directory.join("managed.toml");
        let more = list(&directory.join("managed.d"), trust)?;
        let mut all = None;
        for path in [first].into_iter().chain(more) {
            let join = |earlier: Option<Self>| match read(&path, trust)? {
                None => Ok(earlier),
                Some(text) => {
                    let later = Self::parse(&path, &text)?;
                    earlier.unwrap_or_default().join(later).map(Some)
                }
            };
            all = join(all).map_err(|cause| ConfigError {
                path: path.clone(),
                cause,
            })?;
        }
        // Files that were replaced meanwhile may be of two policies.
        check_whole(directory)?;
        Ok(all)
    }

    /// Reads one file as if it were all; `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`Managed::load`].
    pub(in crate::config) fn load_one(
        path: &Path,
        trust: Trust,
    ) -> Result<Option<Self>, ConfigError> {
        let text = read(path, trust);
        let parsed = text.and_then(|text| text.map(|text| Self::parse(path, &text)).transpose());
        parsed.map_err(|cause| ConfigError {
            path: path.to_owned(),
            cause,
        })
    }
}

/// Checks that the files are not being replaced.
fn check_whole(directory: &Path) -> Result<(), ConfigError> {
    let path = directory.join(APPLYING);
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ConfigError {
            path,
            cause: error.into(),
        }),
        Ok(_) => Err(ConfigError {
            path,
            cause: ConfigProblem::Syntax(
                "a policy is being applied, or was applied in part; apply it again as root: hookjail policy apply ARCHIVE".to_owned(),
            ),
        }),
    }
}

/// Returns the files of `managed.d`, by name; none where there is no such directory.
fn list(directory: &Path, trust: Trust) -> Result<Vec<PathBuf>, ConfigError> {
    let paths = || -> Result<Vec<PathBuf>, ConfigProblem> {
        match trust.check(directory) {
            Err(Untrusted::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Vec::new());
            }
            checked => checked?,
        }
        let entries = fs::read_dir(directory)?;
        let paths: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
        let mut paths = paths?;
        paths.retain(|path| path.extension().is_some_and(|it| it == "toml"));
        paths.sort_unstable();
        Ok(paths)
    };
    paths().map_err(|cause| ConfigError {
        path: directory.to_owned(),
        cause,
    })
}

/// Reads a file; `None` where there is none.
fn read(path: &Path, trust: Trust) -> Result<Option<String>, ConfigProblem> {
    let mut opened = match trust.open(path) {
        Err(Untrusted::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = String::new();
    opened.read_to_string(&mut text)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use std::{error::Error, os::unix::fs::PermissionsExt};

    use super::*;

    fn written(files: &[(&str, &str, u32)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let more = directory.path().join("managed.d");
        fs::create_dir(&more).unwrap();
        fs::set_permissions(&more, fs::Permissions::from_mode(0o755)).unwrap();
        for (name, text, mode) in files {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
        directory
    }

    fn load(directory: &Path) -> Result<Option<Managed>, String> {
        Managed::load(directory, Trust::OwnOrRoot)
            .map_err(|error| format!("{error}: {}", error.source().unwrap()))
    }

    #[test]
    fn files_are_joined_by_name_and_others_are_none() {
        let directory = written(&[
            ("managed.toml", "version = \"a\"", 0o644),
            ("managed.d/20-b.toml", "version = \"c\"", 0o644),
            ("managed.d/10-c.toml", "version = \"b\"", 0o644),
            ("managed.d/README", "no TOML", 0o666),
        ]);
        let all = load(directory.path()).unwrap().unwrap();
        assert_eq!(all.version().as_deref(), Some("a, b, c"));
        fs::remove_dir_all(directory.path().join("managed.d")).unwrap();
        let first = load(directory.path()).unwrap().unwrap();
        assert_eq!(first.version().as_deref(), Some("a"));
        fs::remove_file(directory.path().join("managed.toml")).unwrap();
        assert!(load(directory.path()).unwrap().is_none());
    }

    #[test]
    fn a_file_or_directory_that_others_can_change_is_an_error_that_names_it() {
        let directory = written(&[("managed.d/10.toml", "", 0o666)]);
        let error = load(directory.path()).unwrap_err();
        assert!(
            error.contains("10.toml") && error.contains("others can write it"),
            "{error}"
        );
        let directory = written(&[]);
        let more = directory.path().join("managed.d");
        fs::set_permissions(&more, fs::Permissions::from_mode(0o777)).unwrap();
        let error = load(directory.path()).unwrap_err();
        assert!(error.contains("managed.d"), "{error}");
        fs::remove_dir(&more).unwrap();
        std::os::unix::fs::symlink("/etc", &more).unwrap();
        let error = load(directory.path()).unwrap_err();
        assert!(error.contains("symbolic link"), "{error}");
    }

    #[test]
    fn a_file_that_widens_an_earlier_one_is_named_beside_it() {
        let directory = written(&[
            ("managed.toml", "[hooks]\nmax_queued = 5\n", 0o644),
            ("managed.d/10.toml", "[hooks]\nmax_queued = 6\n", 0o644),
        ]);
        let error = load(directory.path()).unwrap_err();
        for part in ["managed.d/10.toml", "managed.toml`", "`hooks.max_queued`"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
