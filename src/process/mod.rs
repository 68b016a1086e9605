//! Supervises the running child. Feeds stdin, captures output, keeps the deadline, kills the tree, reaps.
//!
//! This module knows nothing of confinement: it is handed a started child and its pipes.

mod capture;
mod deadlines;
mod running;

#[cfg(target_os = "linux")]
pub(crate) use self::deadlines::Armed;
pub(crate) use self::{
    capture::{Captured, Chunk, Stream},
    deadlines::{Deadlines, Hold, Kill},
    running::{Cause, Ended, Pipes, Running, Supervision},
};
