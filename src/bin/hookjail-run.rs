//! The `hookjail-run` program: arguments to what stands in for a hook, nothing else.

use std::{env, process::ExitCode};

/// musl's own takes and gives back memory page by page: half of this program's system calls would be that.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    hookjail_client::stand_in(env::args_os())
}
