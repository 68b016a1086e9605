use std::{
    fs::Permissions,
    os::unix::fs::{PermissionsExt, symlink},
};

use tempfile::TempDir;

use hookjail_base::model::axis::{Axis, Demand};

use super::*;
use crate::{Access, Files, GrantSpec, GrantedBy, HookView, Metadata, Network, Spawn, WorkingDir};

#[test]
fn profiles_beyond_the_hosts_that_are_allowed_are_not_served_and_say_so() {
    let dir = Dir::new();
    for (name, egress) in [
        ("inside", "a.corp.example:443"),
        ("outside", "b.example:443"),
        ("trial", "none.invalid:443"),
    ] {
        let text = format!(
            "description = \"d\"\nextends = \"pipeline\"\ngranted_by = \"operator\"\nnetwork = \"named\"\negress = [\"{egress}\"]\n"
        );
        dir.write(&format!("{name}.toml"), &text);
    }
    let mut registry = dir.load().unwrap();
    registry.keep_within(&["*.corp.example:443".parse().unwrap()]);

    let is_served = |name: &str| registry.find(&ProfileName::parse(name).unwrap()).is_some();
    for (name, expected) in [
        ("inside", true),
        ("outside", false),
        ("trial", true),
        ("develop", true),
        ("develop-online", false),
        ("network", false),
    ] {
        assert_eq!(is_served(name), expected, "{name}");
        assert!(registry.has(&ProfileName::parse(name).unwrap()));
    }
    assert_eq!(
        registry.absence("outside"),
        "profile `outside` cannot be used: `b.example:443` is beyond `egress.allow`; take it out of `egress`"
    );
    assert!(
        registry
            .absence("network")
            .contains("`network = \"outbound\"` is beyond `egress.allow`")
    );
    assert_eq!(registry.broken().count(), 0);
}

#[test]
fn every_shipped_profile_loads() {
    let registry = Registry::builtin().unwrap();

    let names: Vec<&str> = registry.iter().map(|policy| policy.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "develop",
            "develop-online",
            "develop-open-git",
            "network",
            "pipeline",
            "post",
            "strict",
            "workspace-ro",
            "workspace-rw",
            "worktree"
        ]
    );
}

#[test]
fn shipped_profiles_differ_from_strict_in_what_they_are_for() {
    let registry = Registry::builtin().unwrap();
    let settings = |name: &str| {
        let policy = find(&registry, name);
        let named: Vec<(String, Access)> = policy
            .files
            .named
            .iter()
            .map(|grant| (grant.place.to_string(), grant.access))
            .collect();
        let [(place, access)] = named.as_slice() else {
            panic!("{named:?}")
        };
        assert_eq!(place, "${workspace}");
        (
            policy.spawn,
            policy.network,
            policy.metadata,
            policy.granted_by,
            policy.working_dir,
            *access,
        )
    };
    use {Access::*, GrantedBy::*, WorkingDir::*};

    assert_eq!(
        settings("strict"),
        (
            Spawn::Threads,
            Network::None,
            Metadata::Keep,
            Anyone,
            Scratch,
            Read
        )
    );
    assert_eq!(
        settings("pipeline"),
        (
            Spawn::Processes,
            Network::None,
            Metadata::Keep,
            Anyone,
            Scratch,
            Read
        )
    );
    assert_eq!(
        settings("workspace-ro"),
        (
            Spawn::Processes,
            Network::None,
            Metadata::Keep,
            Anyone,
            Workspace,
            Execute
        )
    );
    assert_eq!(
        settings("workspace-rw"),
        (
            Spawn::Processes,
            Network::None,
            Metadata::Change,
            Anyone,
            Workspace,
            Write
        )
    );
    assert_eq!(
        settings("network"),
        (
            Spawn::Processes,
            Network::Outbound,
            Metadata::Keep,
            Operator,
            Scratch,
            Read
        )
    );
}

#[test]
fn strict_requires_every_axis_but_those_a_host_may_lack() {
    let strict = find(&Registry::builtin().unwrap(), "strict");

    let wanted: Vec<Axis> = strict
        .demands
        .iter()
        .filter(|(_, d)| **d == Demand::Wanted)
        .map(|(axis, _)| axis)
        .collect();
    assert_eq!(
        wanted,
        [Axis::Metadata, Axis::Memory, Axis::Pids, Axis::Cpu]
    );
}

#[test]
fn no_shipped_profile_grants_other_processes_users_or_homes() {
    for policy in Registry::builtin().unwrap().iter() {
        for file in ["/proc", "/etc/passwd", "/home/ada", "/etc/shadow", "/tmp"] {
            // Names of users can be read where hooks do the work of one.
            let line = policy.line.iter().map(ProfileName::as_str);
            if file == "/etc/passwd" && line.into_iter().any(|name| name.starts_with("develop")) {
                continue;
            }
            let reached = policy.files.system.iter().any(|grant| match &grant.place {
                GrantPlace::Path(path) => {
                    Path::new(file).starts_with(path) || path.starts_with(file)
                }
                GrantPlace::Entries(_)
                | GrantPlace::Source { .. }
                | GrantPlace::Workspace { .. } => false,
            });
            assert!(!reached, "{} grants {file}", policy.name);
        }
    }
}

#[test]
fn a_resolved_profile_is_a_profile_file_of_the_same_digest() {
    let users = Registry::load(&[], &[], &ada()).unwrap();
    for policy in Registry::builtin().unwrap().iter().chain(users.iter()) {
        let dir = Dir::new();
        dir.write("copy.toml", &policy.to_toml());

        let loaded = Registry::load(&[dir.path()], &[], &ada()).unwrap();
        let copy = find(&loaded, "copy");

        assert_eq!(copy.digest, policy.digest, "{}", policy.name);
    }
}

#[test]
fn a_directory_adds_profiles_and_replaces_shipped_ones() {
    let (first, second) = (Dir::new(), Dir::new());
    first.write(
        "lint.toml",
        "description = \"first\"\nextends = \"workspace-ro\"",
    );
    first.write(
        "strict.toml",
        &find(&Registry::builtin().unwrap(), "strict")
            .to_toml()
            .replace("30m", "5m"),
    );
    first.write("README", "not a profile");
    second.write(
        "lint.toml",
        "description = \"second\"\nextends = \"pipeline\"",
    );

    let registry =
        Registry::load(&[first.path(), second.path()], &[], &References::default()).unwrap();

    assert_eq!(find(&registry, "lint").description, "second");
    for profile in ["strict", "lint", "workspace-rw"] {
        assert_eq!(
            find(&registry, profile).time.maximum.as_secs(),
            300,
            "{profile} follows strict"
        );
    }
}

#[test]
fn a_profile_is_found_by_its_exact_name_only() {
    let registry = Registry::builtin().unwrap();

    assert!(
        registry
            .find(&ProfileName::parse("strict").unwrap())
            .is_some()
    );
    assert!(
        registry
            .find(&ProfileName::parse("stric").unwrap())
            .is_none()
    );
    for never in [
        "../strict",
        "/strict",
        "Strict",
        "ѕtrict",
        "strict\0",
        "strict.toml",
        "",
    ] {
        assert_eq!(ProfileName::parse(never), None, "{never:?}");
    }
}

#[test]
fn what_a_profile_unsets_is_gone_and_can_be_set_again_by_what_extends_it() {
    let dir = Dir::new();
    dir.write(
        "p.toml",
        "description = \"d\"\nextends = \"strict\"\nenvironment.unset = [\"GIT_PAGER\", \"LANG\"]\nenvironment.set.LANG = \"C\"",
    );
    dir.write(
        "q.toml",
        "description = \"d\"\nextends = \"p\"\nenvironment.set.GIT_PAGER = \"more\"",
    );
    let registry = dir.load().unwrap();
    let set = |name: &str, key: &str| find(&registry, name).environment.set.get(key).cloned();
    assert_eq!(set("strict", "GIT_PAGER").as_deref(), Some("cat"));
    assert_eq!(set("p", "GIT_PAGER"), None);
    assert_eq!(set("p", "LANG").as_deref(), Some("C"));
    assert_eq!(set("q", "GIT_PAGER").as_deref(), Some("more"));
}

#[test]
fn programs_that_fetch_are_offline_under_profiles_without_a_network_alone() {
    let dir = Dir::new();
    let profile = "description = \"d\"\nextends = \"develop\"\n";
    dir.write("p.toml", &format!("{profile}network = \"outbound\""));
    dir.write(
        "q.toml",
        &format!("{profile}environment.set.UV_OFFLINE = \"0\"\nenvironment.unset = [\"GOPROXY\"]"),
    );
    let registry = dir.load().unwrap();
    let set = |name: &str, key: &str| find(&registry, name).environment.set.get(key).cloned();
    for key in ["UV_OFFLINE", "npm_config_offline", "GOPROXY"] {
        assert!(set("develop", key).is_some(), "{key}");
        assert_eq!(set("develop-online", key), None);
        assert_eq!(set("p", key), None);
    }
    assert_eq!(set("q", "UV_OFFLINE").as_deref(), Some("0"));
    assert_eq!(set("q", "GOPROXY"), None);
}

#[test]
fn a_place_of_the_daemons_takes_a_shipped_grant_away_and_makes_an_operators_an_error() {
    let forbidden = [PathBuf::from("/opt/daemon/state")];
    let grants = |registry: &Registry| {
        let policy = find(registry, "develop");
        let opt = GrantPlace::Path("/opt".into());
        policy.files.system.iter().any(|grant| grant.place == opt)
    };
    assert!(grants(&Registry::load(&[], &[], &ada()).unwrap()));
    assert!(!grants(&Registry::load(&[], &forbidden, &ada()).unwrap()));

    // By a link of the home, too.
    let home = tempfile::tempdir().unwrap();
    let state = home.path().join(".local/state/hookjail");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::create_dir(home.path().join("go")).unwrap();
    std::os::unix::fs::symlink(&state, home.path().join("go/bin")).unwrap();
    let references = References {
        cache: None,
        home: Some(home.path().to_owned()),
    };
    for (forbidden, grants) in [(vec![], true), (vec![state], false)] {
        let registry = Registry::load(&[], &forbidden, &references).unwrap();
        let policy = find(&registry, "develop");
        let bin = GrantPlace::Path(home.path().join("go/bin"));
        let has = policy.files.system.iter().any(|grant| grant.place == bin);
        assert_eq!(has, grants);
    }

    let dir = Dir::new();
    dir.write(
        "p.toml",
        "description = \"d\"\nextends = \"strict\"\nfiles.system = [{ path = \"/opt/daemon\", access = \"read\", optional = true }]",
    );
    let error = Registry::load(&[dir.path()], &forbidden, &ada()).unwrap_err();
    assert!(
        matches!(error.cause, ProfileCause::Forbidden { .. }),
        "{error:?}"
    );
}

#[test]
fn parents_that_are_missing_or_go_in_circles_are_refused() {
    let cases = [
        (vec![("a", "nowhere")], "`extends` names `nowhere`"),
        (vec![("a", "../strict")], "`extends` names `../strict`"),
        (vec![("a", "a")], "`a` → `a`"),
        (
            vec![("a", "b"), ("b", "c"), ("c", "a")],
            "`a` → `b` → `c` → `a`",
        ),
        (
            vec![("a", "b"), ("b", "c"), ("c", "b")],
            "`a` → `b` → `c` → `b`",
        ),
        (
            vec![("strict", "pipeline")],
            "`extends` goes round in a circle",
        ),
    ];
    for (files, expected) in cases {
        let dir = Dir::new();
        for (child, parent) in files {
            dir.write(
                &format!("{child}.toml"),
                &format!("description = \"d\"\nextends = \"{parent}\""),
            );
        }
        let error = dir.load().unwrap_err();
        assert!(
            error.cause.to_string().contains(expected),
            "{expected}: {}",
            error.cause
        );
    }
}

#[test]
fn parts_are_put_on_top_of_the_profile_that_is_named_before_them() {
    let dir = Dir::new();
    dir.write(
        "one.toml",
        "description = \"d\"\npart = true\nnetwork = \"outbound\"\nlimits.tasks = 7\nenvironment.allow = [\"ONE\"]",
    );
    dir.write(
        "two.toml",
        "description = \"d\"\npart = true\nlimits.tasks = 8\nlimits.open_files = 99",
    );
    dir.write(
        "whole.toml",
        "description = \"whole\"\nextends = [\"pipeline\", \"one\", \"two\"]\nlimits.open_files = 100",
    );
    dir.write("child.toml", "description = \"child\"\nextends = \"whole\"");

    let registry = dir.load().unwrap();

    for name in ["whole", "child"] {
        let policy = find(&registry, name);
        assert_eq!(policy.description, name);
        assert_eq!(policy.spawn, Spawn::Processes);
        assert_eq!(policy.network, Network::Outbound);
        assert_eq!((policy.limits.tasks, policy.limits.open_files), (8, 100));
        assert!(policy.environment.allow.contains(&"ONE".to_owned()));
    }
    // Whose backends are whose: parts are none of its line.
    let line = find(&registry, "child").line;
    let line: Vec<_> = line.iter().map(ProfileName::as_str).collect();
    assert_eq!(line, ["child", "whole", "pipeline", "strict"]);
    assert!(registry.find(&ProfileName::parse("one").unwrap()).is_none());
}

#[test]
fn the_profile_of_posts_has_the_hosts_of_the_configuration() {
    let hosts = ["b.example:443", "127.0.0.1:8080 http"].map(|it| it.parse().unwrap());
    let post = ProfileName::parse("post").unwrap();
    let network = ProfileName::parse("network").unwrap();
    let filled = |registry: &mut Registry, hosts: &[Egress], can_name: bool| {
        registry.post_to(&post, hosts, |_| can_name, &network);
    };
    let shipped = Registry::builtin().unwrap();
    let reaches = |registry: &Registry| {
        let policy = find(registry, "post");
        let texts = policy.egress.allowed.iter().map(ToString::to_string);
        (policy.network, texts.collect::<Vec<_>>())
    };
    assert_eq!(
        reaches(&shipped),
        (Network::Named, vec!["none.invalid:443".to_owned()])
    );

    let mut named = shipped.clone();
    filled(&mut named, &hosts, true);
    let texts = ["127.0.0.1:8080 http", "b.example:443"].map(ToOwned::to_owned);
    assert_eq!(reaches(&named), (Network::Named, texts.to_vec()));
    let policy = find(&named, "post");
    assert_eq!(policy.egress.source, HostSource::HttpAllow);
    assert_ne!(policy.digest, find(&shipped, "post").digest);
    assert_eq!(find(&shipped, "develop").egress.source, HostSource::Profile);

    let mut elsewhere = shipped.clone();
    filled(&mut elsewhere, &hosts, false);
    assert_eq!(reaches(&elsewhere), (Network::Outbound, Vec::new()));
    assert_eq!(find(&elsewhere, "post").line, find(&shipped, "post").line);

    let mut without = shipped.clone();
    filled(&mut without, &[], true);
    assert!(without.find(&post).is_none() && without.has(&post));
    assert!(
        without
            .absence("post")
            .ends_with("name URLs in `http.allow`")
    );

    // One of the operator's that reaches all hosts stays.
    let dir = Dir::new();
    dir.write(
        "post.toml",
        "description = \"d\"\nextends = \"network\"\ngranted_by = \"operator\"",
    );
    let mut registry = dir.load().unwrap();
    filled(&mut registry, &hosts, true);
    assert_eq!(reaches(&registry), (Network::Outbound, Vec::new()));
}

#[test]
fn a_variable_stands_for_one_secret_url() {
    let request = |secret: &str| {
        format!(
            "[[requests]]\nurl = \"https://hooks.example/\"\nsecret = {secret:?}\nvariable = \"HOOK_URL\"\n"
        )
    };
    let stand_in = "[environment.set]\nHOOK_URL = \"http://hooks.example/hookjail/a\"\n";
    let other = "[environment.set]\nHOOK_URL = \"http://hooks.example/hookjail/b\"\n";
    let (a, b) = (&*request("a"), &*request("b"));
    for (texts, is_one) in [
        ([a, a], true),
        ([a, stand_in], true),
        ([a, b], false),
        ([a, other], false),
    ] {
        let dir = Dir::new();
        dir.write(
            "posts.toml",
            &format!(
                "description = \"d\"\nextends = \"pipeline\"\ngranted_by = \"operator\"\nnetwork = \"named\"\n{}",
                texts.concat()
            ),
        );
        let loaded = dir.load();
        assert_eq!(loaded.is_ok(), is_one, "{texts:?}: {loaded:?}");
        if let Err(error) = loaded {
            let message = error.cause.to_string();
            assert!(
                message.starts_with("`requests.variable` names `HOOK_URL`"),
                "{message}"
            );
        }
    }
}

#[test]
fn parts_with_hosts_add_up_and_replace_no_network() {
    let dir = Dir::new();
    dir.write(
        "posts.toml",
        "description = \"d\"\nextends = [\"develop\", \"certificates\", \"github\", \"otel-local\"]\ngranted_by = \"operator\"\n\
         egress = [\"hooks.slack.com:443\"]",
    );
    let policy = find(&dir.load().unwrap(), "posts");
    assert_eq!(policy.network, Network::Named);
    let egress: Vec<_> = policy
        .egress
        .allowed
        .iter()
        .map(ToString::to_string)
        .collect();
    for host in [
        "hooks.slack.com:443",
        "api.github.com:443",
        "127.0.0.1:4318 http",
    ] {
        assert!(egress.iter().any(|it| it == host), "{host}: {egress:?}");
    }
    assert_eq!(egress.len(), 14);
    let options = policy.environment.set.get("RES_OPTIONS");
    assert_eq!(options.map(String::as_str), Some("use-vc ndots:0"));
    // Hidden names and closed transcripts are those of any network.
    let online = find(&dir.load().unwrap(), "develop-online");
    assert_eq!(policy.files.hidden, online.files.hidden);
    assert!(policy.files.transcripts.is_empty());
}

#[test]
fn parts_and_profiles_that_stand_where_they_cannot_are_refused() {
    let part = "description = \"d\"\npart = true";
    for (file, text, expected) in [
        ("a", "extends = \"p\"", "`p`, which is a part"),
        ("a", "extends = [\"p\"]", "`p`, which is a part"),
        (
            "a",
            "extends = [\"strict\", \"pipeline\"]",
            "`pipeline`, which is a profile",
        ),
        (
            "a",
            "extends = [\"strict\", \"none\"]",
            "`extends` names `none`",
        ),
        (
            "a",
            "extends = [\"strict\", \"p\", \"p\"]",
            "names `p` twice",
        ),
        ("a", "part = true\nextends = \"strict\"", "stands in a part"),
        // Though nothing extends it.
        ("a", "part = true\nlimits.tasks = 0", "`limits.tasks` is 0"),
        ("strict", "part = true", "`axes` does not name"),
    ] {
        let dir = Dir::new();
        dir.write("p.toml", part);
        dir.write(
            &format!("{file}.toml"),
            &format!("description = \"d\"\n{text}"),
        );
        let error = dir.load().unwrap_err();
        assert!(
            error.cause.to_string().contains(expected),
            "{text}: {}",
            error.cause
        );
    }
}

/// Returns a user with a home and a cache.
fn ada() -> References {
    References {
        cache: Some("/home/ada/.cache/hookjail".into()),
        home: Some("/home/ada".into()),
    }
}

#[test]
fn references_stand_for_places_of_the_user_and_fall_away_where_there_is_none() {
    let dir = Dir::new();
    dir.write(
        "p.toml",
        r#"
        description = "d"
        extends = "strict"
        environment = { home = "user", path = ["${home}/bin"], set = { A = "${cache}/a", B = "b" } }
        [files]
        named = [{ path = "${home}/notes", access = "write", optional = true }, { path = "${cache}", access = "write" }]
        system = [{ path = "${home}/bin", access = "execute", optional = true }]
        "#,
    );

    let registry = Registry::load(&[dir.path()], &[], &ada()).unwrap();
    let policy = find(&registry, "p");
    let named: Vec<_> = policy.files.named.iter().collect();
    let named: Vec<_> = named
        .iter()
        .map(|it| (it.place.to_string(), it.optional))
        .collect();
    assert_eq!(
        named,
        [
            ("/home/ada/.cache/hookjail".to_owned(), false),
            ("/home/ada/notes".to_owned(), true),
            ("${workspace}".to_owned(), false),
        ]
    );
    let has_bin = |policy: &Policy| {
        let mut system = policy.files.system.iter();
        system.any(|it| it.place == GrantPlace::Path("/home/ada/bin".into()) && it.optional)
    };
    assert!(has_bin(&policy));
    let environment = &policy.environment;
    assert_eq!(environment.home.as_deref(), Some(Path::new("/home/ada")));
    assert_eq!(environment.path.last().unwrap(), Path::new("/home/ada/bin"));
    assert_eq!(environment.set["A"], "/home/ada/.cache/hookjail/a");

    let nobodys = find(&dir.load().unwrap(), "p");
    assert_eq!(nobodys.files.named.len(), 1);
    assert!(!has_bin(&nobodys));
    assert_eq!(nobodys.environment.home, None);
    assert!(!nobodys.environment.path.contains(&"/home/ada/bin".into()));
    assert!(!nobodys.environment.set.contains_key("A"));
    assert_eq!(nobodys.environment.set["B"], "b");
    assert_ne!(nobodys.digest, policy.digest);
}

#[test]
fn what_keeps_keys_is_granted_by_no_reference() {
    for (path, access, expected) in [
        ("${home}", "read", "keys, tokens"),
        ("${home}/.ssh", "read", "keys, tokens"),
        ("${home}/.ssh/config", "read", "keys, tokens"),
        ("${home}/.config", "read", "keys, tokens"),
        ("${home}/.bashrc", "write-file", "run or obey"),
        ("${home}/.local/bin", "write", "run or obey"),
        ("${home}/../eve", "read", "must be an absolute path"),
        ("${home}/", "read", "keys, tokens"),
        ("${homes}/x", "read", "must be an absolute path"),
    ] {
        let dir = Dir::new();
        dir.write(
            "p.toml",
            &format!(
                "description = \"d\"\nextends = \"strict\"\nfiles.named = [{{ path = \"{path}\", access = \"{access}\" }}]"
            ),
        );
        let loaded = Registry::load(&[dir.path()], &[], &ada());
        let ProfileCause::Key { source, .. } = loaded.unwrap_err().cause else {
            panic!("{path}");
        };
        assert!(source.to_string().contains(expected), "{path}: {source}");
    }
}

#[test]
fn no_shipped_profile_reaches_keys_and_none_writes_what_others_run() {
    let registry = Registry::load(&[], &[], &ada()).unwrap();
    for policy in registry.iter() {
        let files = policy.files.system.iter().chain(&policy.files.named);
        let reached = |path: &str, is: fn(&GrantSpec) -> bool| {
            let path = Path::new("/home/ada").join(path);
            let mut granted = files.clone().filter(|it| is(it));
            granted.any(|it| matches!(&it.place, GrantPlace::Path(of) if path.starts_with(of)))
        };
        for key in [
            ".ssh/id_ed25519",
            ".claude/settings.json",
            ".claude.json",
            ".cargo/credentials.toml",
            ".npmrc",
            ".codex/auth.json",
        ] {
            assert!(!reached(key, |_| true), "{}: {key}", policy.name);
        }
        for run in [
            ".bashrc",
            ".local/bin/tool",
            ".cargo/bin/cargo",
            ".nvm/nvm.sh",
            ".gitconfig",
            ".claude/hooks/guard.sh",
        ] {
            let writes = reached(run, |it| !it.access.is_read_only());
            assert!(!writes, "{}: {run}", policy.name);
        }
    }
    let develop = find(&registry, "develop");
    assert_eq!(develop.granted_by, GrantedBy::Operator);
    assert_eq!(develop.files.read_only.len(), 2);
    let (online, network) = (
        find(&registry, "develop-online"),
        find(&registry, "network"),
    );
    assert_eq!(online.granted_by, GrantedBy::Operator);
    assert_eq!(
        (develop.network, online.network),
        (Network::None, Network::Outbound)
    );
    assert_eq!(online.files.read_only, develop.files.read_only);
    let all = [&*develop.files.system, &*network.files.system].concat();
    assert!(all.iter().all(|grant| online.files.system.contains(grant)));
    assert!(online.files.system.iter().all(|grant| all.contains(grant)));
    let open = find(&registry, "develop-open-git");
    let but_for_git = Policy {
        description: open.description.clone(),
        digest: open.digest.clone(),
        line: open.line.clone(),
        files: Files {
            hidden: Vec::new(),
            read_only: Vec::new(),
            unchanged: Vec::new(),
            // They are shown by views alone.
            state: open.files.state.clone(),
            ..develop.files.clone()
        },
        name: open.name.clone(),
        notify: false,
        state: None,
        view: HookView::Machine,
        ..develop.clone()
    };
    assert_eq!(format!("{open:?}"), format!("{but_for_git:?}"));
}

#[test]
fn the_error_names_the_file() {
    let dir = Dir::new();
    dir.write("bad.toml", "description = 1");

    let error = dir.load().unwrap_err();

    assert_eq!(
        error.to_string(),
        format!(
            "cannot load profile `{}`, line 1",
            dir.path().join("bad.toml").display()
        )
    );
    assert_eq!(error.cause.to_string(), "`description` cannot be read");
}

#[test]
fn a_broken_file_is_told_in_one_line_without_its_text() {
    for (text, line, cause) in [
        (
            "description = \"d\"\nextends = [",
            2,
            "the file is not TOML",
        ),
        ("description = \"d\"\nsecret = 7\n", 2, "secret"),
        ("description = \"d\"\nextends = \"none\"\n", 2, "`none`"),
        (
            "description = \"d\"\nextends = \"strict\"\n\n[files]\nnamed = [{ path = \"x/y\", access = \"read\" }]\n",
            5,
            "`files.named",
        ),
    ] {
        let dir = Dir::new();
        let file = dir.write("bad.toml", text);
        dir.write("good.toml", "description = \"d\"\nextends = \"strict\"");

        let loaded = Registry::load_with(&[dir.path()], &[], &[], &References::default()).unwrap();

        find(&loaded, "good");
        let all: Vec<_> = loaded.broken().collect();
        let [("bad", why)] = all[..] else {
            panic!("{all:?}")
        };
        let begin = format!("`{}`, line {line}: ", file.display());
        assert!(why.starts_with(&begin) && why.contains(cause), "{why}");
        assert!(!why.contains(['\n', '|', '\0']), "{why}");
    }
}

#[test]
fn what_takes_the_place_of_a_broken_file_is_used() {
    let (first, second) = (Dir::new(), Dir::new());
    let proposed = [(
        "one".to_owned(),
        "description = \"d\"\nextends = \"strict\"".to_owned(),
    )];
    for dir in [&first, &second] {
        dir.write("one.toml", "description = 1");
    }
    first.write("two.toml", "description = 1");
    second.write("two.toml", "description = \"d\"\nextends = \"strict\"");
    first.write("caches.toml", "part = 1");

    let dirs = [first.path(), second.path()];
    let loaded = Registry::load_with(&dirs, &proposed, &[], &References::default()).unwrap();

    for name in ["one", "two", "strict"] {
        find(&loaded, name);
    }
    // A part is what profiles stand on, too.
    let broken: Vec<_> = loaded.broken().map(|(name, _)| name).collect();
    assert_eq!(
        broken,
        ["caches", "develop", "develop-online", "develop-open-git"]
    );
    let proposed = [("three".to_owned(), "extends = \"caches\"".to_owned())];
    Registry::load_with(&dirs, &proposed, &[], &References::default()).unwrap_err();
}

#[test]
fn a_rule_is_applied_to_what_is_inherited_too() {
    let dir = Dir::new();
    dir.write(
        "bad.toml",
        "description = \"d\"\nextends = \"strict\"\nfiles.named = [{ path = \"/etc\", access = \"write\" }]",
    );

    let error = dir.load().unwrap_err();

    assert!(
        matches!(error.cause, ProfileCause::BelowWritable { .. }),
        "{}",
        error.cause
    );
}

#[test]
fn a_file_name_that_is_no_profile_name_is_refused() {
    for file in ["Upper.toml", "1.toml", "a b.toml", ".toml.toml"] {
        let dir = Dir::new();
        dir.write(file, "description = \"d\"\nextends = \"strict\"");
        assert!(
            matches!(dir.load().unwrap_err().cause, ProfileCause::Name),
            "{file}"
        );
    }
}

#[test]
fn what_others_could_have_written_is_refused() {
    for mode in [0o620, 0o602, 0o666] {
        let dir = Dir::new();
        let file = dir.write("p.toml", "description = \"d\"\nextends = \"strict\"");
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        assert_insecure(dir.load(), "`chmod go-w` it");

        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        dir.load().unwrap();
    }
    for mode in [0o770, 0o707, 0o1777] {
        let dir = Dir::new();
        fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        assert_insecure(dir.load(), "`chmod go-w` it");
    }
}

#[test]
fn links_and_other_things_than_files_are_refused() {
    let elsewhere = Dir::new();
    let file = elsewhere.write("p.toml", "description = \"d\"\nextends = \"strict\"");

    let dir = Dir::new();
    symlink(&file, dir.path().join("p.toml")).unwrap();
    assert_insecure(dir.load(), "not a regular file");

    let dir = Dir::new();
    fs::create_dir(dir.path().join("p.toml")).unwrap();
    assert_insecure(dir.load(), "not a regular file");

    let dir = Dir::new();
    nix::unistd::mkfifo(&dir.path().join("p.toml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_insecure(dir.load(), "not a regular file");

    let dir = Dir::new();
    symlink(elsewhere.path(), dir.path().join("profiles")).unwrap();
    assert_insecure(
        Registry::load(&[dir.path().join("profiles")], &[], &References::default()),
        "not a directory",
    );
}

#[test]
fn a_file_longer_than_any_profile_is_refused_and_not_cut() {
    let dir = Dir::new();
    let comment = "#".repeat(1 << 20);
    dir.write(
        "p.toml",
        &format!("description = \"d\"\nextends = \"strict\"\n{comment}"),
    );

    let error = dir.load().unwrap_err();

    assert!(
        matches!(error.cause, ProfileCause::Unreadable(_)),
        "{}",
        error.cause
    );
}

#[test]
fn a_directory_that_does_not_exist_is_refused() {
    let dir = Dir::new();

    let error =
        Registry::load(&[dir.path().join("none")], &[], &References::default()).unwrap_err();

    assert!(
        matches!(error.cause, ProfileCause::Unreadable(_)),
        "{}",
        error.cause
    );
}

#[test]
fn a_grant_that_reaches_the_daemons_own_is_refused() {
    let daemon = Dir::new();
    let state = daemon.path().join("state");
    fs::create_dir(&state).unwrap();
    symlink(&state, daemon.path().join("alias")).unwrap();
    fs::create_dir(daemon.path().join("beside")).unwrap();

    for (grant, reaches) in [
        ("", true),
        ("state", true),
        ("state/journal", true),
        ("alias", true),
        ("beside", false),
    ] {
        let dir = Dir::new();
        let path = daemon.path().join(grant).components().collect::<PathBuf>();
        dir.write(
            "p.toml",
            &format!(
                "description = \"d\"\nextends = \"strict\"\nfiles.named = [{{ path = \"{}\", access = \"read\" }}]",
                path.display()
            ),
        );

        let loaded = Registry::load(
            &[dir.path()],
            std::slice::from_ref(&state),
            &References::default(),
        );

        match loaded {
            Ok(_) => assert!(!reaches, "{grant}"),
            Err(ProfileError {
                cause:
                    ProfileCause::Forbidden {
                        forbidden,
                        grant: named,
                    },
                ..
            }) => {
                assert!(reaches, "{grant}");
                assert_eq!((forbidden, named), (state.clone(), path));
            }
            Err(other) => panic!("{grant}: {}", other.cause),
        }
    }
}

/// A directory of profiles that only its user can write.
struct Dir(TempDir);

impl Dir {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        Self(dir)
    }

    fn path(&self) -> PathBuf {
        // Where the temporary directory is itself behind a link, the forbidden path is reported as it was given.
        self.0.path().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        path
    }

    fn load(&self) -> Result<Registry, ProfileError> {
        Registry::load(&[self.path()], &[], &References::default())
    }
}

fn find(registry: &Registry, name: &str) -> Policy {
    registry
        .find(&ProfileName::parse(name).unwrap())
        .unwrap()
        .as_ref()
        .clone()
}

#[track_caller]
fn assert_insecure(loaded: Result<Registry, ProfileError>, expected: &str) {
    let cause = loaded.unwrap_err().cause;
    assert!(matches!(cause, ProfileCause::Insecure(_)), "{cause}");
    assert!(cause.to_string().contains(expected), "{cause}");
}

mod as_root {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn a_file_of_another_user_is_refused() {
        assert!(Uid::effective().is_root(), "this test needs root");
        let dir = Dir::new();
        let file = dir.write("p.toml", "description = \"d\"\nextends = \"strict\"");
        std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
        assert_insecure(dir.load(), "neither root nor the daemon's user");

        let dir = Dir::new();
        std::os::unix::fs::chown(dir.path(), Some(65534), None).unwrap();
        assert_insecure(dir.load(), "neither root nor the daemon's user");
    }
}
