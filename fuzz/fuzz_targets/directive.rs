//! See `hookjail_fuzz::directive`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hookjail_fuzz::directive(bytes));
