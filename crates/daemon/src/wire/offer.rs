//! Applies a caller's offer as far as the profile needs it. The caller may be unaware of the profile.

use std::{collections::BTreeSet, path::Path};

use hookjail_proto as pb;

use hookjail_base::model::ProfileName;
use hookjail_policy::{Policy, Registry, environment};

use super::decode;
use crate::request::Withheld;

/// Moves the parts of the offer that the profile needs into the hook, drops the rest.
///
/// `withheld` decides about the offered workspace. One that is withheld is returned, and the hook gets none.
///
/// Under an unknown profile nothing is moved: the request is refused later.
pub(super) fn settle(
    message: &mut pb::ExecuteRequest,
    registry: &Registry,
    withheld: impl FnOnce(&Path) -> Option<Withheld>,
) -> Option<Withheld> {
    let offer = message.offer.take()?;
    let policy = profile(message, registry)?;
    take(
        message.hook.get_or_insert_default(),
        offer,
        policy,
        withheld,
    )
}

/// Returns the names that a caller offers without values, and that the profile admits and the request does not set, sorted.
///
/// Under an unknown profile there are none.
pub(super) fn wanted(message: &pb::ExecuteRequest, registry: &Registry) -> Vec<String> {
    let Some(offer) = message.offer.as_ref().filter(|it| !it.names.is_empty()) else {
        return Vec::new();
    };
    let Some(policy) = profile(message, registry) else {
        return Vec::new();
    };
    let set = message.hook.as_ref().map(|hook| &hook.env);
    let is_set = |name: &String| set.is_some_and(|set| set.contains_key(name));
    let names = offer.names.iter().filter(|name| {
        !is_set(name) && !offer.env.contains_key(*name) && environment::admits(policy, name)
    });
    names
        .cloned()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

fn profile<'a>(message: &pb::ExecuteRequest, registry: &'a Registry) -> Option<&'a Policy> {
    let contracts = |message: &pb::ExecuteRequest| {
        let mode = decode::mode(message.contract, &message.mode).ok()?;
        let point = message.event.as_ref().map_or("", |event| &event.point);
        Some(mode.defaults(point).profile)
    };
    let name = match &*message.profile {
        "" => contracts(message)?,
        named => named,
    };
    registry.find(&ProfileName::parse(name)?).map(AsRef::as_ref)
}

fn take(
    hook: &mut pb::Hook,
    offer: pb::Offer,
    policy: &Policy,
    withheld: impl FnOnce(&Path) -> Option<Withheld>,
) -> Option<Withheld> {
    for (name, value) in offer.env {
        if environment::admits(policy, &name) {
            hook.env.entry(name).or_insert(value);
        }
    }
    if !hook.workspace.is_empty() || !policy.needs_workspace() {
        return None;
    }
    let withheld = withheld(Path::new(&offer.workspace));
    if withheld.is_none() {
        hook.workspace = offer.workspace;
        if hook.working_dir.is_empty() {
            hook.working_dir = offer.working_dir;
        }
    }
    withheld
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(profile: &str, hook: pb::Hook) -> pb::Hook {
        let vars = [("LANG", "C"), ("LD_PRELOAD", "/x.so"), ("SECRET", "s")];
        let mut message = pb::ExecuteRequest {
            contract: pb::Contract::ClaudeCode.into(),
            event: Some(pb::Event {
                point: "PreToolUse".to_owned(),
                ..pb::Event::default()
            }),
            hook: Some(hook),
            offer: Some(pb::Offer {
                env: vars.map(|(name, value)| (name.into(), value.into())).into(),
                names: Vec::new(),
                workspace: "/home/a/project".to_owned(),
                working_dir: "/home/a/project/below".to_owned(),
            }),
            profile: profile.to_owned(),
            ..pb::ExecuteRequest::default()
        };
        assert_eq!(taken(&mut message, |_| None), None);
        assert_eq!(message.offer, None);
        message.hook.unwrap()
    }

    fn taken(
        message: &mut pb::ExecuteRequest,
        withheld: impl FnOnce(&Path) -> Option<Withheld>,
    ) -> Option<Withheld> {
        settle(message, &Registry::builtin().unwrap(), withheld)
    }

    fn admitted() -> std::collections::BTreeMap<String, String> {
        [("LANG".to_owned(), "C".to_owned())].into()
    }

    #[test]
    fn the_contracts_profile_takes_what_it_wants_and_leaves_the_rest() {
        let expected = pb::Hook {
            env: admitted(),
            workspace: "/home/a/project".to_owned(),
            working_dir: "/home/a/project/below".to_owned(),
            ..pb::Hook::default()
        };
        assert_eq!(offered("", pb::Hook::default()), expected);
    }

    #[test]
    fn a_workspace_that_is_withheld_is_not_bound_and_no_start_in_it_either() {
        let place = Withheld {
            directory: "/home/a".into(),
            why: "the directory keeps keys".to_owned(),
        };
        let message = |profile: &str, hook| pb::ExecuteRequest {
            hook: Some(hook),
            offer: Some(pb::Offer {
                workspace: "/home/a".to_owned(),
                working_dir: "/home/a/below".to_owned(),
                ..pb::Offer::default()
            }),
            profile: profile.to_owned(),
            ..pb::ExecuteRequest::default()
        };
        let withhold = |directory: &Path| {
            assert_eq!(directory, place.directory);
            Some(place.clone())
        };
        let mut needs = message("workspace-rw", pb::Hook::default());
        assert_eq!(taken(&mut needs, withhold), Some(place.clone()));
        assert_eq!(needs.hook, Some(pb::Hook::default()));
        // Nothing is withheld that is not taken: by a profile without workspaces, or where the request names one.
        let named = pb::Hook {
            workspace: "/srv".to_owned(),
            ..pb::Hook::default()
        };
        for (profile, hook) in [("strict", pb::Hook::default()), ("workspace-rw", named)] {
            assert_eq!(taken(&mut message(profile, hook), withhold), None);
        }
    }

    #[test]
    fn a_profile_that_can_do_without_a_workspace_is_bound_none() {
        let expected = pb::Hook {
            env: admitted(),
            ..pb::Hook::default()
        };
        assert_eq!(offered("strict", pb::Hook::default()), expected);
    }

    #[test]
    fn what_the_request_says_goes_before_what_it_offers() {
        let hook = pb::Hook {
            env: [("LANG".to_owned(), "fr_FR".to_owned())].into(),
            workspace: "/srv".to_owned(),
            ..pb::Hook::default()
        };
        assert_eq!(offered("workspace-rw", hook.clone()), hook);
        let starts = pb::Hook {
            working_dir: "/home/a/project/other".to_owned(),
            ..pb::Hook::default()
        };
        let taken = offered("workspace-rw", starts.clone());
        assert_eq!(taken.working_dir, starts.working_dir);
        assert_eq!(taken.workspace, "/home/a/project");
    }

    #[test]
    fn a_value_is_wanted_of_a_name_that_the_profile_admits_and_nothing_sets() {
        let names = ["TZ", "SECRET", "TZ", "LANG", "CI", "LD_PRELOAD", "HOOK_A"];
        let mut message = pb::ExecuteRequest {
            hook: Some(pb::Hook {
                env: [("CI".to_owned(), "1".to_owned())].into(),
                ..pb::Hook::default()
            }),
            offer: Some(pb::Offer {
                env: [("LANG".to_owned(), "C".to_owned())].into(),
                names: names.map(str::to_owned).into(),
                ..pb::Offer::default()
            }),
            profile: "strict".to_owned(),
            ..pb::ExecuteRequest::default()
        };
        let registry = Registry::builtin().unwrap();
        assert_eq!(wanted(&message, &registry), ["HOOK_A", "TZ"]);
        message.profile = "none-such".to_owned();
        assert!(wanted(&message, &registry).is_empty());
        message.offer = None;
        assert!(wanted(&message, &registry).is_empty());
    }

    #[test]
    fn nothing_is_taken_for_a_profile_that_there_is_not() {
        for name in ["none-such", "No Name"] {
            assert_eq!(offered(name, pb::Hook::default()), pb::Hook::default());
        }
    }
}
