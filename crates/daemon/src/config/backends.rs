//! Reads which backends a profile may run on.

use std::collections::BTreeMap;

use serde::Deserializer;

use hookjail_base::model::ProfileName;
use hookjail_sandbox::{BackendName, Order};

use super::{
    file::BackendsEntry,
    value::{parsed, profile},
};

impl BackendsEntry {
    /// Returns the lists of backends. Whether their profiles exist is checked after profiles are loaded.
    pub fn by_profile(&self) -> Order {
        Order {
            default: self.order.clone(),
            profiles: self.profiles.clone(),
        }
    }
}

pub(super) fn order<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<BackendName>, D::Error> {
    parsed(from, list)
}

pub(super) fn profiles<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<ProfileName, Vec<BackendName>>, D::Error> {
    parsed(from, |written: BTreeMap<String, Vec<BackendName>>| {
        let named = |(name, order): (String, Vec<BackendName>)| {
            let order = |profile| {
                Ok((
                    profile,
                    list(order).map_err(|why| format!("`{name}` {why}"))?,
                ))
            };
            profile(&name).and_then(order)
        };
        let profiles = written.into_iter().map(named);
        profiles.collect::<Result<_, String>>()
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
