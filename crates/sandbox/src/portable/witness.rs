//! `hookjail witness`: the program that `sandbox-exec` executes tests its confinement, reports the result, and executes the
//! program of the order that it then receives.

use std::{fs::File, io, os::fd::RawFd, path::PathBuf, process::ExitCode};

use crate::seatbelt::witness::{Seen, attend};
use hookjail_sys as sys;

/// Name of the subcommand.
pub(crate) const COMMAND: &str = "witness";

/// Arguments that the witness needs before the order names the hook.
#[derive(Debug, clap::Args)]
pub struct Witness {
    /// The descriptor to read the order from
    order: RawFd,
    /// The descriptor to report by
    report: RawFd,
    /// A file that must open
    granted: PathBuf,
    /// A file that must not
    denied: PathBuf,
}

impl Witness {
    /// Executes the order; returns only if that failed.
    pub fn run(&self) -> ExitCode {
        // The daemon gets end-of-file after the messages so far, which means that nothing was executed.
        drop(self.attend());
        ExitCode::FAILURE
    }

    fn attend(&self) -> io::Result<()> {
        let order = File::from(sys::inherited(self.order)?);
        let report = File::from(sys::inherited(self.report)?);
        let seen = Seen::look(&self.granted, &self.denied);
        attend(seen, order, report, |order| {
            sys::execute(&order.program, &order.argv, &order.environment)
        })
    }
}
