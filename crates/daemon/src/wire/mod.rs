//! The wire: the only user of tonic. Decodes requests, encodes answers, turns refusals into statuses.

mod admin;
mod audit;
mod connect;
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
mod network;
mod offer;
mod preview;
mod profiles;
mod required;
mod retained;
mod server;
mod service;
mod status;
mod unreadable;

pub(crate) use self::{
    admin::{Control, DaemonPlaces, DaemonReport, Reloaded, Steering, TracesPlace},
    decode::MalformedRequest,
    encode::axis_report,
    network::{Identities, MAX_HANDSHAKES, NetworkListener, NetworkPlace},
    profiles::Profiles,
    server::ServerError,
    service::HookServer,
    status::status,
};
pub use self::{
    connect::recognised,
    decode::decode,
    encode::encode,
    host::{backend_statuses, broken_profiles, profile_status},
    limits::WireLimits,
    server::{Incoming, ServeError, Server},
    service::connect_timeout,
};
