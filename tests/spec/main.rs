//! The promises of hookjail, one module a chapter: reading the test names in order is reading the manual.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod support;
mod witness;

mod admission;
mod audit_trail;
mod bad_input;
mod command_line;
mod deadline;
mod limits;
mod main_job;
mod output;
mod shutdown;
mod wire;
