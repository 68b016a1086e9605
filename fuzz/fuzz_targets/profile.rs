//! Profiles as operators write them.
#![no_main]

use hookjail::policy::profile::ProfileFile;

libfuzzer_sys::fuzz_target!(|text: &str| drop(ProfileFile::parse(text)));
