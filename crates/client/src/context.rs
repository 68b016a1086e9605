//! The context of a command: options of every subcommand, and the environment of this process.

use std::path::PathBuf;

use clap::Args;
use nix::sys::stat::{Mode, umask};

use hookjail_base::{
    model::variable::DEPTH,
    util::user_paths::{UserPaths, variable},
};

/// Options of every subcommand.
#[derive(Debug, Args)]
pub struct Everywhere {
    /// The configuration file [default: /etc/hookjail/hookjail.toml for root, else $XDG_CONFIG_HOME/hookjail/hookjail.toml]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print machine-readable JSON
    #[arg(long, global = true)]
    json: bool,
}

/// The context of a command.
#[derive(Clone, Debug)]
pub struct Context {
    /// The configuration file that the command line names.
    pub config: Option<PathBuf>,
    /// `HOOKJAIL_DEPTH`: 0 outside of every hook, the largest number where it cannot be read.
    pub depth: u32,
    /// Whether output is JSON.
    pub json: bool,
    /// The paths of the user's daemon and of its files.
    pub paths: UserPaths,
    /// The umask of this process as it was started.
    pub umask: u32,
}

impl Context {
    /// Reads the environment. To be called before any thread is started.
    pub fn new(everywhere: Everywhere) -> Self {
        Self {
            config: everywhere.config,
            depth: variable(DEPTH).map_or(0, |depth| {
                let depth = depth.to_str().and_then(|depth| depth.parse().ok());
                depth.unwrap_or(u32::MAX)
            }),
            json: everywhere.json,
            paths: UserPaths::read(),
            umask: own_umask(),
        }
    }
}

/// Returns this process's umask. To be called before any thread is started: to be read it is set.
#[cfg_attr(
    target_os = "linux",
    expect(
        clippy::useless_conversion,
        reason = "the type differs between systems"
    )
)]
fn own_umask() -> u32 {
    let mask = umask(Mode::empty());
    umask(mask);
    u32::from(mask.bits())
}
