//! See `hookjail_fuzz::request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hookjail_fuzz::request(bytes));
