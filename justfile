# What there is to do.
default:
    @just --list

# What CI runs; needs root and Debian 12. `just ci 10 30` runs these tiers alone.
ci *tiers:
    .ci/run {{tiers}}

# All tests, each under a time limit where nextest is installed.
test *args:
    if command -v cargo-nextest >/dev/null; then cargo nextest run {{args}} && cargo test --doc; else cargo test {{args}}; fi

# What a hook could try, row by row: as root some more of it can be shown.
matrix:
    cargo test --test spec matrix -- --nocapture --test-threads 1

# The policy with one element taken out at a time; of N elements the first.
mutants every="1":
    HOOKJAIL_MUTANTS={{every}} cargo test --features weaken --test spec mutation -- --include-ignored --nocapture --test-threads 1

# Formatting, clippy, rustdoc, the .proto files, dependencies.
lint:
    .ci/run 10 20 25

# Ratios of a whole call to a raw spawn.
bench *args:
    cargo bench {{args}}

# Each fuzz target for so many seconds.
fuzz seconds="60":
    fuzz/run-short.sh {{seconds}}

# Hooks that make system calls made up by chance, for so many seconds.
escape seconds="60":
    HOOKJAIL_FUZZ_SECONDS={{seconds}} cargo test --test spec escape_fuzz -- --nocapture
