//! Configured hooks: their files, their lists, and the actions that start no command.

pub(crate) mod http;
pub(crate) mod lists;
pub mod load;
pub(crate) mod log;
pub mod lookup;
pub mod redirection;
pub(crate) mod rule;
pub mod show;
pub(crate) mod supplied;
pub mod valve;
pub mod variables;

pub(crate) use hookjail_contract::{
    Action, HookList, Lists, Log, Matcher, Occasion, Owner, Registered, Scope, Supplied, Template,
};
