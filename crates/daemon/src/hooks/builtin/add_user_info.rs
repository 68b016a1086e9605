//! `add_user_info`: adds the user's and host's name at the start of a session.
//!
//! The runtime connects over a socket of this machine, whose kernel reports the user. A runtime in a container may have
//! another user name there.

use nix::unistd::{Uid, User, gethostname};

use hookjail_contract::{Verdict, plain};

/// Returns user name, full name and host name as context. Those unknown to the system are left out.
pub(super) fn verdict(uid: u32) -> Verdict {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let full = user.as_ref().map(|user| user.gecos.to_string_lossy());
    let full = full.as_deref().and_then(|gecos| gecos.split(',').next());
    let host = gethostname().ok();
    let host = host.as_ref().map(|host| host.to_string_lossy());
    told(
        user.as_ref().map(|user| user.name.as_str()),
        full,
        host.as_deref(),
    )
}

fn told(user: Option<&str>, full: Option<&str>, host: Option<&str>) -> Verdict {
    let lines = [("User", user), ("Full name", full), ("Hostname", host)];
    let lines = lines.into_iter().filter_map(|(label, value)| {
        let value = value.map(str::trim).filter(|value| !value.is_empty())?;
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
    fn what_the_system_knows_of_a_user_is_told_and_nothing_forges_a_line() {
        let context = |verdict: Verdict| verdict.additional_context;
        assert_eq!(
            context(told(Some("ada"), Some("Ada\nHostname: x"), Some("engine"))),
            ["Current user:\n\nUser: ada\nFull name: Ada\\nHostname: x\nHostname: engine"]
        );
        assert_eq!(
            context(told(Some("ada"), Some(" "), None)),
            ["Current user:\n\nUser: ada"]
        );
        assert!(context(told(None, None, None)).is_empty());
        let root = context(verdict(0)).concat();
        assert!(root.contains("User: root\n"), "{root}");
    }
}
