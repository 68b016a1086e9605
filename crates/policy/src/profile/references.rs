//! `${home}` and `${cache}` in profiles: directories of the user for whom hooks run.

use std::path::{Path, PathBuf};

use crate::{Access, GrantPlace};

/// Values of references. Entries of a profile that name an unbound reference are dropped.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct References {
    /// The directory of the caches that `${cache}` stands for: one for each workspace, as a run begins.
    pub cache: Option<PathBuf>,
    /// `${home}`: the home of the daemon's user, where hooks run as that user.
    pub home: Option<PathBuf>,
}

/// A reference to a directory of the user's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Reference {
    Cache,
    Home,
}

impl Reference {
    const ALL: [Self; 2] = [Self::Cache, Self::Home];

    /// Returns its spelling in profiles.
    pub(super) const fn spelling(self) -> &'static str {
        match self {
            Self::Cache => "${cache}",
            Self::Home => "${home}",
        }
    }

    /// Splits a leading reference off a text. The rest is empty or begins with a slash.
    pub(super) fn split(text: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|reference| {
            let rest = text.strip_prefix(reference.spelling())?;
            (rest.is_empty() || rest.starts_with('/')).then_some((reference, rest))
        })
    }
}

impl References {
    /// Returns the directory of hooks' caches among the caches of a user.
    pub fn cache_in(caches: &Path) -> PathBuf {
        caches.join("hookjail")
    }

    /// Returns the reference's directory, if it is bound.
    pub(super) fn place(&self, reference: Reference) -> Option<&Path> {
        match reference {
            Reference::Cache => self.cache.as_deref(),
            Reference::Home => self.home.as_deref(),
        }
    }

    /// Replaces a leading reference by its directory; `None` if it is unbound.
    pub(super) fn bind(&self, text: &str) -> Option<String> {
        let Some((reference, rest)) = Reference::split(text) else {
            return Some(text.to_owned());
        };
        Some(format!("{}{rest}", self.place(reference)?.to_str()?))
    }
}

impl References {
    /// Returns the paths below a home that are kept from hooks, and whether each keeps keys, tokens or sessions.
    pub fn kept() -> impl Iterator<Item = (&'static str, bool)> {
        let secrets = SECRETS.into_iter().map(|below| (below, true));
        secrets.chain(RUN_LATER.into_iter().map(|below| (below, false)))
    }

    /// Returns why no learned profile may grant a path of the home, if so. Operators can write it out in a profile.
    #[must_use]
    pub fn never(&self, path: &Path, read_only: bool) -> Option<&'static str> {
        let below = path.strip_prefix(self.home.as_deref()?).ok()?;
        // Files in the cache are the hooks' own.
        let is_cache = self
            .cache
            .as_deref()
            .is_some_and(|cache| path.starts_with(cache));
        never_of_home(below, read_only).filter(|_| !is_cache)
    }

    /// Returns a place's spelling in a profile, by a reference where possible and allowed.
    pub fn spelled(&self, place: &GrantPlace, access: Access) -> String {
        let GrantPlace::Path(path) = place else {
            return place.to_string();
        };
        let named = Reference::ALL.into_iter().find_map(|reference| {
            let below = path.strip_prefix(self.place(reference)?).ok()?;
            let is_open = reference == Reference::Cache
                || never_of_home(below, access.is_read_only()).is_none();
            let slash = if below.as_os_str().is_empty() {
                ""
            } else {
                "/"
            };
            is_open.then(|| format!("{}{slash}{}", reference.spelling(), below.display()))
        });
        named.unwrap_or_else(|| place.to_string())
    }
}

/// Returns why no profile can grant a path by `${home}`, if so. Operators can grant it by its absolute path.
pub(crate) fn never_of_home(below: &Path, read_only: bool) -> Option<&'static str> {
    // Some file systems ignore case.
    let fold = |text: &str| PathBuf::from(text.to_lowercase().to_uppercase());
    let below = fold(&below.to_string_lossy());
    let is_in = |list: &[&str]| {
        let mut list = list.iter().map(|never| fold(never));
        list.any(|never| below.starts_with(&never) || never.starts_with(&below))
    };
    if is_in(&SECRETS) {
        Some("the path is, holds or lies in what keeps keys, tokens or sessions")
    } else if !read_only && is_in(&RUN_LATER) {
        Some(
            "the path is, holds or lies in what shells, tools or agents of the user run or obey, unconfined",
        )
    } else {
        None
    }
}

/// Paths below the home with keys, tokens, sessions and histories.
const SECRETS: [&str; 46] = [
    ".aws",
    ".azure",
    ".bash_history",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/gcloud",
    ".config/gh",
    ".config/git/credentials",
    ".config/glab-cli",
    ".config/google-chrome",
    ".config/hub",
    ".config/op",
    ".config/rclone",
    ".copilot/config.json",
    ".cursor",
    ".docker/config.json",
    ".electrum",
    ".gem/credentials",
    ".gemini/oauth_creds.json",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".m2/settings.xml",
    ".mozilla",
    ".netrc",
    ".node_repl_history",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".pki",
    ".psql_history",
    ".pypirc",
    ".python_history",
    ".qwen/oauth_creds.json",
    ".ssh",
    ".terraform.d",
    ".vault-token",
    ".yarnrc.yml",
    ".zsh_history",
];

/// Paths below the home that the user's shells, tools or agents run or obey, unconfined.
const RUN_LATER: [&str; 61] = [
    ".agents",
    ".asdf",
    ".augment",
    ".aws/amazonq",
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".bun",
    ".cargo",
    ".claude",
    ".cline",
    ".codeium",
    ".codex",
    ".config/autostart",
    ".config/claude",
    ".config/crush",
    ".config/environment.d",
    ".config/fish",
    ".config/git",
    ".config/goose",
    ".config/hookjail",
    ".config/mise",
    ".config/nvim",
    ".config/systemd",
    ".config/uv",
    ".copilot",
    ".deno",
    ".devin",
    ".emacs.d",
    ".factory",
    ".gemini",
    ".gitconfig",
    ".grok",
    ".inputrc",
    ".kimi-code",
    ".kiro",
    ".letta",
    ".local/bin",
    ".local/lib",
    ".local/share/applications",
    ".local/share/mise",
    ".local/share/systemd",
    ".local/share/uv",
    ".local/state/hookjail",
    ".nvm",
    ".openhands",
    ".profile",
    ".pyenv",
    ".qoder",
    ".qwen",
    ".rustup",
    ".snowflake",
    ".vibe",
    ".vim",
    ".vimrc",
    ".volta",
    ".zprofile",
    ".zshenv",
    ".zshrc",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_bound_where_a_text_begins_with_it() {
        let references = References {
            cache: None,
            home: Some("/home/ada".into()),
        };
        for (text, bound) in [
            ("${home}", Some("/home/ada")),
            ("${home}/.nvm", Some("/home/ada/.nvm")),
            ("${homes}/.nvm", Some("${homes}/.nvm")),
            ("/srv/${home}", Some("/srv/${home}")),
            ("${cache}/uv", None),
            ("plain", Some("plain")),
        ] {
            assert_eq!(references.bind(text).as_deref(), bound, "{text}");
        }
    }

    #[test]
    fn keys_are_never_granted_by_reference_and_what_others_run_is_never_writable() {
        let never = |below: &str, read_only| never_of_home(Path::new(below), read_only).is_some();
        for below in [
            "",
            ".ssh",
            ".ssh/id_ed25519",
            ".config",
            ".cargo",
            ".local",
            ".claude",
        ] {
            assert!(never(below, true), "{below}");
        }
        for below in [
            ".cargo/bin",
            ".nvm/versions",
            ".local/bin",
            ".gitconfig",
            ".claude/hooks",
        ] {
            assert!(!never(below, true), "{below}");
            assert!(never(below, false), "{below}");
        }
        for below in [".SSH/id_ed25519", ".\u{17f}sh", ".\u{212a}ube", ".Config"] {
            assert!(never(below, true), "{below}");
        }
        assert!(!never("notes", false));
    }

    #[test]
    fn the_lists_are_sorted() {
        assert!(SECRETS.is_sorted() && RUN_LATER.is_sorted());
    }
}
