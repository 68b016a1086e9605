//! Limits the number of connections, and the time until their HTTP/2 preface.

use std::{
    io,
    os::fd::AsFd,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::UnixStream,
    time::{Sleep, sleep},
};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::Connected;

use crate::{
    model::Peer,
    pipeline::Pipeline,
    sys::peer_groups,
    util::shares::{Share, Shares},
};

/// The timeout for the preface of HTTP/2. From then on keep-alive pings are sent.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The length of that preface.
const PREFACE_BYTES: usize = 24;

/// The most connections of uids without permission, enough to be refused with a reason.
const MAX_STRANGERS: usize = 64;

/// The pause after a failed accept.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The interval between log messages about too many connections.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Counts and limits connections by uid.
#[derive(Debug)]
pub(super) struct Crowd {
    listed: Arc<Shares>,
    pipeline: Arc<Pipeline>,
    said: Mutex<Option<Instant>>,
    strangers: Arc<Shares>,
}

impl Crowd {
    /// Creates the counter; `most` is the limit for all authorised uids together.
    pub(super) fn new(pipeline: Arc<Pipeline>, most: usize) -> Self {
        Self {
            listed: Arc::new(Shares::new(most)),
            pipeline,
            said: Mutex::default(),
            strangers: Arc::new(Shares::new(MAX_STRANGERS)),
        }
    }

    /// Passes connections on, except those above the limits. A failed accept, for want of descriptors, does not end the server.
    pub(super) fn let_in(
        self,
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
        let of = if self.pipeline.gate.is_stranger(&peer) {
            &self.strangers
        } else {
            &self.listed
        };
        let share = of.share(peer.uid);
        if share.grow(1) {
            return Some(Connection::new(
                stream,
                Some(peer),
                Some(share),
                HANDSHAKE_TIMEOUT,
            ));
        }
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.is_none_or(|said| said.elapsed() >= LOG_INTERVAL) {
            *said = Some(Instant::now());
            tracing::warn!(
                uid = peer.uid,
                most = of.most(),
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
        uid: credentials.uid(),
    })
}

/// A connection, counted.
#[derive(Debug)]
pub(super) struct Connection {
    _share: Option<Share>,
    /// The deadline of the preface and the number of its missing bytes; `None` once it is read.
    awaited: Option<(Pin<Box<Sleep>>, usize)>,
    peer: ConnectedPeer,
    stream: UnixStream,
}

/// The process that connected, if the kernel named it.
#[derive(Clone, Debug)]
pub(super) struct ConnectedPeer(pub(super) Option<Peer>);

impl Connection {
    /// Wraps a server's only connection, without limits.
    pub(super) fn single(stream: UnixStream) -> Self {
        let peer = peer(&stream).ok();
        Self::new(stream, peer, None, HANDSHAKE_TIMEOUT)
    }

    fn new(stream: UnixStream, peer: Option<Peer>, share: Option<Share>, within: Duration) -> Self {
        Self {
            _share: share,
            awaited: Some((Box::pin(sleep(within)), PREFACE_BYTES)),
            peer: ConnectedPeer(peer),
            stream,
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
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
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
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_connection_ends_that_sends_no_whole_preface_in_time() {
        let within = Duration::from_millis(50);
        for sent in [0, PREFACE_BYTES - 1] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(&vec![b'x'; sent]).await.unwrap();
            let mut connection = Connection::new(ours, None, None, within);
            let mut read = Vec::new();
            let error = connection.read_to_end(&mut read).await.unwrap_err();
            assert_eq!((error.kind(), read.len()), (io::ErrorKind::TimedOut, sent));
        }
        // The control: with a whole one it may be silent.
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&[b'x'; PREFACE_BYTES]).await.unwrap();
        let mut connection = Connection::new(ours, None, None, within);
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
        let mut connection = Connection::new(ours, None, None, within);
        sleep(within * 2).await;
        let mut preface = [0; PREFACE_BYTES];
        connection.read_exact(&mut preface).await.unwrap();
    }
}
