//! The tables of names that a view shows in the place of the machine's, for programs that read them instead of asking by TCP.

use std::{
    fs::{self, File, Permissions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use hookjail_policy::{
    EgressRules,
    egress::{HostName, NAME_TABLES},
};

use super::made_up;
use crate::{
    resources::scratch::{Around, RunDir},
    run::view::Placement,
};

/// Returns the names that rules spell out, in the order of their addresses.
pub(super) fn exact_names(rules: &EgressRules) -> Vec<HostName> {
    let names = rules.allowed.iter().filter_map(|rule| rule.exact_name());
    let mut names: Vec<_> = names.cloned().collect();
    names.dedup();
    names
}

/// Makes the tables of a run in its directory.
///
/// # Errors
///
/// Returns the error of making one. A table that the machine does not have is left out.
pub(crate) fn make(rules: &EgressRules, directory: &RunDir) -> io::Result<Vec<Placement>> {
    let name_servers = "nameserver 127.0.0.1\noptions use-vc ndots:0\n".to_owned();
    let tables = [("hosts", hosts(rules)), ("name-servers", name_servers)];
    let mut made = Vec::new();
    for (path, (kind, text)) in NAME_TABLES.into_iter().zip(tables) {
        let Ok(place) = fs::canonicalize(path) else {
            continue;
        };
        let original = File::open(&place)?;
        let copied = directory.frame(Path::new(path), kind, &Around::default())?;
        let mut copy = copied.reserve()?;
        copy.write_all(text.as_bytes())?;
        copy.set_permissions(Permissions::from_mode(0o444))?;
        made.push(Placement {
            copy: File::open(&copied.path)?,
            copy_path: copied.path,
            original,
            place,
        });
    }
    Ok(made)
}

/// Returns the table of hosts: the names that rules spell out, and this machine unless it is one of them.
fn hosts(rules: &EgressRules) -> String {
    let names = exact_names(rules);
    let machine = match names.iter().any(|name| name.as_str() == "localhost") {
        true => "",
        false => "127.0.0.1 localhost\n::1 localhost\n",
    };
    let named = names.iter().enumerate();
    let lines = named.map(|(index, name)| format!("{} {name}\n", made_up(index)));
    lines.fold(machine.to_owned(), |text, line| text + &line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_rules_spell_out_have_their_addresses_in_the_table_of_hosts() {
        let rules = |allowed: &[&str]| EgressRules {
            allowed: allowed.iter().map(|it| it.parse().unwrap()).collect(),
            ..EgressRules::default()
        };
        let table = hosts(&rules(&[
            "a.org:443",
            "a.org:80 http",
            "*.b.org:443",
            "10.0.0.1:1 any",
            "c.org:443",
        ]));
        let expected = "127.0.0.1 localhost\n::1 localhost\n198.18.0.1 a.org\n198.18.0.2 c.org\n";
        assert_eq!(table, expected);
        let table = hosts(&rules(&["a.org:443", "localhost:80 http"]));
        assert_eq!(table, "198.18.0.1 a.org\n198.18.0.2 localhost\n");
    }
}
