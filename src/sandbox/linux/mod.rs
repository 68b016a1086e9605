//! Linux: Landlock says which files a hook reaches, seccomp which kernel doors are open at all.

pub mod arguments;
mod assembler;
pub mod closing;
pub mod filter;
pub mod rules;
pub mod setup;
pub mod syscalls;
#[cfg(test)]
mod tests;
