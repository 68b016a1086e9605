//! Relays HTTP/1.1 in the clear: each request of a connection is for its host.

use std::{convert::Infallible, net::IpAddr, sync::OnceLock};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
    header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, UPGRADE},
    http::uri::Authority,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{sync::Mutex, task::JoinSet};

use super::{
    Granted,
    outward::{Form, Outward},
    relay::{Counted, denied, failed},
};
use crate::{mutants, run::connection::ConnectionEnd};

use hookjail_policy::egress::{Destination, Host, HostName, Speaks};

type Body = Either<Incoming, Full<Bytes>>;

/// The way to the host, made with the first request.
#[derive(Default)]
struct Way {
    /// Drives the connection, which ends when this is dropped.
    driver: JoinSet<()>,
    form: Form,
    sender: Option<SendRequest<Incoming>>,
}

/// Relays a connection's requests to the host, or to the proxy that leads there.
///
/// # Errors
///
/// Returns why the first one failed that was refused or not answered.
pub(super) async fn relay(
    stream: &mut Counted<'_>,
    granted: &Granted,
    outward: &Outward<'_>,
) -> Result<(), ConnectionEnd> {
    let destination = &granted.destination;
    let (way, end) = (Mutex::new(Way::default()), OnceLock::new());
    let service = service_fn(|mut request| {
        let (way, end) = (&way, &end);
        async move {
            let sent = async {
                is_for(&request, destination).map_err(denied)?;
                leave_out_offers(&mut request);
                if granted.rule.speaks == Speaks::Https {
                    outward.put_secret(&mut request, granted).await?;
                }
                send(&mut *way.lock().await, request, granted, outward).await
            };
            Ok::<_, Infallible>(match sent.await {
                Ok(response) => response.map(Either::Left),
                Err(why) => {
                    let answer = refusal(destination, &why);
                    end.get_or_init(|| why);
                    answer
                }
            })
        }
    });
    let mut server = http1::Builder::new();
    // A client may send no more, and still read.
    server.half_close(true);
    let served = server.serve_connection(TokioIo::new(stream), service);
    let served = served.await;
    match (end.into_inner(), served) {
        (Some(end), _) => Err(end),
        (None, Err(error)) if error.is_parse() => Err(denied(match granted.rule.speaks {
            Speaks::Https => {
                "got no HTTP/1.1; use `http://` and the name, the daemon speaks TLS with the host"
            }
            Speaks::Any | Speaks::Http | Speaks::Tls => {
                "got no HTTP/1.1; write ` any` behind the port where it speaks something else"
            }
        })),
        // Either end may break a connection.
        (None, Ok(()) | Err(_)) => Ok(()),
    }
}

async fn send(
    way: &mut Way,
    mut request: Request<Incoming>,
    granted: &Granted,
    outward: &Outward<'_>,
) -> Result<Response<Incoming>, ConnectionEnd> {
    let destination = &granted.destination;
    let is_open = way.sender.as_ref().is_some_and(|it| !it.is_closed());
    if !is_open {
        let (wire, form) = outward.for_requests(granted).await?;
        way.form = form;
        let (sender, connection) = handshake(TokioIo::new(wire)).await.map_err(failed)?;
        way.driver.spawn(async {
            // Its requests have the error.
            let _ended = connection.await;
        });
        way.sender = Some(sender);
    }
    let Some(sender) = &mut way.sender else {
        return Err(failed("has no connection"));
    };
    sender.ready().await.map_err(failed)?;
    way.form.put_on(&mut request, destination);
    let response = sender.send_request(request).await.map_err(failed)?;
    match way.form {
        Form::Direct => Ok(response),
        Form::Proxied(_) => outward.taken_by_proxy(destination, response),
    }
}

/// Checks that a request is for the host of its connection, and for nothing but an answer.
fn is_for(request: &Request<Incoming>, destination: &Destination) -> Result<(), &'static str> {
    let mut upgrades = request.headers().get_all(UPGRADE).iter();
    if request.method() == Method::CONNECT || !upgrades.all(is_offer) {
        return Err("was asked for another protocol than HTTP; write ` any` behind the port");
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err("was sent a request without a host, or with two");
    };
    let named = host.to_str().ok().and_then(|host| host.parse().ok());
    let mut named = named.iter().chain(request.uri().authority());
    match named.all(|named| is_of(named, destination))
        && host.to_str().is_ok_and(|it| !it.is_empty())
        || mutants::lacks("relay", "host")
    {
        true => Ok(()),
        false => Err("was sent a request for another host"),
    }
}

/// Returns whether a header offers HTTP/2, as Java's client does with each first request. A server need not take it (RFC 9110, 7.8).
fn is_offer(upgrade: &HeaderValue) -> bool {
    upgrade.as_bytes().eq_ignore_ascii_case(b"h2c")
}

/// Takes out what a request offers for its connection alone: the next one is the daemon's.
fn leave_out_offers(request: &mut Request<Incoming>) {
    let headers = request.headers_mut();
    if headers.remove(UPGRADE).is_some() {
        headers.remove(CONNECTION);
        headers.remove("http2-settings");
    }
}

/// Returns whether an authority names a host at its port, or at none.
fn is_of(named: &Authority, destination: &Destination) -> bool {
    let host = named.host();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<IpAddr>().map(|it| it.to_canonical()).ok();
    let written = address.map(Host::Address);
    let written = written.or_else(|| HostName::parse(host).map(Host::Name));
    let is_host = written.is_some_and(|it| it.is_same(&destination.host));
    let is_port = named.port_u16().is_none_or(|port| port == destination.port);
    // No user's name stands before it.
    is_host && is_port && !named.as_str().contains('@')
}

/// Returns the answer to a request that is not relayed, behind which the connection ends.
fn refusal(destination: &Destination, why: &ConnectionEnd) -> Response<Body> {
    let (status, why) = match why {
        ConnectionEnd::Failed(why) => (StatusCode::BAD_GATEWAY, why.into()),
        ConnectionEnd::Denied(_)
        | ConnectionEnd::Done
        | ConnectionEnd::NotPublic(_)
        | ConnectionEnd::Unlisted => (StatusCode::FORBIDDEN, why.refusal().unwrap_or_default()),
    };
    let text = format!("{destination} {why}\n");
    let mut response = Response::new(Either::Right(Full::new(Bytes::from(text))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}
