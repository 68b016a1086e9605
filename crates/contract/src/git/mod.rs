//! git hooks: programs of a directory, started with arguments. Any exit code but 0 blocks the operation at most points; stdin is no JSON.

pub mod scripts;

use super::{
    Mode,
    adopt::{Adapter, HookOutput},
    settings::Settings,
};

pub(super) const ADAPTER: Adapter = Adapter {
    answers_by_code: true,
    names_points: false,
    no: |_, why| Some(HookOutput::by_code(1, why)),
    notice: |_, why, notice| Some(HookOutput::by_code(1, &format!("{why}\n{notice}"))),
    settings: Settings {
        project: &[scripts::CONFIGURATION],
        user: &[],
    },
    stops_nothing_at: &[
        "p4-post-changelist",
        "post-applypatch",
        "post-checkout",
        "post-commit",
        "post-index-change",
        "post-merge",
        "post-receive",
        "post-rewrite",
        "post-update",
    ],
    takes_for_no: |_, output| Some(output.code != 0),
    ..Adapter::new("git", Mode::Observe)
};
