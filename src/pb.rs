//! The generated messages, clients and servers of `hookjail.v1`, and their descriptors.

#![expect(
    clippy::large_enum_variant,
    clippy::struct_excessive_bools,
    reason = "generated code"
)]

tonic::include_proto!("hookjail.v1");

/// The encoded `FileDescriptorSet` of `hookjail.v1` with its imports and comments.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hookjail.bin"));
