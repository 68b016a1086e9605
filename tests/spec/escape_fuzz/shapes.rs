//! Meanings of the arguments of calls.

use hookjail_sandbox::seccomp::syscalls::nr;

/// Meaning of an argument of a call.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Address,
    Any,
    /// A buffer that is read or written.
    Bytes,
    Dir,
    Fd,
    Flags,
    /// The structure that `openat2` takes.
    How,
    /// Memory of no use to the player.
    Junk,
    Length,
    Message,
    /// A path that the call follows to its end, or not; relative to the argument, or to where it stands.
    Path(Option<u8>, bool),
    Pid,
    Signal,
    Text,
    Vector,
    Words,
    Zeros,
}

use Kind::{
    Address, Any, Bytes, Dir, Fd, Flags, How, Junk, Length, Message, Path, Pid, Signal, Text,
    Vector, Words, Zeros,
};

/// Calls whose arguments are more than numbers: calls that could reach something, and calls that must not take away what the
/// player stands on. All others get any.
#[rustfmt::skip] // One line for each call.
pub(super) const SHAPES: &[(u32, &[Kind])] = &[
    (nr::open, &[Text, Flags, Any]),
    (nr::creat, &[Text, Any]),
    (nr::openat, &[Dir, Text, Flags, Any]),
    (nr::openat2, &[Dir, Text, How, Length]),
    (nr::truncate, &[Path(None, true), Length]),
    (nr::mkdir, &[Path(None, false), Any]),
    (nr::mkdirat, &[Dir, Path(Some(0), false), Any]),
    (nr::rmdir, &[Path(None, false)]),
    (nr::unlink, &[Path(None, false)]),
    (nr::unlinkat, &[Dir, Path(Some(0), false), Any]),
    (nr::rename, &[Path(None, false), Path(None, false)]),
    (nr::renameat, &[Dir, Path(Some(0), false), Dir, Path(Some(2), false)]),
    (nr::renameat2, &[Dir, Path(Some(0), false), Dir, Path(Some(2), false), Any]),
    (nr::link, &[Path(None, false), Path(None, false)]),
    (nr::linkat, &[Dir, Path(Some(0), false), Dir, Path(Some(2), false), Any]),
    (nr::symlink, &[Text, Path(None, false)]),
    (nr::symlinkat, &[Text, Dir, Path(Some(1), false)]),
    (nr::execve, &[Text, Words, Zeros]),
    (nr::execveat, &[Dir, Text, Words, Zeros, Any]),
    (nr::chdir, &[Text]),
    (nr::fchdir, &[Dir]),
    (nr::chroot, &[Text]),
    (nr::chmod, &[Text, Any]),
    (nr::fchmod, &[Fd, Any]),
    (nr::fchmodat, &[Dir, Text, Any]),
    (nr::fchmodat2, &[Dir, Text, Any, Any]),
    (nr::chown, &[Text, Any, Any]),
    (nr::lchown, &[Text, Any, Any]),
    (nr::fchownat, &[Dir, Text, Any, Any, Any]),
    (nr::mknod, &[Text, Any, Any]),
    (nr::mknodat, &[Dir, Text, Any, Any]),
    (nr::utime, &[Text, Zeros]),
    (nr::utimes, &[Text, Zeros]),
    (nr::futimesat, &[Dir, Text, Zeros]),
    (nr::utimensat, &[Dir, Text, Zeros, Any]),
    (nr::setxattr, &[Text, Text, Bytes, Length, Any]),
    (nr::lsetxattr, &[Text, Text, Bytes, Length, Any]),
    (nr::getxattr, &[Text, Text, Bytes, Length]),
    (nr::listxattr, &[Text, Bytes, Length]),
    (nr::inotify_add_watch, &[Fd, Text, Any]),
    (nr::name_to_handle_at, &[Dir, Text, Bytes, Bytes, Any]),
    (nr::file_setattr, &[Dir, Text, Zeros, Length, Any]),
    (nr::stat, &[Text, Bytes]),
    (nr::readlink, &[Text, Bytes, Length]),
    (nr::faccessat2, &[Dir, Text, Any, Any]),
    (nr::statx, &[Dir, Text, Any, Any, Bytes]),
    (nr::socket, &[Any, Any, Any]),
    (nr::connect, &[Fd, Address, Length]),
    (nr::bind, &[Fd, Address, Length]),
    (nr::sendto, &[Fd, Bytes, Length, Any, Address, Length]),
    (nr::sendmsg, &[Fd, Message, Any]),
    (nr::kill, &[Pid, Signal]),
    (nr::tkill, &[Pid, Signal]),
    (nr::tgkill, &[Pid, Pid, Signal]),
    (nr::rt_sigqueueinfo, &[Pid, Signal, Bytes]),
    (nr::rt_tgsigqueueinfo, &[Pid, Pid, Signal, Bytes]),
    (nr::pidfd_open, &[Pid, Any]),
    (nr::prlimit64, &[Pid, Any, Zeros, Bytes]),
    (nr::setpriority, &[Any, Pid, Any]),
    (nr::sched_setaffinity, &[Pid, Length, Bytes]),
    (nr::sched_setparam, &[Pid, Bytes]),
    (nr::sched_setscheduler, &[Pid, Any, Bytes]),
    (nr::setrlimit, &[Any, Bytes]),
    (nr::ioprio_set, &[Any, Pid, Any]),
    (nr::kcmp, &[Pid, Pid, Any, Any, Any]),
    (nr::migrate_pages, &[Pid, Any, Bytes, Bytes]),
    (nr::move_pages, &[Pid, Length, Bytes, Bytes, Bytes, Any]),
    (nr::write, &[Fd, Bytes, Length]),
    (nr::read, &[Fd, Bytes, Length]),
    (nr::readv, &[Fd, Vector, Any]),
    (nr::writev, &[Fd, Vector, Any]),
    (nr::pwritev, &[Fd, Vector, Any, Length, Any]),
    (nr::getdents64, &[Fd, Bytes, Length]),
    (nr::sendfile, &[Fd, Fd, Bytes, Length]),
    (nr::splice, &[Fd, Bytes, Fd, Bytes, Length, Any]),
    (nr::copy_file_range, &[Fd, Bytes, Fd, Bytes, Length, Any]),
    (nr::ftruncate, &[Fd, Length]),
    (nr::fallocate, &[Fd, Any, Length, Length]),
    (nr::getrandom, &[Bytes, Length, Any]),
    // Calls that would wait under a mask of signals that nothing gets through.
    (nr::rt_sigsuspend, &[Zeros, Any]),
    (nr::rt_sigtimedwait, &[Zeros, Bytes, Zeros, Any]),
    (nr::ppoll, &[Bytes, Any, Zeros, Zeros, Any]),
    (nr::pselect6, &[Any, Bytes, Bytes, Bytes, Zeros, Zeros]),
    (nr::epoll_pwait, &[Fd, Bytes, Any, Any, Zeros, Any]),
    (nr::epoll_pwait2, &[Fd, Bytes, Any, Zeros, Zeros, Any]),
    // Calls that take memory away, or more of it than there is.
    (nr::mmap, &[Junk, Length, Any, Any, Fd, Any]),
    (nr::munmap, &[Junk, Length]),
    (nr::mremap, &[Junk, Length, Length, Any, Junk]),
    (nr::mprotect, &[Junk, Length, Any]),
    (nr::pkey_mprotect, &[Junk, Length, Any, Any]),
    (nr::madvise, &[Junk, Length, Any]),
    (nr::brk, &[Zeros]),
    (nr::shmat, &[Any, Junk, Any]),
    (nr::remap_file_pages, &[Junk, Length, Any, Any, Any]),
];

/// Calls that do nothing but end their process: there is nothing to ask about them.
pub(super) const ENDS: [u32; 3] = [nr::exit, nr::exit_group, nr::rt_sigreturn];

/// Calls that could make something of a path or an address, picked more often than the rest of the table.
pub(super) const FAVOURITES: usize = 56;
