//! Connects to a daemon of another host, by TLS with certificates on both sides.

use std::{
    env, io,
    net::IpAddr,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tonic::transport::Endpoint;
use tower::service_fn;

use hookjail_base::util::pem::{self, PemProblem};
use hookjail_client::{Failure, connect::Connecting, output};

/// The variable with the authorities of the daemon's certificate.
const CA: &str = "HOOKJAIL_CACERT";

/// The variables with the client's own certificate, and its private key.
const CERTIFICATE: &str = "HOOKJAIL_CLIENT_CERT";
const KEY: &str = "HOOKJAIL_CLIENT_KEY";

/// Connects to the daemon at a URL.
pub(super) fn connect(url: &str) -> Connecting<'_> {
    Box::pin(async move {
        let place = Place::parse(url)?;
        let tls = match place.is_plaintext {
            true => None,
            false => Some(TlsConnector::from(Arc::new(config(|name| {
                env::var_os(name).map(PathBuf::from)
            })?))),
        };
        let shown: Arc<str> = url.into();
        let connect = service_fn(move |_| {
            let (place, tls, shown) = (place.clone(), tls.clone(), Arc::clone(&shown));
            async move {
                let stream = TcpStream::connect((&*place.host, place.port)).await?;
                stream.set_nodelay(true)?;
                let stream: Box<dyn Duplex> = match tls {
                    None => Box::new(stream),
                    Some(tls) => {
                        let name = ServerName::try_from(place.host).map_err(io::Error::other)?;
                        Box::new(tls.connect(name, stream).await?)
                    }
                };
                Ok::<_, io::Error>(TokioIo::new(Reported { shown, stream }))
            }
        });
        let endpoint = Endpoint::from_static("http://localhost");
        let channel = endpoint.connect_with_connector(connect).await;
        channel.map_err(|error| {
            let problem = hookjail_base::refusal::chain(&error);
            Failure::new(format!("cannot reach the daemon at `{url}`: {problem}"))
        })
    })
}

/// The place of a daemon.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Place {
    host: String,
    is_plaintext: bool,
    port: u16,
}

impl Place {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// Refuses what is no address, and an unencrypted connection to another host.
    fn parse(url: &str) -> Result<Self, Failure> {
        let problem = |problem: &str| Failure::new(format!("`{url}` {problem}"));
        let no_url = || problem("is no address of a daemon; use `https://HOST:PORT`");
        let uri: Uri = url.parse().map_err(|_| no_url())?;
        let host = uri.host().ok_or_else(no_url)?;
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let port = uri.port_u16().ok_or_else(no_url)?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || url.contains('@') {
            return Err(no_url());
        }
        let is_plaintext = uri.scheme_str() == Some("http");
        let is_loopback = host == "localhost"
            || host
                .parse()
                .is_ok_and(|address: IpAddr| address.is_loopback());
        if is_plaintext && !is_loopback {
            return Err(problem(
                "is of another host, and `http` is for this one alone; use `https`",
            ));
        }
        Ok(Self {
            host,
            is_plaintext,
            port,
        })
    }
}

/// Builds what the client proves and believes.
fn config(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<ClientConfig, Failure> {
    let file = |name: &'static str| {
        variable(name).filter(|path| !path.as_os_str().is_empty()).ok_or_else(|| {
            Failure::new(format!(
                "`{name}` is not set: TLS needs the paths of PEM files in `{CERTIFICATE}`, `{KEY}` and `{CA}`"
            ))
        })
    };
    let unusable = |name: &'static str, path: &PathBuf| {
        let path = path.display().to_string();
        move |problem: String| Failure::new(format!("cannot use `{path}` (`{name}`): {problem}"))
    };
    let invalid = |problem: PemProblem| problem.to_string();
    let refused = |problem: rustls::Error| problem.to_string();
    let (ca, certificate, key) = (file(CA)?, file(CERTIFICATE)?, file(KEY)?);
    let mut roots = RootCertStore::empty();
    let authorities = pem::certificates(&ca).map_err(invalid);
    for authority in authorities.map_err(unusable(CA, &ca))? {
        let added = roots.add(authority).map_err(refused);
        added.map_err(unusable(CA, &ca))?;
    }
    let chain = pem::certificates(&certificate).map_err(invalid);
    let chain = chain.map_err(unusable(CERTIFICATE, &certificate))?;
    let private = pem::private_key(&key).map_err(invalid);
    let private = private.map_err(unusable(KEY, &key))?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|it| {
            it.with_root_certificates(roots)
                .with_client_auth_cert(chain, private)
        });
    let mut config = config.map_err(refused).map_err(unusable(KEY, &key))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection whose end is reported: a daemon that refuses the certificate reports it there, after the client's handshake.
struct Reported {
    shown: Arc<str>,
    stream: Box<dyn Duplex>,
}

impl Reported {
    fn report(&self, error: &io::Error) {
        let shown = &self.shown;
        output::stderr(&format!(
            "hookjail: the daemon at {shown} ended the connection: {error}"
        ));
    }

    /// Reports a failed write by what the daemon sent before it closed, if it did.
    fn report_write(&mut self, context: &mut Context<'_>, error: &io::Error) {
        let mut byte = [0];
        let read = Pin::new(&mut self.stream).poll_read(context, &mut ReadBuf::new(&mut byte));
        match read {
            Poll::Ready(Err(reason)) => self.report(&reason),
            Poll::Ready(Ok(())) | Poll::Pending => self.report(error),
        }
    }
}

impl AsyncRead for Reported {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Err(error)) = &read {
            self.report(error);
        }
        read
    }
}

impl AsyncWrite for Reported {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Err(error)) = &written {
            self.report_write(context, error);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if let Poll::Ready(Err(error)) = &flushed {
            self.report_write(context, error);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port_and_plaintext_is_for_this_host_alone() {
        let place = |url| Place::parse(url).map_err(|failure| failure.message);
        let expected = |host: &str, is_plaintext| {
            Ok(Place {
                host: host.to_owned(),
                is_plaintext,
                port: 7443,
            })
        };
        assert_eq!(
            place("https://agents.example:7443"),
            expected("agents.example", false)
        );
        assert_eq!(place("https://10.0.0.1:7443/"), expected("10.0.0.1", false));
        assert_eq!(place("https://[fd00::1]:7443"), expected("fd00::1", false));
        assert_eq!(place("http://127.0.0.1:7443"), expected("127.0.0.1", true));
        assert_eq!(place("http://[::1]:7443"), expected("::1", true));
        assert_eq!(place("http://localhost:7443"), expected("localhost", true));
        for wrong in [
            "https://",
            "https://a",
            "https://a:x",
            "https://a:1/b",
            "https://a:1?b",
            "https://u@a:1",
        ] {
            assert!(
                place(wrong).unwrap_err().contains("https://HOST:PORT"),
                "{wrong}"
            );
        }
        for remote in [
            "http://10.0.0.1:1",
            "http://agents.example:1",
            "http://localhost.example:1",
        ] {
            assert!(
                place(remote).unwrap_err().contains("use `https`"),
                "{remote}"
            );
        }
    }

    #[test]
    fn files_that_are_not_named_are() {
        for missing in [CA, CERTIFICATE, KEY] {
            let variable = |name: &str| (name != missing).then(|| PathBuf::from("/x"));
            let failure = config(variable).unwrap_err().message;
            assert!(
                failure.starts_with(&format!("`{missing}` is not set")),
                "{failure}"
            );
        }
        let failure = config(|_| Some("/does/not/exist".into()))
            .unwrap_err()
            .message;
        assert!(
            failure.contains("cannot use `/does/not/exist` (`HOOKJAIL_CACERT`)"),
            "{failure}"
        );
    }
}
