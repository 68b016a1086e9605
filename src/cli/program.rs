//! Which program a command line means.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Component, Path, PathBuf},
};

use super::Failure;

/// The program was found but could not be executed.
pub(super) const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
pub(super) const NOT_FOUND: u8 = 127;

/// Makes the program absolute, and a script that an interpreter is given, as the caller sees them: by the current directory
/// and `PATH`.
pub(super) fn resolve_program(mut argv: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
    let Some(name) = argv.first() else {
        return Err(Failure::new("there is no command"));
    };
    let program = find_program(name)?;
    argv[0] = program.into_os_string();
    if let Some(argument) = argv.get(1)
        && !argument.as_bytes().starts_with(b"-")
        && Path::new(argument).is_relative()
        && argument.as_bytes().contains(&b'.')
        && Path::new(argument).is_file()
    {
        argv[1] = env::current_dir()?.join(argument).into_os_string();
    }
    Ok(argv)
}

fn find_program(name: &OsStr) -> Result<PathBuf, Failure> {
    let shown = Path::new(name).display();
    let candidates: Vec<PathBuf> = if name.as_bytes().contains(&b'/') {
        vec![env::current_dir()?.join(name).components().collect()]
    } else {
        let search = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&search)
            .filter(|directory| directory.is_absolute())
            .map(|d| d.join(name))
            .collect()
    };
    let found = candidates.iter().find(|path| path.is_file());
    let found = found.ok_or_else(|| {
        let is_line = name
            .as_bytes()
            .iter()
            .any(|byte| b" |&;<>$`".contains(byte));
        let hint = if is_line {
            "; a shell's line is run by `-- /bin/sh -c 'LINE'`"
        } else {
            ""
        };
        Failure::new(format!("`{shown}` is not found{hint}")).with_code(NOT_FOUND)
    })?;
    let executable = |path: &Path| {
        path.metadata()
            .is_ok_and(|m| m.permissions().mode() & 0o111 != 0)
    };
    let runnable = candidates
        .iter()
        .find(|path| path.is_file() && executable(path))
        .ok_or_else(|| {
            Failure::new(format!("`{}` is not executable", found.display()))
                .with_code(NOT_EXECUTABLE)
        })?;
    // A plain path is what a request would name, and what a consent is then looked up by.
    if !runnable
        .components()
        .any(|component| component == Component::ParentDir)
    {
        return Ok(runnable.clone());
    }
    // `..` in the middle of a path would be refused: what it means depends on links. The directory is resolved, the name
    // itself is kept, because programs look at it.
    match (
        runnable.parent().map(Path::canonicalize),
        runnable.file_name(),
    ) {
        (Some(Ok(directory)), Some(file)) => Ok(directory.join(file)),
        _ => Ok(runnable.clone()),
    }
}
