//! `hookjail lock`: writes, compares and verifies the digests of a repository's hooks.

mod file;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use serde_json::json;

use hookjail_base::{model::plain, util::trusted_file};
use hookjail_client::{Failure, output};
use hookjail_daemon::{config::Config, hooks::load::peek};
use hookjail_journal::chain::sha256;

use self::file::{Lock, LockedHook, LockedTest};
use super::{
    Context,
    install::{self, ProjectHook},
    show::counted,
    signature, success, testing,
};

/// The name of the file, at the top of a repository.
pub(super) const FILE: &str = "hookjail.lock";

/// The name of its signature.
const SIGNATURE: &str = "hookjail.lock.sig";

/// The purpose that a signature is made for.
const NAMESPACE: &str = "hookjail-lock";

/// The name of the file of those whose signatures count.
const SIGNERS: &str = "allowed_signers";

/// Write the digests of a project's hooks, their needs and their tests' results to hookjail.lock, or compare them.
///
/// Runs the project's files of tests first; where one fails, nothing is written.
/// With --check exits with 1 where a hook is not as it was locked.
#[derive(Debug, Args)]
pub(super) struct LockArgs {
    /// The project [default: that of the current directory]
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Compare the hooks with hookjail.lock, verify its signature if there is one, and write nothing
    #[arg(long)]
    check: bool,
    /// With --check: a signature is required, by a key of this file
    #[arg(long, requires = "check", value_name = "FILE")]
    allowed_signers: Option<PathBuf>,
    /// Do not run the files of tests, and lock no result
    #[arg(long, conflicts_with = "check")]
    no_tests: bool,
    /// Sign hookjail.lock with this key of ssh
    #[arg(long, conflicts_with = "check", value_name = "KEY")]
    sign: Option<PathBuf>,
}

/// A lock whose hooks are as they were locked.
pub(super) struct Verified {
    lock: Lock,
    /// The signer; `None` where no signature had to be there.
    pub(super) signer: Option<String>,
}

impl LockArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let config = context.load()?;
        let project = install::project(context, self.directory.as_deref())?;
        match self.check {
            true => self.check(context, &config, &project),
            false => self.write(context, &config, &project),
        }
    }

    fn write(
        &self,
        context: &Context,
        config: &Config,
        project: &Path,
    ) -> Result<ExitCode, Failure> {
        let (hooks, problems) = locked(context, config, project)?;
        if !problems.is_empty() {
            let problems = problems.join("\n");
            return Err(Failure::new(format!("nothing is locked: {problems}")));
        }
        if hooks.is_empty() {
            return Err(Failure::new(format!(
                "`{}` has no hooks in its settings, so nothing is locked",
                project.display()
            )));
        }
        let tests = match self.no_tests {
            true => Vec::new(),
            false => tests(context, project)?,
        };
        let lock = Lock::new(hooks, tests);
        let file = project.join(FILE);
        trusted_file::replace(&file, lock.text()?.as_bytes(), 0o644)
            .map_err(|error| Failure::new(format!("cannot write `{}`: {error}", file.display())))?;
        let signature = project.join(SIGNATURE);
        // Another content has another signature.
        match fs::remove_file(&signature) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let signature = signature.display();
                return Err(Failure::new(format!(
                    "cannot remove `{signature}`: {error}"
                )));
            }
            Ok(()) | Err(_) => {}
        }
        if let Some(key) = &self.sign {
            signature::sign(&file, key, NAMESPACE)?;
        }
        let passed: usize = lock.tests.iter().map(|it| it.passed).sum();
        if context.call.json {
            output::json_line(&json!({
                "file": file,
                "hooks": lock.hooks.len(),
                "signed": self.sign.is_some(),
                "tests_passed": passed,
            }));
        } else {
            output::line(&format!(
                "locked {}, {} passed: {}",
                counted(lock.hooks.len(), "hook"),
                counted(passed, "test"),
                file.display()
            ));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn check(
        &self,
        context: &Context,
        config: &Config,
        project: &Path,
    ) -> Result<ExitCode, Failure> {
        let (lock, signer) = read(context, project, self.allowed_signers.as_deref())?;
        let found = differences(&lock, context, config, project)?;
        if context.call.json {
            output::json_line(&json!({
                "differences": found,
                "hooks": lock.hooks.len(),
                "signer": signer,
            }));
        } else {
            for line in &found {
                output::line(&plain(line));
            }
            output::line(&match (found.len(), signer) {
                (0, Some(signer)) => format!("as locked, signed by {signer}"),
                (0, None) => "as locked, not signed".to_owned(),
                (count, _) => format!("{} from {FILE}", counted(count, "difference")),
            });
        }
        Ok(success(found.is_empty()))
    }
}

impl Verified {
    /// Reads a project's lock, verifies its signature where signers are known, and compares all hooks.
    ///
    /// # Errors
    ///
    /// Fails where there is no lock, its signature does not hold, or a hook differs.
    pub(super) fn read(
        context: &Context,
        config: &Config,
        project: &Path,
    ) -> Result<Self, Failure> {
        let (lock, signer) = read(context, project, None)?;
        let found = differences(&lock, context, config, project)?;
        match found.as_slice() {
            [] => Ok(Self { lock, signer }),
            found => Err(Failure::new(format!(
                "nothing was allowed: the hooks are not as {FILE} has them; see what changed: hookjail allow\n{}",
                plain_lines(found)
            ))),
        }
    }

    /// Returns whether it has a hook's command under a profile.
    pub(super) fn has(&self, command: &str, profile: &str) -> bool {
        self.lock.has(command, profile)
    }
}

/// Returns the hooks of a project as a lock has them, and those that cannot be locked, with the reasons.
fn locked(
    context: &Context,
    config: &Config,
    project: &Path,
) -> Result<(Vec<LockedHook>, Vec<String>), Failure> {
    let (hooks, mut problems) = install::project_hooks(context, config, project)?;
    let mut all = Vec::new();
    for hook in hooks {
        match locked_hook(&hook, project) {
            Ok(locked) => all.push(locked),
            Err(why) => problems.push(format!("{}: {why}", hook.source)),
        }
    }
    Ok((all, problems))
}

fn locked_hook(hook: &ProjectHook, project: &Path) -> Result<LockedHook, String> {
    let digests = hook.digests.iter().filter_map(|it| {
        let file = below(Path::new(&it.path), project)?;
        // The content of a file that only root can replace is no part of a consent.
        let sha256 = match it.roots {
            true => digest(Path::new(&it.path)),
            false => Ok(it.sha256.clone()),
        };
        Some(sha256.map(|sha256| (file, sha256)))
    });
    let mut files: BTreeMap<_, _> = digests.collect::<Result<_, _>>()?;
    if let Some(declares) = &hook.declares
        && let Some(file) = below(&declares.file, project)
    {
        files.insert(file, digest(&declares.file)?);
    }
    let declares = hook.declares.as_ref();
    Ok(LockedHook {
        command: hook.line.clone(),
        name: declares.map(|it| it.name.clone()),
        profile: hook.profile.clone(),
        hosts: declares.map_or_else(Vec::new, |it| it.hosts.clone()),
        secrets: declares.map_or_else(Vec::new, |it| it.secrets.clone()),
        settings: BTreeSet::from([hook.source.clone()]),
        files,
    })
}

/// Returns how a project's hooks and files of tests differ from its lock.
fn differences(
    lock: &Lock,
    context: &Context,
    config: &Config,
    project: &Path,
) -> Result<Vec<String>, Failure> {
    let (hooks, problems) = locked(context, config, project)?;
    let tests = lock.tests.iter().filter_map(|test| {
        let sha256 = digest(&project.join(&test.file)).ok()?;
        Some(LockedTest {
            sha256,
            ..test.clone()
        })
    });
    let current = Lock::new(hooks, tests.collect());
    let mut found = lock.differences(&current);
    found.extend(problems);
    Ok(found)
}

/// Runs a project's files of tests.
///
/// # Errors
///
/// Fails where one is not as expected.
fn tests(context: &Context, project: &Path) -> Result<Vec<LockedTest>, Failure> {
    let mut tests = Vec::new();
    for (file, passed) in testing::passed_below(context, project)? {
        let name = below(&file, project).unwrap_or_else(|| file.display().to_string());
        let sha256 = digest(&file).map_err(Failure::new)?;
        tests.push(LockedTest {
            file: name,
            passed,
            sha256,
        });
    }
    Ok(tests)
}

/// Reads a project's lock. Its signature has to hold where signers are known or named.
fn read(
    context: &Context,
    project: &Path,
    signers: Option<&Path>,
) -> Result<(Lock, Option<String>), Failure> {
    let file = project.join(FILE);
    let broken = |why: &dyn std::fmt::Display| {
        Failure::new(format!(
            "cannot use `{}`: {why}; write it anew: hookjail lock",
            file.display()
        ))
    };
    let text = peek(&file).map_err(|error| broken(&error))?;
    let signers = signers
        .map(Path::to_owned)
        .or_else(|| known_signers(context));
    let signer = match signers {
        None => None,
        Some(signers) => {
            let signature = project.join(SIGNATURE);
            if !signature.exists() {
                return Err(Failure::new(format!(
                    "`{}` is not signed, and `{}` names who signs; sign it: hookjail lock --sign KEY",
                    file.display(),
                    signers.display()
                )));
            }
            let names = (file.as_path(), signature.as_path());
            Some(signature::verify(
                text.as_bytes(),
                names,
                &signers,
                NAMESPACE,
            )?)
        }
    };
    let lock = Lock::parse(&text).map_err(|why| broken(&why))?;
    Ok((lock, signer))
}

/// Returns the file of those whose signatures count: the administrator's, else the user's.
fn known_signers(context: &Context) -> Option<PathBuf> {
    let users = context.call.paths.profiles();
    let users = users.and_then(|it| Some(it.parent()?.join(SIGNERS)));
    let all = [Some(Path::new("/etc/hookjail").join(SIGNERS)), users];
    // A file that cannot be looked at is there: its reader fails.
    let is_there = |file: &PathBuf| file.try_exists().unwrap_or(true);
    all.into_iter().flatten().find(is_there)
}

/// Returns a path relative to a project, where it lies there.
fn below(path: &Path, project: &Path) -> Option<String> {
    let path = path.strip_prefix(project).ok()?;
    path.to_str().map(str::to_owned)
}

/// Returns the SHA-256 of a file.
fn digest(path: &Path) -> Result<String, String> {
    let read = || {
        let mut file: File = trusted_file::open_untrusted(path)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        Ok::<_, std::io::Error>(content)
    };
    let content = read().map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    Ok(sha256(&content))
}

fn plain_lines(lines: &[String]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| plain(line)).collect();
    lines.join("\n")
}
