//! Names of variables: how they are spelled, and which not even a profile can set.

/// Variables that neither requests nor profiles set. They change what the loader or a shell runs before the hook's first line, or
/// the daemon sets them.
const CLOSED: [&str; 19] = [
    "BASHOPTS",
    "BASH_ENV",
    "BASH_FUNC_*",
    "BASH_LOADABLES_PATH",
    "DYLD_*",
    "ENV",
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "HOME",
    "HOOKJAIL_*",
    "IFS",
    "LD_*",
    "PATH",
    "PS4",
    "SHELLOPTS",
    "TEMP",
    "TMP",
    "TMPDIR",
];

/// Returns an error where the operator cannot set a variable for a hook.
///
/// # Errors
///
/// Returns the problem of its name.
pub fn settable(name: &str) -> Result<(), &'static str> {
    if !is_name(name) {
        return Err("is no name of a variable: letters, digits and `_`, not first a digit");
    }
    if is_closed(name) {
        return Err(
            "decides what code is found or loaded, or is the daemon's to set; nobody can set it for a hook",
        );
    }
    Ok(())
}

/// Returns whether not even a profile can set a variable.
pub fn is_closed(name: &str) -> bool {
    CLOSED.iter().any(|pattern| matches(pattern, name))
}

/// Returns whether a shell could set this name: `[A-Za-z_][A-Za-z0-9_]*`.
pub fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns whether a name matches a pattern, in which a trailing `*` stands for any text.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => pattern == name,
    }
}
