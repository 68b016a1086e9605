//! `[container]`: what makes containers.

use super::{ConfigProblem, written::ContainerEntry};
use crate::{
    request::is_plain,
    sandbox::{BackendName, Order, Runtime, RuntimeKind},
};

/// Reads what makes containers; `None` where nothing is said. A list of backends that names `container` needs it.
pub(super) fn read(
    written: ContainerEntry,
    order: &Order,
) -> Result<Option<Runtime>, ConfigProblem> {
    let key = |key, problem: String| ConfigProblem::Key { key, problem };
    let ContainerEntry { kind, runtime } = written;
    if let (Some(_), Some(systems)) = (&runtime, BackendName::Container.elsewhere()) {
        let problem = format!("is set, and only {systems} has the backend `container`");
        return Err(key("container.runtime", problem));
    }
    let Some(path) = runtime else {
        return match (order.named().contains(&BackendName::Container), kind) {
            (true, _) => Err(key(
                "container.runtime",
                "is not set, and a list of backends names `container`: name an OCI runtime, such as \"/usr/bin/crun\"".to_owned(),
            )),
            (false, Some(_)) => Err(key("container.kind", "is set without `container.runtime`".to_owned())),
            (false, None) => Ok(None),
        };
    };
    if !is_plain(&path) {
        let problem = format!(
            "`{}` is not an absolute path without `.` and `..`",
            path.display()
        );
        return Err(key("container.runtime", problem));
    }
    match kind.or_else(|| RuntimeKind::of(&path)) {
        Some(kind) => Ok(Some(Runtime { kind, path })),
        None => Err(key(
            "container.kind",
            format!(
                "is not set, and `{}` does not say by its name which runtime it is: crun, runc or youki",
                path.display()
            ),
        )),
    }
}
