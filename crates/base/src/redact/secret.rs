//! Registered secrets: their sources, and reading their values.

use std::{
    ffi::OsString,
    fmt,
    fs::File,
    io::{self, Read},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use regex::bytes::Regex;

use crate::util::trusted_file::{self, Untrusted};

/// The shortest value: shorter ones would be found in unrelated texts.
pub const MIN_BYTES: usize = 8;

/// The longest value.
pub const MAX_BYTES: usize = 4096;

/// The longest name.
pub const MAX_NAME: usize = 32;

/// The most secrets.
pub const MAX_SECRETS: usize = 64;

/// A secret as the configuration names it: never its value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Registration {
    /// The name in its marker.
    pub name: String,
    /// The source of its value.
    pub source: SecretSource,
}

/// The source of a secret.
#[derive(Clone, Debug)]
pub enum SecretSource {
    /// A file of this name in `$CREDENTIALS_DIRECTORY`, where systemd puts credentials.
    Credential(String),
    /// A variable of the daemon's environment.
    Env(String),
    /// A file.
    File(PathBuf),
    /// A pattern; every match is a secret.
    Pattern(Regex),
}

impl Eq for SecretSource {}

impl PartialEq for SecretSource {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Credential(it), Self::Credential(other)) | (Self::Env(it), Self::Env(other)) => {
                it == other
            }
            (Self::File(it), Self::File(other)) => it == other,
            (Self::Pattern(it), Self::Pattern(other)) => it.as_str() == other.as_str(),
            (Self::Credential(_) | Self::Env(_) | Self::File(_) | Self::Pattern(_), _) => false,
        }
    }
}

/// A secret with its value. Its `Debug` output has only the name.
pub struct Secret {
    pub(super) name: String,
    pub(super) what: Needle,
}

/// The value or pattern that is searched for.
pub(super) enum Needle {
    Pattern(Regex),
    Value(Vec<u8>),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Secret {
    /// Creates a secret from a value.
    ///
    /// # Errors
    ///
    /// Fails if the value is too short or too long.
    pub fn new(name: &str, value: Vec<u8>) -> Result<Self, SecretProblem> {
        match value.len() {
            bytes @ ..MIN_BYTES => Err(SecretProblem::TooShort { bytes }),
            MIN_BYTES..=MAX_BYTES => Ok(Self {
                name: name.to_owned(),
                what: Needle::Value(value),
            }),
            _ => Err(SecretProblem::TooLong),
        }
    }

    /// Returns its value; `None` where it is a pattern.
    pub fn value(&self) -> Option<&[u8]> {
        match &self.what {
            Needle::Pattern(_) => None,
            Needle::Value(value) => Some(value),
        }
    }

    /// Returns its marker.
    pub(super) fn marker(&self) -> String {
        format!("[redacted:{}]", self.name)
    }
}

/// Error of reading a secret, without any part of its value.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the secret `{name}`")]
pub struct SecretError {
    name: String,
    #[source]
    cause: SecretProblem,
}

/// The problem with a secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretProblem {
    /// systemd passed no credentials.
    #[error(
        "`CREDENTIALS_DIRECTORY` is not set; add `LoadCredential=` to the unit, or use `file` or `env`"
    )]
    NoCredentials,
    /// The variable is not set.
    #[error("`{variable}` is not set in the environment of this process")]
    NotSet {
        /// The variable.
        variable: String,
    },
    /// The file cannot be read.
    #[error("`{path}` cannot be read")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The value is too long.
    #[error("the value has more than {MAX_BYTES} bytes")]
    TooLong,
    /// The value is so short that it would match ordinary text.
    #[error(
        "the value has {bytes} bytes; use at least {MIN_BYTES}, as shorter values occur in ordinary text"
    )]
    TooShort {
        /// Its length.
        bytes: usize,
    },
    /// Another user could have changed the file.
    #[error("`{path}` cannot be used")]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Untrusted,
    },
}

impl Registration {
    /// Reads the value.
    ///
    /// # Errors
    ///
    /// Fails if the value cannot be found or read, another user could have changed its file, or it is too short or too
    /// long.
    pub fn read(&self, env: impl Fn(&str) -> Option<OsString>) -> Result<Secret, SecretError> {
        let value = |value: Result<Vec<u8>, _>| Secret::new(&self.name, value?);
        let secret = match &self.source {
            SecretSource::Credential(name) => value(match env("CREDENTIALS_DIRECTORY") {
                Some(directory) => content(&Path::new(&directory).join(name)),
                None => Err(SecretProblem::NoCredentials),
            }),
            SecretSource::Env(variable) => {
                let found = env(variable).map(OsString::into_vec);
                value(found.ok_or_else(|| SecretProblem::NotSet {
                    variable: variable.clone(),
                }))
            }
            SecretSource::File(path) => value(content(path)),
            SecretSource::Pattern(pattern) => Ok(Secret {
                name: self.name.clone(),
                what: Needle::Pattern(pattern.clone()),
            }),
        };
        secret.map_err(|cause| SecretError {
            name: self.name.clone(),
            cause,
        })
    }
}

/// Reads a file without the line break at its end.
fn content(path: &Path) -> Result<Vec<u8>, SecretProblem> {
    let file = trusted_file::open_own_or_roots(path, File::options().read(true));
    let file = file.map_err(|source| SecretProblem::Untrusted {
        path: path.to_owned(),
        source,
    })?;
    let mut value = Vec::new();
    // Enough to detect a value that is too long, followed by CR LF.
    file.take(MAX_BYTES as u64 + 3)
        .read_to_end(&mut value)
        .map_err(|source| SecretProblem::Read {
            path: path.to_owned(),
            source,
        })?;
    if value.last() == Some(&b'\n') {
        value.pop();
        value.pop_if(|byte| *byte == b'\r');
    }
    Ok(value)
}
