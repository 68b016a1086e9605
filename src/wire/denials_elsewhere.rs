//! Denials on systems other than Linux: none, as only Linux reports them.

use super::encode::ReportedDenials;
use crate::{pipeline::Interpreted, policy::forbidden::Forbidden};

pub(super) const fn denials(_: &Interpreted, _: &Forbidden) -> ReportedDenials {
    ReportedDenials {
        cut: false,
        reported: Vec::new(),
    }
}
