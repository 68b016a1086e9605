//! A runtime sends a hook, hookjail runs it confined and answers with its output.

use hookjail::pb;

use crate::support::{Daemon, hook};

#[tokio::test]
async fn a_hook_runs_confined_and_its_directive_comes_back() {
    let daemon = Daemon::start().await;
    let script = r#"read -r event; printf '{"message":"go on","wake":true,"push_when":true}'"#;
    let mut request = hook(["/bin/sh", "-c", script]);
    request.contract = pb::Contract::Reyn.into();
    request.mode = "shell_push".to_owned();
    request.event = Some(pb::Event {
        point: "turn_end".to_owned(),
        ..pb::Event::default()
    });

    let response = daemon.run(request).await.unwrap();

    let outcome = response.outcome.unwrap();
    assert_eq!(
        (outcome.kind(), outcome.exit_code),
        (pb::OutcomeKind::Exited, Some(0))
    );
    let push = pb::Push {
        message: "go on".to_owned(),
        name: "turn_end".to_owned(),
        session: String::new(),
        wake: true,
    };
    assert_eq!(response.verdict.unwrap().push, Some(push));
    let confinement = response.confinement.unwrap();
    assert!(confinement.confirmed);
    assert_eq!(confinement.axes.len(), 14);
    assert_eq!(daemon.records(), ["started", "ended"]);
}
