//! See `hookjail_fuzz::json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hookjail_fuzz::json(bytes));
