//! Linux: the one clone, the child's raw syscalls, pidfds, leases, filters.

#![expect(
    clippy::cast_possible_truncation,
    reason = "the kernel's errors are -4095..=-1 and its ids positive 32-bit numbers"
)]

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
compile_error!("hookjail's filters on Linux are for x86_64 and aarch64");

mod attempt;
mod child;
mod entrance;
mod handover;
mod init;
mod job;
mod keeper;
mod listener;
mod memory;
mod misc;
mod mounts;
mod open;
mod raw;
mod read_only;
mod spawn;
mod tmpfs;
mod view;
mod wait;

pub(super) use self::keeper::watch_over;
pub use self::spawn::TREE_CLONE_FLAGS;
pub use self::{
    attempt::{Attempt, Described},
    entrance::Entrance,
    handover::{exit, file_of, kill, peer, process, receive_fds, send_fds},
    init::Init,
    job::{
        Action, Canaries, Closing, IntoCgroup, Job, JobParts, Report, Step, take_as_hooks,
        take_first,
    },
    listener::{Listener, Notification},
    memory::use_memory_in,
    misc::{
        FileRights, act_as, address_space_limit, become_subreaper, block_all_signals, drop_groups,
        empty_bounding_set, give_memory_back, give_up_capabilities, is_marked, keep_little_memory,
        keep_writers_out, load_filters, peer_groups, reserve, stores_change_times,
        switch_off_core_images, user_groups,
    },
    mounts::{Found, Mounts, NAMESPACE_OF_A_TREE, NAMESPACE_OF_ROOT, NAMESPACES_OF_A_USER, OwnIds},
    open::{BY_NAME, locate, open_beneath, open_in_root, pipe},
    read_only::{Bind, BindKind, ClosedPaths, ReadOnly},
    spawn::{Launch, Overdue, Stack, discard, has_clone3, launch},
    tmpfs::Tmpfs,
    view::{Exposed, MAX_EXPOSED, Placed, Private, TerminalRights, View},
    wait::{
        Process, Watched, exited, has_ended, reap_group, reap_stray, reap_watched, strays,
        wait_for, watch,
    },
};
pub use self::{misc::landlock_abi, spawn::CLONE_FLAGS};
use super::{
    Identity, Reaped, WaitStatus,
    keeper::{Note, NotedGroup},
    shared::PointerList,
};
