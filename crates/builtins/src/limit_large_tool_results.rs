//! `limit_large_tool_results`: cuts a tool result that is too long for a conversation, and keeps the whole in a file.
//!
//! The file is in the hook's cache, if its profile has one. The agent can read it where hooks run as its user.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use hookjail_base::model::InvalidField;
use hookjail_contract::{LargeResult, Members, text};

/// The maximum age of a result whose session does not end.
const AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum size of all results, bytes.
const BYTES: u64 = 64 << 20;

/// The maximum number of results.
const COUNT: usize = 64;

/// The directory in the cache.
const DIRECTORY: &str = "tool-results";

/// A kept result.
struct KeptResult {
    bytes: u64,
    changed: SystemTime,
    path: PathBuf,
}

/// Returns a hook's output for an event: the cut result. An event without a result is a session's end, at which its
/// files are removed. Without a cache nothing is kept.
///
/// # Errors
///
/// The event is not one JSON object.
pub fn output(event: &[u8], cache: Option<&Path>) -> Result<Value, InvalidField> {
    let event = Members::of_event(event)?;
    let session = event.last("session_id").and_then(text).unwrap_or_default();
    let directory = cache.map(|cache| cache.join(DIRECTORY));
    let Some(result) = LargeResult::in_event(&event) else {
        let forgotten = directory.map_or(Ok(()), |directory| forget(&directory, &session));
        return Ok(forgotten.map_or_else(
            |error| message(&format!("kept tool results are not removed: {error}")),
            |()| json!({}),
        ));
    };
    let kept = directory.map(|directory| keep(&directory, &session, &result.text));
    let (kept, mut output) = match kept {
        None => (None, json!({})),
        Some(Ok(path)) => (Some(path), json!({})),
        Some(Err(error)) => (
            None,
            message(&format!("the full result is not kept: {error}")),
        ),
    };
    let cut = result.cut(kept.as_deref());
    let cut: Value = serde_json::from_str(cut.as_str()).unwrap_or_default();
    output["hook_specific_output"] = json!({
        "hook_event_name": "tool_response_transform",
        "updated_tool_response": cut,
    });
    Ok(output)
}

fn message(problem: &str) -> Value {
    json!({ "system_message": problem })
}

/// Keeps a result and returns the file's path. Older results are removed where there are too many.
fn keep(directory: &Path, session: &str, text: &str) -> io::Result<PathBuf> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)?;
    make_room(directory, text.len() as u64)?;
    let name = format!("{}{}.txt", prefix(session), Uuid::now_v7().simple());
    let path = directory.join(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    if let Err(error) = file.write_all(text.as_bytes()) {
        fs::remove_file(&path)?;
        return Err(error);
    }
    Ok(path)
}

/// Removes all results of a session.
fn forget(directory: &Path, session: &str) -> io::Result<()> {
    let prefix = prefix(session);
    for kept in all(directory)? {
        let name = kept.path.file_name().unwrap_or_default();
        if name.to_string_lossy().starts_with(&prefix) {
            remove(&kept.path)?;
        }
    }
    Ok(())
}

/// Removes results that are too old, and the oldest until there is room for one more of this size.
fn make_room(directory: &Path, bytes: u64) -> io::Result<()> {
    if bytes > BYTES {
        return Err(io::Error::other(format!("larger than {BYTES} bytes")));
    }
    let mut kept = all(directory)?;
    kept.sort_by_key(|kept| kept.changed);
    let (mut count, mut sum) = (kept.len(), kept.iter().map(|kept| kept.bytes).sum::<u64>());
    for result in kept {
        let is_old = result.changed.elapsed().is_ok_and(|age| age > AGE);
        if is_old || count >= COUNT || sum + bytes > BYTES {
            remove(&result.path)?;
            count -= 1;
            sum -= result.bytes;
        }
    }
    Ok(())
}

fn all(directory: &Path) -> io::Result<Vec<KeptResult>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let entry = entry?;
        match entry.metadata() {
            Ok(metadata) => all.push(KeptResult {
                bytes: metadata.size(),
                changed: metadata.modified()?,
                path: entry.path(),
            }),
            // Another hook has just removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the beginning of the names of a session's files.
fn prefix(session: &str) -> String {
    let digest = Sha256::digest(session);
    let digits: String = digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{digits}-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(session: &str, response: &str) -> Vec<u8> {
        json!({"session_id": session, "tool_category": "shell", "tool_response": response})
            .to_string()
            .into()
    }

    fn cut(output: &Value) -> &str {
        output["hook_specific_output"]["updated_tool_response"]
            .as_str()
            .unwrap()
    }

    #[test]
    fn the_whole_is_kept_until_its_session_ends() {
        let cache = tempfile::tempdir().unwrap();
        let long = "line\n".repeat(3000);
        let kept = |session: &str| {
            let output = output(&event(session, &long), Some(cache.path())).unwrap();
            let path = cut(&output).split('`').nth(1).unwrap().to_owned();
            assert_eq!(fs::read_to_string(&path).unwrap(), long);
            path
        };
        let (first, other) = (kept("a"), kept("b"));
        assert_eq!(fs::metadata(&first).unwrap().mode() & 0o777, 0o600);

        let end = output(br#"{"session_id":"a"}"#, Some(cache.path())).unwrap();

        assert_eq!(end, json!({}));
        assert!(!Path::new(&first).exists() && Path::new(&other).exists());
    }

    #[test]
    fn a_result_is_cut_where_nothing_can_be_kept() {
        let long = "line\n".repeat(3000);
        let none = output(&event("a", &long), None).unwrap();
        assert!(cut(&none).contains("not stored"), "{none}");
        assert_eq!(none.get("system_message"), None);
        let absent = output(&event("a", &long), Some(Path::new("/proc/none"))).unwrap();
        assert!(cut(&absent).contains("not stored"), "{absent}");
        let problem = absent["system_message"].as_str().unwrap();
        assert!(
            problem.starts_with("the full result is not kept: "),
            "{problem}"
        );
        assert_eq!(output(&event("a", "short"), None).unwrap(), json!({}));
        assert!(output(b"[]", None).is_err());
    }

    #[test]
    fn old_results_make_room_and_the_oldest_go_first() {
        let cache = tempfile::tempdir().unwrap();
        let directory = cache.path().join(DIRECTORY);
        let paths: Vec<_> = (0..COUNT)
            .map(|_| keep(&directory, "a", "x").unwrap())
            .collect();
        let age = |path: &Path, age| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        };
        age(&paths[7], AGE / 2);

        keep(&directory, "a", "x").unwrap();

        assert!(!paths[7].exists() && paths[0].exists());
        age(&paths[3], AGE * 2);
        fs::remove_file(&paths[0]).unwrap();
        fs::remove_file(&paths[1]).unwrap();
        keep(&directory, "a", "x").unwrap();
        assert!(!paths[3].exists() && paths[2].exists());
        let huge = fs::File::create(&paths[2]).unwrap();
        huge.set_len(BYTES).unwrap();
        huge.set_modified(SystemTime::now() - AGE / 4).unwrap();
        keep(&directory, "a", "x").unwrap();
        assert!(!paths[2].exists());
        let error = make_room(&directory, BYTES + 1).unwrap_err();
        assert!(error.to_string().contains("larger than"), "{error}");
    }
}
