use std::fs;

use hookjail_base::model::{Narrow, ProfileName};

use super::*;
use hookjail_policy::{
    Registry,
    explain::Target,
    narrow::{Bindings, narrow},
    registry::ProfileError,
    rights::{FileRight, FileRights},
};

const NAME: &str = "learned";

/// A home with a project, and what grows in homes.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        for file in [
            ".cache/hookjail/x",
            ".claude/projects/t.jsonl",
            ".gitconfig",
            ".local/bin/tool",
            ".nvm/v/bin/node",
            ".ssh/id",
            "p/a.js",
            "rules/r",
        ] {
            let path = home.path(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        home
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(below)
    }

    fn references(&self) -> References {
        References {
            cache: Some(self.path(".cache/hookjail")),
            home: Some(self.path("x").parent().unwrap().to_owned()),
        }
    }

    fn resolve(&self, text: &str) -> Result<Under, ProfileError> {
        let proposed = [(NAME.to_owned(), text.to_owned())];
        let registry = Registry::load_with(&[], &proposed, &[], &self.references())?;
        let policy = registry.find(&ProfileName::parse(NAME).unwrap()).unwrap();
        let workspace = self.path("p");
        let needs_one = |grant: &GrantSpec| {
            matches!(
                grant.place,
                GrantPlace::Workspace {
                    if_bound: false,
                    ..
                }
            )
        };
        let bound = policy.files.named.iter().any(needs_one);
        let bound = bound.then_some(workspace.as_path());
        let mut narrowed = narrow(policy, Bindings::workspace(bound), &Narrow::default()).unwrap();
        narrowed.files.grant_transcripts(&policy.files);
        let all = FileRights::new(&FileRight::ALL);
        Ok(Under {
            policy: Arc::clone(policy),
            reach: Reach::locate(&narrowed.files, bound, all)
                .unwrap()
                .with_view(policy)
                .unwrap(),
        })
    }

    fn done(&self, operation: Operation, below: &str) -> Use {
        let path = self.path(below);
        Use {
            destination: None,
            operation,
            target: Target::locate(operation, &path),
            given: path,
        }
    }

    /// Returns the text of the learned profile, without its first line.
    fn learn(&self, widest: &str, needs: &Needs) -> String {
        let (expected, widest) = (widest, format!("description = \"widest\"\n{widest}"));
        let path = [self.path(".nvm/v/bin"), self.path(".local/bin")];
        let draft = Draft::compose(
            "it",
            needs,
            &self.resolve(&widest).unwrap(),
            Site {
                path: &path,
                references: &self.references(),
                workspace: &self.path("p"),
            },
            |draft| self.resolve(&draft.to_string()),
        );
        let text = draft.unwrap().to_string();
        // All of it is what a daemon reads.
        self.resolve(&text).unwrap();
        // The view is the widest profile's.
        let view = "view = \"own\"\n";
        let is_viewed = text.contains(view) || text.contains("\"workspace-rw\"");
        let has_view = ["develop", "workspace-rw"].map(|name| format!("\"{name}\""));
        assert_eq!(
            is_viewed,
            has_view.iter().any(|name| expected.contains(name)),
            "{text}"
        );
        let text = text.replace(view, "");
        let rest = text.strip_prefix("description = \"it\"\n");
        rest.unwrap().to_owned()
    }

    fn learn_of(&self, uses: &[(Operation, &str)]) -> String {
        let uses = uses.iter();
        let needs = Needs {
            uses: uses.map(|(it, below)| self.done(*it, below)).collect(),
            ..Needs::default()
        };
        self.learn("extends = \"develop\"", &needs)
    }
}

#[test]
fn a_hook_that_needs_nothing_gets_the_base_of_all() {
    let strict = "extends = \"strict\"\n\ngranted_by = \"operator\"\n";
    assert_eq!(Home::new().learn_of(&[]), strict);
    // A refusal of the widest profile makes no difference.
    let home = Home::new();
    let refused = [
        (Operation::Read, ".ssh/id"),
        (Operation::Create, ".ssh/new"),
        (Operation::Create, ".local/bin/other"),
    ];
    assert_eq!(home.learn_of(&refused), strict);
}

#[test]
fn the_workspace_is_granted_as_far_as_it_was_used() {
    let home = Home::new();
    let read_only =
        "extends = \"workspace-ro\"\n\ngranted_by = \"operator\"\nspawn = \"threads\"\n";
    let writable = "extends = \"workspace-rw\"\n\ngranted_by = \"operator\"\nmetadata = \"keep\"\nspawn = \"threads\"\n";
    for (operation, below, expected) in [
        (Operation::Read, "p/a.js", read_only),
        (Operation::Execute, "p/a.js", read_only),
        (Operation::List, "p", read_only),
        (Operation::Write, "p/a.js", writable),
        (Operation::Create, "p/b.js", writable),
        (Operation::Remove, "p/a.js", writable),
    ] {
        assert_eq!(home.learn_of(&[(operation, below)]), expected, "{below}");
    }
}

#[test]
fn processes_and_modes_are_granted_where_they_were_used_and_the_widest_profile_has_them() {
    let home = Home::new();
    let needs = Needs {
        metadata: true,
        processes: true,
        ..Needs::default()
    };
    assert_eq!(
        home.learn("extends = \"develop\"", &needs),
        "extends = \"pipeline\"\n\ngranted_by = \"operator\"\nmetadata = \"change\"\n"
    );
    assert_eq!(
        home.learn("extends = \"strict\"", &needs),
        "extends = \"strict\"\n\ngranted_by = \"operator\"\n"
    );
    let needs = Needs {
        uses: vec![home.done(Operation::Write, "p/a.js")],
        ..needs
    };
    assert_eq!(
        home.learn("extends = \"develop\"", &needs),
        "extends = \"workspace-rw\"\n\ngranted_by = \"operator\"\n"
    );
}

#[test]
fn each_part_is_there_for_what_it_alone_grants() {
    let home = Home::new();
    let with = |part: &str, environment: &str| {
        format!("extends = [\"strict\", \"{part}\"]\n\ngranted_by = \"operator\"\n{environment}")
    };
    let user = "\n[environment]\nhome = \"user\"\n";
    for (operation, below, expected) in [
        (Operation::Write, ".cache/hookjail/x", with("caches", "")),
        (Operation::Read, ".gitconfig", with("git-identity", user)),
        (
            Operation::Read,
            ".claude/projects/t.jsonl",
            with("claude-code-home", user),
        ),
        // In a directory that the part itself puts on `PATH`, and in one that only the caller has there.
        (
            Operation::Execute,
            ".local/bin/tool",
            with("toolchains", user),
        ),
        (
            Operation::Execute,
            ".nvm/v/bin/node",
            with(
                "toolchains",
                "\n[environment]\ncaller_path = true\nhome = \"user\"\n",
            ),
        ),
    ] {
        assert_eq!(home.learn_of(&[(operation, below)]), expected, "{below}");
    }
}

#[test]
fn what_no_part_has_is_granted_by_name_as_the_widest_profile_does() {
    let home = Home::new();
    let rules = home.path("rules");
    let widest = format!(
        "extends = \"develop\"\n[files]\nnamed = [{{ path = {rules:?}, access = \"read\" }}, {{ path = {:?}, access = \"read\" }}]",
        home.path(".ssh/id")
    );
    let learn = |below: &str| {
        let needs = Needs {
            uses: vec![home.done(Operation::Read, below)],
            ..Needs::default()
        };
        home.learn(&widest, &needs)
    };
    let named = |path: &str| {
        format!(
            "extends = \"strict\"\n\ngranted_by = \"operator\"\n\n[environment]\nhome = \"user\"\n\n[files]\nnamed = [\n    {{ path = \"{path}\", access = \"read\" }},\n]\n"
        )
    };
    assert_eq!(learn("rules/r"), named("${home}/rules"));
    // An operator who names a key by its whole path grants it by no other.
    let key = home.path(".ssh/id").display().to_string();
    assert_eq!(learn(".ssh/id"), named(&key));
}

#[test]
fn with_the_network_the_workspace_is_a_grant_beside_it() {
    let home = Home::new();
    let needs = Needs {
        network: true,
        uses: vec![home.done(Operation::Read, "p/a.js")],
        ..Needs::default()
    };
    assert_eq!(
        home.learn("extends = \"develop\"\nnetwork = \"outbound\"", &needs),
        "extends = \"network\"\n\ngranted_by = \"operator\"\nspawn = \"threads\"\nworking_dir = \"workspace\"\n\n[files]\nnamed = [\n    { path = \"${workspace}\", access = \"execute\" },\n]\n"
    );
    // Without a widest profile that has it there is none.
    let learned = home.learn("extends = \"develop\"", &needs);
    assert!(
        learned.starts_with("extends = \"workspace-ro\""),
        "{learned}"
    );
}

/// A learned profile allows nothing that the first run was refused.
#[test]
fn what_the_widest_profile_keeps_read_only_stays_so() {
    let home = Home::new();
    let write = [home.done(Operation::Write, "p/a.js")];
    let needs = |network| Needs {
        network,
        processes: true,
        uses: write.to_vec(),
        ..Needs::default()
    };
    let files = "\n[files]\nnamed = [\n    { path = \"${workspace}\", access = \"write\" },\n]\n";
    let online = "extends = \"develop\"\nnetwork = \"outbound\"";
    let unchanged = home
        .resolve("description = \"x\"\nextends = \"develop\"")
        .unwrap();
    let unchanged = unchanged.policy.files.unchanged.iter();
    let unchanged: Vec<_> = unchanged.map(|path| format!("\"{path}\"")).collect();
    assert!(unchanged.len() > 1);
    assert_eq!(
        home.learn(online, &needs(true)),
        format!(
            "extends = \"network\"\n\ngranted_by = \"operator\"\nworking_dir = \"workspace\"\n{files}read_only = [\"${{workspace}}/.git/config\", \"${{workspace}}/.git/hooks/\"]\nunchanged = [{}]\n",
            unchanged.join(", ")
        )
    );
    let more = "extends = \"develop\"\n[files]\nread_only = [\"${workspace}/kept/\"]";
    assert_eq!(
        home.learn(more, &needs(false)),
        "extends = \"workspace-rw\"\n\ngranted_by = \"operator\"\nmetadata = \"keep\"\n\n[files]\nread_only = [\"${workspace}/kept/\"]\n"
    );
    // Where it keeps nothing, because nothing can be kept there, neither does what comes of it.
    assert_eq!(
        home.learn("extends = \"develop-open-git\"", &needs(false)),
        format!(
            "extends = \"pipeline\"\n\ngranted_by = \"operator\"\nworking_dir = \"workspace\"\n{files}"
        )
    );
}

#[test]
fn the_parts_are_those_of_the_profile_that_is_tried_first() {
    let develop = include_str!("../../../sandbox-profiles/develop.toml");
    let extends = develop
        .lines()
        .find_map(|line| line.strip_prefix("extends = "));
    let extends: Vec<String> = serde_json::from_str(extends.unwrap()).unwrap();
    assert_eq!(extends[1..], PARTS);
}

#[test]
fn files_that_last_are_had_where_they_were_made_and_nowhere_else() {
    let home = Home::new();
    fs::write(home.path(".claude/settings.json"), "").unwrap();
    let state = "state = \"project\"\n";
    let places = "\n[files]\nstate = [\"${home}/.claude\"]\n";
    for below in [
        ".claude/calls.log",
        ".claude/logs/new",
        ".claude/projects/../x",
    ] {
        let text = home.learn_of(&[(Operation::Create, below)]);
        assert!(
            text.contains(state) && text.ends_with(places),
            "{below}: {text}"
        );
    }
    for below in ["count", ".config/log"] {
        let text = home.learn_of(&[(Operation::Create, below)]);
        let at_home = text.ends_with("\n[files]\nstate = [\"${home}\"]\n");
        assert!(text.contains(state) && at_home, "{below}: {text}");
    }
    // Settings of the agent are closed, and granted files are the machine's.
    for (operation, below) in [
        (Operation::Write, ".claude/settings.json"),
        (Operation::Read, ".claude/projects/t.jsonl"),
        (Operation::Create, ".ssh/new"),
    ] {
        let text = home.learn_of(&[(operation, below)]);
        assert!(!text.contains("state"), "{below}: {text}");
    }
}

#[test]
fn a_workspace_that_is_looked_at_is_granted_where_a_view_would_cover_it() {
    let home = Home::new();
    let learn = |looks: &[&str], made: Option<&str>| {
        let needs = Needs {
            looks: looks.iter().map(|below| home.path(below)).collect(),
            uses: made
                .map(|below| home.done(Operation::Create, below))
                .into_iter()
                .collect(),
            ..Needs::default()
        };
        home.learn("extends = \"develop\"", &needs)
    };
    // The home lies in a directory for temporary files, or files that last are shown in its place.
    let made = Some("count");
    for (looks, is_granted) in [(&["p/a.js"][..], true), (&["p", "elsewhere"], false)] {
        let text = learn(looks, made);
        assert_eq!(text.contains("\"workspace-ro\""), is_granted, "{text}");
    }
}

#[test]
fn temporary_files_are_the_sessions_where_some_were_made_and_notices_are_shown_where_they_were_asked_for()
 {
    let home = Home::new();
    let marker = Use {
        destination: None,
        given: "/tmp/hookjail-test-of-learned".into(),
        operation: Operation::Create,
        target: Target::locate(
            Operation::Create,
            Path::new("/tmp/hookjail-test-of-learned"),
        ),
    };
    let read = Use {
        operation: Operation::Read,
        ..marker.clone()
    };
    let learn = |wanted: &Use, notices| {
        let needs = Needs {
            notices,
            uses: vec![wanted.clone()],
            ..Needs::default()
        };
        home.learn("extends = \"develop\"", &needs)
    };
    let strict = "extends = \"strict\"\n\ngranted_by = \"operator\"\n";
    let state = "state = \"project\"\n";
    assert_eq!(learn(&marker, false), format!("{strict}{state}"));
    assert_eq!(learn(&read, false), strict);
    assert_eq!(learn(&read, true), format!("{strict}notify = true\n"));
}
