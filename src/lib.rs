//! hookjail runs the shell hooks of AI-agent runtimes confined, ends them on time, and reports truthfully what happened.
//!
//! This crate has its commands. They call `hookjail_daemon`, which takes a request to a record and an answer, and `hookjail_client`,
//! which calls a running daemon.
//!
//! Public are the program's [`main`], the messages of the protocol ([`pb`]), and the pure parts. [`contract`] interprets the end of a
//! hook, [`policy`] has the profiles, and [`model`] has the values of both.

#![forbid(unsafe_code)]

mod cli;

#[doc(hidden)]
pub use cli::Arguments;
pub use cli::main;
pub use hookjail_base::model;
pub use hookjail_contract as contract;
pub use hookjail_policy as policy;
pub use hookjail_proto as pb;
