//! Resolves the program of a command line.

use std::{
    env,
    ffi::{OsStr, OsString},
    fs::Metadata,
    io,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Component, Path, PathBuf},
};

use hookjail_base::interpreter::is_interpreter;

use crate::Failure;

/// The exit code for a program that cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The exit code for a program that is not found.
pub const NOT_FOUND: u8 = 127;

/// Returns the current directory.
///
/// # Errors
///
/// Fails where it was removed, or cannot be examined.
pub fn current_directory() -> Result<PathBuf, Failure> {
    env::current_dir().map_err(|error| {
        Failure::new(match error.kind() == io::ErrorKind::NotFound {
            true => "the current directory was removed; change to another".to_owned(),
            false => format!("cannot examine the current directory: {error}"),
        })
    })
}

/// Makes the program and an interpreter's script absolute, by the current directory and `PATH`.
pub fn resolve_program(argv: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let argv = resolve_name(argv)?;
    if argv.len() < 2 {
        return Ok(argv);
    }
    let directory = current_directory()?;
    Ok(resolve_script(argv, &directory))
}

/// Makes the program alone absolute.
pub fn resolve_name(mut argv: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let Some(name) = argv.first() else {
        return Err(Failure::new("there is no command"));
    };
    let program = find_program(name)?;
    argv[0] = program.into_os_string();
    Ok(argv)
}

/// Makes an interpreter's script in a directory absolute.
///
/// Arguments of other programs stay: a consent that names a file which the hook creates would be for another command
/// once the file exists.
pub fn resolve_script(argv: Vec<OsString>, directory: &Path) -> Vec<OsString> {
    match script(&argv, directory) {
        Some(path) if path.is_file() => with_script(argv, path),
        Some(_) | None => argv,
    }
}

/// Returns every spelling that a command typed in one of these directories may have in the allowlist.
///
/// Its files may have been removed.
pub fn spellings(argv: &[OsString], directories: &[PathBuf]) -> Vec<Vec<OsString>> {
    let mut all = vec![argv.to_vec()];
    if let Ok(found) = resolve_name(argv.to_vec()) {
        all.push(found);
    } else if let Some(name) = argv.first().filter(|name| name.as_bytes().contains(&b'/')) {
        let absent = directories.iter().map(|directory| {
            let mut argv = argv.to_vec();
            argv[0] = directory
                .join(name)
                .components()
                .collect::<PathBuf>()
                .into();
            argv
        });
        all.extend(absent);
    }
    let scripts = all.iter().flat_map(|argv| {
        let script_in =
            |directory: &PathBuf| Some(with_script(argv.clone(), script(argv, directory)?));
        directories.iter().filter_map(script_in)
    });
    let scripts: Vec<_> = scripts.collect();
    all.extend(scripts);
    all
}

/// Returns where an interpreter's script lies, if its path is relative.
fn script(argv: &[OsString], directory: &Path) -> Option<PathBuf> {
    let [program, argument, ..] = argv else {
        return None;
    };
    let is_one = is_interpreter(Path::new(program))
        && !argument.as_bytes().starts_with(b"-")
        && Path::new(argument).is_relative()
        && argument.as_bytes().contains(&b'.');
    is_one.then(|| directory.join(argument))
}

fn with_script(mut argv: Vec<OsString>, path: PathBuf) -> Vec<OsString> {
    argv[1] = path.into_os_string();
    argv
}

fn find_program(name: &OsStr) -> Result<PathBuf, Failure> {
    let shown = Path::new(name).display();
    let candidates: Vec<PathBuf> = if Path::new(name).is_absolute() {
        vec![Path::new(name).components().collect()]
    } else if name.as_bytes().contains(&b'/') {
        vec![current_directory()?.join(name).components().collect()]
    } else {
        let search = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&search)
            .filter(|directory| directory.is_absolute())
            .map(|d| d.join(name))
            .collect()
    };
    let mut found = None;
    let mut runnable = None;
    for path in &candidates {
        let Some(metadata) = path.metadata().ok().filter(Metadata::is_file) else {
            continue;
        };
        found = found.or(Some(path));
        if metadata.permissions().mode() & 0o111 != 0 {
            runnable = Some(path);
            break;
        }
    }
    let found = found.ok_or_else(|| {
        let is_line = name
            .as_bytes()
            .iter()
            .any(|byte| b" |&;<>$`".contains(byte));
        let hint = if is_line {
            "; run a shell's line by `-- /bin/sh -c 'LINE'`"
        } else {
            ""
        };
        if Path::new(name).is_dir() && name.as_bytes().contains(&b'/') {
            let message = format!("`{shown}` is a directory; name a program in it");
            return Failure::new(message).with_code(NOT_EXECUTABLE);
        }
        Failure::new(format!("`{shown}` is not found{hint}")).with_code(NOT_FOUND)
    })?;
    let runnable = runnable.ok_or_else(|| {
        Failure::new(format!("`{}` is not executable", found.display())).with_code(NOT_EXECUTABLE)
    })?;
    // Requests name plain paths, and consents are looked up by them.
    if !runnable
        .components()
        .any(|component| component == Component::ParentDir)
    {
        return Ok(runnable.clone());
    }
    // `..` in the middle of a path would be refused, as its meaning depends on links. The directory is resolved; the name
    // itself is kept, because programs look at it.
    match (
        runnable.parent().map(Path::canonicalize),
        runnable.file_name(),
    ) {
        (Some(Ok(directory)), Some(file)) => Ok(directory.join(file)),
        _ => Ok(runnable.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_script_stays_as_it_was_written_whether_it_is_there_or_not() {
        let directory = tempfile::tempdir().unwrap();
        let existing = directory.path().join("there.txt");
        std::fs::write(&existing, "").unwrap();
        let resolved = |words: [&str; 2]| {
            let argv = words.map(OsString::from).to_vec();
            resolve_script(argv, directory.path())[1].clone()
        };
        assert_eq!(resolved(["/usr/bin/python3", "there.txt"]), existing);
        for words in [
            ["/usr/bin/python3", "absent.txt"],
            ["/usr/bin/tee", "there.txt"],
            ["/srv/hooks/log.sh", "there.txt"],
        ] {
            assert_eq!(resolved(words), words[1], "{words:?}");
        }
    }
}
