//! Services on the socket: health, reflection, and a clear refusal of calls that are not served.

use hookjail::pb::{self, sandbox_service_client::SandboxServiceClient};
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::{v1, v1alpha};

use crate::support::{Daemon, SHIPPED, hook, reason, sh};

#[tokio::test]
async fn health_says_that_the_daemon_serves() {
    let daemon = Daemon::start().await;
    let mut client = HealthClient::new(daemon.channel());
    for service in ["", "hookjail.v1.HookService"] {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let response = client.check(request).await.unwrap().into_inner();
        assert_eq!(response.status(), ServingStatus::Serving);
    }
    let request = HealthCheckRequest {
        service: "no.such.Service".to_owned(),
    };
    let unknown = client.check(request).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
}

/// Asks the reflection of one version, whose types differ by their module alone, for the services.
macro_rules! reflected_services {
    ($version:ident, $channel:expr) => {{
        use $version::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
        };
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let answers = ServerReflectionClient::new($channel)
            .server_reflection_info(tokio_stream::once(request))
            .await;
        let answer = answers.unwrap().into_inner().message().await.unwrap();
        let Some(MessageResponse::ListServicesResponse(list)) = answer.unwrap().message_response
        else {
            panic!("another answer")
        };
        list.service
            .into_iter()
            .map(|service| service.name)
            .collect::<Vec<_>>()
    }};
}

#[tokio::test]
async fn reflection_lists_the_services() {
    let daemon = Daemon::start().await;
    for names in [
        reflected_services!(v1, daemon.channel()),
        reflected_services!(v1alpha, daemon.channel()),
    ] {
        for name in [
            "hookjail.v1.HookService",
            "hookjail.v1.SandboxService",
            "grpc.health.v1.Health",
        ] {
            assert!(names.contains(&name.to_owned()), "{names:?}");
        }
        // The administration is on a socket of its own.
        assert!(!names.contains(&"hookjail.v1.AdminService".to_owned()));
    }
}

#[tokio::test]
async fn reflection_knows_what_refusals_carry() {
    use v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let daemon = Daemon::start().await;
    let mut client = ServerReflectionClient::new(daemon.channel());
    let mut knows = async |symbol: &str| {
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::FileContainingSymbol(symbol.to_owned())),
        };
        let answers = client.server_reflection_info(tokio_stream::once(request));
        let answer = match answers.await {
            Ok(answers) => answers.into_inner().message().await,
            Err(status) => Err(status),
        };
        let answer = answer.ok().flatten().and_then(|it| it.message_response);
        matches!(answer, Some(MessageResponse::FileDescriptorResponse(_)))
    };
    assert!(knows("google.rpc.ErrorInfo").await);
    assert!(knows("google.rpc.BadRequest").await);
    assert!(!knows("google.rpc.NoSuchThing").await);
}

#[tokio::test]
async fn a_models_judgement_is_read_and_never_run() {
    let daemon = Daemon::start().await;
    let event = pb::Event {
        point: "pre_tool_use".to_owned(),
        ..pb::Event::default()
    };
    let request = pb::ExecuteRequest {
        contract: pb::Contract::DockerAgent.into(),
        event: Some(event.clone()),
        mode: "model".to_owned(),
        ..hook(["/bin/true"])
    };
    let dispatch = pb::DispatchRequest {
        contract: pb::Contract::DockerAgent.into(),
        event: Some(event),
        inline_hooks: vec![pb::InlineHook {
            hook: request.hook.clone(),
            mode: "model".to_owned(),
            ..pb::InlineHook::default()
        }],
        ..pb::DispatchRequest::default()
    };

    let refused = daemon.run(request).await.unwrap_err();
    let dispatched = daemon.client().dispatch(dispatch).await.unwrap();

    assert_eq!(
        (refused.code(), &*reason(&refused)),
        (Code::Unimplemented, "UNSUPPORTED")
    );
    let dispatched = dispatched.into_inner();
    let Some(pb::dispatched_hook::End::Refused(refusal)) = &dispatched.hooks[0].end else {
        panic!("{:?}", dispatched.hooks[0])
    };
    assert_eq!(refusal.reason, "UNSUPPORTED");
    // The hook fails, and a failure denies here.
    let answer = dispatched.answer.unwrap();
    assert_eq!(answer.decision(), pb::Decision::Deny);
    assert_eq!(daemon.records(), ["refused"; 2]);
}

#[tokio::test]
async fn every_contract_runs_a_command_line_as_it_says() {
    let daemon = Daemon::start().await;
    let workspace = daemon.workspace();
    for (contract, point, is_shell) in [
        (pb::Contract::Basecoat, "PreToolUse", false),
        (pb::Contract::ClaudeCode, "PreToolUse", true),
        (pb::Contract::Codex, "PreToolUse", true),
        (pb::Contract::Copilot, "preToolUse", true),
        (pb::Contract::Cursor, "preToolUse", true),
        (pb::Contract::DockerAgent, "pre_tool_use", true),
        (pb::Contract::GeminiCli, "BeforeTool", true),
        (pb::Contract::Infer, "pre_tool", true),
        (pb::Contract::Loom, "tool.pre", true),
        (pb::Contract::Observe, "", false),
        (pb::Contract::QwenCode, "PreToolUse", true),
    ] {
        let request = |point: &str| pb::ExecuteRequest {
            contract: contract.into(),
            event: Some(pb::Event {
                point: point.to_owned(),
                ..pb::Event::default()
            }),
            hook: Some(pb::Hook {
                shell: Some(pb::Shell {
                    script: "echo a | cat".to_owned(),
                    shell: String::new(),
                }),
                workspace: workspace.display().to_string(),
                ..pb::Hook::default()
            }),
            ..pb::ExecuteRequest::default()
        };
        let response = daemon.run(request(point)).await.unwrap();
        let expected: &[u8] = if is_shell { b"a\n" } else { b"a | cat\n" };
        assert_eq!(&response.stdout[..], expected, "{contract:?}");
        let profile = response.confinement.unwrap().profile;
        let default_profile = if is_shell { "workspace-ro" } else { "strict" };
        assert_eq!(profile, default_profile, "{contract:?}");
        // A hook at a point that the contract lacks does not run.
        let elsewhere = daemon.run(request("no_such_point")).await;
        let is_open = matches!(
            contract,
            pb::Contract::ClaudeCode | pb::Contract::Observe | pb::Contract::QwenCode
        );
        assert_eq!(elsewhere.is_ok(), is_open, "{contract:?}");
        // A runtime hands on its own events as they are, and a newer one has more points.
        let mut newer = request("no_such_point");
        newer.event.get_or_insert_default().raw = true;
        let ran = daemon.run(newer).await.unwrap();
        assert_eq!(&ran.stdout[..], expected, "{contract:?}");
    }
}

#[tokio::test]
async fn answers_carry_the_callers_request_id_or_one_made_here() {
    let daemon = Daemon::start().await;
    let named = pb::ExecuteRequest {
        request_id: "mine".to_owned(),
        ..hook(["/bin/true"])
    };

    assert_eq!(daemon.run(named).await.unwrap().request_id, "mine");
    let made = daemon.run(hook(["/bin/true"])).await.unwrap().request_id;

    assert!(uuid::Uuid::parse_str(&made).is_ok(), "{made}");
    assert_eq!(daemon.journal()[2]["request_id"], made);
}

#[tokio::test]
async fn a_request_that_comes_again_gets_the_answer_of_the_first() {
    let daemon = Daemon::start().await;
    let request = |script: &str| {
        let mut request = sh("strict", script);
        request.request_id = "once".to_owned();
        // More than one: their order on the wire is the client's.
        let names = ["LC_ALL", "LC_TIME", "LC_CTYPE", "LC_COLLATE", "LC_NUMERIC"];
        let env = names.map(|name| (name.to_owned(), "C".to_owned()));
        request.hook.as_mut().unwrap().env = env.into();
        request
    };

    let first = daemon.run(request("echo $$")).await.unwrap();
    let again = daemon.run(request("echo $$")).await.unwrap();
    let other = daemon.run(request("echo other")).await.unwrap_err();

    assert_eq!(first, again);
    assert_eq!(
        (other.code(), reason(&other)),
        (Code::FailedPrecondition, "REQUEST_ID_CONFLICT".to_owned())
    );
    assert_eq!(daemon.records(), ["started", "ended", "refused"]);
}

#[tokio::test]
async fn the_status_shows_every_axis_of_every_profile_with_both_legs() {
    let daemon = Daemon::offering(&SHIPPED).await;
    let mut client = SandboxServiceClient::new(daemon.channel());

    let status = client.get_status(pb::GetStatusRequest {}).await.unwrap();

    let status = status.into_inner();
    assert_eq!(status.version, env!("CARGO_PKG_VERSION"));
    let backends: Vec<_> = status.backends.iter().map(|b| b.backend.as_str()).collect();
    assert_eq!(backends, ["landlock"]);
    assert!(status.backends[0].available && status.backends[0].landlock_abi > 0);
    let names: Vec<_> = status.profiles.iter().map(|p| p.profile.as_str()).collect();
    assert_eq!(names, SHIPPED);
    for profile in &status.profiles {
        assert!(profile.confirmed, "{profile:?}");
        assert_eq!(profile.axes.len(), 14);
        for axis in &profile.axes {
            assert!(axis.deny.iter().chain(&axis.control).all(|leg| leg.held));
        }
        let with_both_legs =
            |axis: &&pb::AxisEvidence| !axis.deny.is_empty() && !axis.control.is_empty();
        assert!(profile.axes.iter().filter(with_both_legs).count() >= 7);
    }
}

#[tokio::test]
async fn a_self_test_is_made_anew_for_the_profile_that_is_named() {
    let daemon = Daemon::start().await;
    let mut client = SandboxServiceClient::new(daemon.channel());
    let tested = |profile: &pb::ProfileStatus| {
        let time = profile.tested_at.unwrap();
        (time.seconds, time.nanos)
    };
    let before = client.get_status(pb::GetStatusRequest {}).await.unwrap();
    let again = client.get_status(pb::GetStatusRequest {}).await.unwrap();
    let before = before.into_inner().profiles;
    assert_eq!(before, again.into_inner().profiles);

    let request = pb::SelfTestRequest {
        profile: "strict".to_owned(),
    };
    let made = client.self_test(request).await.unwrap().into_inner();

    let after = client.get_status(pb::GetStatusRequest {}).await.unwrap();
    let after = after.into_inner().profiles;
    assert_eq!(made.profiles.len(), 1);
    for (before, after) in before.iter().zip(&after) {
        let is_strict = after.profile == "strict";
        assert_eq!(tested(before) != tested(after), is_strict);
        assert!(after.confirmed && (!is_strict || *after == made.profiles[0]));
    }
}

#[tokio::test]
async fn profiles_can_be_listed_and_read_by_name() {
    let daemon = Daemon::start().await;
    let mut client = SandboxServiceClient::new(daemon.channel());

    let list = client.list_profiles(pb::ListProfilesRequest {}).await;
    for summary in list.unwrap().into_inner().profiles {
        let request = pb::GetProfileRequest {
            name: summary.name.clone(),
        };
        let profile = client.get_profile(request).await.unwrap().into_inner();
        assert!(profile.toml.contains(&summary.description), "{profile:?}");
        assert_eq!(profile.summary, Some(summary));
    }
    let name = "../strict".to_owned();
    let unknown = client.get_profile(pb::GetProfileRequest { name }).await;

    let unknown = unknown.unwrap_err();
    let expected = (Code::NotFound, "PROFILE_UNKNOWN".to_owned());
    assert_eq!((unknown.code(), reason(&unknown)), expected);
}
