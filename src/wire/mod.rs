//! The wire: the only user of tonic. Decodes requests, encodes answers, turns refusals into statuses.

mod decode;
mod encode;
mod host;
pub mod json;
mod limits;
mod profiles;
mod retained;
mod server;
mod service;
mod status;
mod unreadable;

pub use self::{
    decode::{Malformed, decode},
    encode::{axis_report, encode},
    host::{backend_statuses, profile_status},
    limits::WireLimits,
    profiles::Profiles,
    server::{Incoming, ServeError, Server, ServerError},
    service::Hooks,
    status::{domain, status},
};
