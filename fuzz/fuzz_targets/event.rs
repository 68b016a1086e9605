//! See `hookjail_fuzz::event`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hookjail_fuzz::event(bytes));
