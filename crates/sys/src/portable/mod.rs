//! Systems other than Linux. Hooks are started by the standard library's `Command` and found by their process group.
//!
//! A process that leaves its process group is not found. Nothing here gives orphans to this process. Only the keeper, which
//! works by groups too, ends a hook with the daemon.

mod attempt;
mod keeper;
mod launch;
mod misc;
mod open;
mod wait;

pub(super) use self::keeper::watch_over;
pub use self::{
    attempt::Attempt,
    launch::{Start, execute, inherited, kill_group, start},
    misc::{
        FileRights, address_space_limit, become_subreaper, drop_groups, give_memory_back,
        keep_little_memory, keep_writers_out, peer_groups, reserve, stores_change_times,
        switch_off_core_images, take_as_hooks, take_first, user_groups,
    },
    open::{BY_NAME, locate, name_of, open_beneath, open_in_root, pipe},
    wait::{
        Process, Watched, exited, has_ended, kill, reap_group, reap_stray, reap_watched, strays,
        watch,
    },
};
use super::{Links, Reaped, WaitStatus, shared};
