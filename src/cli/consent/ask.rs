//! `hookjail consent watch|pending|approve|deny`: answers a daemon's questions.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead},
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::Args;
use tokio::sync::mpsc;
use tonic::transport::Channel;

use hookjail_client::{
    Failure, connect,
    output::{self, Style},
    server::{by_daemon, daemon},
};
use hookjail_proto::{
    self as pb, consent_service_client::ConsentServiceClient, watch_response::News,
};

use super::super::{Context, rows::Rows, show::axis_words, success};
use hookjail_daemon::{consent::allowlist::typed, wire::json};

const PROMPT: &str = "[a]lways, [y]es this once, [N]o: ";

/// The time for which a question is shown before an answer counts.
///
/// The caller decides when a question is withdrawn and the next one appears: an answer being typed then was meant for
/// the one before.
const READING_TIME: Duration = Duration::from_secs(1);

type ConsentClient = ConsentServiceClient<Channel>;

/// The daemon's address.
#[derive(Clone, Debug, Args)]
pub(super) struct DaemonAddress {
    /// The daemon's socket [default: its usual place]
    #[arg(long, value_name = "ADDR")]
    connect: Option<PathBuf>,
}

impl DaemonAddress {
    fn socket(&self, context: &Context) -> Result<PathBuf, Failure> {
        daemon(&context.call, self.connect.as_deref()).ok_or_else(|| {
            Failure::new("no daemon is set up here; name its socket with `--connect`")
        })
    }
}

/// Shows each question as it comes and takes the answer from stdin.
pub(super) fn watch(context: &Context, address: &DaemonAddress) -> Result<ExitCode, Failure> {
    let as_json = context.call.json;
    by_daemon(&address.socket(context)?, (), async |channel, ()| {
        let mut client = ConsentClient::new(channel);
        let mut lines = (!as_json).then(|| lines(io::BufReader::new(io::stdin())));
        let news = client.watch(pb::WatchRequest::default()).await;
        let mut news = news.map_err(connect::refused)?.into_inner();
        if !as_json {
            output::stderr(
                "hookjail: listening; answer each question with a, y or n, and Enter (Enter alone is a no)",
            );
        }
        let mut desk = Desk::new(output::text);
        loop {
            let line = async {
                match &mut lines {
                    Some(lines) => lines.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                message = news.message() => {
                    let Some(message) = message.map_err(connect::refused)? else {
                        output::stderr("hookjail: the daemon has ended");
                        return Ok(ExitCode::SUCCESS);
                    };
                    if as_json {
                        output::json_line(&json::render(&message, "hookjail.v1.WatchResponse")?);
                    } else {
                        desk.hear(message.news);
                    }
                }
                line = line => {
                    let Some(line) = line else {
                        // stdin is closed: no question can be answered any more.
                        return Ok(ExitCode::SUCCESS);
                    };
                    desk.answer(&mut client, &line).await?;
                }
            }
        }
    })
}

/// The open questions at one terminal, oldest first; the first is shown.
struct Desk {
    open: VecDeque<pb::PendingConsent>,
    say: fn(&str),
    /// The time at which the first question was shown.
    since: Instant,
}

impl Desk {
    fn new(say: fn(&str)) -> Self {
        Self {
            open: VecDeque::new(),
            say,
            since: Instant::now(),
        }
    }

    fn hear(&mut self, news: Option<News>) {
        match news {
            Some(News::Pending(pending)) => {
                self.open.push_back(pending);
                if self.open.len() == 1 {
                    self.show();
                }
            }
            Some(News::Settled(settled)) => {
                let is_it = |pending: &pb::PendingConsent| pending.consent_id == settled.consent_id;
                let shown = self.open.front().is_some_and(is_it);
                self.open.retain(|pending| !is_it(pending));
                if shown {
                    let how = if settled.expired {
                        "no answer in time, so the answer is no".to_owned()
                    } else {
                        format!("answered elsewhere: {}", word(settled.decision()))
                    };
                    (self.say)(&format!("\n  {how}\n"));
                    self.show();
                }
            }
            None => {}
        }
    }

    async fn answer(&mut self, client: &mut ConsentClient, line: &str) -> Result<(), Failure> {
        let Some(question) = self.open.front() else {
            return Ok(());
        };
        let decision = match line.trim() {
            "A" | "a" | "always" => pb::ConsentDecision::Always,
            "y" | "Y" | "yes" => pb::ConsentDecision::Once,
            "" | "n" | "N" | "no" => pb::ConsentDecision::No,
            _ => {
                (self.say)(PROMPT);
                return Ok(());
            }
        };
        if self.since.elapsed() < READING_TIME {
            (self.say)("  ignored: typed before the question appeared\n");
            (self.say)(PROMPT);
            return Ok(());
        }
        let question = question.consent_id.clone();
        // Removed first, so that the event of this very answer is ignored.
        self.open.pop_front();
        if !decide(client, &question, decision).await? {
            (self.say)("  too late: the question was answered elsewhere or withdrawn\n");
        }
        self.show();
        Ok(())
    }

    /// Denies every open question, as the terminal was closed.
    async fn refuse_all(&mut self, client: &mut ConsentClient) -> Result<(), Failure> {
        while let Some(question) = self.open.pop_front() {
            (self.say)("no\n");
            decide(client, &question.consent_id, pb::ConsentDecision::No).await?;
        }
        Ok(())
    }

    fn show(&mut self) {
        if let Some(first) = self.open.front() {
            self.since = Instant::now();
            (self.say)(&described(first));
            (self.say)(PROMPT);
        }
    }
}

/// Prints what is pending.
pub(super) fn pending(context: &Context, address: &DaemonAddress) -> Result<ExitCode, Failure> {
    let as_json = context.call.json;
    by_daemon(&address.socket(context)?, (), async |channel, ()| {
        let request = pb::WatchRequest {
            pending_only: true,
            ..pb::WatchRequest::default()
        };
        let news = ConsentClient::new(channel).watch(request).await;
        let mut news = news.map_err(connect::refused)?.into_inner();
        while let Some(message) = news.message().await.map_err(connect::refused)? {
            let Some(News::Pending(pending)) = message.news else {
                continue;
            };
            if as_json {
                output::json_line(&json::render(&pending, "hookjail.v1.PendingConsent")?);
            } else {
                output::text(&described(&pending));
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Answers one question by its id.
pub(super) fn by_id(
    context: &Context,
    address: &DaemonAddress,
    id: &str,
    decision: pb::ConsentDecision,
) -> Result<ExitCode, Failure> {
    let as_json = context.call.json;
    let counted = by_daemon(&address.socket(context)?, (), async |channel, ()| {
        decide(&mut ConsentClient::new(channel), id, decision).await
    })?;
    if as_json {
        output::json_line(&serde_json::json!({ "counted": counted, "id": id }));
    } else if counted {
        output::text(&format!("answered: {}\n", word(decision)));
    } else {
        output::stderr(
            "hookjail: no open question has this id: the question was answered or withdrawn",
        );
    }
    Ok(success(counted))
}

/// Waits for the answer to a request, and shows its questions at this terminal meanwhile.
pub(in crate::cli) async fn asking<T>(
    channel: Channel,
    request_id: String,
    answer: impl Future<Output = T>,
) -> T {
    let questions = ask_about(channel, request_id).await;
    let answer = answer.await;
    if let Some(questions) = questions {
        questions.abort();
    }
    answer
}

/// Shows one request's questions at this terminal, until the returned task is aborted.
///
/// `None` without a terminal, or where this user may not answer for the operator: the refusal of the run then has the
/// remedy.
async fn ask_about(channel: Channel, request_id: String) -> Option<tokio::task::JoinHandle<()>> {
    let terminal = File::open("/dev/tty").ok()?;
    let mut client = ConsentClient::new(channel);
    let request = pb::WatchRequest {
        pending_only: false,
        request_id,
    };
    let mut news = client.watch(request).await.ok()?.into_inner();
    Some(tokio::spawn(async move {
        let mut lines = lines(io::BufReader::new(terminal));
        let mut desk = Desk::new(output::stderr_text);
        let mut is_there = true;
        loop {
            let goes_on = tokio::select! {
                message = news.message() => match message {
                    Ok(Some(message)) => {
                        desk.hear(message.news);
                        true
                    }
                    Ok(None) | Err(_) => false,
                },
                line = lines.recv(), if is_there => match line {
                    Some(line) => desk.answer(&mut client, &line).await.is_ok(),
                    None => {
                        is_there = false;
                        true
                    }
                },
            };
            let is_done = !goes_on || (!is_there && desk.refuse_all(&mut client).await.is_err());
            if is_done {
                return;
            }
        }
    }))
}

async fn decide(
    client: &mut ConsentClient,
    id: &str,
    decision: pb::ConsentDecision,
) -> Result<bool, Failure> {
    let request = pb::DecideRequest {
        consent_id: id.to_owned(),
        decision: decision.into(),
    };
    let answer = client.decide(request).await;
    let answer = answer.map_err(connect::refused)?;
    Ok(answer.into_inner().counted)
}

/// Reads lines on a separate thread, because a terminal's read cannot be cancelled.
fn lines(input: impl BufRead + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in input.lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Describes a question. Command, names and diff are untrusted, and each stays in its line.
fn described(pending: &pb::PendingConsent) -> String {
    let style = Style::of_stdout();
    let mut rows = Rows::plain("  ", 12);
    rows.line("");
    if pending.tool_name.is_empty() {
        rows.line("May this hook run?");
        rows.some("$", &style.strong(&typed(&pending.command)));
    } else {
        rows.line("May this tool be called?");
        rows.some("tool", &style.strong(&pending.tool_name));
        rows.some("input", &pending.tool_input_json);
    }
    rows.some("hook", &pending.hook_name);
    rows.some("why", &pending.why);
    rows.some("asked by", &pending.peer);
    rows.some("workspace", &pending.workspace);
    if !pending.profile.is_empty() {
        let description = &pending.profile_description;
        rows.row("profile", format!("{}: {description}", pending.profile));
    }
    rows.each("reaches", &pending.egress);
    rows.each("sends", &pending.requests);
    let axes = pending.axes.iter();
    rows.each("", axes.map(|axis| axis_words(axis, style)));
    for digest in &pending.digests {
        let (path, sha256) = (&digest.path, &digest.sha256);
        rows.row(&digest.role, format!("{sha256}  {path}"));
    }
    for changed in pending.diff.lines() {
        let shown = match changed.as_bytes().first() {
            Some(b'+') => style.good(changed),
            Some(b'-') => style.bad(changed),
            _ => changed.to_owned(),
        };
        rows.some("", &shown);
    }
    rows.some("id", &pending.consent_id);
    rows.as_str().to_owned()
}

const fn word(decision: pb::ConsentDecision) -> &'static str {
    match decision {
        pb::ConsentDecision::Always => "always",
        pb::ConsentDecision::Once => "yes, this once",
        pb::ConsentDecision::No | pb::ConsentDecision::Unspecified => "no",
    }
}
