//! `hookjail make-attempts`: the program of a self-test's child reads the attempts, makes them, and reports their results.

use std::{
    io::{self, Read, Write},
    process::ExitCode,
};

use hookjail_sys::Attempt;

/// Name of the subcommand.
pub(crate) const COMMAND: &str = "make-attempts";

/// Makes the attempts that stdin describes and writes their results to stdout.
pub fn run() -> ExitCode {
    match make() {
        Ok(()) => ExitCode::SUCCESS,
        // The daemon sees that there are no results.
        Err(_) => ExitCode::FAILURE,
    }
}

fn make() -> io::Result<()> {
    let mut input = Vec::new();
    io::stdin().read_to_end(&mut input)?;
    let attempts: Vec<Attempt> = serde_json::from_slice(&input)?;
    let results: Vec<isize> = attempts.iter().map(Attempt::make).collect();
    let mut stdout = io::stdout();
    stdout.write_all(&serde_json::to_vec(&results)?)?;
    stdout.flush()
}
