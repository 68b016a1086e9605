//! git hooks: any exit code but 0 blocks the operation; stdin is no JSON.

use super::{
    Mode,
    adopt::{Adapter, Said},
};

pub(super) struct Git;

impl Adapter for Git {
    fn name(&self) -> &'static str {
        "git"
    }

    fn mode(&self) -> Mode {
        Mode::Observe
    }

    fn key_of_point(&self) -> Option<&'static str> {
        None
    }

    fn names_points(&self) -> bool {
        false
    }

    fn answers_by_code(&self) -> bool {
        true
    }

    fn no(&self, _point: &str, why: &str) -> Option<Said> {
        Some(Said::by_code(1, why))
    }

    fn takes_for_no(&self, said: &Said) -> Option<bool> {
        Some(said.code != 0)
    }
}
