//! What a hook was denied: only Linux tells the daemon.

use super::encode::Told;
use crate::{pipeline::Interpreted, policy::forbidden::Forbidden};

pub(super) const fn denials(_: &Interpreted, _: &Forbidden) -> Told {
    Told {
        cut: false,
        told: Vec::new(),
    }
}
