//! Adapter for hooks that docker-agent starts itself.

use super::FACTS;
use crate::{Mode, adopt::Adapter};

pub(super) const ADAPTER: Adapter = Adapter {
    keeps_yaml: true,
    likeness: |_, point| FACTS.has_point(point?).then_some(9),
    ..Adapter::new("docker-agent", Mode::DockerAgent)
};
