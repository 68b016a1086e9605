//! The relay: accepts hooks' connections on loopback, compares what they speak with their rule, and connects them to their hosts.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use nix::sys::socket::{Backlog, listen};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use hookjail_policy::egress::{Host, Speaks};

use super::{
    Expected, Granted, Live, PATIENCE, Relay, RunEgress, Target,
    hello::{self, Hello},
    http, lock, names,
    outward::{Outward, Wire},
};
use crate::{mutants, run::connection::ConnectionEnd};

/// The most connections of all runs that wait to be accepted.
const MOST_WAITING: usize = 1024;

/// Delay of a retry after a lack of descriptors.
const AGAIN: Duration = Duration::from_millis(50);

/// Makes the sockets and accepts in the background, for as long as this process lives.
pub(super) fn start() -> io::Result<Relay> {
    let expected = Arc::new(Mutex::default());
    let accept = |address: IpAddr| {
        let listener = std::net::TcpListener::bind((address, 0))?;
        // As many as the kernel keeps: the constant of a C library may be smaller than what is asked for.
        listen(&listener, Backlog::MAXALLOWABLE)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = TcpListener::from_std(listener)?;
        tokio::spawn(serve(listener, Arc::clone(&expected)));
        Ok::<_, io::Error>(address)
    };
    let v4 = accept(Ipv4Addr::LOCALHOST.into())?;
    // A machine may have no IPv6.
    let v6 = accept(Ipv6Addr::LOCALHOST.into()).ok();
    Ok(Relay {
        most_waiting: most_waiting(),
        next: AtomicU64::new(0),
        v4,
        v6,
        expected,
    })
}

/// Returns how many connections the kernel keeps until they are accepted.
fn most_waiting() -> usize {
    let text = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
    let limit = text.ok().and_then(|text| text.trim().parse().ok());
    limit.unwrap_or(128).min(MOST_WAITING)
}

async fn serve(listener: TcpListener, expected: Arc<Mutex<HashMap<SocketAddr, Expected>>>) {
    let mut is_lacking = false;
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // For lack of descriptors: the connections wait.
                if !std::mem::replace(&mut is_lacking, true) {
                    tracing::warn!(%error, "no connection of a hook can be accepted");
                }
                sleep(AGAIN).await;
                continue;
            }
        };
        is_lacking = false;
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let known = lock(&expected).get_mut(&peer).and_then(|it| {
            let is_first = !std::mem::replace(&mut it.is_accepted, true);
            is_first.then(|| (it.id, Arc::clone(&it.run), it.target.clone()))
        });
        let Some((id, run, target)) = known else {
            // Of another process of the machine.
            reset(stream);
            continue;
        };
        let expected = Arc::clone(&expected);
        tokio::spawn(async move {
            let ended = run.over.clone();
            tokio::select! {
                () = converse(&run, &target, stream) => {}
                () = ended.cancelled() => {}
            }
            let mut expected = lock(&expected);
            // Its address may have been given to another connection since.
            if expected.get(&peer).is_some_and(|it| it.id == id) {
                expected.remove(&peer);
            }
            drop(expected);
            run.ended(&target);
        });
    }
}

/// Ends a connection so that its hook sees an error, not an end.
fn reset(stream: TcpStream) {
    // The error would be of a socket that is gone, which this is to achieve.
    let _gone = stream.set_zero_linger();
}

/// Serves a hook's connection to its end, and records it.
async fn converse(run: &Arc<RunEgress>, target: &Target, stream: TcpStream) {
    match target {
        Target::Names => answer_names(run, stream).await,
        Target::Host(granted) => {
            let flow = Flow {
                live: run.begin(granted.destination.clone()),
                run,
            };
            flow.serve(granted, stream).await;
        }
    }
}

/// Answers questions for names, each behind its length.
async fn answer_names(run: &RunEgress, mut stream: TcpStream) {
    let mut question = vec![0; names::LONGEST];
    while let Ok(Ok(length)) = timeout(PATIENCE, stream.read_u16()).await {
        let Some(question) = question.get_mut(..usize::from(length)) else {
            return;
        };
        if !matches!(
            timeout(PATIENCE, stream.read_exact(question)).await,
            Ok(Ok(_))
        ) {
            return;
        }
        let Some(answer) = names::answer(question, |name| run.address_of(name)) else {
            return;
        };
        let length = u16::try_from(answer.len()).unwrap_or(u16::MAX);
        let answer = [&length.to_be_bytes()[..], &answer].concat();
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

/// A connection in work.
struct Flow<'a> {
    live: Arc<Live>,
    run: &'a RunEgress,
}

impl Flow<'_> {
    async fn serve(&self, granted: &Granted, mut stream: TcpStream) {
        let relayed = async {
            let outward = Outward {
                live: &self.live,
                rules: &self.run.rules,
                trust: &self.run.trust,
            };
            if matches!(granted.rule.speaks, Speaks::Http | Speaks::Https) {
                let mut counted = self.counted(&mut stream);
                let relayed = http::relay(&mut counted, granted, &outward).await;
                return match counted.is_over {
                    true => Err(self.beyond_bytes()),
                    false => relayed,
                };
            }
            let first = self.first_bytes(granted, &mut stream).await?;
            let host = outward.tunnel(&granted.destination).await?;
            self.copy(&first, &mut stream, host).await
        };
        match relayed.await {
            Ok(()) => self.live.end(ConnectionEnd::Done),
            Err(end) => {
                self.live.end(end);
                reset(stream);
            }
        }
    }

    /// Reads what decides whether the connection speaks as its rule has it.
    async fn first_bytes(
        &self,
        granted: &Granted,
        stream: &mut TcpStream,
    ) -> Result<Vec<u8>, ConnectionEnd> {
        match granted.rule.speaks {
            Speaks::Any | Speaks::Http | Speaks::Https => return Ok(Vec::new()),
            Speaks::Tls if mutants::lacks("relay", "server-name") => return Ok(Vec::new()),
            Speaks::Tls => {}
        }
        let mut first = Vec::new();
        loop {
            match hello::read(&first) {
                Hello::Names(Some(name))
                    if Host::Name(name.clone()) == granted.destination.host =>
                {
                    return Ok(first);
                }
                Hello::Names(Some(name)) => {
                    return Err(denied(format!("was asked for by the server name `{name}`")));
                }
                Hello::Names(None) => return Err(denied("was asked for by no server name")),
                Hello::Other(why) => return Err(denied(why)),
                Hello::Incomplete if first.len() > 2 * hello::LONGEST => {
                    return Err(denied("got a first message that is too long"));
                }
                Hello::Incomplete => {}
            }
            match timeout(PATIENCE, stream.read_buf(&mut first)).await {
                Ok(Ok(0)) => return Err(failed("ended before its first message was whole")),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(failed(error)),
                Err(_) => return Err(failed("got no whole first message in time")),
            }
        }
    }

    /// Copies both ways until both have ended.
    async fn copy(
        &self,
        first: &[u8],
        stream: &mut TcpStream,
        mut host: Wire,
    ) -> Result<(), ConnectionEnd> {
        let length = first.len() as u64;
        if !self.run.sends(length) {
            return Err(self.beyond_bytes());
        }
        self.live.sent.fetch_add(length, Relaxed);
        host.write_all(first).await.map_err(failed)?;
        let mut counted = self.counted(stream);
        let copied = copy_bidirectional(&mut counted, &mut host).await;
        match copied {
            Err(_) if counted.is_over => Err(self.beyond_bytes()),
            // Either end may reset a connection.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn counted<'a>(&'a self, stream: &'a mut TcpStream) -> Counted<'a> {
        Counted {
            is_over: false,
            live: &self.live,
            run: self.run,
            stream,
        }
    }

    fn beyond_bytes(&self) -> ConnectionEnd {
        denied(format!(
            "would get more than the run may send (`limits.egress_bytes`, {} bytes)",
            self.run.rules.bytes.unwrap_or_default()
        ))
    }
}

pub(super) fn denied(why: impl ToString) -> ConnectionEnd {
    ConnectionEnd::Denied(why.to_string())
}

pub(super) fn failed(why: impl ToString) -> ConnectionEnd {
    ConnectionEnd::Failed(why.to_string())
}

/// A hook's end of a connection, whose bytes are counted.
pub(super) struct Counted<'a> {
    /// Whether the limit of the run was met.
    is_over: bool,
    live: &'a Live,
    run: &'a RunEgress,
    stream: &'a mut TcpStream,
}

impl AsyncRead for Counted<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut *this.stream).poll_read(context, buffer))?;
        let read = (buffer.filled().len() - before) as u64;
        if !this.run.sends(read) {
            this.is_over = true;
            buffer.set_filled(before);
            return Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into()));
        }
        this.live.sent.fetch_add(read, Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut *this.stream).poll_write(context, bytes))?;
        this.live.received.fetch_add(written as u64, Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().stream).poll_shutdown(context)
    }
}
