//! The journal: hash-chained records of runs and refusals.
//!
//! [`record`] defines the records, [`append`] writes them, [`mod@read`] reads them, [`verify`] detects changes,
//! [`snapshot`] copies all of them while they are written.
//!
//! The beginnings of event bodies and hook output are recorded only if the operator configures that. Always recorded are
//! their sizes and digests, and measures: numbers and short words under names that the contract defines. Environment
//! values are never recorded. Registered secrets are redacted first.
//!
//! # The file
//!
//! `journal.jsonl` holds one JSON object a line, in this order of fields: `sequence`, `time`, `instance`, `previous`,
//! `record`, the fields of that kind of record, `hash`. `hash` is the SHA-256, in lower-case hex, of the bytes of the
//! line before `,"hash":`; `previous` is the `hash` of the line before, 64 zeros in the first. `sequence` counts from 1
//! without gaps; `time` is the writer's clock and may step back.
//!
//! The chain proves changes: a record changed, removed, inserted or moved without rewriting every line after it is found
//! and named. A file alone proves neither the records before its first, nor that none was cut off at its end.
//!
//! `head.json`, the head file, records where the chain ended: sequence, hash, file and length, and the oldest file that
//! is kept, under a checksum. The head file is written after each record, under the same lock: a journal that continues
//! beyond it is whole, one that ends before it was cut. The file does not protect against a user who can rewrite both.
//!
//! # Several files
//!
//! Before a record that would make `journal.jsonl` too large, the file is renamed to `journal.N.jsonl`, and a new one is
//! begun. N is the sequence of its first record in twenty digits. The chain continues: the first record of the new file
//! has the hash of the last one of the old. The oldest files beyond the configured number are removed; the head file
//! names the oldest that is kept.
//!
//! # A line that was not finished
//!
//! A writer that dies or fails in the middle of a line leaves a tail without a newline. No such line was ever
//! reported as written, so no run was started and no reply sent on the strength of it. The next writer cuts the tail
//! off and appends a `torn` record with its size and beginning; the chain continues from the last whole record. A line
//! that has its newline is never cut off: if the last one is not intact, the journal is not continued.
//!
//! The journal may end before the record of the head file, or have records without an intact head file. The next writer
//! then appends a `lost` record with the content of the head file, and continues. A chain with such a record does not
//! verify.
//!
//! # Several writers
//!
//! Appending takes an exclusive `flock` on `journal.lock` and reads the last line again if the file has grown. Where
//! another writer has begun the next file, the chain is followed there. Every writer holds an `flock` on
//! `instances/<instance>.lock`, its mark, while it lives. A mark without a lock belonged to a dead writer. The next
//! writer to start, or to remove old files, writes an `interrupted` record for each run that the dead one left open, and
//! removes the mark.

#![forbid(unsafe_code)]

pub mod append;
mod boot;
pub mod chain;
mod counted;
pub mod earlier;
mod files;
mod head;
pub mod query;
pub mod read;
pub mod record;
mod redaction;
pub mod snapshot;
pub mod verify;
pub mod writer;
mod writer_lock;

pub use self::{
    earlier::{RETENTION, conflict},
    redaction::{Capture, CurrentRedaction, RedactedOutput, Redaction},
    writer::{Problem, ProblemKind},
};
