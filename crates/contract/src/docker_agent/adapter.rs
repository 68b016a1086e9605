//! Adapter for hooks that docker-agent starts itself.

use super::{DockerAgent, POINTS};
use crate::{
    Mode,
    adopt::{Adapter, AdapterFacts},
    members::{Members, text},
};

const ADAPTER: AdapterFacts = AdapterFacts {
    keeps_yaml: true,
    mode: Mode::DockerAgent,
    name: "docker-agent",
    ..AdapterFacts::NONE
};

impl Adapter for DockerAgent {
    fn facts(&self) -> &'static AdapterFacts {
        &ADAPTER
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        let point = payload.last("hook_event_name").and_then(text)?;
        POINTS.iter().any(|known| known.name == point).then_some(9)
    }
}
