//! The source of the configuration: a file and the environment.

use std::path::PathBuf;

use super::{Config, ConfigError, ProcessEnv, Setting, view};

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
        Config::load(self.path().as_deref(), &self.environment)
    }

    /// Returns the settings in force, from the same file.
    ///
    /// # Errors
    ///
    /// As [`ConfigSource::load`].
    pub(crate) fn settings(&self) -> Result<Vec<Setting>, ConfigError> {
        view::settings(self.path().as_deref(), &self.environment)
    }

    fn path(&self) -> Option<PathBuf> {
        let default = || {
            self.environment
                .config_file()
                .filter(|path| path.symlink_metadata().is_ok())
        };
        self.file.clone().or_else(default)
    }
}
