//! git hooks: any exit code but 0 blocks the operation; stdin is no JSON.

use super::{
    Mode,
    adopt::{Adapter, HookOutput},
};

pub(super) const ADAPTER: Adapter = Adapter {
    answers_by_code: true,
    names_points: false,
    no: |_, why| Some(HookOutput::by_code(1, why)),
    takes_for_no: |_, said| Some(said.code != 0),
    ..Adapter::new("git", Mode::Observe)
};
