use std::{error::Error, time::Duration};

use super::*;
use crate::{Access, Files, GrantPlace, GrantSpec};

/// The text of a whole profile that every case below changes in one place.
const WHOLE: &str = r#"
description = "a profile"
granted_by = "anyone"
metadata = "keep"
network = "none"
spawn = "threads"
working_dir = "scratch"
[axes]
required = ["read", "write", "execute", "network", "spawn", "ipc", "devices", "environment", "output", "time"]
wanted=[
    "metadata", "memory", "pids", "cpu",
]
[environment]
path = ["/usr/bin"]
allow = ["HOOK_*"]
set = { LANG = "C" }
[files]
system = [{ path = "/usr", access = "execute" }, { path = "/dev/null", access = "write-file" }]
named = [{ path = "/srv/data", access = "write" }, { path = "${workspace}", access = "read", if_bound = true }]
[limits]
address_space = "none"
memory = "none"
file_size = "64MiB"
on_limit = "drain"
open_files = 256
output = 1024
tasks = 64
[time]
default = "60s"
maximum = "10m"
"#;

#[test]
fn a_whole_profile_becomes_a_policy() {
    let policy = resolve(WHOLE).unwrap();

    let grant = |access, place| GrantSpec {
        access,
        create: false,
        optional: false,
        place,
    };
    assert_eq!(
        policy.files,
        Files {
            cache: None,
            hidden: Vec::new(),
            named: vec![
                grant(Access::Write, GrantPlace::Path("/srv/data".into())),
                grant(
                    Access::Read,
                    GrantPlace::Workspace {
                        below: PathBuf::new(),
                        if_bound: true
                    }
                ),
            ],
            read_only: Vec::new(),
            state: Vec::new(),
            system: vec![
                grant(Access::WriteFile, GrantPlace::Path("/dev/null".into())),
                grant(Access::Execute, GrantPlace::Path("/usr".into())),
            ]
            .into(),
            tokens: Vec::new(),
            transcripts: Vec::new(),
            unchanged: Vec::new(),
        }
    );
    assert_eq!(
        policy.limits,
        Limits {
            address_space: None,
            cpus: None,
            memory: None,
            file_size: 64 << 20,
            on_output_limit: OnOutputLimit::Drain,
            open_files: 256,
            output_bytes: 1024,
            scratch: None,
            tasks: 64,
        }
    );
    assert_eq!(
        policy.time,
        Time {
            default: Duration::from_secs(60),
            maximum: Duration::from_secs(600)
        }
    );
    assert_eq!(policy.demands.memory, Demand::Wanted);
    assert_eq!(policy.demands.read, Demand::Required);
    assert_eq!(policy.digest.len(), 64);
}

#[test]
fn a_broken_rule_is_refused_with_key_and_rule() {
    // Part of `WHOLE`, its replacement, and parts of the error.
    let cases = [
        (
            "metadata = \"keep\"",
            "metadata = \"keep\"\nnotify = true",
            &["`notify`", "set `view = \"own\"`"][..],
        ),
        (
            "\"/usr\"",
            "\"usr\"",
            &["files.system[0]", "`usr` must be an absolute path"][..],
        ),
        (
            "\"/usr\"",
            "\"${cache}/x\"",
            &["files.system[0]", "differs with each workspace"],
        ),
        (
            "[files]",
            "[files]\ntokens = [\"/a/x*\"]",
            &["`files.tokens`", "names `/a/x*`", "whole names"],
        ),
        (
            "[files]",
            "[files]\ntranscripts = [\"/a/b\"]",
            &["`files.transcripts`", "names `/a/b`", "last names"],
        ),
        (
            "[files]",
            "[files]\nunchanged = [\"/a\"]",
            &["files.unchanged", "below `${workspace}`"],
        ),
        (
            "\"/usr\"",
            "\"/usr/\"",
            &["files.system[0]", "absolute path without"],
        ),
        (
            "\"/usr\"",
            "\"/usr//lib\"",
            &["files.system[0]", "absolute path without"],
        ),
        (
            "\"/usr\"",
            "\"/usr/./lib\"",
            &["files.system[0]", "absolute path without"],
        ),
        (
            "\"/usr\"",
            "\"/usr/../etc\"",
            &["files.system[0]", "absolute path without"],
        ),
        (
            "\"/usr\"",
            "\"/usr\\u0000\"",
            &["files.system[0]", "absolute path without"],
        ),
        (
            "\"/usr\"",
            "\"\"",
            &["files.system[0]", "absolute path without"],
        ),
        (
            "\"/usr\"",
            "\"${workspace}\"",
            &["files.system[0]", "absolute path without"],
        ),
        (
            "\"/usr\"",
            "\"/\"",
            &["files.system[0]", "`/` cannot be granted", "everything"],
        ),
        (
            "\"/usr\"",
            "\"/proc\"",
            &["files.system[0]", "`/proc` cannot be granted"],
        ),
        (
            "\"/usr\"",
            "\"/proc/self\"",
            &["files.system[0]", "`/proc/self` cannot be granted"],
        ),
        (
            "\"/usr\"",
            "\"/sys/fs\"",
            &["files.system[0]", "`/sys/fs` cannot be granted"],
        ),
        (
            "\"/usr\"",
            "\"/dev\"",
            &["files.system[0]", "`/dev` cannot be granted"],
        ),
        (
            "\"/usr\"",
            "\"/dev/null\"",
            &["`files.system`", "names `/dev/null` twice"],
        ),
        (
            "\"write-file\"",
            "\"write\"",
            &[
                "files.system[1]",
                "`/dev/null` is writable",
                "`files.named`",
            ],
        ),
        (
            "\"/srv/data\"",
            "\"/run\"",
            &["files.named[0]", "`/run` cannot be granted"],
        ),
        (
            "\"/srv/data\"",
            "\"${workspace}/../x\"",
            &["files.named[0]", "absolute path without"],
        ),
        (
            "\"/srv/data\"",
            "\"${workspace}x\"",
            &["files.named[0]", "absolute path without"],
        ),
        (
            "\"/srv/data\"",
            "\"/x/${workspace}\"",
            &["files.named[0]", "absolute path without"],
        ),
        (
            "\"/srv/data\"",
            "\"$HOME/x\"",
            &["files.named[0]", "absolute path without"],
        ),
        (
            "\"/srv/data\"",
            "\"/usr\"",
            &["`files` grants `/usr` read-only below the writable `/usr`"],
        ),
        (
            "path = \"/usr\"",
            "path = \"/srv/data/bin\"",
            &["`/srv/data/bin` read-only below the writable `/srv/data`"],
        ),
        (
            "\"/srv/data\"",
            "\"${workspace}\"",
            &["`files.named`", "names `${workspace}` twice"],
        ),
        (
            "\"${workspace}\"",
            "\"/srv/data/in\"",
            &["files.named[1]", "`if_bound`", "only `${workspace}`"],
        ),
        (
            "if_bound = true }]",
            "if_bound = true, create = true }]",
            &[
                "files.named[1]",
                "`create`",
                "use it only with access \"write-file\"",
            ],
        ),
        (
            "\"/srv/data\", access = \"write\"",
            "\"/srv\", access = \"all\"",
            &["files.named[0].access", "`all`"],
        ),
        (
            "if_bound = true",
            "maybe = true",
            &["files.named[1]", "unknown field `maybe`"],
        ),
        ("\"time\"]", "]", &["`axes` does not name `time`"]),
        (
            "\"metadata\",",
            "\"metadata\", \"time\",",
            &["`axes` names `time` twice"],
        ),
        (
            "\"metadata\",",
            "\"metadata\", \"magic\",",
            &["axes.wanted[1]", "`magic`"],
        ),
        ("[\"/usr/bin\"]", "[]", &["`environment.path` is empty"]),
        (
            "[\"/usr/bin\"]",
            "[\"bin\"]",
            &["`environment.path` `bin` must be an absolute path"],
        ),
        (
            "[\"/usr/bin\"]",
            "[\"/a:b\"]",
            &["`environment.path` has `/a:b`"],
        ),
        ("HOOK_*", "HOOK-*", &["`environment.allow` has `HOOK-*`"]),
        ("HOOK_*", "*", &["`environment.allow` has `*`"]),
        ("HOOK_*", "A*B", &["`environment.allow` has `A*B`"]),
        (
            "HOOK_*",
            "LD_*",
            &["`environment.allow` has `LD_*`", "no profile can open"],
        ),
        (
            "HOOK_*",
            "PYTHONPATH",
            &[
                "`environment.allow` has `PYTHONPATH`",
                "no profile can open",
            ],
        ),
        (
            "HOOK_*",
            "HOME",
            &["`environment.allow` has `HOME`", "no profile can open"],
        ),
        (
            "LANG",
            "LD_PRELOAD",
            &["`environment.set.LD_PRELOAD` is not for profiles to set"],
        ),
        (
            "LANG",
            "BASH_ENV",
            &["`environment.set.BASH_ENV` is not for profiles to set"],
        ),
        (
            "LANG",
            "PATH",
            &["`environment.set.PATH` is not for profiles to set"],
        ),
        ("LANG", "\"a b\"", &["`environment.set.a b` is not a name"]),
        (
            "\"C\"",
            "\"C\\u0000\"",
            &["`environment.set.LANG` contains a NUL byte"],
        ),
        (
            "default = \"60s\"",
            "default = \"11m\"",
            &["`time.default` is 11m, more than `time.maximum` (10m)"],
        ),
        (
            "default = \"60s\"",
            "default = \"0s\"",
            &["`time.default` is zero"],
        ),
        (
            "default = \"60s\"",
            "default = 60",
            &["`time.default`", "invalid type: integer"],
        ),
        (
            "default = \"60s\"",
            "default = \"60\"",
            &["`time.default`", "`60` is not a duration"],
        ),
        ("default = \"60s\"", "", &["`time.default` is missing"]),
        (
            "output = 1024",
            "output = \"1kB\"",
            &["`limits.output`", "a size"],
        ),
        (
            "output = 1024",
            "output = \"none\"",
            &["`limits.output`", "cannot be `none`"],
        ),
        (
            "output = 1024",
            "outputs = 1024",
            &["limits.outputs", "unknown field `outputs`"],
        ),
        (
            "address_space = \"none\"",
            "address_space = 0",
            &["`limits.address_space` is 0"],
        ),
        (
            "open_files = 256",
            "open_files = 3",
            &["`limits.open_files` is below 16"],
        ),
        (
            "output = 1024",
            "output = 1024\nscratch = \"63KiB\"",
            &["`limits.scratch` is not between 64KiB and 1024GiB"],
        ),
        (
            "output = 1024",
            "output = 1024\nscratch = \"1025GiB\"",
            &["`limits.scratch` is not between 64KiB and 1024GiB"],
        ),
        (
            "output = 1024",
            "output = 1024\nscratch = \"1MiB\"\nscratch_files = 0",
            &["`limits.scratch_files` is not between 1"],
        ),
        (
            "output = 1024",
            "output = 1024\nscratch_files = 8",
            &["`limits.scratch_files` is set without `limits.scratch`"],
        ),
        ("tasks = 64", "tasks = 0", &["`limits.tasks` is 0"]),
        ("tasks = 64", "", &["`limits.tasks` is missing"]),
        (
            "\"scratch\"",
            "\"workspace\"",
            &["`working_dir` is \"workspace\"", "without `if_bound`"],
        ),
        (
            "working_dir = \"scratch\"",
            "",
            &["`working_dir` is missing"],
        ),
        (
            "network = \"none\"",
            "network = \"all\"",
            &["`network`", "`all`"],
        ),
        ("\"a profile\"", "\" \"", &["`description` is blank"]),
        (
            "\"a profile\"",
            "\"a\\nb\"",
            &["`description` has more than one line"],
        ),
        (
            "description = \"a profile\"",
            "",
            &["missing field `description`"],
        ),
        (
            "spawn = ",
            "magic = 1\nspawn = ",
            &["`magic`", "unknown field `magic`"],
        ),
        ("spawn = ", "spawn ", &["not TOML"]),
    ];
    for (old, new, expected) in cases {
        assert_eq!(
            WHOLE.matches(old).count(),
            1,
            "`{old}` must stand for one place"
        );
        let error = resolve(&WHOLE.replace(old, new)).expect_err(new);
        let text = chain(&error);
        for part in expected {
            assert!(
                text.contains(part),
                "`{old}` → `{new}`: {part:?} is not in {text:?}"
            );
        }
    }
}

#[test]
fn a_scratch_directory_has_the_nearest_limits_and_no_number_of_files_without_a_size() {
    let limits = |parent: &str, child: &str| {
        let parent = WHOLE.replace("tasks = 64", &format!("tasks = 64\n{parent}"));
        let child = format!("description = \"a child\"\nextends = \"parent\"\n[limits]\n{child}");
        let file = ProfileFile::parse(&child).unwrap();
        let file = file.with_parent(ProfileFile::parse(&parent).unwrap());
        let policy = file.resolve(name(), &References::default()).unwrap();
        // As it is written back, it is the same profile.
        let again = ProfileFile::parse(&policy.to_toml()).unwrap();
        let again = again.resolve(name(), &References::default()).unwrap();
        assert_eq!(again.limits, policy.limits);
        assert_eq!(again.digest, policy.digest);
        let limits = policy.limits.scratch;
        limits.map(|limits| (limits.bytes, limits.files))
    };
    let both = "scratch = \"1MiB\"\nscratch_files = 8";
    assert_eq!(limits("", ""), None);
    assert_eq!(limits("scratch = \"1MiB\"", ""), Some((1 << 20, 256)));
    assert_eq!(limits(both, ""), Some((1 << 20, 8)));
    assert_eq!(limits(both, "scratch = \"2MiB\""), Some((2 << 20, 8)));
    assert_eq!(limits(both, "scratch_files = 9"), Some((1 << 20, 9)));
    assert_eq!(limits(both, "scratch = \"none\""), None);
}

#[test]
fn a_child_replaces_values_and_adds_to_lists() {
    let child = r#"
        description = "a child"
        extends = "parent"
        spawn = "processes"
        axes.required = ["memory"]
        environment.allow = ["TZ"]
        environment.path = ["/bin"]
        environment.set = { LANG = "de_DE.UTF-8", TZ = "UTC" }
        files.named = [{ path = "${workspace}", access = "execute" }]
        files.system = [{ path = "/lib64", access = "execute", optional = true }]
        limits.tasks = 8
        time.maximum = "5m"
    "#;
    let expected = WHOLE
        .replace("threads", "processes")
        .replace("\"memory\", ", "")
        .replace("required = [", "required = [\"memory\", ")
        .replace("[\"HOOK_*\"]", "[\"HOOK_*\", \"TZ\"]")
        .replace("[\"/usr/bin\"]", "[\"/usr/bin\", \"/bin\"]")
        .replace(
            "{ LANG = \"C\" }",
            "{ LANG = \"de_DE.UTF-8\", TZ = \"UTC\" }",
        )
        .replace("access = \"read\", if_bound = true", "access = \"execute\"")
        .replace(
            "system = [",
            "system = [{ path = \"/lib64\", access = \"execute\", optional = true }, ",
        )
        .replace("tasks = 64", "tasks = 8")
        .replace("10m", "5m");

    let file = ProfileFile::parse(child)
        .unwrap()
        .with_parent(ProfileFile::parse(WHOLE).unwrap());
    let policy = file.resolve(name(), &References::default()).unwrap();

    assert_eq!(policy.description, "a child");
    assert_eq!(policy.digest, resolve(&expected).unwrap().digest);
}

#[test]
fn the_digest_follows_what_is_said_and_not_how() {
    let digest = |text: &str| resolve(text).unwrap().digest;
    let same = [
        WHOLE.replace("a profile", "another description"),
        WHOLE
            .replace("\"60s\"", "\"1m\"")
            .replace("\"64MiB\"", "67108864"),
        WHOLE.replace(
            "\"read\", \"write\", \"execute\"",
            "\"execute\", \"read\", \"write\"",
        ),
        WHOLE.replace("# ", "## "),
    ];
    let other = [
        WHOLE.replace("\"C\"", "\"C.UTF-8\""),
        WHOLE.replace(", if_bound = true", ""),
        WHOLE.replace("\"anyone\"", "\"operator\""),
        WHOLE.replace("tasks = 64", "tasks = 65"),
        WHOLE.replace("\"read\", if_bound", "\"execute\", if_bound"),
    ];
    for text in same {
        assert_eq!(digest(&text), digest(WHOLE), "{text}");
    }
    for text in other {
        assert_ne!(digest(&text), digest(WHOLE), "{text}");
    }
}

#[test]
fn the_resolved_text_is_a_profile_of_the_same_meaning() {
    let policy = resolve(WHOLE).unwrap();

    let again = resolve(&policy.to_toml()).unwrap();

    assert_eq!(again.digest, policy.digest);
    assert_eq!(again.description, policy.description);
    assert_eq!(again.to_toml(), policy.to_toml());
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in ".{0,200}") {
        // Only that it returns counts here.
        drop(resolve(&text));
    }

    #[test]
    fn a_granted_path_reads_back_as_it_is_written(text in "[/a.${}wrkspce]{0,24}") {
        if let Ok(path) = absolute(&text) {
            let plain: PathBuf = path.components().collect();
            proptest::prop_assert_eq!(plain.to_str(), Some(text.as_str()));
        }
    }
}

fn resolve(text: &str) -> Result<Policy, ProfileCause> {
    ProfileFile::parse(text)?.resolve(name(), &References::default())
}

fn name() -> ProfileName {
    ProfileName::parse("example").unwrap()
}

fn chain(error: &ProfileCause) -> String {
    let source = error.source().map(ToString::to_string).unwrap_or_default();
    format!("{error}: {source}")
}

#[test]
fn a_profile_that_redacts_hands_that_on_and_one_that_is_silent_keeps_its_digest() {
    let redacts = |text: &str| resolve(text).unwrap().redact_output;
    let section = |value: &str| format!("{WHOLE}\n[output]\nredact = {value}\n");
    assert!(!redacts(WHOLE) && redacts(&section("true")) && !redacts(&section("false")));
    let parent = || ProfileFile::parse(&section("true")).unwrap();
    let child = |text: &str| {
        let file = ProfileFile::parse(&format!("description = \"a child\"\n{text}")).unwrap();
        let name = ProfileName::parse("child").unwrap();
        file.with_parent(parent())
            .resolve(name, &References::default())
            .unwrap()
            .redact_output
    };
    assert!(child("") && !child("[output]\nredact = false"));

    let digest = |text: &str| resolve(text).unwrap().digest;
    assert_eq!(digest(WHOLE), digest(&section("false")));
    assert_ne!(digest(WHOLE), digest(&section("true")));
    assert!(!resolve(WHOLE).unwrap().to_toml().contains("[output]"));
}
