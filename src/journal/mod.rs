//! The journal: what was started, what became of it, and what was refused.
//!
//! [`record`] says what is written down, [`append`] writes it, [`mod@read`] reads it, [`verify`] checks that nobody
//! changed it since. Event bodies and hook output are written down only where the operator says so, and never whole; their
//! sizes and digests are, and numbers and short words by names that the contract has for measures. Environment values are not. Registered secrets are taken out of all of it first.
//!
//! # The file
//!
//! `journal.jsonl` holds one JSON object a line, in this order of fields: `sequence`, `time`, `instance`, `previous`,
//! `record`, the fields of that kind of record, `hash`. `hash` is the SHA-256, in lower-case hex, of the bytes of the
//! line before `,"hash":`; `previous` is the `hash` of the line before, 64 zeros in the first. `sequence` counts from 1
//! without gaps; `time` is the writer's clock and may step back.
//!
//! What this proves: a record changed, removed, inserted or moved without rewriting every line after it is found and
//! named. What a file alone cannot prove: what came before its first record, and that nothing was cut off at its end.
//!
//! `head.json` notes where the chain ended: sequence, hash, file and length, the oldest file that is kept, under a
//! checksum. It is written after each record, under the same lock: a journal that goes on beyond it is whole, one that
//! ends before it was cut. Nothing here proves that somebody who may write both did not rewrite both.
//!
//! # Several files
//!
//! Before a record that would make `journal.jsonl` too large, it is renamed to `journal.N.jsonl`, N being the sequence of
//! its first record in twenty digits, and a new one is begun. The chain goes on: the first record of the new file has the
//! hash of the last one of the old. No more older files are kept than wanted; the note says which is the oldest.
//!
//! # A line that was not finished
//!
//! A writer that dies or fails in the middle of a line leaves a tail without a newline. No such line was ever
//! reported as written, so no run was started and no reply sent on the strength of it. The next writer cuts the tail
//! off and appends a `torn` record with its size and beginning; the chain goes on from the last whole record. A line
//! that has its newline is never cut off: if the last one is not intact, the journal is not continued.
//!
//! Where the journal ends before the record that was noted, or the note is missing or damaged beside records, the next
//! writer appends a `lost` record with what was noted and goes on. A chain with such a record does not verify.
//!
//! # Several writers
//!
//! Appending takes an exclusive `flock` on `journal.lock` and reads the last line again if the file has grown; where
//! another writer has begun the next file, the chain is followed there. Every
//! writer holds an `flock` on `instances/<instance>.lock` while it lives. A mark that nobody holds belonged to a writer
//! that died: the next one to start writes an `interrupted` record for each run it left open, and removes the mark.

pub(crate) mod append;
pub(crate) mod chain;
pub(crate) mod earlier;
mod files;
mod head;
pub(crate) mod query;
pub(crate) mod read;
pub(crate) mod record;
mod redaction;
pub(crate) mod stats;
pub(crate) mod verify;
pub(crate) mod writer;
mod writer_lock;

pub(crate) use self::{
    earlier::{RETENTION, conflict},
    redaction::{Capture, CurrentRedaction, RedactedOutput, Redaction},
    writer::Problem,
};
