//! hookjail runs the shell hooks of AI-agent runtimes confined, ends them on time, and says truthfully what happened.
//!
//! A request travels in one direction. Each stage takes the value of the stage before by move:
//!
//! ```text
//! wire::decode → Gate::admit → Plan::resolve → Audit::start → Confined::start → Confined::run → Interpreted::of → Audit::end → wire::encode
//!  Request        Admitted      Plan            Announced      Confined          Ended           Interpreted       Recorded     reply
//! ```
//!
//! The stages are the files of `pipeline`, which alone sees all the libraries below it. A hook can be started only through
//! `pipeline::Confined`; a reply can be encoded only from `pipeline::Recorded`.
//! "Ran unannounced", "ran unconfined" and "answered unaudited" do not compile (`tests/compile-fail.md`).
//!
//! Public are the program's [`main`], the messages of the protocol ([`pb`]), and what is pure: [`contract`], which
//! says what the end of a hook means, [`policy`] with its profiles, and the values of both, [`model`].

#![forbid(unsafe_code)]

mod cli;
mod config;
mod consent;
pub use hookjail_contract as contract;
mod daemon;
mod dispatch;
mod hooks;
mod metrics;
pub use hookjail_base::model;
pub use hookjail_proto as pb;
mod pipeline;
pub use hookjail_policy as policy;
mod request;
mod schema;
#[doc(hidden)]
pub mod testing;
mod traces;
mod wire;

pub use cli::main;

#[cfg(doctest)]
#[doc = include_str!("../tests/compile-fail.md")]
struct CompileFail;
