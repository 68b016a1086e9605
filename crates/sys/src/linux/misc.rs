//! Syscalls without a suitable safe wrapper.

use std::{
    ffi::{CStr, CString},
    fs::{self, File},
    io,
    os::{
        fd::{AsRawFd, BorrowedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::Arc,
    thread,
};

use nix::{
    errno::Errno,
    fcntl::{FallocateFlags, fallocate},
    sys::{
        prctl,
        resource::Resource,
        signal::{SigSet, SigmaskHow, sigprocmask},
        statfs::{BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, fstatfs},
    },
    unistd::{Gid, Uid, geteuid, getgrouplist, setfsgid, setfsuid, setgroups},
};

use super::{Listener, child::drop_capabilities, raw};
use crate::shared::limit_of;

/// Command of `fcntl` that sets the signal for a waiting writer: `<asm-generic/fcntl.h>`. The C library's own binding lacks it.
const F_SETSIG: libc::c_int = 10;

/// Number of supplementary groups that most processes do not exceed.
const USUAL_GROUPS: usize = 64;

/// Reserves space for a file of this number of bytes, without changing its length. Where a file system cannot, none is kept.
/// See `fallocate(2)`, `FALLOC_FL_KEEP_SIZE`.
///
/// # Errors
///
/// There is no such room, or the disk fails.
pub fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    let bytes = i64::try_from(bytes).map_err(|_| Errno::EFBIG)?;
    match fallocate(file, FallocateFlags::FALLOC_FL_KEEP_SIZE, 0, bytes) {
        Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns whether an extended attribute of a file is `1`.
pub fn is_marked(path: &Path, attribute: &CStr) -> bool {
    let mut value = [0_u8; 2];
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: the strings end with a NUL byte, and the length is that of `value`, which is writable.
    let length = unsafe {
        libc::getxattr(
            path.as_ptr(),
            attribute.as_ptr(),
            value.as_mut_ptr().cast(),
            value.len(),
        )
    };
    length == 1 && value[0] == b'1'
}

/// Returns to the system the freed memory that the C library's allocator keeps. Memory that many small requests took at once
/// stays with it otherwise, until the process ends. See `malloc_trim(3)`; other C libraries give it back by themselves.
pub fn give_memory_back() {
    // SAFETY: the call takes no pointer, and locks what it changes.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has the C library's allocator keep at most a megabyte of freed memory at the end of each arena, and take larger blocks from the
/// system. Its own bounds follow the largest block: after messages of 16 MiB each thread would keep 32 MiB for good, which
/// [`give_memory_back`] does not reach. See `mallopt(3)`.
pub fn keep_little_memory() {
    #[cfg(target_env = "gnu")]
    for bound in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: the call takes no pointer, and locks what it changes. A refused value leaves the library's own.
        unsafe { libc::mallopt(bound, KEPT_BYTES) };
    }
}

/// The bound of [`keep_little_memory`], bytes.
#[cfg(target_env = "gnu")]
const KEPT_BYTES: libc::c_int = 1 << 20;

/// Keeps writers out of a file that is open for reading only. The lease lasts until every copy of this descriptor is closed.
///
/// A process that opens the file for writing meanwhile waits, or fails if it asked not to wait. The kernel lets a writer in
/// after `/proc/sys/fs/lease-break-time` (45 s) all the same. See `fcntl(2)`, "Leases".
///
/// # Errors
///
/// Somebody has the file open for writing, the file system gives no lease, or the file is another user's and this process
/// may not lease it.
pub fn keep_writers_out(file: &File) -> io::Result<()> {
    let fd = file.as_raw_fd();
    // A signal notifies of a waiting writer: by one that is ignored, where the default would end this process.
    // SAFETY: the descriptor is open, and the call takes no pointer.
    Errno::result(unsafe { libc::fcntl(fd, F_SETSIG, libc::SIGURG) })?;
    // SAFETY: as above.
    Errno::result(unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) })?;
    Ok(())
}

/// Returns whether every store to a file, even through a mapping, updates its change time. Its file system must set it when a
/// page that is mapped is first written. Not so on tmpfs; not known of others than those named here.
pub fn stores_change_times(file: &File) -> bool {
    let of_blocks = [BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC];
    fstatfs(file).is_ok_and(|found| of_blocks.contains(&found.filesystem_type()))
}

/// Returns the size that this process's memory may have, bytes; the largest number where there is no limit.
pub fn address_space_limit() -> usize {
    limit_of(Resource::RLIMIT_AS)
}

/// Drops the supplementary groups that a root daemon was started with. A thread that takes a caller's rights over files would
/// keep them, and enter directories for it that are open to them alone. To be called before any thread is started.
///
/// # Errors
///
/// Returns the error of `setgroups`, except `EPERM`: without that right a process may not take a caller's rights either, nor
/// start a hook with a uid of its own.
pub fn drop_groups() -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    match setgroups(&[]) {
        Ok(()) | Err(Errno::EPERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Gives the calling thread another user's rights over files until dropped. The thread has none of its own then.
///
/// A daemon has no supplementary groups by then: see [`drop_groups`].
#[derive(Debug)]
pub struct FileRights {
    gid: Gid,
    /// Whether this thread has the user's supplementary groups.
    has_groups: bool,
    uid: Uid,
}

impl FileRights {
    /// Takes the rights of a user, a group and supplementary groups. Only root can; any other user keeps its own.
    ///
    /// Where the kernel refuses the groups, the thread has none, and may open less.
    pub fn for_user(uid: u32, gid: u32, groups: &[u32]) -> Self {
        // The groups first: without root's file rights they could not be changed any more.
        let has_groups = !groups.is_empty() && set_own_groups(groups).is_ok();
        let gid = setfsgid(Gid::from_raw(gid));
        let uid = setfsuid(Uid::from_raw(uid));
        Self {
            gid,
            has_groups,
            uid,
        }
    }
}

impl Drop for FileRights {
    fn drop(&mut self) {
        setfsuid(self.uid);
        setfsgid(self.gid);
        if self.has_groups && set_own_groups(&[]).is_err() {
            // This thread would open other callers' files with this caller's groups.
            std::process::abort();
        }
    }
}

/// Sets the supplementary groups of this thread alone. The C library's function sets those of every thread. See `setgroups(2)`,
/// "C library/kernel differences".
fn set_own_groups(groups: &[u32]) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of one slice of group ids, which the kernel only reads.
    Errno::result(unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })?;
    Ok(())
}

/// Returns the supplementary groups of a user of this host, its own group among them: `getgrouplist(3)`.
///
/// # Errors
///
/// Returns the error of the lookup.
pub fn user_groups(name: &CStr, gid: u32) -> io::Result<Arc<[u32]>> {
    let groups = getgrouplist(name, Gid::from_raw(gid))?;
    Ok(groups.into_iter().map(Gid::as_raw).collect())
}

/// Returns the supplementary groups that the process at the other end of a socket had when it connected: `SO_PEERGROUPS`, `unix(7)`.
///
/// # Errors
///
/// Returns the error of `getsockopt`.
pub fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Arc<[u32]>> {
    let mut groups = vec![0_u32; USUAL_GROUPS];
    loop {
        let mut bytes =
            libc::socklen_t::try_from(size_of_val(&groups[..])).map_err(|_| Errno::ERANGE)?;
        // SAFETY: the descriptor is open, and the kernel writes at most as many bytes as the list has.
        let result = Errno::result(unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut bytes,
            )
        });
        let count = bytes as usize / size_of::<u32>();
        match result {
            Ok(_) => {
                groups.truncate(count);
                return Ok(groups.into());
            }
            // The kernel has reported their number.
            Err(Errno::ERANGE) if count > groups.len() => groups.resize(count, 0),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Makes orphans of hooks children of this process, which can then wait for all of a tree.
///
/// # Errors
///
/// Returns the error of `prctl`.
pub fn become_subreaper() -> io::Result<()> {
    Ok(prctl::set_child_subreaper(true)?)
}

/// Excludes all memory from core images of this process and of all that it starts. That is kept across an exec, so no hook's core
/// image has anything in it, even where a piped handler ignores RLIMIT_CORE.
///
/// # Errors
///
/// Returns the error of writing to `/proc`, which names the file.
pub fn switch_off_core_images() -> io::Result<()> {
    let filter = "/proc/self/coredump_filter";
    fs::write(filter, "0").map_err(|error| {
        let message = format!("`{filter}`: {error}; {}", proc_remedy(error.kind()));
        io::Error::new(error.kind(), message)
    })
}

/// Returns the remedy for a file below `/proc` that cannot be written.
const fn proc_remedy(kind: io::ErrorKind) -> &'static str {
    if matches!(kind, io::ErrorKind::ReadOnlyFilesystem) {
        "`/proc` is mounted read-only: mount it writable (`mount -o remount,rw /proc`)"
    } else {
        "mount a proc file system at `/proc`"
    }
}

/// Empties every capability set of this thread but the bounding one, and so of those that it starts.
///
/// # Errors
///
/// Returns the error of `capset`.
pub fn give_up_capabilities() -> io::Result<()> {
    drop_capabilities().map_err(io::Error::from_raw_os_error)
}

/// Empties the calling thread's capability bounding set. Nothing that it starts can gain a capability by an exec.
///
/// # Errors
///
/// Returns the error of `prctl`; `EPERM` without CAP_SETPCAP.
pub fn empty_bounding_set() -> io::Result<()> {
    for capability in 0..=u64::BITS {
        // SAFETY: PR_CAPBSET_DROP takes a number and touches no memory.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability) } != 0 {
            let error = io::Error::last_os_error();
            // The first number that this kernel does not have.
            return match error.raw_os_error() {
                Some(libc::EINVAL) if capability > 0 => Ok(()),
                _ => Err(error),
            };
        }
    }
    Ok(())
}

/// Blocks every signal in the calling thread.
///
/// # Errors
///
/// Returns the error of `sigprocmask`.
pub fn block_all_signals() -> io::Result<()> {
    Ok(sigprocmask(
        SigmaskHow::SIG_SETMASK,
        Some(&SigSet::all()),
        None,
    )?)
}

/// Sets `no_new_privs` and loads seccomp filters, first to last, on the calling thread alone. Both are for ever. The one of index
/// `asking` reports calls to the listener that is returned.
///
/// # Errors
///
/// Returns the error of `prctl` or `seccomp`, `EBUSY` where a filter of the daemon's own has a listener already. The thread may
/// then hold some of the filters and must not start hooks.
pub fn load_filters(
    programs: &[Vec<libc::sock_filter>],
    asking: Option<usize>,
) -> io::Result<Option<Listener>> {
    prctl::set_no_new_privs()?;
    let mut listener = None;
    for (index, program) in programs.iter().enumerate() {
        let asks = asking == Some(index);
        let loaded = match asks {
            // Once a call is received, signals wait for its answer (Linux 5.19).
            true => match load(program, LISTENS | SIGNALS_WAIT) {
                Err(Errno::EINVAL) => load(program, LISTENS)?,
                loaded => loaded?,
            },
            false => load(program, 0)?,
        };
        match loaded {
            // SAFETY: with this flag the kernel returns a new descriptor, which nothing else has; 0 to 2 are never new.
            fd if asks && fd > 2 => listener = Some(unsafe { Listener::from_raw(fd) }),
            0 if !asks => {}
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
    Ok(listener)
}

/// Acts as a user, on a thread of its own that ends then. Other threads stay as they are.
///
/// # Errors
///
/// Fails where the thread cannot be started, or may not become that user.
pub fn act_as<T: Send>(uid: u32, gid: u32, act: impl FnOnce() -> T + Send) -> io::Result<T> {
    let become_user = move || {
        for (call, id) in [(libc::SYS_setresgid, gid), (libc::SYS_setresuid, uid)] {
            let id = id as usize;
            // SAFETY: both take three integers. By the raw call they change this thread alone, which ends with it.
            let changed = unsafe { raw::syscall(call, [id, id, id, 0, 0, 0]) };
            if changed < 0 {
                return Err(io::Error::from_raw_os_error(changed.unsigned_abs() as i32));
            }
        }
        Ok(act())
    };
    thread::scope(|scope| {
        let started = thread::Builder::new().name("as-hook".to_owned());
        let ended = started.spawn_scoped(scope, become_user)?.join();
        ended.unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))
    })
}

/// Flags of filters: a listener is returned; fatal signals alone interrupt a call that the listener has received.
const LISTENS: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
const SIGNALS_WAIT: libc::c_ulong = 1 << 5;

fn load(program: &[libc::sock_filter], flags: libc::c_ulong) -> nix::Result<i32> {
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::EINVAL)?,
        filter: program.as_ptr().cast_mut(),
    };
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: seccomp(SECCOMP_SET_MODE_FILTER, flags, &sock_fprog) reads `len` instructions from the slice and does not write to it.
    let loaded = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const filter) };
    i32::try_from(Errno::result(loaded)?).map_err(|_| Errno::EOVERFLOW)
}

/// Returns the kernel's Landlock ABI, at least 1.
///
/// # Errors
///
/// Returns the errno: `ENOSYS` without Landlock, `EOPNOTSUPP` where it is not enabled, `EPERM` where a filter hides it.
pub fn landlock_abi() -> Result<u32, i32> {
    const VERSION: u32 = 1;
    // SAFETY: landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) reads no memory and makes nothing.
    let abi =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0_usize, 0_usize, VERSION) };
    u32::try_from(abi).map_err(|_| {
        io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::ENOSYS)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    #[cfg(target_env = "gnu")]
    use std::fs;

    use super::*;

    /// Returns the private memory of this process, KiB.
    #[cfg(target_env = "gnu")]
    fn held() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let size = line.unwrap().trim().trim_end_matches(" kB");
        size.parse().unwrap()
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn freed_memory_is_given_back_after_a_large_block() {
        keep_little_memory();
        // A thread has an arena of its own.
        let kept = thread::spawn(|| {
            let before = held();
            // Otherwise the library learns a bound from that.
            drop(vec![1_u8; 24 << 20]);
            let take = || -> Vec<_> { (0..512).map(|_| vec![1_u8; 64 << 10]).collect() };
            // Nothing else is taken in between, which would lie behind the pieces.
            drop(take());
            give_memory_back();
            let kept = held().saturating_sub(before);
            let pieces = take();
            assert!(held() > before + (24 << 10), "the control");
            drop(pieces);
            kept
        });
        let kept = kept.join().unwrap();
        assert!(kept < 8 << 10, "{kept} KiB");
    }

    #[test]
    fn a_proc_that_is_read_only_has_another_remedy_than_one_that_is_missing() {
        let read_only = proc_remedy(io::ErrorKind::ReadOnlyFilesystem);
        assert!(read_only.contains("mounted read-only"), "{read_only}");
        let missing = proc_remedy(io::ErrorKind::NotFound);
        assert!(missing.starts_with("mount a proc file system"), "{missing}");
    }
}
