//! The source of the configuration: a file and the environment.

use std::path::PathBuf;

use super::{Config, ConfigError, ProcessEnv};

/// The source of the configuration, kept for reloads.
#[derive(Clone, Debug)]
pub(crate) struct ConfigSource {
    /// The process's environment.
    pub environment: ProcessEnv,
    /// The file that was named.
    pub file: Option<PathBuf>,
}

impl ConfigSource {
    /// Loads the named file, else the default one if it exists, else the defaults.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be used, and then uses nothing of it.
    pub(crate) fn load(&self) -> Result<Config, ConfigError> {
        let default = || {
            self.environment
                .config_file()
                .filter(|path| path.symlink_metadata().is_ok())
        };
        let path = self.file.clone().or_else(default);
        Config::load(path.as_deref(), &self.environment)
    }
}
