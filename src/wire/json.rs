//! The proto3 JSON form of messages, for `--json`.

use std::sync::OnceLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};

use crate::pb;

/// A message has no JSON form: the build is broken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonError {
    /// The descriptors in this program cannot be read.
    #[error("the protocol's descriptors cannot be read: {0}")]
    Descriptors(String),
    /// The message cannot be rendered.
    #[error("the message cannot be rendered as JSON")]
    Render(#[from] serde_json::Error),
    /// The message does not decode as its own type.
    #[error("the message does not decode as `{0}`")]
    Type(&'static str),
}

/// Renders a message of `hookjail.v1` as JSON: lowerCamelCase names, bytes in base64.
///
/// # Errors
///
/// Fails only where the program was built wrongly.
pub(crate) fn render(
    message: &impl Message,
    type_name: &'static str,
) -> Result<serde_json::Value, JsonError> {
    static POOL: OnceLock<Result<DescriptorPool, String>> = OnceLock::new();
    let pool = POOL
        .get_or_init(|| {
            DescriptorPool::decode(pb::DESCRIPTOR_SET).map_err(|error| error.to_string())
        })
        .as_ref()
        .map_err(|error| JsonError::Descriptors(error.clone()))?;
    let descriptor = pool
        .get_message_by_name(type_name)
        .ok_or(JsonError::Type(type_name))?;
    let bytes = message.encode_to_vec();
    let dynamic = DynamicMessage::decode(descriptor, bytes.as_slice())
        .map_err(|_| JsonError::Type(type_name))?;
    Ok(serde_json::to_value(&dynamic)?)
}
