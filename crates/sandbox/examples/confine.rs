//! Runs a command under the profile `pipeline`, without a daemon, a journal or a consent:
//! `cargo run -p hookjail-sandbox --example confine -- /bin/sh -c 'cat; cat /etc/shadow; echo x >/tmp/x'`.

#![cfg(target_os = "linux")]

use std::{
    env,
    error::Error,
    ffi::OsString,
    io::{self, Write},
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use hookjail_base::model::{Peer, ProfileName};
use hookjail_policy::{Registry, environment::Variables};
use hookjail_sandbox::{
    BackendName, End, HookTask, OwnUids, Sandbox, SandboxParts, backend,
    process::Supervision,
    program::{OpenedFor, Program, digest::DigestCache},
    rootfs::View,
};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let argv: Vec<OsString> = env::args_os().skip(1).collect();
    let registry = Registry::builtin()?;
    let profile = ProfileName::parse("pipeline")
        .and_then(|name| registry.find(&name))
        .ok_or("no such profile")?;
    let directory = tempfile::tempdir()?;
    let landlock =
        backend(BackendName::LANDLOCK, None, OwnUids::NONE, None).ok_or("no Landlock")?;
    // No journal records its start, so `()` stands for the record.
    let sandbox = Sandbox::<()>::new(SandboxParts::in_directory(
        directory.path(),
        vec![landlock],
    )?)?;
    // A backend that did not prove itself under this profile is an error here.
    let selected = sandbox.select(profile, &profile.digest).await?;
    let path = argv
        .first()
        .ok_or("name a program by its absolute path")?
        .into();
    let opened = Program::open(
        path,
        &argv,
        &[],
        None,
        OpenedFor::Oneself,
        View::new(None, &profile.files),
    )?;
    let task = HookTask {
        caller: &Peer::oneself(),
        cancel: &CancellationToken::new(),
        deadline: Instant::now() + Duration::from_secs(10),
        environment: &Variables::default(),
        opened: &sandbox.open_system(profile)?,
        policy: profile,
        prepared: &selected.prepared,
        program: &opened.hash(&DigestCache::default(), &AtomicBool::new(false))?,
        session: "",
        stdin: &"{}\n".into(),
        workspace: None,
    };
    let ended = sandbox
        .start(task, &())
        .await?
        .finish(Supervision::until(task.deadline))
        .await?;
    let End::Ran(ran) = ended.end else {
        return Err("the command was not executed".into());
    };
    io::stdout().write_all(&ran.stdout.head)?;
    io::stderr().write_all(&ran.stderr.head)?;
    Ok(())
}
