//! Encodes the facts of a refusal as names and texts.

use std::{borrow::Cow, collections::BTreeMap};

use hookjail_base::refusal::{Fact, Refusal};

/// Returns the facts of a refusal by their stable names, as they are sent.
pub(super) fn facts(refusal: &Refusal) -> BTreeMap<String, String> {
    let rendered = refusal.facts.iter().map(|fact| {
        let (name, text) = render(fact);
        (name.to_owned(), text.into_owned())
    });
    rendered.collect()
}

fn render(fact: &Fact) -> (&'static str, Cow<'_, str>) {
    let number = |number: String| Cow::Owned(number);
    match fact {
        Fact::Allowlist(text) => ("allowlist", text.into()),
        Fact::Approve(text) => ("approve", text.into()),
        Fact::ApproveAs(text) => ("approve_as", text.into()),
        Fact::Axis(axis) => ("axis", axis.name().into()),
        Fact::Backend(name) => ("backend", (*name).into()),
        Fact::Bytes(bytes) => ("bytes", number(bytes.to_string())),
        Fact::Command(text) => ("command", text.into()),
        Fact::Configuration(text) => ("configuration", text.into()),
        Fact::Configure(text) => ("configure", text.into()),
        Fact::Contract(name) => ("contract", (*name).into()),
        Fact::Digests(text) => ("digests", text.into()),
        Fact::Errno(errno) => ("errno", format!("{errno:?}").into()),
        Fact::ExitCode(code) => ("exit_code", number(code.to_string())),
        Fact::Fix(text) => ("fix", text.into()),
        Fact::Keys(text) => ("keys", text.into()),
        Fact::MaxBytes(bytes) => ("max_bytes", number(bytes.to_string())),
        Fact::Mode(name) => ("mode", (*name).into()),
        Fact::Outcome(text) => ("outcome", text.into()),
        Fact::Path(text) => ("path", text.into()),
        Fact::Profile(text) => ("profile", text.into()),
        Fact::Released => ("released", "true".into()),
        Fact::RunId(text) => ("run_id", text.into()),
        Fact::Sequence(sequence) => ("sequence", number(sequence.to_string())),
        Fact::Signal(signal) => ("signal", number(signal.to_string())),
        Fact::Step(text) => ("step", text.into()),
    }
}
