//! The promises of hookjail, one module a chapter: reading the test names in order is reading the manual.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod attempts;
#[path = "../../benches/lane/client.rs"]
#[expect(
    dead_code,
    reason = "shared with benchmarks, which are lanes themselves"
)]
mod lane;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/witness.rs"]
mod witness;

mod doors;
mod main_job;
mod matrix;

mod escape_fuzz;

mod builtins;
mod carried;
mod cgroups;
mod confinement;
mod containers;
mod contracts;
mod day_two;

mod declared;
mod denials;
mod dispatch;
mod early;
mod egress;
mod egress_requests;
mod egress_ways;
mod explained;
mod fail_closed;
mod family;
mod hidden;
mod http;
mod json;
#[cfg(debug_assertions)]
mod mutation;
mod nesting;
mod profile_files;
mod profiles;
mod read_only;
mod readers;
mod rehearsal;
mod selection;
mod starters;
mod state;
mod worktree;

mod callers;
mod deadline;
mod limits;
mod lock;
mod logs;
mod metrics;
mod network;
mod newer_runtimes;
mod notify;
mod offered;
mod once;
mod operate;
mod organisations;
mod output;
mod place;
mod private;
mod reload;
mod run_as;
mod shell_prefix;
mod shutdown;
mod sources;
mod testing;
mod traces;
mod view;
mod warm;

mod admission;
mod adopt;
mod audit_failure;
mod audit_read;
mod audit_trail;
mod backup;
mod consent;
mod log;
mod redaction;
mod thin;

mod bad_input;
mod command_line;
mod git_hooks;
mod install;
mod interpret;
mod learn;
mod learn_apply;
mod schemas;
mod scratch;
mod wire;
