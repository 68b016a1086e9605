//! `hookjail interpret`: the meanings of hooks' ends, one JSON object a line.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use hookjail_client::{Failure, output};
use hookjail_contract::{ExternalEnd, Mode, Reading, read};

use super::{Context, success};

/// The longest line that is read, bytes.
const LINE: u64 = 64 * 1024 * 1024;

/// Interpret ends of hooks that ran elsewhere by their contract; run nothing.
///
/// Each line of the input is one JSON object.
/// An example: `{"id": "x", "contract": "reyn", "mode": "shell_push", "point": "turn_end",
/// "ends": [{"name": "h", "exit_code": 0, "stdout": "…"}]}`.
/// The output has one line for each, in the same order.
#[derive(Debug, Args)]
pub(super) struct InterpretArgs {
    /// The file with the lines; `-` is stdin
    #[arg(default_value = "-")]
    file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InputLine {
    #[serde(default)]
    id: Value,
    contract: String,
    point: String,
    #[serde(default)]
    mode: String,
    #[serde(default)]
    config: Map<String, Value>,
    ends: Vec<ExternalEnd>,
}

impl InterpretArgs {
    pub(super) fn run(self, _context: &Context) -> Result<ExitCode, Failure> {
        let input: Box<dyn Read> = if self.file.as_os_str() == "-" {
            Box::new(io::stdin())
        } else {
            let opened = File::open(&self.file);
            Box::new(opened.map_err(|error| {
                Failure::new(format!("cannot read `{}`: {error}", self.file.display()))
            })?)
        };
        let mut input = BufReader::new(input);
        let mut all_read = true;
        loop {
            let mut line = Vec::new();
            let mut limited = (&mut input).take(LINE);
            if limited.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if !line.ends_with(b"\n") && limited.limit() == 0 {
                return Err(Failure::new(format!("a line is longer than {LINE} bytes")));
            }
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let answer = answer(&line);
            all_read &= answer.error.is_none();
            output::json_line(&answer);
        }
        // The exit code reports whether all lines were read.
        Ok(success(all_read))
    }
}

/// The answer to one line.
#[derive(Serialize)]
struct OutputLine {
    id: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    reading: Option<Reading>,
}

/// Answers one line.
fn answer(line: &[u8]) -> OutputLine {
    let (id, reading) = match serde_json::from_slice::<InputLine>(line) {
        Ok(line) => (line.id.clone(), reading(line)),
        Err(error) => {
            // The id of an invalid line is still returned if the line is JSON.
            let value: Value = serde_json::from_slice(line).unwrap_or_default();
            let id = value.get("id").cloned().unwrap_or_default();
            (id, Err(error.to_string()))
        }
    };
    let (error, reading) = match reading {
        Ok(reading) => (None, Some(reading)),
        Err(error) => (Some(error), None),
    };
    OutputLine { id, error, reading }
}

fn reading(line: InputLine) -> Result<Reading, String> {
    let mode = Mode::parse(&line.contract, &line.mode).map_err(|error| error.to_string())?;
    // Without ends, the settings would not be checked.
    mode.entry(&line.config)
        .map_err(|error| error.to_string())?;
    let of_all = |end: ExternalEnd| ExternalEnd {
        config: line.config.clone().into_iter().chain(end.config).collect(),
        ..end
    };
    let ends: Vec<_> = line.ends.into_iter().map(of_all).collect();
    read(mode, &line.point, &ends).map_err(|error| error.to_string())
}
