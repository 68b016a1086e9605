//! `save_json`: appends the event to a file, as a line.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// The maximum size of the file, bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Appends an event, a JSON document, to a regular file. A new file is its owner's alone.
///
/// # Errors
///
/// Fails if the path is a link or another special file, or the file would be too large, and returns the error of the
/// system.
pub fn save(path: &Path, event: &str) -> io::Result<()> {
    // Nonblocking, so that a FIFO in the file's place does not block; the FIFO is refused below.
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .custom_flags(flags)
        .mode(0o600)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    // Between the values of a document a line break is as good as a space, and in a string there is none.
    let line = format!("{}\n", event.trim_end().replace(['\n', '\r'], " "));
    if metadata.len().saturating_add(line.len() as u64) > MAX_FILE_BYTES {
        let problem = format!("the file would be larger than {MAX_FILE_BYTES} bytes");
        return Err(io::Error::other(problem));
    }
    // One call, so that lines of several writers do not mix.
    file.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    #[test]
    fn events_are_appended_as_lines_to_regular_files_alone() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::write(root.join("elsewhere"), "").unwrap();
        symlink("elsewhere", root.join("link")).unwrap();
        mkfifo(&root.join("fifo"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();

        for _ in 0..2 {
            save(&root.join("events"), "{\n\"a\":1}\n").unwrap();
        }

        let text = fs::read_to_string(root.join("events")).unwrap();
        assert_eq!(text, "{ \"a\":1}\n".repeat(2));
        for path in ["link", "fifo", "absent/x", "."] {
            assert!(save(&root.join(path), "{}").is_err(), "{path}");
        }
        assert_eq!(fs::read(root.join("elsewhere")).unwrap(), b"");
        let full = fs::File::create(root.join("full")).unwrap();
        full.set_len(MAX_FILE_BYTES - 3).unwrap();
        save(&root.join("full"), "{}").unwrap();
        let error = save(&root.join("full"), "{}").unwrap_err();
        assert!(error.to_string().contains("larger than"), "{error}");
    }
}
