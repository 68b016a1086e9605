//! `template_push`: the templates of a push directive, which `hookjail builtin template_push` renders from the event.
//!
//! They are Jinja2 and come from the operator's configuration, never from a request. Nothing here renders or checks them.

use serde_json::{Map, Value, json};

use hookjail_base::model::InvalidField;

use crate::hook_file::hookjail;

/// The name of the program, and of the entry's key.
pub const NAME: &str = "template_push";

/// The maximum length of all templates of an entry as JSON, bytes: they are one argument of the program.
const BYTES: usize = 64 * 1024;

/// The template of a push directive.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// The message.
    pub message: String,
    /// Whether anything is pushed.
    pub push_when: Flag,
    /// The session; `None` = the event's.
    pub session: Option<String>,
    /// Whether the message wakes the agent.
    pub wake: Flag,
}

/// A truth value, or a text that renders to one.
#[derive(Clone, Debug, PartialEq)]
pub enum Flag {
    /// A truth value.
    Is(bool),
    /// A template.
    Rendered(String),
}

impl Flag {
    /// Returns the template, if it is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Is(_) => None,
            Self::Rendered(text) => Some(text),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Is(value) => Value::from(*value),
            Self::Rendered(text) => Value::from(text.as_str()),
        }
    }
}

impl Template {
    /// Parses the `template_push` of an entry. Its keys are `message` (required), `wake` and `push_when` (true where
    /// they are left out), `session`.
    ///
    /// # Errors
    ///
    /// Names the key that is missing, unknown, of the wrong type, or too long.
    pub fn parse(map: &Map<String, Value>) -> Result<Self, InvalidField> {
        let field = |name: &str, problem: String| {
            Err(InvalidField::new(format!("template_push.{name}"), problem))
        };
        let known = ["message", "push_when", "session", "wake"];
        if let Some(unknown) = map.keys().find(|key| !known.contains(&key.as_str())) {
            return field(unknown, format!("is not one of {}", known.join(", ")));
        }
        let flag = |name: &str| match map.get(name) {
            None => Ok(Flag::Is(true)),
            Some(Value::Bool(value)) => Ok(Flag::Is(*value)),
            Some(Value::String(text)) => Ok(Flag::Rendered(text.clone())),
            Some(_) => {
                let problem = "must be true, false or a template";
                Err(InvalidField::new(format!("template_push.{name}"), problem))
            }
        };
        let message = match map.get("message") {
            Some(Value::String(text)) if !text.trim().is_empty() => text.clone(),
            Some(Value::String(_)) => return field("message", "is blank".to_owned()),
            Some(_) => return field("message", "must be a string".to_owned()),
            None => return field("message", "is missing".to_owned()),
        };
        let session = match map.get("session") {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => return field("session", "must be a string or null".to_owned()),
        };
        let template = Self {
            message,
            push_when: flag("push_when")?,
            session,
            wake: flag("wake")?,
        };
        if template.argument().len() > BYTES {
            return field(
                "message",
                format!("is longer, with the others, than {BYTES} bytes"),
            );
        }
        Ok(template)
    }

    /// Returns the program's argument, which [`Self::parse`] reads.
    pub fn argument(&self) -> String {
        let Self {
            message,
            push_when,
            session,
            wake,
        } = self;
        json!({
            "message": message,
            "push_when": push_when.json(),
            "session": session,
            "wake": wake.json(),
        })
        .to_string()
    }

    /// Returns the command, as a record names it.
    pub fn argv(&self) -> Vec<String> {
        hookjail(NAME, &[self.argument()])
    }

    /// Returns the templates by their keys.
    pub fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("message", Some(self.message.as_str())),
            ("push_when", self.push_when.text()),
            ("session", self.session.as_deref()),
            ("wake", self.wake.text()),
        ]
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_none_is_named() {
        for (value, problem) in [
            (json!({}), "`template_push.message` is missing"),
            (json!({"message": " "}), "`template_push.message` is blank"),
            (
                json!({"message": 1}),
                "`template_push.message` must be a string",
            ),
            (
                json!({"message": "m", "wake": 1}),
                "`template_push.wake` must be true, false or a template",
            ),
            (
                json!({"message": "m", "weak": true}),
                "`template_push.weak` is not one of message, push_when, session, wake",
            ),
        ] {
            let error = Template::parse(value.as_object().unwrap()).unwrap_err();
            assert_eq!(error.to_string(), problem);
        }
        let long = json!({"message": "m".repeat(BYTES)});
        let error = Template::parse(long.as_object().unwrap()).unwrap_err();
        assert!(error.to_string().contains("is longer"), "{error}");
    }

    #[test]
    fn the_programs_argument_is_the_entry() {
        for entry in [
            json!({"message": "m"}),
            json!({"message": "{{ a }}", "push_when": false, "session": "s", "wake": "{{ b }}"}),
        ] {
            let template = Template::parse(entry.as_object().unwrap()).unwrap();
            let argument: Value = serde_json::from_str(&template.argument()).unwrap();
            assert_eq!(Template::parse(argument.as_object().unwrap()), Ok(template));
        }
    }
}
