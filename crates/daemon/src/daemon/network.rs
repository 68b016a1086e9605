//! Loads what the listener over the network proves, and whom it believes.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier},
};

use hookjail_base::util::pem::{self, PemProblem};

use crate::{
    config::{Access, Network, Tls},
    wire::{Identities, NetworkListener, NetworkPlace},
};

/// The protocols that are offered, the preferred one first. The second is for calls with JSON.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The listener over the network cannot be made, or its files not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The address cannot be bound.
    #[error("cannot listen on {address} (`network.listen`)")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// A file cannot be used.
    #[error("cannot use `{path}` (`{key}`): {cause}", path = path.display())]
    File {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        cause: Unusable,
    },
}

/// The problem with a file of the network's.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The file cannot be read.
    #[error(transparent)]
    Pem(#[from] PemProblem),
    /// TLS does not accept the file.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// The file is no authority, or no list of revoked certificates.
    #[error(transparent)]
    Verifier(#[from] VerifierBuilderError),
}

/// Binds the listener, with its files loaded, and returns its place, too.
///
/// # Errors
///
/// Names the key, and the file or the address.
pub(super) fn listen(network: &Network) -> Result<(NetworkListener, NetworkPlace), NetworkError> {
    let identities = identities(network)?;
    let failed = |cause| NetworkError::Bind {
        address: network.listen,
        cause,
    };
    let listener = NetworkListener::bind(network.listen, identities).map_err(failed)?;
    let place = listener.place().map_err(failed)?;
    let address = place.address;
    match &network.access {
        Access::Plaintext(user) => tracing::warn!(
            %address,
            uid = user.uid,
            "serving over the network WITHOUT TLS (`network.plaintext`): every local process can call as this user, hooks with network access too"
        ),
        Access::Tls(tls) => tracing::info!(
            %address,
            clients = tls.clients.0.len(),
            "serving over the network"
        ),
    }
    Ok((listener, place))
}

/// Loads the files of the configuration.
///
/// # Errors
///
/// Names the key and the file.
pub(super) fn identities(network: &Network) -> Result<Identities, NetworkError> {
    match &network.access {
        Access::Plaintext(user) => Ok(Identities::Plaintext(user.clone())),
        Access::Tls(tls) => Ok(Identities::Tls {
            clients: tls.clients.clone(),
            config: Arc::new(server_config(tls)?),
        }),
    }
}

fn server_config(tls: &Tls) -> Result<ServerConfig, NetworkError> {
    let Tls {
        certificate,
        client_ca,
        clients: _,
        crl,
        key,
    } = tls;
    let unusable = |key: &'static str, path: &PathBuf| {
        let path = path.clone();
        move |cause: Unusable| NetworkError::File { key, path, cause }
    };
    let of_ca = || unusable("network.client_ca", client_ca);
    let mut roots = RootCertStore::empty();
    for authority in pem::certificates(client_ca).map_err(|it| of_ca()(it.into()))? {
        roots.add(authority).map_err(|it| of_ca()(it.into()))?;
    }
    let provider = Arc::new(ring::default_provider());
    let mut verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let last_file = match crl {
        None => of_ca(),
        Some(path) => {
            let of_crl = || unusable("network.crl", path);
            let lists = pem::revocation_lists(path).map_err(|it| of_crl()(it.into()))?;
            // A list that is out of date lacks certificates revoked since.
            verifier = verifier.with_crls(lists).enforce_revocation_expiration();
            of_crl()
        }
    };
    let verifier = verifier.build().map_err(|it| last_file(it.into()))?;
    let of_certificate = || unusable("network.certificate", certificate);
    let chain = pem::certificates(certificate).map_err(|it| of_certificate()(it.into()))?;
    let of_key = || unusable("network.key", key);
    let private = pem::private_key(key).map_err(|it| of_key()(it.into()))?;
    // Also below, where its error would be the certificate's.
    drop(
        provider
            .key_provider
            .load_private_key(private.clone_key())
            .map_err(|it| of_key()(it.into()))?,
    );
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|it| {
            it.with_client_cert_verifier(verifier)
                .with_single_cert(chain, private)
        })
        .map_err(|it| of_certificate()(it.into()))?;
    config.alpn_protocols = PROTOCOLS.iter().map(|it| it.to_vec()).collect();
    // A resumed session would not look at the certificate again.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}
