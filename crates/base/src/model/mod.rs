//! Values that the stages and the libraries share. Imports no other module.

pub mod axis;
mod captured;
mod clients;
mod consent;
pub mod event;
mod field;
mod header;
mod hook;
pub mod json;
mod limit;
pub mod members;
mod name;
mod peer;
mod shown;
mod url;
mod users;
pub mod variable;
mod words;

pub use self::clients::{Client, Clients, NoUser};
pub use self::{
    captured::Captured,
    clients::LocalUser,
    consent::Consent,
    field::InvalidField,
    header::frames_request,
    hook::{Backing, Command, Event, Hook, Narrow, OnDisconnect, OnFailure},
    limit::OnOutputLimit,
    name::{ProfileName, check_name, is_plain, is_sha256},
    peer::{Certificate, Peer, Remote},
    shown::{Lines, is_unseen, plain, visible, visible_json},
    url::Url,
    users::Users,
    words::command_line,
};
