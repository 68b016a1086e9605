//! The `hookjail` program: arguments to subcommand, nothing else.

use std::process::ExitCode;

use clap::Parser;
use hookjail::cli;

fn main() -> ExitCode {
    cli::main(cli::Arguments::parse())
}
