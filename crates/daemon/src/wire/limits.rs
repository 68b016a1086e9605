//! Limits of messages and connections.

/// Limits of the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WireLimits {
    /// The most connections of authorised uids in all.
    pub connections: usize,
    /// The largest event, bytes.
    pub event_bytes: usize,
}

impl WireLimits {
    /// The size of a request beside its event. Arguments and environment together never exceed 2 MiB.
    const REQUEST_MARGIN_BYTES: usize = 3 * 1024 * 1024;

    /// Returns the largest message, bytes.
    pub(crate) const fn message_bytes(self) -> usize {
        self.event_bytes.saturating_add(Self::REQUEST_MARGIN_BYTES)
    }
}

impl Default for WireLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            event_bytes: 16 * 1024 * 1024,
        }
    }
}
