//! `hookjail explain`: shows a profile's decision on an operation, computed without running anything.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::AtomicBool,
};

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use nix::{errno::Errno, unistd::geteuid};
use serde_json::json;

use hookjail_base::model::{Command, Hook, Narrow, command_line};
use hookjail_base::util::nearest::did_you_mean;
use hookjail_client::{
    Failure,
    output::{self, Style},
    program::{current_directory, resolve_name, resolve_script},
};
use hookjail_policy::{
    GrantPlace, GrantSpec, GrantedBy, HookView, Policy, WorkspaceRoots,
    egress::Destination,
    environment::Variables,
    explain::{FileKind, Operation, Reach, Target},
    forbidden::Forbidden,
    narrow::{Bindings, narrow},
};
use hookjail_sandbox::{
    Backend, BackendName, Cache, Caches, NeverWaits, OwnUids, Waiter, Wanted,
    explain::{self as kernel, Enforcer, Explanation, Transport, Verdict, number, parse_arguments},
    landlock::{Landlock, NEWEST_ABI},
    program::{OpenedFor, Program, digest::DigestCache},
    rootfs::View,
    seccomp::FilterSpec,
};

use super::{Context, profile, rows::Rows, success};
use hookjail_daemon::{
    config::Config,
    daemon::{Assembly, own_places},
};

/// The placeholder of a run's scratch directory, which has no path before the run.
const SCRATCH: &str = "${scratch}";
const WORKSPACE: &str = "${workspace}";

/// Explains what a profile allows, by the rules that confine hooks. Calls no daemon and runs nothing.
///
/// Exits with 0 if the operation is allowed. Exits with 1 if it is refused, killed, or allowed with some arguments only.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// The profile
    #[arg(long, global = true, default_value = "strict")]
    profile: String,
    /// Binds ${workspace} [default: the current directory, where the profile needs one]
    #[arg(long, global = true, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// The hook's program or script, which is granted with it
    #[arg(long, global = true, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Explain for a kernel with this Landlock ABI [default: this host's]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(NEWEST_ABI)))]
    landlock_abi: Option<u32>,
    #[command(subcommand)]
    question: ExplainQuestion,
}

#[derive(Debug, Subcommand)]
enum ExplainQuestion {
    /// An operation on a path; ${workspace}/… and ${scratch}/… stand for what a run has
    Path {
        /// The operation
        #[arg(value_parser = PossibleValuesParser::new(Operation::ALL.map(Operation::name)).map(operation))]
        operation: Operation,
        /// The path
        path: PathBuf,
        /// The second path of `link` and `rename`
        destination: Option<PathBuf>,
    },
    /// A connection to another host
    Host {
        /// By UDP instead of TCP
        #[arg(long)]
        udp: bool,
        /// HOST:PORT, with the address of an IPv6 host in brackets
        #[arg(value_name = "HOST:PORT")]
        address: Destination,
    },
    /// An interpreter that is started ahead and waits for a command's runs, or the reason why none does
    Warm {
        /// The interpreter, the script and their arguments
        #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
        command: Vec<OsString>,
    },
    /// A syscall, by name or number, with its relevant arguments
    Syscall {
        /// For example `clone`
        name: String,
        /// NAME=VALUE or PLACE=VALUE, for example flags=CLONE_NEWUSER or 0=0x10000000
        #[arg(value_name = "ARG=VALUE")]
        arguments: Vec<String>,
    },
}

impl ExplainArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let config = context.load()?;
        let registry = Assembly::registry(&config)?;
        let base = profile::find(&registry, &self.profile)?;
        let mut notes = Vec::new();
        let workspace = self.workspace(&base)?;
        let caches = Caches::new(config.references.cache.as_deref());
        let cache = caches.find(&base, workspace.as_deref());
        let bound = Bindings {
            cache: cache.as_ref().map(Cache::path),
            ..Bindings::workspace(workspace.as_deref())
        };
        let policy = narrow(&base, bound, &Narrow::default())?;
        let spec = self.spec(&config, &policy, &mut notes);
        let (question, mut answer) = match &self.question {
            ExplainQuestion::Path {
                operation,
                path,
                destination,
            } => {
                let reach = self.reach(&policy, workspace.as_deref(), &spec)?;
                let missing = reach.missing().map(|grant| {
                    format!(
                        "granted `{}` is missing or behind a link here: every run under the profile is refused",
                        grant.place
                    )
                });
                notes.extend(missing);
                let roots = Assembly::roots(&config, &registry);
                notes.extend(workspace_note(&base, workspace.as_deref(), &roots));
                let ask = Ask {
                    operation: *operation,
                    workspace: workspace.as_deref(),
                };
                let forbidden = Forbidden::locate(&own_places(&config))?;
                ask.answer(path, destination.as_deref(), &reach, &forbidden)?
            }
            ExplainQuestion::Host { udp, address } => {
                let (transport, name) = match udp {
                    true => (Transport::Udp, "udp"),
                    false => (Transport::Tcp, "tcp"),
                };
                let answer = kernel::host(&spec, &policy.egress, transport, address);
                (format!("{name} to {address}"), answer)
            }
            ExplainQuestion::Syscall { name, arguments } => system_call(&spec, name, arguments)?,
            ExplainQuestion::Warm { command } => {
                let keeps = workspace.is_some() && policy.files.keep();
                let waiter = waiter_of(&policy, keeps, command.clone())?;
                match context.call.json {
                    true => output::json_line(&waiter_as_json(&policy, command, &waiter)),
                    false => describe_waiter(&policy, command, &waiter).print(),
                }
                return Ok(success(waiter.is_ok()));
            }
        };
        answer.notes.extend(notes);
        if context.call.json {
            output::json_line(&as_json(&question, &policy, &spec, &answer));
        } else {
            describe(&question, &policy, &spec, &answer).print();
        }
        Ok(success(answer.verdict == Verdict::Allowed))
    }

    /// Returns the binding of `${workspace}`: as for `run`, the current directory where the profile needs one.
    fn workspace(&self, policy: &Policy) -> Result<Option<PathBuf>, Failure> {
        let directory = match &self.workspace {
            Some(directory) => directory.clone(),
            None if workspace_grant(policy, false).is_some() => current_directory()?,
            None => return Ok(None),
        };
        let bound = directory.canonicalize().map_err(|error| {
            Failure::new(format!("cannot use `{}`: {error}", directory.display()))
        })?;
        Ok(Some(bound))
    }

    fn spec(&self, config: &Config, policy: &Policy, notes: &mut Vec<String>) -> FilterSpec {
        if config
            .backends
            .by_profile()
            .nearest(&policy.line)
            .contains(&BackendName::NOOP)
        {
            notes.push(
                "backend `noop` is configured: a hook that it runs is not confined at all"
                    .to_owned(),
            );
        }
        if policy.granted_by == GrantedBy::Operator {
            notes.push(
                "only the operator gives this profile, command by command: by a consent under it, or in the configuration"
                    .to_owned(),
            );
        }
        let abi = match (
            self.landlock_abi,
            Landlock::new(OwnUids::NONE, None).probe(),
        ) {
            (Some(abi), _) => abi,
            (None, Ok(host)) => host.landlock_abi,
            (None, Err(absent)) => {
                notes.push(format!(
                    "nothing runs on this host ({absent}), so the answer is for Landlock ABI {NEWEST_ABI}"
                ));
                NEWEST_ABI
            }
        };
        FilterSpec::new(policy, abi)
    }

    fn reach(
        &self,
        policy: &Policy,
        workspace: Option<&Path>,
        spec: &FilterSpec,
    ) -> Result<Reach, Failure> {
        let handled = kernel::handled(spec.landlock_abi);
        let reach =
            Reach::locate(&policy.files, workspace, handled)?.with_scratch(Path::new(SCRATCH));
        let reach = match &self.program {
            None => reach,
            Some(program) => reach.with_program(&program.canonicalize()?)?,
        };
        Ok(reach.with_view(policy)?)
    }
}

/// Returns the interpreter that waits for the runs of a command under a policy.
fn waiter_of(
    policy: &Policy,
    keeps: bool,
    command: Vec<OsString>,
) -> Result<Result<Waiter, NeverWaits>, Failure> {
    let mut argv = resolve_name(command)?;
    let view = View::new(None, &policy.files);
    let path = Program::find(&argv, &policy.environment.path, view)?;
    argv[0] = path.clone().into_os_string();
    let directory = current_directory()?;
    let argv = resolve_script(argv, &directory);
    let opened = Program::open(path, &argv, &[], Some(&directory), OpenedFor::Oneself, view)?;
    let program = opened.hash(&DigestCache::default(), &AtomicBool::new(false))?;
    let hook = Hook {
        at_workspace: false,
        base: None,
        command: Command::Argv(argv),
        configured_env: BTreeMap::new(),
        env: BTreeMap::new(),
        name: String::new(),
        source: None,
        umask: None,
        working_dir: None,
        workspace: None,
    };
    let variables = Variables::resolve(policy, &hook, 0)?;
    let wanted = Wanted {
        environment: &variables.with_scratch(Path::new(SCRATCH)),
        has_own_uid: geteuid().is_root(),
        has_view: policy.view == HookView::Own,
        keeps,
        program: &program,
        warm: policy.warm,
    };
    Ok(wanted.waiter())
}

fn waiter_as_json(
    policy: &Policy,
    command: &[OsString],
    waiter: &Result<Waiter, NeverWaits>,
) -> serde_json::Value {
    json!({
        "asked": format!("warm {}", shown(command)),
        "because": waiter.as_ref().err().map(ToString::to_string),
        "interpreter": waiter.as_ref().ok().map(|waiter| waiter.name()),
        "profile": policy.name.as_str(),
        "profileDigest": policy.digest,
        "waits": waiter.is_ok(),
    })
}

fn describe_waiter(
    policy: &Policy,
    command: &[OsString],
    waiter: &Result<Waiter, NeverWaits>,
) -> Rows {
    let style = Style::of_stdout();
    let mut rows = Rows::strong(style);
    let answer = match waiter {
        Ok(waiter) => style.good(&format!("{} waits, from the third run on", waiter.name())),
        Err(_) => style.warn("no interpreter waits"),
    };
    rows.line(format!(
        "{} under profile {}: {answer}",
        shown(command),
        policy.name
    ));
    match waiter {
        Ok(_) => rows.row("note", WAITS_WHILE),
        Err(why) => rows.row("because", why.to_string()),
    }
    rows
}

/// Returns a command as one text.
fn shown(command: &[OsString]) -> String {
    command_line(command).unwrap_or_else(|| format!("{command:?}"))
}

/// Lifetime of a waiting interpreter, in words.
const WAITS_WHILE: &str = "the interpreter ends after 5 minutes without a run, and while memory is short; `hookjail status` counts waiting ones";

/// Answers a question about a syscall.
fn system_call(
    spec: &FilterSpec,
    name: &str,
    arguments: &[String],
) -> Result<(String, Explanation), Failure> {
    let unknown = || {
        let meant = did_you_mean(name, kernel::names());
        Failure::usage(format!("unknown syscall `{name}`{meant}"))
    };
    let number = number(name).ok_or_else(unknown)?;
    let known = parse_arguments(number, arguments);
    let known = known.map_err(|error| Failure::from(error).as_usage())?;
    let words: String = arguments.iter().map(|word| format!(" {word}")).collect();
    let answer = kernel::call(spec, number, &known);
    Ok((format!("syscall {name}{words}"), answer))
}

/// Returns the note about a workspace that is bound here alone, or may be bound.
fn workspace_note(
    base: &Policy,
    workspace: Option<&Path>,
    roots: &WorkspaceRoots,
) -> Option<String> {
    match (workspace, workspace_grant(base, true)) {
        (Some(bound), _) => roots.admit(bound).err().map(|problem| {
            format!(
                "no daemon takes it as the workspace: `{}` {problem}; `hookjail run` without a daemon does",
                bound.display()
            )
        }),
        (None, grant) => grant.map(|grant| {
            format!(
                "`{}` ({}) is granted too where a request binds it: `--workspace DIR`",
                grant.place, grant.access
            )
        }),
    }
}

/// Returns a profile's workspace grant, optional or not as requested.
fn workspace_grant(policy: &Policy, falls_away: bool) -> Option<&GrantSpec> {
    let mut named = policy.files.named.iter();
    named.find(
        |grant| matches!(grant.place, GrantPlace::Workspace { if_bound, .. } if if_bound == falls_away),
    )
}

/// A question about paths.
struct Ask<'a> {
    operation: Operation,
    workspace: Option<&'a Path>,
}

impl Ask<'_> {
    fn answer(
        &self,
        path: &Path,
        destination: Option<&Path>,
        reach: &Reach,
        forbidden: &Forbidden,
    ) -> Result<(String, Explanation), Failure> {
        let name = self.operation.name();
        if self.operation.has_destination() != destination.is_some() {
            let problem = if destination.is_some() {
                format!("`{name}` takes one path")
            } else {
                format!("`{name}` takes two paths")
            };
            return Err(Failure::usage(problem));
        }
        let target = self.target(path, false)?;
        let goal = destination
            .map(|path| self.target(path, true))
            .transpose()?;
        let mut answer = kernel::path(reach, forbidden, self.operation, &target, goal.as_ref());
        if answer.verdict == Verdict::Allowed
            && answer.by == Enforcer::Landlock
            && let Ok(metadata) = fs::metadata(target.path())
        {
            answer.notes.push(format!(
                "file permissions decide as well: `{}` has mode {:o}, owner {}, group {}",
                target.path().display(),
                metadata.mode() & 0o7777,
                metadata.uid(),
                metadata.gid(),
            ));
        }
        if path != target.path() && path.is_absolute() {
            answer
                .notes
                .push(format!("the path leads to `{}`", target.path().display()));
        }
        let suffix =
            destination.map_or_else(String::new, |suffix| format!(" to {}", suffix.display()));
        Ok((format!("{name} {}{suffix}", path.display()), answer))
    }

    fn target(&self, path: &Path, is_destination: bool) -> Result<Target, Failure> {
        if path.starts_with(SCRATCH) {
            let kind = match self.operation {
                Operation::List => FileKind::Directory,
                Operation::Create => FileKind::Missing,
                Operation::Link | Operation::Rename if is_destination => FileKind::Missing,
                Operation::Execute
                | Operation::Link
                | Operation::Read
                | Operation::Remove
                | Operation::Rename
                | Operation::Write => FileKind::File,
            };
            return Ok(Target::imagined(path, kind));
        }
        let path = match (path.strip_prefix(WORKSPACE), self.workspace) {
            (Ok(below), Some(workspace)) => workspace.join(below),
            (Ok(_), None) => {
                let problem = "no workspace is bound; name one by `--workspace DIR`";
                return Err(Failure::usage(problem));
            }
            (Err(_), _) => current_directory()?.join(path),
        };
        Ok(if is_destination {
            Target::destination(&path)
        } else {
            Target::locate(self.operation, &path)
        })
    }
}

fn operation(name: String) -> Operation {
    let known = Operation::ALL.into_iter();
    let mut named = known.filter(|operation| operation.name() == name);
    // An earlier parser accepts only these names.
    named.next().unwrap_or(Operation::Read)
}

fn errno_name(errno: i32) -> String {
    format!("{:?}", Errno::from_raw(errno))
}

fn as_json(
    question: &str,
    policy: &Policy,
    spec: &FilterSpec,
    answer: &Explanation,
) -> serde_json::Value {
    let (verdict, errno) = match answer.verdict {
        Verdict::Allowed => ("ALLOWED", None),
        Verdict::Depends => ("DEPENDS", None),
        Verdict::Killed => ("KILLED", None),
        Verdict::Refused(errno) => ("REFUSED", Some(errno_name(errno))),
    };
    json!({
        "asked": question,
        "by": answer.by.to_string(),
        "errno": errno,
        "landlockAbi": spec.landlock_abi,
        "notes": answer.notes,
        "profile": policy.name.as_str(),
        "profileDigest": policy.digest,
        "rule": answer.rule,
        "toAllow": answer.remedy.as_ref().map(ToString::to_string),
        "verdict": verdict,
    })
}

fn describe(question: &str, policy: &Policy, spec: &FilterSpec, answer: &Explanation) -> Rows {
    let style = Style::of_stdout();
    let verdict = match answer.verdict {
        Verdict::Allowed => style.good("allowed"),
        Verdict::Depends => style.warn("depends on its arguments"),
        Verdict::Killed => style.bad("killed (SIGSYS)"),
        Verdict::Refused(errno) => style.bad(&format!("refused ({})", errno_name(errno))),
    };
    let enforcer = format!("{} (Landlock ABI {})", answer.by, spec.landlock_abi);
    let mut rows = Rows::strong(style);
    rows.line(format!(
        "{question} under profile {}: {verdict}",
        policy.name
    ));
    rows.row("rule", &answer.rule);
    rows.row("by", enforcer);
    rows.each("to allow", &answer.remedy);
    rows.each("note", &answer.notes);
    rows
}
