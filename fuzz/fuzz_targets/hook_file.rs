//! See `hookjail_fuzz::hook_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| hookjail_fuzz::hook_file(bytes));
