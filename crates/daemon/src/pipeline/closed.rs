//! Finds the errors in a hook's stderr that it would have had without confinement, too: about files that its user cannot open.
//!
//! A lookup of what a hook names must not wait for a file system that does not answer, so it stays on that of the directory in which it begins.

#[cfg(target_os = "linux")]
use std::{
    fs::File,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

#[cfg(target_os = "linux")]
use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2},
    sys::stat::Mode,
    unistd::{getegid, geteuid, getgroups},
};

use super::Run;

#[cfg(target_os = "linux")]
use hookjail_contract::refusals;

/// The most lines, and the most names in one of them, that are looked at.
#[cfg(target_os = "linux")]
const LOOKED_AT: usize = 8;

/// The longest name of a file that a warning repeats, bytes.
#[cfg(target_os = "linux")]
const LONGEST_NAME: usize = 256;

/// Returns the lines about files that the hook's user cannot open without confinement either, in lower case.
///
/// Under a root daemon there are none: permissions against the users that hooks have there are part of the confinement.
#[cfg(target_os = "linux")]
pub(super) fn lines(run: &Run, stderr: &[u8]) -> Vec<String> {
    if !run.prepared.confines() || geteuid().is_root() {
        return Vec::new();
    }
    let refused = refusals(stderr);
    if refused.is_empty() {
        return Vec::new();
    }
    let from = start(run);
    // The lines are compared without case, and files have one.
    let stderr = String::from_utf8_lossy(stderr);
    let closed = about(&stderr, &refused).filter(|line| {
        let mut names = names(line).take(LOOKED_AT);
        names.any(|name| is_closed(from, name))
    });
    closed.map(str::to_lowercase).collect()
}

/// Returns a warning about a file that the hook was refused because its name is hidden.
#[cfg(target_os = "linux")]
pub(super) fn hidden(run: &Run, stderr: &[u8]) -> Option<String> {
    let files = &run.policy.files;
    let workspace = run.request.hook.workspace.as_deref()?;
    if files.hidden.is_empty() || !run.prepared.confines() {
        return None;
    }
    let refused = refusals(stderr);
    let stderr = String::from_utf8_lossy(stderr);
    let named = |line| quoted(line).chain(words(line)).take(2 * LOOKED_AT);
    let names = about(&stderr, &refused).flat_map(named);
    let mut names = names.filter(|name| name.len() <= LONGEST_NAME);
    names.find_map(|name| {
        let path = start(run).unwrap_or(workspace).join(name);
        let pattern = files.hides(path.strip_prefix(workspace).ok()?)?;
        let profile = &run.policy.name;
        Some(format!(
            "`{name}` is hidden from this hook: `files.hidden` of profile `{profile}` has `{pattern}`"
        ))
    })
}

/// Returns the directory from which a hook names files.
#[cfg(target_os = "linux")]
fn start(run: &Run) -> Option<&Path> {
    let hook = &run.request.hook;
    hook.working_dir.as_deref().or(hook.workspace.as_deref())
}

/// Iterates over the lines of a text that are among those of refusals, which have no case.
#[cfg(target_os = "linux")]
fn about<'a>(text: &'a str, refused: &'a [String]) -> impl Iterator<Item = &'a str> {
    let lines = text.lines().map(str::trim_end);
    let lines = lines.filter(|line| refused.contains(&line.to_lowercase()));
    lines.take(LOOKED_AT)
}

/// As [`lines`].
#[cfg(not(target_os = "linux"))]
pub(super) fn hidden(_run: &Run, _stderr: &[u8]) -> Option<String> {
    None
}

/// Other systems have no lookup that stays on one file system.
#[cfg(not(target_os = "linux"))]
pub(super) fn lines(_run: &Run, _stderr: &[u8]) -> Vec<String> {
    Vec::new()
}

/// Returns possible names of files in an error: quoted words, and words between blanks or colons.
#[cfg(target_os = "linux")]
fn names(line: &str) -> impl Iterator<Item = &str> {
    quoted(line).chain(words(line).filter(|word| word.contains('/')))
}

#[cfg(target_os = "linux")]
const MARKS: [char; 5] = ['\'', '"', '`', '\u{2018}', '\u{2019}'];

#[cfg(target_os = "linux")]
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split(MARKS).skip(1).step_by(2);
    quoted.filter(|name| !name.is_empty())
}

#[cfg(target_os = "linux")]
fn words(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split([' ', '\t', ':', ',']);
    words.map(|word| word.trim_matches(MARKS))
}

/// Returns whether a file cannot be opened for reading by this process, for its mode or that of a directory above it.
#[cfg(target_os = "linux")]
fn is_closed(from: Option<&Path>, name: &str) -> bool {
    let name = Path::new(name);
    let begin = match from {
        _ if name.is_absolute() => PathBuf::from("/"),
        Some(from) => from.to_owned(),
        None => return false,
    };
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let Ok(directory) = open(&begin, flags | OFlag::O_DIRECTORY, Mode::empty()) else {
        return false;
    };
    let how = OpenHow::new()
        .flags(flags)
        .resolve(ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let name = name.strip_prefix("/").unwrap_or(name);
    match openat2(&directory, name, how) {
        Ok(file) => File::from(file)
            .metadata()
            .is_ok_and(|metadata| !is_readable(&metadata)),
        Err(errno) => errno == Errno::EACCES,
    }
}

#[cfg(target_os = "linux")]
fn is_readable(metadata: &std::fs::Metadata) -> bool {
    let is_of_group = || {
        let groups = getgroups().unwrap_or_default();
        let mut groups = groups
            .iter()
            .chain([&getegid()])
            .copied()
            .collect::<Vec<_>>();
        groups.retain(|group| group.as_raw() == metadata.gid());
        !groups.is_empty()
    };
    let bit = if metadata.uid() == geteuid().as_raw() {
        0o400
    } else if is_of_group() {
        0o040
    } else {
        0o004
    };
    metadata.mode() & bit != 0
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn errors_name_files_as_programs_print_them() {
        for (line, expected) in [
            (
                "ls: cannot open directory '/root': Permission denied",
                "/root",
            ),
            ("cat: /etc/shadow: Permission denied", "/etc/shadow"),
            (
                "warning: could not open directory 'data/': Permission denied",
                "data/",
            ),
            ("x.sh: line 3: ./log: Permission denied", "./log"),
            (
                "PermissionError: [Errno 13] Permission denied: '/x y'",
                "/x y",
            ),
            ("Error: EACCES: permission denied, open '/x'", "/x"),
            ("open /x: permission denied", "/x"),
        ] {
            assert!(names(line).any(|name| name == expected), "{line}");
        }
        assert_eq!(names("cat failed: Permission denied").count(), 0);
    }

    #[test]
    fn a_file_is_closed_to_whom_its_mode_or_its_directory_keeps_out() {
        let directory = tempfile::tempdir().unwrap();
        let mode = |name: &str, mode| {
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(directory.path().join(name), mode).unwrap();
        };
        fs::create_dir(directory.path().join("shut")).unwrap();
        fs::write(directory.path().join("shut/file"), "").unwrap();
        fs::write(directory.path().join("open"), "").unwrap();
        fs::write(directory.path().join("closed"), "").unwrap();
        mode("closed", 0);
        mode("shut", 0);
        let is_closed = |name: &str| is_closed(Some(directory.path()), name);

        assert!(is_closed("closed") && is_closed("shut") && is_closed("shut/"));
        // Nothing keeps root from looking into a directory.
        assert_eq!(is_closed("shut/file"), !geteuid().is_root());
        assert!(!is_closed("open") && !is_closed("missing") && !is_closed("."));
        assert!(!super::is_closed(None, "closed"));
        mode("shut", 0o700);
    }
}
