//! Adapter for hooks that docker-agent starts itself.

use super::{DockerAgent, POINTS};
use crate::contract::{
    Mode,
    adopt::Adapter,
    members::{Members, text},
};

impl Adapter for DockerAgent {
    fn name(&self) -> &'static str {
        "docker-agent"
    }

    fn mode(&self) -> Mode {
        Mode::DockerAgent
    }

    fn keeps_yaml(&self) -> bool {
        true
    }

    fn likeness(&self, payload: &Members<'_>) -> Option<u8> {
        let point = payload.last("hook_event_name").and_then(text)?;
        POINTS.iter().any(|known| known.name == point).then_some(9)
    }
}
