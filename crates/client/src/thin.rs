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

use hookjail_sys::{give_last_answer_after, hold_no_signals};

use crate::{
    Context, Everywhere, FAILED, RunArgs, RunArguments, output, run_as, shell_prefix::ShellLine,
    usual,
};

/// The name of the full program.
pub const WHOLE: &str = "hookjail";
/// The name of the program that only stands in for hooks.
pub const THIN: &str = "hookjail-run";

/// Stands in for a hook as `hookjail run` does with the same arguments.
///
/// A call that needs more than a daemon, such as a rehearsal or an invalid command line, is passed to the `hookjail`
/// next to this program.
pub fn stand_in(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    let words: Vec<_> = words.into_iter().collect();
    hookjail_sys::with_stack(|| start(words.clone()))
}

fn start(mut words: Vec<OsString>) -> ExitCode {
    if let [_, word] = &words[..]
        && ["--version", "-V"].iter().any(|version| word == version)
    {
        output::text(&format!("{THIN} {}\n", env!("CARGO_PKG_VERSION")));
        return ExitCode::SUCCESS;
    }
    let name_words = words.len().min(1);
    let line = ShellLine::taken(&words);
    match &line {
        Some(line) => words = line.words(),
        None => words.insert(name_words, "run".into()),
    }
    // First: any failure in a hook's place must block from here on.
    let post = run_as::ReplacedHook::taken(&words);
    if let Some(line) = line
        && let Some(ended) = line.run_if_no_hook()
    {
        return ended;
    }
    if post.is_some()
        && let Some((run, everywhere)) = parsed(&words, name_words)
        && let Some(ended) = run.stand_in(&Context::new(everywhere))
    {
        return ended;
    }
    let error = become_whole(&words[name_words..]);
    let message = format!("cannot start `{WHOLE}`, which must lie next to `{THIN}`: {error}");
    match post {
        Some(post) => post.refuse(&message),
        None => {
            output::stderr(&format!("hookjail: {message}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Parses the words of a program that begin with its name, if there is one, and `run`; `None` where they are invalid.
fn parsed(words: &[OsString], name_words: usize) -> Option<(Box<RunArgs>, Everywhere)> {
    let usual = words.get(name_words + 1..).and_then(usual::read);
    if let Some(run) = usual {
        return Some((Box::new(run), Everywhere::default()));
    }
    let arguments = RunArguments::try_parse_from(words);
    arguments.ok().map(RunArguments::into_parts)
}

/// Returns the full program: this one, or the one next to the thin one.
pub fn whole() -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    Ok(if program.file_name().is_some_and(|name| name == THIN) {
        program.with_file_name(WHOLE)
    } else {
        program
    })
}

/// Replaces this process by the full program; returns the error if that fails.
fn become_whole(words: &[OsString]) -> io::Error {
    let program = match whole() {
        Ok(program) => program,
        Err(error) => return error,
    };
    // The pending timer and blocked signals would survive `execve`.
    give_last_answer_after(None);
    hold_no_signals();
    Command::new(program).args(words).exec()
}
