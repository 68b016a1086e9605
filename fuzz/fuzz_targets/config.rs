//! Configurations as operators write them.
#![no_main]

use hookjail::config::{Config, Surroundings};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let surroundings = Surroundings { home: Some("/home/user".into()), ..Surroundings::default() };
    drop(Config::parse(text, &surroundings));
});
