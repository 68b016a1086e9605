//! Denials on systems other than Linux: none, as only Linux reports them.

use hookjail_proto as pb;

use crate::pipeline::Interpreted;

pub(super) const fn denials(_: &Interpreted) -> Vec<pb::Denial> {
    Vec::new()
}
