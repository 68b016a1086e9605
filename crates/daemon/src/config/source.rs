//! The source of the configuration: a file and the environment.

use std::path::PathBuf;

use toml::de::DeTable;

use super::{Config, ConfigError, ProcessEnv, Setting, places::sockets, view};

/// The source of the configuration, kept for reloads.
#[derive(Clone, Debug)]
pub struct ConfigSource {
    /// The process's environment.
    pub environment: ProcessEnv,
    /// The file that was named.
    pub file: Option<PathBuf>,
    /// The socket of a private daemon, which listens nowhere else.
    pub private: Option<PathBuf>,
}

impl ConfigSource {
    /// Loads the named file, else the default one if it exists, else the defaults.
    ///
    /// # Errors
    ///
    /// Fails where the file cannot be used, and then uses nothing of it.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let config = Config::load(self.path().as_deref(), &self.environment)?;
        Ok(match &self.private {
            Some(socket) => config.private_at(socket),
            None => config,
        })
    }

    /// Returns the admin socket of a daemon that runs with this configuration, which may be broken since.
    ///
    /// Of a broken file the sockets alone are read, as far as it is TOML. A default file that cannot be read at all is one of the
    /// default daemon.
    ///
    /// # Errors
    ///
    /// Returns why a named file, or a path in it, cannot be used.
    pub fn admin_socket_of_running(&self) -> Result<Option<PathBuf>, ConfigError> {
        let broken = match self.load() {
            Ok(config) => return Ok(config.server.admin_socket.clone()),
            Err(broken) => broken,
        };
        let text = match self.path().as_deref().map(super::read) {
            None => String::new(),
            Some(Ok(text)) => text,
            Some(Err(_)) if self.file.is_none() => String::new(),
            Some(Err(_)) => return Err(broken),
        };
        let written = written_sockets(&text);
        if [&written.0, &written.1]
            .into_iter()
            .flatten()
            .any(|path| !path.is_absolute())
        {
            return Err(broken);
        }
        Ok(sockets(written, &self.environment).1)
    }

    /// Returns the settings in force, from the same file.
    ///
    /// # Errors
    ///
    /// As [`ConfigSource::load`].
    pub fn settings(&self) -> Result<Vec<Setting>, ConfigError> {
        view::settings(self.path().as_deref(), &self.environment)
    }

    fn path(&self) -> Option<PathBuf> {
        let default = || {
            self.environment
                .paths
                .config_file()
                .filter(|path| path.symlink_metadata().is_ok())
        };
        self.file.clone().or_else(default)
    }
}

/// Returns `server.socket` and `server.admin_socket` of a file, which may be invalid elsewhere.
fn written_sockets(text: &str) -> (Option<PathBuf>, Option<PathBuf>) {
    // From the table on, as a key without a value ends the reading.
    let mut from = text.match_indices("[server]").map(|(position, _)| position);
    let from = from.find(|position| *position == 0 || text[..*position].ends_with('\n'));
    let (table, _) = DeTable::parse_recoverable(&text[from.unwrap_or(0)..]);
    let server = table.get_ref().get("server");
    let server = server.and_then(|server| server.get_ref().as_table());
    let path = |key| server?.get(key)?.get_ref().as_str().map(PathBuf::from);
    (path("socket"), path("admin_socket"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sockets_of_a_broken_file_are_those_that_can_be_read() {
        let server = "[server]\nsocket = \"/a/sock\"\nadmin_socket = \"/a/admin\"\n";
        let written = |text: &str| {
            let (socket, admin) = written_sockets(text);
            [socket, admin].map(|it| it.map(|it| it.display().to_string()))
        };
        let both = [Some("/a/sock".to_owned()), Some("/a/admin".to_owned())];
        for broken in [
            server.to_owned(),
            format!("{server}nonsense"),
            format!("nonsense\n{server}"),
            format!("[hooks]\nspawners = \n{server}[hooks]\n"),
            format!("[[hook]]\ncommand = [\"/bin/true\n{server}"),
        ] {
            assert_eq!(written(&broken), both, "{broken}");
        }
        let one = server.replace("\"/a/admin\"", "7");
        assert_eq!(written(&one), [both[0].clone(), None]);
        assert_eq!(written("server = 1"), [None, None]);
    }
}
