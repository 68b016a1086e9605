//! Configuration of an OCI runtime bundle. Pure.
//!
//! The configuration is a fixed template: a request affects only its opened paths. The container's first process
//! receives the hook's arguments and environment over its socket. Source of the fields: the OCI runtime specification
//! 1.0.2, `config.md` and `config-linux.md`.

use std::{ffi::CString, path::Path, sync::Arc};

use serde_json::{Value, json};

use hookjail_policy::{Access, Network, ScratchLimits, rights::Rights};
use hookjail_sys::Identity;

use crate::container::{
    channel::{Expected, Inode, packed},
    inside,
};

/// Path of the container's own `/proc`.
pub(crate) const PROC: &str = "/proc";

/// Kind of a mounted file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Device,
    Directory,
    File,
}

impl Kind {
    /// Returns the kind for a mode.
    pub(crate) const fn from_mode(mode: u32) -> Self {
        match mode & libc::S_IFMT {
            libc::S_IFBLK | libc::S_IFCHR => Self::Device,
            libc::S_IFDIR => Self::Directory,
            _ => Self::File,
        }
    }
}

/// A host path that is mounted into a container.
#[derive(Clone, Debug)]
pub(crate) struct Bind {
    pub(crate) executable: bool,
    pub(crate) inode: Inode,
    pub(crate) kind: Kind,
    /// Path on the host.
    pub(crate) source: String,
    /// Path in the container.
    pub(crate) target: String,
    pub(crate) writable: bool,
}

/// Inputs of a container's configuration.
#[derive(Debug)]
pub(crate) struct Bundle<'a> {
    /// Sorted: a path comes after the one that contains it.
    pub(crate) binds: Vec<Bind>,
    /// The path of the runtime's own cgroup, if it makes one.
    pub(crate) cgroups_path: Option<String>,
    /// Identity of its processes; `None` = the daemon's user's, in a user namespace.
    pub(crate) identity: Option<Identity>,
    pub(crate) network: Network,
    /// The daemon's uid and gid.
    pub(crate) own: (u32, u32),
    pub(crate) scratch: &'a str,
    pub(crate) scratch_limits: ScratchLimits,
}

impl Bind {
    /// Returns whether rights include executing, and writing.
    pub(crate) const fn uses(rights: Rights) -> (bool, bool) {
        match rights {
            Rights::Directory(access) | Rights::File(access) => match access {
                Access::Execute => (true, false),
                Access::Read => (false, false),
                Access::Write => (true, true),
                Access::WriteFile => (false, true),
            },
            Rights::Private | Rights::Scratch => (false, true),
        }
    }

    fn mount(&self) -> Value {
        let mut options = vec!["rbind", "nosuid"];
        options.push(if self.writable { "rw" } else { "ro" });
        if !self.executable {
            options.push("noexec");
        }
        if self.kind != Kind::Device {
            options.push("nodev");
        }
        json!({
            "destination": self.target,
            "options": options,
            "source": self.source,
            "type": "bind",
        })
    }
}

impl Bundle<'_> {
    /// Returns the runtime's `config.json`.
    pub(crate) fn config(&self) -> Value {
        let user = self.user();
        let proc = json!({
            "destination": PROC,
            // Shows only the container's processes, and nothing of the kernel.
            "options": ["nosuid", "nodev", "noexec", "ro", "hidepid=ptraceable", "subset=pid"],
            "source": "proc",
            "type": "proc",
        });
        let ScratchLimits { bytes, .. } = self.scratch_limits;
        let (inodes, uid, gid) = (inodes(self.scratch_limits), user.uid, user.gid);
        let scratch = json!({
            "destination": self.scratch,
            "options": ["nosuid", "nodev", "noexec", "mode=700", format!("size={bytes}"),
                format!("nr_inodes={inodes}"), format!("uid={uid}"), format!("gid={gid}")],
            "source": "tmpfs",
            "type": "tmpfs",
        });
        let binds = self.binds.iter().map(Bind::mount);
        let mounts: Vec<Value> = std::iter::once(proc)
            .chain(binds)
            .chain([scratch])
            .collect();
        let none: [&str; 0] = [];
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false,
                "user": { "uid": uid, "gid": gid, "additionalGids": *user.groups },
                "args": [inside::PROGRAM, inside::ARGUMENT],
                "env": [],
                "cwd": "/",
                "capabilities": {
                    "ambient": none, "bounding": none, "effective": none, "inheritable": none, "permitted": none,
                },
                "noNewPrivileges": true,
            },
            "root": { "path": "root", "readonly": true },
            "hostname": "hook",
            "mounts": mounts,
            "linux": self.linux(),
        })
    }

    /// Returns the identity of the container's processes, as seen inside it.
    fn user(&self) -> Identity {
        // Runtimes require that the one mapped user is root inside. This root has no capability.
        self.identity.clone().unwrap_or(Identity {
            gid: 0,
            group: None,
            groups: Arc::default(),
            uid: 0,
        })
    }

    fn linux(&self) -> Value {
        let mut namespaces = vec!["ipc", "mount", "pid", "uts"];
        match self.network {
            Network::Named | Network::None => namespaces.push("network"),
            // The host's own network, which the filters restrict to the profile's.
            Network::Outbound => {}
        }
        if self.identity.is_none() {
            namespaces.push("user");
        }
        let namespaces: Vec<_> = namespaces
            .iter()
            .map(|kind| json!({ "type": kind }))
            .collect();
        let mut linux = json!({ "namespaces": namespaces });
        if let Some(path) = &self.cgroups_path {
            linux["cgroupsPath"] = json!(path);
        }
        if self.identity.is_none() {
            let (uid, gid) = self.own;
            linux["uidMappings"] = json!([{ "containerID": 0, "hostID": uid, "size": 1 }]);
            linux["gidMappings"] = json!([{ "containerID": 0, "hostID": gid, "size": 1 }]);
        }
        linux
    }

    /// Returns the mount points on the container's root itself, and which are directories.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&str, bool)> {
        let lies_in_another = |target: &str| {
            self.binds
                .iter()
                .any(|other| other.target != target && Path::new(target).starts_with(&other.target))
        };
        let binds = self
            .binds
            .iter()
            .map(|bind| (bind.target.as_str(), bind.kind == Kind::Directory));
        binds
            .filter(move |(target, _)| !lies_in_another(target))
            .chain([(PROC, true), (self.scratch, true)])
    }

    /// Returns the mounts that the container's first process must find.
    pub(crate) fn expected(&self) -> std::io::Result<Vec<Expected>> {
        let binds = self.binds.iter().map(|bind| {
            Ok(Expected {
                executable: bind.executable,
                inode: Some(bind.inode),
                limits: None,
                path: packed(Path::new(&bind.target))?,
                writable: bind.writable,
            })
        });
        let scratch = Expected {
            executable: false,
            inode: None,
            limits: Some((self.scratch_limits.bytes, inodes(self.scratch_limits))),
            path: CString::new(self.scratch)?,
            writable: true,
        };
        binds.chain([Ok(scratch)]).collect()
    }
}

/// Returns the number of inodes of a scratch directory, its root included.
const fn inodes(limits: ScratchLimits) -> u64 {
    limits.files.saturating_add(1)
}
