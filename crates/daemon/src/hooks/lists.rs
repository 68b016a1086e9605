//! Command lists by the agent's mode, where a runtime has them.

use std::{fs::File, path::PathBuf};

use hookjail_base::util::trusted_file;
use hookjail_contract::{Lists, WrittenLists};

use super::load::{LoadError, bounded};

/// The operator's configuration of the lists. A list that is absent is that of the runtime's own configuration, or the
/// default.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Listing {
    /// Further entries for every mode, separated by commas or line breaks.
    pub append: String,
    /// Whether entries count as consent.
    pub are_consent: bool,
    /// The runtime's own configuration; absolute.
    pub file: Option<PathBuf>,
    /// The lists, as far as hookjail's configuration has them.
    pub written: WrittenLists,
}

impl Listing {
    /// Loads the lists, with those of the runtime's configuration if that is named.
    ///
    /// # Errors
    ///
    /// Fails if that file cannot be opened, another user could have changed it, or its lists are invalid.
    pub fn load(&self) -> Result<Lists, LoadError> {
        let of_file = match &self.file {
            Some(path) => {
                let opened = trusted_file::open_own_or_roots(path, File::options().read(true));
                let text = opened.and_then(|file| Ok(bounded(file)?));
                let text = text.map_err(|cause| LoadError::Open {
                    cause,
                    path: path.clone(),
                })?;
                WrittenLists::parse(&text, &path.display().to_string())?
            }
            None => WrittenLists::default(),
        };
        Ok(Lists::joined(
            &self.written,
            of_file,
            &self.append,
            self.are_consent,
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;
    use hookjail_contract::{AgentMode, infer_gate::Gate};

    const MODES: [AgentMode; 5] = [
        AgentMode::Auto,
        AgentMode::Other,
        AgentMode::Plan,
        AgentMode::ReadOnly,
        AgentMode::Standard,
    ];

    fn lets_through(lists: &Lists, command: &str, mode: AgentMode) -> bool {
        lists.decide(command, mode, None) == Gate::Allowed
    }

    fn list(entries: &[&str]) -> Option<Vec<String>> {
        Some(entries.iter().map(|entry| (*entry).to_owned()).collect())
    }

    #[test]
    fn a_mode_has_its_own_entries_and_those_of_all() {
        let listing = Listing {
            append: " make test ,\ncargo .*\n,".to_owned(),
            ..Listing::default()
        };
        let lists = listing.load().unwrap();
        let through = |command, mode| lets_through(&lists, command, mode);
        assert!(through("git status", AgentMode::Standard));
        assert!(through("make test", AgentMode::Plan));
        assert!(through("cargo build", AgentMode::Plan));
        assert!(!through("rm x", AgentMode::Plan));
        assert!(through("pwd", AgentMode::ReadOnly));
        assert!(!through("rm x", AgentMode::ReadOnly));
        assert!(through("pwd", AgentMode::Other));
        assert!(!through("rm x", AgentMode::Other));
        assert!(!through("git status;rm x", AgentMode::Standard));
        assert!(through("rm x;rm y", AgentMode::Auto));
    }

    #[test]
    fn an_entry_stands_for_consent_where_it_names_a_program_and_the_operator_has_it_so() {
        let listing = |are_consent| Listing {
            append: "make test".to_owned(),
            are_consent,
            written: WrittenLists {
                auto: list(&[".*"]),
                plan: list(&["/srv/notify\\.sh .*"]),
                ..WrittenLists::default()
            },
            ..Listing::default()
        };
        let lists = listing(true).load().unwrap();
        let modes = |command: &str| MODES.map(|mode| lists.stand_for(command, mode, None));
        assert_eq!(modes("make test"), [true; 5]);
        assert_eq!(
            modes("/srv/notify.sh done"),
            [false, false, true, false, false]
        );
        // Let through by a default that is not written, and by the mode that lets everything through.
        assert!(lets_through(&lists, "git status", AgentMode::Standard));
        assert!(lets_through(&lists, "rm x", AgentMode::Auto));
        assert_eq!(
            (modes("git status"), modes("rm x")),
            ([false; 5], [false; 5])
        );
        let lists = listing(false).load().unwrap();
        assert!(!lists.stand_for("make test", AgentMode::Plan, None));
    }

    #[test]
    fn entries_that_do_less_than_they_seem_to_are_named() {
        let warned = |are_consent, plan: &[&str]| {
            let listing = Listing {
                append: "make .*".to_owned(),
                are_consent,
                written: WrittenLists {
                    plan: list(plan),
                    ..WrittenLists::default()
                },
                ..Listing::default()
            };
            listing.load().unwrap().warnings()
        };
        let plan = [r"./scripts/lint\.sh", r"\./scripts/lint\.sh", "ls("];
        let [consent, broken] = &warned(true, &plan)[..] else {
            panic!("not two warnings")
        };
        assert!(
            consent.starts_with(r"infer's list for `plan`: `./scripts/lint\.sh` names no program"),
            "{consent}"
        );
        let expected =
            "infer's list for `plan`: `ls(` is no regular expression, and lets nothing through";
        assert_eq!(broken, expected);
        assert_eq!(warned(false, &plan), [expected]);
        // A default that is not written has no warning.
        assert_eq!(warned(true, &[]), Vec::<String>::new());
    }

    #[test]
    fn infers_own_configuration_has_the_lists_that_hookjails_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        let text = "gateway: {url: x}\ntools:\n  bash:\n    enabled: true\n    mode:\n      all: {allow: ['ls .*']}\n      \
                    plan: {allow: [make]}\n      standard: {allow: [cargo test]}\n";
        let load = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let listing = Listing {
                file: Some(path.clone()),
                written: WrittenLists {
                    plan: list(&["pwd"]),
                    ..WrittenLists::default()
                },
                ..Listing::default()
            };
            listing.load().map_err(|error| error.to_string())
        };
        let lists = load(text, 0o600).unwrap();
        assert!(lets_through(&lists, "cargo test", AgentMode::Standard));
        assert!(lets_through(&lists, "ls x", AgentMode::ReadOnly));
        assert!(lets_through(&lists, "pwd", AgentMode::Plan));
        assert!(
            !lets_through(&lists, "make", AgentMode::Plan),
            "hookjail's own counts"
        );
        assert!(
            !lets_through(&lists, "git log", AgentMode::Plan),
            "no default beside a list"
        );
        // As infer has it: no warning.
        assert_eq!(load("", 0o600).unwrap().default, Lists::default().default);
        for (text, mode, problem) in [
            (text, 0o622, "cannot be read"),
            (
                "tools: {bash: {mode: {plan: {allow: x}}}}",
                0o600,
                "`tools.bash.mode.plan`: `allow` must be a list",
            ),
            ("tools: [", 0o600, "is no YAML"),
        ] {
            let error = load(text, mode).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        fs::remove_file(&path).unwrap();
        let listing = Listing {
            file: Some(path),
            ..Listing::default()
        };
        assert!(
            listing.load().is_err(),
            "a file that is named has to be there"
        );
    }
}
