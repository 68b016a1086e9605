# Lists the recipes.
default:
    @just --list

# The gate before a change lands; as root on Debian 12. `just ci 10 30` runs these tiers alone.
ci *tiers:
    .ci/run {{tiers}}

# The gate and everything that takes longer: kernels, architectures, containers, fuzzing.
ci-full:
    .ci/run --full

# The programs of the packages, for this machine: target/dist/hookjail, target/dist/hookjail-run.
dist *args:
    cargo build --locked --profile dist --bins {{args}}

# The files of a release, from a tree without changes: target/packages. Needs cargo-deb.
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

# The escape matrix, row by row; root can show some more rows.
matrix:
    cargo test --test spec matrix -- --nocapture --test-threads 1

# Mutants: the policy without one element, for every N-th element. Some test must fail for each.
mutants every="1":
    HOOKJAIL_MUTANTS={{every}} cargo test --test spec mutation -- --include-ignored --nocapture --test-threads 1

# Formatting, clippy, rustdoc, the .proto files, dependencies.
lint:
    .ci/run 10 12 14

# Ratios of a whole call to a raw spawn, beside other sandboxes that are installed: a table and a plot in target/bench, in about two minutes.
bench iterations="100":
    TMPDIR=/dev/shm cargo bench --bench execute -- --iterations {{iterations}} --report target/bench

# Times of a connection to named hosts, beside a proxy and an open network, in about a minute.
bench-egress:
    cargo bench --bench egress

# Many calls at once: deadlines, a quiet caller beside busy ones, memory.
bench-concurrency:
    TMPDIR=/dev/shm cargo bench --bench concurrency

# How many instructions of its own the daemon executes for one call.
bench-instructions:
    cargo bench --bench instructions

# Faults while calls are made: `short` or `long`.
faults form="short":
    HOOKJAIL_FAULTS={{form}} cargo test --test faults

# Fuzzes each target for a number of seconds.
fuzz seconds="60":
    fuzz/run-short.sh {{seconds}}

# Runs hooks with random syscalls for a number of seconds.
escape seconds="60":
    HOOKJAIL_FUZZ_SECONDS={{seconds}} cargo test --test spec escape_fuzz -- --nocapture

# The documents as a site with a search: target/site.
site:
    docs/site/build.sh

# Newer versions of the programs in docs/comparison.md, by npm, pip, cargo and git. Fails once the page is older than 60 days. --offline prints the page's.
peers *args:
    python3 tests/site/peers.py {{args}}
