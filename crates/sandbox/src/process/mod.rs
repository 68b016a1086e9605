//! Supervises a running child: stdin, output, deadline, and the end of the tree.
//!
//! Independent of confinement: callers pass a started child and its pipes.

mod capture;
mod deadlines;
mod running;

#[cfg(target_os = "linux")]
pub use self::deadlines::Armed;
pub use self::{
    capture::{Chunk, Stream},
    deadlines::{Deadlines, Hold, Kill},
    running::{Cause, Ended, Pipes, Running, Supervision},
};
