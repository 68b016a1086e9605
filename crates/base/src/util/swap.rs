//! An atomically replaceable `Arc<T>`, for values that are read often.

use std::sync::{Arc, PoisonError, RwLock};

/// A current value. Holders of an earlier one keep it when it is replaced.
#[derive(Debug, Default)]
pub struct Current<T>(RwLock<Arc<T>>);

impl<T> Current<T> {
    /// Creates it with a value.
    pub fn new(value: T) -> Self {
        Self(RwLock::new(Arc::new(value)))
    }

    /// Returns the current value.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the value.
    pub fn replace(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}
