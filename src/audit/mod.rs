//! The journal: what was started, what became of it, and what was refused.
//!
//! [`record`] says what is written down, [`journal`] writes it, [`verify`] checks that nobody changed it since. Event
//! bodies, environment values and hook output are not written down; their sizes and digests are.
//!
//! # The file
//!
//! `journal.jsonl` holds one JSON object a line, in this order of fields: `sequence`, `time`, `instance`, `previous`,
//! `record`, the fields of that kind of record, `hash`. `hash` is the SHA-256, in lower-case hex, of the bytes of the
//! line before `,"hash":`; `previous` is the `hash` of the line before, 64 zeros in the first. `sequence` counts from 1
//! without gaps; `time` is the writer's clock and may step back.
//!
//! What this proves: a record changed, removed, inserted or moved without rewriting every line after it is found and
//! named. What it cannot prove: that nothing was cut off at the end, or that the file was not rewritten whole.
//!
//! # A line that was not finished
//!
//! A writer that dies or fails in the middle of a line leaves a tail without a newline. No such line was ever
//! reported as written, so no run was started and no reply sent on the strength of it. The next writer cuts the tail
//! off and appends a `torn` record with its size and beginning; the chain goes on from the last whole record. A line
//! that has its newline is never cut off: if the last one is not intact, the journal is not continued.
//!
//! # Several writers
//!
//! Appending takes an exclusive `flock` on `journal.lock` and reads the last line again if the file has grown. Every
//! writer holds an `flock` on `instances/<instance>.lock` while it lives. A mark that nobody holds belonged to a writer
//! that died: the next one to start writes an `interrupted` record for each run it left open, and removes the mark.

mod chain;
mod instance;
pub mod journal;
pub mod record;
mod stage;
pub mod verify;

pub use self::stage::{About, Announced, Answer, Audit, Interpreted, Recorded, usage};
