//! The signals by which an operator sees whether a daemon serves, which must agree.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::{
    scene::Scene,
    support::{Daemon, Setup},
    witness::hookjail,
};

/// The time within which every signal shows a fault, or its end.
const SHOWN: Duration = Duration::from_secs(10);

/// Returns the set-up of a daemon whose signals are all there.
pub(crate) fn metered() -> Setup {
    Setup {
        config: "[metrics]\nlisten = \"127.0.0.1:0\"\n".to_owned(),
        ..Setup::default()
    }
}

/// Each signal, and whether it shows a daemon that serves.
type Signals = [(&'static str, bool); 4];

/// Waits until every signal shows whether the daemon serves.
pub(crate) async fn agree(scene: &mut Scene, serves: bool) {
    let since = Instant::now();
    loop {
        let found = signals(scene.daemon()).await;
        if found.iter().all(|(_, shows)| *shows == serves) {
            return;
        }
        if since.elapsed() > SHOWN {
            scene.wrong(format!(
                "serves: {serves}; after {SHOWN:?} the signals are {found:?}"
            ));
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn signals(daemon: &Daemon) -> Signals {
    let channel = daemon.channel();
    let request = HealthCheckRequest::default();
    let health = HealthClient::new(channel).check(request).await;
    let file = daemon.path().join("hookjail.toml");
    let socket = format!("unix://{}", daemon.path().join("sock").display());
    let doctor = hookjail(&file, &["doctor", "--connect", &socket]).output();
    let status = hookjail(&file, &["status"]).output();
    let metrics = scrape(daemon);
    [
        ("health", health.unwrap().into_inner().status == 1),
        ("doctor --connect", doctor.unwrap().status.success()),
        ("status", status.unwrap().status.success()),
        ("metric", metrics.contains("\nhookjail_serving 1\n")),
    ]
}

fn scrape(daemon: &Daemon) -> String {
    let log = daemon.log();
    let address = log.split_once("serving metrics address=").unwrap().1;
    let mut stream = TcpStream::connect(address.lines().next().unwrap()).unwrap();
    let limit = Some(Duration::from_secs(5));
    stream.set_read_timeout(limit).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
