//! Profiles of the default directory, and a file that cannot be loaded: that profile is not served, all others are.

use std::{fs, process::Output};

use hookjail::pb;

use crate::{
    install::Home,
    reload::reload,
    support::{Daemon, Setup, hook, reason, sh},
    witness::json,
};

const BROKEN: &str = "description = \"x\"\nextends = \"workspace-rw\"\nnetwrok = \"none\"\n";
const DIRECTORY: &str = ".config/hookjail/profiles";

fn request_with(profile: &str) -> pb::ExecuteRequest {
    pb::ExecuteRequest {
        profile: profile.to_owned(),
        ..hook(["/bin/true"])
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn a_profile_whose_file_is_broken_is_refused_with_file_and_cause_and_all_others_are_served() {
    let extends = |parent: &str| format!("description = \"x\"\nextends = \"{parent}\"\n");
    let daemon = Daemon::with(Setup {
        profiles: [
            ("workspace-ro", BROKEN.to_owned()),
            ("child", extends("workspace-ro")),
            ("grandchild", extends("child")),
            ("good", extends("strict")),
        ]
        .map(|(name, text)| (name.to_owned(), text))
        .into(),
        ..Setup::default()
    })
    .await;

    daemon.run(request_with("good")).await.unwrap();
    daemon.run(sh("pipeline", "true")).await.unwrap();
    let file = daemon.path().join("profiles/workspace-ro.toml");
    let cause = format!("`{}`, line 3: ", file.display());
    // The shipped profile of that name serves nothing in its place.
    for profile in ["workspace-ro", "child", "grandchild"] {
        let refused = daemon.run(request_with(profile)).await.unwrap_err();
        assert_eq!(reason(&refused), "PROFILE_UNKNOWN", "{profile}");
        let message = refused.message();
        assert!(message.contains(&cause), "{profile}: {message}");
        assert!(message.contains("netwrok"), "{profile}: {message}");
    }
    assert!(daemon.log().contains("a profile is not served"));

    // One more that is broken and was not served changes nothing for the others.
    fs::write(daemon.path().join("profiles/more.toml"), BROKEN).unwrap();
    assert!(reload(&daemon)["error"].is_null());
    daemon.run(request_with("good")).await.unwrap();
    // One that is served stays as it was.
    fs::write(daemon.path().join("profiles/good.toml"), BROKEN).unwrap();
    assert_eq!(reload(&daemon)["error"]["reason"], "RELOAD_REFUSED");
    daemon.run(request_with("good")).await.unwrap();
    fs::write(daemon.path().join("profiles/good.toml"), extends("strict")).unwrap();
    fs::write(&file, extends("strict")).unwrap();
    assert!(reload(&daemon)["error"].is_null());
    daemon.run(request_with("grandchild")).await.unwrap();
}

#[test]
fn profiles_beside_the_usual_configuration_are_read_unless_it_names_other_directories() {
    let home = Home::new();
    let file = format!("{DIRECTORY}/mine.toml");
    home.write(&file, "description = \"Mine.\"\nextends = \"strict\"\n");
    let shows = || home.hookjail(&["profile", "show", "mine"]).status.success();
    assert!(shows());
    home.write(".config/hookjail/hookjail.toml", "[profiles]\ndirs = []\n");
    assert!(!shows());
    home.write(".config/hookjail/hookjail.toml", "");
    assert!(shows());
    // The directory is held to the same as one that is named.
    let directory = home.path(DIRECTORY);
    fs::set_permissions(
        &directory,
        std::os::unix::fs::PermissionsExt::from_mode(0o777),
    )
    .unwrap();
    let refused = home.hookjail(&["profile", "show", "strict"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(stderr(&refused).contains("chmod go-w"), "{refused:?}");
}

#[test]
fn a_broken_file_is_named_with_its_line_where_profiles_are_checked() {
    let home = Home::new();
    let broken = format!("{DIRECTORY}/mine.toml");
    let other = format!("{DIRECTORY}/other.toml");
    home.write(&broken, BROKEN);
    home.write(&other, "extends = \"mine\"\ndescription = \"x\"\n");
    let named = format!("`{}`, line 3: ", home.path(&broken).display());

    let directory = home.path(DIRECTORY).display().to_string();
    let validated = home.hookjail(&["profile", "validate", &directory]);
    assert_eq!(validated.status.code(), Some(125));
    let all = stderr(&validated);
    let child = format!("`{}`, line 1: ", home.path(&other).display());
    assert!(all.contains(&named) && all.contains(&child), "{all}");

    let listed = home.hookjail(&["profile", "list"]);
    assert!(listed.status.success() && stderr(&listed).contains(&named));

    let examined = home.hookjail(&["--json", "doctor", "--profile", "mine"]);
    assert_eq!(examined.status.code(), Some(1), "{examined:?}");
    let reason = json(&examined)["profiles"][0]["reason"].clone();
    assert!(reason.as_str().unwrap().starts_with(&named), "{reason}");

    let run = |profile| {
        let words = ["run", "--private", "--profile", profile, "--", "/bin/true"];
        home.hookjail(&words)
    };
    assert!(run("strict").status.success());
    let refused = run("mine");
    assert!(!refused.status.success());
    assert!(stderr(&refused).contains(&named), "{refused:?}");
}
