//! Reads `[audit]`: files, durability and captured texts of the journal.

use std::{ops::RangeInclusive, time::Duration};

use serde::{Deserialize, de::IntoDeserializer};

use hookjail_base::util::units::Span;
use hookjail_journal::{
    Capture,
    append::{Fsync, Settings},
};

use super::{
    ConfigProblem,
    file::{AuditEntry, CaptureChoice},
};

impl AuditEntry {
    pub(super) fn read(self) -> Result<Settings, ConfigProblem> {
        let fsync = match self.fsync.as_str() {
            "always" => Fsync::Always,
            "never" => Fsync::Never,
            interval => {
                let interval: Result<_, serde::de::value::Error> =
                    Span::deserialize(interval.into_deserializer());
                let interval = interval
                    .ok()
                    .filter(|Span(span)| FSYNC_EVERY.contains(span));
                let problem = "must be `always`, `never` or a duration of 10ms to 1h";
                Fsync::Every(
                    interval
                        .ok_or_else(|| ConfigProblem::key("audit.fsync", problem))?
                        .0,
                )
            }
        };
        if !ROTATE_BYTES.contains(&self.rotate_bytes.0) {
            return Err(ConfigProblem::key(
                "audit.rotate_bytes",
                "must be 64KiB to 1TiB",
            ));
        }
        Ok(Settings {
            fsync,
            keep_files: self.keep_files,
            rotate_bytes: self.rotate_bytes.0,
        })
    }
}

/// The range of sync intervals.
const FSYNC_EVERY: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);

/// The range of sizes of a journal's file.
const ROTATE_BYTES: RangeInclusive<u64> = (64 << 10)..=(1 << 40);

pub(super) fn capture(written: &AuditEntry) -> Result<Capture, ConfigProblem> {
    let max_bytes = usize::try_from(written.capture_max.0)
        .ok()
        .filter(|bytes| (256..=256 * 1024).contains(bytes))
        .ok_or_else(|| ConfigProblem::key("audit.capture_max", "must be 256B to 256KiB"))?;
    let keeps = |text| written.capture.contains(&text);
    Ok(Capture {
        event: keeps(CaptureChoice::Event),
        max_bytes,
        stderr: keeps(CaptureChoice::Stderr),
        stdout: keeps(CaptureChoice::Stdout),
    })
}
