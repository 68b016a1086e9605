//! The payload that `save_json` and `webhook` pass on for an event.

use jiff::Timestamp;
use serde_json::json;

/// The version of its form.
const VERSION: u8 = 1;

/// Parts of the payload beside the event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Payload {
    /// The name of the agent's profile.
    pub profile: String,
}

impl Payload {
    /// Returns the JSON document that hands on an event, itself a document.
    pub fn document(&self, event: &str, point: &str, now: Timestamp) -> String {
        let (profile, point) = (json!(self.profile), json!(point));
        let now = now.as_millisecond();
        format!(
            r#"{{"v":{VERSION},"ts":{now},"profile":{profile},"event":{point},"context":{event}}}"#
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_event_is_handed_on_as_it_is() {
        let payload = Payload {
            profile: "a \"coder\"".to_owned(),
        };
        let now = Timestamp::from_millisecond(1_700_000_000_123).unwrap();
        let text = payload.document(r#"{"n": 1.50, "event": "tool.post"}"#, "tool.post", now);
        assert!(text.contains(r#""context":{"n": 1.50, "event": "tool.post"}"#));
        let read: Value = serde_json::from_str(&text).unwrap();
        let rest = (&read["v"], &read["ts"], &read["profile"], &read["event"]);
        assert_eq!(
            rest,
            (
                &json!(1),
                &json!(1_700_000_000_123_i64),
                &json!("a \"coder\""),
                &json!("tool.post")
            )
        );
    }
}
