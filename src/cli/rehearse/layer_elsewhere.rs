//! Layers over workspaces are of Linux alone.

use std::{io, path::Path};

use hookjail_client::Failure;

use super::NO_LAYER;

/// No layer.
pub(in crate::cli) struct Layer;

impl Layer {
    /// Makes none.
    ///
    /// # Errors
    ///
    /// Always.
    pub(in crate::cli) fn on_workspace(_workspace: &Path) -> Result<Self, Failure> {
        Err(Failure {
            reason: Some(NO_LAYER.to_owned()),
            ..Failure::new("a layer over a workspace is made on Linux alone")
        })
    }

    /// Returns `None`: there are no changes in it.
    ///
    /// # Errors
    ///
    /// Never.
    #[expect(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "on Linux it may fail"
    )]
    pub(in crate::cli) fn changes(&self) -> io::Result<Option<Vec<String>>> {
        Ok(None)
    }
}
