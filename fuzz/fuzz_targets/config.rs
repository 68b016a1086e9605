//! See `hookjail_fuzz::config`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hookjail_fuzz::config(bytes));
