//! Reads `[container]`: the OCI runtime and its root.

use std::path::PathBuf;

use hookjail_base::model::is_plain;
use hookjail_sandbox::{
    BackendName, Order, Runtime, RuntimeKind,
    rootfs::{RootSpec, TreeDigest},
};

use super::{ConfigProblem, file::ContainerEntry, not_plain};

/// Reads the container's settings; `None` without any. A list of backends that names `container` needs them.
pub(super) fn read(
    written: ContainerEntry,
    order: &Order,
) -> Result<Option<Runtime>, ConfigProblem> {
    let ContainerEntry {
        kind,
        root,
        root_digest,
        runtime,
    } = written;
    if let (Some(_), Some(systems)) = (&runtime, BackendName::CONTAINER.elsewhere()) {
        let problem = format!("is set, and only {systems} has the backend `container`");
        return Err(ConfigProblem::key("container.runtime", problem));
    }
    let root = self::root(root, root_digest, order)?;
    let Some(path) = runtime else {
        if order.named().contains(&BackendName::CONTAINER) {
            return Err(ConfigProblem::key(
                "container.runtime",
                "is not set, and a list of backends names `container`: name an OCI runtime, such as \"/usr/bin/crun\"",
            ));
        }
        let alone = |name| {
            Err(ConfigProblem::key(
                name,
                "is set without `container.runtime`",
            ))
        };
        return match (kind, root) {
            (Some(_), _) => alone("container.kind"),
            (None, Some(_)) => alone("container.root"),
            (None, None) => Ok(None),
        };
    };
    if !is_plain(&path) {
        return Err(ConfigProblem::key("container.runtime", not_plain(&path)));
    }
    if path.file_name().is_some_and(|name| name == "docker") {
        let problem = "is Docker, a client of a service that outlives it and keeps its own images; name crun or runc";
        return Err(ConfigProblem::key("container.runtime", problem));
    }
    match kind.or_else(|| RuntimeKind::from_program(&path)) {
        Some(kind) => Ok(Some(Runtime { kind, path, root })),
        None => Err(ConfigProblem::key(
            "container.kind",
            format!(
                "is not set, and the name of `{}` does not identify the runtime; set it to crun or runc",
                path.display()
            ),
        )),
    }
}

fn root(
    root: Option<PathBuf>,
    digest: Option<String>,
    order: &Order,
) -> Result<Option<RootSpec>, ConfigProblem> {
    let (path, digest) = match (root, digest) {
        (None, None) => return Ok(None),
        (None, Some(_)) => {
            return Err(ConfigProblem::key(
                "container.root_digest",
                "is set without `container.root`",
            ));
        }
        (Some(path), digest) => (path, digest),
    };
    if !is_plain(&path) {
        let problem = format!(
            "{}, and images have no names; name the directory of an unpacked image, and its digest",
            not_plain(&path)
        );
        return Err(ConfigProblem::key("container.root", problem));
    }
    let shown = path.display();
    let digest = digest.ok_or_else(|| {
        let problem = format!(
            "is not set, and `container.root` is: `hookjail root-digest {shown}` prints it"
        );
        ConfigProblem::key("container.root_digest", problem)
    })?;
    let digest = TreeDigest::parse(&digest).ok_or_else(|| {
        let problem = format!(
            "`{digest}` is not `sha256:` and 64 hexadecimal digits: `hookjail root-digest {shown}` prints it"
        );
        ConfigProblem::key("container.root_digest", problem)
    })?;
    let mut others = order.named().into_iter();
    if let Some(other) = others.find(|name| *name != BackendName::CONTAINER) {
        let problem = format!(
            "is set, but the listed backend `{}` shows hooks the host's files under the same names; list `container` alone",
            other.as_str()
        );
        return Err(ConfigProblem::key("container.root", problem));
    }
    Ok(Some(RootSpec { digest, path }))
}
