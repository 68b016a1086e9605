//! Reads `[network]`: where clients of other hosts connect, and who they are here.

use std::{ffi::CString, io, net::SocketAddr, path::PathBuf};

use nix::unistd::{Uid, User};

use hookjail_base::model::{Client, Clients, LocalUser};

use super::{
    ConfigProblem,
    file::{NetworkClientEntry, NetworkEntry, UserEntry},
};
use hookjail_sys as sys;

/// The listener over the network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Network {
    /// Users that its clients are.
    pub access: Access,
    /// Its address.
    pub listen: SocketAddr,
}

/// Users that the clients over the network are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    /// Everybody who can connect is this user.
    Plaintext(LocalUser),
    /// Each is the user of its certificate.
    Tls(Tls),
}

/// The settings of TLS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Tls {
    /// The file with the daemon's own certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// The file with the authorities of clients' certificates.
    pub client_ca: PathBuf,
    /// The listed clients.
    pub clients: Clients,
    /// The file with lists of revoked certificates.
    pub crl: Option<PathBuf>,
    /// The file with the daemon's private key.
    pub key: PathBuf,
}

impl Network {
    /// Returns the file with the private key, which no hook may reach.
    pub(crate) const fn key(&self) -> Option<&PathBuf> {
        match &self.access {
            Access::Plaintext(_) => None,
            Access::Tls(tls) => Some(&tls.key),
        }
    }
}

/// Reads the section; `None` where it is not there.
///
/// # Errors
///
/// Names the key that is wrong, missing or has no effect.
pub(super) fn read(entry: NetworkEntry) -> Result<Option<Network>, ConfigProblem> {
    let NetworkEntry {
        certificate,
        client_ca,
        clients,
        crl,
        key,
        listen,
        plaintext,
        plaintext_user,
    } = entry;
    let of_tls = [
        ("network.certificate", certificate.is_some()),
        ("network.client_ca", client_ca.is_some()),
        ("network.clients", !clients.is_empty()),
        ("network.crl", crl.is_some()),
        ("network.key", key.is_some()),
    ];
    let of_plaintext = [
        ("network.plaintext", plaintext),
        ("network.plaintext_user", plaintext_user.is_some()),
    ];
    let first_of = |keys: &[(&'static str, bool)]| keys.iter().find(|(_, set)| *set).map(|it| it.0);
    let Some(listen) = listen else {
        return match first_of(&of_tls).or_else(|| first_of(&of_plaintext)) {
            None => Ok(None),
            Some(key) => Err(ConfigProblem::key(
                key,
                "has no effect without `network.listen`; set that, or take this out",
            )),
        };
    };
    let address: SocketAddr = listen.parse().map_err(|_| {
        let problem = format!(
            "is `{listen}`, which is no address with a port, such as `0.0.0.0:7443` or `[::]:7443`"
        );
        ConfigProblem::key("network.listen", problem)
    })?;
    let access = if plaintext {
        if !address.ip().is_loopback() {
            let problem = format!(
                "is `{listen}`, and only loopback addresses need no TLS; use `127.0.0.1:{port}` or `[::1]:{port}`, or replace `network.plaintext` by certificates",
                port = address.port()
            );
            return Err(ConfigProblem::key("network.listen", problem));
        }
        if let Some(key) = first_of(&of_tls) {
            let problem = "has no effect beside `network.plaintext = true`; take one of them out";
            return Err(ConfigProblem::key(key, problem));
        }
        let named = plaintext_user.ok_or_else(|| {
            let problem = "is not set: name the user that everybody who connects is to be";
            ConfigProblem::key("network.plaintext_user", problem)
        })?;
        Access::Plaintext(user("network.plaintext_user", &named)?)
    } else {
        if plaintext_user.is_some() {
            let problem = "has no effect without `network.plaintext = true`; take it out: with TLS, `[[network.clients]]` names users";
            return Err(ConfigProblem::key("network.plaintext_user", problem));
        }
        Access::Tls(Tls {
            certificate: needed("network.certificate", certificate)?,
            client_ca: needed("network.client_ca", client_ca)?,
            clients: listed(clients)?,
            crl,
            key: needed("network.key", key)?,
        })
    };
    Ok(Some(Network {
        access,
        listen: address,
    }))
}

fn needed(key: &'static str, path: Option<PathBuf>) -> Result<PathBuf, ConfigProblem> {
    path.ok_or_else(|| {
        let problem = "is not set: TLS needs `network.certificate`, `network.key` and `network.client_ca`, each the path of a PEM file";
        ConfigProblem::key(key, problem)
    })
}

fn listed(entries: Vec<NetworkClientEntry>) -> Result<Clients, ConfigProblem> {
    if entries.is_empty() {
        let problem = "is empty, so that no certificate would be anybody's: list each as `[[network.clients]]` with `name` and `user`";
        return Err(ConfigProblem::key("network.clients", problem));
    }
    let mut clients: Vec<Client> = Vec::new();
    for NetworkClientEntry {
        name: written,
        user: named,
    } in entries
    {
        let name = name(&written).ok_or_else(|| {
            let problem = "is neither a DNS name without a wildcard nor a URI such as `spiffe://example.org/agent`";
            ConfigProblem::key("network.clients.name", problem).in_entry(&written)
        })?;
        if clients.iter().any(|known| known.name == name) {
            let problem = "is another client's already";
            return Err(ConfigProblem::key("network.clients.name", problem).in_entry(&written));
        }
        let user = user("network.clients.user", &named)?;
        clients.push(Client { name, user });
    }
    Ok(Clients(clients))
}

/// Returns a name as it is compared: DNS names in lower case, URIs as they are.
fn name(written: &str) -> Option<String> {
    let is_visible = |byte: u8| byte.is_ascii_graphic();
    if let Some((scheme, rest)) = written.split_once("://") {
        let of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        let is_right = scheme.starts_with(|it: char| it.is_ascii_alphabetic())
            && scheme.bytes().all(of_scheme)
            && !rest.is_empty()
            && rest.bytes().all(is_visible);
        return is_right.then(|| written.to_owned());
    }
    let of_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let is_label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(of_label);
    (written.len() <= 253 && written.split('.').all(is_label)).then(|| written.to_ascii_lowercase())
}

/// Looks up a user of this host with all groups.
fn user(key: &'static str, entry: &UserEntry) -> Result<LocalUser, ConfigProblem> {
    let (shown, found) = match entry {
        UserEntry::Uid(uid) => (uid.to_string(), User::from_uid(Uid::from_raw(*uid))),
        UserEntry::Name(name) => (name.clone(), User::from_name(name)),
    };
    let failed = |error: io::Error| {
        ConfigProblem::key(key, format!("`{shown}` cannot be looked up: {error}"))
    };
    let found = found
        .map_err(|errno| failed(errno.into()))?
        .ok_or_else(|| {
            let problem = format!("is `{shown}`, and there is no such user on this host");
            ConfigProblem::key(key, problem)
        })?;
    if found.uid.is_root() {
        let problem =
            "is root, and network clients cannot be root; name a user that has only what is needed";
        return Err(ConfigProblem::key(key, problem));
    }
    let name = CString::new(found.name).map_err(|e| failed(e.into()))?;
    let gid = found.gid.as_raw();
    Ok(LocalUser {
        gid,
        groups: sys::user_groups(&name, gid).map_err(failed)?,
        uid: found.uid.as_raw(),
    })
}

#[cfg(test)]
mod tests {
    use hookjail_base::util::user_paths::UserPaths;

    use super::*;
    use crate::config::{Config, ProcessEnv};

    const TLS: &str = "certificate = \"/c.pem\"\nkey = \"/k.pem\"\nclient_ca = \"/ca.pem\"\nclients = [{ name = \"Agent.example\", user = \"nobody\" }]\n";

    fn parse(keys: &str) -> Result<Option<Network>, String> {
        let environment = ProcessEnv {
            paths: UserPaths {
                home: Some("/home/u".into()),
                ..UserPaths::default()
            },
            ..ProcessEnv::default()
        };
        Config::parse(&format!("[network]\n{keys}"), &environment)
            .map(|config| config.listener)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_listens_unless_an_address_is_given() {
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("plaintext = false"), Ok(None));
        for key in TLS
            .lines()
            .chain(["plaintext = true", "plaintext_user = \"nobody\""])
        {
            let name = key.split(' ').next().unwrap();
            let error = parse(key).unwrap_err();
            assert!(
                error.contains(&format!("`network.{name}` has no effect")),
                "{error}"
            );
            assert!(error.contains("`network.listen`"), "{error}");
        }
    }

    #[test]
    fn with_tls_each_certificate_has_its_user() {
        let network = parse(&format!("listen = \"0.0.0.0:7443\"\n{TLS}"))
            .unwrap()
            .unwrap();
        assert_eq!(network.listen, "0.0.0.0:7443".parse().unwrap());
        assert_eq!(network.key(), Some(&"/k.pem".into()));
        let Access::Tls(tls) = network.access else {
            panic!("{network:?}")
        };
        let [client] = &tls.clients.0[..] else {
            panic!("{tls:?}")
        };
        assert_eq!(client.name, "agent.example");
        assert!(client.user.uid != 0 && client.user.groups.contains(&client.user.gid));
        for missing in ["certificate", "key", "client_ca", "clients"] {
            let rest: String = TLS
                .split_inclusive('\n')
                .filter(|line| !line.starts_with(&format!("{missing} ")))
                .collect();
            let error = parse(&format!("listen = \"0.0.0.0:1\"\n{rest}")).unwrap_err();
            assert!(
                error.contains(&format!("`network.{missing}` is")),
                "{error}"
            );
        }
    }

    #[test]
    fn without_tls_everybody_is_one_named_user_on_loopback() {
        let plain = "plaintext = true\nplaintext_user = \"nobody\"\n";
        for address in ["127.0.0.1:0", "[::1]:7443"] {
            let network = parse(&format!("listen = \"{address}\"\n{plain}")).unwrap();
            assert!(network.is_some_and(|it| matches!(it.access, Access::Plaintext(_))));
        }
        for (keys, expected) in [
            (
                format!("listen = \"0.0.0.0:7443\"\n{plain}"),
                "use `127.0.0.1:7443`",
            ),
            (
                format!("listen = \"10.0.0.1:7443\"\n{plain}"),
                "only loopback addresses",
            ),
            (
                "listen = \"127.0.0.1:1\"\nplaintext = true".to_owned(),
                "`network.plaintext_user` is not set",
            ),
            (
                format!("listen = \"127.0.0.1:1\"\nplaintext_user = \"nobody\"\n{TLS}"),
                "`network.plaintext_user` has no effect",
            ),
            (
                format!("listen = \"127.0.0.1:1\"\n{plain}{TLS}"),
                "`network.certificate` has no effect",
            ),
            (
                "listen = \"127.0.0.1:1\"\nplaintext = true\nplaintext_user = \"root\"".to_owned(),
                "network clients cannot be root",
            ),
            (
                "listen = \"127.0.0.1:1\"\nplaintext = true\nplaintext_user = 0".to_owned(),
                "network clients cannot be root",
            ),
            (
                "listen = \"127.0.0.1:1\"\nplaintext = true\nplaintext_user = \"@nogroup\""
                    .to_owned(),
                "there is no such user",
            ),
            ("listen = \"7443\"".to_owned(), "no address with a port"),
            ("port = 7443".to_owned(), "unknown field"),
        ] {
            let error = parse(&keys).unwrap_err();
            assert!(error.contains(expected), "{keys}: {error}");
        }
    }

    #[test]
    fn a_clients_name_is_a_whole_dns_name_or_a_uri() {
        for (written, expected) in [
            ("CI.Example", "ci.example"),
            ("agent_1", "agent_1"),
            ("spiffe://Example.org/Agent", "spiffe://Example.org/Agent"),
        ] {
            assert_eq!(name(written).as_deref(), Some(expected));
        }
        for wrong in [
            "",
            "*.example",
            "a b",
            "a..b",
            "a.",
            "CN=agent",
            "://x",
            "spiffe://",
            "a://b c",
            "1a://b",
            "ü.example",
        ] {
            assert_eq!(name(wrong), None, "{wrong}");
        }
        let error = |clients: &str| {
            let tls = TLS
                .lines()
                .filter(|line| !line.starts_with("clients"))
                .collect::<Vec<_>>()
                .join("\n");
            parse(&format!(
                "listen = \"127.0.0.1:1\"\n{tls}\nclients = [{clients}]"
            ))
            .unwrap_err()
        };
        for (clients, expected) in [
            (
                "{ name = \"*.x\", user = \"nobody\" }",
                "without a wildcard",
            ),
            (
                "{ name = \"x\", user = \"nobody\" }, { name = \"X\", user = \"nobody\" }",
                "another client's already",
            ),
            (
                "{ name = \"x\", user = \"no-such-user\" }",
                "there is no such user",
            ),
            (
                "{ name = \"x\", user = \"root\" }",
                "network clients cannot be root",
            ),
            ("{ name = \"x\" }", "missing field `user`"),
        ] {
            let error = error(clients);
            assert!(error.contains(expected), "{clients}: {error}");
        }
    }
}
