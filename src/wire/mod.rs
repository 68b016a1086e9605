//! The wire: the only user of tonic. Decodes requests, encodes answers, turns refusals into statuses.

mod admin;
mod audit;
mod connections;
mod consent;
mod decode;
#[cfg_attr(not(target_os = "linux"), path = "denials_elsewhere.rs")]
mod denials;
mod dispatch;
mod doorway;
mod encode;
mod facts;
mod health;
mod host;
mod interpret;
pub mod json;
mod limits;
mod offer;
mod preview;
mod profiles;
mod retained;
mod server;
mod service;
mod status;
mod unreadable;

pub use self::{
    admin::{Reload, Reloaded, Steering},
    decode::{MalformedRequest, decode},
    encode::{axis_report, encode},
    host::{backend_statuses, profile_status},
    limits::WireLimits,
    profiles::Profiles,
    server::{Incoming, ServeError, Server, ServerError},
    service::HookServer,
    status::{domain, status},
};
