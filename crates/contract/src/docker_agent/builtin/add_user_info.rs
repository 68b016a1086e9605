//! `add_user_info`: adds the user's and host's name at the start of a session.
//!
//! The runtime connects over a socket of this machine, whose kernel reports the user. A runtime in a container may have
//! another user name there.

use crate::{Verdict, plain};

/// Names of a caller and its host, as the system has them. Names unknown to the system are absent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct CallerNames {
    /// The user's full name.
    pub full: Option<String>,
    /// The host's name.
    pub host: Option<String>,
    /// The user's name.
    pub user: Option<String>,
}

/// Returns user name, full name and host name as context.
pub(super) fn verdict(names: &CallerNames) -> Verdict {
    let CallerNames { full, host, user } = names;
    let lines = [("User", user), ("Full name", full), ("Hostname", host)];
    let lines = lines.into_iter().filter_map(|(label, value)| {
        let value = value.as_deref().map(str::trim);
        let value = value.filter(|value| !value.is_empty())?;
        Some(format!("{label}: {}", plain(value, &[])))
    });
    let lines: Vec<_> = lines.collect();
    let context = (!lines.is_empty()).then(|| format!("Current user:\n\n{}", lines.join("\n")));
    Verdict {
        additional_context: context.into_iter().collect(),
        ..Verdict::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_context_and_no_name_forges_a_line() {
        let context = |user: &str, full: &str, host: &str| {
            let some = |text: &str| Some(text.to_owned());
            let names = CallerNames {
                full: some(full),
                host: some(host),
                user: some(user),
            };
            verdict(&names).additional_context
        };
        assert_eq!(
            context("ada", "Ada\nHostname: x", "engine"),
            ["Current user:\n\nUser: ada\nFull name: Ada\\nHostname: x\nHostname: engine"]
        );
        assert_eq!(context("ada", " ", ""), ["Current user:\n\nUser: ada"]);
        assert_eq!(verdict(&CallerNames::default()), Verdict::default());
    }
}
