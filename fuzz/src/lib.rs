//! The fuzz targets' work on their input; `tests/fuzz_seeds.rs` does the same with every seed.

use std::{
    collections::HashSet,
    fmt,
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use hookjail::{
    contract::{
        End, EndKind, Mode,
        hook_file::{Origin, Switches, contracts, read},
    },
    model::{OnFailure, event::parse_event},
    pb::ExecuteRequest,
    policy::{
        egress::Egress,
        profile::ProfileFile,
        requests::{RequestRule, granted},
    },
};
use hookjail_daemon::testing::{
    config::{Config, ProcessEnv},
    wire,
};
use hookjail_sandbox::testing::{name_answer, server_name};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};
use http_body_util::BodyExt;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// A target's name, as its binary and its folder of seeds have it, and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 8] = [
    ("config", config),
    ("directive", directive),
    ("egress", egress),
    ("event", event),
    ("hook_file", hook_file),
    ("json", json),
    ("profile", profile),
    ("request", request),
];

/// Reads what a hook sends to the relay: a first message of TLS, and a question for a name; and a rule of a profile.
pub fn egress(bytes: &[u8]) {
    if let Some(name) = server_name(bytes) {
        // Later bytes do not change the name.
        let more = [bytes, b"\x16\x03\x01\x00\x01\x01"].concat();
        assert_eq!(server_name(&more), Some(name));
    }
    if let Some(answer) = name_answer(bytes) {
        assert!(answer.len() <= bytes.len() + 16, "{}", answer.len());
        assert_eq!(answer[..2], bytes[..2]);
    }
    let rule = str::from_utf8(bytes)
        .ok()
        .and_then(|it| it.parse::<Egress>().ok());
    if let Some(rule) = rule {
        assert_eq!(rule.to_string().parse(), Ok(rule.clone()));
        assert!(rule.is_within(&rule));
    }
    if let Ok(path) = str::from_utf8(bytes) {
        path_of_request(path);
    }
}

/// Judges a path by a rule for some of a host's. Allowed paths lie below, even for a server that decodes twice and takes both slashes.
fn path_of_request(path: &str) {
    let rule = serde_json::json!({ "url": "https://a.example/below" });
    let rule: RequestRule = serde_json::from_value(rule).expect("a rule");
    let egress = rule.egress();
    if granted(&[rule], &egress, "GET", path).is_ok() {
        let once = decoded(path.as_bytes());
        let twice = decoded(&once);
        for read in [path.as_bytes(), &once, &twice] {
            assert!(read.starts_with(b"/below"), "{path:?}");
            let mut segments = read.split(|byte| matches!(byte, b'/' | b'\\'));
            let leads_up = |it: &[u8]| {
                let bare = it.split(|byte| *byte == b';').next();
                bare == Some(b"..") || bare == Some(b".")
            };
            assert!(!segments.any(leads_up), "{path:?}");
        }
    }
}

fn decoded(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut position = 0;
    while position < bytes.len() {
        let digits = bytes
            .get(position + 1..position + 3)
            .filter(|_| bytes[position] == b'%');
        let byte = digits
            .filter(|it| it.iter().all(u8::is_ascii_hexdigit))
            .and_then(|it| u8::from_str_radix(str::from_utf8(it).ok()?, 16).ok());
        text.push(byte.unwrap_or(bytes[position]));
        position += if byte.is_some() { 3 } else { 1 };
    }
    text
}

/// Parses a configuration as operators write them.
pub fn config(bytes: &[u8]) {
    let mut environment = ProcessEnv::default();
    environment.paths.home = Some("/home/user".into());
    if let Ok(text) = str::from_utf8(bytes) {
        drop(Config::parse(text, &environment));
    }
}

/// Interprets what a hook prints, under every contract.
pub fn directive(stdout: &[u8]) {
    for mode in Mode::ALL {
        let points = mode.facts().points.iter().map(|point| point.name);
        for point in points.chain(["another"]) {
            let end = End {
                kind: EndKind::Exited(0),
                point,
                stdout,
                ..End::default()
            };
            let verdict = mode.judge(&end, OnFailure::Contract);
            // For any output, either the push is delivered or a reason is given, never both.
            assert!(verdict.push.is_none() || verdict.skip.is_none());
            assert!(!verdict.decision.stops() || verdict.blocked_by.is_some());
        }
    }
}

/// Parses an event as callers send them; one that is accepted is passed on byte for byte.
pub fn event(bytes: &[u8]) {
    if let Ok(event) = parse_event(Bytes::copy_from_slice(bytes), 4096) {
        assert_eq!(event, bytes);
    }
}

/// Reads a file of hooks as the users of each system have them: the first byte selects the system.
pub fn hook_file(bytes: &[u8]) {
    let Some((whose, Ok(text))) = bytes
        .split_first()
        .map(|(whose, text)| (*whose, str::from_utf8(text)))
    else {
        return;
    };
    let switches = Switches::read(|name| {
        let is_on = ["INFER_HOOKS_ENABLED", "OWNWARE_ALLOW_COMMAND_HOOKS"].contains(&name);
        is_on.then(|| "1".to_owned())
    });
    let contracts = contracts();
    let origin = Origin {
        base: None,
        name: "file",
    };
    drop(read(
        contracts[usize::from(whose) % contracts.len()],
        text,
        &origin,
        &switches,
    ));
}

/// Reads a call with JSON: a line with method and path, lines with headers, an empty one, and the message.
pub fn json(bytes: &[u8]) {
    let Some(end) = bytes.windows(2).position(|it| it == b"\n\n") else {
        return;
    };
    let Some(request) = str::from_utf8(&bytes[..end]).ok().and_then(head) else {
        return;
    };
    if let Ok(Some(timeout)) = wire::connect_timeout(request.headers()) {
        assert!(timeout.as_millis() < 10_000_000_000, "{timeout:?}");
    }
    match wire::recognised(&request) {
        Ok(Some(method)) => {
            is_call(&request, &method);
            message(&method, &bytes[end + 2..]);
        }
        Ok(None) => assert!(request.version() >= Version::HTTP_2, "HTTP/1 has no gRPC"),
        Err(refused) => is_refusal(*refused),
    }
}

/// Returns a request without its message. A header that HTTP does not allow never gets this far.
fn head(text: &str) -> Option<Request<()>> {
    let mut lines = text.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(path).body(()).ok()?;
    let headers: &mut HeaderMap = request.headers_mut();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_str(value.trim()).ok()?);
    }
    Some(request)
}

/// Checks what is served.
fn is_call(request: &Request<()>, method: &MethodDescriptor) {
    let (headers, service) = (request.headers(), method.parent_service());
    let path = format!("/{}/{}", service.full_name(), method.name());
    assert_eq!(request.uri().path(), path);
    assert_eq!(request.method(), Method::POST);
    assert!(!method.is_client_streaming() && !method.is_server_streaming());
    assert!(!headers.contains_key("origin"), "{headers:?}");
    let kind = headers["content-type"].to_str().unwrap_or_default().trim();
    assert!(
        kind.to_ascii_lowercase().starts_with("application/json"),
        "{kind}"
    );
}

/// Checks what is answered to all else.
fn is_refusal<B>(response: http::Response<B>)
where
    B: http_body::Body<Data = Bytes, Error: fmt::Debug>,
{
    let (parts, body) = response.into_parts();
    let body = pin!(body.collect());
    let Poll::Ready(Ok(body)) = body.poll(&mut Context::from_waker(Waker::noop())) else {
        unreachable!("a refusal is there at once");
    };
    let answer: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let expected: &[u16] = match answer["code"].as_str().unwrap_or_default() {
        "invalid_argument" => &[400],
        "permission_denied" => &[403],
        "unimplemented" => &[404, 405, 415, 501],
        _ => &[],
    };
    assert!(
        expected.contains(&parts.status.as_u16()),
        "{parts:?} {answer}"
    );
    assert!(!answer["message"].as_str().unwrap_or_default().is_empty());
}

/// Decodes a message, which is accepted where a strict reading of its own accepts the same, and else refused.
fn message(method: &MethodDescriptor, text: &[u8]) {
    let input = method.input();
    let decoded = |text: &[u8]| {
        let encoded = wire::json::encode(input.clone(), text).map_err(|it| it.to_string())?;
        let message = DynamicMessage::decode(input.clone(), &encoded[..]);
        message
            .map(|message| (message, encoded))
            .map_err(|_| "accepted and encoded as something else".to_owned())
    };
    let strictly = strictly(input.clone(), text);
    let (message, encoded) = match decoded(text) {
        Ok(decoded) => decoded,
        Err(problem) => {
            assert!(strictly.is_none(), "{problem}: {strictly:?}");
            assert!(!problem.is_empty());
            return;
        }
    };
    // A number that is none is not even equal to itself.
    if message == message.clone() {
        assert_eq!(Some(&message), strictly.as_ref());
        let written = serde_json::to_vec(&message).unwrap_or_default();
        assert_eq!(decoded(&written).map(|it| it.0), Ok(message));
    }
    if input.full_name() == "hookjail.v1.ExecuteRequest" {
        request(&encoded);
    }
}

/// Reads a message by way of a value, where each object has each key once.
fn strictly(input: MessageDescriptor, text: &[u8]) -> Option<DynamicMessage> {
    let text = str::from_utf8(text).ok()?;
    let _: Unrepeated = serde_json::from_str(text).ok()?;
    let value: Value = serde_json::from_str(text).ok()?;
    let message = DynamicMessage::deserialize(input.clone(), value).ok()?;
    // On the wire what is written out as its default is as what is not there.
    DynamicMessage::decode(input, &message.encode_to_vec()[..]).ok()
}

/// JSON without an object that has a key twice.
struct Unrepeated;

impl<'de> Deserialize<'de> for Unrepeated {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Unrepeated {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON without repeated keys")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if !keys.insert(key) {
                return Err(A::Error::custom("a key is there twice"));
            }
            entries.next_value::<Self>()?;
        }
        Ok(self)
    }
}

/// Parses a profile as operators write them.
pub fn profile(bytes: &[u8]) {
    if let Ok(text) = str::from_utf8(bytes) {
        drop(ProfileFile::parse(text));
    }
}

/// Decodes a request as it comes over the wire.
pub fn request(bytes: &[u8]) {
    if let Ok(message) = ExecuteRequest::decode(bytes) {
        drop(wire::decode(
            message,
            wire::WireLimits {
                event_bytes: 4096,
                ..wire::WireLimits::default()
            },
        ));
    }
}
