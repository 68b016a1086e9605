//! Callers that are no good.

use std::{
    io::Write,
    os::unix::net::UnixStream,
    path::PathBuf,
    time::{Duration, Instant},
};

use hookjail::pb::{
    ExecuteStreamRequest, execute_stream_response::Part, hook_service_client::HookServiceClient,
};
use tower::service_fn;

use crate::{
    load::{Call, Said, marking, reconnecting},
    scene::Scene,
    support::{Setup, dial, endpoint},
};

/// The number of bytes that a hook prints whose reader pauses: more than pipes and windows hold.
const PRINTED: u64 = 4_000_000;

/// Has all of them at once, beside callers that are as they should be.
pub(crate) async fn clients_are_slow_silent_or_gone(scene: &mut Scene) {
    scene.start(Setup::default()).await;
    scene.load(8);
    let socket = scene.home().join("sock");
    let workspace = scene.daemon().workspace();
    for round in 0..scene.rounds(2, 10) {
        let mut silent: Vec<_> = (0..128)
            .map(|_| UnixStream::connect(&socket).unwrap())
            .collect();
        for half in &mut silent[..64] {
            half.write_all(b"PRI * HTTP/2.0\r\n\r\nSM").unwrap();
        }
        let gone = (0..8).map(|number| {
            let id = format!("gone-{round}-{number}");
            let marker = scene.marker().to_owned();
            tokio::spawn(leave(socket.clone(), workspace.clone(), id, marker))
        });
        let gone: Vec<_> = gone.collect();
        let slow = (0..4).map(|number| {
            let id = format!("slow-{round}-{number}");
            tokio::spawn(read_slowly(socket.clone(), workspace.clone(), id))
        });
        let slow: Vec<_> = slow.collect();
        scene.a_while().await;
        scene.served_again(Instant::now()).await;
        for caller in gone {
            scene.add(caller.await.unwrap());
        }
        for reader in slow {
            let (call, lacks) = reader.await.unwrap();
            scene.add([call]);
            if let Some(lacks) = lacks {
                scene.wrong(lacks);
            }
        }
        drop(silent);
    }
}

/// Calls and goes away, over and over: by turns the call alone, and the connection with it.
async fn leave(socket: PathBuf, workspace: PathBuf, id: String, marker: String) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut client = HookServiceClient::new(reconnecting(socket.clone()));
    for number in 0..8 {
        let id = format!("{id}-{number}");
        let request = marking(&workspace, &id, &format!("sleep {marker} & sleep {marker}"));
        let begun = Instant::now();
        // How far it came by then: in the queue, in its set-up, or running.
        let patience = Duration::from_millis(1 << number);
        let answer = tokio::time::timeout(patience, client.execute(request)).await;
        if number % 2 == 0 {
            client = HookServiceClient::new(reconnecting(socket.clone()));
        }
        let reply = answer.map_or(Said::Unheard, |answer| {
            Said::from_answer(Ok::<_, ()>(answer))
        });
        calls.push(Call::new(id, begun, reply));
    }
    calls
}

/// Takes nothing of a hook's output until long after the hook is over; returns what is not there of it.
async fn read_slowly(socket: PathBuf, workspace: PathBuf, id: String) -> (Call, Option<String>) {
    let dial = service_fn(move |_| dial(socket.clone()));
    let channel = endpoint()
        .initial_stream_window_size(1 << 16)
        .initial_connection_window_size(1 << 16)
        .connect_with_connector_lazy(dial);
    let begun = Instant::now();
    let request = marking(&workspace, &id, &format!("head -c {PRINTED} /dev/urandom"));
    let request = ExecuteStreamRequest {
        request: Some(request),
    };
    let (mut got, mut response) = (0, None);
    let reply = match HookServiceClient::new(channel)
        .execute_stream(request)
        .await
    {
        Err(status) => Said::from_answer(Ok::<_, ()>(Err(status))),
        Ok(stream) => {
            let mut stream = stream.into_inner();
            tokio::time::sleep(Duration::from_millis(600)).await;
            loop {
                match stream.message().await {
                    Ok(Some(message)) => match message.part {
                        Some(Part::Stdout(piece)) => got += u64::try_from(piece.len()).unwrap(),
                        Some(Part::Response(last)) => response = Some(last),
                        Some(Part::Stderr(_)) | None => {}
                    },
                    Ok(None) => {
                        break response.map_or(Said::Lost, |last| Said::Ended(Box::new(last)));
                    }
                    Err(status) => break Said::from_answer(Ok::<_, ()>(Err(status))),
                }
            }
        }
    };
    let total = match &reply {
        Said::Ended(last) => last.stdout_total_bytes,
        Said::Refused { .. } | Said::Fault | Said::Lost | Said::Nothing | Said::Unheard => 0,
    };
    let lacks = (got != PRINTED || total != PRINTED).then(|| {
        let label = reply.label();
        format!("a slow reader got {got} of {PRINTED} bytes, and the answer {label}, {total} bytes")
    });
    (Call::new(id, begun, reply), lacks)
}
