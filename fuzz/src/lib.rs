//! What the fuzz targets do with their input; `tests/fuzz_seeds.rs` does the same with every seed.

use bytes::Bytes;
use hookjail::{
    contract::{
        End, EndKind, Mode,
        hook_file::{Origin, Switches, contracts, read},
    },
    model::{OnFailure, event::parse_event},
    pb::ExecuteRequest,
    policy::profile::ProfileFile,
    testing::{
        config::{Config, ProcessEnv},
        wire,
    },
};
use prost::Message;

/// A target's name, as its binary and its folder of seeds have it, and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 6] = [
    ("config", config),
    ("directive", directive),
    ("event", event),
    ("hook_file", hook_file),
    ("profile", profile),
    ("request", request),
];

/// Parses a configuration as operators write them.
pub fn config(bytes: &[u8]) {
    let environment = ProcessEnv {
        home: Some("/home/user".into()),
        ..ProcessEnv::default()
    };
    if let Ok(text) = str::from_utf8(bytes) {
        drop(Config::parse(text, &environment));
    }
}

/// Interprets what a hook prints, under every contract.
pub fn directive(stdout: &[u8]) {
    for mode in Mode::ALL {
        let points = mode.points().iter().map(|point| point.name);
        for point in points.chain(["another"]) {
            let end = End {
                kind: EndKind::Exited(0),
                point,
                stdout,
                ..End::default()
            };
            let verdict = mode.judge(&end, OnFailure::Contract);
            // Whatever was printed, it is either delivered or said why not, never both.
            assert!(verdict.push.is_none() || verdict.skip.is_none());
            assert!(!verdict.decision.stops() || verdict.blocked_by.is_some());
        }
    }
}

/// Parses an event as callers send them; one that is accepted is passed on byte for byte.
pub fn event(bytes: &[u8]) {
    if let Ok(event) = parse_event(Bytes::copy_from_slice(bytes), 4096) {
        assert_eq!(event, bytes);
    }
}

/// Reads a file of hooks as the users of each system have them: the first byte says whose.
pub fn hook_file(bytes: &[u8]) {
    let Some((whose, Ok(text))) = bytes
        .split_first()
        .map(|(whose, text)| (*whose, str::from_utf8(text)))
    else {
        return;
    };
    let switches = Switches::of(|name| {
        let is_on = ["INFER_HOOKS_ENABLED", "OWNWARE_ALLOW_COMMAND_HOOKS"].contains(&name);
        is_on.then(|| "1".to_owned())
    });
    let contracts = contracts();
    let origin = Origin {
        base: None,
        name: "file",
    };
    drop(read(
        contracts[usize::from(whose) % contracts.len()],
        text,
        &origin,
        &switches,
    ));
}

/// Parses a profile as operators write them.
pub fn profile(bytes: &[u8]) {
    if let Ok(text) = str::from_utf8(bytes) {
        drop(ProfileFile::parse(text));
    }
}

/// Decodes a request as it comes over the wire.
pub fn request(bytes: &[u8]) {
    if let Ok(message) = ExecuteRequest::decode(bytes) {
        drop(wire::decode(
            message,
            wire::WireLimits {
                event_bytes: 4096,
                ..wire::WireLimits::default()
            },
        ));
    }
}
