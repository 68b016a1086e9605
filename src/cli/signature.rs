//! Signatures of files, as `ssh-keygen -Y sign` makes them.

use std::{
    ffi::OsStr,
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use hookjail_base::util::trusted_file;
use hookjail_client::Failure;

/// The places of `ssh-keygen`: a caller's `PATH` could lead to another program.
const PROGRAMS: [&str; 4] = [
    "/usr/bin/ssh-keygen",
    "/bin/ssh-keygen",
    "/usr/local/bin/ssh-keygen",
    "/run/current-system/sw/bin/ssh-keygen",
];

/// Verifies the signature of a file's content for a namespace, and returns the principal that signed.
///
/// The content is what was read of the file: the file itself may be replaced meanwhile.
///
/// # Errors
///
/// Fails without `ssh-keygen`, for a signers' file that other users could change, and for a signature of another key,
/// namespace or content.
pub(super) fn verify(
    content: &[u8],
    (file, signature): (&Path, &Path),
    allowed_signers: &Path,
    namespace: &str,
) -> Result<String, Failure> {
    let unusable = |path: &Path| {
        let path = path.display().to_string();
        move |problem: String| Failure::new(format!("cannot use `{path}`: {problem}"))
    };
    trusted_file::open_own_or_roots(allowed_signers, File::options().read(true))
        .map_err(|error| unusable(allowed_signers)(error.to_string()))?;
    trusted_file::open_untrusted(signature)
        .map_err(|error| unusable(signature)(error.to_string()))?;
    let program = program()?;
    let finding: [&OsStr; 6] = [
        "-Y".as_ref(),
        "find-principals".as_ref(),
        "-f".as_ref(),
        allowed_signers.as_os_str(),
        "-s".as_ref(),
        signature.as_os_str(),
    ];
    let found = call(&program, &finding, &[])?;
    let stdout = String::from_utf8_lossy(&found.stdout).into_owned();
    let mut last = match found.status.success() {
        true => String::new(),
        false => reason(&found),
    };
    for principal in principals(&stdout) {
        let verifying: [&OsStr; 10] = [
            "-Y".as_ref(),
            "verify".as_ref(),
            "-f".as_ref(),
            allowed_signers.as_os_str(),
            "-I".as_ref(),
            principal.as_ref(),
            "-n".as_ref(),
            namespace.as_ref(),
            "-s".as_ref(),
            signature.as_os_str(),
        ];
        let verified = call(&program, &verifying, content)?;
        if verified.status.success() {
            return Ok(principal.to_owned());
        }
        last = reason(&verified);
    }
    // The reason is a sentence of `ssh-keygen`.
    let last = last.trim_end_matches('.');
    Err(Failure::new(format!(
        "signature `{}` does not match `{}`: {last}; sign with a key of `{}`: ssh-keygen -Y sign -n {namespace} -f KEY {}",
        signature.display(),
        file.display(),
        allowed_signers.display(),
        file.display()
    )))
}

/// Signs a file for a namespace, in `FILE.sig`. `ssh-keygen` reads a passphrase from the terminal.
///
/// # Errors
///
/// Fails without `ssh-keygen`, and where it does not sign.
#[expect(
    clippy::disallowed_methods,
    reason = "root's ssh-keygen, which is no hook"
)]
pub(super) fn sign(file: &Path, key: &Path, namespace: &str) -> Result<(), Failure> {
    let program = program()?;
    let mut command = Command::new(&program);
    command
        .args(["-q", "-Y", "sign", "-n", namespace, "-f"])
        .arg(key);
    let ended = command.arg(file).stdin(Stdio::null()).status();
    let failed = |why: &dyn std::fmt::Display| {
        Failure::new(format!(
            "`{}` is not signed by `{}`: {why}; name a key of ssh",
            file.display(),
            key.display()
        ))
    };
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(&status)),
        Err(error) => Err(failed(&error)),
    }
}

/// Returns the principals of a signature's key: a line each.
fn principals(stdout: &str) -> impl Iterator<Item = &str> {
    // One that begins with a dash would be an option.
    let lines = stdout.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('-'))
}

fn program() -> Result<PathBuf, Failure> {
    let mut programs = PROGRAMS.into_iter().map(PathBuf::from);
    programs.find(|path| path.is_file()).ok_or_else(|| {
        Failure::new(
            "ssh-keygen is missing, which verifies signatures; install openssh-client: apt-get install openssh-client",
        )
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "root's ssh-keygen, which is no hook"
)]
fn call(program: &Path, words: &[&OsStr], stdin: &[u8]) -> Result<Output, Failure> {
    let mut command = Command::new(program);
    command.env_clear().env("LC_ALL", "C").args(words);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let ended = piped.stderr(Stdio::piped()).spawn().and_then(|mut child| {
        let pipe = child.stdin.take();
        // A program that reads no stdin closes it.
        drop(pipe.map(|mut pipe| pipe.write_all(stdin)));
        child.wait_with_output()
    });
    ended.map_err(|error| Failure::new(format!("cannot execute `{}`: {error}", program.display())))
}

/// Returns what the program reports on its failure, as one line.
fn reason(output: &Output) -> String {
    let report = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = report.lines().map(str::trim).collect();
    match lines.join(", ").trim() {
        "" => "no signer has its key".to_owned(),
        text => hookjail_base::model::plain(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_principal_is_an_option_of_the_program() {
        let found: Vec<_> = principals("ada@example.org\n-f\n\n  bo\n").collect();
        assert_eq!(found, ["ada@example.org", "bo"]);
    }

    mod with_tools {
        use std::{fs, os::unix::fs::PermissionsExt};

        use tempfile::TempDir;

        use super::*;

        const NAMESPACE: &str = "hookjail-test";

        fn keygen(directory: &Path, words: &[&str]) {
            let words: Vec<_> = words.iter().map(OsStr::new).collect();
            let text = format!("cd {} && exec \"$0\" \"$@\"", directory.display());
            let mut all = vec![
                OsStr::new("-c"),
                OsStr::new(&text),
                OsStr::new("ssh-keygen"),
            ];
            all.extend(words);
            let output = call(Path::new("/bin/sh"), &all, &[]).unwrap();
            assert!(output.status.success(), "{output:?}");
        }

        /// Makes two keys, of which the first is allowed, and a file with signatures of each and of another namespace.
        fn signed() -> TempDir {
            let directory = TempDir::new().unwrap();
            let path = directory.path();
            for name in ["key", "other"] {
                keygen(
                    path,
                    &["-q", "-t", "ed25519", "-N", "", "-C", "x", "-f", name],
                );
            }
            let key = fs::read_to_string(path.join("key.pub")).unwrap();
            let signers = path.join("signers");
            fs::write(&signers, format!("bo,ada@example.org {key}")).unwrap();
            fs::set_permissions(&signers, fs::Permissions::from_mode(0o644)).unwrap();
            for (name, key, namespace) in [
                ("file", "key", NAMESPACE),
                ("by-other", "other", NAMESPACE),
                ("elsewhere", "key", "file"),
            ] {
                fs::write(path.join(name), "content\n").unwrap();
                keygen(
                    path,
                    &["-q", "-Y", "sign", "-n", namespace, "-f", key, name],
                );
            }
            directory
        }

        fn check(directory: &Path, file: &str, signature: &str) -> Result<String, String> {
            let path = |name: &str| directory.join(name);
            let content = fs::read(path(file)).unwrap();
            let names = (&*path(file), &*path(signature));
            verify(&content, names, &path("signers"), NAMESPACE).map_err(|failure| failure.message)
        }

        #[test]
        #[ignore = "needs ssh-keygen"]
        fn a_signature_holds_for_its_key_namespace_and_content_alone() {
            let directory = signed();
            let path = directory.path();
            assert_eq!(check(path, "file", "file.sig"), Ok("bo".to_owned()));
            for signature in ["by-other.sig", "elsewhere.sig", "signers"] {
                let error = check(path, "file", signature).unwrap_err();
                assert!(error.contains("does not match"), "{signature}: {error}");
            }
            fs::write(path.join("file"), "changed\n").unwrap();
            let error = check(path, "file", "file.sig").unwrap_err();
            assert!(error.contains("does not match"), "{error}");
            let error = check(path, "file", "absent.sig").unwrap_err();
            assert!(error.contains("absent.sig"), "{error}");
        }

        #[test]
        #[ignore = "needs ssh-keygen"]
        fn signers_that_others_can_change_are_none() {
            let directory = signed();
            let path = directory.path();
            fs::set_permissions(path.join("signers"), fs::Permissions::from_mode(0o666)).unwrap();
            let error = check(path, "file", "file.sig").unwrap_err();
            assert!(error.contains("others can write it"), "{error}");
        }
    }
}
