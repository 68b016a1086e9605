//! JSON objects merged member by member.

use std::collections::HashMap;

use hookjail_base::model::Event;

use super::{Envelope, Json, members::Members};

/// A JSON object under construction. Of several members with one name the last counts, in the first one's position.
///
/// Hooks choose the number of members, so the lookup of one must not be linear.
#[derive(Debug, Default)]
pub(super) struct Patch {
    members: Vec<(String, Json)>,
    places: HashMap<String, usize>,
}

impl Patch {
    pub(super) fn put(&mut self, name: &str, value: Json) {
        if let Some(place) = self.places.get(name) {
            self.members[*place].1 = value;
            return;
        }
        self.places.insert(name.to_owned(), self.members.len());
        self.members.push((name.to_owned(), value));
    }

    /// Merges the members of an object over those present; anything else has none.
    pub(super) fn put_all(&mut self, object: &Json) {
        let members = Members::parse(object.as_str()).unwrap_or_default();
        for (name, value) in members.iter() {
            self.put(&name, Json::from_raw(value));
        }
    }

    pub(super) fn into_json(self) -> Json {
        Json::object(&self.members)
    }

    /// Returns the object, unless it has no members.
    pub(super) fn into_members(self) -> Option<Json> {
        (!self.members.is_empty()).then(|| self.into_json())
    }
}

/// Merges objects in order; `None` if there are none.
pub(super) fn patched<'a>(objects: impl IntoIterator<Item = &'a Json>) -> Option<Json> {
    let mut objects = objects.into_iter().peekable();
    objects.peek()?;
    let mut patch = Patch::default();
    objects.for_each(|object| patch.put_all(object));
    Some(patch.into_json())
}

/// Merges an object over a member of the event, or over nothing if absent.
pub(super) fn over_member(name: &str, patch: &Json, event: &Event) -> Json {
    let members = Members::of_event(&event.json).unwrap_or_default();
    let member = members.last(name).map(Json::from_raw);
    let mut whole = Patch::default();
    member
        .iter()
        .chain([patch])
        .for_each(|object| whole.put_all(object));
    whole.into_json()
}

/// Merges an object over a tool's input: the event's own, else the envelope's.
pub(super) fn over_input(patch: &Json, event: &Event, envelope: &Envelope) -> Json {
    let members = Members::of_event(&event.json).unwrap_or_default();
    let known = || envelope.tool.as_ref()?.input.clone();
    let input = members
        .last("tool_input")
        .map(Json::from_raw)
        .or_else(known);
    let mut whole = Patch::default();
    input
        .iter()
        .chain([patch])
        .for_each(|object| whole.put_all(object));
    whole.into_json()
}
