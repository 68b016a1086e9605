//! Reads certificates, keys and revocation lists from PEM files that no other user could have changed.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem::PemObject,
};

use super::trusted_file::{self, Untrusted};

/// The most bytes of a file.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The permission of everybody to read.
const EVERYBODY_READS: u32 = 0o004;

/// The problem with a PEM file.
#[derive(Debug, thiserror::Error)]
pub enum PemProblem {
    /// Everybody can read a private key.
    #[error(
        "everybody can read it (mode {mode:04o}); `chmod o-r` it, and make a new key if it was seen"
    )]
    Exposed {
        /// The permission bits.
        mode: u32,
    },
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The file lacks the expected part.
    #[error("the file has no {0} in PEM form")]
    Lacks(&'static str),
    /// The file is too long.
    #[error("the file has more than {MAX_BYTES} bytes")]
    Long,
    /// The file is not PEM.
    #[error("the file is not PEM: {0}")]
    Syntax(#[from] rustls::pki_types::pem::Error),
    /// Another user could have changed the file.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
}

/// Reads all certificates of a file, one at least.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemProblem> {
    all(&read(path)?.0, "certificate")
}

/// Reads all revocation lists of a file, one at least.
pub fn revocation_lists(
    path: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, PemProblem> {
    all(&read(path)?.0, "revocation list (`X509 CRL`)")
}

/// Reads the private key of a file that not everybody can read.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemProblem> {
    let (bytes, mode) = read(path)?;
    if mode & EVERYBODY_READS != 0 {
        return Err(PemProblem::Exposed { mode });
    }
    match PrivateKeyDer::from_pem_slice(&bytes) {
        Err(rustls::pki_types::pem::Error::NoItemsFound) => {
            Err(PemProblem::Lacks("unencrypted private key"))
        }
        key => Ok(key?),
    }
}

fn all<T: PemObject>(bytes: &[u8], what: &'static str) -> Result<Vec<T>, PemProblem> {
    let items = T::pem_slice_iter(bytes).collect::<Result<Vec<_>, _>>()?;
    if items.is_empty() {
        return Err(PemProblem::Lacks(what));
    }
    Ok(items)
}

fn read(path: &Path) -> Result<(Vec<u8>, u32), PemProblem> {
    let file = trusted_file::open_own_or_roots(path, File::options().read(true))?;
    let mode = file.metadata()?.mode() & 0o7777;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(PemProblem::Long);
    }
    Ok((bytes, mode))
}
