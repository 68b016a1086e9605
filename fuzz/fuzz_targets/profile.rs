//! See `hookjail_fuzz::profile`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hookjail_fuzz::profile(bytes));
