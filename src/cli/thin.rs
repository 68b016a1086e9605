//! `hookjail-run`: `hookjail run --as RUNTIME` as a small program. A runtime starts one for each hook, and a large program takes
//! longer to start than to call a daemon.

use std::{
    env,
    ffi::OsString,
    io,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, ExitCode},
};

use clap::Parser;

use super::{Context, FAILED, RunAlone, RunArguments, output, run_as};
use crate::sys::{give_last_answer_after, hold_no_signals};

/// The program that does all of it.
pub(super) const WHOLE: &str = "hookjail";
/// The one that stands in for hooks alone.
pub(super) const THIN: &str = "hookjail-run";

/// Stands in for a hook as `hookjail run` does with the same words. What takes more than a daemon that listens or can be started,
/// such as a rehearsal or words that are wrong, is left to the `hookjail` that lies beside this program.
pub fn stand_in(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut words: Vec<_> = words.into_iter().collect();
    let own = words.len().min(1);
    words.insert(own, "run".into());
    // First of all: whatever breaks in a hook's place must be a no there.
    let post = run_as::ReplacedHook::taken(&words);
    let parsed = RunArguments::try_parse_from(&words);
    if let (Ok(arguments), Some(_)) = (parsed, &post) {
        let RunAlone::Run(run) = arguments.command;
        if let Some(ended) = run.stand_in(&Context::of(arguments.everywhere)) {
            return ended;
        }
    }
    let error = become_whole(&words[own..]);
    let message = format!("cannot start `{WHOLE}`, which is to lie beside `{THIN}`: {error}");
    match post {
        Some(post) => post.refuse(&message),
        None => {
            output::stderr(&format!("hookjail: {message}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Returns the full program: this one, or the one beside the thin one.
pub(super) fn whole() -> io::Result<PathBuf> {
    let own = env::current_exe()?;
    Ok(if own.file_name().is_some_and(|name| name == THIN) {
        own.with_file_name(WHOLE)
    } else {
        own
    })
}

/// Has this process go on as another program; returns why it could not.
fn become_whole(words: &[OsString]) -> io::Error {
    let program = match whole() {
        Ok(program) => program,
        Err(error) => return error,
    };
    // What ends this process in a while would end that one too, and what is held back would stay so.
    give_last_answer_after(None);
    hold_no_signals();
    Command::new(program).args(words).exec()
}
