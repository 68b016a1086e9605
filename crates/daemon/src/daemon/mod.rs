//! The daemon's own work: building the pipeline from a configuration, serving, reloading, draining.

mod build;
mod disks;
mod log;
mod manager;
mod metrics;
mod network;
mod private;
mod reload;
mod serve;
mod survey;
mod traces;

pub use self::build::Assembly;
pub use self::build::own_places;
pub use self::{
    build::operator,
    log::LogFormat,
    reload::noteworthy,
    serve::{serve, serve_privately},
};
