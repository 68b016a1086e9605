//! Where traces of calls go.

use std::net::SocketAddr;

use super::{ConfigProblem, file::TracesEntry};

/// The most bytes of a service's name.
const MAX_NAME_BYTES: usize = 255;

/// Where traces of calls go.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Traces {
    /// The collector: a loopback address.
    pub(crate) endpoint: SocketAddr,
    /// Which share of the traces that begin here is recorded, 0 to 1.
    pub(crate) sample_ratio: f64,
    /// The name of this service.
    pub(crate) service_name: String,
}

/// Reads where traces go; `None`: nowhere.
pub(super) fn read(written: TracesEntry) -> Result<Option<Traces>, ConfigProblem> {
    let TracesEntry {
        endpoint,
        sample_ratio,
        service_name,
    } = written;
    if !(0.0..=1.0).contains(&sample_ratio) {
        return Err(ConfigProblem::key("traces.sample_ratio", "must be 0 to 1"));
    }
    let is_name = (1..=MAX_NAME_BYTES).contains(&service_name.len());
    if !is_name || service_name.chars().any(char::is_control) {
        let problem = "must be 1 to 255 bytes without control characters";
        return Err(ConfigProblem::key("traces.service_name", problem));
    }
    let endpoint = endpoint.as_deref().map(local).transpose()?;
    Ok(endpoint.map(|endpoint| Traces {
        endpoint,
        sample_ratio,
        service_name,
    }))
}

/// Returns the address of a collector on this host: what goes there is not encrypted.
fn local(written: &str) -> Result<SocketAddr, ConfigProblem> {
    let address = written.strip_prefix("http://").map(|address| {
        let address = address.strip_suffix('/').unwrap_or(address);
        address.parse::<SocketAddr>()
    });
    let problem = match address {
        Some(Ok(address)) if address.ip().is_loopback() && address.port() != 0 => {
            return Ok(address);
        }
        Some(Ok(_)) => format!(
            "is `{written}`, and spans go to this host alone, as they are not encrypted: say `http://127.0.0.1:4317`, and let a collector or an agent of this host, or a sidecar, pass them on"
        ),
        _ => format!(
            "is `{written}`, which is no `http://` with an address and a port, no name and no path, such as `http://127.0.0.1:4317` or `http://[::1]:4317`"
        ),
    };
    Err(ConfigProblem::key("traces.endpoint", problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(endpoint: &str) -> Result<Option<Traces>, String> {
        let read = read(TracesEntry {
            endpoint: Some(endpoint.to_owned()),
            ..TracesEntry::default()
        });
        read.map_err(|problem| problem.to_string())
    }

    #[test]
    fn traces_go_to_loopback_addresses_alone() {
        assert_eq!(read(TracesEntry::default()).unwrap(), None);
        for (endpoint, address) in [
            ("http://127.0.0.1:4317", "127.0.0.1:4317"),
            ("http://127.0.0.1:4317/", "127.0.0.1:4317"),
            ("http://[::1]:1", "[::1]:1"),
        ] {
            let read = at(endpoint).unwrap().unwrap();
            assert_eq!(read.endpoint, address.parse().unwrap());
            assert_eq!((read.sample_ratio, &*read.service_name), (1.0, "hookjail"));
        }
        for endpoint in [
            "http://192.0.2.1:4317",
            "http://0.0.0.0:4317",
            "http://[::ffff:127.0.0.1]:4317",
            "http://127.0.0.1:0",
        ] {
            let problem = at(endpoint).unwrap_err();
            assert!(
                problem.contains(&format!("`traces.endpoint` is `{endpoint}`")),
                "{problem}"
            );
            assert!(problem.contains("this host alone"), "{problem}");
        }
        for endpoint in [
            "",
            "127.0.0.1:4317",
            "http://127.0.0.1",
            "http://localhost:4317",
            "https://127.0.0.1:4317",
            "http://127.0.0.1:4317/v1/traces",
            "unix:///run/otel",
        ] {
            let problem = at(endpoint).unwrap_err();
            assert!(problem.contains("an address and a port"), "{problem}");
        }
    }

    #[test]
    fn a_share_is_0_to_1_and_a_service_has_a_name() {
        let read = |sample_ratio: f64, service_name: &str| {
            let read = read(TracesEntry {
                endpoint: None,
                sample_ratio,
                service_name: service_name.to_owned(),
            });
            read.map_err(|problem| problem.to_string())
        };
        for ratio in [0.0, 0.25, 1.0] {
            assert_eq!(read(ratio, "x"), Ok(None));
        }
        for ratio in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(
                read(ratio, "x")
                    .unwrap_err()
                    .contains("`traces.sample_ratio`")
            );
        }
        for name in ["", "a\nb", &"x".repeat(256)] {
            assert!(
                read(1.0, name)
                    .unwrap_err()
                    .contains("`traces.service_name`")
            );
        }
    }
}
