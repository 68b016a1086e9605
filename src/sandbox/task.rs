//! What a sandbox is ordered to start.

use std::{path::Path, time::Instant};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{Opened, Prepared};
use crate::{
    consent::Program,
    model::Peer,
    policy::{Policy, environment::Variables},
};

/// A hook to be started: what was decided about it.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Who asked for it.
    pub(crate) caller: Peer,
    /// Calls its start off when cancelled.
    pub(crate) cancel: &'a CancellationToken,
    /// When it ends at the latest.
    pub(crate) deadline: Instant,
    /// What it finds in its environment.
    pub(crate) environment: &'a Variables,
    /// The files it reaches.
    pub(crate) opened: &'a Opened,
    /// What it may do.
    pub(crate) policy: &'a Policy,
    /// By what means that is enforced.
    pub(crate) prepared: &'a Prepared,
    /// The program, opened.
    pub(crate) program: &'a Program,
    /// Where it starts; `None` = in its scratch directory.
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "mounts and containers alone are told a path")
    )]
    pub(crate) starts_in: Option<&'a Path>,
    /// What is written to its stdin.
    pub(crate) stdin: &'a Bytes,
}
