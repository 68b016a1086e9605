//! hookjail as a built-in hook: reports on the directory in which it was started. The hook is confined like every other,
//! so it finds only files that its profile lets it read.

use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, Read},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use nix::errno::Errno;

use hookjail_base::model::InvalidField;
use hookjail_contract::{Findings, HOOK_WORKSPACE, Look};

use crate::{add_directory_listing, add_environment_info, add_prompt_files};

/// A directory and the workspace in which it lies.
#[derive(Debug)]
pub(crate) struct Place {
    directory: PathBuf,
    workspace: PathBuf,
}

/// An entry of a directory.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Named {
    /// Its name.
    pub(crate) name: Vec<u8>,
    /// Whether it is a directory itself; a link to one is not.
    pub(crate) is_directory: bool,
}

/// Content of a file, if it was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Content {
    /// The file does not exist.
    Absent,
    /// Not read, for this reason.
    Refused(String),
    /// The whole content.
    Text(String),
}

/// Runs a built-in hook, by name and arguments, in the current directory.
///
/// # Errors
///
/// Fails if no built-in hook of this name looks at a workspace, its arguments are invalid, or the current directory is
/// unknown.
pub fn findings(name: &str, args: &[String]) -> Result<Findings, InvalidField> {
    let look = Look::parse(name, args).unwrap_or_else(|| {
        let problem = format!("`{name}` is none that looks at a workspace");
        Err(InvalidField::new("builtin", problem))
    })?;
    let directory = env::current_dir().map_err(|error| {
        InvalidField::new("the current directory", format!("is unknown: {error}"))
    })?;
    let workspace = env::var_os(HOOK_WORKSPACE).map_or_else(|| directory.clone(), PathBuf::from);
    let place = Place {
        directory,
        workspace,
    };
    Ok(match look {
        Look::Environment => add_environment_info::findings(&place),
        Look::Files(names) => add_prompt_files::findings(&names, &place),
        Look::Listing => add_directory_listing::findings(&place),
    })
}

impl Place {
    /// Returns the directory's path.
    pub(crate) fn path(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory and those above it, up to the workspace.
    pub(crate) fn upwards(&self) -> impl Iterator<Item = &Path> {
        let above = self.directory.ancestors();
        above.take_while(|path| path.starts_with(&self.workspace))
    }

    /// Lists the visible entries among the first `most`, and whether more entries exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub(crate) fn list(&self, most: usize) -> io::Result<(Vec<Named>, bool)> {
        let mut all = Vec::new();
        for (seen, entry) in fs::read_dir(&self.directory)?.enumerate() {
            // Hidden entries count too, since reading them takes as long.
            if seen == most {
                return Ok((all, true));
            }
            let entry = entry?;
            let name = entry.file_name().as_bytes().to_owned();
            if !name.starts_with(b".") {
                let is_directory = entry.file_type()?.is_dir();
                all.push(Named { name, is_directory });
            }
        }
        Ok((all, false))
    }

    /// Returns whether a directory, from this one up to the workspace, has this entry.
    pub(crate) fn is_below(&self, name: &str) -> bool {
        let mut upwards = self.upwards();
        upwards
            .any(|path| fs::metadata(path.join(name)).is_ok_and(|it| it.is_dir() || it.is_file()))
    }
}

/// Reads a file of at most `most` bytes. Invalid UTF-8 is replaced.
pub(crate) fn read(path: &Path, most: usize) -> Content {
    match bytes(path, most) {
        Ok(Some(bytes)) => Content::Text(String::from_utf8_lossy(&bytes).into_owned()),
        Ok(None) => Content::Absent,
        Err(error) => match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::ENOTDIR) => Content::Absent,
            _ => Content::Refused(error.to_string()),
        },
    }
}

fn bytes(path: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    let refused = |why: String| Err(io::Error::other(why));
    let metadata = fs::metadata(path)?;
    if metadata.is_dir() {
        return Ok(None);
    }
    if !metadata.is_file() {
        return refused("not a regular file".to_owned());
    }
    // A FIFO that replaced the file since then must not block.
    let flags = nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return refused(format!("larger than {most} bytes"));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    #[test]
    fn a_file_is_read_and_what_blocks_or_is_too_large_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::write(root.join("a"), "text").unwrap();
        symlink("a", root.join("link")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        mkfifo(&root.join("fifo"), Mode::S_IRWXU).unwrap();
        let huge = fs::File::create(root.join("huge")).unwrap();
        huge.set_len(100 * 1024 * 1024).unwrap();
        let text = Content::Text("text".to_owned());
        for (name, expected) in [
            ("a", text.clone()),
            ("link", text),
            ("sub", Content::Absent),
            ("none", Content::Absent),
            ("a/below", Content::Absent),
            ("fifo", Content::Refused("not a regular file".to_owned())),
            ("huge", Content::Refused("larger than 4 bytes".to_owned())),
        ] {
            assert_eq!(read(&root.join(name), 4), expected, "{name}");
        }
        assert!(matches!(read(&root.join("loop"), 4), Content::Refused(_)));
        assert!(matches!(
            read(Path::new("/dev/zero"), 4),
            Content::Refused(_)
        ));
    }

    #[test]
    fn a_directory_is_listed_without_what_is_hidden_and_never_longer_than_asked() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = directory.path().to_owned();
        let place = Place {
            directory: workspace.join("sub"),
            workspace: workspace.clone(),
        };
        fs::create_dir_all(place.path().join("dir")).unwrap();
        for name in ["sub/.hidden", "sub/a\nb", "sub/c", "top"] {
            fs::write(workspace.join(name), "").unwrap();
        }
        symlink("dir", place.path().join("link")).unwrap();
        let (mut all, more) = place.list(100).unwrap();
        all.sort();
        let named = |name: &str, is_directory| Named {
            name: name.into(),
            is_directory,
        };
        let expected = [
            named("a\nb", false),
            named("c", false),
            named("dir", true),
            named("link", false),
        ];
        assert_eq!((&all[..], more), (&expected[..], false));
        let (some, more) = place.list(3).unwrap();
        assert!(some.len() <= 3 && more);
        assert!(place.is_below("c") && place.is_below("top") && !place.is_below("d"));
        assert_eq!(
            place.upwards().collect::<Vec<_>>(),
            [place.path(), &workspace]
        );
    }
}
