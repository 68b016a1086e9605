//! hookjail runs the shell hooks of AI-agent runtimes confined, ends them on time, and says truthfully what happened.
//!
//! A request travels in one direction. Each stage takes the value of the stage before by move:
//!
//! ```text
//! wire::decode → Gate::admit → Plan::resolve → Audit::start → Confined::start → Confined::run → Interpreted::of → Audit::end → wire::encode
//!  Request        Admitted      Plan            Announced      Confined          Ended           Interpreted       Recorded     reply
//! ```
//!
//! The stages are the files of [`pipeline`], which alone sees all the libraries below it. A hook can be started only through
//! [`pipeline::Confined`]; a reply can be encoded only from [`pipeline::Recorded`].
//! "Ran unannounced", "ran unconfined" and "answered unaudited" do not compile (`tests/compile-fail.md`).

pub mod cli;
pub mod config;
pub mod consent;
pub mod contract;
pub mod daemon;
pub mod dispatch;
pub mod hooks;
pub mod journal;
pub mod model;
mod mutants;
pub mod pb;
pub mod pipeline;
pub mod policy;
pub mod process;
pub mod redact;
pub mod refusal;
pub mod request;
pub mod rootfs;
pub mod sandbox;
pub mod schema;
pub mod sys;
pub mod util;
pub mod wire;

#[cfg(doctest)]
#[doc = include_str!("../tests/compile-fail.md")]
struct CompileFail;
