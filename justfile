# Recipes for people; `just --list` shows them.

# Exactly what CI runs.
check:
    .ci/run

# The tests of the whole workspace.
test:
    cargo test --workspace

# Formatting and lints.
lint:
    .ci/run lint

# The simulator for hours, from a seed on.
soak HOURS SEED="1":
    .ci/soak {{HOURS}} {{SEED}}

# The tests with more cases and longer runs, for those that read COGNILOG_SOAK.
long:
    COGNILOG_SOAK=1 cargo test --workspace --release

# The benchmarks.
bench:
    cargo bench --workspace
