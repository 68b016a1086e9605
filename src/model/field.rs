//! Fields of requests that are not acceptable.

/// A field of a request is not acceptable. The message completes "error: …".
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct InvalidField {
    /// The field's path in the request, for example `hook.argv[0]`.
    pub field: String,
    /// What is wrong with it and, where that helps, what would be right.
    pub problem: String,
}

impl InvalidField {
    /// Names a field and its problem.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}
