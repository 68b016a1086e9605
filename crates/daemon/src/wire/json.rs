//! The proto3 JSON form of messages: for `--json`, and for callers without gRPC.

use std::{borrow::Cow, collections::HashSet, fmt, sync::OnceLock};

use prost::Message;
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, MessageDescriptor, MethodDescriptor,
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use hookjail_proto as pb;

use hookjail_base::model::json::first_repeated_key;

/// A message has no JSON form: the build is broken.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The descriptors in this program cannot be read.
    #[error("the protocol's descriptors cannot be read: {0}")]
    Descriptors(String),
    /// The message cannot be rendered.
    #[error("the message cannot be rendered as JSON")]
    Render(#[from] serde_json::Error),
    /// The message does not decode as its own type.
    #[error("the message does not decode as `{0}`")]
    Type(String),
}

/// Returns the descriptors of all messages that are sent: the protocol's, health's, and those of refusals' details.
fn pool() -> Result<&'static DescriptorPool, JsonError> {
    static POOL: OnceLock<Result<DescriptorPool, String>> = OnceLock::new();
    let decode = || {
        let mut pool = DescriptorPool::decode(pb::DESCRIPTOR_SET)?;
        pool.decode_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)?;
        pool.decode_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)?;
        Ok(pool)
    };
    POOL.get_or_init(|| decode().map_err(|error: prost_reflect::DescriptorError| error.to_string()))
        .as_ref()
        .map_err(|error| JsonError::Descriptors(error.clone()))
}

/// Renders a message of `hookjail.v1` as JSON: lowerCamelCase names, bytes in base64.
///
/// # Errors
///
/// Fails only where the program was built wrongly.
pub fn render(
    message: &impl Message,
    type_name: &'static str,
) -> Result<serde_json::Value, JsonError> {
    let descriptor = pool()?.get_message_by_name(type_name);
    let descriptor = descriptor.ok_or_else(|| JsonError::Type(type_name.to_owned()))?;
    Ok(serde_json::to_value(decode(
        descriptor,
        &message.encode_to_vec(),
    )?)?)
}

/// Renders an encoded message of any known type; `None` where the type is not known.
///
/// # Errors
///
/// Fails where the message is not of that type.
pub(super) fn render_any(
    type_name: &str,
    encoded: &[u8],
) -> Result<Option<serde_json::Value>, JsonError> {
    let Some(descriptor) = pool()?.get_message_by_name(type_name) else {
        return Ok(None);
    };
    Ok(Some(serde_json::to_value(decode(descriptor, encoded)?)?))
}

/// Finds a method by its path; `None` where it is not known.
///
/// # Errors
///
/// Fails only where the program was built wrongly.
pub(super) fn method(path: &str) -> Result<Option<MethodDescriptor>, JsonError> {
    let service = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    let pool = pool()?;
    Ok(service.and_then(|(written, name)| {
        // The pool also finds a name with a dot before it, which is no other service.
        let service = pool.get_service_by_name(written)?;
        let service = Some(service).filter(|service| service.full_name() == written)?;
        service.methods().find(|method| method.name() == name)
    }))
}

/// The problem with the JSON form of a message.
#[derive(Debug, thiserror::Error)]
pub enum JsonProblem {
    /// A key stands there twice.
    #[error("the key at byte {0} is there twice in its object")]
    Repeated(usize),
    /// The text is no JSON of the message.
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
    /// The bytes are no text.
    #[error(transparent)]
    Utf8(#[from] std::str::Utf8Error),
}

/// Encodes a message from its JSON form. Unknown names are errors: a misspelled one must not be ignored.
///
/// # Errors
///
/// Names the place and what is wrong there.
pub fn encode(descriptor: MessageDescriptor, json: &[u8]) -> Result<Vec<u8>, JsonProblem> {
    let text = std::str::from_utf8(json)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let message = DynamicMessage::deserialize(descriptor.clone(), &mut deserializer)?;
    deserializer.end()?;
    // Readers differ in which of them counts.
    if let Some(position) = first_repeated_key(text) {
        return Err(JsonProblem::Repeated(position));
    }
    SpelledOnce::Message(descriptor).deserialize(&mut serde_json::Deserializer::from_str(text))?;
    Ok(message.encode_to_vec())
}

/// Checks that no field is there twice, by both spellings of its name. Readers differ in which of them counts.
enum SpelledOnce {
    /// Values that are messages, by the keys of a map.
    Map(MessageDescriptor),
    /// A message, or a list of them.
    Message(MessageDescriptor),
    /// Values without fields.
    Scalar,
}

impl SpelledOnce {
    /// Returns the check of a field's value.
    fn of_field(field: &FieldDescriptor) -> Self {
        let kind = field.kind();
        let Some(message) = kind.as_message() else {
            return Self::Scalar;
        };
        if !field.is_map() {
            return Self::Message(message.clone());
        }
        let value = message.map_entry_value_field().kind();
        value.as_message().cloned().map_or(Self::Scalar, Self::Map)
    }
}

impl<'de> DeserializeSeed<'de> for SpelledOnce {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self {
            Self::Scalar => IgnoredAny::deserialize(deserializer).map(drop),
            Self::Map(_) | Self::Message(_) => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for SpelledOnce {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut known = HashSet::new();
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            let value = match &self {
                Self::Map(message) => Self::Message(message.clone()),
                Self::Message(message) => {
                    let field = message.get_field_by_json_name(&key);
                    match field.or_else(|| message.get_field_by_name(&key)) {
                        Some(field) if !known.insert(field.number()) => {
                            let problem =
                                format!("`{}` is there by both of its names", field.name());
                            return Err(A::Error::custom(problem));
                        }
                        Some(field) => Self::of_field(&field),
                        None => Self::Scalar,
                    }
                }
                Self::Scalar => Self::Scalar,
            };
            map.next_value_seed(value)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let again = || match &self {
            Self::Map(message) => Self::Map(message.clone()),
            Self::Message(message) => Self::Message(message.clone()),
            Self::Scalar => Self::Scalar,
        };
        while list.next_element_seed(again())?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Writes the JSON form of an encoded message.
///
/// # Errors
///
/// Fails where the message is not of that type.
pub(super) fn write(descriptor: MessageDescriptor, encoded: &[u8]) -> Result<Vec<u8>, JsonError> {
    Ok(serde_json::to_vec(&decode(descriptor, encoded)?)?)
}

fn decode(descriptor: MessageDescriptor, encoded: &[u8]) -> Result<DynamicMessage, JsonError> {
    let name = descriptor.full_name().to_owned();
    DynamicMessage::decode(descriptor, encoded).map_err(|_| JsonError::Type(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(json: &str) -> Result<pb::ExecuteRequest, String> {
        let method = method("/hookjail.v1.HookService/Execute").unwrap().unwrap();
        let bytes = encode(method.input(), json.as_bytes()).map_err(|error| error.to_string())?;
        Ok(pb::ExecuteRequest::decode(&bytes[..]).unwrap())
    }

    #[test]
    fn a_message_is_read_whole_and_by_the_names_of_the_protocol_alone() {
        let request = encoded(r#"{"requestId":"a","hook":{"argv":["/bin/true"]}}"#).unwrap();
        assert_eq!(request.request_id, "a");
        assert_eq!(request.hook.unwrap().argv, ["/bin/true"]);
        // The names in the protocol's own files count, too.
        assert_eq!(encoded(r#"{"request_id":"a"}"#).unwrap().request_id, "a");
        for wrong in [
            "",
            "{",
            "[]",
            "{}{}",
            r#"{"requestID":"a"}"#,
            r#"{"hook":{"arg":[]}}"#,
            r#"{"requestId":1}"#,
            r#"{"requestId":"a","requestId":"b"}"#,
            r#"{"hook":{"argv":["a"]},"hook":{"argv":["b"]}}"#,
            r#"{"requestId":"a","request_id":"b"}"#,
            r#"{"request_id":"a","mode":"","requestId":"a"}"#,
            r#"{"hook":{"workingDir":"/","working_dir":"/tmp"}}"#,
        ] {
            assert!(encoded(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn keys_of_maps_are_no_names_of_fields() {
        let json = r#"{"hook":{"env":{"requestId":"a","request_id":"b","fooBar":"c","foo_bar":"d"}},"timeout":"1s"}"#;
        assert_eq!(encoded(json).unwrap().hook.unwrap().env.len(), 4);
    }

    #[test]
    fn services_of_the_program_are_found_by_their_paths() {
        for path in [
            "/hookjail.v1.HookService/Execute",
            "/hookjail.v1.AdminService/Reload",
            "/grpc.health.v1.Health/Check",
        ] {
            assert!(method(path).unwrap().is_some(), "{path}");
        }
        for path in [
            "",
            "/",
            "/x",
            "/hookjail.v1.HookService",
            "/hookjail.v1.HookService/execute",
            "/hookjail.v1.HookService/Execute/",
            "//hookjail.v1.HookService/Execute",
            "/.hookjail.v1.HookService/Execute",
        ] {
            assert!(method(path).unwrap().is_none(), "{path}");
        }
    }
}
