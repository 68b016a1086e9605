//! Clients of hookjail's daemon: the program `hookjail-run`, which stands in for a runtime's hook, and the parts that subcommands share.
//!
//! Nothing of the daemon, its sandbox or its configuration is below this crate, so `hookjail-run` cannot hold any of them.

#![forbid(unsafe_code)]
#![expect(
    missing_docs,
    reason = "inner to hookjail: an option of the command line is described by its help"
)]

pub mod arguments;
pub mod connect;
mod context;
mod failure;
mod local;
pub mod offered;
pub mod on_demand;
pub mod output;
pub mod program;
pub mod run_as;
pub mod server;
pub mod shell_prefix;
pub mod thin;
pub mod times;
mod usual;

pub use self::{
    arguments::{RunArgs, RunArguments},
    context::{Context, Everywhere},
    failure::{FAILED, Failure},
    local::Local,
    thin::stand_in,
};
