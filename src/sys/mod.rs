//! The only unsafe code of hookjail: the one clone that starts hooks, the child's raw system calls, and the few calls
//! that no safe wrapper offers.
//!
//! A child of a multi-threaded process may only make raw system calls before `execve`: no allocation, no lock, no
//! thread-local storage, no panic. Everything the child needs is therefore prepared in a [`Job`] beforehand, and what it
//! did comes back through the job's [`Report`].

#![expect(
    clippy::cast_possible_truncation,
    reason = "the kernel's errors are -4095..=-1 and its ids positive 32-bit numbers"
)]
#![expect(
    unsafe_code,
    reason = "this module is where unsafe code is allowed; see SAFETY at each block"
)]

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "aarch64", target_arch = "x86_64")
)))]
compile_error!(
    "hookjail runs on x86_64 and aarch64 Linux; other systems and architectures are not served yet"
);
#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("hookjail's filters are for little-endian 64-bit Linux");

mod attempt;
mod child;
mod handover;
mod job;
mod keeper;
mod listener;
mod misc;
mod raw;
mod spawn;
mod wait;

pub use self::{
    attempt::{Attempt, Described},
    handover::{exit, kill, peer, receive_fds, send_fds},
    job::{Action, Canaries, Closing, Identity, Job, JobParts, LogFlags, Report, Step},
    keeper::{Keeper, Place},
    listener::{Asked, Listener},
    misc::{
        FileRights, become_subreaper, block_all_signals, empty_bounding_set,
        ignore_file_size_signal, keep_writers_out, landlock_abi, load_filters, occupy_standard_fds,
    },
    spawn::{CLONE_FLAGS, Launch, Stack, discard, launch},
    wait::{Reaped, WaitStatus, reap, reap_group, wait_for, watch},
};
