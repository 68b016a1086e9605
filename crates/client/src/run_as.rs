//! `hookjail run --as RUNTIME`: runs one hook transparently in its runtime's place.

use std::{
    env,
    ffi::OsString,
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, IsTerminal, Read},
    os::unix::fs::MetadataExt,
    panic,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::CommandFactory;
use nix::unistd::geteuid;

use hookjail_base::{
    model::{Event, plain},
    util::nearest::did_you_mean,
};
use hookjail_contract::{
    MAY_BE_WHY,
    adopt::{Adopted, HookOutput, Stakes},
    is_spelled, refusals,
};
use hookjail_proto::{self as pb, hook_service_client::HookServiceClient};
use hookjail_sys::{
    LastAnswer, answer_signals, give_last_answer, give_last_answer_after, keep_last_answer,
};

use crate::{
    Context, Failure, RunArgs, RunArguments,
    arguments::{contract, exit_code, with_place},
    connect::{self, Transport},
    offered::{self, ServerPlace},
    on_demand, output,
    program::current_directory,
    server,
};

/// The runtime's name that selects recognition by payload.
const AUTO: &str = "auto";

/// The largest payload, bytes: the maximum of `hooks.event_max`.
const MAX_PAYLOAD_BYTES: u64 = 256 * 1024 * 1024;

/// The largest output that can be mirrored, both streams together, bytes.
const MAX_REPLY_BYTES: u64 = 64 * 1024 * 1024;

/// The time between a hook's end and the runtime's own timer. That timer runs while the runtime's shell starts, which may be a
/// login shell and take a second before this process begins.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(3);

/// The time between the hook's own timeout and the answer.
const ANSWER_MARGIN: Duration = Duration::from_secs(1);

/// The timeout of unknown runtimes: the shortest of those that continue a call after it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The time between the due answer and the exit without one.
const EXIT_MARGIN: Duration = Duration::from_millis(50);

/// The length of a broken hook's stderr in the refusal, bytes from its end.
const STDERR_TAIL_BYTES: usize = 1024;

/// The exit code that nearly every runtime interprets as a block.
const EXIT_BLOCK: u8 = 2;

/// Parses a runtime's name; `None` = recognise it by payload.
pub fn parse(name: &str) -> Result<Option<Adopted>, String> {
    if name == AUTO {
        return Ok(None);
    }
    let all = Adopted::all();
    let known = all.iter().find(|known| is_spelled(known.name, name));
    known.map(|runtime| Some(*runtime)).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|known| known.name).collect();
        let meant = did_you_mean(name, names.iter().copied());
        let names = names.join(", ");
        format!("unknown runtime `{name}`{meant}; use one of {AUTO}, {names}")
    })
}

/// The facts about the replaced hook, so that a failure can block.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct ReplacedHook {
    /// Whether the command line declares the hook a gate.
    gate: bool,
    /// Whether the payload is of an agent that may read exit codes alone.
    is_of_another_agent: bool,
    /// Whether a person, and not a runtime, reads the result.
    is_rehearsal: bool,
    /// Whether the command line declares that the hook stops nothing.
    observe: bool,
    /// The lifecycle point, as far as it is known.
    point: Option<String>,
    /// The runtime, as far as it is known.
    runtime: Option<Adopted>,
    /// The time at which this process began to stand in.
    since: Instant,
    /// The wall time that the command line gives the hook.
    timeout: Option<Duration>,
}

/// The time for an answer and for the hook.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// The time from the beginning of this process to its answer.
    answer: Duration,
    /// The hook's timeout; `None` = the profile's.
    hook: Option<Duration>,
}

impl ReplacedHook {
    /// Recognises a command line with `--as`; `None` without one.
    ///
    /// From here on this process ends by blocking, until more is known.
    pub fn taken(words: &[OsString]) -> Option<Self> {
        let mut words = words.iter().skip(1).take_while(|word| *word != "--");
        words.find(|word| *word == "run")?;
        let name = loop {
            let word = words.next()?.to_string_lossy();
            if let Some(name) = word.strip_prefix("--as=") {
                break name.to_owned();
            }
            if word == "--as" {
                let name = words.next().map(|word| word.to_string_lossy());
                break name.unwrap_or_default().into_owned();
            }
        };
        let post = Self {
            gate: false,
            is_of_another_agent: false,
            is_rehearsal: false,
            observe: false,
            point: None,
            runtime: parse(&name).ok().flatten(),
            since: Instant::now(),
            timeout: None,
        };
        post.hold();
        answer_signals();
        panic::set_hook(Box::new(|info| {
            output::stderr(&format!("hookjail: {info}"));
            give_last_answer()
        }));
        Some(post)
    }

    /// Builds the facts of a parsed command line.
    pub fn from_arguments(run: &RunArgs, runtime: Option<Adopted>) -> Self {
        Self {
            gate: run.place.gate,
            is_of_another_agent: false,
            is_rehearsal: run.place.rehearse,
            observe: run.place.observe,
            point: Some(run.point.clone()).filter(|point| !point.is_empty()),
            runtime,
            since: Instant::now(),
            timeout: run.timeout,
        }
    }

    /// Ends for a command line that cannot be parsed, or only asks for help. No hook ran.
    pub fn refuse_words(mut self, words: &[OsString], error: &clap::Error) -> ExitCode {
        self.read_words(words);
        self.refuse(error.to_string().trim_end())
    }

    /// Ends for a wrong command line, in the form that the payload's runtime takes.
    pub fn refuse(mut self, why: &str) -> ExitCode {
        // At a terminal no payload comes.
        if !io::stdin().is_terminal() {
            let mut payload = Vec::new();
            // A partly read payload may still show its runtime.
            drop(read_payload(&mut payload));
            self.learn(&payload);
        }
        self.say(&self.refusal(&format!("hookjail: {why}")))
    }

    /// Reads the facts for a refusal from an invalid command line.
    ///
    /// Options end where they cannot be distinguished from the hook's own.
    fn read_words(&mut self, words: &[OsString]) {
        let command = RunArguments::command();
        let Some(run) = command.find_subcommand("run") else {
            return;
        };
        let mut words = words.iter().map(|word| word.to_string_lossy());
        if !words.any(|word| word == "run") {
            return;
        }
        while let Some(word) = words.next() {
            let Some(option) = word.strip_prefix("--") else {
                return;
            };
            let (name, value) = match option.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option, None),
            };
            let mut known = run.get_arguments().chain(command.get_arguments());
            let Some(known) = known.find(|known| known.get_long() == Some(name)) else {
                return;
            };
            let takes_value = known.get_action().takes_values();
            let value = match value {
                None if takes_value => words.next().map(|word| word.into_owned()),
                value => value,
            };
            match (name, value) {
                ("gate", _) => self.gate = true,
                ("observe", _) => self.observe = true,
                ("point", Some(point)) if !point.is_empty() => self.point = Some(point),
                _ => {}
            }
        }
    }

    /// Reads the point, and the runtime where it was not named, from a payload.
    ///
    /// A settings line copied from another point may still name that point, where a failure may stop nothing. So the
    /// payload's point has precedence, where the runtime has such a point.
    fn learn(&mut self, payload: &[u8]) {
        self.runtime = self.runtime.or_else(|| Adopted::recognise(payload));
        let Some(runtime) = self.runtime else {
            return;
        };
        self.is_of_another_agent = runtime.is_of_another_agent(payload);
        let named = runtime.named_point(payload);
        let listed = named.filter(|point| {
            let mut points = runtime.mode.facts().points.iter();
            points.any(|known| known.name == point)
        });
        self.point = listed
            .or_else(|| self.point.take())
            .or_else(|| runtime.point(payload));
    }

    /// Returns whether hookjail's own failure blocks here.
    ///
    /// A failure does not block where a block makes an agent continue: the agent could not be ended.
    fn stops(&self) -> bool {
        let stakes = self.runtime.map_or(Stakes::Gate, |runtime| {
            runtime.stakes(self.point.as_deref())
        });
        !self.observe && (self.gate || stakes == Stakes::Gate)
    }

    /// Returns the answer for hookjail's own failure.
    pub fn refusal(&self, why: &str) -> HookOutput {
        self.refusal_with(why, None)
    }

    /// Builds the answer for a hook that did not run, with a sentence for the user alone.
    fn refusal_with(&self, why: &str, notice: Option<&str>) -> HookOutput {
        let point = self.point.as_deref();
        // Exit codes have no text apart from the reason. At a terminal a person reads that, elsewhere a model may.
        let is_shown = self
            .runtime
            .is_none_or(|runtime| !runtime.answers_by_code || io::stderr().is_terminal());
        let notice = notice.filter(|_| is_shown && !self.is_of_another_agent);
        match (self.runtime, notice) {
            (Some(runtime), Some(notice)) if self.stops() => {
                runtime.no_with_notice(point, why, notice)
            }
            (Some(runtime), None) if self.stops() => runtime.no(point, why),
            (Some(runtime), Some(notice)) => runtime.failed_with_notice(point, why, notice),
            (Some(runtime), None) => runtime.failed(point, why),
            (None, _) => HookOutput {
                code: if self.observe { 0 } else { EXIT_BLOCK },
                stderr: format!("{why}\n").into_bytes(),
                stdout: Vec::new(),
            },
        }
    }

    /// Returns the time for an answer, which must precede the runtime's own timer; `None` without one.
    ///
    /// A runtime whose timer fires first continues without the hook.
    fn allowance(&self) -> Option<Allowance> {
        if let Some(hook) = self.timeout {
            return Some(Allowance {
                answer: hook.saturating_add(ANSWER_MARGIN),
                hook: Some(hook),
            });
        }
        let point = self.point.as_deref().unwrap_or_default();
        let default = match self.runtime {
            Some(runtime) if runtime.answers_by_code => return None,
            Some(runtime) => runtime.default_timeout(point),
            None => None,
        };
        let limit = default.unwrap_or(DEFAULT_TIMEOUT);
        let margin = TIMEOUT_MARGIN.min(limit / 10);
        Some(Allowance {
            answer: limit.saturating_sub(margin / 2),
            hook: default.map(|limit| limit.saturating_sub(margin)),
        })
    }

    /// Returns the remaining time for an answer.
    fn left(&self) -> Option<Duration> {
        let allowance = self.allowance()?;
        Some(allowance.answer.saturating_sub(self.since.elapsed()))
    }

    /// Sets the answer of this process for a signal, a panic or a timeout.
    ///
    /// Causes of a timeout are a runtime that writes no payload, a daemon that accepts and does not answer, or a file whose
    /// read blocks.
    fn hold(&self) {
        let HookOutput {
            code,
            stderr,
            stdout,
        } = self.refusal("hookjail: ended or timed out before the hook's end");
        keep_last_answer(LastAnswer {
            code: code.into(),
            stderr,
            stdout,
        });
        let left = self.left().filter(|_| !self.is_rehearsal);
        give_last_answer_after(left.map(|left| left + EXIT_MARGIN));
    }

    /// Writes an answer and returns its exit code.
    ///
    /// If stdout cannot be written, a block, or a hook's own output, becomes a block by exit code.
    pub fn say(&self, answer: &HookOutput) -> ExitCode {
        // The normal answer replaces the one set by `hold`.
        give_last_answer_after(None);
        let is_written = output::try_stdout(&answer.stdout);
        output::raw_stderr(&answer.stderr);
        let is_code = is_written || answer.code != 0 || !self.stops();
        ExitCode::from(if is_code { answer.code } else { EXIT_BLOCK })
    }
}

/// A hook's payload, as far as it could be read.
#[derive(Debug)]
pub struct StdinPayload {
    /// The bytes that were read.
    pub bytes: Vec<u8>,
    /// The error that ended the read.
    pub read: io::Result<()>,
}

impl StdinPayload {
    /// Reads the payload, and updates the facts by it.
    pub fn read(post: &mut ReplacedHook) -> Self {
        post.hold();
        let mut bytes = Vec::new();
        let read = read_payload(&mut bytes);
        post.learn(&bytes);
        post.hold();
        Self { bytes, read }
    }
}

/// Runs a hook, and ends as the hook did.
///
/// Without an end of the hook the answer is a block at a gate, and elsewhere one that decides nothing.
pub fn run(run: &RunArgs, runtime: Option<Adopted>, context: &Context, way: &dyn Way) -> ExitCode {
    let mut post = ReplacedHook::from_arguments(run, runtime);
    let payload = StdinPayload::read(&mut post);
    let hook = match StandInHook::new(&post, run) {
        Ok(hook) => hook,
        Err(answer) => return post.say(&answer),
    };
    let read = payload.read.map_err(Failure::from);
    let read = read.and_then(|()| context.check_config());
    if env::var_os(PREVIEW).is_some() {
        let refusal = read.and_then(|()| hook.preview(context, payload.bytes, way));
        return post.say(&previewed(refusal));
    }
    let session = hook.session(&payload.bytes);
    let response = read.and_then(|()| hook.ask(context, payload.bytes, way));
    post.say(&hook.reply(context, session.as_deref(), response))
}

/// The variable under which a hook's line starts nothing, and reports whether the daemon would run it.
///
/// Such a line ends as a block does: where another party sets the variable, no guard lets anything pass.
pub const PREVIEW: &str = "HOOKJAIL_PREVIEW";

/// Returns the report of a line that started nothing: `refusal` is null where its hook would run.
fn previewed(refusal: Result<Option<String>, Failure>) -> HookOutput {
    let refusal = refusal.unwrap_or_else(|failure| Some(why(&failure)));
    let report = serde_json::json!({ "refusal": refusal });
    HookOutput {
        code: EXIT_BLOCK,
        stderr: Vec::new(),
        stdout: format!("{report}\n").into_bytes(),
    }
}

/// Returns the project of a directory.
///
/// That is the one that the runtime names, else the repository in the user's home, or of the user's own elsewhere, else the directory
/// itself.
pub fn project(runtime: Adopted, directory: &Path, home: Option<&Path>) -> PathBuf {
    let named = runtime.project_variables().filter_map(env::var_os);
    let mut named = named.filter_map(|path| Path::new(&path).canonicalize().ok());
    let named = named.find(|path| path.parent().is_some() && directory.starts_with(path));
    let is_in_home = home.is_some_and(|home| directory.starts_with(home));
    let is_own = |path: &Path| {
        let found = path.metadata();
        found.is_ok_and(|it| it.uid() == geteuid().as_raw())
    };
    let around_home = |path: &Path| home.is_none_or(|home| home.starts_with(path));
    let mut above = directory
        .ancestors()
        .take_while(|path| !around_home(path) && (is_in_home || is_own(path)));
    named
        .or_else(|| {
            let repository = above.find(|path| path.join(".git").symlink_metadata().is_ok());
            repository.map(Path::to_owned)
        })
        .unwrap_or_else(|| directory.to_owned())
}

/// Reads the payload on stdin, up to [`MAX_PAYLOAD_BYTES`].
///
/// Without a limit the kernel could kill this process when memory is exhausted, by the signal that leaves no answer.
fn read_payload(payload: &mut Vec<u8>) -> io::Result<()> {
    let read = io::stdin()
        .lock()
        .take(MAX_PAYLOAD_BYTES + 1)
        .read_to_end(payload)?;
    if read as u64 > MAX_PAYLOAD_BYTES {
        let message = "the payload on stdin is longer than any daemon takes";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(())
}

/// Ends for an unknown runtime's name.
pub fn refuse(run: &RunArgs, why: &str) -> ExitCode {
    ReplacedHook::from_arguments(run, None).refuse(why)
}

/// Describes in one line why the hook has no end: reason, problem, and request id.
///
/// The remedy is left out: a model may read this line, and apply it.
pub fn why(failure: &Failure) -> String {
    let reason = failure.reason.iter().map(|reason| format!("{reason}: "));
    let id = failure.metadata.get("request_id");
    let id = id.filter(|id| !id.is_empty());
    let id = id.map(|id| format!(" (request {id})"));
    let can_be_allowed = failure.metadata.contains_key("approve");
    let how = can_be_allowed.then_some("; only its user can allow it, outside of this session");
    format!(
        "hookjail: {}{}{}{}",
        reason.collect::<String>(),
        with_place(failure.message.clone()),
        id.unwrap_or_default(),
        how.unwrap_or_default()
    )
}

/// Returns the sentence for the user about a refusal that the user can lift.
///
/// The sentence is fixed: no text of a hook or a payload reaches the user by this way.
fn notice(failure: &Failure) -> Option<&'static str> {
    const ALLOW: &str =
        "hookjail refused a hook that is new or changed. Run in this project: hookjail allow";
    let has = |fact: &str| failure.metadata.contains_key(fact);
    if has(DENIED) {
        return Some(LEARN);
    }
    (has("approve") && !has("approve_as")).then_some(ALLOW)
}

/// The sentence for the user about a hook that confinement denied something.
const LEARN: &str =
    "the sandbox of hookjail denied a hook what it uses. To give it that: hookjail learn --last";

/// The detail of this program's own failures that confinement may have caused.
const DENIED: &str = "denied";

/// The begin of this program's own words on stderr.
const OWN: &[u8] = b"hookjail: ";

/// Builds the failure of a hook that confinement may have caused.
fn by_denial(why: String) -> Failure {
    Failure {
        metadata: [(DENIED.to_owned(), String::new())].into(),
        ..Failure::new(why)
    }
}

/// Returns whether confinement denied a run something that it may need.
fn is_denied(response: &pb::ExecuteResponse) -> bool {
    let mut denials = response.denials.iter();
    let confines = response.confinement.iter().any(|it| !it.unconfined);
    confines && (denials.any(|it| !it.incidental) || !refusals(&response.stderr).is_empty())
}

/// Returns whether a session has had no remark yet, and notes one. Without a session, or a directory for the note, there is no
/// remark.
fn is_first(context: &Context, session: Option<&str>) -> bool {
    let mut hasher = DefaultHasher::new();
    session.hash(&mut hasher);
    let socket = session.and_then(|_| context.paths.socket());
    let directory = socket.as_deref().and_then(Path::parent);
    directory.is_some_and(|directory| {
        let note = directory.join(format!("denied-{:016x}", hasher.finish()));
        File::create_new(note).is_ok()
    })
}

/// A hook in its runtime's place.
#[derive(Debug)]
pub struct StandInHook<'a> {
    post: &'a ReplacedHook,
    pub run: &'a RunArgs,
    runtime: Adopted,
}

impl<'a> StandInHook<'a> {
    /// Builds the hook of a command line, for its runtime.
    ///
    /// # Errors
    ///
    /// Returns the answer of this process where the runtime is unknown.
    pub fn new(post: &'a ReplacedHook, run: &'a RunArgs) -> Result<Self, HookOutput> {
        let Some(runtime) = post.runtime else {
            let why = "hookjail: the payload on stdin matches no runtime; name one with --as";
            return Err(post.refusal(why));
        };
        Ok(Self { post, run, runtime })
    }

    /// Returns why the daemon would refuse the hook; `None` where it would run.
    fn preview(
        &self,
        context: &Context,
        payload: Vec<u8>,
        way: &dyn Way,
    ) -> Result<Option<String>, Failure> {
        let (socket, request) = self.prepare(context, payload)?;
        let request = Some(request);
        let response = way.preview(&socket, pb::PreviewRequest { request })?;
        let refusal = response.refusal;
        Ok(refusal.map(|it| format!("{}: {}", it.reason, it.message)))
    }

    /// Runs the hook by a daemon.
    fn ask(
        &self,
        context: &Context,
        payload: Vec<u8>,
        way: &dyn Way,
    ) -> Result<pb::ExecuteResponse, Failure> {
        let (socket, request) = self.prepare(context, payload)?;
        let until = self.post.left().map(|left| Instant::now() + left);
        way.execute(&socket, request, until)
    }

    /// Returns the daemon's socket, and the request for the hook.
    fn prepare(
        &self,
        context: &Context,
        payload: Vec<u8>,
    ) -> Result<(PathBuf, pb::ExecuteRequest), Failure> {
        let socket = if self.run.place.start {
            server::expect_configuration(context, None);
            on_demand::daemon(context, self.post.left())?
        } else {
            let set_up = server::daemon_of_runtime(context, self.run.connect.as_deref())?;
            set_up.ok_or_else(|| {
                Failure::new("no daemon is set up here, and nothing is run without one")
            })?
        };
        let server = match connect::url(&socket) {
            Some(_) => ServerPlace::Network,
            None => ServerPlace::Socket,
        };
        let request = self.request(context, payload, server)?;
        Ok((socket, request))
    }

    /// Returns the directory that is the hook's workspace where its profile binds one.
    pub fn workspace(&self, context: &Context) -> Result<PathBuf, Failure> {
        match &self.run.workspace {
            Some(named) => Ok(named.canonicalize()?),
            None => {
                let home = context.paths.home.as_deref();
                Ok(project(self.runtime, &current_directory()?, home))
            }
        }
    }

    /// Returns the answer of this process for a response.
    fn reply(
        &self,
        context: &Context,
        session: Option<&str>,
        response: Result<pb::ExecuteResponse, Failure>,
    ) -> HookOutput {
        let response = match response {
            Ok(response) => response,
            Err(failure) => return self.answer(Err(failure)),
        };
        let ended = self.answer(self.end(&response));
        let is_silent =
            ended.code == 0 && ended.stdout.is_empty() && !ended.stderr.starts_with(OWN);
        if !is_silent || !is_denied(&response) || !is_first(context, session) {
            return ended;
        }
        let remark = self.runtime.remark(self.post.point.as_deref(), LEARN);
        let stdout = remark.unwrap_or_default();
        HookOutput { stdout, ..ended }
    }

    /// Returns the session that a payload names.
    fn session(&self, payload: &[u8]) -> Option<String> {
        self.runtime.mode.session(&Event {
            json: payload.to_vec().into(),
            point: self.post.point.clone().unwrap_or_default(),
            raw: true,
        })
    }

    /// Returns the answer of this process for the hook's end.
    pub fn answer(&self, end: Result<HookOutput, Failure>) -> HookOutput {
        match end {
            Ok(output) if self.post.observe => {
                self.runtime.observed(self.post.point.as_deref(), output)
            }
            Ok(output) => output,
            Err(failure) => self.post.refusal_with(&why(&failure), notice(&failure)),
        }
    }

    /// Returns whether the runtime takes an end for a block.
    pub fn takes_for_no(&self, output: &HookOutput) -> bool {
        self.runtime
            .takes_for_no(self.post.point.as_deref(), output)
    }

    /// Returns the hook's timeout; `None` = the profile's.
    pub fn timeout(&self) -> Option<Duration> {
        self.post.allowance()?.hook
    }

    pub fn request(
        &self,
        context: &Context,
        payload: Vec<u8>,
        server: ServerPlace,
    ) -> Result<pb::ExecuteRequest, Failure> {
        let mode = self.runtime.mode;
        let place = &self.run.place;
        let point = self.post.point.as_deref();
        let point = point.unwrap_or_default();
        if point.is_empty() && mode.stop_at(point).is_err() {
            let name = self.runtime.name;
            let problem = format!("the payload on stdin names no event of {name}");
            return Err(Failure::new(problem));
        }
        let home = context.paths.home.as_deref();
        let mut request = self.run.request(context, Vec::new(), |directory| {
            project(self.runtime, directory, home)
        })?;
        let offer = request.offer.get_or_insert_default();
        offered::offer(offer, server, offered::variables());
        Ok(pb::ExecuteRequest {
            contract: contract(mode.facts().contract)?.into(),
            event: Some(pb::Event {
                json: payload.into(),
                point: point.to_owned(),
                raw: true,
            }),
            max_reply_bytes: Some(MAX_REPLY_BYTES),
            mode: mode.mode_name().to_owned(),
            on_failure: if self.post.stops()
                && (place.fail_closed
                    || (!place.mirror_failures && self.runtime.is_of_a_call(Some(point))))
            {
                pb::OnFailure::Closed.into()
            } else {
                pb::OnFailure::Contract.into()
            },
            timeout: self
                .timeout()
                .map(prost_types::Duration::try_from)
                .transpose()?,
            ..request
        })
    }

    /// Returns the hook's own end.
    ///
    /// # Errors
    ///
    /// Fails where the hook did not end by itself, or where its output is incomplete. Also fails where the runtime would
    /// interpret its end differently from the daemon, such as a failed guard's, or a block that confinement caused.
    pub fn end(&self, response: &pb::ExecuteResponse) -> Result<HookOutput, Failure> {
        use pb::OutcomeKind as Kind;
        let run = response.audit.as_ref().map(|audit| audit.run_id.as_str());
        let run = run.map_or_else(String::new, |run| format!(" (run {run})"));
        let outcome = response.outcome.unwrap_or_default();
        let kind = outcome.kind();
        if !matches!(kind, Kind::Exited | Kind::Signaled) {
            let kind = kind.as_str_name().trim_start_matches("OUTCOME_KIND_");
            let kind = kind.to_lowercase().replace('_', " ");
            return Err(Failure::new(format!("the hook was ended: {kind}{run}")));
        }
        if response.stdout_truncated || response.stderr_truncated || response.cut_for_reply {
            let message = format!("the hook printed more than can be passed on{run}");
            return Err(Failure::new(message));
        }
        let output = HookOutput {
            code: exit_code(response),
            stderr: response.stderr.to_vec(),
            stdout: response.stdout.to_vec(),
        };
        // Any exit code but 0 blocks there, and the contract has no decision.
        if self.runtime.answers_by_code {
            return Ok(output);
        }
        let verdict = response.verdict.clone().unwrap_or_default();
        let stops = matches!(verdict.decision(), pb::Decision::Block | pb::Decision::Deny)
            && !verdict.recorded_block;
        let is_no = self
            .runtime
            .takes_for_no(self.post.point.as_deref(), &output);
        let is_let_pass = verdict.failed && self.run.place.mirror_failures;
        let warning = verdict
            .warnings
            .iter()
            .find(|warning| warning.starts_with(MAY_BE_WHY));
        match warning {
            _ if is_let_pass || self.post.observe => return Ok(output),
            // A failure at a point where it is reported to the user. A gate's failure stops.
            Some(warning) if !stops => {
                let why = format!("{warning}{run}{}", complaint(&output.stderr));
                if self.post.gate {
                    return Err(by_denial(why));
                }
                let point = self.post.point.as_deref();
                let why = format!("hookjail: {why}");
                return Ok(self.runtime.failed_with_notice(point, &why, LEARN));
            }
            Some(_) | None if stops == is_no => return Ok(output),
            Some(_) | None => {}
        }
        let said_why = [Some(&verdict.reason), verdict.warnings.last()];
        let mut said_why = said_why.into_iter().flatten().filter(|why| !why.is_empty());
        let why = said_why.next().map_or("the hook failed", String::as_str);
        let may_be_denied = warning.is_some();
        let why = format!(
            "{why}, and ended with exit code {}{run}{}",
            output.code,
            complaint(&output.stderr)
        );
        Err(match may_be_denied {
            true => by_denial(why),
            false => Failure::new(why),
        })
    }
}

/// Returns the end of a failed hook's stderr, as a part of a message.
fn complaint(stderr: &[u8]) -> String {
    let from = stderr.len().saturating_sub(STDERR_TAIL_BYTES);
    let stderr = String::from_utf8_lossy(&stderr[from..]);
    let lines = stderr.trim().lines().map(plain);
    match lines.collect::<Vec<_>>().join(" | ") {
        stderr if stderr.is_empty() => stderr,
        stderr => format!(", and wrote: {stderr}"),
    }
}

/// A way to call a daemon.
pub trait Way {
    /// Runs a hook by the daemon at an address.
    ///
    /// # Errors
    ///
    /// Returns the daemon's refusal, and an error where it does not answer in time.
    fn execute(
        &self,
        daemon: &Path,
        request: pb::ExecuteRequest,
        until: Option<Instant>,
    ) -> Result<pb::ExecuteResponse, Failure>;

    /// Previews a hook by the daemon at an address.
    ///
    /// # Errors
    ///
    /// Returns the daemon's refusal, and an error where it does not answer.
    fn preview(
        &self,
        daemon: &Path,
        request: pb::PreviewRequest,
    ) -> Result<pb::PreviewResponse, Failure>;
}

/// Returns the failure of a call whose answer does not come in time.
pub fn late() -> Failure {
    Failure::new("the daemon did not answer in time")
}

/// Previews a hook.
///
/// # Errors
///
/// Returns the daemon's refusal.
pub async fn preview<T: Transport>(
    mut service: HookServiceClient<T>,
    request: pb::PreviewRequest,
) -> Result<pb::PreviewResponse, Failure> {
    let answer = service.preview(connect::in_trace(request)).await;
    let answer = answer.map_err(connect::refused)?;
    Ok(answer.into_inner())
}

/// Calls, and once more with the values that the daemon's profile admits besides those of shipped profiles.
///
/// The daemon gets the time at which the answer is due; the caller that waits for it checks the time.
///
/// # Errors
///
/// Returns the daemon's refusal, and an error for the answer to another request.
pub async fn call<T: Transport>(
    service: HookServiceClient<T>,
    mut request: pb::ExecuteRequest,
    until: Option<Instant>,
) -> Result<pb::ExecuteResponse, Failure> {
    let largest = usize::try_from(2 * MAX_REPLY_BYTES).unwrap_or(usize::MAX);
    let mut service = service.max_decoding_message_size(largest);
    let response = call_once(&mut service, request.clone(), until).await?;
    let wanted = &response.wanted_variables;
    if wanted.is_empty() {
        return Ok(response);
    }
    let offer = request.offer.get_or_insert_default();
    offered::add(offer, wanted, |name| env::var(name).ok());
    call_once(&mut service, request, until).await
}

/// Calls with the remaining time as the timeout.
///
/// The daemon then starts no hook that would end too late, and waits no longer for a consent.
async fn call_once<T: Transport>(
    service: &mut HookServiceClient<T>,
    request: pb::ExecuteRequest,
    until: Option<Instant>,
) -> Result<pb::ExecuteResponse, Failure> {
    let mut request = connect::in_trace(request);
    if let Some(until) = until {
        request.set_timeout(until.saturating_duration_since(Instant::now()));
    }
    let answered = connect::execute(service, request).await;
    answered
        .map(tonic::Response::into_inner)
        .map_err(connect::refused)
}
