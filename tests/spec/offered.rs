//! The requests of `hookjail run` to a daemon, and the answers that it accepts. A daemon of the test records the requests.

use std::{
    path::Path,
    pin::Pin,
    process::Output,
    sync::{Arc, Mutex},
};

use hookjail::pb::{
    self,
    hook_service_server::{HookService, HookServiceServer},
};
use prost::Message;
use tempfile::TempDir;
use tokio::net::{TcpListener, UnixListener};
use tokio_stream::{
    Stream,
    wrappers::{TcpListenerStream, UnixListenerStream},
};
use tonic::{Request, Response, Status, transport::Server};

use crate::{
    adopt::{CASES, assert_is_no, ended, in_place, outcome_of, places, written},
    support::{Daemon, Setup, directory, program, thin},
};

/// Values of variables that no daemon is to have, and one that every shipped profile admits.
const VARIABLES: [&str; 5] = [
    "ANTHROPIC_API_KEY=secret-a",
    "AWS_SECRET_ACCESS_KEY=secret-b",
    "GITHUB_TOKEN=secret-c",
    "MY_VAR=secret-d",
    "CLAUDE_PROJECT_DIR=/",
];

/// How a recorder answers.
#[derive(Clone, Debug, Default)]
struct Answers {
    /// The id that its answers carry; `None` = the request's.
    id: Option<&'static str>,
    /// The variables that it requests, in every answer.
    wanted: Vec<&'static str>,
}

/// A daemon that runs nothing, lets every call pass, and records its requests.
#[derive(Clone, Debug, Default)]
struct Recorder {
    answers: Answers,
    requests: Arc<Mutex<Vec<pb::ExecuteRequest>>>,
}

impl Recorder {
    /// Listens on a socket of this host.
    fn listen(directory: &TempDir, answers: Answers) -> (Self, String) {
        let recorder = Self {
            answers,
            ..Self::default()
        };
        let path = directory.path().join("sock");
        let incoming = UnixListenerStream::new(UnixListener::bind(&path).unwrap());
        let server = Server::builder().add_service(HookServiceServer::new(recorder.clone()));
        tokio::spawn(server.serve_with_incoming(incoming));
        (recorder, path.display().to_string())
    }

    /// Listens at an address over the network.
    async fn over_network() -> (Self, String) {
        let recorder = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Server::builder().add_service(HookServiceServer::new(recorder.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (recorder, url)
    }

    /// Returns the requests since the last call.
    fn take(&self) -> Vec<pb::ExecuteRequest> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    fn id(&self, requested_id: String) -> String {
        self.answers.id.map_or(requested_id, str::to_owned)
    }
}

#[tonic::async_trait]
impl HookService for Recorder {
    type ExecuteStreamStream =
        Pin<Box<dyn Stream<Item = Result<pb::ExecuteStreamResponse, Status>> + Send>>;

    async fn execute(
        &self,
        request: Request<pb::ExecuteRequest>,
    ) -> Result<Response<pb::ExecuteResponse>, Status> {
        let request = request.into_inner();
        self.requests.lock().unwrap().push(request.clone());
        let wanted = self.answers.wanted.iter();
        let response = pb::ExecuteResponse {
            request_id: self.id(request.request_id),
            wanted_variables: wanted.map(|&name| name.to_owned()).collect(),
            ..pb::ExecuteResponse::default()
        };
        Ok(Response::new(if self.answers.wanted.is_empty() {
            let outcome = pb::Outcome {
                exit_code: Some(0),
                kind: pb::OutcomeKind::Exited.into(),
                ..pb::Outcome::default()
            };
            pb::ExecuteResponse {
                outcome: Some(outcome),
                ..response
            }
        } else {
            response
        }))
    }

    async fn dispatch(
        &self,
        request: Request<pb::DispatchRequest>,
    ) -> Result<Response<pb::DispatchResponse>, Status> {
        Ok(Response::new(pb::DispatchResponse {
            request_id: self.id(request.into_inner().request_id),
            ..pb::DispatchResponse::default()
        }))
    }

    async fn execute_stream(
        &self,
        _: Request<pb::ExecuteStreamRequest>,
    ) -> Result<Response<Self::ExecuteStreamStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_hooks(
        &self,
        _: Request<pb::ListHooksRequest>,
    ) -> Result<Response<pb::ListHooksResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn interpret(
        &self,
        _: Request<pb::InterpretRequest>,
    ) -> Result<Response<pb::InterpretResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn preview(
        &self,
        _: Request<pb::PreviewRequest>,
    ) -> Result<Response<pb::PreviewResponse>, Status> {
        Err(Status::unimplemented(""))
    }
}

/// Has a program stand in for a hook of the first case, with these variables.
fn stood_in(program: &str, variables: &[&str], options: &[&str], hook: &str) -> Output {
    let directory = Path::new("/");
    let case = &CASES[0];
    let run = match program.ends_with("-run") {
        true => &[program][..],
        false => &[program, "run"],
    };
    let words = [
        &["env"],
        variables,
        run,
        &["--as", case.runtime],
        options,
        &["--", hook],
    ];
    ended(directory, &words.concat(), case.harmless)
}

/// Returns both programs that stand in for hooks.
fn programs() -> [String; 2] {
    [thin(), program()].map(|path| path.display().to_string())
}

#[track_caller]
fn assert_without_secrets(request: &pb::ExecuteRequest) {
    let sent = request.encode_to_vec();
    assert!(
        !sent.windows(7).any(|part| part == b"secret-"),
        "{request:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_gets_the_variables_that_shipped_profiles_admit_and_the_names_of_the_others() {
    let place = directory();
    let (recorder, socket) = Recorder::listen(&place, Answers::default());
    for program in programs() {
        let options = ["--connect", &socket, "--env", "MINE=m"];
        let output = stood_in(&program, &VARIABLES, &options, "/bin/true");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let [request] = &recorder.take()[..] else {
            panic!("one request");
        };
        assert_without_secrets(request);
        let offer = request.offer.as_ref().unwrap();
        assert_eq!(offer.env["CLAUDE_PROJECT_DIR"], "/");
        assert_eq!(offer.env["PATH"], std::env::var("PATH").unwrap());
        assert!(offer.names.contains(&"MY_VAR".to_owned()), "{offer:?}");
        assert_eq!(request.hook.as_ref().unwrap().env["MINE"], "m");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_gets_a_value_that_it_wants_once_and_of_an_offered_name_alone() {
    let place = directory();
    let answers = Answers {
        wanted: vec!["MY_VAR", "LD_PRELOAD", "NOT_THERE"],
        ..Answers::default()
    };
    let (recorder, socket) = Recorder::listen(&place, answers);
    let variables = [&VARIABLES[..], &["LD_PRELOAD="]].concat();
    let output = stood_in(
        &programs()[0],
        &variables,
        &["--connect", &socket],
        "/bin/true",
    );
    // The recorder runs nothing, so the call is denied.
    assert_is_no(&CASES[0], &output);
    let [first, second] = &recorder.take()[..] else {
        panic!("two requests");
    };
    assert_without_secrets(first);
    let offers = [first, second].map(|request| request.offer.clone().unwrap());
    let [mut expected, second_offer] = offers;
    expected.names.clear();
    let value = "secret-d".to_owned();
    assert_eq!(expected.env.insert("MY_VAR".to_owned(), value), None);
    assert_eq!(second_offer, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_the_network_a_daemon_gets_the_variables_of_the_command_line_alone() {
    let (recorder, url) = Recorder::over_network().await;
    for program in programs() {
        let options = ["--connect", &url, "--env", "MINE=m"];
        let output = stood_in(&program, &VARIABLES, &options, "/bin/true");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let [request] = &recorder.take()[..] else {
            panic!("one request");
        };
        let offer = request.offer.as_ref().unwrap();
        assert!(offer.env.is_empty() && offer.names.is_empty(), "{offer:?}");
        let env = &request.hook.as_ref().unwrap().env;
        assert_eq!(env.len(), 1, "{env:?}");
        assert_eq!(env["MINE"], "m");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtimes_hook_takes_no_address_over_the_network_from_a_variable() {
    let (recorder, url) = Recorder::over_network().await;
    let place = directory();
    let (local, socket) = Recorder::listen(&place, Answers::default());
    for program in programs() {
        for address in [url.clone(), format!("unix:{url}")] {
            let variable = format!("HOOKJAIL_ADDR={address}");
            for options in [&[][..], &["--start"]] {
                let output = stood_in(&program, &[&variable], options, "/bin/true");
                assert_is_no(&CASES[0], &output);
                assert_eq!(recorder.take(), [], "{program} {address}");
            }
        }
        // The controls: the same address on the command line, and a socket in the variable.
        let output = stood_in(&program, &[], &["--connect", &url], "/bin/true");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(recorder.take().len(), 1);
        let variable = format!("HOOKJAIL_ADDR={socket}");
        let output = stood_in(&program, &[&variable], &[], "/bin/true");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(local.take().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_another_request_is_a_no() {
    let (right, wrong) = (directory(), directory());
    let (recorder, right_socket) = Recorder::listen(&right, Answers::default());
    let answers = Answers {
        id: Some("another"),
        ..Answers::default()
    };
    let (_recorder, anothers) = Recorder::listen(&wrong, answers);
    let directory = Path::new("/");
    for case in &CASES {
        let words = in_place(case.runtime, &anothers, &[], "/bin/true");
        let output = ended(directory, &words, case.harmless);
        assert_is_no(case, &output);
        // The control.
        let words = in_place(case.runtime, &right_socket, &[], "/bin/true");
        let output = ended(directory, &words, case.harmless);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
    let ids = recorder.take().into_iter().map(|it| it.request_id);
    let mut ids: Vec<_> = ids.collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!((ids.len(), ids[0].len()), (all, 36), "{ids:?}");

    let whole = program().display().to_string();
    let run = ["run", "--", "/bin/true"];
    let dispatch = ["dispatch", "--contract", "loom", "--point", "tool.pre"];
    for words in [&run[..], &dispatch] {
        for (socket, code) in [(&right_socket, 0), (&anothers, 125)] {
            let words = [&[&*whole, words[0], "--connect", socket], &words[1..]].concat();
            let output = ended(directory, &words, "{}");
            assert_eq!(output.status.code(), Some(code), "{words:?} {output:?}");
        }
    }
}

#[tokio::test]
async fn a_hook_has_the_variables_that_an_operators_own_profile_admits_and_runs_once() {
    let profile =
        "description = \"d\"\nextends = \"pipeline\"\n[environment]\nallow = [\"MY_VAR\"]\n";
    let daemon = Daemon::with(Setup {
        profiles: vec![("mine".to_owned(), profile.to_owned())],
        ..Setup::default()
    })
    .await;
    let (socket, directory) = places(&daemon);
    let script = "#!/bin/sh\necho \"$MY_VAR $CLAUDE_PROJECT_DIR $GITHUB_TOKEN.\"\n";
    let hook = written(&daemon, "hook", script);
    let hook = hook.to_str().unwrap();
    for (profile, expected) in [("mine", "secret-d / .\n"), ("pipeline", " / .\n")] {
        let words = in_place("claude-code", &socket, &["--profile", profile], hook);
        let words = [&["env"], &VARIABLES[..], &words].concat();
        let output = ended(&directory, &words, CASES[0].harmless);
        assert_eq!(
            outcome_of(&output),
            (Some(0), expected.to_owned(), String::new()),
            "{profile}"
        );
    }
    assert_eq!(daemon.records().len(), 4, "{:?}", daemon.records());
}
