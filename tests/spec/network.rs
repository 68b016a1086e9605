//! Clients of other hosts prove by a certificate which user of this host they are.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start clients, never a hook"
)]

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, OnceLock},
    time::Duration,
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
    ClientConfig, HandshakeKind, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tower::service_fn;

use crate::{
    json,
    operate::{runs_in, status, status_line},
    reload::reload,
    support::{Daemon, Setup, hook, program, reason, sh, thin},
    witness::{SOON, end, json as printed, until},
};

/// The user of most clients, and another one.
const USER: &str = "nobody";
const OTHER: &str = "daemon";

/// A URI in certificates.
const AGENT: &str = "spiffe://hookjail.test/agent";

/// Clients of whom two are one user.
const TWO_OF_ONE_USER: [(&str, &str); 3] =
    [(AGENT, USER), ("second.test", USER), ("other.test", OTHER)];

type TlsStream = tokio_rustls::client::TlsStream<tokio::net::TcpStream>;

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

/// The authority of all daemons and clients, except where a test uses another one.
fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::new("authority"))
}

/// A daemon with its TLS files in another directory.
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
fn write_files(directory: &Path, holder: &Holder, authority: &Authority) {
    let chain: String = holder
        .chain
        .iter()
        .map(|it| pem("CERTIFICATE", it))
        .collect();
    write(&directory.join("cert.pem"), &chain, 0o644);
    write(
        &directory.join("key.pem"),
        &pem("PRIVATE KEY", &holder.key),
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

/// Starts a daemon with keys of `[network]`; the lines of the set-up follow those of `[server]`.
async fn try_served(network: &str, setup: Setup) -> Result<Served, String> {
    let files = tempfile::tempdir().unwrap();
    let holder = authority().issue(&["localhost"]);
    write_files(files.path(), &holder, authority());
    let config = format!(
        "[server]\ncallers = [{USER:?}, {OTHER:?}]\n{}\n{}",
        setup.config,
        section(files.path(), network)
    );
    let daemon = Daemon::try_with(Setup { config, ..setup }).await?;
    Ok(Served { daemon, files })
}

/// Starts a daemon with these clients.
async fn served(list: &[(&str, &str)]) -> Served {
    served_with(list, "").await
}

/// Starts a daemon with these clients and lines of its configuration.
async fn served_with(list: &[(&str, &str)], config: &str) -> Served {
    let setup = Setup {
        config: config.to_owned(),
        ..Setup::default()
    };
    try_served(&clients(list), setup).await.unwrap()
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

/// Connects, and ends the client's part of the handshake.
async fn handshake(address: SocketAddr, config: ClientConfig) -> io::Result<TlsStream> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    let name = "localhost".try_into().unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

async fn channel(
    address: SocketAddr,
    holder: Option<&Holder>,
) -> Result<Channel, tonic::transport::Error> {
    let config = client_config(holder);
    let connect = service_fn(move |_| {
        let config = config.clone();
        async move { handshake(address, config).await.map(TokioIo::new) }
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
    let mut stream = handshake(address(daemon), client_config(holder))
        .await
        .unwrap();
    stream.read_u8().await.unwrap_err().to_string()
}

/// Returns the caller of the last run that was started, as its record has it.
fn last_caller(daemon: &Daemon) -> Value {
    let journal = daemon.journal();
    let mut runs = journal.iter().filter(|it| it["record"] == "started");
    runs.next_back().unwrap()["peer"].clone()
}

fn started(daemon: &Daemon) -> usize {
    let records = daemon.records();
    records.iter().filter(|it| *it == "started").count()
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
        let peer = last_caller(&daemon);
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
    assert_eq!(started(&daemon), 0);

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
        ("a forged one", Some(&forger), "DecryptError"),
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
    assert_eq!(started(&daemon), 0);

    let listed = authority().issue(&[AGENT]);
    run_as(&daemon, Some(&listed)).await.unwrap().unwrap();
}

/// Replaces a line of a daemon's configuration.
fn replace_line(daemon: &Daemon, begins: &str, line: &str) {
    let file = daemon.path().join("hookjail.toml");
    let before = fs::read_to_string(&file).unwrap();
    let replace = |it: &str| match it.starts_with(begins) {
        true => line.to_owned(),
        false => it.to_owned(),
    };
    let lines: Vec<_> = before.lines().map(replace).collect();
    assert_ne!(lines.join("\n"), before.trim_end(), "{begins}");
    fs::write(&file, lines.join("\n")).unwrap();
}

/// Returns the refusal of a reload.
fn refused_reload(daemon: &Daemon) -> String {
    let answer = reload(daemon);
    assert_eq!(answer["error"]["reason"], "RELOAD_REFUSED", "{answer}");
    answer["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn certificates_and_authorities_are_replaced_without_a_restart() {
    let daemon = served(&[(AGENT, USER)]).await;
    let holder = authority().issue(&[AGENT]);
    let before = channel(address(&daemon), Some(&holder)).await.unwrap();
    let script = "until test -e go; do sleep 0.02; done; echo went";
    let mut request = sh("workspace-ro", script);
    request.hook.as_mut().unwrap().workspace = daemon.workspace().display().to_string();
    let mut client = HookServiceClient::new(before);
    let mut running = client.clone();
    let running = tokio::spawn(async move { running.execute(request).await });
    until("the hook runs", || started(&daemon) > 0).await;

    // Another authority for clients, and another certificate of the same for the daemon.
    let other = Authority::new("another");
    write_files(
        daemon.files.path(),
        &authority().issue(&["localhost"]),
        &other,
    );
    reload(&daemon);
    let anew = other.issue(&[AGENT]);
    run_as(&daemon, Some(&anew)).await.unwrap().unwrap();
    assert!(alert(&daemon, Some(&holder)).await.contains("UnknownCA"));

    // Connections from before go on.
    fs::write(daemon.workspace().join("go"), "").unwrap();
    let response = running.await.unwrap().unwrap();
    assert_eq!(&response.get_ref().stdout[..], b"went\n");
    client.execute(hook(["/bin/true"])).await.unwrap();
}

#[tokio::test]
async fn files_that_cannot_be_used_replace_nothing() {
    let daemon = served(&[(AGENT, USER)]).await;
    let holder = authority().issue(&[AGENT]);
    let other = authority().issue(&["localhost"]);
    let ca = pem("CERTIFICATE", &authority().certificate);
    let cert = pem("CERTIFICATE", &other.chain[0]);
    let key = fs::read_to_string(daemon.files.path().join("key.pem")).unwrap();
    let old = fs::read_to_string(daemon.files.path().join("cert.pem")).unwrap();
    for (name, text, mode, expected) in [
        ("key.pem", &*key, 0o604, "everybody can read it (mode 0604)"),
        ("key.pem", &key, 0o620, "others can write it"),
        ("key.pem", "", 0o600, "no unencrypted private key"),
        (
            "key.pem",
            &pem("PRIVATE KEY", b"no key"),
            0o600,
            "(`network.key`)",
        ),
        ("cert.pem", &cert, 0o644, "keys may not be consistent"),
        ("cert.pem", "text", 0o644, "no certificate in PEM form"),
        (
            "ca.pem",
            &pem("CERTIFICATE", b"no certificate"),
            0o644,
            "(`network.client_ca`)",
        ),
        (
            "ca.pem",
            "-----BEGIN CERTIFICATE-----\nMII",
            0o644,
            "the file is not PEM",
        ),
        ("ca.pem", &ca, 0o646, "others can write it"),
    ] {
        write(&daemon.files.path().join(name), text, mode);
        let problem = refused_reload(&daemon);
        assert!(problem.contains(expected), "{problem}");
        assert!(
            problem.contains(name) && problem.contains("the configuration in force stays"),
            "{problem}"
        );
        run_as(&daemon, Some(&holder)).await.unwrap().unwrap();
        for (name, text, mode) in [
            ("key.pem", &key, 0o600),
            ("cert.pem", &old, 0o644),
            ("ca.pem", &ca, 0o644),
        ] {
            write(&daemon.files.path().join(name), text, mode);
        }
    }
    assert!(reload(&daemon).get("error").is_none());

    replace_line(&daemon, "listen", "listen = \"127.0.0.1:1\"");
    let problem = refused_reload(&daemon);
    assert!(problem.contains("network.listen changed"), "{problem}");
}

#[tokio::test]
async fn who_is_taken_off_the_list_is_refused_at_the_next_request() {
    let daemon = served(&[(AGENT, USER), ("other.test", OTHER)]).await;
    let connect = async |name| {
        let channel = channel(address(&daemon), Some(&authority().issue(&[name]))).await;
        HookServiceClient::new(channel.unwrap())
    };
    let (mut agent, mut other) = (connect(AGENT).await, connect("other.test").await);
    agent.execute(hook(["/bin/true"])).await.unwrap();
    other.execute(hook(["/bin/true"])).await.unwrap();

    replace_line(&daemon, "clients", &clients(&[("other.test", OTHER)]));
    reload(&daemon);

    let status = agent.execute(hook(["/bin/true"])).await.unwrap_err();
    assert_eq!(reason(&status), "PEER_NOT_ALLOWED");
    other.execute(hook(["/bin/true"])).await.unwrap();
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_and_so_is_each_by_a_list_that_is_out_of_date() {
    let with_serial = |serial: u64| {
        authority().issue_with(&[AGENT], |params| {
            params.serial_number = Some(SerialNumber::from(serial));
        })
    };
    let (good, bad) = (with_serial(7), with_serial(8));
    let lists = tempfile::tempdir().unwrap();
    let list = lists.path().join("crl.pem");
    write(&list, &authority().revokes(&[8], 3000), 0o644);
    let network = format!("{}\ncrl = {list:?}", clients(&[(AGENT, USER)]));
    let daemon = try_served(&network, Setup::default()).await.unwrap();
    run_as(&daemon, Some(&good)).await.unwrap().unwrap();
    assert!(
        alert(&daemon, Some(&bad))
            .await
            .contains("CertificateRevoked")
    );

    write(&list, &authority().revokes(&[], 3000), 0o644);
    reload(&daemon);
    run_as(&daemon, Some(&bad)).await.unwrap().unwrap();

    write(&list, &authority().revokes(&[], 2025), 0o644);
    reload(&daemon);
    run_as(&daemon, Some(&good)).await.unwrap_err();
    assert!(
        alert(&daemon, Some(&good))
            .await
            .starts_with("received fatal alert")
    );
}

#[tokio::test]
async fn handshakes_that_never_end_keep_no_client_waiting() {
    let daemon = served(&[(AGENT, USER)]).await;
    let listed = authority().issue(&[AGENT]);
    let mut stuck = Vec::new();
    // Fewer at once than the kernel's queue holds, whose overflow would change their order.
    for _ in 0..3 {
        stuck.extend((0..100).map(|_| TcpStream::connect(address(&daemon)).unwrap()));
        run_as(&daemon, Some(&listed)).await.unwrap().unwrap();
    }

    // The older of them were ended for those that came after, and not by their own time, which is longer. Within a
    // hundred the kernel may change their order.
    let ended = |stream: &&TcpStream| {
        let mut stream = *stream;
        stream.set_nonblocking(true).unwrap();
        match stream.read(&mut [0]) {
            Ok(read) => read == 0,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        }
    };
    let (older, newest) = stuck.split_at(200);
    let all = 300 - 128 - 1;
    let room = until("the older are ended", || {
        older.iter().filter(ended).count() >= all
    });
    timeout(Duration::from_secs(5), room).await.unwrap();
    // The control: the newest are still waited for.
    assert_eq!(newest.iter().filter(ended).count(), 0);

    // In the end they are not.
    let mut newest = stuck.pop().unwrap();
    newest.set_nonblocking(false).unwrap();
    newest.set_read_timeout(Some(SOON)).unwrap();
    // A process that was stopped has a wait with a limit interrupted; this reads on.
    assert_eq!(newest.read_to_end(&mut Vec::new()).unwrap(), 0);
}

#[tokio::test]
async fn each_connection_looks_at_the_certificate_anew() {
    let daemon = served(&[(AGENT, USER)]).await;
    // Connections with the same configuration have the same sessions to resume.
    let config = client_config(Some(&authority().issue(&[AGENT])));
    for _ in 0..2 {
        let mut stream = handshake(address(&daemon), config.clone()).await.unwrap();
        let kind = stream.get_ref().1.handshake_kind();
        assert_eq!(kind, Some(HandshakeKind::Full));
        // A ticket would come before the first byte of HTTP/2, which is an answer to this.
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        stream.write_all(preface).await.unwrap();
        stream.read_u8().await.unwrap();
    }
}

#[tokio::test]
async fn connections_of_one_user_over_the_network_leave_room_for_others() {
    let daemon = served_with(&TWO_OF_ONE_USER, "max_connections = 40").await;
    let mut open = Vec::new();
    // Two certificates, one user: three quarters of what the test itself leaves.
    for name in [AGENT, "second.test"] {
        let holder = authority().issue(&[name]);
        while let Ok(channel) = channel(address(&daemon), Some(&holder)).await {
            let mut client = HookServiceClient::new(channel.clone());
            if client
                .list_hooks(pb::ListHooksRequest::default())
                .await
                .is_err()
            {
                break;
            }
            open.push(channel);
        }
    }
    assert_eq!(open.len(), 29);
    let other = authority().issue(&["other.test"]);
    run_as(&daemon, Some(&other)).await.unwrap().unwrap();
    daemon.run(hook(["/bin/true"])).await.unwrap();
}

/// Starts a daemon without TLS.
async fn plaintext() -> Daemon {
    let config = format!(
        "[server]\ncallers = [{USER:?}]\n[network]\nlisten = \"127.0.0.1:0\"\nplaintext = true\nplaintext_user = {USER:?}\n"
    );
    Daemon::with(Setup {
        config,
        ..Setup::default()
    })
    .await
}

#[tokio::test]
async fn without_tls_everybody_on_the_host_is_the_named_user() {
    let daemon = plaintext().await;
    assert!(daemon.log().contains("WITHOUT TLS"), "{}", daemon.log());
    let endpoint = Endpoint::try_from(format!("http://{}", address(&daemon))).unwrap();
    let mut client = HookServiceClient::new(endpoint.connect().await.unwrap());
    let response = client.execute(hook(["/bin/true"])).await.unwrap();
    assert_eq!(
        end(response.get_ref()),
        (OutcomeKind::Exited, Some(0), None)
    );
    let peer = last_caller(&daemon);
    assert_eq!(peer["uid"], json!(uid(USER)));
    assert!(peer["remote"]["address"].is_string());
    assert_eq!(peer["remote"].get("certificate"), None);
}

#[tokio::test]
async fn a_call_with_json_is_its_certificates_user() {
    let daemon = served(&[(AGENT, USER)]).await;
    let body = r#"{"hook":{"argv":["/bin/true"]}}"#;
    let text = json::request("/hookjail.v1.HookService/Execute", "", body);
    let ask = async |holder: &Holder| {
        let mut config = client_config(Some(holder));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let mut stream = handshake(address(&daemon), config).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        json::read(&answer[..])
    };
    let answer = ask(&authority().issue(&[AGENT])).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let peer = last_caller(&daemon);
    assert_eq!(peer["uid"], json!(uid(USER)));
    assert_eq!(peer["remote"]["certificate"]["name"], AGENT);

    let answer = ask(&authority().issue(&["other.test"])).await;
    assert_eq!(
        (answer.status, &answer.body["code"]),
        (403, &json!("permission_denied"))
    );
}

/// Programs that call a daemon, with a certificate in files.
struct Caller<'a> {
    daemon: &'a Served,
    files: tempfile::TempDir,
    url: String,
}

impl<'a> Caller<'a> {
    fn with(daemon: &'a Served, holder: &Holder) -> Self {
        let caller = Self {
            daemon,
            files: tempfile::tempdir().unwrap(),
            url: format!("https://localhost:{}", address(daemon).port()),
        };
        caller.hold(holder);
        caller
    }

    /// Replaces the certificate.
    fn hold(&self, holder: &Holder) {
        let certificate = pem("CERTIFICATE", &holder.chain[0]);
        write(&self.path("cert.pem"), &certificate, 0o644);
        let key = pem("PRIVATE KEY", &holder.key);
        write(&self.path("key.pem"), &key, 0o600);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    fn command(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = crate::support::command(program);
        command
            .args(words)
            .current_dir(self.daemon.workspace())
            .env("HOME", self.files.path())
            .env("HOOKJAIL_ADDR", &self.url)
            .env("HOOKJAIL_CACERT", self.daemon.files.path().join("ca.pem"))
            .env("HOOKJAIL_CLIENT_CERT", self.path("cert.pem"))
            .env("HOOKJAIL_CLIENT_KEY", self.path("key.pem"));
        command
    }

    /// Runs the program, which finds the daemon by the variable.
    fn hookjail(&self, words: &[&str]) -> Output {
        self.command(&program(), words).output().unwrap()
    }

    /// Runs the program with the daemon's address.
    fn connecting(&self, words: &[&str]) -> Output {
        self.hookjail(&[words, &["--connect", &self.url]].concat())
    }
}

#[tokio::test]
async fn the_command_line_calls_a_daemon_over_the_network() {
    let daemon = served(&[(AGENT, USER)]).await;
    let caller = Caller::with(&daemon, &authority().issue(&[AGENT]));
    let run = ["run", "--mirror", "--", "/bin/echo", "hello"];
    let output = caller.hookjail(&run);
    assert_eq!(output.stdout, b"hello\n", "{output:?}");
    let output = caller.connecting(&["audit", "query", "--json"]);
    let records = String::from_utf8(output.stdout).unwrap();
    assert!(
        records.contains(AGENT) && records.contains("/bin/echo"),
        "{records}"
    );
    let status = printed(&caller.connecting(&["doctor", "--json"]));
    assert!(status["profiles"].is_array(), "{status}");

    let output = caller.hookjail(&["ps"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("administered on its own host alone"),
        "{stderr}"
    );

    // The small program has no TLS, and passes on what needs it.
    let words = ["--as", "claude-code", "--connect", &caller.url];
    let words = [&words[..], &["--", "/bin/echo", "{}"]].concat();
    let mut thin = caller.command(&thin(), &words);
    thin.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut thin = thin.spawn().unwrap();
    let event = r#"{"hook_event_name":"PreToolUse","session_id":"s","cwd":"/","tool_name":"Bash","tool_input":{"command":"ls"}}"#;
    thin.stdin
        .take()
        .unwrap()
        .write_all(event.as_bytes())
        .unwrap();
    let output = thin.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(started(&daemon), 2);

    // The client shows the daemon's message about a certificate.
    caller.hold(&Authority::new("stranger").issue(&[AGENT]));
    let output = caller.hookjail(&run);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && stderr.contains("UnknownCA"),
        "{stderr}"
    );
}

/// Listens to questions until it is dropped.
struct Watch(Child);

impl Watch {
    fn new(caller: &Caller<'_>) -> Self {
        let words = ["consent", "watch", "--connect", &caller.url];
        let mut command = caller.command(&program(), &words);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut watch = command.spawn().unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(watch.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        assert!(line.contains("listening"), "{line}");
        Self(watch)
    }

    /// Ends it, and returns its output.
    fn end(mut self) -> String {
        drop(self.0.stdin.take());
        let mut shown = String::new();
        let mut stdout = self.0.stdout.take().unwrap();
        stdout.read_to_string(&mut shown).unwrap();
        shown
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test]
async fn an_operator_of_another_host_answers_questions() {
    let list = clients(&[(AGENT, USER), ("operator.test", OTHER)]);
    let setup = Setup {
        ask_for_consent: true,
        config: format!("[consent]\noperators = [{OTHER:?}]\n"),
        ..Setup::default()
    };
    let daemon = try_served(&list, setup).await.unwrap();
    let agent = authority().issue(&[AGENT]);
    let agents = Caller::with(&daemon, &agent);
    let operator = Caller::with(&daemon, &authority().issue(&["operator.test"]));
    let output = agents.connecting(&["consent", "watch", "--json"]);
    assert_eq!(printed(&output)["error"]["reason"], "PEER_NOT_ALLOWED");
    // Without an operator who can answer, the request is refused at once.
    let status = run_as(&daemon, Some(&agent)).await.unwrap().unwrap_err();
    assert_eq!(reason(&status), "CONSENT_REQUIRED");

    let watch = Watch::new(&operator);
    for (words, is_run) in [
        (&["deny"][..], false),
        (&["approve", "--once"], true),
        (&["approve"], true),
    ] {
        let channel = channel(address(&daemon), Some(&agent)).await.unwrap();
        let mut client = HookServiceClient::new(channel);
        let call = tokio::spawn(async move { client.execute(hook(["/bin/true"])).await });
        let mut question = Value::Null;
        until("the question", || {
            let output = operator.connecting(&["consent", "pending", "--json"]);
            question = serde_json::from_slice(&output.stdout).unwrap_or_default();
            question["consentId"].is_string()
        })
        .await;
        let asked_by = question["peer"].as_str().unwrap();
        assert!(asked_by.contains(AGENT), "{question}");
        let id = question["consentId"].as_str().unwrap();
        let answer = [&["consent"], words, &["--json", id]].concat();
        // A caller cannot answer its own question.
        let output = agents.connecting(&answer);
        assert_eq!(printed(&output)["error"]["reason"], "PEER_NOT_ALLOWED");

        let output = operator.connecting(&answer);

        assert_eq!(printed(&output), json!({"counted": true, "id": id}));
        match call.await.unwrap() {
            Ok(response) => {
                assert!(is_run, "{words:?}");
                assert_eq!(end(response.get_ref()).1, Some(0));
            }
            Err(status) => {
                assert!(!is_run, "{words:?} {status}");
                assert_eq!(reason(&status), "CONSENT_REQUIRED");
            }
        }
    }
    // The consent is remembered.
    run_as(&daemon, Some(&agent)).await.unwrap().unwrap();
    let shown = watch.end();
    for text in [
        "May this hook run?",
        AGENT,
        "answered elsewhere: no",
        "answered elsewhere: yes, this once",
        "answered elsewhere: always",
    ] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
}

#[tokio::test]
async fn certificates_of_one_user_have_one_users_places() {
    // Of four places two are kept for users who run nothing: that of the daemon, and another one.
    let daemon = served_with(&TWO_OF_ONE_USER, "[hooks]\nmax_concurrent = 4").await;
    let call = async |name: &str| {
        let holder = authority().issue(&[name]);
        let channel = channel(address(&daemon), Some(&holder)).await.unwrap();
        let mut request = sh("workspace-ro", "until test -e go; do sleep 0.02; done");
        request.hook.as_mut().unwrap().workspace = daemon.workspace().display().to_string();
        request.session_id = name.to_owned();
        (HookServiceClient::new(channel), request)
    };
    let mut calls = Vec::new();
    let mut expected = Vec::new();
    for (name, user, state) in [
        (AGENT, USER, "RUN_STATE_RUNNING"),
        (AGENT, USER, "RUN_STATE_RUNNING"),
        (AGENT, USER, "RUN_STATE_QUEUED"),
        // With places of its own it would run.
        ("second.test", USER, "RUN_STATE_QUEUED"),
        ("other.test", OTHER, "RUN_STATE_RUNNING"),
    ] {
        let (mut client, request) = call(name).await;
        calls.push(tokio::spawn(async move { client.execute(request).await }));
        expected.push(state);
        let found = runs_in(&daemon, &expected).await;
        let last = found.last().unwrap();
        assert_eq!(
            (&last["sessionId"], &last["peerUid"]),
            (&json!(name), &json!(uid(user)))
        );
    }
    fs::write(daemon.workspace().join("go"), "").unwrap();
    for call in calls {
        let response = call.await.unwrap().unwrap();
        assert_eq!(end(response.get_ref()).1, Some(0));
    }
}

#[tokio::test]
async fn status_says_where_clients_connect_and_how_many_users_they_are() {
    let daemon = served(&TWO_OF_ONE_USER).await;
    let daemon_address = address(&daemon);
    let expected = json!({"address": daemon_address.to_string(), "clients": 3, "users": 2});
    assert_eq!(status(&daemon).1["network"], expected);
    assert_eq!(
        status_line(&daemon, "network"),
        format!("{daemon_address}, mutual TLS, 3 clients, 2 users")
    );

    replace_line(&daemon, "clients", &clients(&TWO_OF_ONE_USER[..2]));
    reload(&daemon);

    let expected = json!({"address": daemon_address.to_string(), "clients": 2, "users": 1});
    assert_eq!(status(&daemon).1["network"], expected);

    let daemon = plaintext().await;
    let (daemon_address, uid) = (address(&daemon), uid(USER));
    let expected = json!({"address": daemon_address.to_string(), "plaintextUid": uid});
    assert_eq!(status(&daemon).1["network"], expected);
    assert_eq!(
        status_line(&daemon, "network"),
        format!("{daemon_address}, WITHOUT TLS: every caller is uid {uid}")
    );
}

mod with_tools {
    use super::*;

    #[tokio::test]
    #[ignore = "needs curl"]
    async fn curl_runs_a_hook_with_a_certificate() {
        let daemon = served(&[(AGENT, USER)]).await;
        let caller = Caller::with(&daemon, &authority().issue(&[AGENT]));
        let address = address(&daemon);
        let curl = |words: &[&str]| {
            Command::new("curl")
                .args(["--silent", "--show-error", "--max-time", "20", "--cacert"])
                .arg(daemon.files.path().join("ca.pem"))
                .args(["--connect-to", &format!("localhost:7443:{address}")])
                .args(["--header", "content-type: application/json"])
                .args(["--data", r#"{"hook":{"argv":["/bin/echo","hello"]}}"#])
                .args(words)
                .arg("https://localhost:7443/hookjail.v1.HookService/Execute")
                .output()
                .unwrap()
        };
        let (cert, key) = (caller.path("cert.pem"), caller.path("key.pem"));
        let with = [
            "--cert",
            cert.to_str().unwrap(),
            "--key",
            key.to_str().unwrap(),
        ];
        for version in ["--http1.1", "--http2"] {
            let output = curl(&[&with[..], &[version]].concat());
            let answer: Value = serde_json::from_slice(&output.stdout)
                .unwrap_or_else(|_| panic!("{version} {output:?}"));
            assert_eq!(
                answer["stdout"],
                BASE64_STANDARD.encode("hello\n"),
                "{answer}"
            );
        }
        let without = curl(&[]);
        assert!(
            !without.status.success() && without.stdout.is_empty(),
            "{without:?}"
        );
    }
}
