//! All unsafe code of hookjail: starting and reaping hooks, and calls without a safe wrapper.
//!
//! There are two sets of it under the same names. On Linux one clone starts hooks. A child of a multi-threaded process may
//! only make raw syscalls before `execve` (no allocation, no lock, no thread-local storage, no panic). So everything it
//! needs is prepared in a `Job` beforehand, and its results come back through the job's `Report`. Elsewhere the standard
//! library's `Command` starts them.

#![expect(
    unsafe_code,
    reason = "this module is where unsafe code is allowed; see SAFETY at each block"
)]

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("hookjail is for little-endian 64-bit systems");

mod keeper;
mod last_answer;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod portable;
mod shared;

#[cfg(target_os = "linux")]
use self::linux as host;

#[cfg(target_os = "linux")]
pub use self::linux::*;
#[cfg(not(target_os = "linux"))]
use self::portable as host;

#[cfg(not(target_os = "linux"))]
pub use self::portable::*;
pub use self::{
    keeper::{Keeper, NOTES_BEGIN, Note, NotedGroup, Place},
    last_answer::{
        LastAnswer, answer_signals, give_last_answer, give_last_answer_after, hold_no_signals,
        keep_last_answer,
    },
    shared::{
        Identity, Links, Reaped, WAITS, WaitStatus, file_size_limit, ignore_file_size_signal,
        occupy_standard_fds, raise_descriptor_limit, with_stack,
    },
};
