//! The generated messages, clients and servers of `hookjail.v1`, and their descriptors.

#![expect(missing_docs, clippy::all, clippy::pedantic, reason = "generated; the documentation is in proto/")]
#![expect(unreachable_pub, missing_debug_implementations, reason = "generated")]

tonic::include_proto!("hookjail.v1");

/// The encoded `FileDescriptorSet` of `hookjail.v1` with its imports and comments.
pub const DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hookjail.bin"));
