//! The `hookjail` program: arguments to subcommand, nothing else.

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    hookjail::main(env::args_os())
}
