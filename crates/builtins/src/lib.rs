//! Built-in hooks of runtimes that hookjail runs as programs: `hookjail builtin NAME`, confined like every hook.
//!
//! The daemon starts them as opaque programs; only the commands import this crate.

#![forbid(unsafe_code)]

mod add_directory_listing;
mod add_environment_info;
mod add_prompt_files;
pub mod limit_large_tool_results;
mod look;
pub mod save_json;
pub mod template;

pub use self::look::findings;
