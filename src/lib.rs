//! hookjail runs the shell hooks of AI-agent runtimes confined, ends them on time, and says truthfully what happened.
//!
//! Here are its commands. What they call lies in crates of its own: `hookjail_daemon`, which takes a request to a record and an answer,
//! and `hookjail_client`, which calls one that runs.
//!
//! Public are the program's [`main`], the messages of the protocol ([`pb`]), and what is pure: [`contract`], which
//! says what the end of a hook means, [`policy`] with its profiles, and the values of both, [`model`].

#![forbid(unsafe_code)]

mod cli;

#[doc(hidden)]
pub use cli::Arguments;
pub use cli::main;
pub use hookjail_base::model;
pub use hookjail_contract as contract;
pub use hookjail_policy as policy;
pub use hookjail_proto as pb;
