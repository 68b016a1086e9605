//! The fuzz targets, compiled and run on their seeds and on what is near to them: `fuzz/run-short.sh` looks further.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::{fs, path::Path};

#[path = "../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "the library of another package")]
mod targets;

use targets::TARGETS;

#[test]
fn every_target_takes_its_seeds_and_what_is_near_to_them() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    for (name, target) in TARGETS {
        let mut tried = 0;
        for seed in fs::read_dir(seeds.join(name)).unwrap() {
            let seed = fs::read(seed.unwrap().path()).unwrap();
            target(&seed);
            // Debug builds are slow: some places of a long one.
            for position in (0..seed.len()).step_by(seed.len() / 64 + 1) {
                target(&seed[..position]);
                let mut changed = seed.clone();
                changed[position] ^= 1 << (position % 8);
                target(&changed);
                tried += 2;
            }
        }
        assert!(
            tried > 100,
            "{name}: {tried} inputs tried, of too few or too short seeds"
        );
    }
}

#[test]
fn every_target_has_a_binary_and_seeds() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let names = |directory: &str| {
        let mut names: Vec<_> = fs::read_dir(fuzz.join(directory))
            .unwrap()
            .map(|entry| {
                entry
                    .unwrap()
                    .path()
                    .file_stem()
                    .unwrap()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    };
    let targets = TARGETS.map(|(name, _)| name.to_owned());

    assert_eq!(names("fuzz_targets"), targets);
    assert_eq!(names("seeds"), targets);
}
