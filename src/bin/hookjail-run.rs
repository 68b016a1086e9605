//! The `hookjail-run` program: replaces a hook by its arguments, and does nothing else.

use std::{env, process::ExitCode};

/// musl's allocator takes and gives back memory page by page, which would be half of this program's syscalls.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    hookjail_client::stand_in(env::args_os())
}
