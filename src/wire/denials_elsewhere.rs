//! What a hook was denied: only Linux tells the daemon.

use super::encode::ReportedDenials;
use crate::{pipeline::Interpreted, policy::forbidden::Forbidden};

pub(super) const fn denials(_: &Interpreted, _: &Forbidden) -> ReportedDenials {
    ReportedDenials {
        cut: false,
        told: Vec::new(),
    }
}
