//! Linux: Landlock says which files a hook reaches, seccomp which kernel doors are open at all.

pub mod arguments;
pub mod rules;
pub mod syscalls;
