//! Save hooks: append events to a file, a line each.
//!
//! The operator's configuration names the profile's file, and that file names this one: relative, without links,
//! nowhere else. Registered secrets are redacted in written events.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::MetadataExt,
};

use nix::{fcntl::OFlag, sys::stat::Mode};

use hookjail_base::model::Peer;
use hookjail_contract::Verdict;
use hookjail_sys::{FileRights, Links, locate, open_beneath};

use super::Save;

/// The maximum size of the file, bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// Appends an event with a caller's rights, and returns an observer's verdict. `None` stands for the daemon's own
/// rights. A failure becomes a warning.
pub(crate) fn write(save: &Save, event: &str, writer: Option<&Peer>) -> Verdict {
    let saved = append(save, event, writer);
    save.verdict(saved.err().map(|error| error.to_string()))
}

fn append(save: &Save, event: &str, writer: Option<&Peer>) -> io::Result<()> {
    let _rights = writer.map(|peer| FileRights::of(peer.uid, peer.gid, &peer.groups));
    let directory = locate(&save.directory, OFlag::O_DIRECTORY, Links::FollowedByName)?;
    // Nonblocking, so that a FIFO in the file's place does not block; it is refused below.
    let flags =
        OFlag::O_WRONLY | OFlag::O_APPEND | OFlag::O_CREAT | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let file = open_beneath(&directory, &save.path, flags, mode, Links::Refused)?;
    let mut file = File::from(file);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    // A thread that takes a caller's rights keeps the daemon's groups, so other users' files are refused.
    if writer.is_some_and(|peer| metadata.uid() != peer.uid) {
        return Err(io::Error::other("it belongs to somebody else"));
    }
    if metadata.len().saturating_add(event.len() as u64) >= MAX_FILE_BYTES {
        return Err(io::Error::other(format!(
            "it would be larger than {MAX_FILE_BYTES} bytes"
        )));
    }
    // One call, so that lines of several writers do not mix.
    file.write_all(format!("{event}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, path::Path};

    use nix::unistd::mkfifo;

    use super::*;
    use hookjail_contract::{Decision, Payload};

    fn payload() -> Payload {
        Payload {
            profile: "coder".to_owned(),
        }
    }

    #[test]
    fn only_a_file_below_the_directory_is_named() {
        let below = |path| Save::below(Path::new("/p"), path, payload()).map(|save| save.path());
        assert_eq!(below("a/b.jsonl"), Some("/p/a/b.jsonl".into()));
        for elsewhere in ["", "/etc/passwd", "../x", "a/../../x", "./x"] {
            assert_eq!(below(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn events_are_appended_line_by_line_and_what_is_no_plain_file_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let elsewhere = root.join("elsewhere");
        fs::write(&elsewhere, "").unwrap();
        fs::create_dir(root.join("p")).unwrap();
        let profile = root.join("p");
        symlink(&elsewhere, profile.join("link")).unwrap();
        symlink(root, profile.join("out")).unwrap();
        symlink("events.jsonl", profile.join("inside")).unwrap();
        mkfifo(&profile.join("fifo"), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        let written = |path| {
            let save = Save::below(&profile, path, payload()).unwrap();
            write(&save, "{\"a\":1}", None)
        };

        for _ in 0..2 {
            assert_eq!(written("events.jsonl").warnings, [""; 0]);
        }

        let text = fs::read_to_string(profile.join("events.jsonl")).unwrap();
        assert_eq!(text, "{\"a\":1}\n{\"a\":1}\n");
        for path in ["link", "inside", "out/elsewhere", "fifo", "absent/x", "."] {
            let Some(save) = Save::below(&profile, path, payload()) else {
                continue;
            };
            let verdict = write(&save, "{}", None);
            assert_eq!(verdict.decision, Decision::Allow);
            assert_eq!(verdict.warnings.len(), 1, "{path}");
        }
        assert_eq!(fs::read(&elsewhere).unwrap(), b"");
        let full = profile.join("full");
        fs::File::create(&full)
            .unwrap()
            .set_len(MAX_FILE_BYTES - 1)
            .unwrap();
        assert!(written("full").warnings[0].contains("larger than"));
    }
}
