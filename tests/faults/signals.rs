//! The signals by which an operator sees whether a daemon serves, which must agree.

use std::{
    collections::BTreeSet,
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

/// The same beside other tests that use all processors, where one look at all signals takes five seconds.
const SHOWN_BESIDE_OTHERS: Duration = Duration::from_secs(60);

/// Returns the set-up of a daemon whose signals are all there.
pub(crate) fn metered() -> Setup {
    Setup {
        config: "[metrics]\nlisten = \"127.0.0.1:0\"\n".to_owned(),
        ..Setup::default()
    }
}

/// Each signal, and whether it shows a daemon that serves.
type Signals = [(&'static str, bool); 4];

/// Waits until every signal has shown whether the daemon serves.
///
/// Not all at once: a disk that is full has room for a moment where a run ends, and the looks are one after another.
pub(crate) async fn agree(scene: &mut Scene, serves: bool) {
    let since = Instant::now();
    let bound = match scene.is_long() {
        true => SHOWN,
        false => SHOWN_BESIDE_OTHERS,
    };
    let mut shown = BTreeSet::new();
    loop {
        let found = signals(scene.daemon()).await;
        let shows = |(name, shows)| (shows == serves).then_some(name);
        shown.extend(found.into_iter().filter_map(shows));
        if shown.len() == found.len() {
            return;
        }
        if since.elapsed() > bound {
            scene.wrong(format!(
                "serves: {serves}; within {bound:?} no signals showed it but {shown:?}"
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
