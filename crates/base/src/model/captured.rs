//! Captured output of a hook.

/// Captured output of one stream. Consists of the first bytes, the last bytes beyond the cap, and the total.
#[derive(Debug, Default)]
pub struct Captured {
    /// The first bytes, up to the cap.
    pub head: Vec<u8>,
    /// The last bytes, up to 64 KiB, if the output was longer than the cap. They do not overlap `head`.
    pub tail: Vec<u8>,
    /// Number of bytes printed.
    pub total: u64,
}

impl Captured {
    /// Returns whether the output was longer than `head`.
    pub fn truncated(&self) -> bool {
        self.total > self.head.len() as u64
    }
}
