//! Limits the number of connections, and the time until their HTTP/2 preface.

use std::{
    io,
    os::fd::AsFd,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::UnixStream,
    time::{Sleep, sleep},
};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::Connected;

use hookjail_base::{
    model::Peer,
    refusal::{Reason, Refusal},
    util::{
        seldom::Seldom,
        shares::{Share, Shares},
    },
};
use hookjail_sys::peer_groups;

use super::network::{Duplex, NetworkPeer};
use crate::pipeline::Pipeline;

/// The timeout for a handshake of TLS, and for the preface of HTTP/2. From then on keep-alive pings are sent.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The length of that preface.
const PREFACE_BYTES: usize = 24;

/// The most connections of uids without permission, enough to be refused with a reason.
const MAX_STRANGERS: usize = 64;

/// The pause after a failed accept.
pub(super) const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Stands for the uid of clients over the network that are no user. No user has it, as it is the kernel's `-1`.
const NOBODY: u32 = u32::MAX;

/// Counts and limits connections by uid.
#[derive(Debug)]
pub(super) struct Crowd {
    listed: Arc<Shares>,
    pipeline: Arc<Pipeline>,
    full: Seldom,
    strangers: Arc<Shares>,
    unlisted: Seldom,
}

impl Crowd {
    /// Creates the counter; `most` is the limit for all authorised uids together.
    pub(super) fn new(pipeline: Arc<Pipeline>, most: usize) -> Self {
        Self {
            listed: Arc::new(Shares::new(most)),
            pipeline,
            full: Seldom::default(),
            strangers: Arc::new(Shares::new(MAX_STRANGERS)),
            unlisted: Seldom::default(),
        }
    }

    /// Passes connections on, except those above the limits. A failed accept, for lack of descriptors, does not end the server.
    pub(super) fn let_in(
        self: Arc<Self>,
        listener: impl Stream<Item = io::Result<UnixStream>> + Send,
    ) -> impl Stream<Item = io::Result<Connection>> + Send {
        listener
            .then(|accepted| async {
                if let Err(error) = &accepted {
                    tracing::warn!(%error, "connection could not be accepted");
                    // Without descriptors the next accept fails at once, too.
                    sleep(ACCEPT_RETRY).await;
                }
                accepted
            })
            .filter_map(move |accepted| self.place(accepted.ok()?).map(Ok))
    }

    fn place(&self, stream: UnixStream) -> Option<Connection> {
        let peer = peer(&stream).ok()?;
        let share = self.share(Some(&peer))?;
        let peer = ConnectedPeer::Local(peer);
        Some(Connection::new(Transport::Local(stream), peer, Some(share)))
    }

    /// Counts a connection over the network, unless there are too many. One that is no user's is served a refusal.
    pub(super) fn over_network(
        &self,
        stream: Box<dyn Duplex>,
        client: NetworkPeer,
    ) -> Option<Connection> {
        let peer = client.peer();
        if let Err(refusal) = &peer
            && let Some(others) = self.unlisted.say()
        {
            tracing::warn!(
                address = %client.address(),
                others,
                reason = %refusal.reason,
                "a client is refused: {}",
                refusal.message
            );
        }
        let share = self.share(peer.as_ref().ok())?;
        let peer = ConnectedPeer::Network(Arc::new(client));
        Some(Connection::new(
            Transport::Network(stream),
            peer,
            Some(share),
        ))
    }

    /// Returns the place of a connection, if there is one.
    fn share(&self, peer: Option<&Peer>) -> Option<Share> {
        let shares = match peer {
            Some(peer) if !self.pipeline.gate.is_stranger(peer) => &self.listed,
            _ => &self.strangers,
        };
        let share = shares.share(peer.map_or(NOBODY, |peer| peer.uid));
        if share.grow(1) {
            return Some(share);
        }
        if let Some(others) = self.full.say() {
            tracing::warn!(
                uid = peer.map(|peer| peer.uid),
                most = shares.most(),
                others,
                "a connection was closed: there are too many (`server.max_connections`)"
            );
        }
        None
    }
}

/// Reads the credentials of the process that connected.
fn peer(stream: &UnixStream) -> io::Result<Peer> {
    let credentials = stream.peer_cred()?;
    Ok(Peer {
        gid: credentials.gid(),
        groups: peer_groups(stream.as_fd())?,
        pid: credentials.pid(),
        remote: None,
        uid: credentials.uid(),
    })
}

/// A connection, counted.
pub(super) struct Connection {
    _share: Option<Share>,
    /// The deadline of the preface and the number of its missing bytes; `None` once it is read.
    awaited: Option<(Pin<Box<Sleep>>, usize)>,
    peer: ConnectedPeer,
    stream: Transport,
}

/// The bytes of a connection.
enum Transport {
    Local(UnixStream),
    Network(Box<dyn Duplex>),
}

/// A peer that connected.
#[derive(Clone, Debug)]
pub(super) enum ConnectedPeer {
    /// A process of this host.
    Local(Peer),
    /// A client over the network.
    Network(Arc<NetworkPeer>),
    /// The kernel did not identify the peer.
    Unknown,
}

impl ConnectedPeer {
    /// Returns the user that it is now.
    ///
    /// # Errors
    ///
    /// Refuses those that are no user's.
    pub(super) fn peer(&self) -> Result<Peer, Refusal> {
        match self {
            Self::Local(peer) => Ok(peer.clone()),
            Self::Network(client) => client.peer(),
            Self::Unknown => {
                let message = "the kernel does not identify the caller";
                Err(Refusal::new(Reason::PeerUnknown, message))
            }
        }
    }
}

impl Connection {
    /// Wraps a server's only connection, without limits.
    pub(super) fn single(stream: UnixStream) -> Self {
        let peer = peer(&stream).map_or(ConnectedPeer::Unknown, ConnectedPeer::Local);
        Self::new(Transport::Local(stream), peer, None)
    }

    fn new(stream: Transport, peer: ConnectedPeer, share: Option<Share>) -> Self {
        Self {
            _share: share,
            awaited: Some((Box::pin(sleep(HANDSHAKE_TIMEOUT)), PREFACE_BYTES)),
            peer,
            stream,
        }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut dyn Duplex> {
        match &mut self.get_mut().stream {
            Transport::Local(stream) => Pin::new(stream),
            Transport::Network(stream) => Pin::new(stream),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectedPeer;

    fn connect_info(&self) -> ConnectedPeer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = self.as_mut().stream().poll_read(context, buffer);
        if read.is_pending()
            && let Some((late, _)) = &mut self.awaited
            && late.as_mut().poll(context).is_ready()
        {
            // After the read: a preface that arrived in time may be read late.
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        ready!(read)?;
        let read = buffer.filled().len() - before;
        self.awaited = self
            .awaited
            .take()
            .and_then(|(late, missing)| Some((late, missing.checked_sub(read)?)))
            .filter(|(_, missing)| *missing > 0);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Transport::Local(stream) => stream.is_write_vectored(),
            Transport::Network(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(context, slices)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn connection(stream: UnixStream, within: Duration) -> Connection {
        let mut connection = Connection::single(stream);
        connection.awaited = Some((Box::pin(sleep(within)), PREFACE_BYTES));
        connection
    }

    #[tokio::test]
    async fn a_connection_ends_that_sends_no_whole_preface_in_time() {
        let within = Duration::from_millis(50);
        for sent in [0, PREFACE_BYTES - 1] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(&vec![b'x'; sent]).await.unwrap();
            let mut connection = connection(ours, within);
            let mut read = Vec::new();
            let error = connection.read_to_end(&mut read).await.unwrap_err();
            assert_eq!((error.kind(), read.len()), (io::ErrorKind::TimedOut, sent));
        }
        // The control: with a whole one it may be silent.
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&[b'x'; PREFACE_BYTES]).await.unwrap();
        let mut connection = connection(ours, within);
        let mut preface = [0; PREFACE_BYTES];
        connection.read_exact(&mut preface).await.unwrap();
        let silent = tokio::time::timeout(within * 4, connection.read_u8()).await;
        assert!(silent.is_err());
    }

    #[tokio::test]
    async fn a_preface_that_came_in_time_may_be_read_late() {
        let within = Duration::from_millis(50);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&[b'x'; PREFACE_BYTES]).await.unwrap();
        let mut connection = connection(ours, within);
        sleep(within * 2).await;
        let mut preface = [0; PREFACE_BYTES];
        connection.read_exact(&mut preface).await.unwrap();
    }
}
