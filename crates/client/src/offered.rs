//! The variables of this process that a call offers to its server.

use std::{collections::BTreeMap, env};

use hookjail_base::model::variable;
use hookjail_proto as pb;

/// The names that shipped profiles admit, a line each; a trailing `*` stands for any text.
const ADMITTED: &str = include_str!("offered.txt");

/// The place of a call's server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServerPlace {
    /// Another host, or any address over the network.
    Network,
    /// This process.
    Process,
    /// A socket of this host.
    Socket,
}

/// Adds variables to an offer, as far as its server gets these.
///
/// A server in this process gets all. A daemon gets the values that shipped profiles admit, and the names of the others, of which its
/// own profiles may admit some. Over the network nothing is added.
pub fn offer(
    offer: &mut pb::Offer,
    server: ServerPlace,
    variables: impl Iterator<Item = (String, String)>,
) {
    match server {
        ServerPlace::Network => {}
        ServerPlace::Process => offer.env = variables.collect(),
        ServerPlace::Socket => {
            (offer.env, offer.names) = parted(variables);
        }
    }
}

/// Returns the variables that shipped profiles admit, and the names of those that other profiles can.
fn parted(
    variables: impl Iterator<Item = (String, String)>,
) -> (BTreeMap<String, String>, Vec<String>) {
    let (mut admitted, mut others) = (BTreeMap::new(), Vec::new());
    let patterns: Vec<_> = ADMITTED.lines().collect();
    for (name, value) in variables {
        let is_admitted = |pattern: &&str| variable::matches(pattern, &name);
        if patterns.iter().any(is_admitted) {
            admitted.insert(name, value);
        } else if !variable::is_closed_to_requests(&name) {
            others.push(name);
        }
    }
    (admitted, others)
}

/// Adds the values that a daemon's profile admits, of names that were offered; takes the names away.
pub fn add(offer: &mut pb::Offer, wanted: &[String], value: impl Fn(&str) -> Option<String>) {
    let offered = std::mem::take(&mut offer.names);
    let wanted = offered.into_iter().filter(|name| wanted.contains(name));
    let values = wanted.filter_map(|name| Some((name.clone(), value(&name)?)));
    offer.env.extend(values);
}

/// Returns the variables of this process that are text.
pub fn variables() -> impl Iterator<Item = (String, String)> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;
    use hookjail_policy::Registry;

    fn text(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    #[test]
    fn the_names_in_the_program_are_those_that_shipped_profiles_admit() {
        let registry = Registry::builtin().unwrap();
        let mut names = BTreeSet::new();
        for policy in registry.iter() {
            names.extend(policy.environment.allow.iter().map(ToString::to_string));
            names.extend(policy.environment.caller_path.then(|| "PATH".to_owned()));
        }
        let admitted: String = names.iter().map(|name| format!("{name}\n")).collect();
        if env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/offered.txt");
            fs::write(file, &admitted).unwrap();
        }
        assert!(
            ADMITTED == admitted,
            "shipped profiles admit other names; write them with `UPDATE_DOCS=1 cargo test -p hookjail-client \
             the_names_in_the_program`"
        );
    }

    #[test]
    fn a_server_gets_the_variables_that_its_place_allows() {
        let variables = text(&[
            ("CLAUDE_PROJECT_DIR", "/p"),
            ("GITHUB_TOKEN", "g"),
            ("LC_TIME", "C"),
            ("LD_PRELOAD", "/x.so"),
            ("MY_VAR", "m"),
        ]);
        let offered = |server| {
            let mut offered = pb::Offer::default();
            offer(&mut offered, server, variables.clone().into_iter());
            offered
        };
        assert_eq!(offered(ServerPlace::Network), pb::Offer::default());
        let all = offered(ServerPlace::Process);
        assert_eq!(all.env, variables.clone().into_iter().collect());
        let mut daemons = offered(ServerPlace::Socket);
        let admitted = text(&[("CLAUDE_PROJECT_DIR", "/p"), ("LC_TIME", "C")]);
        assert_eq!(daemons.env, admitted.into_iter().collect());
        assert_eq!(daemons.names, ["GITHUB_TOKEN", "MY_VAR"]);

        let value = |name: &str| Some(format!("value of {name}"));
        let wanted = ["HOME", "MY_VAR"].map(str::to_owned);
        add(&mut daemons, &wanted, value);
        assert_eq!(daemons.env.len(), 3);
        assert_eq!(daemons.env["MY_VAR"], "value of MY_VAR");
        assert!(daemons.names.is_empty());
    }
}
