//! See `hookjail_fuzz::egress`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hookjail_fuzz::egress(bytes));
