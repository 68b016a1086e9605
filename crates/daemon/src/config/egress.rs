//! Reads `[egress]`: the ways to the hosts of profiles.

use hookjail_base::redact::secret::Registration;
use hookjail_policy::ways::{Proxy, Ways};

use super::{ConfigProblem, file::EgressEntry, secret};

/// Reads the section.
///
/// # Errors
///
/// Names the key that is wrong, or has no effect.
pub(super) fn read(entry: &EgressEntry, secrets: &[Registration]) -> Result<Ways, ConfigProblem> {
    let EgressEntry {
        allow: _,
        ca,
        direct,
        proxy,
        proxy_secret,
    } = entry;
    let idle = [
        ("egress.direct", !direct.is_empty()),
        ("egress.proxy_secret", proxy_secret.is_some()),
    ];
    if let (None, Some((key, _))) = (proxy, idle.into_iter().find(|(_, is_set)| *is_set)) {
        let problem = "has no effect without `egress.proxy`; set that, or take this out";
        return Err(ConfigProblem::key(key, problem));
    }
    let password = proxy_secret.as_ref().map(|name| {
        let found = secret::with_value(secrets, name);
        found.map_err(|problem| {
            ConfigProblem::key("egress.proxy_secret", format!("{problem} (`{name}`)"))
        })
    });
    let password = password.transpose()?;
    let proxy = match proxy {
        None => None,
        Some(text) => {
            let address = text.parse();
            let address = address.map_err(|problem| ConfigProblem::key("egress.proxy", problem))?;
            Some(Proxy {
                address,
                direct: direct.clone(),
                password,
            })
        }
    };
    Ok(Ways {
        ca: ca.clone(),
        proxy,
        secrets: secret::with_values(secrets),
    })
}

#[cfg(test)]
mod tests {
    use hookjail_base::redact::secret::SecretSource;

    use super::*;
    use crate::config::read_table;

    fn read(text: &str) -> Result<Ways, String> {
        let table = read_table(text).unwrap();
        let entry: EgressEntry = table.try_into().unwrap();
        let secret = Registration {
            name: "proxy".to_owned(),
            source: SecretSource::Env("PROXY_PASSWORD".to_owned()),
        };
        super::read(&entry, &[secret]).map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_proxy_has_a_place_a_secret_and_hosts_that_are_reached_without_it() {
        let without = read("").unwrap();
        assert_eq!((without.proxy, without.secrets.len()), (None, 1));
        let ways = read(
            "proxy = \"http://proxy:3128\"\nproxy_secret = \"proxy\"\ndirect = [\"*.corp.example:443\"]",
        );
        let proxy = ways.unwrap().proxy.unwrap();
        assert_eq!(proxy.address.to_string(), "http://proxy:3128");
        assert_eq!(proxy.password.unwrap().name, "proxy");
        assert_eq!(proxy.direct.len(), 1);
        for (text, expected) in [
            (
                "direct = [\"a.example:443\"]",
                "`egress.direct` has no effect",
            ),
            (
                "proxy_secret = \"proxy\"",
                "`egress.proxy_secret` has no effect",
            ),
            (
                "proxy = \"proxy:3128\"",
                "`egress.proxy` is no proxy; write",
            ),
            (
                "proxy = \"http://proxy:3128\"\nproxy_secret = \"other\"",
                "`egress.proxy_secret` stands for a secret that no `[[secret]]`",
            ),
        ] {
            let problem = read(text).unwrap_err();
            assert!(problem.starts_with(expected), "{problem}");
        }
    }
}
