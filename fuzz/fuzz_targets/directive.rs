//! What hooks print, read under every contract.
#![no_main]

use hookjail::{
    contract::{End, EndKind, Mode},
    request::OnFailure,
};

libfuzzer_sys::fuzz_target!(|stdout: &[u8]| {
    for mode in Mode::ALL {
        let points = mode.points().iter().map(|point| point.name);
        for point in points.chain(["another"]) {
            let end = End {
                kind: EndKind::Exited(0),
                point,
                stdout,
                ..End::default()
            };
            let verdict = mode.judge(&end, OnFailure::Contract);
            // Whatever was printed, it is either delivered or said why not, never both.
            assert!(verdict.push.is_none() || verdict.skip.is_none());
            assert!(!verdict.decision.stops() || verdict.blocked_by.is_some());
        }
    }
});
