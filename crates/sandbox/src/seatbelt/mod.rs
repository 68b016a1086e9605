//! macOS: translates a policy to a Seatbelt profile for `sandbox-exec`. Pure text: nothing here needs a Mac, and nothing runs.
//!
//! A [`Policy`] and the places of one run become typed rules, these become the text of a profile and its parameters.
//! Every path is a parameter, so the text is the same for every path and no path is ever read as part of it. In a
//! profile the last rule that matches decides, so rules that must not be overruled are last.

mod base;
mod place;
mod rules;
#[cfg(test)]
mod tests;
#[cfg(any(test, not(target_os = "linux")))]
pub mod witness;

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use hookjail_base::model::axis::{Axes, Coverage};
use hookjail_policy::{
    Access, Keep, Metadata, Network, Policy, Spawn,
    rights::{FileRight, FileRights, Rights},
};

pub use self::place::{Granted, Kept, Places};
use self::rules::{Filter, Operation, Rule, Section, Value};
pub use self::{place::Inexpressible, rules::Parameter};

/// Program that applies a profile to itself and executes another one. By its absolute path: no `PATH` decides what it is.
pub const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// A profile, and the values of its parameters in one run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Generated {
    /// Every parameter of the text, once.
    pub parameters: Vec<Parameter>,
    /// The profile: printable ASCII and line ends.
    pub text: String,
}

impl Generated {
    /// Returns the argument vector that runs a program under the profile. The first argument is `sandbox-exec` itself.
    ///
    /// `sandbox-exec` makes the program's path its `argv[0]` too, so that comes from `program`, not from `arguments`.
    pub fn command<'a>(
        &self,
        program: &Path,
        arguments: impl IntoIterator<Item = &'a OsStr>,
    ) -> Vec<OsString> {
        let mut argv: Vec<OsString> = vec![SANDBOX_EXEC.into(), "-p".into(), (&self.text).into()];
        for parameter in &self.parameters {
            argv.push("-D".into());
            argv.push(parameter.definition());
        }
        // The following words are the program's, even if they begin with a dash.
        argv.push("--".into());
        argv.push(program.into());
        argv.extend(arguments.into_iter().map(OsStr::to_owned));
        argv
    }
}

/// Creates the profile of one run.
///
/// # Errors
///
/// A path is none that a rule on a Mac could match, or would match more than itself.
pub fn profile(policy: &Policy, places: &Places<'_>) -> Result<Generated, Inexpressible> {
    let mut sections = vec![
        base::stragglers(),
        base::system(),
        base::processes(policy.spawn),
    ];
    if policy.network == Network::Outbound {
        sections.push(base::outbound());
    }
    let mut parameters = Vec::new();
    let mut named = |key: String, path: &Path| {
        let parameter = Parameter::new(key, path)?;
        let value = Value::new(&parameter);
        parameters.push(parameter);
        Ok::<_, Inexpressible>(value)
    };

    for (index, granted) in places.granted.iter().enumerate() {
        granted.check()?;
        let value = named(format!("GRANT_{index}"), &granted.path)?;
        sections.push(grant(
            "a grant of the policy",
            value,
            granted.rights,
            policy.metadata,
        ));
    }
    if !places.closed.is_empty() {
        let mut closed = Vec::new();
        for (index, path) in places.closed.iter().enumerate() {
            closed.push(Filter::Subpath(named(format!("CLOSED_{index}"), path)?));
        }
        sections.push(base::shut("the daemon's own", closed));
    }
    sections.push(grant(
        "this program, which reports what it sees before it executes the program",
        named("WITNESS".to_owned(), places.witness)?,
        Rights::for_access(Access::Execute, false),
        policy.metadata,
    ));
    sections.push(grant(
        "the program",
        named("PROGRAM".to_owned(), places.program)?,
        Rights::for_access(Access::Execute, false),
        policy.metadata,
    ));
    sections.push(grant(
        "the scratch directory",
        named("SCRATCH".to_owned(), places.scratch)?,
        Rights::Scratch,
        policy.metadata,
    ));
    for (index, granted) in places.own.iter().enumerate() {
        granted.check()?;
        let value = named(format!("OWN_{index}"), &granted.path)?;
        sections.push(grant(
            "a place of the run's own",
            value,
            granted.rights,
            policy.metadata,
        ));
    }
    let (mut hidden, mut names, mut read_only) = (Vec::new(), Vec::new(), Vec::new());
    for (index, kept) in places.kept.iter().enumerate() {
        let value = named(format!("KEPT_{index}"), &kept.path)?;
        match kept.keep {
            Keep::Hidden => hidden.push(Filter::Subpath(value)),
            Keep::Name => names.push(Filter::Literal(value)),
            Keep::Empty | Keep::Unchanged => read_only.push(Filter::Subpath(value)),
        }
    }
    if !names.is_empty() || !read_only.is_empty() {
        sections.push(base::kept(read_only, names));
    }
    if !hidden.is_empty() {
        sections.push(base::shut("hidden paths", hidden));
    }
    sections.push(base::closed(policy.network, policy.spawn));
    Ok(Generated {
        parameters,
        text: rules::text(&sections),
    })
}

/// Returns a profile's coverage of each axis. Parts of it are up to the runner, which starts `sandbox-exec`.
pub fn axes(policy: &Policy) -> Axes<Coverage> {
    let enforced = |means| Coverage::Enforced { by: means };
    Axes {
        cpu: Coverage::Degraded {
            by: "deadline",
            gap: "no limit on processor share before the deadline",
        },
        devices: enforced("seatbelt"),
        environment: enforced("runner"),
        execute: enforced("seatbelt"),
        ipc: enforced("seatbelt"),
        // macOS takes RLIMIT_AS and does not keep it.
        memory: Coverage::Ignored,
        metadata: match policy.metadata {
            Metadata::Keep => Coverage::Degraded {
                by: "seatbelt",
                gap: "existence, size, mode, times and link targets outside the grants are visible",
            },
            Metadata::Change => Coverage::Degraded {
                by: "seatbelt",
                gap: "visible outside the grants, and below writable ones files of the hook's user can be changed",
            },
        },
        network: enforced("seatbelt"),
        output: enforced("runner"),
        pids: match policy.spawn {
            Spawn::Threads => Coverage::Degraded {
                by: "seatbelt",
                gap: "the number of threads is not limited",
            },
            // RLIMIT_NPROC counts all processes of the user, and hooks have no user of their own here.
            Spawn::Processes => Coverage::Ignored,
        },
        read: enforced("seatbelt"),
        spawn: enforced("seatbelt"),
        time: enforced("runner"),
        write: enforced("seatbelt"),
    }
}

/// Translates a grant's rights to rules on its path.
fn grant(what: &'static str, value: Value, rights: Rights, metadata: Metadata) -> Section {
    let allowed = rights.allowed();
    let whole = reach(rights, value.clone());
    let mut rules = Vec::new();
    let everywhere = everywhere(rights, metadata);
    if !everywhere.is_empty() {
        rules.push(Rule::allow(&everywhere, vec![whole.clone()]));
    }
    // The granted directory itself stays: another one in its place would be granted in its stead.
    let entries = entries(allowed);
    if !entries.is_empty() {
        let below = Filter::All(vec![whole, Filter::Not(Box::new(Filter::Literal(value)))]);
        rules.push(Rule::allow(&entries, vec![below]));
    }
    Section::new(what, rules)
}

const fn is_directory(rights: Rights) -> bool {
    match rights {
        Rights::Directory(_) | Rights::Private | Rights::Scratch => true,
        Rights::File(_) => false,
    }
}

fn reach(rights: Rights, value: Value) -> Filter {
    if is_directory(rights) {
        Filter::Subpath(value)
    } else {
        Filter::Literal(value)
    }
}

/// Returns the operations on the granted path and on all below it.
fn everywhere(rights: Rights, metadata: Metadata) -> Vec<Operation> {
    let allowed = rights.allowed();
    let mut operations = Vec::new();
    if allowed.has(FileRight::ReadFile) {
        // Metadata can be read everywhere.
        operations.extend([Operation::FileReadData, Operation::FileReadXattr]);
    }
    if allowed.has(FileRight::Execute) {
        operations.extend([Operation::FileMapExecutable, Operation::ProcessExec]);
    }
    if allowed.has(FileRight::WriteFile) {
        operations.push(Operation::FileWriteData);
    }
    let is_changed = match rights {
        Rights::Directory(access) | Rights::File(access) => access == Access::Write,
        Rights::Private | Rights::Scratch => true,
    };
    if is_changed && metadata == Metadata::Change {
        operations.extend(Operation::METADATA);
    }
    operations
}

/// Returns the operations on the entries of a granted directory. They are making, removing and, as both, renaming.
fn entries(allowed: FileRights) -> Vec<Operation> {
    let mut operations = Vec::new();
    if allowed.has(FileRight::MakeFile) {
        operations.push(Operation::FileWriteCreate);
    }
    if allowed.has(FileRight::RemoveFile) {
        operations.push(Operation::FileWriteUnlink);
    }
    operations
}
