//! `hookjail test record`: a case from a run of the journal.

use serde::Serialize;
use serde_json::{Map, Value};

use hookjail_client::{Failure, output};
use hookjail_journal::query::RecordFields;

use super::file::PROFILE;
use crate::cli::{
    Context,
    log::runtime,
    records::{self, WhichRecords},
};

/// Members of an event that the runtime sets anew with each call.
const OF_A_CALL: [&str; 3] = ["cwd", "session_id", "transcript_path"];

/// A file of tests, as it is written.
#[derive(Serialize)]
struct File {
    command: Vec<String>,
    runtimes: Vec<&'static str>,
    point: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    case: [Case; 1],
}

#[derive(Serialize)]
struct Case {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<i32>,
    event: Map<String, Value>,
}

/// The records of a run.
#[derive(Default)]
struct Run {
    decision: Option<String>,
    exit: Option<i32>,
    has_ended: bool,
    started: Option<Value>,
    contract: String,
    point: String,
    profile: Option<String>,
}

/// Prints a file of tests with one case: the event of a run, and its end.
///
/// # Errors
///
/// Fails where the journal has no such run, or no event of it, or its runtime is none that is adopted.
pub(super) fn print(context: &Context, id: &str) -> Result<(), Failure> {
    let mut run = Run::default();
    let which = WhichRecords::of_run(id);
    records::read(context, which, |line, fields| {
        run.note(line, fields);
        true
    })?;
    let file = run.file(id)?;
    let text = toml::to_string(&file).map_err(|error| Failure::new(error.to_string()))?;
    output::document(&text);
    Ok(())
}

impl Run {
    fn note(&mut self, line: &[u8], fields: &RecordFields<'_>) {
        if fields.record == "started" {
            self.started = serde_json::from_slice(line).ok();
            self.contract = fields.contract.clone().into_owned();
            self.point = fields.point.clone().into_owned();
            self.profile = fields.profile.clone().map(std::borrow::Cow::into_owned);
        } else if fields.end().is_some() {
            self.has_ended = true;
            self.exit = fields.exit_code;
            let verdict = fields.verdict.as_ref();
            self.decision = verdict.map(|verdict| verdict.decision.to_lowercase());
        }
    }

    fn file(self, id: &str) -> Result<File, Failure> {
        let Some(started) = self.started.filter(|_| self.has_ended) else {
            return Err(Failure::new(format!(
                "the journal has no run `{id}` that has ended; see `hookjail log --json`"
            )));
        };
        let runtime = runtime(&self.contract);
        let runtime = runtime.ok_or_else(|| {
            let contract = &self.contract;
            Failure::new(format!(
                "`hookjail test` has no runtime for contract `{contract}`"
            ))
        })?;
        let event = started["event"]["text"].as_str();
        let event = event.filter(|_| started["event"]["cut"] != true);
        let event = event.and_then(|text| serde_json::from_str::<Map<_, _>>(text).ok());
        let Some(mut event) = event else {
            return Err(Failure::new(format!(
                "the journal has no complete event of run `{id}`; set `audit.capture = [\"event\"]`, and run the hook again"
            )));
        };
        event.retain(|key, _| !OF_A_CALL.contains(&&**key));
        let words = started["command"]["argv"].as_array();
        let words = words.into_iter().flatten();
        Ok(File {
            command: words
                .filter_map(|word| Some(word.as_str()?.to_owned()))
                .collect(),
            runtimes: vec![runtime.name],
            point: self.point,
            profile: self.profile.filter(|profile| profile != PROFILE),
            case: [Case {
                name: format!("run {id}"),
                decision: self.decision,
                exit: self.exit,
                event,
            }],
        })
    }
}
