//! The error of a request's field.

/// Error of a request's field. The message completes "error: …".
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct InvalidField {
    /// The field's path in the request, for example `hook.argv[0]`.
    pub field: String,
    /// The problem and, where that helps, a valid value.
    pub problem: String,
}

impl InvalidField {
    /// Creates the error of a field.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }
}
