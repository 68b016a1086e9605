//! Requests as they come over the wire.
#![no_main]

use hookjail::{pb::ExecuteRequest, wire};
use prost::Message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = ExecuteRequest::decode(bytes) {
        drop(wire::decode(message, wire::WireLimits { event_bytes: 4096 }));
    }
});
