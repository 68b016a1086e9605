# What there is to do.
default:
    @just --list

# What must hold before a change lands; as root on Debian 12. `just ci 10 30` runs these tiers alone.
ci *tiers:
    .ci/run {{tiers}}

# The same and everything that takes longer: kernels, architectures, containers, fuzzing.
ci-full:
    .ci/run --full

# What packages have, for this machine: target/dist/hookjail, target/dist/hookjail-run.
dist *args:
    cargo build --locked --profile dist --bins {{args}}

# What a release consists of, from a tree without changes: target/packages. Needs cargo-deb.
packages *steps:
    packaging/build.sh {{steps}}

# A release in target/release-VERSION: packages, checksums, signature, installer. `--dry-run`: signed by a key of this run alone.
release *args:
    packaging/release.sh {{args}}

# Manual pages: target/pages.
pages:
    cargo run --locked --example pages -- target/pages

# All tests, each under a time limit where nextest is installed.
test *args:
    if command -v cargo-nextest >/dev/null; then cargo nextest run {{args}} && cargo test --doc; else cargo test {{args}}; fi

# Writes crates/proto/src anew from the .proto files.
proto:
    cargo run --manifest-path proto/codegen/Cargo.toml

# What a hook could try, row by row: as root some more of it can be shown.
matrix:
    cargo test --test spec matrix -- --nocapture --test-threads 1

# The policy with one element taken out at a time; of N elements the first.
mutants every="1":
    HOOKJAIL_MUTANTS={{every}} cargo test --test spec mutation -- --include-ignored --nocapture --test-threads 1

# Formatting, clippy, rustdoc, the .proto files, dependencies.
lint:
    .ci/run 10 12 14

# Ratios of a whole call to a raw spawn, beside other sandboxes that are installed: a table and a plot in target/bench, in about two minutes.
bench iterations="100":
    TMPDIR=/dev/shm cargo bench --bench execute -- --iterations {{iterations}} --report target/bench

# What a connection costs a hook by named hosts, beside a proxy and an open network, in about a minute.
bench-egress:
    cargo bench --bench egress

# What many calls at once wait for and hold: deadlines, a quiet caller beside busy ones, memory.
bench-concurrency:
    TMPDIR=/dev/shm cargo bench --bench concurrency

# How many instructions of its own the daemon executes for one call.
bench-instructions:
    cargo bench --bench instructions

# Faults while calls are made: `short` or `long`.
faults form="short":
    HOOKJAIL_FAULTS={{form}} cargo test --test faults

# Each fuzz target for so many seconds.
fuzz seconds="60":
    fuzz/run-short.sh {{seconds}}

# Hooks that make system calls made up by chance, for so many seconds.
escape seconds="60":
    HOOKJAIL_FUZZ_SECONDS={{seconds}} cargo test --test spec escape_fuzz -- --nocapture

# The documents as a site with a search: target/site.
site:
    docs/site/build.sh

# What of docs/comparison.md has a newer version, as npm, pip, cargo and git find it; fails once that page is older than 60 days. --offline prints the page's.
peers *args:
    python3 tests/site/peers.py {{args}}
