//! The format of one line: sealing it and reading it back.

use std::{borrow::Cow, io::Write};

use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use hookjail_base::model::visible_json;

use super::{record::Record, verify::ChainBreak};

/// The largest line, newline included. Larger ones are neither written nor read.
pub const MAX_LINE_BYTES: usize = 8 << 20;

/// The last record of a chain.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Head {
    /// Its hash, lower-case hex.
    pub hash: String,
    /// Its number, from 1; 0 = no record.
    pub sequence: u64,
}

impl Head {
    /// Returns the head of a chain that has no record yet.
    pub fn genesis() -> Self {
        Self {
            hash: "0".repeat(HASH_BYTES),
            sequence: 0,
        }
    }

    /// Renders the record that follows this one, newline included, and the head it makes.
    pub fn seal(&self, instance: &str, record: &Record) -> serde_json::Result<(Vec<u8>, Self)> {
        let sequence = self.sequence + 1;
        let mut line = Vec::with_capacity(4096);
        let (time, previous) = (Timestamp::now(), &self.hash);
        write!(line, r#"{{"sequence":{sequence},"time":"{time:.9}","instance":"{instance}","previous":"{previous}""#)
            .map_err(serde_json::Error::io)?;
        let body = line.len();
        line.extend_from_slice(visible_json(&serde_json::to_string(record)?).as_bytes());
        // A record is a JSON object and never empty, since it has its kind: its opening brace becomes the comma, and
        // its closing one is dropped for the hash.
        line[body] = b',';
        line.pop();
        let hash = sha256(&line);
        line.extend_from_slice(HASH_KEY);
        line.extend_from_slice(hash.as_bytes());
        line.extend_from_slice(b"\"}\n");
        Ok((line, Self { hash, sequence }))
    }
}

/// The fields of a record that link it to its chain and identify its run.
#[derive(Debug, Deserialize)]
pub struct Link<'a> {
    /// The hash at the end of the line, which is no field of the record.
    #[serde(skip)]
    pub hash: String,
    /// The writer.
    #[serde(borrow)]
    pub instance: Cow<'a, str>,
    /// The hash of the record before.
    #[serde(borrow)]
    pub previous: Cow<'a, str>,
    /// The kind of record.
    #[serde(borrow)]
    pub record: Cow<'a, str>,
    /// The run that the record describes.
    #[serde(borrow, default)]
    pub run_id: Option<Cow<'a, str>>,
    /// The number of the record.
    pub sequence: u64,
    /// The writer that started the run, in a record of an interrupted one.
    #[serde(borrow, default)]
    pub started_by: Option<Cow<'a, str>>,
}

impl<'a> Link<'a> {
    /// Reads a line, without its newline, and checks its hash.
    pub fn read(line: &'a [u8]) -> Result<Self, ChainBreak> {
        let (sealed, rest) = line
            .len()
            .checked_sub(TAIL_BYTES)
            .map(|index| line.split_at(index))
            .ok_or(ChainBreak::Malformed)?;
        let claimed = rest
            .strip_prefix(HASH_KEY)
            .and_then(|rest| rest.strip_suffix(b"\"}"))
            .ok_or(ChainBreak::Malformed)?;
        let hash = sha256(sealed);
        if claimed != hash.as_bytes() {
            return Err(ChainBreak::Edited);
        }
        let link: Self = serde_json::from_slice(line).map_err(|_| ChainBreak::Malformed)?;
        Ok(Self { hash, ..link })
    }

    /// Returns the head this record makes.
    pub fn head(&self) -> Head {
        Head {
            hash: self.hash.clone(),
            sequence: self.sequence,
        }
    }
}

/// Returns a SHA-256 in lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

const HASH_BYTES: usize = 64;
const HASH_KEY: &[u8] = b",\"hash\":\"";
const TAIL_BYTES: usize = HASH_KEY.len() + HASH_BYTES + b"\"}".len();
