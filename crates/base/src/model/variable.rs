//! Names of variables and of a call's metadata: their spelling, and which hookjail sets, requests cannot set, or even profiles
//! cannot set.

/// The metadata of a call that names the configuration file with which it expects its daemon to run.
pub const CONFIGURATION: &str = "hookjail-configuration-bin";

/// The nesting depth: how many hooks led to this process. A runtime that a hook starts passes it on in its requests.
pub const DEPTH: &str = "HOOKJAIL_DEPTH";

/// The path of the pipe by which a run's notices arrive, where they are taken.
pub const NOTICES: &str = "HOOKJAIL_NOTICES";

/// The position in a trace: its id, that of the span above, and whether it is recorded.
pub const TRACE_PARENT: &str = "TRACEPARENT";

/// The state of tracing systems, which they alone read.
pub const TRACE_STATE: &str = "TRACESTATE";

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

/// Variables that a profile can set, since operators write it, and no request can. They make interpreters and common
/// tools load code, read other files or start other programs.
const PROFILE_ONLY: [&str; 100] = [
    "AWKLIBPATH",
    "AWKPATH",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "BROWSER",
    "BUNDLE_*",
    "BUN_*",
    "CARGO_*",
    "CDPATH",
    "CLASSPATH",
    "CONDA_*",
    "CORECLR_*",
    "COREPACK_*",
    "CURL_*",
    "CVS_RSH",
    "DENO_*",
    "DOCKER_CONFIG",
    "DOTNET_*",
    "EDITOR",
    "ERL_*",
    "EXINIT",
    "FCEDIT",
    "FPATH",
    "GEM_*",
    "GIO_*",
    "GIT_*",
    "GLOBIGNORE",
    "GNUMAKEFLAGS",
    "GOFLAGS",
    "GRADLE_*",
    "GTK_*",
    "GUILE_*",
    "HGRCPATH",
    "HOSTALIASES",
    "INPUTRC",
    "JAVA_*",
    "JDK_*",
    "JULIA_*",
    "KRB5_*",
    "KUBECONFIG",
    "LESS*",
    "LOCALDOMAIN",
    "LOCPATH",
    "LUA_*",
    "MAKEFILES",
    "MAKEFLAGS",
    "MALLOC_*",
    "MANPAGER",
    "MAVEN_*",
    "NLSPATH",
    "NODE_*",
    "NPM_*",
    "NULLCMD",
    "OPENSSL_*",
    "PAGER",
    "PERL*",
    "PHPRC",
    "PHP_*",
    "PIP_*",
    "PNPM_*",
    "PROMPT_COMMAND",
    "PS1",
    "PS2",
    "PSModulePath",
    "PYENV_*",
    "PYTHON*",
    "QT_*",
    "READNULLCMD",
    "RESOLV_*",
    "RES_OPTIONS",
    "RIPGREP_CONFIG_PATH",
    "RSYNC_RSH",
    "RUBY*",
    "RUSTC*",
    "RUSTFLAGS",
    "RUSTUP_*",
    "R_*",
    "SHELL",
    "SSH_*",
    "SSLKEYLOGFILE",
    "SUDO_ASKPASS",
    "SVN_SSH",
    "TAR_OPTIONS",
    "TCLLIBPATH",
    "TCL_*",
    "TERMCAP",
    "TERMINFO*",
    "TSX_*",
    "TS_NODE_*",
    "TZDIR",
    "UV_*",
    "VIMINIT",
    "VIRTUAL_ENV",
    "VISUAL",
    "WGETRC",
    "XDG_*",
    "YARN_*",
    "ZDOTDIR",
    "_JAVA_OPTIONS",
    "npm_*",
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
            "cannot be set for a hook, as it selects code to find or load, or is set by the daemon",
        );
    }
    Ok(())
}

/// Returns whether not even a profile can set a variable.
pub fn is_closed(name: &str) -> bool {
    CLOSED.iter().any(|pattern| matches(pattern, name))
}

/// Returns whether no request can set a variable, even if its profile allows it.
pub fn is_closed_to_requests(name: &str) -> bool {
    is_closed(name) || PROFILE_ONLY.iter().any(|pattern| matches(pattern, name))
}

/// Returns whether a shell could set this name: `[A-Za-z_][A-Za-z0-9_]*`.
pub fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns whether a name matches a pattern, in which a trailing `*` stands for any text.
///
/// By bytes: each call in a hook's place compares each of its variables to more than a hundred patterns.
pub fn matches(pattern: &str, name: &str) -> bool {
    match (pattern.as_bytes(), name.as_bytes()) {
        // Most differ here.
        ([first, ..], [other, ..]) if first != other && *first != b'*' => false,
        ([prefix @ .., b'*'], name) => name.starts_with(prefix),
        (pattern, name) => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_at_the_end_stands_for_any_text() {
        for (pattern, name, is_match) in [
            ("", "", true),
            ("", "A", false),
            ("A", "", false),
            ("A*", "", false),
            ("*", "", true),
            ("*", "A", true),
            ("A", "A", true),
            ("A", "AB", false),
            ("AB", "A", false),
            ("A_*", "A_", true),
            ("A_*", "A_B", true),
            ("A_*", "AB", false),
            ("B_*", "A_B", false),
            ("A*B", "A*B", true),
            ("A*B", "AxB", false),
            ("é*", "éa", true),
            ("é*", "è", false),
        ] {
            assert_eq!(matches(pattern, name), is_match, "{pattern:?} {name:?}");
        }
    }
}
