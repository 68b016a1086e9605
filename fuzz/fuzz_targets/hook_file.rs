//! Files of hooks as the users of each system have them: the first byte says whose.
#![no_main]

use hookjail::hooks::read::{CONTRACTS, Origin, Switches, read};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((whose, Ok(text))) = bytes.split_first().map(|(whose, text)| (*whose, str::from_utf8(text))) else {
        return;
    };
    let switches = Switches { infer_hooks_enabled: Some(true), ownware_allow_command_hooks: true, ownware_disable_hooks: false };
    let origin = Origin { base: None, name: "file" };
    drop(read(CONTRACTS[usize::from(whose) % CONTRACTS.len()], text, &origin, &switches));
});
