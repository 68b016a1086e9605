//! Accepts connections over the network: TLS with certificates on both sides, or plaintext on loopback.
//!
//! A handshake is a task of its own, with little time, among few. A client that connects and sends nothing costs others
//! that do the same, and neither accepting nor connected clients.

use std::{
    collections::VecDeque,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tokio_util::task::AbortOnDropHandle;

use hookjail_base::{
    model::{Certificate, Clients, LocalUser, NoUser, Peer, Remote, is_unseen},
    refusal::{Reason, Refusal, cut},
    util::{seldom::Seldom, swap::Current},
};

use super::connections::{ACCEPT_RETRY, Connection, Crowd, HANDSHAKE_TIMEOUT};

/// The most handshakes at once. One more ends the oldest of the address that has most.
pub(crate) const MAX_HANDSHAKES: usize = 128;

/// The most names of a certificate that are looked at.
const MAX_NAMES: usize = 64;

/// The longest part of a name that is shown, bytes.
const MAX_SHOWN: usize = 256;

/// Users that the clients over the network are.
#[derive(Clone, Debug)]
pub(crate) enum Identities {
    /// Everybody is this user.
    Plaintext(LocalUser),
    /// Each is the user of its certificate.
    Tls {
        /// The listed clients.
        clients: Clients,
        /// Certificates, key and verification.
        config: Arc<rustls::ServerConfig>,
    },
}

/// Where clients of other hosts connect, and who they are.
#[derive(Clone, Debug)]
pub(crate) struct NetworkPlace {
    /// The address.
    pub(crate) address: SocketAddr,
    /// The clients, to be replaced.
    pub(crate) identities: Arc<Current<Identities>>,
}

/// A listener over the network.
#[derive(Debug)]
pub struct NetworkListener {
    identities: Arc<Current<Identities>>,
    listener: TcpListener,
}

/// A client over the network, as it proved to be when it connected.
#[derive(Debug)]
pub(super) struct NetworkPeer {
    address: SocketAddr,
    /// The names and the fingerprint of its certificate; none without TLS.
    certificate: Option<(Vec<String>, String)>,
    identities: Arc<Current<Identities>>,
}

impl NetworkPeer {
    /// Returns the address that it connected from.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the user that the client is now: one whose name was taken off the list since is no user.
    ///
    /// # Errors
    ///
    /// Refuses a certificate that is not listed, or is by several names.
    pub(super) fn peer(&self) -> Result<Peer, Refusal> {
        let identities = self.identities.get();
        let (user, certificate) = match (&*identities, &self.certificate) {
            (Identities::Plaintext(user), None) => (user, None),
            (Identities::Tls { clients, .. }, Some((names, sha256))) => {
                let client = clients
                    .find(names)
                    .map_err(|problem| nobody(names, sha256, problem))?;
                let certificate = Certificate {
                    name: client.name.clone(),
                    sha256: sha256.clone(),
                };
                (&client.user, Some(certificate))
            }
            // A reload does not change which of them it is.
            (Identities::Plaintext(_), Some(_)) | (Identities::Tls { .. }, None) => {
                let message = "the client's connection is not of the configured kind";
                return Err(Refusal::new(Reason::PeerUnknown, message));
            }
        };
        Ok(Peer {
            gid: user.gid,
            groups: Arc::clone(&user.groups),
            pid: None,
            remote: Some(Arc::new(Remote {
                address: self.address,
                certificate,
            })),
            uid: user.uid,
        })
    }
}

fn nobody(names: &[String], sha256: &str, problem: NoUser) -> Refusal {
    let shown: Vec<_> = names.iter().map(|name| shown(name)).collect();
    let names_shown = match &shown[..] {
        [] => format!("without a DNS name or URI (SHA-256 {sha256})"),
        names => format!("of {}", cut(&names.join(", "), MAX_SHOWN)),
    };
    let message = match problem {
        NoUser::Ambiguous => {
            format!(
                "a certificate {names_shown} is several of `network.clients`; list one of its names"
            )
        }
        NoUser::Unlisted => {
            format!("a certificate {names_shown} is not in `network.clients`; list a name of it")
        }
    };
    Refusal::new(Reason::PeerNotAllowed, message)
}

/// Returns a name as it can be shown.
fn shown(name: &str) -> String {
    let visible = |it: char| if is_unseen(it) { '?' } else { it };
    name.chars().map(visible).collect()
}

impl NetworkListener {
    /// Binds an address.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub(crate) fn bind(address: SocketAddr, identities: Identities) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            identities: Arc::new(Current::new(identities)),
            listener: TcpListener::from_std(listener)?,
        })
    }

    /// Returns where it listens, and for whom.
    ///
    /// # Errors
    ///
    /// Returns the system's error.
    pub(crate) fn place(&self) -> io::Result<NetworkPlace> {
        Ok(NetworkPlace {
            address: self.listener.local_addr()?,
            identities: Arc::clone(&self.identities),
        })
    }

    /// Returns the connections, each after its handshake. Dropping the stream ends the listener and all handshakes.
    pub(super) fn connections(
        self,
        crowd: Arc<Crowd>,
    ) -> impl Stream<Item = io::Result<Connection>> + Send {
        let (sender, receiver) = mpsc::channel(MAX_HANDSHAKES);
        let accepting = AbortOnDropHandle::new(tokio::spawn(self.accept(crowd, sender)));
        ReceiverStream::new(receiver).map(move |connection| {
            // Held as long as the stream.
            let _held = &accepting;
            Ok(connection)
        })
    }

    /// Accepts until it is aborted, and with it all handshakes.
    async fn accept(self, crowd: Arc<Crowd>, sender: mpsc::Sender<Connection>) {
        let mut handshakes = Handshakes::default();
        let failures = Arc::new(Seldom::default());
        loop {
            let (stream, address) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "connection over the network could not be accepted");
                    // Without descriptors the next accept fails at once, too.
                    sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            handshakes.make_room(address.ip()).await;
            let (crowd, sender) = (Arc::clone(&crowd), sender.clone());
            let identities = Arc::clone(&self.identities);
            let failures = Arc::clone(&failures);
            handshakes.begin(address.ip(), async move {
                let shaken = timeout(HANDSHAKE_TIMEOUT, handshake(stream, address, identities));
                let mut refused = None;
                let problem = match shaken.await {
                    Ok(Ok((stream, peer))) => {
                        if let Some(connection) = crowd.over_network(stream, peer) {
                            // Fails where the server has ended.
                            drop(sender.send(connection).await);
                        }
                        return;
                    }
                    Ok(Err((error, stream))) => {
                        refused = stream;
                        error.to_string()
                    }
                    Err(_) => format!("more than {} s have passed", HANDSHAKE_TIMEOUT.as_secs()),
                };
                if let Some(others) = failures.say() {
                    tracing::warn!(%address, others, "a TLS handshake failed: {problem}");
                }
                if let Some(refused) = refused {
                    // The client may still write, and a reset would take the refusal from it.
                    drop(timeout(HANDSHAKE_TIMEOUT, read_out(refused)).await);
                }
            });
        }
    }
}

/// A connection over the network, encrypted or not.
pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Returns a connection and its peer. A failure comes with the connection where the client gets a refusal.
async fn handshake(
    stream: TcpStream,
    address: SocketAddr,
    identities: Arc<Current<Identities>>,
) -> Result<(Box<dyn Duplex>, NetworkPeer), (io::Error, Option<TcpStream>)> {
    let failed = |error| (error, None);
    // An answer is written at once, and its reader waits for it.
    stream.set_nodelay(true).map_err(failed)?;
    let config = match &*identities.get() {
        Identities::Plaintext(_) => None,
        Identities::Tls { config, .. } => Some(Arc::clone(config)),
    };
    let (stream, certificate): (Box<dyn Duplex>, _) = match config {
        None => (Box::new(stream), None),
        Some(config) => {
            let accepted = TlsAcceptor::from(config).accept(stream).into_fallible();
            let stream = accepted
                .await
                .map_err(|(error, stream)| (error, Some(stream)))?;
            let presented = stream.get_ref().1.peer_certificates();
            let certificate = presented.and_then(<[_]>::first).ok_or_else(|| {
                let problem = "the client has no certificate, and none was required";
                failed(io::Error::other(problem))
            })?;
            let sha256 = format!("{:x}", Sha256::digest(certificate));
            let names = names(certificate).map_err(|error| failed(io::Error::other(error)))?;
            (Box::new(stream), Some((names, sha256)))
        }
    };
    let peer = NetworkPeer {
        address,
        certificate,
        identities,
    };
    Ok((stream, peer))
}

/// Reads what a client still sends, after the last that it is sent.
async fn read_out(mut stream: TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Returns the names of a certificate, as the configuration has them. They do not include its common name.
fn names(certificate: &CertificateDer<'_>) -> Result<Vec<String>, webpki::Error> {
    let certificate = webpki::EndEntityCert::try_from(certificate)?;
    let uris = certificate.valid_uri_names().map(str::to_owned);
    let names = certificate.valid_dns_names().map(str::to_ascii_lowercase);
    Ok(uris.chain(names).take(MAX_NAMES).collect())
}

/// The handshakes in work, oldest first.
#[derive(Default)]
struct Handshakes(VecDeque<(IpAddr, AbortOnDropHandle<()>)>);

impl Handshakes {
    fn begin(&mut self, address: IpAddr, handshake: impl Future<Output = ()> + Send + 'static) {
        let task = AbortOnDropHandle::new(tokio::spawn(handshake));
        self.0.push_back((address.to_canonical(), task));
    }

    /// Ends one handshake if there are too many.
    async fn make_room(&mut self, address: IpAddr) {
        self.0.retain(|(_, task)| !task.is_finished());
        if self.0.len() < MAX_HANDSHAKES {
            return;
        }
        let address_of = |(address, _): &(IpAddr, _)| *address;
        let ended = victim(
            &self.0.iter().map(address_of).collect::<Vec<_>>(),
            address.to_canonical(),
        );
        if let Some((_, task)) = self.0.remove(ended) {
            task.abort();
            // Its descriptor is closed before there is another.
            drop(task.await);
        }
    }
}

/// Returns which handshake ends for a new one: the oldest of the address that has most, with the new one.
fn victim(oldest_first: &[IpAddr], new: IpAddr) -> usize {
    let count = |it: &IpAddr| {
        let known = oldest_first.iter().filter(|other| *other == it).count();
        known + usize::from(*it == new)
    };
    let most = oldest_first.iter().map(count).max().unwrap_or_default();
    let found = oldest_first.iter().position(|it| count(it) == most);
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_most_handshakes_loses_its_oldest() {
        let address = |last| IpAddr::from([10, 0, 0, last]);
        let all = [1, 2, 3, 2, 3, 2].map(address);
        assert_eq!(victim(&all, address(4)), 1);
        // The new one counts: as many as the other, and its own are older.
        let all = [3, 2, 2, 3, 2].map(address);
        assert_eq!(victim(&all, address(3)), 0);
        assert_eq!(victim(&[1, 2].map(address), address(4)), 0);
    }

    #[test]
    fn names_are_shown_without_what_cannot_be_seen() {
        let names = ["a\nb\u{202e}".to_owned(), "spiffe://x/y".to_owned()];
        let refusal = nobody(&names, "5a", NoUser::Unlisted);
        assert_eq!(refusal.reason, Reason::PeerNotAllowed);
        assert!(
            refusal.message.contains("of a?b?, spiffe://x/y is not in"),
            "{}",
            refusal.message
        );
        let nameless = nobody(&[], "5a", NoUser::Unlisted);
        assert!(
            nameless.message.contains("SHA-256 5a"),
            "{}",
            nameless.message
        );
    }
}
