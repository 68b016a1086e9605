//! Push directives as hooks print them.
#![no_main]

use hookjail::contract::{End, EndKind, Mode};

libfuzzer_sys::fuzz_target!(|stdout: &[u8]| {
    let verdict = Mode::ReynPush.interpret(&End {
        command: "hook",
        kind: EndKind::Exited(0),
        name: "",
        point: "turn_end",
        stdout,
        stdout_truncated: false,
        stderr: b"",
    });
    // Whatever was printed, something is delivered or there is a reason why not, never both.
    assert!(verdict.push.is_some() != verdict.skip.is_some());
});
