//! Causes around the daemon that prevent confining hooks by Landlock and seccomp.

use std::{borrow::Cow, env, fs, io, path::Path};

use nix::{errno::Errno, fcntl::OFlag};

use hookjail_sys::{Links, Step, locate};

use crate::{Absent, nesting::Cause};

/// Checks that paths can be opened without following links, as every grant is.
///
/// # Errors
///
/// Names a filter around this process that refuses `openat2`. Every kernel with Landlock has it.
pub(crate) fn opens_paths() -> Result<(), Absent> {
    match locate(Path::new("/"), OFlag::empty(), Links::Refused) {
        Err(errno @ (Errno::ENOSYS | Errno::EPERM)) => Err(Absent {
            fix: "allow `openat2` in the seccomp profile of the container or service around hookjail; \
                  remove `RestrictSUIDSGID=` in a systemd unit"
                .to_owned(),
            why: format!(
                "a filter around this process refuses the call `openat2` ({})",
                io::Error::from(errno)
            ),
        }),
        // The run that needs it reports more about other failures.
        _ => Ok(()),
    }
}

/// Describes how mounts of a run become possible, or which key the profile must not have.
macro_rules! namespaces_or {
    ($key:literal) => {
        concat!(
            "allow hookjail user namespaces and mounts in them (`user.max_user_namespaces`, ",
            "`kernel.apparmor_restrict_unprivileged_userns`, the seccomp profile of a container or service around it), run it as ",
            "root's service with CAP_SYS_ADMIN (in the shipped unit: the drop-in `workspaces.conf`), or have hooks run under a profile without ",
            $key
        )
    };
}

/// Value 1: AppArmor denies capabilities in user namespaces to programs whose profile does not allow them.
const RESTRICTS: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";

/// Returns how namespaces become possible on this host.
fn namespaces(anywhere: &'static str) -> Cow<'static, str> {
    let restricts = fs::read_to_string(RESTRICTS).unwrap_or_default();
    let program = env::current_exe().unwrap_or_else(|_| "/usr/bin/hookjail".into());
    apparmor(&restricts, &program).map_or(Cow::Borrowed(anywhere), Cow::Owned)
}

/// Returns the commands that allow user namespaces to a program under AppArmor, where AppArmor restricts them.
fn apparmor(restricts: &str, program: &Path) -> Option<String> {
    (restricts.trim() == "1").then(|| {
        let program = program.display();
        format!(
            "AppArmor keeps user namespaces from programs without a profile; give hookjail one by two commands: \
             `printf 'abi <abi/4.0>,\\nprofile hookjail \"{program}\" flags=(unconfined) {{ userns, }}\\n' | sudo tee /etc/apparmor.d/hookjail` and \
             `sudo apparmor_parser -r /etc/apparmor.d/hookjail`"
        )
    })
}

/// Returns why a step of a child failed.
pub(crate) fn of_step(step: Step, errno: i32) -> Option<Cause> {
    match (step, errno) {
        (
            Step::ReadOnly,
            libc::EACCES
            | libc::EINVAL
            | libc::ENOENT
            | libc::ENOSPC
            | libc::ENOSYS
            | libc::EPERM
            | libc::EUSERS,
        ) => Some(Cause {
            fix: namespaces(namespaces_or!("`files.read_only` and `files.hidden`, as `develop-open-git`")),
            why: "read-only and hidden paths take a mount namespace, which this system does not let hookjail make",
        }),
        (
            Step::Tree | Step::Init | Step::View,
            libc::EACCES
            | libc::EINVAL
            | libc::ENOENT
            | libc::ENOSPC
            | libc::ENOSYS
            | libc::EPERM
            | libc::EUSERS,
        ) => Some(Cause {
            fix: namespaces(namespaces_or!(
                "`files.read_only` and `view = \"own\"`, as `develop-open-git`"
            )),
            why: "`view = \"own\"` takes a mount namespace and a process tree, which this system does not let hookjail make",
        }),
        (
            Step::Scratch,
            libc::EACCES
            | libc::EINVAL
            | libc::ENODEV
            | libc::ENOSPC
            | libc::ENOSYS
            | libc::EPERM
            | libc::EUSERS,
        ) => Some(Cause {
            fix: namespaces(namespaces_or!("`limits.scratch`")),
            why: "`limits.scratch` takes a file system in memory in a mount namespace, which this system does not let hookjail make",
        }),
        (Step::Scratch, libc::EKEYEXPIRED) => Some(Cause {
            fix: "run a kernel with CONFIG_TMPFS, or have hooks run under a profile without `limits.scratch`".into(),
            why: "this kernel's file system in memory does not have the limits of `limits.scratch`",
        }),
        (Step::Landlock, libc::E2BIG) => Some(Cause {
            fix: "start hookjail outside at least one of the sandboxes around it".into(),
            why: "the kernel nests sixteen Landlock domains, and this process is inside as many",
        }),
        (Step::Landlock, libc::EPERM) => Some(Cause {
            fix: "allow landlock_restrict_self in the seccomp profile of the container or service around hookjail".into(),
            why: "a filter around this process refuses it",
        }),
        _ => None,
    }
}

/// Returns why a thread could not load its filters.
pub(crate) fn of_filters(errno: Option<i32>) -> Option<Cause> {
    match errno {
        Some(libc::EPERM | libc::EACCES) => Some(Cause {
            fix: "allow the call `seccomp` in the seccomp profile of the container or service around hookjail".into(),
            why: "a filter around this process refuses the call `seccomp`",
        }),
        Some(libc::ENOSYS | libc::EINVAL) => Some(Cause {
            fix: "run a kernel with CONFIG_SECCOMP_FILTER, and allow the call `seccomp` in a filter around hookjail".into(),
            why: "this kernel has no seccomp filters, or a filter around this process hides them",
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookjail_base::refusal::{Reason, Refusal};

    #[test]
    fn apparmor_is_named_with_its_two_commands_where_it_restricts() {
        let program = Path::new("/opt/hook jail");
        assert_eq!(apparmor("0\n", program), None);
        assert_eq!(apparmor("", program), None);
        let fix = apparmor("1\n", program).unwrap();
        for part in [
            "profile hookjail \"/opt/hook jail\"",
            "userns,",
            "sudo tee /etc/apparmor.d/hookjail",
            "sudo apparmor_parser -r /etc/apparmor.d/hookjail",
        ] {
            assert!(fix.contains(part), "{fix}");
        }
    }

    #[test]
    fn what_is_known_is_named_with_its_fix_and_what_is_not_is_left_as_it_is() {
        let nested = Cause::refusal(
            of_step(Step::Landlock, libc::E2BIG),
            "step `landlock` failed",
        );
        assert!(
            nested
                .message
                .starts_with("step `landlock` failed: the kernel nests sixteen")
        );
        assert!(nested.fix().unwrap().contains("outside"));

        let unknown = Cause::refusal(of_step(Step::Limits, libc::E2BIG), "step `limits` failed");
        assert_eq!(
            unknown,
            Refusal::new(Reason::BackendUnconfirmed, "step `limits` failed")
        );
        assert_eq!(of_filters(Some(libc::EBUSY)), None);
        assert_ne!(
            of_filters(Some(libc::EPERM)),
            of_filters(Some(libc::ENOSYS))
        );
    }
}
