//! Witness: proves from inside that a run is under its profile.
//!
//! `sandbox-exec` executes this program first, which tests its confinement and reports the result, and only then
//! receives the hook.
//!
//! There is one pipe for each direction. The witness sends the canaries' results ([`Seen`]), then [`NOW`] right before
//! the exec, and the errno of a failed one. The daemon sends the [`Order`], which can be encoded only with a [`Proof`].
//! Both pipes are close-on-exec: end-of-file of the first means that the hook runs.

use std::{
    ffi::CString,
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

/// First bytes of a report; another version of the format has others.
const BEGIN: [u8; 4] = *b"hj-1";

/// Message right before the exec.
const NOW: [u8; 4] = *b"exec";

/// Result of opening the two canaries under the profile: 0, or the errno.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seen {
    /// Result for the canary that no profile grants.
    pub denied: i32,
    /// Result for the canary that every profile grants.
    pub granted: i32,
}

impl Seen {
    /// Encoded length, bytes.
    pub const LENGTH: usize = 12;

    /// Maximum length of all later messages, bytes.
    pub const AFTER: usize = 8;

    /// Tries to open both canaries.
    pub fn look(granted: &Path, denied: &Path) -> Self {
        let open = |path| File::open(path).map_or_else(|e| e.raw_os_error().unwrap_or(-1), |_| 0);
        Self {
            denied: open(denied),
            granted: open(granted),
        }
    }

    /// Encodes the result.
    pub fn encode(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..4].copy_from_slice(&BEGIN);
        bytes[4..8].copy_from_slice(&self.granted.to_le_bytes());
        bytes[8..].copy_from_slice(&self.denied.to_le_bytes());
        bytes
    }

    /// Decodes the result; `None` if these are not a report's bytes.
    pub fn decode(bytes: [u8; Self::LENGTH]) -> Option<Self> {
        let (begin, errnos) = bytes.split_first_chunk()?;
        let (granted, denied) = errnos.split_first_chunk()?;
        (*begin == BEGIN).then_some(Self {
            denied: i32::from_le_bytes(denied.try_into().ok()?),
            granted: i32::from_le_bytes(*granted),
        })
    }
}

/// Proof that the confinement of one run was observed from inside it.
#[derive(Debug)]
pub struct Proof {
    denied: Errno,
}

impl Proof {
    /// Evaluates the observed results.
    ///
    /// # Errors
    ///
    /// Returns the first result that differs from those under a profile.
    pub fn new(seen: Seen) -> Result<Self, Unproved> {
        if seen.granted != 0 {
            return Err(Unproved::Closed(Errno::from_raw(seen.granted)));
        }
        let denied = Errno::from_raw(seen.denied);
        if seen.denied == 0 {
            Err(Unproved::Open)
        } else if matches!(denied, Errno::EACCES | Errno::EPERM) {
            Ok(Self { denied })
        } else {
            Err(Unproved::Otherwise(denied))
        }
    }

    /// Returns the errno by which the ungranted canary was refused.
    pub const fn denied(&self) -> Errno {
        self.denied
    }

    /// Encodes an order for the pipe.
    ///
    /// # Errors
    ///
    /// Returns the error of writing JSON.
    pub fn release(&self, order: &Order) -> io::Result<Vec<u8>> {
        Ok(serde_json::to_vec(order)?)
    }
}

/// Why a run's confinement or start is not proved.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unproved {
    /// The granted canary did not open.
    #[error("the granted canary did not open: {0}")]
    Closed(Errno),
    /// The message was not a valid one.
    #[error("the report from inside is not of this version of hookjail")]
    Garbled,
    /// The ungranted canary opened.
    #[error("the ungranted canary opened")]
    Open,
    /// The ungranted canary failed to open, but was not refused.
    #[error("the ungranted canary was not refused, it failed to open: {0}")]
    Otherwise(Errno),
    /// No message arrived.
    #[error("the process ended before it sent a report")]
    #[cfg_attr(
        all(target_os = "linux", not(test)),
        expect(dead_code, reason = "nothing is started under Seatbelt here")
    )]
    Silent,
    /// No further message arrived after the order.
    #[error("the process ended before the hook was executed")]
    Undone,
}

/// The program to execute once the confinement is proved.
#[derive(Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Order {
    /// Arguments, the program's name among them.
    pub argv: Vec<CString>,
    /// Environment, `NAME=value`.
    ///
    /// Sent in the order because other users can read arguments, and because it must not affect `sandbox-exec` or this
    /// program.
    pub environment: Vec<CString>,
    /// Path of the program.
    pub program: CString,
}

/// Decodes all messages after the order. `Err` inside is the errno where the program could not be executed.
///
/// # Errors
///
/// Fails where the witness did not reach the exec.
pub fn outcome(after: &[u8]) -> Result<Result<(), Errno>, Unproved> {
    let Some(rest) = after.strip_prefix(&NOW) else {
        return Err(if after.is_empty() {
            Unproved::Undone
        } else {
            Unproved::Garbled
        });
    };
    if rest.is_empty() {
        return Ok(Ok(()));
    }
    let errno = rest.try_into().map_err(|_| Unproved::Garbled)?;
    Ok(Err(Errno::from_raw(i32::from_le_bytes(errno))))
}

/// Runs the inner side: reports the result, waits for the order and executes it. Returns only where nothing was executed.
///
/// # Errors
///
/// Fails where there was no order, or it could not be read.
pub fn attend(
    seen: Seen,
    mut order: impl Read,
    mut report: impl Write,
    execute: impl FnOnce(&Order) -> Errno,
) -> io::Result<()> {
    report.write_all(&seen.encode())?;
    let mut bytes = Vec::new();
    order.read_to_end(&mut bytes)?;
    let order: Order = serde_json::from_slice(&bytes)?;
    report.write_all(&NOW)?;
    let errno = execute(&order);
    report.write_all(&(errno as i32).to_le_bytes())
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Cursor, os::unix::fs::PermissionsExt};

    use super::*;

    const CONFINED: Seen = Seen {
        denied: libc::EPERM,
        granted: 0,
    };

    fn order() -> Order {
        let text = |bytes: &[u8]| CString::new(bytes).unwrap();
        Order {
            argv: vec![text(b"sh"), text(b""), text(b"\xff \"\n")],
            environment: vec![text(b"A=b=c"), text(b"E=")],
            program: text(b"/bin/sh"),
        }
    }

    fn attend_bytes(
        bytes: &[u8],
        execute: impl FnOnce(&Order) -> Errno,
    ) -> (io::Result<()>, Vec<u8>) {
        let mut report = Vec::new();
        let attended = attend(CONFINED, Cursor::new(bytes), &mut report, execute);
        (attended, report)
    }

    #[test]
    fn only_a_refused_and_an_opened_canary_are_a_proof() {
        for denied in [libc::EACCES, libc::EPERM] {
            let proof = Proof::new(Seen { denied, granted: 0 }).unwrap();
            assert_eq!(proof.denied() as i32, denied);
        }
        let cases = [
            ((0, 0), Unproved::Open),
            ((0, libc::ENOENT), Unproved::Otherwise(Errno::ENOENT)),
            ((0, -1), Unproved::Otherwise(Errno::UnknownErrno)),
            ((libc::EPERM, libc::EPERM), Unproved::Closed(Errno::EPERM)),
            ((libc::ENOENT, 0), Unproved::Closed(Errno::ENOENT)),
        ];
        for ((granted, denied), why) in cases {
            assert_eq!(Proof::new(Seen { denied, granted }).unwrap_err(), why);
        }
    }

    #[test]
    fn what_was_seen_is_read_as_it_was_written_and_nothing_else_is() {
        let seen = Seen {
            denied: libc::EACCES,
            granted: -1,
        };
        assert_eq!(Seen::decode(seen.encode()), Some(seen));
        assert_eq!(Seen::decode([0; Seen::LENGTH]), None);
        let mut other = CONFINED.encode();
        other[3] = b'2';
        assert_eq!(Seen::decode(other), None);
    }

    #[test]
    fn what_is_seen_is_what_opens() {
        let directory = tempfile::tempdir().unwrap();
        let (opens, missing) = (directory.path().join("a"), directory.path().join("b"));
        fs::write(&opens, "").unwrap();
        let seen = Seen::look(&opens, &missing);
        assert_eq!((seen.granted, seen.denied), (0, libc::ENOENT));
        fs::set_permissions(&opens, fs::Permissions::from_mode(0o000)).unwrap();
        let is_refused = Seen::look(&missing, &opens).denied == libc::EACCES;
        // Root opens files that others may not.
        assert!(is_refused || nix::unistd::geteuid().is_root());
    }

    #[test]
    fn an_order_is_carried_out_as_it_was_given() {
        let proof = Proof::new(CONFINED).unwrap();
        let bytes = proof.release(&order()).unwrap();
        let mut carried_out = false;
        let (attended, report) = attend_bytes(&bytes, |executed| {
            assert_eq!(*executed, order());
            carried_out = true;
            Errno::ENOEXEC
        });
        attended.unwrap();
        assert!(carried_out);
        let (seen, after) = report.split_first_chunk().unwrap();
        assert_eq!(Seen::decode(*seen), Some(CONFINED));
        assert_eq!(outcome(after), Ok(Err(Errno::ENOEXEC)));
        assert_eq!(after.len(), Seen::AFTER);
        // The rest after an exec: the pipe is closed before there is an errno.
        assert_eq!(outcome(&after[..NOW.len()]), Ok(Ok(())));
    }

    #[test]
    fn without_a_whole_order_nothing_is_executed() {
        let whole = Proof::new(CONFINED).unwrap().release(&order()).unwrap();
        for bytes in [&[][..], &whole[..whole.len() - 1], b"{}"] {
            let (attended, report) = attend_bytes(bytes, |_| panic!("executed"));
            attended.unwrap_err();
            assert_eq!(report, CONFINED.encode());
            assert_eq!(outcome(&report[Seen::LENGTH..]), Err(Unproved::Undone));
        }
    }

    #[test]
    fn what_is_cut_short_or_too_long_is_no_outcome() {
        let failed = [&NOW[..], &libc::ENOENT.to_le_bytes()].concat();
        assert_eq!(outcome(&failed), Ok(Err(Errno::ENOENT)));
        let longer = [&failed[..], b"x"].concat();
        for after in [&failed[..7], &NOW[..3], &failed[4..], b"exes", &longer] {
            assert_eq!(outcome(after), Err(Unproved::Garbled), "{after:?}");
        }
    }
}
