//! Clients of other hosts prove by a certificate which user of this host they are.

use std::{
    fs,
    io::{self, Read},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{Arc, OnceLock},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use hookjail::pb::{self, OutcomeKind, hook_service_client::HookServiceClient};
use hyper_util::rt::TokioIo;
use nix::unistd::User;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType,
    SerialNumber, date_time_ymd,
};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;
use tokio_rustls::TlsConnector;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tower::service_fn;

use crate::{
    reload::reload,
    support::{Daemon, Setup, hook, reason, sh},
    witness::{SOON, end, until_it},
};

/// The user of most clients, and another one.
const USER: &str = "nobody";
const OTHER: &str = "daemon";

/// A URI in certificates.
const AGENT: &str = "spiffe://hookjail.test/agent";

/// An authority that issues certificates.
struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
#[derive(Clone)]
struct Holder {
    chain: Vec<CertificateDer<'static>>,
    key: Vec<u8>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        Self {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    /// Issues a certificate with these names.
    fn issue(&self, names: &[&str]) -> Holder {
        self.issue_with(names, |_| ())
    }

    fn issue_with(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Holder {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let names = names.iter().map(|name| {
            let text = (*name).try_into().unwrap();
            match name.contains("://") {
                true => SanType::URI(text),
                false => SanType::DnsName(text),
            }
        });
        params.subject_alt_names = names.collect();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Holder {
            chain: vec![certificate.der().clone()],
            key: key.serialize_der(),
        }
    }

    /// Returns a list of revoked serial numbers, as PEM.
    fn revokes(&self, serials: &[u64], until_year: i32) -> String {
        let revoked = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(until_year, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        pem("X509 CRL", list.signed_by(&self.issuer).unwrap().der())
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<_> = text
        .as_bytes()
        .chunks(64)
        .map(String::from_utf8_lossy)
        .collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}

/// The authority of all daemons and clients, but where a test says so.
fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::new("authority"))
}

/// A daemon with files of TLS in a directory beside.
struct Served {
    daemon: Daemon,
    files: tempfile::TempDir,
}

impl std::ops::Deref for Served {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Writes the files of a daemon's certificate and authority.
fn write_files(directory: &Path, own: &Holder, authority: &Authority) {
    let chain: String = own.chain.iter().map(|it| pem("CERTIFICATE", it)).collect();
    write(&directory.join("cert.pem"), &chain, 0o644);
    write(
        &directory.join("key.pem"),
        &pem("PRIVATE KEY", &own.key),
        0o600,
    );
    let authority = pem("CERTIFICATE", &authority.certificate);
    write(&directory.join("ca.pem"), &authority, 0o644);
}

/// Returns the section of the configuration, at a port that is free.
fn section(directory: &Path, more: &str) -> String {
    let path = |name: &str| directory.join(name).display().to_string();
    format!(
        "[network]\nlisten = \"127.0.0.1:0\"\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\n{more}\n",
        path("cert.pem"),
        path("key.pem"),
        path("ca.pem"),
    )
}

/// Returns the list of clients.
fn clients(list: &[(&str, &str)]) -> String {
    let client = |(name, user): &(&str, &str)| format!("{{ name = {name:?}, user = {user:?} }}");
    let list: Vec<_> = list.iter().map(client).collect();
    format!("clients = [{}]", list.join(", "))
}

async fn try_served(network: &str, rest: &str) -> Result<Served, String> {
    let files = tempfile::tempdir().unwrap();
    let own = authority().issue(&["localhost"]);
    write_files(files.path(), &own, authority());
    let config = format!(
        "[server]\ncallers = [{USER:?}, {OTHER:?}]\n{}{rest}",
        section(files.path(), network)
    );
    let daemon = Daemon::try_with(Setup {
        config,
        ..Setup::default()
    })
    .await?;
    Ok(Served { daemon, files })
}

/// Starts a daemon with these clients.
async fn served(list: &[(&str, &str)]) -> Served {
    try_served(&clients(list), "").await.unwrap()
}

fn address(daemon: &Daemon) -> SocketAddr {
    let log = daemon.log();
    let (_, after) = log.split_once("serving over the network").unwrap();
    let (_, after) = after.split_once("address=").unwrap();
    after.split_whitespace().next().unwrap().parse().unwrap()
}

fn client_config(holder: Option<&Holder>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(authority().certificate.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match holder {
        None => config.with_no_client_auth(),
        Some(holder) => {
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(holder.key.clone()));
            config
                .with_client_auth_cert(holder.chain.clone(), key)
                .unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

async fn channel(
    address: SocketAddr,
    holder: Option<&Holder>,
) -> Result<Channel, tonic::transport::Error> {
    let connector = TlsConnector::from(Arc::new(client_config(holder)));
    let connect = service_fn(move |_| {
        let connector = connector.clone();
        async move {
            let stream = tokio::net::TcpStream::connect(address).await?;
            let name = "localhost".try_into().unwrap();
            Ok::<_, io::Error>(TokioIo::new(connector.connect(name, stream).await?))
        }
    });
    Endpoint::from_static("http://localhost")
        .connect_with_connector(connect)
        .await
}

/// Runs a hook over a connection of its own. The first error: nothing was answered.
async fn run_as(
    daemon: &Daemon,
    holder: Option<&Holder>,
) -> Result<Result<pb::ExecuteResponse, Status>, String> {
    let channel = channel(address(daemon), holder).await;
    let channel = channel.map_err(|error| format!("{error:?}"))?;
    let response = HookServiceClient::new(channel)
        .execute(hook(["/bin/true"]))
        .await;
    match response {
        Ok(response) => Ok(Ok(response.into_inner())),
        // A status that the daemon did not send.
        Err(status) if reason(&status).is_empty() => Err(format!("{status:?}")),
        Err(status) => Ok(Err(status)),
    }
}

/// Returns the error that a client gets for its certificate. With TLS 1.3 it comes after the client's own handshake.
async fn alert(daemon: &Daemon, holder: Option<&Holder>) -> String {
    let stream = tokio::net::TcpStream::connect(address(daemon))
        .await
        .unwrap();
    let connector = TlsConnector::from(Arc::new(client_config(holder)));
    let mut stream = connector
        .connect("localhost".try_into().unwrap(), stream)
        .await
        .unwrap();
    stream.read_u8().await.unwrap_err().to_string()
}

fn uid(name: &str) -> u32 {
    User::from_name(name).unwrap().unwrap().uid.as_raw()
}

#[tokio::test]
async fn a_listed_certificate_is_its_user_and_the_record_names_it() {
    let daemon = served(&[(AGENT, USER), ("Other.test", OTHER)]).await;
    for (names, expected, user) in [
        (&["irrelevant.test", AGENT][..], AGENT, USER),
        (&["OTHER.test"], "other.test", OTHER),
    ] {
        let holder = authority().issue(names);
        let response = run_as(&daemon, Some(&holder)).await.unwrap().unwrap();
        assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
        let journal = daemon.journal();
        let started = journal
            .iter()
            .rfind(|it| it["record"] == "started")
            .unwrap();
        let peer = &started["peer"];
        assert_eq!(peer["uid"], json!(uid(user)), "{peer}");
        assert_eq!(peer.get("pid"), None);
        let sha256 = format!("{:x}", Sha256::digest(&holder.chain[0]));
        let certificate = json!({"name": expected, "sha256": sha256});
        assert_eq!(peer["remote"]["certificate"], certificate, "{peer}");
        let from: SocketAddr = peer["remote"]["address"].as_str().unwrap().parse().unwrap();
        assert!(from.ip().is_loopback());
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_listed_is_refused_by_its_name() {
    let daemon = served(&[(AGENT, USER), ("other.test", OTHER)]).await;
    for (names, expected) in [
        (&["agent.test"][..], "`agent.test`"),
        (&["*.hookjail.test"], "`*.hookjail.test`"),
        (&[AGENT, "other.test"], "several"),
        (&[], "without a DNS name or URI"),
    ] {
        let holder = authority().issue_with(names, |params| {
            // A common name is no name.
            params.distinguished_name.push(DnType::CommonName, AGENT);
        });
        let status = run_as(&daemon, Some(&holder)).await.unwrap().unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied);
        assert_eq!(reason(&status), "PEER_NOT_ALLOWED");
        assert!(
            status.message().contains(expected.trim_matches('`')),
            "{}",
            status.message()
        );
    }
    assert!(daemon.log().contains("agent.test"), "{}", daemon.log());
    assert!(daemon.records().iter().all(|it| it != "started"));

    let listed = authority().issue(&[AGENT]);
    run_as(&daemon, Some(&listed)).await.unwrap().unwrap();
}

#[tokio::test]
async fn nobody_is_served_without_a_certificate_in_force_of_the_authority() {
    let daemon = served(&[(AGENT, USER)]).await;
    let stranger = Authority::new("stranger").issue(&[AGENT]);
    let forger = Authority::new("authority").issue(&[AGENT]);
    let expired = authority().issue_with(&[AGENT], |params| {
        params.not_after = date_time_ymd(2024, 1, 1);
    });
    let early = authority().issue_with(&[AGENT], |params| {
        params.not_before = date_time_ymd(3000, 1, 1);
    });
    let of_servers = authority().issue_with(&[AGENT], |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    for (what, holder, expected) in [
        ("none", None, "CertificateRequired"),
        ("a stranger's", Some(&stranger), "UnknownCA"),
        ("one that only says so", Some(&forger), "DecryptError"),
        ("expired", Some(&expired), "CertificateExpired"),
        ("not yet valid", Some(&early), "CertificateExpired"),
        (
            "for servers alone",
            Some(&of_servers),
            "UnsupportedCertificate",
        ),
    ] {
        run_as(&daemon, holder).await.unwrap_err();
        let error = alert(&daemon, holder).await;
        assert!(error.contains(expected), "{what}: {error}");
    }
    assert!(
        daemon.log().contains("a TLS handshake failed"),
        "{}",
        daemon.log()
    );
    assert!(daemon.journal().iter().all(|it| it["record"] != "started"));

    let listed = authority().issue(&[AGENT]);
    run_as(&daemon, Some(&listed)).await.unwrap().unwrap();
}
