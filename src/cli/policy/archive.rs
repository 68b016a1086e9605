//! Archives of policies: tar files with `managed.toml`, `managed.d`, `profiles` and `hooks`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, Permissions},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
};

use hookjail_base::util::trusted_file;
use tar::Archive;

/// The file that every policy has.
pub(super) const FIRST: &str = "managed.toml";

/// The directories of a policy, in the order in which they are put in force.
pub(super) const DIRECTORIES: [&str; 3] = ["hooks", "profiles", "managed.d"];

/// The largest archive, bytes.
const ARCHIVE_BYTES: u64 = 32 << 20;

/// The largest file, bytes.
const FILE_BYTES: u64 = 4 << 20;

/// The most entries of an archive.
const ENTRIES: usize = 1024;

/// The content of an archive.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct PolicyFiles {
    /// The directories that replace those in force; others stay.
    pub(super) directories: BTreeSet<String>,
    /// The files, by their paths.
    pub(super) files: BTreeMap<PathBuf, PolicyFile>,
}

/// A file of an archive.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct PolicyFile {
    pub(super) bytes: Vec<u8>,
    pub(super) is_executable: bool,
}

/// Reads an archive, which need not be trusted.
///
/// # Errors
///
/// Fails where it cannot be read, or is too large.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = trusted_file::open_untrusted(path)?;
    file.take(ARCHIVE_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > ARCHIVE_BYTES {
        true => Err(io::Error::other(format!(
            "larger than {ARCHIVE_BYTES} bytes"
        ))),
        false => Ok(bytes),
    }
}

impl PolicyFiles {
    /// Unpacks an archive.
    ///
    /// # Errors
    ///
    /// Returns the entry that no policy has: another path, a link, a device, a second file of a path, or one too large.
    pub(super) fn unpack(archive: &[u8]) -> Result<Self, String> {
        let mut unpacked = Self::default();
        let broken = |error: io::Error| format!("not a tar archive: {error}");
        for (index, entry) in Archive::new(archive).entries().map_err(broken)?.enumerate() {
            let mut entry = entry.map_err(broken)?;
            if index >= ENTRIES {
                return Err(format!("the archive has more than {ENTRIES} entries"));
            }
            let path = entry.path().map_err(broken)?.into_owned();
            let shown = hookjail_base::model::plain(&path.to_string_lossy());
            let kind = entry.header().entry_type();
            // `git archive` writes one, with the commit.
            if kind.is_pax_global_extensions() {
                continue;
            }
            let is_directory = kind.is_dir();
            if !is_directory && !kind.is_file() {
                return Err(format!("`{shown}` is neither a file nor a directory"));
            }
            let Some(place) = PolicyPlace::parse(&path) else {
                return Err(format!(
                    "`{shown}` has no place in a policy, which has {FIRST}, managed.d/*.toml, profiles/*.toml and hooks/*"
                ));
            };
            match place {
                PolicyPlace::Root if is_directory => {}
                PolicyPlace::Directory(name) if is_directory => {
                    unpacked.directories.insert(name);
                }
                PolicyPlace::File { directory, path } if !is_directory => {
                    let mode = entry.header().mode().map_err(broken)?;
                    let mut bytes = Vec::new();
                    let mut limited = entry.by_ref().take(FILE_BYTES + 1);
                    limited.read_to_end(&mut bytes).map_err(broken)?;
                    if bytes.len() as u64 > FILE_BYTES {
                        return Err(format!("`{shown}` is larger than {FILE_BYTES} bytes"));
                    }
                    unpacked.directories.extend(directory);
                    let file = PolicyFile {
                        bytes,
                        is_executable: mode & 0o111 != 0,
                    };
                    if unpacked.files.insert(path, file).is_some() {
                        return Err(format!("`{shown}` occurs twice"));
                    }
                }
                PolicyPlace::Directory(_) | PolicyPlace::File { .. } | PolicyPlace::Root => {
                    return Err(format!(
                        "`{shown}` is a file instead of a directory, or the reverse"
                    ));
                }
            }
        }
        match unpacked.files.contains_key(Path::new(FIRST)) {
            true => Ok(unpacked),
            false => Err(format!("the archive has no {FIRST}")),
        }
    }

    /// Writes the files into an empty directory, as this process's user's own that no other can write.
    pub(super) fn write(&self, target: &Path) -> io::Result<()> {
        for name in &self.directories {
            let directory = target.join(name);
            fs::create_dir(&directory)?;
            fs::set_permissions(&directory, Permissions::from_mode(0o755))?;
        }
        for (path, file) in &self.files {
            let mode = match file.is_executable && path.starts_with("hooks") {
                true => 0o755,
                false => 0o644,
            };
            trusted_file::replace(&target.join(path), &file.bytes, mode)?;
        }
        File::open(target)?.sync_all()
    }
}

/// A path of a policy.
#[derive(Debug, Eq, PartialEq)]
enum PolicyPlace {
    Directory(String),
    File {
        directory: Option<String>,
        path: PathBuf,
    },
    Root,
}

impl PolicyPlace {
    /// Parses a path; `None` where no policy has it.
    fn parse(path: &Path) -> Option<Self> {
        let names: Option<Vec<&str>> = path
            .components()
            .filter(|it| *it != Component::CurDir)
            .map(|it| match it {
                Component::Normal(name) => name.to_str().filter(|name| is_plain_name(name)),
                Component::CurDir
                | Component::ParentDir
                | Component::Prefix(_)
                | Component::RootDir => None,
            })
            .collect();
        let is_toml = |name: &str| name.ends_with(".toml");
        match names?.as_slice() {
            [] => Some(Self::Root),
            [name] if *name == FIRST => Some(Self::File {
                directory: None,
                path: FIRST.into(),
            }),
            [name] if DIRECTORIES.contains(name) => Some(Self::Directory((*name).to_owned())),
            [directory, name]
                if DIRECTORIES.contains(directory) && (*directory == "hooks" || is_toml(name)) =>
            {
                Some(Self::File {
                    directory: Some((*directory).to_owned()),
                    path: Path::new(directory).join(name),
                })
            }
            _ => None,
        }
    }
}

/// Returns whether a name has plain characters alone, and is not hidden.
fn is_plain_name(name: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "._-".contains(it);
    name.len() <= 128 && !name.starts_with(['.', '-']) && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use tar::{Builder, EntryType, Header};

    use super::*;

    /// Packs entries: path, type, mode and content.
    fn packed(entries: &[(&str, EntryType, u32, &[u8])]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (path, kind, mode, content) in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(*mode);
            header.set_size(content.len() as u64);
            // By hand: the crate writes no path that leads outside.
            let name = &mut header.as_old_mut().name;
            name[..path.len()].copy_from_slice(path.as_bytes());
            if kind.is_symlink() || kind.is_hard_link() {
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            builder.append(&header, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    const FILE: EntryType = EntryType::Regular;

    #[test]
    fn the_files_of_a_policy_are_unpacked() {
        let archive = packed(&[
            ("pax_global_header", EntryType::XGlobalHeader, 0o644, b""),
            ("./", EntryType::Directory, 0o755, b""),
            ("./managed.toml", FILE, 0o666, b"version = \"1\"\n"),
            ("managed.d/", EntryType::Directory, 0o777, b""),
            ("profiles/team.toml", FILE, 0o644, b"x"),
            ("hooks/guard.sh", FILE, 0o755, b"#!/bin/sh\n"),
            ("hooks/rules.txt", FILE, 0o644, b"r"),
        ]);
        let unpacked = PolicyFiles::unpack(&archive).unwrap();
        let directories: Vec<_> = unpacked.directories.iter().map(String::as_str).collect();
        assert_eq!(directories, ["hooks", "managed.d", "profiles"]);
        let place = tempfile::tempdir().unwrap();
        unpacked.write(place.path()).unwrap();
        let mode = |name: &str| {
            let metadata = place.path().join(name).metadata().unwrap();
            metadata.permissions().mode() & 0o7777
        };
        assert_eq!(mode("managed.toml"), 0o644);
        assert_eq!(mode("managed.d"), 0o755);
        assert_eq!(
            (mode("hooks/guard.sh"), mode("hooks/rules.txt")),
            (0o755, 0o644)
        );
    }

    #[test]
    fn an_archive_with_anything_else_is_refused() {
        let first = ("managed.toml", FILE, 0o644, &b""[..]);
        let large = vec![b'#'; usize::try_from(FILE_BYTES).unwrap() + 1];
        for (other, expected) in [
            (("../evil.toml", FILE, 0o644, &b""[..]), "no place"),
            (("hooks/../../evil", FILE, 0o644, b""), "no place"),
            (("/etc/passwd", FILE, 0o644, b""), "no place"),
            (("hooks/a/b", FILE, 0o644, b""), "no place"),
            (("hooks/.hidden", FILE, 0o644, b""), "no place"),
            (("profiles/x.sh", FILE, 0o644, b""), "no place"),
            (("hookjail.toml", FILE, 0o644, b""), "no place"),
            (("allowed_signers", FILE, 0o644, b""), "no place"),
            (("hooks/link", EntryType::Symlink, 0o777, b""), "neither"),
            (("hooks/link", EntryType::Link, 0o777, b""), "neither"),
            (("hooks/device", EntryType::Char, 0o666, b""), "neither"),
            (("hooks/pipe", EntryType::Fifo, 0o666, b""), "neither"),
            (("managed.toml", FILE, 0o644, b""), "occurs twice"),
            (("hooks", FILE, 0o644, b""), "instead of a directory"),
            (("hooks/large", FILE, 0o644, &large), "larger"),
        ] {
            let error = PolicyFiles::unpack(&packed(&[first, other])).unwrap_err();
            assert!(error.contains(expected), "{}: {error}", other.0);
        }
        assert!(PolicyFiles::unpack(&packed(&[first])).is_ok());
        let none = packed(&[("hooks/guard.sh", FILE, 0o755, b"")]);
        assert!(
            PolicyFiles::unpack(&none)
                .unwrap_err()
                .contains("the archive has no managed.toml")
        );
        assert!(PolicyFiles::unpack(b"no archive at all").is_err());
    }
}
