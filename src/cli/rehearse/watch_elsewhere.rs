//! Runs are observed on Linux alone.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use hookjail_client::Failure;

use super::refused::RefusedUse;
use hookjail_daemon::{config::Config, daemon::Assembly};

/// No observer.
pub(in crate::cli) struct Watch;

impl Watch {
    /// Observes nothing.
    pub(in crate::cli) fn begin(assembly: Assembly) -> (Assembly, Self) {
        (assembly, Self)
    }

    /// Observes nothing.
    ///
    /// # Errors
    ///
    /// Never.
    #[expect(clippy::unnecessary_wraps, reason = "on Linux it may fail")]
    pub(in crate::cli) fn with_profile(
        self,
        _config: &Config,
        _under: (&str, &Path),
        _files: Vec<PathBuf>,
    ) -> Result<Watched, Failure> {
        Ok(Watched)
    }
}

/// No observation.
pub(in crate::cli) struct Watched;

impl Watched {
    /// Returns `None`: runs cannot be observed here.
    #[expect(clippy::unused_self, reason = "on Linux it observes")]
    pub(in crate::cli) fn seen(&self) -> Option<(Vec<RefusedUse>, BTreeSet<String>)> {
        None
    }
}
