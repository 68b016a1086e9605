//! The promises of hookjail, one module a chapter: reading the test names in order is reading the manual.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod attempts;
mod support;
mod witness;

mod main_job;
mod matrix;

mod confinement;
mod fail_closed;
mod profiles;

mod deadline;
mod limits;
mod output;
mod shutdown;

mod admission;
mod audit_trail;

mod bad_input;
mod command_line;
mod wire;
