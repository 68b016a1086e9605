//! Reads which backends a profile may run on.

use std::collections::BTreeMap;

use hookjail_base::model::ProfileName;
use hookjail_sandbox::{BackendName, Order};

use super::{ConfigProblem, file::BackendsEntry};

/// Reads the lists of backends. Whether their profiles exist is checked after profiles are loaded.
pub(super) fn read(written: BackendsEntry) -> Result<Order, ConfigProblem> {
    let default = list(written.order).map_err(|why| ConfigProblem::key("backends.order", why))?;
    let named = |(text, order): (String, Vec<BackendName>)| {
        let of_profile = |why| ConfigProblem::key("backends.profiles", format!("`{text}` {why}"));
        let name = ProfileName::parse(&text)
            .ok_or_else(|| of_profile("is no name of a profile".to_owned()))?;
        Ok((name, list(order).map_err(of_profile)?))
    };
    let profiles = written.profiles.into_iter().map(named);
    Ok(Order {
        default,
        profiles: profiles.collect::<Result<BTreeMap<_, _>, ConfigProblem>>()?,
    })
}

fn list(order: Vec<BackendName>) -> Result<Vec<BackendName>, String> {
    // On a system without confinement the default is empty as well, and every request is refused.
    if order.is_empty() && !BackendName::DEFAULT_ORDER.is_empty() {
        return Err("is empty; name at least one backend".to_owned());
    }
    for (index, name) in order.iter().enumerate() {
        if let Some(systems) = name.elsewhere() {
            return Err(format!("names `{name}`, which only {systems} has"));
        }
        if order[..index].contains(name) {
            return Err(format!("names `{name}` twice; name it once"));
        }
    }
    Ok(order)
}
