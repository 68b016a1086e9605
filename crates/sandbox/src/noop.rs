//! No confinement. Used only if the operator names it; claims no axis, and is never confirmed.

use hookjail_policy::Policy;

use crate::{
    Absent, Backend, BackendName, Claims, Host, Prepared, Unenforceable,
    backend::Starting,
    host,
    run::{runner::Runner, task::Task},
};

/// The backend that confines nothing.
#[derive(Clone, Copy, Debug)]
pub struct Noop;

impl Backend for Noop {
    fn name(&self) -> BackendName {
        BackendName::NOOP
    }

    fn probe(&self) -> Result<Host, Absent> {
        Ok(Host { landlock_abi: 0 })
    }

    fn prepare(&self, policy: &Policy) -> Result<Prepared, Unenforceable> {
        Prepared::covering(policy, self.name(), Claims::NONE)
    }

    fn start<'a>(&'a self, runner: &'a Runner, task: Task<'a>) -> Starting<'a> {
        Box::pin(host::start_unconfined(runner, task))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hookjail_base::model::{
        ProfileName,
        axis::{Axes, Axis, Coverage, Demand},
    };

    use hookjail_policy::Registry;

    #[test]
    fn it_takes_a_policy_that_requires_nothing_and_none_that_requires_any_one_axis() {
        let registry = Registry::builtin().unwrap();
        let strict = registry.find(&ProfileName::parse("strict").unwrap());
        let demanding = |required: Option<Axis>| Policy {
            demands: Axes::from_fn(|axis| {
                if Some(axis) == required {
                    Demand::Required
                } else {
                    Demand::Wanted
                }
            }),
            ..Policy::clone(strict.unwrap())
        };

        let prepared = Noop.prepare(&demanding(None)).unwrap();

        assert!(!prepared.confines());
        assert!(
            prepared
                .axes()
                .iter()
                .all(|(_, of)| *of == Coverage::Ignored)
        );
        for axis in Axis::ALL {
            let refused = Noop.prepare(&demanding(Some(axis))).unwrap_err();
            assert_eq!(refused.axis, axis);
        }
    }
}
