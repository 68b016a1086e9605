//! Notices of hooks: a program of the operator shows the requests of `notify-send` and of sound players.

#![expect(
    clippy::disallowed_methods,
    reason = "the bare run starts the same script without hookjail"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use hookjail::pb::{self, OutcomeKind};

use crate::{
    metrics::{LISTENER, value},
    support::{Daemon, Setup, directory, unshared_directory},
    witness::{a_minute, end, processes_with, until, until_gone, writing},
};

/// A daemon with the profiles `notifying` and `silent`, and a program that records what it is to show.
struct Site {
    daemon: Daemon,
    shown: PathBuf,
}

impl Site {
    async fn new(place: tempfile::TempDir, program: &str) -> Self {
        Self::with(place, program, "", |program| {
            let command = format!("[notify]\ncommand = [{program:?}, \"--\"]\n");
            (command, Vec::new())
        })
        .await
    }

    /// Starts one with more lines in the profile `notifying`. `set_up` returns lines of the configuration and variables, given the
    /// path of the program.
    async fn with(
        place: tempfile::TempDir,
        program: &str,
        lines: &str,
        set_up: impl FnOnce(&Path) -> (String, Vec<(String, String)>),
    ) -> Self {
        let root = place.path().canonicalize().unwrap();
        let shown = root.join("shown");
        let program = program.replace("SHOWN", &shown.display().to_string());
        let (config, env) = set_up(&fake(&root, &program));
        let secret = root.join("secret");
        fs::write(&secret, "hunter2-hunter2").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let profile =
            |text: &str| format!("description = \"x\"\nextends = \"workspace-rw\"\n{text}");
        let daemon = Daemon::in_directory(
            place,
            Setup {
                config: format!(
                    "{LISTENER}{config}[[secret]]\nname = \"key\"\nfile = {secret:?}\n"
                ),
                env,
                profiles: vec![
                    (
                        "notifying".to_owned(),
                        profile(&format!("notify = true\n{lines}")),
                    ),
                    ("silent".to_owned(), profile("")),
                ],
                ..Setup::default()
            },
        );
        Self {
            daemon: daemon.await.unwrap(),
            shown,
        }
    }

    fn request(&self, profile: &str, script: &str) -> pb::ExecuteRequest {
        let mut request = writing(&self.daemon, script);
        request.hook.as_mut().unwrap().name = "waits.sh".to_owned();
        pb::ExecuteRequest {
            profile: profile.to_owned(),
            ..request
        }
    }

    async fn run(&self, profile: &str, script: &str) -> pb::ExecuteResponse {
        let request = self.request(profile, script);
        self.daemon.run(request).await.unwrap()
    }

    /// Returns the arguments of each notice that was shown: a line for each.
    fn shown(&self) -> String {
        fs::read_to_string(&self.shown).unwrap_or_default()
    }

    async fn until_counted(&self, outcome: &str, count: u32) {
        let sample = format!("hookjail_notices_total{{outcome=\"{outcome}\"}}");
        let count = f64::from(count);
        until(&sample, || value(&self.daemon, &sample) >= count).await;
        assert_eq!(value(&self.daemon, &sample), count, "{sample}");
    }
}

const RECORD: &str = "#!/bin/sh\nprintf '<%s>' \"$@\" >>SHOWN\necho >>SHOWN\n";

/// Writes a program.
fn fake(directory: &Path, text: &str) -> PathBuf {
    let programs = directory.join("bin");
    fs::create_dir_all(&programs).unwrap();
    let program = programs.join("notify-send");
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Returns a daemon in a directory that a view covers, as tests usually have, and one in a directory that none covers.
async fn sites() -> Vec<Site> {
    let mut sites = Vec::new();
    for place in [Some(directory()), unshared_directory()]
        .into_iter()
        .flatten()
    {
        sites.push(Site::new(place, RECORD).await);
    }
    sites
}

/// A script with two notices, and an exit code.
const TWICE: &str = "notify-send -u critical -t 5000 'It waits' \"for you\" && \
                     notify-send --urgency=low \"It's done\" && command -v notify-send >/dev/null && exit 3";

#[tokio::test]
async fn notices_are_shown_in_the_name_of_their_hook_and_change_nothing_else() {
    for site in sites().await {
        let bare = directory();
        let program = fake(bare.path(), "#!/bin/sh\n");
        let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
        let bare = Command::new("/bin/sh")
            .args(["-c", TWICE])
            .env("PATH", path)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let response = site.run("notifying", TWICE).await;
        assert_eq!(bare.status.code(), Some(3));
        assert_eq!(end(&response).1, bare.status.code(), "{response:?}");
        assert_eq!(response.stdout, bare.stdout);
        assert_eq!(response.stderr, bare.stderr);
        site.until_counted("shown", 2).await;
        assert_eq!(
            site.shown(),
            "<--><waits.sh: It waits><for you>\n<--><waits.sh: It's done><>\n"
        );
    }
}

#[tokio::test]
async fn a_sound_is_a_notice_that_names_its_hook() {
    let site = Site::new(directory(), RECORD).await;
    let players = ["afplay", "aplay", "canberra-gtk-play", "paplay", "pw-play"];
    for player in players {
        let response = site
            .run("notifying", &format!("{player} /no/such.oga"))
            .await;
        assert_eq!(end(&response).1, Some(0), "{player}");
    }
    site.until_counted("shown", 5).await;
    let sounds = "<--><waits.sh><plays a sound>\n".repeat(5);
    assert_eq!(site.shown(), sounds);
    // Without a name, the point.
    let mut request = site.request("notifying", "notify-send a");
    request.hook.as_mut().unwrap().name = String::new();
    request.event = Some(pb::Event {
        json: "{}".into(),
        point: "Stop".to_owned(),
        raw: true,
    });
    let response = site.daemon.run(request).await.unwrap();
    assert_eq!(end(&response).1, Some(0), "{response:?}");
    site.until_counted("shown", 6).await;
    assert_eq!(site.shown(), format!("{sounds}<--><Stop: a><>\n"));
}

#[tokio::test]
async fn without_a_command_no_program_that_others_can_change_shows_a_notice() {
    let site = Site::with(directory(), RECORD, "", |program| {
        let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
        let bus = "unix:path=/nonexistent".to_owned();
        let variables = [("PATH", path), ("DBUS_SESSION_BUS_ADDRESS", bus)];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        (String::new(), variables.to_vec())
    })
    .await;
    let response = site
        .run("notifying", "notify-send -u low 'a <b>' '<i>'")
        .await;
    assert_eq!(end(&response).1, Some(0));
    site.until_counted("unserved", 1).await;
    assert_eq!(site.shown(), "");
}

#[tokio::test]
async fn notices_can_be_switched_off_and_scratch_limited() {
    let site = Site::with(
        directory(),
        RECORD,
        "[limits]\nscratch = \"1MiB\"\n",
        |program| {
            (
                format!("[notify]\ncommand = [{program:?}]\nenabled = false\n"),
                Vec::new(),
            )
        },
    )
    .await;
    let response = site.run("notifying", "notify-send a").await;
    assert_eq!(end(&response).1, Some(0), "{response:?}");
    site.until_counted("unserved", 1).await;
    assert_eq!(site.shown(), "");
}

#[tokio::test]
async fn no_registered_secret_is_shown() {
    let site = Site::new(directory(), RECORD).await;
    let long = "x".repeat(95);
    for text in [
        "the key is hunter2-hunter2",
        &format!("{long} hunter2-hunter2"),
    ] {
        let script = format!("notify-send '{text}' '{text}'");
        assert_eq!(end(&site.run("notifying", &script).await).1, Some(0));
    }
    site.until_counted("shown", 2).await;
    let shown = site.shown();
    assert!(
        shown.contains("waits.sh: the key is [") && !shown.contains("hunter"),
        "{shown}"
    );
}

#[tokio::test]
async fn without_the_key_there_are_no_programs_and_no_notices() {
    let site = Site::new(directory(), RECORD).await;
    let script = "for p in aplay notify-send; do command -v $p; done | grep -c /programs/; echo \"$HOOKJAIL_NOTICES|$PATH\"";
    let silent = site.run("silent", script).await;
    let silent = String::from_utf8_lossy(&silent.stdout).into_owned();
    assert!(silent.starts_with("0\n|/"), "{silent}");
    // The positive control, whose `PATH` is longer by one directory, which comes first.
    let notifying = site.run("notifying", script).await;
    let notifying = String::from_utf8_lossy(&notifying.stdout).into_owned();
    let path = |text: &str| text.trim().rsplit('|').next().unwrap().to_owned();
    assert!(notifying.starts_with('2'), "{notifying}");
    let (programs, rest) = path(&notifying)
        .split_once(':')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    assert!(programs.ends_with("/programs"), "{programs}");
    assert_eq!(rest, path(&silent));
    assert_eq!(site.shown(), "");
}

#[tokio::test]
async fn garbage_in_the_pipe_shows_nothing_and_keeps_nothing_waiting() {
    for site in sites().await {
        for (script, code) in [
            // Much, garbage, and a call that promises more arguments than there are.
            ("head -c 8000000 /dev/zero >\"$HOOKJAIL_NOTICES\"", 0),
            ("head -c 8000000 /dev/urandom >\"$HOOKJAIL_NOTICES\"", 0),
            ("printf '9\\0notify-send\\0a\\0' >\"$HOOKJAIL_NOTICES\"", 0),
            ("printf '1\\0/bin/sh\\0a\\0' >\"$HOOKJAIL_NOTICES\"", 0),
            // The pipe and the programs stay unchanged.
            ("rm -f \"$HOOKJAIL_NOTICES\" || exit 7", 7),
            ("ln -sf /etc/hostname \"$HOOKJAIL_NOTICES\" || exit 7", 7),
            (
                "mv \"$HOOKJAIL_NOTICES\" \"$HOOKJAIL_NOTICES.old\" || exit 7",
                7,
            ),
            ("echo x >\"$HOOKJAIL_NOTICES.new\" || exit 7", 7),
            ("echo evil >\"$(command -v notify-send)\" || exit 7", 7),
            // Held open, and by processes that outlive the script.
            ("exec 9<>\"$HOOKJAIL_NOTICES\"; sleep 600 & exit 0", 0),
        ] {
            let script = format!("({script}) 2>/dev/null");
            let began = Instant::now();
            let response = site.run("notifying", &script).await;
            assert_eq!(end(&response).1, Some(code), "{script} {response:?}");
            assert!(began.elapsed() < Duration::from_secs(10), "{script}");
        }
        assert_eq!(site.shown(), "");
        // The daemon is as before.
        let response = site
            .run(
                "notifying",
                "notify-send a; notify-send \"$(head -c 100000 /dev/zero | tr '\\0' x)\"",
            )
            .await;
        assert_eq!(end(&response).1, Some(0), "{response:?}");
        site.until_counted("shown", 1).await;
        assert_eq!(site.shown(), "<--><waits.sh: a><>\n");
    }
}

#[tokio::test]
async fn a_hook_that_goes_on_is_cut_off_and_another_session_is_not() {
    let site = Site::new(directory(), RECORD).await;
    let many = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do notify-send $i || exit 9; done";
    for session in ["one", "one", "two"] {
        let request = pb::ExecuteRequest {
            session_id: session.to_owned(),
            ..site.request("notifying", many)
        };
        let response = site.daemon.run(request).await.unwrap();
        assert_eq!(end(&response), (OutcomeKind::Exited, Some(0), None));
    }
    // Of a run eight, and of a session eight at once; one more may have come since.
    until("the notices of the other session", || {
        site.shown().lines().count() >= 16
    })
    .await;
    let shown = site.shown();
    assert!((16..=18).contains(&shown.lines().count()), "{shown}");
    assert!(!shown.contains(": 9>"), "{shown}");
}

#[tokio::test]
async fn a_program_that_hangs_delays_no_answer_and_is_killed() {
    let marker = a_minute();
    let site = Site::new(
        directory(),
        &format!("#!/bin/sh\nsleep {marker} & sleep {marker}\n"),
    )
    .await;
    let began = Instant::now();
    let response = site.run("notifying", "notify-send a").await;
    assert_eq!(end(&response).1, Some(0));
    assert!(began.elapsed() < Duration::from_secs(4));
    until("its start", || !processes_with(&marker).is_empty()).await;
    site.until_counted("failed", 1).await;
    until_gone(&marker).await;
}

#[tokio::test]
async fn a_notice_of_a_private_run_is_shown_before_its_process_ends() {
    let place = directory();
    let root = place.path().canonicalize().unwrap();
    let shown = root.join("shown");
    let program = fake(
        &root,
        &RECORD.replace("SHOWN", &shown.display().to_string()),
    );
    let config = root.join("hookjail.toml");
    let profile = "description = \"x\"\nextends = \"workspace-rw\"\nnotify = true\n";
    for directory in ["profiles", "workspace"] {
        fs::create_dir(root.join(directory)).unwrap();
        fs::set_permissions(root.join(directory), fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::write(root.join("profiles/notifying.toml"), profile).unwrap();
    let workspace = root.join("workspace");
    let text = format!(
        "[notify]\ncommand = [{program:?}]\n[paths]\nstate = {:?}\nruntime = {:?}\n[profiles]\ndirs = [{:?}]\n[hooks]\nworkspace_roots = [{workspace:?}]\n",
        root.join("state"),
        root.join("run"),
        root.join("profiles"),
    );
    fs::write(&config, text).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    let words = ["run", "--private", "--profile", "notifying", "--workspace"];
    let mut command = crate::witness::hookjail(&config, &words);
    command
        .arg(&workspace)
        .args(["--", "/bin/sh", "-c", "notify-send 'It is done'"]);
    let output = command.env("HOME", &root).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(shown).unwrap(), "<sh: It is done><>\n");
}

mod as_root {
    use super::*;
    use crate::{callers::as_root::client_as, support::needs_root, witness::NOBODY};

    #[tokio::test]
    #[ignore = "needs root"]
    async fn a_hook_that_runs_as_its_caller_has_notices_of_its_own() {
        needs_root();
        let site = Site::with(directory(), RECORD, "", |program| {
            let caller = NOBODY;
            let users = format!("[server]\ncallers = [{caller}]\n[hooks]\nrun_as = \"caller\"\n");
            (
                format!("{users}[notify]\ncommand = [{program:?}]\n"),
                Vec::new(),
            )
        })
        .await;
        let (mut client, _held) = client_as(NOBODY, &site.daemon).await;
        let request = site.request("notifying", "notify-send \"$(id -u)\"");
        let response = client.execute(request).await.unwrap().into_inner();
        assert_eq!(end(&response).1, Some(0), "{response:?}");
        site.until_counted("shown", 1).await;
        assert_eq!(site.shown(), format!("<waits.sh: {NOBODY}><>\n"));
    }
}
