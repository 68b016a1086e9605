//! Events as callers send them; one that is accepted is passed on byte for byte.
#![no_main]

use bytes::Bytes;
use hookjail::event::parse_event;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(event) = parse_event(Bytes::copy_from_slice(bytes), 4096) {
        assert_eq!(event, bytes);
    }
});
