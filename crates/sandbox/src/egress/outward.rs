//! The relay's end of a connection: to the host, or to the proxy that leads there.

use std::{
    env, fmt,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::Empty;
use hyper::{
    Request, Response, StatusCode, Uri,
    client::conn::http1::handshake,
    header::{HOST, HeaderName, HeaderValue, PROXY_AUTHORIZATION},
    http::uri::Scheme,
    upgrade,
};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    task::{JoinSet, spawn_blocking},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use hookjail_base::{redact::secret::Registration, refusal::chain, util::pem};
use hookjail_policy::{
    EgressRules,
    egress::{Destination, Host, Speaks, may_resolve_to},
    requests::{self, SecretForm},
    ways::{Proxy, Ways},
};

use super::{
    Granted, Live, PATIENCE, lock,
    relay::{denied, failed},
};
use crate::{mutants, run::connection::ConnectionEnd};

/// A connection that bytes are relayed to.
pub(super) type Wire = Box<dyn Carrier>;

/// Both directions of a connection.
pub(super) trait Carrier: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Carrier for T {}

/// The form of requests for a connection.
#[derive(Default)]
pub(super) enum Form {
    /// As the host takes them.
    #[default]
    Direct,
    /// As a proxy takes them, with the value of its header.
    Proxied(Option<HeaderValue>),
}

impl Form {
    /// Gives a request this form. The words of a hook to the proxy are taken out.
    pub(super) fn put_on<B>(&self, request: &mut Request<B>, destination: &Destination) {
        let Self::Proxied(password) = self else {
            return;
        };
        let mut parts = request.uri().clone().into_parts();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = destination.to_string().parse().ok();
        // A path is in each request that was read, and one for all of a host has its own.
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
        request.headers_mut().remove(PROXY_AUTHORIZATION);
        if let Some(password) = password {
            request
                .headers_mut()
                .insert(PROXY_AUTHORIZATION, password.clone());
        }
    }
}

/// The authorities that the daemon trusts, and TLS by them.
#[derive(Default)]
pub(super) struct Trust {
    /// The last configuration, with the ways that it is made for.
    known: Mutex<Option<(Arc<Ways>, Arc<ClientConfig>)>>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}

impl Trust {
    /// Returns the configuration of TLS. The authorities are read at its first use, and at that after a reload.
    async fn config(self: &Arc<Self>, ways: &Arc<Ways>) -> Result<Arc<ClientConfig>, String> {
        if let Some((known, config)) = &*lock(&self.known)
            && Arc::ptr_eq(known, ways)
        {
            return Ok(Arc::clone(config));
        }
        let (trust, ways) = (Arc::clone(self), Arc::clone(ways));
        let made = spawn_blocking(move || {
            let config = Arc::new(client_config(ways.ca.as_deref())?);
            *lock(&trust.known) = Some((ways, Arc::clone(&config)));
            Ok(config)
        });
        made.await.map_err(|error| error.to_string())?
    }
}

fn client_config(ca: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    // Files of the machine may have authorities that are out of date or malformed; the others count.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca {
        let unusable =
            |why: String| format!("cannot use `{}` (`egress.ca`): {why}", path.display());
        for authority in pem::certificates(path).map_err(|it| unusable(chain(&it)))? {
            roots
                .add(authority)
                .map_err(|it| unusable(it.to_string()))?;
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Connects a hook's connection onwards.
pub(super) struct Outward<'a> {
    pub(super) live: &'a Live,
    pub(super) rules: &'a EgressRules,
    pub(super) trust: &'a Arc<Trust>,
}

impl Outward<'_> {
    /// Connects to a host for any bytes: directly, or through the proxy.
    pub(super) async fn tunnel(&self, destination: &Destination) -> Result<Wire, ConnectionEnd> {
        let Some(proxy) = self.rules.ways.proxy_to(destination) else {
            return Ok(Box::new(self.connect(destination).await?));
        };
        let tunnel = timeout(PATIENCE, self.tunnel_by(proxy, destination)).await;
        let tunnel = tunnel.unwrap_or_else(|_| Err("no answer in time".to_owned()));
        tunnel.map_err(|why| by_proxy(proxy, &why))
    }

    /// Connects to a host for requests of HTTP: by TLS where its rule has it; in the clear directly, or to the proxy.
    pub(super) async fn for_requests(
        &self,
        granted: &Granted,
    ) -> Result<(Wire, Form), ConnectionEnd> {
        let destination = &granted.destination;
        if granted.rule.speaks == Speaks::Https {
            return Ok((self.by_tls(granted).await?, Form::Direct));
        }
        let Some(proxy) = self.rules.ways.proxy_to(destination) else {
            return Ok((Box::new(self.connect(destination).await?), Form::Direct));
        };
        let connected = async { Ok((self.proxy(proxy).await?, password(proxy).await?)) };
        let connected = connected.await;
        let (wire, password) = connected.map_err(|why: String| by_proxy(proxy, &why))?;
        Ok((wire, Form::Proxied(password)))
    }

    async fn by_tls(&self, granted: &Granted) -> Result<Wire, ConnectionEnd> {
        let host = Destination {
            host: granted.destination.host.clone(),
            port: granted.rule.port(),
        };
        let stream = self.tunnel(&host).await?;
        let name = host.host.to_string();
        let name = ServerName::try_from(name).map_err(failed)?;
        self.secured(stream, name).await.map_err(failed)
    }

    /// Gives a request the secret of its rule.
    ///
    /// # Errors
    ///
    /// Fails where no rule allows the request, or the secret cannot be used. The reason has no part of it.
    pub(super) async fn put_secret<B>(
        &self,
        request: &mut Request<B>,
        granted: &Granted,
    ) -> Result<(), ConnectionEnd> {
        let Host::Name(name) = &granted.destination.host else {
            return Err(failed("has no name"));
        };
        let (path, query) = (request.uri().path(), request.uri().query());
        let method = request.method().as_str();
        let matched = requests::granted(&self.rules.requests, &granted.rule, method, path);
        let matched = matched.map_err(denied)?;
        let with_query = query.map(|query| format!("{path}?{query}"));
        let mut target = with_query.unwrap_or_else(|| path.to_owned());
        if let Some((rule, (secret, form))) = matched.and_then(|it| Some((it, it.secret()?))) {
            let unusable = || {
                failed(format!(
                    "was not sent the secret `{secret}`, which cannot be used"
                ))
            };
            let value = self.secret(secret).await.map_err(|why| {
                tracing::warn!(secret, "a hook's request is not sent: {why}");
                unusable()
            })?;
            match form {
                SecretForm::Header(header) => {
                    let name = HeaderName::from_bytes(header.name.as_bytes());
                    let value = HeaderValue::from_bytes(&header.value_with(&value));
                    let (name, mut value) = name.ok().zip(value.ok()).ok_or_else(unusable)?;
                    value.set_sensitive(true);
                    request.headers_mut().insert(name, value);
                }
                SecretForm::Url => {
                    target = rule.secret_path(&value, query).ok_or_else(unusable)?;
                }
            }
            self.live.sends(secret);
        }
        *request.uri_mut() = target.parse().map_err(failed)?;
        let port = granted.rule.port();
        let host = match port {
            443 => name.to_string(),
            port => format!("{name}:{port}"),
        };
        let host = HeaderValue::from_str(&host).map_err(failed)?;
        request.headers_mut().insert(HOST, host);
        Ok(())
    }

    async fn secret(&self, name: &str) -> Result<Vec<u8>, String> {
        let registration = self.rules.ways.secret(name);
        read(registration.ok_or("the configuration has none of this name")?).await
    }

    /// Returns the answer of a host behind the proxy.
    ///
    /// # Errors
    ///
    /// Fails where the answer is the proxy's own, which requires a password.
    pub(super) fn taken_by_proxy<B>(
        &self,
        destination: &Destination,
        response: Response<B>,
    ) -> Result<Response<B>, ConnectionEnd> {
        let proxy = self.rules.ways.proxy_to(destination);
        let refusal = proxy.and_then(|it| Some((it, without_password(response.status(), it)?)));
        match refusal {
            None => Ok(response),
            Some((proxy, why)) => Err(by_proxy(proxy, why)),
        }
    }

    async fn tunnel_by(&self, proxy: &Proxy, destination: &Destination) -> Result<Wire, String> {
        let password = password(proxy).await?;
        let wire = TokioIo::new(self.proxy(proxy).await?);
        let (mut sender, connection) = handshake(wire).await.map_err(|it| chain(&it))?;
        let mut driver = JoinSet::new();
        driver.spawn(connection.with_upgrades());
        let place = destination.to_string();
        let mut request = Request::connect(&place).header(HOST, &place);
        if let Some(password) = password {
            request = request.header(PROXY_AUTHORIZATION, password);
        }
        let request = request.body(Empty::<Bytes>::new());
        let request = request.map_err(|it| chain(&it))?;
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|it| chain(&it))?;
        if let Some(why) = refused_by(answer.status(), proxy) {
            return Err(why);
        }
        let tunnel = upgrade::on(answer).await.map_err(|it| chain(&it))?;
        Ok(Box::new(TokioIo::new(tunnel)))
    }

    /// Connects to a proxy. Its address is the operator's, and may be private.
    async fn proxy(&self, proxy: &Proxy) -> Result<Wire, String> {
        let Destination { host, port } = &proxy.address.destination;
        let (found, name) = match host {
            Host::Address(address) => (
                vec![SocketAddr::new(*address, *port)],
                ServerName::IpAddress((*address).into()),
            ),
            Host::Name(name) => {
                let dns = ServerName::try_from(name.to_string()).map_err(|it| it.to_string())?;
                (resolve(name.as_str(), *port).await?, dns)
            }
        };
        let stream = first_that_answers(&found, |_| {}).await?;
        match proxy.address.is_tls {
            false => Ok(Box::new(stream)),
            true => self.secured(stream, name).await,
        }
    }

    async fn secured(
        &self,
        stream: impl Carrier + 'static,
        name: ServerName<'static>,
    ) -> Result<Wire, String> {
        let config = self.trust.config(&self.rules.ways).await?;
        let secured = TlsConnector::from(config).connect(name, stream);
        match timeout(PATIENCE, secured).await {
            Ok(Ok(secured)) => Ok(Box::new(secured)),
            Ok(Err(error)) => Err(format!("has no trusted TLS: {error}")),
            Err(_) => Err("has no TLS in time".to_owned()),
        }
    }

    /// Connects to a host by the first of its addresses that is allowed and answers.
    async fn connect(&self, destination: &Destination) -> Result<TcpStream, ConnectionEnd> {
        let port = destination.port;
        let addresses = match &destination.host {
            Host::Address(address) => vec![SocketAddr::new(*address, port)],
            Host::Name(name) => {
                let found = resolve(name.as_str(), port).await.map_err(failed)?;
                let may = |it: &&SocketAddr| {
                    may_resolve_to(self.rules, it.ip(), port)
                        || mutants::lacks("relay", "addresses")
                };
                let allowed: Vec<_> = found.iter().filter(may).copied().collect();
                if let (true, Some(first)) = (allowed.is_empty(), found.first()) {
                    self.live.reaches(first.ip());
                    return Err(ConnectionEnd::NotPublic(first.ip()));
                }
                allowed
            }
        };
        let reaches = |address: SocketAddr| self.live.reaches(address.ip());
        first_that_answers(&addresses, reaches)
            .await
            .map_err(failed)
    }
}

/// Resolves a name as the host does.
async fn resolve(name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    match timeout(PATIENCE, lookup_host((name, port))).await {
        Ok(Ok(found)) => Ok(found.collect()),
        Ok(Err(error)) => Err(format!("has no address: {error}")),
        Err(_) => Err("has no address: no answer in time".to_owned()),
    }
}

/// Connects to the first of some addresses that answers.
async fn first_that_answers(
    addresses: &[SocketAddr],
    tries: impl Fn(SocketAddr),
) -> Result<TcpStream, String> {
    let mut last = "has no address".to_owned();
    for address in addresses {
        tries(*address);
        match timeout(PATIENCE, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = format!("cannot be reached: {error}"),
            Err(_) => last = "cannot be reached: no answer in time".to_owned(),
        }
    }
    Err(last)
}

/// Returns the value of the header by which a proxy recognises the daemon.
async fn password(proxy: &Proxy) -> Result<Option<HeaderValue>, String> {
    let Some(registration) = &proxy.password else {
        return Ok(None);
    };
    let encoded = BASE64_STANDARD.encode(read(registration).await?);
    let value = HeaderValue::from_str(&format!("Basic {encoded}"));
    let mut value = value.map_err(|it| it.to_string())?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// Reads the value of a secret as it is now.
async fn read(registration: &Registration) -> Result<Vec<u8>, String> {
    let registration = registration.clone();
    // A file may be on a slow disk.
    let read = spawn_blocking(move || registration.read(|name| env::var_os(name)));
    let secret = read.await.map_err(|it| it.to_string())?;
    let secret = secret.map_err(|it| chain(&it))?;
    Ok(secret.value().unwrap_or_default().to_vec())
}

/// Returns why a proxy did not make a tunnel, by its answer.
fn refused_by(status: StatusCode, proxy: &Proxy) -> Option<String> {
    let other = || (!status.is_success()).then(|| format!("answer {status}"));
    without_password(status, proxy)
        .map(ToOwned::to_owned)
        .or_else(other)
}

fn without_password(status: StatusCode, proxy: &Proxy) -> Option<&'static str> {
    let is_asked_for = status == StatusCode::PROXY_AUTHENTICATION_REQUIRED;
    is_asked_for.then_some(match proxy.password {
        None => "a password is required; name a secret in `egress.proxy_secret`",
        Some(_) => "the password of `egress.proxy_secret` is refused; correct the secret",
    })
}

fn by_proxy(proxy: &Proxy, why: &str) -> ConnectionEnd {
    let address = &proxy.address;
    failed(format!("is not reached by the proxy {address}: {why}"))
}
