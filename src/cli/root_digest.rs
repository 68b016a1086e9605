//! `hookjail root-digest`: computes `container.root_digest`.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde_json::json;

use hookjail_client::{Failure, output};
use hookjail_sandbox::rootfs::digest;

use super::Context;

/// Print the digest of an unpacked image, for `container.root_digest`.
#[derive(Debug, Args)]
pub(super) struct RootDigestArgs {
    /// The directory
    directory: PathBuf,
}

impl RootDigestArgs {
    pub(super) fn run(self, context: &Context) -> Result<ExitCode, Failure> {
        let found = digest(&self.directory)?.to_string();
        if context.call.json {
            output::json_line(&json!({ "digest": found }));
        } else {
            output::text(&format!("{found}\n"));
        }
        Ok(ExitCode::SUCCESS)
    }
}
