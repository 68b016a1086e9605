//! A daemon as one lane of a harness that times several ways to run the same command.
//!
//! `cargo run --release --example bench-lane -- --connect SOCKET -- CMD…`

use std::{env, process::ExitCode};

#[expect(
    dead_code,
    reason = "shared with benchmarks, which are lanes themselves"
)]
mod client;

fn main() -> ExitCode {
    client::serve(env::args_os())
}
