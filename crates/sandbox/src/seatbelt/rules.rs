//! Typed rules of a profile, and their only conversion to text.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use crate::seatbelt::place::{self, Inexpressible};

/// A run's value that a profile refers to as `(param "KEY")`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Parameter {
    /// Its name: capital letters, digits and `_`.
    pub key: String,
    /// Its value.
    pub path: PathBuf,
}

impl Parameter {
    /// Creates a parameter for a path that a rule can match.
    ///
    /// # Errors
    ///
    /// Refuses a path that no rule could match, or not alone.
    pub(crate) fn new(key: String, path: &Path) -> Result<Self, Inexpressible> {
        place::check(path)?;
        Ok(Self {
            key,
            path: path.to_owned(),
        })
    }

    /// Returns the argument of `-D`. The first `=` ends the key, and a key has none.
    pub fn definition(&self) -> OsString {
        let mut definition = OsString::from(&self.key);
        definition.push("=");
        definition.push::<&OsStr>(self.path.as_ref());
        definition
    }
}

/// A path in a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Value {
    /// A path of this run.
    Parameter(String),
    /// A path of every Mac.
    Text(&'static str),
}

impl Value {
    pub(crate) fn new(parameter: &Parameter) -> Self {
        Self::Parameter(parameter.key.clone())
    }

    fn write(&self, text: &mut String) {
        match self {
            Self::Parameter(key) => {
                text.push_str("(param ");
                quote(key, text);
                text.push(')');
            }
            Self::Text(path) => quote(path, text),
        }
    }
}

/// An operation of a rule. `*` stands for all operations with this prefix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Operation {
    AppleEvents,
    Default,
    FileClone,
    FileIoctl,
    FileLink,
    FileMapExecutable,
    FileRead,
    FileReadData,
    FileReadMetadata,
    FileReadXattr,
    FileTestExistence,
    FileWriteAcl,
    FileWriteCreate,
    FileWriteData,
    FileWriteFlags,
    FileWriteMode,
    FileWriteOwner,
    FileWriteTimes,
    FileWriteUnlink,
    FileWriteXattr,
    Iokit,
    IokitProperties,
    IpcPosix,
    IpcSysv,
    JobCreation,
    Launch,
    MachLookup,
    MachPrivTaskPort,
    MachRegister,
    Network,
    NetworkBind,
    NetworkInbound,
    NetworkOutbound,
    Nvram,
    ProcessExec,
    ProcessFork,
    ProcessInfo,
    Signal,
    SyscallUnix,
    SysctlRead,
    SystemSocket,
}

impl Operation {
    /// Operations that change a file's metadata.
    pub(crate) const METADATA: [Self; 6] = [
        Self::FileWriteAcl,
        Self::FileWriteFlags,
        Self::FileWriteMode,
        Self::FileWriteOwner,
        Self::FileWriteTimes,
        Self::FileWriteXattr,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::AppleEvents => "appleevent-send",
            Self::Default => "default",
            Self::FileClone => "file-clone",
            Self::FileIoctl => "file-ioctl",
            Self::FileLink => "file-link",
            Self::FileMapExecutable => "file-map-executable",
            Self::FileRead => "file-read*",
            Self::FileReadData => "file-read-data",
            Self::FileReadMetadata => "file-read-metadata",
            Self::FileReadXattr => "file-read-xattr",
            Self::FileTestExistence => "file-test-existence",
            Self::FileWriteAcl => "file-write-acl",
            Self::FileWriteCreate => "file-write-create",
            Self::FileWriteData => "file-write-data",
            Self::FileWriteFlags => "file-write-flags",
            Self::FileWriteMode => "file-write-mode",
            Self::FileWriteOwner => "file-write-owner",
            Self::FileWriteTimes => "file-write-times",
            Self::FileWriteUnlink => "file-write-unlink",
            Self::FileWriteXattr => "file-write-xattr",
            Self::Iokit => "iokit-open",
            Self::IokitProperties => "iokit-get-properties",
            Self::IpcPosix => "ipc-posix*",
            Self::IpcSysv => "ipc-sysv*",
            Self::JobCreation => "job-creation",
            Self::Launch => "lsopen",
            Self::MachLookup => "mach-lookup",
            Self::MachPrivTaskPort => "mach-priv-task-port",
            Self::MachRegister => "mach-register",
            Self::Network => "network*",
            Self::NetworkBind => "network-bind",
            Self::NetworkInbound => "network-inbound",
            Self::NetworkOutbound => "network-outbound",
            Self::Nvram => "nvram*",
            Self::ProcessExec => "process-exec*",
            Self::ProcessFork => "process-fork",
            Self::ProcessInfo => "process-info*",
            Self::Signal => "signal",
            Self::SyscallUnix => "syscall-unix",
            Self::SysctlRead => "sysctl-read",
            Self::SystemSocket => "system-socket",
        }
    }
}

/// Condition on an operation for a rule to match.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Filter {
    /// All of these.
    All(Vec<Self>),
    /// A system service, by its name.
    GlobalName(&'static str),
    /// Exactly this path.
    Literal(Value),
    /// All but this.
    Not(Box<Self>),
    /// A peer of this protocol.
    Remote(&'static str),
    /// This path and all below it.
    Subpath(Value),
    /// These syscalls.
    Syscalls(&'static [&'static str]),
    /// A sysctl, by its name.
    SysctlName(&'static str),
    /// Sysctls, by their names' prefix.
    SysctlPrefix(&'static str),
    /// A process of this kind.
    Target(&'static str),
    /// A file of this type.
    VnodeType(&'static str),
}

impl Filter {
    fn write(&self, text: &mut String) {
        match self {
            Self::All(filters) => list("require-all", filters, text),
            Self::GlobalName(name) => call("global-name", |text| quote(name, text), text),
            Self::Literal(value) => call("literal", |text| value.write(text), text),
            Self::Not(filter) => call("require-not", |text| filter.write(text), text),
            Self::Remote(protocol) => call("remote", |text| text.push_str(protocol), text),
            Self::Subpath(value) => call("subpath", |text| value.write(text), text),
            Self::Syscalls(names) => {
                call(
                    "syscall-number",
                    |text| text.push_str(&names.join(" ")),
                    text,
                );
            }
            Self::SysctlName(name) => call("sysctl-name", |text| quote(name, text), text),
            Self::SysctlPrefix(prefix) => {
                call("sysctl-name-prefix", |text| quote(prefix, text), text);
            }
            Self::Target(target) => call("target", |text| text.push_str(target), text),
            Self::VnodeType(name) => call("vnode-type", |text| text.push_str(name), text),
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Decision {
    Allow,
    Deny,
}

/// One rule. Without filters it matches everything; with several, everything that any of them matches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Rule {
    decision: Decision,
    errno: Option<&'static str>,
    filters: Vec<Filter>,
    operations: Vec<Operation>,
}

impl Rule {
    pub(crate) fn allow(operations: &[Operation], filters: Vec<Filter>) -> Self {
        Self {
            decision: Decision::Allow,
            errno: None,
            filters,
            operations: operations.to_vec(),
        }
    }

    pub(crate) fn deny(operations: &[Operation], filters: Vec<Filter>) -> Self {
        Self {
            decision: Decision::Deny,
            ..Self::allow(operations, filters)
        }
    }

    /// Sets the errno of the denial, instead of `EPERM`.
    pub(crate) fn with_errno(mut self, errno: &'static str) -> Self {
        self.errno = Some(errno);
        self
    }

    fn write(&self, text: &mut String) {
        text.push_str(match self.decision {
            Decision::Allow => "(allow",
            Decision::Deny => "(deny",
        });
        for operation in &self.operations {
            text.push(' ');
            text.push_str(operation.name());
        }
        for filter in &self.filters {
            text.push_str("\n    ");
            filter.write(text);
        }
        if let Some(errno) = self.errno {
            text.push_str("\n    ");
            call(
                "with",
                |text| {
                    text.push_str("errno ");
                    text.push_str(errno)
                },
                text,
            );
        }
        text.push_str(")\n");
    }
}

/// Rules that belong together.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Section {
    rules: Vec<Rule>,
    what: &'static str,
}

impl Section {
    pub(crate) const fn new(what: &'static str, rules: Vec<Rule>) -> Self {
        Self { rules, what }
    }
}

/// Renders a profile that allows only the sections' operations.
pub(crate) fn text(sections: &[Section]) -> String {
    let mut text = String::from("(version 1)\n");
    Rule::deny(&[Operation::Default], Vec::new()).write(&mut text);
    for section in sections {
        text.push_str("\n; ");
        text.push_str(section.what);
        text.push('\n');
        for rule in &section.rules {
            rule.write(&mut text);
        }
    }
    text
}

fn list(name: &str, filters: &[Filter], text: &mut String) {
    let write = |text: &mut String| {
        for (index, filter) in filters.iter().enumerate() {
            if index > 0 {
                text.push(' ');
            }
            filter.write(text);
        }
    };
    call(name, write, text);
}

fn call(name: &str, arguments: impl FnOnce(&mut String), text: &mut String) {
    text.push('(');
    text.push_str(name);
    text.push(' ');
    arguments(text);
    text.push(')');
}

/// Appends a string literal of the profile language.
///
/// All strings are constants of this program or keys, and printable ASCII, which a test checks.
pub(crate) fn quote(content: &str, text: &mut String) {
    text.push('"');
    for character in content.chars() {
        if matches!(character, '"' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text.push('"');
}
