//! The records of a run. Plain data, no environment values, and of event and output no more than [`CapturedText`].

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    fmt,
};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use hookjail_base::{
    model::{
        Consent,
        axis::{Axis, Coverage, Demand},
    },
    refusal::{cut, floor_char_boundary},
};

/// The name of the evidence about a run whose workspace was withheld.
pub const WITHHELD: &str = "workspace";

/// A line of the journal, as it is read.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq)]
#[schemars(title = "Line of hookjail's journal")]
pub struct Line {
    /// Its place in the chain, counted from 1.
    pub sequence: u64,
    /// The writer's clock: ISO 8601, in UTC.
    pub time: String,
    /// The daemon that wrote it.
    pub instance: String,
    /// The hash of the line before; zeros in the first.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub previous: String,
    /// The record itself.
    #[serde(flatten)]
    pub record: Record,
    /// SHA-256 of the line before `,"hash":`, lower-case hex.
    #[schemars(regex(pattern = "^[0-9a-f]{64}$"))]
    pub hash: String,
}

impl Line {
    /// Returns the schema of a line.
    pub fn schema(generator: SchemaGenerator) -> Schema {
        generator.into_root_schema_for::<Self>()
    }
}

/// One record, without the fields the journal adds.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "record")]
pub enum Record {
    /// A run is over.
    Ended(Box<Ended>),
    /// A run was left open by a writer that died.
    Interrupted(Interrupted),
    /// Records are missing at what was the journal's end.
    Lost(Lost),
    /// The host went down under a writer.
    Rebooted(Rebooted),
    /// A run was not started.
    Refused(Box<Refused>),
    /// A run is about to start.
    Started(Box<Started>),
    /// A line was left unfinished and has been cut off.
    Torn(Torn),
}

/// A run that is about to start: written before anything is released.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Started {
    /// The id of this run.
    pub run_id: String,
    /// The caller's id of the request.
    pub request_id: String,
    /// The hook's name; may be empty.
    pub hook: String,
    /// The command.
    pub command: CommandLine,
    /// The program as resolved.
    pub program: String,
    /// The files whose bytes the consent is bound to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<FileDigest>,
    /// The consent by which it was admitted.
    pub consent: Consent,
    /// The operator who allowed it, where one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<PeerLine>,
    /// The contract.
    pub contract: String,
    /// The contract's mode.
    pub mode: String,
    /// The lifecycle point in the contract's spelling.
    pub point: String,
    /// The session; may be empty.
    pub session: String,
    /// The caller.
    pub peer: PeerLine,
    /// The version of the administrator's files, where they have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_version: Option<String>,
    /// The profile's name.
    pub profile: String,
    /// SHA-256 of the resolved profile.
    pub profile_digest: String,
    /// The backend.
    pub backend: String,
    /// The backends before it in the operator's order, and why it runs on none of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<PassedOverLine>,
    /// Present where the backend confines nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfined: bool,
    /// The requirement and the enforcement of each axis.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<AxisLine>,
    /// The wall time it has, milliseconds.
    pub timeout_ms: u64,
    /// SHA-256 of what is written to stdin.
    pub event_sha256: String,
    /// The number of bytes written to stdin.
    pub event_bytes: u64,
    /// Its beginning, where the operator has events kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<CapturedText>,
    /// SHA-256 of the request without the values of its environment, where its caller gave it an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_sha256: Option<String>,
    /// The id of its trace, where its caller or the daemon traces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The names of the variables the request sets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub environment: Vec<String>,
    /// The working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// The workspace, where the request has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

/// A run that is over. The reports on its axes are in its start record.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Ended {
    /// The id of this run.
    pub run_id: String,
    /// Whether the hook's program was executed.
    pub released: bool,
    /// How it ended.
    pub outcome: OutcomeKind,
    /// The exit code, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal, if one ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The operator who killed it, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_by: Option<PeerLine>,
    /// Its stdout.
    pub stdout: Stream,
    /// Its stderr.
    pub stderr: Stream,
    /// The contract's verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictLine>,
    /// The contract's own event, without the hook's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventLine>,
    /// The hook's measures, under names that its contract defines for the point: numbers and short words.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub measures: serde_json::Map<String, serde_json::Value>,
    /// Whether confinement was confirmed on every required axis.
    pub confirmed: bool,
    /// Present where nothing confined it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfined: bool,
    /// The evidence of the confirmation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// Denied syscalls, as far as they were observed, without the incidental ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    /// Connections to the hosts of its profile, and attempts: the first 64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<EgressLine>,
    /// The number of connections beyond these; absent: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_egress: usize,
    /// Denied syscalls that C libraries and shells make on their own and continue without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incidental: Vec<String>,
    /// The number of lines on its stderr that report an access as refused; absent: none. Confinement may have refused it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused_lines: usize,
    /// Resources that it used.
    pub usage: Usage,
}

/// A connection that a run made or tried.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct EgressLine {
    /// The host, as the hook named it.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address that was connected to, or would have been; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Why the profile refused it; absent: allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<String>,
    /// The network's error, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// The names of the secrets that the daemon sent with requests in the hook's place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Bytes that were sent.
    pub sent_bytes: u64,
    /// Bytes that were received.
    pub received_bytes: u64,
    /// From its beginning to its end, milliseconds.
    pub ms: u64,
}

/// A run that was not started, with the reason.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Refused {
    /// The id of the run, if the refusal came late enough for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The caller's id of the request.
    pub request_id: String,
    /// The stable reason, as the caller got it.
    pub reason: String,
    /// Present where the hook's program was executed all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
    /// How many refusals of this uid for this reason it stands for, where many came within a second; absent: one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The description of the failure.
    pub message: String,
    /// The operator who killed it before it was started, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed_by: Option<PeerLine>,
    /// The hook's name; may be empty.
    pub hook: String,
    /// The command, if the request was understood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandLine>,
    /// The caller.
    pub peer: PeerLine,
    /// The profile, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The session; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// The contract, if the request was understood.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub contract: String,
    /// The lifecycle point in the contract's spelling, if the request was understood.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub point: String,
    /// The id of its trace, where its caller or the daemon traces it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The workspace, where the request has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

/// A run that a writer left open when it died: whether and how it ended is not known.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Interrupted {
    /// The id of the run.
    pub run_id: String,
    /// The instance that died.
    pub started_by: String,
    /// The sequence of its `started` record.
    pub started_sequence: u64,
}

/// Records that were written and are not there: cut off, or lost with the machine.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Lost {
    /// The hash of the last record that was noted; absent where the note itself was missing or damaged.
    #[serde(
        default,
        rename = "noted_hash",
        skip_serializing_if = "Option::is_none"
    )]
    pub hash: Option<String>,
    /// Its sequence.
    #[serde(
        default,
        rename = "noted_sequence",
        skip_serializing_if = "Option::is_none"
    )]
    pub sequence: Option<u64>,
}

/// The host went down while a writer lived: by a power cut, a crash or a reset.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Rebooted {
    /// The id of the boot in which this record is written.
    pub boot_id: String,
    /// The longest time before the end of which records may be missing, ms. 0: each was synced before its answer.
    pub missing_ms: u64,
    /// The sequence of the last record that was noted, where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noted_sequence: Option<u64>,
}

/// A line that a writer left unfinished.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Torn {
    /// The number of bytes cut off.
    pub bytes: u64,
    /// Their beginning.
    pub text: String,
}

/// Program and arguments as text.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CommandLine {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Whether some of it was not UTF-8 and is shown with replacement characters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lossy: bool,
    /// The length and digest of the uncut command, where it was refused and longer than 4 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Whole>,
}

/// A command that is not written down whole.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Whole {
    /// The length of all words together, bytes.
    pub bytes: u64,
    /// SHA-256 of all words, each with a NUL byte behind it, lower-case hex.
    pub sha256: String,
    /// The number of words.
    pub words: u64,
}

/// The most of a refused command, and of the reason, that is recorded, bytes.
const MAX_REFUSED_BYTES: usize = 4 * 1024;

/// How many words of such a command.
const MAX_REFUSED_WORDS: usize = 256;

impl Refused {
    /// Cuts what a caller can make as long as it likes, without having anything run. To be called once registered secrets are
    /// taken out: one that is cut through would not be found.
    pub fn cut(&mut self) {
        if let Some(command) = &mut self.command {
            command.cut(MAX_REFUSED_BYTES);
        }
        let texts = [&mut self.message, &mut self.point];
        for text in texts.into_iter().chain(&mut self.workspace) {
            if let Cow::Owned(cut) = cut(text, MAX_REFUSED_BYTES) {
                *text = cut;
            }
        }
    }
}

impl CommandLine {
    /// Keeps the first `most` bytes of its words.
    pub fn cut(&mut self, most: usize) {
        let bytes = self.argv.iter().map(String::len).sum::<usize>();
        if bytes <= most && self.argv.len() <= MAX_REFUSED_WORDS {
            return;
        }
        let mut all = Sha256::new();
        for word in &self.argv {
            all.update(word);
            all.update([0]);
        }
        self.whole = Some(Whole {
            bytes: bytes as u64,
            sha256: format!("{:x}", all.finalize()),
            words: self.argv.len() as u64,
        });
        let mut left = most;
        let mut kept = Vec::new();
        for mut word in std::mem::take(&mut self.argv) {
            let fits = floor_char_boundary(&word, left);
            let whole = fits == word.len();
            word.truncate(fits);
            left -= fits;
            kept.push(word);
            if !whole || kept.len() == MAX_REFUSED_WORDS {
                break;
            }
        }
        self.argv = kept;
    }

    /// Renders program and arguments.
    pub fn new(argv: &[OsString]) -> Self {
        Self {
            argv: argv
                .iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            lossy: argv
                .iter()
                .map(OsString::as_os_str)
                .any(|word| OsStr::to_str(word).is_none()),
            whole: None,
        }
    }
}

/// A file whose bytes a consent is bound to.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct FileDigest {
    /// Its path.
    pub path: String,
    /// The role of the file in the command.
    pub role: String,
    /// SHA-256 of its content.
    pub sha256: String,
}

/// The caller.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct PeerLine {
    /// Its process id, where the socket reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Where it connected from, if over the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteLine>,
    /// Its user id.
    pub uid: u32,
}

/// The other end of a connection over the network.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct RemoteLine {
    /// Its address and port.
    pub address: String,
    /// The certificate that it proved to have; none without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<CertificateLine>,
}

/// A client's certificate.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct CertificateLine {
    /// The name in it that the configuration lists.
    pub name: String,
    /// SHA-256 of its DER form.
    pub sha256: String,
}

/// A backend that a run is not on.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct PassedOverLine {
    /// Its name.
    pub backend: String,
    /// The stable reason.
    pub reason: String,
    /// The missing or failing part.
    pub message: String,
}

/// One axis: its requirement and its enforcement.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct AxisLine {
    /// The axis.
    pub axis: Axis,
    /// Whether the profile requires it.
    pub required: bool,
    /// The backend's enforcement.
    #[serde(flatten)]
    pub coverage: CoverageLine,
}

impl AxisLine {
    /// Notes one axis.
    pub fn new(axis: Axis, demand: Demand, coverage: &Coverage) -> Self {
        let coverage = match *coverage {
            Coverage::Degraded { by: mechanism, gap } => CoverageLine::Degraded {
                by: mechanism.to_owned(),
                gap: gap.to_owned(),
            },
            Coverage::Enforced { by: mechanism } => CoverageLine::Enforced {
                by: mechanism.to_owned(),
            },
            Coverage::Ignored => CoverageLine::Ignored,
        };
        Self {
            axis,
            required: demand == Demand::Required,
            coverage,
        }
    }
}

/// [`Coverage`] as recorded.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "coverage")]
pub enum CoverageLine {
    /// The axis holds except for `gap`.
    Degraded {
        /// The mechanism of the part that holds.
        by: String,
        /// The missing part.
        gap: String,
    },
    /// The axis holds as the profile declares it.
    Enforced {
        /// The mechanism.
        by: String,
    },
    /// The backend does not enforce it.
    Ignored,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "comments would stand in the JSON Schema of the command line; `docs/api.md` has the outcomes"
)]
pub enum OutcomeKind {
    Canceled,
    EscapeAttempt,
    ExecFailed,
    Exited,
    Killed,
    OutOfMemory,
    OutputLimit,
    PidsExhausted,
    Signaled,
    TimedOut,
}

impl fmt::Display for OutcomeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As records spell it.
        self.serialize(f)
    }
}

/// The beginning of an event or output, without registered secrets.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct CapturedText {
    /// Whether there was more of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Whether some of it was not UTF-8 and is shown with replacement characters.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lossy: bool,
    /// The text.
    pub text: String,
}

/// One stream of a hook's output.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Stream {
    /// Its beginning, where the operator has it kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<CapturedText>,
    /// SHA-256 of what was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The number of bytes written.
    pub total_bytes: u64,
    /// Whether not all of them were kept.
    pub truncated: bool,
}

/// The contract's verdict on a run.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct VerdictLine {
    /// The source of the block, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
    /// The number of texts for the model; absent: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub contexts: usize,
    /// The decision.
    pub decision: String,
    /// Whether the contract counts this as a failure of the hook.
    pub failed: bool,
    /// Present where the hook only observed, after an earlier hook had stopped the operation. Such a verdict does not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_looked_on: bool,
    /// The reason for which the output was ignored, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_reason: Option<String>,
    /// SHA-256 of the tool's input as the hook rewrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_input_sha256: Option<String>,
    /// SHA-256 of the tool's output as the hook rewrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_output_sha256: Option<String>,
    /// SHA-256 of the model's messages as the hook rewrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_messages_sha256: Option<String>,
    /// SHA-256 of the hook's summary in the place of a compaction's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary_sha256: Option<String>,
    /// The number of notices; absent: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warnings: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde has it")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A contract's own event.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct EventLine {
    /// Its members, without those that may quote what the hook wrote.
    pub fields: serde_json::Map<String, serde_json::Value>,
    /// Its name.
    pub name: String,
}

/// Resources used by a run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Usage {
    /// Waiting for its turn, microseconds.
    pub queue_us: u64,
    /// Being prepared, microseconds.
    pub setup_us: u64,
    /// From release to end, microseconds.
    pub run_us: u64,
    /// From arrival to end, microseconds.
    pub wall_us: u64,
    /// Processor time in user mode, microseconds.
    pub user_us: u64,
    /// Processor time in the kernel, microseconds.
    pub system_us: u64,
    /// The largest resident set, bytes.
    pub max_rss_bytes: u64,
}
