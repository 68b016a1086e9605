//! The generated messages, clients and servers of `hookjail.v1`, and their descriptors.

#![forbid(unsafe_code)]
#![expect(
    clippy::large_enum_variant,
    clippy::struct_excessive_bools,
    reason = "generated code"
)]

// Written by `proto/codegen`.
include!("hookjail.v1.rs");

/// The encoded `FileDescriptorSet` of `hookjail.v1` with its imports and comments.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!("descriptors.bin");
