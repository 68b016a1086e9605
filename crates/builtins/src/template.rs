//! `template_push`: renders a push directive from the event, as a command in `shell_push` mode would print it.
//!
//! Where a field cannot be rendered the directive ends with it: left out where a variable is missing, else with a value of another
//! type. The contract then names the field. The reason is for stderr.

use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde_json::{Map, Value};

use hookjail_base::model::InvalidField;
use hookjail_contract::{Flag, Template};

/// The maximum number of steps of a template.
const FUEL: u64 = 100_000;

/// The maximum length of a rendered text, bytes.
const TEXT: usize = 1024 * 1024;

/// A directive, and the reason why a field of it could not be rendered.
#[derive(Debug, Default)]
pub struct Rendered {
    /// The members of the directive.
    pub directive: Map<String, Value>,
    /// The reason.
    pub problem: Option<String>,
}

/// Renders a directive from an event's members.
pub fn rendered(template: &Template, event: &Map<String, Value>) -> Rendered {
    let mut rendered = Rendered::default();
    // Read before `push_when`, and of no account where that is false or wrong.
    rendered.put("message", "-".into());
    rendered.put("wake", false.into());
    let Template {
        message,
        push_when,
        session,
        wake,
    } = template;
    let is_pushed = rendered.flag("push_when", push_when, event)
        && rendered.directive["push_when"] == true
        && rendered.text("message", message, event, UndefinedBehavior::Strict)
        && rendered.flag("wake", wake, event);
    if let Some(session) = session.as_ref().filter(|_| is_pushed) {
        rendered.text("session", session, event, UndefinedBehavior::Lenient);
    }
    rendered
}

/// Checks the syntax of an entry's templates.
///
/// # Errors
///
/// Names the first that is no template.
pub fn check(template: &Template) -> Result<(), InvalidField> {
    for (name, text) in template.texts() {
        let environment = environment(UndefinedBehavior::Lenient);
        if let Err(error) = environment.template_from_str(text) {
            let field = format!("template_push.{name}");
            return Err(InvalidField::new(field, format!("is no template: {error}")));
        }
    }
    Ok(())
}

impl Rendered {
    /// Renders a text. Returns whether that was possible.
    fn text(
        &mut self,
        name: &str,
        text: &str,
        event: &Map<String, Value>,
        undefined: UndefinedBehavior,
    ) -> bool {
        match render(text, event, undefined) {
            Ok(text) => {
                let text = if name == "session" {
                    text.trim()
                } else {
                    &text
                };
                self.put(name, text.into());
                true
            }
            Err(error) => {
                self.directive.remove(name);
                if error.kind() != ErrorKind::UndefinedError {
                    self.put(name, false.into());
                }
                self.fail(format!("`{name}` cannot be rendered: {error}"))
            }
        }
    }

    /// Renders a truth value. Returns whether that was possible.
    fn flag(&mut self, name: &str, flag: &Flag, event: &Map<String, Value>) -> bool {
        let text = match flag {
            Flag::Is(value) => {
                self.put(name, (*value).into());
                return true;
            }
            Flag::Rendered(text) => render(text, event, UndefinedBehavior::Lenient),
        };
        let value = text.as_deref().ok().and_then(truth);
        self.put(name, value.map_or(Value::Null, Value::Bool));
        match (value, text) {
            (Some(_), _) => true,
            (None, Ok(text)) => self.fail(format!(
                "`{name}` renders to {text:?}, which is neither true nor false"
            )),
            (None, Err(error)) => self.fail(format!("`{name}` cannot be rendered: {error}")),
        }
    }

    fn put(&mut self, name: &str, value: Value) {
        self.directive.insert(name.to_owned(), value);
    }

    fn fail(&mut self, problem: String) -> bool {
        self.problem = Some(problem);
        false
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
    use hookjail_base::model::OnFailure;
    use hookjail_contract::{End, EndKind, Mode, Push, Skip, Verdict};
    use serde_json::json;

    use super::*;

    /// Returns the verdict of the runtime's contract on the rendered text.
    fn verdict(entry: &Value) -> (Verdict, Option<String>) {
        let event = json!({"user_text": "fix it", "n": 3, "chain_id": null, "point": "turn_end"});
        let template = Template::parse(entry.as_object().unwrap()).unwrap();
        let Rendered { directive, problem } = rendered(&template, event.as_object().unwrap());
        let stdout = Value::from(directive).to_string();
        let end = End {
            kind: EndKind::Exited(0),
            name: "h",
            point: "turn_end",
            stdout: stdout.as_bytes(),
            ..End::default()
        };
        (Mode::ReynPush.judge(&end, OnFailure::Contract), problem)
    }

    #[test]
    fn a_message_is_filled_in_from_the_event() {
        let (verdict, problem) = verdict(&json!({
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
        assert_eq!(
            (verdict.push, verdict.skip, problem),
            (Some(push), None, None)
        );
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
            // Where nothing is pushed, the message is not rendered.
            let message = if skip.is_some() { "{{ nothing }}" } else { "m" };
            let (verdict, _) = verdict(&json!({"message": message, "push_when": text}));
            assert_eq!(verdict.skip, skip, "{text:?}");
            let failed = skip.is_some_and(|skip| skip != Skip::PushWhenFalse);
            assert_eq!(verdict.failed, failed, "{text:?}");
        }
    }

    #[test]
    fn a_message_that_cannot_be_rendered_is_no_push() {
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
            let (verdict, problem) = verdict(&json!({ "message": message }));
            assert_eq!(
                (verdict.push, verdict.skip),
                (None, Some(skip)),
                "{message}"
            );
            assert!(verdict.failed);
            assert_eq!(problem.is_none(), skip == Skip::EmptyMessage, "{message}");
        }
    }

    #[test]
    fn a_text_that_is_no_template_is_named() {
        let check = |message: &str| {
            let entry = json!({ "message": message });
            check(&Template::parse(entry.as_object().unwrap()).unwrap())
        };
        assert_eq!(check("{{ x }}"), Ok(()));
        let error = check("{{ x").unwrap_err().to_string();
        assert!(
            error.starts_with("`template_push.message` is no template: "),
            "{error}"
        );
    }
}
