//! The fields of a hook's config entry that affect how its end is interpreted.

use std::time::Duration;

use serde_json::{Map, Value};

use hookjail_base::model::{InvalidField, OnFailure};

use super::{Facts, Report};

/// The agent's mode, where it decides which commands may run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AgentMode {
    /// The agent acts without approval.
    Auto,
    /// An unknown mode, for which no list has entries of its own.
    Other,
    /// The agent plans and changes nothing.
    Plan,
    /// The agent only reads.
    ReadOnly,
    /// The agent asks for approval.
    Standard,
}

impl AgentMode {
    /// Parses a mode's name.
    pub fn parse(name: &str) -> Self {
        let known = [Self::Auto, Self::Plan, Self::ReadOnly, Self::Standard];
        let mode = known.into_iter().find(|mode| mode.as_str() == name);
        mode.unwrap_or(Self::Other)
    }

    /// Returns the mode's name; empty if unknown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Other => "",
            Self::Plan => "plan",
            Self::ReadOnly => "readonly",
            Self::Standard => "standard",
        }
    }
}

/// Effect of a failure at a point where the contract leaves it to the entry.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnError {
    /// Blocks, where the point can be stopped.
    Block,
    /// No effect.
    Ignore,
    /// A warning.
    #[default]
    Warn,
}

/// The fields of a hook's entry that affect how its end is interpreted.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of its own in some contract's entries"
)]
pub struct Entry {
    /// Whether the operator's configuration excludes it from decisions.
    pub advisory: bool,
    /// The mode the agent was in; `None` if not given.
    pub agent_mode: Option<AgentMode>,
    /// Whether consent or the contract's gate allowed it; `None` if not given.
    pub allowed: Option<bool>,
    /// Whether it runs in the background, so that it decides nothing.
    pub background: bool,
    /// The maximum length of context passed on, in characters.
    pub context_chars: usize,
    /// The gate's remedy for a command that it did not allow; `None` if no gate was asked.
    pub hint: Option<&'static str>,
    /// Whether hooks of its point run in sequence instead of concurrently.
    pub in_turn: bool,
    /// Whether an answer must be a JSON object, as it must for posted hooks. Any other is a failure.
    pub objects_only: bool,
    /// Effect of a failure.
    pub on_error: OnError,
    /// Whether a failure blocks.
    pub on_failure: OnFailure,
    /// Whether it belongs to the stage before the others.
    pub preempt: bool,
    /// The running order among other hooks; lower is earlier.
    pub priority: Option<f64>,
    /// Use of its output, where the contract defines none.
    pub report: Option<Report>,
    /// Whether keys unknown to the contract make an output invalid.
    pub strict_output: bool,
    /// The wall time limit.
    pub timeout: Option<Duration>,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            advisory: false,
            agent_mode: None,
            allowed: None,
            background: false,
            context_chars: 10_000,
            hint: None,
            in_turn: false,
            objects_only: false,
            on_error: OnError::Warn,
            on_failure: OnFailure::Contract,
            preempt: false,
            priority: None,
            report: None,
            strict_output: false,
            timeout: None,
        }
    }
}

/// Meaning of a key of an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Key {
    /// A text: [`Entry::agent_mode`].
    AgentMode,
    /// A boolean: [`Entry::allowed`].
    Allowed,
    /// A boolean: [`Entry::background`].
    Background,
    /// A whole number: [`Entry::context_chars`].
    ContextChars,
    /// A boolean; `true` closes [`Entry::on_failure`].
    FailClosed,
    /// A boolean: [`Entry::in_turn`].
    InTurn,
    /// `warn`, `ignore` or `block`: [`Entry::on_error`].
    OnError,
    /// `block` or `closed` closes [`Entry::on_failure`]; `allow` and `contract` leave it.
    OnFailure,
    /// A boolean: [`Entry::preempt`].
    Preempt,
    /// A number: [`Entry::priority`].
    Priority,
    /// A boolean: [`Entry::strict_output`].
    StrictOutput,
    /// A number of milliseconds, not negative: [`Entry::timeout`].
    TimeoutMillis,
    /// A number of seconds, not negative: [`Entry::timeout`].
    TimeoutSeconds,
    /// A number of seconds, not negative, of which fewer than 1 count as 1: [`Entry::timeout`].
    TimeoutSecondsFromOne,
    /// A number of seconds below 1000, else of milliseconds: [`Entry::timeout`]. Anything else leaves it to the contract.
    TimeoutSecondsOrMillis,
    /// A number of seconds: [`Entry::timeout`]. 0, or a `negative` number where accepted, leaves it to the contract.
    TimeoutSecondsUnlessZero {
        /// Whether a number below 0 is accepted.
        negative: bool,
    },
}

impl Key {
    /// Returns whether entries of hook files have it: no group, and no runner.
    pub(super) const fn is_of_an_entry(self) -> bool {
        !matches!(
            self,
            Self::AgentMode | Self::Allowed | Self::InTurn | Self::Preempt
        )
    }
}

/// Parses an entry in a contract's own spelling.
///
/// # Errors
///
/// A key that the contract's entries do not have, or a value that the key cannot have.
pub(super) fn parse(facts: &Facts, config: &Map<String, Value>) -> Result<Entry, InvalidField> {
    let mut entry = Entry::default();
    for (name, value) in config {
        let field = |problem: &str| InvalidField::new(format!("config.{name}"), problem);
        let boolean = || {
            value
                .as_bool()
                .ok_or_else(|| field("must be true or false"))
        };
        let time = |unit: f64| {
            let seconds = value.as_f64().map(|number| number * unit);
            seconds
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                .ok_or_else(|| field("must be a number, and not negative"))
        };
        let word = || value.as_str().unwrap_or_default();
        if facts.carried.contains(&name.as_str()) {
            continue;
        }
        let known = facts.keys.iter().find(|(key, _)| key == name);
        let key = match known {
            Some((_, key)) => key,
            None if name == "allowed" && !facts.carried.is_empty() => &Key::Allowed,
            None => {
                let contract = facts.contract;
                return Err(field(&format!(
                    "is not a key of a hook's entry under `{contract}`"
                )));
            }
        };
        match key {
            Key::AgentMode => {
                let name = value.as_str().ok_or_else(|| field("must be a text"))?;
                entry.agent_mode = Some(AgentMode::parse(name));
            }
            Key::Allowed => entry.allowed = Some(boolean()?),
            Key::Background => entry.background = boolean()?,
            Key::ContextChars => {
                let chars = value.as_u64().and_then(|chars| usize::try_from(chars).ok());
                entry.context_chars = chars.ok_or_else(|| field("must be a whole number"))?;
            }
            Key::FailClosed if boolean()? => entry.on_failure = OnFailure::Closed,
            Key::FailClosed => {}
            Key::InTurn => entry.in_turn = boolean()?,
            Key::OnError => {
                entry.on_error = match word() {
                    "block" => OnError::Block,
                    "ignore" => OnError::Ignore,
                    "warn" => OnError::Warn,
                    _ => return Err(field("must be `warn`, `ignore` or `block`")),
                };
            }
            Key::OnFailure => {
                entry.on_failure = match word() {
                    "block" | "closed" => OnFailure::Closed,
                    "allow" | "contract" => OnFailure::Contract,
                    _ => return Err(field("must be `block` or `allow`")),
                };
            }
            Key::Preempt => entry.preempt = boolean()?,
            Key::Priority => {
                let number = value.as_f64();
                entry.priority = Some(number.ok_or_else(|| field("must be a number"))?);
            }
            Key::StrictOutput => entry.strict_output = boolean()?,
            Key::TimeoutMillis => entry.timeout = Some(time(0.001)?),
            Key::TimeoutSeconds => entry.timeout = Some(time(1.0)?),
            Key::TimeoutSecondsFromOne => {
                entry.timeout = Some(time(1.0)?.max(Duration::from_secs(1)));
            }
            Key::TimeoutSecondsOrMillis => {
                let written = value.as_str().and_then(|text| text.trim().parse().ok());
                let number = value.as_f64().or(written).filter(|number| *number > 0.0);
                let seconds = number.map(|it| if it < 1000.0 { it } else { it / 1000.0 });
                entry.timeout = seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
            }
            Key::TimeoutSecondsUnlessZero { negative: true }
                if value.as_f64().is_some_and(|number| number < 0.0) =>
            {
                entry.timeout = None;
            }
            Key::TimeoutSecondsUnlessZero { .. } => {
                entry.timeout = Some(time(1.0)?).filter(|time| !time.is_zero());
            }
        }
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Verdict;

    const FACTS: Facts = Facts {
        carried: &["command"],
        keys: &[
            ("failClosed", Key::FailClosed),
            ("on_error", Key::OnError),
            ("timeoutMs", Key::TimeoutMillis),
        ],
        ..Facts::new("loom", "", |_| Verdict::default())
    };

    #[test]
    fn an_entry_is_read_in_its_contracts_spelling() {
        let config =
            json!({"failClosed": true, "on_error": "ignore", "timeoutMs": 1500, "command": []});
        let entry = parse(&FACTS, config.as_object().unwrap()).unwrap();
        let expected = Entry {
            on_error: OnError::Ignore,
            on_failure: OnFailure::Closed,
            timeout: Some(Duration::from_millis(1500)),
            ..Entry::default()
        };
        assert_eq!(entry, expected);
    }

    #[test]
    fn a_time_of_zero_leaves_the_contracts() {
        const KEYS: [&[(&str, Key)]; 2] = [
            &[("timeout", Key::TimeoutSecondsUnlessZero { negative: false })],
            &[("timeout", Key::TimeoutSecondsUnlessZero { negative: true })],
        ];
        for (negative, timeout, expected) in [
            (false, json!(0), Ok(None)),
            (false, json!(1.5), Ok(Some(Duration::from_millis(1500)))),
            (true, json!(-3), Ok(None)),
            (false, json!(-3), Err("config.timeout".to_owned())),
            (true, json!("3"), Err("config.timeout".to_owned())),
        ] {
            let config = json!({ "timeout": timeout });
            let facts = Facts {
                keys: KEYS[usize::from(negative)],
                ..Facts::new("loom", "", |_| Verdict::default())
            };
            let entry = parse(&facts, config.as_object().unwrap());
            let read = entry.map(|entry| entry.timeout);
            assert_eq!(read.map_err(|error| error.field), expected, "{timeout}");
        }
    }

    #[test]
    fn a_time_of_zero_is_one_second_where_the_runtime_rounds_it_up() {
        const FACTS: Facts = Facts {
            keys: &[("timeout", Key::TimeoutSecondsFromOne)],
            ..Facts::new("loom", "", |_| Verdict::default())
        };
        for (timeout, expected) in [(json!(0), 1), (json!(1), 1), (json!(30), 30)] {
            let config = json!({ "timeout": timeout });
            let entry = parse(&FACTS, config.as_object().unwrap()).unwrap();
            assert_eq!(entry.timeout, Some(Duration::from_secs(expected)));
        }
    }

    #[test]
    fn a_time_from_1000_on_is_in_milliseconds_where_the_contract_has_both_units() {
        const FACTS: Facts = Facts {
            keys: &[("timeout", Key::TimeoutSecondsOrMillis)],
            ..Facts::new("loom", "", |_| Verdict::default())
        };
        for (timeout, expected) in [
            (json!(10), Some(10_000)),
            (json!(999), Some(999_000)),
            (json!(1000), Some(1000)),
            (json!(60_000), Some(60_000)),
            (json!(1.5), Some(1500)),
            (json!(" 20 "), Some(20_000)),
            (json!(0), None),
            (json!(-3), None),
            (json!("soon"), None),
            (json!(null), None),
        ] {
            let config = json!({ "timeout": timeout });
            let entry = parse(&FACTS, config.as_object().unwrap()).unwrap();
            let expected = expected.map(Duration::from_millis);
            assert_eq!(entry.timeout, expected, "{timeout}");
        }
    }

    #[test]
    fn an_agents_mode_need_not_be_known() {
        const FACTS: Facts = Facts {
            keys: &[("mode", Key::AgentMode)],
            ..Facts::new("loom", "", |_| Verdict::default())
        };
        for (name, mode) in [
            ("auto", AgentMode::Auto),
            ("plan", AgentMode::Plan),
            ("readonly", AgentMode::ReadOnly),
            ("standard", AgentMode::Standard),
            ("newest", AgentMode::Other),
        ] {
            let config = json!({ "mode": name });
            let entry = parse(&FACTS, config.as_object().unwrap()).unwrap();
            assert_eq!(entry.agent_mode, Some(mode));
        }
        let config = json!({ "mode": 1 });
        assert!(parse(&FACTS, config.as_object().unwrap()).is_err());
    }

    #[test]
    fn unknown_keys_and_wrong_values_are_named() {
        for (config, problem) in [
            (
                json!({"fail_closed": true}),
                "`config.fail_closed` is not a key of a hook's entry under `loom`",
            ),
            (
                json!({"failClosed": 1}),
                "`config.failClosed` must be true or false",
            ),
            (
                json!({"on_error": "die"}),
                "`config.on_error` must be `warn`, `ignore` or `block`",
            ),
            (
                json!({"timeoutMs": -1}),
                "`config.timeoutMs` must be a number, and not negative",
            ),
        ] {
            let error = parse(&FACTS, config.as_object().unwrap()).unwrap_err();
            assert_eq!(error.to_string(), problem);
        }
    }
}
