//! The wire: the only user of tonic. Decodes requests, encodes answers, turns refusals into statuses.

mod decode;
mod encode;
pub mod json;
mod limits;
mod retained;
mod server;
mod service;
mod status;
mod unreadable;

pub use self::{
    decode::{Malformed, decode},
    encode::{axis_report, encode},
    limits::WireLimits,
    server::{Incoming, ServeError, Server, ServerError},
    service::Hooks,
    status::{domain, status},
};
