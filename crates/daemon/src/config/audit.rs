//! Reads `[audit]`: files, durability and captured texts of the journal.

use std::{ops::RangeInclusive, time::Duration};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{IntoDeserializer, value::StrDeserializer},
};

use hookjail_base::util::units::{Size, Span};
use hookjail_journal::{
    Capture,
    append::{Fsync, Settings},
};

use super::{
    file::{AuditEntry, CaptureChoice},
    value::{fitting, parsed},
};

/// The range of sync intervals.
const FSYNC_EVERY: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);

/// The range of sizes of a journal's file.
const ROTATE_BYTES: RangeInclusive<u64> = (64 << 10)..=(1 << 40);

/// Returns a number of days as a duration.
const fn days(days: u32) -> Duration {
    Duration::from_secs(24 * 60 * 60).saturating_mul(days)
}

impl AuditEntry {
    /// Returns the settings of the journal.
    pub(crate) const fn settings(&self) -> Settings {
        Settings {
            fsync: self.fsync,
            keep_files: self.keep_files,
            keep_younger: days(self.keep_days),
            rotate_bytes: self.rotate_bytes.0,
        }
    }

    /// Returns the texts that are recorded.
    pub(crate) fn captured(&self) -> Capture {
        let keeps = |text| self.capture.contains(&text);
        Capture {
            event: keeps(CaptureChoice::Event),
            max_bytes: self.capture_max.to_usize(),
            stderr: keeps(CaptureChoice::Stderr),
            stdout: keeps(CaptureChoice::Stdout),
        }
    }
}

pub(super) fn fsync<'de, D: Deserializer<'de>>(from: D) -> Result<Fsync, D::Error> {
    parsed(from, |word: String| match &*word {
        "always" => Ok(Fsync::Always),
        "never" => Ok(Fsync::Never),
        interval => {
            let interval: StrDeserializer<'_, serde::de::value::Error> =
                interval.into_deserializer();
            match Span::deserialize(interval) {
                Ok(Span(interval)) if FSYNC_EVERY.contains(&interval) => Ok(Fsync::Every(interval)),
                Ok(_) | Err(_) => Err("must be `always`, `never` or a duration of 10ms to 1h"),
            }
        }
    })
}

pub(super) fn fsync_word<S: Serializer>(fsync: &Fsync, to_file: S) -> Result<S::Ok, S::Error> {
    match fsync {
        Fsync::Always => to_file.serialize_str("always"),
        Fsync::Every(interval) => Span(*interval).serialize(to_file),
        Fsync::Never => to_file.serialize_str("never"),
    }
}

pub(super) fn rotate_bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
    let fits = |Size(bytes): &Size| ROTATE_BYTES.contains(bytes);
    fitting(from, fits, "must be 64KiB to 1TiB")
}
