//! Confinement: what turns a policy into restrictions a kernel enforces.

#[cfg(target_os = "linux")]
pub mod linux;
