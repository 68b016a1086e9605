//! `template_push`: a message rendered from the event, without a process.
//!
//! The texts are Jinja2, rendered by minijinja. They come from the operator's configuration, never from a request.

use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde_json::{Map, Value};

use hookjail_base::model::InvalidField;

use crate::{Push, Skip, Verdict};

/// The maximum number of steps of a template.
const FUEL: u64 = 100_000;

/// The maximum length of a rendered text, bytes.
const TEXT: usize = 1024 * 1024;

/// The template of a push directive.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    message: String,
    push_when: Flag,
    session: Option<String>,
    wake: Flag,
}

/// A truth value, or a text that renders to one.
#[derive(Clone, Debug, PartialEq)]
enum Flag {
    Is(bool),
    Rendered(String),
}

impl Flag {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Is(_) => None,
            Self::Rendered(text) => Some(text),
        }
    }
}

impl Template {
    /// Parses the `template_push` of an entry. Its keys are `message` (required), `wake` and `push_when` (true where
    /// they are left out), `session`.
    ///
    /// # Errors
    ///
    /// Names the key that is missing, unknown, of the wrong type, or an invalid template.
    pub fn parse(map: &Map<String, Value>) -> Result<Self, InvalidField> {
        let field = |name: &str, problem: String| {
            Err(InvalidField::new(format!("template_push.{name}"), problem))
        };
        let known = ["message", "push_when", "session", "wake"];
        if let Some(unknown) = map.keys().find(|key| !known.contains(&key.as_str())) {
            return field(unknown, format!("is none of {}", known.join(", ")));
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
        for (name, text) in template.texts() {
            let environment = environment(UndefinedBehavior::Lenient);
            if let Err(error) = environment.template_from_str(text) {
                return field(name, format!("is no template: {error}"));
            }
        }
        Ok(template)
    }

    fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("message", Some(self.message.as_str())),
            ("push_when", self.push_when.text()),
            ("session", self.session.as_deref()),
            ("wake", self.wake.text()),
        ]
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)))
    }

    /// Renders the directive from the event's members and the point. On any error nothing is pushed, with a warning.
    pub fn render(&self, name: &str, point: &str, event: &Map<String, Value>) -> Verdict {
        let mut members = event.clone();
        members.insert("point".to_owned(), Value::from(point));
        self.push(name, &members)
            .unwrap_or_else(|(skip, why)| Verdict {
                failed: skip != Skip::PushWhenFalse,
                skip: Some(skip),
                warnings: why.into_iter().collect(),
                ..Verdict::default()
            })
    }

    fn push(
        &self,
        name: &str,
        members: &Map<String, Value>,
    ) -> Result<Verdict, (Skip, Option<String>)> {
        let text = |field: &'static str, text: &str, undefined| {
            render(text, members, undefined).map_err(|error| {
                // An undefined variable is a missing field, any other error a wrong one.
                let skip = if error.kind() == ErrorKind::UndefinedError {
                    Skip::MissingField(field)
                } else {
                    Skip::WrongType(field)
                };
                (skip, Some(format!("`{field}` cannot be rendered: {error}")))
            })
        };
        let flag = |field, flag: &Flag| match flag {
            Flag::Is(value) => Ok(*value),
            Flag::Rendered(template) => {
                let rendered = text(field, template, UndefinedBehavior::Lenient)?;
                truth(&rendered).ok_or_else(|| {
                    let why = format!(
                        "`{field}` renders to {rendered:?}, which is neither true nor false"
                    );
                    (Skip::WrongType(field), Some(why))
                })
            }
        };
        if !flag("push_when", &self.push_when)? {
            return Err((Skip::PushWhenFalse, None));
        }
        let message = text("message", &self.message, UndefinedBehavior::Strict)?;
        if message.trim().is_empty() {
            return Err((Skip::EmptyMessage, None));
        }
        let wake = flag("wake", &self.wake)?;
        let session = match &self.session {
            None => String::new(),
            Some(template) => text("session", template, UndefinedBehavior::Lenient)?,
        };
        Ok(Verdict {
            push: Some(Push {
                message,
                name: name.to_owned(),
                session: session.trim().to_owned(),
                wake,
            }),
            ..Verdict::default()
        })
    }
}

fn environment(undefined: UndefinedBehavior) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_undefined_behavior(undefined);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    // With it a loop could make one text grow without end.
    environment.remove_global("namespace");
    environment
}

fn render(
    text: &str,
    members: &Map<String, Value>,
    undefined: UndefinedBehavior,
) -> Result<String, minijinja::Error> {
    let environment = environment(undefined);
    let rendered = environment.render_str(text, minijinja::value::Serde(members))?;
    if rendered.len() > TEXT {
        let why = format!("the text is longer than {TEXT} bytes");
        return Err(minijinja::Error::new(ErrorKind::InvalidOperation, why));
    }
    Ok(rendered)
}

fn truth(text: &str) -> Option<bool> {
    match text.trim().to_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" | "" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(value: &Value) -> Template {
        Template::parse(value.as_object().unwrap()).unwrap()
    }

    fn rendered(value: &Value) -> Verdict {
        let event = json!({"user_text": "fix it", "n": 3, "chain_id": null});
        template(value).render("h", "turn_end", event.as_object().unwrap())
    }

    #[test]
    fn a_message_is_filled_in_from_the_event() {
        let verdict = rendered(&json!({
            "message": "{{ point }}: {{ user_text | upper }} {{ n + 1 }}",
            "wake": "{{ n > 2 }}",
            "session": " {{ nothing }} ",
        }));
        let push = Push {
            message: "turn_end: FIX IT 4".to_owned(),
            name: "h".to_owned(),
            session: String::new(),
            wake: true,
        };
        assert_eq!((verdict.push, verdict.skip), (Some(push), None));
    }

    #[test]
    fn truth_is_a_word_or_a_render_error() {
        for (text, skip) in [
            ("{{ n == 4 }}", Some(Skip::PushWhenFalse)),
            ("", Some(Skip::PushWhenFalse)),
            ("{{ nothing }}", Some(Skip::PushWhenFalse)),
            (" ON ", None),
            ("yes", None),
            ("2", Some(Skip::WrongType("push_when"))),
            ("none", Some(Skip::WrongType("push_when"))),
        ] {
            let verdict = rendered(&json!({"message": "m", "push_when": text}));
            assert_eq!(verdict.skip, skip, "{text:?}");
            let failed = skip.is_some_and(|skip| skip != Skip::PushWhenFalse);
            assert_eq!(verdict.failed, failed, "{text:?}");
        }
    }

    #[test]
    fn what_a_message_lacks_or_cannot_be_is_no_push() {
        for (message, skip) in [
            ("{{ nothing }}", Skip::MissingField("message")),
            ("{{ n.a.b }}", Skip::MissingField("message")),
            ("{{ 1 / 0 }}", Skip::WrongType("message")),
            ("{% if false %}x{% endif %}", Skip::EmptyMessage),
            (
                "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
                Skip::WrongType("message"),
            ),
            ("{{ 'x' * 2000000 }}", Skip::WrongType("message")),
            ("{{ namespace() }}", Skip::WrongType("message")),
        ] {
            let verdict = rendered(&json!({ "message": message }));
            assert_eq!(
                (verdict.push, verdict.skip),
                (None, Some(skip)),
                "{message}"
            );
            assert!(verdict.failed);
        }
    }

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
                "`template_push.weak` is none of message, push_when, session, wake",
            ),
        ] {
            let error = Template::parse(value.as_object().unwrap()).unwrap_err();
            assert_eq!(error.to_string(), problem);
        }
        let broken = json!({"message": "{{ x"});
        let error = Template::parse(broken.as_object().unwrap()).unwrap_err();
        assert!(error.to_string().contains("is no template"));
    }
}
