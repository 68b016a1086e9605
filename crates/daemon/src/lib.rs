//! The daemon of hookjail: a request becomes a confined run, a record and an answer.
//!
//! A request travels in one direction. Each stage takes the value of the stage before by move:
//!
//! ```text
//! wire::decode → Gate::admit → Plan::resolve → Audit::start → Confined::start → Confined::run → Interpreted::from_ended → Audit::end → wire::encode
//!  Request        Admitted      Plan            Announced      Confined          Ended           Interpreted       Recorded     reply
//! ```
//!
//! The stages are the files of `pipeline`, which alone sees all the libraries below it. A hook can be started only through
//! `pipeline::Confined`; a reply can be encoded only from `pipeline::Recorded`.
//! "Ran unannounced", "ran unconfined" and "answered unaudited" do not compile (`tests/compile-fail.md`).
//!
//! The commands in `src` stand above the daemon and use its public items.

#![forbid(unsafe_code)]

pub mod config;
pub mod consent;
pub mod daemon;
mod dispatch;
#[cfg(test)]
mod doc_tests;
mod git;
pub mod hooks;
mod metrics;
mod pipeline;
mod request;
pub mod schema;
mod summary;
#[doc(hidden)]
pub mod testing;
mod traces;
pub mod wire;

#[cfg(doctest)]
#[doc = include_str!("../../../tests/compile-fail.md")]
struct CompileFail;
