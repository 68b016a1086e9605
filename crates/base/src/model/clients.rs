//! Local users whom the configuration gives to clients over the network.

use std::sync::Arc;

/// A user of this host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LocalUser {
    /// Group id.
    pub gid: u32,
    /// All groups.
    pub groups: Arc<[u32]>,
    /// User id.
    pub uid: u32,
}

/// A name in certificates, and the user that their holders are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Client {
    /// A DNS name in lower case, or a URI.
    pub name: String,
    /// The user.
    pub user: LocalUser,
}

/// The listed clients.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Clients(pub Vec<Client>);

/// No user belongs to a certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoUser {
    /// More than one of its names is listed.
    Ambiguous,
    /// None of its names is.
    Unlisted,
}

impl Clients {
    /// Finds the one listed client that a certificate names.
    pub fn find(&self, names: &[String]) -> Result<&Client, NoUser> {
        let mut listed = self.0.iter().filter(|it| names.contains(&it.name));
        let client = listed.next().ok_or(NoUser::Unlisted)?;
        match listed.next() {
            Some(_) => Err(NoUser::Ambiguous),
            None => Ok(client),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_one_user_or_nobody() {
        let client = |name: &str, uid| Client {
            name: name.to_owned(),
            user: LocalUser {
                gid: uid,
                groups: Arc::default(),
                uid,
            },
        };
        let clients = Clients(vec![
            client("ci.example", 7),
            client("spiffe://example/agent", 8),
        ]);
        let find = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            clients.find(&names).map(|client| client.user.uid)
        };
        assert_eq!(find(&["ci.example"]), Ok(7));
        assert_eq!(find(&["other.example", "spiffe://example/agent"]), Ok(8));
        for names in [
            &[][..],
            &["example"],
            &["a.ci.example"],
            &["ci.example."],
            &["*.example"],
            &["spiffe://example/agent/b"],
        ] {
            assert_eq!(find(names), Err(NoUser::Unlisted), "{names:?}");
        }
        let both = ["ci.example", "spiffe://example/agent"];
        assert_eq!(find(&both), Err(NoUser::Ambiguous));
    }
}
