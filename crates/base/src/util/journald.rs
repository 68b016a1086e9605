//! Whether stderr leads to journald.

use std::{
    env,
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
};

/// Returns whether stderr is a stream to journald: systemd names device and inode of the stream that it made.
pub fn stderr_is_journald() -> bool {
    let stream = env::var("JOURNAL_STREAM").unwrap_or_default();
    let stderr = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let status = stderr.and_then(|stderr| stderr.metadata());
    status.is_ok_and(|status| names(&stream, status.dev(), status.ino()))
}

/// Returns whether a value of `JOURNAL_STREAM` names a file.
fn names(stream: &str, device: u64, inode: u64) -> bool {
    let parsed = stream
        .split_once(':')
        .and_then(|(device, inode)| Some((device.parse().ok()?, inode.parse().ok()?)));
    parsed == Some((device, inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_stream_that_systemd_made_is_journald() {
        assert!(names("8:22", 8, 22));
        for stream in [
            "8:23", "9:22", "", "8", "8:", ":22", "8:22:1", "8:22 ", "x:y",
        ] {
            assert!(!names(stream, 8, 22), "{stream}");
        }
    }
}
