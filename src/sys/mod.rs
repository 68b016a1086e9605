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

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("hookjail runs on x86_64 Linux; other systems and architectures are not served yet");

mod attempt;
mod child;
mod job;
mod keeper;
mod misc;
mod raw;
mod spawn;
mod wait;

pub use self::{
    attempt::Attempt,
    job::{Action, Canaries, Closing, Identity, Job, JobParts, Report, Step},
    keeper::{Keeper, Place},
    misc::{
        FileRights, become_subreaper, block_all_signals, empty_bounding_set,
        ignore_file_size_signal, landlock_abi, load_filters, occupy_standard_fds,
    },
    spawn::{CLONE_FLAGS, Launch, Stack, discard, launch},
    wait::{Reaped, WaitStatus, reap, reap_group, watch},
};
