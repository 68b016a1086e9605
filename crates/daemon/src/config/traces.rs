//! Where traces of calls go.

use std::net::SocketAddr;

use serde::{Deserializer, Serialize, Serializer};

use super::value::{fitting, parsed};

/// The most bytes of a service's name.
const MAX_NAME_BYTES: usize = 255;

pub(super) fn sample_ratio<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let fits = |ratio: &f64| (0.0..=1.0).contains(ratio);
    fitting(from, fits, "must be 0 to 1")
}

pub(super) fn service_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let fits = |name: &String| {
        (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control)
    };
    fitting(
        from,
        fits,
        "must be 1 to 255 bytes without control characters",
    )
}

pub(super) fn endpoint<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    parsed(from, |written: String| local(&written).map(Some))
}

pub(super) fn url<S: Serializer>(
    address: &Option<SocketAddr>,
    to_file: S,
) -> Result<S::Ok, S::Error> {
    let url = address.map(|address| format!("http://{address}"));
    url.serialize(to_file)
}

/// Returns the address of a collector on this host: spans are not encrypted.
fn local(written: &str) -> Result<SocketAddr, String> {
    let address = written.strip_prefix("http://").map(|address| {
        let address = address.strip_suffix('/').unwrap_or(address);
        address.parse::<SocketAddr>()
    });
    Err(match address {
        Some(Ok(address)) if address.ip().is_loopback() && address.port() != 0 => {
            return Ok(address);
        }
        Some(Ok(_)) => format!(
            "is `{written}`, and unencrypted spans go to this host alone; use `http://127.0.0.1:4317` of a collector, an agent or a sidecar"
        ),
        _ => format!(
            "is `{written}`; use `http://` with an address and a port, without a name or path, such as `http://127.0.0.1:4317` or `http://[::1]:4317`"
        ),
    })
}

#[cfg(test)]
mod tests {
    use hookjail_base::util::user_paths::UserPaths;

    use crate::config::{Config, ProcessEnv, TracesEntry};

    fn read(keys: &str) -> Result<TracesEntry, String> {
        let environment = ProcessEnv {
            paths: UserPaths {
                home: Some("/home/u".into()),
                ..UserPaths::default()
            },
            ..ProcessEnv::default()
        };
        let config = Config::parse(&format!("[traces]\n{keys}"), &environment);
        config
            .map(|config| config.traces.clone())
            .map_err(|problem| problem.to_string())
    }

    fn read_endpoint(endpoint: &str) -> Result<TracesEntry, String> {
        read(&format!("endpoint = \"{endpoint}\""))
    }

    #[test]
    fn traces_go_to_loopback_addresses_alone() {
        assert_eq!(read("").unwrap().endpoint, None);
        for (endpoint, address) in [
            ("http://127.0.0.1:4317", "127.0.0.1:4317"),
            ("http://127.0.0.1:4317/", "127.0.0.1:4317"),
            ("http://[::1]:1", "[::1]:1"),
        ] {
            let read = read_endpoint(endpoint).unwrap();
            assert_eq!(read.endpoint, Some(address.parse().unwrap()));
            assert_eq!((read.sample_ratio, &*read.service_name), (1.0, "hookjail"));
        }
        for endpoint in [
            "http://192.0.2.1:4317",
            "http://0.0.0.0:4317",
            "http://[::ffff:127.0.0.1]:4317",
            "http://127.0.0.1:0",
        ] {
            let problem = read_endpoint(endpoint).unwrap_err();
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
            let problem = read_endpoint(endpoint).unwrap_err();
            assert!(problem.contains("an address and a port"), "{problem}");
        }
    }

    #[test]
    fn a_share_is_0_to_1_and_a_service_has_a_name() {
        for ratio in ["0.0", "0.25", "1.0"] {
            assert!(read(&format!("sample_ratio = {ratio}")).is_ok());
        }
        for ratio in ["-0.1", "1.1", "nan", "inf"] {
            let problem = read(&format!("sample_ratio = {ratio}")).unwrap_err();
            assert!(problem.contains("`traces.sample_ratio`"), "{problem}");
        }
        for name in ["", "a\\nb", &"x".repeat(256)] {
            let problem = read(&format!("service_name = \"{name}\"")).unwrap_err();
            assert!(problem.contains("`traces.service_name`"), "{problem}");
        }
    }
}
